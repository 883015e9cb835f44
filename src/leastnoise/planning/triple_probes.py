"""How much of N = A + B on pairs is B: bounds from random columns, that fail with a probability below 1e-9.

E = L^-1 B L^-T, with A = L L^T, is symmetric and has the eigenvalues of A^-1 B. Let y_1, ..., y_K have independent
standard normal entries. For a unit eigenvector u of the eigenvalue e of largest size, |E^m y|^2 >= e^2m (y.u)^2, and
the sum of (y_k.u)^2 is chi-squared with K degrees of freedom, which is below c with probability at most
(c / 2)^(K/2) / Gamma(K/2 + 1). So the sum of |E^m y_k|^2 over c bounds e^2m. The sum of |E y_k|^2 is one of squares of
normal numbers, weighted with the eigenvalues of E^2, and has the lower tail of Laurent and Massart (2000), Lemma 1
(docs/theory.md). The columns follow from a fixed seed, so that a floor is the same in every run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, lgamma, log, sqrt

import numpy as np

from leastnoise._types import Array
from leastnoise.planning.block_trace import inverted
from leastnoise.planning.triple_entries import Entries
from leastnoise.planning.triple_links import Block, Columns, Layout, linked_columns

PROBES = 16  # columns
POWERS = 6  # products with E
SEED = 20_001
FAILURE = 1e-9  # probability that a floor is wrong, for all bounds in it
BOUNDS = 10_000  # of them, at most: two at each t
ROUNDING = 1e-6  # added to the norm at least, for products in floating point


@dataclass(frozen=True)
class Links:
    """Upper bounds on the norm of E and on the trace of its square."""

    norm: float
    square: float


def least_chi_squared(degrees: int, failure: float) -> float:
    """A number that a chi-squared variable is below with at most this probability: e^(-x/2) <= 1 in its density."""
    return 2 * exp((log(failure) + lgamma(degrees / 2 + 1)) * 2 / degrees)


def probed(entries: Entries, layout: Layout, inverses: Sequence[tuple[Block, Array]]) -> Links:
    """Bounds for one t; `inverses` are those of the blocks of A.

    Every attribute has pairs of its own, like ones too, so that traces count them all.

    Guarantees: probes_bound_what_links_blocks.
    """
    failure = FAILURE / BOUNDS
    rounding = max(ROUNDING, *(_rounding(block.matrix(), inverse) for block, inverse in inverses))
    x = _start(layout)
    for block, _ in inverses:
        factor: Array = np.asarray(np.linalg.cholesky(block.matrix()), dtype=np.float64)
        block.solve(inverted(factor).T, x)  # L^-T y
    sizes = []
    for step in range(POWERS):
        moved = linked_columns(entries, layout, x)
        for block, inverse in inverses:
            block.solve(inverse, moved)
        for pair, v in moved.two.items():
            v -= x.two[pair]  # A^-1 B = A^-1 N - I
        x = moved
        if step in (0, POWERS - 1):
            sizes.append(_size(inverses, x))
    norm = (sizes[-1] / least_chi_squared(PROBES, failure)) ** (0.5 / POWERS) + rounding
    spread = norm * sqrt(-log(failure))
    return Links(norm, (spread + sqrt(spread**2 + sizes[0])) ** 2 / PROBES * (1 + rounding))


def _rounding(block: Array, inverse: Array) -> float:
    """How far products with the inverse may be off, as a share: units in the last place times rows and condition."""
    condition = float(np.linalg.norm(block, 1) * np.linalg.norm(inverse, 1))
    return 8 * len(block) * 2.0**-52 * condition


def _start(layout: Layout) -> Columns:
    """Standard normal entries, for all pairs of attributes."""
    rng, of = np.random.default_rng(SEED), layout.attributes
    pairs = [(i, j) for j in range(len(of)) for i in range(j)]
    shapes = {(i, j): (layout.work.sizes[of[i]], layout.work.sizes[of[j]], PROBES) for i, j in pairs}
    return Columns({pair: rng.standard_normal(shape) for pair, shape in shapes.items()}, PROBES)


def _size(inverses: Sequence[tuple[Block, Array]], x: Columns) -> float:
    """The sum of |L^T x|^2 over columns."""
    image = x.copy()
    for block, _ in inverses:
        block.solve(block.matrix(), image)
    return float(sum((v * image.two[pair]).sum() for pair, v in x.two.items()))
