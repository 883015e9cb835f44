"""Published workloads as every mechanism can be given them: matrices of queries on sets of attributes, beside our own.

A table of products has one matrix per attribute, any other table one matrix for all of its attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import combinations
from math import prod

import numpy as np

from bench.common import published
from bench.workloads import cube, hybrid, mixed, one_and_two_way
from leastnoise import Workload
from leastnoise._types import Array

JOINT = ("affine", "abs_diff")  # on two attributes at once
PRINTED = {"rp_plus": "RP+", "hdmm": "HDMM", "querysmasher": "QuerySmasher"}
Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Table:
    """Queries on some attributes: one kind for each of them, or a joint kind."""

    attributes: tuple[int, ...]
    kinds: tuple[str, ...]

    @property
    def is_product(self) -> bool:
        """Whether the queries are products of queries on single attributes."""
        return self.kinds[0] not in JOINT

    def matrices(self, sizes: Sizes) -> list[Array]:
        """One matrix of queries per attribute, or a single one for all."""
        own = [sizes[i] for i in self.attributes]
        if not self.is_product:
            return [joint_rows(self.kinds[0], *own)]
        return [single_rows(kind, n) for kind, n in zip(self.kinds, own, strict=True)]

    def queries(self, sizes: Sizes) -> int:
        """How many there are."""
        return prod(len(m) for m in self.matrices(sizes))

    def dense(self, sizes: Sizes) -> Array:
        """Rows over the whole domain, which must be tiny."""
        inside = reduce(np.kron, self.matrices(sizes))
        return inside @ marginalization(self.attributes, sizes)


@dataclass(frozen=True)
class Question:
    """What a mechanism is asked for; it has nothing of ours in it."""

    sizes: Sizes
    tables: tuple[Table, ...]

    @property
    def queries(self) -> int:
        """In all tables."""
        counts: dict[tuple[Sizes, tuple[str, ...]], int] = {}
        for table in self.tables:
            key = tuple(self.sizes[i] for i in table.attributes), table.kinds
            if key not in counts:
                counts[key] = table.queries(self.sizes)
        return sum(counts[tuple(self.sizes[i] for i in t.attributes), t.kinds] for t in self.tables)

    def gram(self) -> Array:
        """W^T W over the whole domain, which must be tiny."""
        rows = [table.dense(self.sizes) for table in self.tables]
        return sum((r.T @ r for r in rows), np.zeros((prod(self.sizes),) * 2))


@dataclass(frozen=True)
class Case:
    """One workload with what is printed for it."""

    source: str  # where it is printed
    name: str
    workload: Workload  # ours
    question: Question  # the same for others
    printed: Mapping[str, float] = field(default_factory=dict)  # RMSE at privacy cost 1, by mechanism
    rounding: float = 0.0

    @cached_property
    def label(self) -> str:
        """Source and name."""
        return f"{self.source}: {self.name}"


def single_rows(kind: str, n: int) -> Array:
    """Queries on one attribute of n values."""
    x = np.arange(n)
    if kind == "marginal":
        return np.eye(n)
    if kind == "prefix":
        return np.tri(n)
    pairs = [(a, b) for a in range(n) for b in range(n)]
    if kind == "range":
        return np.array([(a <= x) & (x <= b) for a, b in pairs if a <= b], dtype=np.float64)
    if kind == "circular":  # from a on, b + 1 values around the circle
        return np.array([(x - a) % n <= b for a, b in pairs], dtype=np.float64)
    raise ValueError(f"no queries of kind {kind!r} on one attribute; use marginal, prefix, range or circular")


def joint_rows(kind: str, n: int, m: int) -> Array:
    """Queries on two attributes: x + y <= c, or |x - y| <= c."""
    x, y = np.indices((n, m)).reshape(2, -1)
    values, largest = (x + y, n + m - 2) if kind == "affine" else (np.abs(x - y), max(n, m) - 1)
    return np.array([values <= c for c in range(largest + 1)], dtype=np.float64)


def marginalization(attributes: Sequence[int], sizes: Sizes) -> Array:
    """The matrix that counts the table of these attributes from all cells."""
    return reduce(np.kron, [np.eye(n) if i in attributes else np.ones((1, n)) for i, n in enumerate(sizes)])


def tables(kinds: Sequence[str], ways: Iterable[int]) -> tuple[Table, ...]:
    """All products of so many attributes, each with its own kind."""
    sets = [s for k in ways for s in combinations(range(len(kinds)), k)]
    return tuple(Table(s, tuple(kinds[i] for i in s)) for s in sets)


def pairs(kind: str, d: int) -> tuple[Table, ...]:
    """A joint kind on all pairs of d attributes."""
    return tuple(Table(s, (kind,)) for s in combinations(range(d), 2))


def hybrid_question(work: Workload, ways: Sequence[int]) -> Question:
    """Marginals on categorical attributes (c0, ...), prefixes on numeric ones (n0, ...)."""
    kinds = ["prefix" if name.startswith("n") else "marginal" for name in work.domain.names]
    return Question(work.domain.shape, tables(kinds, ways))


def one_and_two_way_question(kind: str, n: int, d: int) -> Question:
    """Table 4: one-way queries are prefixes where two-way queries are joint."""
    if kind in JOINT:
        return Question((n,) * d, (*tables(["prefix"] * d, [1]), *pairs(kind, d)))
    return Question((n,) * d, tables([kind] * d, [1, 2]))


def mixed_question(n: int, d: int) -> Question:
    """Table 5: one-way ranges, two-way affine, three-way prefixes."""
    ones, threes = tables(["range"] * d, [1]), tables(["prefix"] * d, [3])
    return Question((n,) * d, (*ones, *pairs("affine", d), *threes))


def all_of(kind: str, n: int, d: int, ways: Sequence[int]) -> tuple[Workload, Question]:
    """Products of one kind on [n]^d, ours and for others."""
    work = Workload(cube(n, d))
    for k in ways:
        work = work.add(kind, ways=k)
    return work, Question((n,) * d, tables([kind] * d, ways))


def cases() -> Iterator[Case]:
    """Every workload that is compared."""
    yield from _table2()
    yield from _table4()
    yield from _table5()
    yield Case("marginals", "1,2,3-way [10]^10", *all_of("marginal", 10, 10, [1, 2, 3]))
    yield Case("marginals", "1,2,3-way [10]^20", *all_of("marginal", 10, 20, [1, 2, 3]))
    yield from _products()


def _table2() -> Iterator[Case]:
    table = published("table2")
    for row in table.rows:
        work, ways = hybrid(row["dataset"], row["ways"]), [int(w) for w in row["ways"].split(",")]
        question = hybrid_question(work, ways)
        yield Case("table 2", f"{row['dataset']} {row['ways']}-way", work, question, _printed(row), 0.005)


def _table4() -> Iterator[Case]:
    table = published("table4")
    for row in table.rows:
        kind, n = row["workload"], row["n"]
        if kind != "random":  # its draw is not known
            work, question = one_and_two_way(kind, n), one_and_two_way_question(kind, n, 40)
            yield Case("table 4", f"{kind} [{n}]^40", work, question, _printed(row), table.rounding)


def _table5() -> Iterator[Case]:
    table = published("table5")
    for row in table.rows:
        n, d = row["n"], row["d"]
        yield Case("table 5", f"mixed [{n}]^{d}", mixed(n, d), mixed_question(n, d), _printed(row), table.rounding)


def _products() -> Iterator[Case]:
    """Tables in the repository of RP+: one product on all five attributes."""
    table = published("rp_plus_products")
    for row in table.rows:
        kind, n = row["workload"], row["n"]
        work, question = all_of(kind, n, 5, [5])
        yield Case("RP+ files", f"{kind} 5-way [{n}]^5", work, question, _printed(row), table.rounding)


def _printed(row: Mapping[str, float]) -> dict[str, float]:
    return {name: row[key] for key, name in PRINTED.items() if key in row}
