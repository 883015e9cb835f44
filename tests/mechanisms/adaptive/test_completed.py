"""Completed tables: against explicit matrices, and what they promise without noise, with noise, and about nothing."""

from functools import reduce
from itertools import combinations

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import leastnoise as ln
from leastnoise.errors import LeastnoiseError
from leastnoise.estimate import Estimate
from leastnoise.mechanisms.adaptive import Completion, adaptive_plan
from leastnoise.mechanisms.adaptive.completed import ALONE, Completed, simplex
from leastnoise.mechanisms.adaptive.completion import measured_numbers
from leastnoise.noise import SeededRandomSource
from leastnoise.sources import Table
from leastnoise.workload import Workload
from tests.catalogue import generator, ordered
from tests.dense import dense_residual_matrix, dense_smear_matrix
from tests.release.dense import skewed_table

SHAPE = (3, 4, 2, 3)
DOMAIN = ordered(*SHAPE)
COUNTS = skewed_table(DOMAIN)
SETS = [s for k in range(5) for s in combinations(range(4), k)]
KNOWN = [(), (0,), (1,), (2,), (3,), (0, 1), (1, 2), (0, 2), (0, 1, 2), (2, 3)]


def marginal(table, members):
    return table.sum(axis=tuple(a for a in range(table.ndim) if a not in members))


def completed(known=KNOWN, noise=0.0, counts=COUNTS):
    """From exact tables, with noise of this energy assumed in every residual."""
    return Completed(SHAPE, known, lambda m: marginal(counts, m).astype(float), lambda m: noise)


@pytest.mark.parametrize("known", [KNOWN, SETS, SETS[:5], [()], [(), (1,)]], ids=len)
def test_tables_agree(known):
    result = completed(known, noise=300.0)
    for large in SETS:
        table = result.counts(large)
        for small in (s for s in SETS if set(s) < set(large)):
            axes = tuple(i for i, a in enumerate(large) if a not in small)
            assert_allclose(table.sum(axis=axes), result.counts(small), rtol=1e-9, atol=1e-9)


def test_equals_the_measured_tables_without_noise():
    result = completed()
    for members in KNOWN:
        assert_allclose(result.counts(members), marginal(COUNTS, members), rtol=1e-12, atol=1e-9)


def test_independence_where_nothing_is_known():
    result = completed(SETS[:5])
    for members in SETS:
        shares = [marginal(COUNTS, (a,)) / COUNTS.sum() for a in members]
        assert_allclose(
            result.counts(members), COUNTS.sum() * reduce(np.multiply.outer, shares, np.ones(())), rtol=1e-9
        )


def test_conditional_parts_meet_independent_ones():
    """The pair (2, 3) is known and 0 is independent of 3: a product of the pair with the shares of 0."""
    result = completed([(), (0,), (2,), (3,), (2, 3)])
    expected = np.multiply.outer(marginal(COUNTS, (0,)) / COUNTS.sum(), marginal(COUNTS, (2, 3)))
    assert_allclose(result.counts((0, 2, 3)), expected, rtol=1e-9)


def test_uniform_where_not_even_one_attribute_is_known():
    assert_allclose(completed([()]).counts((0, 1)), np.full((3, 4), COUNTS.sum() / 12))
    assert_allclose(completed([]).counts((0, 1)), np.full((3, 4), 1 / 12))  # no total: shares


@pytest.mark.parametrize("noise", [0.0, 1e4, 1e9])
def test_equals_explicit_matrices(noise):
    """sum over known residuals of factor x smear x centre x table, each a dense matrix."""
    result = completed(noise=noise)
    for members in SETS:
        baselines = [marginal(COUNTS, (a,)) / COUNTS.sum() for a in members]
        expected = COUNTS.sum() * reduce(np.kron, baselines, np.ones(1))
        for axes in (s for k in range(2, len(members) + 1) for s in combinations(range(len(members)), k)):
            inside = tuple(members[i] for i in axes)
            if inside in KNOWN:
                own = [baselines[i] for i in axes]
                part = dense_residual_matrix(own, range(len(own))) @ marginal(COUNTS, inside).ravel()
                expected = expected + factor(inside, noise) * dense_smear_matrix(baselines, axes) @ part
        assert_allclose(result.counts(members).ravel(), expected, rtol=1e-9, atol=1e-8)


