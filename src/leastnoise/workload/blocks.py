"""Blocks: one statement of a workload, standing for all its attribute subsets at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from leastnoise.domain import Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.workload.families import Family, Total
from leastnoise.workload.tensors import TensorFamily


@dataclass(frozen=True)
class Block:
    """All queries of one kind on every `ways`-subset of the attributes `on`.

    `families` has one family per attribute of `on` (a product group), or is one `TensorFamily`
    for queries over the subset as a whole.
    """

    on: tuple[int, ...]
    ways: int
    families: tuple[Family, ...] | TensorFamily
    weight: float = 1.0
    label: str = ""
    target: float | None = None  # largest standard error allowed

    @property
    def is_product(self) -> bool:
        """True when every query is a product of one row per attribute."""
        return not isinstance(self.families, TensorFamily)

    @property
    def tensor(self) -> TensorFamily:
        """The family of a block that is not a product."""
        if not isinstance(self.families, TensorFamily):
            raise LeastnoiseError(f"{self.label} is a product block and has no tensor family")
        return self.families

    def family(self, attribute: int) -> Family:
        """The family of one attribute in a product block."""
        if isinstance(self.families, TensorFamily):
            raise LeastnoiseError(f"{self.label} is not a product block; it has no family per attribute")
        return self.families[self.on.index(attribute)]

    @property
    def families_key(self) -> object:
        """Content key of the queries."""
        if isinstance(self.families, TensorFamily):
            return self.families.key
        return tuple(f.key for f in self.families)

    @property
    def tables(self) -> int:
        """Number of attribute subsets."""
        return comb(len(self.on), self.ways)

    def subsets(self) -> Iterator[tuple[int, ...]]:
        """The attribute subsets, in order."""
        return combinations(self.on, self.ways)

    def count(self, domain: Domain) -> int:
        """Number of queries, without listing the subsets."""
        if isinstance(self.families, TensorFamily):
            shapes: dict[tuple[int, ...], int] = {}
            for s in self.subsets():
                shape = tuple(domain.shape[i] for i in s)
                shapes[shape] = shapes.get(shape, 0) + 1
            return sum(self.families.count(shape) * times for shape, times in shapes.items())
        poly = [1] + [0] * self.ways  # elementary symmetric polynomials of the counts, in exact integers
        for i, f in zip(self.on, self.families, strict=True):
            c = f.count(domain.shape[i])
            for k in range(self.ways, 0, -1):
                poly[k] += c * poly[k - 1]
        return poly[self.ways]

    def signature(self, attribute: int) -> tuple[object, ...]:
        """How this block treats one attribute; attributes with equal signatures everywhere are interchangeable."""
        if attribute not in self.on:
            return ()
        if isinstance(self.families, TensorFamily):
            return ("in",) if self.families.symmetric else ("in", attribute)
        return ("in", self.family(attribute).key)

    def check(self, domain: Domain) -> None:
        """Refuse what cannot be meant: order where there is none, weights that are not positive, too many ways."""
        if not (isinstance(self.weight, int | float | np.number) and 0 < self.weight < np.inf):
            raise LeastnoiseError(
                f"weight {self.weight!r} of {self.label} is not positive; leave the queries out instead"
            )
        if not 0 <= self.ways <= len(self.on):
            raise LeastnoiseError(f"{self.ways}-way {self.label} on {len(self.on)} attributes is empty; use fewer ways")
        if self.target is not None and not (np.isfinite(self.target) and self.target > 0):
            raise LeastnoiseError(f"accuracy target {self.target} of {self.label} is not positive")
        for i in self.on:
            needs = self.families if isinstance(self.families, TensorFamily) else self.family(i)
            if needs.needs_order and not domain.attributes[i].ordered:
                name = domain.attributes[i].name
                raise LeastnoiseError(
                    f"{needs.name} needs an order but attribute {name!r} has none; "
                    f"declare it ordered or use 'marginal' on it"
                )
        self._check_sizes(domain)

    def _check_sizes(self, domain: Domain) -> None:
        if isinstance(self.families, TensorFamily):
            for shape in {tuple(domain.shape[i] for i in s) for s in self.subsets()}:
                self.families.weights(shape)
                if self.families.name == "matrix":
                    self.families.rows(shape)
            return
        for i, f in zip(self.on, self.families, strict=True):
            if f.name in ("matrix", "phi"):
                f.rows(domain.shape[i])
            if f.name == "nodes":
                f.spans(domain.shape[i])
            if f.name == "weighted":
                f.weights(domain.shape[i])


def total_block(weight: float = 1.0, target: float | None = None) -> Block:
    """The single query that counts everybody."""
    return Block((), 0, (), weight, Total.name, target)
