"""Exact trace norms: equal to singular values of the whole matrix, with gradients, and never above the optimum."""

from math import cosh, exp, pi, sqrt

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import leastnoise as ln
from leastnoise._types import Array
from leastnoise.planning import certificate
from leastnoise.planning.design import Question
from leastnoise.planning.factorization import workload_matrix
from leastnoise.planning.objective import Objective, query_weights
from leastnoise.planning.pair_blocks import Arrowhead, complement
from leastnoise.planning.pair_trace import PairTrace
from leastnoise.planning.structure import build_structure
from leastnoise.planning.trace_floor import KIND, exact_trace_floor, trace_model
from leastnoise.planning.triple_trace import TripleTrace
from leastnoise.strategies.quadrature import determinants, step_error
from leastnoise.workload import Workload
from tests.catalogue import FAMILIES, generator, ordered
from tests.covering import examples
from tests.oracles import SDP, least_sum, row_weights

BUDGET = ln.Budget(mu=1)
KINDS = ["marginal", "prefix", "suffix", "range", "circular", "total"]
CELLS = 260  # of the domains on which whole matrices are decomposed


def question_of(work: Workload) -> Question:
    structure = build_structure(work)
    return Question(structure, query_weights(structure, Objective(1.0)), structure.stated)


# The rule for the integral


@given(logs=st.lists(st.floats(-11, 11), min_size=1, max_size=6), h=st.sampled_from([0.8, 1.0, 1.5, 2.0, 2.5]))
@settings(max_examples=examples(200))
def test_rule_is_a_lower_bound_and_as_close_as_stated(logs, h):
    m = np.exp(np.array(logs))
    exact = float(np.sqrt(m).sum())
    value = determinants(lambda t: float(np.log1p(m / t).sum()), float(m.max()), h).trace
    assert exact * (1 - 2 * step_error(h) - 1e-7) <= value <= exact * (1 + 1e-13)


def test_error_of_the_rule_is_the_one_of_the_worst_eigenvalue():
    """On the whole line the sum for one eigenvalue differs from its root by a wave; its height is the stated error."""
    h = 2.5
    y = h * np.arange(-400, 400)
    worst = 0.0
    for shift in np.linspace(0, h, 200):
        terms = np.logaddexp(0, -(y + shift)) * np.exp((y + shift) / 2)
        worst = max(worst, abs(h * float(terms.sum()) / (2 * pi) - 1))
    assert worst == pytest.approx(step_error(h), rel=1e-3)
    assert step_error(h) == pytest.approx(1 / (sqrt(0.25 + (2 * pi / h) ** 2) * cosh(2 * pi**2 / h)), rel=1e-3)
    assert step_error(1.0) < 1e-9 < step_error(1.5) < 1e-6


def test_rule_knows_zero_eigenvalues():
    m = np.array([0.0, 0.0, 4.0])
    assert determinants(lambda t: float(np.log1p(m / t).sum()), 4.0, 1.0).trace == pytest.approx(2, rel=1e-8)
    assert determinants(lambda t: 0.0, 1.0, 1.0).trace == 0


# One attribute


@pytest.mark.parametrize("name", FAMILIES)
def test_arrowhead_is_the_matrix_in_another_basis_and_never_above_it(name):
    n = 6
    gram, v = FAMILIES[name](n).gram(n), np.sqrt(generator(n).dirichlet(np.ones(n)))
    head = Arrowhead.of(gram, v)
    basis = np.column_stack([v, head.axes])
    K = gram * np.outer(v, v)
    mine = np.diag([head.corner, *head.below])
    mine[0, 1:] = mine[1:, 0] = head.beside
    back = basis @ mine @ basis.T
    assert np.allclose(basis.T @ basis, np.eye(n), atol=1e-12)
    assert np.allclose(back, K, atol=1e-7 * np.trace(K))
    assert np.linalg.eigvalsh(K - (1 - head.blur) * back)[0] >= -1e-15 * np.trace(K)


def test_complement_of_any_unit_vector():
    for v in (np.array([1.0]), np.array([-1.0, 0.0]), np.array([0.6, 0.8])):
        whole = np.column_stack([v, complement(v)])
        assert np.allclose(whole.T @ whole, np.eye(len(v)), atol=1e-14)


# Whole matrices


