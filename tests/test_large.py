"""Large attributes: closed forms carry to a million values, and what cannot fit says so."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import leastnoise as ln
from leastnoise.errors import LeastnoiseError
from leastnoise.noise import SeededRandomSource
from leastnoise.planning import variance
from leastnoise.planning.factorization import workload_matrix
from leastnoise.planning.request import clear_cache
from leastnoise.planning.variance import interval_variances, largest_sum_of_products, pareto
from leastnoise.strategies import CirculantStrategy
from leastnoise.workload import Workload
from tests.catalogue import generator, ordered
from tests.oracles import even_sines
from tests.work import traced_memory

BUDGET = ln.Budget(mu=1)
MILLION = 10**6
ROUNDING = 1e-12  # relative, of sums of a million numbers


def one(n: int, family: str) -> Workload:
    return Workload(ln.Domain.of(a=ln.sized(n, ordered=True))).add(family, on="a")


# A million values


@pytest.mark.long
@pytest.mark.parametrize("family", ["prefix", "suffix", "range", "circular", "marginal"])
def test_a_million_values_are_planned_in_a_few_arrays(family):
    with traced_memory() as work:
        plan = ln.plan(one(MILLION, family), BUDGET, solver="fourier")
        assert plan.rmse <= plan.max_std_error * (1 + ROUNDING)
        assert plan.floor_value <= plan.rmse
    assert work.peak < 25 * 8 * MILLION
    assert plan.queries == {"range": MILLION * (MILLION + 1) // 2, "circular": MILLION**2}.get(family, MILLION)


def test_prefixes_of_a_million_values_in_closed_form():
    """Total and rest: mean square (n+1)(2n+1)/6n and the Fourier error n zeta^2 / 2, whose roots add."""
    n = MILLION
    total = (n + 1) * (2 * n + 1) / (6 * n)
    expected = np.sqrt(total) + np.sqrt(n / 2) * even_sines_fast(n)
    assert ln.plan(one(n, "prefix"), BUDGET, solver="fourier").rmse == pytest.approx(expected / np.sqrt(n), rel=1e-9)


def even_sines_fast(n: int) -> float:
    return float(np.sum(1 / np.sin(np.pi * np.arange(1, n) / n))) / n


def test_the_fast_sum_is_the_sum():
    assert even_sines_fast(50) == pytest.approx(even_sines(50), rel=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("family", ["prefix", "range"])
def test_variances_of_a_million_values_match_single_queries(family):
    """Variances by length, from running sums of the kernel, against the Fourier transform of whole queries."""
    plan = ln.plan(one(MILLION, family), BUDGET, solver="fourier")
    (variances,) = plan.group_variances(0).values()
    for length in (1, 2, 1000, MILLION // 3, MILLION // 2, MILLION - 1, MILLION):
        query = (np.arange(MILLION) < length).astype(float)
        assert plan.variance("a", query) == pytest.approx(variances[length - 1], rel=1e-6), length


@pytest.mark.parametrize("family", ["prefix", "range", "circular"])
def test_lengths_stand_for_all_queries(family, monkeypatch):
    """The path of large attributes on a small one: the same errors as listing every row."""
    n = 40
    listed = ln.plan(one(n, family), BUDGET, solver="fourier")
    rows, sums, top = listed.variances, listed.rmse, listed.max_std_error
    by_rows = np.sort(np.concatenate(list(listed.group_variances(0).values())))
    monkeypatch.setattr(variance, "DENSE_LIMIT", 8)
    short = ln.plan(one(n, family), BUDGET, solver="fourier")
    fresh = variance.Variances(short.design, short.noise_variances)
    (table,) = short.design.structure.tables
    v, counts = (np.concatenate(x) for x in zip(*fresh.blocks_of(table), strict=True))
    assert len(v) == n
    assert_allclose(np.sort(np.repeat(v, counts.astype(int))), by_rows, rtol=1e-9)
    assert fresh.table_maximum(table) == pytest.approx(top**2, rel=1e-9)
    assert rows is not fresh
    assert sums == pytest.approx(np.sqrt(by_rows.mean()), rel=1e-9)


@pytest.mark.parametrize("family", ["prefix", "suffix", "threshold"])
@pytest.mark.parametrize("objective", ["max", {"lr": 2}], ids=str)
def test_lengths_are_weighed_as_their_rows(family, objective, monkeypatch):
    """Every query has a multiplier of its own under these objectives: large attributes end where small ones do."""
    work = one(12, family).marginals("a", weight=3)
    listed = ln.plan(work, BUDGET, solver="fourier", objective=objective)
    clear_cache()
    monkeypatch.setattr(variance, "DENSE_LIMIT", 8)
    short = ln.plan(work, BUDGET, solver="fourier", objective=objective)
    assert short is not listed
    assert (short.value, short.class_floor) == pytest.approx((listed.value, listed.class_floor), rel=1e-6)


@given(n=st.integers(1, 30), seed=st.integers(0, 99))
def test_interval_variances_are_those_of_the_rows(n, seed):
    """Every arc of the cycle, from every start, has the variance of its length."""
    strategy = CirculantStrategy(np.abs(np.fft.fft(generator(seed).normal(size=n))) ** 2 + 0.1)
    lengths = np.arange(1, n + 1)
    values = interval_variances(strategy.eigenvalues, lengths.astype(float))
    for start in {0, n // 2}:
        rows = ((np.arange(n) - start) % n < lengths[:, None]).astype(float)
        assert_allclose(values, strategy.variances(rows), rtol=1e-8, atol=1e-10)


def test_two_large_attributes():
    """Two attributes of 5,000 values: 25 million cells, nothing of that size is listed per query."""
    domain = ln.Domain.of(a=ln.sized(5_000, ordered=True), b=ln.sized(4_000, ordered=True))
    plan = ln.plan(Workload(domain).prefix(ways=[1, 2]), BUDGET, solver="fourier")
    small = ln.Domain.of(a=ln.sized(50, ordered=True), b=ln.sized(40, ordered=True))
    twin = ln.plan(Workload(small).prefix(ways=[1, 2]), BUDGET, solver="fourier")
    assert twin.rmse < plan.rmse < plan.max_std_error
    assert plan.queries == 9_000 + 20_000_000


# Largest variance without listing


@given(rows=st.integers(1, 40), columns=st.integers(1, 4), seed=st.integers(0, 99))
def test_pareto_front_holds_every_maximum(rows, columns, seed):
    rng = generator(seed)
    features = rng.integers(0, 5, (rows, columns)).astype(float)
    front = pareto(features)
    assert len(set(front.tolist())) == len(front)
    for _ in range(5):
        weights = rng.random(columns)
        assert (features[front] @ weights).max() == pytest.approx((features @ weights).max(), rel=1e-15)
    for i in front:  # none is dominated by another of the front
        others = np.delete(front, np.flatnonzero(front == i))
        assert not any((features[j] >= features[i]).all() for j in others)


@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4), terms=st.integers(1, 4), seed=st.integers(0, 99))
def test_largest_sum_of_products_is_the_largest_entry(sizes, terms, seed):
    rng = generator(seed)
    c, vectors = rng.random(terms), [rng.random((terms, n)) for n in sizes]
    tensor = np.zeros(tuple(sizes))
    for t in range(terms):
        part = np.array(c[t])
        for v in vectors:
            part = np.multiply.outer(part, v[t])
        tensor += part
    assert largest_sum_of_products(c, vectors) == pytest.approx(float(tensor.max()), rel=1e-12)


@pytest.mark.parametrize("family", ["marginal", "circular"])
def test_circulant_queries_have_a_closed_form_that_is_the_optimum(family):
    dense = ln.plan(one(60, family), BUDGET, solver="eigen")  # optimal too, by another way
    plan = ln.plan(one(60, family), BUDGET)
    assert plan.rmse == pytest.approx(dense.rmse, rel=1e-9)
    assert plan.gap == 0
    assert plan.baseline == "uniform"


@pytest.mark.long
def test_a_table_of_a_million_values_is_planned_and_released():
    plan = ln.plan(one(MILLION, "marginal"), BUDGET)
    assert plan.rmse == pytest.approx(1 / BUDGET.mu, rel=1e-9)
    assert plan.gap == 0
    counts = np.zeros(MILLION, dtype=np.int64)
    counts[7] = 10**6
    release = plan.run(counts, random_source=SeededRandomSource(3))
    errors = release.std_errors("a")
    assert errors == pytest.approx(plan.rmse, rel=1e-4)
    # six standard errors: false alarm 2e-9
    assert abs(release.counts("a")[7] - 10**6) < 6 * errors[7]


# What cannot fit

REFUSALS: dict[str, tuple[Callable[[], object], str]] = {
    "optimal prefix": (
        lambda: ln.plan(one(20_000, "prefix"), BUDGET),
        "prefix on 20,000 values needs a dense 20,000 x 20,000 array (3 GB); "
        "use solver 'fourier' with baseline 'uniform', or coarser values",
    ),
    "affine": (
        lambda: ln.plan(Workload(ln.Domain.of(a=range(2000), b=range(2000))).affine("a", "b"), BUDGET),
        "affine on 2000 x 2000 values needs an array of 15,996,000,000 numbers (128 GB); "
        "use coarser values or fewer queries",
    ),
    "explicit matrices": (
        lambda: ln.plan(Workload(ordered(100, 100, 100)).marginals(ways=2), BUDGET).factorization(),
        "the explicit matrix has 30,000 x 1,000,000 entries; factorization() is for small domains, "
        "use variance() instead",
    ),
    "explicit workload": (
        lambda: workload_matrix(Workload(ordered(100, 100, 100)).marginals(ways=2)),
        "the explicit matrix has 30,000 x 1,000,000 entries; factorization() is for small domains, "
        "use variance() instead",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_impossible_arrays_are_refused(name):
    """The message names the size and the fix, and comes before the memory is taken."""
    make, text = REFUSALS[name]
    with traced_memory() as work, pytest.raises(LeastnoiseError) as error:
        make()
    assert str(error.value) == text
    assert work.peak < 500 * 2**20


@pytest.mark.long
@pytest.mark.parametrize("solver", ["fourier", "optimal"])
def test_the_largest_error_of_ranges_needs_no_list_of_ranges(solver):
    """A list of all ranges of 300 values takes 108 MB, of 3,000 values 108 GB; V^+ takes a hundredth of that."""
    plan = ln.plan(one(300, "range"), BUDGET, solver=solver, baseline="uniform")
    with traced_memory() as work:
        assert plan.max_std_error >= plan.rmse
    assert work.peak < 30 * 2**20
