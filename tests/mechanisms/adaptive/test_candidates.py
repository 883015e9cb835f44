"""Aims: what each residual does for each table, against generalized least squares over all cells."""

from fractions import Fraction
from functools import reduce
from math import prod

import numpy as np
import pytest
from numpy.testing import assert_allclose

import leastnoise as ln
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.adaptive import candidates as module
from leastnoise.mechanisms.adaptive.candidates import Candidates, maximal, parts
from leastnoise.mechanisms.adaptive.rounds import integer_plan_of
from leastnoise.mechanisms.gate import Counts
from leastnoise.mechanisms.measurement import measure
from leastnoise.noise import SeededRandomSource
from leastnoise.planning.integer_plan import cost_of
from leastnoise.sources import Table
from leastnoise.strategies.integer import Centring, IntegerStrategy, Rows
from leastnoise.workload import Workload
from tests.catalogue import WORKLOADS, generator, ordered
from tests.every import for_every
from tests.release.dense import Dense, strategy_rows, table_queries

BUDGETS = {
    "add-remove": ln.Budget(epsilon=1, delta=1e-9),
    "3 rows": ln.Budget(mu=1, rows_per_person=3),
    "replace": ln.Budget(rho=0.1, neighbours="replace"),
    "replace 3 rows": ln.Budget(mu=0.7, neighbours="replace", rows_per_person=3),
}
LACKING = {"two contrasts", "contrasts"}  # a difference needs no total
NAMES = [name for name in WORKLOADS if name not in LACKING | {"total"}]
SAME = 1e-4  # rounding to integers adds 1/12 to variances of 64^2 and more


def spent(candidates, seed=0):
    """Some precision for every residual."""
    draws = generator(seed, 31).uniform(0.1, 3, len(candidates.residuals))
    return {m: Fraction(int(x * 1000), 1000) for m, x in zip(candidates.residuals, draws, strict=True)}


def measured(candidates, spending):
    """The dense twin of measuring everything once."""
    budget, domain = candidates.base.budget, candidates.workload.domain
    integer_plan = integer_plan_of(
        candidates, {m: candidates.template(m).noisy_queries(x, budget) for m, x in spending.items()}
    )
    return Dense(
        (measure(integer_plan, Counts(Table(domain, np.ones(domain.shape, dtype=np.int64))), SeededRandomSource(1)),)
    )


@pytest.mark.parametrize("name", NAMES)
@for_every(budget=BUDGETS)
def test_errors_are_those_of_the_plan(name, budget):
    """Summed over residuals, error / precision is the summed variance of the table's queries."""
    candidates = Candidates.of(WORKLOADS[name], BUDGETS[budget])
    spending = spent(candidates)
    x = np.array([float(spending[m]) for m in candidates.residuals])
    per_table = candidates.per_table(candidates.errors / x[candidates.residual])
    dense, tables = measured(candidates, spending), list(table_queries(candidates.workload))
    assert_allclose(per_table, [(dense.std_errors(rows) ** 2).sum() for rows in tables], rtol=SAME, atol=1e-9)
    assert candidates.queries.tolist() == [len(rows) for rows in tables]


@pytest.mark.parametrize("seed", range(1, 13))
def test_errors_of_random_workloads(seed):
    rng = generator(seed, 17)
    work = Workload(ordered(*rng.integers(1, 5, 3).tolist())).marginals(ways=1)
    for family in rng.choice(["prefix", "range", "circular", "marginal", "suffix"], 2):
        work = work.add(str(family), ways=int(rng.integers(1, 4)), weight=float(rng.uniform(0.1, 5)))
    work = work.random(count=3, density=0.4, seed=seed, ways=2)
    candidates = Candidates.of(work, list(BUDGETS.values())[seed % 4])
    spending = spent(candidates, seed)
    x = np.array([float(spending[m]) for m in candidates.residuals])
    dense = measured(candidates, spending)
    expected = [(dense.std_errors(rows) ** 2).sum() for rows in table_queries(work)]
    assert_allclose(candidates.per_table(candidates.errors / x[candidates.residual]), expected, rtol=SAME, atol=1e-9)


