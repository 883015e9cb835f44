"""Product measurements whose rows and levels are found together, against dense optima and finite differences."""

from math import prod

import numpy as np
import pytest

from leastnoise.algebra.gram import Gram, Kron, LowRank, Sum
from leastnoise.strategies import loosened as loosened_module
from leastnoise.strategies.kronecker import rescaled, solve_kronecker
from leastnoise.strategies.loosened import Search, loosened
from leastnoise.strategies.optimal import solve_optimal
from leastnoise.strategies.solvers import best_structured
from leastnoise.strategies.strategy import KronStrategy, MatrixStrategy, ScaledKron
from tests.catalogue import factor, generator

GAP = 1e-6
CASES = {  # families of two terms that are worth the same, sizes, and the most that the result may lose
    "marginals and prefixes": (("marginal", "prefix"), ("marginal", "prefix"), (16, 16), 0.006),
    "by row and by column": (("marginal", "prefix"), ("prefix", "marginal"), (16, 16), 0.006),
    "unlike": (("marginal", "range"), ("marginal", "prefix"), (9, 14), 0.004),
    "three": (("marginal", "prefix"), ("marginal", "range"), (6, 5, 7), 0.004),
}


def sum_of(first: tuple[str, str], second: tuple[str, str], sizes: tuple[int, ...]) -> Sum:
    """All first families plus all second ones; the third attribute takes what the first one does."""
    pairs = [first, second, first][: len(sizes)]
    terms = [Kron(tuple(factor(pair[t], n) for pair, n in zip(pairs, sizes, strict=True))) for t in (0, 1)]
    best = [prod(solve_optimal(Kron((f,)), 1e-4).error for f in g.factors) for g in terms]
    return Sum(tuple((1 / b, g) for b, g in zip(best, terms, strict=True)))


def uniform(gram: Gram) -> tuple[np.ndarray, ...]:
    return tuple(np.full(n, 1 / n) for n in gram.shape)


@pytest.mark.parametrize("name", CASES)
def test_loosened_is_close_to_the_dense_optimum(name):
    """Levels alone, on the rows that alternating solves leave, lose 1.1% to 2.9% here."""
    *families, sizes, loss = CASES[name]
    gram = sum_of(*families, sizes)
    best, found = solve_optimal(gram, 1e-5), best_structured(gram, uniform(gram), GAP)
    assert isinstance(found.strategy, ScaledKron)
    assert best.floor <= found.error <= best.floor * (1 + loss)
    assert found.strategy.cost().max() == pytest.approx(1, abs=1e-12)
    assert found.floor <= best.error
    assert found.error < rescaled(gram, solve_kronecker(gram, uniform(gram), GAP), GAP).error


@pytest.mark.parametrize("order", [4.0, 300.0])
@pytest.mark.parametrize("sizes", [(4, 3), (3, 4, 3)], ids=str)
def test_loosened_slopes_are_the_gradient(sizes, order):
    rng, gram = generator(5), sum_of(("marginal", "prefix"), ("range", "prefix"), sizes)
    search = Search(gram.terms, [np.linalg.qr(rng.normal(size=(n, n - 1)))[0].T for n in sizes], order)
    bases = [rng.normal(size=(n - 1, n - 1)) + 2 * np.eye(n - 1) for n in sizes]
    z = search.packed(bases, rng.random(search.sizes) + 1)
    _, slope = search.objective(z)
    along = rng.normal(size=len(z))
    low, high = (search.objective(z + h * along)[0] for h in (-1e-6, 1e-6))
    assert (high - low) / 2e-6 == pytest.approx(slope @ along, rel=1e-5)


def test_objective_is_the_error_at_cost_one():
    """The value that a search keeps is the error of the strategy, for rows that span a part of the values too."""
    rng, gram = generator(6), sum_of(("marginal", "prefix"), ("range", "prefix"), (4, 5))
    spaces = [np.linalg.qr(rng.normal(size=(n, n - 1)))[0].T for n in (4, 5)]
    bases, theta = [rng.normal(size=(n, n)) for n in (3, 4)], rng.random((3, 4)) + 0.5
    search = Search(gram.terms, spaces)
    search.objective(search.packed(bases, theta))
    parts = tuple(MatrixStrategy(c @ r, (r.shape[1],)) for c, r in zip(bases, spaces, strict=True))
    scales = [np.sum((c @ r) ** 2, axis=0).max() for c, r in zip(bases, spaces, strict=True)]
    assert search.value == pytest.approx(ScaledKron(parts, theta * prod(scales)).error(gram), rel=1e-9)


def test_nothing_is_loosened_where_it_cannot_be(monkeypatch):
    gram = sum_of(("marginal", "prefix"), ("range", "prefix"), (4, 3))
    start = solve_kronecker(gram, uniform(gram), GAP).strategy
    assert isinstance(start, KronStrategy)
    rows = Sum((*gram.terms, (1.0, LowRank((4, 3), "rows", lambda: np.ones((1, 4, 3))))))
    assert loosened(rows, start) is None  # further rows that are no products
    twice = MatrixStrategy(np.concatenate([start.parts[0].matrix()] * 2), (4,))
    assert loosened(gram, KronStrategy((twice, start.parts[1]))) is None  # rows that depend on each other
    assert loosened(gram, start) is not None
    monkeypatch.setattr(loosened_module, "WORK", 1e3)
    assert loosened(gram, start) is None  # too large
