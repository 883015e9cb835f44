"""Thresholds: never optimistic, and the least that are allowed."""

from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.discover.plan import discover
from leastnoise.mechanisms.discover.threshold import added_delta, least_gap
from leastnoise.noise.tail import upper_tail
from leastnoise.privacy import Budget
from tests.covering import examples

VARIANCES = st.fractions(Fraction(1, 4), 10**6, max_denominator=1000)


def exact_tail(variance: Fraction, least: int) -> mpmath.mpf:
    with mpmath.workdps(100):
        x = (mpmath.mpf(least) - mpmath.mpf(1) / 2) / mpmath.sqrt(mpmath.mpf(variance.numerator) / variance.denominator)
        return mpmath.erfc(x / mpmath.sqrt(2)) / 2


def as_mpf(x: Fraction) -> mpmath.mpf:
    with mpmath.workdps(100):
        return mpmath.mpf(x.numerator) / x.denominator


@settings(max_examples=examples(200))
@given(VARIANCES, st.floats(0.001, 12))
def test_upper_tails_are_never_optimistic(variance, deviations):
    least = max(1, round(deviations * float(variance) ** 0.5))
    with mpmath.workdps(100):
        exact, bound = exact_tail(variance, least), as_mpf(upper_tail(variance, least))
        assert exact <= bound
        assert bound <= exact * (1 + mpmath.mpf(10) ** -20)


@settings(max_examples=examples(200))
@given(VARIANCES, st.floats(0.1, 10), st.integers(1, 1000))
def test_added_deltas_are_never_optimistic(variance, deviations, keys):
    """Against 1 - (1 - p)^k; what is lost to the sum bound is below k p / 2, and little to the rounding."""
    gap = max(1, round(deviations * float(variance) ** 0.5))
    with mpmath.workdps(100):
        p = exact_tail(variance, gap)
        exact = 1 - (1 - p) ** keys
        bound = as_mpf(added_delta(variance, gap, keys))
        assert exact <= bound
        assert bound <= min(1, keys * p * (1 + mpmath.mpf(2) ** -39))


@settings(max_examples=examples(60))
@given(VARIANCES, st.integers(1, 1000), st.integers(3, 30))
def test_gaps_are_the_least(variance, keys, digits):
    delta = Fraction(1, 10**digits)
    gap = least_gap(variance, keys, delta)
    assert added_delta(variance, gap, keys) <= delta
    assert gap == 1 or added_delta(variance, gap - 1, keys) > delta


@settings(max_examples=examples(60))
@given(
    st.floats(0.05, 5), st.sampled_from([1e-6, 1e-9, 1e-12]), st.integers(1, 50), st.integers(1, 50),
    st.sampled_from(["add-remove", "replace"]), st.integers(0, 300),
)  # fmt: skip
def test_cost_is_at_most_the_budget(epsilon, delta, rows, keys, change, more):
    budget = Budget(epsilon=epsilon, delta=delta, rows_per_person=rows, neighbours=change)
    plan = discover("url", budget, max_keys=keys)
    assert plan.least == 2
    assert plan.cost.epsilon_at(delta) <= epsilon
    assert plan.cost.added_delta <= Fraction(str(delta)) / 10
    assert plan.cost.delta_at(epsilon) <= delta * (1 + 1e-12)
    higher = discover("url", budget, max_keys=keys, at_least=plan.at_least + more)
    assert higher.cost == plan.cost  # what a higher threshold gains goes into what is looked at
    assert higher.least == plan.least + more


def test_thresholds_that_delta_forbids_are_refused():
    budget = Budget(epsilon=1, delta=1e-9, rows_per_person=3)
    needed = discover("url", budget).at_least
    for low in (1, 2, 3, needed - 1):
        with pytest.raises(LeastnoiseError, match=f"at_least {low} is too low .* use at_least: {needed}") as error:
            discover("url", budget, at_least=low)
        assert "\n" not in str(error.value)
    assert discover("url", budget, at_least=needed).least == 2
    more = discover("url", Budget(epsilon=1, delta=1e-9, rows_per_person=3), delta=9e-10)
    assert more.at_least < needed + 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"at_least": 0}, "at_least must be a whole number"),
        ({"at_least": 2.5}, "at_least must be a whole number"),
        ({"at_least": True}, "at_least must be a whole number"),
        ({"max_keys": 0}, "max_keys must be a whole number"),
        ({"delta": 1e-9}, "below 1e-09"),
        ({"delta": 0}, "must be above 0"),
        ({"delta": "x"}, "must be above 0"),
    ],
)
def test_bad_options_are_refused(options, words):
    with pytest.raises(LeastnoiseError, match=words) as error:
        discover("url", Budget(epsilon=1, delta=1e-9, rows_per_person=3), **options)
    assert "\n" not in str(error.value)


def test_rows_are_no_people():
    with pytest.raises(LeastnoiseError, match="discover counts people, but this budget protects rows"):
        discover("url", Budget(epsilon=1, delta=1e-9))
