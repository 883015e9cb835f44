from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from leastnoise.errors import LeastnoiseError
from leastnoise.noise import SecureRandomSource, SeededRandomSource, rounded_gaussian
from leastnoise.noise.gaussian import _CHUNK, Uniform, _draw, _root, exact_magnitude
from leastnoise.noise.quantile import _cells, quantile_table
from tests.every import for_every
from tests.noise.exact import Script, interval_probabilities, is_nearest, tail

SIGMAS = [Fraction(3, 10), Fraction(1), Fraction(15, 2), Fraction(1000), Fraction(10**6)]
LARGE = [Fraction(3 * 10**13), Fraction(10**16)]  # float64 decides few of these samples, or nearly none
WIDE = [Fraction(1, 1000), Fraction(1, 7), *SIGMAS, Fraction(10**9, 7), Fraction(10**12), *LARGE]
# Chance that a right sampler fails one chi-square test; the seeds are fixed, so it fails always or never.
FALSE_ALARM = 1e-6


def bin_edges(variance, size):
    """Integers that cut the line into bins of at least 20 expected samples, at most 300 bins."""
    sigma = _root(variance)
    p = np.linspace(0, 1, min(size // 50, 300) + 1)[1:-1]
    edges = np.unique(np.rint(stats.norm.ppf(p) * sigma).astype(np.int64))
    while (few := size * interval_probabilities(edges.tolist(), variance) < 20).any():
        edges = np.delete(edges, min(int(np.argmax(few)), len(edges) - 1))
    return edges


def p_value(samples, variance):
    """Chi-square of the samples against exact probabilities."""
    edges = bin_edges(variance, len(samples))
    observed = np.bincount(np.searchsorted(edges, samples, side="right"), minlength=len(edges) + 1)
    expected = len(samples) * interval_probabilities(edges.tolist(), variance)
    assert len(expected) > 2
    return stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), len(edges))


@pytest.mark.parametrize("sigma", SIGMAS, ids=str)
def test_matches_exact_probabilities(sigma):
    samples = rounded_gaussian(SeededRandomSource(2024), sigma**2, 10**6)
    assert p_value(samples, sigma**2) > FALSE_ALARM


@pytest.mark.long
@pytest.mark.parametrize("sigma", LARGE, ids=str)
def test_matches_exact_probabilities_where_float64_decides_little(sigma):
    samples = rounded_gaussian(SeededRandomSource(2026), sigma**2, 5_000)
    assert p_value(samples, sigma**2) > FALSE_ALARM
    assert stats.chisquare(np.bincount(samples % 7, minlength=7)).pvalue > FALSE_ALARM
    assert (
        p_value(rounded_gaussian(SeededRandomSource(2026), sigma**2 * Fraction(6, 10), 5_000), sigma**2) < FALSE_ALARM
    )


def test_fast_path_leaves_what_floats_cannot_tell():
    # From 2^52 on a float has no fraction, so x - rint(x) says nothing.
    words = SeededRandomSource(6).words(20_000)
    values = np.empty(len(words), dtype=np.int64)
    undecided, _ = _draw(values, words, 1e16)
    decided = np.delete(np.abs(values), undecided)
    assert 0 < len(decided) < 2_000
    assert decided.max() < 2**52


@pytest.mark.slow
@pytest.mark.parametrize("sigma", SIGMAS, ids=str)
def test_matches_exact_probabilities_in_ten_million_draws(sigma):
    samples = rounded_gaussian(SeededRandomSource(2025), sigma**2, 10**7)
    assert p_value(samples, sigma**2) > FALSE_ALARM


@pytest.mark.parametrize("sigma", SIGMAS, ids=str)
def test_chi_square_sees_a_deviation_that_is_one_percent_off(sigma):
    samples = rounded_gaussian(SeededRandomSource(2024), sigma**2 * Fraction(102, 100), 10**6)
    assert p_value(samples, sigma**2) < FALSE_ALARM


@pytest.mark.parametrize("sigma", [Fraction(1000), Fraction(10**6), Fraction(10**12)], ids=str)
def test_last_digits_are_uniform(sigma):
    # The residues' probabilities differ from 1/97 by less than exp(-2 pi^2 1000^2 / 97^2) < 1e-900.
    digits = np.bincount(rounded_gaussian(SeededRandomSource(5), sigma**2, 300_000) % 97, minlength=97)
    assert stats.chisquare(digits).pvalue > FALSE_ALARM


