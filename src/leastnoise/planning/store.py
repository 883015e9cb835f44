"""Plans as files: one zip of arrays with a header, written whole or not at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leastnoise._types import Array
from leastnoise.algebra.predictor import Predictor
from leastnoise.errors import LeastnoiseError
from leastnoise.planning.certificate import Floor
from leastnoise.planning.design import Design, Question
from leastnoise.planning.embedding import embed
from leastnoise.planning.integer_plan_store import stored_baselines, stored_structure, stored_trees
from leastnoise.planning.joint_noise import replaced
from leastnoise.planning.objective import Objective, Outcome
from leastnoise.planning.replaced_rows import is_joint
from leastnoise.planning.residual_workload import (
    Baseline,
    Baselines,
    Predictors,
    ResidualWorkload,
    predictors_of,
)
from leastnoise.planning.store_checks import (
    cells_of,
    check_baseline,
    check_design,
    check_predictor,
    entries,
    number,
    numbers,
    text,
)
from leastnoise.planning.structure import RequestedQueries, Structure
from leastnoise.privacy import Budget
from leastnoise.storage.archive import Archive, Arrays
from leastnoise.storage.formats import Format
from leastnoise.strategies import (
    CirculantStrategy,
    Combined,
    KronStrategy,
    MatrixStrategy,
    ScaledKron,
    Solution,
    Strategy,
    TreeStrategy,
)
from leastnoise.workload.hierarchy import shared_tree_key
from leastnoise.workload.store import workload_from_json, workload_to_json
from leastnoise.workload.tensors import WeightedTensor
from leastnoise.workload.weighted import Weighted

if TYPE_CHECKING:
    from leastnoise.mechanisms.tables.plan import Plan

FORMAT = Format("leastnoise_plan", "plan", "save the plan again", "save one with plan.save(path)", version=3)


class _Pool:
    """Strategies by identity, so that shared ones are written once."""

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self.records: list[dict[str, Any]] = []
        self._seen: dict[int, int] = {}

    def add(self, strategy: Strategy) -> int:
        if id(strategy) in self._seen:
            return self._seen[id(strategy)]
        record: dict[str, Any] = {"shape": list(strategy.shape)}
        if isinstance(strategy, KronStrategy):
            record["kron"] = [self.add(p) for p in strategy.parts]
        elif isinstance(strategy, ScaledKron):
            record["kron"], record["levels"] = [self.add(p) for p in strategy.parts], self._array(strategy.theta)
        elif isinstance(strategy, TreeStrategy):
            record["tree"], record["scales"] = (
                shared_tree_key(strategy.tree, strategy.shares),
                self._array(strategy.scales),
            )
        elif isinstance(strategy, Combined):
            record["base"], record["weight"] = self.add(strategy.base), strategy.weight
            record["rows"] = self._array(strategy.rows)
        elif isinstance(strategy, CirculantStrategy):
            record["theta"] = self._array(strategy.theta)
        elif isinstance(strategy, MatrixStrategy):
            record["rows"], record["inverse"] = self._array(strategy.rows), self._array(strategy.pseudo_inverse)
        self.records.append(record)
        self._seen[id(strategy)] = len(self.records) - 1
        return self._seen[id(strategy)]

    def _array(self, a: Array) -> str:
        name = f"strategy{len(self.arrays)}"
        self.arrays[name] = a
        return name


def _read_strategies(records: list[dict[str, Any]], arrays: Any, baselines: tuple[Baseline, ...]) -> list[Strategy]:
    trees = stored_trees(baselines)
    out: list[Strategy] = []
    for r in records:
        shape = r["shape"]
        cells = cells_of(shape)
        if "kron" in r:
            out.append(_product([out[i] for i in r["kron"]], r, arrays))
        elif "tree" in r:
            tree, shares = trees[r["tree"]]
            out.append(TreeStrategy(tree, entries(arrays, r["scales"], (tree.core.tree.nodes,), least=0.0), shares))
        elif "theta" in r:
            out.append(CirculantStrategy(entries(arrays, r["theta"], tuple(shape), least=0.0)))
        else:
            rows = entries(arrays, r["rows"])
            if rows.ndim != 2 or rows.shape[1] != cells:
                raise LeastnoiseError(f"a strategy of shape {tuple(shape)} has rows of another length")
            if "base" in r:
                out.append(_beside(out[r["base"]], r, rows))
                continue
            inverse = entries(arrays, r["inverse"], (cells, len(rows)))
            out.append(MatrixStrategy(rows, tuple(shape), inverse))
    return out


def _product(parts: list[Strategy], record: dict[str, Any], arrays: Any) -> Strategy:
    """A Kronecker product, with a noise level for each measurement or without."""
    if "levels" not in record:
        return KronStrategy(tuple(parts))
    levels = entries(arrays, record["levels"], tuple(len(p.matrix()) for p in parts), least=0.0)
    return ScaledKron(tuple(parts), levels)


def _beside(base: Strategy, record: dict[str, Any], rows: Array) -> Strategy:
    """Further rows beside product measurements."""
    weight = number(record["weight"], "the weight of a strategy")
    if not 0 < weight <= 1 or list(base.shape) != record["shape"] or isinstance(base, Combined):
        raise LeastnoiseError("a strategy beside another one does not fit it")
    return Combined(base, weight, rows)


def save(plan: Plan, path: Path) -> None:
    """Write a plan; the file appears only when it is complete."""
    pool, design = _Pool(), plan.design
    solutions = [
        None if s is None else {"strategy": pool.add(s.strategy), "error": s.error, "floor": s.floor}
        for s in design.solutions
    ]
    arrays: Arrays = dict(pool.arrays)
    for c, p in enumerate(design.baselines):
        if p.vector is not None and p.tree is None:
            arrays[f"prior{c}"] = p.vector
        if p.shares is not None:
            arrays[f"shares{c}"] = p.shares
    predictors = predictors_of(design.baselines)
    for o, orbit in enumerate(design.structure.orbits):
        if orbit in predictors:
            arrays |= {f"contrasts{o}": predictors[orbit].contrasts, f"taken{o}": predictors[orbit].taken}
    stated = design.structure.stated
    for i, (f, s) in enumerate(zip(design.question.requested.families, design.structure.slots, strict=True)):
        if f.key != stated.families[i].key:
            arrays[f"rows{i}"] = f.weights(design.structure.classes[s.cls].size)
    for i, (t, table) in enumerate(zip(design.question.requested.tensors, design.structure.tables, strict=True)):
        if t is not None and t.key != design.structure.block_of(table).tensor.key:
            arrays[f"queries{i}"] = t.weights(design.structure.shape(table.axes))
    arrays["table_weights"] = design.question.table_weights
    header = {
        "workload": workload_to_json(plan.workload),
        "budget": plan.budget.to_json(),
        "solver": plan.solver,
        "prior": plan.baseline,
        "objective": plan.objective.to_json(),
        "value": plan.outcome.value,
        "floor": plan.outcome.floor,
        "any_floor": [plan.floor.value, plan.floor.kind],
        "strategies": pool.records,
        "solutions": solutions,
        "classes": [list(c.members) for c in design.structure.classes],
        "seconds": plan.seconds,
        "trees": [c for c, p in enumerate(design.baselines) if p.tree is not None],
    }
    if is_joint(plan.budget.neighbours, plan.domain):
        header["joint"] = True
    uneven = any(p.shares is not None for p in design.baselines)
    beside = any("base" in record for record in pool.records)
    version = FORMAT.version if beside else 2 if predictors or uneven else 1
    Archive(header, arrays).save(path, replace(FORMAT, version=version))


def read(path: Path) -> dict[str, Any]:
    """The fields of a saved plan."""
    archive = Archive.load(path, FORMAT)
    with FORMAT.reading(path):
        return _fields(archive.header, archive.arrays)


def _requested(structure: Structure, arrays: dict[str, Array]) -> RequestedQueries:
    """The stated queries with the weights that an objective has put on their rows."""
    stated, sizes = structure.stated, [structure.classes[slot.cls].size for slot in structure.slots]
    shapes = [structure.shape(table.axes) for table in structure.tables]

    def weights(name: str, rows: int) -> Array:
        return numbers(arrays, name, (rows,), least=0.0)

    families = [
        Weighted(f.plain, weights(k, f.plain.count(n))) if (k := f"rows{i}") in arrays else f
        for i, (f, n) in enumerate(zip(stated.families, sizes, strict=True))
    ]
    tensors = [
        WeightedTensor(t.plain, weights(k, t.plain.count(s))) if t is not None and (k := f"queries{i}") in arrays else t
        for i, (t, s) in enumerate(zip(stated.tensors, shapes, strict=True))
    ]
    return RequestedQueries(tuple(families), tuple(tensors))


def _predictors(structure: Structure, arrays: dict[str, Array]) -> Predictors:
    """The predictors of a saved plan."""
    found = {}
    for o, orbit in enumerate(structure.orbits):
        if f"contrasts{o}" in arrays:
            contrasts = entries(arrays, f"contrasts{o}")
            taken = entries(arrays, f"taken{o}", contrasts.shape)
            found[orbit] = Predictor(contrasts, taken)
            check_predictor(found[orbit], structure.shape(orbit))
    return found


def _fields(header: dict[str, Any], arrays: dict[str, Array]) -> dict[str, Any]:
    workload = workload_from_json(header["workload"])
    inner = embed(workload) if header["solver"] == "embedding" else workload
    structure = stored_structure(inner, header["classes"])
    baselines = stored_baselines(structure, header.get("trees", ()), arrays)
    for baseline in baselines:
        check_baseline(baseline)
    if predictors := _predictors(structure, arrays):
        baselines = Baselines(baselines, predictors)
    result = _requested(structure, arrays)
    budget = Budget.from_json(header["budget"])
    hides = budget.neighbours if budget.neighbours.one_per else None
    weights = numbers(arrays, "table_weights", (len(structure.tables),), least=0.0)
    question = Question(structure, weights, result, hides=hides)
    residual_workload = ResidualWorkload(structure, baselines, result)
    strategies = _read_strategies(header["strategies"], arrays, baselines)
    solutions = tuple(
        None if s is None else Solution(strategies[s["strategy"]], s["error"], s["floor"]) for s in header["solutions"]
    )
    design = Design(question, residual_workload, tuple(residual_workload.problems(question.table_weights)), solutions)
    check_design(design)
    budget, objective = Budget.from_json(header["budget"]), Objective.of(header["objective"])
    value, kind = header["any_floor"]
    outcome = Outcome(design, number(header["value"], "the value"), number(header["floor"], "the floor"))
    if is_joint(budget.neighbours, workload.domain):  # files from before joint costs have other values, and no floors
        floor = outcome.floor if header.get("joint") is True else 0.0
        outcome = replace(replaced(outcome, objective, budget.neighbours), floor=floor)
    return {
        "workload": workload,
        "budget": budget,
        "solver": text(header["solver"], "the solver"),
        "baseline": text(header["prior"], "the baseline"),
        "objective": objective,
        "outcome": outcome,
        "floor": Floor(number(value, "the floor"), text(kind, "the kind of floor")),
        "seconds": number(header["seconds"], "the time"),
        "embedded": inner if inner is not workload else None,
    }
