"""WFF's bound per Fourier coefficient and its best weights p*: dense twins, and never above the optimum."""

from itertools import product
from math import inf, prod, sqrt

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import leastnoise as ln
from leastnoise._types import Array
from leastnoise.errors import LeastnoiseError
from leastnoise.planning import fourier_bound as module
from leastnoise.planning.certificate import SMALL_DOMAIN, best_floor, norm_floor
from leastnoise.planning.design import Question
from leastnoise.planning.factorization import workload_matrix
from leastnoise.planning.fourier_bound import fourier_bound, grouped
from leastnoise.planning.objective import Objective, query_weights
from leastnoise.planning.structure import build_structure
from leastnoise.strategies.bounds import fourier_amplitudes
from leastnoise.theory import fourier_factorization, fourier_weights
from leastnoise.workload import Workload
from leastnoise.workload.families import Circular, Cyclic, Family, Marginal, Prefix, Random, Range, Suffix, Total
from leastnoise.workload.weighted import Weighted
from tests.catalogue import WORKLOADS, generator, ordered
from tests.oracles import SDP, extended, extended_max, least_norm, least_sum, marginal_max, row_weights

BUDGET = ln.Budget(mu=1)
NORMS = {"sum": 1.0, "max": inf, "lr 2": 2.0, "lr 5": 5.0}


def objective_of(r: float) -> object:
    return {1.0: "sum", inf: "max"}.get(r, {"lr": r})


def question_of(work: Workload) -> Question:
    structure = build_structure(work)
    return Question(structure, query_weights(structure, Objective(1.0)), structure.stated)


def arc(n: int, length: int) -> dict[str, list[float]]:
    return {"phi": [float(x < length) for x in range(n)]}


# Amplitudes


def rows_with_weights(n: int) -> dict[str, Family]:
    phi, weights = generator(n, 7).normal(size=n), 0.2 + generator(n, 8).random(n)
    plain: dict[str, Family] = {
        "marginal": Marginal(), "prefix": Prefix(), "suffix": Suffix(), "phi": Cyclic(phi), "total": Total()
    }  # fmt: skip
    weighted = {f"weighted {k}": Weighted(f, weights[: f.count(n)]) for k, f in plain.items()}
    return plain | weighted | {"circular": Circular()}


def phases(family: Family, n: int) -> Array:
    """Q of WFF: the Fourier basis on both sides, with the phases of the plain family's diagonal (singular vectors)."""
    F = np.exp(2j * np.pi * np.outer(np.arange(n), np.arange(n)) / n) / np.sqrt(n)
    W = family.plain.rows(n) @ F
    if len(W) != n:  # circular and total: the columns of W F are orthogonal
        lengths = np.linalg.norm(W, axis=0)
        return (W / np.where(lengths > 1e-9 * lengths.max(), lengths, inf)) @ F.conj().T
    diagonal = np.diagonal(F.conj().T @ W)
    return (F * (diagonal / np.maximum(np.abs(diagonal), 1e-300))) @ F.conj().T


@pytest.mark.parametrize("n", [1, 2, 5, 8])
@pytest.mark.parametrize("name", rows_with_weights(3))
def test_amplitudes_are_those_of_the_test_matrix(name, n):
    """|e_a* Q* W e_a| / n^1/2 with an explicit Q, which must be a contraction."""
    family = rows_with_weights(n)[name]
    Q = phases(family, n)
    F = np.exp(2j * np.pi * np.outer(np.arange(n), np.arange(n)) / n) / np.sqrt(n)
    W = np.sqrt(family.weights(n))[:, None] * family.rows(n)
    assert np.linalg.norm(Q, 2) <= 1 + 1e-9
    expected = np.abs(np.diagonal(F.conj().T @ Q.conj().T @ W @ F)) / np.sqrt(n)
    assert_allclose(fourier_amplitudes(family, n), expected, atol=1e-9 * expected.max())


def test_families_without_a_closed_form_have_no_amplitudes():
    for family in (Range(), Random(3), Weighted(Range(), np.ones(6)), Weighted(Circular(), np.ones(9))):
        assert fourier_amplitudes(family, 3) is None


# The sum over coefficients

