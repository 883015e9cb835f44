"""Every law for every randomizer: privacy, unbiased estimates, exact moments, bounded influence."""

from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

from leastnoise import Budget
from leastnoise.errors import LeastnoiseError
from leastnoise.local.ball import Ball, cap, half_space, unit_columns
from leastnoise.local.directions import EXACT_ROWS, UNIT, all_floats, floats, largest, quantiles
from leastnoise.local.gauss import GaussianVectors
from leastnoise.local.randomized_response import Choice, Odds
from leastnoise.local.randomizer import randomizer_data, randomizer_from
from leastnoise.local.subsets import Subsets
from leastnoise.local.vectors import centred_inverse, decoded
from leastnoise.noise import SeededRandomSource
from tests.local.cases import KINDS, ODDS, PREFIX, randomizers

FINITE = ["value", "designed"]
E = Fraction(2718281828459045, 10**15)  # below e


@pytest.fixture(params=KINDS)
def randomizer(request):
    return randomizers()[request.param]


# --- privacy ----------------------------------------------------------------------------------------------------------


def exact_probabilities(subsets):
    """Probability of every report (row) under every value (column), in fractions, from the list devices choose from."""
    table = np.empty(subsets.members.shape, dtype=object)
    choice = subsets.choice
    for x in range(subsets.cells):
        for place, y in enumerate(subsets._listed(x).tolist()):
            table[y, x] = choice.probability(place < choice.favoured)
    return table


@pytest.mark.parametrize("name", FINITE)
def test_likelihood_ratio_is_at_most_the_odds(name):
    table = exact_probabilities(randomizers()[name])
    assert (table.sum(axis=0) == 1).all()
    worst = max(max(row) / min(row) for row in table.tolist())
    assert worst == ODDS.ratio  # attained, so that no privacy is left unused
    assert worst <= E
    assert_allclose(table.astype(float), randomizers()[name].probabilities(), rtol=1e-15)


@pytest.mark.parametrize("name", ["half space", "cap"])
def test_likelihood_ratio_of_balls_given_the_seed(name):
    """For each seed, all candidates' exact probabilities under all values, from the code that devices run."""
    ball = randomizers()[name]
    N = ball.choice.candidates
    for seed in range(40):
        seeds = np.full(N, seed, dtype=np.uint64)
        table = np.empty((N, ball.cells), dtype=object)
        for x in range(ball.cells):
            vectors = np.repeat(ball.columns.T[[x]].astype(np.float32), N, axis=0)
            chosen = ball._chosen(seeds, vectors, np.arange(N))
            assert sorted(chosen.tolist()) == list(range(N))  # every candidate stands at one place
            for place, y in enumerate(chosen.tolist()):
                table[y, x] = ball.choice.probability(place < ball.choice.favoured)
        assert (table.sum(axis=0) == 1).all()
        assert max(max(row) / min(row) for row in table.tolist()) <= ODDS.ratio <= E


@pytest.mark.parametrize("name", ["value", "designed", "half space", "cap"])
def test_audit_of_reports(name):
    """An empirical check of what devices send: no set of reports found on one half is too likely on the other half."""
    randomizer, n = randomizers()[name], 40_000
    sent = [randomizer.encode(np.full(2 * n, x), SeededRandomSource(10 + x)) for x in (0, 5)]
    kinds = [_kinds(randomizer, s) for s in sent]
    size = max(int(k.max()) for k in kinds) + 1
    train = [np.bincount(k[:n], minlength=size) for k in kinds]
    likelier = train[0] > 1.4 * train[1]
    p, q = (float(likelier[k[n:]].mean()) for k in kinds)
    error = np.sqrt(p * (1 - p) / n + E * E * q * (1 - q) / n)
    assert p - float(E) * q < 4 * float(error)  # one false alarm in 30,000
    assert p > 1.5 * q  # the audit is not blind


