"""Plan a local release: which tables devices report on, with which randomizer, chosen by computed variance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain
from math import prod

import numpy as np

from leastnoise._types import Array
from leastnoise.algebra.gram import Dense
from leastnoise.errors import LeastnoiseError
from leastnoise.local.ball import Ball, cap, half_space, unit_columns
from leastnoise.local.biased import for_devices, with_bias
from leastnoise.local.design import POPULATIONS, SPREAD, centred, design
from leastnoise.local.gauss import GaussianVectors, local_budget
from leastnoise.local.plan import SHARES, SPLIT, LocalPlan, Part, Seat, targets
from leastnoise.local.randomized_response import Odds, checked_epsilon
from leastnoise.local.randomizer import Randomizer
from leastnoise.local.subsets import Subsets
from leastnoise.local.tables import Queries, queries_of
from leastnoise.privacy import Budget
from leastnoise.strategies.norms import gamma_2
from leastnoise.strategies.optimal import solve_optimal
from leastnoise.workload import Workload

RANDOMIZERS = ("subsets", "half space", "cap", "gaussian")
LAYOUTS = ("whole", "tables", "residuals", SPLIT)
MOST_SUBSET_CELLS = 2048  # values up to which subsets are designed
MOST_CELLS = 12_000  # values of one table
WHOLE_CELLS = 256  # cells up to which all attributes together are tried as one table
GAP = 1e-3
GAIN = Fraction(1001, 1000)  # of the odds, from which on a delta is spent on them
LEAST_SPLIT = 1  # epsilon per table below which splitting never pays
WEAK = 1e-4  # of the strongest direction
WORST_WORK = 1.2e9  # multiplications of a product, up to which strategies are made for the worst query
SMALL_ROWS = 2**17  # entries up to which they are made to GAP
LARGE_GAP = 3e-3


def local_plan(
    workload: Workload,
    epsilon: float | Fraction,
    delta: float | None = None,
    *,
    bias: float = 0.0,
    devices: int | None = None,
    randomizer: str = "auto",
    layout: str = "auto",
    population: str = "any",
    seed: int = 0,
) -> LocalPlan:
    """The plan of least variance for the worst query at `epsilon` per device; a delta allows Gaussian noise, too, and
    larger odds of all other reports where that is noticeable.

    Variances count times the weights of the workload. With a `bias`, answers may be off by that share of the devices,
    beside less noise; with a number of `devices`, the bias is chosen that makes the widest interval narrowest, often 0.
    `population="spread"` plans for values that are about equally frequent, not for the worst data.

    >>> from leastnoise.domain.attributes import Domain
    >>> plan = local_plan(Workload(Domain.of(answer=["yes", "no"])).marginals(ways=1), 1)
    >>> plan.report_bytes, round(plan.worst_std_error**2, 4)
    (6, 0.9207)

    Guarantees: auto_is_the_best_of_its_choices; weights_of_rows_are_honoured.
    """
    _check_word("randomizer", randomizer, ("auto", *RANDOMIZERS))
    _check_word("layout", layout, ("auto", *LAYOUTS))
    _check_word("population", population, POPULATIONS)
    if randomizer == "gaussian" and delta is None:
        raise LeastnoiseError(
            "randomizer 'gaussian' needs a delta, because its epsilon alone is never enough; try 1e-9"
        )
    workload.domain.check_counted("a local plan")
    if workload.domain.restrictions:
        raise LeastnoiseError("devices do not know impossible cells or bounds; leave them out of the domain")
    settings = _Settings(workload, checked_epsilon(epsilon), delta, randomizer, population, seed)
    plan = settings.best(layout)
    if bias != 0 and devices is not None:
        raise LeastnoiseError("give a bias or a number of devices that chooses one, not both")
    if devices is not None:
        return for_devices(plan, devices, lambda tables: settings.plan_of(tables, plan.layout))
    return plan if bias == 0 else with_bias(plan, bias, lambda tables: settings.plan_of(tables, plan.layout))


@dataclass(frozen=True)
class _Settings:
    """What a plan is made from."""

    workload: Workload
    epsilon: Fraction
    delta: float | None
    randomizer: str
    population: str
    seed: int

    def best(self, layout: str) -> LocalPlan:
        """The best plan of a layout, or of all."""
        tables = list(queries_of(self.workload))
        if not any(any(q.pieces) for q in tables):
            raise LeastnoiseError(
                "the workload asks for nothing but the number of devices; add queries on an attribute"
            )
        names = _layouts(_varying(tables), self.epsilon) if layout == "auto" else [layout]
        plans = [self.plan_of(tables, name) for name in names]
        return min(plans, key=self.loss) if len(plans) > 1 else plans[0]

    def loss(self, plan: LocalPlan) -> float:
        """What planning makes small."""
        return plan.usual_std_error if self.population == SPREAD else plan.weighted_std_error

    def plan_of(self, tables: Sequence[Queries], layout: str) -> LocalPlan:
        """Randomizers for what is answered in these tables."""
        tables = _varying(tables)
        seats = _seats(tables, layout)
        times = len(seats) if layout == SPLIT else 1
        budget = None if self.delta is None else local_budget(self.epsilon / times, self.delta / times)
        maker = _Maker(self.epsilon / times, budget, self.randomizer, self.population, self.seed)
        parts = _parts(tables, seats, maker)
        pure = all(part.randomizer.keeps(self.epsilon / times, 0.0) for part in parts)
        return LocalPlan(self.workload, self.epsilon, 0.0 if pure else float(self.delta or 0), parts, layout)


def _varying(tables: Sequence[Queries]) -> list[Queries]:
    """Tables with a query that differs between records."""
    return [q for q in tables if any(q.pieces)]


def _check_word(what: str, word: str, words: Sequence[str]) -> None:
    if word not in words:
        raise LeastnoiseError(f"unknown {what} {word!r}; use one of {', '.join(map(repr, words))}")


# --- who reports on what ----------------------------------------------------------------------------------------------


def _layouts(tables: Sequence[Queries], epsilon: Fraction) -> list[str]:
    """Layouts worth trying."""
    sets = {q.attributes for q in tables}
    if len(sets) == 1:
        return ["whole"]
    sizes = {a: n for q in tables for a, n in zip(q.attributes, q.shape, strict=True)}
    whole = ["whole"] if prod(sizes.values()) <= WHOLE_CELLS else []
    split = [SPLIT] if epsilon >= LEAST_SPLIT * len(_seats(tables, SPLIT)) else []
    return [*whole, "tables", "residuals", *split]


def _seats(tables: Sequence[Queries], layout: str) -> list[Seat]:
    """Seats with equal shares."""
    sizes = {a: n for q in tables for a, n in zip(q.attributes, q.shape, strict=True)}
    if layout == "whole":
        sets = [tuple(sorted(sizes))]
    elif layout in ("tables", SPLIT):
        queries = sorted({q.attributes for q in tables}, key=len, reverse=True)
        sets = [s for i, s in enumerate(queries) if not any(set(s) < set(t) for t in queries[:i])]
    else:
        sets = sorted({a for q in tables for a in q.pieces if a}, key=lambda a: (len(a), a))
    for s in sets:
        if prod(sizes[a] for a in s) > MOST_CELLS:
            raise LeastnoiseError(
                f"a table of {prod(sizes[a] for a in s):,} cells is too large for devices to report on at once; "
                "use coarser values, fewer ways, or layout 'tables'"
            )
    shares = [SHARES] * len(sets) if layout == SPLIT else _whole_shares(np.ones(len(sets)))
    return [
        Seat(s, tuple(sizes[a] for a in s), share, (s,) if layout == "residuals" else None)
        for s, share in zip(sets, shares, strict=True)
    ]


def _whole_shares(weights: Array) -> list[int]:
    """Whole numbers in proportion to the weights that add up to SHARES."""
    shares = [max(int(w), 1) for w in weights / weights.sum() * SHARES]
    shares[int(np.argmax(shares))] += SHARES - sum(shares)
    return shares


def _parts(tables: Sequence[Queries], seats: Sequence[Seat], maker: _Maker) -> tuple[Part, ...]:
    """Randomizers for the seats, and shares in proportion to the root of the noise that each one adds."""
    rows = _requested(tables, seats)
    results = [maker.make(seat, rows[i]) for i, seat in enumerate(seats)]
    shares = [seat.share for seat in seats]
    if sum(shares) == SHARES and len(seats) > 1:
        weights = np.array([maker.loss(seat, rows[i]) ** 0.5 for i, seat in enumerate(seats)])
        shares = _whole_shares(np.maximum(weights, 1e-6 * weights.max()))
    return tuple(
        Part(seat.attributes, seat.shape, share, seat.carries, randomizer)
        for seat, share, randomizer in zip(seats, shares, results, strict=True)
    )


def _requested(tables: Sequence[Queries], seats: Sequence[Seat]) -> list[Array]:
    """Per seat: distinct rows needed by tables inside it or around it, times the root of their weights."""
    results: list[dict[bytes, Array]] = [{} for _ in seats]
    for q in tables:
        for i, rows in targets(seats, q).items():
            own, members = set(seats[i].attributes), set(q.attributes)
            if members <= own or own <= members:
                scaled = rows * np.sqrt(np.broadcast_to(q.weights, len(rows)))[:, None]
                results[i].setdefault(np.round(scaled, 10).tobytes(), scaled)
    return [_distinct(np.concatenate(list(f.values()))) for f in results]


def _distinct(rows: Array) -> Array:
    rows = rows[np.abs(rows).max(axis=1) > 1e-9 * np.abs(rows).max()]
    return np.unique(np.round(rows, 7), axis=0)  # in one order, so that like tables are seen to be alike


@dataclass
class _Maker:
    """Makes the best randomizer for rows over a table; like tables share theirs."""

    epsilon: Fraction
    budget: Budget | None
    wanted: str
    population: str
    seed: int
    randomizers: dict[bytes, Randomizer] = field(default_factory=dict)
    losses: dict[bytes, float] = field(default_factory=dict)

    def make(self, seat: Seat, rows: Array) -> Randomizer:
        """The randomizer of least variance for the worst row."""
        key = _key(seat, rows)
        if key not in self.randomizers:
            results = list(chain.from_iterable(self._candidates(name, seat, rows) for name in RANDOMIZERS))
            best = min(results, key=lambda r: self._value(r, rows)) if len(results) > 1 else results[0]
            self.randomizers[key] = best
        return self.randomizers[key]

    def _value(self, randomizer: Randomizer, rows: Array) -> float:
        moments = randomizer.moments(rows)
        return float((moments.mean(axis=1) if self.population == SPREAD else (moments - rows**2).max(axis=1)).max())

    def loss(self, seat: Seat, rows: Array) -> float:
        """Second moments of the rows' estimates, in sum."""
        key = _key(seat, rows)
        if key not in self.losses:
            self.losses[key] = float(self.make(seat, rows).moments(rows).max(axis=1).sum())
        return self.losses[key]

    def _candidates(self, name: str, seat: Seat, rows: Array) -> list[Randomizer]:
        if self.wanted not in ("auto", name):
            return []
        odds, cells = Odds.within(self.epsilon), prod(seat.shape)
        if name == "subsets":
            if cells > MOST_SUBSET_CELLS and self.wanted == name:
                raise LeastnoiseError(
                    f"{cells:,} values are too many for subsets; use randomizer 'cap' or coarser values"
                )
            if cells > MOST_SUBSET_CELLS:
                return []
            return [self._spending(design(rows, seat.shape, odds, self.seed, self.population))]
        if name == "gaussian":
            return [GaussianVectors.within(_reaching(_strategy(rows)), self.budget)] if self.budget is not None else []
        if self.wanted == "auto" and cells <= MOST_SUBSET_CELLS:
            return []  # subsets include half spaces, with a better estimate (docs/local.md)
        choice = half_space(odds) if name == "half space" else cap(odds)
        return [self._spending(Ball(unit_columns(_strategy(rows)), choice))]

    def _spending(self, pure: Subsets | Ball) -> Randomizer:
        """The randomizer with the odds that a delta allows, where they are noticeably larger."""
        if self.budget is None or self.budget.delta is None:
            return pure
        spending = pure.spending(self.epsilon, self.budget.delta)
        return spending if spending.odds.ratio > GAIN * pure.odds.ratio else pure


def _reaching(strategy: Array) -> Array:
    """A strategy with weak rows where it has none, so that its rounded rows still span the queries."""
    cells = strategy.shape[1]
    if len(strategy) >= cells - 1:
        return strategy
    w, u = np.linalg.eigh(strategy.T @ strategy)
    return (u * np.sqrt(np.maximum(w, 0) + WEAK * w[-1])) @ u.T


def _key(seat: Seat, rows: Array) -> bytes:
    """Equal for like tables with the same rows."""
    return repr(seat.shape).encode() + np.round(rows, 6).tobytes()


def _strategy(rows: Array) -> Array:
    """A strategy for the rows less their constants, which the number of reports gives: the best one for the worst row.

    Where that takes too long, the best one for the sum of all rows.
    """
    rows = centred(rows)
    if rows.size * min(rows.shape) <= WORST_WORK:
        return gamma_2(rows, gap=GAP if rows.size <= SMALL_ROWS else LARGE_GAP).A
    gram = Dense((rows.shape[1],), ("local", rows.tobytes()), lambda: rows.T @ rows)
    return solve_optimal(gram, GAP).strategy.matrix()
