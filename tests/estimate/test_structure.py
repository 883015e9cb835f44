"""Attributes that follow from others: found in released numbers, attached, and closer for it."""

from itertools import combinations

import numpy as np
import pytest

import leastnoise as ln
from leastnoise._types import IntArray
from leastnoise.estimate import Estimate
from leastnoise.noise import SeededRandomSource
from tests.estimate.models import dense, random_mixture, released

ROWS = 40_000
FOLLOWS = {("code", "group"), ("code", "copy"), ("day", "later")}


def drawn(given: IntArray, size: int, rng: np.random.Generator) -> IntArray:
    """Values that depend on another column a little."""
    shares = rng.dirichlet(np.ones(size), int(given.max()) + 1).cumsum(axis=1)
    return (shares[given, :-1] < rng.random(len(given))[:, None]).sum(axis=1)


def columns(seed: int) -> dict[str, IntArray]:
    """Codes with their groups and a copy with errors, dates and delays, and columns of a hidden class."""
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, 3, ROWS)
    code, day = drawn(hidden, 24, rng), drawn(hidden, 30, rng)
    wrong = rng.random(ROWS) < 0.05
    return {
        "code": code,
        "group": code // 6,
        "copy": np.where(wrong, rng.integers(0, 24, ROWS), code),
        "day": day,
        "later": day + rng.geometric(0.6, ROWS).clip(max=6),
        "sex": drawn(hidden, 2, rng),
        "kind": drawn(hidden, 5, rng),
    }


def measured(data: dict[str, IntArray], seed: int, epsilon: float = 1) -> ln.Release:
    domain = ln.Domain.of({name: int(x.max()) + 1 for name, x in data.items()})
    plan = ln.plan(ln.Workload(domain).marginals(ways=2), ln.Budget(epsilon=epsilon, delta=1e-9))
    return plan.run(ln.sources.source_of(data, domain), random_source=SeededRandomSource(seed))


def links(estimate: Estimate) -> set[tuple[str, ...]]:
    names = estimate.domain.names
    found = [x for v in estimate.mixture.variables or () for x in v.attached]
    return {tuple(sorted((names[x.child], names[x.parent]), key=names.index)) for x in found}


@pytest.mark.long
def test_finds_copies_groups_and_delays_and_nothing_else():
    """On three tables: noise alone makes a pair that the model has right look unexplained with probability 1e-9."""
    for seed in range(3):
        assert links(measured(columns(seed), seed).fit(mixtures=1, components=4)) == FOLLOWS


@pytest.mark.long
def test_nothing_is_attached_to_a_mixture_of_products():
    domain = ln.Domain.of(a=8, b=7, c=6, d=5)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        truth = dense(random_mixture(domain.shape, 6, rng))
        table = rng.multinomial(50_000, truth.ravel() / truth.sum()).reshape(domain.shape)
        assert not links(released(ln.Workload(domain).marginals(ways=2), table, seed).fit(mixtures=1, components=2))


@pytest.mark.long
def test_structure_comes_closer_with_fewer_components():
    """Total variation over all pairs at most 0.8 times that without structure, which takes more components."""
    data = columns(5)
    release = measured(data, 5)
    with_trees, without = release.fit(mixtures=1), release.fit(mixtures=1, structure=False)
    assert len(with_trees.mixture.weights) < len(without.mixture.weights)
    assert with_trees.misfit < 1.05
    errors = []
    for estimate in (with_trees, without):
        total = 0.0
        for a, b in combinations(data, 2):
            truth = np.zeros(estimate.counts(a, b).shape)
            np.add.at(truth, (data[a], data[b]), 1)
            total += np.abs(estimate.counts(a, b) - truth).sum()
        errors.append(total)
    assert errors[0] < 0.8 * errors[1]


@pytest.mark.long
def test_trees_have_replicates_and_rows_as_other_estimates_do():
    data = columns(6)
    estimate = measured(data, 6).fit(mixtures=1, components=4, replicates=2)
    assert links(estimate)
    assert estimate.std_errors("code", "group").shape == (24, 4)
    rows = estimate.to_pandas(5_000, seed=1)
    assert list(rows) == list(data)
    assert (rows["group"] == rows["code"] // 6).mean() > 0.95
