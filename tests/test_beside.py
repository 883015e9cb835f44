"""Further rows beside product measurements: against dense optima, in integers, saved and merged."""

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.algebra.gram import Gram, Kron, LowRank, Sum
from leastnoise.errors import LeastnoiseError
from leastnoise.planning.request import clear_cache
from leastnoise.strategies import Axis, Combined, KronStrategy, MatrixStrategy, Solution, Solver, beside, beside_search
from leastnoise.strategies import solvers as solvers_module
from leastnoise.strategies.beside import apart, solve_beside
from leastnoise.strategies.beside_floor import SHARES, candidates, floor_beside
from leastnoise.strategies.loosened import row_space
from leastnoise.strategies.optimal import solve_optimal
from tests.catalogue import factor, generator
from tests.integers import check_recipe
from tests.oracles import dense_error

BUDGET = ln.Budget(mu=1)
SIZE = 9


def low_rank(kind: str, n: int) -> LowRank:
    """Queries about the sum or the difference of two attributes, under uniform baselines."""
    x = np.arange(n)
    level = x[:, None] + x if kind == "sums" else np.abs(x[:, None] - x)
    rows = (level <= np.unique(level)[:, None, None]).astype(float)
    rows = rows - rows.mean(axis=1, keepdims=True)
    rows = rows - rows.mean(axis=2, keepdims=True)
    return LowRank((n, n), (kind, n), lambda: rows)


def mixed(kind: str, families: tuple[str, str], ratio: float, n: int = SIZE) -> Sum:
    """Low rank and products, the first worth so many times the second."""
    first, second = low_rank(kind, n), Kron(tuple(factor(f, n) for f in families))
    errors = [solve_optimal(g, 1e-3).error for g in (first, second)]
    return Sum(((ratio / errors[0], first), (1 / errors[1], second)))


def products(gram: Gram) -> ln.strategies.Solution:
    axes = tuple(Axis(np.full(n, 1 / n), n) for n in gram.shape)
    return Solver(loosen=True).solve(gram, axes)


@pytest.mark.parametrize("ratio", [0.1, 1.0, 10.0])
@pytest.mark.parametrize(
    ("kind", "families", "loss"),
    [
        ("sums", ("prefix", "prefix"), 0.006),
        ("sums", ("range", "marginal"), 0.011),
        ("sums", ("marginal", "marginal"), 0.013),
        ("differences", ("prefix",) * 2, 0.02),
        ("differences", ("marginal",) * 2, 0.05),
    ],
    ids=str,
)
def test_rows_beside_products_are_close_to_the_dense_optimum(kind, families, loss, ratio):
    """The best product measurements with levels alone lose 7% to 120% here, and rows for given products 1% to 10%."""
    gram = mixed(kind, families, ratio)
    found, best = solve_beside(gram, products, 0.0), solve_optimal(gram, 1e-5)
    assert found is not None
    assert best.floor <= found.error <= best.floor * (1 + loss)
    B = found.strategy.matrix()
    assert np.sum(B**2, axis=0).max() <= 1 + 1e-9
    assert found.error == pytest.approx(dense_error(gram.dense(), B), rel=1e-7)
    assert found.error == pytest.approx(found.strategy.error(gram), rel=1e-9)
    pair = found.strategy
    assert isinstance(pair, Combined)  # each may be charged for its own largest column
    assert pair.weight * pair.base.cost().max() + np.sum(pair.rows**2, axis=0).max() <= 1 + 1e-9


@pytest.mark.parametrize("order", [4.0, 300.0])
@pytest.mark.parametrize("sizes", [(4, 3), (3, 4, 3)], ids=str)
def test_slopes_beside_products_are_the_gradient(sizes, order):
    """Of error and cost, by central differences; the error is that of the dense strategy."""
    rng, terms = generator(7), []
    for weight, families in ((1.0, ("marginal", "prefix", "range")), (0.3, ("prefix", "range", "marginal"))):
        terms.append((weight, Kron(tuple(factor(f, n) for f, n in zip(families, sizes, strict=False)))))
    spaces = [row_space(np.eye(n) - 1 / n) for n in sizes]
    search = beside_search.Search(tuple(terms), rng.normal(size=(3, *(n - 1 for n in sizes))), spaces, order)
    bases = [rng.normal(size=(n - 1, n - 1)) + 2 * np.eye(n - 1) for n in sizes]
    z = search.packed(bases, rng.random(search.sizes) + 1, rng.normal(size=(2, *search.sizes)))
    value, slope = search.objective(z)
    along = rng.normal(size=len(z))
    low, high = (search.objective(z + h * along)[0] for h in (-1e-6, 1e-6))
    assert (high - low) / 2e-6 == pytest.approx(slope @ along, rel=1e-5)
    rows = beside_search.all_along(spaces, search.queries)
    gram = Sum((*terms, (1.0, LowRank(sizes, None, lambda: rows))))
    search.value = np.inf
    search.objective(z)
    strategy = search.strategy(z)
    assert search.value == pytest.approx(dense_error(gram.dense(), strategy.matrix()), rel=1e-8)
    assert search.value == pytest.approx(strategy.error(gram), rel=1e-8)
    assert strategy.weight * strategy.base.cost().max() + np.sum(strategy.rows**2, axis=0).max() == pytest.approx(1)
    assert value > np.log(search.value) - 1e-9  # norms are no less than maxima


