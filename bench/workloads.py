"""The published domains and workloads, shared by the tables that use them."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from bench.common import schemas
from leastnoise import Domain, Workload, sized
from leastnoise.workload.workload import Queries

KINDS = ("marginal", "prefix", "range", "circular", "affine", "abs_diff", "random")


def cube(n: int, d: int) -> Domain:
    """[n]^d: d ordered attributes of n values."""
    return Domain.of(**{f"a{i}": sized(n, ordered=True) for i in range(d)})


def schema(name: str, all_ordered: bool = False) -> Domain:
    """A published schema; categorical attributes are c0, c1, ..., numeric ones n0, n1, ..."""
    sizes = schemas()[name]
    categorical = {f"c{i}": sized(n, ordered=all_ordered) for i, n in enumerate(sizes["categorical"])}
    return Domain.of(**categorical, **{f"n{i}": sized(n, ordered=True) for i, n in enumerate(sizes["numeric"])})


def hybrid(dataset: str, ways: str) -> Workload:
    """Table 2: marginal on categorical, prefix on numeric attributes, for ways such as "1,2,3"."""
    return Workload(schema(dataset)).hybrid(ways=[int(w) for w in ways.split(",")])


def pairwise(dataset: str, kind: str, largest: int | None = None) -> Workload:
    """Table 3: 1-way hybrid plus affine or abs-diff on all pairs, every attribute taken as ordered.

    Pairs with more than `largest` residual cells are replaced by prefix products, as the published figures were.
    """
    domain = schema(dataset, all_ordered=True)
    categorical = [a for a in domain.names if a.startswith("c")]
    work = Workload(domain).marginals(*categorical, ways=1)
    work = work.prefix(*(a for a in domain.names if a not in categorical), ways=1)
    size = dict(zip(domain.names, domain.shape, strict=True))
    pairs = list(combinations(domain.names, 2))
    large = {(a, b) for a, b in pairs if largest is not None and (size[a] - 1) * (size[b] - 1) > largest}
    if not large:
        return work.add(kind, ways=2)
    for pair in pairs:
        work = work.add("prefix" if pair in large else kind, on=pair)
    return work


def parts(kind: str, n: int, seed: int = 0) -> list[tuple[Queries, int]]:
    """Tables 4 and 8: the 1-way and the 2-way queries of a kind on attributes of n values."""
    if kind == "random":
        return [({"random": {"count": 3 * n**k, "density": 0.3, "seed": seed}}, k) for k in (1, 2)]
    return [("prefix" if kind in ("affine", "abs_diff") else kind, 1), (kind, 2)]


def one_and_two_way(kind: str, n: int, d: int = 40, seed: int = 0) -> Workload:
    """Table 4: all 1-way and 2-way queries of a kind on [n]^d."""
    work = Workload(cube(n, d))
    for queries, ways in parts(kind, n, seed):
        work = work.add(queries, ways=ways)
    return work


def weighted_sets(kind: str, n: int, d: int = 40, seed: int = 0) -> Workload:
    """Table 8: as table 4, with one integer weight from 1 to 5 per attribute set, the same for every kind."""
    domain = cube(n, d)
    rng = np.random.default_rng(seed)
    work = Workload(domain)
    for queries, ways in parts(kind, n, seed):
        for attributes in combinations(domain.names, ways):
            work = work.add(queries, on=attributes, weight=float(rng.integers(1, 6)))
    return work


def weighted_queries(kind: str, n: int, d: int = 40, seed: int = 0) -> Workload:
    """Table 8 as its text has it: one integer weight from 1 to 5 for every query.

    Pairs then share no problem, and no Gram is a product: [10]^40 has 780 problems of 100 cells.
    """
    domain = cube(n, d)
    rng = np.random.default_rng(seed)
    work = Workload(domain)
    for queries, ways in parts(kind, n, seed):
        for attributes in combinations(domain.names, ways):
            plain = Workload(domain).add(queries, on=attributes)
            work = work.add(queries, on=attributes, weights=rng.integers(1, 6, plain.queries).astype(np.float64))
    return work


def mixed(n: int, d: int) -> Workload:
    """Table 5: 1-way range, 2-way affine, 3-way prefix on [n]^d."""
    return Workload(cube(n, d)).ranges(ways=1).affine(ways=2).prefix(ways=3)


def views(work: Workload) -> int:
    """Attribute sets that a workload needs."""
    return sum(b.tables for b in work.blocks)
