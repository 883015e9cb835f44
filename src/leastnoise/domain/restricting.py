"""Restrictions of a domain from what a spec or a user states: conditions, lists of allowed combinations, bounds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from leastnoise._types import Array
from leastnoise.domain.encoding import Scalar
from leastnoise.domain.restrictions import (
    MOST_CELLS,
    Bound,
    CellSet,
    Restrictions,
    RowRule,
    check_determined,
    connected,
    spread,
)
from leastnoise.errors import LeastnoiseError

if TYPE_CHECKING:
    from leastnoise.domain.attributes import Attribute, Domain

_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
SHOWN = 80  # characters of a clause in a message


def restrictions(
    domain: Domain,
    impossible: Iterable[str],
    allowed: Iterable[Mapping[str, Any]],
    rows: str,
    bounds: Iterable[Mapping[str, Any]],
    determines: Mapping[str, str | Sequence[str]],
) -> Restrictions:
    """Checked restrictions: each says something, and together they leave something possible."""
    if isinstance(impossible, str) or isinstance(allowed, Mapping) or isinstance(bounds, Mapping):
        raise LeastnoiseError("impossible, allowed and bounds are lists; put what you have in brackets")
    clauses = [_clause(domain, text) for text in impossible]
    for only in (_allowed(domain, each) for each in allowed):
        _check_listed(domain, only, clauses)
        clauses.append(only)
    pairs = _determined(domain, determines)
    found = Restrictions(tuple(clauses), _rule(rows), tuple(_bound(domain, each) for each in bounds), pairs)
    if found.bounds:
        _check_bounds(domain, found)
    if found:
        _check_mapped(replace(domain, restrictions=found))
    return found


def _determined(domain: Domain, given: Mapping[str, str | Sequence[str]]) -> tuple[tuple[str, str], ...]:
    """Pairs of attributes, the determining one first."""
    if not isinstance(given, Mapping):
        raise LeastnoiseError("determines is a mapping; write for example {zip: district}")
    pairs = [(parent, child) for parent, of in given.items() for child in ([of] if isinstance(of, str) else of)]
    for pair in pairs:
        for name in pair:
            domain.index(name)  # which knows how similar names are spelt
        domain.check_counted("determines", pair)
    check_determined(pairs, domain.names)
    return tuple(pairs)


def _check_mapped(domain: Domain) -> None:
    """Refuse a dependency beside impossible cells or bounds that these do not spell out."""
    for pair in domain.restrictions.determines:
        if domain.possible(pair).sum(axis=1).max() > 1:
            raise LeastnoiseError(
                f"{pair[0]!r} determines {pair[1]!r}, and beside impossible cells or bounds it must be known how; list "
                f"the pairs in allowed: {{of: [{', '.join(pair)}], file: pairs.csv}}"
            )


def _rule(rows: Any) -> RowRule:
    return rows if isinstance(rows, str) else str(rows)  # type: ignore[return-value]  # which is checked there


def _clause(domain: Domain, text: str) -> CellSet:
    cells = _cells(domain, text, "impossible")
    if not cells.mask.any():
        raise LeastnoiseError(f"impossible {text[:SHOWN]!r} holds for no row of the domain; leave it out")
    return cells


def _cells(domain: Domain, text: object, what: str) -> CellSet:
    """The cells of a condition."""
    from leastnoise.release.queries.language import predicate

    if not isinstance(text, str):
        raise LeastnoiseError(f"{what} takes conditions in quotes, such as \"age < 15 and marital = 'married'\"")
    with _about(what, text):
        attributes, holds = predicate(domain, text)
    if not attributes and what == "impossible":
        every = "every row" if holds.all() else "no row"
        raise LeastnoiseError(f"impossible {text[:SHOWN]!r} holds for {every} of the domain; leave it out")
    if prod(holds.shape) > MOST_CELLS:
        raise LeastnoiseError(f"{what} {text[:SHOWN]!r} has {prod(holds.shape):,} cells; use at most {MOST_CELLS:,}")
    return CellSet.of([domain.names[a] for a in attributes], holds, text)


@contextmanager
def _about(what: str, text: str) -> Iterator[None]:
    try:
        yield
    except LeastnoiseError as error:
        raise LeastnoiseError(f"{what} {text[:SHOWN]!r}: {error}") from None


# --- allowed combinations ---------------------------------------------------------------------------------------------


def _allowed(domain: Domain, given: Mapping[str, Any]) -> CellSet:
    """All combinations of some attributes that are not listed, as impossible cells."""
    if not isinstance(given, Mapping) or set(given) != {"of", "rows"}:
        raise LeastnoiseError("allowed needs 'of' and 'rows'; write for example {of: [district, area], rows: [[a, b]]}")
    places = [_place(domain, name) for name in given["of"]]
    names = [attribute.name for attribute, _ in places]
    if len(set(names)) < len(names) or not names:
        raise LeastnoiseError(f"allowed of {', '.join(names) or 'nothing'}: name different attributes, one or more")
    domain.check_counted("allowed", names)
    shape = tuple(attribute.size for attribute, _ in places)
    if prod(shape) > MOST_CELLS:
        raise LeastnoiseError(f"allowed of {', '.join(names)} has {prod(shape):,} cells; use at most {MOST_CELLS:,}")
    listed = np.zeros(shape, dtype=np.bool_)
    for row in given["rows"]:
        if isinstance(row, str) or not isinstance(row, Sequence) or len(row) != len(places):
            raise LeastnoiseError(f"allowed of {', '.join(names)} lists {str(row)[:40]!r}; give {len(places)} values")
        listed[
            tuple(_codes(attribute, level, value) for (attribute, level), value in zip(places, row, strict=True))
        ] = True
    if listed.all():
        raise LeastnoiseError(f"allowed of {', '.join(names)} lists every combination; leave it out")
    order = sorted(range(len(names)), key=lambda k: domain.index(names[k]))
    ordered = [names[k] for k in order]
    text = f"combinations of {', '.join(ordered)} that are not listed"
    return CellSet.of(ordered, ~listed.transpose(order), text)


def _place(domain: Domain, name: object) -> tuple[Attribute, str | None]:
    """An attribute, or one at a level of its hierarchy, such as geo.state."""
    text = str(name)
    if text not in domain and "." in text:
        above, _, level = text.rpartition(".")
        return domain[above], level
    return domain[text], None


def _codes(attribute: Attribute, level: str | None, value: Scalar) -> slice:
    """The codes of a value; numbers of files come as texts."""
    from leastnoise.release.queries.linear import codes_of

    with _about("allowed of", attribute.name):
        try:
            return codes_of(attribute, value, level)
        except LeastnoiseError:
            if not isinstance(value, str) or not _NUMBER.fullmatch(value):
                raise
        return codes_of(attribute, float(value) if "." in value else int(value), level)


def _check_listed(domain: Domain, only: CellSet, clauses: Sequence[CellSet]) -> None:
    """Refuse a combination that is listed as allowed and that a clause excludes."""
    for clause in clauses:
        if set(clause.attributes) <= set(only.attributes):
            inside = [domain.index(name) for name in clause.attributes]
            both = ~only.mask & spread(clause.mask, inside, [domain.index(name) for name in only.attributes])
            if both.any():
                cell = np.unravel_index(int(both.argmax()), both.shape)
                values = (domain[n].label(int(c)) for n, c in zip(only.attributes, cell, strict=True))
                raise LeastnoiseError(
                    f"allowed lists ({', '.join(values)}), which impossible {clause.text[:SHOWN]!r} excludes; "
                    "leave one of them out"
                )


# --- bounds -----------------------------------------------------------------------------------------------------------


def _bound(domain: Domain, given: Mapping[str, Any]) -> Bound:
    if not isinstance(given, Mapping) or "where" not in given or not set(given) <= {"where", "at_least", "at_most"}:
        raise LeastnoiseError(
            "a bound needs 'where' and at_least or at_most; write {where: \"ward = 'A'\", at_most: 120}"
        )
    cells = _cells(domain, given["where"], "where")
    return Bound(cells, given.get("at_least") or 0, given.get("at_most"))


def _check_bounds(domain: Domain, found: Restrictions) -> None:
    """Refuse bounds that no counts satisfy: a linear program over the kinds of cells that they tell apart."""
    from scipy.optimize import linprog

    members = _kinds(domain, found)
    for bound, inside in zip(found.bounds, members.T, strict=True):
        if bound.at_least and not inside.any():
            raise LeastnoiseError(
                f"at_least {bound.at_least} of {bound.cells.text!r} is about impossible cells; leave it out"
            )
    upper = [(row, b.at_most) for row, b in zip(members.T, found.bounds, strict=True) if b.at_most is not None]
    lower = [(-row, -b.at_least) for row, b in zip(members.T, found.bounds, strict=True) if b.at_least]
    matrix, limits = zip(*upper, *lower, strict=True)
    result = linprog(np.zeros(len(members)), A_ub=np.array(matrix, dtype=float), b_ub=np.array(limits, dtype=float))
    if result.status == 2:
        raise LeastnoiseError(
            f"no counts satisfy the bounds together ({'; '.join(map(str, found.bounds))[:200]}); correct one of them"
        )


def _kinds(domain: Domain, found: Restrictions) -> Array:
    """Each combination of bounds that some possible cell falls under, once: kinds x bounds."""
    names = {name for bound in found.bounds for name in bound.cells.attributes}
    bounded = tuple(sorted(map(domain.index, names)))
    clauses = [(tuple(map(domain.index, c.attributes)), c.mask) for c in found.impossible]
    clauses.append((bounded, np.zeros([domain.shape[a] for a in bounded], dtype=np.bool_)))  # which connects them
    (group,) = (g for g in connected(clauses, domain.shape) if set(bounded) <= set(g.attributes))
    members = []
    for bound in found.bounds:
        inside = [domain.index(name) for name in bound.cells.attributes]
        spread_out = np.broadcast_to(spread(bound.cells.mask, inside, group.attributes), group.possible.shape)
        members.append(spread_out[group.possible])
    return np.unique(np.stack(members, axis=1), axis=0).astype(np.float64)
