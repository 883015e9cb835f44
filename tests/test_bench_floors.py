"""Peers beside the floor: the same queries for everybody, RMSE from its definition, and what a run makes of a value."""

import time
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bench import floor_peers, workloads
from bench.alone import Limits, Run
from bench.common import Report
from bench.floor_cases import (
    Case,
    Question,
    all_of,
    cases,
    hybrid_question,
    mixed_question,
    one_and_two_way_question,
    tables,
)
from bench.floor_peers import BELOW_FLOOR, Bounds, check, conversion_error, peer_row
from bench.peer_plans import PEERS, Outcome, Peer, plan_alone, rmse_of
from leastnoise import Budget, Domain, Workload, plan, sized
from leastnoise.planning.factorization import workload_matrix
from tests.benches import run

ORDERED = sized(4, ordered=True)
HYBRID = Workload(Domain.of(c0=sized(3), n0=ORDERED, n1=sized(2, ordered=True))).hybrid(ways=[1, 3])
SAME = {
    "hybrid": (HYBRID, hybrid_question(HYBRID, [1, 3])),
    "mixed": (workloads.mixed(3, 3), mixed_question(3, 3)),
    "product": all_of("range", 3, 3, [3]),
} | {
    kind: (workloads.one_and_two_way(kind, 4, 3), one_and_two_way_question(kind, 4, 3))
    for kind in workloads.KINDS
    if kind != "random"
}


@pytest.mark.parametrize("name", SAME)
def test_peers_are_asked_the_same_queries(name):
    work, question = SAME[name]
    rows = workload_matrix(work)
    assert question.queries == work.queries == len(rows)
    assert_allclose(question.gram(), rows.T @ rows)


def test_unequal_sizes_of_pairs_are_the_same_queries():
    for kind in ("affine", "abs_diff"):
        work = Workload(Domain.of(a=ORDERED, b=sized(6, ordered=True))).add(kind, ways=2)
        rows = workload_matrix(work)
        table = replace(tables(["prefix"] * 2, [2])[0], kinds=(kind,))
        assert_allclose(Question((4, 6), (table,)).gram(), rows.T @ rows)


def test_every_published_workload_has_as_many_queries():
    found = list(cases())
    assert len({case.label for case in found}) == len(found)
    assert all(case.question.queries == case.workload.queries for case in found)


@pytest.mark.parametrize("name", SAME)
def test_rmse_by_definition_is_that_of_our_plans(name):
    work, question = SAME[name]
    new_plan = plan(work, Budget(mu=1))
    made = new_plan.factorization()
    precision = made.B.T @ np.linalg.inv(made.Sigma) @ made.B
    ratio = rmse_of(question.gram(), precision, question.queries) / new_plan.rmse
    # a plan pays for the largest column of each residual; they are of one length, and so in one cell, up to the gap
    assert 1 - max(new_plan.gap, 1e-9) <= ratio <= 1 + 1e-9


def test_rmse_by_definition_does_not_depend_on_the_scale():
    question = Question((3,), tables(["prefix"], [1]))
    for scale in (0.25, 1.0, 9.0):  # noise on every value: the variances of prefixes are 1, 2 and 3
        assert rmse_of(question.gram(), scale * np.eye(3), 3) == pytest.approx(sqrt(2))


def test_measurements_that_leave_queries_open_are_refused():
    with pytest.raises(ValueError, match="do not answer all queries"):
        rmse_of(np.eye(3), np.ones((3, 3)), 3)


def test_what_a_peer_says_is_compared_with_the_definition():
    question = Question((3,), tables(["prefix"], [1]))
    right = Run(Outcome(6.0, np.eye(3)), 0.0, 0.0, 0.0)
    assert conversion_error(question, right) == pytest.approx(0)
    assert conversion_error(question, replace(right, result=Outcome(24.0, np.eye(3)))) == pytest.approx(-0.5)
    assert conversion_error(question, replace(right, result=None)) == np.inf


