"""Randomizers of every kind, small enough for brute force, and the exact probabilities of what devices send."""

from fractions import Fraction
from functools import cache

import numpy as np

from leastnoise import Budget, Domain, Workload
from leastnoise.local import Collector, simulate
from leastnoise.local.ball import Ball, cap, half_space, unit_columns
from leastnoise.local.design import design
from leastnoise.local.gauss import GaussianVectors
from leastnoise.local.planner import local_plan
from leastnoise.local.randomized_response import Odds
from leastnoise.local.subsets import Subsets
from leastnoise.local.tables import cells_of
from leastnoise.noise import SeededRandomSource

ODDS = Odds.within(Fraction(1))
PREFIX = np.tril(np.ones((6, 6)))


@cache
def randomizers() -> dict[str, object]:
    """One of each kind, for prefixes of 6 values."""
    columns = unit_columns(np.linalg.cholesky(PREFIX.T @ PREFIX).T)
    return {
        "value": Subsets(np.eye(6, dtype=bool), ODDS),
        "designed": design(PREFIX, (6,), ODDS),
        "half space": Ball(columns, half_space(ODDS)),
        "cap": Ball(columns, cap(ODDS, 8)),
        "gaussian": GaussianVectors.within(columns, Budget(epsilon=1, delta=1e-5, neighbours="replace")),
    }


KINDS = ["value", "designed", "half space", "cap", "gaussian"]


@cache
def prefix_plan(cells: int = 8):
    return local_plan(Workload(Domain.of(x=range(cells))).prefix("x"), 1)


@cache
def pairs_plan(layout: str = "tables"):
    domain = Domain.of(a=range(3), b=["u", "v"], c=range(4), d=["y", "n"])
    epsilon = 12 if layout == "split" else 1  # six pairs
    return local_plan(Workload(domain).marginals(ways=2), epsilon, layout=layout)


def records(plan, count: int, seed: int = 0):
    """Codes that depend on each other, so that interactions are not zero."""
    rng = np.random.default_rng(seed)
    level = rng.random(count)
    return np.stack([rng.binomial(n - 1, 0.2 + 0.6 * level) for n in plan.domain.shape], axis=1)


def collected(plan, codes, seed=1):
    collector = Collector(plan)
    collector.add_block(simulate(plan, codes, SeededRandomSource(seed)))
    return collector


def report_of(plan, part, number):
    """A report that names a subset."""
    return (plan.prefix + bytes([part]) + number.to_bytes(2, "little")).ljust(plan.report_bytes, b"\0")[
        : plan.report_bytes
    ]


def truth(queries, codes):
    return queries.rows @ np.bincount(
        cells_of(codes, queries.attributes, queries.shape), minlength=queries.rows.shape[1]
    )


def same(one, other):
    tallies = all((a == b).all() for a, b in zip(one.tallies, other.tallies, strict=True))
    return tallies and (one.counts == other.counts).all() and one.rejected == other.rejected
