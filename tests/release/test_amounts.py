"""Statistics of amounts: those of the clamped data, and intervals that cover them, on data with heavy tails."""

from functools import cache
from math import sqrt

import numpy as np
import pandas as pd
import pytest

import leastnoise as ln
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms import measurement  # noqa: F401  # before its sampler is replaced
from leastnoise.noise import SeededRandomSource
from leastnoise.release.queries.linear import Condition
from leastnoise.release.queries.questions import read_question
from leastnoise.release.statistics.moments import Regression
from leastnoise.sources import source_of
from tests.every import for_every
from tests.neighbours.tape import replaced

RUNS = 8_000
DOMAIN = ln.Domain.of(
    sex=["F", "M"],
    pay=ln.amount(0, 400, squares=True),
    hours=ln.amount(0, 60, unit=0.5, squares=True),
    age=ln.amount(15, 75, squares=True),
)
WORK = ln.Workload(DOMAIN).moments("pay", "hours", "age", by="sex")


def people(rows: int = 3_000) -> pd.DataFrame:
    """Pay has a Pareto tail (index 1.5: no variance), beyond the bounds for some."""
    rng = np.random.default_rng(7)
    age, hours = rng.integers(15, 75, rows), np.round(2 * rng.gamma(9, 4, rows)) / 2
    pay = np.round(0.5 * age + 2 * hours + 20 * rng.pareto(1.5, rows))
    return pd.DataFrame({"sex": rng.choice(["F", "M"], rows), "pay": pay, "hours": hours, "age": age})


