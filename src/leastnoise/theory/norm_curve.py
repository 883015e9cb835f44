"""Approximate gamma_2 against alpha: what a larger error allowed to every query saves (docs/norms.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array
from leastnoise.strategies.norms import APPROXIMATE_GAP, ApproximateNorm, Reduced, approximation_at, each_once
from leastnoise.strategies.norms_approximate import MAX_STEPS
from leastnoise.strategies.norms_checks import checked_alpha, checked_gap, checked_matrix, checked_steps


def gamma_2_curve(
    W: npt.ArrayLike, alphas: Sequence[float], gap: float = APPROXIMATE_GAP, max_steps: int = MAX_STEPS
) -> tuple[ApproximateNorm, ...]:
    """`gamma_2_approximate` at several alphas, on all cores; both bounds fall in alpha.

    Guarantees: curves_fall_in_alpha.
    """
    matrix, gap, max_steps = checked_matrix(W), checked_gap(gap), checked_steps(max_steps)
    alphas = [checked_alpha(alpha) for alpha in alphas]
    reduced = Reduced.within(matrix, alphas)
    results = each_once(list(alphas), lambda i: approximation_at(matrix, reduced, alphas[i], gap, max_steps))
    order = sorted(range(len(alphas)), key=lambda i: alphas[i])
    best = dict(enumerate(results))
    for before, after in pairwise(order):  # what is close enough at a smaller alpha is at a larger one
        if best[before].upper < best[after].upper:
            best[after] = replace(best[after], upper=best[before].upper, R=best[before].R, A=best[before].A)
    for after, before in pairwise(reversed(order)):  # a witness at a larger alpha is a better one at a smaller
        best[before] = _witnessed(matrix, best[before], best[after])
    return tuple(best[i] for i in range(len(alphas)))


def _witnessed(W: Array, one: ApproximateNorm, other: ApproximateNorm) -> ApproximateNorm:
    """`one`, with the witness of the other where it proves more."""
    lower = float(np.vdot(W, other.U) - one.alpha * np.abs(other.U).sum())
    if lower <= one.lower:
        return one
    return replace(one, lower=min(lower, one.upper), U=other.U, queries=other.queries, cells=other.cells)