CYCLIC = {
    "two functions": Workload(ordered(5, 3)).marginals("a", "b").add({"a": arc(5, 2), "b": arc(3, 2)}, weight=0.7),
    "by set": Workload(ordered(4, 3)).add({"a": arc(4, 2)}).marginals(ways=[1, 2]).add({"b": arc(3, 2)}, weight=3),
    "circular and counts": Workload(ordered(4, 3)).circular(ways=1).marginals("a", "b").total(weight=2),
    "alike": Workload(ordered(4, 4)).marginals(ways=2).add(arc(4, 2), ways=[1, 2]),
}


def dense_root(work: Workload) -> float:
    """The bound coefficient by coefficient and set by set."""
    shape = work.domain.shape
    total = 0.0
    for a in product(*map(range, shape)):
        inner = 0.0
        for block in work.blocks:
            for S in block.subsets():
                if all(a[j] == 0 for j in range(len(shape)) if j not in S):
                    amplitudes = [fourier_amplitudes(block.family(j), shape[j]) for j in S]
                    inner += block.weight * prod(float(x[a[j]]) for x, j in zip(amplitudes, S, strict=True)) ** 2
        total += sqrt(inner)
    return total


@pytest.mark.parametrize("name", CYCLIC)
def test_bound_is_the_sum_over_coefficients_and_the_optimum(name):
    """Theorem 5.14: for cyclic queries the bound is the least error of any factorization."""
    work = CYCLIC[name]
    question = question_of(work)
    root = fourier_bound(question.structure, question.requested).root(question.table_weights)
    assert root == pytest.approx(dense_root(work), rel=1e-9)
    W = workload_matrix(work)
    assert root**2 == pytest.approx(least_sum((W.T * row_weights(work)) @ W), rel=1e-5)


@pytest.mark.parametrize("most", [1, 2, 5, 11, 100])
def test_coarser_groups_give_less(most, monkeypatch):
    """Fewer groups only lower the bound, and one group per residual is the bound that needs no basis."""
    work = CYCLIC["two functions"]
    question = question_of(work)
    monkeypatch.setattr(module, "MOST_GROUPS", most)
    root = fourier_bound(question.structure, question.requested).root(question.table_weights)
    assert root <= dense_root(work) * (1 + 1e-12)
    if most == 1:
        traces = [{j: fourier_amplitudes(b.family(j), n) for j, n in enumerate((5, 3))} for b in work.blocks]
        expected = 0.0
        for kept in product([False, True], repeat=2):
            parts = [
                b.weight * prod(float(x[j][1:].sum() if k else x[j][0]) for j, k in enumerate(kept)) ** 2
                for b, x in zip(work.blocks, traces, strict=True)
            ]
            expected += sqrt(sum(parts))
        assert root == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("most", [1, 2, 3, 50])
def test_groups_keep_every_sum(most):
    amplitudes = np.abs(generator(5).normal(size=(3, 20)))
    amplitudes[:, 12:] = 2 * amplitudes[:, 4:12]  # the same proportions
    result = grouped(amplitudes, most)
    assert result.shape[1] == min(most, 12)
    assert_allclose(result.sum(axis=1), amplitudes.sum(axis=1))


def test_two_cyclic_tables_on_a_large_domain_have_a_tight_floor():
    """A residual whose coefficients two tables weigh differently: one term per residual falls short of the optimum."""
    work = Workload(ordered(21, 21)).marginals("a", "b").add({"a": arc(21, 10), "b": arc(21, 10)})
    assert work.domain.size > SMALL_DOMAIN
    plan = ln.plan(work, BUDGET, solver="fourier")
    assert plan.floor_value == pytest.approx(2.8554, abs=5e-5)  # 2.6988 with one term per residual
    assert plan.floor_value == pytest.approx(plan.value, rel=1e-9)
    assert plan.floor.kind == "WFF Theorems 5.8, 5.14 and 5.15 (closed form)"
    assert plan.explain().count(plan.floor.kind) == 1


@pytest.mark.parametrize("n", [2_001, 50_000])
def test_circular_has_a_floor_at_any_size(n):
    """Arcs are cyclic, so the Fourier strategy attains the floor."""
    plan = ln.plan(Workload(ordered(n)).circular("a"), BUDGET, solver="fourier", baseline="uniform")
    assert plan.floor_value == pytest.approx(plan.value, rel=1e-6)


# The best weights


