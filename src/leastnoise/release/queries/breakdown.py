"""Groups of rows by attributes or levels of their hierarchies, as conditions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from leastnoise.domain.attributes import Attribute, Domain, Scalar
from leastnoise.errors import LeastnoiseError
from leastnoise.release.frames import values_of
from leastnoise.release.queries.linear import Condition
from leastnoise.workload.hierarchy import hierarchy_of

MOST_GROUPS = 10_000


class Slice(NamedTuple):
    """Rows with the same values of some attributes: what tables show for each, and the condition."""

    labels: dict[str, Any]
    condition: Condition


class Axis(NamedTuple):
    """An attribute, maybe at a level of its hierarchy: its values, and the codes of each."""

    name: str
    position: int
    shown: Sequence[Scalar]
    spans: Sequence[tuple[int, int]]  # the first code of each, and one after the last

    def groups(self, domain: Domain) -> Iterator[tuple[Scalar, Condition]]:
        """Each value with the condition that it holds."""
        codes = np.arange(domain.shape[self.position])
        for label, (start, stop) in zip(self.shown, self.spans, strict=True):
            yield label, Condition.of(domain, self.position, (codes >= start) & (codes < stop))


def axis(domain: Domain, text: str) -> Axis:
    """An attribute by its name, or one of its levels as attribute.level.

    >>> axis(Domain.of(sex=["F", "M"]), "sex").shown
    ['F', 'M']
    """
    name, dot, level = text.rpartition(".")
    if text in domain or not dot or name not in domain:
        position = domain.index(text)
        attribute = domain.attributes[position]
        if attribute.amount is not None:
            raise LeastnoiseError(f"{text!r} is an amount, which makes no groups; group by other attributes, or sum it")
        return Axis(text, position, values_of(attribute), [(code, code + 1) for code in range(attribute.size)])
    return _at_level(domain[name], domain.index(name), level)


def _at_level(attribute: Attribute, position: int, level: str) -> Axis:
    hierarchy = hierarchy_of(attribute)
    nodes = hierarchy.across(int(level) if level.isdecimal() and level not in hierarchy.level_names else level).tolist()
    shown = [hierarchy.names[node] for node in nodes]
    return Axis(f"{attribute.name}.{level}", position, shown, [hierarchy.tree.range_of(node) for node in nodes])


def axes(domain: Domain, names: Sequence[str]) -> list[Axis]:
    """Several, each once; a text may hold some with commas in between."""
    parts = [part.strip() for name in names for part in ([name] if name in domain else name.split(","))]
    results = [axis(domain, part) for part in parts]
    if twice := [a.name for k, a in enumerate(results) if a.position in [b.position for b in results[:k]]]:
        raise LeastnoiseError(f"groups by {twice[0]!r} name its attribute twice; name each once")
    return results


def breakdown(domain: Domain, names: Sequence[str]) -> list[Slice]:
    """One group for each combination of values; the last attribute varies fastest. Without names: everybody."""
    along = axes(domain, names)
    groups = prod(len(a.shown) for a in along)
    if groups > MOST_GROUPS:
        raise LeastnoiseError(
            f"by {', '.join(a.name for a in along)} there are {groups:,} groups, more than {MOST_GROUPS:,}; "
            "use fewer attributes, or a level of a hierarchy such as geo.state"
        )
    results = []
    for pick in product(*(list(a.groups(domain)) for a in along)):
        labels = {a.name: label for a, (label, _) in zip(along, pick, strict=True)}
        results.append(Slice(labels, Condition.every(domain, [condition for _, condition in pick])))
    return results
