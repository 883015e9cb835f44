"""What every plan must satisfy, checked on explicit matrices."""

from functools import cache
from math import inf, sqrt

import numpy as np
import pytest
from numpy.testing import assert_allclose

import leastnoise as ln
from leastnoise._types import Array
from leastnoise.planning.factorization import workload_matrix
from tests.catalogue import WORKLOADS
from tests.oracles import least_sum, row_weights

# Strategies are exact to the pseudo-inverse of matrices with condition numbers up to about 1e5 (the solver keeps
# 1e-11 of uniform weight), so products of them are good to 1e-16 * 1e5^2; wrong algebra shows up at order one.
EXACT = 1e-6


@cache
def optimum(name: str) -> float:
    """Least weighted sum of variances of a workload of the catalogue, over all factorizations at privacy cost 1."""
    W = workload_matrix(WORKLOADS[name])
    return least_sum((W.T * row_weights(WORKLOADS[name])) @ W)


def variances_of(plan: ln.Plan) -> Array:
    """All variances in the order of the rows of W, from the explicit matrices."""
    f = plan.factorization()
    return np.einsum("qk,k,qk->q", f.L, np.diagonal(f.Sigma), f.L)


def norm_of(plan: ln.Plan, variances: Array) -> float:
    """The plan's objective from its definition, as a standard error."""
    r, weights = plan.objective.r, row_weights(plan.workload)
    if r == inf:
        scale = targets(plan)
        return sqrt(float((variances * scale).max()))
    total = float(weights @ variances**r) ** (1 / r)
    return sqrt(total / (plan.queries if r == 1 else 1))


def targets(plan: ln.Plan) -> Array:
    """1 / target^2 per query, 0 where there is none; ones where no group has a target."""
    blocks = plan.workload.blocks
    if all(b.target is None for b in blocks):
        return np.ones(plan.queries)
    each = [np.full(b.count(plan.workload.domain), 0.0 if b.target is None else 1 / b.target**2) for b in blocks]
    return np.concatenate(each)


def check_unbiased(plan: ln.Plan) -> None:
    f = plan.factorization()
    assert_allclose(f.W, workload_matrix(plan.workload), atol=0)  # solver 'embedding' makes its own on a larger domain
    assert_allclose(f.L @ f.B, f.W, atol=EXACT * np.abs(f.W).max())


def privacy_cost(plan: ln.Plan) -> Array:
    """Squared sensitivity in units of the noise, for adding or removing one person in each cell."""
    f = plan.factorization()
    return np.einsum("kx,k,kx->x", f.B, 1 / np.diagonal(f.Sigma), f.B)


def check_privacy(plan: ln.Plan) -> None:
    assert privacy_cost(plan).max() <= plan.mu_squared * (1 + 1e-9)


def check_variances(plan: ln.Plan) -> None:
    """Every number the plan states about its errors, from L Sigma L^T."""
    v, weights, row = variances_of(plan), row_weights(plan.workload), 0
    for i, (block, group) in enumerate(zip(plan.workload.blocks, plan.groups(), strict=True)):
        stated = plan.group_variances(i)
        assert list(stated) == [tuple(plan.workload.domain.names[a] for a in s) for s in block.subsets()]
        mine = np.concatenate(list(stated.values()))
        assert_allclose(mine, v[row : row + len(mine)], rtol=EXACT)
        assert group["queries"] == len(mine)
        assert group["rmse"] == pytest.approx(sqrt(mine.mean()), rel=EXACT)
        assert group["max_std_error"] == pytest.approx(sqrt(mine.max()), rel=EXACT)
        row += len(mine)
    assert row == plan.queries == len(v)
    assert plan.rmse == pytest.approx(sqrt(v.mean()), rel=EXACT)
    assert plan.weighted_rmse == pytest.approx(sqrt(weights @ v / len(v)), rel=EXACT)
    assert plan.max_std_error == pytest.approx(sqrt(v.max()), rel=EXACT)
    assert plan.value == pytest.approx(norm_of(plan, v), rel=EXACT)


def check_floors(plan: ln.Plan) -> None:
    assert 0 <= plan.class_floor <= plan.value * (1 + 1e-9)
    assert 0 < plan.floor_value <= plan.value * (1 + 1e-9)
    fields = plan.to_json()
    assert fields["floor"]["value"] == plan.floor_value
    assert fields["objective_value"] == plan.value


def check_plan(plan: ln.Plan) -> None:
    """All laws at once."""
    check_unbiased(plan)
    check_privacy(plan)
    check_variances(plan)
    check_floors(plan)


def same_plan(one: ln.Plan, other: ln.Plan, rel: float = 1e-12) -> None:
    """Two plans that promise the same."""
    for field in ("queries", "rmse", "weighted_rmse", "max_std_error", "value", "class_floor", "floor_value"):
        assert getattr(one, field) == pytest.approx(getattr(other, field), rel=rel), field
