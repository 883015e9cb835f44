"""Private selection: exact probabilities, certified bounds, sensitivity and cost."""

from fractions import Fraction
from itertools import combinations
from math import exp, log

import mpmath
import numpy as np
import pytest
from scipy.stats import chi2

from leastnoise import Domain
from leastnoise.mechanisms.adaptive import select as module
from leastnoise.mechanisms.adaptive.grem import Estimates, Residual
from leastnoise.mechanisms.adaptive.select import GRID, Distances, Selection, allowance, distance, draw, overlaps
from leastnoise.mechanisms.gate import Counts
from leastnoise.noise import SecureRandomSource, SeededRandomSource
from leastnoise.privacy.exponential_mechanism import exponential_mechanism_cost, exponential_mechanism_rho
from leastnoise.privacy.neighbours import Neighbours
from leastnoise.sources import Table, source_of
from tests.refusals import refusal

FALSE_ALARM = 1e-6


class Words:
    """Random words chosen by the test."""

    insecure = True

    def __init__(self, *words):
        self._text = list(words)
        self.drawn = 0

    def words(self, count):
        self.drawn += count
        return np.array([self._text.pop(0) for _ in range(count)], dtype=np.uint64)


def exact(steps, scale):
    """Probabilities in multiprecision."""
    with mpmath.workdps(60):
        weights = [mpmath.exp(-mpmath.mpf(s) / scale) for s in steps]
        return [w / mpmath.fsum(weights) for w in weights]


@pytest.mark.parametrize(
    ("steps", "scale"),
    [([0, 1, 2, 3], 2), ([0, 0, 5], 7), ([4, 0, 1, 30, 2], 3), ([10**15, 0, 3 * 10**14], 10**15), ([0], 1)],
    ids=str,
)
def test_draws_the_stated_distribution(steps, scale):
    """Chi-square at a false-alarm rate of 1e-6 for each of five cases; the seed is fixed."""
    random_source, size = SeededRandomSource(11), 10_000
    counts = np.bincount([draw(steps, scale, random_source) for _ in range(size)], minlength=len(steps))
    expected = np.array([float(p) for p in exact(steps, scale)]) * size
    large = expected >= 5
    assert counts[~large].sum() <= 6  # where fewer than 0.5 are expected: 7 or more are rarer than the rate
    statistic = ((counts - expected)[large] ** 2 / expected[large]).sum()
    assert statistic <= chi2.isf(FALSE_ALARM, max(large.sum() - 1, 1))


def test_bounds_hold_and_are_narrow(rng):
    for bits in (72, 140):
        scale = int(rng.integers(1, 10**6))
        steps = [0, 1, *(int(x) for x in rng.integers(0, 40 * scale, 30)), 500 * scale]
        for step, (low, high) in zip(steps, module._weights(steps, scale, bits), strict=True):
            with mpmath.workdps(80):
                value = mpmath.exp(-mpmath.mpf(step) / scale) * mpmath.mpf(2) ** bits
                assert low <= value <= high
            assert high - low <= 100


def test_every_word_falls_where_multiprecision_says(rng):
    steps, scale = [0, 3, 1, 8], 4
    with mpmath.workdps(60):
        cumulative = [mpmath.fsum(exact(steps, scale)[: i + 1]) for i in range(4)]
    for word in rng.integers(0, 2**63, 200):
        u = mpmath.mpf(2 * int(word)) / 2**64
        assert draw(steps, scale, Words(2 * int(word))) == next(i for i, c in enumerate(cumulative) if u < c)


@pytest.mark.parametrize("side", [0, 1])
def test_more_bits_decide_close_calls(side):
    """A word that holds the boundary itself: only further words can tell on which side of it the number lies."""
    steps, scale = [0, 3, 1, 8], 4
    with mpmath.workdps(80):
        boundary = int(mpmath.floor((exact(steps, scale)[0] + exact(steps, scale)[1]) * mpmath.mpf(2) ** 128))
    first, second = boundary >> 64, boundary & (2**64 - 1)
    words = Words(first, second + 10**6 * (2 * side - 1))
    assert draw(steps, scale, words) == 1 + side
    assert words.drawn == 2


def test_the_ends_of_the_unit_interval_are_decided():
    assert draw([0, 1], 1, Words(0)) == 0
    assert draw([0, 1], 1, Words(2**64 - 1, 2**63)) == 1


