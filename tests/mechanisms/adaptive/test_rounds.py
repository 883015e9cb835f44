"""Rounds: what is allocated is what is measured, and the parts work together."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from leastnoise import Budget, Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.adaptive import (
    Allocation,
    Distances,
    Estimates,
    Selection,
    allocate,
    overlaps,
    residuals_of,
    table_integer_plan,
)
from leastnoise.mechanisms.adaptive.select import allowance
from leastnoise.mechanisms.gate import Counts
from leastnoise.mechanisms.measurement import measure
from leastnoise.noise import SeededRandomSource
from leastnoise.privacy.exponential_mechanism import epsilon_for_cost
from leastnoise.release import TableRelease
from leastnoise.sources import source_of

SHAPE = (3, 4, 2, 3)
DOMAIN = Domain.of(a=3, b=4, c=2, d=3)
SETS = list(combinations(range(4), 2))
MU = Fraction(1, 7)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("rows", [None, 1, 2])
@pytest.mark.parametrize("attributes", [(0,), (0, 3), (1, 2, 3)])
def test_costs_exactly_what_was_allocated(neighbours, rows, attributes):
    budget = Budget(mu=1, neighbours=neighbours, rows_per_person=rows)
    sizes = [SHAPE[a] for a in attributes]
    for known in ({}, {(0,): 3.0}):
        allocation = allocate(sizes, known, MU, budget)
        integer_plan = table_integer_plan(DOMAIN, attributes, allocation, budget)
        assert integer_plan.cost.mu_squared == MU == allocation.mu_squared
        assert integer_plan.cost.change == budget.cost_value.change


def test_noise_has_the_allocated_variance():
    allocation = Allocation({(): Fraction(5), (0, 1): Fraction(1, 3)}, {})
    integer_plan = table_integer_plan(DOMAIN, (0, 1), allocation, Budget(mu=1))
    for orbit, noisy_queries in zip(integer_plan.structure.orbits, integer_plan.noisy_queries, strict=True):
        assert len(noisy_queries) == (len(orbit) != 1)
        for noisy_query in noisy_queries:
            scale = noisy_query.strategy.multiplier * np.prod(noisy_query.strategy.shape, initial=1)
            assert noisy_query.variance / Fraction(int(scale)) ** 2 == allocation.variances[tuple(range(len(orbit)))]
            assert noisy_query.variance >= 64**2


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_a_round_agrees_with_its_release(rng, neighbours):
    """Select, allocate, measure, update; the merged release knows the same, and the costs add up exactly."""
    budget = Budget(rho=2, neighbours=neighbours)
    source = source_of(rng.integers(0, 30, SHAPE), DOMAIN)
    estimates, random_source, parts = Estimates(SHAPE, SETS), SeededRandomSource(5), []
    for a in range(4):
        allocation = allocate([SHAPE[a]], estimates.known((a,)), MU, budget)
        parts.append(measure(table_integer_plan(DOMAIN, (a,), allocation, budget), Counts(source), random_source))
        estimates.observe(residuals_of(parts[-1]))
    selection = Selection(tuple(SETS), overlaps(SETS, SETS), epsilon_for_cost(Fraction(1, 100)), neighbours)
    allowances = {s: allowance(int(np.prod([SHAPE[a] for a in s])), float(MU) ** -0.5) for s in SETS}
    distances = Distances(Counts(source), estimates)
    measured = set()
    for _ in range(6):
        chosen = selection.choose(distances.by_set, allowances, random_source)
        allocation = allocate([SHAPE[a] for a in chosen], estimates.known(chosen), MU, budget)
        parts.append(measure(table_integer_plan(DOMAIN, chosen, allocation, budget), Counts(source), random_source))
        distances.refresh(estimates.observe(residuals_of(parts[-1])))
        measured.add(chosen)
    release = TableRelease(tuple(parts))
    assert release.cost.mu_squared == 10 * MU
    for s in measured:
        names = [DOMAIN.names[a] for a in s]
        assert_allclose(estimates.table(s), release.state.marginal(s), atol=1e-8)
        assert_allclose(np.sqrt(estimates.variances(s)), release.std_errors(*names), rtol=1e-9)
    assert distances.by_set == Distances(Counts(source), estimates).by_set


@pytest.mark.long
def test_errors_are_as_large_as_said(rng):
    """Summed squared errors of 200 rounds against the stated variance: 5 standard errors, false alarm 6e-7."""
    source = source_of(rng.integers(0, 30, SHAPE), DOMAIN)
    truth = next(iter(source.count([(0, 1)])))
    allocation = allocate([3, 4], {}, MU)
    integer_plan = table_integer_plan(DOMAIN, (0, 1), allocation, Budget(mu=1))
    squares, variance = [], 0.0
    for seed in range(200):
        estimates = Estimates(SHAPE, [(0, 1)])
        estimates.observe(residuals_of(measure(integer_plan, Counts(source), SeededRandomSource(seed))))
        squares.append(((estimates.table((0, 1)) - truth) ** 2).sum())
        variance = estimates.variances((0, 1)).sum()
    assert abs(np.mean(squares) - variance) <= 5 * np.std(squares) / 200**0.5


@pytest.mark.parametrize(
    ("attributes", "variances", "message"),
    [
        ((), {}, "a round measures a table of one attribute or more, got ()"),
        (
            (0,),
            {(0,): Fraction(10**40)},
            "this round would need noise beyond 1e16, which cannot be drawn; use a larger budget",
        ),
    ],
)
def test_refuses(attributes, variances, message):
    with pytest.raises(LeastnoiseError) as error:
        table_integer_plan(DOMAIN, attributes, Allocation(variances, {}), Budget(mu=1))
    assert str(error.value) == message
