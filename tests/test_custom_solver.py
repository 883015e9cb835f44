"""Solvers of a user's own: laws of all plans, dense twins, and refusals that name the fix."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.testing import assert_allclose

import leastnoise as ln
from leastnoise._types import Array
from leastnoise.errors import LeastnoiseError
from leastnoise.strategies import ResidualProblem, Solver
from leastnoise.strategies.custom import solve_custom
from leastnoise.strategies.optimal import solve_optimal
from leastnoise.strategies.strategy import factor_gram
from tests.catalogue import PROBLEMS, WORKLOADS, generator, skewed
from tests.every import for_every
from tests.laws import check_plan, same_plan
from tests.oracles import SDP, dense_error, least_sum, thin_root

BUDGET = ln.Budget(mu=1)


def every_value(problem: ResidualProblem) -> Array:
    """One measurement per cell."""
    return np.eye(problem.cells)


def own_queries(problem: ResidualProblem) -> Array:
    """The queries themselves, each measured twice."""
    root = thin_root(problem.gram)
    return np.concatenate([root, root])


def some_noise(problem: ResidualProblem) -> Array:
    """Rows without structure, more of them than cells."""
    return generator(problem.cells).normal(size=(problem.cells + 2, problem.cells))


CONSTRUCTORS = [every_value, own_queries, some_noise]


@pytest.mark.long
@pytest.mark.parametrize("name", WORKLOADS)
@for_every(construct=CONSTRUCTORS)
def test_custom_solvers_obey_the_laws(construct, name):
    check_plan(ln.plan(WORKLOADS[name], BUDGET, solver=construct))


@pytest.mark.parametrize("name", PROBLEMS)
@for_every(construct=CONSTRUCTORS)
def test_custom_strategies_match_dense(construct, name):
    """Against numpy's pseudo-inverse of the rows after projection by explicit Kronecker products."""
    gram, axes = PROBLEMS[name].gram, PROBLEMS[name].axes
    baselines = tuple(a.baseline for a in axes)
    solution = solve_custom(construct, gram, baselines)
    P = np.ones((1, 1))
    for p in baselines:
        P = np.kron(P, np.eye(len(p)) - np.outer(p, np.ones(len(p))))
    B = np.asarray(construct(ResidualProblem(gram.dense(), gram.shape, baselines))) @ P
    B /= np.linalg.norm(B, axis=0).max()
    assert solution.error == pytest.approx(dense_error(gram.dense(), B), rel=1e-7)
    assert_allclose(solution.strategy.cost().ravel(), (B**2).sum(axis=0), atol=1e-12)
    inverse = np.linalg.pinv(B.T @ B, rcond=1e-12, hermitian=True)
    assert_allclose(solution.strategy.inverse(), inverse, atol=1e-7 * np.abs(inverse).max())


def the_best(problem: ResidualProblem) -> Array:
    """Our own solver, called as a user would call theirs."""
    return solve_optimal(factor_gram(problem.gram), 1e-8).strategy.matrix()


@pytest.mark.parametrize("name", ["prefix 5", "hybrid", "affine"])
def test_a_solver_that_repeats_ours_gives_our_plan(name):
    for construct, solver in ((the_best, "optimal"), (every_value, "identity")):
        mine = ln.plan(WORKLOADS[name], BUDGET, solver=construct)
        ours = ln.plan(WORKLOADS[name], BUDGET, solver=solver, baseline="uniform", gap=1e-8)
        assert mine.rmse == pytest.approx(ours.rmse, rel=1e-7)
        assert mine.class_floor == pytest.approx(ours.class_floor, rel=1e-4)


@pytest.mark.parametrize("name", ["prefix 5", "hybrid", "affine"])
def test_no_custom_solver_beats_the_optimum(name):
    for construct in CONSTRUCTORS:
        plan = ln.plan(WORKLOADS[name], BUDGET, solver=construct)
        best = ln.plan(WORKLOADS[name], BUDGET, baseline="uniform")
        assert plan.value >= best.class_floor * (1 - 1e-9)
        assert plan.gap == pytest.approx(plan.value / best.class_floor - 1, rel=1e-3, abs=1e-4)


def test_rows_that_are_not_in_the_residual_space_are_moved_there():
    rows = generator(1).normal(size=(7, 6))
    baselines = (skewed(2), skewed(3))
    problem = ResidualProblem(np.eye(6), (2, 3), baselines)
    moved = problem.project(rows).reshape(7, 2, 3)
    assert_allclose(np.tensordot(moved, baselines[0], axes=(1, 0)), 0, atol=1e-12)
    assert_allclose(np.tensordot(moved, baselines[1], axes=(2, 0)), 0, atol=1e-12)
    assert_allclose(problem.project(moved.reshape(7, 6)), moved.reshape(7, 6), atol=1e-12)


