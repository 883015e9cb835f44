"""Means, shares, quantiles and distribution functions: against brute force, their coverage, their messages."""

import json
from functools import cache
from math import inf

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import binom

import leastnoise as ln
from leastnoise.domain.attributes import Values
from leastnoise.mechanisms.tables.plan import Plan
from leastnoise.noise import SeededRandomSource
from leastnoise.release import LinearQuery, Release
from leastnoise.release.answers import quantile
from leastnoise.release.statistics.simultaneous import MOST_ANSWERS, half_width, joint_quantile
from leastnoise.release.statistics.statistics import Ratio
from leastnoise.sources import Table

ALARM = 1e-6  # false alarms of every statistical test here, two-sided

DOMAIN = ln.Domain.of(
    age=range(10, 18),
    sex=["F", "M"],
    income=ln.bins(0, 500, width=100),
    grade=Values(("low", "mid", "high"), ordered=True),
)
WORKLOAD = ln.Workload(DOMAIN).marginals(ways=2).prefix("age").ranges("income", by="sex", weight=2)


@cache
def planned(epsilon: float) -> Plan:
    return ln.plan(WORKLOAD, ln.Budget(epsilon=epsilon, delta=1e-9), baseline="search")


def released(counts: np.ndarray, seed: int, epsilon: float = 1.0) -> Release:
    return planned(epsilon).run(counts, random_source=SeededRandomSource(seed))


@pytest.fixture(scope="module")
def counts() -> np.ndarray:
    return np.random.default_rng(3).poisson(30.0, DOMAIN.shape)


@pytest.fixture(scope="module")
def release(counts) -> Release:
    return released(counts, 1)


def allowed(draws: int, confidence: float) -> tuple[float, float]:
    """Numbers of hits that a correct interval of exactly this confidence leaves with probability ALARM."""
    return binom.ppf(ALARM / 2, draws, confidence), binom.ppf(1 - ALARM / 2, draws, confidence)


# --- ratios -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("within", [(-inf, inf), (0.0, 1.0), (-3.0, 2.0)])
def test_fieller_is_the_hull_of_ratios_that_are_not_rejected(rng, within):
    grid = np.tan(np.linspace(-np.pi / 2 + 1e-5, np.pi / 2 - 1e-5, 400_001))
    grid = np.unique(np.clip(grid, *within))
    kinds = set()
    for _ in range(60):
        root = rng.normal(size=(2, 2)) * rng.choice([0.2, 1, 3])
        covariance = root @ root.T
        top, bottom = rng.normal(size=2) * 3
        ratio = Ratio(top, bottom, covariance[0, 0], covariance[1, 1], covariance[0, 1], within)
        errors = np.sqrt(covariance[0, 0] - 2 * grid * covariance[0, 1] + grid**2 * covariance[1, 1])
        left = grid[np.abs(top - grid * bottom) <= 1.96 * errors]
        low, high = ratio.interval(1.96)
        if len(left):
            for end, result, edge in zip((low, high), (left.min(), left.max()), (grid[0], grid[-1]), strict=True):
                # a step of the grid is 8e-6 (1 + r^2)
                assert abs(end - result) < 1e-4 * (1 + result**2) or (result == edge and abs(end) >= abs(edge))
        kinds.add((len(left) == 0, low == within[0], high == within[1]))
    assert len(kinds) >= 2  # bounded ones and others occurred


@pytest.mark.parametrize("size", [20.0, 3.0, 0.5])
def test_mean_covers(size, rng):
    # Fieller's set contains the true ratio with exactly the confidence, for denominators of any size.
    draws, width, true = 4_000, quantile(0.9), 1.7
    root = np.array([[1.0, 0.0], [0.6, 0.8]])
    hits = 0
    for top, bottom in np.array([true * size, size]) + rng.normal(size=(draws, 2)) @ root.T:
        low, high = Ratio(top, bottom, 1.0, 1.0, 0.6).interval(width)
        hits += low <= true <= high
    low, high = allowed(draws, 0.9)
    # the hull of two rays covers more than the rays, so small denominators may only err upwards
    assert hits >= low
    assert hits <= high or size < 4


