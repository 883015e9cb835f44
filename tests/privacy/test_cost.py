"""Costs add up exactly, floats made from them are on the safe side, and unlike costs do not mix."""

import json
import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leastnoise.errors import LeastnoiseError
from leastnoise.privacy import Budget, Cost
from leastnoise.privacy.cost import LARGEST, fraction_text, read_fraction
from leastnoise.privacy.neighbours import Neighbours
from tests.privacy.test_budget import exact_delta

FRACTIONS = st.fractions(0, 10**6)
POSITIVE = st.builds(
    lambda p, q, k: Fraction(p, q) * Fraction(10) ** k,
    st.integers(1, 10**30),
    st.integers(1, 10**30),
    st.integers(-250, 250),
)


@pytest.fixture(autouse=True)
def digits():
    with mpmath.workdps(120):
        yield


# Budgets as exact costs


def test_costs_of_what_was_stated_are_exact():
    assert Budget(rho=0.1).exact_cost == Fraction(1, 5)
    assert Budget(mu=0.3).exact_cost == Fraction(9, 100)
    budget = Budget(epsilon=1, delta=1e-9)
    assert budget.exact_cost == Fraction(budget.mu) ** 2


def test_decimals_add_up_as_people_expect():
    ten = Cost.total([Budget(rho=0.00075).cost_value] * 10)
    assert ten == Budget(rho=0.0075).cost_value
    assert Budget(rho=0.1).cost_value + Budget(rho=0.2).cost_value == Budget(rho=0.3).cost_value
    assert Budget(mu=0.3).cost_value + Budget(mu=0.4).cost_value == Budget(mu=0.5).cost_value


@given(st.floats(1e-90, 1e90))
def test_exact_costs_agree_with_floats(x):
    for budget in (Budget(mu=x), Budget(rho=x)):
        assert float(budget.exact_cost) == pytest.approx(budget.cost, rel=1e-14)
        assert budget.cost_value.mu == pytest.approx(budget.mu, rel=1e-15)


def test_a_budget_hands_its_relation_on():
    cost = Budget(mu=1, neighbours="replace", rows_per_person=3).cost_value
    assert cost == Cost(Fraction(1), Neighbours("replace", 3))


# Arithmetic


@pytest.mark.long
@given(st.lists(FRACTIONS, min_size=1, max_size=8))
def test_adds_up_exactly(parts):
    total = Cost.total([Cost(part) for part in parts])
    assert total.mu_squared == sum(parts)
    for part in parts:
        total -= Cost(part)
    assert total.mu_squared == 0


@pytest.mark.long
@given(FRACTIONS, FRACTIONS)
def test_compares_like_its_fraction(a, b):
    x, y = Cost(a), Cost(b)
    assert (x < y, x <= y, x > y, x >= y, x == y, x != y) == (a < b, a <= b, a > b, a >= b, a == b, a != b)


def test_closest_costs_are_told_apart():
    least = Fraction(1, 10**400)
    assert Cost(1 + least) > Cost(1)
    assert Cost(1 + least).mu > 1.0


KINDS = {
    "replace": Neighbours("replace"),
    "replace, private": Neighbours("replace", size="private"),
    "people": Neighbours("add-remove", 2),
    "people with one row": Neighbours("add-remove", 1),
    "people replaced": Neighbours("replace", 1),
    "exact counts": Neighbours("replace", exact="the root"),
}
OTHER = [Cost(Fraction(1), kind) for kind in KINDS.values()]


@pytest.mark.parametrize("other", OTHER, ids=KINDS)
@pytest.mark.parametrize("name", ["__add__", "__sub__", "__lt__", "__le__", "__gt__", "__ge__"])
def test_unlike_costs_do_not_mix(name, other):
    with pytest.raises(LeastnoiseError) as error:
        getattr(Cost(Fraction(1)), name)(other)
    assert str(error.value) == (
        f"a cost for adding or removing one row and one for {other.change} cannot be added or compared"
    )


def test_only_costs_go_with_costs():
    with pytest.raises(LeastnoiseError) as error:
        Cost(Fraction(1)) + Budget(mu=1)
    assert str(error.value) == (
        "a cost goes with costs only, got Budget(mu=1.0, neighbours='add-remove'); a budget has its cost in cost_value"
    )


def test_no_cost_is_negative():
    with pytest.raises(LeastnoiseError) as error:
        Cost(Fraction(1)) - Cost(Fraction(4))
    assert str(error.value) == "mu 2 (rho 2) cannot be taken from mu 1 (rho 0.5), which is less"
    assert (Cost(Fraction(1)) - Cost(Fraction(1))).mu == 0


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        (0.5, "mu_squared must be a Fraction, got 0.5; use Budget(...).cost_value"),
        (True, "mu_squared must be a Fraction, got True; use Budget(...).cost_value"),
        (Fraction(-1, 2), "a cost must lie between 0 and 1e300, got mu^2 -0.5"),
        (2 * LARGEST, "a cost must lie between 0 and 1e300, got mu^2 2.000e+300"),
    ],
)
def test_bad_costs_are_refused(bad, text):
    with pytest.raises(LeastnoiseError) as error:
        Cost(bad)
    assert str(error.value) == text


def test_nothing_has_no_total():
    with pytest.raises(LeastnoiseError, match="no costs to add up; give at least one"):
        Cost.total([])


