"""Releases for the tests of the public page: hierarchies with levels, and one as large as a page may be."""

from functools import cache

import numpy as np

import leastnoise as ln
from leastnoise.sources import Codes
from tests.report.samples import EVIL, QuietRandomSource, release_of

DAYS = [
    (f"{year}", f"{year}-{month:02d}", f"{year}-{month:02d}-{day:02d}")
    for year in (2024, 2025)
    for month in (1, 2, 3)
    for day in (1, 2, 3, 4)
]
TOWNS = [
    ("North", "Norland", "Aby"),
    ("North", "Norland", "Bybo"),
    ("North", "Isles", "Cray"),
    ("South", "Sudland", "Dorn"),
    ("South", "Sudland", EVIL),
    ("South", "Sudland", "\u202eFels\u202c"),
]


@cache
def visits() -> ln.Release:
    """Days in months in years, towns in counties in regions, with names that are markup or turn the line around."""
    domain = ln.Domain.of(
        day=ln.hierarchy(DAYS, levels=["year", "month", "day"]),
        place=ln.hierarchy(TOWNS, levels=["region", "county", "town"]),
        sex=["female", "male"],
        age=["0 to 17", "18 to 64", "65 or more"],
    )
    workload = ln.Workload(domain).marginals(ways=2).marginals("place", "sex", "age")
    return release_of(ln.plan(workload, ln.Budget(epsilon=1, delta=1e-9)), name="visits")


@cache
def rare() -> ln.Release:
    """Hardly any rows: most numbers are noise, some below zero, and errors are in the thousands."""
    domain = ln.Domain.of(a=range(12), b=["x", "y"])
    plan = ln.plan(ln.Workload(domain).marginals(ways=2), ln.Budget(mu=0.0005))
    return release_of(plan, name="rare")


@cache
def enormous() -> ln.Release:
    """1,035 tables with nearly a million cells."""
    domain = ln.Domain.of({f"question_{k}": [f"answer {k}.{i}" for i in range(31)] for k in range(45)})
    plan = ln.plan(ln.Workload(domain).marginals(ways=2), ln.Budget(mu=1))
    codes = np.random.default_rng(1).integers(0, 31, (20_000, 45))
    return plan.run(Codes(domain, codes, name="census"), random_source=QuietRandomSource(1))