@st.composite
def workloads(draw: st.DrawFn, most_ways: int = 2, cells: int = CELLS) -> Workload:
    """Like and unlike attributes, products, comparisons and given queries, several statements with weights."""
    n, d = draw(st.integers(2, 5)), draw(st.integers(1, 5))
    sizes = draw(st.one_of(st.just([n] * d), st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    assume(int(np.prod(sizes)) <= cells)
    work = Workload(ordered(*sizes))
    for _ in range(draw(st.integers(1, 3))):
        work = _with_statement(draw, work, sizes, most_ways)
    return work


def _with_statement(draw: st.DrawFn, work: Workload, sizes: list[int], most_ways: int) -> Workload:
    ways = draw(st.integers(0, min(most_ways, len(sizes))))
    on = draw(st.permutations(work.domain.names))[: max(ways, 1)]
    weight = draw(st.floats(0.05, 20))
    kind = draw(st.sampled_from(["ways", "ways", "ways", "product", "comparison", "matrix"]))
    if kind == "product":
        return work.add({n: draw(st.sampled_from(KINDS)) for n in on}, weight=weight)
    if kind == "comparison" and len(sizes) > 1:
        name = draw(st.sampled_from(["affine", "abs_diff"]))
        same = len(set(sizes)) == 1
        return (
            work.add(name, ways=2, weight=weight) if same else work.add(name, on=work.domain.names[:2], weight=weight)
        )
    if kind == "matrix":
        shape = (draw(st.integers(1, 4)), int(np.prod([work.domain[n].size for n in on])))
        return work.matrix(generator(draw(st.integers(0, 99))).normal(size=shape), *on, weight=weight)
    return work.add(draw(st.sampled_from(KINDS[:-1])), ways=ways, weight=weight)


class Whole:
    """The trace norm from the whole matrix, at weights of each attribute."""

    def __init__(self, work: Workload):
        self.rows = workload_matrix(work) * np.sqrt(row_weights(work))[:, None]

    def trace(self, per_attribute: list[Array]) -> float:
        s = np.ones(1)
        for p in per_attribute:
            s = np.kron(s, p)
        return float(np.linalg.svd(self.rows * np.sqrt(s), compute_uv=False).sum())


def weights_of(question: Question, seed: int) -> tuple[list[Array], list[Array]]:
    """Random weights per class, and the same per attribute."""
    structure, rng = question.structure, generator(seed)
    per_class = [0.8 * rng.dirichlet(np.ones(c.size)) + 0.2 / c.size for c in structure.classes]
    return per_class, [per_class[structure.class_of[a]] for a in range(len(structure.class_of))]


@pytest.mark.long
@given(work=workloads(), seed=st.integers(0, 999))
@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
def test_trace_is_that_of_the_whole_matrix(work, seed):
    question = question_of(work)
    per_class, per_attribute = weights_of(question, seed)
    model = PairTrace(question, [np.sqrt(s) for s in per_class])
    exact = Whole(work).trace(per_attribute)
    assert model.nodes(0.8).trace == pytest.approx(exact, rel=1e-9)
    assert exact * (1 - 1e-5) <= model.trace(1.5) <= exact * (1 + 1e-9)


@pytest.mark.long
@given(work=workloads(), seed=st.integers(0, 999))
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
def test_slopes_are_differences_of_traces(work, seed):
    question, h = question_of(work), 1e-4
    per_class, per_attribute = weights_of(question, seed)
    result, whole = PairTrace(question, [np.sqrt(s) for s in per_class]).slopes(0.8), Whole(work)
    for cls, slopes in zip(question.structure.classes, result.per_class, strict=True):
        step = generator(seed, cls.size).normal(size=cls.size) * per_attribute[cls.members[0]]
        moved = [list(per_attribute), list(per_attribute)]
        for sign, per in zip((1, -1), moved, strict=True):
            per[cls.members[0]] = per[cls.members[0]] + sign * h * step
        expected = (whole.trace(moved[0]) - whole.trace(moved[1])) / h
        assert float(slopes @ step) == pytest.approx(expected, rel=1e-4, abs=1e-5 * result.trace)


@st.composite
def like_attributes(draw: st.DrawFn, cells: int = 1_100) -> Workload:
    """Three-way products on like attributes, beside other tables on one or two of them."""
    n, d = draw(st.integers(1, 4)), draw(st.integers(3, 6))
    assume(n**d <= cells)
    work = Workload(ordered(*[n] * d)).add(draw(st.sampled_from(KINDS[:-1])), ways=3, weight=draw(st.floats(0.05, 20)))
    for _ in range(draw(st.integers(0, 2))):
        ways = draw(st.integers(0, 2))
        kinds = [*KINDS[:-1], "affine", "abs_diff"] if ways == 2 else KINDS[:-1]
        work = work.add(draw(st.sampled_from(kinds)), ways=ways, weight=draw(st.floats(0.05, 20)))
    return work


@pytest.mark.long
@given(work=like_attributes(), seed=st.integers(0, 999))
@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
def test_trace_of_triples_is_that_of_the_whole_matrix(work, seed):
    question = question_of(work)
    assert trace_model(question) is TripleTrace
    per_class, per_attribute = weights_of(question, seed)
    model = TripleTrace(question, [np.sqrt(s) for s in per_class])
    exact = Whole(work).trace(per_attribute)
    assert model.nodes(0.8).trace == pytest.approx(exact, rel=1e-9)
    assert exact * (1 - 1e-5) <= model.trace(1.5) <= exact * (1 + 1e-9)


def test_slopes_of_triples_are_differences_of_traces():
    question = question_of(Workload(ordered(3, 3, 3)).prefix(ways=3).ranges(ways=2))
    root = np.sqrt(generator(5).dirichlet(np.ones(3)))
    result, h = TripleTrace(question, [root]).slopes(1.0), 1e-3
    whole, step = Whole(question.structure.workload), generator(6).normal(size=3) * root**2
    up, down = (whole.trace([root**2 + sign * h * step, root**2, root**2]) for sign in (1, -1))
    assert float(result.per_class[0] @ step) == pytest.approx((up - down) / h, rel=1e-3, abs=1e-3 * result.trace)


def test_questions_without_an_exact_trace_are_known():
    two = Workload(ln.Domain.of({"a": range(3), "b": range(3), "c": range(3), "d": range(4)}))
    assert trace_model(question_of(two.prefix(ways=3))) is None  # two classes
    like = Workload(ordered(3, 3, 3))
    assert trace_model(question_of(like.prefix(ways=3).ranges(ways=3))) is None  # two families
    assert trace_model(question_of(like.prefix(ways=[0, 1, 2]))) is PairTrace


# Floors


@pytest.mark.long
@pytest.mark.parametrize("kind", ["prefix", "range", "mixed"])
def test_three_way_tables_of_forty_attributes_are_near_the_floor(kind):
    work = Workload(ln.Domain.of({f"x{i}": range(10) for i in range(40)}))
    work = work.ranges(ways=1).affine(ways=2).prefix(ways=3) if kind == "mixed" else work.add(kind, ways=3)
    plan = ln.plan(work, BUDGET)
    assert plan.floor.kind == KIND
    assert plan.value <= 1.003 * plan.floor_value


@pytest.mark.parametrize("objective", ["sum", "max"])
def test_certified_plans_differ_in_the_floor_alone(objective, tmp_path):
    domain = ln.Domain.of(a=range(8), b=range(8), c=range(9))
    plan = ln.plan(Workload(domain).prefix(ways=[1, 2]), BUDGET, objective=objective)
    better = plan.certify()
    assert plan.floor_value <= better.floor_value <= plan.value
    assert better.fingerprint == plan.fingerprint
    better.save(tmp_path / "plan")
    assert ln.Plan.load(tmp_path / "plan").floor == better.floor
    assert better.to_json()["floor"]["value"] == better.floor_value


def test_nothing_is_certified_where_no_floor_is_known():
    work = Workload(ordered(3, 4)).prefix(ways=2)
    replaced = ln.plan(work, ln.Budget(mu=1, neighbours="replace"))
    embedded = ln.plan(work, BUDGET, solver="embedding")
    assert replaced.certify() is replaced
    assert embedded.certify() is embedded


def test_attributes_in_no_table_and_zero_weights_do_not_matter():
    domain = ln.Domain.of({name: range(3) for name in "abcd"})
    some = question_of(Workload(domain).prefix("a", "b", ways=2))
    roots = [np.sqrt(np.full(3, 1 / 3)) for _ in some.structure.classes]
    small = question_of(Workload(ordered(3, 3)).prefix(ways=2))
    assert PairTrace(some, roots).trace(1.0) == pytest.approx(PairTrace(small, roots[:1]).trace(1.0), rel=1e-9)


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "n", "least", "most"),
    [
        ("prefix", 10, 32.64, 1.0014),
        ("range", 10, 40.86, 1.0005),
        ("prefix", 20, 48.175, 1.002),
        ("range", 20, 63.06, 1.001),
    ],
)
def test_forty_attributes_are_planned_within_two_permille_of_the_best(kind, n, least, most):
    domain = ln.Domain.of({f"x{i}": range(n) for i in range(40)})
    plan = ln.plan(Workload(domain).add(kind, ways=[1, 2]), BUDGET)
    assert plan.floor.kind == KIND
    assert plan.floor_value >= least
    assert plan.value <= most * plan.floor_value


