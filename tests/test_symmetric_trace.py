"""Functions of like attributes by kind, and traces of tables on many attributes from them."""

from dataclasses import replace
from itertools import pairwise
from math import comb

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import leastnoise as ln
from leastnoise.planning import block_trace, certificate, trace_floor
from leastnoise.planning.block_trace import Block, SumBlock
from leastnoise.planning.design import no_progress
from leastnoise.planning.glued_trace import TILTS, GluedTrace
from leastnoise.planning.like_spaces import Kind, functions
from leastnoise.planning.pair_trace import PairTrace
from leastnoise.planning.sector_trace import SectorTrace
from leastnoise.planning.symmetric_trace import SymmetricTrace
from leastnoise.planning.trace_floor import GLUED, KIND
from leastnoise.workload import Workload
from tests.catalogue import generator, ordered
from tests.covering import examples
from tests.test_trace_floor import BUDGET, Whole, products, question_of, weights_of


def like(n: int, d: int) -> Workload:
    return Workload(ln.Domain.of({f"x{i}": ln.sized(n, ordered=True) for i in range(d)}))


@pytest.mark.parametrize("d", range(1, 9))
def test_kinds_have_all_functions_once(d):
    """Pieri's rule: nothing is missing, and nothing is there twice, also where d is small."""
    for m in (0, 1, 2, 3):
        for r in range(min(d, 4) + 1):
            widths = {kind: functions(kind, m, r).shape[1] for kind in Kind.all(d, r)}
            assert all(kind.width(m, r) == width for kind, width in widths.items())
            assert sum(kind.times * width for kind, width in widths.items()) == comb(d, r) * m**r


def test_dimensions_of_representations():
    assert [Kind(10, parts).times for parts in ((), (1,), (2,), (1, 1), (3,), (2, 1), (1, 1, 1))] == [
        1,
        9,
        35,
        36,
        75,
        160,
        84,
    ]


@pytest.mark.parametrize("n", [2, 6, 12])
def test_pairs_are_as_by_the_code_for_pairs(n):
    question = question_of(like(n, 40).prefix(ways=[1, 2]).abs_diff(ways=2))
    root = [np.sqrt(generator(n).dirichlet(np.ones(n)))]
    mine, theirs = (model(question, root).nodes(1.0).trace for model in (SymmetricTrace, PairTrace))
    assert mine == pytest.approx(theirs, rel=1e-9)


def test_errors_of_sums_are_taken_off(monkeypatch):
    """With errors of a millionth, below all matrices that may be meant, and not far below."""
    monkeypatch.setattr(block_trace, "ROUND", 1e-6)
    rng = generator(1)
    rows = rng.normal(size=(30, 30))
    block = SumBlock(3.0, rows @ rows.T + 0.01 * np.eye(30), (10, 20), rng.uniform(1, 100, size=30))
    value, room = block.measured(0.01)
    sizes = 1e-6 * np.sqrt(np.multiply.outer(block.terms, block.terms))
    for signs in (rng.choice([-1, 1], size=(30, 30)), -np.ones((30, 30))):
        error = np.triu(signs) + np.triu(signs, 1).T
        assert value - room <= replace(block, matrix=block.matrix + error * sizes).log_det(0.01)
    assert (
        value >= block.log_det(0.01) - 3 * 30e-6 * float(np.diagonal(np.linalg.inv(block.matrix)) @ block.terms) * 1.1
    )


def test_inverse_of_a_block_is_summed():
    rows = generator(2).normal(size=(5, 5))
    block = Block(1.0, rows @ rows.T + np.eye(5), (2, 3))
    scale = block._scale
    expected = scale @ np.abs(np.linalg.inv(block.matrix)) @ scale
    assert block._room(np.linalg.cholesky(block.matrix)) == pytest.approx(expected, rel=1e-12)


def test_trace_of_large_blocks_is_a_little_lower():
    model = SymmetricTrace(question_of(like(6, 20).prefix(ways=[1, 4])), [np.full(6, 6**-0.5)])
    exact = model.nodes(1.5).trace
    assert exact * (1 - 2e-6) <= model.trace(1.5) < exact


