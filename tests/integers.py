"""Dense twins of what is measured: explicit integer matrices, costs and least squares."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations
from math import prod

import numpy as np
from numpy.testing import assert_allclose

import leastnoise as ln
from leastnoise._types import Array
from leastnoise.algebra.predictor import predicted_pieces
from leastnoise.planning.factorization import workload_matrix
from leastnoise.planning.integer_plan import IntegerPlan, NoisyQuery
from leastnoise.planning.residual_workload import predictors_of
from leastnoise.privacy import Budget
from leastnoise.strategies.circulant import Circulant
from leastnoise.strategies.contrasts import Contrasts
from leastnoise.strategies.integer import Centring, IntegerStrategy, Part

# Explicit least squares is good to 1e-16 times the square of its condition number, which the guarding rows take to
# about 1e4; wrong algebra shows up at order one.
EXACT = 1e-6


def whole(matrix: object) -> np.ndarray:
    """A matrix of Python integers."""
    return np.array(np.asarray(matrix).tolist(), dtype=object)


class OnlyIntegers(np.ndarray):
    """An array that raises as soon as an operation takes or gives anything but integers."""

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **kwargs):
        plain = [np.asarray(x) for x in inputs]
        targets = tuple(np.asarray(x) for x in out) if out is not None else None
        results = getattr(ufunc, method)(*plain, **(kwargs if targets is None else kwargs | {"out": targets}))
        for array in (*plain, *(results if isinstance(results, tuple) else (results,))):
            assert np.asarray(array).dtype.kind in "iuOb", f"{ufunc} touches floats"
        return np.asarray(results).view(OnlyIntegers)

    def __array_function__(self, function, types, args, kwargs):
        plain = [_plain(x) for x in args]
        arrays = [x for arg in plain for x in (arg if isinstance(arg, list) else [arg]) if isinstance(x, np.ndarray)]
        assert all(x.dtype.kind in "iuOb" for x in arrays), f"{function} touches floats"
        result = function(*plain, **kwargs)
        assert np.asarray(result).dtype.kind in "iuOb", f"{function} gives floats"
        return np.asarray(result).view(OnlyIntegers)


def _plain(argument: object) -> object:
    """An argument of a NumPy function, lists of arrays included, without the class that watches."""
    if isinstance(argument, list | tuple) and any(isinstance(x, np.ndarray) for x in argument):
        return [_plain(x) for x in argument]
    return np.asarray(argument) if isinstance(argument, OnlyIntegers) else argument


def dense_part(part: Part) -> np.ndarray:
    """The integers of one part, from its definition."""
    if isinstance(part, Centring):
        n = part.size
        return whole([[n * (i == j) - 1 for j in range(n)] for i in range(n)])
    if isinstance(part, Circulant):
        cells = list(np.ndindex(part.shape))
        places = [[tuple(np.subtract(t, x) % part.shape) for x in cells] for t in cells]
        return whole([[part.kernel[place] for place in row] for row in places])
    return whole(part.matrix() if isinstance(part, Contrasts) else part.rows)


def dense_kron(*matrices: np.ndarray) -> np.ndarray:
    """Kronecker product, entry by entry."""
    out = whole([[1]])
    for m in matrices:
        out = np.array([[a * b for a in row for b in other] for row in out for other in m], dtype=object)
        out = out.reshape(-1, out.shape[-1])
    return out


def dense(strategy: IntegerStrategy) -> np.ndarray:
    """The whole matrix: answers x cells."""
    out = dense_kron(*map(dense_part, strategy.parts)) * strategy.multiplier
    return out if strategy.levels is None else whole(strategy.levels.reshape(-1, 1)) * out


def largest_square(matrix: np.ndarray) -> int:
    """Largest squared column norm."""
    return max(sum(x * x for x in column) for column in matrix.T)


def largest_difference(matrix: np.ndarray) -> int:
    """Largest squared distance of two columns."""
    pairs = combinations(matrix.T, 2)
    return max((sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) for a, b in pairs), default=0)


def squared_sensitivity(matrix: np.ndarray, budget: Budget) -> int:
    """How far one person moves the answers, squared, from the definition of neighbours."""
    k = budget.neighbours.rows
    if budget.neighbours.change == "add-remove":
        return k**2 * largest_square(matrix)
    if budget.neighbours.size == "known":
        return largest_difference(matrix)
    return k**2 * max(largest_difference(matrix), largest_square(matrix))


def measured_sets(integer_plan: IntegerPlan) -> Iterator[tuple[tuple[int, ...], tuple[NoisyQuery, ...]]]:
    """Every attribute set with its noisy queries, found by listing all sets of attributes."""
    structure = integer_plan.structure
    numbers = {o: i for i, o in enumerate(structure.orbits)}
    everything = range(len(integer_plan.workload.domain))
    members = {
        s
        for b in integer_plan.workload.blocks
        for t in b.subsets()
        for k in range(len(t) + 1)
        for s in combinations(t, k)
    }
    for s in (s for k in range(len(everything) + 1) for s in combinations(everything, k)):
        order = tuple(sorted(s, key=lambda a: (structure.class_of[a], a)))
        number = numbers.get(tuple(structure.class_of[a] for a in order))
        if number is not None and s in members:
            yield order, integer_plan.noisy_queries[number]


def exact_cost(integer_plan: IntegerPlan) -> Fraction:
    """mu^2 as the sum over all attribute sets of squared sensitivity over variance; over all pairs of rows if joint."""
    if integer_plan.joint:
        return cost_of_pairs(integer_plan)
    total, known = Fraction(0), {}
    for _, noisy_queries in measured_sets(integer_plan):
        for noisy_query in noisy_queries:
            if id(noisy_query) not in known:
                known[id(noisy_query)] = squared_sensitivity(dense(noisy_query.strategy), integer_plan.budget)
            if noisy_query.variance or known[id(noisy_query)]:
                total += known[id(noisy_query)] / noisy_query.variance
    return total


def moved_by_rows(integer_plan: IntegerPlan) -> np.ndarray:
    """Inner products of the answers to every two cells of the domain, in units of the noise, as fractions."""
    shape = integer_plan.workload.domain.shape
    cells = np.indices(shape).reshape(len(shape), -1)
    total = np.full((cells.shape[1],) * 2, Fraction(0), dtype=object)
    for order, noisy_queries in measured_sets(integer_plan):
        for noisy_query in noisy_queries:
            matrix = dense(noisy_query.strategy)
            where = np.zeros(cells.shape[1], dtype=int)
            for a in order:
                where = where * shape[a] + cells[a]
            if noisy_query.variance:
                gram = matrix.T.dot(matrix) * (1 / noisy_query.variance)
                total += gram[np.ix_(where, where)]
            else:  # nobody may change these answers
                assert largest_difference(matrix) == 0
    return total


def cost_of_pairs(integer_plan: IntegerPlan) -> Fraction:
    """mu^2 as the largest squared distance between the answers to two neighbours, over all pairs of rows."""
    how, total = integer_plan.budget.neighbours, moved_by_rows(integer_plan)
    squares = np.diagonal(total)
    difference = (squares[:, None] + squares[None, :] - 2 * total).max()
    if how.change == "add-remove":
        return how.rows**2 * squares.max()
    return difference if how.size == "known" else how.rows**2 * max(difference, squares.max())


def over_domain(matrix: np.ndarray, order: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    """Rows over the cells of some attributes as rows over all cells."""
    b = matrix.astype(float).reshape(-1, *(shape[a] for a in order))
    b = b.transpose([0, *(1 + order.index(a) for a in sorted(order))])
    wide = b.reshape(len(b), *(n if a in order else 1 for a, n in enumerate(shape)))
    return np.broadcast_to(wide, (len(b), *shape)).reshape(len(b), -1)


def explicit(integer_plan: IntegerPlan) -> tuple[Array, Array]:
    """B and the variances of its noise: all answers over all cells."""
    shape = integer_plan.workload.domain.shape
    rows, noise = [], []
    for order, noisy_queries in measured_sets(integer_plan):
        for noisy_query in noisy_queries:
            rows.append(over_domain(dense(noisy_query.strategy), order, shape))
            variance = float(noisy_query.variance) + 1 / 12 if noisy_query.variance else 1e-12
            noise.append(np.full(len(rows[-1]), variance))
    return np.concatenate(rows), np.concatenate(noise)


def least_squares(integer_plan: IntegerPlan) -> tuple[Array, Array, Array]:
    """L, B and the variances of the noise, with L the best unbiased way from the answers to the queries."""
    B, noise = explicit(integer_plan)
    scaled = B / np.sqrt(noise)[:, None]
    columns = np.abs(scaled).max(axis=0).max()
    P = np.linalg.pinv(scaled / columns, rcond=1e-10) / columns
    return workload_matrix(integer_plan.workload) @ P / np.sqrt(noise), B, noise


def stated_variances(integer_plan: IntegerPlan) -> Array:
    """What the integer plan says about every query, in the order of the workload's matrix."""
    structure, shape = integer_plan.structure, integer_plan.workload.domain.shape
    out, row, W = [], 0, workload_matrix(integer_plan.workload).reshape(-1, *shape)
    for block in integer_plan.workload.blocks:
        for subset in block.subsets():
            sizes = tuple(shape[a] for a in subset)
            queries = [block.family(a).rows(shape[a]) for a in subset] if block.is_product else block.tensor.rows(sizes)
            count = prod(map(len, queries)) if block.is_product else len(queries)
            order = sorted(subset, key=lambda a: (structure.class_of[a], a))
            inside = W[(slice(row, row + count), *(slice(None) if a in subset else 0 for a in range(len(shape))))]
            ordered = inside.transpose([0, *(1 + sorted(subset).index(a) for a in order)])
            out.append(integer_plan.errors.variances_of(ordered, tuple(structure.class_of[a] for a in order)))
            row += count
    return np.concatenate(out)


