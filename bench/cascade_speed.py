"""Time and memory to draw noise for the leaves of binary trees (Cascade Figure 3): cascades and their peers.

Seconds are the least of some calls, each from a cascade or strategy that is there already. Slopes are those of lines
through log time over log leaves: of these seconds, and of the processor's time in our own code on all threads, in which
neither other work on the machine nor the system's handing out of memory counts. A call has a fixed part, which is
nearly all there is on small trees; so there are slopes less the fixed part, which is the time of the smallest tree, and
from 2^`fit` leaves on, too.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from math import log, sqrt
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bench.cascade_utility import ranges
from bench.common import Column, Report, Row, peak_memory_mb, published, reached
from bench.peers import LevelStrategy
from bench.plots import line_plot
from leastnoise._types import Array
from leastnoise.algebra.gram import Gram
from leastnoise.mechanisms.tree import Cascade, Tree, gaussian_noise, integer_noise
from leastnoise.noise import SecureRandomSource
from leastnoise.strategies.eigen import solve_eigen
from leastnoise.strategies.strategy import Strategy

Noise = npt.NDArray[Any]
VARIANCE = 10_000  # of every node
LARGEST = 25
LIMITS, MOST_MEMORY_MB = {"ideal": 5, "integer": 60}, 2_048  # seconds and memory for 2^25 leaves on two cores
TOLERANCE = 0.05
SLOPE = 1.05  # the paper's, of log time over log leaves
PATIENCE = 0.3  # seconds of calls after which there are no more


def equal(bits: int) -> Cascade:
    """Equal variances, as in the paper."""
    return Cascade.by_level(Tree.binary(bits), VARIANCE)


def of_tree(cascade: Cascade) -> Callable[[], Noise]:
    return partial(gaussian_noise, np.random.default_rng(0), cascade)


def ideal(bits: int) -> Callable[[], Noise]:
    return of_tree(equal(bits))


def integer(bits: int) -> Callable[[], Noise]:
    return partial(integer_noise, SecureRandomSource(), equal(bits))


def of_strategy(strategy: Strategy) -> Callable[[], Noise]:
    """Least-squares estimates of leaves from noisy answers, as many as there are leaves."""
    rng = np.random.default_rng(0)
    return lambda: strategy.back(rng.standard_normal((1, strategy.cells)))[0]


def independent(size: int) -> Callable[[], Noise]:
    rng = np.random.default_rng(0)
    return lambda: rng.normal(0.0, sqrt(VARIANCE), size)


def leaves(bits: int) -> Callable[[], Noise]:
    return independent(2**bits)


def binary(bits: int) -> Callable[[], Noise]:
    """Noise on every node; nothing is estimated."""
    return independent(2 ** (bits + 1) - 1)


def hierarchical(bits: int) -> Callable[[], Noise]:
    return of_strategy(LevelStrategy.nodes((2,) * bits))


def wavelet(bits: int) -> Callable[[], Noise]:
    return of_strategy(LevelStrategy.wavelet(2**bits))


def eigen(bits: int) -> Callable[[], Noise]:
    """The eigen-design for ranges, which has to be found first."""
    return partial(eigen_noise, np.random.default_rng(0), ranges(bits).gram)


def eigen_noise(rng: np.random.Generator, gram: Gram) -> Noise:
    strategy = solve_eigen(gram, 1e-3).strategy
    return strategy.back(rng.standard_normal((1, strategy.measurements)))[0]


def covariance(bits: int) -> Array:
    """C_k of Cascade Definition 3.1, dense, times the variance."""
    C = np.ones((1, 1))
    for i in range(bits):
        J = np.full(C.shape, -(2.0 ** (-2 * i - 1)))
        C = np.block([[C, J], [J, C]])
    return VARIANCE * C


def scipy_normal(bits: int) -> Callable[[], Noise]:
    """The same noise as `ideal` from its covariance matrix."""
    from scipy.stats import multivariate_normal  # here, because it takes memory that is nobody else's

    C, rng = covariance(bits), np.random.default_rng(0)
    return lambda: np.asarray(multivariate_normal.rvs(cov=C, random_state=rng))


def numpy_normal(method: Literal["svd", "cholesky"], bits: int) -> Callable[[], Noise]:
    """The same from NumPy's sampler: by default with singular values."""
    C, rng = covariance(bits), np.random.default_rng(0)
    return lambda: rng.multivariate_normal(np.zeros(len(C)), C, method=method)


