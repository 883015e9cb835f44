"""Benchmarks of trees, of cascades and of continual counting: their figures against dense twins."""

from math import sqrt

import numpy as np
import pytest

from bench import cascade_levels, cascade_runtime, cascade_speed, cascade_utility, continual
from bench.peers import LevelStrategy, PlainTree, regular_arities
from leastnoise import Budget
from leastnoise.mechanisms.tree import Cascade, Tree, best_cascade, node_rows
from leastnoise.mechanisms.tree.sample import from_normals
from tests.benches import run


def intervals(n: int) -> np.ndarray:
    """All ranges of n cells as rows."""
    cells = np.arange(n)
    return np.array(
        [(low <= cells) & (cells < high) for low in range(n) for high in range(low + 1, n + 1)], dtype=float
    )


CASCADE_ROWS = {
    "range": lambda bits: intervals(2**bits),
    "node": lambda bits: node_rows(Tree.binary(bits)),
    "random": lambda bits: cascade_utility.random_sums(bits).gram_rows(),
}


@pytest.mark.parametrize("bits", [2, 4])
@pytest.mark.parametrize("name", CASCADE_ROWS)
def test_errors_of_cascades_and_peers_match_all_queries(name, bits, rng):
    queries, rows = cascade_utility.WORKLOADS[name](bits), CASCADE_ROWS[name](bits)
    n, plain = 2**bits, PlainTree((2,) * bits)
    assert queries.count == len(rows)
    np.testing.assert_allclose(queries.gram_rows().T @ queries.gram_rows(), rows.T @ rows, atol=1e-9)
    for strategy in cascade_utility.peers(queries).values():
        assert strategy.variances(queries.alike).sum() == pytest.approx(strategy.variances(rows).sum())
    assert queries.plain_total == pytest.approx(plain.variances(rows).sum())
    noise = rng.normal(size=(20, n))
    np.testing.assert_allclose(queries.worst(noise), np.abs(noise @ rows.T).max(axis=1))
    levels = [rng.normal(size=(20, 2**k)) for k in range(bits + 1)]
    answers = sum(x @ part.T for x, part in zip(levels, plain.parts(rows), strict=True))
    np.testing.assert_allclose(queries.plain_worst(levels), np.abs(answers).max(axis=1))


@pytest.mark.parametrize("name", CASCADE_ROWS)
def test_rows_that_are_answered_are_all_queries(name):
    task, rows = cascade_runtime.Task.of(name, 3), CASCADE_ROWS[name](3)
    np.testing.assert_array_equal(task.rows[np.lexsort(task.rows.T)], rows[np.lexsort(rows.T)])
    assert cascade_utility.peers(task.requested)["branching"].variances(rows).sum() == pytest.approx(
        min(LevelStrategy.nodes(regular_arities(8, m)).variances(rows).sum() for m in (2, 4, 8))
    )


def test_of_many_ranges_some_are_answered():
    rows = cascade_runtime.Task.of("range", 7).rows
    assert rows.shape == (cascade_runtime.MOST_RANGES, 128)
    assert len(np.unique(rows, axis=0)) == len(rows)
    assert (np.abs(np.diff(rows, axis=1, prepend=0, append=0)).sum(axis=1) == 2).all()  # one start and one end


@pytest.mark.parametrize("method", cascade_runtime.METHODS)
@pytest.mark.parametrize("name", CASCADE_ROWS)
def test_answers_are_the_queries_of_noisy_leaves(name, method):
    """Noise is not zero and differs between leaves; answers are sums of one noisy table."""
    task = cascade_runtime.Task.of(name, 4)
    errors = task.answers(cascade_runtime.METHODS[method]) - task.rows @ task.counts
    leaves = np.linalg.lstsq(task.rows, errors)[0]
    np.testing.assert_allclose(task.rows @ leaves, errors, atol=1e-8 * np.abs(errors).max())
    assert len(np.unique(leaves.round(6))) > 8


def test_runtimes_are_compared_with_the_cascade(capsys):
    _, document = run("cascade_runtime", "--bits 3 --workloads node --methods wavelet --repeats 1", capsys)
    seconds, ratios = document["figures"]
    assert ratios["cascade"] == 1
    assert ratios["wavelet"] == pytest.approx(seconds["wavelet"] / seconds["cascade"])
    assert "eigen" not in seconds


