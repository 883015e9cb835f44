"""Patterns of events of one person: the largest squared distance, against all patterns there are."""

import json
from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.domain.tree import Tree
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.adaptive import adaptive_plan
from leastnoise.mechanisms.tree import tree_plan
from leastnoise.noise import SeededRandomSource
from leastnoise.privacy import Budget
from leastnoise.strategies.patterns import MOST_PRODUCTS, most_events, pattern_bound, shifted_squares, weighted_shifts
from leastnoise.strategies.toeplitz import Toeplitz
from tests.refusals import refusal


def patterns(steps: int, events: int, apart: int) -> list[tuple[int, ...]]:
    sets = [s for k in range(events + 1) for s in combinations(range(steps), k)]
    return [s for s in sets if all(b - a >= apart for a, b in pairwise(s))]


def farthest(B: np.ndarray, events: int, apart: int, change: str = "add-remove") -> int:
    """The largest squared distance of two neighbours, over all pairs of people."""
    B = B.astype(object)
    people = [
        B[:, list(s)].sum(axis=1) if s else np.zeros(len(B), dtype=object) for s in patterns(B.shape[1], events, apart)
    ]
    others = people if change == "replace" else [people[0]]
    return max(int(((x - y) ** 2).sum()) for x in people for y in others)


@pytest.mark.parametrize("apart", [1, 2, 4])
@pytest.mark.parametrize("events", [1, 2, 3, 9])
def test_patterns_are_never_below_brute_force(rng, events, apart):
    for negative in (False, True):
        B = rng.integers(-9 if negative else 0, 10, (6, 8))
        truth, bound = farthest(B, events, apart), pattern_bound(B.T @ B, events, apart)
        assert truth <= bound
        if not negative:
            assert bound <= 1.25 * truth


def test_sums_that_are_alone_are_exact(rng):
    """Without inner products the bound is the sum itself."""
    for apart in (1, 2, 3):
        squares = rng.integers(0, 50, 9)
        exact = max(sum(int(squares[i]) for i in s) for s in patterns(9, 3, apart))
        assert pattern_bound(np.diag(squares), 3, apart) == exact


@pytest.mark.parametrize("apart", [1, 3])
@pytest.mark.parametrize("events", [2, 4])
def test_falling_columns_are_exact(events, apart):
    column = np.array([9, 5, 4, 4, 2, 1, 0, 0, 0])
    B = np.array([[column[i - j] if i >= j else 0 for j in range(9)] for i in range(9)])
    assert shifted_squares(column, events, apart) == farthest(B, events, apart)
    assert shifted_squares(column[::-1], events, apart) is None
    assert shifted_squares(-column, events, apart) is None


@pytest.mark.parametrize("apart", [1, 2, 4])
@pytest.mark.parametrize("events", [1, 2, 3, 9])
def test_weighted_rows_are_never_below_brute_force(rng, events, apart):
    """Exact with equal weights; with any others at least the truth, and close to it where they rise as planned ones."""
    balanced = Toeplitz.balanced(9)
    for weights in (np.ones(9, dtype=np.int64), balanced.weights, rng.integers(1, 9, 9)):
        B = np.array([[balanced.column[i - j] if i >= j else 0 for j in range(9)] for i in range(9)])
        truth = farthest(weights[:, None] * B, events, apart)
        moved, negative = Toeplitz(balanced.column, weights).pattern_square(events, apart)
        assert truth <= moved
        assert not negative
        if weights is balanced.weights:
            assert moved <= 1.1 * truth
        if (weights == 1).all():
            assert moved == truth


def test_many_events_are_counted_in_groups():
    """More events than products of series: not below the worst of the patterns that are tried, nor far above."""
    system = Toeplitz.balanced(200)
    events = 2 * MOST_PRODUCTS + 3
    B = [[int(system.weights[i]) * int(system.column[i - j]) if i >= j else 0 for j in range(200)] for i in range(200)]
    B = np.array(B, dtype=object)
    tried = [B[:, start : start + 5 * events : 5].sum(axis=1) for start in range(200 - 5 * events + 1)]
    truth = max(int(x @ x) for x in tried)
    assert truth <= weighted_shifts(system.column, system.weights, events, 5) <= 1.3 * truth


def test_large_columns_are_summed_exactly():
    column = np.array([2**33, 2**32, 5])
    exact = (2**33) ** 2 + (2**32 + 2**33) ** 2 + (5 + 2**32) ** 2
    assert shifted_squares(column, 2, 1) == exact


