"""What a saved plan must be like: numbers where numbers belong, in the shapes that its workload asks for.

A file may have been changed by anybody. What is checked here is what later steps rely on, so that a plan that was
loaded can be read and run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, prod
from typing import Any

import numpy as np

from leastnoise._types import Array
from leastnoise.algebra.predictor import Predictor, fewer
from leastnoise.errors import LeastnoiseError
from leastnoise.planning.design import Design
from leastnoise.planning.integers import axis_parts
from leastnoise.planning.residual_workload import Baseline
from leastnoise.strategies import Solution, Strategy, TreeStrategy
from leastnoise.workload.hierarchy import shared_tree_key

SAME = 1e-6  # what sums of a baseline may be off by
LARGEST = 1e40  # entries of strategies lie far within: they are solved for columns of norm 1


def numbers(arrays: Mapping[str, Any], name: str, shape: tuple[int, ...] | None = None, least: float = -inf) -> Array:
    """An array of the file: finite numbers of at least `least`, in this shape."""
    result = arrays[name]
    if not isinstance(result, np.ndarray) or result.dtype != np.float64 or not result.size:
        raise LeastnoiseError(f"the array {name!r} does not hold numbers")
    if shape is not None and result.shape != shape:
        raise LeastnoiseError(f"the array {name!r} is of shape {result.shape} where {shape} is needed")
    if not np.isfinite(result).all() or result.min() < least:
        raise LeastnoiseError(f"the array {name!r} has numbers that are out of range")
    return result


def entries(arrays: Mapping[str, Any], name: str, shape: tuple[int, ...] | None = None, least: float = -inf) -> Array:
    """The numbers of a strategy; squares and, where they must not be negative, inverse squares stay finite."""
    result = numbers(arrays, name, shape, least)
    if np.abs(result).max() > LARGEST or (least == 0 and ((result > 0) & (result < 1 / LARGEST)).any()):
        raise LeastnoiseError(f"the array {name!r} has numbers that are out of range")
    return result


def cells_of(shape: Any) -> int:
    """The number of cells of a shape that was read."""
    if not isinstance(shape, list) or not all(type(n) is int and n > 0 for n in shape):
        raise LeastnoiseError("a strategy has no shape")
    return prod(shape)


def number(value: Any, what: str) -> float:
    """A finite number that is not negative."""
    if type(value) not in (int, float) or not 0 <= value < inf:
        raise LeastnoiseError(f"{what} is no number of at least 0")
    return float(value)


def text(value: Any, what: str) -> str:
    """A text."""
    if not isinstance(value, str):
        raise LeastnoiseError(f"{what} is no text")
    return value


def check_baseline(baseline: Baseline) -> None:
    """Refuse a baseline that is no distribution over the values of its class."""
    values = numbers({"prior": baseline.values}, "prior", (baseline.size,), least=0.0)
    if not abs(values.sum() - 1) < SAME:
        raise LeastnoiseError("a baseline does not sum to 1")


def check_predictor(predictor: Predictor, shape: tuple[int, ...]) -> None:
    """Refuse contrasts that do not vanish on functions of fewer attributes, and other things handed down."""
    if predictor.shape != shape:
        raise LeastnoiseError(f"a predictor of shape {predictor.shape} cannot be that of cells of shape {shape}")
    seen, more = fewer(predictor.contrasts, len(shape)), predictor.taken - fewer(predictor.taken, len(shape))
    for part, whole in ((seen, predictor.contrasts), (more, predictor.taken)):
        if np.abs(part).max() > SAME * np.abs(whole).max():
            raise LeastnoiseError("a predictor does not keep to functions of fewer attributes")


def check_design(design: Design) -> None:
    """Refuse solutions that are not those of the residuals."""
    structure = design.structure
    if len(design.solutions) != len(structure.orbits):
        raise LeastnoiseError("its solutions are not those of its residuals")
    for orbit, problem, solution in zip(structure.orbits, design.problems, design.solutions, strict=True):
        if (problem is None) != (solution is None):
            raise LeastnoiseError("a residual that is measured has no solution, or another one has one")
        if solution is not None:
            _check_solution(solution, structure.shape(orbit))
            _check_trees(solution.strategy, [design.baselines[c] for c in orbit])


def _check_solution(solution: Solution, shape: tuple[int, ...]) -> None:
    if solution.strategy.shape != shape:
        raise LeastnoiseError(f"a strategy of shape {solution.strategy.shape} cannot measure cells of shape {shape}")
    if not 1 / LARGEST < number(solution.error, "the error of a strategy") < LARGEST:
        raise LeastnoiseError("the error of a strategy is out of range")
    number(solution.floor, "the floor of a strategy")


def _check_trees(strategy: Strategy, baselines: Sequence[Baseline]) -> None:
    """Contrasts along a tree belong to the classes that follow it, and to no others."""
    parts = axis_parts(strategy) or (strategy,) * len(baselines)
    followed = [shared_tree_key(p.tree, p.shares) if isinstance(p, TreeStrategy) else None for p in parts]
    if followed != [None if b.tree is None else shared_tree_key(b.tree, b.shares) for b in baselines]:
        raise LeastnoiseError("a strategy does not follow the tree of its attribute")
