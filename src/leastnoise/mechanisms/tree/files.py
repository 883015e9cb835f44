"""Cascade releases as folders: written whole or not at all, read without the data, refused where anything is wrong.

`release.json` says what was done and has checksums of the others; `measurements.npz` has the table of leaves and the
trees; `names.json` the names of nodes.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from leastnoise._types import IntArray
from leastnoise.archive import Arrays
from leastnoise.encoding import Values
from leastnoise.errors import LeastnoiseError
from leastnoise.hierarchy import Hierarchy
from leastnoise.mechanisms.tree.invariants import Invariants
from leastnoise.mechanisms.tree.plan import CascadePlan, SavedTree, leaf_encoding, plan_digest
from leastnoise.mechanisms.tree.release import CascadeRelease
from leastnoise.mechanisms.tree.targets import Cascade, Spread
from leastnoise.privacy.neighbours import Neighbours
from leastnoise.release import folders
from leastnoise.release.folders import HEADER, NAMES, Once
from leastnoise.release.statement import Record
from leastnoise.tree import Counts, Tree


class Header(Once):
    """release.json."""

    mark = "leastnoise_cascade"

    exact: bool
    trees: Annotated[list[SavedTree], Field(min_length=1)]


class Names(Record):
    """names.json: per tree the names of its nodes, what data calls its leaves, and the names of its levels, if any."""

    nodes: list[list[str] | None]
    values: list[list[str | int | float | bool] | None]
    levels: list[list[str] | None]


# --- writing ----------------------------------------------------------------------------------------------------------


def write(release: CascadeRelease, folder: Path) -> str:
    """Write a release into an empty folder; returns its id."""
    plan = release.plan
    attributes = [attribute.values for attribute in plan.domain]
    names = Names(
        nodes=[None if t.names is None else list(t.names) for t in plan.trees],
        values=[list(v.items) if isinstance(v, Values) else None for v in attributes],
        levels=[list(v.level_names) if isinstance(v, Hierarchy) else None for v in attributes],
    )
    with folders.writing(folder):
        folders.write_arrays(folder, plan.arrays() | {"table": folders.narrow(release.leaves)})
        (folder / NAMES).write_text(names.model_dump_json(), encoding="utf-8")
        stored = folders.listed(folder)
        told = folders.told_once(release, stored, folders.identity_of(stored), plan.fingerprint)
        return folders.write_header(folder, Header(**told, exact=plan.exact is not None, trees=plan.saved_trees()))


# --- reading ----------------------------------------------------------------------------------------------------------


def load(path: Path) -> CascadeRelease:
    """Read a release back.

    Guarantees: any_changed_byte_is_refused; forged_arrays_fail_in_one_line.
    """
    header, arrays = folders.opened(path, Header, [NAMES])
    with folders.reading(path / NAMES):
        names = Names.model_validate_json((path / NAMES).read_bytes())
    with folders.understanding(path / HEADER):
        table = _integers(arrays, "table")
        if header.fingerprint != plan_digest(header.trees, arrays):
            raise LeastnoiseError("its noise does not have its fingerprint")
        plan = _plan(header, names, arrays)
        if arrays:
            raise LeastnoiseError(f"nothing belongs to the array {min(arrays)!r}")
        if table.shape != tuple(t.leaf_count for t in plan.trees):
            raise LeastnoiseError("its table does not have a number for each leaf")
    return folders.restored(CascadeRelease, path, header, plan=plan, leaves=table)


def _plan(header: Header, names: Names, arrays: Arrays) -> CascadePlan:
    count = len(header.trees)
    if not len(names.nodes) == len(names.values) == len(names.levels) == count:
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
        encodings=tuple(map(leaf_encoding, (c.tree for c in cascades), names.values, names.levels)),
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
