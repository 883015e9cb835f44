"""Plans for a plain matrix of queries, without attributes: event logs, running totals, any linear system."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import ceil, sqrt
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array, IntArray, Progress
from leastnoise.domain.attributes import Attribute, Domain
from leastnoise.domain.groups import check_groups
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.gate import Counts
from leastnoise.mechanisms.matrix.names import (
    Items,
    Names,
    bias_text,
    checked_names,
    counted,
    places_of,
    too_large,
    unwrapped,
)
from leastnoise.mechanisms.matrix.release import MatrixRelease
from leastnoise.mechanisms.mechanism import CELL_BYTES, FILE_BYTES, Mechanism
from leastnoise.noise import RandomSource, rounded_gaussian
from leastnoise.noise.gaussian import LARGEST_VARIANCE
from leastnoise.planning.integer_plan import GRAIN, LEAST_DEVIATION, ROUNDED, sensitivity
from leastnoise.planning.summary import no_noise_needed, number, percent_above
from leastnoise.planning.variance import expected_largest_of
from leastnoise.privacy.budget import Budget
from leastnoise.privacy.cost import Cost, fraction_text
from leastnoise.privacy.gaussian import contrast
from leastnoise.release.answers import Bias, quantile
from leastnoise.release.statement import common_delta
from leastnoise.storage.archive import Arrays, digest_of, narrow
from leastnoise.strategies.differences import difference_floor
from leastnoise.strategies.integer import IntegerStrategy
from leastnoise.strategies.nearest import ROOM, Near, least_constants, nearest
from leastnoise.strategies.norms import gamma_r
from leastnoise.strategies.norms_checks import Weights, checked_matrix, checked_weights
from leastnoise.strategies.system import MOST_ENTRIES, MOST_ITEMS, Measured, System, is_lower
from leastnoise.strategies.toeplitz import Toeplitz
from leastnoise.workload import Block, Workload
from leastnoise.workload.families import Matrix, Prefix

DENSE_TOTALS = 1_024  # items up to which running totals get the optimal matrix
GAP = 1e-4
TOTAL = 128  # weight of the number of rows against what is measured, where it needs no privacy
LARGEST_ENTRY = 1e100  # of a matrix: sums of variances stay finite
Objective = Literal["sum", "max"]


@dataclass(frozen=True)
class RunningTotals:
    """All prefixes of a list of items: the number of events up to each time step."""

    items: int

    def __post_init__(self) -> None:
        whole = isinstance(self.items, int | np.integer) and not isinstance(self.items, bool)
        if not whole or self.items < 1:
            raise LeastnoiseError(f"running totals need a whole number of items, got {self.items!r}; give 1 or more")


def running_totals(items: int) -> RunningTotals:
    """The queries of continual counting, for `matrix_plan`: how many events there were up to each of `items` steps.

    >>> plan = matrix_plan(running_totals(4), Budget(mu=1), objective="max")
    >>> round(plan.max_std_error, 3)
    1.326
    """
    return RunningTotals(items)


@dataclass(frozen=True, eq=False)
class MatrixPlan(Mechanism[MatrixRelease]):
    """A matrix of queries, the integers that will be measured for it, and their noise. Nothing in it depends on data.

    Guarantees: cost_is_at_most_the_budget; standard_errors_match_a_simulation; floors_are_below_every_factorization.
    """

    method = "matrix"

    system: System
    budget: Budget
    objective: Objective
    variance: Fraction
    floor: float  # no factorization mechanism has a smaller value of the objective; 0 where none is known
    counted: Attribute  # the column of the data whose values are the items
    names: Names | None = None  # of the queries, where they have some
    requested: Array | None = None  # the queries, where those of the system are answered in their place, with a bias

    @property
    def worst_case_floor(self) -> float:
        """No mechanism of any kind with the same Gaussian privacy has a smaller value on all data (docs/theory.md).

        All data are counts without a bound: where counts are known to be small, less error may be possible. Answers
        with a bias have no such floor: their error grows with the rows.
        """
        if self.requested is not None:
            return 0.0
        return self.floor * self.budget.mu / contrast(self.budget.mu)

    @property
    def items(self) -> int:
        """Number of items: entries of the vector of counts."""
        return self.system.items

    @property
    def queries(self) -> int:
        """Number of queries."""
        return len(self.system.variances)

    @cached_property
    def domain(self) -> Domain:
        """The attribute that is counted: `item` with the values 0, 1, ... unless items were named."""
        return Domain((self.counted,))

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """The number of each query that has a name."""
        return {name: place for place, name in enumerate(self.names or ())}

    def places(self, queries: npt.ArrayLike) -> IntArray:
        """The numbers of some queries, from their numbers or their names."""
        return places_of(queries, self.queries, self.numbers)

    def row(self, place: int) -> Array:
        """The weights of a query, one per item."""
        if self.requested is not None:
            return self.requested[place]
        return self.answered(place)

    def answered(self, place: int) -> Array:
        """The weights that are answered in place of a query; the same where there is no bias."""
        if isinstance(self.system, Measured):
            return self.system.queries[place]
        return (np.arange(self.items) <= place).astype(np.float64)

    @cached_property
    def biases(self) -> Array:
        """How far the mean of each answer may be from its query, as a share of the rows."""
        if self.requested is None:
            return np.zeros(self.queries)
        assert isinstance(self.system, Measured)
        return np.asarray(np.abs(self.system.queries - self.requested).max(axis=1) + self.missed)

    @cached_property
    def missed(self) -> float:
        """What decoding may miss a query by, where it has a bias."""
        return 0.0 if self.requested is None else ROOM * float(np.abs(self.requested).max())

    @property
    def bias(self) -> float:
        """The largest of these."""
        return float(self.biases.max())

    def label(self, place: int) -> str:
        """What a query is called."""
        return str(place) if self.names is None else self.names[place]

    @cached_property
    def workload(self) -> Workload:
        """The queries."""
        rows = self.system.queries if isinstance(self.system, Measured) else None
        rows = rows if self.requested is None else self.requested
        family = Prefix() if rows is None else Matrix(rows, self.names)
        return Workload(self.domain, (Block((0,), 1, (family,), label=family.name),))

    @property
    def delta(self) -> float:
        """The delta at which epsilon is stated."""
        return common_delta([self.budget])

    @cached_property
    def fingerprint(self) -> str:
        """sha256 of all that decides what is measured."""
        return plan_digest(fraction_text(self.variance), self.counted.to_json(), self.arrays())

    def arrays(self) -> Arrays:
        """The matrices, as they are stored: of running totals over long horizons the first column alone."""
        if isinstance(self.system, Toeplitz):
            weights = self.system.weights
            return {"column": narrow(self.system.column)} | ({} if weights is None else {"weights": narrow(weights)})
        assert isinstance(self.system, Measured)
        answered, strategy = np.ascontiguousarray(self.system.queries, "<f8"), narrow(self.system.strategy)
        if self.requested is None:
            return {"queries": answered, "strategy": strategy}
        queries = np.ascontiguousarray(self.requested, "<f8")
        return {"queries": queries, "approximation": answered, "strategy": strategy}

    @cached_property
    def cost(self) -> Cost:
        """Exact privacy cost."""
        moved = Fraction(_moved(self.system, self.budget)) / self.variance
        return Cost(moved, self.budget.neighbours)

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise in each integer answer, its rounding included."""
        return sqrt(self.variance + ROUNDED)

    @cached_property
    def std_errors(self) -> Array:
        """Standard error of each query, whatever the data are; with a bias, of the ends between which the truth is."""
        if self.requested is None:
            return self.noise_std * np.sqrt(self.system.variances)
        total = self.system.reading_of(np.ones((1, self.items)))[0]
        coordinates = self.system.coordinates(np.arange(self.queries))
        return self.noise_std * Bias(self.biases, 0.0, total).std_errors(coordinates)

    @property
    def rmse(self) -> float:
        """Root of the mean variance."""
        return float(np.sqrt(np.mean(self.std_errors**2)))

    @property
    def max_std_error(self) -> float:
        """Largest standard error."""
        return float(self.std_errors.max())

    @property
    def value(self) -> float:
        """What was made small: the rmse or the largest standard error (both without weights)."""
        return self.rmse if self.objective == "sum" else self.max_std_error

    def half_width(self, rows: int, confidence: float = 0.95, simultaneous: bool = False) -> float:
        """Half of the widest interval of the queries, on so many rows: noise and bias.

        Guarantees: half_widths_of_a_plan_are_those_of_its_releases.
        """
        ends = 1 if self.requested is None else 2
        width = quantile(confidence, ends * self.queries if simultaneous else 1)
        return float((rows * self.biases + width * self.std_errors).max())

    def expected_largest(self, rows: int = 0) -> float:
        """The largest absolute error of all queries on so many rows is at most this in expectation.

        The mean of the largest of independent Gaussian numbers; others are no larger together (Sidak 1967). Without a
        bias the number of rows does not matter.

        Guarantees: expected_largest_bounds_a_simulation.
        """
        return rows * self.bias + expected_largest_of(self.std_errors)

    @property
    def streams(self) -> bool:
        """Whether each answer can be reported as soon as its item has come."""
        return self.requested is None and (not isinstance(self.system, Measured) or self.system.lower)

    def covariance(self, queries: npt.ArrayLike) -> Array:
        """Joint covariance of some queries, by their numbers or names."""
        rows = self.noise_std * self.system.coordinates(self.places(queries))
        return rows @ rows.T

    def measure(self, counts: Counts, random_source: RandomSource, progress: Progress | None = None) -> MatrixRelease:
        """Measure counts with fresh noise; `run` debits first."""
        (table,) = counts.tables([(0,)])
        exact = self.system.apply(table)
        published = exact + rounded_gaussian(random_source, self.variance, len(exact))
        published.flags.writeable = False
        return MatrixRelease(self, published, insecure=random_source.insecure)

    def room(self, tables: bool) -> int:
        """Bytes that a release needs on disk."""
        names = sum(6 * len(name) + 3 for name in self.names or ())  # as JSON escapes them at worst
        answers = 20 * max(self.items, self.queries)
        need = sum(array.nbytes for array in self.arrays().values()) + names + answers + FILE_BYTES
        need += len(json.dumps(self.counted.to_json()))
        return need + (2 * FILE_BYTES + CELL_BYTES * self.items if tables else 0)

    def to_json(self) -> dict[str, Any]:
        """The plan in numbers."""
        return {
            "queries": self.queries,
            "items": self.items,
            "counted": self.counted.name,
            "objective": self.objective,
            "rmse": self.rmse,
            "max_std_error": self.max_std_error,
            "floor": self.floor or None,
            "worst_case_floor": self.worst_case_floor or None,
            "streams": self.streams,
            "bias": self.bias or None,
            "privacy": self.cost.to_json(),
        }

    def __str__(self) -> str:
        above = ""
        if self.floor:
            away = percent_above(self.value / self.floor)
            near = "" if self.requested is None else " within the bias"
            above = f"; no factorization{near} is below {number(self.floor)}, which is {away} away"
        what = "rmse" if self.objective == "sum" else "largest standard error"
        return "\n".join(
            [
                f"{self.queries:,} queries on {self.items:,} items: rmse {number(self.rmse)}, "
                f"largest standard error {number(self.max_std_error)}",
                f"{what} {number(self.value)}{above}",
                f"answers {'can be given as the items come' if self.streams else 'need all items'}",
                *([] if self.requested is None else [bias_text(self.bias)]),
                f"privacy: {self.budget}",
            ]
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.queries:,} queries on {self.items:,} items; {self.cost}>"


