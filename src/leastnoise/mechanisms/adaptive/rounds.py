"""Rounds as recipes: residuals of any tables in integers, measured like a plan, and all rounds as one release."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, prod, sqrt
from typing import Protocol

import numpy as np

from leastnoise._types import Array
from leastnoise.domain.attributes import Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.adaptive.allocation import Allocation
from leastnoise.mechanisms.adaptive.candidates import Aims, maximal
from leastnoise.mechanisms.adaptive.completed import Completed
from leastnoise.mechanisms.adaptive.grem import Estimates, Residual
from leastnoise.mechanisms.adaptive.shares import expected_errors
from leastnoise.mechanisms.gate import Counts
from leastnoise.noise.gaussian import LARGEST_VARIANCE
from leastnoise.planning.integer_plan import LEAST_DEVIATION, Probe, Recipe, cost_of, decode
from leastnoise.planning.residual_workload import Prior
from leastnoise.planning.structure import build_structure
from leastnoise.privacy.budget import Budget
from leastnoise.release.measurements import Answers, Measurements
from leastnoise.release.state import Members
from leastnoise.strategies.integer import Centring, IntegerStrategy
from leastnoise.workload import Block, Workload
from leastnoise.workload.blocks import total_block

Probes = tuple[Probe, ...]
Says = Callable[[str], None]


class Step(Protocol):
    """What a run learned about the data beside its measurements, such as a choice."""

    def compared(self, zero: Counts, one: Counts) -> tuple[float, float]:
        """The log-likelihood ratio of the second dataset to the first, and mu^2 between them at most."""


@dataclass(frozen=True)
class Round:
    """What one round looked at, what it measured, and what both cost (mu^2)."""

    compared: int  # tables
    selection: Fraction
    measured: tuple[Members, ...]  # the largest ones
    measurement: Fraction

    @staticmethod
    def of(compared: int, selection: Fraction, recipe: Recipe) -> Round:
        """The round that measured by a recipe."""
        largest = tuple(block.on for block in recipe.workload.blocks)
        return Round(compared, selection, largest, recipe.cost.mu_squared)


def recipe_of(aims: Aims, probes: Mapping[Members, Probes], selection: Fraction = Fraction(0)) -> Recipe:
    """The recipe with these probes for some residuals, of which all subsets are asked for, too.

    Guarantees: costs_exactly_what_was_allocated.
    """
    blocks = tuple(_block(aims, members) for members in maximal(list(probes)))
    work = Workload(aims.workload.domain, blocks)
    structure = build_structure(work, lambda a: a)  # attributes of one size may be known to different precision
    found = tuple(probes.get(tuple(structure.sets(orbit)[0].tolist()), ()) for orbit in structure.orbits)
    priors = tuple(Prior(c.size) for c in structure.classes)
    return Recipe(work, aims.base.budget, structure, priors, found, selection)


def _block(aims: Aims, members: Members) -> Block:
    if not members:
        return total_block()
    families = aims.views[aims.number[members]].families
    label = " x ".join(dict.fromkeys(f.name for f in families))
    return Block(members, len(members), families, 1.0, label)


@dataclass(eq=False)
class Knowledge:
    """What has been measured so far: everything published, and the estimates that follow from it.

    Guarantees: agrees_with_the_release; one_release_from_all_rounds_is_least_squares.
    """

    aims: Aims
    given: Mapping[int, Array] = field(default_factory=dict)  # public distributions of some attributes
    selection: Fraction = Fraction(0)
    spent: Fraction = Fraction(0)
    insecure: bool = False
    witness: Callable[[Step], object] | None = None  # of surveys and choices, for audits
    precision: Array = field(init=False)  # mu^2 spent on each residual
    estimates: Estimates = field(init=False)
    _probes: dict[Members, list[Probe]] = field(default_factory=dict)
    _answers: dict[Members, list[Answers]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.precision = np.zeros(len(self.aims.residuals))
        self.estimates = Estimates(self.aims.workload.domain.shape, ())

    def allow(self, mu_squared: Fraction) -> None:
        """Stop before something is drawn that the budget does not hold; by design that never happens."""
        if self.spent + mu_squared > self.aims.base.budget.exact_cost:
            raise LeastnoiseError("a round would exceed the budget; report this, nothing more was measured")

    def choose(self, mu_squared: Fraction) -> None:
        """Take down what a choice or a survey costs."""
        self.allow(mu_squared)
        self.selection += mu_squared
        self.spent += mu_squared

    def observe(self, measured: Measurements) -> None:
        """Take in the measurements of a round."""
        recipe, budget = measured.recipe, self.aims.base.budget
        new = []
        for orbit, probes, answers in zip(recipe.structure.orbits, recipe.probes, measured.answers, strict=True):
            if not probes:
                continue
            members = tuple(recipe.structure.sets(orbit)[0].tolist())
            cost = sum((cost_of(p, budget) for p in probes), start=Fraction(0))
            new.append(Residual(members, decode(probes, answers)[0], 1 / float(cost) if cost else 0.0))
            self._probes.setdefault(members, []).extend(probes)
            self._answers.setdefault(members, []).extend(answers)
            self.precision[self.aims.number[members]] += float(cost) or 1.0  # what is free is known exactly
        self.estimates.observe(new)
        self.spent += recipe.cost.mu_squared
        self.insecure |= measured.insecure

    def completed(self) -> Completed:
        """Tables over any attributes, as they are expected to be."""
        return Completed(self.estimates.shape, self._probes.keys(), self.estimates.table, self._noise, self.given)

    def expected(self, bias: Array) -> Array:
        """L1 error that is to be expected of each completed table; no two distributions differ by more than 2."""
        done = self.completed()
        trust = np.ones(len(self.precision))
        for members, factor in done.factors.items():
            trust[self.aims.number[members]] = factor
        found = expected_errors(self.aims, self.precision, bias, trust)
        return np.minimum(found, 2 * done.total * self.aims.masses)

    def _noise(self, members: Members) -> float:
        spent = self.precision[self.aims.number[members]]
        return self.aims.template(members).energy / float(spent)

    def together(self) -> Measurements:
        """All rounds as the measurements of one recipe."""
        probes = {m: tuple(p) for m, p in self._probes.items()}
        recipe = recipe_of(self.aims, probes, self.selection)
        sets = [tuple(recipe.structure.sets(orbit)[0].tolist()) for orbit in recipe.structure.orbits]
        answers = tuple(tuple(self._answers.get(members, ())) for members in sets)
        return Measurements(recipe, answers, self.insecure)


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
