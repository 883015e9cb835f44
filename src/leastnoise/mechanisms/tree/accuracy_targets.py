"""From accuracy that is wanted to the least noise that costs little: at most so much variance on each level.

On a path with arities m_k and variances v_k of its levels, a leaf pays (docs/proofs.md)

    1 / v_0 + sum over k of s_k^2 / (v_k - v_{k-1} / m_k^2),    s_k = (m_k - 1) / m_k

which is convex. A level above one with a small target is better left below its own: what it gets too much of, the next
one must pay for. Each v_k in turn is set to its best value given its neighbours, or to its target if that is less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from math import floor
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from leastnoise._types import Array
from leastnoise.domain.tree import Tree
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.tree.integer import extra_variance
from leastnoise.mechanisms.tree.targets import Cascade, exact
from leastnoise.release.answers import quantile

Kind = Literal["std_error", "variance", "within"]
# one for all levels, one per level or per node, or by number of a level or name of a level or node
Targets = float | Fraction | Sequence[float | Fraction] | Array | Mapping[Any, float | Fraction]
SWEEPS = 2_000
STEPS = 4_000_000  # levels looked at in all sweeps together: deep trees stop earlier, at a higher cost
STILL = 1e-14
_BITS = 40
_NEGLIGIBLE = Fraction(1, 2**60)  # noise of levels that are exact, where the formulas need some


def read_targets(tree: Tree, targets: Targets, kind: Kind, confidence: float) -> list[Fraction | None]:
    """Largest variances per level; None where a level has no target; the last one must have one."""
    result: list[Fraction | None] = []
    known: dict[int, Fraction] = {}  # equal levels share one number: trees may be deep
    for level, value in enumerate(given := _per_level(tree, targets)):
        if value is not None and id(value) not in known:
            known[id(value)] = as_variance(positive_target(value, f"level {level}"), kind, confidence)
        result.append(None if value is None else known[id(value)])
    if given[-1] is None:
        raise LeastnoiseError(f"the last level, {tree.depth}, needs a target; levels above it may be left out")
    return result


def _per_level(tree: Tree, targets: Targets) -> list[Any]:
    levels = tree.depth + 1
    if isinstance(targets, Mapping):
        for level in targets:
            if level not in range(levels):
                raise LeastnoiseError(f"there is no level {level!r} for a target; levels run from 0 to {tree.depth}")
        return [targets.get(level) for level in range(levels)]
    if isinstance(targets, (int, float, Fraction)):
        return [targets] * levels
    if len(targets) != levels:
        raise LeastnoiseError(f"the tree has {levels} levels; got targets for {len(targets)}")
    return list(targets)


def as_variance(target: Fraction, kind: Kind, confidence: float) -> Fraction:
    """The largest variance that a target of this kind allows."""
    if kind not in get_args(Kind):
        raise LeastnoiseError(f"targets are {', '.join(map(repr, get_args(Kind)))}, not {kind!r}")
    width = Fraction(quantile(confidence))  # refuses a confidence that is none
    if kind == "within":
        return (min(target, floor(target) + Fraction(1, 2)) / width) ** 2  # whole numbers within 5.9 are within 5
    return target if kind == "variance" else target**2


def positive_target(value: Any, where: object) -> Fraction:
    """A target as a fraction."""
    try:
        return exact(value, "a target")
    except LeastnoiseError:
        raise LeastnoiseError(f"the target of {where} must be a positive number, got {value!r}") from None


def without_rounding(targets: Sequence[list[Fraction | None]]) -> list[list[Fraction | None]]:
    """What is left of targets for Gaussian noise, where whole numbers take their part; targets of trees multiply."""
    first, *others = targets
    least = Fraction(1)
    for each in others:
        least *= min(t for t in {id(t): t for t in each}.values() if t is not None)
    part = extra_variance(len(targets)) / least
    rest: dict[int, Fraction | None] = {id(None): None}
    for level, target in enumerate(first):
        if target is None or id(target) in rest:
            continue
        rest[id(target)] = target - part
        if target <= part:
            raise LeastnoiseError(
                f"the target of level {level} is a standard error of {float(target) ** 0.5:.4g}, but whole numbers "
                f"need {float(part) ** 0.5:.4g} for rounding alone; raise it"
            )
    return [[rest[id(t)] for t in first], *others]


def least_noise_cost(tree: Tree, targets: Sequence[Fraction | None], exact_to: int = -1) -> Cascade:
    """A cascade of little cost in which no node has more than the target of its level.

    The least cost of all with one variance per level, where the nodes of each level that have several children have
    equally many. Levels up to `exact_to` have next to no noise; they are meant to be exact.

    Guarantees: targets_hold_after_rounding; costs_no_more_than_any_other_on_regular_trees.
    """
    if exact_to < 0 and targets[0] is not None and all(t is targets[0] for t in targets):
        return Cascade.by_level(tree, targets[0])  # equal targets are all used up (docs/proofs.md)
    caps, arity = _caps(tree, targets, exact_to), _arities(tree)
    kept = [k for k in range(max(exact_to + 1, 0), tree.depth + 1) if k == 0 or arity[k] > 1]
    chain = [_Step(np.inf if caps[k] is None else float(caps[k] or 0), arity[k]) for k in kept]
    chosen = dict(zip(kept, _descent(chain), strict=True))
    results = [Fraction(0)] * (exact_to + 1)
    for level in range(exact_to + 1, tree.depth + 1):
        value, cap = chosen.get(level), caps[level]
        if value is None:  # single children only
            results.append(results[-1])
        else:
            rounded = _few_bits(value)
            results.append(rounded if cap is None or (value < float(cap) and rounded <= cap) else cap)
    for level in range(exact_to + 1):
        results[level] = results[exact_to + 1] * _NEGLIGIBLE
    return Cascade.by_level(tree, results)


def _caps(tree: Tree, targets: Sequence[Fraction | None], exact_to: int) -> list[Fraction | None]:
    """Targets, where the only child of a node counts for its parent too."""
    caps = list(targets)
    for level, (above, _) in reversed(list(enumerate(pairwise(tree.levels())))):
        low = caps[level + 1]
        if low is not None and level > exact_to and (tree.children[above] == 1).any():
            here = caps[level]
            caps[level] = low if here is None else min(low, here)
    return caps


def _arities(tree: Tree) -> list[int]:
    """The least number of children, of those above 1, that nodes of the level above have; 1: single children only."""
    results = [0]
    for level in list(tree.levels())[:-1]:
        counts = tree.children[level]
        several = counts[counts > 1]
        results.append(int(several.min()) if len(several) else 1)
    return results


class _Step(NamedTuple):
    """A level of a path: its largest variance, and how many children the nodes above have; 0 for the root."""

    cap: float
    arity: int

    @property
    def share(self) -> float:
        """s of the formula above."""
        return 1 - 1 / self.arity if self.arity else 1.0


def _descent(chain: Sequence[_Step]) -> list[float]:
    """Variances of levels, by coordinates; nothing is above the first level."""
    v = [chain[-1].cap]
    for here, below in reversed(list(pairwise(chain))):
        v.insert(0, min(here.cap, 0.5 * below.arity**2 * v[0]))
    for _ in range(max(min(SWEEPS, STEPS // len(chain)), 1)):
        moved = 0.0
        for k in range(len(chain) - 2, -1, -1):
            rest = v[k - 1] / chain[k].arity ** 2 if k else 0.0
            new = _best_between(chain[k], chain[k + 1], rest, v[k + 1])
            moved, v[k] = max(moved, abs(new - v[k]) / v[k]), new
        if moved < STILL:
            break
    return v


def _best_between(here: _Step, below: _Step, rest: float, lower: float) -> float:
    """Where s^2 / (v - rest) + s_below^2 / (lower - v / m^2) is least, or the target."""
    m = below.arity
    return min(here.cap, (here.share * m * lower + below.share * rest) / (below.share + here.share / m))


def _few_bits(x: float) -> Fraction:
    """A fraction with a short numerator, not above x."""
    mantissa, exponent = np.frexp(x)
    return Fraction(int(np.floor(mantissa * 2**_BITS))) * Fraction(2) ** (int(exponent) - _BITS)