def matrix_plan(
    queries: npt.ArrayLike | RunningTotals,
    budget: Budget,
    *,
    objective: Objective = "sum",
    weights: Weights = None,
    gap: float = GAP,
    items: Items | None = None,
    names: Sequence[str] | None = None,
    bias: float = 0.0,
) -> MatrixPlan:
    """The plan of least error for a matrix of queries: one row per query, one column per item that is counted.

    `objective` is the mean squared error ("sum", the norm gamma_F) or the largest standard error ("max", gamma_2);
    `weights` say how much each query counts in it. Lower-triangular queries can be answered as items come.

    `items` says which column of the data is counted and what its values are, such as {"page": ["home", "shop"]};
    `names` are those of the queries. A data frame brings both along: its columns and its index.

    With a `bias`, answers may be off by that share of the rows, whatever the data are, beside less noise: what is
    factorized is a matrix that differs from the queries by no more than that in any entry (ENU's approximate
    factorization mechanism). Standard errors and intervals count it; where it does not help, the plan has none.

    >>> from leastnoise.noise import SeededRandomSource
    >>> plan = matrix_plan([[1, 1, 0], [0, 1, 1]], Budget(epsilon=1, delta=1e-9))
    >>> release = plan.run([100, 200, 300], random_source=SeededRandomSource(1))
    >>> [round(x) for x in release.values]
    [290, 494]

    Guarantees: cost_is_at_most_the_budget; answers_are_unbiased; floors_are_below_every_factorization;
    biased_answers_are_within_the_bias; a_bias_never_adds_error.
    """
    if objective not in ("sum", "max"):
        raise LeastnoiseError(f"unknown objective {objective!r}; use 'sum' or 'max'")
    if not isinstance(budget, Budget):
        raise LeastnoiseError(f"a budget is needed, got {budget!r}; give Budget(epsilon=1, delta=1e-9)")
    if isinstance(queries, RunningTotals):
        attribute = counted(items, queries.items)
        if names is None and items is not None:  # a total is called by its last item
            names = [attribute.label(code) for code in range(attribute.size)]
        named = checked_names(names, queries.items)
        if queries.items > DENSE_TOTALS:
            if bias:
                raise LeastnoiseError(f"running totals of more than {DENSE_TOTALS:,} items have no bias; leave it out")
            return _long(queries, budget, objective, weights, attribute, named)
        W = np.tri(queries.items)
    else:
        given, items, names = unwrapped(queries, items, names)
        W = checked_matrix(given)
        attribute, named = counted(items, W.shape[1]), checked_names(names, len(W))
    if W.shape[1] > MOST_ITEMS or W.size > MOST_ENTRIES:
        raise too_large(*W.shape)
    if np.abs(W).max() > LARGEST_ENTRY:
        raise LeastnoiseError(f"the queries have entries beyond {LARGEST_ENTRY:g}, too large for floats; divide them")
    check_groups(budget.neighbours.one_per, Domain((attribute,)))
    if budget.neighbours.size == "known" and not np.ptp(W, axis=1).any():
        raise no_noise_needed()
    (w,) = checked_weights(weights, [W])
    free = budget.neighbours.squared_sensitivity(1, 0) == 0  # columns count by their differences alone
    if bias != 0:
        _check_bias(W, bias, free)
    r = 1.0 if objective == "sum" else np.inf
    norm = gamma_r(W, r=r, weights=w, gap=gap)
    start = least_constants(W, norm, r, w, gap) if free and not is_lower(W) else Near.of(W, norm, free)
    system = _system(W, norm.A) if start.queries is W else Measured.rounded(W, start.strategy, TOTAL)
    low = norm.lower if budget.neighbours.change == "add-remove" else difference_floor([W], norm)
    floor = budget.neighbours.alike * low / budget.mu if (w == 1).all() else 0.0
    each = _per_query(floor, objective, len(W))
    plan = MatrixPlan(system, budget, objective, _variance(system, budget), each, attribute, named)
    if bias == 0:
        return plan
    return _with_bias(plan, W, w, nearest(W, bias, start, r, w, gap))


