"""A point well inside all public restrictions: a distribution of the rows over possible cells, within every bound."""

from __future__ import annotations

from functools import reduce
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from leastnoise._types import Array
from leastnoise.domain.attributes import Domain
from leastnoise.domain.restrictions import CellSet, Mask, Together, connected, spread
from leastnoise.release.postprocessing.nonnegative import inverted, touched
from leastnoise.release.postprocessing.totals import centred
from leastnoise.release.state import Members

if TYPE_CHECKING:
    from leastnoise.release.postprocessing.cells import Parts, Problem

WIDE = 3.0  # standard errors by which the number of rows may move


def interior_point(problem: Problem, domain: Domain) -> Parts | None:
    """What a point inside asks of the residuals; None where there is none, or where tables are known exactly."""
    state = problem.state
    known = state.find(())
    assert known is not None
    if any(k is not None and not k.noise and k is not known for k in state.known):
        return None
    groups = groups_of(domain)
    total = float(known.tables.reshape(-1)[0])
    masses = _masses(domain, groups, total, WIDE * sqrt(known.noise))
    if masses is None:
        return None
    rows = float(masses[0].sum())
    requests: Parts = {n: np.zeros_like(problem.known(n).tables) for n in _numbers(problem)}
    for number, row, members in touched(problem):
        if problem.known(number).noise:
            table = rows * marginal(domain, groups, masses, members)
            before = centred(state, members, problem.known(number).tables[row])
            requests[number][row] = centred(state, members, table) - before
    return {number: inverted(problem, number, target) for number, target in requests.items()}


def _numbers(problem: Problem) -> list[int]:
    return list(dict.fromkeys(n for batch in problem.batches for n, _, _ in batch.links.values()))


def groups_of(domain: Domain) -> tuple[Together, ...]:
    """Attributes that impossible cells connect; those of all bounds are one group."""
    clauses = [(t.attributes, ~t.possible) for t in domain.together]
    names = {name for bound in domain.restrictions.bounds for name in bound.cells.attributes}
    if names:
        bounded = tuple(sorted(map(domain.index, names)))
        clauses.insert(0, (bounded, np.zeros([domain.shape[a] for a in bounded], dtype=np.bool_)))
    groups = connected(clauses, domain.shape)
    return tuple(sorted(groups, key=lambda g: not names <= {domain.names[a] for a in g.attributes}))


def _masses(domain: Domain, groups: tuple[Together, ...], total: float, spread_by: float) -> list[Array] | None:
    """Rows in the cells of each group: even over those that fall under the same bounds, and as deep inside as can be.

    A linear program over the kinds of cells finds the largest distance from all bounds at once; the number of rows is
    the measured one, or as close to it as the bounds allow.
    """
    from scipy.optimize import linprog

    bounds = domain.restrictions.bounds
    even = [g.possible * (max(total, 1.0) / g.possible.sum()) for g in groups]
    if not bounds:
        return even or [np.array(max(total, 1.0))]
    group = groups[0] if groups else Together((), np.ones((), dtype=np.bool_))
    members = np.stack([_spread(domain, group, bound.cells) for bound in bounds], axis=-1)
    kinds, which = np.unique(members[group.possible], axis=0, return_inverse=True)
    sizes = np.bincount(which.ravel()).astype(np.float64)
    rows, limits = [], []
    for bound, inside in zip(bounds, kinds.T.astype(np.float64), strict=True):
        if bound.at_most is not None:
            rows.append([*inside, 1.0])
            limits.append(float(bound.at_most))
        if bound.at_least:
            rows.append([*-inside, 1.0])
            limits.append(-float(bound.at_least))
    share = sizes / sizes.sum()
    rows += [[*(-1.0 * (np.arange(len(sizes)) == k)), share[k]] for k in range(len(sizes))]
    limits += [0.0] * len(sizes)
    goal = np.append(np.zeros(len(sizes)), -1.0)
    for width in (spread_by, np.inf):
        near = [[*np.ones(len(sizes)), 0.0], [*-np.ones(len(sizes)), 0.0]] if width < np.inf else []
        ends = [max(total, 1.0) + width, -(max(total, 1.0) - width)] if width < np.inf else []
        most = [(0, None)] * len(sizes) + [(0, max(total, 1.0))]
        result = linprog(goal, A_ub=np.array(rows + near), b_ub=np.array(limits + ends), bounds=most)
        if result.status == 0 and result.x is not None and result.x[-1] > 0:
            mass = np.zeros(group.possible.shape)
            mass[group.possible] = (result.x[:-1] / sizes)[which.ravel()]
            rest = [g.possible * (mass.sum() / g.possible.sum()) for g in groups[1:]]
            return [mass, *rest]
    return None


def _spread(domain: Domain, group: Together, cells: CellSet) -> Mask:
    attributes = [domain.index(name) for name in cells.attributes]
    wide: Mask = spread(cells.mask, attributes, group.attributes)
    return np.broadcast_to(wide, group.possible.shape)


def marginal(domain: Domain, groups: tuple[Together, ...], masses: list[Array], members: Members) -> Array:
    """The shares of the cells of some attributes, axes in their order: groups and other attributes are independent."""
    left = list(members)
    parts: list[tuple[list[int], Array]] = []
    for group, mass in zip(groups, masses, strict=False):
        inside = [a for a in group.attributes if a in members]
        away = tuple(axis for axis, a in enumerate(group.attributes) if a not in inside)
        parts.append((inside, mass.sum(axis=away) / mass.sum()))
        left = [a for a in left if a not in inside]
    parts += [([a], np.full(domain.shape[a], 1 / domain.shape[a])) for a in left]
    tables = [spread(table, inside, members) for inside, table in parts if inside]
    return reduce(np.multiply, tables, np.ones([domain.shape[a] for a in members]))