# --- what a run makes of a value -------------------------------------------------------------------------------------

BOUNDS = Bounds(floor=2.0, ours=2.1)
WORK, QUESTION = all_of("prefix", 2, 2, [1])


def verdict(value: float | None, printed: float | None, source: str = "table 4") -> tuple[str, list[str]]:
    """The remark, and the failures."""
    case = Case(source, "x", WORK, QUESTION, {} if printed is None else {"RP+": printed}, rounding=0.005)
    measured = None if value is None else Run(Outcome(value**2 * QUESTION.queries), 1.0, 1.0, 10.0)
    row = peer_row(case, "RP+", measured, BOUNDS)
    report = Report("test", floor_peers.parser(None).parse_args([]), floor_peers.COLUMNS)
    report.add(row)
    check(report, case, row, BOUNDS)
    return row["remark"], report.failures


def test_possible_values_that_are_worse_pass():
    assert verdict(2.2, 2.3) == ("", [])
    assert verdict(2.1 * (1 - 1e-6), 2.1) == ("", [])  # as good as ours, to our own gap
    assert verdict(None, 2.3) == ("not available", [])


def test_ours_must_not_be_worse_than_a_possible_value():
    for value, printed in ((2.05, None), (None, 2.05)):
        _, (failure,) = verdict(value, printed)
        assert "is better than ours" in failure
    assert verdict(None, 2.097) == ("not available", [])  # printed to two decimals


def test_values_below_the_floor_are_flagged_and_never_better_than_ours():
    remark, (failure,) = verdict(1.9, None)
    assert remark == f"measured value {BELOW_FLOOR}"
    assert "measured 1.900000 is below the floor 2.000000" in failure
    remark, (failure,) = verdict(None, 1.9)
    assert f"printed value {BELOW_FLOOR}: no explanation" in remark
    assert "printed 1.900000 is below the floor" in failure


def test_explained_figures_below_the_floor_are_flagged_and_pass():
    remark, failures = verdict(2.2, 1.9, source="RP+ files")
    assert f"printed value {BELOW_FLOOR}: variance of noise" in remark
    assert failures == []
    _, failures = verdict(
        1.9, None, source="RP+ files"
    )  # an explanation is of what is printed, not of what is measured
    assert failures


# --- runs ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fake(Peer):
    """A peer for tests."""

    delay: float = 0.0
    error: str = ""
    name = "fake"
    modules = ("json",)
    source = "nowhere/fake"

    def refuses(self, question):
        return ""

    def plan(self, question, dense=False):
        time.sleep(self.delay)
        if self.error:
            raise ValueError(self.error)
        return Outcome(4.0 * question.queries)


def test_peers_run_alone_with_time_and_memory():
    found = plan_alone(Fake(), QUESTION, Limits())
    assert found.result.rmse(QUESTION.queries) == 2
    assert 0 <= found.seconds < 60
    assert found.memory_mb > 10


def test_peers_that_fail_or_take_too_long_leave_a_row():
    assert plan_alone(Fake(error="no luck"), QUESTION, Limits()).failure == "ValueError: no luck"
    assert plan_alone(Fake(delay=60), QUESTION, Limits(seconds=0.2)).failure == "stopped after 0 s"


def test_peers_that_are_not_on_the_path_are_left_out(capsys, monkeypatch):
    for peer in PEERS:
        monkeypatch.setattr(type(peer), "available", lambda self: False)
    assert floor_peers.main(["--sources", "RP+ files", "--only", "prefix 5-way [2]^5"]) == 0
    out = capsys.readouterr().out
    for peer in PEERS:
        assert f"{peer.name} is left out, because {peer.source} is not on the module path" in out
    assert f"not available; printed value {BELOW_FLOOR}" in out


def test_no_workload_of_that_name_fails(capsys):
    code, document = run("floor_peers", "--peers --only nothing", capsys)
    assert (code, document["ok"]) == (1, False)
