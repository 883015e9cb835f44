"""Remarks and examples of WFF on explicit matrices, and its bound on the expected largest error."""

from math import inf, log, pi, sqrt

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import erfc

import leastnoise as ln
from leastnoise._types import Array
from leastnoise.planning.factorization import workload_matrix
from leastnoise.planning.variance import expected_largest
from leastnoise.theory import eta, fourier_factorization
from leastnoise.workload import Workload
from tests.catalogue import generator, ordered
from tests.oracles import cyclic_max, marginal_root, row_weights

BUDGET = ln.Budget(mu=1)

# Theorem 4.4: the largest error of cyclic queries on several sets


def phi(n: int, seed: int) -> Array:
    return generator(n, seed).normal(size=n)


TABLES: dict[str, tuple[tuple[int, ...], list[dict[int, Array]]]] = {
    "one attribute": ((5,), [{0: phi(5, 1)}]),
    "two functions": ((5,), [{0: phi(5, 1)}, {0: phi(5, 2)}]),
    "one and two": ((4, 3), [{0: phi(4, 3)}, {1: phi(3, 4)}, {0: phi(4, 5), 1: phi(3, 6)}]),
    "overlap": ((3, 2, 3), [{0: phi(3, 1), 1: phi(2, 2)}, {1: phi(2, 3), 2: phi(3, 4)}, {2: 3 * phi(3, 5)}]),
    "zeros": ((4, 3), [{0: np.array([1.0, 1, 0, 0])}, {0: np.array([1.0, 0, 1, 0]), 1: phi(3, 7)}]),
}


@pytest.mark.parametrize("name", TABLES)
def test_theorem_4_4_on_several_sets(name):
    sizes, tables = TABLES[name]
    work = Workload(ordered(*sizes))
    for table in tables:
        work = work.add({work.domain.names[j]: {"phi": f.tolist()} for j, f in table.items()})
    plan = ln.plan(work, BUDGET, solver="fourier", objective="max")
    best = cyclic_max(sizes, tables)
    assert plan.max_std_error == pytest.approx(best, rel=1e-4)
    assert np.linalg.norm(plan.fourier_factorization()[0], axis=1).max() == pytest.approx(best, rel=1e-5)
    assert plan.floor_value == pytest.approx(best, rel=1e-5)  # Theorem 5.14


# Remark 5.7 and appendix B


def test_remark_5_7_is_a_singular_value_decomposition():
    """P^1/2 W = U Sigma V* with V the characters / |U|^1/2, Sigma = |U|^1/2 tau_a, U = P^1/2 U~ / tau_a."""
    work = Workload(ordered(2, 3)).marginals("a", weight=0.4).marginals("a", "b", weight=0.1)
    L, R = fourier_factorization(work)
    scale = float(np.sqrt(row_weights(work) @ np.linalg.norm(L, axis=1) ** 2))  # the sum of tau_a
    share = np.linalg.norm(R, axis=1) ** 2 / work.domain.size  # tau_a / scale
    V = (R / np.linalg.norm(R, axis=1)[:, None]).conj().T
    sigma = np.sqrt(work.domain.size) * share * scale
    weighted = np.sqrt(row_weights(work))[:, None] * workload_matrix(work)
    U = np.sqrt(row_weights(work))[:, None] * L * np.sqrt(share) / (share * scale)
    assert_allclose(U.conj().T @ U, np.eye(len(sigma)), atol=1e-12)
    assert_allclose(V.conj().T @ V, np.eye(len(sigma)), atol=1e-12)
    assert_allclose((U * sigma) @ V.conj().T, weighted, atol=1e-12)
    assert_allclose(np.sort(sigma)[::-1], np.linalg.svd(weighted, compute_uv=False)[: len(sigma)], rtol=1e-12)


