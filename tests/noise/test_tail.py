from fractions import Fraction

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leastnoise.noise.tail import _pi, normal, tail

POINTS = [Fraction(0), Fraction(1, 10**12), Fraction(1, 3), Fraction(1), Fraction(3), Fraction(13, 2), Fraction(9)]


def exact(square, bits):
    """Phi(-x) 2^bits, by mpmath."""
    mpmath.mp.prec = 2 * bits + 400
    x = mpmath.sqrt(mpmath.mpf(square.numerator) / square.denominator)
    return mpmath.ldexp(mpmath.erfc(x / mpmath.sqrt(2)) / 2, bits)


@pytest.fixture(autouse=True)
def precision():
    before = mpmath.mp.prec
    yield
    mpmath.mp.prec = before


def assert_encloses(square, bits):
    low, high = tail(square, bits)
    assert low <= exact(square, bits) <= high
    assert 0 <= high - low <= 2


@pytest.mark.parametrize("x", POINTS, ids=str)
@pytest.mark.parametrize("bits", [8, 64, 96, 160, 400])
def test_encloses_multiprecision(x, bits):
    assert_encloses(x * x, bits)


@given(st.fractions(0, 300, max_denominator=10**30), st.integers(1, 300))
def test_width_is_small(square, bits):
    assert_encloses(square, bits)


@pytest.mark.parametrize("x", [20, 37, 500, 10**7])
def test_far_tail_is_below_one_unit(x):
    assert tail(Fraction(x * x), 96) == (0, 1)


def test_far_tail_at_high_precision():
    assert_encloses(Fraction(37 * 37), 1100)


@pytest.mark.long
@given(st.fractions(0, 60, max_denominator=10**9), st.fractions(0, 1, max_denominator=10**9))
def test_tail_decreases(square, step):
    assert tail(square + step, 96).low <= tail(square, 96).high


@pytest.mark.parametrize("square", [Fraction(0), Fraction(1, 7), Fraction(40)])
def test_exponential_encloses_multiprecision(square):
    result = normal(square, 96)
    mpmath.mp.prec = 400
    value = mpmath.ldexp(mpmath.exp(mpmath.mpf(square.numerator) / square.denominator / 2), result.bits)
    assert result.exponential.low <= value <= result.exponential.high
    assert result.exponential.high - result.exponential.low < value * mpmath.mpf(2) ** -100


@pytest.mark.parametrize("bits", [1, 16, 64, 200, 1000, 5000])
def test_pi_is_enclosed(bits):
    mpmath.mp.prec = bits + 100
    low, high = _pi(bits)
    assert low <= mpmath.ldexp(mpmath.pi, bits) <= high
    assert high - low < 150 * (bits + 10)
