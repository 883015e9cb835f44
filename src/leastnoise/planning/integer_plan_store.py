"""Integer plans as plain data: a header and integer arrays, with a digest of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise._types import IntArray
from leastnoise.algebra.predictor import Predictor
from leastnoise.domain.tree import Tree
from leastnoise.errors import LeastnoiseError
from leastnoise.planning.embedding import embed
from leastnoise.planning.integer_plan import IntegerPlan, NoisyQuery
from leastnoise.planning.residual_workload import Baseline, Baselines, predictable, predictors_of
from leastnoise.planning.structure import Structure, build_structure
from leastnoise.privacy import Budget
from leastnoise.privacy.cost import fraction_text, read_fraction
from leastnoise.storage.archive import Arrays, digest_of
from leastnoise.strategies.circulant import Circulant
from leastnoise.strategies.contrasts import Contrasts
from leastnoise.strategies.integer import Centring, IntegerStrategy, Part, Rows
from leastnoise.workload import Workload
from leastnoise.workload.hierarchy import hierarchy_of, shared_tree_key
from leastnoise.workload.store import workload_from_json, workload_to_json

LARGEST_SHARE = 2**24  # of a node among its siblings


def integer_plan_data(integer_plan: IntegerPlan) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of an integer plan."""
    arrays: Arrays = {
        f"prior{c}": p.vector for c, p in enumerate(integer_plan.baselines) if p.vector is not None and p.tree is None
    }
    arrays |= {f"shares{c}": p.shares for c, p in enumerate(integer_plan.baselines) if p.shares is not None}
    numbers: dict[int, int] = {}
    parts: list[dict[str, Any]] = []
    residuals: list[list[dict[str, Any]]] = []
    for o, noisy_queries in enumerate(integer_plan.noisy_queries):
        residuals.append([])
        for i, noisy_query in enumerate(noisy_queries):
            strategy = noisy_query.strategy
            for part in strategy.parts:
                if id(part) not in numbers:
                    numbers[id(part)] = len(parts)
                    parts.append({"shape": list(part.shape), "centring": isinstance(part, Centring)})
                    if isinstance(part, Rows):
                        arrays[f"rows{len(parts) - 1}"] = part.rows
                    if isinstance(part, Circulant):
                        arrays[f"kernel{len(parts) - 1}"] = part.kernel
                    if isinstance(part, Contrasts):
                        parts[-1]["tree"] = shared_tree_key(part.tree, part.shares)
                        arrays[f"scales{len(parts) - 1}"] = part.scales
            if strategy.levels is not None:
                arrays[f"levels{o}_{i}"] = strategy.levels
            residuals[-1].append(
                {
                    "parts": [numbers[id(p)] for p in strategy.parts],
                    "multiplier": strategy.multiplier,
                    "variance": fraction_text(noisy_query.variance),
                }
            )
    header: dict[str, Any] = {
        "workload": workload_to_json(integer_plan.workload),
        "budget": integer_plan.budget.to_json(),
        "classes": [list(c.members) for c in integer_plan.structure.classes],
        "orbits": [list(o) for o in integer_plan.structure.orbits],
        "parts": parts,
        "residuals": residuals,
    }
    if any(p.tree is not None for p in integer_plan.baselines):
        header["trees"] = [c for c, p in enumerate(integer_plan.baselines) if p.tree is not None]
    if predictors := predictors_of(integer_plan.baselines):
        header["predicted"] = [list(o) for o in integer_plan.structure.orbits if o in predictors]
    if integer_plan.doubling:
        header["embedded"] = True
    if integer_plan.joint:
        header["joint"] = True
    if integer_plan.selection:
        header["selection"] = fraction_text(integer_plan.selection)
    return header, arrays


