"""Witnesses of all heights: how few people are too few for accuracy alpha, whatever the local mechanism.

A witness is sought at the heights 1.25^k; the lower ones keep all queries, higher ones only those that can move so far,
with weights climbed again. The rungs are the same for all alphas, so floors fall in alpha.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil, floor, log, prod

import numpy as np

from leastnoise._types import Array
from leastnoise.strategies.norms import Norm
from leastnoise.theory.centred import Centred, climb
from leastnoise.theory.own_bases import own_bases
from leastnoise.theory.pairs import far
from leastnoise.theory.signs import all_signs, every_sign
from leastnoise.theory.tails import Error, Kind
from leastnoise.theory.witness import RATIO, Witness, all_errors, every_query, reaches, squared_errors

MOST_HEIGHT = 4.0  # of a witness, in alphas
OWN = 2  # heights above alpha at which queries have bases of their own
DROPPED = 8  # at most one in so many queries is dropped at once
STEPS = 10  # of the weights after that
MOST_ENTRIES = 2**18  # of a matrix for which witnesses are sought
MIX = 1e-3  # share of even weights at the start of a climb, which revives no weight that is 0


@dataclass(frozen=True, eq=False)
class Ladder:
    """Queries with good weights, and the rungs that were asked for.

    Errors are "max" or "worst": a witness has a pair of populations for each query, so that it says nothing about
    "rms", a mean over the queries on one dataset. For this there is `one_direction`.
    """

    start: Centred
    error: Error
    _queries: dict[int, Centred | None] = field(default_factory=dict, repr=False)
    _witnesses: dict[int, Witness | None] = field(default_factory=dict, repr=False)
    _own: dict[int, Witness | None] = field(default_factory=dict, repr=False)

    def floor(self, alpha: float, epsilon: float, waiting: bool = True) -> int:
        """So many people are too few, or 0; for "max" also if reports do not wait for others."""
        first, last = ceil(log(alpha) / log(RATIO)), floor(log(MOST_HEIGHT * alpha) / log(RATIO))
        results = [w for w in map(self.witness, range(first, last + 1)) if w]
        if self.error.kind == "max":
            if not waiting:
                results += [w for w in map(self.own_bases, range(first, first + OWN)) if w]
            pairs = (all_errors(w, alpha, epsilon, self.error, waiting) for w in results)
            return max(*pairs, *(self._signs(RATIO**k, alpha, epsilon) for k in range(first, last + 1)), 0)
        return max((squared_errors(w, alpha, epsilon) for w in results), default=0)

    def _signs(self, height: float, alpha: float, epsilon: float) -> int:
        return all_signs(self.signs, height, alpha, epsilon, self.error) if self.signs else 0

    @cached_property
    def signs(self) -> Witness | None:
        """Moves of all queries at once."""
        return every_sign(self.start)

    def witness(self, rung: int) -> Witness | None:
        """Of this height, if there is one."""
        if rung not in self._witnesses:
            queries = self.queries(rung)
            self._witnesses[rung] = every_query(queries, RATIO**rung) if queries else None
        return self._witnesses[rung]

    def own_bases(self, rung: int) -> Witness | None:
        """Of this height with a base for each query, where no population suits them all."""
        if rung not in self._own:
            short = bool((reaches(self.start.W, self.start.s) < RATIO**rung).any())
            self._own[rung] = own_bases(self.start.W, RATIO**rung) if short else None
        return self._own[rung]

    def queries(self, rung: int) -> Centred | None:
        """Those that can move so far, with weights of their own."""
        if rung not in self._queries:
            least = float(reaches(self.start.W, self.start.s).min())
            before = self.start if least >= RATIO**rung or rung < self._lowest else self.queries(rung - 1)
            self._queries[rung] = _moving(before, RATIO**rung) if before else None
        return self._queries[rung]

    @property
    def _lowest(self) -> int:
        """Rungs below this one keep all queries that move at all."""
        reach = reaches(self.start.W, self.start.s)
        return floor(log(float(reach[reach > 0].min())) / log(RATIO))


def _moving(queries: Centred, height: float) -> Centred | None:
    """The queries that can move by `height`, found by dropping the least and climbing."""
    while True:
        reach = reaches(queries.W, queries.s)
        short = int((reach < height * (1 + 1e-6)).sum())
        if not short:
            return queries
        fewer = min(short, -(-len(reach) // DROPPED))
        if fewer == len(reach):
            return None
        kept = np.sort(np.argsort(reach, kind="stable")[fewer:])
        queries = climb(queries.rows(kept), keep_queries=False, steps=STEPS).without_rare()
        if not len(queries.parts[1]):
            return None


def factors_alone(factors: Sequence[Array], norm: Norm, kind: Kind) -> Iterator[Centred]:
    """Each factor of a product, where people differ in its values only.

    Of the other factors a value and, but for "rms", a query is taken for which they multiply by most.
    """
    if kind == "rms":
        most = [float(np.sqrt((W**2).mean(axis=0).max())) for W in factors]
    else:
        most = [float(np.abs(W).max()) for W in factors]
    seen = set()
    for i, (W, part) in enumerate(zip(factors, norm.parts, strict=True)):
        if np.ptp(W, axis=1).any() and W.size <= MOST_ENTRIES and W.tobytes() not in seen:
            seen.add(W.tobytes())
            yield weighted(W * (prod(most) / most[i]), part.queries, part.cells, kind)


def one_direction(queries: Centred) -> Centred:
    """One query in place of all: the unit combination of P^1/2 W that differs most between two values.

    Its squared error is at most the sum of p times the squared errors, on each dataset; so a floor for its own root
    mean squared error ("worst") is one for "rms".
    """
    C = np.sqrt(queries.p)[:, None] * queries.W
    first, second = far(C, 2)
    u = C[:, first] - C[:, second]
    return weighted((u / np.linalg.norm(u) @ C)[None], np.ones(1), np.ones(C.shape[1]), "worst")


def weighted(W: Array, queries: Array, cells: Array, kind: Kind) -> Centred:
    """With the best weights found; for "rms" all queries count alike."""
    p, s = (np.ones(len(W)) if kind == "rms" else queries / queries.sum()), cells / cells.sum()
    m, n = W.shape
    even = 0 if kind == "rms" else MIX / m
    return climb(Centred.of(W, p + even, s + MIX / n), keep_queries=kind == "rms").without_rare()