def test_delta_method(rng):
    ratio = Ratio(300.0, 1000.0, 25.0, 16.0, 9.0)
    noise = rng.multivariate_normal([300, 1000], [[25, 9], [9, 16]], size=200_000)
    # the standard deviation of 200,000 draws errs by 0.16%; 2% is 12 of that: no false alarms
    assert ratio.std_error == pytest.approx((noise[:, 0] / noise[:, 1]).std(), rel=0.02)


def test_mean_is_the_ratio_of_two_answers(release, counts):
    result = release.mean("age", "sex = 'F'")
    ages = LinearQuery.product(DOMAIN, {"age": np.arange(10, 18), "sex": [1, 0]})
    joint = release.ask_many([ages, "sex = 'F'"])
    assert result.value == pytest.approx(joint.values[0] / joint.values[1])
    ratio = Ratio(*joint.values, joint.covariance[0, 0], joint.covariance[1, 1], joint.covariance[0, 1])
    assert_allclose((result.low, result.high), ratio.interval(quantile(0.95)))
    assert result.std_error == pytest.approx(ratio.std_error)
    true = counts.sum((2, 3))[:, 0] @ np.arange(10, 18) / counts[:, 0].sum()
    assert abs(result.value - true) < 5.5 * result.std_error  # false-alarm rate 4e-8; the seed is fixed


def test_mean_of_numbers_in_a_list():
    domain = ln.Domain.of(dose=[1, 5, 2.5], site=["a", "b"])
    table = np.array([[4000, 0], [1000, 9000], [0, 0]])
    plan = ln.plan(ln.Workload(domain).marginals(ways=2), ln.Budget(mu=1))
    statistic = plan.run(Table(domain, table), random_source=SeededRandomSource(1)).mean("dose", "site = 'a'")
    assert statistic.value == pytest.approx(9000 / 5000, abs=0.01)


def test_mean_of_bins_says_what_they_hide(release):
    result = release.mean("income")
    assert "may lie up to 50 further either way" in result.note
    assert 150 < result.value < 350


def test_mean_inside_the_values_the_condition_leaves(release):
    result = release.mean("age", "age in (12, 13)", confidence=0.999)
    assert 12 <= result.low <= result.value <= result.high <= 13


def test_share_stays_between_zero_and_one_for_a_part(release):
    part = release.share("age < 11 and sex = 'F'", "sex = 'F'", confidence=0.999999)
    assert 0 <= part.low < part.value < part.high <= 1
    other = release.share("age < 17", "sex = 'F'")
    assert other.high > 1
    assert release.share("", "").value == 1
    assert release.share("", "").std_error == pytest.approx(0, abs=1e-9)


def test_share_of_a_hidden_group_is_unbounded():
    empty = released(np.zeros(DOMAIN.shape, dtype=int), 5, epsilon=0.1)
    share = empty.share("sex = 'F'", "age = 12", confidence=0.999)
    assert (share.low, share.high) == (-inf, inf)
    assert share.note == "the noise hides the size of the denominator: no finite interval has this confidence"
    plain = share.to_json()
    assert plain["low"] is None
    assert json.loads(json.dumps(plain, allow_nan=False))["confidence"] == 0.999


def test_whole_range_where_nothing_is_known():
    empty = released(np.zeros(DOMAIN.shape, dtype=int), 5, epsilon=0.1)
    mean = empty.mean("age", "sex = 'F'", confidence=0.999)
    assert (mean.low, mean.high) == (10, 17)
    assert 10 <= mean.value <= 17
    assert mean.note.startswith("the noise hides the size of the group")
    median = empty.quantile("age", 0.5, confidence=0.999)
    assert (median.low, median.high) == (10, 17)
    assert median.note == "no value is ruled out"


# --- quantiles and distribution functions -----------------------------------------------------------------------------


def test_cdf_is_a_list_of_answers(release):
    frame = release.cdf("age", "sex = 'M'")
    assert list(frame.columns) == ["value", "count", "std_error", "low", "high", "share", "share_low", "share_high"]
    for row in frame.itertuples():
        answer = release.ask(f"age <= {row.value} and sex = 'M'")
        assert_allclose((row.count, row.std_error), (answer.value, answer.std_error))
        assert_allclose((row.low, row.high), (answer.low, answer.high))
        share = release.share(f"age <= {row.value} and sex = 'M'", "sex = 'M'")
        assert_allclose((row.share, row.share_low, row.share_high), (share.value, share.low, share.high), atol=1e-6)


