"""No event distinguishes neighbours better than is stated: all tiny data, exact laws of what is published."""

from dataclasses import replace
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product

import mpmath
import numpy as np
import pytest
from scipy.stats import binom

from leastnoise.mechanisms.discover.plan import DiscoverPlan, discover
from leastnoise.mechanisms.discover.release import found_keys
from leastnoise.noise import SeededRandomSource
from leastnoise.privacy import Budget
from leastnoise.privacy.neighbours import Neighbours
from tests.mechanisms.discover.universe import people_of_keys, told_apart

KEYS = ("a", "b", "c")
SETS = [some for n in range(len(KEYS) + 1) for some in combinations(KEYS, n)]
EPSILONS = (0.0, 0.3, 1.0, 2.0, 4.0, 8.0)
SECRET = b"the same keys are kept in every run"


def plan_of(change: str, keys: int, variance: Fraction, least: int, gap: int) -> DiscoverPlan:
    return DiscoverPlan("url", Neighbours(change, 3), keys, variance, least + gap, least, 1e-9)


def counted(plan: DiscoverPlan, sets: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, int], ...]:
    """What comes out of an engine (test_keys holds those against the same twin); each person has some keys."""
    people = people_of_keys([(f"p{k}", key) for k, keys in enumerate(sets) for key in keys], plan.max_keys, SECRET)
    return tuple(sorted((key, count) for key, count in people.items() if count >= plan.least))


def neighbours(plan: DiscoverPlan, others: int):
    """All pairs of what comes out, where the first person is changed; the others have any keys."""
    pairs = set()
    for rest in combinations_with_replacement(SETS, others):
        if plan.neighbours.change == "replace":
            outcomes = {counted(plan, (own, *rest)) for own in SETS}
            pairs |= set(product(outcomes, outcomes))
        else:
            without = counted(plan, ((), *rest))
            for with_ in {counted(plan, (own, *rest)) for own in SETS}:
                pairs |= {(without, with_), (with_, without)}
    return [(dict(one), dict(other)) for one, other in pairs if one != other]


def worst_excess(plan: DiscoverPlan, pairs, cost=None) -> tuple[float, float]:
    """The largest difference of the true and the stated delta, and the largest ratio."""
    cost = plan.cost if cost is None else cost
    excess, ratio = -1.0, 0.0
    with mpmath.workdps(30):
        for epsilon in EPSILONS:
            stated = mpmath.mpf(cost.delta_at(epsilon))
            for one, other in pairs:
                true = told_apart(plan, one, other, epsilon)
                excess, ratio = max(excess, float(true - stated)), max(ratio, float(true / stated))
    return excess, ratio


CASES = [("add-remove", 1, 1, 2), ("add-remove", 2, 2, 2), ("add-remove", 2, 1, 3), ("replace", 1, 2, 2)]


@pytest.mark.slow
@pytest.mark.parametrize(("change", "keys", "least", "gap"), [*CASES, ("add-remove", 3, 2, 2), ("replace", 2, 2, 2)])
def test_stated_privacy_holds_for_all_data_of_three_people(change, keys, least, gap):
    plan = plan_of(change, keys, Fraction(1, 2), least, gap)
    excess, ratio = worst_excess(plan, neighbours(plan, 2))
    assert excess <= 0
    assert ratio > 0.4  # a few people cannot be far above a threshold


@pytest.mark.long
@pytest.mark.parametrize(("change", "keys", "least", "gap"), CASES)
def test_stated_privacy_holds_for_all_small_data(change, keys, least, gap):
    """Two people, up to three keys each: all of them enumerated, and the bound is not far from what is possible."""
    plan = plan_of(change, keys, Fraction(1, 2), least, gap)
    excess, ratio = worst_excess(plan, neighbours(plan, 1))
    assert excess <= 0
    assert ratio > 0.4  # a few people cannot be far above a threshold


@pytest.mark.long
@pytest.mark.parametrize(
    "wrong",
    [
        lambda cost: replace(cost, added_delta=Fraction(0)),
        lambda cost: replace(cost, added_delta=cost.added_delta / 2),
        lambda cost: replace(cost, mu_squared=cost.mu_squared / 2),
    ],
    ids=["no delta", "half of delta", "half of mu^2"],
)
def test_wrong_statements_are_noticed(wrong):
    plan = plan_of("add-remove", 2, Fraction(1, 2), 1, 2)
    assert worst_excess(plan, neighbours(plan, 1), wrong(plan.cost))[0] > 0


def test_nobodys_own_key_is_found_beyond_delta():
    """10^6 keys of one person each, which is as many runs of one of them: with a plan that would look at them, no more
    are found than delta allows (false alarms: 1e-6); with any real plan none is.
    """
    runs = 10**6
    plan = plan_of("add-remove", 1, Fraction(4), 1, 7)
    batches = [([f"k{k:07d}" for k in range(runs)], np.ones(runs, dtype=np.int64))]
    found, _ = found_keys(iter(batches), plan.variance, plan.at_least, SeededRandomSource(7))
    most = binom.isf(1e-6, runs, float(plan.cost.added_delta))
    assert 0 < len(found) <= most < 1000
    real = discover("url", Budget(epsilon=1, delta=1e-6, rows_per_person=1))
    assert real.least == 2
    data = {"p": np.arange(runs), "url": np.arange(runs)}
    release = real.run(data, unit={"id": "p", "max_rows": 1}, random_source=SeededRandomSource(7))
    assert release.keys == ()
