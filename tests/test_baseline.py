"""The baseline search: its gradient, and that it never loses."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import leastnoise as ln
from leastnoise.planning.baseline import total_gradient
from leastnoise.planning.design import solve_design
from leastnoise.planning.residual_workload import Baseline
from leastnoise.strategies import Solver, kronecker
from leastnoise.workload import Workload
from tests.catalogue import UNIFORM_IS_BEST, WORKLOADS, generator, ordered

BUDGET = ln.Budget(mu=1)
SEARCHED = {name: work for name, work in WORKLOADS.items() if name not in UNIFORM_IS_BEST}


def total_at(
    plan: ln.Plan, vectors: list[np.ndarray], gap: float = 1e-10, solver: str = "optimal"
) -> tuple[float, list[np.ndarray]]:
    """The root of the total error and its gradient at given baselines, solved to the last digit."""
    baselines = tuple(Baseline(len(v), v) for v in vectors)
    design = solve_design(plan.design.question, baselines, Solver(solver, gap))
    return design.root_total, total_gradient(design)


@pytest.mark.parametrize("name", WORKLOADS)
def test_gradient_matches_finite_differences(name):
    """Central differences with h = 1e-4 err by h^2 times the third derivative, and by 1e-10 / h from the solves."""
    plan, rng = ln.plan(WORKLOADS[name], BUDGET, baseline="uniform"), generator(11)
    sizes = [c.size for c in plan.design.structure.classes]
    at = [_tilted(rng, n) for n in sizes]
    gradient = total_at(plan, at)[1]
    for c, n in enumerate(sizes):
        if n == 1:
            continue  # a baseline of one value cannot move
        step = rng.normal(size=n)
        step -= step.mean()
        step *= 1e-4 / np.abs(step).max()
        up, down = (total_at(plan, [v + s * step if i == c else v for i, v in enumerate(at)])[0] for s in (1, -1))
        predicted = 2 * float(gradient[c] @ step)
        scale = 2e-4 * up  # what a change of the baseline by h could move at most, to within a constant
        assert up - down == pytest.approx(predicted, rel=1e-3, abs=1e-5 * scale), (c, n)


SUMS = ["suffix and prefix", "families by set", "sum of products", "abs_diff and marginals", "affine", "random 2-way"]


@pytest.mark.parametrize("name", SUMS)
def test_gradient_of_product_strategies(name, monkeypatch):
    """Alternating solves, run to the end so that differences of their errors mean something."""
    monkeypatch.setattr(kronecker, "STALL", 1e-11)
    monkeypatch.setattr(kronecker, "ROUNDS", 1000)
    plan, rng = ln.plan(WORKLOADS[name], BUDGET, baseline="uniform"), generator(17)
    at = [_tilted(rng, c.size) for c in plan.design.structure.classes]
    gradient = total_at(plan, at, 1e-9, "kronecker")[1]
    for c, v in enumerate(at):
        step = rng.normal(size=len(v))
        step = 1e-3 * (step - step.mean()) / np.abs(step - step.mean()).max()
        moved = [[w + s * step if i == c else w for i, w in enumerate(at)] for s in (1, -1)]
        up, down = (total_at(plan, m, 1e-9, "kronecker")[0] for m in moved)
        assert up - down == pytest.approx(2 * float(gradient[c] @ step), rel=1e-2, abs=1e-6 * up), c


def _tilted(rng: np.random.Generator, n: int) -> np.ndarray:
    p = 1 + 0.2 * rng.random(n)
    return p / p.sum()


@pytest.mark.parametrize("name", WORKLOADS)
def test_search_is_never_worse_than_uniform(name):
    plan, uniform = (ln.plan(WORKLOADS[name], BUDGET, baseline=p) for p in ("search", "uniform"))
    assert plan.value <= uniform.value * (1 + 1e-12)


@pytest.mark.parametrize("name", sorted(UNIFORM_IS_BEST))
def test_uniform_is_returned_exactly_where_it_is_best(name):
    plan = ln.plan(WORKLOADS[name], BUDGET)
    assert plan.baseline == "uniform"
    assert all(p.vector is None for p in plan.design.baselines)


# An attribute whose queries all vanish at the uniform baseline has a kink there.
STUCK = pytest.mark.xfail(reason="the search stalls where uniform is a kink")


@pytest.mark.parametrize("name", [pytest.param(n, marks=STUCK) if n == "contrasts" else n for n in SEARCHED])
def test_no_step_along_one_attribute_improves_much_on_the_search(name):
    """Without gradients, which say nothing at a kink: steps of several lengths in several directions."""
    plan, rng = ln.plan(WORKLOADS[name], BUDGET, baseline="product"), generator(13)
    at = [p.values for p in plan.design.baselines]
    total = total_at(plan, at, 1e-6)[0]
    for c, v in enumerate(at):
        for length in (0.3, 0.1, 0.02):
            for _ in range(3 if len(v) > 1 else 0):
                step = rng.normal(size=len(v))
                step = (step - step.mean()) * length / (len(v) * np.abs(step - step.mean()).max())
                for sign in (1, -1):
                    moved = [w + sign * step if i == c else w for i, w in enumerate(at)]
                    assert total_at(plan, moved, 1e-5)[0] >= total * (1 - 1e-3)


def test_priors_sum_to_one():
    plan = ln.plan(WORKLOADS["prefix 2-way"], BUDGET)
    assert plan.baseline == "search"
    for p in plan.design.baselines:
        assert p.values.sum() == pytest.approx(1, abs=1e-12)


def test_mirrored_queries_get_mirrored_priors():
    """Suffixes are prefixes read backwards, so the best baseline is the same one read backwards."""
    base = Workload(ordered(5, 4))
    forward, backward = (ln.plan(base.add(f, ways=[1, 2]), BUDGET) for f in ("prefix", "suffix"))
    assert forward.value == pytest.approx(backward.value, rel=1e-5)
    for p, q in zip(forward.design.baselines, backward.design.baselines, strict=True):
        assert_allclose(p.values, q.values[::-1], atol=5e-3)
        assert not np.allclose(p.values, p.values[::-1], atol=5e-3)


def test_given_uniform_vectors_change_nothing():
    for name in ("prefix 2-way", "affine of 3", "families by set"):
        work = WORKLOADS[name]
        given = {a.name: np.full(a.size, 1 / a.size) for a in work.domain}
        plan, plain = ln.plan(work, BUDGET, baseline=given), ln.plan(work, BUDGET, baseline="uniform")
        assert plan.baseline == "given"
        assert plan.value == pytest.approx(plain.value, rel=1e-5)
