"""What the paper on Cascade says of the order of mechanisms in its Figures 4, 6, 7 and 8, beside ours.

The figures are drawings without numbers; the text says who is first. A pair in the other order fails the benchmark,
unless it is one that docs/errata.md explains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product

from bench.common import Report, Row, published

LEAST = 2**6  # leaves: the paper's figures start there
Pair = tuple[str, str, int]  # first, after, leaves
# workload, measure, first, after: leaves up to which docs/errata.md, Cascade, has it the other way round, and where
EXPLAINED: dict[tuple[str, str, str, str], tuple[float, str]] = {
    ("node", "total", "wavelet", "eigen"): (float("inf"), "8"),
    ("node", "total", "cascade", "eigen"): (float("inf"), "8"),
    ("node", "worst", "cascade", "eigen"): (2**7, "8"),
    ("node", "worst", "tree2", "eigen"): (2**10, "8"),
    ("random", "total", "gaussian", "wavelet"): (2**8, "9"),
    ("random", "total", "gaussian", "cascade"): (2**7, "9"),
    ("range", "seconds", "cascade", "tree2"): (float("inf"), "10"),
    ("node", "seconds", "cascade", "tree2"): (float("inf"), "10"),
    ("random", "seconds", "cascade", "tree2"): (float("inf"), "10"),
}


def compare_orders(
    report: Report, figures: Sequence[Row], slack: Callable[[Row, str, str], float] = lambda *_: 0.0
) -> None:
    """Print each statement with the sizes at which ours agree, and fail on differences without an explanation.

    `slack` is by how much a value may be above another that should be larger: errors of what is simulated.
    """
    for claim in published("cascade_orders").rows:
        key, least = (claim["workload"], claim["measure"]), claim.get("from", LEAST)
        rows = [f for f in figures if (f["workload"], f["measure"]) == key and f["n"] >= least]
        if not rows:
            continue
        odd = list(_reversed(claim, rows, slack))
        text = f"{' and '.join(claim['first'])} before {', '.join(claim['after'])}"
        sizes = f"{len(rows)} sizes, n = {rows[0]['n']:,} to {rows[-1]['n']:,}"
        label = f"Figure {claim['figure']}, {claim['workload']} {claim['measure']}"
        print(f"{label}: {text}: {_verdict(claim, odd)} ({sizes})")
        for first, after, n in odd:
            most, _ = EXPLAINED.get((claim["workload"], claim["measure"], first, after), (0, ""))
            where = f"{claim['workload']} {n}: {after} is before {first} in {claim['measure']}"
            report.require(n <= most, f"{where}, unlike Figure {claim['figure']}")


def _reversed(claim: Row, rows: Iterable[Row], slack: Callable[[Row, str, str], float]) -> Iterator[Pair]:
    for row in rows:
        for first, after in product(claim["first"], claim["after"]):
            if first in row and after in row and row[first] > row[after] + slack(row, first, after):
                yield first, after, row["n"]


def _verdict(claim: Row, odd: Sequence[Pair]) -> str:
    if not odd:
        return "ours agree"
    pairs = sorted({(a, b) for a, b, _ in odd})
    parts = []
    for a, b in pairs:
        sizes = [n for x, y, n in odd if (x, y) == (a, b)]
        _, number = EXPLAINED.get((claim["workload"], claim["measure"], a, b), (0, "not explained"))
        parts.append(f"{b} before {a} at n = {min(sizes):,} to {max(sizes):,} (errata: {number})")
    return "ours agree but for " + "; ".join(parts)
