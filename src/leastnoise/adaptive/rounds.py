"""A round as a recipe: the residuals of one table in integers, measured and released like any plan."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, prod, sqrt

from leastnoise.adaptive.crp import Allocation
from leastnoise.adaptive.grem import Members
from leastnoise.domain import Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.factorize.integer import Centring, IntegerStrategy
from leastnoise.noise.gaussian import LARGEST_VARIANCE
from leastnoise.plan.recipe import LEAST_DEVIATION, Probe, Recipe
from leastnoise.plan.smash import Prior
from leastnoise.plan.structure import build_structure
from leastnoise.privacy.budget import Budget
from leastnoise.workload import Workload


def table_recipe(domain: Domain, attributes: Members, allocation: Allocation, budget: Budget) -> Recipe:
    """The recipe that measures a table as allocated; `budget` says which change of the data stays hidden.

    Guarantees: costs_exactly_what_was_allocated; a_round_agrees_with_its_release.
    """
    if not attributes:
        raise LeastnoiseError("a round measures a table of one attribute or more, got ()")
    work = Workload(domain).marginals(*(domain.names[a] for a in attributes))
    structure = build_structure(work, lambda a: a)  # attributes of one size may be known to different precision
    probes = []
    for orbit in structure.orbits:
        (members,) = structure.sets(orbit).tolist()
        variance = allocation.variances.get(tuple(sorted(attributes.index(a) for a in members)))
        probes.append(() if variance is None else (_probe([domain.shape[a] for a in members], variance),))
    return Recipe(work, budget, structure, tuple(Prior(c.size) for c in structure.classes), tuple(probes))


def _probe(sizes: Sequence[int], variance: Fraction) -> Probe:
    """n I - J along each axis multiplies the residual by n; more where the noise would be small in integers."""
    parts, scaled = tuple(Centring(n) for n in sizes), variance * prod(sizes) ** 2
    if scaled > LARGEST_VARIANCE:
        raise LeastnoiseError("this round would need noise beyond 1e16, which cannot be drawn; use a larger budget")
    multiplier = max(1, ceil(LEAST_DEVIATION / sqrt(scaled))) if scaled else 1
    return Probe(IntegerStrategy(parts, multiplier), scaled * multiplier**2)
