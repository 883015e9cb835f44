"""Predictors: the algebra against dense projections, the search, integers, and all that a release does with them."""

from dataclasses import replace
from functools import partial
from math import prod

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import nnls

import leastnoise as ln
from leastnoise.algebra.predictor import (
    Predictor,
    double_contrasts,
    fewer,
    predicted_join,
    predicted_pieces,
    predicted_residual,
    smaller_functions,
)
from leastnoise.algebra.residual import subsets
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.gate import Counts
from leastnoise.mechanisms.measurement import measure
from leastnoise.noise import SeededRandomSource
from leastnoise.planning.baseline import predicted_gradient
from leastnoise.planning.design import solve_design
from leastnoise.planning.factorization import workload_matrix
from leastnoise.planning.integer_plan_store import fingerprint, integer_plan_data, integer_plan_from
from leastnoise.planning.predictors import PredictorSearch, PredictorSpace
from leastnoise.planning.residual_workload import Baselines, predictors_of
from leastnoise.release.statement import Origin
from leastnoise.release.table_release import TableRelease
from leastnoise.sources import Table
from leastnoise.strategies import Solver
from leastnoise.strategies.complement import complement_rows
from leastnoise.workload import Workload
from tests.catalogue import generator, ordered, skewed
from tests.integers import check_recipe, cube, explicit, measured_sets, over_domain

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("predictors")]

BUDGET = ln.Budget(mu=1)
SHAPES = [(2, 2), (3, 3), (2, 4), (5, 3)]
WORKS = {
    "affine": Workload(cube(4, 3)).prefix(ways=1).affine(ways=2),
    "abs_diff": Workload(cube(3, 3)).prefix(ways=1).abs_diff(ways=2),
    "unlike sizes": Workload(ordered(4, 3)).prefix("a").ranges("b").affine("a", "b", weight=3),
    "two kinds of a pair": Workload(ordered(4, 4)).prefix(ways=1).affine("a", "b").abs_diff("a", "b", weight=0.5),
    "products beside": Workload(ordered(4, 4, 3)).affine("a", "b").prefix("a", "c").marginals("b", "c").prefix("b"),
    "row weights": Workload(ordered(3, 4)).prefix(ways=1).add("affine", on=["a", "b"], weights=[1, 1, 2, 3, 5, 1]),
    "rows of a user": Workload(ordered(3, 4)).marginals(ways=1).matrix(generator(5).integers(0, 2, (5, 12)), "a", "b"),
}


def predicted(plan: ln.Plan) -> dict[tuple[int, ...], Predictor]:
    return dict(predictors_of(plan.design.baselines))


@pytest.fixture(scope="module")
def plans() -> dict[str, ln.Plan]:
    return {name: ln.plan(work, BUDGET, gap=1e-4) for name, work in WORKS.items()}


def some(shape: tuple[int, ...], rng: np.random.Generator, rank: int) -> Predictor:
    """A predictor of that rank with nothing special about it."""
    contrasts = rng.normal(size=(rank, len(double_contrasts(shape)))) @ double_contrasts(shape)
    return Predictor(contrasts.reshape(-1, *shape), fewer(rng.normal(size=(rank, *shape)), len(shape)))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_smaller_functions_are_all_that_double_contrasts_do_not_see(shape):
    signs = [(0,), (1, -1)] if shape[0] == shape[1] else [(0,)]
    for some_signs in signs:
        rows = np.concatenate([smaller_functions(shape, sign) for sign in some_signs])
        flat = np.concatenate([rows.reshape(len(rows), -1), double_contrasts(shape)])
        assert_allclose(flat @ flat.T, np.eye(prod(shape)), atol=1e-12)
    for sign in signs[-1] if len(signs) > 1 else ():
        rows = smaller_functions(shape, sign)
        assert_allclose(rows.swapaxes(1, 2), sign * rows, atol=1e-12)


@pytest.mark.parametrize("name", WORKS)
def test_gradient_of_the_search_is_a_difference(name, plans):
    """In the coordinates of the search, where a baseline moves alone and residual spaces are moved by themselves."""
    start, rng = plans[name].design, generator(9, len(name))
    solver = Solver("optimal", 1e-11)
    start = solve_design(start.question, tuple(start.baselines), solver)
    orbits = [o for o in start.structure.orbits if o in predictors_of(plans[name].design.baselines)]
    spaces = PredictorSpace.of_all(start.question, orbits)
    search = PredictorSearch(partial(solve_design, start.question), solver, start, spaces)
    search.settle()
    size = int(search.cuts[-1])
    z, step = (scale * rng.normal(size=size) / size**0.5 for scale in (0.02, 1.0))
    h = 1e-4
    _, gradient = search.objective(z)
    up, down = (search.objective(z + sign * h * step)[0] for sign in (1, -1))
    assert float(gradient @ step) == pytest.approx((up - down) / (2 * h), rel=1e-3, abs=1e-6)