@pytest.mark.parametrize("kind", ["sums", "differences"])
def test_floors_beside_products_are_dual_values(kind):
    """Of one product and rows to 1e-4 the dense value of the weights; a further product adds what (18) says."""
    gram = mixed(kind, ("prefix", "range"), 1.0, 6)
    split, rng = apart(gram), generator(3)
    assert split is not None
    weights = [w / w.sum() for w in (rng.random(6) + 0.1, rng.random(6) + 0.1)]
    s = np.outer(*weights).ravel()

    def dual(g: Gram) -> float:
        values = np.linalg.eigvalsh(g.dense() * np.sqrt(np.outer(s, s)))
        return float(np.sqrt(np.maximum(values, 0)).sum()) ** 2

    found = floor_beside(gram, split[1], weights)
    assert dual(gram) * (1 - 1e-4) <= found <= dual(gram) * (1 + 1e-9)
    further = Kron((factor("marginal", 6), factor("marginal", 6)))
    more = Sum((*gram.terms, (0.2, further)))
    assert found + 0.2 * dual(further) * (1 - 1e-9) <= floor_beside(more, split[1], weights) <= dual(more) * (1 + 1e-9)
    for share, tried in zip(SHARES, candidates(s, gram), strict=True):
        np.testing.assert_allclose(tried, [share * w + (1 - share) / 6 for w in weights])


@pytest.mark.parametrize("families", [("prefix", "prefix"), ("marginal", "marginal")], ids="-".join)
@pytest.mark.parametrize("ratio", [0.1, 1.0, 10.0])
def test_floors_beside_products_are_close_to_the_optimum(families, ratio):
    """The floors of the terms, added up, are 20% to 50% below it."""
    gram = mixed("sums", families, ratio)
    found, best = solve_beside(gram, products, 0.0), solve_optimal(gram, 1e-5)
    assert found is not None
    assert best.floor * 0.95 <= found.floor <= best.error


def test_rows_and_levels_are_left_where_that_takes_long(monkeypatch):
    """What is found for given products is kept; a descent from there never ends above it."""
    gram = mixed("differences", ("marginal", "prefix"), 1.0, 5)
    best = solve_beside(gram, products, 0.0)
    monkeypatch.setattr(beside_search, "WORK", 1e3)
    plain = solve_beside(gram, products, 0.0)
    assert best is not None
    assert plain is not None
    assert best.error < plain.error * 0.99


def test_beside_products_with_levels():
    """Several products below, whose measurements have a level each."""
    gram = mixed("sums", ("prefix", "prefix"), 1.0)
    gram = Sum((*gram.terms, (0.3 * gram.terms[1][0], Kron((factor("range", SIZE), factor("marginal", SIZE))))))
    best = solve_optimal(gram, 1e-5)

    def structured(g: Gram) -> ln.strategies.Solution:
        return solvers_module.best_structured(g, tuple(np.full(n, 1 / n) for n in g.shape), 1e-6)

    found = solve_beside(gram, structured, 0.0)
    assert found is not None
    assert isinstance(found.strategy, Combined)
    assert isinstance(found.strategy.base, ln.strategies.ScaledKron)
    assert best.floor <= found.error <= best.floor * 1.04


def test_products_must_reach_every_query():
    gram = mixed("sums", ("prefix", "prefix"), 1.0, 4)
    contrast = np.array([[1.0, -1.0, 0.0, 0.0]])
    narrow = MatrixStrategy(contrast, (4,))
    base = KronStrategy((narrow, narrow))
    assert solve_beside(gram, lambda g: Solution(base, 1.0, 1.0), 0.0) is None


def test_decoder_takes_the_answers_to_the_rows():
    gram = mixed("sums", ("prefix", "prefix"), 1.0, 5)
    found = solve_beside(gram, products, 0.0)
    assert found is not None
    strategy, q = found.strategy, low_rank("differences", 5).rows
    np.testing.assert_allclose(strategy.decoder(q) @ strategy.matrix(), q.reshape(len(q), -1), atol=1e-9)
    np.testing.assert_allclose(np.sum(strategy.decoder(q) ** 2, axis=1), strategy.variances(q), rtol=1e-9)
    np.testing.assert_allclose(strategy.seen(strategy.half(q[:1])[0]), q[0].ravel(), atol=1e-9)


