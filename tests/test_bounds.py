"""Floors: closed forms recomputed, gradients, and never above the optimum over all factorization mechanisms."""

from math import sqrt

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import leastnoise as ln
from leastnoise._types import Array
from leastnoise.planning import certificate
from leastnoise.planning.factorization import workload_matrix
from leastnoise.strategies.bounds import (
    eta,
    fourier_trace,
    root_trace,
    root_trace_slopes,
    tensor_traces,
    trace_on,
    zeta,
)
from leastnoise.workload import Workload
from leastnoise.workload.families import Circular, Cyclic, Marginal, Prefix, Random, Range, Suffix, Total
from tests.catalogue import FAMILIES, TENSORS, UNIFORM_IS_BEST, WORKLOADS, generator, ordered, skewed
from tests.covering import examples
from tests.laws import optimum
from tests.oracles import SDP, even_sines, extended, least_sum, marginal_root, odd_sines, row_weights, thin_root

BUDGET = ln.Budget(mu=1)


def floors_of(plan: ln.Plan) -> list[certificate.Floor]:
    """Every floor there is for a plan, not only the best, and without the cap at the plan's own value."""
    question = plan.design.question
    exact = certificate.exact_floor(question)
    assert exact is not None
    return [certificate._fourier_floor(question), *certificate._polar_floors(plan.design), exact]


def test_small_domains_have_the_optimum_and_no_other_bound(monkeypatch):
    """The optimum on 24 cells takes milliseconds, an ascent of weights under it ten times that."""
    monkeypatch.setattr(certificate, "exact_trace_floor", lambda *_: pytest.fail("a bound that the optimum makes idle"))
    work = Workload(ln.Domain.of(a=range(12), b=2)).prefix("a").marginals("a", "b")
    plan, W = ln.plan(work, BUDGET), workload_matrix(work)
    assert plan.floor.kind.startswith("optimum over all factorization mechanisms")
    assert plan.floor_value == pytest.approx(sqrt(least_sum(W.T @ W) / plan.queries), rel=1e-5)


# Numbers


@pytest.mark.parametrize("m", [1, 2, 3, 10, 101])
def test_zeta_and_eta_term_by_term(m):
    assert zeta(m) == pytest.approx(even_sines(m), rel=1e-12, abs=1e-15)
    assert eta(m) == pytest.approx(odd_sines(m), rel=1e-12)
    assert eta(m) > zeta(m)


def square_root(matrix: Array) -> Array:
    w, u = np.linalg.eigh(matrix)
    return (u * np.sqrt(np.maximum(w, 0))) @ u.T


@pytest.mark.covering
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("skew", [False, True], ids=["uniform", "skewed"])
@pytest.mark.parametrize("alpha", [1.0, 0.3, 2.0])
def test_root_traces_match_the_dense_root(name, skew, alpha):
    """K = (M D H D M)^1/2: sigma^T K sigma / alpha, and the trace on the complement of sigma."""
    n = 6
    s = skewed(n) if skew else np.full(n, 1 / n)
    H, sigma = FAMILIES[name](n).gram(n), np.sqrt(s)
    M = np.eye(n) - (1 - alpha) * np.outer(sigma, sigma)
    D = np.diag(sigma)
    K = square_root(M @ D @ H @ D @ M)
    along = float(sigma @ K @ sigma)
    result = root_trace(H, s, alpha)
    # the root of an eigenvalue that is rounding (1e-16) is 1e-8
    assert result.constant == pytest.approx(along / alpha, rel=1e-6, abs=1e-7 * np.trace(K))
    assert result.rest == pytest.approx(np.trace(K) - along, rel=1e-6, abs=1e-7 * np.trace(K))


@pytest.mark.parametrize("n", [20, 200])
def test_rounding_errors_do_not_count_as_trace(n):
    """One query has one singular value: |w s^1/2|, whatever the number of values."""
    row = generator(n).normal(size=n)
    s = skewed(n)
    result = root_trace(np.outer(row, row), s)
    exact = float(np.linalg.norm(row * np.sqrt(s)))
    along = exact * float((row * np.sqrt(s) / exact) @ np.sqrt(s)) ** 2
    assert result.constant + result.rest == pytest.approx(exact, rel=1e-9)
    assert result.constant == pytest.approx(along, rel=1e-6)