@pytest.mark.long
@pytest.mark.parametrize("sigma", SIGMAS[:4], ids=str)
def test_every_probability_on_a_grid_of_uniforms(sigma):
    # On equally spaced uniform numbers the counts are the exact probabilities up to the ends of each interval.
    count = 2**20
    k = (np.arange(count, dtype=np.uint64) << np.uint64(43)) + np.uint64(2**42)
    samples = rounded_gaussian(Script((k << np.uint64(1)).tolist()), sigma**2, count)
    values, counts = np.unique(samples, return_counts=True)
    assert values[0] == 0
    above = [float(tail(Fraction(2 * n + 1, 2), sigma**2)) for n in range(int(values[-1]) + 1)]
    expected = -2 * count * np.diff([0.5, *above])
    result = np.zeros(len(expected))
    result[values] = counts
    assert np.abs(result - expected).max() < 1 + 1e-6


def boundary_cases(rng, count):
    """Words whose uniform number follows a rounding boundary for 64, 128 or 192 bits and then leaves it by a little."""
    for i in range(count):
        sigma = WIDE[2 + i % (len(WIDE) - 2)]
        z = rng.choice([abs(rng.normal()), rng.uniform(0, 9)])
        n, depth = int(z * float(sigma)), int(rng.integers(1, 4))
        with mpmath.workprec(400):
            close = int(mpmath.floor(mpmath.ldexp(tail(Fraction(2 * n + 1, 2), sigma**2, 300), 64 * depth)))
        number = min(max(close + int(rng.integers(-2, 3)), 1), 2 ** (64 * depth - 1) - 1)
        words = [(number >> (64 * (depth - 1 - j))) & (2**64 - 1) for j in range(depth)]
        words[0] = 2 * words[0] + int(rng.integers(2))
        yield sigma**2, words, n


def assert_boundary_cases(rng, count):
    beyond, slow = 0, 0
    for variance, words, n in boundary_cases(rng, count):
        random_source = Script(words)
        number = int(rounded_gaussian(random_source, variance, 1)[0])
        assert is_nearest(number, words, variance)
        beyond += abs(number) > n
        slow += random_source.taken > 1
    # Both sides of the boundaries were met, and many cases needed more bits than one word.
    assert count / 4 < beyond < 3 * count / 4
    assert slow > count / 2


@pytest.mark.long
def test_boundary_cases_match_multiprecision(rng):
    assert_boundary_cases(rng, 1500)


@pytest.mark.slow
def test_hundred_thousand_boundary_cases_match_multiprecision(rng):
    assert_boundary_cases(rng, 100_000)


@pytest.mark.long
@given(st.integers(0, 2**64 - 1), st.sampled_from(WIDE))
def test_any_word_is_rounded_right(word, sigma):
    values = rounded_gaussian(Script([word]), sigma**2, 1)
    assert is_nearest(int(values[0]), [word], sigma**2)


@pytest.mark.parametrize("sigma", WIDE, ids=str)
@for_every(digits=[5, 9, 10, 12, 14, 15, 16, 19, 25, 60, 150])
def test_tails_are_exact(sigma, digits):
    number = 2**640 // 10**digits
    words = [(number >> shift) & (2**64 - 1) for shift in range(576, -1, -64)]
    for sign in (0, 1):
        spelled = [2 * words[0] + sign, *words[1:]]
        result = int(rounded_gaussian(Script(spelled), sigma**2, 1)[0])
        assert is_nearest(result, spelled, sigma**2)


def test_guess_does_not_matter(monkeypatch):
    for guess in (-0.0, -3.0, -30.0):
        monkeypatch.setattr("leastnoise.noise.gaussian.ndtri", lambda p, guess=guess: guess)
        assert exact_magnitude(Uniform(2**62, 64), Script([]), Fraction(225, 4)) == 5  # 7.5 * 0.6745 = 5.06


@pytest.mark.long
def test_fast_and_slow_agree(rng):
    k = rng.integers(2**40, 2**63, 400)
    for sigma in WIDE:
        values = np.empty(len(k), dtype=np.int64)
        undecided, _ = _draw(values, (k.astype(np.uint64) << np.uint64(1)), _root(sigma**2))
        exact = np.array([exact_magnitude(Uniform(int(x), 64), Script([]), sigma**2) for x in k])
        exact[undecided] = 1
        assert (values == exact).all()