def check_cost(integer_plan: IntegerPlan) -> None:
    """Exactly what brute force finds, and the budget up to a millionth."""
    assert integer_plan.joint == (integer_plan.budget.neighbours.change == "replace")
    assert exact_cost(integer_plan) == integer_plan.cost.mu_squared
    assert integer_plan.cost.neighbours == integer_plan.budget.neighbours
    assert (
        integer_plan.budget.exact_cost * (1 - Fraction(1, 10**6))
        < integer_plan.cost.mu_squared
        <= integer_plan.budget.exact_cost
    )


def check_priors(integer_plan: IntegerPlan) -> None:
    """Every measured row vanishes on the baseline along every attribute, unless a predictor follows from the rows."""
    predicted = predictors_of(integer_plan.baselines)
    for orbit, noisy_queries in zip(integer_plan.structure.orbits, integer_plan.noisy_queries, strict=True):
        if orbit in predicted:
            check_predictor(integer_plan, orbit, *noisy_queries)
            continue
        for noisy_query in noisy_queries:
            rows = dense(noisy_query.strategy).astype(float)
            tensor = rows.reshape(len(rows), *integer_plan.structure.shape(orbit)) / np.abs(rows).max()
            for axis, c in enumerate(orbit):
                assert np.abs(np.moveaxis(tensor, axis + 1, -1) @ integer_plan.baselines[c].values).max() < 1e-10


