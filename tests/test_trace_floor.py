"""Exact trace norms: equal to singular values of the whole matrix, with gradients, and never above the optimum."""

from itertools import combinations
from math import exp, inf, log1p

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, seed, settings
from hypothesis import strategies as st

import leastnoise as ln
from leastnoise._types import Array
from leastnoise.planning import certificate
from leastnoise.planning.block_trace import building_work
from leastnoise.planning.design import Question
from leastnoise.planning.factorization import workload_matrix
from leastnoise.planning.objective import Objective, query_weights
from leastnoise.planning.pair_blocks import Arrowhead, complement
from leastnoise.planning.pair_trace import PairTrace
from leastnoise.planning.sector_trace import SectorTrace, trace_of
from leastnoise.planning.structure import build_structure
from leastnoise.planning.symmetric_trace import SymmetricTrace
from leastnoise.planning.trace_floor import (
    CLOSE,
    CLOSE_STEP,
    KIND,
    exact_trace_floor,
    start_weights,
)
from leastnoise.planning.triple_bound import TripleBound, expansion_factor
from leastnoise.planning.weight_ascent import SEARCH_STEP
from leastnoise.workload import Workload
from leastnoise.workload.tensors import RandomTensor
from tests.catalogue import FAMILIES, generator, ordered
from tests.covering import examples
from tests.oracles import SDP, least_sum, row_weights

BUDGET = ln.Budget(mu=1)
KINDS = ["marginal", "prefix", "suffix", "range", "circular", "total"]
CELLS = 260  # of the domains on which whole matrices are decomposed


def question_of(work: Workload) -> Question:
    structure = build_structure(work)
    return Question(structure, query_weights(structure, Objective(1.0)), structure.stated)


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

    @property
    def room(self) -> float:
        """To which share a rule may agree: of singular matrices it leaves out what rounding hides, near 2^-26."""
        return 1e-9 if np.linalg.matrix_rank(self.rows) == self.rows.shape[1] else 1e-8

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


def check_trace(kind: type[PairTrace | SymmetricTrace], work: Workload, seed: int) -> None:
    """The trace is that of the whole matrix, at random weights, and its bound is below it."""
    question = question_of(work)
    per_class, per_attribute = weights_of(question, seed)
    model = kind(question, [np.sqrt(s) for s in per_class])
    whole = Whole(work)
    exact = whole.trace(per_attribute)
    assert model.nodes(0.8).trace == pytest.approx(exact, rel=whole.room)
    assert exact * (1 - 1e-5) <= model.trace(1.5) <= exact * (1 + 1e-9)


@pytest.mark.long
@given(work=workloads(), seed=st.integers(0, 999))
@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
def test_trace_is_that_of_the_whole_matrix(work, seed):
    check_trace(PairTrace, work, seed)


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


@pytest.mark.long
@given(work=workloads(most_ways=5), seed=st.integers(0, 999))
@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
def test_trace_of_tables_on_any_number_of_attributes_is_that_of_the_whole_matrix(work, seed):
    """Several families and tables that are no products, on classes of any size."""
    check_trace(SymmetricTrace, work, seed)


@pytest.mark.parametrize("ways", [[4], [1, 2, 3, 4], [5], [2, 6]])
@pytest.mark.parametrize("kinds", [["prefix"], ["prefix", "range"], ["marginal", "suffix"]])
@pytest.mark.parametrize("sizes", [(2,) * 6, (2,) * 7, (3,) * 5, (3, 2, 3, 2, 2, 2), (1, 2, 2, 3, 3), (2, 3, 3, 4)])
def test_trace_of_many_like_attributes_is_that_of_the_whole_matrix(sizes, kinds, ways):
    work = Workload(ordered(*sizes))
    for k, kind in enumerate(kinds):
        work = work.add(kind, ways=[w for w in ways if w <= len(sizes)] or [len(sizes)], weight=1 + 2 * k)
    question = question_of(work)
    per_class, per_attribute = weights_of(question, len(sizes))
    model, exact = SymmetricTrace(question, [np.sqrt(s) for s in per_class]), Whole(work).trace(per_attribute)
    assert model.nodes(0.8).trace == pytest.approx(exact, rel=1e-9)
    assert exact * (1 - 1e-5) <= model.trace(1.5) <= exact * (1 + 1e-9)


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
    check_trace(SymmetricTrace, work, seed)


