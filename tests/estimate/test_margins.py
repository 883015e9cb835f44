"""One-way tables of best estimates: as fitted, or as measured where the fit is wrong."""

import numpy as np
from numpy.testing import assert_allclose

from leastnoise.estimate.margins import _chances, moved

SIZES = (2, 2, 3, 5, 8, 20, 60, 100)
ERROR = 10.0


def tables(rng: np.random.Generator, wrong: tuple[int, ...]) -> list[list[np.ndarray]]:
    """True, fitted and measured counts, and errors; fits to some of the tables are six errors away."""
    out = []
    for k, size in enumerate(SIZES):
        truth = rng.gamma(2, 2_000 / size, size)
        apart = 6 * ERROR * rng.choice([-1.0, 1.0], size) if k in wrong else np.zeros(size)
        fitted = truth + apart - apart.mean()
        fitted[:2] += 0 if apart.any() else [ERROR / 10, -ERROR / 10]
        out.append([truth, fitted, truth + ERROR * rng.standard_normal(size), np.full(size, ERROR)])
    return out


def test_margins_are_moved_only_where_the_fit_is_wrong():
    """Thirty draws: tables that are right move by less than a fifth of the noise on average, others to within it."""
    wrong, right, seen = (3, 4, 6), [], []
    for seed in range(30):
        every = tables(np.random.default_rng(seed), wrong)
        found = moved(*([t[k] for t in every] for k in (1, 2, 3)))
        for k, ((truth, fitted, _, _), table) in enumerate(zip(every, found, strict=True)):
            assert table.min() >= 0
            assert_allclose(table.sum(), fitted.sum())
            (seen if k in wrong else right).append(np.sqrt(np.mean((table - truth) ** 2)) / ERROR)
    assert np.mean(right) < 0.2
    assert np.mean(seen) < 1.3


def test_a_small_gain_counts_where_many_tables_are_wrong():
    alone, among = _chances(np.array([1.0, *[-1.0] * 9])), _chances(np.array([1.0, *[20.0] * 9]))
    assert alone[0] < 0.2 < 0.7 < among[0]
    assert np.all(np.isfinite(_chances(np.array([1e6, -1e6]))))


def test_without_measured_tables_there_is_nothing_to_move():
    assert moved([], [], []) == []
