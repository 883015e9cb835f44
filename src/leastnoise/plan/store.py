"""Plans as files: one zip of arrays with a header, written whole or not at all."""

from __future__ import annotations

import json
import os
import struct
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from leastnoise._types import Array
from leastnoise.archive import read_arrays, write_arrays
from leastnoise.errors import LeastnoiseError
from leastnoise.factorize import (
    CirculantStrategy,
    KronStrategy,
    MatrixStrategy,
    ScaledKron,
    Solution,
    Strategy,
    TreeStrategy,
)
from leastnoise.plan.certificate import Floor
from leastnoise.plan.design import Design, Question
from leastnoise.plan.embedding import embed
from leastnoise.plan.objective import Objective, Outcome
from leastnoise.plan.recipe_store import stored_priors
from leastnoise.plan.smash import Prior, Smashed
from leastnoise.plan.structure import Asked, build_structure
from leastnoise.privacy import Budget
from leastnoise.workload.families import Weighted
from leastnoise.workload.hierarchy import tree_key
from leastnoise.workload.store import workload_from_json, workload_to_json
from leastnoise.workload.tensors import WeightedTensor

if TYPE_CHECKING:
    from leastnoise.plan.plan import Plan

VERSION = 1
# what numpy, zipfile and zlib raise on damaged files
UNREADABLE = (
    OSError, EOFError, ValueError, KeyError, TypeError, RuntimeError, struct.error, zlib.error, zipfile.BadZipFile,
)  # fmt: skip


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
            record["tree"], record["scales"] = tree_key(strategy.tree), self._array(strategy.scales)
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


def _read_strategies(records: list[dict[str, Any]], arrays: Any, priors: tuple[Prior, ...]) -> list[Strategy]:
    trees = {tree_key(p.tree): p.tree for p in priors if p.tree is not None}
    out: list[Strategy] = []
    for r in records:
        if "levels" in r:
            out.append(ScaledKron(tuple(out[i] for i in r["kron"]), arrays[r["levels"]]))
        elif "kron" in r:
            out.append(KronStrategy(tuple(out[i] for i in r["kron"])))
        elif "tree" in r:
            out.append(TreeStrategy(trees[r["tree"]], arrays[r["scales"]]))
        elif "theta" in r:
            out.append(CirculantStrategy(arrays[r["theta"]]))
        else:
            out.append(MatrixStrategy(arrays[r["rows"]], tuple(r["shape"]), arrays[r["inverse"]]))
    return out


def save(plan: Plan, path: Path) -> None:
    """Write a plan; the file appears only when it is complete."""
    pool, design = _Pool(), plan.design
    solutions = [
        None if s is None else {"strategy": pool.add(s.strategy), "error": s.error, "floor": s.floor}
        for s in design.solutions
    ]
    arrays = dict(pool.arrays)
    for c, p in enumerate(design.priors):
        if p.vector is not None and p.tree is None:
            arrays[f"prior{c}"] = p.vector
    stated = design.structure.stated
    for i, (f, s) in enumerate(zip(design.question.asked.families, design.structure.slots, strict=True)):
        if f.key != stated.families[i].key:
            arrays[f"rows{i}"] = f.weights(design.structure.classes[s.cls].size)
    for i, (t, table) in enumerate(zip(design.question.asked.tensors, design.structure.tables, strict=True)):
        if t is not None and t.key != design.structure.block_of(table).tensor.key:
            arrays[f"queries{i}"] = t.weights(design.structure.shape(table.axes))
    arrays["table_weights"] = design.question.table_weights
    header = {
        "leastnoise_plan": VERSION,
        "workload": workload_to_json(plan.workload),
        "budget": plan.budget.to_json(),
        "solver": plan.solver,
        "prior": plan.prior,
        "objective": plan.objective.to_json(),
        "value": plan.outcome.value,
        "floor": plan.outcome.floor,
        "any_floor": [plan.floor.value, plan.floor.kind],
        "strategies": pool.records,
        "solutions": solutions,
        "classes": [list(c.members) for c in design.structure.classes],
        "seconds": plan.seconds,
        "trees": [c for c, p in enumerate(design.priors) if p.tree is not None],
    }
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    _write(arrays, path)


def _write(arrays: dict[str, Array], path: Path) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with draft.open("wb") as f:
            write_arrays(f, arrays)
            f.flush()
            os.fsync(f.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def read(path: Path) -> dict[str, Any]:
    """The fields of a saved plan."""
    try:
        with path.open("rb") as f:
            arrays = read_arrays(f, packed=True)
        header = json.loads(arrays.pop("header").tobytes())
        version = header["leastnoise_plan"]
    except FileNotFoundError:
        raise LeastnoiseError(f"no plan at {path}; save one with plan.save(path)") from None
    except LeastnoiseError as e:
        raise LeastnoiseError(f"{path} is not a readable plan ({e}); save it again") from None
    except UNREADABLE as e:
        raise LeastnoiseError(f"{path} is not a readable plan ({type(e).__name__}); save it again") from None
    if version != VERSION:
        raise LeastnoiseError(f"{path} has plan format {version}, this version reads {VERSION}; update leastnoise")
    try:
        return _fields(header, arrays)
    except (*UNREADABLE, AttributeError, IndexError, ArithmeticError, MemoryError) as e:
        raise LeastnoiseError(f"{path} is damaged ({type(e).__name__}: {e}); save the plan again") from None


def _asked(stated: Asked, arrays: dict[str, Array]) -> Asked:
    """The stated queries with the weights that an objective has put on their rows."""
    families = [
        Weighted(f.plain, arrays[k]) if (k := f"rows{i}") in arrays else f for i, f in enumerate(stated.families)
    ]
    tensors = [
        WeightedTensor(t.plain, arrays[k]) if t is not None and (k := f"queries{i}") in arrays else t
        for i, t in enumerate(stated.tensors)
    ]
    return Asked(tuple(families), tuple(tensors))


def _fields(header: dict[str, Any], arrays: dict[str, Array]) -> dict[str, Any]:
    workload = workload_from_json(header["workload"])
    inner = embed(workload) if header["solver"] == "embedding" else workload
    class_of = {a: c for c, members in enumerate(header["classes"]) for a in members}
    structure = build_structure(inner, lambda i: class_of[i])
    priors = stored_priors(structure, header.get("trees", ()), arrays)
    asked = _asked(structure.stated, arrays)
    question = Question(structure, arrays["table_weights"], asked)
    smashed = Smashed(structure, priors, asked)
    strategies = _read_strategies(header["strategies"], arrays, priors)
    solutions = tuple(
        None if s is None else Solution(strategies[s["strategy"]], s["error"], s["floor"]) for s in header["solutions"]
    )
    design = Design(question, smashed, tuple(smashed.problems(question.table_weights)), solutions)
    return {
        "workload": workload,
        "budget": Budget.from_json(header["budget"]),
        "solver": header["solver"],
        "prior": header["prior"],
        "objective": Objective.of(header["objective"]),
        "outcome": Outcome(design, header["value"], header["floor"]),
        "floor": Floor(*header["any_floor"]),
        "seconds": header["seconds"],
        "embedded": inner if inner is not workload else None,
    }