def test_slopes_of_triples_are_differences_of_traces():
    question = question_of(Workload(ordered(3, 3, 3)).prefix(ways=3).ranges(ways=2))
    root = np.sqrt(generator(5).dirichlet(np.ones(3)))
    result, h = SymmetricTrace(question, [root]).slopes(1.0), 1e-3
    whole, step = Whole(question.structure.workload), generator(6).normal(size=3) * root**2
    up, down = (whole.trace([root**2 + sign * h * step, root**2, root**2]) for sign in (1, -1))
    assert float(result.per_class[0] @ step) == pytest.approx((up - down) / h, rel=1e-3, abs=1e-3 * result.trace)


# Products of three attributes that are not alike: a bound


@st.composite
def products(draw: st.DrawFn, cells: int = CELLS, most_ways: int = 3) -> Workload:
    """One family for each attribute, in all tables of up to three of them; some attributes are alike."""
    like = draw(st.booleans())
    sizes = [draw(st.integers(1, 4))] * draw(st.integers(3, 5)) if like else []
    sizes = sizes or draw(st.lists(st.integers(1, 6), min_size=3, max_size=5))
    assume(int(np.prod(sizes)) <= cells)
    work = Workload(ordered(*sizes))
    kind = draw(st.sampled_from(KINDS))
    kinds = {n: kind if like else draw(st.sampled_from(KINDS)) for n in work.domain.names}
    most = min(most_ways, len(sizes))
    for ways in range(1, most + 1):
        if ways == most or draw(st.booleans()):
            weight = draw(st.floats(0.05, 20))
            if like and kind != "total":
                work = work.add(kind, ways=ways, weight=weight)
            else:
                for on in combinations(work.domain.names, ways):
                    work = work.add({n: kinds[n] for n in on}, weight=weight)
    return work


@pytest.mark.long
@given(work=products(), seed=st.integers(0, 999), core=st.sampled_from([0, 4, 20, 2_000]))
@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
def test_bound_is_below_the_trace_of_the_whole_matrix_and_equal_to_it_with_a_large_core(work, seed, core):
    question = question_of(work)
    assert TripleBound.covers(question)
    per_class, per_attribute = weights_of(question, seed)
    model = TripleBound(question, [np.sqrt(s) for s in per_class], core=core)
    value, exact = model.trace(1.5), Whole(work).trace(per_attribute)
    assert value <= exact * (1 + 1e-9)
    if core == 2_000:
        assert value >= exact * (1 - 1e-5)


@pytest.mark.parametrize("core", [0, 100, 400])
def test_bound_is_close_with_a_small_core(core):
    question = question_of(Workload(ordered(12, 12, 12, 12)).prefix(ways=[1, 2, 3]))
    root = np.sqrt(np.full(12, 1 / 12))
    exact = SymmetricTrace(question, [root]).nodes(1.5).trace
    value = TripleBound(question, [root], core=core).trace(1.5)
    assert exact * (1 - {0: 0.1, 100: 0.01, 400: 1e-3}[core]) <= value <= exact * (1 + 1e-9)


@pytest.mark.long
@pytest.mark.parametrize("core", [0, 4, 60])
@pytest.mark.parametrize("sizes", [(2, 3, 4), (4, 5, 6), (3, 3, 3, 4)])
def test_what_a_bound_may_lose_covers_the_trace(sizes, core):
    work = Workload(ordered(*sizes)).prefix(ways=[1, 2, 3])
    per_class, per_attribute = weights_of(question := question_of(work), 7)
    model = TripleBound(question, [np.sqrt(s) for s in per_class], core=core)
    value, exact = model.trace(1.5), Whole(work).trace(per_attribute)
    assert value <= exact * (1 + 1e-9)
    assert exact * (1 - 2e-6) <= value + model.lost <= exact * 1.2
    if core == 60:
        assert model.lost <= 5e-3 * exact


