"""Whether releases are as uncertain as they say, over many runs on data shaped like a census table.

Every test states its false-alarm rate for noise that is drawn anew; with seeds the outcome is the same every time.
"""

import csv
import io
import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom, chi2, kstest, norm

import leastnoise as ln
from leastnoise.mechanisms.gate import Counts
from leastnoise.mechanisms.measurement import measure
from leastnoise.noise import SecureRandomSource, SeededRandomSource
from leastnoise.release import LinearQuery, TableRelease
from leastnoise.release.answers import quantile
from leastnoise.release.queries.language import parse
from leastnoise.sources import Codes, Marginals
from leastnoise.strategies.circulant import Circulant
from leastnoise.workload import Workload
from leastnoise.workload.tensors import Affine

DOMAIN = ln.Domain.of(
    age=range(20), sex=["F", "M"], education=range(8), income=ln.bins(0, 50_000, width=5_000), hours=range(10)
)
ROWS = 48_842
TABLES = [("age", "sex"), ("hours", "income"), ("education",)]
QUESTIONS = [
    "age between 3 and 10",  # a range
    "sex = 'F' and 10000 <= income < 30000",  # a range by group
    "age <= 6",  # a prefix
    "age < 9 and sex = 'M' or age >= 15 and sex = 'F'",  # in no statement of the workload
    "(education < 3) - 0.5 * (hours = 4) + (age = 2 and income < 5000)",  # over several tables
    "true",
]
AFFINE = Affine().rows((10, 10))[[3, 8, 12]].reshape(-1, 10, 10)  # of income and hours
pytestmark = [pytest.mark.long, pytest.mark.xdist_group("calibration")]  # the runs are made once, in one worker

ALARM = 1e-6  # over all checks of one test, by Bonferroni


def people() -> np.ndarray:
    """Skewed and dependent codes."""
    rng = np.random.default_rng(8)
    age = np.minimum(rng.gamma(2.2, 3.2, ROWS), 19).astype(int)
    sex = (rng.random(ROWS) < 0.67).astype(int)
    education = np.minimum(rng.beta(2, 3, ROWS) * 8 + 0.05 * age, 7).astype(int)
    income = np.minimum(rng.pareto(1.5, ROWS) * 2 + 0.3 * education, 9).astype(int)
    hours = np.clip(np.rint(rng.normal(4, 1.1, ROWS)), 0, 9).astype(int)
    return np.column_stack([age, sex, education, income, hours])


def workload() -> Workload:
    """Income and hours together are measured by their affine queries alone, which have low rank."""
    pairs = Workload(DOMAIN).marginals("age", "sex", "education", "income", ways=2).marginals("hours")
    return pairs.prefix("age").ranges("income", by="sex").affine("income", "hours")


def queries() -> list[LinearQuery]:
    """The total comes last."""
    affine = [LinearQuery.of(DOMAIN, ["income", "hours"], rows) for rows in AFFINE]
    return affine + [parse(DOMAIN, text) for text in QUESTIONS]


class Runs:
    """Scores (answer - truth) / std_error of many runs of one plan, one row per run."""

    def __init__(self, plan, runs, random_source):
        source = Codes(DOMAIN, people())
        pairs = [(DOMAIN.names[a], DOMAIN.names[b]) for a in range(5) for b in range(a + 1, 5)]
        counts = source.count([(DOMAIN.index(a), DOMAIN.index(b)) for a, b in pairs])
        tables = dict(zip(pairs, counts, strict=True))
        counted = Marginals(DOMAIN, tables)  # counts every run from small tables instead of rows
        results = [TableRelease((measure(plan.integer_plan, Counts(counted), random_source(k)),)) for k in range(runs)]
        requests = queries()
        truths = [exact(source, names) for names in TABLES]
        joint = results[0].ask_many(requests)
        self.covariance, self.errors = joint.covariance, [results[0].std_errors(*names) for names in TABLES]
        values = np.array([r.ask_many(requests).values for r in results])
        self.differences = values - [query_truth(tables, q) for q in requests]
        with np.errstate(invalid="ignore"):  # an exact total has no score
            self.questions = self.differences / joint.std_errors
        self.cells = [
            ((np.array([r.counts(*names) for r in results]) - truth) / error).reshape(runs, -1)
            for names, truth, error in zip(TABLES, truths, self.errors, strict=True)
        ]

    @property
    def scores(self):
        """All scores: runs x checks."""
        return np.concatenate([*self.cells, self.questions[:, ~np.isnan(self.questions).any(axis=0)]], axis=1)


