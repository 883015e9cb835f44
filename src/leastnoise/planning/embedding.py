"""WFF's extended marginals: prefix and suffix queries as product queries on a doubled cycle (WFF Theorem 4.8).

An attribute of n values with prefix or suffix queries becomes a cycle of 2n values, of which the data uses the first n.
What a query says about the others is free, since nobody is there. Prefixes and suffixes become half circles (WFF Lemma
4.7), all with the same variance. Other queries extend in one linear way, f(x + n) = f(0) + f(n - 1) - f(x), so that
answers add up: it gives half circles but for everybody, who stays constant, and a single value is the difference of two
half circles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.domain.attributes import Attribute, Domain, sized
from leastnoise.errors import LeastnoiseError
from leastnoise.workload import Block, Family, Workload
from leastnoise.workload.families import Cyclic, Marginal, Prefix, Suffix, Threshold, Total, digest


@dataclass(frozen=True, eq=False)
class Shifts(Family):
    """Some shifts t of a function phi on the cycle: rows phi((t - x) mod n)."""

    name: ClassVar[str] = "shifts"
    phi: Array = field(repr=False)
    shifts: IntArray = field(repr=False)

    def count(self, n: int) -> int:
        return len(self.shifts)

    def rows(self, n: int) -> Array:
        return Cyclic(self.phi).rows(n)[self.shifts]

    def wrapped_diagonal(self, n: int) -> Array:
        # every shift has the same Fourier magnitudes, so a part of the shifts has its share of the diagonal
        return Cyclic(self.phi).wrapped_diagonal(n) * (len(self.shifts) / n)

    def up_to_shifts(self, n: int) -> tuple[Array, IntArray]:
        return self.phi[None], np.zeros(len(self.shifts), dtype=np.int64)

    @property
    def key(self) -> tuple[object, ...]:
        return (self.name, digest(self.phi, self.shifts.astype(np.float64)))


def unfolded(queries: Array, axis: int) -> Array:
    """Queries on n values as queries on the doubled cycle, along one axis.

    >>> unfolded(np.tri(3), 1).astype(int).tolist()
    [[1, 0, 0, 0, 1, 1], [1, 1, 0, 0, 0, 1], [1, 1, 1, 1, 1, 1]]
    """
    first = np.moveaxis(queries, axis, -1)
    second = first[..., :1] + first[..., -1:] - first
    return np.moveaxis(np.concatenate([first, second], axis=-1), -1, axis)


def folded(table: Array, axis: int) -> Array:
    """The transpose of `unfolded`: from a table on the doubled cycle to one whose queries have the same answers."""
    first, second = np.split(np.moveaxis(table, axis, -1), 2, axis=-1)
    out, rest = first - second, second.sum(axis=-1)
    out[..., 0] += rest
    out[..., -1] += rest
    return np.moveaxis(out, -1, axis)


@dataclass(frozen=True)
class Unfolded(Family):
    """A family on n values as queries on the doubled cycle."""

    name: ClassVar[str] = "unfolded"
    base: Family

    def count(self, n: int) -> int:
        return self.base.count(n // 2)

    def rows(self, n: int) -> Array:
        return unfolded(self.base.rows(n // 2), 1)

    def up_to_shifts(self, n: int) -> tuple[Array, IntArray] | None:
        values, m = np.arange(n), n // 2
        if not isinstance(self.base, Marginal) or m < 2:
            return None
        difference = (values == 0).astype(np.float64) - (values == m)  # of two neighbouring half circles
        which = np.zeros(m, dtype=np.int64)
        which[[0, -1]] = 1
        return np.stack([difference, values < m]), which

    @property
    def key(self) -> tuple[object, ...]:
        return (self.name, self.base.key)


def embedded_family(family: Family, n: int) -> Family:
    """A family on n values on a cycle of 2n; on the first n values the queries are the same (WFF Lemma 4.7)."""
    half = (np.arange(2 * n) < n).astype(np.float64)
    if isinstance(family, Suffix):  # x >= c is the shift n-1+c
        return Shifts(half, np.arange(n - 1, 2 * n - 1))
    if isinstance(family, Prefix):
        return Shifts(half, np.arange(n))
    if isinstance(family, Threshold):
        return Shifts(half, np.concatenate([np.arange(n), np.arange(n - 1, 2 * n - 1)]))
    if isinstance(family, Marginal):
        return Unfolded(family)
    if isinstance(family, Total):
        return family
    raise LeastnoiseError(
        f"solver 'embedding' knows marginal, prefix, suffix and threshold queries, not {family.name!r}; "
        "use solver 'fourier'"
    )


def embed(workload: Workload) -> Workload:
    """The same queries on a domain where every attribute with prefix or suffix queries is doubled."""
    workload.domain.check_counted("solver 'embedding'")
    products = [b for b in workload.blocks if b.is_product]
    double = {i for b in products for i in b.on if isinstance(b.family(i), Prefix | Threshold)}
    domain = Domain(
        tuple(
            Attribute.of(a.name, sized(2 * a.size, ordered=True)) if i in double else a
            for i, a in enumerate(workload.domain.attributes)
        )
    )
    return Workload(domain, tuple(_embed_block(b, workload.domain, double) for b in workload.blocks))


def _embed_block(block: Block, domain: Domain, double: set[int]) -> Block:
    if not block.is_product:
        raise LeastnoiseError(f"solver 'embedding' knows products only, not {block.label}; use solver 'fourier'")
    families = tuple(
        embedded_family(block.family(i), domain.shape[i]) if i in double else block.family(i) for i in block.on
    )
    return replace(block, families=families)


@dataclass(frozen=True)
class Doubling:
    """Which attributes stand on a doubled cycle: none but in plans of solver 'embedding'."""

    sizes: Mapping[int, int]  # of these attributes, without those that stand on their own values

    @staticmethod
    def between(domain: Domain, wide: Domain) -> Doubling:
        """The attributes whose size differs."""
        sizes = zip(domain.shape, wide.shape, strict=True)
        return Doubling({a: n for a, (n, m) in enumerate(sizes) if n != m})

    def __bool__(self) -> bool:
        return bool(self.sizes)

    def queries(self, attributes: Sequence[int], weights: Array) -> Array:
        """Queries (..., *values of the attributes) on the domain that is measured."""
        for axis, a in enumerate(attributes):
            if a in self.sizes:
                weights = unfolded(weights, axis - len(attributes))
        return weights

    def families(self, attributes: Sequence[int], families: Sequence[Family]) -> list[Family]:
        """The same for one family per attribute; prefixes and suffixes are half circles, as in WFF."""
        pairs = zip(attributes, families, strict=True)
        return [self._family(f, self.sizes[a]) if a in self.sizes else f for a, f in pairs]

    @staticmethod
    def _family(family: Family, n: int) -> Family:
        return embedded_family(family, n) if isinstance(family, Prefix | Threshold) else Unfolded(family)