# --- algebra ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [*SHAPES, (3, 2, 2)], ids=str)
def test_pieces_add_up_to_the_query(shape):
    rng = generator(1, *shape)
    baselines = [skewed(n) for n in shape]
    at = {axes: some(tuple(shape[a] for a in axes), rng, 2) for axes in subsets(len(shape)) if len(axes) > 1}
    q = rng.normal(size=(4, *shape))
    parts = predicted_pieces(q, baselines, at)
    wide = [np.expand_dims(p, [1 + a for a in range(len(shape)) if a not in kept]) for kept, p in parts.items()]
    assert_allclose(sum(wide), q, atol=1e-12)


@pytest.mark.parametrize("shape", [*SHAPES, (3, 2, 2)], ids=str)
def test_joining_is_the_transpose_of_splitting(shape):
    rng = generator(2, *shape)
    baselines = [skewed(n) for n in shape]
    at = {axes: some(tuple(shape[a] for a in axes), rng, 2) for axes in subsets(len(shape)) if len(axes) > 1}
    q = rng.normal(size=(3, *shape))
    tables = {axes: rng.normal(size=(1, *(shape[a] for a in axes))) for axes in subsets(len(shape))}
    answers = sum(
        np.tensordot(piece, tables[axes][0], len(axes)) for axes, piece in predicted_pieces(q, baselines, at).items()
    )
    joined = predicted_join(tables, baselines, shape, at)
    assert_allclose(np.tensordot(q, joined[0], len(shape)), answers, atol=1e-10)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_table_is_joined_from_its_margins(shape):
    """The smaller tables are reproduced, whatever the predictor."""
    rng = generator(3, *shape)
    baselines, x = [skewed(n) for n in shape], rng.normal(size=shape)
    parts = {axes: x.sum(axis=tuple(a for a in (0, 1) if a not in axes)) for axes in subsets(2)}
    predictor = some(shape, rng, 2)
    assert_allclose(predicted_join(parts, baselines, shape, {(0, 1): predictor}), x, atol=1e-10)
    smaller = {axes: part for axes, part in parts.items() if len(axes) < 2} | {(0, 1): np.zeros(shape)}
    guess = predicted_join(smaller, baselines, shape, {(0, 1): predictor})
    assert_allclose(guess.sum(axis=0), x.sum(axis=0), atol=1e-10)
    assert_allclose(predicted_residual(x, baselines, predictor), x - guess, atol=1e-10)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("like", [False, True])
def test_the_row_space_is_the_complement(shape, like):
    if like and shape[0] != shape[1]:
        return
    rng = generator(4, *shape)
    N = double_contrasts(shape)
    handed = fewer(rng.normal(size=(prod(shape), *shape)), 2).reshape(*shape, *shape)
    handed = handed + handed.transpose(1, 0, 3, 2) if like else handed  # with the attributes exchanged, the same
    space = N + N @ handed.reshape(prod(shape), -1)
    rows = np.eye(len(N))[[0]] @ space  # exchanging the attributes leaves the first contrast as it is
    integers = complement_rows(rows, space, shape, 2.0**20, like).rows
    assert integers.shape == (len(N), prod(shape))
    predictor = Predictor.along(integers, shape, [skewed(n) for n in shape])
    q = rng.normal(size=(5, *shape))
    inside = predicted_pieces(q, [skewed(n) for n in shape], {(0, 1): predictor})[0, 1].reshape(5, -1)
    projector = np.linalg.pinv(integers.astype(float)) @ integers
    assert_allclose(inside @ projector, inside, atol=1e-8 * np.abs(inside).max())
    if like:
        swapped = integers.reshape(-1, *shape).swapaxes(1, 2).reshape(len(integers), -1)
        assert all((a == b).all() or (a == -b).all() for a, b in zip(integers, swapped, strict=True))


