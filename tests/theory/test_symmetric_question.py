"""Sample complexity of queries on attributes alike: as with the queries written out, and at any number of them."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.theory import Question, marginal_queries, parity_queries, sample_complexity
from leastnoise.theory.complexity import NEAR
from leastnoise.theory.queries import symmetric_of
from leastnoise.theory.symmetric_question import SymmetricQuestion, tells_apart
from leastnoise.theory.tails import Error
from tests.every import for_every

DELTA = 1e-9
KINDS = ["max", "worst", "rms"]
SMALL = {
    "pairs": marginal_queries(5, 2),
    "parities": parity_queries(5, (1, 2)),
    "three values": marginal_queries(3, 2, values=3),
    "up to pairs": marginal_queries(4, (0, 1, 2)),
}
LARGE = {
    "pairs of 12 bits": marginal_queries(12, 2),
    "triples of 30 bits": marginal_queries(30, 3),
    "up to pairs of 25 bits": marginal_queries(25, (1, 2)),
    "pairs of 15 attributes": marginal_queries(15, 2, values=10),
    "parities of 40 bits": parity_queries(40, (1, 2)),
}


def levels_only(queries, kind, epsilon=1.0, delta=DELTA):
    return SymmetricQuestion((), Fraction(str(epsilon)), delta, Error(kind), False, levels=queries)


def by_class(complexity):
    return {(b.model, b.who, b.privacy): b.people for b in complexity.all}


@pytest.mark.long
@for_every(name=SMALL, kind=KINDS)
def test_bounds_of_levels_agree_with_dense_ones(name, kind):
    """What is enough is the same, but for searches that end at a gap; floors are the same or others, on either side."""
    for alpha in (0.2, 0.01):
        ours, dense = (q.at(alpha) for q in (levels_only(SMALL[name], kind), Question.of(SMALL[name], 1, DELTA, kind)))
        for b in ours.all:
            if b.who.startswith(NEAR):  # a linear program here, a search to a gap of 1% there
                assert b.people <= by_class(dense)[b.model, b.who, b.privacy] * 1.001
            elif b.side == "enough" and b.who != "constants, without data":
                assert by_class(dense)[b.model, b.who, b.privacy] == pytest.approx(b.people, rel=2e-3, abs=1)
            privacy = "epsilon" if b.privacy == "epsilon" else "epsilon and delta"
            members = [o.people for o in dense.all if (o.side, o.model, o.privacy) == ("enough", b.model, privacy)]
            assert b.side == "enough" or b.people <= min(members)


@for_every(name=LARGE, kind=KINDS, epsilon=[0.2, 1.0, 4.0])
def test_floors_of_levels_are_below_every_mechanism(name, kind, epsilon):
    question = levels_only(LARGE[name], kind, epsilon)
    for alpha in (0.3, 0.05, 0.002):
        result = question.at(alpha)
        for model in ("central", "local"):
            assert result.lower(model).people <= result.upper(model).people
            for privacy in ("epsilon and delta", "epsilon"):
                of = [b for b in result.all if b.model == model and b.privacy == privacy]
                enough = [b.people for b in of if b.side == "enough"]
                assert max((b.people for b in of if b.side == "too few"), default=0) <= min(enough, default=np.inf)


def test_tables_of_many_attributes_are_seen_as_levels():
    """12 bits 2-way and more than 20 bits, from a workload, with weights."""
    domain = ln.Domain.of(**{f"b{i}": [0, 1] for i in range(24)})
    work = ln.Workload(domain).marginals(ways=2).marginals(ways=1, weight=4)
    levels = symmetric_of(work)
    assert [(level.ways, level.profile[0], level.count) for level in levels.levels] == [(2, 1, 1104), (1, 2, 48)]
    result = sample_complexity(work, 0.05, epsilon=1, delta=DELTA)
    assert (result.queries, result.cells, result.weighted) == (1152, 2**24, True)
    twelve = sample_complexity(
        ln.Workload(ln.Domain.of(**{f"b{i}": [0, 1] for i in range(12)})).marginals(ways=2), 0.05, epsilon=1
    )
    assert twelve.queries == 264
    for other in (
        ln.Workload(ln.Domain.of(a=range(3), b=range(2))).marginals(ways=1),
        ln.Workload(ln.Domain.of(a=range(3), b=range(3))).prefix("a"),
        ln.Workload(domain).marginals(ways=2).add("marginal", on=["b0"]),
        np.eye(4),
    ):
        assert symmetric_of(other) is None


def test_whole_ranges_tell_values_apart():
    """Against all pairs of values of the queries written out."""
    for queries in SMALL.values():
        level = queries.levels[-1]
        W = type(queries)((level,)).rows()
        cells = np.array(list(product(range(queries.values), repeat=queries.attributes)))
        differ, whole = (cells != cells[0]).sum(axis=1), max(level.profile) - min(level.profile)
        for h in range(1, queries.attributes + 1):
            apart = np.abs(W[:, differ == h] - W[:, [0]]).max(axis=0) >= whole
            assert apart.all() == apart.any() == tells_apart(level, h)