def _with_bias(plan: MatrixPlan, W: Array, weights: Array, near: Near) -> MatrixPlan:
    """The plan with queries within a bias in place of its own, if that has less error.

    The bias is a share of the rows, so their number is measured, too. Where a row replaces another that is free.
    Otherwise, against columns of length 1, a row of weight t^2 = d / r costs as much as it helps: ends of the true
    answer have the squared error (1 + t^2) (r^2 + d^2 / t^2), which is least there, (r + d)^2.
    """
    neighbours = plan.budget.neighbours
    off, error = float(np.abs(near.queries - W).max()), _per_query(near.norm, plan.objective, len(W))
    system = Measured.rounded(near.queries, near.strategy, TOTAL if near.free else sqrt(off / error))
    floor = neighbours.alike * near.lower / plan.budget.mu if neighbours.change == "add-remove" else 0.0
    other = replace(plan, system=system, variance=_variance(system, plan.budget), floor=floor, requested=W)
    return min(
        plan,
        other,
        key=lambda p: float(np.linalg.norm(weights * p.std_errors**2, 1 if plan.objective == "sum" else np.inf)),
    )


def _check_bias(W: Array, bias: float, free: bool) -> None:
    if not (isinstance(bias, int | float | np.number) and not isinstance(bias, bool) and 0 < bias < np.inf):
        raise LeastnoiseError(f"bias {bias!r} is not a share of the rows; use a number above 0, such as 0.01")
    least = float(np.ptp(W, axis=1).max()) / 2 if free else float(np.abs(W).max())
    if bias >= least:
        raise LeastnoiseError(
            f"at a bias of {bias:g} no data is needed, because {'constants' if free else 'answers of 0'} are within "
            f"{least:g} of every query per row; use a smaller bias"
        )