def test_eight_events_in_1024_steps():
    """The distance that is charged, in units of the first entry of the root of running totals."""
    system = Toeplitz.root(1024)
    first = int(system.column[0])
    assert 8 * system.largest_square**0.5 / first == pytest.approx(14.47, abs=0.005)
    moved, negative = system.pattern_square(8, 128)
    assert moved**0.5 / first == pytest.approx(7.58, abs=0.005)
    assert not negative
    starts = [np.concatenate([np.zeros(t, dtype=np.int64), system.column[: 1024 - t]]) for t in range(0, 1024, 128)]
    assert moved == int((np.sum(starts, axis=0).astype(object) ** 2).sum())


@pytest.mark.parametrize("change", ["add-remove", "replace"])
@pytest.mark.parametrize(("hides", "apart"), [({"min_separation": 3}, 3), ({"one_per": ["item"]}, 1)])
@pytest.mark.parametrize(
    "queries", [np.tri(7), np.array([[1, -2, 0, 3], [2, 2, -1, 0], [0, 1, 1, 1]])], ids=["totals", "any"]
)
def test_matrices_cost_no_less_than_their_worst_person(queries, hides, apart, change):
    plan = ln.matrix_plan(queries, Budget(mu=1, rows_per_person=3, neighbours=change, **hides))
    truth = Fraction(farthest(plan.system.strategy, 3, apart, change)) / plan.variance
    assert truth <= plan.cost.mu_squared <= 1
    without = ln.matrix_plan(queries, Budget(mu=1, rows_per_person=3, neighbours=change))
    assert plan.rmse <= without.rmse * (1 + 1e-9)
    assert plan.floor <= plan.value
    if change == "add-remove" and queries.shape == (7, 7):
        assert plan.cost.mu_squared <= 1.05 * float(truth)


def test_long_streams_have_patterns():
    apart = ln.stream_plan(ln.running_totals(3000), Budget(mu=1, rows_per_person=5, min_separation=400))
    alike = ln.stream_plan(ln.running_totals(3000), Budget(mu=1, rows_per_person=5))
    assert apart.max_std_error < 0.63 * alike.max_std_error
    assert apart.floor <= apart.value
    assert apart.cost.mu_squared <= 1
    root = Toeplitz.root(3000)
    alone = np.sqrt(root.pattern_square(5, 400)[0] * root.variances.mean())
    assert apart.rmse <= 1.001 * alone


def test_no_more_events_than_fit():
    assert [most_events(10, k, m) for k, m in ((3, 1), (50, 1), (50, 3), (50, 9), (50, 10))] == [3, 10, 4, 2, 1]


def test_statements_say_what_is_vouched_for(tmp_path):
    plan = ln.stream_plan(ln.running_totals(6), Budget(mu=1, rows_per_person=2, min_separation=3))
    stream = ln.mechanisms.Stream(plan, random_source=SeededRandomSource(1))
    for count in range(6):
        stream.add(count)
    release = stream.close(tmp_path / "out")
    text = "nobody has more than 2 rows, or two within 3 steps, was not checked"
    assert text in release.privacy.statement
    assert "one person with at most 2 rows, at least 3 steps apart" in release.privacy.statement
    again = ln.Release.load(tmp_path / "out")
    assert again.cost == release.cost
    assert json.loads((tmp_path / "out" / "release.json").read_text())["privacy"]["min_separation"] == 3


def test_what_makes_no_use_of_patterns_refuses_them():
    work = ln.Workload(ln.Domain.of(a=4)).marginals("a")
    apart, grouped = Budget(mu=1, rows_per_person=2, min_separation=3), Budget(mu=1, rows_per_person=2, one_per=["a"])
    text = "min_separation is for streams and matrices; use one_per with tables, or leave it out"
    assert refusal(lambda: ln.plan(work, apart)) == text
    text = "one_per names 'a', which is no attribute (item); name attributes"
    assert refusal(lambda: ln.matrix_plan(np.tri(3), grouped)) == text
    text = "an adaptive plan makes no use of one_per; leave it out, or use a plan of tables or a matrix"
    assert refusal(lambda: adaptive_plan(work, grouped)) == text
    text = "a tree makes no use of min_separation; leave it out, or use a plan of tables or a matrix"
    assert refusal(lambda: tree_plan({"a": Tree.binary(2)}, budget=apart)) == text
    plan = ln.matrix_plan(np.tri(3), Budget(mu=1, rows_per_person=2, min_separation=2))
    with pytest.raises(LeastnoiseError, match="the unit does not keep rows of a person apart"):
        plan.run({"item": [0, 1], "who": [1, 1]}, unit={"id": "who", "max_rows": 2})
