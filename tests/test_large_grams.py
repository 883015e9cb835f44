"""Grams of many cells, solved by blocks: the optimum of small ones, and what large ones take."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import leastnoise as ln
from leastnoise.algebra.gram import Dense, Gram, Kron, Sum
from leastnoise.planning.request import clear_cache
from leastnoise.strategies import large, solvers
from leastnoise.strategies.large import solve_large
from leastnoise.strategies.optimal import solve_optimal
from tests.catalogue import PROBLEMS, factor, generator
from tests.oracles import SDP, dense_error, least_sum
from tests.test_loosened import sum_of

GAP = 1e-6


@pytest.mark.parametrize("name", PROBLEMS)
def test_large_grams_have_the_same_optimum(name):
    """The way for many cells on few, against a semidefinite program."""
    gram = PROBLEMS[name].gram
    found, best = solve_large(gram, GAP), least_sum(gram.dense())
    assert found.floor <= best * (1 + SDP)
    assert best * (1 - SDP) <= found.error <= found.floor * (1 + GAP)
    B = found.strategy.matrix()
    assert found.error == pytest.approx(dense_error(gram.dense(), B), rel=1e-7)
    assert np.sum(B**2, axis=0).max() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("pair", [("marginal", "prefix"), ("range", "prefix")], ids="-".join)
@pytest.mark.parametrize("sizes", [(8, 9), (7, 7)], ids=str)
def test_blocks_find_what_the_whole_finds(pair, sizes):
    """Strategy, weights and slope, too."""
    gram = sum_of(("marginal", "prefix"), pair, sizes)
    found, known = solve_large(gram, GAP), solve_optimal(gram, GAP)
    assert found.error == pytest.approx(known.error, rel=2 * GAP)
    assert_allclose(found.strategy.inverse(), known.strategy.inverse(), rtol=0.02, atol=1e-2)
    B, inverse = found.strategy.matrix(), found.strategy.pseudo_inverse
    assert_allclose(B @ inverse, np.eye(len(B)), atol=1e-9)
    assert found.slope is not None
    assert known.slope is not None
    assert found.slope.error(gram) == pytest.approx(found.floor, rel=1e-6)  # tr(X G) = t^2
    other = sum_of(("range", "marginal"), pair, sizes)
    assert found.slope.error(other) == pytest.approx(known.slope.error(other), rel=2e-3)
    assert found.dual is not None
    scaled = gram.dense() * np.sqrt(np.outer(found.dual, found.dual))
    assert found.floor == pytest.approx(np.sqrt(np.maximum(np.linalg.eigvalsh(scaled), 0)).sum() ** 2, rel=1e-6)


def test_a_start_saves_steps():
    """The better of two is taken; one of another size is not for this Gram."""
    gram = sum_of(("marginal", "prefix"), ("marginal", "range"), (9, 8))
    cold = solve_large(gram, GAP)
    assert cold.dual is not None
    bad = generator(1).random(72) ** 4
    assert solve_large(gram, GAP, cold.dual).steps == 1
    assert solve_large(gram, GAP, bad / bad.sum(), cold.dual).steps == 2
    assert solve_large(gram, GAP, np.ones(3)).steps == cold.steps


def test_the_first_step_is_that_of_the_fixed_point():
    """A step of length 1, as it was, takes steps back: they are fewer in each of these cases."""
    gram = sum_of(("marginal", "prefix"), ("prefix", "marginal"), (10, 10))
    start = solve_optimal(gram, 1e-2).dual
    assert start is not None
    assert solve_large(gram, 1e-4, start).steps < solve_optimal(gram, 1e-4, start).steps


def test_few_rows_are_decomposed_row_by_row(monkeypatch):
    rows = generator(3).normal(size=(4, 12))
    gram = Dense((12,), ("few",), lambda: rows.T @ rows)
    called: list[Gram] = []
    monkeypatch.setattr(large, "solve_optimal", lambda g, *a: called.append(g) or solve_optimal(g, *a))
    assert solve_large(gram, GAP).error == pytest.approx(solve_optimal(gram, GAP).error, rel=2 * GAP)
    assert called == [gram]


def test_blocks_are_half_as_large():
    """What a step costs falls with the third power of its blocks: 16 times for four, 4 times for two."""
    whole = sum_of(("marginal", "prefix"), ("marginal", "range"), (10, 10))
    skewed = Sum(
        tuple(
            (c, Kron(tuple(factor(f, 10, skew=True) for f in pair)))
            for c, pair in ((1.0, ("prefix",) * 2), (9.0, ("marginal",) * 2))
        )
    )
    sizes = {
        name: [len(p.gram) for p in large._search(g, GAP)[0].parts] for name, g in (("even", whole), ("skewed", skewed))
    }
    assert sizes == {"even": [25] * 4, "skewed": [55, 45]}


@pytest.fixture
def everything_is_large(monkeypatch):
    """Ten cells count as many."""
    monkeypatch.setattr(solvers, "LARGE_CELLS", 10)
    clear_cache()
    yield
    clear_cache()


@pytest.mark.usefixtures("everything_is_large")
@pytest.mark.parametrize("baseline", ["uniform", "search"])
def test_plans_of_large_residuals_are_as_good(baseline):
    """Prefixes and tables on a pair: error, floor and integers of a plan that is solved by blocks."""
    work = (
        ln.Workload(ln.Domain.of(a=range(6), b=range(6)))
        .add({"a": "prefix", "b": "prefix"})
        .marginals("a", "b", weight=3)
    )
    plan = ln.plan(work, ln.Budget(mu=1), baseline=baseline)
    clear_cache()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solvers, "LARGE_CELLS", 1_000)
        known = ln.plan(work, ln.Budget(mu=1), baseline=baseline)
    assert plan.rmse == pytest.approx(known.rmse, rel=1e-5)
    assert plan.gap < 1e-5
    assert plan.integer_plan.rmse == pytest.approx(plan.rmse, rel=1e-3)


@pytest.mark.slow
def test_marginals_and_ranges_of_1_600_cells():
    gram = sum_of(("marginal", "range"), ("marginal", "range"), (40, 40))
    found = solve_large(gram, 1e-5)
    assert found.error <= found.floor * (1 + 1e-5)
    assert found.error == pytest.approx(dense_error(gram.dense(), found.strategy.matrix()), rel=1e-6)
