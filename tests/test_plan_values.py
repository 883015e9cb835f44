"""Known numbers: papers' closed forms, our own figures, brute force."""

from math import sqrt

import numpy as np
import pytest
from numpy.testing import assert_allclose

import leastnoise as ln
from leastnoise.errors import LeastnoiseError
from leastnoise.theory import fourier_factorization
from leastnoise.workload import Workload
from tests.catalogue import extended_marginals, generator, ordered
from tests.laws import check_plan
from tests.oracles import extended, extended_max, least_sum, lemma_3_3, odd_sines, row_weights

BUDGET = ln.Budget(mu=1)
FORTY = ln.Domain.of({f"q{i}": range(10) for i in range(40)})


def wide(family: str, ways: int | list[int]) -> Workload:
    """Statements on 40 attributes of ten values; pairs of the non-product families come with one-way prefixes."""
    work = Workload(FORTY)
    if family in ("affine", "abs_diff"):
        return work.prefix(ways=1).add(family, ways=2)
    return work.add(family, ways=ways)


# With and without the baseline search


def test_two_prefix_attributes_of_size_ten():
    work = Workload(ordered(10, 10)).prefix(ways=[1, 2])
    plan, uniform = (ln.plan(work, BUDGET, baseline=p) for p in ("search", "uniform"))
    assert plan.rmse == pytest.approx(2.4491, abs=1e-4)
    assert uniform.rmse == pytest.approx(2.6123, abs=1e-4)
    assert plan.floor_value == pytest.approx(plan.rmse, rel=1e-3)
    check_plan(plan)


@pytest.mark.slow
def test_two_prefix_attributes_by_brute_force():
    work = Workload(ordered(6, 6)).prefix(ways=[1, 2])
    plan = ln.plan(work, BUDGET)
    W = plan.factorization().W
    assert plan.rmse**2 * plan.queries == pytest.approx(least_sum(W.T @ W), rel=1e-3)


@pytest.mark.parametrize(
    ("family", "uniform", "result"),
    [
        ("marginal", 23.48, 23.48),
        ("prefix", 33.69, 32.69),
        ("range", 41.08, 41.08),
        ("circular", 39.77, 39.77),
        ("affine", 28.01, 26.11),
        ("abs_diff", 30.10, 27.9),
    ],
)
def test_one_and_two_way_on_forty_attributes(family, uniform, result):
    plain, best = (ln.plan(wide(family, [1, 2]), BUDGET, baseline=p) for p in ("uniform", "search"))
    assert plain.rmse == pytest.approx(uniform, abs=0.005)
    assert best.rmse <= result + 0.005
    for plan in (plain, best):
        assert plan.gap <= 2e-5
        assert plan.floor_value <= plan.rmse


@pytest.mark.parametrize(("family", "rmse"), [("marginal", 23.48), ("prefix", 39.70), ("range", 41.36)])
def test_fourier_on_forty_attributes(family, rmse):
    assert ln.plan(wide(family, [1, 2]), BUDGET, solver="fourier").rmse == pytest.approx(rmse, abs=0.005)


def test_three_way_prefix_on_forty_attributes():
    plain, best = (ln.plan(wide("prefix", 3), BUDGET, baseline=p) for p in ("uniform", "search"))
    assert plain.rmse == pytest.approx(133.3, abs=0.05)
    assert best.rmse <= 127.3 + 0.05


# WFF


@pytest.mark.parametrize(("m", "d", "k"), [(2, 3, 1), (3, 4, 2), (5, 5, 5), (4, 10, 3), (10, 40, 2), (2, 100, 4)])
@pytest.mark.parametrize("solver", ["optimal", "fourier", "subtraction"])
def test_lemma_3_3(m, d, k, solver):
    domain = ln.Domain.of({f"x{i}": m for i in range(d)})
    plan = ln.plan(Workload(domain).marginals(ways=k), BUDGET, solver=solver)
    assert plan.rmse == pytest.approx(lemma_3_3(m, d, k), rel=1e-6)
    assert plan.max_std_error == pytest.approx(lemma_3_3(m, d, k), rel=1e-6)
    assert plan.floor_value == pytest.approx(plan.rmse, rel=1e-6)  # Theorem 5.8: no mechanism does better


