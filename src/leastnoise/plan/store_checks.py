"""What a saved plan must be like: numbers where numbers belong, in the shapes that its workload asks for.

A file may have been changed by anybody. What is checked here is what later steps rely on, so that a plan that was
loaded can be read and run.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, prod
from typing import Any

import numpy as np

from leastnoise._types import Array
from leastnoise.errors import LeastnoiseError
from leastnoise.factorize import Solution
from leastnoise.plan.design import Design
from leastnoise.plan.smash import Prior

SAME = 1e-6  # what sums of a prior may be off by


def numbers(arrays: Mapping[str, Any], name: str, shape: tuple[int, ...] | None = None, least: float = -inf) -> Array:
    """An array of the file: finite numbers of at least `least`, in this shape."""
    found = arrays[name]
    if not isinstance(found, np.ndarray) or found.dtype != np.float64 or not found.size:
        raise LeastnoiseError(f"the array {name!r} does not hold numbers")
    if shape is not None and found.shape != shape:
        raise LeastnoiseError(f"the array {name!r} is of shape {found.shape} where {shape} is needed")
    if not np.isfinite(found).all() or found.min() < least:
        raise LeastnoiseError(f"the array {name!r} has numbers that are out of range")
    return found


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


def check_prior(prior: Prior) -> None:
    """Refuse a prior that is no distribution over the values of its class."""
    values = numbers({"prior": prior.values}, "prior", (prior.size,), least=0.0)
    if not abs(values.sum() - 1) < SAME:
        raise LeastnoiseError("a prior does not sum to 1")


def check_design(design: Design) -> None:
    """Refuse solutions that are not those of the residuals."""
    structure = design.structure
    if len(design.solutions) != len(structure.orbits):
        raise LeastnoiseError("its solutions are not those of its residuals")
    for orbit, problem, solution in zip(structure.orbits, design.problems, design.solutions, strict=True):
        if (problem is None) != (solution is None):
            raise LeastnoiseError("a residual has no solution, or one that nobody asked for")
        if solution is not None:
            _check_solution(solution, structure.shape(orbit))


def _check_solution(solution: Solution, shape: tuple[int, ...]) -> None:
    if solution.strategy.shape != shape:
        raise LeastnoiseError(f"a strategy of shape {solution.strategy.shape} cannot measure cells of shape {shape}")
    number(solution.error, "the error of a strategy")
    number(solution.floor, "the floor of a strategy")
