"""Costs as dp_accounting events: its accountants find the same epsilon, or a larger one where they only bound."""

import sys
from fractions import Fraction

import dp_accounting
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from hypothesis import given
from hypothesis import strategies as st

from leastnoise.errors import LeastnoiseError
from leastnoise.privacy import Budget, Cost
from leastnoise.privacy.accounting import dp_event, neighboring_relation

RELATIONS = ["add-remove", "replace"]
COMPOSITIONS = {
    "one": [Budget(epsilon=1, delta=1e-9)],
    "small": [Budget(mu=0.02)],
    "large": [Budget(mu=3)],
    "alike": [Budget(rho=0.00075)] * 10,
    "mixed": [Budget(mu=0.3), Budget(rho=0.1), Budget(epsilon=0.5, delta=1e-6)],
}
WIDTH = 1e-4  # of the buckets of dp_accounting's privacy loss distributions


def composed(budgets, neighbours):
    return [Cost(budget.exact_cost, neighbours) for budget in budgets]


@pytest.mark.covering("name neighbours", "delta")
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("name", COMPOSITIONS)
def test_agrees_with_other_accountants(name, neighbours, delta):
    costs = composed(COMPOSITIONS[name], neighbours)
    total = Cost.total(costs)
    ours = total.epsilon_at(delta)
    relation = neighboring_relation(total)
    loss = PLDAccountant(relation, value_discretization_interval=WIDTH).compose(dp_event(costs)).get_epsilon(delta)
    assert ours - 1e-9 <= loss <= ours + len(costs) * WIDTH  # it rounds losses up, by less than a bucket each
    renyi = RdpAccountant(neighboring_relation=relation).compose(dp_event(costs)).get_epsilon(delta)
    assert renyi >= ours


@pytest.mark.long
@pytest.mark.parametrize("accountant", [PLDAccountant, RdpAccountant])
def test_the_total_is_the_composition(accountant):
    costs = composed(COMPOSITIONS["mixed"], "add-remove")
    apart, together = (accountant().compose(dp_event(c)).get_epsilon(1e-9) for c in (costs, Cost.total(costs)))
    assert apart == pytest.approx(together, rel=1e-4)


def test_replacing_under_the_plain_relation_is_never_optimistic():
    cost = Cost(Fraction(1, 4), "replace")
    for accountant in (PLDAccountant, RdpAccountant):
        message = accountant(neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE).compose(dp_event(cost))
        assert message.get_epsilon(1e-9) >= cost.epsilon_at(1e-9)


def test_relations():
    known = dp_accounting.NeighboringRelation
    assert neighboring_relation(Cost(Fraction(1))) is known.ADD_OR_REMOVE_ONE
    replaced = Budget(mu=1, neighbours="replace", rows_per_person=3).cost_value
    assert neighboring_relation(replaced) is known.REPLACE_SPECIAL


def test_shapes_of_events():
    one, two = Cost(Fraction(1, 4)), Cost(Fraction(4))
    assert dp_event(one) == dp_accounting.GaussianDpEvent(2.0)
    gaussians = [dp_accounting.GaussianDpEvent(2.0), dp_accounting.GaussianDpEvent(0.5)]
    assert dp_event([one, two]) == dp_accounting.ComposedDpEvent(gaussians)
    assert dp_event(Cost(Fraction(0))) == dp_accounting.NoOpDpEvent()


@pytest.mark.long
@given(st.fractions(Fraction(1, 10**12), 10**6))
def test_noise_is_never_overstated(x):
    value = Fraction(dp_event(Cost(x)).noise_multiplier)
    assert value**2 * x <= 1
    assert value**2 * x >= 1 - Fraction(1, 2**50)


def test_costs_that_do_not_mix_are_refused():
    with pytest.raises(LeastnoiseError, match="cannot be added or compared"):
        dp_event([Cost(Fraction(1)), Cost(Fraction(1), "replace")])


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(LeastnoiseError) as error:
        dp_event(Cost(Fraction(1)))
    assert str(error.value) == (
        "an event needs the package 'dp_accounting', which is not installed; "
        "install leastnoise with its extra 'accounting' (README.md)"
    )
