"""AIM+GReM line by line as its algorithms 4, 6 and 7 print it: NumPy's noise, costs in zCDP. A twin for comparison.

`select: aim` is the same mechanism with exact noise, paid for in Gaussian privacy: measurements cost the same there, a
choice costs pi/2 times as much, so that it gets a smaller epsilon; the twin can pay either price. Of two misprints in
algorithm 7 it has the corrections of docs/errata.md: released estimates are compared, and epsilon is squared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from math import pi, prod, sqrt

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.mechanisms.adaptive import Estimates, Residual, allocate, overlaps
from leastnoise.mechanisms.adaptive.grem import Members
from leastnoise.sources import Codes

ZCDP = 1 / 8  # rho of a choice over epsilon^2 (Proposition B.3)
GAUSSIAN = pi / 16  # half of its mu^2 over epsilon^2: what `select: aim` pays (docs/privacy.md, Choosing)


@dataclass
class Twin:
    """The state of one release: what is known, what is spent, the noise of the next round."""

    counts: Mapping[Members, IntArray]  # of the closure of the workload, with the empty set
    weights: Mapping[Members, int]  # of the candidates
    rho: float
    rng: np.random.Generator
    estimates: Estimates
    price: float = ZCDP
    spent: float = 0.0
    sigma: float = 0.0
    epsilon: float = 0.0
    distances: dict[Members, float] = field(default_factory=dict)

    @classmethod
    def of(cls, source: Codes, tables: Sequence[Members], rho: float, seed: int, price: float = ZCDP) -> Twin:
        """Before the first round (algorithm 4, lines 1 to 5)."""
        closure = sorted({s for t in tables for k in range(len(t) + 1) for s in combinations(t, k)}, key=len)
        candidates = closure[1:]  # the weight of the empty set is 0
        counts = dict(zip(closure, source.count(closure), strict=True))
        weights = dict(zip(candidates, overlaps(candidates, tables), strict=True))
        estimates = Estimates(source.domain.shape, candidates)
        twin = cls(counts, weights, rho, np.random.default_rng(seed), estimates, price)
        twin._afford(rho / (2 * len(closure)))  # sigma_0^2 = |W closure| / (0.9 rho)
        for members in (s for s in candidates if len(s) == 1):  # algorithm 6
            twin._measure(members, {(): twin.sigma**2 * counts[members].size, (0,): twin.sigma**2})
            twin.spent += 0.5 / twin.sigma**2
        return twin

    def run(self) -> int:
        """All rounds; returns how many (lines 6 to 16)."""
        rounds, last = 0, False
        self._compare(self.weights)
        while not last:
            last = self.rho - self.spent <= 2 * self._cost
            if last:  # algorithm 7, lines 7 to 9
                self._afford(self.rho - self.spent)
            self.spent += self._cost
            self._round()
            rounds += 1
        return rounds

    @property
    def _cost(self) -> float:
        return 0.5 / self.sigma**2 + self.epsilon**2 * self.price

    def _afford(self, rho: float) -> None:
        """A round that costs rho: a tenth for the choice, the rest for the measurement."""
        self.epsilon, self.sigma = sqrt(0.1 * rho / self.price), sqrt(1 / (1.8 * rho))

    def _round(self) -> None:
        members = self._choice()
        before = self.estimates.table(members)
        sizes, known = before.shape, self.estimates.known(members)
        self._measure(members, allocate(sizes, known, Fraction(1 / self.sigma**2)).variances)
        if np.abs(self.estimates.table(members) - before).sum() <= self._allowance(members):
            self.epsilon, self.sigma = 2 * self.epsilon, self.sigma / 2

    def _choice(self) -> Members:
        scores = np.array([w * (self.distances[m] - self._allowance(m)) for m, w in self.weights.items()])
        noise = self.rng.gumbel(size=len(scores))
        chosen = int(np.argmax(self.epsilon / (2 * max(self.weights.values())) * scores + noise))
        return tuple(self.weights)[chosen]

    def _allowance(self, members: Members) -> float:
        return sqrt(2 / pi) * self.sigma * prod(self.counts[members].shape)

    def _measure(self, members: Members, variances: Mapping[tuple[int, ...], float | Fraction]) -> None:
        """Residuals of a table by its axes (algorithm 5), and the estimates of what contains them."""
        residuals = []
        for axes, variance in variances.items():
            inside = tuple(members[i] for i in axes)
            noise = self.rng.normal(0, sqrt(variance), self.counts[inside].shape)
            residuals.append(Residual(inside, self.counts[inside] + noise, float(variance)))
        self._compare(self.estimates.observe(residuals))

    def _compare(self, changed: Sequence[Members] | Mapping[Members, int]) -> None:
        for members in changed:
            self.distances[members] = float(np.abs(self.counts[members] - self.estimates.table(members)).sum())


def published(
    source: Codes, tables: Sequence[Members], rho: float, seed: int, price: float = ZCDP
) -> tuple[Mapping[Members, Array], int]:
    """The estimates of all tables, and the number of rounds."""
    twin = Twin.of(source, tables, rho, seed, price)
    rounds = twin.run()
    return {m: twin.estimates.table(m) for m in tables}, rounds