def _kinds(randomizer, payloads):
    """Reports put into few kinds: the subset named, or on which side of two values' vectors the direction lies."""
    if isinstance(randomizer, Subsets):
        return randomizer._numbers(payloads)
    half = randomizer.choice.candidates // 2
    seeds = np.ascontiguousarray(payloads[:, :8]).view("<u8")[:, 0]
    number = payloads[:, 8].astype(np.int64)
    values = floats(seeds, number % half, len(randomizer.columns)) * np.where(number < half, 1, -1)[:, None]
    return ((values @ (randomizer.columns[:, 0] - randomizer.columns[:, 5])) // (UNIT / 2)).astype(np.int64) + 40


def test_gaussian_vectors_cost_exactly_the_budget():
    budget = Budget(epsilon=1, delta=1e-5, neighbours="replace")
    result = randomizers()["gaussian"]
    columns = result.columns.astype(object)
    moved = max(int(((columns[:, i] - columns[:, j]) ** 2).sum()) for i in range(6) for j in range(6))
    assert result.mu_squared == Fraction(moved) / result.variance == budget.exact_cost


# --- estimates --------------------------------------------------------------------------------------------------------


def test_estimates_are_unbiased(randomizer):
    n = 200_000
    cells = np.random.default_rng(0).choice(6, n, p=[0.3, 0.05, 0.2, 0.25, 0.15, 0.05])
    tally = randomizer.tally(randomizer.encode(cells, SeededRandomSource(3)))
    values = randomizer.totals(PREFIX, tally)
    share = np.bincount(cells, minlength=6) / n
    error = np.sqrt(np.maximum(n * (randomizer.moments(PREFIX) - PREFIX**2) @ share, 1e-9))
    assert (np.abs(values - n * PREFIX @ share) < 4.5 * error + 1e-4 * n**0.5).all()  # six: one false alarm in 20,000


@pytest.mark.parametrize("name", KINDS)
def test_unbiased_to_three_standard_errors_over_a_million_reports(name):
    randomizer, n = randomizers()[name], 10**6
    cells = np.random.default_rng(0).integers(0, 6, n)
    values = randomizer.totals(PREFIX, randomizer.tally(randomizer.encode(cells, SeededRandomSource(4))))
    share = np.bincount(cells, minlength=6) / n
    error = np.sqrt(np.maximum(n * (randomizer.moments(PREFIX) - PREFIX**2) @ share, 1e-6 * n))
    assert (np.abs(values - n * PREFIX @ share) < 3 * error).all()  # fixed seed; a false alarm in 1 of 70 seeds


@pytest.mark.parametrize("name", FINITE)
def test_finite_estimates_are_exactly_unbiased(name):
    subsets = randomizers()[name]
    h = subsets.estimators(PREFIX)
    assert_allclose(h @ exact_probabilities(subsets).astype(float), PREFIX, atol=1e-12)


def test_variances_are_exact(randomizer):
    """Spread of single estimates against the computed moments, value by value."""
    n = 120_000
    for x in (0, 2):
        payloads = randomizer.encode(np.full(n, x), SeededRandomSource(20 + x))
        h = randomizer.estimators(PREFIX)
        single = _single(randomizer, payloads) @ h.T
        expected = randomizer.moments(PREFIX)[:, x]
        # the mean of n squares: kurtosis is below 6, so that 2% are 4 standard errors
        assert_allclose((single**2).mean(axis=0), expected, rtol=0.02, atol=1e-9)


def _single(randomizer, payloads):
    """What each report adds to the tally."""
    if isinstance(randomizer, Subsets):
        return np.eye(randomizer.tallies)[randomizer._numbers(payloads)]
    if isinstance(randomizer, GaussianVectors):
        return np.concatenate([randomizer._numbers(payloads), np.ones((len(payloads), 1))], axis=1).astype(float)
    half = randomizer.choice.candidates // 2
    seeds = np.ascontiguousarray(payloads[:, :8]).view("<u8")[:, 0]
    number = payloads[:, 8].astype(np.int64)
    values = floats(seeds, number % half, len(randomizer.columns)) * np.where(number < half, 1.0, -1.0)[:, None]
    return np.concatenate([values, np.ones((len(payloads), 1))], axis=1)


def test_tally_adds_up_single_reports(randomizer):
    payloads = randomizer.encode(np.arange(600) % 6, SeededRandomSource(5))
    assert randomizer.valid(payloads).all()
    assert payloads.shape == (600, randomizer.payload)
    assert_allclose(randomizer.tally(payloads), _single(randomizer, payloads).sum(axis=0))
    halves = randomizer.tally(payloads[:300]) + randomizer.tally(payloads[300:])
    assert (halves == randomizer.tally(payloads)).all()


def test_no_report_moves_an_answer_further_than_its_influence(randomizer):
    payloads = randomizer.encode(np.arange(6000) % 6, SeededRandomSource(6))
    moved = np.abs(_single(randomizer, payloads) @ randomizer.estimators(PREFIX).T)
    bound = randomizer.influence(PREFIX)
    assert (moved <= bound * (1 + 1e-12)).all()
    if isinstance(randomizer, Subsets):
        assert_allclose(moved.max(axis=0), bound)  # attained


def test_squares_estimate_the_second_moments(randomizer):
    cells = np.arange(60_000) % 6
    tally = randomizer.tally(randomizer.encode(cells, SeededRandomSource(8)))
    squares = randomizer.squares(PREFIX, tally)
    assert_allclose(randomizer.totals(PREFIX, tally), randomizer.estimators(PREFIX) @ tally)
    expected = randomizer.moments(PREFIX)
    usual = expected.mean(axis=1) if isinstance(randomizer, Subsets) else expected.max(axis=1)
    assert_allclose(squares / len(cells), usual, rtol=0.04, atol=1e-9)  # 4 standard errors


def test_queries_that_reports_do_not_tell_are_refused():
    sides = Subsets(np.array([[1, 1, 0, 0], [0, 0, 1, 1]], dtype=bool), ODDS)
    assert sides.moments(np.array([[1.0, 1, 0, 0]])).max() > 1
    with pytest.raises(LeastnoiseError, match="do not determine these queries; plan with them"):
        sides.estimators(np.eye(4)[:1])
    ball = Ball(unit_columns(np.array([[1.0, 1, -1, -1]])), half_space(ODDS))
    with pytest.raises(LeastnoiseError, match="do not determine these queries; plan with them"):
        ball.estimators(np.eye(4)[:1])


@pytest.mark.parametrize("cells", [3, 6])
def test_decoding_is_exact(cells):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((4, cells))
    queries = rng.standard_normal((2, 4)) @ A + rng.standard_normal((2, 1))
    R, c = decoded(queries, A, centred_inverse(A))
    assert_allclose(R @ A + c, queries)


def test_stored_and_read(randomizer):
    back = randomizer_from(*randomizer_data(randomizer))
    cells = np.arange(100) % 6
    assert (back.encode(cells, SeededRandomSource(1)) == randomizer.encode(cells, SeededRandomSource(1))).all()
    assert (back.moments(PREFIX) == randomizer.moments(PREFIX)).all()


def test_unknown_randomizers():
    with pytest.raises(LeastnoiseError, match="unknown randomizer 'shuffle'"):
        randomizer_from({"kind": "shuffle"}, {})
    with pytest.raises(LeastnoiseError, match="a randomizer of type int cannot be saved"):
        randomizer_data(3)


# --- balls ------------------------------------------------------------------------------------------------------------


def test_directions_do_not_change():
    """Devices and collectors of different versions must agree: these numbers are part of the format."""
    seeds = np.array([0, 2**64 - 1], dtype=np.uint64)
    assert floats(seeds, 3, 5).tolist() == DIRECTIONS
    assert (floats(seeds, np.array([3, 3]), 9)[:, :5] == floats(seeds, 3, 9)[:, :5]).all()


DIRECTIONS = [[3560, 182, 2549, 3144, 1512], [1180, -6132, -480, 4618, -2460]]


@pytest.mark.parametrize("length", [1, 4, 6, 9])
def test_directions_come_in_one_stream(length):
    seeds = np.array([0, 7, 2**64 - 1], dtype=np.uint64)
    values = all_floats(seeds, 5, length)
    assert values.shape == (3, 5, length)
    for number in range(5):
        assert (values[:, number] == floats(seeds, number, length)).all()
        assert (floats(seeds, np.full(3, number), length) == floats(seeds, number, length)).all()


def test_float_sums_are_exact():
    """So many of the longest entries still fit the 24 bits of a float32, one after the other or in any order."""
    longest = int(np.abs(quantiles().astype(np.int64)).max())
    assert EXACT_ROWS * longest < 2**24
    column = np.full((EXACT_ROWS, 3), longest, dtype=np.float32)
    assert (np.ones(EXACT_ROWS, dtype=np.float32) @ column == EXACT_ROWS * longest).all()


@pytest.mark.parametrize("name", ["half space", "cap"])
@pytest.mark.parametrize("length", [5, 300])
def test_blocks_and_threads_change_nothing(name, length):
    """Many devices in blocks on all cores, against one device after the other and whole numbers."""
    rng = np.random.default_rng(0)
    columns = unit_columns(rng.standard_normal((length, 7)))
    ball, n = Ball(columns, half_space(ODDS) if name == "half space" else cap(ODDS, 8)), 6000
    cells, random_source = rng.integers(0, 7, n), SeededRandomSource(2)
    payloads = ball.encode(cells, SeededRandomSource(2))
    seeds, at = random_source.words(n), ball.choice.positions(random_source, n)
    vectors = ball.columns.T.astype(np.float32)
    few = range(0, n, 97)
    single = [int(ball._chosen(seeds[[i]], vectors[cells[[i]]], at[[i]])[0]) for i in few]
    assert payloads[list(few), 8].tolist() == single
    assert (ball.tally(payloads)[:-1] == _single(ball, payloads)[:, :-1].sum(axis=0)).all()
    assert ball.tally(payloads)[-1] == n


def test_directions_look_gaussian():
    table = quantiles().astype(float) / UNIT
    assert abs((table**2).mean() - 1) < 2e-6
    assert abs(np.abs(table).mean() - np.sqrt(2 / np.pi)) < 1e-5
    assert (table == -table[::-1]).all()
    assert abs(table).max() == largest()
    values = floats(np.arange(20_000, dtype=np.uint64), 0, 8).astype(np.float64) / UNIT
    # 36 sums of 20,000 products each: 5 standard errors, one false alarm in 10^4
    assert np.abs(values.T @ values / 20_000 - np.eye(8)).max() < 5 * np.sqrt(2 / 20_000)


def test_half_space_variance_is_that_of_the_formula():
    ball = Ball(np.eye(3), half_space(ODDS))
    c = (np.e + 1) / (np.e - 1)
    assert_allclose(1 / ball.gain**2, c**2 * np.pi / 2, rtol=1e-6)
    assert ball.along == pytest.approx(1)


@pytest.mark.parametrize(("epsilon", "loss"), [(0.25, 1e-3), (1, 0.0032), (2, 0.006), (4, 0.014)], ids=str)
def test_caps_are_better_than_half_spaces_and_reach_privunit(epsilon, loss):
    """The variance is so much above that of PrivUnit in many dimensions, the limit of many candidates."""
    odds = Odds.within(Fraction(epsilon))
    choices = (half_space(odds), cap(odds, 16), cap(odds, 32), cap(odds, 128), cap(odds))
    gains = [Ball(np.eye(2), c).gain for c in choices]
    assert gains == sorted(gains)
    r, q = float(odds.ratio), np.linspace(0.001, 0.5, 2000)
    limit = float((norm.pdf(norm.isf(q)) * (r - 1) / (r * q + 1 - q)).max())
    assert gains[-1] < limit
    assert (limit / gains[-1]) ** 2 - 1 < loss


def test_no_direction_of_a_cap_is_likelier_than_the_odds_allow():
    """Exactly, in whole numbers: every report has one of two chances, and both add up to 1 over all candidates."""
    for epsilon in (Fraction(1, 4), Fraction(1), Fraction(4)):
        choice = cap(Odds.within(epsilon))
        inside, outside = choice.probability(True), choice.probability(False)
        assert inside / outside == choice.odds.ratio
        assert choice.odds.keep(epsilon)
        assert choice.favoured * inside + (choice.candidates - choice.favoured) * outside == 1


def test_variances_of_caps_against_reports():
    """30,000 reports of one vector: mean and second moment along it and across it within 5 standard errors."""
    ball, n = Ball(np.eye(3), cap(ODDS)), 30_000
    reports = ball.encode(np.zeros(n, dtype=np.int64), SeededRandomSource(4))
    z = np.array([ball.tally(r[None])[:3] for r in reports[:3_000]]) / UNIT
    total = ball.tally(reports)[:3] / UNIT / n
    assert abs(total[0] - ball.gain) < 5 * np.sqrt((ball.along - ball.gain**2) / n)
    assert np.abs(total[1:]).max() < 5 / np.sqrt(n)
    squares = (z**2).mean(axis=0)
    assert squares == pytest.approx([ball.along, 1, 1], abs=5 * np.sqrt(2 * ball.along / 3_000))


def test_favoured_sums_against_simulation():
    ball = Ball(np.eye(2), Choice(8, 3, ODDS))
    z = np.abs(np.random.default_rng(0).standard_normal((200_000, 4)))
    top = -np.sort(-z, axis=1)[:, :3]
    difference = float(ball.choice.probability(True) - ball.choice.probability(False))
    assert_allclose(ball.gain, difference * top.sum(axis=1).mean(), rtol=0.005)  # 4 standard errors
    inside = (top**2).sum(axis=1).mean()
    expected = float(ball.choice.probability(True)) * inside + float(ball.choice.probability(False)) * (8 - inside)
    assert_allclose(ball.along, expected, rtol=0.005)


def test_log_moments_of_half_spaces_have_a_closed_form():
    """E e^(uz) = 2 e^(u^2/2) (p Phi(-u) + q Phi(u)); beyond the table, no less."""
    chosen = Ball(np.eye(2), half_space(ODDS)).chosen
    p, q = (float(chosen.choice.probability(favoured)) for favoured in (False, True))
    for u in (-9.5, -1.03, -0.01, 1e-6, 0.3, 4.7):
        exact = u**2 / 2 + np.log(2 * (p * norm.cdf(-u) + q * norm.cdf(u))) - chosen.mean * u
        assert_allclose(float(chosen.log_moments(np.array(u))) * u**2, exact, rtol=1e-6, atol=1e-15)
    for u in (-30.0, 12.0):
        exact = u**2 / 2 + np.log(2 * (p * norm.cdf(-u) + q * norm.cdf(u))) - chosen.mean * u
        assert exact <= float(chosen.log_moments(np.array(u))) * u**2 * (1 + 1e-12)


def test_reports_have_the_stated_log_moments(randomizer):
    """Means of e^(t error) over single reports; for Gaussian noise on devices what is stated is a bound."""
    n, deviations = 40_000, np.sqrt(np.maximum(randomizer.moments(PREFIX) - PREFIX**2, 0).max(axis=1))
    for x, sign in ((0, 0.7), (2, -0.7), (4, 0.7)):
        t = sign / np.maximum(deviations, 1)
        payloads = randomizer.encode(np.full(n, x), SeededRandomSource(40 + x))
        errors = _single(randomizer, payloads) @ randomizer.estimators(PREFIX).T - PREFIX[:, x]
        tilted, stated = np.exp(t * errors), np.exp(randomizer.log_moments(PREFIX, t)[:, x])
        # 90 means in all: more than 5 standard errors off in one of 10^4 runs
        off, standard = tilted.mean(axis=0) - stated, tilted.std(axis=0) / np.sqrt(n) + 1e-9
        assert (off < 5 * standard).all()
        assert isinstance(randomizer, GaussianVectors) or (off > -5 * standard).all()


def test_unit_columns_keep_the_strategy():
    A = np.random.default_rng(0).standard_normal((4, 7))
    values = unit_columns(A)
    assert_allclose(np.linalg.norm(values, axis=0), 1)
    assert_allclose(values[:4] * np.linalg.norm(A, axis=0).max(), A)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Ball(np.ones((2, 3)), half_space(ODDS)), "every column must have length 1"),
        (lambda: Ball(np.eye(3), Choice(3, 1, ODDS)), "3 candidates are not pairs, or more than 256"),
        (lambda: Ball(np.eye(3), Choice(8, 5, ODDS)).gain, "5 of 8 directions are favoured; favour at most half"),
        (lambda: Subsets(np.array([[True, True], [True, False]]), ODDS), "every value must lie in the same number"),
        (
            lambda: GaussianVectors.within(np.eye(2), Budget(mu=1e-6, neighbours="replace")),
            "this budget needs noise beyond 32-bit numbers",
        ),
    ],
)
def test_what_cannot_be(make, message):
    with pytest.raises(LeastnoiseError, match=message):
        make()


def test_invalid_payloads():
    subsets = randomizers()["value"]
    assert subsets.valid(np.array([[5], [6], [255]], dtype=np.uint8)).tolist() == [True, False, False]
    ball = randomizers()["half space"]
    assert ball.valid(np.array([[0] * 8 + [1], [0] * 8 + [2]], dtype=np.uint8)).tolist() == [True, False]
    gaussian = randomizers()["gaussian"]
    rows = np.zeros((2, len(gaussian.columns)), dtype="<i4")
    rows[1, 0] = gaussian.bound + 1
    assert gaussian.valid(rows.view(np.uint8)).tolist() == [True, False]