def probabilities(selection, distances, allowances):
    """The distribution that `choose` draws from, in floating point."""
    seen = {}

    def record(steps, scale, random_source):
        seen["p"] = [float(p) for p in exact(steps, scale)]
        return 0

    original, module.draw = module.draw, record
    try:
        selection.choose(distances, allowances, SecureRandomSource())
    finally:
        module.draw = original
    return np.array(seen["p"])


def changed_tables(counts, neighbours):
    """All tables that differ by one row."""
    cells = list(np.ndindex(counts.shape))
    for cell in cells:
        more = counts.copy()
        more[cell] += 1
        if neighbours == "add-remove":
            yield more
            continue
        for other in cells:
            if more[other]:
                fewer = more.copy()
                fewer[other] -= 1
                yield fewer


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_neighbours_stay_within_epsilon(rng, neighbours):
    """All neighbours of a small table: the ratio of probabilities, and the Rényi divergence against epsilon^2 / 8."""
    counts = rng.integers(0, 4, (3, 2))
    candidates = ((0,), (1,), (0, 1))
    selection = Selection(candidates, (1, 5, 2), Fraction(3, 2), neighbours)
    truths = {(0,): rng.normal(4, 2, 3), (1,): rng.normal(6, 2, 2), (0, 1): rng.normal(2, 1, (3, 2))}
    allowances = dict.fromkeys(candidates, 7 * GRID)

    def function(table):
        sums = {(0,): table.sum(axis=1), (1,): table.sum(axis=0), (0, 1): table}
        return probabilities(selection, {c: distance(sums[c], truths[c]) for c in candidates}, allowances)

    here, largest = function(counts), 0.0
    for table in changed_tables(counts, neighbours):
        there = function(table)
        largest = max(largest, np.abs(np.log(here / there)).max())
        for p, q in [(here, there), (there, here)]:
            for alpha in (1.1, 2, 5, 30):
                divergence = log((p**alpha * q ** (1 - alpha)).sum()) / (alpha - 1)
                assert divergence <= alpha * float(selection.rho) + 1e-12
    assert 0.2 < largest <= float(selection.epsilon) + 1e-12


def test_one_row_moves_it_by_at_most_one(rng):
    for _ in range(50):
        counts, estimate = rng.integers(0, 5, (3, 2)), rng.normal(2, 2, (3, 2))
        for table in changed_tables(counts, "add-remove"):
            assert abs(distance(table, estimate) - distance(counts, estimate)) <= GRID