def test_calibrations_of_cascades():
    calibrations = cascade_utility.calibrations()
    assert calibrations["paper"] == pytest.approx(2 * 100 * np.log(2e9))
    budget = Budget(mu=calibrations["exact"] ** -0.5)
    assert budget.epsilon_at(1e-9) == pytest.approx(0.1, rel=1e-9)


def test_a_tilt_of_targets_is_chosen_by_the_worst_error(rng):
    queries, normals = cascade_utility.nodes(6), rng.normal(size=(64, 200))
    chosen = cascade_utility.tilted(queries.demand, normals, queries.worst)

    def worst(cascade) -> float:
        return queries.worst(from_normals(cascade, normals).T).mean()

    assert chosen.cost == 1
    assert worst(chosen) <= worst(best_cascade(queries.demand))
    assert worst(chosen) < worst(Cascade.by_level(Tree.binary(6), 1).scaled(1))


def test_sums_of_levels_on_a_grid(rng):
    table = rng.integers(0, 100, (8, 8))
    level_sums = cascade_levels.level_sums(table)
    assert [x.shape for x in level_sums] == [(1, 1), (2, 2), (4, 4), (8, 8)]
    assert level_sums[0][0, 0] == table.sum()
    assert level_sums[1][1, 0] == table[4:, :4].sum()


def test_levels_are_measured_on_tables_that_are_read(tmp_path, capsys):
    np.save(tmp_path / "small.npy", np.arange(32))
    code, document = run("cascade_levels", f"--data {tmp_path} --runs 40", capsys)
    assert (code, document["figures"][0]["table"]) == (0, "small")


@pytest.mark.parametrize("fixed", [0.0, 0.1])
def test_slopes_of_speeds(fixed):
    rows = [{"bits": k, "x_own": fixed + 1e-3 * 2**k} for k in range(4, 12)]
    assert cascade_speed.slope(rows, "x_own", fixed=fixed) == pytest.approx(1)
    assert cascade_speed.slope([{"bits": k, "x_own": 4.0**k} for k in range(9)], "x_own", least=3) == pytest.approx(2)
    assert np.isnan(cascade_speed.slope(rows[:1], "x_own"))


@pytest.mark.long
@pytest.mark.parametrize("name", ["ideal", "integer", "leaves", "binary"])
def test_noise_is_as_large_as_it_says(name):
    """A mean of 2,000 squares: six standard errors, false alarms below 1e-7."""
    draw = cascade_speed.METHODS[name](1)
    squares = np.array([float(draw()[0]) ** 2 for _ in range(2000)])
    assert abs(squares.mean() / cascade_speed.VARIANCE - 1) < 6 * sqrt(2 / 2000)


@pytest.mark.parametrize("levels", [0, 1, 2, 5])
def test_trees_of_continual_counting_match_dense_ones(levels):
    T = 2**levels
    nodes = np.concatenate([np.kron(np.eye(T >> k), np.ones(1 << k)) for k in range(levels + 1)])
    least = np.tri(T) @ np.linalg.inv(nodes.T @ nodes) @ np.tri(T).T * (levels + 1)
    assert np.allclose(continual.least_squares_tree(levels), np.diag(least))
    used = [sum(1 for k in range(levels + 1) if (t >> k) & 1) for t in range(1, T + 1)]
    assert np.allclose(continual.tree(levels), (levels + 1) * np.array(used))


@pytest.mark.parametrize("T", [2, 9, 40])
def test_the_root_of_continual_counting_matches_a_dense_one(T):
    c = [1.0]
    for k in range(1, T):
        c.append(c[-1] * (1 - 0.5 / k))
    A = np.array([[c[i - j] if i >= j else 0.0 for j in range(T)] for i in range(T)])
    assert np.allclose(A @ A, np.tri(T))
    assert np.allclose(continual.root(T), np.sum(A**2, axis=1) * np.max(np.sum(A**2, axis=0)))
    assert continual.floor(T) == pytest.approx(np.linalg.svd(np.tri(T), compute_uv=False).sum() / T)
