"""What keeps plans and floors apart: the plan, product weights, or the bound on their trace norm.

On small cubes the optimum over all factorization mechanisms is known, and lies between both. On published domains the
optimum is not known, but how far the trace norm may be above its bound is, and what other product weights give:
those that are tilted (s times exp(x cos(k pi u)) at the share u of all values, renormalized), by the exact trace of a
copy with fewer values for numeric attributes.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.common import Column, Report, parser, peak_memory_mb
from bench.workloads import cube, schema
from leastnoise import Budget, Domain, Workload, plan, sized
from leastnoise._types import Array
from leastnoise.algebra.gram import Dense
from leastnoise.mechanisms.tables.plan import Plan
from leastnoise.planning.certificate import full_gram
from leastnoise.planning.sector_trace import trace_of
from leastnoise.planning.trace_floor import CLOSE_STEP, FINAL_STEP, start_weights
from leastnoise.planning.weight_ascent import weight_root
from leastnoise.strategies.optimal import solve_optimal

COLUMNS = (
    Column("workload", "workload".ljust(24)),
    Column("value", "plan", ".4f"),
    Column("optimum", "optimum", ".4f"),
    Column("floor", "floor", ".4f"),
    Column("distance", "above", ".2%"),
    Column("plan_loss", "plan's", ".3%"),
    Column("floor_loss", "floor's", ".3%"),
    Column("lost", "bound's", ".4%"),
    Column("tilted", "tilts gain", ".4%"),
    Column("seconds", "s", ".0f"),
)


def main(argv: Sequence[str] | None = None) -> int:
    p = parser(__doc__, baseline="search")
    p.add_argument("--cubes", nargs="*", default=["3^4", "3^5", "4^5", "5^4", "6^4"], help="n^d, d prefix attributes")
    p.add_argument("--ways", nargs="+", default=["3"], help='such as "1,2,3"')
    p.add_argument("--datasets", nargs="*", default=[], help="of table 2")
    p.add_argument("--values", nargs="+", type=int, default=[12], help="of numeric attributes; 0: as published")
    p.add_argument("--tilts", type=int, default=0, help="waves k = 0, ..., that weights are tilted by, both ways")
    p.add_argument("--tilt", type=float, default=0.02, help="x, the size of a tilt")
    options = p.parse_args(argv)
    report = Report("product_weights", options, COLUMNS, "RMSE at privacy cost 1")
    for ways in options.ways:
        for name in options.cubes:
            report.add(on_cube(*map(int, name.split("^")), ways, options.gap))
        for dataset in options.datasets:
            for n in options.values:
                report.add(on_dataset(dataset, n, ways, options))
    report.require(all(f["floor"] <= f["value"] for f in report.figures), "a floor is above the plan")
    report.require(all(f.get("floor_loss", 0) > -1e-5 for f in report.figures), "a floor is above the optimum")
    return report.finish()


def on_cube(n: int, d: int, ways: str, gap: float) -> dict[str, Any]:
    """Plan, optimum and product weights on [n]^d, n^d at most some thousand."""
    started = time.perf_counter()
    new = plan(Workload(cube(n, d)).prefix(ways=_ways(ways)), Budget(mu=1), gap=gap)
    gram = full_gram(new.design.question)
    solved = solve_optimal(Dense((n**d,), None, lambda: gram), gap=1e-4)
    floor, lost = product_floor(new, weights_of(new), FINAL_STEP)
    optimum = unit_of(new) * solved.floor**0.5
    figure = _figure(f"[{n}]^{d} {ways}-way", new, floor, lost, started)
    return {**figure, "optimum": optimum, "plan_loss": new.rmse / optimum - 1, "floor_loss": 1 - floor / optimum}


def on_dataset(dataset: str, n: int, ways: str, options: argparse.Namespace) -> dict[str, Any]:
    """Plan and product weights of a published domain, and how much the best of some tilts would gain."""
    started = time.perf_counter()
    new = plan(Workload(copy_of(schema(dataset), n)).hybrid(ways=_ways(ways)), Budget(mu=1), gap=options.gap)
    weights = weights_of(new)
    step = FINAL_STEP if n else CLOSE_STEP
    floor, lost = product_floor(new, weights, step)
    gains = []
    for k in range(1, options.tilts + 1):
        x = options.tilt
        up, down = (product_floor(new, tilted(new, weights, k, e), step)[0] / floor - 1 for e in (x, -x))
        gains.append(best_of(up, down))
    figure = _figure(f"{dataset} {ways}-way, {n or 'all'} values", new, floor, lost, started)
    return figure | ({"tilted": sum(gains), "tilts": gains} if gains else {})


def copy_of(domain: Domain, n: int) -> Domain:
    """The same with n values for numeric attributes (n0, n1, ...); unchanged where n is 0."""
    numeric = {a: a.startswith("n") for a in domain.names}
    sizes = zip(domain.names, domain.shape, strict=True)
    return Domain.of({a: sized(n if n and numeric[a] else m, ordered=numeric[a]) for a, m in sizes})


def _figure(name: str, new: Plan, floor: float, lost: float, started: float) -> dict[str, Any]:
    found = {"workload": name, "value": new.rmse, "floor": floor, "distance": new.rmse / floor - 1, "lost": lost}
    return found | {"seconds": time.perf_counter() - started, "memory_mb": peak_memory_mb()}


def _ways(ways: str) -> list[int]:
    return [int(w) for w in ways.split(",")]


def unit_of(new: Plan) -> float:
    """An RMSE over the root of the summed error."""
    return float(new.rmse / new.outcome.value**0.5)


def weights_of(new: Plan) -> list[Array]:
    """Per class, those that floors start from."""
    return start_weights(new.design)


def product_floor(new: Plan, weights: Sequence[Array], step: float) -> tuple[float, float]:
    """The floor from these product weights, and by which share their trace norm may be above it at most."""
    model = trace_of(new.design.question, [weight_root(s) for s in weights])
    assert model is not None
    trace = model.trace(step)
    return unit_of(new) * trace, model.lost / trace


def tilted(new: Plan, weights: Sequence[Array], k: int, x: float) -> list[Array]:
    """Weights of numeric attributes (n0, n1, ...) times a wave."""
    domain, out = new.workload.domain, []
    for cls, s in zip(new.design.structure.classes, weights, strict=True):
        wave = np.cos(k * np.pi * (np.arange(len(s)) + 0.5) / len(s))
        turned = s * np.exp(x * wave) if domain.names[cls.members[0]].startswith("n") else s
        out.append(turned / turned.sum())
    return out


def best_of(up: float, down: float) -> float:
    """The top of the parabola through (-1, down), (0, 0) and (1, up)."""
    slope, bend = (up - down) / 2, up + down
    return -(slope**2) / (2 * bend) if bend < 0 else max(up, down, 0.0)


if __name__ == "__main__":
    sys.exit(main())
