"""The audit: its neighbours are the worst, its bounds hold, honest plans pass, broken mechanisms are flagged.

All seeds are fixed, so nothing here fails by chance; the rates in comments are those over seeds.
"""

import json
import re
from dataclasses import replace
from importlib import import_module
from itertools import product
from math import exp, sqrt

import numpy as np
import pytest
from scipy.stats import binom, norm
from typer.testing import CliRunner

import leastnoise as ln
from leastnoise.audit.bounds import bounds, epsilon_bound, error_rates, mu_bound, noticed, upper
from leastnoise.audit.judge import CONSISTENT, Audit, examine
from leastnoise.audit.pair import inner, worst_cells
from leastnoise.audit.tables import CountedOnce, Repeated, TableTrial, audit, looks_at, of_release, pairs_of
from leastnoise.cli import app, main
from leastnoise.cli.progress import ProgressBar
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms import measurement as measuring
from leastnoise.mechanisms.gate import Counts
from leastnoise.noise import SeededRandomSource, rounded_gaussian
from leastnoise.planning.integer_plan import NoisyQuery, sensitivity
from leastnoise.strategies.integer import Centring, IntegerStrategy, Rows

# functions of the same name stand before the modules
auditing, commands = import_module("leastnoise.audit.tables"), import_module("leastnoise.cli.commands.audit")
judging = import_module("leastnoise.audit.judge")

DOMAIN = ln.Domain.of(age=range(5), sex=["F", "M"], job=3)
WORK = ln.Workload(DOMAIN).marginals(ways=2).prefix("age").ranges("age", by="sex", weight=2)
BUDGETS = [
    ln.Budget(epsilon=1, delta=1e-9),
    ln.Budget(mu=1),
    ln.Budget(rho=2, neighbours="replace"),
    ln.Budget(mu=1, rows_per_person=3),
    ln.Budget(mu=1, neighbours="replace", rows_per_person=2),
    ln.Budget(mu=1, neighbours="replace", size="private"),
    ln.Budget(mu=1, rows_per_person=1),
]


def planned(budget: ln.Budget, work: ln.Workload = WORK) -> ln.Plan:
    return ln.plan(work, budget)


def with_recipe(plan: ln.Plan, **changes) -> ln.Plan:
    """A plan that does not measure what it claims."""
    vars(plan)["integer_plan"] = replace(plan.integer_plan, **changes)
    return plan


# --- the worst neighbours ---------------------------------------------------------------------------------------------


def dense(strategy: IntegerStrategy) -> np.ndarray:
    """All columns, one per cell, by measuring single rows."""
    cells = int(np.prod(strategy.shape))
    return strategy.apply(np.eye(cells, dtype=np.int64).reshape(cells, *strategy.shape), 1).reshape(cells, -1).T


def strategies() -> list[IntegerStrategy]:
    rng = np.random.default_rng(3)
    rows, joint = Rows(rng.integers(-9, 9, (4, 3)), (3,)), Rows(rng.integers(-9, 9, (5, 6)), (2, 3))
    return [
        IntegerStrategy((), 7),
        IntegerStrategy((Centring(4), rows), 3),
        IntegerStrategy((joint, Centring(2))),
        IntegerStrategy((rows, Centring(4)), 2, rng.integers(1, 9, (4, 4))),
    ]


@pytest.mark.parametrize("strategy", strategies(), ids=lambda s: str(s.shape))
def test_inner_products_are_those_of_the_columns(strategy):
    gram = dense(strategy).T @ dense(strategy)
    cells = np.array(list(product(*map(range, strategy.shape))), dtype=np.int64)
    for place, other in enumerate(cells):
        values = np.broadcast_to(inner(strategy, cells, other[None]), len(cells))
        np.testing.assert_allclose(values, gram[:, place], rtol=1e-12)
    np.testing.assert_allclose(np.broadcast_to(inner(strategy, cells, cells), len(cells)), np.diagonal(gram))