@pytest.mark.parametrize("r", [2.0, 5.0, inf], ids=str)
@pytest.mark.parametrize("name", CYCLIC)
def test_best_weights_give_the_least_norm(name, r):
    """WFF Theorem 5.14 and Remark 3.12: p* gives the least norm of any factorization of product queries."""
    work = CYCLIC[name]
    weights = None if r == inf else row_weights(work)
    best = least_norm(workload_matrix(work), r, weights)
    floor = norm_floor(question_of(work), Objective(r)).value
    assert floor <= best * (1 + SDP)
    if "circular" not in name:  # arcs of different lengths have different variances: a table needs more than one weight
        assert floor == pytest.approx(best, rel=1e-5)


SETS = {  # sizes, attributes with prefixes, and sets of attributes
    "prefix and total": ((23,), {0}, [(), (0,)]),
    "one-way": ((10, 5, 2), {0, 1, 2}, [(0,), (1,), (2,)]),
    "prefix and table": ((7, 7, 7), {0}, [(0,), (0, 1, 2)]),
    "prefixes and pairs": ((9, 4, 6), {0, 2}, [(), (0,), (1,), (0, 1), (1, 2)]),
}


@pytest.mark.parametrize("name", SETS)
def test_theorem_5_15_at_its_best_weights(name):
    """The largest error of prefixes on several sets: the bound of the paper at its best p, by a convex solver."""
    sizes, numerical, sets = SETS[name]
    work = Workload(ordered(*sizes))
    for S in sets:
        families = {work.domain.names[j]: "prefix" if j in numerical else "marginal" for j in S}
        work = work.add(families) if S else work.total()
    best = extended_max(sizes, numerical, sets, lower=True)
    assert sqrt(norm_floor(question_of(work), Objective(inf)).value) == pytest.approx(best, rel=1e-5)
    plan = ln.plan(work, BUDGET, objective="max", solver="fourier")
    assert best * (1 - 1e-5) <= plan.floor_value <= plan.value


def test_floor_of_the_largest_error_uses_the_best_weights():
    """Prefixes on 24 values: Theorem 5.15 alone gives (1 + 1/24 + zeta(24)) / 2."""
    plan = ln.plan(Workload(ordered(24)).prefix("a"), BUDGET, objective="max", solver="fourier")
    known = extended((24,), {0}, {(0,): 1.0}, lower=True)
    assert known == pytest.approx(1.57, abs=0.005)
    assert plan.floor_value >= known * (1 - 1e-9)
    assert plan.floor_value <= plan.value


def test_sums_and_weights_of_the_two_tables_of_the_example():
    """Tables a x b and c of 3, 4 and 5 values: the stated weights leave 1.543, the best ones the optimum 1.367."""
    work = Workload(ordered(3, 4, 5)).marginals("a", "b").marginals("c")
    plan = ln.plan(work, BUDGET, objective="max")
    rows = {
        "sum": np.linalg.norm(fourier_factorization(work)[0], axis=1),
        "max": np.linalg.norm(plan.fourier_factorization()[0], axis=1),
    }
    assert rows["sum"].max() == pytest.approx(1.543, abs=5e-4)
    assert rows["max"].max() == pytest.approx(1.367, abs=5e-4)
    assert rows["max"].max() == pytest.approx(marginal_max((3, 4, 5), [(0, 1), (2,)]), rel=1e-6)
    weights = plan.fourier_weights()
    assert [w.attributes for w in weights] == [("a", "b"), ("c",)]
    assert sum(w.p for w in weights) == pytest.approx(1, rel=1e-12)
    assert_allclose(rows["max"], rows["max"].max(), rtol=1e-6)  # Lemma 3.10: both tables count, so both are largest


FACTORIZED = {
    "marginals": Workload(ordered(3, 4)).marginals(ways=[1, 2]),
    "with the total": Workload(ordered(3, 2)).marginals(ways=[0, 2]),
    "a total in a product": Workload(ordered(3, 2)).add({"a": "marginal", "b": "total"}).marginals("a", "b"),
    "weights": Workload(ordered(3, 4)).marginals("a", weight=3).marginals("b").add({"b": arc(4, 2)}),
    "phi": Workload(ordered(4, 3)).add(arc(4, 3), on="a").marginals("a", "b", weight=0.5),
    "three": Workload(ordered(2, 3, 2)).marginals(ways=[1, 2]),
}


