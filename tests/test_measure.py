"""Measuring: exact in integers, the same for any batches and threads, and deaf to broken sources."""

from collections.abc import Iterator

import numpy as np
import pytest

import leastnoise as ln
import leastnoise.mechanisms.measurement as measure_module
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.gate import Counts
from leastnoise.mechanisms.measurement import measure
from leastnoise.noise import SeededRandomSource, rounded_gaussian
from leastnoise.sources import Codes, Table
from leastnoise.strategies.integer import Centring, IntegerStrategy, Rows
from tests.catalogue import WORKLOADS, ordered
from tests.integers import OnlyIntegers, dense, whole

BUDGET = ln.Budget(epsilon=1, delta=1e-9)
SOME = [
    "prefix 2-way",
    "range of 3",
    "hybrid",
    "affine",
    "low rank only",
    "random of 3",
    "size one",
    "circular",
    "total",
]


def table_for(workload, rng, largest=50) -> Table:
    return Table(workload.domain, rng.integers(0, largest, workload.domain.shape))


def exact_answers(integer_plan, source, random_source) -> Iterator[list[list[int]]]:
    """Orbit by orbit, then batch, noisy query and set: strategy x counts in Python integers, plus the same noise."""
    for orbit, noisy_queries in zip(integer_plan.structure.orbits, integer_plan.noisy_queries, strict=True):
        sets = [tuple(s) for s in integer_plan.structure.sets(orbit).tolist()]
        counts = [whole(t.ravel()) for t in source.count(sets)]
        for noisy_query in noisy_queries:
            answers = np.array([dense(noisy_query.strategy) @ c for c in counts], dtype=object)
            if noisy_query.variance:
                answers = answers + whole(rounded_gaussian(random_source, noisy_query.variance, answers.shape))
            yield answers.tolist()


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("name", SOME)
def test_answers_minus_noise_are_exact(name, neighbours, rng):
    work = WORKLOADS[name]
    integer_plan = ln.plan(work, ln.Budget(mu=0.7, neighbours=neighbours)).integer_plan
    source = table_for(work, rng)
    measurements = measure(integer_plan, Counts(source), SeededRandomSource(5))
    assert [a.tolist() for answers in measurements.answers for a in answers] == list(
        exact_answers(integer_plan, source, SeededRandomSource(5))
    )
    assert measurements.insecure
    assert all(a.dtype in (np.int16, np.int32, np.int64) for answers in measurements.answers for a in answers)


def all_answers(integer_plan, source):
    return [
        a.tolist() for answers in measure(integer_plan, Counts(source), SeededRandomSource(3)).answers for a in answers
    ]


@pytest.mark.parametrize("cells", [1, 7, 30, 10**9])
@pytest.mark.parametrize("cores", [1, 5])
def test_same_noise_for_any_number_of_threads(cells, cores, rng, monkeypatch):
    work = WORKLOADS["range of 3"]
    integer_plan, source = ln.plan(work, BUDGET).integer_plan, table_for(work, rng)
    exact = all_answers(integer_plan, source)
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    assert all_answers(integer_plan, source) == exact
    monkeypatch.setattr(measure_module, "BATCH_CELLS", cells)
    # smaller batches draw the noise of an orbit's noisy queries in turns, so only orbits with one noisy query are the
    # same
    assert all(len(p) == 1 for p in integer_plan.noisy_queries)
    assert all_answers(integer_plan, source) == exact


STRATEGIES = [
    IntegerStrategy((Centring(3), Rows(np.array([[1, -2], [3, 5]]), (2,))), 7),
    IntegerStrategy((Rows(np.array([[1, -2, 0, 4, 5, 6]]), (3, 2)),)),
    IntegerStrategy(
        (Rows(np.array([[1, -2, 1]]), (3,)), Rows(np.array([[1, -2], [3, 5]]), (2,))), 1, np.array([[2, 9]])
    ),
]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("total", [50, 2**61])
def test_uses_integers_only(strategy, total, rng):
    counts = rng.integers(0, 5, (4, 3, 2)).view(OnlyIntegers)
    expected = whole(counts.reshape(4, -1)) @ dense(strategy).T
    assert np.asarray(strategy.apply(counts, total)).reshape(4, -1).tolist() == expected.tolist()
    with pytest.raises(AssertionError, match="floats"):
        counts / 2


