import mpmath
import numpy as np
import pytest

from leastnoise.noise.quantile import FIRST_BIT, Room, _cells, _derivative, _power, quantile_table

TABLE = quantile_table()
LOW, WIDTH = (ends[1:] for ends in _cells())
NODES, ORIGIN, SLACK = TABLE.coefficients[0][1:], TABLE.origin[1:], TABLE.slack[1:]
U = 2.0**-53


@pytest.fixture(autouse=True)
def precision():
    with mpmath.workprec(220):
        yield


def exact(k, start):
    """The a with Phi(-a) = k 2^-64, by Newton's method from a good start."""
    p, a = mpmath.ldexp(mpmath.mpf(k), -64), mpmath.mpf(start)
    for _ in range(4):
        a += (mpmath.ncdf(-a) - p) / mpmath.npdf(a)
    return a


def largest_share(ks):
    """Largest |fl(s a) - sigma * exact| / (sigma slack) at both ends of [k, k + 1]; s is the float next to sigma."""
    values, slack = TABLE.evaluate(ks)
    shares = []
    for k, value, bound in zip(ks.tolist(), values.tolist(), slack.tolist(), strict=True):
        ends = exact(k, value), exact(k + 1, value)
        for sigma in (mpmath.mpf(1), mpmath.sqrt(2), mpmath.mpf(10) ** 12 / 3):
            x = mpmath.mpf(float(sigma) * value)
            shares.append(float(max(abs(x - sigma * end) for end in ends) / (sigma * bound)))
    return max(shares)


def points(cells, rng, inside):
    """Both ends of each cell, and points inside."""
    low, width = LOW[cells], WIDTH[cells]
    return np.concatenate([low, low + width - 1, *(low + rng.integers(0, width) for _ in range(inside))])


def test_error_below_slack(rng):
    assert largest_share(points(rng.choice(len(LOW), 60, replace=False), rng, 1)) < 1


@pytest.mark.slow
def test_error_below_slack_in_every_cell(rng):
    assert largest_share(points(np.arange(len(LOW)), rng, 2)) < 1


def test_error_below_slack_next_to_one_half():
    assert largest_share(np.array([2**63 - 1, 2**63 - 2, 2**63 - 1024, 2**63 - 2**40])) < 1


def test_slack_is_a_few_roundings():
    probability = WIDTH * 2.0**-63
    assert 1.0 < (probability * SLACK).sum() / U < 6
    assert SLACK.max() < 1e-10


def test_cells_cover_all_words():
    assert LOW[0] == 2**FIRST_BIT
    assert (LOW[1:] == LOW[:-1] + WIDTH[:-1]).all()
    assert int(LOW[-1]) + int(WIDTH[-1]) == 2**63


def test_each_cell_uses_its_own_polynomial():
    # At its origin a polynomial has the value of its node exactly; the neighbours' polynomials do not.
    values, slack = TABLE.evaluate(ORIGIN)
    assert (values == NODES).all()
    assert (slack == SLACK).all()
    for ends in (LOW, LOW + WIDTH - 1):
        assert (TABLE.evaluate(ends)[1] == slack).all()


def test_far_tail_is_not_bounded():
    values, slack = TABLE.evaluate(np.array([0, 1, 1023, 2**20, 2**31, 2**32 - 1]))
    assert np.isfinite(values).all()
    assert np.isinf(slack).all()


def test_room_is_used_again(rng):
    room = Room(1000)
    for n in (1000, 10, 1):
        k = rng.integers(2**FIRST_BIT, 2**63 - 1, n)
        for used, fresh in zip(TABLE.evaluate(k, room), TABLE.evaluate(k), strict=True):
            assert (used == fresh).all()
            assert np.shares_memory(used, room.value) or np.shares_memory(used, room.term)


def test_values_fall_with_k(rng):
    ks = np.sort(rng.integers(2**FIRST_BIT, 2**63 - 1, 100_000))
    values, slack = TABLE.evaluate(ks)
    assert (np.diff(values) <= 2 * slack[1:] + 2 * slack[:-1]).all()


def test_origins_are_certified(rng):
    for j in rng.choice(len(LOW), 50, replace=False):
        p = mpmath.ldexp(mpmath.ncdf(-mpmath.mpf(float(NODES[j]))), 64)
        assert int(mpmath.floor(p)) == ORIGIN[j]


@pytest.mark.parametrize("m", range(1, 9))
def test_derivatives_match_multiprecision(m):
    for a in (0.25, 6.0):
        g = 1 / mpmath.npdf(a)
        result = _derivative(m, np.array([a]), np.array([float(g)]))[0]
        with mpmath.workprec(600):
            p = mpmath.ncdf(-mpmath.mpf(a))
            step = p / 10**12
            taylor = mpmath.diff(lambda q, a=a: exact_root(q, a), p, m, h=step) / mpmath.factorial(m)
        assert result == pytest.approx(float(abs(taylor)), rel=1e-8)


def exact_root(p, start):
    a = mpmath.mpf(start)
    for _ in range(5):
        a += (mpmath.ncdf(-a) - p) / mpmath.npdf(a)
    return a


def test_power():
    assert _power(np.array([3.0, -2.0]), 5).tolist() == [243.0, -32.0]
