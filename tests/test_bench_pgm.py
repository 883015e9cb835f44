"""Graphical models of the benchmarks: tables on a junction tree and mirror descent, against dense twins and mbi."""

from itertools import combinations

import numpy as np
import pytest

from bench import aim_pgm
from bench.junction import Descent, Model, Noisy, Tree, spread, summed, total_of

SHAPE = (3, 2, 4, 2, 3)
CLIQUES, EDGES = [(0, 1), (1, 2), (2, 3), (4,)], [((0, 1), (1, 2)), ((1, 2), (2, 3))]
EVERY = tuple(range(len(SHAPE)))
QUERIES = [q for k in (1, 2, 3) for q in combinations(EVERY, k)] + [(2, 0), (4, 1)]


def tree():
    return Tree.of(SHAPE, EDGES, CLIQUES)


def factors(rng, cliques=CLIQUES, scale=3.0):
    return {c: rng.normal(0, scale, [SHAPE[a] for a in c]) for c in cliques}


def dense(logs, total):
    joint = sum(spread(log, c, EVERY) for c, log in logs.items())
    joint = np.exp(joint - joint.max())
    return total * joint / joint.sum()


def test_tables_match_the_product_of_the_factors(rng):
    logs = factors(rng)
    model, joint = tree().model(logs, 70.0), dense(logs, 70.0)
    for query in QUERIES:
        np.testing.assert_allclose(model.table(query), np.einsum(joint, EVERY, query), rtol=1e-12, err_msg=str(query))


def test_far_factors_do_not_underflow(rng):
    """Factors of neighbouring cliques that differ by e^2000 and cancel."""
    logs = factors(rng)
    slope = 1000 * np.arange(SHAPE[1])
    near = tree().model(logs, 1.0)
    far = tree().model(logs | {(0, 1): logs[0, 1] - slope, (1, 2): logs[1, 2] + slope[:, None]}, 1.0)
    for query in QUERIES:
        np.testing.assert_allclose(far.table(query), near.table(query), rtol=1e-9)


def test_reweighting_is_multiplying_by_factors(rng):
    logs, more = factors(rng), factors(rng, [(1, 2), (2, 3)], scale=1.0)
    nodes = tree().nodes
    homes = {c: tree().home(c) for c in more}
    parts = [(homes[c], spread(np.exp(log), c, nodes[homes[c]].members)) for c, log in more.items()]
    model = tree().model(logs, 1.0).reweighted(parts)
    joint = dense({c: log + more.get(c, 0.0) for c, log in logs.items()}, 1.0)
    for query in QUERIES:
        np.testing.assert_allclose(model.table(query), np.einsum(joint, EVERY, query), rtol=1e-12)


def test_sums_and_axes_of_tables(rng):
    table = rng.normal(size=(3, 2, 4))
    np.testing.assert_allclose(summed(table, (5, 7, 1), (1, 5)), np.einsum("abc->ca", table))
    assert spread(table, (5, 7, 1), (1, 0, 5, 7)).shape == (4, 1, 3, 2)
    np.testing.assert_array_equal(spread(table, (5, 7, 1), (1, 0, 5, 7))[:, 0], table.transpose(2, 0, 1))


def test_measurements_of_one_table_are_joined():
    joined = Noisy(np.array([1.0, 2.0]), 3.0).joined(Noisy(np.array([5.0, 2.0]), 1.0))
    assert (joined.mean.tolist(), joined.precision) == ([2.0, 2.0], 4.0)
    totals = [Noisy(np.array([30.0, 70.0]), 1.0), Noisy(np.array([50.0] * 4), 2.0)]
    assert total_of(totals) == pytest.approx((100 / 2 + 200 * 2 / 4) / (1 / 2 + 2 / 4))


def measured(rng, sigma):
    """Noisy tables of a distribution, some within others, one of them twice."""
    joint = 5000 * rng.dirichlet(np.full(int(np.prod(SHAPE)), 0.3)).reshape(SHAPE)
    tables = [(0, 1), (1, 2), (2, 3), (4,), (2,), (0,), (1, 2)]
    errors = [sigma * (1 + i % 2) for i in range(len(tables))]
    return [
        (m, np.einsum(joint, EVERY, m) + rng.normal(0, s, [SHAPE[a] for a in m]), s)
        for m, s in zip(tables, errors, strict=True)
    ]


def descent(measurements):
    noisy = {}
    for m, table, sigma in measurements:
        now = Noisy(table, sigma**-2)
        noisy[m] = noisy[m].joined(now) if m in noisy else now
    return Descent(tree(), noisy, {c: np.zeros([SHAPE[a] for a in c]) for c in CLIQUES}, total_of(noisy.values()))


@pytest.mark.long
def test_descent_finds_a_distribution_that_is_there(rng):
    """Tables without noise belong to some distribution of the model."""
    exact = [(m, table, 1.0) for m, table, _ in measured(rng, 0.0)]
    fit = descent(exact)
    model = fit.run(3000)
    assert fit.loss(model)[0] < 1e-3 * fit.loss(tree().model(factors(rng), fit.total))[0]
    for m, table, _ in exact:
        np.testing.assert_allclose(model.table(m), table, atol=0.5)
    np.testing.assert_allclose(model.table((0, 3)), fit.tree.model(fit.logs, fit.total).table((0, 3)), rtol=1e-8)


def test_gradients_match_differences(rng):
    fit = descent(measured(rng, 5.0))
    model = fit.tree.model(factors(rng, scale=0.5), fit.total)
    loss, gradient, tables = fit.loss(model)
    direct = sum(0.5 * n.precision * np.sum((model.table(m) - n.mean) ** 2) for m, n in fit.noisy.items())
    assert loss == pytest.approx(direct)
    step = 1e-4
    for c, table in tables.items():
        for cell in np.ndindex(table.shape):
            moved = dict(tables) | {c: table.copy()}
            moved[c][cell] += step
            assert _loss_of(fit, moved) - loss == pytest.approx(step * gradient[c][cell], rel=1e-3, abs=1e-6)


def _loss_of(fit, tables):
    off = {m: summed(tables[c], c, m) - fit.noisy[m].mean for m, c in fit.routes.items()}
    return sum(0.5 * fit.noisy[m].precision * np.sum(o**2) for m, o in off.items())


@pytest.mark.slow
def test_steps_are_those_of_mbi(rng):
    """100 steps from zero, and 100 more after another table: the same factors up to rounding."""
    pytest.importorskip("jax")
    mbi = aim_pgm.mbi_package()
    tables = measured(rng, 20.0)
    fits = [aim_pgm.Graphical(mbi, SHAPE, 100, compiled) for compiled in (False, True)]
    for fit in fits:
        for m, table, sigma in tables:
            fit.measured.append((m, table, sigma))
        fit.fit([(1, 4)], [np.full((2, 3), 800.0)], 20.0)
        fit.fit([(0, 3)], [np.full((3, 2), 800.0)], 10.0)
    for clique, log in fits[0].logs.items():
        np.testing.assert_allclose(log, fits[1].logs[clique], rtol=1e-8, atol=1e-10)
    assert isinstance(fits[1].model, Model)
    for query in QUERIES:
        np.testing.assert_allclose(fits[0].table(query), fits[1].table(query), rtol=1e-7, atol=1e-7)
