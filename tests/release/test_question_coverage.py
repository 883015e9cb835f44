"""Intervals of ratios, percentages and differences hold as often as they say, near zero too; the largest counts too."""

from functools import cache
from math import inf

import numpy as np
import pytest
from scipy.stats import binom

import leastnoise as ln
from leastnoise.noise import SeededRandomSource
from leastnoise.release import LinearQuery, Release
from leastnoise.release.queries.breakdown import breakdown
from leastnoise.release.statistics.differences import Difference
from leastnoise.release.statistics.ratios import Quotient
from leastnoise.release.statistics.top import Top

ALARM = 1e-6  # false alarms of each test with fewer draws than 2,000
DOMAIN = ln.Domain.of(sex=["F", "M"], site=["large", "small", "few", "none"], score=range(1, 6))
SIZES = np.array([400, 40, 2, 0])  # rows per score and sex; a cell has a standard error of some 8
PEOPLE = (SIZES[None, :, None] * np.array([2, 3])[:, None, None] * np.arange(1, 6)).astype(int)

# The question, and whether its interval has exactly its confidence: where a denominator may be 0, no interval with ends
# has, and what is left covers more.
QUESTIONS = {
    "count(sex = 'F') - count(sex = 'M')": True,
    "percent(sex = 'F') where site = 'large'": True,
    "percent(sex = 'F') where site = 'small'": True,
    "ratio(sex = 'F', sex = 'M') where site = 'small'": True,
    "ratio(site = 'none', site = 'large')": True,
    "percent(sex = 'F') where site = 'few'": False,
    "percent(sex = 'F') where site = 'none'": False,
    "ratio(site = 'large', site = 'none')": False,
    "mean(score) where site = 'small'": True,
    "mean(score) where site = 'few'": False,
    "difference(percent(sex = 'F') where site = 'large', percent(sex = 'F') where site = 'small')": True,
    "difference(mean(score) where sex = 'F', mean(score) where sex = 'M')": True,
    "difference(mean(score) where site = 'large', mean(score) where site = 'few')": False,
    "difference(percent(sex = 'F') where site = 'few', percent(sex = 'F') where site = 'none')": False,
}


@cache
def plan() -> ln.Plan:
    return ln.plan(ln.Workload(DOMAIN).marginals(ways=2), ln.Budget(mu=0.3))


def released(seed: int, people: np.ndarray = PEOPLE) -> Release:
    return plan().run(people, random_source=SeededRandomSource(seed))


@cache
def truths() -> list[float]:
    """From the counts themselves, by plain sums; where nobody is in a group, any value will do."""
    f, m = PEOPLE[0], PEOPLE[1]
    both = f + m
    mean = lambda x: float(x @ np.arange(1, 6) / x.sum())  # noqa: E731
    percent = lambda k: float(100 * f[k].sum() / both[k].sum())  # noqa: E731
    return [
        float(f.sum() - m.sum()), percent(0), percent(1), float(f[1].sum() / m[1].sum()), 0.0, percent(2), 40.0, inf,
        mean(both[1]), mean(both[2]), percent(0) - percent(1), mean(f.sum(0)) - mean(m.sum(0)),
        mean(both[0]) - mean(both[2]), percent(2) - 40.0,
    ]  # fmt: skip


def hits(seeds: range) -> np.ndarray:
    total = np.zeros(len(QUESTIONS))
    for seed in seeds:
        answers = [item.rows[0].answer for item in released(seed).ask_all(list(QUESTIONS))]
        total += [a.low <= true <= a.high for a, true in zip(answers, truths(), strict=True)]
    return total


@pytest.mark.long
def test_intervals_of_questions_cover():
    """60 runs: a false alarm has probability 1e-6 for each question."""
    runs = 60
    for question, covered in zip(QUESTIONS, hits(range(runs)), strict=True):
        assert covered >= binom.ppf(ALARM, runs, 0.95), question


@pytest.mark.slow
def test_intervals_of_questions_cover_to_one_percent():
    """2,000 seeded runs: 95% +- 1% where the interval is exact (two standard deviations; the seeds are fixed)."""
    runs = 2_000
    for (question, exact), covered in zip(QUESTIONS.items(), hits(range(runs)), strict=True):
        assert covered / runs >= 0.94, (question, covered / runs)
        assert covered / runs <= 0.96 or not exact, (question, covered / runs)


