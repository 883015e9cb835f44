"""Exact noise: samples per second of our rounded Gaussian, beside OpenDP's discrete Gaussian where it is installed."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from math import inf, sqrt
from typing import Any

import numpy as np

from bench.common import Column, Row, machine, reached
from leastnoise.noise import SecureRandomSource, rounded_gaussian

SIGMAS = (1, 10, 1_000, 10**6, 10**9, 10**12)
SIZE = 4_000_000  # samples per timing, for which the targets are
LEAST_MILLIONS, LEAST_RATIO = 5, 50
COLUMNS = (
    Column("sigma", "sigma", ".0e"),
    Column("millions", "ours M/s", ".2f"),
    Column("one_thread", "1 thread", ".2f"),
    Column("opendp_millions", "OpenDP M/s", ".4f"),
    Column("ratio", "ours/OpenDP", ".0f"),
    Column("deviation", "s.d./sigma", ".4f"),
)
Sampler = Callable[[int], Any]


def best_rate(sample: Sampler, size: int, repeats: int) -> tuple[float, Any]:
    """Most samples per second over some repeats, and the last samples."""
    seconds, samples = [], None
    for _ in range(repeats):
        started = time.perf_counter()
        samples = sample(size)
        seconds.append(time.perf_counter() - started)
    return size / min(seconds), samples


def opendp_sampler(sigma: int) -> Sampler | None:
    """OpenDP's discrete Gaussian on a vector of zeros, if OpenDP is there."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float)
    noise = space >> dp.m.then_gaussian(scale=float(sigma))
    return lambda size: noise([0] * size)


def figure(sigma: int, options: argparse.Namespace) -> dict[str, Any]:
    """One row of the table."""
    random_source = SecureRandomSource()
    variance = sigma**2
    rate, samples = best_rate(lambda n: rounded_gaussian(random_source, variance, n, options.threads), options.size, 3)
    alone, _ = best_rate(lambda n: rounded_gaussian(random_source, variance, n, 1), options.size, 3)
    entries = {"sigma": sigma, "millions": rate / 1e6, "one_thread": alone / 1e6}
    entries["deviation"] = float(samples.std() / sqrt(variance + 1 / 12))
    if theirs := opendp_sampler(sigma):
        their_rate, _ = best_rate(theirs, options.opendp_size, 2)
        entries |= {"opendp_millions": their_rate / 1e6, "ratio": rate / their_rate}
    return entries


def targets(figures: Sequence[Row]) -> bool:
    """Whether both hold, each printed."""
    rate = min((f["millions"] for f in figures if f["sigma"] <= 10**6), default=inf)
    text = f"millions of samples per second, sigma up to 1e6: {rate:,.1f}, at least {LEAST_MILLIONS}"
    ratio = min((f["ratio"] for f in figures if "ratio" in f), default=inf)
    held = reached(text, rate >= LEAST_MILLIONS)
    return held and (
        ratio == inf or reached(f"times OpenDP: {ratio:,.1f}, at least {LEAST_RATIO}", ratio >= LEAST_RATIO)
    )


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--sigma", type=int, nargs="+", default=SIGMAS, help="standard deviations")
    p.add_argument("--size", type=int, default=SIZE, help="samples per timing")
    p.add_argument("--opendp-size", type=int, default=20_000, help="samples per timing of OpenDP")
    p.add_argument("--threads", type=int, default=2)
    options = p.parse_args()
    where = machine()
    print("noise: samples per second, secure bits\nmachine: " + ", ".join(f"{k} {v}" for k, v in where.items()))
    started = time.perf_counter()
    rounded_gaussian(SecureRandomSource(), 1, 1)
    table_seconds = time.perf_counter() - started
    print(f"first sample of a process: {table_seconds:.2f} s for the table of quantiles")
    print("  ".join(c.title.rjust(c.width) for c in COLUMNS))
    figures = []
    for sigma in options.sigma:
        figures.append(figure(sigma, options))
        print("  ".join(c.text(figures[-1]) for c in COLUMNS), flush=True)
    # Six standard errors of a sample's deviation.
    ok = all(abs(f["deviation"] - 1) < 6 / np.sqrt(2 * options.size) for f in figures)
    ok &= options.size < SIZE or targets(figures)  # few samples take no time
    document = {"benchmark": "noise", "settings": {**vars(options), "machine": where}, "figures": figures}
    print(json.dumps({**document, "seconds": {"table": table_seconds}, "ok": ok}))
    return 0 if ok else 1


if __name__ == "__main__":
    raise SystemExit(main())