def test_example_of_appendix_b():
    """Two binary attributes: the bound is (1 + 2^1/2) / 2; too many singular values would give 1/2 + 2^1/2."""
    work = Workload(ordered(2, 2)).marginals(ways=1, weight=0.25)  # p(S) = 1/2, spread over two queries
    W, P = workload_matrix(work), row_weights(work)
    printed = np.array([[2, 1, 1, 0], [1, 2, 0, 1], [1, 0, 2, 1], [0, 1, 1, 2]]) / 4
    assert_allclose((W.T * P) @ W, printed)
    assert_allclose(np.linalg.eigvalsh(printed), [0, 0.5, 0.5, 1], atol=1e-12)
    bound, overcounted = (1 + sqrt(2)) / 2, 0.5 + sqrt(2)
    plan = ln.plan(work, BUDGET)
    assert plan.floor_value * sqrt(plan.queries) == pytest.approx(bound, rel=1e-6)
    assert plan.value * sqrt(plan.queries) == pytest.approx(bound, rel=1e-6)
    assert marginal_root((2, 2), {(0,): 0.5, (1,): 0.5}) == pytest.approx(bound, rel=1e-12)
    assert overcounted > np.linalg.norm(W, axis=0).max()  # noise on the answers themselves is better: no lower bound


# Remark 4.6


@pytest.mark.parametrize("m", [3, 6, 17])
def test_remark_4_6_needs_a_shorter_cycle(m):
    """Without the prefix that is always 1 and the suffix that is always 0, prefixes and suffixes of m values are all
    shifts on 2 (m - 1) values instead of 2 m, so that their error is (1 + eta(m - 1)) / 2; frequency 0 has the total.
    """
    cycle = 2 * (m - 1)
    work = Workload(ordered(cycle)).add({"phi": (np.arange(cycle) < m - 1).astype(float).tolist()}, on="a")
    x, t = np.arange(m), np.arange(m - 1)
    proper = np.concatenate([x <= t[:, None], x > t[:, None]]).astype(float)
    assert_allclose(workload_matrix(work)[:, :m], proper)
    plan = ln.plan(work, BUDGET, solver="fourier")
    assert plan.rmse == pytest.approx((1 + eta(m - 1)) / 2, rel=1e-9)
    assert plan.max_std_error == pytest.approx(plan.rmse, rel=1e-9)
    assert plan.rmse < (1 + eta(m)) / 2
    assert plan.variance("a", np.ones(cycle)) == pytest.approx(1 + eta(m - 1), rel=1e-9)  # 2 * the sum of tau_a


# The expected largest error, after Theorem 3.11


@pytest.mark.parametrize("queries", [1, 2, 3, 10, 1_000, 10**6, 10**12])
def test_expected_largest_error_of_independent_noise(queries):
    """Of all joint Gaussians, independent ones have the largest absolute maximum (Sidak): the integral of its tail."""
    t = np.linspace(0, 20, 400_001)[1:]
    tail = -np.expm1(queries * np.log1p(-erfc(t / sqrt(2))))
    mean = float(np.trapezoid(np.concatenate([[1.0], tail]), dx=5e-5))
    assert mean <= expected_largest(queries) * (1 + 1e-9)
    if queries == 1:  # the paper's sqrt(2 ln 1) is 0
        assert mean == pytest.approx(sqrt(2 / pi), rel=1e-9)
        assert expected_largest(1) == pytest.approx(mean, rel=1e-9)


def test_expected_largest_error_of_a_plan():
    """The mean of 4,000 draws exceeds its expectation by five standard errors in fewer than 1 of 10^6 runs."""
    plan = ln.plan(Workload(ordered(4, 3)).marginals(ways=[0, 1, 2]).prefix("a"), BUDGET, objective="max")
    f = plan.factorization()
    noise = generator(11).normal(size=(4_000, len(f.B))) * np.sqrt(np.diagonal(f.Sigma))
    largest = np.abs(noise @ f.L.T).max(axis=1)
    assert largest.mean() <= plan.expected_largest_error + 5 * largest.std() / sqrt(len(largest))
    assert plan.expected_largest_error == pytest.approx(sqrt(2 * log(plan.queries)) * plan.max_std_error)
    assert plan.expected_largest_error < inf