@pytest.mark.parametrize("rows", [1, 2**30, 2**55, 2**57, 2**61])
def test_distances_are_exact_for_any_number_of_rows(rows, rng):
    """Near 2^57 rows, counts times GRID exceed 64 bits; estimates may be near the counts, or far from them."""
    counts = np.array([[rows, 0, 3], [rows // 3, 5, rows // 5]])
    for estimate in (counts * (1 + rng.normal(size=(2, 3)) / 1e9), np.zeros((2, 3)), np.full((2, 3), -1e30)):
        grid = [Fraction(float(x)) * GRID for x in estimate.ravel()]
        expected = sum(abs(c * GRID - round(e)) for c, e in zip(counts.ravel().tolist(), grid, strict=True))
        assert distance(counts, estimate) == expected
        more = counts.copy()
        more[0, 1] += 1
        assert abs(distance(more, estimate) - expected) <= GRID


def test_distance_is_exact_up_to_the_grid(rng):
    counts, estimate = rng.integers(0, 50, (4, 5)), rng.normal(20, 9, (4, 5))
    assert distance(counts, estimate) / GRID == pytest.approx(np.abs(counts - estimate).sum(), abs=20 / GRID)
    assert distance(counts, counts.astype(float)) == 0


@pytest.mark.parametrize(
    ("neighbours", "rows", "moved"),
    [("add-remove", None, 5), ("replace", None, 10), ("replace", 1, 10), ("add-remove", 3, 15), ("replace", 3, 30)],
)
def test_sensitivity_is_the_largest_weight(neighbours, rows, moved):
    selection = Selection(((0,), (1,)), (2, 5), Fraction(1, 3), Neighbours(neighbours, rows))
    assert selection.sensitivity == moved
    assert selection.rho == Fraction(1, 72)


def test_scores_are_weighted_and_scaled():
    """Two candidates, scores 2 (3 - 1) and 5 (2 - 1): the weight of the first is e^(-epsilon (5 - 4) / (2 * 5))."""
    selection = Selection(((0,), (1,)), (2, 5), Fraction(1, 2))
    result = probabilities(selection, {(0,): 3 * GRID, (1,): 2 * GRID}, {(0,): GRID, (1,): GRID})
    ratio = exp(-0.5 / 10)
    assert result == pytest.approx([ratio / (1 + ratio), 1 / (1 + ratio)])


def test_choose_draws_from_its_distribution(rng):
    """Binomial with 2,000 draws; 5.1 standard deviations make a false alarm less likely than 1e-6."""
    selection = Selection(((0,), (1,)), (1, 1), Fraction(1))
    random_source, size = SeededRandomSource(3), 2_000
    hits = sum(
        selection.choose({(0,): 2 * GRID, (1,): 0}, {(0,): 0, (1,): 0}, random_source) == (0,) for _ in range(size)
    )
    p = exp(1) / (exp(1) + 1)
    assert abs(hits - size * p) <= 5.1 * (size * p * (1 - p)) ** 0.5


def test_lazy_equals_full(rng):
    shape, sets = (3, 2, 4), list(combinations(range(3), 2))
    domain = Domain.of(a=3, b=2, c=4)
    source = source_of(rng.integers(0, 20, shape), domain)
    estimates = Estimates(shape, sets)
    distances = Distances(Counts(source), estimates)
    queries = []
    count = source.count
    distances._counts = type("Recorded", (), {"tables": lambda _, s: (queries.append(list(s)), count(s))[1]})()
    for part in [(0,), (1, 2), (), (0, 1)]:
        table = rng.normal(size=[shape[a] for a in part]) * 9
        distances.refresh(estimates.observe([Residual(part, table, 1.0)]))
        assert distances.by_set == Distances(Counts(source), estimates).by_set
    assert queries == [[(0, 1), (0, 2)], [(1, 2)], sets, [(0, 1)]]


def test_weights_are_overlaps_summed():
    candidates, workload = [(0,), (1, 2), (0, 1, 2)], [(0, 1), (1, 2), (0, 1, 3)]
    expected = tuple(sum(len(set(c) & set(w)) for w in workload) for c in candidates)
    assert overlaps(candidates, workload) == expected


def test_allowance_is_the_expected_error_of_equal_noise(rng):
    assert allowance(1000, 3.0) / GRID == pytest.approx(1000 * 3 * (2 / np.pi) ** 0.5, abs=1 / GRID)


def test_costs_are_those_of_a_choice():
    selection = Selection(((0,),), (1,), Fraction(1, 10))
    assert (selection.rho, selection.mu_squared) == (
        exponential_mechanism_rho(Fraction(1, 10)),
        exponential_mechanism_cost(Fraction(1, 10)),
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Selection((), (), Fraction(1)), "0 candidates with 0 weights; give one or more, one weight each"),
        (
            lambda: Selection(((0,),), (0,), Fraction(1)),
            "weights must be whole numbers from 1 on, got 0; scale them up and round",
        ),
        (
            lambda: Selection(((0,),), (1,), 0.5),
            "epsilon must be a positive Fraction, got 0.5; use epsilon_for_cost",
        ),
        (
            lambda: Selection(((0,),), (1,), Fraction(1), "both"),
            "neighbours must be 'add-remove' or 'replace', got 'both'",
        ),
        (
            lambda: distance(np.array([1]), np.array([np.inf])),
            "the estimates are too large to compare with counts; measure with less noise",
        ),
    ],
)
def test_refuses(call, message):
    assert refusal(call) == message


def test_nothing_private_is_shown():
    source = Table(Domain.of(a=2, b=2), np.array([[12345, 0], [0, 0]]))
    distances = Distances(Counts(source), Estimates((2, 2), [(0, 1)]))
    assert distances.by_set == {(0, 1): 12345 * GRID}
    assert str(12345) not in repr(distances)
    assert str(12345 * GRID) not in repr(distances)


@pytest.mark.long
def test_floats_never_decide_differently(rng):
    """Where floats claim to be certain, exact bounds say the same; at a boundary they claim nothing."""
    certain = 0
    for _ in range(300):
        scale = int(rng.integers(1, 10**6))
        steps = [0, *(int(x) for x in rng.exponential(5 * scale, int(rng.integers(1, 40))))]
        u = int(rng.integers(0, 2**64, dtype=np.uint64))
        fast = module._decide_fast(u, steps, scale)
        if fast is not None:
            certain += 1
            assert fast == module._decide(u, 64, steps, scale)
    assert certain > 290
    assert module._decide_fast(2**63, [0, 0], 1) is None
    assert module._decide_fast(2**62, [0, 0], 1) == 0