@pytest.mark.parametrize("r", NORMS.values(), ids=list(NORMS))
@pytest.mark.parametrize("name", FACTORIZED)
def test_factorization_is_optimal_for_every_objective(name, r):
    """W = L R, unit columns, and the norm of the squared row norms is that of a semidefinite program."""
    work = FACTORIZED[name]
    W, weights = workload_matrix(work), None if r == inf else row_weights(work)
    L, R = ln.plan(work, BUDGET, objective=objective_of(r)).fourier_factorization()
    assert_allclose(L @ R, W, atol=1e-10)
    assert_allclose(np.linalg.norm(R, axis=0), 1, rtol=1e-10)
    variances = np.linalg.norm(L, axis=1) ** 2
    norm = variances.max() if weights is None else float(weights @ variances**r) ** (1 / r)
    assert norm == pytest.approx(least_norm(W, r, weights), rel=1e-5)


def two_largest(variances: Array) -> tuple[float, Array]:
    slope = np.zeros(len(variances))
    slope[np.argsort(-variances)[:2]] = 1
    return float(slope @ variances), slope


def euclidean_with_weights(variances: Array) -> tuple[float, Array]:
    weights = 1.0 + np.arange(len(variances))
    norm = float(np.sqrt(weights @ variances**2))
    return norm, weights * variances / norm


def norm_program(work: Workload, norm: str) -> float:
    """Least norm of the largest variance of each table, over all factorizations at privacy cost 1."""
    W = workload_matrix(work)
    k, n = W.shape
    M = cp.Variable((n + k, n + k), PSD=True)
    counts = [prod(work.domain.shape[a] for a in S) for b in work.blocks for S in b.subsets()]
    v = cp.Variable(len(counts))
    member = np.repeat(np.eye(len(counts)), counts, axis=0)
    weights = np.sqrt(1.0 + np.arange(len(counts)))
    goal = cp.sum_largest(v, 2) if norm == "two largest" else cp.norm2(cp.multiply(weights, v))
    limits = [cp.diag(M[:n, :n]) <= 1, M[n:, :n] == W, cp.diag(M[n:, n:]) <= member @ v]
    return float(cp.Problem(cp.Minimize(goal), limits).solve(solver=cp.CLARABEL))


@pytest.mark.parametrize("name", ["marginals", "phi"])
@pytest.mark.parametrize("norm", ["two largest", "euclidean"])
def test_any_monotone_norm(norm, name):
    """Remark 3.12: the weights over the dual ball give the least norm; the bound and what L attains enclose it."""
    work, function = FACTORIZED[name], {"two largest": two_largest, "euclidean": euclidean_with_weights}[norm]
    weights, (L, R) = fourier_weights(work, function), fourier_factorization(work, function)
    assert_allclose(L @ R, workload_matrix(work), atol=1e-10)
    counts = [prod(work.domain.shape[a] for a in S) for b in work.blocks for S in b.subsets()]
    first = np.cumsum([0, *counts[:-1]])
    attained = function(np.linalg.norm(L, axis=1)[first] ** 2)[0]
    bound = sum(w.p * float(np.linalg.norm(L, axis=1)[i] ** 2) for w, i in zip(weights, first, strict=True))
    best = norm_program(work, norm)
    assert bound <= best * (1 + SDP)
    assert best * (1 - SDP) <= attained <= best * 1.002


def only_the_first(variances: Array) -> tuple[float, Array]:
    return float(variances[0]), np.eye(len(variances))[0]


def test_tables_of_weight_zero_are_free_inside_others():
    """WFF section 3.3: what tables with weight contain costs nothing more; nothing unbiased is known of the rest."""
    work = Workload(ordered(3, 4)).marginals("a", "b").marginals("a")
    L, R = fourier_factorization(work, only_the_first)
    assert [w.p for w in fourier_weights(work, only_the_first)] == [1, 0]
    assert_allclose(L @ R, workload_matrix(work), atol=1e-12)
    assert_allclose(np.linalg.norm(R, axis=0), 1, rtol=1e-12)
    assert_allclose(np.linalg.norm(L[:12], axis=1), 1, rtol=1e-12)  # cells that are counted once: noise of one count
    turned = Workload(ordered(3, 4)).marginals("a").marginals("a", "b")
    with pytest.raises(LeastnoiseError, match=r"^the table of a x b has weight 0 and needs more than the tables with"):
        fourier_factorization(turned, only_the_first)


