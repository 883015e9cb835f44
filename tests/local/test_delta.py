"""Reports that keep epsilon and delta: what each randomizer satisfies, in exact numbers against brute force."""

from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import exp, sqrt

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

from leastnoise import Domain, LeastnoiseError, Workload
from leastnoise.audit.subjects import audit
from leastnoise.local import load_plan, local_plan, save_plan
from leastnoise.local.composition import composed
from leastnoise.local.randomized_response import Choice, Odds
from tests.local.cases import pairs_plan, randomizers

CASES = list(
    product([Fraction(1, 10), Fraction(1), Fraction(3)], [1e-9, 1e-3, 0.1, 0.6], [(2, 1, 1), (7, 3, 2), (12, 5, 5)])
)


def excess(P, Q, epsilon):
    """How much probability exceeds e^epsilon times the other's: the delta of two lists, exactly."""
    with mpmath.workdps(40):
        factor = mpmath.e ** mpmath.mpf(epsilon)
        return float(sum(max(mpmath.mpf(0), mpmath.mpf(p) - factor * mpmath.mpf(q)) for p, q in zip(P, Q, strict=True)))


@pytest.mark.parametrize(("epsilon", "delta", "sizes"), CASES)
def test_odds_with_a_delta_keep_it_and_are_the_largest(epsilon, delta, sizes):
    candidates, favoured, moved = sizes
    odds = Odds.with_delta(epsilon, delta, *sizes)
    choice = Choice(candidates, favoured, odds)
    assert choice.keeps(epsilon, delta, moved)
    with mpmath.workdps(60):
        factor = mpmath.e ** (mpmath.mpf(epsilon.numerator) / epsilon.denominator)
        spent = moved * (odds.top - factor * odds.bottom) / choice.total
        assert spent <= mpmath.mpf(delta)
    if odds.bottom > 1:
        larger = Choice(candidates, favoured, Odds(odds.top, odds.bottom - 1))
        assert not larger.keeps(epsilon, delta, moved)
    assert odds.ratio >= Odds.within(epsilon).ratio * (1 - Fraction(1, 2**36))


@pytest.mark.parametrize("name", ["value", "designed"])
@pytest.mark.parametrize("delta", [0.0, 0.02, 0.3])
def test_profiles_of_subsets_match_brute_force(name, delta):
    """All reports and all pairs of values; a tiny part more is allowed for e^epsilon in 40 bits."""
    pure = randomizers()[name]
    subsets = pure.spending(Fraction(1), delta) if delta else pure
    Q = [[subsets.choice.probability(bool(m)) for m in column] for column in subsets.members.T]
    for epsilon in (0.05, 0.5, 1.0, 2.0):
        worst = max(excess([float(p) for p in P], [float(q) for q in R], epsilon) for P in Q for R in Q)
        assert subsets.delta_at(Fraction(str(epsilon))) == pytest.approx(worst, abs=1e-10)
    assert subsets.keeps(Fraction(1), delta)
    assert not delta or not subsets.keeps(Fraction(1), 0.99 * delta)


@pytest.mark.parametrize("name", ["half space", "cap"])
def test_profiles_of_balls_are_above_brute_force(name):
    """For many seeds, all directions and pairs of values: what the seed is does not depend on the value."""
    ball = randomizers()[name].spending(Fraction(1), 0.05)
    seeds = np.arange(40, dtype=np.uint64)
    inside, outside = (float(ball.choice.probability(f)) for f in (True, False))
    chances = []
    for value in range(ball.cells):
        order = ball._order(seeds, np.repeat(ball.columns[:, [value]].T.astype(np.float32), len(seeds), axis=0))
        rank = np.argsort(order, axis=1)
        chances.append(np.where(rank < ball.choice.favoured, inside, outside))
    for epsilon in (0.3, 1.0):
        bound = ball.delta_at(Fraction(str(epsilon)))
        for one, other in product(chances, repeat=2):
            assert np.maximum(one - exp(epsilon) * other, 0).sum(axis=1).mean() <= bound + 1e-12
    assert 0.0499 < ball.delta_at(Fraction(1)) <= 0.05


def test_profile_of_gaussian_vectors_is_that_of_their_mu():
    vectors = randomizers()["gaussian"]
    mu = sqrt(vectors.mu_squared)
    for epsilon in (0.5, 1.0, 2.0):
        exact = norm.cdf(mu / 2 - epsilon / mu) - exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
        assert vectors.delta_at(Fraction(str(epsilon))) == pytest.approx(exact, rel=1e-6)


