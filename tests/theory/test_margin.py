"""Margin complexity against a cone solver and known values."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from leastnoise.theory import gamma_2_approximate, margin_complexity, parity_queries
from tests.refusals import refusal


def cone(W):
    """The least c with [[., V], [V^T, .]] semidefinite, diagonal at most c, V_qx W_qx >= 1."""
    m, n = W.shape
    M, c = cp.Variable((m + n, m + n), PSD=True), cp.Variable()
    limits = [cp.diag(M) <= c, cp.multiply(M[:m, m:], W) >= 1]
    return float(cp.Problem(cp.Minimize(c), limits).solve(solver=cp.CLARABEL))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_margin_complexity_matches_a_cone_solver(seed):
    rng = np.random.default_rng(seed)
    for W in (2 * np.tri(seed + 5) - 1, rng.choice([-1.0, 1.0], (5, 4 + seed))):
        ours, theirs = margin_complexity(W), cone(W)
        assert ours.lower * (1 - 1e-6) <= theirs <= ours.upper * (1 + 1e-6)
        assert ours.gap < 2e-3


def test_parities_have_no_larger_margin_than_the_plain_one():
    """The rows are orthogonal: U = W has |W|_1 / gamma_2*(W) = k^1/2."""
    W = parity_queries(3, (1, 2)).rows()
    assert_allclose(margin_complexity(W).value, 6**0.5, rtol=2e-3)


def test_thresholds_have_small_margins():
    """Forster, Schmitt, Simon and Suttorp (2003): at least (2 / pi) ln T, and half at alpha = 1/2, as ENU use it."""
    for T in (4, 8, 16, 32):
        W = 2 * np.tri(T) - 1
        margin = margin_complexity(W)
        assert margin.lower >= 2 / np.pi * np.log(T)
        assert gamma_2_approximate(W, 0.5).upper >= margin.lower / 2


def test_only_signs_have_margins():
    assert "give signs" in refusal(lambda: margin_complexity(np.tri(3)))