@pytest.mark.covering
@pytest.mark.parametrize("name", ["prefix", "range", "random", "matrix", "weighted prefix"])
@pytest.mark.parametrize("alpha", [1.0, 0.4])
def test_slopes_of_the_root_traces(name, alpha):
    n, h, rng = 5, 1e-5, generator(3)
    H, sigma = FAMILIES[name](n).gram(n), np.sqrt(skewed(n))
    _, slopes = root_trace_slopes(H, sigma, alpha)
    step = rng.normal(size=n)
    up, down = (root_trace_slopes(H, sigma + x * step, alpha)[0] for x in (h, -h))
    assert (up.constant - down.constant) / (2 * h) == pytest.approx(float(slopes.constant @ step), rel=1e-4)
    assert (up.rest - down.rest) / (2 * h) == pytest.approx(float(slopes.rest @ step), rel=1e-4)
    up, down = (root_trace_slopes(H, sigma, alpha * np.exp(x))[0] for x in (h, -h))
    assert (up.constant - down.constant) / (2 * h) == pytest.approx(slopes.constant_alpha, rel=1e-4, abs=1e-6)
    assert (up.rest - down.rest) / (2 * h) == pytest.approx(slopes.rest_alpha, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("n", [2, 5, 8])
def test_closed_traces_in_the_fourier_basis(n):
    """Marginal and cyclic queries have the Fourier basis as singular vectors, so closed and numeric traces agree."""
    uniform, phi = np.full(n, 1 / n), generator(n).normal(size=n)
    for family in (Total(), Marginal(), Cyclic(phi), Circular()):
        closed, numeric = fourier_trace(family, n), root_trace(family.gram(n), uniform)
        assert closed is not None
        assert closed.constant == pytest.approx(numeric.constant, rel=1e-9)
        assert closed.rest == pytest.approx(numeric.rest, rel=1e-9, abs=1e-12)
    for family in (Prefix(), Suffix()):  # WFF's test matrix, not the best one: sum of |v_a* W v_a| over the frequencies
        x = np.arange(n)
        F = np.exp(2j * np.pi * np.outer(x, x) / n) / np.sqrt(n)
        diagonal = np.abs(np.diagonal(F.conj().T @ family.rows(n) @ F)) / np.sqrt(n)
        closed = fourier_trace(family, n)
        assert closed is not None
        assert (closed.constant, closed.rest) == pytest.approx((diagonal[0], diagonal[1:].sum()), rel=1e-9)
    for family in (Range(), Random(3)):
        assert fourier_trace(family, n) is None


@pytest.mark.covering
@pytest.mark.parametrize("name", TENSORS)
@pytest.mark.parametrize("kept", [(), (0,), (1,), (0, 1)], ids=str)
def test_tensor_traces_match_dense_projections(name, kept):
    shape = (3, 4)
    weights = [skewed(3), np.full(4, 0.25)]
    rows = TENSORS[name](shape).root(shape)
    flat = rows.reshape(len(rows), -1) * np.sqrt(np.kron(*weights))
    _, d, zt = np.linalg.svd(flat, full_matrices=False)
    K = (zt.T * d) @ zt
    sides = [np.outer(v, v) for v in map(np.sqrt, weights)]
    projection = np.kron(*[np.eye(len(p)) - p if axis in kept else p for axis, p in enumerate(sides)])
    expected = float(np.trace(projection @ K))
    assert trace_on(*tensor_traces(rows, weights), kept) == pytest.approx(expected, rel=1e-6, abs=1e-8)


# Floors and the optimum


@pytest.mark.covering
@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("solver", ["optimal", "fourier"])
def test_every_floor_is_below_the_optimum(name, solver):
    plan = ln.plan(WORKLOADS[name], BUDGET, solver=solver)
    best = optimum(name)
    for floor in floors_of(plan):
        assert floor.value <= best * (1 + SDP), floor.kind
    assert floors_of(plan)[-1].value >= best * (1 - 2e-5)  # the last is the optimum itself, to a gap of 1e-5


@pytest.mark.parametrize("name", WORKLOADS)
def test_full_gram_is_that_of_the_explicit_matrix(name):
    plan = ln.plan(WORKLOADS[name], BUDGET, baseline="uniform")
    W = plan.factorization().W
    expected = (W.T * row_weights(plan.workload)) @ W
    assert_allclose(certificate.full_gram(plan.design.question), expected, atol=1e-9 * np.trace(expected))


KINDS = ["marginal", "prefix", "suffix", "range", "circular", "total"]


@st.composite
def weighted_workloads(draw: st.DrawFn) -> Workload:
    """Products, tensors, mixed families and weights on at most twenty cells."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    assume(int(np.prod(sizes)) <= 20)
    work = Workload(ordered(*sizes))
    for _ in range(draw(st.integers(1, 3))):
        on = draw(st.lists(st.sampled_from(work.domain.names), min_size=1, max_size=3, unique=True))
        weight = draw(st.floats(0.05, 20))
        kind = draw(st.sampled_from(["product", "product", "ways", "affine", "abs_diff", "matrix", "few"]))
        if kind == "ways":
            work = work.add(draw(st.sampled_from(KINDS[:-1])), ways=draw(st.integers(0, len(sizes))), weight=weight)
        elif kind in ("affine", "abs_diff") and len(on) == 2:
            work = work.add(kind, on=on, weight=weight)
        elif kind in ("matrix", "few"):
            cells = int(np.prod([work.domain[n].size for n in on]))
            rows = generator(draw(st.integers(0, 99))).normal(size=(1 if kind == "few" else 4, cells))
            work = work.matrix(rows, *on, weight=weight)
        else:
            work = work.add({n: draw(st.sampled_from(KINDS)) for n in on}, weight=weight)
    return work


@pytest.mark.long
@given(work=weighted_workloads(), baseline=st.sampled_from(["uniform", "search"]))
@settings(max_examples=examples(80), suppress_health_check=[HealthCheck.too_slow])
def test_floors_of_random_workloads(work, baseline):
    plan = ln.plan(work, BUDGET, baseline=baseline)
    W = plan.factorization().W
    best = least_sum((W.T * row_weights(work)) @ W)
    for floor in floors_of(plan):
        assert floor.value <= best * (1 + SDP), floor.kind
    assert plan.value**2 * plan.queries >= best * (1 - SDP)


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(UNIFORM_IS_BEST))
def test_floors_meet_the_value_for_marginals_and_circular_queries(name):
    plan = ln.plan(WORKLOADS[name], BUDGET)
    best = optimum(name)
    assert plan.value**2 * plan.queries == pytest.approx(best, rel=2e-5)
    assert max(f.value for f in floors_of(plan)[:-1]) == pytest.approx(best, rel=2e-5)


@pytest.mark.parametrize("ways", [1, 2, [1, 2], 3])
@pytest.mark.parametrize("family", ["marginal", "circular"])
def test_large_domains_have_tight_floors_for_marginals_and_circular_queries(family, ways):
    domain = ln.Domain.of({f"x{i}": range(3 + i) for i in range(6)})
    plan = ln.plan(Workload(domain).add(family, ways=ways), BUDGET)
    assert domain.size > certificate.SMALL_DOMAIN
    assert plan.floor_value == pytest.approx(plan.value, rel=1e-6)


@pytest.mark.long
@given(
    sizes=st.lists(st.integers(2, 5), min_size=1, max_size=3),
    flags=st.lists(st.booleans(), min_size=3, max_size=3),
    picks=st.lists(st.lists(st.integers(0, 2), max_size=3, unique=True), min_size=1, max_size=3),
    seed=st.integers(0, 99),
)
@settings(max_examples=examples(40))
def test_theorem_5_15_recomputed(sizes, flags, picks, seed):
    """Extended marginals on any sets with any weights: the floor is WFF's formula, squared."""
    numerical = {i for i in range(len(sizes)) if flags[i]}
    sets = sorted({tuple(sorted(i for i in pick if i < len(sizes))) for pick in picks})
    work, rng, p = Workload(ordered(*sizes)), generator(seed), {}
    for S in sets:
        cells = int(np.prod([sizes[j] for j in S], dtype=int))
        weight = float(0.1 + rng.random())
        p[S] = weight * cells  # WFF spreads p(S) over the queries of S
        families = {work.domain.names[j]: "prefix" if j in numerical else "marginal" for j in S}
        work = work.add(families, weight=weight) if S else work.total(weight=weight)
    plan = ln.plan(work, BUDGET, baseline="uniform")
    floor = certificate._fourier_floor(plan.design.question)
    assert sqrt(floor.value) == pytest.approx(extended(tuple(sizes), numerical, p, lower=True), rel=1e-9)
    if not numerical:
        assert sqrt(floor.value) == pytest.approx(marginal_root(tuple(sizes), p), rel=1e-9)
        assert plan.value * sqrt(plan.queries) == pytest.approx(sqrt(floor.value), rel=1e-6)


def test_prefix_floor_on_forty_attributes():
    """The closed form on a domain far too large for matrices, set by set."""
    domain = ln.Domain.of({f"x{i}": range(10) for i in range(40)})
    plan = ln.plan(Workload(domain).prefix(ways=[1, 2]), BUDGET, baseline="uniform")
    m, c, z = 10, 11 / 20, even_sines(10) / 2  # constant and rest of one attribute, over the root of m queries
    per_set = {1: m, 2: m * m}  # queries of a set: weight 1 each is p(S) = queries
    total = sqrt(40 * per_set[1] * c**2 + 780 * per_set[2] * c**4)
    ones = 40 * z * sqrt(per_set[1] + 39 * per_set[2] * c**2)
    pairs = 780 * z * z * sqrt(per_set[2])
    floor = certificate._fourier_floor(plan.design.question)
    assert sqrt(floor.value) == pytest.approx(total + ones + pairs, rel=1e-9)
    assert plan.floor_value >= sqrt(floor.value / plan.queries) * (1 - 1e-12)


@pytest.mark.parametrize("name", ["prefix", "range", "affine"])
def test_any_weights_and_tilts_give_a_floor(name):
    """The search for better weights may end anywhere, so every point it can reach must be a valid bound."""
    base = Workload(ordered(4, 3))
    work = base.affine("a", "b").prefix(ways=1) if name == "affine" else base.add(name, ways=[1, 2])
    plan, rng = ln.plan(work, BUDGET, baseline="uniform"), generator(2)
    structure, W = plan.design.structure, plan.factorization().W
    best = least_sum(W.T @ W)
    for _ in range(30):
        weights = [rng.dirichlet(np.ones(c.size)) for c in structure.classes]
        alphas = np.exp(rng.normal(size=len(structure.slots)) * 2).tolist()
        assert certificate._polar(plan.design.question, weights, alphas).value <= best * (1 + SDP)


def test_oracle_root_is_a_root():
    G = WORKLOADS["prefix 5"].domain.size * np.eye(5) + 1
    R = thin_root(G)
    assert_allclose(R.T @ R, G)