def exact(source, names):
    attributes = [DOMAIN.index(n) for n in names]
    order = sorted(attributes)
    (table,) = source.count([tuple(order)])
    return table.transpose([order.index(a) for a in attributes])


def query_truth(tables, query):
    """The exact answer, from pairs of attributes alone."""
    total = 0.0
    for attributes, weights in query.terms:
        names = [DOMAIN.names[a] for a in attributes]
        pair, table = next((p, t) for p, t in tables.items() if set(names) <= set(p))
        total += np.sum(table.sum(axis=tuple(i for i, n in enumerate(pair) if n not in names)) * weights)
    return total


def check_normal(scores, alarm=ALARM):
    """Each column is standard normal by Kolmogorov and Smirnov; false alarms at rate `alarm` over all columns."""
    values = [kstest(column, "norm").pvalue for column in scores.T]
    assert min(values) > alarm / len(values)


def check_coverage(scores, alarm=ALARM, confidence=0.95):
    """Intervals of each column cover as often as they say; binomial, at rate `alarm` over all columns."""
    runs, checks = scores.shape
    covered = (np.abs(scores) <= quantile(confidence)).sum(axis=0)
    low, high = binom.ppf([alarm / (2 * checks), 1 - alarm / (2 * checks)], runs, confidence)
    assert low <= covered.min()
    assert covered.max() <= high


@pytest.fixture(scope="module")
def runs():
    plan = ln.plan(workload(), ln.Budget(epsilon=1, delta=1e-9))
    return Runs(plan, 2_000, SeededRandomSource)


def test_scores_are_standard_normal(runs):
    """False alarms: 1e-6, Bonferroni over about 150 cells and questions."""
    assert runs.scores.shape == (2_000, 40 + 100 + 8 + 9)
    check_normal(runs.scores)


def test_intervals_cover_as_they_say(runs):
    """Each check alone: false alarms 1e-6, Bonferroni. All together within 1%: below 2e-9.

    The share of intervals that cover differs from run to run; its mean over 2,000 runs is normal to high accuracy,
    and the test makes sure that 1% is more than six of its standard errors.
    """
    for confidence in (0.5, 0.95, 0.99):
        check_coverage(runs.scores, confidence=confidence)
    share = (np.abs(runs.scores) <= quantile(0.95)).mean(axis=1)
    assert 6 * share.std() / np.sqrt(len(share)) < 0.01
    assert share.mean() == pytest.approx(0.95, abs=0.01)


def test_mean_and_variance_are_exact(runs):
    """Each column is unbiased with variance 1: false alarms 1e-6 for either. The mean variance: below 2e-9.

    As with the intervals, the last check is one of a mean over independent runs, by six of its standard errors.
    """
    count, checks = runs.scores.shape
    limit = norm.isf(ALARM / (2 * checks))
    assert np.abs(runs.scores.mean(axis=0)).max() * np.sqrt(count) < limit
    low, high = chi2.ppf([ALARM / (2 * checks), 1 - ALARM / (2 * checks)], count)
    squares = (runs.scores**2).sum(axis=0)
    assert low < squares.min()
    assert squares.max() < high
    per_run = (runs.scores**2).mean(axis=1)
    error = per_run.std() / np.sqrt(count)
    assert error < 0.01
    assert per_run.mean() == pytest.approx(1, abs=6 * error)


def test_joint_covariance_is_exact(runs):
    """Squared distances by the stated covariance are chi-square; false alarms: 1e-6."""
    distances = np.einsum("ri,ij,rj->r", runs.differences, np.linalg.inv(runs.covariance), runs.differences)
    assert kstest(distances, chi2(len(queries())).cdf).pvalue > ALARM


def test_simultaneous_intervals_hold_together(runs):
    """All 40 cells of a table at once in at least 95% of runs; false alarms: 1e-6 (binomial)."""
    wide = quantile(0.95, together=40)
    held = (np.abs(runs.cells[0]) <= wide).all(axis=1).sum()
    assert held >= binom.ppf(ALARM, 2_000, 0.95)
    assert wide < norm.isf(0.05 / 80)  # never wider than Bonferroni


def test_runs_are_independent(runs):
    """Scores of one run say nothing about the next: correlations at lag 1; false alarms: 1e-6, Bonferroni."""
    x = runs.scores
    lagged = (x[1:] * x[:-1]).mean(axis=0) * np.sqrt(len(x) - 1)
    assert np.abs(lagged).max() < norm.isf(ALARM / (2 * x.shape[1])) + 0.5  # products have heavier tails