def covered_between_releases(runs: int) -> np.ndarray:
    more = PEOPLE + np.array([60, 0])[:, None, None]
    f, m = PEOPLE[0, 1].sum(), PEOPLE[1, 1].sum()
    percent = 100 * f / (f + m) - 100 * (f + 300) / (f + 300 + m)
    truth = np.array([-60 * 20, percent])
    questions = ["count(sex = 'F')", "percent(sex = 'F') where site = 'small'"]
    total = np.zeros(2)
    for seed in range(runs):
        answers = released(2 * seed).ask_all(questions, minus=released(2 * seed + 1, more))
        total += [a.low <= t <= a.high for a, t in zip((i.rows[0].answer for i in answers), truth, strict=True)]
    return total


@pytest.mark.long
def test_differences_of_releases_cover():
    assert (covered_between_releases(40) >= binom.ppf(ALARM, 40, 0.95)).all()


@pytest.mark.slow
def test_differences_of_releases_cover_to_one_percent():
    assert (np.abs(covered_between_releases(2_000) / 2_000 - 0.95) <= 0.01).all()


# --- the test behind differences of ratios, without releases ----------------------------------------------------------


def coverage(size: tuple[float, float], true: tuple[float, float], correlation: float, within, draws, seed) -> float:
    rng, scales = np.random.default_rng(seed), np.diag([1.0, 1.5, 0.7, 1.0])
    root = np.linalg.cholesky(scales @ ((1 - correlation) * np.eye(4) + correlation) @ scales)
    mean = np.array([true[0] * size[0], size[0], true[1] * size[1], size[1]])
    total = LinearQuery.total(DOMAIN)
    difference = Difference(Quotient(total, total, "", within), Quotient(total, total, "", within))
    count = 0
    for noise in rng.normal(size=(draws, 4)):
        answer = difference.answer(mean + root @ noise, root, 0.95)
        count += answer.low <= true[0] - true[1] <= answer.high
    return count / draws


SIZED = [(30.0, 30.0), (30.0, 3.0), (5.0, 5.0), (3.0, 3.0), (1.5, 30.0), (0.3, 0.3), (0.0, 30.0)]


@pytest.mark.parametrize("size", SIZED)
@pytest.mark.parametrize("draws", [40, pytest.param(2_000, marks=pytest.mark.slow)])
@pytest.mark.long
def test_differences_of_ratios_cover(size, draws):
    """Denominators from 30 to 0 standard errors, correlated or not, close to the ends of what is possible or not."""
    for k, (true, rho, within) in enumerate(
        (t, r, w) for t in [(0.5, 0.3), (0.02, 0.9)] for r in (0.0, 0.8) for w in [(-inf, inf), (0.0, 1.0)]
    ):
        rate = coverage(size, true, rho, within, draws, seed=k)
        assert draws * rate >= binom.ppf(ALARM, draws, 0.95)
        assert min(size) < 30 or draws * rate <= binom.ppf(1 - ALARM, draws, 0.95)


def test_difference_is_that_of_all_pairs_left():
    """Against a grid over both ratios, each pair tested with the dense covariance."""
    rng = np.random.default_rng(5)
    total = LinearQuery.total(DOMAIN)
    difference = Difference(Quotient(total, total, ""), Quotient(total, total, ""))
    for _ in range(5):
        root, values = rng.normal(size=(4, 4)), np.array([6.0, 14.0, 9.0, 12.0]) + rng.normal(size=4)
        answer = difference.answer(values, root, 0.9)
        r, s = np.meshgrid(np.linspace(-2, 3, 301), np.linspace(-2, 3, 301), indexing="ij")
        g = np.stack([values[0] - r * values[1], values[2] - s * values[3]])
        jacobian = np.zeros((2, 4, *r.shape))
        jacobian[0, 0], jacobian[0, 1], jacobian[1, 2], jacobian[1, 3] = 1, -r, 1, -s
        c = np.einsum("iaxy,ab,jbxy->xyij", jacobian, root @ root.T, jacobian)
        q = np.einsum("ixy,xyij,jxy->xy", g, np.linalg.inv(c), g)
        left = (r - s)[q <= 1.6448536**2]
        assert answer.low == pytest.approx(left.min(), abs=0.04)
        assert answer.high == pytest.approx(left.max(), abs=0.04)