def _long(
    totals: RunningTotals,
    budget: Budget,
    objective: Objective,
    weights: Weights,
    attribute: Attribute,
    names: Names | None,
) -> MatrixPlan:
    """Running totals too long for a matrix; the floor is that of the trace norm, which has a closed form."""
    if weights is not None:
        raise LeastnoiseError(f"running totals of more than {DENSE_TOTALS:,} items have no weights; leave them out")
    check_groups(budget.neighbours.one_per, Domain((attribute,)))
    n = totals.items
    singular = 0.5 / np.sin(np.pi * (2 * np.arange(1, n + 1) - 1) / (2 * (2 * n + 1)))  # of the matrix of prefixes
    low = float(singular.sum()) / n  # of gamma_2, and of gamma_F over the root of the number of queries
    known = budget.neighbours.change == "add-remove"
    floor = budget.neighbours.alike * low / budget.mu if known else 0.0
    systems = [Toeplitz.balanced(n)] + ([Toeplitz.root(n)] if _patterned(budget) else [])
    plans = [MatrixPlan(s, budget, objective, _variance(s, budget), floor, attribute, names) for s in systems]
    return min(plans, key=lambda plan: plan.value)


def plan_digest(variance: str, counted: dict[str, Any], arrays: Arrays) -> str:
    """sha256 of what decides what is measured."""
    return digest_of({"variance": variance, "counted": counted}, arrays)


