"""Conversions never promise too much: checked against 60 digits and more, without any tolerance on the safe side."""

import itertools
import math

import mpmath
import numpy as np
import pytest

from leastnoise.privacy.gaussian import _excess, delta_for, epsilon_for, log_complement, log_delta, mu_for

MUS = [1e-12, 1e-9, 3e-7, 1e-4, 0.003, 0.02, 0.1, 0.3, 0.4999, 0.5, 0.51, 0.7, 1.0, 1.7, 2.0, 3.3, 5.0, 8.0, 13.0, 30.0]
DELTAS = [
    *[1e-300, 1e-200, 1e-100, 1e-60, 1e-30, 1e-20, 1e-15, 1e-12, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3],
    *[0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.49, 0.5, 0.5001, 0.51, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999],
]
EPSILONS = [1e-15, 1e-12, 1e-9, 1e-6, 1e-4, 0.003, 0.05, 0.2, 0.5, 1.0, 2.0, 5.0, 12.0, 30.0, 100.0, 600.0]
STEPS = [10.0**-k for k in range(1, 17)]
TIGHT = 2e-13  # of what is returned, or of mu where that is more


@pytest.fixture(autouse=True)
def digits():
    with mpmath.workdps(80):  # at least 60 of them are left where mu is 1e-12
        yield


def terms(mu, epsilon):
    mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
    u = epsilon / mu - mu / 2
    second = mpmath.exp(epsilon) * mpmath.erfc((u + mu) / mpmath.sqrt(2)) / 2
    return mpmath.erfc(u / mpmath.sqrt(2)) / 2, mpmath.erfc(-u / mpmath.sqrt(2)) / 2, second


def exact_delta(mu, epsilon):
    first, _, second = terms(mu, epsilon)
    return first - second


def exact_complement(mu, epsilon):
    _, rest, second = terms(mu, epsilon)
    return rest + second


def near_zero():
    """(mu, delta) whose epsilon is far below delta: a delta just under what epsilon 0 has."""
    for mu, share in itertools.product(MUS, STEPS):
        delta = float(exact_delta(mu, 0) * (1 - mpmath.mpf(share)))
        yield from ((mu, d) for d in (math.nextafter(delta, 0), delta, math.nextafter(delta, 1)) if 0 < d < 1)


def random_pairs(count):
    rng = np.random.default_rng(3)
    for _ in range(count):
        mu = float(10 ** rng.uniform(-12, math.log10(30)))
        yield mu, float(rng.choice([10 ** rng.uniform(-300, -1), 10 ** rng.uniform(-12, -0.001), rng.uniform(0.1, 1)]))


def pairs():
    with mpmath.workdps(80):
        return [*itertools.product(MUS, DELTAS), *near_zero(), *random_pairs(700)]


def check_epsilon(mu, delta):
    """How far the returned epsilon is above the exact root, at most, in units of TIGHT."""
    epsilon, target = epsilon_for(mu, delta), mpmath.mpf(delta)
    assert exact_delta(mu, epsilon) <= target  # without tolerance
    assert _excess(mu, epsilon, delta) <= 0  # what was returned is what was checked
    if epsilon:
        room = TIGHT * max(epsilon, mu)
        assert room >= epsilon or exact_delta(mu, mpmath.mpf(epsilon) - room) > target
    return epsilon


@pytest.mark.long
def test_epsilon_is_never_below_the_exact_root():
    todo = pairs()
    assert len(todo) > 2_000
    results = [check_epsilon(mu, delta) for mu, delta in todo]
    assert (
        sum(0 < e < 1e-6 * d for e, (_, d) in zip(results, todo, strict=True)) > 100
    )  # ill-conditioned ones are there


@pytest.mark.long
def test_mu_is_never_above_the_exact_root():
    rng = np.random.default_rng(4)
    some = [(float(10 ** rng.uniform(-15, 3)), delta) for _, delta in random_pairs(1_500)]
    todo = [*itertools.product(EPSILONS, DELTAS), *some]
    assert len(todo) > 2_000
    for epsilon, delta in todo:
        mu, target = mu_for(epsilon, delta), mpmath.mpf(delta)
        assert exact_delta(mu, epsilon) <= target
        assert exact_delta(mu * (1 + mpmath.mpf(TIGHT)), epsilon) > target


