"""Cascade releases as folders: written whole or not at all, read without the data, refused where anything is wrong.

`release.json` says what was done and has checksums of the others; `measurements.npz` has the table of leaves and the
trees; `names.json` the names of nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from leastnoise._types import IntArray
from leastnoise.archive import Arrays
from leastnoise.cascade.invariants import Invariants
from leastnoise.cascade.plan import CascadePlan
from leastnoise.cascade.targets import Cascade, Spread
from leastnoise.errors import LeastnoiseError
from leastnoise.plan.recipe_store import digest_of
from leastnoise.privacy.cost import fraction_text
from leastnoise.privacy.neighbours import Neighbours
from leastnoise.release import folders
from leastnoise.release.folders import ARRAYS, HEADER, NAMES, Once
from leastnoise.release.statement import Record, Text
from leastnoise.tree import Counts, Tree

if TYPE_CHECKING:
    from leastnoise.cascade.release import CascadeRelease


class SavedSpread(Record):
    """A spread: how many children, and the variance of their own parts as a fraction."""

    children: Annotated[int, Field(ge=2)]
    variance: Text


class SavedTree(Record):
    """A tree with its noise; which nodes have which children and spreads is in the arrays."""

    attribute: Text
    named: bool
    root: Text
    spreads: list[SavedSpread]
    targets: list[Text | None] | None


class Header(Once):
    """release.json."""

    mark = "leastnoise_cascade"

    exact: bool
    trees: Annotated[list[SavedTree], Field(min_length=1)]


class Names(Record):
    """names.json: per tree the names of its nodes, and what data calls its leaves, where there are such."""

    nodes: list[list[str] | None]
    values: list[list[str | int | float | bool] | None]


# --- writing ----------------------------------------------------------------------------------------------------------


def save(release: CascadeRelease, path: Path, overwrite: bool) -> str:
    """Write a release to a new folder; returns its id."""
    with folders.drafted(path, overwrite) as draft:
        return write(release, draft)


def write(release: CascadeRelease, folder: Path) -> str:
    """Write a release into an empty folder; returns its id."""
    plan = release.plan
    names = Names(nodes=[_listed(t.names) for t in plan.trees], values=[_listed(v) for v in plan.given_values])
    with folders.writing(folder):
        folders.write_arrays(folder, plan_arrays(plan) | {"table": folders.narrow(release.table)})
        (folder / NAMES).write_text(names.model_dump_json(), encoding="utf-8")
        stored = {name: folders.measured(folder / name) for name in (ARRAYS, NAMES)}
        told = folders.told_once(release, stored, folders.identity_of(stored), fingerprint(plan))
        return folders.write_header(folder, Header(**told, exact=plan.exact is not None, trees=plan_trees(plan)))


def plan_arrays(plan: CascadePlan) -> Arrays:
    """The arrays of a plan: its trees, which families have which spread, and which nodes are exact."""
    found: Arrays = {}
    for i, cascade in enumerate(plan.cascades):
        found[f"children{i}"] = folders.narrow(cascade.tree.children)
        found[f"kind{i}"] = folders.narrow(cascade.kind)
    if plan.exact is not None:
        found["exact"] = folders.narrow(plan.exact.nodes)
    return found


def plan_trees(plan: CascadePlan) -> list[SavedTree]:
    """The noise of a plan as plain data."""
    targets = plan.targets or (None,) * len(plan.cascades)
    return [
        SavedTree(
            attribute=name,
            named=cascade.tree.names is not None,
            root=fraction_text(cascade.root),
            spreads=[SavedSpread(children=m, variance=fraction_text(e)) for m, e in cascade.spreads],
            targets=None if asked is None else _texts(asked),
        )
        for name, cascade, asked in zip(plan.names, plan.cascades, targets, strict=True)
    ]


def _texts(targets: Sequence[Fraction | None]) -> list[str | None]:
    known = {id(t): None if t is None else fraction_text(t) for t in {id(t): t for t in targets}.values()}
    return [known[id(t)] for t in targets]


def fingerprint(plan: CascadePlan) -> str:
    """sha256 of all that decides what is measured."""
    return _digest(plan_trees(plan), plan_arrays(plan))


def _digest(trees: Sequence[SavedTree], arrays: Arrays) -> str:
    return digest_of({"trees": [t.model_dump() for t in trees]}, arrays)


def _listed(items: Any) -> list[Any] | None:
    return None if items is None else list(items)


# --- reading ----------------------------------------------------------------------------------------------------------


def load(path: Path) -> tuple[Header, dict[str, Any]]:
    """The header and the numbers of a saved release.

    Guarantees: any_changed_byte_is_refused; forged_arrays_fail_in_one_line.
    """
    header, arrays = folders.opened(path, Header, [NAMES])
    with folders.reading(path / NAMES):
        names = Names.model_validate_json((path / NAMES).read_bytes())
    with folders.understanding(path / HEADER):
        table = _integers(arrays, "table")
        if header.fingerprint != _digest(header.trees, arrays):
            raise LeastnoiseError("its noise does not have its fingerprint")
        plan = _plan(header, names, arrays)
        if arrays:
            raise LeastnoiseError(f"nothing belongs to the array {min(arrays)!r}")
        if table.shape != tuple(t.leaf_count for t in plan.trees):
            raise LeastnoiseError("its table does not have a number for each leaf")
    return header, {"plan": plan, "table": table}


def _plan(header: Header, names: Names, arrays: Arrays) -> CascadePlan:
    count = len(header.trees)
    if not len(names.nodes) == len(names.values) == count:
        raise LeastnoiseError("its names are not those of its trees")
    cascades = tuple(_cascade(i, saved, names.nodes[i], arrays) for i, saved in enumerate(header.trees))
    exact = None
    if header.exact:
        nodes = _integers(arrays, "exact")
        exact = Invariants.of(cascades[0].tree, nodes=nodes.tolist())
        if count > 1 or not np.array_equal(exact.nodes, nodes):
            raise LeastnoiseError("its exact nodes imply others")
    stated = header.privacy
    plan = CascadePlan(
        names=tuple(t.attribute for t in header.trees),
        cascades=cascades,
        neighbours=Neighbours(stated.neighbours, stated.rows_per_person, None if exact else stated.size),
        delta=stated.delta,
        exact=exact,
        targets=_targets(header.trees, [c.tree for c in cascades]),
        values=tuple(names.values),
    )
    if plan.domain.shape != tuple(t.leaf_count for t in plan.trees):
        raise LeastnoiseError("its leaves do not have a value each")
    return plan


def _cascade(i: int, saved: SavedTree, names: list[str] | None, arrays: Arrays) -> Cascade:
    if saved.named != (names is not None):
        raise LeastnoiseError("its names are not those of its trees")
    tree = Tree(_integers(arrays, f"children{i}"), None if names is None else tuple(names))
    kind: Counts = _integers(arrays, f"kind{i}")
    spreads = tuple(Spread(s.children, folders.positive(s.variance)) for s in saved.spreads)
    core = tree.core.tree
    inner = core.children > 0
    if kind.shape != (core.nodes,) or kind[~inner].any() or kind.min() < 0 or (kind[inner] >= len(spreads)).any():
        raise LeastnoiseError("its families have no spread")
    arity = np.array([s.children for s in spreads])
    if inner.any() and (arity[kind[inner]] != core.children[inner]).any():
        raise LeastnoiseError("its spreads are for other numbers of children")
    return Cascade(tree, folders.positive(saved.root), spreads, kind.astype(np.min_scalar_type(int(kind.max()))))


def _targets(trees: list[SavedTree], found: list[Tree]) -> tuple[tuple[Fraction | None, ...], ...] | None:
    asked = [t.targets for t in trees]
    if all(a is None for a in asked):
        return None
    for each, tree in zip(asked, found, strict=True):
        if each is None or len(each) != tree.depth + 1:
            raise LeastnoiseError("its targets are not those of its levels")
    return tuple(tuple(None if t is None else folders.positive(t) for t in each or ()) for each in asked)


def _integers(arrays: Arrays, name: str) -> IntArray:
    found = folders.integers(arrays.pop(name), name)
    if found.dtype == object:
        raise LeastnoiseError(f"the array {name!r} does not hold integers")
    return found