@given(rho=st.floats(1e-6, 0.999), x=st.floats(0, 5))
def test_expansion_of_the_logarithm_is_below_it(rho, x):
    c = expansion_factor(rho)
    assert all(log1p(y) >= y - c * y * y - 1e-12 for y in (x, -rho * min(x, 1.0), -rho))


# Attributes that do not couple


@pytest.mark.long
@given(work=products(), seed=st.integers(0, 999))
@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
def test_sectors_add_up_to_the_whole_matrix(work, seed):
    """With uniform weights on attributes of marginals, circular ranges and totals."""
    question = question_of(work)
    per_class, _ = weights_of(question, seed)
    for slot in question.structure.slots:
        if str(slot.family) in ("Marginal()", "Circular()", "Total()"):
            size = len(per_class[slot.cls])
            per_class[slot.cls] = np.full(size, 1 / size)
    model = SectorTrace(question, [np.sqrt(s) for s in per_class])
    if not model.complete:
        return
    of = question.structure.class_of
    exact = Whole(work).trace([per_class[of[a]] for a in range(len(of))])
    assert exact * (1 - 1e-5) <= model.trace(1.5) <= exact * (1 + 1e-9)
    if model.exact:
        assert model.constant + sum(n * part.nodes(0.8).trace for n, part in model.parts) == pytest.approx(exact, 1e-9)


def test_marginals_are_split_off():
    domain = ln.Domain.of(a=range(4), b=range(5), c=["x", "y", "z"], d=["u", "v"])
    question = question_of(Workload(domain).hybrid(ways=[1, 2, 3]))
    roots = [np.sqrt(np.full(c.size, 1 / c.size)) for c in question.structure.classes]
    model = trace_of(question, roots)
    assert isinstance(model, SectorTrace)
    assert all(isinstance(part, PairTrace) for _, part in model.parts)
    exact = Whole(question.structure.workload).trace([root**2 for root in roots])
    assert model.trace(1.0) == pytest.approx(exact, rel=1e-8)


def test_questions_without_a_trace_are_known():
    like, root = Workload(ordered(3, 3, 3)), np.sqrt(np.full(3, 1 / 3))
    assert trace_of(question_of(Workload(ordered(*[30] * 6)).prefix(ways=5)), [np.full(30, 30**-0.5)]) is None
    assert isinstance(trace_of(question_of(like.prefix(ways=3).ranges(ways=3)), [root]), SymmetricTrace)
    assert isinstance(trace_of(question_of(like.prefix(ways=[0, 1, 2])), [root]), PairTrace)


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


def test_weights_of_the_leading_sector_raise_the_floor_of_triples(monkeypatch):
    monkeypatch.setattr(SymmetricTrace, "work", inf)  # as if attributes were too large for it
    domain = ln.Domain.of(a=range(4), b=range(5), c=range(6), d=["x", "y", "z"])
    plan = ln.plan(Workload(domain).hybrid(ways=[1, 2, 3]), BUDGET, baseline="uniform")
    assert plan.floor.kind.startswith("optimum over all factorization mechanisms")
    roots = [np.sqrt(s) for s in start_weights(plan.design)]
    first = trace_of(plan.design.question, roots)
    assert isinstance(first, SectorTrace)
    assert isinstance(first.leading(SEARCH_STEP), PairTrace)
    floor = exact_trace_floor(plan.design, 1e12)
    assert floor is not None
    assert floor[1] == CLOSE
    assert 1.001 * first.trace(CLOSE_STEP) ** 2 < floor[0] <= plan.floor.value * (1 + 2e-5)


def test_floor_is_left_out_where_it_is_too_much_work():
    plan = ln.plan(Workload(ordered(4, 4, 4)).prefix(ways=2), BUDGET)
    assert exact_trace_floor(plan.design, 1.0) is None
    one, more = (exact_trace_floor(plan.design, work) for work in (1e7, 1e12))
    assert one is not None
    assert more is not None
    assert one[0] <= more[0] * (1 + 1e-6)
    assert more[0] <= plan.outcome.value


