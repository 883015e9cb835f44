"""Recipes as plain data: a header and integer arrays, with a digest of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy.typing as npt

from leastnoise.domain.tree import Tree
from leastnoise.errors import LeastnoiseError
from leastnoise.planning.integer_plan import Probe, Recipe
from leastnoise.planning.residual_workload import Prior
from leastnoise.planning.structure import Structure, build_structure
from leastnoise.privacy import Budget
from leastnoise.privacy.cost import fraction_text, read_fraction
from leastnoise.storage.archive import Arrays, digest_of
from leastnoise.strategies.contrasts import Contrasts
from leastnoise.strategies.integer import Centring, IntegerStrategy, Part, Rows
from leastnoise.workload.hierarchy import hierarchy_of, tree_key
from leastnoise.workload.store import workload_from_json, workload_to_json


def recipe_data(recipe: Recipe) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of a recipe."""
    arrays: Arrays = {
        f"prior{c}": p.vector for c, p in enumerate(recipe.priors) if p.vector is not None and p.tree is None
    }
    numbers: dict[int, int] = {}
    parts: list[dict[str, Any]] = []
    residuals: list[list[dict[str, Any]]] = []
    for o, probes in enumerate(recipe.probes):
        residuals.append([])
        for i, probe in enumerate(probes):
            strategy = probe.strategy
            for part in strategy.parts:
                if id(part) not in numbers:
                    numbers[id(part)] = len(parts)
                    parts.append({"shape": list(part.shape), "centring": isinstance(part, Centring)})
                    if isinstance(part, Rows):
                        arrays[f"rows{len(parts) - 1}"] = part.rows
                    if isinstance(part, Contrasts):
                        parts[-1]["tree"] = tree_key(part.tree)
                        arrays[f"scales{len(parts) - 1}"] = part.scales
            if strategy.levels is not None:
                arrays[f"levels{o}_{i}"] = strategy.levels
            residuals[-1].append(
                {
                    "parts": [numbers[id(p)] for p in strategy.parts],
                    "multiplier": strategy.multiplier,
                    "variance": fraction_text(probe.variance),
                }
            )
    header: dict[str, Any] = {
        "workload": workload_to_json(recipe.workload),
        "budget": recipe.budget.to_json(),
        "classes": [list(c.members) for c in recipe.structure.classes],
        "orbits": [list(o) for o in recipe.structure.orbits],
        "parts": parts,
        "residuals": residuals,
    }
    if any(p.tree is not None for p in recipe.priors):
        header["trees"] = [c for c, p in enumerate(recipe.priors) if p.tree is not None]
    if recipe.selection:
        header["selection"] = fraction_text(recipe.selection)
    return header, arrays


def recipe_from(header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Recipe:
    """Read what `recipe_data` made."""
    workload = workload_from_json(header["workload"])
    class_of = {a: c for c, members in enumerate(header["classes"]) for a in members}
    structure = build_structure(workload, lambda i: class_of[i])
    if [list(o) for o in structure.orbits] != header["orbits"]:
        raise LeastnoiseError("the residuals of the recipe are not those of its workload")
    priors = stored_priors(structure, header.get("trees", ()), arrays)
    trees = {tree_key(p.tree): p.tree for p in priors if p.tree is not None}
    parts = [_part(i, record, arrays, trees) for i, record in enumerate(header["parts"])]
    probes = []
    for o, records in enumerate(header["residuals"]):
        shape = structure.shape(structure.orbits[o])
        probes.append(tuple(_probe(r, parts, arrays.get(f"levels{o}_{i}"), shape) for i, r in enumerate(records)))
    budget = Budget.from_json(header["budget"])
    selection = read_fraction(header["selection"]) if "selection" in header else Fraction(0)
    return Recipe(workload, budget, structure, priors, tuple(probes), selection)


def _probe(
    record: Mapping[str, Any], parts: list[Part], levels: npt.NDArray[Any] | None, shape: tuple[int, ...]
) -> Probe:
    strategy = IntegerStrategy(tuple(parts[i] for i in record["parts"]), int(record["multiplier"]), levels)
    if strategy.shape != shape:
        raise LeastnoiseError(f"a strategy of shape {strategy.shape} cannot measure cells of shape {shape}")
    return Probe(strategy, read_fraction(record["variance"]))


def stored_priors(
    structure: Structure, trees: Sequence[int], arrays: Mapping[str, npt.NDArray[Any]]
) -> tuple[Prior, ...]:
    """The priors of a stored plan or recipe; those of trees follow from the domain."""
    attributes = structure.workload.domain.attributes
    return tuple(
        Prior.along(hierarchy_of(attributes[c.members[0]]).tree)
        if i in trees
        else Prior(c.size, arrays.get(f"prior{i}"))
        for i, c in enumerate(structure.classes)
    )


def _part(
    number: int, record: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], trees: Mapping[str, Tree]
) -> Part:
    if "tree" in record:
        return Contrasts(trees[record["tree"]], arrays[f"scales{number}"])
    shape = tuple(int(n) for n in record["shape"])
    return Centring(*shape) if record["centring"] else Rows(arrays[f"rows{number}"], shape)


def fingerprint(recipe: Recipe) -> str:
    """A digest of everything that decides what is measured and with how much noise."""
    return digest_of(*recipe_data(recipe))
