"""Conditional ResidualPlanner: against a cone solver, its optimality conditions, and dense error and cost."""

import timeit
from fractions import Fraction
from itertools import product
from math import inf, sqrt

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from leastnoise.algebra.residual import residual, subsets, uniform_baselines
from leastnoise.mechanisms.adaptive.allocation import (
    LEAST_SHARE,
    allocate,
    exact_shares,
    residual_cost,
    shares,
    table_error,
    water_filling,
)
from leastnoise.privacy.budget import Budget
from tests.dense import smear
from tests.refusals import refusal

MU = Fraction(1, 7)
TIGHT = {"tol_gap_abs": 1e-9, "tol_gap_rel": 1e-9, "tol_feas": 1e-9}
SPREAD = 1.5  # of log precisions; at 3 the cone solver is off by percents, while the optimality conditions still hold


def instance(rng, count=None, spread=3.0):
    """v, p and a of a table as they occur: some residuals known well, some a little, some not at all."""
    sizes = rng.integers(2, 12, count or rng.integers(1, 5))
    axes = subsets(len(sizes))
    v = np.array([table_error(sizes.tolist(), A) for A in axes])
    p = np.array([float(residual_cost([int(sizes[i]) for i in A])) for A in axes])
    a = rng.choice([0.0, 1.0], len(axes), p=[0.3, 0.7]) * np.exp(rng.normal(0, spread, len(axes)))
    return v, p, a


class Cone:
    """The problem for a cone solver, compiled once per number of residuals: bounds of the optimum from both sides.

    In y = x + a it reads: minimize v.(1/y), p.y = 1 + p.a, y >= a. With y in units of the optimum for a = 0 and
    w = (v p)^1/2 / sum: minimize w.(1/y), w.y = 1, y >= a, times a constant.
    """

    def __init__(self, count):
        self.y = cp.Variable(count)
        self.w, self.a = (cp.Parameter(count, nonneg=True) for _ in range(2))
        self.problem = cp.Problem(cp.Minimize(self.w @ cp.inv_pos(self.y)), [self.w @ self.y == 1, self.y >= self.a])

    def __call__(self, v, p, a):
        total, root = 1 + p @ a, np.sqrt(v * p)
        w, a = root / root.sum(), a / np.sqrt(v / p) / total * root.sum()
        self.w.value, self.a.value = w, a
        self.problem.solve(solver=cp.CLARABEL, **TIGHT)
        price = abs(float(self.problem.constraints[0].dual_value))
        least = np.maximum(price**-0.5, a)  # minimizes the Lagrangian, so any price gives a lower bound
        lower = (w / least).sum() + price * (w @ least - 1)
        beyond = np.maximum(self.y.value - a, 0)
        upper = (w / (a + beyond * (1 - w @ a) / (w @ beyond))).sum()
        return np.array([lower, upper]) * root.sum() ** 2 / total


def check_against_cone(instances):
    cones, solved = {}, []
    for v, p, a in instances:
        cone = cones.setdefault(len(v), Cone(len(v)))
        lower, upper = cone(v, p, a)
        x = water_filling(v, p, a)
        assert p @ x == pytest.approx(1, rel=1e-12)
        assert (x >= 0).all()
        ours = (v / (x + a)).sum()
        assert lower * (1 - 1e-12) <= ours <= upper * (1 + 1e-12)
        solved.append(cone.problem.status == cp.OPTIMAL)
        if solved[-1]:
            assert upper * (1 - 1e-7) <= ours <= lower * (1 + 1e-7)
    assert np.mean(solved) > 0.99


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")  # its bounds hold nevertheless
@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_equals_the_cone_solver(rng, count):
    check_against_cone(instance(rng, spread=SPREAD) for _ in range(count))


@pytest.mark.long
def test_satisfies_the_optimality_conditions(rng):
    for _ in range(2_000):
        v, p, a = instance(rng)
        x = water_filling(v, p, a)
        slope = v / p / (x + a) ** 2 if (x + a > 0).all() else pytest.fail("a residual is left unknown")
        price = slope[x > 0].max()
        assert_allclose(slope[x > 0], price, rtol=1e-9)
        assert (slope[x == 0] <= price * (1 + 1e-9)).all()


def test_a_batch_is_solved_like_its_members(rng):
    problems = [instance(rng, 3) for _ in range(50)]
    v, p, a = (np.array(side) for side in zip(*problems, strict=True))
    assert_allclose(water_filling(v, p, a), [water_filling(*q) for q in problems], rtol=1e-13)


def test_no_digits_are_lost_where_all_is_known(rng):
    v, p, _ = instance(rng, 3)
    x = water_filling(v, p, np.sqrt(v / p) * 1e18)  # levels alike: as if nothing were known
    assert_allclose(x, water_filling(v, p, np.zeros(8)), rtol=1e-9)


def test_no_share_is_small(rng):
    dropped = 0
    for _ in range(500):
        v, p, a = instance(rng)
        values = shares(v, p, a)
        assert values.sum() == pytest.approx(1, rel=1e-12)
        assert ((values == 0) | (values >= LEAST_SHARE) | (a == 0)).all()
        before = p * water_filling(v, p, a)
        assert (values[values > 0] >= before[values > 0] * (1 - 1e-12)).all()
        dropped += np.count_nonzero((before > 0) & (values == 0))
    assert dropped >= 5


def test_unknown_residuals_stay():
    allocation = allocate([100, 100], {}, MU)  # the total of 100 x 100 has a share of 1e-4 only
    assert set(allocation.variances) == {(), (0,), (1,), (0, 1)}
    assert float(1 / allocation.variances[()] / MU) < LEAST_SHARE