SMALL = st.one_of(
    workloads(cells=20),
    workloads(most_ways=4, cells=27),
    products(cells=32, most_ways=4),
    like_attributes(cells=27),
    products(cells=27),
)
NO_LIMITS = [HealthCheck.too_slow, HealthCheck.filter_too_much]


def check_floor(work: Workload) -> None:
    """Below the least summed variance of all factorization mechanisms, which is computed on the whole domain."""
    plan = ln.plan(work, BUDGET, baseline="uniform")
    best = least_sum(certificate.full_gram(plan.design.question))
    floor = exact_trace_floor(plan.design, 1e12)
    assert floor is not None
    assert floor[0] <= best * (1 + SDP)
    assert floor[0] >= exp(-4) * best


@pytest.mark.long
@given(work=SMALL)
@settings(max_examples=10, suppress_health_check=NO_LIMITS)
def test_floor_is_never_above_the_optimum(work):
    check_floor(work)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_floor_is_never_above_the_optimum_of_three_hundred_workloads(part):
    rules = settings(max_examples=30, derandomize=False, database=None, suppress_health_check=NO_LIMITS)
    seed(part)(rules(given(work=SMALL)(check_floor)))()


def test_queries_that_cancel_along_the_weights_have_a_floor():
    """Contrasts have nothing on 0; the scale of the rule must come from elsewhere."""
    work = Workload(ordered(2, 2)).matrix(np.array([[1.0, -1.0, -1.0, 1.0]]), "a", "b")
    floor = exact_trace_floor(ln.plan(work, BUDGET).design, 1e10)
    assert floor is not None
    assert floor[0] == pytest.approx(1, rel=1e-4)


def test_slopes_that_rounding_takes_do_not_take_the_floor():
    """Affine queries beside the total: at a small t the matrix is singular, and the ascent cannot go on."""
    work = Workload(ordered(4, 4)).add("marginal", ways=0, weight=2).affine(ways=2)
    design = ln.plan(work, BUDGET, baseline="uniform").design
    floor = exact_trace_floor(design, 1e12)
    assert floor is not None
    assert floor[0] <= least_sum(certificate.full_gram(design.question)) * (1 + SDP)


def test_rows_of_many_unlike_tables_are_not_built_for_a_floor_beside_the_plan(monkeypatch):
    """28 weighted tables of 1,000 random rows on 900 cells: a minute, where the plan solves one problem."""
    work = Workload(ln.Domain.of(**{a: range(30) for a in "abcdefgh"}))
    for i, pair in enumerate(combinations("abcdefgh", 2)):
        work = work.random(*pair, count=1_000, weight=1 + i % 5)
    design = ln.plan(work, BUDGET, solver="eigen", baseline="uniform").design
    monkeypatch.setattr(RandomTensor, "root", None)  # must not be asked for
    assert exact_trace_floor(design, certificate.QUICK_WORK) is None


def test_rows_of_like_tables_are_built_once(monkeypatch):
    work = Workload(ln.Domain.of(a=7, b=7, c=7, d=7))
    for i, pair in enumerate(combinations("abcd", 2)):
        work = work.random(*pair, count=100, weight=1 + i)
    question = question_of(work)
    built, root = [], RandomTensor.root
    monkeypatch.setattr(RandomTensor, "root", lambda self, shape: built.append(shape) or root(self, shape))
    assert trace_of(question, [np.full(7, 7**-0.5) for _ in question.structure.classes]) is not None
    assert built == [(7, 7)]


def test_large_pairs_with_several_tables_are_decomposed_on_request_only():
    """Marginals and prefix queries on 48 x 48 values: a quarter of a minute for the floor of a plan of a second."""
    work = Workload(ln.Domain.of(a=range(48), b=range(48))).marginals("a", "b").prefix("a", "b")
    question = question_of(work)
    assert certificate.QUICK_WORK < building_work(question) < certificate.EVALUATE_WORK
    assert building_work(question_of(Workload(ln.Domain.of(a=range(48), b=range(48))).prefix("a", "b"))) == 0
    assert building_work(question_of(Workload(ordered(20, 20)).marginals("a", "b").prefix("a", "b"))) < 1e9
