"""The trace norm of a coarse copy of a large workload, which tells better product weights from worse ones.

Prefixes and ranges look alike at any number of values: up to a factor, which is the number of queries, their Gram
matrix is that of a kernel on an interval. The copy has few values for such attributes, and the weights of bins.
Attributes that differ in their number of values alone are like attributes there, whose trace norm is exact and soon
had. Any weights give a floor, so nothing here has to be proven.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from leastnoise._types import Array
from leastnoise.domain.attributes import Attribute, Domain
from leastnoise.domain.numeric import sized
from leastnoise.planning.design import Question
from leastnoise.planning.sector_trace import trace_of
from leastnoise.planning.structure import Structure, build_structure
from leastnoise.planning.weight_ascent import SEARCH_STEP, weight_root
from leastnoise.workload import Workload
from leastnoise.workload.families import Family, Prefix, Range, Total

BINS = 12  # values of large attributes in the copy
SCALED = (Prefix, Range)  # families with a kernel


def coarse_trace(question: Question, weights: Sequence[Array], bins: int = BINS) -> float | None:
    """The trace of a copy at given weights per class; None where a copy would have none that is exact."""
    structure = question.structure
    large = {a for c in _scaled(structure, 2 * bins) for a in structure.classes[c].members}
    if not large or not question.requested.is_plain or structure.workload.domain.restrictions:
        return None
    copy = _copy(structure, large, bins)
    classes = copy.structure.classes
    own = [weights[structure.class_of[c.members[0]]] for c in classes]
    coarse = [_binned(s, bins) if c.members[0] in large else s for s, c in zip(own, classes, strict=True)]
    model = trace_of(copy, [weight_root(s) for s in coarse])
    return model.trace(SEARCH_STEP) if model is not None and model.exact else None


def _scaled(structure: Structure, most: int) -> list[int]:
    """Classes of more values than that, all of whose queries are totals or look alike at any number of values."""
    families: dict[int, list[Family]] = {}
    for slot in structure.slots:
        families.setdefault(slot.cls, []).append(slot.family)
    whole = {c for t in structure.tables if t.slots is None for c in t.axes}
    alike = {c for c, found in families.items() if all(isinstance(f, (*SCALED, Total)) for f in found)}
    return [c for c in alike - whole if structure.classes[c].size >= most]


def _copy(structure: Structure, large: set[int], bins: int) -> Question:
    """The same workload with few values for large attributes; tables count as many queries as they have."""
    domain = structure.workload.domain
    attributes = [
        Attribute.of(name, sized(bins, ordered=True)) if a in large else attribute
        for a, (name, attribute) in enumerate(zip(domain.names, domain.attributes, strict=True))
    ]
    made = build_structure(Workload(Domain(tuple(attributes)), structure.workload.blocks))
    ratios = [float(np.mean([domain.shape[a] for a in c.members])) / c.size for c in made.classes]
    weights = [made.block_of(t).weight * float(np.prod([ratios[c] for c in t.axes])) for t in made.tables]
    return Question(made, np.array(weights), made.stated)


def _binned(s: Array, bins: int) -> Array:
    """Sums over bins."""
    return np.asarray(np.add.reduceat(s, np.arange(bins) * len(s) // bins))
