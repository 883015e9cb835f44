"""What one person contributes to each table where no two rows of a person may fall into the same group."""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np

from leastnoise.domain.attributes import Domain
from leastnoise.planning.structure import Orbit, Structure
from leastnoise.privacy.neighbours import Neighbours
from leastnoise.strategies import CirculantStrategy, KronStrategy, Strategy
from leastnoise.strategies.columns import MOST_CELLS, Columns, planned_columns
from leastnoise.strategies.grouped import Contributions, added, replaced


def groups_of(domain: Domain, neighbours: Neighbours) -> int:
    """How many groups there are: a person has at most one row in each."""
    return prod(domain.shape[domain.index(name)] for name in neighbours.one_per)


def contributions(structure: Structure, orbit: Orbit, neighbours: Neighbours) -> Contributions | None:
    """Of one person in the tables of an orbit; None where people have no groups.

    Attributes of a class are all in `one_per` or none of them is; where a class were mixed, it would not count as
    grouped, which only costs more.
    """
    if not neighbours.one_per:
        return None
    domain = structure.workload.domain
    grouped = {domain.index(name) for name in neighbours.one_per}
    axes = tuple(a for a, c in enumerate(orbit) if grouped.issuperset(structure.classes[c].members))
    groups = groups_of(domain, neighbours)
    present = prod(structure.classes[orbit[a]].size for a in axes)
    return Contributions(min(neighbours.rows, groups), axes, groups // present)


def coefficient(strategy: Strategy, person: Contributions, neighbours: Neighbours) -> float:
    """Squared sensitivity of a planned strategy over that of rows without groups, at most 1 (`Plan.mu_squared`)."""
    rows, moves = person.rows**2, neighbours.moves**2
    most = rows if neighbours.change == "add-remove" else 4 * rows
    parts = _planned(strategy) if person.bounded else None
    if parts is None:
        return min(most / moves, 1.0)
    one = prod(p.square for p in parts)
    if neighbours.change == "add-remove":
        moved = added(parts, person)
    else:
        moved = replaced(parts, person, 4 * one)
    return min(float(moved / one), most) / moves


def least_coefficient(strategy: Strategy, person: Contributions, groups: int, moves: int) -> float:
    """What every strategy of the same residual has at least, over the same.

    A person may have one row; or as many in one cell as agree on the groups; or, where the values of the groups are
    all alike to the residual, a random choice of groups: two different groups then have inner products of mean
    -1 / (groups - 1) (docs/privacy.md).
    """
    k, m = person.rows, min(person.agreeing, person.rows)
    if not person.grouped:
        return (k / moves) ** 2
    factors = strategy.factors or (strategy,)
    alike = len(factors) > max(person.grouped) and all(
        isinstance(factors[a], CirculantStrategy) and len(factors[a].shape) == 1 for a in person.grouped
    )
    spread = k * (groups - k) / (groups - 1) if alike and groups > 1 else 0.0
    return max(1.0, m**2, spread) / moves**2


@lru_cache(maxsize=256)
def _planned(strategy: Strategy) -> tuple[Columns, ...] | None:
    """Columns of each factor of a planned strategy; None where one is too large to list."""
    if isinstance(strategy, KronStrategy):
        parts = [_planned(f) for f in strategy.parts]
        return tuple(p[0] for p in parts if p) if all(parts) else None
    if isinstance(strategy, CirculantStrategy):
        return (Columns.of_shifts(np.fft.ifftn(strategy.theta).real, float(strategy.theta.max())),)
    return (planned_columns(strategy.matrix(), strategy.shape),) if strategy.cells <= MOST_CELLS else None