def test_rows_that_are_no_complement_are_refused():
    with pytest.raises(LeastnoiseError, match="3 rows on 3 x 3 values do not define a residual of rank 4"):
        Predictor.along(np.eye(9, dtype=np.int64)[:3], (3, 3), [skewed(3)] * 2)
    with pytest.raises(LeastnoiseError, match="not independent of its smaller tables"):
        Predictor.along(np.ones((4, 9), dtype=np.int64), (3, 3), [skewed(3)] * 2)


# --- the search -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WORKS)
def test_gradient_matches_finite_differences(name, plans):
    """Central differences with h = 1e-4 err by h^2 times the third derivative, and by 1e-10 / h from the solves."""
    design, rng = plans[name].design, generator(6)

    start = {o: Predictor(p.contrasts, 0.3 * p.taken) for o, p in predicted(plans[name]).items()}  # far from the best

    def at(step: float, moves: dict) -> tuple[float, dict]:
        found = {o: Predictor(p.contrasts, p.taken + step * moves[o]) for o, p in start.items()}
        solved = solve_design(design.question, Baselines(design.baselines, found), Solver("optimal", 1e-11))
        return solved.root_total, predicted_gradient(solved)[1]

    for orbit in predicted(plans[name]):
        moves = {o: np.zeros(p.taken.shape) for o, p in predicted(plans[name]).items()}
        move = fewer(rng.normal(size=moves[orbit].shape), 2) * np.abs(predicted(plans[name])[orbit].taken).max()
        if orbit[0] == orbit[1]:  # all queries here are symmetric, and so must be what they hand down
            move = move + move.swapaxes(1, 2)
        moves[orbit] = move
        slope = float(np.vdot(at(0.0, moves)[1][orbit], move))
        up, down = at(1e-4, moves)[0], at(-1e-4, moves)[0]
        assert up - down == pytest.approx(2e-4 * slope, rel=2e-3, abs=1e-7 * up)


def test_predictors_are_never_worse(plans):
    for name, work in WORKS.items():
        product = ln.plan(work, BUDGET, baseline="product", gap=1e-4)
        assert not predicted(product)
        assert plans[name].value <= product.value * (1 + 1e-4)
        assert plans[name].floor_value <= plans[name].value * (1 + 1e-9)
    assert sum(bool(predicted(p)) for p in plans.values()) >= 6


SMALL = [(3, 2, "affine"), (4, 2, "affine"), (4, 3, "affine"), (3, 3, "abs_diff"), (5, 2, "abs_diff")]


@pytest.mark.parametrize(("n", "d", "kind"), SMALL)
def test_close_to_the_brute_force_optimum(n, d, kind):
    """Where the floor is the optimum over all factorization mechanisms, on the full domain."""
    plan = ln.plan(Workload(cube(n, d)).prefix(ways=1).add(kind, ways=2), BUDGET)
    assert "optimum over all factorization mechanisms" in plan.floor.kind
    assert plan.floor_value <= plan.value <= 1.015 * plan.floor_value


def test_where_predictors_are_not_used():
    """Products, other solvers, given baselines, impossible cells, groups and replaced rows."""
    affine = Workload(ordered(4, 4)).prefix(ways=1).affine("a", "b")
    groups = ln.Budget(mu=1, rows_per_person=2, one_per=["a"])
    impossible = ordered(4, 4).restricted(["a = 0 and b = 0"])
    others = {
        "products": ln.plan(Workload(ordered(4, 4)).prefix(ways=[1, 2]), BUDGET),
        "products of the same pair": ln.plan(affine.prefix("a", "b"), BUDGET),
        "part of a larger table": ln.plan(Workload(ordered(3, 3, 2)).affine("a", "b").marginals(ways=3), BUDGET),
        "solver": ln.plan(affine, BUDGET, solver="kronecker"),
        "uniform": ln.plan(affine, BUDGET, baseline="uniform"),
        "given": ln.plan(affine, BUDGET, baseline={"a": skewed(4)}),
        "replace": ln.plan(affine, ln.Budget(mu=1, neighbours="replace")),
        "groups": ln.plan(affine, groups),
        "impossible": ln.plan(Workload(impossible).prefix(ways=1).affine("a", "b"), BUDGET),
    }
    assert predicted(ln.plan(affine, BUDGET))
    assert not [name for name, plan in others.items() if predicted(plan)]


def largest_errors(plan: ln.Plan, r: float) -> float:
    """The root of the norm of the variances, from all rows over all cells."""
    rows, noise = explicit(plan.integer_plan)
    W = workload_matrix(plan.workload)
    variances = np.einsum("qx,xy,qy->q", W, np.linalg.pinv((rows.T / noise) @ rows), W)
    return float(np.linalg.norm(variances, r)) ** 0.5


