"""Like attributes are counted, not listed; names and order do not matter."""

from math import comb, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import leastnoise as ln
from leastnoise.planning.request import PREDICTED
from leastnoise.workload import Workload
from tests.catalogue import WORKLOADS, ordered
from tests.laws import check_plan, same_plan

BUDGET = ln.Budget(mu=1)
SYMMETRIC = {
    "prefix": Workload(ordered(3, 3, 3)).prefix(ways=[1, 2]),
    "range of all": Workload(ordered(3, 3, 3)).ranges(ways=[1, 3]),
    "affine": Workload(ordered(3, 3, 3)).affine(ways=2).marginals(ways=1),
    "abs_diff and prefix": Workload(ordered(3, 3, 3)).abs_diff(ways=2).prefix(ways=[0, 2], weight=2),
    "two kinds": Workload(ordered(3, 2, 3, 2)).prefix(ways=2),
    "interleaved tensors": Workload(ordered(3, 2, 3)).affine(ways=2).prefix(ways=1),
    "random": Workload(ordered(3, 3, 2)).random(count=4, density=0.5, seed=5, ways=1).marginals(ways=2),
}


def nearly_uniform(n: int, seed: int) -> np.ndarray:
    """A uniform baseline that differs from it in the last digits: another content, the same plan."""
    p = np.full(n, 1 / n) + 1e-13 * np.random.default_rng(seed).normal(size=n)
    return p / p.sum()


@pytest.mark.covering
@pytest.mark.parametrize("solver", ["optimal", "fourier", "subtraction", "hierarchical", "kronecker"])
@pytest.mark.parametrize("name", SYMMETRIC)
def test_counting_equals_listing(name, solver):
    """Tiny differences between the baselines put every attribute into a class of its own.

    Solver 'eigen' is left out: where eigenvalues coincide, the last digits choose the eigenvectors and thus the error.
    """
    work = SYMMETRIC[name]
    apart = {a.name: nearly_uniform(a.size, i) for i, a in enumerate(work.domain)}
    counted = ln.plan(work, BUDGET, solver=solver, baseline="uniform")
    listed = ln.plan(work, BUDGET, solver=solver, baseline=apart)
    assert len(counted.design.structure.classes) < len(listed.design.structure.classes) == len(work.domain)
    assert sum(counted.design.members) == len(listed.design.members)
    for field in ("rmse", "weighted_rmse", "max_std_error", "value"):
        assert getattr(counted, field) == pytest.approx(getattr(listed, field), rel=3e-5), field
    for i in range(len(work.blocks)):
        one, other = counted.group_variances(i), listed.group_variances(i)
        assert list(one) == list(other)
        for key in one:
            assert_allclose(
                one[key], other[key], rtol=1e-2
            )  # strategies of equal error may differ by the root of the gap


@pytest.mark.parametrize("name", SYMMETRIC)
def test_one_given_prior_breaks_the_symmetry_of_one_attribute(name):
    work = SYMMETRIC[name]
    counted = ln.plan(work, BUDGET, baseline="uniform")
    given = ln.plan(work, BUDGET, baseline={"a": np.full(work.domain["a"].size, 1 / work.domain["a"].size)})
    assert given.design.structure.classes[given.design.structure.class_of[0]].members == (0,)
    assert given.value == pytest.approx(counted.value, rel=3e-5)
    check_plan(given)


@pytest.mark.parametrize("name", [n for n in WORKLOADS if n not in ("hybrid",)])
def test_renaming_changes_nothing(name):
    work = WORKLOADS[name]
    renamed = Workload(ln.Domain.of({f"{a.name} of origin": a.values for a in work.domain}), work.blocks)
    same_plan(ln.plan(renamed, BUDGET), ln.plan(work, BUDGET))


def reordered(work: Workload, order: list[int]) -> Workload:
    """The same statements on a domain whose attributes come in another order; products of named families only."""
    names = [work.domain.names[i] for i in order]
    out = Workload(work.domain.project(*names))
    for b in work.blocks:
        on = [work.domain.names[i] for i in b.on]
        if b.is_product and b.ways:
            out = out.add({n: b.family(work.domain.index(n)) for n in on}, ways=b.ways, weight=b.weight)
        else:
            out = out.add(b.tensor if not b.is_product else "total", on=on or None, ways=b.ways, weight=b.weight)
    return out


MOVABLE = [n for n, w in WORKLOADS.items() if all(b.is_product or b.tensor.symmetric for b in w.blocks)]


@pytest.mark.covering
@pytest.mark.parametrize("name", MOVABLE)
@pytest.mark.parametrize("solver", ["optimal", "fourier"])
def test_order_of_attributes_does_not_matter(name, solver):
    work = WORKLOADS[name]
    turned = reordered(work, list(range(len(work.domain)))[::-1])
    one, other = (ln.plan(w, BUDGET, solver=solver) for w in (work, turned))
    # Two searches stop at two points of one valley; a predictor is taken from a gain of a thousandth on.
    near = 2e-4 if all(b.is_product for b in work.blocks) else PREDICTED
    assert other.value == pytest.approx(one.value, rel=near)
    assert other.queries == one.queries
    check_plan(other)


def test_priors_and_bases_belong_to_names_not_positions():
    """A remembered plan must not be handed out for another attribute of the same size."""
    skew = np.array([0.4, 0.3, 0.2, 0.1])
    basis = np.tril(np.ones((4, 4)))
    for options in ({"baseline": {"a": skew}}, {"solver": "basis", "bases": {"a": basis}}):
        plans = [
            ln.plan(Workload(ln.Domain.of({n: range(4) for n in names})).prefix(ways=[1, 2]), BUDGET, **options)
            for names in ("ab", "ba")
        ]
        for n in "ab":
            one, other = (p.variance(n, [1, 0, 0, 0]) for p in plans)
            assert one == pytest.approx(other, rel=1e-9)
        assert plans[0].variance("a", [1, 0, 0, 0]) != pytest.approx(plans[0].variance("b", [1, 0, 0, 0]), rel=1e-3)


@pytest.mark.long
@given(m=st.integers(2, 6), d=st.integers(1, 30), k=st.integers(1, 4))
@settings(max_examples=30)
def test_orbits_count_all_attribute_sets(m, d, k):
    k = min(k, d)
    plan = ln.plan(Workload(ln.Domain.of({f"x{i}": range(m) for i in range(d)})).marginals(ways=k), BUDGET)
    assert sum(plan.design.members) == sum(comb(d, j) for j in range(k + 1))
    assert plan.queries == comb(d, k) * m**k
    assert len(plan.design.structure.orbits) == k + 1
    assert plan.rmse == pytest.approx(plan.max_std_error, rel=1e-9)


def test_weights_of_statements_only_count_relative_to_each_other():
    base = Workload(ordered(4, 3))
    one = ln.plan(base.prefix("a").marginals("a", "b", weight=3), BUDGET)
    ten = ln.plan(base.prefix("a", weight=10).marginals("a", "b", weight=30), BUDGET)
    assert ten.rmse == pytest.approx(one.rmse, rel=1e-5)
    assert ten.value == pytest.approx(sqrt(10) * one.value, rel=1e-5)