@pytest.mark.parametrize("m", [2, 5, 16, 100])
def test_theorem_4_8_for_one_attribute(m):
    """Prefixes and suffixes on one attribute; the closed form has p = 1 spread over 2 m queries."""
    work = Workload(ordered(m)).prefix("a").suffix("a")
    plan = ln.plan(work, BUDGET, solver="embedding")
    assert plan.rmse == pytest.approx((1 + odd_sines(m)) / 2, rel=1e-6)
    assert plan.max_std_error == pytest.approx((1 + odd_sines(m)) / 2, rel=1e-6)


MIXES = {
    "one of each": ((3, 4), {0}, [(0,), (1,), (0, 1)]),
    "pairs of three": ((3, 2, 4), {0, 2}, [(0, 1), (0, 2), (1, 2)]),
    "categories alone": ((3, 4), set(), [(0,), (0, 1)]),
    "numbers alone": ((3, 4), {0, 1}, [(0, 1)]),
    "with the total": ((4, 3), {0}, [(), (0, 1)]),
}


@pytest.mark.parametrize("name", MIXES)
def test_theorem_4_8_for_mixes(name):
    """Every sign pattern of prefixes and suffixes on each set, categories by value; weights p(S) per set."""
    sizes, numerical, sets = MIXES[name]
    p = {S: 0.5 + len(S) for S in sets}
    plan = ln.plan(extended_marginals(sizes, numerical, p), BUDGET, solver="embedding")
    assert plan.value * sqrt(plan.queries) == pytest.approx(extended(sizes, numerical, p), rel=1e-6)
    check_plan(plan)


@pytest.mark.parametrize("name", MIXES)
def test_theorem_4_8_for_the_largest_error(name):
    """The same queries under `max`: the closed form at its best weights p*, by a convex solver."""
    sizes, numerical, sets = MIXES[name]
    work = extended_marginals(sizes, numerical, dict.fromkeys(sets, 1.0))
    plan = ln.plan(work, BUDGET, solver="embedding", objective="max")
    assert plan.max_std_error == pytest.approx(extended_max(sizes, numerical, sets), rel=1e-4)


def test_embedding_refuses_what_it_does_not_know():
    work = Workload(ordered(3, 3))
    for bad, text in (
        (work.prefix("a").ranges("a"), "solver 'embedding' knows marginal, prefix, suffix and threshold queries, not "
                                       "'range'; use solver 'fourier'"),
        (work.affine("a", "b"), "solver 'embedding' knows products only, not affine; use solver 'fourier'"),
    ):  # fmt: skip
        with pytest.raises(LeastnoiseError) as error:
            ln.plan(bad, BUDGET, solver="embedding")
        assert str(error.value) == text


CIRCULANT = {
    "marginals": Workload(ordered(3, 4)).marginals(ways=[1, 2]),
    "with the total": Workload(ordered(3, 2)).marginals(ways=[0, 2]),
    "weights": Workload(ordered(3, 4)).marginals("a", weight=3).marginals("a", "b"),
    "phi": Workload(ordered(4, 3)).add({"phi": [1, 1, 0.5, 0]}, on="a").marginals("a", "b", weight=0.5),
    "phi by set": Workload(ordered(4, 3))
    .add({"a": {"phi": [1, 1, 0, 0]}, "b": {"phi": generator(8).normal(size=3).tolist()}})
    .add({"a": {"phi": [1, 0, 0, 0]}}),
    "three": Workload(ordered(2, 3, 2)).marginals(ways=2),
}


@pytest.mark.parametrize("name", CIRCULANT)
def test_fourier_factorization(name):
    """W = L R with unit columns; the weighted squared norm of L is the optimum, and solver 'fourier' reaches it."""
    work = CIRCULANT[name]
    plan = ln.plan(work, BUDGET, solver="fourier")
    W, weights = plan.factorization().W, row_weights(work)
    L, R = fourier_factorization(work)
    assert_allclose(L @ R, W, atol=1e-10)
    assert_allclose(np.sum(np.abs(R) ** 2, axis=0), 1, rtol=1e-10)
    error = float(weights @ np.sum(np.abs(L) ** 2, axis=1))
    assert error == pytest.approx(plan.value**2 * plan.queries, rel=1e-9)
    assert error == pytest.approx(least_sum((W.T * weights) @ W), rel=1e-5)


def test_fourier_factorization_refuses_other_queries():
    with pytest.raises(
        LeastnoiseError, match=r"^WFF's factorization is for marginal and cyclic \(phi\) queries, and for prefix"
    ):
        fourier_factorization(Workload(ordered(3)).ranges("a"))