def test_weights_are_roots_and_per_table():
    work = Workload(ordered(3, 2)).marginals(ways=1).prefix("a", weight=9)
    candidates = Candidates.of(work, BUDGETS["add-remove"])
    assert candidates.tables == ((0,), (1,), (0,))
    assert candidates.weights.tolist() == [1, 1, 3]


def test_weights_of_queries_count_by_their_mean_root():
    work = Workload(ordered(3, 2)).marginals(ways=1).add("prefix", on=["a"], weights=[1, 4, 36])
    work = work.add({"matrix": np.eye(6)[:2]}, on=["a", "b"], weights=[9, 25])
    candidates = Candidates.of(work.marginals("a", "b"), BUDGETS["add-remove"])
    assert candidates.weights.tolist() == [1, 1, 3, 4, 1]


@pytest.mark.parametrize("name", NAMES)
def test_probes_cost_exactly_what_they_should(name):
    for budget in BUDGETS.values():
        candidates = Candidates.of(WORKLOADS[name], budget)
        for members in candidates.residuals:
            template = candidates.template(members)
            noisy_queries = template.noisy_queries(Fraction(1, 3), budget)
            cost = sum((cost_of(p, budget) for p in noisy_queries), start=Fraction(0))
            if not template.parts:
                assert (members, cost) == ((), 0)
                continue
            assert 0 <= Fraction(1, 3) - cost <= Fraction(len(noisy_queries), module.GRAIN)
            assert all(p.variance >= 63**2 for p in noisy_queries)


@pytest.mark.parametrize("name", NAMES)
def test_energy_is_the_dense_trace(name):
    """Variance of the cells of a residual, summed, where mu^2 = 1 is spent on it."""
    candidates = Candidates.of(WORKLOADS[name], BUDGETS["add-remove"])
    shape = candidates.workload.domain.shape
    for members in candidates.residuals:
        template = candidates.template(members)
        B = np.concatenate(
            [
                strategy_rows(p.strategy) / float(p.variance) ** 0.5
                for p in template.noisy_queries(Fraction(1), BUDGETS["add-remove"])
            ]
        )
        C = reduce(np.kron, [np.eye(shape[a]) - 1 / shape[a] for a in members], np.ones((1, 1)))
        half = C @ np.linalg.pinv(B, rcond=1e-9)
        assert template.energy == pytest.approx((half**2).sum(), rel=2e-3 if len(template.strategies) > 1 else SAME)


# --- strategies with their axes in another order ----------------------------------------------------------------------


def strategies():
    rng = generator(5)
    rows, joint = Rows(rng.integers(-9, 9, (4, 3)), (3,)), Rows(rng.integers(-9, 9, (5, 6)), (2, 3))
    return [
        IntegerStrategy((Centring(4), rows), 3),
        IntegerStrategy((Centring(2), Centring(3), rows), 3),
        IntegerStrategy((rows, Centring(4)), 2, rng.integers(1, 9, (4, 4))),
        IntegerStrategy((joint,), 2),
    ]


@pytest.mark.parametrize("strategy", strategies(), ids=lambda s: str(s.shape))
def test_permuted_strategies_measure_the_same(strategy, rng):
    n = len(strategy.shape)
    for _ in range(6):
        axes = rng.permutation(n).tolist()
        turned = strategy.permuted(axes)
        assert turned.shape == tuple(strategy.shape[a] for a in axes)
        counts = rng.integers(0, 50, (1, *strategy.shape))
        moved = counts.transpose([0, *(1 + a for a in axes)])
        before, after = strategy.apply(counts, int(counts.sum())), turned.apply(moved, int(counts.sum()))
        assert sorted(before.ravel().tolist()) == sorted(after.ravel().tolist())
        assert (turned.largest_square, turned.largest_difference) == (
            strategy.largest_square,
            strategy.largest_difference,
        )