# Floats on the safe side


@given(POSITIVE)
def test_mu_and_rho_are_the_least_floats_above(x):
    mu = Fraction(Cost(x).mu)
    below = Fraction(math.nextafter(Cost(x).mu, 0))
    assert below**2 < x <= mu**2
    rho = Fraction(Cost(x).rho)
    assert Fraction(math.nextafter(Cost(x).rho, 0)) < x / 2 <= rho


@pytest.mark.parametrize("x", [Fraction(9, 100), Fraction(2**65), Fraction(10**300), Fraction(1, 10**2000)])
def test_roots_at_the_ends(x):
    mu = Cost(x).mu
    assert Fraction(math.nextafter(mu, 0)) ** 2 < x <= Fraction(mu) ** 2


@pytest.mark.parametrize("x", ["1e-12", "1/30000", "0.033", "1", "29/7", "400"])
@pytest.mark.parametrize("epsilon", [0, 1e-3, 0.5, 1, 10, 60])
def test_delta_is_never_optimistic(x, epsilon):
    cost = Cost(Fraction(x))
    exact = exact_delta(mpmath.sqrt(mpmath.mpf(cost.mu_squared.numerator) / cost.mu_squared.denominator), epsilon)
    value = cost.delta_at(epsilon)
    assert value >= exact
    if exact > 1e-300:
        assert value <= exact * (1 + 1e-9)


@pytest.mark.parametrize("x", ["1e-12", "1/30000", "0.033", "1", "29/7", "400"])
@pytest.mark.parametrize("delta", [1e-20, 1e-9, 1e-6, 0.1])
def test_epsilon_is_never_optimistic(x, delta):
    cost = Cost(Fraction(x))
    mu = mpmath.sqrt(mpmath.mpf(cost.mu_squared.numerator) / cost.mu_squared.denominator)
    value = cost.epsilon_at(delta)
    assert exact_delta(mu, value) <= mpmath.mpf(delta)
    if value:
        assert exact_delta(mu, value * (1 - 1e-9)) > mpmath.mpf(delta)


def test_extremes_have_answers():
    nothing, little, much = Cost(Fraction(0)), Cost(Fraction(1, 10**2000)), Cost(Fraction(LARGEST))
    assert (nothing.mu, nothing.epsilon_at(1e-9), nothing.delta_at(0)) == (0, 0, 0)
    assert (little.epsilon_at(1e-9), little.epsilon_at(1e-300)) == (0, pytest.approx(3.7e-99, rel=0.1))
    assert 0 < little.delta_at(1) < little.delta_at(0) < 1e-100
    assert much.epsilon_at(1e-9) == pytest.approx(0.5e300, rel=1e-6)
    assert much.delta_at(1) == 1


@pytest.mark.parametrize("bad", [0, 1, -1, math.nan])
def test_bad_deltas_are_refused(bad):
    with pytest.raises(LeastnoiseError, match=f"delta must be between 0 and 1, got {bad}; usual values"):
        Cost(Fraction(1)).epsilon_at(bad)


@pytest.mark.parametrize("bad", [-1, math.inf, math.nan])
def test_bad_epsilons_are_refused(bad):
    with pytest.raises(LeastnoiseError, match=f"epsilon must be a finite number from 0 on, got {bad}"):
        Cost(Fraction(1)).delta_at(bad)


# Text


@given(POSITIVE, st.sampled_from(["add-remove", "replace"]), st.none() | st.integers(1, 100))
def test_json_round_trip(x, neighbours, rows):
    cost = Cost(x, Neighbours(neighbours, rows))
    assert Cost.from_json(json.loads(json.dumps(cost.to_json()))) == cost


def test_json_is_readable():
    assert Cost(Fraction(1, 4)).to_json() == {
        "mu_squared": "1/4",
        "mu": 0.5,
        "rho": 0.125,
        "neighbours": "add-remove",
        "rows_per_person": None,
        "size": "private",
        "exact": None,
    }


def test_fractions_may_have_many_digits():
    long = Fraction(3**18_000, 2**28_000 + 1)
    assert 17_000 < len(fraction_text(long)) < 20_000  # Python's own conversion stops at 4,300
    assert read_fraction(fraction_text(long)) == long


@pytest.mark.parametrize(
    "bad", ["", "1", "1/0", "-1/2", "1/-2", "1e5/2", "0.5/2", "a/b", "1/2/3", " 1/2", "²/3", 0.5, None]
)
def test_bad_fractions_are_refused(bad):
    with pytest.raises(LeastnoiseError) as error:
        read_fraction(bad)
    assert str(error.value) == f"{str(bad)!r} is not a fraction such as '3/40'"


def test_bad_json_is_refused():
    with pytest.raises(LeastnoiseError, match="not a cost"):
        Cost.from_json({"mu_squared": "1/2"})
    with pytest.raises(LeastnoiseError, match="is not a fraction"):
        Cost.from_json({"mu_squared": "half", "neighbours": "replace", "rows_per_person": 1})


def test_words():
    assert str(Budget(epsilon=1, delta=1e-9).cost_value) == "mu 0.182 (rho 0.01656)"
    assert Cost(Fraction(1), Neighbours("replace", 2)).change == "replacing one person with at most 2 rows"