def test_slopes_that_are_no_norm_are_refused():
    for wrong in (
        lambda v: (1.0, v),
        lambda v: (float(v.sum()), np.ones(1)),
        lambda v: (float(-v.sum()), -np.ones(len(v))),
    ):
        with pytest.raises(LeastnoiseError, match=r"^the norm's slope does not fit its value"):
            fourier_weights(FACTORIZED["marginals"], wrong)


def test_weights_of_the_sum_are_the_stated_ones():
    work = Workload(ordered(3, 4)).marginals("a", weight=2).marginals("a", "b")
    assert [w.p for w in fourier_weights(work)] == pytest.approx([6 / 18, 12 / 18])
    assert [w.attributes for w in fourier_weights(work)] == [("a",), ("a", "b")]


def test_other_queries_have_no_fourier_weights():
    for work in (Workload(ordered(3)).ranges("a"), Workload(ordered(3, 3)).affine("a", "b")):
        with pytest.raises(
            LeastnoiseError, match=r"^WFF's factorization is for marginal and cyclic \(phi\) queries, and for prefix"
        ):
            fourier_weights(work)


# No floor above the optimum

SMALL = [n for n in WORKLOADS if WORKLOADS[n].queries + WORKLOADS[n].domain.size <= 50]


@pytest.mark.long
@pytest.mark.covering
@pytest.mark.parametrize("r", NORMS.values(), ids=list(NORMS))
@pytest.mark.parametrize("name", SMALL)
def test_no_floor_is_above_the_optimum(name, r):
    """Every query family, objective and kind of weight, against a program over all factorizations."""
    work = WORKLOADS[name]
    weights = None if r == inf else row_weights(work)
    best = least_norm(workload_matrix(work), r, weights)
    assert norm_floor(question_of(work), Objective(r)).value <= best * (1 + SDP)
    for solver in ("optimal", "fourier"):
        plan = ln.plan(work, BUDGET, objective=objective_of(r), solver=solver)
        assert plan.floor.value <= best * (1 + SDP)
        assert plan.outcome.value >= best * (1 - SDP)


def test_tables_without_a_target_are_no_part_of_the_floor():
    """What only comes along keeps a little weight in the design, but not in the floor."""
    work = Workload(ordered(4, 3)).marginals("a", within=2.0).marginals("a", "b")
    plan, target = ln.plan(work, BUDGET, solver="fourier"), work.blocks[0].target
    assert target is not None
    assert plan.outcome.dual is not None
    assert plan.outcome.dual.question.table_weights[1] == 0
    assert plan.floor.value <= (1 + 1e-9) / target**2  # counts of disjoint cells, and nothing else


LARGER = {
    "prefixes of two": Workload(ordered(21, 20)).prefix(ways=[1, 2]),
    "prefix by value": Workload(ordered(30, 20)).prefix("a").add({"a": "prefix", "b": "marginal"}, weight=2),
    "counts of three": Workload(ordered(8, 9, 7)).marginals(ways=[1, 2, 3]),
    "circular": Workload(ordered(150, 3)).circular("a").marginals("a", weight=5),
    "two functions": Workload(ordered(21, 21)).marginals("a", "b").add({"a": arc(21, 10), "b": arc(21, 10)}),
    "weighted rows": Workload(ordered(24, 20)).add("prefix", on="a", weights=np.arange(1.0, 25)).marginals("a", "b"),
}


@pytest.mark.long
@pytest.mark.covering
@pytest.mark.parametrize("objective", ["sum", "max"])
@pytest.mark.parametrize("name", LARGER)
def test_no_floor_is_above_the_best_plan_on_larger_domains(name, objective):
    """Floors as they are computed: a plan cuts them at its own value, which would hide one that is too high."""
    work = LARGER[name]
    assert work.domain.size > SMALL_DOMAIN
    plans = [ln.plan(work, BUDGET, objective=objective, baseline="uniform")]
    if objective == "sum":
        plans += [ln.plan(work, BUDGET), ln.plan(work, BUDGET, solver="fourier")]
    best = min(plan.outcome.value for plan in plans)
    for plan in plans:
        assert best_floor(plan.outcome.dual or plan.design).value <= best * (1 + 1e-9)
    assert norm_floor(question_of(work), Objective.of(objective)).value <= best * (1 + 1e-9)
