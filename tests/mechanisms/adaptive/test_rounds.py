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
    table_recipe,
)
from leastnoise.mechanisms.adaptive.select import allowance
from leastnoise.mechanisms.gate import Counts
from leastnoise.mechanisms.measurement import measure
from leastnoise.noise import SeededBits
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
        made = allocate(sizes, known, MU, budget)
        recipe = table_recipe(DOMAIN, attributes, made, budget)
        assert recipe.cost.mu_squared == MU == made.mu_squared
        assert recipe.cost.change == budget.cost_value.change


def test_noise_has_the_allocated_variance():
    made = Allocation({(): Fraction(5), (0, 1): Fraction(1, 3)}, {})
    recipe = table_recipe(DOMAIN, (0, 1), made, Budget(mu=1))
    for orbit, probes in zip(recipe.structure.orbits, recipe.probes, strict=True):
        assert len(probes) == (len(orbit) != 1)
        for probe in probes:
            scale = probe.strategy.multiplier * np.prod(probe.strategy.shape, initial=1)
            assert probe.variance / Fraction(int(scale)) ** 2 == made.variances[tuple(range(len(orbit)))]
            assert probe.variance >= 64**2


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_a_round_agrees_with_its_release(rng, neighbours):
    """Select, allocate, measure, update; the merged release knows the same, and the costs add up exactly."""
    budget = Budget(rho=2, neighbours=neighbours)
    source = source_of(rng.integers(0, 30, SHAPE), DOMAIN)
    estimates, bits, parts = Estimates(SHAPE, SETS), SeededBits(5), []
    for a in range(4):
        made = allocate([SHAPE[a]], estimates.known((a,)), MU, budget)
        parts.append(measure(table_recipe(DOMAIN, (a,), made, budget), Counts(source), bits))
        estimates.observe(residuals_of(parts[-1]))
    selection = Selection(tuple(SETS), overlaps(SETS, SETS), epsilon_for_cost(Fraction(1, 100)), neighbours)
    allowances = {s: allowance(int(np.prod([SHAPE[a] for a in s])), float(MU) ** -0.5) for s in SETS}
    distances = Distances(Counts(source), estimates)
    measured = set()
    for _ in range(6):
        chosen = selection.choose(distances.by_set, allowances, bits)
        made = allocate([SHAPE[a] for a in chosen], estimates.known(chosen), MU, budget)
        parts.append(measure(table_recipe(DOMAIN, chosen, made, budget), Counts(source), bits))
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
    made = allocate([3, 4], {}, MU)
    recipe = table_recipe(DOMAIN, (0, 1), made, Budget(mu=1))
    squares, variance = [], 0.0
    for seed in range(200):
        estimates = Estimates(SHAPE, [(0, 1)])
        estimates.observe(residuals_of(measure(recipe, Counts(source), SeededBits(seed))))
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
        table_recipe(DOMAIN, attributes, Allocation(variances, {}), Budget(mu=1))
    assert str(error.value) == message