METHODS: dict[str, Callable[[int], Callable[[], Noise]]] = {
    "ideal": ideal, "integer": integer, "leaves": leaves, "binary": binary, "hierarchical": hierarchical,
    "wavelet": wavelet, "eigen": eigen, "scipy": scipy_normal, "numpy": partial(numpy_normal, "svd"),
    "cholesky": partial(numpy_normal, "cholesky"),
}  # fmt: skip
MOST_BITS = {"eigen": 10, "scipy": 12, "numpy": 12, "cholesky": 13}  # dense matrices: minutes of a busy core, 2 GB
LARGEST_DENSE = 15  # the paper's
LINEAR = [name for name in METHODS if name not in MOST_BITS]
COLUMNS = (Column("bits", "log2 n", "d"), *(Column(name, f"{name} s", ".6f") for name in METHODS))
LEGEND = (
    "ideal, integer: cascades, Gaussian and exact integers; leaves: independent noise; binary: noise on all nodes; "
    "hierarchical, wavelet: least squares from noisy nodes or wavelets; eigen: eigen-design for ranges, found "
    "and drawn; scipy, numpy: their multivariate_normal with the covariance of the cascade; cholesky: NumPy's with "
    "another decomposition than its own choice"
)


def timed(call: Callable[[], Noise], repeats: int, patience: float = PATIENCE) -> tuple[float, float, Noise]:
    """Least seconds of some calls (one if it is long), their mean time in our own code, and the last result."""
    seconds: list[float] = []
    own = _own_seconds()
    while not seconds or (len(seconds) < repeats and sum(seconds) < patience):
        started = time.perf_counter()
        drawn = call()
        seconds.append(time.perf_counter() - started)
    return min(seconds), (_own_seconds() - own) / len(seconds), drawn


def _own_seconds() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


def memory(name: str, bits: int) -> float:
    """Peak memory of one draw in a process of its own, which has only just imported this module."""
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_memory, name, bits).result()


def _memory(name: str, bits: int) -> float:
    METHODS[name](bits)()
    return peak_memory_mb()


def slope(figures: Sequence[Row], key: str, least: int = 0, fixed: float = 0.0) -> float:
    """Of log time, less a fixed part, over log leaves; of trees that take twice that part or more."""
    points = [(f["bits"], f[key]) for f in figures if f["bits"] >= least]
    kept = np.array([(bits, log(time - fixed, 2)) for bits, time in points if time > 2 * fixed])
    return float(np.polyfit(kept[:, 0], kept[:, 1], 1)[0]) if len(kept) > 1 else float("nan")


def summary(report: Report, options: argparse.Namespace) -> None:
    """Slopes, fixed parts and memory; targets of the largest tree."""
    rows, most = list(report.figures), max(options.bits)
    for name in (name for name in LINEAR if name in options.methods):
        own = f"{name}_own"
        fixed = rows[0][own]
        entries = {
            "slope_seconds": slope(rows, name),
            "slope_own": slope(rows, own),
            "slope_own_less_fixed": slope(rows[1:], own, fixed=fixed),
            "slope_own_large": slope(rows, own, options.fit),
            "fixed_ms": 1e3 * fixed,
            "ns_per_leaf": 1e9 * rows[-1][own] / 2**most,
        }
        if name in options.memory:
            entries["memory_mb"] = memory(name, most)
        print(f"{name}: " + ", ".join(f"{k} {v:.3f}" for k, v in entries.items()), flush=True)
        report.figures.append({"method": name, **entries})
        if name == "ideal" and most >= LARGEST_DENSE + 5:
            print(f"Figure 3, slope: theirs {SLOPE}, ours {entries['slope_own_large']:.2f} from 2^{options.fit} on")
            near = abs(entries["slope_own_large"] - SLOPE) <= 3 * TOLERANCE
            report.require(near, f"slope {entries['slope_own_large']:.2f} is not near the paper's {SLOPE}")
        if name in LIMITS:
            targets(report, name, rows[-1], entries)