def columns(integer_plan) -> np.ndarray:
    """What one row in each cell of the domain does to all answers, in units of the noise."""
    cells = np.array(list(product(*map(range, DOMAIN.shape))))
    parts = []
    for orbit, noisy_queries in zip(integer_plan.structure.orbits, integer_plan.noisy_queries, strict=True):
        for members in integer_plan.structure.sets(orbit):
            for noisy_query in noisy_queries:
                if noisy_query.variance:
                    place = (
                        np.ravel_multi_index(tuple(cells[:, members].T), noisy_query.strategy.shape)
                        if len(members)
                        else 0
                    )
                    column = dense(noisy_query.strategy)[:, place].reshape(-1, 1 if not len(members) else len(cells))
                    parts.append(np.broadcast_to(column, (len(column), len(cells))) / sqrt(noisy_query.variance))
    return np.concatenate(parts)


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_neighbours_are_the_worst_of_all(budget):
    """A pair for each way in which data may change; each of them is the worst there is."""
    integer_plan = planned(budget).integer_plan
    X, k = columns(integer_plan), budget.neighbours.rows
    single = (X**2).sum(axis=0).max()
    moved = ((X[:, :, None] - X[:, None, :]) ** 2).sum(axis=0).max()
    worst = ([moved] if budget.neighbours.change == "replace" else []) + (
        [single] if budget.neighbours.size == "private" else []
    )
    gaps = [sum(look.gaps.sum() for look in looks_at(integer_plan, pair)) for pair in pairs_of([integer_plan])]
    assert gaps == pytest.approx([k**2 * w for w in worst], rel=1e-9)
    assert max(gaps) <= integer_plan.cost.mu_squared * (1 + 1e-9)


def test_a_single_table_reaches_its_sensitivity():
    integer_plan = planned(ln.Budget(mu=1), ln.Workload(DOMAIN).prefix("age")).integer_plan
    (cell,) = worst_cells([integer_plan], 1)
    noisy_query = integer_plan.noisy_queries[integer_plan.structure.orbits.index((0,))][0]
    assert inner(noisy_query.strategy, cell[None, :1], cell[None, :1])[0] == sensitivity(
        noisy_query.strategy, integer_plan.budget
    )


# --- many runs at once ------------------------------------------------------------------------------------------------


def test_repeated_runs_are_runs(monkeypatch):
    integer_plan = planned(ln.Budget(mu=1)).integer_plan
    source = pairs_of([integer_plan])[0][1]
    monkeypatch.setattr(
        measuring, "rounded_gaussian", lambda random_source, variance, size: np.zeros(size, dtype=np.int64)
    )
    once = measuring.measure(integer_plan, Counts(source), SeededRandomSource(1)).answers
    repeated = replace(integer_plan, structure=Repeated.of(integer_plan.structure, 3))
    thrice = measuring.measure(repeated, CountedOnce(source), SeededRandomSource(1)).answers
    for one, three in zip(once, thrice, strict=True):
        for y, yyy in zip(one, three, strict=True):
            np.testing.assert_array_equal(np.repeat(y, 3, axis=0), yyy)


def test_counted_once_are_the_same_counts():
    source = pairs_of([planned(ln.Budget(mu=1)).integer_plan])[0][0]
    sets = [(0,), (0,), (1, 0), (), (), (0,)]
    for values, expected in zip(CountedOnce(source).tables(sets), Counts(source).tables(sets), strict=True):
        np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize("merge", [0, 64])
def test_scores_are_log_likelihood_ratios(monkeypatch, merge):
    monkeypatch.setattr(auditing, "MOST_SCORES", merge)
    integer_plan = planned(ln.Budget(mu=2)).integer_plan
    (pair,) = pairs_of([integer_plan])
    trial, random_source = TableTrial((integer_plan,), pair), SeededRandomSource(4)
    samples = [trial.run(dataset, 130, lambda: random_source) for dataset in (0, 1)]
    total = trial.gaps.sum()
    without, with_ = (s.scores.sum(axis=1) for s in samples)
    # means 0 and mu^2, variance mu^2; five standard errors, rate 2e-6
    assert abs(without.mean()) < 5 * sqrt(total / 130)
    assert abs(with_.mean() - total) < 5 * sqrt(total / 130)
    assert np.std([*without, *(with_ - total)]) == pytest.approx(sqrt(total), abs=5 * sqrt(total / 2 / 260))
    assert len(np.unique(np.concatenate([s.prints for s in samples]), axis=0)) == 260
    assert samples[0].mu == pytest.approx(sqrt(total))


@pytest.mark.parametrize("most", [2**22, 500, 1])
def test_runs_are_carried_out_some_at_a_time(monkeypatch, most):
    monkeypatch.setattr(judging, "CHUNK_NUMBERS", most)  # all runs in one chunk, some, one
    steps = []
    result = audit(planned(ln.Budget(mu=1)), 130, 0.999, seed=1, progress=lambda *step: steps.append(step))
    assert result.ok  # a false alarm for 0.1% of the seeds
    assert steps[-1] == (130, 130, "auditing")
    assert (len(steps) == 1) == (most == 2**22)
    assert (len(steps) == 130) == (most == 1)