def factor(members, noise):
    """James and Stein: each large residual alone, small ones of as many attributes together."""

    def energy(m):
        baselines = [marginal(COUNTS, (a,)) / COUNTS.sum() for a in m]
        return float(
            (dense_residual_matrix(baselines, range(len(m))) @ marginal(COUNTS, m).ravel())
            @ (dense_residual_matrix(baselines, range(len(m))) @ marginal(COUNTS, m).ravel())
        )

    def freedom(m):
        return np.prod([SHAPE[a] - 1 for a in m])

    pool = [members]
    if freedom(members) < ALONE:
        pool = [m for m in KNOWN if len(m) == len(members) and freedom(m) < ALONE]
    return max(0.0, 1 - noise * len(pool) / sum(energy(m) for m in pool))


def test_noise_alone_becomes_independence():
    result = completed(noise=1e12)
    assert set(result.factors.values()) == {0.0}
    assert_allclose(result.counts((0, 1)), completed(SETS[:5]).counts((0, 1)), rtol=1e-9)


def test_moving_towards_independence_helps_on_average(rng):
    """Mean squared error over 200 noisy tables, with and without: a fall of 5 standard errors, by chance 3e-7."""
    truth, gains = COUNTS.sum(axis=(2, 3)).astype(float), []
    sigma = truth.std()
    for _ in range(200):
        noisy = np.zeros(SHAPE) + (truth + rng.normal(0, sigma, truth.shape))[:, :, None, None] / 6
        known = [(), (0,), (1,), (0, 1)]
        plain, moved = (completed(known, e, noisy) for e in (0.0, sigma**2 * 6))
        gains.append(
            sum((plain.counts((0, 1)) - truth).ravel() ** 2) - sum((moved.counts((0, 1)) - truth).ravel() ** 2)
        )
    assert np.mean(gains) > 5 * np.std(gains) / 200**0.5


def test_public_distributions_stand_in_for_what_is_not_known():
    """Where nothing was measured they are used as they are; what was measured without noise prevails."""
    given = {0: np.array([0.5, 0.3, 0.2])}
    nothing = Completed(SHAPE, [()], lambda m: marginal(COUNTS, m).astype(float), lambda m: 0.0, given)
    assert_allclose(nothing.counts((0,)), COUNTS.sum() * given[0])
    measured = Completed(SHAPE, KNOWN, lambda m: marginal(COUNTS, m).astype(float), lambda m: 0.0, given)
    for members in KNOWN:
        assert_allclose(measured.counts(members), marginal(COUNTS, members), rtol=1e-9, atol=1e-8)


# --- the simplex ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 5, 20])
def test_simplex_is_the_closest_distribution(size):
    for seed in range(4):
        shares = generator(size, seed).normal(1 / size, 0.5, size)
        x = cp.Variable(size, nonneg=True)
        cp.Problem(cp.Minimize(cp.sum_squares(x - shares)), [cp.sum(x) == 1]).solve(solver=cp.CLARABEL)
        values = simplex(shares)
        assert values.min() >= 0
        assert values.sum() == pytest.approx(1, abs=1e-12)
        assert_allclose(values, x.value, atol=1e-5)


def test_simplex_of_extremes():
    assert_allclose(simplex(np.array([1e9, -1e9, 0.0])), [1, 0, 0])
    assert_allclose(simplex(np.zeros(4)), np.full(4, 0.25))


# --- of releases ------------------------------------------------------------------------------------------------------


def released(mu=0.5, select="survey", work=None):
    work = work or Workload(DOMAIN).marginals(ways=2)
    return adaptive_plan(work, ln.Budget(mu=mu), select=select).run(
        Table(DOMAIN, COUNTS), random_source=SeededRandomSource(1)
    )


@pytest.mark.parametrize("method", ["survey", "aim"])
def test_completed_releases_equal_their_tables_when_noise_vanishes(method):
    release = released(1e4, method)
    for names in [("a", "b"), ("c", "d"), ("a",), ()]:
        truth = marginal(COUNTS, tuple(DOMAIN.index(n) for n in names))
        assert_allclose(release.complete().counts(*names), truth, atol=0.05)