def test_cdf_of_bins_shows_bins(release):
    assert release.cdf("income")["value"].tolist()[0] == "0 to under 100"


def test_cdf_leaves_out_values_that_the_condition_excludes(release):
    frame = release.cdf("age", "age between 12 and 14")
    assert frame["value"].tolist() == [12, 13, 14]
    assert frame["share"].iloc[-1] == 1


def test_cdf_together_is_wider(release):
    widths = [
        (frame["high"] - frame["low"]).iloc[3]
        for frame in (release.cdf("age", simultaneous=s) for s in (False, "joint", True))
    ]
    assert widths[0] < widths[1] <= widths[2]


@pytest.mark.parametrize(("q", "where"), [(0.5, None), (0.1, "sex = 'F'"), (0.93, "income < 300")])
def test_quantile_is_the_hull_of_values_not_ruled_out(release, q, where):
    group = where or "true"
    left, size = [], release.query(group)
    for v in range(10, 18):
        up_to, before = (release.ask(release.query(f"age {sign} {v} and ({group})") - q * size) for sign in ("<=", "<"))
        if up_to.high >= 0 and (v == 10 or before.low <= 0):
            left.append(v)
    quantile = release.quantile("age", q, where)
    assert (quantile.low, quantile.high) == (min(left), max(left))
    assert quantile.low <= quantile.value <= quantile.high


@pytest.mark.long
@pytest.mark.covering("rows q", "name")
@pytest.mark.parametrize("name", ["age", "income"])
@pytest.mark.parametrize(("rows", "q"), [(3_000, 0.5), (150, 0.25), (40, 0.9)])
def test_quantile_covers(name, rows, q, rng):
    # At least 90% of intervals hold the true value; the test fails by chance with probability ALARM / 2.
    draws = 120
    skewed = np.outer(rng.dirichlet(np.full(8, 0.7)), rng.dirichlet(np.ones(2))).ravel()
    cells = np.multiply.outer(skewed, rng.dirichlet(np.ones(15))).ravel()
    table = rng.multinomial(rows, cells / cells.sum()).reshape(DOMAIN.shape)
    axis = DOMAIN.index(name)
    cumulative = np.cumsum(table.sum(axis=tuple(a for a in range(4) if a != axis)))
    code = int(np.argmax(cumulative >= q * rows))
    hits = 0
    for seed in range(draws):
        quantile = released(table, seed, epsilon=0.5).quantile(name, q, confidence=0.9)
        low, high = (DOMAIN[name].value(code),) * 2 if name == "age" else (100 * code, 100 * (code + 1))
        hits += quantile.low <= low and high <= quantile.high
    assert hits >= allowed(draws, 0.9)[0]


def test_quantile_in_a_bin_is_interpolated():
    table = np.zeros(DOMAIN.shape, dtype=int)
    table[0, 0, :, 0] = [0, 30_000, 10_000, 0, 0]
    quantile = released(table, 2).quantile("income", 0.5)
    assert quantile.value == pytest.approx(100 + 100 * 20 / 30, rel=0.01)
    assert (quantile.low, quantile.high) == (100, 200)
    assert "interpolated" in quantile.method


def test_quantile_of_ordered_text(release):
    quantile = release.quantile("grade", 0.5)
    assert (quantile.value, quantile.std_error) == ("mid", None)
    assert str(quantile) == "mid (95%: mid to mid)"


def test_statistics_print_and_serialise(release):
    result = release.mean("age", confidence=0.9)
    assert (
        str(result)
        == f"{result.value:,.6g} (s.e. {result.std_error:,.4g}; 90%: {result.low:,.6g} to {result.high:,.6g})"
    )
    assert set(result.to_json()) == {"value", "std_error", "low", "high", "confidence", "method", "note"}
    assert "Fieller" in result.method
    assert "delta-method" in result.method