def clamped(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(pay=frame.pay.clip(0, 400), hours=frame.hours.clip(0, 60), age=frame.age.clip(15, 75))


@cache
def truth() -> dict[str, float]:
    return truth_of(people())


def truth_of(people_given: pd.DataFrame) -> dict[str, float]:
    """Of the clamped rows."""
    frame = clamped(people_given)
    design = np.column_stack([np.ones(len(frame)), frame.hours, frame.age])
    coefficients = np.linalg.lstsq(design, frame.pay, rcond=None)[0]
    women = frame[frame.sex == "F"]
    return {
        "mean(pay)": frame.pay.mean(),
        "mean(pay) where sex = 'F'": women.pay.mean(),
        "variance(pay)": frame.pay.var(ddof=0),
        "variance(pay) where sex = 'F'": women.pay.var(ddof=0),
        "covariance(pay, hours)": np.cov(frame.pay, frame.hours, ddof=0)[0, 1],
        "correlation(pay, hours)": np.corrcoef(frame.pay, frame.hours)[0, 1],
        "sum(pay * hours)": (frame.pay * frame.hours).sum(),
        **dict(zip(["intercept", "hours", "age"], coefficients, strict=True)),
    }


QUESTIONS = [name for name in truth() if "(" in name] + ["regression(pay, hours, age)"]
READINGS = [(question, read_question(DOMAIN, question)(Condition(DOMAIN))) for question in QUESTIONS]
QUERIES = [query for _, reading in READINGS for query in reading.queries]


def answers(values: np.ndarray, coordinates: np.ndarray) -> dict[str, object]:
    """All statistics, from what a release says of all queries at once."""
    results, start = {}, 0
    for question, reading in READINGS:
        part = slice(start, start + len(reading.queries))
        start = part.stop
        if isinstance(reading, Regression):
            several = reading.answers(values[part], coordinates[part], 0.95)
            results |= dict(zip(reading.terms, several, strict=True))
        else:
            results[question] = reading.answer(values[part], coordinates[part], 0.95)
    return results


@cache
def released() -> list[dict[str, object]]:
    """Measured again and again."""
    plan, source = ln.plan(WORK, ln.Budget(mu=1)), source_of(people(), DOMAIN)
    releases = (plan.run(source, random_source=SeededRandomSource(seed)) for seed in range(RUNS))
    return [answers(*release.joint(QUERIES)) for release in releases]


def drawn(rows: int, draws: int) -> tuple[dict[str, float], list[dict[str, object]]]:
    """The truth of so many people, and answers drawn from the joint law that a release of them states."""
    frame = people(rows)
    with replaced():
        release = ln.plan(WORK, ln.Budget(mu=1)).run(frame)
    values, coordinates = release.joint(QUERIES)
    noise = np.random.default_rng(rows).standard_normal((draws, coordinates.shape[1]))
    return truth_of(frame), [answers(values + coordinates @ each, coordinates) for each in noise]


def covered(name: str, runs: list[dict[str, object]], true: dict[str, float] | None = None) -> float:
    value = (true or truth())[name]
    return float(np.mean([each[name].low <= value <= each[name].high for each in runs]))


def check_coverage(name: str) -> None:
    """Within 1% of 95% in 8,000 runs: a standard error is 0.24%, so that chance fails with 4e-5 for each of ten."""
    assert covered(name, released()) == pytest.approx(0.95, abs=0.01)


@pytest.mark.slow
@for_every(name=["mean(pay)", "mean(pay) where sex = 'F'", "sum(pay * hours)"])
def test_means_and_sums_of_amounts_cover(name):
    check_coverage(name)


@pytest.mark.slow
@for_every(name=["variance(pay)", "variance(pay) where sex = 'F'"])
def test_variances_cover(name):
    check_coverage(name)


@pytest.mark.slow
def test_covariances_cover():
    check_coverage("covariance(pay, hours)")


@pytest.mark.slow
def test_correlations_cover():
    check_coverage("correlation(pay, hours)")


@pytest.mark.slow
@for_every(name=["intercept", "hours", "age"])
def test_regressions_cover(name):
    check_coverage(name)


@pytest.mark.long
@for_every(rows=[20, 30, 60, 120])
def test_small_groups_are_covered(rows):
    """Where errors of means are as large as those of squares: at least 94% in theory, 93% of 3,000 draws (2 s.e.).

    94.8% is what a squared Gaussian error has within 1.96 of its standard deviations, 95% a Gaussian one. Groups whose
    size the noise hides have the whole range.
    """
    true, runs = drawn(rows, 3_000)
    for name in ("variance(pay)", "variance(pay) where sex = 'F'", "covariance(pay, hours)", "correlation(pay, hours)"):
        assert covered(name, runs, true) >= 0.93, name


@pytest.mark.slow
@for_every(name=truth())
def test_standard_errors_are_those_of_the_noise(name):
    """And estimates are right on average: within 4 standard errors of the mean of all runs (6e-5 for each)."""
    values = np.array([each[name].value for each in released()])
    errors = np.array([each[name].std_error for each in released()])
    assert values.std() == pytest.approx(errors.mean(), rel=0.04)  # 1 / (2 RUNS)^1/2 is 0.8%
    assert abs(values.mean() - truth()[name]) < 4 * values.std() / sqrt(RUNS)


def test_clamping_has_a_bias_that_is_stated():
    """The mean of the clamped values lies below that of the data, by far more than the noise: the answer says so."""
    with replaced():
        release = ln.plan(WORK, ln.Budget(mu=1)).run(people())
    mean = release.mean("pay")
    assert mean.value == pytest.approx(truth()["mean(pay)"], rel=1e-9)
    assert mean.value < people().pay.mean() - 10 * mean.std_error
    assert "values of 'pay' are clamped to 0 to 400" in mean.note


def test_without_noise_statistics_are_those_of_the_clamped_rows():
    with replaced():
        release = ln.plan(WORK, ln.Budget(mu=1)).run(people())
    got = answers(*release.joint(QUERIES))
    for name, value in truth().items():
        spare = 1e-6 if "variance" not in name else 1e-4  # noise of the means is taken off, though there is none
        assert got[name].value == pytest.approx(value, rel=spare), name
    by = release.variance("pay", by="sex").set_index("sex")["value"]
    assert by["F"] == pytest.approx(truth()["variance(pay) where sex = 'F'"], rel=1e-4)
    table = release.table("sex", "pay").set_index("sex")["sum"]
    assert table.to_dict() == pytest.approx(clamped(people()).groupby("sex").pay.sum().to_dict())


@pytest.mark.slow
def test_regressions_cover_the_population():
    """Rows drawn anew each time around a line, with noise: at least 94% of 1,000 (0.7% for a standard error)."""
    domain = ln.Domain.of(x=ln.amount(0, 20, squares=True), y=ln.amount(-50, 100, squares=True))
    plan = ln.plan(ln.Workload(domain).moments("x", "y"), ln.Budget(mu=1))
    hits = 0
    for seed in range(1_000):
        rng = np.random.default_rng(seed)
        x = rng.integers(0, 21, 400)
        y = 5 + 2 * x + rng.normal(0, 10, 400)
        release = plan.run({"x": x, "y": y}, random_source=SeededRandomSource(seed))
        frame = release.regression("y", "x", population=True).set_index("term")
        hits += bool(frame.low["x"] <= 2 <= frame.high["x"])
    assert 0.93 <= hits / 1_000 <= 0.97


@for_every(rows=[0, 1, 3])
def test_small_groups_say_that_they_are_hidden(rows):
    release = ln.plan(WORK, ln.Budget(mu=0.3)).run(people(rows), random_source=SeededRandomSource(2))
    variance = release.variance("pay")
    assert (variance.low, variance.high) == (0.0, 40_000.0)
    assert "the noise hides" in variance.note
    correlation = release.correlation("pay", "hours")
    assert (correlation.low, correlation.high) == (-1.0, 1.0)
    assert release.regression("pay", "hours")[["low", "high"]].isna().any(axis=None)  # an end without a number


REFUSED = {
    "pay < 5": "'pay' is an amount, which is summed, not compared; ask sum(pay) or mean(pay)",
    "5 <= pay < 10": "'pay' is an amount, which is summed",
    "median(pay)": "'pay' is an amount, which has no quantiles; declare bins of it beside the amount",
    "top(3, pay)": "'pay' is an amount, which makes no groups",
    "variance(sex)": "'sex' is counted by value, not summed",
    "variance(pay, hours)": "variance is of 1 amount, not 2",
    "covariance(pay)": "covariance is of 2 amounts, not 1",
    "correlation(pay, hours, age)": "correlation is of 2 amounts, not 3",
    "regression(pay)": "a regression of 'pay' needs another amount",
    "regression(pay, pay)": "the amount 'pay' is named twice",
    "sum(pay * pay)": "the sum has 'pay' twice; squares are in 'pay_squared'",
    "sum(pay * sex)": "'sex' is no amount; products are of amounts",
    "regression(pay, hours) - mean(pay)": "several numbers at once have no difference",
}


@for_every(question=REFUSED)
def test_what_amounts_cannot_answer_is_one_line(question, release):
    (item,) = release.ask_all(question)
    assert REFUSED[question] in item.error, item.error
    assert "\n" not in item.error


@pytest.fixture(scope="module")
def release():
    return ln.plan(WORK, ln.Budget(mu=1)).run(people(), random_source=SeededRandomSource(3))


def test_amounts_make_no_groups(release):
    with pytest.raises(LeastnoiseError, match="'pay' is an amount, which makes no groups"):
        release.ask_all("mean(hours)", by="pay")


def test_releases_with_amounts_come_back(release, tmp_path):
    release.save(tmp_path / "out")
    again = ln.load(tmp_path / "out")
    assert again.ask_all(QUESTIONS).to_json() == release.ask_all(QUESTIONS).to_json()
    pd.testing.assert_frame_equal(again.table("sex", "pay"), release.table("sex", "pay"))
    assert list(again.sums()) == list(release.sums())


def test_releases_with_amounts_are_merged():
    domain = ln.Domain.of(sex=["F", "M"], pay=ln.amount(0, 400))
    work = ln.Workload(domain).sums("pay", by="sex").marginals("sex")
    plan = ln.plan(work, ln.Budget(mu=1), baseline="uniform")
    both = [plan.run(people(), random_source=SeededRandomSource(seed)) for seed in (1, 2)]
    merged = ln.merge(*both)
    one, two, together = (each.table("sex", "pay") for each in (*both, merged))
    np.testing.assert_allclose(together["sum"], (one["sum"] + two["sum"]) / 2, rtol=1e-9)
    np.testing.assert_allclose(together["std_error"], one["std_error"] / sqrt(2), rtol=1e-9)


def test_tables_of_counts_and_of_sums_are_told_apart(release):
    assert list(release.tables()) == [(), ("sex",)]
    assert ("sex", "pay") in list(release.sums())
    assert not any("squared" in name for names in release.sums() for name in names)


def test_releases_with_amounts_are_audited():
    domain = ln.Domain.of(sex=["F", "M"], pay=ln.amount(0, 400), hours=ln.amount(0, 60, unit=0.5))
    work = ln.Workload(domain).sums("pay", "hours", by="sex").sums("pay", by="sex").marginals("sex")
    audit = ln.plan(work, ln.Budget(mu=1)).audit(2_000, seed=1)
    assert audit.ok
    assert audit.pair_mu == pytest.approx(1, abs=1e-3)  # rows at the bounds move answers by all that is paid for
