"""What reports tell, however devices wait for each other: steps of the proofs of floors, on exact transcripts."""

from itertools import product
from math import exp, sinh, sqrt

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import binom

from leastnoise.theory import ANY, SEPARATE, sample_complexity
from leastnoise.theory.ladder import Ladder
from leastnoise.theory.signs import _divergence, all_signs, every_sign, information_on_sign
from leastnoise.theory.sphere import Spectrum, Sphere
from leastnoise.theory.tails import Error
from leastnoise.theory.witness import SCALES, _apart, all_errors, independent, information
from tests.theory.workloads import PARITIES, WORKLOADS, best, witness


def tilts(epsilon, T, rng, random=300):
    """All reports with two likelihoods, and random ones: rows of f between 1 and e^epsilon."""
    two = np.array(list(product([1.0, exp(epsilon)], repeat=T)))
    return np.concatenate([two, 1 + (exp(epsilon) - 1) * rng.random((random, T))])


# --- what reports tell ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_reports_tell_no_more_than_the_witness_says(name, epsilon):
    """- sum over v of pi_v ln(1 - y_v^2) for every report that two likelihoods allow, and random ones."""
    result, rng = witness(WORKLOADS[name], 0.1), np.random.default_rng(1)
    f = tilts(epsilon, len(result.s), rng)
    tilt = (f @ result.M.T) / (f @ result.s)[:, None]
    assert_allclose(np.abs(tilt).max(), result.largest_tilt(epsilon))
    for scale, message in zip(SCALES, result.information_bound(result.p, epsilon), strict=True):
        most = float((-np.log1p(-((scale * tilt) ** 2)) @ result.p).max())
        assert most <= message
        assert most >= 0.4 * message
    assert_allclose(
        max(float(f**2 @ result.s / (f @ result.s) ** 2) for f in f) - 1, information(result.s, epsilon), rtol=0.3
    )


class Protocol:
    """A transcript of two people: likelihoods f_i(transcript, value), with all that is said enumerated.

    Reports may wait for others, and somebody may speak twice. Each f_i is epsilon-private as a whole.
    """

    def __init__(self, T, epsilon, rng, rounds=("0", "1")):
        self.f = np.ones((1, 2, T))
        share = {who: rounds.count(who) for who in rounds}
        for who in rounds:
            e, after = exp(epsilon / share[who]), []
            for one in self.f:  # a fresh randomizer for every history
                q = np.where(rng.random(T) < 0.5, e, 1.0) / (1 + e)
                for says in (q, 1 - q):
                    message = one.copy()
                    message[int(who)] *= says
                    after.append(message)
            self.f = np.array(after)

    def chances(self, *populations):
        """Of all transcripts, when the two people come from these populations."""
        return np.prod([self.f[:, i] @ p for i, p in enumerate(populations)], axis=0)


ROUNDS = [("0", "1"), ("0", "1", "0"), ("0", "1", "0", "1", "1")]


@pytest.mark.parametrize("rounds", ROUNDS, ids=len)
@pytest.mark.parametrize("seed", range(5))
def test_the_chain_of_inequalities_on_transcripts(rounds, seed):
    """Exact divergences, total variation and risk for two people, however they wait for each other."""
    epsilon, rng = 1.5, np.random.default_rng(seed)
    result = witness(WORKLOADS["cdf"], 0.1)
    protocol = Protocol(len(result.s), epsilon, rng, rounds)
    base = protocol.chances(result.s, result.s)
    assert_allclose(base.sum(), 1)
    ratio = protocol.f.max(axis=2) / protocol.f.min(axis=2)
    assert ratio.max() <= exp(epsilon) * (1 + 1e-9)
    values = np.zeros(len(result.p))
    for v, M in enumerate(result.M):
        up, down = (protocol.chances(result.s + sign * M, result.s + sign * M) for sign in (1, -1))
        values[v] = base @ np.log(base**2 / (up * down))
        overlap = np.sqrt(up * down).sum()
        assert overlap**2 >= exp(-values[v])
        assert np.abs(up - down).sum() / 2 <= sqrt(1 - exp(-values[v]))
        risk = 2 * (up * down / (up + down)).sum()  # of the best estimate of a sign
        assert risk >= exp(-values[v])
        for guess in (up > down, rng.random(len(up)) < 0.5):
            a, b = up[~guess].sum(), down[guess].sum()
            assert values[v] >= _apart(np.array(a), np.array(b)) - 1e-12
    assert values @ result.p <= 2 * result.information_bound(result.p, epsilon)[-1]