def integer_plan_from(header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> IntegerPlan:
    """Read what `integer_plan_data` made."""
    workload = workload_from_json(header["workload"])
    structure = stored_structure(embed(workload) if header.get("embedded") else workload, header["classes"])
    if [list(o) for o in structure.orbits] != header["orbits"]:
        raise LeastnoiseError("the residuals of the integer plan are not those of its workload")
    baselines = stored_baselines(structure, header.get("trees", ()), arrays)
    trees = stored_trees(baselines)
    parts = [_part(i, record, arrays, trees) for i, record in enumerate(header["parts"])]
    noisy_queries = []
    for o, records in enumerate(header["residuals"]):
        shape = structure.shape(structure.orbits[o])
        noisy_queries.append(
            tuple(
                _noisy_query(r, parts, arrays.get(f"levels{o}_{i}"), shape, structure.scale(structure.orbits[o]))
                for i, r in enumerate(records)
            )
        )
    if "predicted" in header:
        baselines = _predicted(structure, baselines, header["predicted"], noisy_queries)
    budget = Budget.from_json(header["budget"])
    selection = read_fraction(header["selection"]) if "selection" in header else Fraction(0)
    joint = header.get("joint", False) is True
    return IntegerPlan(workload, budget, structure, baselines, tuple(noisy_queries), selection, joint)


def _predicted(
    structure: Structure,
    baselines: tuple[Baseline, ...],
    orbits: Sequence[Sequence[int]],
    noisy_queries: Sequence[Sequence[NoisyQuery]],
) -> Baselines:
    """The baselines with predictors, which follow from the rows of their residuals."""
    predictors = {}
    for orbit in map(tuple, orbits):
        if orbit not in structure.orbits or not predictable(structure, orbit):
            raise LeastnoiseError("a predictor is for a residual that has none")
        ((noisy_query,),) = (noisy_queries[structure.orbits.index(orbit)],)
        (part,) = noisy_query.strategy.parts
        if not isinstance(part, Rows):
            raise LeastnoiseError("a residual with a predictor is not measured by rows of its own")
        predictors[orbit] = Predictor.along(part.rows, part.shape, [baselines[c].values for c in orbit])
    return Baselines(baselines, predictors)


def _noisy_query(
    record: Mapping[str, Any], parts: list[Part], levels: npt.NDArray[Any] | None, shape: tuple[int, ...], scale: int
) -> NoisyQuery:
    strategy = IntegerStrategy(tuple(parts[i] for i in record["parts"]), int(record["multiplier"]), levels, scale)
    if strategy.shape != shape:
        raise LeastnoiseError(f"a strategy of shape {strategy.shape} cannot measure cells of shape {shape}")
    return NoisyQuery(strategy, read_fraction(record["variance"]))


def stored_structure(workload: Workload, classes: Sequence[Sequence[int]]) -> Structure:
    """The structure of a stored plan or integer plan, with the classes of attributes that it had."""
    class_of = {a: c for c, members in enumerate(classes) for a in members}
    return build_structure(workload, lambda i: class_of[i])


def stored_baselines(
    structure: Structure, trees: Sequence[int], arrays: Mapping[str, npt.NDArray[Any]]
) -> tuple[Baseline, ...]:
    """The baselines of a stored plan or integer plan; those of trees follow from the domain and from shares."""
    attributes = structure.workload.domain.attributes
    return tuple(
        _along(hierarchy_of(attributes[c.members[0]]).tree, arrays.get(f"shares{i}"))
        if i in trees
        else Baseline(c.size, arrays.get(f"prior{i}"))
        for i, c in enumerate(structure.classes)
    )


def _along(tree: Tree, values: npt.NDArray[Any] | None) -> Baseline:
    if values is None:
        return Baseline.along(tree)
    whole = values.dtype.kind in "iu" and values.shape == (tree.core.tree.nodes,)
    if not whole or values.min() < 1 or values.max() > LARGEST_SHARE:
        raise LeastnoiseError(f"the shares of a tree are not whole numbers from 1 to {LARGEST_SHARE}, one per node")
    return Baseline.along(tree, values.astype(np.int64))


def stored_trees(baselines: Sequence[Baseline]) -> dict[str, tuple[Tree, IntArray | None]]:
    """The trees of stored baselines and the shares of their nodes, by the names that strategies have for them."""
    return {shared_tree_key(p.tree, p.shares): (p.tree, p.shares) for p in baselines if p.tree is not None}


def _part(
    number: int,
    record: Mapping[str, Any],
    arrays: Mapping[str, npt.NDArray[Any]],
    trees: Mapping[str, tuple[Tree, IntArray | None]],
) -> Part:
    if "tree" in record:
        tree, shares = trees[record["tree"]]
        return Contrasts(tree, arrays[f"scales{number}"], shares)
    if (kernel := arrays.get(f"kernel{number}")) is not None:
        return Circulant(kernel)
    shape = tuple(int(n) for n in record["shape"])
    return Centring(*shape) if record["centring"] else Rows(arrays[f"rows{number}"], shape)


def fingerprint(integer_plan: IntegerPlan) -> str:
    """A digest of everything that decides what is measured and with how much noise."""
    return digest_of(*integer_plan_data(integer_plan))
