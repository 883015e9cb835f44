"""How a release or a plan divides its privacy budget over attribute sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from leastnoise.planning.integer_plan import IntegerPlan
from leastnoise.planning.structure import Orbit, Structure

Attributes = tuple[str, ...]


@dataclass(frozen=True)
class Allocation:
    """Shares of mu^2 per attribute set, largest first, what all further sets have together, and what choosing cost."""

    shares: tuple[tuple[Attributes, float], ...]
    rest: float
    rest_sets: int
    choosing: float = 0.0  # of an adaptive release


def allocation(structure: Structure, integer_plans: Sequence[IntegerPlan], most: int = 30) -> Allocation:
    """What measuring each attribute set (by itself, beyond its subsets) costs, as a share of the whole mu^2.

    Guarantees: shares_sum_to_one; uses_no_data.
    """
    spent = [_spent(integer_plan) for integer_plan in integer_plans]
    # where rows are replaced, sets cost less together than by themselves: shares are of the sum
    total = float(sum(p.selection + sum(p.members_cost) for p in integer_plans))
    per_set = []
    for number, orbit in enumerate(structure.orbits):
        first = structure.sets(orbit)[0].tolist()
        cost = sum(s.get(_orbit(r.structure, first), Fraction(0)) for s, r in zip(spent, integer_plans, strict=True))
        per_set.append((float(cost) / total, number))
    per_set.sort(key=lambda pair: (-pair[0], pair[1]))
    names = structure.workload.domain.names
    shares: list[tuple[Attributes, float]] = []
    for share, number in per_set:
        for members in structure.sets(structure.orbits[number])[: most - len(shares)].tolist():
            if share:
                shares.append((tuple(names[a] for a in sorted(members)), share))
    left = sum(1 for share, _ in per_set if share)
    measured = sum(structure.members[number] for _, number in per_set[:left])
    rest = sum(share * structure.members[number] for share, number in per_set) - sum(share for _, share in shares)
    more = measured - len(shares)
    choosing = float(sum(integer_plan.selection for integer_plan in integer_plans)) / total
    return Allocation(tuple(shares), max(rest, 0.0) if more else 0.0, more, choosing)


def _spent(integer_plan: IntegerPlan) -> dict[Orbit, Fraction]:
    """Exact mu^2 of one attribute set of each orbit, by itself."""
    structure = integer_plan.structure
    costs = zip(structure.orbits, integer_plan.members_cost, structure.members, strict=True)
    return {orbit: cost / members for orbit, cost, members in costs}


def _orbit(structure: Structure, attributes: Sequence[int]) -> Orbit:
    return tuple(sorted(structure.class_of[a] for a in attributes))
