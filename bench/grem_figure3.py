"""Residuals by steps along the axes against Kronecker products (AIM+GReM Figure 3), and the allocation of a round.

Decomposition takes the residual of a table on all its attributes, reconstruction goes back. Ours: the paper's steps
along the axes. Shuffle: reshape and multiply by one factor at a time. Explicit: the Kronecker product as a matrix. By
default as in the figure: tables of 2 to 7 attributes of 16 values, and of 3 attributes of 2 to 256. Seven attributes
have 268 million cells and need 10 GB. The order must be the published one where a table has a million cells or more:
steps along the axes are faster both ways. For small tables either may be, as published; only calls are timed there.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from functools import reduce
from math import inf
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from bench.common import Column, Row, machine, reached
from leastnoise._types import Array
from leastnoise.algebra.residual import subsets
from leastnoise.mechanisms.adaptive.allocation import LEAST_SHARE, residual_cost, table_error, water_filling

Number = TypeVar("Number", np.int64, np.float64)
LARGEST_EXPLICIT = 4_096  # cells up to which the Kronecker product is written down
LEAST_RATIO, REPEATS = 100, 50
LARGE = 2**20  # cells from which on the order of times must be the published one
PUBLISHED = {"attributes": 3.14, "sizes": 3.75}  # mean ratio of decompositions, where each varies (section 6)
COLUMNS = (
    Column("n", "n", "d"),
    Column("ways", "ways", "d"),
    Column("cells", "cells", ",d"),
    Column("decompose", "ours s", ".6f"),
    Column("decompose_shuffle", "shuffle s", ".6f"),
    Column("decompose_explicit", "explicit s", ".6f"),
    Column("decompose_ratio", "ratio", ".1f"),
    Column("reconstruct", "back s", ".6f"),
    Column("reconstruct_shuffle", "shuffle s", ".6f"),
    Column("reconstruct_explicit", "explicit s", ".6f"),
    Column("reconstruct_ratio", "ratio", ".1f"),
)


def sub(array: npt.NDArray[Number], axis: int) -> npt.NDArray[Number]:
    """Differences to the first entry along an axis, which gets one entry shorter; integers stay integers.

    >>> sub(np.array([14, 19, 23, 44]), axis=0).tolist()
    [5, 9, 30]
    """
    first, rest = np.split(array, [1], axis=axis)
    return rest - first


def unsub(array: npt.ArrayLike, axis: int) -> Array:
    """The vectors of mean zero along an axis whose `sub` is `array`."""
    differences = np.asarray(array, dtype=np.float64)
    shape = list(differences.shape)
    shape[axis] += 1
    mean = differences.sum(axis=axis, keepdims=True) / shape[axis]  # of the differences from the first, and its own 0
    centred = np.empty(shape)
    lines = np.moveaxis(centred, axis, 0)
    np.negative(np.moveaxis(mean, axis, 0), out=lines[:1])
    np.subtract(np.moveaxis(differences, axis, 0), np.moveaxis(mean, axis, 0), out=lines[1:])
    return centred


def best_seconds(call: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Least time of some calls (at least two, more if they are short), and the last result."""
    seconds: list[float] = []
    while len(seconds) < 2 or (len(seconds) < repeats and sum(seconds) < 0.5):
        started = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - started)
    return min(seconds), result


def decompose(table: Array) -> Array:
    return reduce(sub, range(table.ndim), table)


def reconstruct(residual: Array) -> Array:
    return reduce(unsub, range(residual.ndim), residual)


def shuffle(factor: Array, table: Array) -> Array:
    """The Kronecker power of a factor times a vector: every step multiplies the last axis and turns the axes by one."""
    for _ in range(table.ndim):
        shape = table.shape
        table = (table.reshape(-1, shape[-1]) @ factor.T).reshape(*shape[:-1], len(factor))
        table = np.ascontiguousarray(np.moveaxis(table, -1, 0))
    return table


def explicit(factor: Array, ways: int) -> Array:
    return reduce(np.kron, [factor] * ways)


def close(ours: Array, other: Array) -> bool:
    """Whether two arrays agree, slice by slice: of seven attributes the comparison would need as much memory again."""
    return all(np.allclose(x, y, atol=1e-9) for x, y in zip(ours, other, strict=True))


def compare(n: int, ways: int, repeats: int) -> dict[str, Any]:
    """One point of the figure; all ways must agree."""
    table = np.random.default_rng(0).random((n,) * ways)
    factor = np.hstack([-np.ones((n - 1, 1)), np.eye(n - 1)])
    figure: dict[str, Any] = {"n": n, "ways": ways, "cells": table.size, "agrees": True}
    array = table
    for name, ours, matrix in (
        ("decompose", decompose, factor),
        ("reconstruct", reconstruct, np.linalg.pinv(factor)),
    ):
        figure[name], result = best_seconds(lambda f=ours, x=array: f(x), repeats)
        seconds, other = best_seconds(lambda m=matrix, x=array: shuffle(m, x), repeats)
        figure |= {f"{name}_shuffle": seconds, f"{name}_ratio": seconds / figure[name]}
        figure["agrees"] &= close(result, other)
        if table.size <= LARGEST_EXPLICIT:
            whole, flat = explicit(matrix, ways), array.ravel()
            figure[f"{name}_explicit"], other = best_seconds(lambda m=whole, x=flat: m @ x, repeats)
            figure["agrees"] &= bool(np.allclose(result.ravel(), other, atol=1e-9))
        array = result
    return figure