def test_something_is_measured_where_all_shares_are_small():
    known = np.ones(5_000)
    assert shares(known, known, known).sum() == pytest.approx(1)


def test_shares_sum_to_one(rng):
    for _ in range(200):
        given = rng.exponential(size=9) ** 4
        results = exact_shares(given)
        assert sum(results) == 1
        assert all(share > 0 for share in results)
        assert_allclose([float(s) for s in results], given / given.sum(), rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("rows", [None, 1, 3])
def test_spends_exactly_the_budget(rng, neighbours, rows):
    budget = Budget(mu=1, neighbours=neighbours, rows_per_person=rows)
    for _ in range(20):
        sizes = rng.integers(1, 6, rng.integers(1, 4)).tolist()
        if max(sizes) == 1:
            continue
        known = {A: float(rng.choice([0, 1, 10])) for A in subsets(len(sizes))}
        assert allocate(sizes, known, MU, budget).mu_squared == MU


def test_what_nobody_changes_is_free():
    allocation = allocate([3], {}, MU, Budget(mu=1, neighbours="replace"))
    assert allocation.variances[()] == 0
    assert allocation.mu_squared == MU
    assert allocate([1], {}, MU, Budget(mu=1, neighbours="replace")).mu_squared == 0


def test_what_is_known_exactly_is_not_measured():
    assert set(allocate([3], {(): inf}, MU).variances) == {(0,)}
    assert allocate([3], {(): inf, (0,): inf}, MU).variances == {}


def dense_parts(sizes, axes):
    """Explicit matrices: the residual of a table's cells, and its way back into the table."""
    baselines = uniform_baselines(sizes)
    cells = np.eye(int(np.prod(sizes))).reshape(-1, *sizes)
    take = residual(cells, baselines, axes).reshape(len(cells), -1).T
    shape = [sizes[i] for i in axes]
    some = np.eye(int(np.prod(shape, initial=1))).reshape(-1, *shape)
    centred = residual(some, [baselines[i] for i in axes], range(len(axes)))
    back = smear(centred, baselines, axes).reshape(len(some), -1).T
    return take, back


@pytest.mark.parametrize("sizes", [(2,), (3, 2), (4, 3, 2), (1, 3)])
def test_costs_and_errors_match_dense(sizes):
    for axes in subsets(len(sizes)):
        if any(sizes[i] == 1 for i in axes):
            continue
        take, back = dense_parts(sizes, axes)
        V = back.T @ back
        assert table_error(sizes, axes) == pytest.approx(np.trace(V))
        # z = C x + C noise has precision C^+ on the range of C, which is a projection
        assert float(residual_cost([sizes[i] for i in axes])) == pytest.approx((take * take).sum(axis=0).max())


def test_not_worse_than_equal_noise(rng):
    """A table with equal noise in every cell is one of the choices."""
    for sizes in [(2, 2), (3, 5), (4, 3, 2)]:
        known = {A: float(rng.exponential()) for A in subsets(len(sizes))}
        equal = {A: MU / np.prod([n for i, n in enumerate(sizes) if i not in A]) for A in subsets(len(sizes))}
        assert sum(
            residual_cost([sizes[i] for i in A]) * Fraction(float(x)) for A, x in equal.items()
        ) == pytest.approx(float(MU))
        allocation = allocate(sizes, known, MU)

        def error(precisions, sizes=sizes, known=known):
            return sum(table_error(sizes, A) / (known[A] + float(precisions.get(A, 0))) for A in subsets(len(sizes)))

        assert error({A: 1 / s for A, s in allocation.variances.items()}) < error(equal)


def test_a_table_of_which_nothing_is_known_gets_the_shares_of_residual_planner():
    """With nothing known, sigma_A^2 = sum of (p v)^1/2 (v/p)^-1/2 / mu^2: ResidualPlanner's closed form."""
    sizes = (4, 3)
    allocation = allocate(sizes, {}, MU)
    v = {A: table_error(sizes, A) for A in subsets(2)}
    p = {A: float(residual_cost([sizes[i] for i in A])) for A in subsets(2)}
    total = sum(sqrt(v[A] * p[A]) for A in v)
    for A, variance in allocation.variances.items():
        assert float(variance) == pytest.approx(total * sqrt(p[A] / v[A]) / float(MU), rel=1e-9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: water_filling([1, 0], [1, 1], [0, 0]),
            "errors and costs must be positive and finite; leave out residuals without either",
        ),
        (
            lambda: water_filling([1], [1], [-1]),
            "known precisions must be finite and not negative; leave out what is known exactly",
        ),
        (lambda: allocate([2], {}, Fraction(0)), "a round needs a positive budget, got mu^2 0"),
    ],
)
def test_refuses(call, message):
    assert refusal(call) == message


def seconds(call, repeats):
    """Least time of a call: other work on the machine only adds to it."""
    return min(timeit.repeat(call, number=1, repeat=repeats))


@pytest.mark.slow
def test_a_hundred_times_faster_than_the_cone_solver(rng):
    v, p, a = instance(rng, 3)
    x, goal = cp.Variable(8), v / v.max()

    def cone():
        terms = cp.sum(cp.multiply(goal, cp.inv_pos(x + a)))
        cp.Problem(cp.Minimize(terms), [p @ x == 1, x >= 0]).solve(solver=cp.CLARABEL)

    cone()
    assert seconds(cone, 20) > 100 * seconds(lambda: water_filling(v, p, a), 1000)


def test_instances_are_of_all_kinds(rng):
    """The random problems above include full, partial and single measurement."""
    kinds = {tuple(sorted({bool(x) for x in water_filling(*instance(rng)) > 0})) for _ in range(200)}
    assert kinds == set(product([True])) | {(False, True)}