# --- plans ------------------------------------------------------------------------------------------------------------


def work():
    return Workload(Domain.of(x=range(6))).prefix("x")


@pytest.mark.parametrize("randomizer", ["subsets", "half space", "cap"])
def test_a_delta_is_spent_where_it_is_noticeable(randomizer, tmp_path):
    pure, tiny, spent = (local_plan(work(), 1, delta, randomizer=randomizer) for delta in (None, 1e-9, 0.05))
    assert (pure.delta, tiny.delta, spent.delta) == (0.0, 0.0, 0.05)
    assert tiny.fingerprint == pure.fingerprint
    assert spent.worst_std_error < 0.97 * pure.worst_std_error
    assert 0.049 < spent.delta_at(1) <= 0.05
    assert pure.delta_at(1) == 0
    save_plan(spent, tmp_path / "plan")
    assert load_plan(tmp_path / "plan").fingerprint == spent.fingerprint
    with pytest.raises(LeastnoiseError, match="spends more than its epsilon"):
        replace(spent, delta=0.04)
    with pytest.raises(LeastnoiseError, match="spends more than its epsilon"):
        replace(spent, delta=0.0)


def test_estimates_stay_unbiased():
    """Means by all reports of a plan with a delta."""
    part = local_plan(work(), 1, 0.05, randomizer="subsets").parts[0].randomizer
    rows = np.tril(np.ones((6, 6)))
    assert_allclose(part.estimators(rows) @ part.probabilities(), rows, atol=1e-9)


@pytest.mark.long
@pytest.mark.parametrize("randomizer", ["subsets", "half space", "cap", "gaussian"])
def test_audits_do_not_refute_plans_with_a_delta(randomizer):
    """20,000 reports; a false alarm has a rate of 1e-3 for each."""
    plan = local_plan(work(), 1, 0.05, randomizer=randomizer)
    result = audit(plan, 20_000, 0.999, seed=1)
    assert result.ok, result


# --- profiles of plans ------------------------------------------------------------------------------------------------


def brute(plan, epsilon):
    """The largest delta over all pairs of records, from the probabilities of all reports."""
    records = list(product(*(range(n) for n in plan.domain.shape)))

    def chances(record):
        each = []
        for part in plan.parts:
            cell = int(np.ravel_multi_index([record[a] for a in part.attributes], part.shape))
            each.append(part.randomizer.probabilities()[:, cell])
        if not plan.split:
            return np.concatenate([p.fraction * c for p, c in zip(plan.parts, each, strict=True)])
        total = np.ones(1)
        for c in each:
            total = np.multiply.outer(total, c).ravel()
        return total

    lists = [chances(record) for record in records]
    return max(np.maximum(P - exp(epsilon) * Q, 0).sum() for P in lists for Q in lists)


@pytest.mark.parametrize("layout", ["tables", "residuals", "split"])
def test_profiles_match_brute_force(layout):
    """Of records that may differ in every part, so that the bound of each is attained at once."""
    plan = local_plan(Workload(Domain.of(a=2, b=3)).marginals(ways=1), 3, layout=layout)
    for epsilon in (0.2, 1.0, 2.0, 2.9):
        exact = brute(plan, epsilon)
        assert plan.delta_at(epsilon) == pytest.approx(exact, rel=1e-6, abs=1e-10)
        assert plan.delta_at(epsilon) >= exact * (1 - 1e-9) - 1e-12
    assert plan.delta_at(3) <= 1e-9


def test_profiles_of_pairs_are_above_brute_force():
    plan = pairs_plan("tables")
    for epsilon in (0.2, 0.7):
        assert plan.delta_at(epsilon) >= brute(plan, epsilon) - 1e-12


def test_gaussian_noise_composes_by_mu():
    plan = local_plan(Workload(Domain.of(a=2, b=3)).marginals(ways=1), 3, 1e-3, layout="split", randomizer="gaussian")
    assert plan.delta_at(3) <= plan.delta
    mu = sqrt(sum(p.randomizer.mu_squared for p in plan.parts))
    exact = norm.cdf(mu / 2 - 2 / mu) - exp(2) * norm.cdf(-mu / 2 - 2 / mu)
    assert plan.delta_at(2) == pytest.approx(exact, rel=1e-6)


def test_mixed_kinds_have_their_own_pair_alone():
    kinds = [randomizers()["value"], randomizers()["gaussian"]]
    assert composed(kinds, 1.0) is None