def mean_ratio(figures: Sequence[Row], varies: str, name: str) -> float:
    """The mean of shuffle's seconds over ours, of one half of the figure."""
    return float(np.mean([f[f"{name}_ratio"] for f in figures if f["varies"] == varies]))


def missed(figures: Sequence[Row]) -> list[str]:
    """Large tables for which the steps along the axes are not faster."""
    return [
        f"{name} {f['n']}^{f['ways']}: {f[f'{name}_ratio']:.2f} times as fast as shuffle"
        for f in figures
        for name in ("decompose", "reconstruct")
        if f["cells"] >= LARGE and f[f"{name}_ratio"] <= 1
    ]


def allocation(repeats: int) -> dict[str, Any]:
    """Seconds to share out a round's budget over the residuals of a 3-way table, some of them known."""
    sizes = (8, 10, 5)
    v = np.array([table_error(sizes, A) for A in subsets(3)])
    p = np.array([float(residual_cost([sizes[i] for i in A])) for A in subsets(3)])
    a = np.array([30.0, 5.0, 5.0, 5.0, 0.5, 0.0, 0.0, 0.0])
    seconds, x = best_seconds(lambda: water_filling(v, p, a), 100 * repeats)
    many, _ = best_seconds(lambda: water_filling(v, p, np.tile(a, (1_000, 1))), repeats)
    figure = {
        "allocate": seconds,
        "one_of_1000": many / 1_000,
        "error": float((v / (x + a)).sum()),
        "measured": int((p * x >= LEAST_SHARE).sum()),
    }
    try:
        import cvxpy as cp
    except ImportError:
        return figure
    y = cp.Variable(8)

    def cone() -> float:
        goal = cp.Minimize(cp.sum(cp.multiply(v, cp.inv_pos(y + a))))
        return float(cp.Problem(goal, [p @ y == 1, y >= 0]).solve(solver=cp.CLARABEL))

    cone_seconds, best = best_seconds(cone, repeats)
    return figure | {"cone": cone_seconds, "ratio": cone_seconds / seconds, "cone_error": best}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument(
        "--size", type=int, default=16, help="values per attribute where the number of attributes varies"
    )
    parser.add_argument(
        "--ways", type=int, nargs="+", default=[2, 3, 4, 5, 6, 7], help="numbers of attributes; 7 needs 10 GB"
    )
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[2, 4, 8, 16, 32, 64, 128, 256], help="sizes of 3-way tables"
    )
    parser.add_argument("--repeats", type=int, default=REPEATS, help="most repeats per timing")
    options = parser.parse_args(arguments)
    where = machine()
    print("grem_figure3: residuals and back\nmachine: " + ", ".join(f"{k} {v}" for k, v in where.items()))
    print("  ".join(c.title.rjust(c.width) for c in COLUMNS))
    figures = []
    points = {"attributes": [(options.size, k) for k in options.ways], "sizes": [(n, 3) for n in options.sizes]}
    for varies, sizes in points.items():
        for n, ways in sizes:
            figures.append({"varies": varies, **compare(n, ways, options.repeats)})
            print("  ".join(c.text(figures[-1]) for c in COLUMNS), flush=True)
    for varies, theirs in PUBLISHED.items():
        decomposed, back = (mean_ratio(figures, varies, name) for name in ("decompose", "reconstruct"))
        print(f"mean ratios to shuffle where {varies} vary: {decomposed:.2f} (published {theirs:g}), back {back:.2f}")
    slower = missed(figures)
    round_ = allocation(options.repeats)
    print("allocation of a round: " + ", ".join(f"{k} {v:.6g}" for k, v in round_.items()))
    ratio = round_.get("ratio", inf)  # without a cone solver nothing is compared, and two calls tell nothing
    text = f"times faster than the cone solver: {ratio:,.0f}, at least {LEAST_RATIO}"
    faster = options.repeats < REPEATS or reached(text, ratio >= LEAST_RATIO)
    print("\n".join(f"MISSED: {miss}" for miss in slower) or "large tables are in the published order")
    ok = (
        all(f["agrees"] for f in figures)
        and not slower
        and faster
        and abs(round_.get("cone_error", round_["error"]) / round_["error"] - 1) < 1e-6
    )
    document = {"benchmark": "grem_figure3", "settings": {**vars(options), "machine": where}, "figures": figures}
    print(json.dumps({**document, "seconds": round_, "ok": ok}))
    return 0 if ok else 1


if __name__ == "__main__":
    raise SystemExit(main())