def test_apart_is_for_products_and_few_rows(monkeypatch):
    gram = mixed("sums", ("prefix", "prefix"), 1.0, 4)
    split = apart(gram)
    assert split is not None
    product, rows = split
    np.testing.assert_allclose(
        product.dense() * gram.terms[1][0] + rows.reshape(len(rows), -1).T @ rows.reshape(len(rows), -1), gram.dense()
    )
    assert apart(gram.terms[1][1]) is None
    assert apart(Sum(gram.terms[1:])) is None
    monkeypatch.setattr(beside, "MOST_ROWS", 2)
    assert apart(gram) is None


def test_directions_in_parts_have_the_same_variances(monkeypatch):
    gram = mixed("sums", ("prefix", "prefix"), 1.0, 5)
    found = solve_beside(gram, products, 0.0)
    assert found is not None
    rows = [generator(1).normal(size=(q, 5)) for q in (3, 4)]
    whole = found.strategy.product_variances(rows)
    monkeypatch.setattr("leastnoise.strategies.combined.CHUNK", 24)
    np.testing.assert_allclose(found.strategy.product_variances(rows), whole, rtol=1e-12)
    outer = np.einsum("ax,by->abxy", *rows).reshape(12, 5, 5)
    np.testing.assert_allclose(found.strategy.variances(outer).reshape(3, 4), whole, rtol=1e-9)


# Plans


@pytest.fixture
def everything_is_large(monkeypatch):
    """Sums of four cells count as too large to be dense."""
    monkeypatch.setattr(solvers_module, "DENSE_CELLS", 3)
    clear_cache()
    yield
    clear_cache()


def workload() -> ln.Workload:
    domain = ln.Domain.of(a=range(6), b=range(5), c=range(2))
    return ln.Workload(domain).add({"a": "prefix", "b": "prefix"}).affine("a", "b", weight=2).marginals("b", "c")


@pytest.mark.usefixtures("everything_is_large")
def test_plans_with_rows_beside_products_are_measured_saved_and_merged(tmp_path):
    plan = ln.plan(workload(), BUDGET, baseline="uniform")
    assert any(isinstance(s.strategy, Combined) for s in plan.design.solutions if s)
    assert plan.integer_plan.rmse == pytest.approx(plan.rmse, rel=1e-3)
    assert plan.integer_plan.cost.mu_squared <= BUDGET.exact_cost
    plan.save(tmp_path / "plan")
    loaded = ln.Plan.load(tmp_path / "plan")
    assert loaded.fingerprint == plan.fingerprint
    assert loaded.rmse == plan.rmse
    data = {k: generator(i).integers(0, n, 500) for i, (k, n) in enumerate([("a", 6), ("b", 5), ("c", 2)])}
    one, two = loaded.run(data), loaded.run(data)
    merged = ln.merge(one, two)
    answers = [r.ask("a < 3 and b < 2") for r in (one, two, merged)]
    assert answers[2].std_error == pytest.approx(answers[0].std_error / 2**0.5, rel=1e-6)
    true = int(((data["a"] < 3) & (data["b"] < 2)).sum())
    assert abs(answers[2].value - true) < 6 * answers[2].std_error


@pytest.mark.usefixtures("everything_is_large")
@pytest.mark.parametrize("kind", ["affine", "abs_diff"])
@pytest.mark.parametrize("families", [{"a": "prefix", "b": "prefix"}, {"a": "range", "b": "marginal"}])
def test_costs_and_errors_of_integers_match_dense(kind, families):
    """The exact cost is that of the worst row, over all rows; errors are those of dense matrices."""
    work = ln.Workload(ln.Domain.of(a=range(5), b=range(4))).add(kind, on=["a", "b"], weight=3).add(families)
    plan = ln.plan(work, BUDGET, baseline="uniform")
    assert any(isinstance(s.strategy, Combined) for s in plan.design.solutions if s)
    check_recipe(plan.integer_plan)


@pytest.mark.usefixtures("everything_is_large")
@pytest.mark.parametrize("objective", ["sum", "max"])
def test_rows_beside_products_are_for_single_added_rows(objective):
    budget = ln.Budget(mu=1, neighbours="replace") if objective == "sum" else BUDGET
    plan = ln.plan(workload(), budget, baseline="uniform", objective=objective)
    assert not any(isinstance(s.strategy, Combined) for s in plan.design.solutions if s)


@pytest.mark.usefixtures("everything_is_large")
def test_a_weight_that_does_not_fit_is_refused(tmp_path):
    plan = ln.plan(workload(), BUDGET, baseline="uniform")
    for solution in plan.design.solutions:
        if solution is not None and isinstance(solution.strategy, Combined):
            solution.strategy.weight = 2.0
    plan.save(tmp_path / "plan")
    with pytest.raises(LeastnoiseError, match="does not fit"):
        ln.Plan.load(tmp_path / "plan")