def targets(report: Report, name: str, last: Row, fields: Row) -> None:
    """Of our own noise on the largest tree; on small ones the fixed part of a call counts, and a slope says little."""
    if last["bits"] == LARGEST:
        value = fields["slope_own_large"]
        text = f"slope_own_large of {name}: {value:.3f}, 1.00 +- {TOLERANCE}"
        report.require(reached(text, abs(value - 1) <= TOLERANCE), f"target {text}")
        report.target(f"2^{LARGEST} leaves, {name}", last[name], LIMITS[name])
        report.target(f"2^{LARGEST} leaves, {name}", fields.get("memory_mb", 0.0), MOST_MEMORY_MB, "MB")


def compare(report: Report, rows: Sequence[Row]) -> None:
    """Section 4.1 beside ours: seconds, and that SciPy's sampler is slower, from 2^5 leaves on.

    Below, a call of ours takes as long as one of SciPy's. NumPy's is not among the curves of Figure 3.
    """
    for theirs in published("cascade_speed").rows:
        name, bits, limit = theirs["method"], theirs["bits"], theirs.get("below", theirs.get("above"))
        word = "below" if "below" in theirs else "above"
        ours = next((f[name] for f in rows if f["bits"] == bits and name in f), None)
        text = "not run" if ours is None else f"{ours:,.3f} s"
        if ours is None and name in MOST_BITS and (known := [f for f in rows if name in f]):
            last, cpu = known[-1], f"{name}_own"  # cubes of the size, so an estimate and no check
            seconds = last[cpu] * 8.0 ** (bits - last["bits"])
            text = f"not run, some {seconds:,.0f} processor s by cubes from {last[cpu]:,.1f} at 2^{last['bits']}"
        print(f"Figure 3, {name} at 2^{bits}: theirs {word} {limit:,} s, ours {text}")
        if "below" in theirs:
            report.require(ours is None or ours < limit, f"{name} at 2^{bits} took {ours} s, the paper's below {limit}")
    for f in (f for f in rows if f["bits"] > 4 and "scipy" in f and "ideal" in f):
        report.require(f["scipy"] > f["ideal"], f"scipy is faster than cascade at 2^{f['bits']}, unlike Figure 3")
    if ran := [f["bits"] for f in rows if "numpy" in f]:
        print(f"Figure 3, numpy: theirs did not run beyond 2^10, ours ran at 2^{max(ran)}")
    print(
        f"Figure 3: dense samplers run up to {MOST_BITS}; at 2^{LARGEST_DENSE} a matrix takes 8.6 GB, each needs four"
    )


def main(argv: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument(
        "--bits", nargs="+", type=int, default=list(range(3, LARGEST + 1)), help="log2 of the leaves, rising"
    )
    p.add_argument("--fit", type=int, default=17, help="log2 of the leaves from which on the slope is fitted")
    p.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    p.add_argument("--dense-bits", type=int, default=LARGEST_DENSE, help="no dense samplers for more leaves")
    p.add_argument("--repeats", type=int, default=1_000, help="most calls per timing")
    p.add_argument(
        "--memory", nargs="*", choices=LINEAR, default=["ideal", "integer", "wavelet"],
        help="methods whose peak memory is measured on the largest tree, each in a process of its own",
    )  # fmt: skip
    p.add_argument("--out", type=Path, help="write the plot here (svg, png or html)")
    options = p.parse_args(argv)
    report = Report("cascade_speed", options, COLUMNS, "seconds to draw noise on the leaves of binary trees")
    integer(1)()  # what is made once for all noise is no part of a draw
    for bits in options.bits:
        row: dict[str, Any] = {"bits": bits}
        for name in options.methods:
            if bits <= min(MOST_BITS.get(name, bits), options.dense_bits if name in MOST_BITS else bits):
                row[name], row[f"{name}_own"], drawn = timed(METHODS[name](bits), options.repeats)
                report.require(bool(np.isfinite(drawn).all()), f"{name} at 2^{bits} is not finite")
        report.add(row)
    print(LEGEND)
    compare(report, report.figures)
    points = [
        {"leaves (log2)": f["bits"], "log10 of seconds": log(f[name], 10), "method": name, "noise": "leaves"}
        for f in report.figures for name in METHODS if name in f
    ]  # fmt: skip
    line_plot(
        points, options.out, "Seconds to draw noise", x="leaves (log2)", y="log10 of seconds", color="method",
        facet="noise",
    )  # fmt: skip
    summary(report, options)
    return report.finish()


if __name__ == "__main__":
    raise SystemExit(main())
