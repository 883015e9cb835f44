"""Structural zeros: what a release says about cells in which there cannot be rows.

Their counts are 0 without error. A query that also counts possible cells keeps its meaning without the impossible
ones, which are known: of the two ways to read it, both without bias, the one with the smaller error is taken. Which one
that is follows from the plan, not from the data.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from leastnoise._types import Array
from leastnoise.domain.attributes import Domain
from leastnoise.domain.restrictions import Mask
from leastnoise.release.frames import IMPOSSIBLE
from leastnoise.release.queries.linear import LinearQuery, Term
from leastnoise.workload.families import Family, Marginal


def possible_part(query: LinearQuery) -> LinearQuery | None:
    """The query without cells that cannot have rows; None where it counts no such cell."""
    if not query.domain.together:
        return None
    terms, changed = [], False
    for term in query.terms:
        possible = query.domain.possible_cells(term.attributes)
        if possible is None or not term.weights[~possible].any():
            terms.append(term)
            continue
        terms.append(Term(term.attributes, np.where(possible, term.weights, 0.0)))
        changed = True
    return LinearQuery(query.domain, tuple(terms)) if changed else None


def known_zeros(domain: Domain, attributes: Sequence[int], families: Sequence[Family]) -> Mask | None:
    """Which products of one row per attribute count impossible cells alone; None where none do."""
    possible = domain.possible_cells(attributes)
    if possible is None or all(isinstance(family, Marginal) for family in families):
        return None if possible is None else ~possible
    reached = possible.astype(np.float64)
    for axis, (family, a) in enumerate(zip(families, attributes, strict=True)):
        rows = (family.rows(domain.shape[a]) != 0).astype(np.float64)
        reached = np.moveaxis(np.tensordot(reached, rows, axes=(axis, 1)), -1, axis)
    zeros: Mask = reached == 0
    return zeros if zeros.any() else None


def with_zeros(values: Array, variances: Array, zeros: Mask | None) -> tuple[Array, Array]:
    """Answers and their variances, where some answers are known to be 0."""
    if zeros is None:
        return values, variances
    return np.where(zeros, 0.0, values), np.where(zeros, 0.0, variances)


def footnotes(domain: Domain) -> tuple[str, ...]:
    """What readers of tables must know."""
    clauses = domain.restrictions.impossible
    bounds = domain.restrictions.bounds
    words = [
        f"Cells marked {IMPOSSIBLE!r} cannot have rows and are 0 by definition: {_listed(c.text for c in clauses)}."
    ]
    public = [f"Public bounds, kept by adjusted tables and estimates: {_listed(map(str, bounds))}."]
    return tuple(words * bool(clauses) + public * bool(bounds))


def _listed(texts: Iterable[str], most: int = 8) -> str:
    some = list(texts)
    more = [f"and {len(some) - most:,} more"] if len(some) > most else []
    return "; ".join([*some[:most], *more])