# --- the largest counts -----------------------------------------------------------------------------------------------


def wrong_tops(counts: np.ndarray, k: int, draws: int, correlation: float, seed: int) -> tuple[float, float]:
    """Shares of runs in which the largest are wrong though 90% sure, and in which some rank is outside its interval."""
    m, rng = len(counts), np.random.default_rng(seed)
    root = np.linalg.cholesky((1 - correlation) * np.eye(m) + correlation) * np.linspace(1, 2, m)[:, None]
    top = Top(k, tuple(breakdown(ln.Domain.of(x=m), ["x"])))
    wrong = missed = 0
    order = np.argsort(-counts)
    for noise in rng.normal(size=(draws, m)):
        result = top.ranking(counts + root @ noise, root, 0.9)
        chosen = {item.labels["x"] for item in result.items}
        wrong += result.confidence >= 0.9 and counts[list(chosen)].min() < np.delete(counts, list(chosen)).max()
        places = {item.labels["x"]: (item.first, item.last) for item in result.items}
        missed += any(not low <= 1 + list(order).index(x) <= high for x, (low, high) in places.items())
    return wrong / draws, missed / draws


@pytest.mark.parametrize("draws", [150, pytest.param(2_000, marks=pytest.mark.slow)])
@pytest.mark.long
def test_top_is_wrong_at_most_as_often_as_it_says(draws):
    for k, (gap, some, correlation) in enumerate(
        (g, s, c) for g in (0.0, 1.0, 4.0) for s in (1, 3) for c in (0.0, 0.5)
    ):
        counts = gap * np.arange(8, dtype=float)[::-1] + 1e-6 * np.arange(8)[::-1]
        wrong, _ = wrong_tops(counts, some, draws, correlation, k)
        assert draws * wrong <= binom.ppf(1 - ALARM, draws, 0.1)


@pytest.mark.long
def test_ranks_cover():
    for gap in (0.5, 2.0, 5.0):
        _, missed = wrong_tops(gap * np.arange(6, dtype=float)[::-1], 3, 300, 0.3, 1)
        assert 300 * missed <= binom.ppf(1 - ALARM, 300, 0.1)


@pytest.mark.long
def test_intervals_of_a_top_hold_at_once():
    """The largest of equal counts are the luckiest: alone, their intervals miss too often. 400 draws, alarm at 1e-6."""
    m, draws, rng = 10, 400, np.random.default_rng(7)
    top = Top(2, tuple(breakdown(ln.Domain.of(x=m), ["x"])))
    noise = rng.normal(size=(draws, m))
    held = {
        together: sum(
            all(
                item.answer.low <= 50.0 <= item.answer.high
                for item in top.ranking(50.0 + x, np.eye(m), 0.9, together).items
            )
            for x in noise
        )
        for together in (False, True)
    }
    assert held[True] >= binom.ppf(ALARM, draws, 0.9)
    assert held[False] < binom.ppf(ALARM, draws, 0.9)


def test_simultaneous_tops_are_wider():
    release = released(1)
    alone, at_once = (release.ask_all("top(2, site)", simultaneous=s).items[0].rows[0].answer for s in (False, True))
    assert alone.std_error == at_once.std_error
    assert alone.confidence == at_once.confidence == 0.95
    assert (at_once.high - at_once.value) / at_once.std_error == pytest.approx(2.4977, abs=1e-3)  # 5% over 4 sites


def test_what_is_far_apart_is_certain():
    counts, root = np.array([50.0, 30.0, 0.0, 1.0]), np.eye(4)
    top = Top(2, tuple(breakdown(ln.Domain.of(x=4), ["x"])))
    result = top.ranking(counts, root, 0.95)
    assert [item.labels["x"] for item in result.items] == [0, 1]
    assert result.confidence > 0.999
    assert [(item.first, item.last) for item in result.items] == [(1, 1), (2, 2)]
    assert result.note == "these are the 2 largest with a confidence of more than 99.9%"
    close = top.ranking(np.array([50.0, 1.0, 1.1, 0.9]), root, 0.95)
    assert close.note.startswith("the noise hides whether")
    exact = top.ranking(counts, np.zeros((4, 1)), 0.95)
    assert exact.confidence == 1