@pytest.mark.long
@pytest.mark.parametrize(
    ("work", "most"),
    [
        (like(10, 20).prefix(ways=4), 1.006),
        (like(5, 20).prefix(ways=5), 1.006),
        (like(8, 10).prefix(ways=3).ranges(ways=3).affine(ways=2), 1.002),
        (like(10, 20).prefix(ways=3).marginals(ways=3), 1.007),
    ],
)
def test_plans_of_large_tables_are_near_the_floor(work, most):
    plan = ln.plan(work, BUDGET)
    assert plan.floor.kind == KIND
    assert plan.floor_value <= plan.value <= most * plan.floor_value


@pytest.mark.long
@given(work=products(most_ways=4), seed=st.integers(0, 999))
@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
def test_glued_bound_is_below_the_trace_of_the_whole_matrix(work, seed):
    question = question_of(work)
    assert GluedTrace.covers(question)
    per_class, per_attribute = weights_of(question, seed)
    model, exact = GluedTrace(question, [np.sqrt(s) for s in per_class]), Whole(work).trace(per_attribute)
    assert 0.3 * exact <= model.trace(1.5) <= exact * (1 + 1e-9)


def test_glued_bound_of_one_table_is_its_trace():
    question = question_of(Workload(ordered(3, 4, 5)).prefix(ways=3))
    per_class, per_attribute = weights_of(question, 1)
    model = GluedTrace(question, [np.sqrt(s) for s in per_class])
    assert model.trace(1.5) == pytest.approx(Whole(question.structure.workload).trace(per_attribute), rel=1e-8)


def test_glued_bound_is_that_of_the_certificate():
    """The same formula, written for classes there and for the tables of a sector here."""
    design = ln.plan(Workload(ordered(3, 3, 3, 4, 5)).prefix(ways=[1, 3]).marginals(ways=2), BUDGET).design
    uniform = [np.full(c.size, 1 / c.size) for c in design.structure.classes]
    for alpha in TILTS:
        floor = certificate._polar(design.question, uniform, [alpha] * len(design.structure.slots))
        model = GluedTrace(design.question, [np.sqrt(s) for s in uniform])
        assert model._glued(alpha) ** 2 == pytest.approx(floor.value, rel=1e-9)


def test_sectors_that_are_too_large_keep_the_glued_bound():
    domain = ln.Domain.of(a=range(4), b=range(5), c=range(3), d=["x", "y", "z"], e=["x", "y"])
    question = question_of(Workload(domain).hybrid(ways=[1, 2, 3, 4]))
    roots = [np.sqrt(np.full(c.size, 1 / c.size)) for c in question.structure.classes]
    exact, part, none = (SectorTrace(question, roots) for _ in range(3))
    part.lighten(max(p.work for _, p in exact.parts))
    none.lighten(0.0)
    assert exact.exact
    assert part.glued
    assert not part.exact
    values = [model.trace(1.5) for model in (GluedTrace(question, roots), none, part, exact)]
    assert all(low <= high * (1 + 1e-9) for low, high in pairwise(values))
    whole = Whole(question.structure.workload).trace([root**2 for root in roots])
    assert values[-1] == pytest.approx(whole, rel=2e-6)


def test_floors_in_part_glued_say_so(monkeypatch):
    design = ln.plan(Workload(ordered(4, 5, 3)).hybrid(ways=[1, 2, 3]), BUDGET, baseline="uniform").design
    monkeypatch.setattr(SectorTrace, "glued", True)
    roots = [np.sqrt(np.full(c.size, 1 / c.size)) for c in design.structure.classes]
    model = SectorTrace(design.question, roots)
    assert trace_floor._bounded(design.question, roots, model, 1e9, no_progress)[1] == GLUED


def test_what_does_not_fit_is_not_tried():
    root = np.full(30, 30**-0.5)
    assert SymmetricTrace(question_of(like(30, 6).prefix(ways=5)), [root]).work == float("inf")
    unlike = question_of(Workload(ordered(*range(20, 26))).prefix(ways=4))
    assert SymmetricTrace(unlike, [np.full(n, n**-0.5) for n in range(20, 26)]).work == float("inf")
