"""Releases for the tests of pages and plots: one ordinary, one with the worst names, some special ones."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

import leastnoise as ln
from leastnoise.mechanisms.tables.plan import Plan
from leastnoise.noise import SeededRandomSource
from leastnoise.release import TableRelease
from leastnoise.release.statement import Origin
from leastnoise.sources import Codes, Table

CREATED = "2026-03-01T12:00:00+00:00"
EVIL = "</script><script>window.hacked=1</script>"
WORST_VALUES = [
    EVIL,
    '"quoted", with comma',
    "<!-- <script>",
    "&amp; &",
    "line\nbreak \u2028 end",
    "<img src=x onerror=alert(1)>",
]


class QuietRandomSource(SeededRandomSource):
    """Seeded, but without the mark, so that pages of ordinary releases can be tested."""

    insecure = False


def release_of(
    plan: Plan,
    seed: int = 1,
    *,
    random_source: type[SeededRandomSource] = QuietRandomSource,
    name: str | None = "people",
) -> ln.Release:
    counts = np.random.default_rng(seed).poisson(40, plan.workload.domain.shape)
    table_release = plan.run(Table(plan.workload.domain, counts, name), random_source=random_source(seed))
    return TableRelease(table_release.parts, table_release.dataset, (Origin(CREATED, 3, plan),))


@cache
def survey_plan() -> Plan:
    domain = ln.Domain.of(
        age=range(20, 32),
        sex=["F", "M"],
        region=["north", "south", "east", "west"],
        income=ln.bins(0, 40_000, width=5_000),
    )
    workload = ln.Workload(domain).marginals(ways=2).prefix("age").ranges("income", by="sex", weight=2)
    return ln.plan(workload, ln.Budget(epsilon=1, delta=1e-9))


@cache
def survey() -> ln.Release:
    return release_of(survey_plan())


@cache
def seeded() -> ln.Release:
    return release_of(survey_plan(), random_source=SeededRandomSource)


@cache
def worst() -> ln.Release:
    """Names and values that are markup, quotes and line breaks."""
    domain = ln.Domain.of({EVIL: WORST_VALUES, "a'b\"c<d>&": [True, False], "count": range(4), "{{data}}": 3})
    plan = ln.plan(ln.Workload(domain).marginals(ways=2), ln.Budget(rho=0.5))
    return release_of(plan, name=f"{EVIL} & <b>bold</b> {{{{script}}}}")


@cache
def cube() -> ln.Release:
    """Three attributes at once, one person replaced by another, accuracy unlike any floor."""
    domain = ln.Domain.of(a=range(3), b=["x", "y"], c=["p", "q", "r", "s"])
    budget = ln.Budget(mu=0.5, neighbours="replace")
    return release_of(ln.plan(ln.Workload(domain).marginals(ways=3), budget))


@cache
def targeted() -> ln.Release:
    """Planned for accuracy targets instead of a budget."""
    domain = ln.Domain.of(a=range(5), b=["x", "y"])
    workload = ln.Workload(domain).marginals(ways=1, within=10).prefix("a", within=20)
    return release_of(ln.plan(workload))


def adaptive_of(**options: Any) -> ln.Release:
    """Adaptive, with names that are markup: b follows a, the rest is independent, so only some tables are measured."""
    domain = ln.Domain.of({"a": range(4), EVIL: ["x", "y", "<i>z</i>"], "c": range(4), "d": 3, "e": 2})
    rng = np.random.default_rng(7)
    rows = rng.integers(domain.shape, size=(2000, 5))
    rows[:, 1] = np.where(rng.random(2000) < 0.9, rows[:, 0] % 3, rows[:, 1])
    adapt = ln.adaptive_plan(ln.Workload(domain).marginals(ways=3), ln.Budget(epsilon=1, delta=1e-9), **options)
    release = adapt.run(Codes(domain, rows, name="people"), random_source=QuietRandomSource(2))
    return TableRelease(release.parts, release.dataset, (replace(release.origins[0], created=CREATED),))


@cache
def adaptive() -> ln.Release:
    return adaptive_of()


@cache
def chosen() -> ln.Release:
    """Adaptive in many rounds."""
    return adaptive_of(select="aim", rounds=5000)


RELEASES = {"survey": survey, "worst": worst, "cube": cube, "targeted": targeted, "seeded": seeded}
RELEASES |= {"adaptive": adaptive, "chosen": chosen}