def test_templates_are_the_plan_with_axes_ascending():
    """Attributes 0 and 2 are of one class, 1 of another, so that the plan orders them otherwise."""
    work = Workload(ordered(3, 4, 3)).add({"a": "prefix", "b": "range", "c": "prefix"}).marginals(ways=2)
    candidates = Candidates.of(work, BUDGETS["add-remove"])
    for members in candidates.residuals:
        sizes = tuple(work.domain.shape[a] for a in members)
        for strategy in candidates.template(members).strategies:
            assert strategy.shape == sizes
            flat = strategy_rows(strategy)
            for axis in range(len(sizes)):  # nothing constant along any axis is measured
                assert np.abs(flat.reshape(-1, *sizes).sum(axis=1 + axis)).max() == 0


# --- sets -------------------------------------------------------------------------------------------------------------


def test_residuals_come_with_all_their_subsets():
    candidates = Candidates.of(WORKLOADS["prefix of 3"], BUDGETS["add-remove"])
    for i, members in enumerate(candidates.residuals):
        assert {candidates.residuals[j] for j in candidates.inside[i]} == set(parts(members))
    assert len(parts((3, 5, 9))) == 8


def test_maximal_sets_lie_in_no_other(rng):
    sets = list({tuple(sorted(rng.choice(6, rng.integers(0, 5), replace=False).tolist())) for _ in range(30)})
    expected = [s for s in sets if not any(set(s) < set(t) for t in sets)]
    assert maximal(sets) == expected


def test_smears_repeat_an_error_along_the_other_axes():
    work = Workload(ordered(3, 4)).add({"a": "prefix", "b": "range"})
    candidates = Candidates.of(work, BUDGETS["add-remove"])
    masses = [np.tri(3).mean(axis=1).sum(), np.mean([b - a + 1 for a in range(4) for b in range(a, 4)]) / 4 * 10]
    for r, smear in zip(candidates.residual, candidates.smears, strict=True):
        assert smear == pytest.approx(prod(m for a, m in enumerate(masses) if a not in candidates.residuals[r]))


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (
            WORKLOADS["two contrasts"],
            "adaptive estimates need a smaller table that the workload lacks; add marginals of 'a'",
        ),
        (WORKLOADS["contrasts"], "adaptive estimates need a smaller table that the workload lacks; add the total"),
        (
            Workload(ln.Domain.of({f"x{i}": 2 for i in range(60)})).marginals(ways=5),
            "5,985,198 residuals are too many to choose from; ask for fewer or smaller tables",
        ),
    ],
    ids=["no one-way table", "no total", "5-way of 60"],
)
def test_refuses(work, message):
    with pytest.raises(LeastnoiseError) as error:
        Candidates.of(work, BUDGETS["add-remove"])
    assert str(error.value) == message


@pytest.mark.parametrize("name", NAMES)
def test_fits_keep_the_noise_of_their_free_numbers(name):
    """Pair by pair: a share of the noise in what several attributes hold together, and all of it in one-way tables."""
    candidates = Candidates.of(WORKLOADS[name], BUDGETS["add-remove"])
    fitted, shape = candidates.for_fit, candidates.workload.domain.shape
    for k, (t, r) in enumerate(zip(candidates.table.tolist(), candidates.residual.tolist(), strict=True)):
        sizes = [shape[a] for a in candidates.tables[t]]
        share = min(1, module.FIT_NUMBERS * sum(sizes) / prod(sizes)) if len(candidates.residuals[r]) > 1 else 1
        assert fitted.errors[k] == pytest.approx(share * candidates.errors[k], rel=1e-12)
    assert fitted.residuals == candidates.residuals
    assert_allclose(fitted.weights, candidates.weights)