def epsilons_of(mu):
    """Epsilons with deltas from nearly 1 to 1e-300."""
    us = [-mu / 2, -0.45 * mu, -0.2 * mu, -1e-3, 0.0, 1e-9, 0.1, 0.5, 1, 2, 4, 6, 8, 10, 12, 15, 20, 25, 30, 36.5]
    return [0.0, *(e for e in (mu * (u + mu / 2) for u in us) if e > 0)]


@pytest.mark.long
def test_delta_is_never_below_the_exact_one():
    rng = np.random.default_rng(5)
    some = [(float(10 ** rng.uniform(-12, 1.5)), float(rng.uniform(0, 37))) for _ in range(1_700)]
    todo = [(mu, e) for mu in MUS for e in epsilons_of(mu)] + [(mu, mu * (u + mu / 2)) for mu, u in some]
    assert len(todo) > 2_000
    for mu, epsilon in todo:
        delta, exact = delta_for(mu, epsilon), exact_delta(mu, epsilon)
        assert delta >= exact
        # relative to what is left, up to the error of log delta: its own size times a few units
        assert delta <= exact * (1 + mpmath.mpf(TIGHT) * (2 - mpmath.log(exact)))
        assert log_delta(mu, epsilon) >= mpmath.log(exact)
        assert log_complement(mu, epsilon) <= mpmath.log(exact_complement(mu, epsilon))


def test_complements_are_close_where_delta_is_almost_one():
    for mu, epsilon in itertools.product([3.0, 8.0, 20.0, 60.0], [0.0, 1.0, 5.0]):
        exact = mpmath.log(exact_complement(mu, epsilon))
        below = log_complement(mu, epsilon)
        assert exact + TIGHT * exact < below <= exact


@pytest.mark.parametrize("mu", [1e-100, 1e-40, 1e20, 1e100, 1e150])
def test_budgets_beyond_all_measure_have_answers(mu):
    """Where eps/mu - mu/2 has no digits left, answers are still on the safe side."""
    with mpmath.workdps(420):
        for delta in (5e-324, 1e-9, 0.4, 0.999):
            epsilon = epsilon_for(mu, delta)
            assert exact_delta(mu, epsilon) <= mpmath.mpf(delta)
            assert epsilon <= max(mu * 40, mu**2 / 2 * (1 + 1e-14) + 40 * mu)
    assert math.ulp(0.0) <= delta_for(mu, 1.0) <= 1
    assert delta_for(mu, 1e308) == (1.0 if mu > 1e100 and mu**2 / 2 > 1e308 else math.ulp(0.0))


@pytest.mark.long
def test_large_mu_is_safe_where_u_has_few_digits():
    """eps/mu and mu/2 cancel: u is known to mu units only, and that is far more than its logarithm is off by."""
    rng = np.random.default_rng(6)
    for _ in range(300):
        mu, delta = float(10 ** rng.uniform(1.5, 16)), float(10 ** rng.uniform(-300, -0.01))
        epsilon = epsilon_for(mu, delta)
        assert exact_delta(mu, epsilon) <= mpmath.mpf(delta)
        assert exact_delta(mu, mpmath.mpf(epsilon) * (1 - mpmath.mpf("1e-14"))) > mpmath.mpf(delta)
        assert exact_delta(mu_for(epsilon, delta), epsilon) <= mpmath.mpf(delta)
        assert delta_for(mu, epsilon) >= exact_delta(mu, epsilon)


@pytest.mark.parametrize("epsilon", [1e-308, 1e-100, 1e30, 1e300, 1e307])
def test_mu_has_answers_everywhere(epsilon):
    for delta in (5e-324, 1e-300, 1e-9, 0.5, 0.999, math.nextafter(1, 0)):
        mu = mu_for(epsilon, delta)
        assert 0 < mu < math.inf
        if epsilon <= 1e30 and mu > 1e-150:
            with mpmath.workdps(420):
                assert exact_delta(mu, epsilon) <= mpmath.mpf(delta)


def test_far_tails_are_minus_infinity_and_not_an_error():
    assert log_delta(1e-100, 1e200) == -math.inf
    assert log_complement(1e-100, 1e200) <= 0
    assert -0.50001e12 < log_delta(1e-3, 1e3) < -0.49999e12