# --- bounds -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "trials"), [(0, 10), (3, 10), (9, 10), (40, 5000)])
def test_clopper_pearson(count, trials):
    # at the bound, so few are seen with exactly the stated probability
    assert binom.cdf(count, trials, upper(count, trials, 0.01)) == pytest.approx(0.01, rel=1e-9)


def test_clopper_pearson_knows_nothing_from_failures_only():
    assert upper(10, 10, 0.01) == 1


def test_exact_error_rates_give_exact_mu_and_never_too_much_epsilon():
    thresholds = np.linspace(-3, 4, 201)
    for mu, delta in [(0.2, 1e-9), (1.0, 1e-6), (3.0, 1e-3)]:
        alpha, beta = norm.sf(thresholds), norm.cdf(thresholds - mu)
        np.testing.assert_allclose(mu_bound(alpha, beta), mu, rtol=1e-9)
        assert epsilon_bound(alpha, beta, delta).max() <= ln.Budget(mu=mu).epsilon_at(delta)
    # a test that exhausts epsilon and delta
    assert epsilon_bound(np.array([0.1]), np.array([1 - 0.1 * exp(1) - 1e-3]), 1e-3) == pytest.approx(1)


def test_error_rates_count_both_kinds_of_error():
    alpha, beta = error_rates([np.array([0.0, 1, 2, 3]), np.array([2.0, 3, 4, 5])], np.array([2.5]), 0.5)
    assert (alpha, beta) == (upper(1, 4, 0.5), upper(1, 4, 0.5))


def gaussian_scores(rng, mu, runs):
    return [rng.normal(shift, mu, (runs, 1)) for shift in (0, mu**2)]


@pytest.mark.long
def test_false_alarms_are_rare_and_bounds_are_close():
    rng = np.random.default_rng(0)
    rate = 0.2 / 8  # confidence 0.8
    values = np.array([bounds(gaussian_scores(rng, 1.0, 1000), np.ones(1), rate, 1e-6)[0] for _ in range(200)])
    # at most 40 false alarms are expected; more than 58 of 200 has probability below 0.002 at the stated rate
    assert (values > 1).sum() <= 58
    assert values.mean() > 0.7


def test_noise_used_twice_is_learned():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(400, 1)) * np.array([[1.0, 1.0]])  # one draw in two scores with different signals
    gaps = np.array([0.5, 0.1])
    assert bounds([noise, rng.permutation(noise) + gaps], gaps, 0.01, 1e-6)[0] > 3
    fair = rng.normal(size=(400, 2))
    assert bounds([fair, rng.normal(size=(400, 2)) + gaps], gaps, 0.01, 1e-6)[0] < 1


def test_without_noise_the_bound_is_all_that_the_runs_can_tell():
    scores = [np.zeros((400, 1)), np.ones((400, 1))]
    assert bounds(scores, np.ones(1), 0.01, 1e-6)[0] == pytest.approx(2 * norm.isf(upper(0, 200, 0.01)))


