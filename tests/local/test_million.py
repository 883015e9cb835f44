"""Every randomizer with a million reports: unbiased to three standard errors, variance within 2%, odds at most e."""

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose

from leastnoise import Domain, Workload
from leastnoise.local import Collector, local_plan, simulate
from leastnoise.local.directions import UNIT
from leastnoise.local.subsets import Subsets
from leastnoise.noise import SeededRandomSource
from tests.local.cases import records
from tests.local.test_randomizers import _single

pytestmark = pytest.mark.slow

N, CELLS = 10**6, 16
RANDOMIZERS = ["subsets", "half space", "cap", "gaussian"]
E = 2.718281828459045


@cache
def plan_of(name, bias=0.0):
    work = Workload(Domain.of(x=range(CELLS))).prefix("x")
    return local_plan(work, 1, 1e-5, randomizer=name, bias=bias)


@cache
def sent(name, bias=0.0):
    return simulate(plan_of(name, bias), records(plan_of(name, bias), N), SeededRandomSource(7))


def collector_of(name, bias=0.0):
    collector = Collector(plan_of(name, bias))
    collector.add_block(sent(name, bias))
    assert (collector.reports, sum(collector.rejected.values())) == (N, 0)
    return collector


@pytest.mark.parametrize("bias", [0.0, 0.05])
@pytest.mark.parametrize("name", RANDOMIZERS)
def test_answers_are_unbiased_to_three_standard_errors(name, bias):
    plan = plan_of(name, bias)
    codes, (queries,) = records(plan, N), plan.queries
    counts = np.bincount(codes[:, 0], minlength=CELLS)
    error = np.sqrt(plan.variances(queries, codes))
    result = collector_of(name, bias).answers()[0].values
    # fixed seed; of 15 answers that depend on each other one is beyond in 1 of 50 seeds. The last is known.
    assert (np.abs(result - queries.effective_rows @ counts)[:-1] < 3 * error[:-1]).all()
    assert result[-1] == pytest.approx(queries.effective_rows[-1] @ counts, abs=3 * error[-1] + 1e-3)
    assert (np.abs((queries.effective_rows - queries.rows) @ counts) <= bias * N).all()


@pytest.mark.parametrize("bias", [0.0, 0.05])
@pytest.mark.parametrize("name", RANDOMIZERS)
def test_variances_are_the_computed_ones_within_two_percent(name, bias):
    """Spread of a million single estimates around the mean of each record's value."""
    plan = plan_of(name, bias)
    codes, (queries,), (part,) = records(plan, N)[:, 0], plan.queries, plan.parts
    rows = queries.effective_rows - queries.pieces[()][:, None]
    reports = np.frombuffer(sent(name, bias), dtype=np.uint8).reshape(N, -1)[:, len(plan.prefix) :]
    h, squares = part.randomizer.estimators(rows), np.zeros(len(rows))
    for low in range(0, N, 50_000):
        some = slice(low, low + 50_000)
        single = _single(part.randomizer, reports[some]) @ h.T
        squares += ((single - rows[:, codes[some]].T) ** 2).sum(axis=0)
    expected = plan.variances(queries, codes[:, None])
    # kurtosis is below 6, so that a standard error is 0.23%; one false alarm in 10^15
    assert_allclose(squares[:-1], expected[:-1], rtol=0.02)


@pytest.mark.parametrize("name", RANDOMIZERS[:3])
def test_audit_of_a_million_reports(name):
    """No set of reports that was found on one half of them is likelier than e times as often on the other half."""
    plan = plan_of(name)
    (part,) = plan.parts
    half, kinds = N // 2, []
    for x in (0, CELLS - 1):
        block = simulate(plan, np.full((N, 1), x), SeededRandomSource(100 + x))
        payloads = np.frombuffer(block, dtype=np.uint8).reshape(N, -1)[:, len(plan.prefix) :]
        kinds.append(_kinds(part.randomizer, payloads))
    size = max(int(k.max()) for k in kinds) + 1
    train = [np.bincount(k[:half], minlength=size) for k in kinds]
    for odds in (1.2, 2, 2.5):
        likelier = train[0] > odds * train[1]
        p, q = (float(likelier[k[half:]].mean()) for k in kinds)
        error = np.sqrt(p * (1 - p) / half + E**2 * q * (1 - q) / half)
        assert p - E * q <= 4 * error  # one false alarm in 30,000
        if odds == 1.2:
            assert p > 1.5 * q  # the audit is not blind


def _kinds(randomizer, payloads):
    """Subsets by number; directions by their product with the difference of the two values' vectors."""
    if isinstance(randomizer, Subsets):
        return randomizer._numbers(payloads)
    apart = randomizer.columns[:, 0] - randomizer.columns[:, -1]
    parts = np.array_split(payloads, 20)
    products = np.concatenate([_single(randomizer, some)[:, :-1] @ apart for some in parts]) / UNIT
    return np.clip(np.floor(4 * products), -40, 39).astype(np.int64) + 40


def test_a_million_reports_of_caps_on_a_thousand_values():
    """Bounded memory: reports are made and read in blocks; about a minute."""
    work = Workload(Domain.of(x=range(1024))).prefix("x")
    plan = local_plan(work, 1, randomizer="cap")
    codes = records(plan, N)
    collector = Collector(plan)
    collector.add_block(simulate(plan, codes, SeededRandomSource(1)))
    (queries,) = plan.queries
    z = (collector.totals(queries) - queries.rows @ np.bincount(codes[:, 0], minlength=1024))[:-1]
    z /= np.sqrt(plan.variances(queries, codes))[:-1]
    assert np.abs(z).max() < 4.5  # 1,023 answers that depend on each other: one false alarm in 100 or fewer
    assert 0.5 < np.mean(z**2) < 2