def _per_query(floor: float, objective: Objective, queries: int) -> float:
    return floor / sqrt(queries) if objective == "sum" else floor


def _system(W: Array, A: Array) -> Measured:
    if is_lower(W):
        with suppress(np.linalg.LinAlgError):  # not of full rank within rounding
            return Measured.triangular(W, A)
    return Measured.rounded(W, A)


def _moved(measured: System, budget: Budget) -> int:
    """Squared sensitivity of the integers to one person.

    Events of a person at different items are a pattern (strategies/patterns.py). Where some replace others, the two
    patterns are at most as far apart as twice the farthest, or 2^1/2 times where no two columns point apart.

    Guarantees: patterns_are_never_below_brute_force.
    """
    matrix, hides = measured, budget.neighbours
    # it asks for the two squared lengths, which systems have
    usual = sensitivity(cast(IntegerStrategy, measured), budget)
    if not _patterned(budget):
        return usual
    moved, apart = matrix.pattern_square(hides.rows, hides.min_separation or 1)
    return min(usual, moved if hides.change == "add-remove" else (4 if apart else 2) * moved)


def _patterned(budget: Budget) -> bool:
    """Whether events of a person are at different items."""
    return bool(budget.neighbours.one_per) or budget.neighbours.min_separation is not None


def _variance(system: System, budget: Budget) -> Fraction:
    """The least noise that costs no more than the budget, exactly."""
    moved = _moved(system, budget)
    if not moved:
        raise no_noise_needed()
    variance = Fraction(ceil(moved / budget.exact_cost * GRAIN), GRAIN)
    if variance > LARGEST_VARIANCE:
        raise LeastnoiseError(f"mu {budget.mu:.3g} needs noise beyond 1e16, which cannot be drawn; use a larger budget")
    if variance < LEAST_DEVIATION**2:
        raise LeastnoiseError(f"mu {budget.mu:.3g} leaves hardly any noise; use a smaller budget")
    return variance
