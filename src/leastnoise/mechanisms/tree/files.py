"""Tree releases as folders: header, arrays and names of one, and back; anything wrong is refused.

`release.json` says what was done and has checksums of the others; `measurements.npz` has the table of leaves and the
trees; `names.json` the names of nodes.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated

import numpy as np
from pydantic import Field

from leastnoise._types import IntArray
from leastnoise.domain.hierarchies import Hierarchy
from leastnoise.domain.listed import Values
from leastnoise.domain.tree import Counts, Tree
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.tree.invariants import Invariants
from leastnoise.mechanisms.tree.plan import SavedTree, TreePlan, leaf_encoding, plan_digest
from leastnoise.mechanisms.tree.release import TreeRelease
from leastnoise.mechanisms.tree.targets import Cascade, Spread
from leastnoise.privacy.cost import read_positive_fraction
from leastnoise.privacy.neighbours import Neighbours
from leastnoise.release.files import folders
from leastnoise.release.files.folders import Once
from leastnoise.storage.archive import Arrays, integers, narrow
from leastnoise.storage.records import Record, Saved


class Names(Record):
    """names.json: per tree the names of its nodes, what data calls its leaves, and the names of its levels, if any."""

    nodes: list[list[str] | None]
    values: list[list[str | int | float | bool] | None]
    levels: list[list[str] | None] | None = None  # releases of earlier versions have no such list


class Header(Once):
    """release.json."""

    format = folders.release_format("leastnoise_cascade")
    names = Names

    exact: bool
    trees: Annotated[list[SavedTree], Field(min_length=1)]


# --- writing ----------------------------------------------------------------------------------------------------------


def record(release: TreeRelease) -> Saved[Header]:
    """Header, arrays and names of a release."""
    plan = release.plan
    attributes = [attribute.values for attribute in plan.domain]
    names = Names(
        nodes=[None if t.names is None else list(t.names) for t in plan.trees],
        values=[list(v.items) if isinstance(v, Values) else None for v in attributes],
        levels=[list(v.level_names) if isinstance(v, Hierarchy) else None for v in attributes],
    )
    fields = folders.run_fields(release, plan.fingerprint)
    header = Header(**fields, exact=plan.exact is not None, trees=plan.saved_trees())
    return Saved(header, plan.arrays() | {"table": narrow(release.leaves)}, names)


# --- reading ----------------------------------------------------------------------------------------------------------


def from_record(saved: Saved[Header]) -> TreeRelease:
    """A release from its header, arrays and names.

    Guarantees: any_changed_byte_is_refused; forged_arrays_fail_in_one_line.
    """
    header, arrays = saved.header, dict(saved.arrays)
    table = _integers(arrays, "table")
    if header.fingerprint != plan_digest(header.trees, arrays):
        raise LeastnoiseError("its noise does not have its fingerprint")
    plan = _plan(header, saved.names, arrays)
    if arrays:
        raise LeastnoiseError(f"nothing belongs to the array {min(arrays)!r}")
    if table.shape != tuple(t.leaf_count for t in plan.trees):
        raise LeastnoiseError("its table does not have a number for each leaf")
    return TreeRelease(plan=plan, leaves=table, **folders.once(header))


def _plan(header: Header, names: Names, arrays: Arrays) -> TreePlan:
    count = len(header.trees)
    levels = [None] * count if names.levels is None else names.levels
    if not len(names.nodes) == len(names.values) == len(levels) == count:
        raise LeastnoiseError("its names are not those of its trees")
    cascades = tuple(_cascade(i, saved, names.nodes[i], arrays) for i, saved in enumerate(header.trees))
    exact = None
    if header.exact:
        nodes = _integers(arrays, "exact")
        exact = Invariants.of(cascades[0].tree, nodes=nodes.tolist())
        if count > 1 or not np.array_equal(exact.nodes, nodes):
            raise LeastnoiseError("its exact nodes imply others")
    stated = header.privacy
    plan = TreePlan(
        names=tuple(t.attribute for t in header.trees),
        cascades=cascades,
        neighbours=Neighbours(stated.neighbours, stated.rows_per_person, None if exact else stated.size),
        delta=stated.delta,
        exact=exact,
        targets=_targets(header.trees, [c.tree for c in cascades]),
        encodings=tuple(map(leaf_encoding, (c.tree for c in cascades), names.values, levels)),
    )
    if plan.domain.shape != tuple(t.leaf_count for t in plan.trees):
        raise LeastnoiseError("its leaves do not have a value each")
    return plan


def _cascade(i: int, saved: SavedTree, names: list[str] | None, arrays: Arrays) -> Cascade:
    if saved.named != (names is not None):
        raise LeastnoiseError("its names are not those of its trees")
    tree = Tree(_integers(arrays, f"children{i}"), None if names is None else tuple(names))
    kind: Counts = _integers(arrays, f"kind{i}")
    spreads = tuple(Spread(s.children, read_positive_fraction(s.variance)) for s in saved.spreads)
    core = tree.core.tree
    inner = core.children > 0
    if kind.shape != (core.nodes,) or kind[~inner].any() or kind.min() < 0 or (kind[inner] >= len(spreads)).any():
        raise LeastnoiseError("its families have no spread")
    arity = np.array([s.children for s in spreads])
    if inner.any() and (arity[kind[inner]] != core.children[inner]).any():
        raise LeastnoiseError("its spreads are for other numbers of children")
    return Cascade(tree, read_positive_fraction(saved.root), spreads, kind.astype(np.min_scalar_type(int(kind.max()))))


def _targets(trees: list[SavedTree], results: list[Tree]) -> tuple[tuple[Fraction | None, ...], ...] | None:
    saved = [t.targets for t in trees]
    if all(a is None for a in saved):
        return None
    for each, tree in zip(saved, results, strict=True):
        if each is None or len(each) != tree.depth + 1:
            raise LeastnoiseError("its targets are not those of its levels")
    return tuple(tuple(None if t is None else read_positive_fraction(t) for t in each or ()) for each in saved)


def _integers(arrays: Arrays, name: str) -> IntArray:
    values = integers(arrays.pop(name), name)
    if values.dtype == object:
        raise LeastnoiseError(f"the array {name!r} does not hold integers")
    return values
