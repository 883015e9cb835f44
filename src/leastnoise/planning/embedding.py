"""WFF's extended marginals: prefix and suffix queries as product queries on a doubled cycle (WFF Theorem 4.8)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.domain.attributes import Attribute, Domain, sized
from leastnoise.errors import LeastnoiseError
from leastnoise.workload import Block, Family, Workload
from leastnoise.workload.families import Cyclic, Marginal, Prefix, Suffix, Total, digest


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

    def intervals(self, n: int) -> tuple[IntArray, IntArray] | None:
        ones = int(self.phi.sum())  # phi is the indicator of an arc here
        return (np.array([ones]), np.array([len(self.shifts)])) if self.phi[:ones].all() else None

    @property
    def key(self) -> tuple[object, ...]:
        return (self.name, digest(self.phi, self.shifts.astype(np.float64)))


def embedded_family(family: Family, n: int) -> Family:
    """A family on n values as shifts on 2n values; on the first n values the queries are the same (WFF Lemma 4.7)."""
    half = (np.arange(2 * n) < n).astype(np.float64)
    if isinstance(family, Suffix):  # x >= c is the shift n-1+c
        return Shifts(half, np.arange(n - 1, 2 * n - 1))
    if isinstance(family, Prefix):
        return Shifts(half, np.arange(n))
    if isinstance(family, Marginal):
        return Shifts((np.arange(2 * n) == 0).astype(np.float64), np.arange(n))
    if isinstance(family, Total):
        return family
    raise LeastnoiseError(
        f"solver 'embedding' knows marginal, prefix and suffix queries, not {family.name!r}; use solver 'fourier'"
    )


def embed(workload: Workload) -> Workload:
    """The same queries on a domain where every attribute with prefix or suffix queries is doubled."""
    double = {i for b in workload.blocks if b.is_product for i in b.on if isinstance(b.family(i), Prefix)}
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
