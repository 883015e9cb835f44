"""Randomizers for vectors of length 1: the report is a seed and which of its public directions was chosen.

A seed gives n directions and their opposites, N = 2n candidates; a value favours the K that are nearest to its vector.
N = 2 is the construction of Duchi, Jordan and Wainwright (2018) that Bassily, Blasiok, Nikolov and Smith use (ENU
Lemma 9): a random direction, and the side on which the vector lies, reported with odds e^epsilon. Large N with the best
K is PrivUnit (Bhowmick et al. 2018; Asi, Feldman and Talwar 2022), a random point that is likelier inside a cap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import log, sqrt
from threading import Lock

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array, IntArray
from leastnoise.errors import LeastnoiseError
from leastnoise.local.directions import EXACT_ROWS, UNIT, Floats, all_floats, floats, largest
from leastnoise.local.favoured import Along, favoured_sum
from leastnoise.local.randomized_response import Choice, Odds, pure_mu
from leastnoise.local.subsets import Payloads
from leastnoise.local.vectors import Vectors, decoded
from leastnoise.noise import RandomSource
from leastnoise.noise.random_source import Words
from leastnoise.strategies.threads import across_cores, one_blas_thread

SEED = 8  # bytes
CAP = 256  # candidates of a cap, as many as a byte names: within 0.4% of arbitrarily many up to epsilon 1, 0.6% at 2
_BLOCK = 2**17  # entries of directions made at a time: they fit the cache
_BLOCKS = 32  # that a thread takes at a time


@dataclass(frozen=True, eq=False)
class Ball(Vectors):
    """Vectors of length 1, one column per value, reported as a seed and the number of a direction.

    Guarantees: likelihood_ratio_is_at_most_the_odds; estimates_are_unbiased; variances_are_exact.
    """

    columns: Array
    choice: Choice

    def __post_init__(self) -> None:
        lengths = np.linalg.norm(self.columns, axis=0)
        if self.columns.ndim != 2 or not np.abs(lengths - 1).max(initial=0.0) < 1e-9:
            raise LeastnoiseError("every column must have length 1; make the plan again")
        if self.choice.candidates % 2 or self.choice.candidates > 256:
            raise LeastnoiseError(f"{self.choice.candidates} candidates are not pairs, or more than 256; use {CAP}")

    @property
    def odds(self) -> Odds:
        """The odds of a favoured direction."""
        return self.choice.odds

    @property
    def cells(self) -> int:
        """Number of values."""
        return self.columns.shape[1]

    @property
    def payload(self) -> int:
        """Bytes of a report."""
        return SEED + 1

    @property
    def tallies(self) -> int:
        """Numbers a collector keeps: the sum of directions, and how many there were."""
        return len(self.columns) + 1

    @property
    def moved(self) -> int:
        """The most directions of a seed that one value favours and another does not: at most half are favoured."""
        return self.choice.favoured

    def keeps(self, epsilon: Fraction, delta: float) -> bool:
        """Whether devices spend no more than epsilon and delta."""
        return self.choice.keeps(epsilon, delta, self.moved)

    def spending(self, epsilon: Fraction, delta: float) -> Ball:
        """The same vectors, with the largest odds that keep epsilon and delta."""
        odds = Odds.with_delta(epsilon, delta, self.choice.candidates, self.choice.favoured, self.moved)
        return Ball(self.columns, replace(self.choice, odds=odds))

    def delta_at(self, epsilon: Fraction) -> float:
        """The least delta that is known at which reports keep this epsilon."""
        return float(self.choice.delta_at(epsilon, self.moved))

    # --- device -------------------------------------------------------------------------------------------------------

    def encode(self, cells: IntArray, random_source: RandomSource) -> Payloads:
        """Reports of devices that hold these values.

        Threads change the time, never the result: everything random is drawn before they start.
        """
        seeds, at = random_source.words(len(cells)), self.choice.positions(random_source, len(cells))
        out = np.empty((len(cells), self.payload), dtype=np.uint8)
        out[:, :SEED] = seeds.astype("<u8").view(np.uint8).reshape(-1, SEED)
        held, which = np.unique(cells, return_inverse=True)
        vectors = self.columns[:, held].T.astype(np.float32, order="C")

        def fill(some: slice) -> None:
            out[some, SEED] = self._chosen(seeds[some], vectors[which[some]], at[some])

        _in_blocks(fill, len(cells), len(self.columns) * self.choice.candidates // 2)
        return out

    def _chosen(self, seeds: Words, vectors: Floats, at: IntArray) -> IntArray:
        """The candidate at a place of the list that has the nearest first."""
        return np.take_along_axis(self._order(seeds, vectors), at[:, None], axis=1)[:, 0]

    def _order(self, seeds: Words, vectors: Floats) -> IntArray:
        """The candidates of each seed, those nearest to its vector first; ties fall by number."""
        values = all_floats(seeds, self.choice.candidates // 2, vectors.shape[1])
        products = np.matmul(values, vectors[:, :, None])[:, :, 0]
        return np.argsort(-np.concatenate([products, -products], axis=1), axis=1, kind="stable")

    # --- collector ----------------------------------------------------------------------------------------------------

    def valid(self, payloads: Payloads) -> npt.NDArray[np.bool_]:
        """Which reports a device can have sent."""
        return payloads[:, SEED] < self.choice.candidates

    def tally(self, payloads: Payloads) -> IntArray:
        """Sum of the chosen directions, and their number.

        Guarantees: tally_adds_up_single_reports; float_sums_are_exact.
        """
        half, k = self.choice.candidates // 2, len(self.columns)
        total = np.zeros(self.tallies, dtype=np.int64)
        seeds, numbers, lock = _seeds(payloads), payloads[:, SEED].astype(np.int64), Lock()

        def add(some: slice) -> None:
            signs = np.where(numbers[some] < half, np.float32(1), np.float32(-1))
            sums = signs @ floats(seeds[some], numbers[some] % half, k)
            with lock:
                total[:k] += sums.astype(np.int64)

        _in_blocks(add, len(payloads), k)
        total[k] = len(payloads)
        return total

    # --- estimates ----------------------------------------------------------------------------------------------------

    @cached_property
    def chosen(self) -> Along:
        """The chosen direction along the vector."""
        return Along(self.choice)

    @property
    def gain(self) -> float:
        """Expected length of the chosen direction along the vector, in standard deviations."""
        return self.chosen.mean

    @property
    def along(self) -> float:
        """Second moment of the chosen direction along the vector; across it, 1."""
        return self.chosen.square

    def estimators(self, queries: Array) -> Array:
        """R, scaled so that R times the sum of directions is unbiased, and what each report adds."""
        R, c = decoded(queries, self.columns, self._inverse)
        return np.concatenate([R / (self.gain * UNIT), c], axis=1)

    def moments(self, queries: Array) -> Array:
        """Second moment of each query's estimator (row) under each value (column)."""
        R, c = decoded(queries, self.columns, self._inverse)
        along = queries - c  # of R on the vector of each value
        noise = (np.sum(R**2, axis=1, keepdims=True) + (self.along - 1) * along**2) / self.gain**2
        return noise + 2 * c * along + c**2

    def log_moments(self, queries: Array, t: Array) -> Array:
        """ln E e^(t error) of each query's estimator (row, with its own t) under each value (column).

        Along the vector the error has the tails of `Along`, across it those of a Gaussian.
        """
        R, c = decoded(queries, self.columns, self._inverse)
        return cap_log_moments(self.chosen, np.sum(R**2, axis=1, keepdims=True), queries - c, t[:, None])

    def influence(self, queries: Array) -> Array:
        """How far one report, however it was made, moves each answer at most."""
        h = np.abs(self.estimators(queries))
        return h[:, :-1].sum(axis=1) * largest() * UNIT + h[:, -1]

    # --- how well reports distinguish values
    # ---------------------------------------------------------------------------

    def promised_mu(self, epsilon: Fraction, delta: float) -> float:
        """The Gaussian privacy that follows from keeping epsilon, or from the odds where delta allows larger ones."""
        return pure_mu(max(float(epsilon), log(self.odds.ratio)) if delta else epsilon)

    def log_ratio(self, payloads: Payloads, one: int, other: int) -> Array:
        """Logarithm of the likelihood of each report under one value over that under another."""
        favoured = [self._favoured(payloads, value).astype(np.float64) for value in (one, other)]
        return (favoured[0] - favoured[1]) * log(self.odds.ratio)

    def _favoured(self, payloads: Payloads, value: int) -> npt.NDArray[np.bool_]:
        """Whether a value favours the direction that each report names."""
        seeds, out = _seeds(payloads), np.empty(len(payloads), dtype=bool)
        vector = self.columns[:, [value]].T.astype(np.float32, order="C")

        def fill(some: slice) -> None:
            order = self._order(seeds[some], np.repeat(vector, len(seeds[some]), axis=0))
            out[some] = (order == payloads[some, SEED][:, None]).argmax(axis=1) < self.choice.favoured

        _in_blocks(fill, len(payloads), len(self.columns) * self.choice.candidates // 2)
        return out


def _seeds(payloads: Payloads) -> Words:
    return np.ascontiguousarray(payloads[:, :SEED]).view("<u8")[:, 0].astype(np.uint64, copy=False)


def _in_blocks(work: Callable[[slice], None], count: int, entries: int) -> None:
    """Do the work of so many devices on all cores, with few entries at a time."""
    step = max(1, min(_BLOCK // entries, EXACT_ROWS))

    def run(low: int) -> None:
        for first in range(low, min(low + _BLOCKS * step, count), step):
            work(slice(first, min(first + step, count)))

    with one_blas_thread():
        across_cores(run, range(0, count, _BLOCKS * step))


def unit_columns(strategy: Array) -> Array:
    """Columns of length 1: one more row makes up for what is missing.

    >>> unit_columns(np.array([[1.0, 0.6]])).tolist()
    [[1.0, 0.6], [0.0, 0.8]]
    """
    squares = np.sum(strategy**2, axis=0)
    A, squares = strategy / sqrt(float(squares.max())), squares / squares.max()
    missing = np.sqrt(np.maximum(1 - squares, 0.0))
    if missing.max() > 1e-9:
        A = np.concatenate([A, missing[None]])
    return A / np.linalg.norm(A, axis=0)


def half_space(odds: Odds) -> Choice:
    """One direction and its opposite: a seed and a bit."""
    return Choice(2, 1, odds)


def cap(odds: Odds, candidates: int = CAP) -> Choice:
    """The number of favoured directions with the largest gain."""
    sums = [favoured_sum(candidates // 2, K, 1) for K in range(1, candidates // 2 + 1)]
    choices = [Choice(candidates, K, odds) for K in range(1, candidates // 2 + 1)]
    gains = [float(c.probability(True) - c.probability(False)) * s for c, s in zip(choices, sums, strict=True)]
    return choices[int(np.argmax(gains))]


def cap_log_moments(chosen: Along, squares: Array, along: Array, t: Array) -> Array:
    """ln E e^(t error) of a query with |R_q|^2 = `squares` that has `along` on the vector of a value."""
    u = t / chosen.mean
    result: Array = u**2 * ((squares - along**2) / 2 + along**2 * chosen.log_moments(u * along))
    return result