@pytest.mark.parametrize("options", [{"neighbours": "replace"}, {"rows_per_person": 3}], ids=str)
def test_other_neighbours_are_calibrated(options):
    """False alarms: 1e-6 for the scores and 1e-6 for the coverage, Bonferroni over all columns."""
    plan = ln.plan(workload(), ln.Budget(epsilon=1, delta=1e-9, **options))
    few = Runs(plan, 250, lambda k: SeededRandomSource(50_000 + k))
    check_normal(few.scores)
    check_coverage(few.scores)
    if options.get("neighbours") == "replace":
        assert few.scores.shape[1] == 40 + 100 + 8 + 8  # all but the total, which is exact
        assert np.abs(few.differences[:, -1]).max() < 1e-6


ON_CYCLES = {"fourier": workload(), "embedding": Workload(DOMAIN).extended(ways=2)}


@pytest.mark.parametrize("solver", ON_CYCLES)
def test_fourier_mechanisms_are_calibrated(solver):
    """Convolutions in integers, read by FFT. False alarms: 1e-6 for either check, and below 2e-9 for the mean."""
    plan = ln.plan(ON_CYCLES[solver], ln.Budget(epsilon=1, delta=1e-9), solver=solver)
    noisy = [q for several in plan.integer_plan.noisy_queries for q in several]
    assert any(isinstance(part, Circulant) for q in noisy for part in q.strategy.parts)
    few = Runs(plan, 250, lambda k: SeededRandomSource(70_000 + k))
    check_normal(few.scores)
    check_coverage(few.scores)
    per_run = (few.scores**2).mean(axis=1)
    error = per_run.std() / np.sqrt(len(per_run))
    assert error < 0.02
    assert per_run.mean() == pytest.approx(1, abs=6 * error)


def test_secure_noise_is_calibrated():
    """No seed here: this noise differs in every run, so a false alarm happens once in 10^9 test runs.

    Half of the rate goes to the scores, half to the coverage.
    """
    plan = ln.plan(workload(), ln.Budget(epsilon=1, delta=1e-9))
    secure = SecureRandomSource()
    many = Runs(plan, 500, lambda k: secure)
    check_normal(many.scores, alarm=5e-10)
    check_coverage(many.scores, alarm=5e-10)


@pytest.mark.slow
def test_every_query_of_the_workload_is_calibrated():
    """All queries in 400 runs. False alarms: 1e-6 for the scores and 1e-6 for the coverage, Bonferroni."""
    plan = ln.plan(workload(), ln.Budget(epsilon=1, delta=1e-9))
    source = Codes(DOMAIN, people())
    quiet = ln.plan(workload(), ln.Budget(mu=1e6)).run(
        source, random_source=SeededRandomSource(1)
    )  # exact to 1e-4 rows
    truth = quiet.answer(workload())["answer"].to_numpy().round()
    scores = []
    for k in range(400):
        frame = plan.run(source, random_source=SeededRandomSource(90_000 + k)).answer(workload())
        scores.append(((frame["answer"] - truth) / frame["std_error"]).to_numpy())
    assert len(truth) == workload().queries
    check_normal(np.array(scores))
    check_coverage(np.array(scores))


@pytest.mark.data
def test_real_census_table_is_calibrated():
    """Adult itself, 200 runs of all pairs. False alarms: 1e-6 for the scores and 1e-6 for the coverage."""
    folder = os.environ.get("LEASTNOISE_DATA")
    if folder is None or not (Path(folder) / "adult.zip").exists():
        pytest.skip("set LEASTNOISE_DATA to a folder with adult.zip and adult-domain.json")
    sizes = json.loads((Path(folder) / "adult-domain.json").read_text())
    names = ["age", "sex", "race", "income>50K", "hours-per-week"]
    domain = ln.Domain.of({n: sizes[n] for n in names})
    with zipfile.ZipFile(Path(folder) / "adult.zip") as archive, archive.open(archive.namelist()[0]) as file:
        rows = list(csv.DictReader(io.TextIOWrapper(file)))
    source = Codes(domain, np.array([[int(row[n]) for n in names] for row in rows]))
    plan = ln.plan(Workload(domain).marginals(ways=2), ln.Budget(epsilon=1, delta=1e-9))
    truth = next(iter(source.count([(0, 1)])))
    results = [plan.run(source, random_source=SeededRandomSource(k)) for k in range(200)]
    scores = np.array([(r.counts("age", "sex") - truth) / r.std_errors("age", "sex") for r in results]).reshape(200, -1)
    check_normal(scores)
    check_coverage(scores)