@pytest.mark.long
@pytest.mark.parametrize("claim", [0.2, 1.0, 2.0])
def test_noticed_is_noticed(claim):
    rng = np.random.default_rng(1)
    rate, runs = 0.1 / 8, 2000
    mu = noticed(claim, runs // 2, rate, 0.9)
    flagged = [bounds(gaussian_scores(rng, mu, runs), np.ones(1), rate, 1e-6)[0] > claim for _ in range(100)]
    assert sum(flagged) >= 82  # fewer has probability 0.5% at the stated rate


def test_no_number_of_runs_notices_what_is_beyond_them():
    assert noticed(50.0, 1000, 0.01, 0.95) is None
    assert noticed(1.0, 10**6, 0.01, 0.95) < noticed(1.0, 10**3, 0.01, 0.95)


# --- honest and broken mechanisms -------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_an_honest_plan_passes(budget):
    result = audit(planned(budget), runs=2000, confidence=0.999, seed=1)  # a false alarm for 0.1% of the seeds
    assert result.ok
    assert result.verdict == CONSISTENT
    assert result.claimed_mu == budget.mu
    assert result.claimed_epsilon == pytest.approx(budget.epsilon or budget.epsilon_at(1e-6))
    assert result.pair_mu <= budget.mu * (1 + 1e-9)
    assert result.insecure


@pytest.mark.long
def test_an_honest_plan_is_almost_reached():
    result = audit(planned(ln.Budget(mu=1)), runs=10_000, seed=2)
    assert 0.85 < result.mu <= 1
    assert 1 < result.epsilon <= result.claimed_epsilon


def test_secure_noise_is_the_default_and_passes():
    result = audit(planned(ln.Budget(mu=1)), runs=500, confidence=1 - 1e-9)  # a false alarm in 1e-9 of the test runs
    assert result.ok
    assert not result.insecure


@pytest.mark.long
def test_halved_noise_is_flagged(monkeypatch):
    monkeypatch.setattr(
        measuring, "rounded_gaussian", lambda b, variance, size: rounded_gaussian(b, variance / 2, size)
    )
    result = audit(planned(ln.Budget(mu=1)), runs=4000, confidence=0.99, seed=3)
    # the true mu is sqrt(2): noticed with probability 0.99 at least
    assert result.noticed_mu < sqrt(2)
    assert re.fullmatch(r"VIOLATION: mu is at least 1\.[1-4]\d*, claimed is 1 \(confidence 0\.99\)", result.verdict)


@pytest.mark.long
def test_variances_below_the_budget_are_flagged():
    plan = planned(ln.Budget(mu=1))
    halved = tuple(
        tuple(NoisyQuery(p.strategy, p.variance / 2) for p in noisy_queries)
        for noisy_queries in plan.integer_plan.noisy_queries
    )
    assert not audit(with_recipe(plan, noisy_queries=halved), runs=4000, confidence=0.99, seed=3).ok


def test_forgotten_rows_are_flagged():
    plan = planned(ln.Budget(mu=1, rows_per_person=3))
    one_row = planned(ln.Budget(mu=1)).integer_plan
    result = audit(
        with_recipe(plan, noisy_queries=one_row.noisy_queries, baselines=one_row.baselines),
        runs=1000,
        confidence=0.99,
        seed=3,
    )
    assert result.pair_mu == pytest.approx(3, rel=0.01)
    assert result.verdict.startswith("VIOLATION: mu is at least")


@pytest.mark.parametrize("most", [2**22, 1000])
def test_reused_seed_is_flagged(monkeypatch, most):
    monkeypatch.setattr(judging, "CHUNK_NUMBERS", most)
    monkeypatch.setattr(judging, "SecureRandomSource", lambda: SeededRandomSource(5))
    result = audit(planned(ln.Budget(mu=1)), runs=100)
    # certain: whatever the seed, both datasets get the same noise
    assert result.verdict.startswith("VIOLATION: ")
    assert result.verdict.endswith(" runs repeat the noise of another run; a seed or a key is used again")
    assert result.repeats >= 100


def test_noise_may_repeat_by_chance_where_there_is_little_of_it():
    plan = planned(ln.Budget(mu=1), ln.Workload(DOMAIN).total())  # one integer of deviation 64
    assert audit(plan, runs=2000, confidence=0.999, seed=1).ok


def test_a_total_without_noise_is_flagged(monkeypatch):
    plan = planned(ln.Budget(mu=1))
    with_noise = measuring._with_noise

    def forgetful(exact, noisy_query, random_source):  # a mistake in the program: no integer plan can ask for this
        return (
            exact.reshape(len(exact), -1)
            if not noisy_query.strategy.parts
            else with_noise(exact, noisy_query, random_source)
        )

    monkeypatch.setattr(measuring, "_with_noise", forgetful)
    result = audit(plan, runs=500, confidence=0.99, seed=1)
    assert result.mu > 3.8  # as far as 500 runs can see
    assert not result.ok


def test_same_seed_same_audit():
    plan = planned(ln.Budget(mu=1))
    assert audit(plan, runs=300, seed=9) == audit(plan, runs=300, seed=9)
    assert audit(plan, runs=300, seed=9) != audit(plan, runs=300, seed=10)


def test_a_release_claims_all_that_its_parts_cost():
    """Two releases of the same data, merged: what both measured is distinguished together."""
    source = pairs_of([planned(ln.Budget(mu=1)).integer_plan])[0][0]
    plans = [ln.plan(WORK, ln.Budget(mu=mu), baseline="uniform") for mu in (0.6, 0.8)]
    merged = ln.merge(*(plan.run(source, random_source=SeededRandomSource(1)) for plan in plans))
    audit = examine(of_release(merged), 1000, 0.999, seed=1)  # a false alarm for 0.1% of the seeds
    assert audit.ok
    assert audit.claimed_mu == pytest.approx(1, rel=1e-3)
    assert 0.98 * audit.claimed_mu < audit.pair_mu <= audit.claimed_mu
    assert audit.kind == "release of tables"


@pytest.mark.slow
def test_false_alarms_of_the_whole_audit():
    plan = planned(ln.Budget(mu=1))
    alarms = sum(not audit(plan, runs=500, confidence=0.8, seed=s).ok for s in range(150))
    assert alarms <= 45  # 30 are expected at the stated rate; more than 45 has probability below 0.002


# --- words ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"runs": 99}, "an audit of 99 runs says nothing; use at least 100, better 10,000"),
        ({"runs": 1e4}, "an audit of 10000.0 runs says nothing; use at least 100, better 10,000"),
        ({"confidence": 95}, "confidence must be from 0.5 to below 1, got 95; usual values are 0.95, 0.99"),
        ({"delta": 0}, "delta must be between 0 and 1, got 0; usual values are 1e-6 or smaller"),
    ],
)
def test_bad_input(settings, message):
    with pytest.raises(LeastnoiseError, match=f"^{re.escape(message)}$"):
        audit(planned(ln.Budget(mu=1)), **settings)