@pytest.mark.parametrize(("objective", "r"), [("max", np.inf), ({"lr": 4}, 4)])
def test_other_objectives_gain_too_and_are_what_is_measured(objective, r):
    work = Workload(cube(4, 3)).prefix(ways=1).abs_diff(ways=2)
    product, plan = (ln.plan(work, BUDGET, objective=objective, baseline=b) for b in ("product", "search"))
    assert predicted(plan)
    assert plan.value < 0.97 * product.value
    assert plan.floor_value <= plan.value
    measured = largest_errors(plan, r) / largest_errors(product, r)
    assert measured == pytest.approx(plan.value / product.value, rel=2e-3)


# --- integers and releases --------------------------------------------------------------------------------------------

BUDGETS = {
    "epsilon": ln.Budget(epsilon=1, delta=1e-9),
    "rows": ln.Budget(mu=1, rows_per_person=3),
    "replace": ln.Budget(rho=0.1, neighbours="replace"),
    "replace, private": ln.Budget(rho=0.1, neighbours="replace", size="private"),
    "replace rows": ln.Budget(mu=0.7, neighbours="replace", rows_per_person=3),
}


@pytest.mark.parametrize("name", WORKS)
@pytest.mark.parametrize("budget", BUDGETS)
def test_what_is_measured(name, budget, plans):
    """Cost over all rows and pairs of rows, and answers and variances those of dense least squares."""
    plan = replace(plans[name], budget=BUDGETS[budget])
    check_recipe(plan.integer_plan)
    assert predicted(plan)
    assert plan.rounding_loss < 1e-3 or budget.startswith("replace")


def released(plan: ln.Plan, seed: int = 5) -> ln.Release:
    table = Table(plan.domain, generator(seed).integers(0, 50, plan.domain.shape))
    return TableRelease(
        (measure(plan.integer_plan, Counts(table), SeededRandomSource(seed)),), origins=(Origin(plan=plan),)
    )


def noisy_answers(release: TableRelease) -> np.ndarray:
    """All noisy integers in the order of the explicit strategy."""
    (part,) = release.parts
    structure, out = part.integer_plan.structure, []
    for order, noisy_queries in measured_sets(part.integer_plan):
        number = structure.orbits.index(tuple(structure.class_of[a] for a in order))
        row = structure.sets(structure.orbits[number]).tolist().index(list(order))
        out += [np.asarray(part.answers[number][i][row], dtype=float) for i in range(len(noisy_queries))]
    return np.concatenate(out)


def check_answers(release: TableRelease, attributes: list[int], rows: np.ndarray) -> None:
    """Values and variances of any queries on a table, against explicit generalized least squares."""
    domain = release.domain
    B, noise = explicit(release.parts[0].integer_plan)
    scaled = B / np.sqrt(noise)[:, None]
    P = np.linalg.pinv(scaled, rcond=1e-10)
    wide = over_domain(rows.reshape(len(rows), -1), tuple(attributes), domain.shape)
    values = wide @ P @ (noisy_answers(release) / np.sqrt(noise))
    variances = np.square(wide @ P).sum(axis=1)
    found = release.row_answers(attributes, rows)
    assert_allclose(found[0], values, atol=1e-5 * np.abs(values).max())
    assert_allclose(found[1], variances, rtol=1e-5)


@pytest.mark.parametrize("name", WORKS)
def test_releases_answer_as_least_squares_would(name, plans):
    release, shape = released(plans[name]), WORKS[name].domain.shape
    for pair in [(0, 1)] if len(shape) == 2 else [(0, 1), (1, 2)]:
        sizes = [shape[a] for a in pair]
        cells = np.eye(prod(sizes)).reshape(-1, *sizes)
        check_answers(release, list(pair), np.concatenate([cells, generator(8).normal(size=(5, *sizes))]))
        back = list(reversed(pair))
        check_answers(release, back, cells.swapaxes(1, 2))
        names = [release.domain.names[a] for a in pair]
        table = release.row_answers(list(pair), cells)
        assert_allclose(release.counts(*names).ravel(), table[0], atol=1e-6)
        assert_allclose(release.std_errors(*names).ravel() ** 2, table[1], rtol=1e-6)
        prefixes = release.answer(Workload(release.domain).prefix(*names))
        sums = np.tril(np.ones((sizes[0],) * 2)) @ release.counts(*names) @ np.tril(np.ones((sizes[1],) * 2)).T
        assert_allclose(prefixes["answer"].to_numpy(float), sums.ravel(), atol=1e-6)
    check_answers(release, [1], np.eye(shape[1]))