def check_predictor(integer_plan: IntegerPlan, orbit: tuple[int, ...], noisy_query: NoisyQuery) -> None:
    """Rows and functions of one attribute together are a basis of all queries; the pieces are those of that basis."""
    shape = integer_plan.structure.shape(orbit)
    rows = dense(noisy_query.strategy).astype(float)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    n, m = shape
    first, second = np.kron(np.eye(n), np.ones((1, m))), np.kron(np.ones((1, n)), np.eye(m)[1:])
    basis = np.concatenate([rows, first, second])
    assert len(basis) == n * m
    whole = np.linalg.solve(basis.T, np.eye(n * m)).T  # coordinates of every cell
    values = [integer_plan.baselines[c].values for c in orbit]
    pieces = predicted_pieces(
        np.eye(n * m).reshape(-1, *shape), values, {(0, 1): predictors_of(integer_plan.baselines)[orbit]}
    )
    inside = (whole[:, : len(rows)] @ rows).reshape(-1, *shape)
    assert_allclose(pieces[0, 1], inside, atol=1e-7 * np.abs(inside).max())


def check_errors(integer_plan: IntegerPlan) -> None:
    """Answers are unbiased, and their variances as stated."""
    L, B, noise = least_squares(integer_plan)
    W = workload_matrix(integer_plan.workload)
    assert_allclose(L @ B, W, atol=EXACT * np.abs(W).max())
    variances = np.einsum("qk,k,qk->q", L, noise, L)
    assert_allclose(stated_variances(integer_plan), variances, rtol=EXACT, atol=1e-9)
    assert_allclose(integer_plan.rmse, np.sqrt(variances.mean()), rtol=EXACT)
    largest = max(integer_plan.errors.table_maximum(t) for t in integer_plan.structure.tables)
    assert_allclose(largest, variances.max(), rtol=EXACT)


def check_recipe(integer_plan: IntegerPlan) -> None:
    """All laws at once."""
    check_cost(integer_plan)
    check_priors(integer_plan)
    check_errors(integer_plan)


def cube(n: int, d: int) -> ln.Domain:
    """d ordered attributes of n values."""
    return ln.Domain.of({f"a{i}": range(n) for i in range(d)})