def test_large_counts_stay_exact(rng):
    work = WORKLOADS["prefix 2-way"]
    counts = np.zeros(work.domain.shape, dtype=np.int64)
    counts[1, 2], counts[0, 0], counts[2, 1] = 2**61 + 12345, 2**60 - 1, 3
    integer_plan, source = ln.plan(work, BUDGET).integer_plan, Table(work.domain, counts)
    result = measure(integer_plan, Counts(source), SeededRandomSource(5)).answers
    assert [a.tolist() for answers in result for a in answers] == list(
        exact_answers(integer_plan, source, SeededRandomSource(5))
    )
    wide = [a for answers in result for a in answers if a.dtype == object]
    assert wide
    assert all(type(x) is int for a in wide for x in a.ravel())


def test_no_rows_at_all():
    work = WORKLOADS["hybrid"]
    source = Codes(work.domain, np.zeros((0, 3), dtype=np.int64))
    integer_plan = ln.plan(work, BUDGET).integer_plan
    result = measure(integer_plan, Counts(source), SeededRandomSource(5)).answers
    assert [a.tolist() for answers in result for a in answers] == list(
        exact_answers(integer_plan, source, SeededRandomSource(5))
    )


def test_another_domain_is_refused(rng):
    integer_plan = ln.plan(WORKLOADS["prefix 2-way"], BUDGET).integer_plan
    with pytest.raises(LeastnoiseError, match=r"^the counts are of other attributes than the plan's; "):
        measure(integer_plan, Counts(table_for(WORKLOADS["prefix full"], rng)), SeededRandomSource(1))


class NoBits:
    """Noise must not be drawn."""

    insecure = False

    def words(self, count):
        raise AssertionError("noise was drawn")


class Broken:
    """A source of somebody else, with one step gone wrong."""

    name = None

    def __init__(self, domain, change):
        self.domain, self.change = domain, change

    def count(self, sets):
        table = Table(self.domain, np.full(self.domain.shape, 3))
        return (self.change(t) if s else t for s, t in zip(sets, table.count(sets), strict=True))


WHOLE = "^the source does not give whole, non-negative counts of the shape asked for; repair it$"
SUMS = "^the source gives tables that do not add up to the same number of rows; repair it$"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: -t, WHOLE),
        (lambda t: t.astype(float), WHOLE),
        (lambda t: t + 0.5, WHOLE),
        (lambda t: t[:1], WHOLE),
        (lambda t: t.ravel()[0], WHOLE),
        (lambda t: t.astype(bool), WHOLE),
        (lambda t: t + 1, SUMS),
        (lambda t: t + 2**62, WHOLE),
        (lambda t: t.astype(np.uint64) + np.uint64(2**63), WHOLE),
        (lambda t: np.ma.masked_array(t, t > 0), WHOLE),
        (lambda t: t * 2**58, "^the source gives tables of 2\\*\\*62 rows or more; counts must add up to less$"),
        (lambda t: t * 0, SUMS),
    ],
)
def test_broken_sources_are_refused_before_noise_is_drawn(change, message, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 64)  # everything is counted before the first noise
    work = ln.Workload(ordered(3, 4)).marginals(ways=2)
    integer_plan = ln.plan(work, BUDGET).integer_plan
    with pytest.raises(LeastnoiseError, match=message):
        measure(integer_plan, Counts(Broken(work.domain, change)), NoBits())


def test_broken_totals_are_refused():
    source = Broken(ordered(3), lambda t: t)
    source.count = lambda sets: iter([np.float64(3.5)])
    with pytest.raises(LeastnoiseError, match=WHOLE):
        _ = Counts(source).total


def test_missing_tables_are_refused():
    source = Broken(ordered(3, 3), lambda t: t)
    whole_count = source.count
    source.count = lambda sets: iter(list(whole_count(sets))[: max(len(sets) - 1, 1)])
    integer_plan = ln.plan(ln.Workload(ordered(3, 3)).prefix(ways=[1, 2]), BUDGET).integer_plan
    with pytest.raises(LeastnoiseError, match=WHOLE):
        measure(integer_plan, Counts(source), NoBits())
