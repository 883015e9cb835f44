"""Rounding to integers: baselines vanish exactly, ranks are kept, lattices stay the same, and every search ends."""

from math import gcd

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from leastnoise.strategies.integer import Centring, Rows
from leastnoise.strategies.rounding import (
    BASELINE,
    Lattice,
    _coins,
    free_rows,
    integer_baseline,
    integer_levels,
    joint_rows,
    lll,
    reaches,
    short_basis,
)

NORM = 2.0**12


@st.composite
def baselines(draw, sizes=(2, 3, 4, 5, 6, 8, 9, 12, 40)):
    """Sum 1; few distinct values, zeros and negative entries included."""
    n = draw(st.sampled_from(sizes))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kind = draw(st.sampled_from(["any", "few", "two", "zeros", "negative", "skewed", "uniform"]))
    p = {
        "any": rng.random(n) + 0.05,
        "few": rng.choice([0.1, 0.2, 0.35], n),
        "two": np.where(np.arange(n) < n // 2 + 1, 2.0, 1.0),
        "zeros": np.append(rng.random(n - 1) * rng.integers(0, 2, n - 1), 1.0),
        "negative": np.append(rng.normal(size=n - 1) / n, 1.5),
        "skewed": rng.random(n) ** 8 + 1e-4,
        "uniform": np.ones(n),
    }[kind]
    return p / p.sum()


def random_rows(baseline, count, seed=0):
    rows = np.random.default_rng(seed).normal(size=(count, len(baseline)))
    return rows - (rows @ baseline)[:, None]


@pytest.mark.long
@given(baselines())
@settings(max_examples=30)
def test_integer_priors_are_close_coprime_and_have_a_sum(baseline):
    p = integer_baseline(baseline)
    assert p.dtype == np.int64
    assert gcd(*p.tolist()) == 1
    assert p.sum() > 0
    assert np.abs(p).max() <= 2 * BASELINE
    assert np.abs(p / p.sum() - baseline).max() < 0.03 * np.abs(baseline).max()


@given(st.lists(st.integers(1, 60), min_size=2, max_size=9))
def test_integer_priors_stay_what_they_are(p):
    p = np.array(p) // gcd(*p)
    assert integer_baseline(p / p.sum()).tolist() == p.tolist()


@pytest.mark.long
@given(baselines())
@settings(max_examples=30)
def test_lattice_rows_vanish_exactly_and_keep_their_rank(baseline):
    p = integer_baseline(baseline)
    n = len(p)
    planned = random_rows(baseline, n - 1)
    rows = Lattice(p).round(planned, NORM)
    assert not (rows.rows @ p).any()
    assert np.linalg.matrix_rank(rows.rows) == n - 1


@pytest.mark.long
@given(baselines(sizes=(3, 4, 5, 8, 12)))
def test_lattice_rows_are_near_the_planned_ones(baseline):
    p = integer_baseline(baseline)
    moved = random_rows(p / p.sum(), len(p) + 2)
    rows = Lattice(p).round(moved, 2.0**20).rows
    scaled = moved * 2.0**20 / np.sqrt((moved**2).sum(axis=0).max())
    assert np.abs(rows - scaled).max() < 4 * np.sqrt((short_basis(p) ** 2).sum(axis=1).max()) + 2


@pytest.mark.long
@settings(max_examples=30)
@given(baselines(), st.sampled_from([2.0**8, 2.0**12, 2.0**20]))
def test_low_rank_rows_are_guarded(baseline, norm):
    p = integer_baseline(baseline, norm)
    lattice = Lattice(p)
    guarded = lattice.guarded(lattice.round(random_rows(baseline, 1), norm), norm)
    assert not (guarded.rows @ p).any()
    assert np.linalg.matrix_rank(guarded.rows) == len(p) - 1
    assert guarded.rows[0].any()


@pytest.mark.long
@given(baselines())
@settings(max_examples=30)
def test_whole_reaches_everything(baseline):
    p = integer_baseline(baseline)
    part = Lattice(p).whole(2.0**9)
    assert not (part.matrix() @ p).any()
    assert np.linalg.matrix_rank(part.matrix()) == len(p) - 1
    assert isinstance(part, Centring) == bool((p == 1).all())


@pytest.mark.long
@given(baselines())
@settings(max_examples=30)
def test_short_bases_are_bases_of_the_lattice(baseline):
    p = integer_baseline(baseline)
    basis = short_basis(p)
    assert basis.shape == (len(p) - 1, len(p))
    assert not (basis @ p).any()
    # the minors of a basis of all integer rows orthogonal to p are the entries of p, up to sign
    if len(p) <= 8:
        minors = [round(abs(np.linalg.det(np.delete(basis, x, axis=1).astype(float)))) for x in range(len(p))]
        assert minors == np.abs(p).tolist()


@pytest.mark.long
@given(baselines(sizes=(2, 3, 5)), baselines(sizes=(2, 4, 9)))
@settings(max_examples=20)
def test_joint_rows_vanish_along_every_axis(first, second):
    p, q = integer_baseline(first), integer_baseline(second)
    shape = (len(p), len(q))
    planned = np.random.default_rng(1).normal(size=((shape[0] - 1) * (shape[1] - 1), shape[0] * shape[1]))
    rows = joint_rows(planned, shape, [p, q], [short_basis(p), short_basis(q)], 2.0**22)
    tensor = rows.rows.reshape(-1, *shape)
    assert not (tensor @ q).any()
    assert not np.tensordot(tensor, p, axes=(1, 0)).any()
    assert np.linalg.matrix_rank(rows.rows.astype(float)) == (shape[0] - 1) * (shape[1] - 1)
    assert reaches(rows.rows, [first, second])
    assert not reaches(rows.rows[:-1], [first, second])


@settings(max_examples=30)
@given(baselines(), st.sampled_from([2.0**8, 2.0**12]))
def test_kernel_of_free_rows_is_their_prior(baseline, norm):
    rows, kernel = free_rows(random_rows(baseline, len(baseline) - 1), norm)
    assert rows.largest_square <= norm**2
    assert abs(kernel.sum() - 1) < 1e-9 * np.abs(kernel).max()
    assert np.abs(rows.rows @ kernel).max() < 1e-10 * norm * np.abs(kernel).max() * len(baseline)


def test_free_rows_spend_their_norm():
    rows, _ = free_rows(random_rows(np.full(10, 0.1), 9), NORM)
    assert rows.largest_square > NORM**2 * (1 - 1e-3)


@given(st.lists(st.integers(-40, 40), min_size=2, max_size=6).filter(lambda p: gcd(*p) == 1))
def test_steps_reach_every_offset(p):
    p = np.array(p)
    reach = int(np.abs(p).max())
    steps = _coins(p)
    for start in range(-reach, reach + 1):
        off, taken = start, 0
        while off:
            i, sign = steps[off]
            off, taken = off + sign * int(p[i]), taken + 1
            assert taken <= 4 * reach + 1


@given(st.integers(2, 6), st.integers(0, 2**32))
def test_lll_gives_a_basis_of_the_same_lattice(n, seed):
    rng = np.random.default_rng(seed)
    basis = rng.integers(-30, 31, (n, n)) + 100 * np.eye(n, dtype=np.int64)
    short = lll(basis)
    change = np.linalg.solve(basis.T.astype(float), short.T.astype(float))
    assert_allclose(change, np.rint(change), atol=1e-6)
    assert abs(abs(np.linalg.det(np.rint(change))) - 1) < 1e-6
    assert (short**2).sum() <= (basis**2).sum() * 2**n


def test_rows_that_span_too_little_are_told():
    rows = Centring(5).matrix()
    uniform = np.full(5, 0.2)
    assert reaches(1000 * rows, [uniform])
    assert not reaches(1000 * rows[:3], [uniform])
    nearly = 1000 * np.outer(np.ones(5, dtype=np.int64), rows[0])
    nearly[np.arange(4), np.arange(4)] += 1  # rank by rounding errors alone
    nearly[:, 4] = -nearly[:, :4].sum(axis=1)
    assert np.linalg.matrix_rank(nearly) == 4
    assert not reaches(nearly, [uniform])


def test_levels():
    assert integer_levels(np.array([4.0, 1.0, 1e-20]), 100).tolist() == [100, 50, 1]


def test_two_values_with_any_prior():
    for p in ([1, 1023], [1000, -999], [1, 0]):
        rows = Lattice(np.array(p)).round(np.array([[0.3, -0.1], [1e-9, 0.0]]), NORM)
        assert isinstance(rows, Rows)
        assert not (rows.rows @ np.array(p)).any()


@pytest.mark.parametrize("n", [100, 300])
def test_many_values(n):
    baseline = np.linspace(1, 3, n) / np.linspace(1, 3, n).sum()
    p = integer_baseline(baseline)
    rows = Lattice(p).round(random_rows(baseline, n - 1), NORM)
    assert not (rows.rows @ p).any()
    assert np.linalg.matrix_rank(rows.rows.astype(float)) == n - 1
    assert len(short_basis(p)) == n - 1