@pytest.mark.parametrize("name", ["affine", "unlike sizes", "products beside"])
def test_files_keep_predictors(name, plans, tmp_path):
    plan = plans[name]
    plan.save(tmp_path / "plan")
    again = ln.Plan.load(tmp_path / "plan")
    assert again.value == plan.value
    assert again.fingerprint == plan.fingerprint
    assert_allclose(again.rmse, plan.rmse, rtol=1e-12)
    header, arrays = integer_plan_data(plan.integer_plan)
    assert header["predicted"]
    assert fingerprint(integer_plan_from(header, arrays)) == plan.fingerprint
    release = released(plan)
    release.save(tmp_path / "release")
    loaded = ln.load(tmp_path / "release")
    assert_allclose(loaded.counts("a" if "a" in plan.domain.names else "a0"), release.counts(plan.domain.names[0]))
    pair = plan.domain.names[:2]
    assert_allclose(loaded.counts(*pair), release.counts(*pair), atol=1e-9)
    assert_allclose(loaded.std_errors(*pair), release.std_errors(*pair), rtol=1e-9)


def test_damaged_predictors_are_refused(plans):
    header, arrays = integer_plan_data(plans["affine"].integer_plan)
    for orbits in ([[0]], [[0, 1]], [[0, 0], []]):
        with pytest.raises((LeastnoiseError, ValueError)):
            integer_plan_from({**header, "predicted": orbits}, arrays)


def test_releases_of_one_plan_merge(plans):
    first, second = released(plans["affine"], 1), released(plans["affine"], 2)
    both = ln.merge(first, second)
    mean = (first.counts("a0", "a1") + second.counts("a0", "a1")) / 2
    assert_allclose(both.counts("a0", "a1"), mean, atol=1e-6)
    assert_allclose(both.std_errors("a0", "a1"), first.std_errors("a0", "a1") / np.sqrt(2), rtol=1e-9)


def test_releases_that_divide_tables_differently_do_not_merge(plans):
    baselines = released(plans["affine"]).baselines()
    other = ln.plan(Workload(WORKS["affine"].domain).marginals(ways=2), BUDGET, baseline=baselines)
    with pytest.raises(LeastnoiseError, match=r"divide a. x a. in different ways; plan both with the same baseline"):
        ln.merge(released(plans["affine"]), released(other)).counts("a0")
    narrow = ln.plan(Workload(WORKS["affine"].domain).marginals(ways=1), BUDGET, baseline=baselines)
    single = released(narrow)
    both = ln.merge(released(plans["affine"]), single)
    assert (both.std_errors("a0", "a1") < released(plans["affine"]).std_errors("a0", "a1")).all()


@pytest.mark.parametrize("name", ["affine", "products beside"])
def test_tables_without_negative_counts(name, plans):
    """The closest table, against non-negative least squares in the metric of the table's own exact covariance."""
    release, pair = released(plans[name]), plans[name].domain.names[:2]
    adjusted = release.adjust(nonnegative=True, tables=[pair], hold=1.0, tolerance=1e-6)
    shape = tuple(release.domain.shape[:2])
    cells = np.eye(prod(shape)).reshape(-1, *shape)
    coordinates = release.state.errors.coordinates(cells, release.state.orbit((0, 1)))
    root = np.linalg.inv(np.linalg.cholesky(coordinates @ coordinates.T))
    best, _ = nnls(root, root @ release.counts(*pair).ravel(), maxiter=10_000)
    found = adjusted.counts(*pair).ravel()
    assert found.min() >= -1e-6
    off = np.linalg.norm(root @ (found - best))  # in standard errors of the worst query
    assert off < 1e-2


def test_known_totals_hold(plans):
    release = released(plans["affine"])
    known = np.array([1000.0, 900.0, 800.0, 700.0])
    adjusted = release.adjust(totals={("a0",): known})
    assert_allclose(adjusted.counts("a0"), known, atol=1e-6)
    assert_allclose(adjusted.counts("a0", "a1").sum(axis=1), known, atol=1e-6)
    assert_allclose(adjusted.counts("a0", "a1").sum(axis=0), adjusted.counts("a1"), atol=1e-6)


def test_estimates_fit(plans):
    estimate = released(plans["affine"]).fit(mixtures=1)
    assert np.isfinite(estimate.counts("a0", "a1")).all()
