"""Ours, theirs, the floor and the distance of each: published workloads, with the peers' own code run beside ours.

RMSE of all queries at privacy cost 1. Ours and every peer plan in a new process of their own; the floor is ours and
holds for every factorization mechanism. First, on tiny domains, cost and variance of what each peer measures are
recomputed from their definitions. A value below the floor is flagged: nothing can be there, so it is an error of
theirs, of the printed figure, or of the floor. The run fails if ours is worse than a value that is possible, or if a
measured value is below the floor; printed ones below it need an explanation.

Peers must be on the module path (PYTHONPATH), with what they need; those that are not there are left out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bench.alone import Limits, Run
from bench.common import Column, Measured, Report, measure, parser
from bench.floor_cases import Case, Question, cases, pairs, tables
from bench.peer_plans import PEERS, Outcome, Peer, chosen, plan_alone, rmse_of

COLUMNS = (
    Column("source", "source".rjust(9)),
    Column("workload", "workload".rjust(20)),
    Column("mechanism", "mechanism".rjust(12)),
    Column("value", "RMSE", ".3f"),
    Column("distance", "above", ".2%"),
    Column("floor", "floor", ".3f"),
    Column("printed", "printed", ".3f"),
    Column("printed_distance", "above", ".2%"),
    Column("ratio", "/ ours", ".4f"),
    Column("seconds", "s", ".2f"),
    Column("cpu", "cpu s", ".2f"),
    Column("memory_mb", "MB", ".0f"),
    Column("remark", "remark"),
)
WORSE = 2e-5  # relative: twice the gap at which our solver stops
BELOW = 1e-6  # relative: rounding of a floor that is met
SAME = 1e-5  # relative: theirs from the definition; barriers end that much below the cost that is allowed
BELOW_FLOOR = "BELOW THE FLOOR"
EXPLAINED = {  # printed below the floor; docs/errata.md
    ("RP+ files", "RP+"): "variance of noise with covariance S S^T, cost of independent noise",
}


def main(argv: Sequence[str] | None = None) -> int:
    p = parser(__doc__, baseline="search")
    p.add_argument("--sources", nargs="+", help="only these, such as 'table 2' (all)")
    p.add_argument("--only", nargs="+", help="only workloads with one of these in their name")
    p.add_argument("--peers", nargs="*", choices=[peer.name for peer in PEERS], help="only these (all on the path)")
    p.add_argument("--limit", type=float, default=600, help="seconds after which a peer is stopped")
    p.add_argument("--memory", type=float, default=8, help="GB that a peer may take")
    options = p.parse_args(argv)
    limits = Limits(options.limit, options.memory)
    there = [peer for peer in chosen(options.peers) if peer.available()]
    for peer in chosen(options.peers):
        if peer not in there:
            print(f"floor_peers: {peer.name} is left out, because {peer.source} is not on the module path")
    report = Report("floor_peers", options, COLUMNS, "RMSE at privacy cost 1 and its distance from the floor")
    for peer in there:
        check_conversion(report, peer, limits)
    for case in wanted(options.sources, options.only):
        compare(report, case, there, limits)
    report.require(bool(report.figures), "no workload has this source and name")
    return report.finish()


def wanted(sources: Sequence[str] | None, only: Sequence[str] | None) -> Iterator[Case]:
    """Workloads by source and by parts of their names."""
    for case in cases():
        if sources is not None and case.source not in sources:
            continue
        if only is None or any(part in case.name for part in only):
            yield case


TINY = (  # domains on which QuerySmasher does not take its complex solver
    Question((4, 5, 6), tables(["prefix"] * 3, [1, 2])),
    Question((4, 5, 6), tables(["marginal", "prefix", "range"], [1, 2, 3])),
    Question((4, 5, 6), tables(["marginal"] * 3, [1, 2])),
    Question((4, 5), (*tables(["prefix"] * 2, [1]), *pairs("affine", 2))),
)


def check_conversion(report: Report, peer: Peer, limits: Limits) -> None:
    """What a peer says must be what follows from its measurements by the definitions of cost and variance."""
    for question in TINY:
        if not peer.refuses(question):
            run = plan_alone(peer, question, limits, dense=True)
            off = conversion_error(question, run)
            text = f"{peer.name} on {list(question.sizes)}, {question.queries} queries"
            print(f"{text}: {run.failure or f'from its measurements by definition, off by {off:.1e}'}", flush=True)
            report.require(abs(off) <= SAME, f"{text}: what it says is off by {off:.1e} {run.failure}")


def conversion_error(question: Question, run: Run[Outcome]) -> float:
    """How far the RMSE by definition is from what is said, relatively."""
    if run.result is None or run.result.precision is None:
        return float("inf")
    said = run.result.rmse(question.queries)
    return rmse_of(question.gram(), run.result.precision, question.queries) / said - 1


@dataclass(frozen=True)
class Bounds:
    """What all values of a workload are held against."""

    floor: float
    ours: float

    def is_possible(self, value: float, rounding: float = 0.0) -> bool:
        """Whether a factorization mechanism can have it."""
        return value + rounding >= self.floor * (1 - BELOW)

    def is_beaten(self, value: float, rounding: float = 0.0) -> bool:
        """Whether a value is possible and better than ours."""
        return self.is_possible(value, rounding) and value + rounding < self.ours * (1 - WORSE)


def compare(report: Report, case: Case, peers: Sequence[Peer], limits: Limits) -> None:
    """All rows of one workload."""
    options = report.options
    assert case.question.queries == case.workload.queries, f"{case.label}: theirs are not our queries"
    mine = measure(case.workload, fresh=True, gap=options.gap, baseline=options.baseline, certify=options.certify)
    bounds = Bounds(mine.floor, mine.value)
    report.add(ours_row(case, mine))
    for peer in PEERS:
        run = attempt(peer, case.question, limits) if peer in peers else None
        if run is not None or peer.name in case.printed:
            row = peer_row(case, peer.name, run, bounds)
            report.add(row)
            check(report, case, row, bounds)


def attempt(peer: Peer, question: Question, limits: Limits) -> Run[Outcome] | None:
    """A run, or a reason why there is none; nothing where its queries are of another kind."""
    if reason := peer.refuses(question):
        return None if reason in ("marginals only",) else Run(None, 0.0, 0.0, 0.0, reason)
    return plan_alone(peer, question, limits)


def ours_row(case: Case, mine: Measured) -> dict[str, Any]:
    """Our value and the floor."""
    row = {"source": case.source, "workload": case.name, "mechanism": "ours", "value": mine.value, "floor": mine.floor}
    row |= {"distance": mine.value / mine.floor - 1, "ratio": 1.0, "queries": case.workload.queries}
    row |= {"seconds": mine.seconds, "cpu": mine.cpu, "memory_mb": mine.memory_mb}
    return row | {"remark": f"floor {mine.certify_cpu:.0f} s, {mine.certify_mb:.0f} MB" if mine.certify_cpu else ""}


def peer_row(case: Case, name: str, run: Run[Outcome] | None, bounds: Bounds) -> dict[str, Any]:
    """What a peer measured in this run, and what is printed for it."""
    row: dict[str, Any] = {"source": case.source, "workload": case.name, "mechanism": name, "floor": bounds.floor}
    remarks = []
    if run is not None and run.result is not None:
        row["value"] = run.result.rmse(case.question.queries)
        row |= {"distance": row["value"] / bounds.floor - 1, "ratio": row["value"] / bounds.ours}
        row |= {"seconds": run.seconds, "cpu": run.cpu, "memory_mb": run.memory_mb}
        remarks.append(run.result.remark)
        if not bounds.is_possible(row["value"]):
            remarks.append(f"measured value {BELOW_FLOOR}")
    elif run is not None:
        remarks.append(run.failure)
    else:
        remarks.append("not available")
    if (printed := case.printed.get(name)) is not None:
        row |= {"printed": printed, "printed_distance": printed / bounds.floor - 1}
        if not bounds.is_possible(printed, case.rounding):
            why = EXPLAINED.get((case.source, name), "no explanation")
            remarks.append(f"printed value {BELOW_FLOOR}: {why}")
    return row | {"remark": "; ".join(r for r in remarks if r)}


def check(report: Report, case: Case, row: dict[str, Any], bounds: Bounds) -> None:
    """No measured value below the floor, none printed there without an explanation, and none better than ours."""
    label = f"{case.label}, {row['mechanism']}"
    for what, key, rounding in (("measured", "value", 0.0), ("printed", "printed", case.rounding)):
        if (value := row.get(key)) is None:
            continue
        explained = key == "printed" and (case.source, row["mechanism"]) in EXPLAINED
        possible = bounds.is_possible(value, rounding) or explained
        report.require(possible, f"{label}: {what} {value:.6f} is below the floor {bounds.floor:.6f}")
        text = f"{label}: {what} {value:.6f} is better than ours {bounds.ours:.6f}"
        report.require(not bounds.is_beaten(value, rounding), text)


if __name__ == "__main__":
    sys.exit(main())