def expected_slow_share(sigma):
    """Chance that float64 does not decide: 2 sigma slack in each cell, and the far tail."""
    probability = _cells()[1][1:] * 2.0**-63
    return float((probability * np.minimum(2 * sigma * quantile_table().slack[1:], 1)).sum()) + 2.0**-31


@pytest.mark.parametrize(
    ("sigma", "most"), [(10**3, 2e-9), (10**6, 2e-9), (10**9, 2e-6), (10**12, 2e-3), (10**14, 0.1)]
)
def test_slow_path_is_rare(sigma, most):
    assert expected_slow_share(sigma) < most


def test_slow_path_is_as_rare_as_expected():
    words = SeededRandomSource(8).words(10**6)
    undecided, _ = _draw(np.empty(len(words), dtype=np.int64), words, 1e12)
    expected = len(words) * expected_slow_share(1e12)
    assert abs(len(undecided) - expected) < 6 * np.sqrt(expected)


@pytest.mark.parametrize("sigma", [Fraction(3, 10), Fraction(15, 2), Fraction(10**12)], ids=str)
def test_symmetric(sigma, rng):
    words = rng.integers(0, 2**64, 2000, dtype=np.uint64)
    one = rounded_gaussian(Script(words.tolist()), sigma**2, len(words))
    other = rounded_gaussian(Script((words ^ np.uint64(1)).tolist()), sigma**2, len(words))
    assert (one == -other).all()
    assert (one != 0).any()


@pytest.mark.parametrize("sigma", [Fraction(1), Fraction(10**12)], ids=str)
def test_same_result_for_any_threads(sigma):
    size = 5 * _CHUNK + 17
    one = rounded_gaussian(SeededRandomSource(4), sigma**2, size, threads=1)
    for threads in (2, 3, None):
        assert (rounded_gaussian(SeededRandomSource(4), sigma**2, size, threads=threads) == one).all()


def test_same_seed_same_samples():
    assert rounded_gaussian(SeededRandomSource(9), Fraction(10**6), 5).tolist() == [-159, -1809, 497, 40, 447]
    assert (rounded_gaussian(SeededRandomSource(9), 4, 50) != rounded_gaussian(SeededRandomSource(10), 4, 50)).any()


def test_secure_samples_have_the_variance():
    # The sample variance of 10^6 draws is within 6 standard errors: a false alarm once in 5 * 10^8 runs.
    samples = rounded_gaussian(SecureRandomSource(), 10**6, 10**6)
    assert abs(samples.var() / (10**6 + 1 / 12) - 1) < 6 * np.sqrt(2e-6)
    assert abs(samples.mean()) < 6


def test_least_deviation_gives_zeros():
    assert not rounded_gaussian(SeededRandomSource(1), Fraction(1, 10**6), 10_000).any()


def test_sizes():
    assert rounded_gaussian(SeededRandomSource(1), 1, 0).shape == (0,)
    assert rounded_gaussian(SeededRandomSource(1), 1, (3, 4)).shape == (3, 4)
    assert rounded_gaussian(SeededRandomSource(1), 1, ()).shape == ()
    assert rounded_gaussian(SeededRandomSource(1), 1, np.int64(3)).dtype == np.int64
    with pytest.raises(LeastnoiseError, match="size -2 is negative"):
        rounded_gaussian(SeededRandomSource(1), 1, -2)


@pytest.mark.parametrize("variance", [1.0, "1", True, None, np.float64(2), 1j])
def test_inexact_variance_is_refused(variance):
    with pytest.raises(LeastnoiseError, match="is not exact; give a Fraction or an int"):
        rounded_gaussian(SeededRandomSource(1), variance, 1)


@pytest.mark.parametrize("variance", [0, -1, Fraction(1, 10**6 + 1), 10**32 + 1])
def test_variance_out_of_reach_is_refused(variance):
    with pytest.raises(LeastnoiseError, match="out of reach"):
        rounded_gaussian(SeededRandomSource(1), variance, 1)


def test_bad_threads_are_refused():
    with pytest.raises(LeastnoiseError, match="threads 0 is below 1"):
        rounded_gaussian(SeededRandomSource(1), 1, 1, threads=0)


@given(st.fractions(Fraction(1, 10**6), 10**32, max_denominator=10**40))
def test_root_is_within_one_rounding(variance):
    with mpmath.workprec(300):
        exact = mpmath.sqrt(mpmath.mpf(variance.numerator) / variance.denominator)
        assert abs(mpmath.mpf(_root(variance)) / exact - 1) < 1.01 * 2.0**-53