def test_completed_releases_keep_the_total_and_the_order_of_names():
    completion = released().complete()
    for names in [("a", "b"), ("a", "c", "d"), ("a", "b", "c", "d")]:
        assert completion.counts(*names).sum() == pytest.approx(completion.total)
    turned = completion.counts("d", "a", "b")
    assert_allclose(turned, completion.counts("a", "b", "d").transpose(2, 0, 1))


def test_frames_have_the_counts_and_say_that_they_are_guesses():
    completion = released().complete()
    frame = completion.table("b", "a")
    assert list(frame.columns) == ["b", "a", "count"]
    assert_allclose(frame["count"], completion.counts("b", "a").ravel())
    assert frame.attrs["note"]


def test_without_negative_numbers_it_is_the_closest_table():
    release = released(0.05)
    plain, mended = release.complete(), release.complete(nonnegative=True)
    counts = mended.counts("a", "b", "c", "d")
    assert plain.counts("a", "b", "c", "d").min() < 0 <= counts.min()
    assert counts.sum() == pytest.approx(plain.total)


def test_plans_can_be_completed_too():
    plan = ln.plan(Workload(DOMAIN).marginals("a", "b").marginals("c"), ln.Budget(mu=1e4), baseline="uniform")
    completion = plan.run(Table(DOMAIN, COUNTS), random_source=SeededRandomSource(1)).complete()
    pair, one = marginal(COUNTS, (0, 1)), marginal(COUNTS, (2,)) / COUNTS.sum()
    assert_allclose(completion.counts("a", "b", "c"), np.multiply.outer(pair, one), rtol=1e-3, atol=0.5)


def test_refuses():
    plan = ln.plan(Workload(DOMAIN).marginals("a"), ln.Budget(mu=1), baseline="uniform")
    release = plan.run(Table(DOMAIN, COUNTS), random_source=SeededRandomSource(1))
    with pytest.raises(LeastnoiseError) as error:
        release.complete().errors()
    assert str(error.value) == "errors are estimated for adaptive releases; others have exact ones: release.table"
    with pytest.raises(LeastnoiseError) as error:
        released().complete().counts("a", "b", "a")
    assert str(error.value) == "a x b x a has an attribute twice; name each once"


@pytest.mark.long
def test_expected_errors_are_about_right():
    """Summed over tables and 8 releases, within a third of what really happens; seeds are fixed."""
    value, real = 0.0, 0.0
    for seed in range(8):
        work = Workload(DOMAIN).marginals(ways=3)
        release = adaptive_plan(work, ln.Budget(mu=0.05)).run(
            Table(DOMAIN, COUNTS), random_source=SeededRandomSource(seed)
        )
        frame = release.complete().errors()
        value += frame["expected_l1"].sum()
        for names in frame["table"]:
            truth = marginal(COUNTS, tuple(DOMAIN.index(n) for n in names))
            real += np.abs(release.complete().counts(*names) - truth).sum()
    assert 2 / 3 < value / real < 3 / 2


def two_way(domain, counts, adaptive, mu):
    work, budget = Workload(domain).marginals(ways=2), ln.Budget(mu=mu)
    result = adaptive_plan(work, budget) if adaptive else ln.plan(work, budget, baseline="uniform")
    return result.run(Table(domain, counts), random_source=SeededRandomSource(1))


@pytest.mark.long
@pytest.mark.parametrize("adaptive", [False, True])
def test_fits_unless_it_only_follows_the_noise(adaptive):
    """Two binary attributes have 3 numbers to measure, fewer than any mixture has parameters; 30 x 30 have 899."""
    small = two_way(ln.Domain.of(a=2, b=2), np.array([[90, 5], [7, 40]]), adaptive, mu=5)
    assert measured_numbers(small) == 3
    assert isinstance(small.best_estimate(), Completion)
    large = two_way(ln.Domain.of(a=30, b=30), np.outer(np.arange(30), np.arange(30)), adaptive, mu=0.1)
    assert isinstance(large.best_estimate(), Estimate)