FOUND = Audit("plan", 10_000, 0.95, 1e-9, 0.182, 1.0, 1, 0.1819, 0.15, 0.3, 0.34, 0, False)


def test_in_words():
    assert str(FOUND).splitlines() == [
        "claimed by this plan: mu 0.182, epsilon 1 at delta 1e-09",
        "measured: mu at least 0.15, epsilon at least 0.3 (confidence 0.95)",
        "10,000 runs on each of two datasets that differ by mu 0.1819",
        "a mu of 0.34 between them would have been noticed with probability 0.95",
        "consistent with the claim",
    ]
    assert "no mu between them would" in str(replace(FOUND, noticed_mu=None))
    several = str(replace(FOUND, pairs=2)).splitlines()[2]
    assert several == "10,000 runs on each of 2 pairs of datasets that differ by up to mu 0.1819"


def test_either_bound_may_refute():
    assert replace(FOUND, mu=0.2).verdict == "VIOLATION: mu is at least 0.2, claimed is 0.182 (confidence 0.95)"
    assert replace(FOUND, epsilon=1.5).verdict == "VIOLATION: epsilon is at least 1.5, claimed is 1 (confidence 0.95)"
    assert not replace(FOUND, repeats=2).ok


SPEC = """\
attributes:
  age: {range: [0, 4]}
  sex: {values: [F, M]}
workload:
  - {queries: hybrid, ways: [1, 2]}
privacy: {mu: 1}
"""


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "spec.yaml"
    path.write_text(SPEC)
    return str(path)


def test_command(spec):
    result = CliRunner().invoke(app, ["audit", spec, "--runs", "500", "--confidence", "0.999", "--seed", "1"])
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == "consistent with the claim"


def test_command_json(spec):
    result = CliRunner().invoke(app, ["audit", spec, "--runs", "500", "--seed", "1", "--delta", "1e-3", "--json"])
    outcome = json.loads(result.stdout)
    assert set(outcome) == {*Audit.__dataclass_fields__, "ok", "verdict"}
    assert (outcome["runs"], outcome["delta"], outcome["ok"], outcome["insecure"]) == (500, 1e-3, True, True)


def test_command_fails_on_a_violation(spec, monkeypatch):
    monkeypatch.setattr(
        measuring, "rounded_gaussian", lambda b, variance, size: rounded_gaussian(b, variance / 9, size)
    )
    result = CliRunner().invoke(app, ["audit", spec, "--runs", "1000", "--seed", "1"])
    assert result.exit_code == 1
    assert "VIOLATION: mu is at least" in result.stdout


def test_command_tells_mistakes_in_one_line(spec, capsys):
    with pytest.raises(SystemExit) as end:
        main(["audit", spec, "--runs", "5"])
    assert end.value.code == 2
    assert capsys.readouterr().err == ("leastnoise: an audit of 5 runs says nothing; use at least 100, better 10,000\n")


def test_command_reports_progress_and_has_an_example(spec, capsys, monkeypatch):
    result = CliRunner().invoke(app, ["audit", "--help"])
    assert "Example: leastnoise audit examples/survey.yaml" in result.stdout
    monkeypatch.setattr(commands, "ProgressBar", lambda query: ProgressBar(query, delay=0.0))
    with pytest.raises(SystemExit):
        main(["audit", spec, "--runs", "200", "--progress"])
    assert "auditing 100%" in capsys.readouterr().err