def test_least_that_must_be_told():
    def d(t, a):
        return t * np.log(t / a) + (1 - t) * np.log((1 - t) / (1 - a))

    t = np.linspace(1e-6, 1 - 1e-6, 200_001)
    for a, b in [(0.05, 0.05), (0.01, 0.3), (0.2, 0.7)]:
        assert_allclose(_apart(np.array(a), np.array(b)), (d(t, a) + d(1 - t, b)).min(), rtol=1e-8)
    assert _apart(np.array(0.5), np.array(0.6)) == 0


@pytest.mark.parametrize("name", ["cdf", "unlike ranges", "random"])
def test_samples_are_wrong_no_more_often(name):
    """Exact chances that a sample does not show which population it is from, by adding up people."""
    result, alpha, n = witness(WORKLOADS[name], 0.1), 0.05, 40
    bound = result.drawn_wrong(np.array([float(n)]), 1.0, alpha)[0]
    for v in range(len(result.p)):
        steps = np.round((result.W[v] - result.W[v].min()) * 50).astype(int)
        for row, sign in enumerate((1, -1)):
            chance, one = np.ones(1), np.bincount(steps, result.s + sign * result.M[v])
            for _ in range(n):
                chance = np.convolve(chance, one)
            off = np.arange(len(chance)) / 50 / n + result.W[v].min() - result.W[v] @ result.s
            wrong = chance[sign * off <= alpha - 0.01].sum()  # at most what is lost to rounding
            assert wrong <= bound[row, v]
    if name == "cdf":
        F = result.shares[0]
        assert_allclose(bound[0, 0], binom.cdf(np.floor(n * (F + alpha)), n, F + result.heights[0]), rtol=1e-9)