def test_floor_is_left_out_where_it_is_too_much_work():
    plan = ln.plan(Workload(ordered(4, 4, 4)).prefix(ways=2), BUDGET)
    assert exact_trace_floor(plan.design, 1.0) is None
    one, more = (exact_trace_floor(plan.design, work) for work in (1e7, 1e12))
    assert one is not None
    assert more is not None
    assert one <= more * (1 + 1e-6)
    assert more <= plan.outcome.value


@pytest.mark.long
@given(work=st.one_of(workloads(cells=20), workloads(cells=20), like_attributes(cells=27)))
@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
def test_floor_is_never_above_the_optimum(work):
    plan = ln.plan(work, BUDGET, baseline="uniform")
    best = least_sum(certificate.full_gram(plan.design.question))
    floor = exact_trace_floor(plan.design, 1e12)
    assert floor is not None
    assert floor <= best * (1 + SDP)
    assert floor >= exp(-4) * best


def test_queries_that_cancel_along_the_weights_have_a_floor():
    """Contrasts have nothing on 0; the scale of the rule must come from elsewhere."""
    work = Workload(ordered(2, 2)).matrix(np.array([[1.0, -1.0, -1.0, 1.0]]), "a", "b")
    floor = exact_trace_floor(ln.plan(work, BUDGET).design, 1e10)
    assert floor == pytest.approx(1, rel=1e-4)
