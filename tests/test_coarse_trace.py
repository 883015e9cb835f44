"""The trace of a coarse copy: it ranks weights as the workload itself does."""

from math import inf

import numpy as np
import pytest

import leastnoise as ln
from leastnoise import Workload
from leastnoise.planning import trace_floor
from leastnoise.planning.coarse_trace import coarse_trace
from leastnoise.planning.design import no_progress
from leastnoise.planning.sector_trace import SectorTrace, trace_of
from leastnoise.planning.symmetric_trace import SymmetricTrace
from leastnoise.planning.trace_floor import start_weights
from leastnoise.planning.weight_ascent import weight_root
from tests.catalogue import ordered
from tests.test_trace_floor import Whole, question_of

DOMAIN = ln.Domain.of(**{n: ln.sized(k, ordered=True) for n, k in (("a", 8), ("b", 8), ("c", 7))}, d=ln.sized(3))


def test_copies_of_like_attributes_rank_weights_as_the_workload_does():
    """A copy with half the values, at weights that are ever further from those of the start."""
    work = Workload(ordered(8, 8, 8)).prefix(ways=3)
    design = ln.plan(work, ln.Budget(mu=1)).design
    (start,) = start_weights(design)
    tilted = [start * np.exp(k * np.linspace(-1, 1, 8)) for k in (0, 0.5, 1, 2)]
    weights = [s / s.sum() for s in tilted]
    exact = [Whole(work).trace([s] * 3) for s in weights]
    coarse = [coarse_trace(design.question, [s], bins=4) for s in weights]
    assert exact == sorted(exact, reverse=True)
    assert coarse == sorted(coarse, reverse=True)


@pytest.mark.parametrize(
    "work",
    [
        Workload(ordered(8, 8, 8)).marginals(ways=3),
        Workload(ordered(8, 8)).affine(ways=2),
        Workload(ordered(3, 3, 3)).prefix(ways=3),
        Workload(ordered(8, 8)).matrix(np.eye(8), "a"),
    ],
)
def test_other_queries_and_small_attributes_have_no_copy(work):
    question = question_of(work)
    uniform = [np.full(c.size, 1 / c.size) for c in question.structure.classes]
    assert coarse_trace(question, uniform, bins=4) is None


@pytest.mark.long
def test_weights_of_a_sector_are_taken_where_they_serve_all(monkeypatch):
    """Beside a marginal, the weights that serve pairs best serve triples worse: here those of the start are kept."""
    design = ln.plan(Workload(DOMAIN).hybrid(ways=3), ln.Budget(mu=1)).design
    whole, of = Whole(design.structure.workload), design.structure.class_of
    roots = [weight_root(s) for s in start_weights(design)]
    with monkeypatch.context() as large:
        large.setattr(SymmetricTrace, "work", inf)  # as if attributes were too large for it
        first = trace_of(design.question, roots)
    assert isinstance(first, SectorTrace)

    def climbed(bins: int | None) -> float:
        monkeypatch.setattr(trace_floor, "coarse_trace", lambda q, w: bins and coarse_trace(q, w, bins))
        found = trace_floor._climbed(design.question, roots, first, 1e12, no_progress).roots
        return whole.trace([found[of[a]] ** 2 for a in range(len(of))])

    assert climbed(None) < climbed(3)
    assert climbed(3) == pytest.approx(whole.trace([roots[of[a]] ** 2 for a in range(len(of))]), rel=1e-12)