def test_products_are_solved_attribute_by_attribute():
    shapes = []

    def construct(problem: ResidualProblem) -> Array:
        shapes.append(problem.shape)
        return np.eye(problem.cells)

    domain = ln.Domain.of(a=ln.sized(4, ordered=True), b=ln.sized(3, ordered=True))
    ln.plan(ln.Workload(domain).prefix("a", "b"), BUDGET, solver=construct)
    assert sorted(shapes) == [(3,), (4,)]
    shapes.clear()
    ln.plan(ln.Workload(domain).affine("a", "b"), BUDGET, solver=construct)
    assert sorted(shapes) == [(3,), (4,), (4, 3)]


def test_a_function_is_called_for_every_plan():
    work = WORKLOADS["prefix 5"]
    scale = [1.0]

    def construct(problem: ResidualProblem) -> Array:
        return np.diag(np.linspace(1, scale[0], problem.cells))

    before = ln.plan(work, BUDGET, solver=construct).rmse
    scale[0] = 9.0
    assert ln.plan(work, BUDGET, solver=construct).rmse > 1.01 * before


def test_rows_that_span_the_queries_alone_do_not_claim_more():
    domain = ln.Domain.of(a=5)
    work = ln.Workload(domain).matrix(np.array([[1.0, 1, 0, 0, 0], [0, 1, 1, 0, 0]]), "a")
    plan = ln.plan(work, BUDGET, solver=own_queries)
    check_plan(plan)
    with pytest.raises(LeastnoiseError, match="asks more of a than the workload measures"):
        plan.variance("a", [1, 0, 0, 0, 0])


def test_custom_plans_come_back_and_run(tmp_path):
    plan = ln.plan(WORKLOADS["affine"], ln.Budget(mu=0.7), solver=some_noise)
    assert plan.solver == "custom"
    assert plan.integer_plan.cost.mu <= 0.7
    plan.save(tmp_path / "plan")
    loaded = ln.Plan.load(tmp_path / "plan")
    check_plan(loaded)
    same_plan(loaded, plan)


@pytest.mark.parametrize("objective", ["max", {"lr": 3}], ids=str)
def test_custom_solvers_follow_every_objective(objective):
    check_plan(ln.plan(WORKLOADS["prefix 5"], BUDGET, solver=every_value, objective=objective, gap=1e-4))


def rows_of(make: Callable[[int], object]) -> Callable[[ResidualProblem], object]:
    return lambda problem: make(problem.cells)


WORK = ln.Workload(ln.Domain.of(a=ln.sized(4, ordered=True))).prefix("a")


@pytest.mark.parametrize(
    ("construct", "text"),
    [
        (
            rows_of(lambda n: np.eye(n)[:2]),
            "the 2 rows of your solver for 4 cells cannot answer all queries of the workload; return rows that span "
            "them, such as numpy.eye",
        ),
        (
            rows_of(lambda n: np.eye(n + 1)),
            "your solver returned an array of shape (5, 5) for 4 cells; return rows of 4 numbers that are not all 0",
        ),
        (
            rows_of(lambda n: np.ones(n)),
            "your solver returned an array of shape (4,) for 4 cells; return rows of 4 numbers that are not all 0",
        ),
        (
            rows_of(lambda n: np.zeros((n, n))),
            "your solver returned an array of shape (4, 4) for 4 cells; return rows of 4 numbers that are not all 0",
        ),
        (
            rows_of(lambda n: np.ones((1, n))),
            "the 1 rows of your solver for 4 cells cannot answer all queries of the workload; return rows that span "
            "them, such as numpy.eye",
        ),
        (
            rows_of(lambda n: np.full((n, n), np.nan)),
            "your solver returned rows for 4 cells that are not finite; return finite numbers",
        ),
        (
            rows_of(lambda n: None),
            "your solver returned an array of shape () for 4 cells; return rows of 4 numbers that are not all 0",
        ),
        (rows_of(lambda n: ["a"]), "your solver returned list; return rows of 4 numbers, one for each cell"),
    ],
)
def test_custom_rows_that_cannot_answer_are_refused(construct, text):
    with pytest.raises(LeastnoiseError) as error:
        ln.plan(WORK, BUDGET, solver=construct)
    assert str(error.value) == text


def test_residuals_without_structure_that_are_too_large_are_refused():
    domain = ln.Domain.of(a=ln.sized(80, ordered=True), b=ln.sized(80, ordered=True))
    with pytest.raises(
        LeastnoiseError, match=r"solver 'custom' needs a dense 6,400 x 6,400 array.* use solver 'optimal'"
    ):
        ln.plan(ln.Workload(domain).affine("a", "b"), BUDGET, solver=every_value)


@pytest.mark.parametrize("name", list(PROBLEMS)[:3])
def test_the_door_to_all_solvers_takes_a_function(name):
    gram, axes = PROBLEMS[name].gram, PROBLEMS[name].axes
    solution = Solver("custom", construct=every_value).solve(gram, axes)
    assert solution.error >= least_sum(gram.dense()) * (1 - SDP)


def test_custom_is_no_name_of_a_solver():
    with pytest.raises(LeastnoiseError, match="unknown solver 'custom'"):
        ln.plan(WORK, BUDGET, solver="custom")