NO_ORDER = "ask for the count of each value"
NOBODY = "ask for a group that can have members"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r: r.mean("sex"), "'sex' holds values that are no numbers, so it has no mean; use share()"),
        (
            lambda r: r.mean("grade"),
            "'grade' holds values that are no numbers, so it has no mean; use quantile() or share()",
        ),
        (lambda r: r.cdf("sex"), f"'sex' has no order, so it has no distribution function; {NO_ORDER}"),
        (lambda r: r.quantile("sex", 0.5), f"'sex' has no order, so it has no quantiles; {NO_ORDER}"),
        (lambda r: r.quantile("age", 1.0), "q is 1.0, but a quantile lies between 0 and 1; the median is 0.5"),
        (lambda r: r.quantile("age", 0.5, "false"), f"nobody can satisfy 'false'; {NOBODY}"),
        (lambda r: r.mean("age", "age < 5"), f"nobody can satisfy 'age < 5'; {NOBODY}"),
        (lambda r: r.mean("agee"), "no attribute 'agee' in this domain (age, sex, income, grade); did you mean 'age'?"),
        (lambda r: r.mean("age", confidence=95), "confidence 95 is not between 0 and 1; a usual one is 0.95"),
        (lambda r: r.share("sex = 'F'", "false"), f"the denominator counts nobody; {NOBODY}"),
        (lambda r: r.ask_many(["sex = 'F'"], simultaneous="all"), "simultaneous is 'all'; use True, False or 'joint'"),
    ],
)
def test_messages(release, call, message):
    with pytest.raises(ln.LeastnoiseError) as error:
        call(release)
    assert str(error.value) == message


def test_unordered_codes_have_no_mean():
    plan = ln.plan(ln.Workload(ln.Domain.of(kind=3)).marginals(ways=1), ln.Budget(mu=1))
    with pytest.raises(ln.LeastnoiseError, match="the codes of 'kind' are no numbers, so it has no mean"):
        plan.run(np.array([1, 2, 3]), random_source=SeededRandomSource(1)).mean("kind")


# --- simultaneous intervals -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("shape", [(1, 3), (2, 1), (40, 5), (40, 400)])
def test_joint_is_never_wider_than_sidak(rng, shape, confidence):
    coordinates = rng.normal(size=shape)
    width = joint_quantile(coordinates, confidence)
    assert quantile(confidence) <= width <= quantile(confidence, shape[0])


@pytest.mark.long
def test_joint_is_narrower_where_answers_are_alike(rng):
    coordinates = rng.normal(size=(300, 3))
    assert joint_quantile(coordinates, 0.95) < 0.85 * quantile(0.95, 300)


@pytest.mark.parametrize("columns", [4, 60])
def test_joint_covers_all_at_once(rng, columns):
    # All 60 intervals hold in at least 95% of draws; fails by chance with probability ALARM / 2.
    coordinates = np.cumsum(rng.normal(size=(60, columns)), axis=0)
    errors = np.linalg.norm(coordinates, axis=1)
    noise = np.abs(coordinates @ rng.normal(size=(columns, 20_000))) / errors[:, None]
    hits = int((noise.max(axis=0) <= joint_quantile(coordinates, 0.95)).sum())
    assert hits >= allowed(20_000, 0.95)[0]
    assert hits <= 20_000 * 0.96  # and no more than the simulation's own margin above


def test_answers_without_error_do_not_count():
    coordinates = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    assert joint_quantile(coordinates, 0.9) == quantile(0.9)


def test_joint_is_used_by_asks(release):
    questions = [f"age <= {v}" for v in range(10, 17)]
    joint, sidak = (release.ask_many(questions, simultaneous=s) for s in ("joint", True))
    assert joint[0].high < sidak[0].high
    assert joint[0].high == joint[0].value + half_width(joint.coordinates, 0.95, "joint") * joint[0].std_error


def test_too_many_answers_for_joint():
    message = f"{MOST_ANSWERS + 1:,} answers are too many for simultaneous='joint'; at most 2,000, or simultaneous=True"
    with pytest.raises(ln.LeastnoiseError) as error:
        joint_quantile(np.ones((MOST_ANSWERS + 1, 1)), 0.95)
    assert str(error.value) == message