@pytest.mark.long
@pytest.mark.parametrize("epsilon", [0.5, 1.5])
def test_one_answer_rarely_suits_both(epsilon):
    """Exact chances for yes-or-no reports about every set of values, from 250 people."""
    result, alpha, n, least = witness(WORKLOADS["cdf"][:, ::2], 0.1), 0.05, 250, 1.0
    assert result.one_way[0].all()
    shown, spent = np.zeros(len(result.p)), 0.6  # what may be told about a query
    bound = result.room(np.array([float(n)]), 1.0, alpha, epsilon, np.array([spent]))[0]
    for yes in product([1.0, exp(epsilon)], repeat=len(result.s)):
        says = np.array([yes, exp(epsilon) + 1 - np.array(yes)]) / (1 + exp(epsilon))
        k = np.arange(n + 1)
        base = binom.pmf(k, n, says[0] @ result.s)
        for v in (0, len(result.p) // 2):
            y = says @ result.M[v] / (says @ result.s)
            message = k * y[0] ** 2 + (n - k) * y[1] ** 2
            high = result.W[v] == result.W[v].max()
            ends = [(says[:, high] @ q[high]) / (says @ q) for q in (result.s + result.M[v], result.s - result.M[v])]
            suits = np.zeros(n + 1)
            for j in np.flatnonzero((message <= spent) & (base > 1e-9)):
                up, down = (
                    np.convolve(binom.pmf(range(j + 1), j, a[0]), binom.pmf(range(n - j + 1), n - j, a[1]))
                    for a in ends
                )
                up, down = np.cumsum(up), np.concatenate([[0.0], np.cumsum(down)])
                below = np.clip(np.ceil(k - 2 * alpha * n - 1e-9), 0, n).astype(int)  # fewer than so many
                suits[j] = (up - down[below]).max()
            shown[v] = max(shown[v], base @ suits)
            least = min(least, bound[v])
            assert base @ suits <= bound[v]
    assert least < 0.5  # so it says something
    assert shown.max() > 0


def exactly_confused(n, y, chance):
    """Sum of the smaller of two probabilities for n reports that are tilted by +-y, which has two values."""
    k = np.arange(n + 1)
    both = [binom.pmf(k, n, chance * (1 + sign * y[0])) for sign in (1, -1)]
    return float(np.minimum(*both).sum())


@pytest.mark.parametrize("tilt", [0.02, 0.1, 0.3])
@pytest.mark.parametrize("chance", [0.5, 0.2, 0.8])
def test_independent_reports_are_confused_no_less(tilt, chance):
    """Exact overlaps for two-valued tilts; all of them lie above a convex function that is stated for any of them."""
    y = np.array([1.0, -chance / (1 - chance)])
    y *= tilt / np.abs(y).max()
    each, kappa = float(np.array([chance, 1 - chance]) @ y**2), -np.log1p(-(tilt**2)) / tilt**2
    numbers = np.unique(np.geomspace(1, 9 / each, 60).astype(int))
    exact = np.array([exactly_confused(n, y, chance) for n in numbers])
    stated, _ = independent(numbers * each, kappa, tilt)
    assert (stated <= exact).all()
    if tilt == 0.02:
        middle = (exact > 0.05) & (exact < 0.3)
        assert (stated[middle] > exact[middle] - 0.035).all()
    for at in (0.5, 2.0, 4.0):
        here, limit = independent(np.array([at, at + 1e-6]), kappa, tilt)
        if here[0] > 0:
            line = here[0] + (here[1] - here[0]) / 1e-6 * (numbers * each - at)
            convex = np.where(numbers * each <= at, stated, np.maximum(line, 0.0))
            assert (convex <= exact + 1e-9).all()
            assert limit[0] > at + here[0] / abs(here[1] - here[0]) * 1e-6  # beyond the end of the line


def test_reports_that_do_not_wait():
    """For small alpha and epsilon the normal quantile counts: 1.645^2 = 2.71 in place of 1.66."""
    W, alpha, epsilon = WORKLOADS["cdf"], 1e-4, 0.1
    ladder = Ladder(best(W), Error("max"))
    ideal = 2.7055 * best(W).trace ** 2 / (alpha * sinh(epsilon / 2)) ** 2
    assert 0.85 < ladder.floor(alpha, epsilon, waiting=False) / ideal < 1
    entries = {b.who: b.people for b in sample_complexity(W, 0.002, epsilon=1).all}
    assert 1.3 < entries[SEPARATE] / entries[ANY] < 1.9


@pytest.mark.parametrize("rounds", ROUNDS, ids=len)
@pytest.mark.parametrize("W", [PARITIES[:3, :4], np.tri(4)[:2]], ids=["parities", "cdf"])
def test_signs_are_told_apart_no_better(rounds, W):
    """Every sign moves one query; exact divergences and guesses for two people, however they wait for each other."""
    epsilon, rng, witness = 0.8, np.random.default_rng(7), every_sign(best(W))
    m, scale = len(W), 0.5
    assert_allclose(witness.W @ witness.M.T, witness.heights[0] * np.eye(m), atol=1e-9)
    value = information_on_sign(witness, scale, epsilon)
    signs = list(product([1, -1], repeat=m))
    populations = {e: witness.s + scale * np.array(e) @ witness.M for e in signs}
    assert min((witness.s + np.array(e) @ witness.M).min() for e in signs) >= 0
    for _ in range(5):
        protocol = Protocol(len(witness.s), epsilon, rng, rounds)
        chances = {e: protocol.chances(p, p) for e, p in populations.items()}
        flipped = [[tuple(-x if i == v else x for i, x in enumerate(e)) for v in range(m)] for e in signs]
        apart = [
            np.mean([chances[e] @ np.log(chances[e] / chances[f]) for f in others])
            for e, others in zip(signs, flipped, strict=True)
        ]
        assert max(apart) <= 2 * value
        guess = np.argmax([chances[e] for e in signs], axis=0)
        right = np.mean([chances[e][guess == i].sum() for i, e in enumerate(signs)])
        assert np.mean(apart) >= _divergence(np.array([1 - right]), m)[0] - 1e-12
    assert value >= 0.3 * max(apart) / 2


def test_many_signs_need_more():
    ladder = Ladder(best(PARITIES), Error("max"))
    signs = all_signs(ladder.signs, 1.25 * 0.001, 0.001, 0.3, Error("max"))
    pairs = all_errors(ladder.witness(-30), 0.001, 0.3, Error("max"))
    assert 1.05 < signs / pairs < 2
    assert ladder.floor(0.001, 0.3) >= signs
    assert every_sign(best(np.tri(4))) is None  # one query is the same for all
    assert every_sign(best(WORKLOADS["random"][:3])) is None  # more than two answers
    assert_allclose(_divergence(np.array([0.05]), 1), 0.9 * np.log(19))


# --- the sphere -------------------------------------------------------------------------------------------------------


def on_sphere(queries, r, k, draws, rng):
    """Roots of shares, with the prior u^k on the half of a sphere."""
    V = queries.parts[2][:r]
    square = rng.beta((k + 1) / 2, r / 2, draws)
    out = rng.normal(size=(draws, r))
    out /= np.linalg.norm(out, axis=1, keepdims=True)
    return np.sqrt(square)[:, None] * np.sqrt(queries.s) + np.sqrt(1 - square)[:, None] * (out @ V)


@pytest.mark.parametrize(("r", "k"), [(1, 0.5), (2, 3.0), (4, 20.0)])
def test_the_sphere_is_as_computed(r, k, monkeypatch):
    """Slope, prior and spread against draws from the prior."""
    # 100,000 draws; 5.5 standard errors: false alarms below 1e-7 each
    rng, queries = np.random.default_rng(4), best(WORKLOADS["random"])
    monkeypatch.setattr("leastnoise.theory.sphere.POWERS", np.array([k]))
    spectrum = Spectrum.of(queries)
    sphere, at = Sphere(spectrum, 1.0), int(np.flatnonzero(spectrum.ranks == r)[0])
    theta = on_sphere(queries, r, k, 100_000, rng)
    assert_allclose((theta**2).sum(axis=1), 1)
    U, _, V = queries.parts
    a = U[:, :r] @ V[:r]
    drawn = theta @ a.T
    moved = 2 * np.einsum("dx,vx,vx,v->d", theta, queries.W, a, np.sqrt(queries.p))
    moved -= 2 * ((theta**2) @ queries.W.T * drawn) @ np.sqrt(queries.p)
    prior = (k + r) ** 2 * (drawn**2).sum(axis=1)
    spread = ((theta**2) @ (queries.W**2).T - ((theta**2) @ queries.W.T) ** 2) @ queries.p
    share = sphere.away[at, 0]
    most = (1 - share) * spectrum.base + share * spectrum.along[at] - share**2 * spectrum.across[at]
    for sample, expected in ((moved, spectrum.traces()[at] * sphere.slope[at, 0]), (prior, sphere.prior[at, 0])):
        assert abs(sample.mean() - expected) < 5.5 * sample.std() / sqrt(len(sample))
    assert spread.mean() <= most + 5.5 * spread.std() / sqrt(len(spread))
    assert spread.mean() >= 0.5 * most


@pytest.mark.parametrize("rounds", ROUNDS, ids=len)
def test_scores_of_transcripts(rounds):
    """At every population: the scores of two people do not mix, and samples go with them no more than stated."""
    epsilon, rng, queries = 1.2, np.random.default_rng(5), best(WORKLOADS["random"])
    T, c = len(queries.s), sinh(0.6) ** 2
    U, d, V = queries.parts
    for _ in range(20):
        theta = on_sphere(queries, len(d), 5.0, 1, rng)[0]
        mu, protocol = theta**2, Protocol(T, epsilon, rng, rounds)
        chance, f = protocol.chances(mu, mu), protocol.f
        y = theta * (f / (f @ mu)[:, :, None] - 1)  # (transcript, person, value)
        assert (np.sum(y**2, axis=2) <= c * (1 + 1e-9)).all()
        h = rng.random(len(d))
        message = y @ ((U * h) @ V).T  # half the scores of the queries
        assert_allclose(np.einsum("t,tv,tw->vw", chance, message[:, 0], message[:, 1]), 0, atol=1e-14)
        score = 2 * message.sum(axis=1)
        off = queries.W - (queries.W @ mu)[:, None]
        sample = np.einsum("tpx,vx->tv", f * mu / (f @ mu)[:, :, None], off) / 2  # of both, given what is told
        together = float(chance @ (sample * score) @ np.sqrt(queries.p))
        spread = float(queries.p @ (off**2 @ mu))
        assert together <= 2 * sqrt(spread) * min(c, sqrt(c))
        near = np.sqrt(queries.s) * (theta @ np.sqrt(queries.s))
        along = np.einsum("t,tpj->j", chance, (y @ V.T) ** 2)
        far = sqrt(float((theta - near) ** 2 @ (queries.p @ queries.moved**2)))
        assert together <= 2 / 2 * float(along @ (d * h)) + 2 * c * far
