"""Registries: every family, tensor family, residual problem and workload that the laws run over."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np

import leastnoise as ln
from leastnoise._types import Array
from leastnoise.algebra.gram import Dense, Factor, Gram, Kron, Sum
from leastnoise.domain.tree import Tree
from leastnoise.planning.residual_workload import Baseline, SlotData, TensorPart
from leastnoise.strategies import Axis
from leastnoise.workload import Family, TensorFamily, Workload
from leastnoise.workload.families import (
    Circular,
    Cyclic,
    Marginal,
    Matrix,
    Prefix,
    Random,
    Range,
    Suffix,
    Threshold,
    Total,
)
from leastnoise.workload.hierarchy import Nodes
from leastnoise.workload.tensors import AbsDiff, Affine, MatrixTensor, ProductTensor, RandomTensor, WeightedTensor
from leastnoise.workload.weighted import Weighted


def generator(*seed: int) -> np.random.Generator:
    return np.random.default_rng([1234, *seed])


def skewed(n: int) -> Array:
    """A baseline that is neither uniform nor symmetric."""
    p = 1.0 + np.arange(n) % 3 + 0.1 * np.arange(n)
    return p / p.sum()


# --- families: one function of n each, because some hold arrays of that size ------------------------------------------

FAMILIES: dict[str, Callable[[int], Family]] = {
    "total": lambda n: Total(),
    "marginal": lambda n: Marginal(),
    "prefix": lambda n: Prefix(),
    "suffix": lambda n: Suffix(),
    "threshold": lambda n: Threshold(),
    "range": lambda n: Range(),
    "circular": lambda n: Circular(),
    "random": lambda n: Random(n + 2, 0.4, 3),
    "few random": lambda n: Random(max(n // 2, 1), 0.5, 9),
    "matrix": lambda n: Matrix(generator(n).integers(-2, 3, (n + 1, n)) + 0.25),
    "phi": lambda n: Cyclic(generator(n, 1).normal(size=n)),
    "nodes": lambda n: Nodes(Tree.balanced(n, 3), 0.5 + generator(n, 4).random(Tree.balanced(n, 3).nodes)),
    "weighted prefix": lambda n: Weighted(Prefix(), 0.5 + generator(n, 2).random(n)),
    "weighted matrix": lambda n: Weighted(
        Matrix(generator(n).integers(-2, 3, (n + 1, n)) + 0.25), 0.5 + generator(n, 3).random(n + 1)
    ),
}

# residual rows alone: nothing in common, so a product of strategies measures what nobody asks for
PARTS: dict[str, Callable[[int], Family]] = {
    "first contrast": lambda n: Matrix(np.eye(n)[:1] - np.eye(n)[1:2]),
    "last contrast": lambda n: Matrix(np.eye(n)[-2:-1] - np.eye(n)[-1:]),
}

TENSORS: dict[str, Callable[[tuple[int, ...]], TensorFamily]] = {
    "affine": lambda s: Affine(),
    "abs_diff": lambda s: AbsDiff(),
    "random": lambda s: RandomTensor(4, 0.4, 2),
    "many random": lambda s: RandomTensor(int(np.prod(s)) + 5, 0.4, 2),
    "matrix": lambda s: MatrixTensor(generator(*s).normal(size=(3, int(np.prod(s))))),
    "product": lambda s: ProductTensor((Prefix(), Range())),
    "weighted affine": lambda s: WeightedTensor(Affine(), 0.5 + generator(*s).random(sum(s) - 1)),
    "weighted product": lambda s: WeightedTensor(
        ProductTensor((Range(), Marginal())), 0.5 + generator(*s).random(s[0] * (s[0] + 1) // 2 * s[1])
    ),
}

SIZES = (1, 2, 3, 6, 7)
SHAPES = ((2, 2), (3, 3), (2, 4), (4, 3), (1, 3))


# --- residual problems: Grams as solvers meet them --------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """A Gram with the baselines of its attributes."""

    gram: Gram
    axes: tuple[Axis, ...]


def prior_of(n: int, skew: bool) -> Baseline:
    return Baseline(n, skewed(n) if skew else None)


def factor(name: str, n: int, skew: bool = False) -> Factor:
    return SlotData((FAMILIES | PARTS)[name](n), prior_of(n, skew)).factor


def problem(gram: Gram, skew: bool = False) -> Problem:
    baselines = [prior_of(n, skew) for n in gram.shape]
    return Problem(gram, tuple(Axis(p.values, (p.key, None)) for p in baselines))


def kron(*parts: tuple[str, int], skew: bool = False) -> Problem:
    return problem(Kron(tuple(factor(f, n, skew) for f, n in parts)), skew)


def tensor(name: str, shape: tuple[int, int], skew: bool = False) -> Problem:
    gram = TensorPart(TENSORS[name](shape), [prior_of(n, skew) for n in shape]).gram((0, 1))
    assert gram is not None
    return problem(gram, skew)


def mixed(*problems: Problem, skew: bool = False) -> Problem:
    return problem(Sum(tuple((1.0 + 0.5 * i, p.gram) for i, p in enumerate(problems))), skew)


def dense(p: Problem, skew: bool = False) -> Problem:
    return problem(Dense(p.gram.shape, ("dense", p.gram.key), p.gram.dense), skew)


PROBLEMS: dict[str, Problem] = {
    **{f"{f} {n}": kron((f, n)) for f in FAMILIES if f != "total" for n in (2, 6)},
    **{f"{f} 5 skewed": kron((f, 5), skew=True) for f in FAMILIES if f != "total"},
    "prefix x range": kron(("prefix", 4), ("range", 3)),
    "prefix x marginal skewed": kron(("prefix", 3), ("marginal", 4), skew=True),
    "circular x phi": kron(("circular", 3), ("phi", 3)),
    "marginal x marginal x prefix": kron(("marginal", 2), ("marginal", 3), ("prefix", 2)),
    **{f"{t} 3 x 4": tensor(t, (3, 4)) for t in TENSORS},
    **{f"{t} 3 x 3 skewed": tensor(t, (3, 3), skew=True) for t in TENSORS},
    "sum of products": mixed(kron(("prefix", 3), ("prefix", 4)), kron(("marginal", 3), ("range", 4))),
    "sum with tensor": mixed(kron(("marginal", 3), ("marginal", 3)), tensor("affine", (3, 3))),
    "sum skewed": mixed(
        kron(("prefix", 3), ("suffix", 3), skew=True), kron(("marginal", 3), ("matrix", 3), skew=True), skew=True
    ),
    "sum of contrasts": mixed(
        kron(("first contrast", 4), ("first contrast", 4)), kron(("last contrast", 4), ("last contrast", 4))
    ),
    "dense": dense(kron(("prefix", 3), ("range", 3))),
}


def extended_marginals(sizes: tuple[int, ...], numerical: set[int], p: dict[tuple[int, ...], float]) -> Workload:
    """WFF's prefixes and suffixes: every sign pattern on the numerical attributes of each set, with weights p(S)."""
    work = Workload(ordered(*sizes))
    for S, weight in p.items():
        count = int(np.prod([2 * sizes[j] if j in numerical else sizes[j] for j in S], dtype=int))
        choices = [("prefix", "suffix") if j in numerical else ("marginal",) for j in S]
        for families in product(*choices):
            named = dict(zip([work.domain.names[j] for j in S], families, strict=True))
            work = work.add(named, weight=weight / count) if S else work.total(weight=weight)
    return work


# --- workloads: small enough for explicit matrices --------------------------------------------------------------------


def ordered(*sizes: int) -> ln.Domain:
    return ln.Domain.of({name: range(n) for name, n in zip("abcdef", sizes, strict=False)})


def _w(*sizes: int) -> Workload:
    return Workload(ordered(*sizes))


WORKLOADS: dict[str, Workload] = {
    "prefix 5": _w(5).prefix("a"),
    "range 5": _w(5).ranges("a"),
    "prefix 2-way": _w(3, 4).prefix(ways=[1, 2]),
    "prefix full": _w(4, 4).prefix("a", "b"),
    "range 2-way": _w(3, 4).ranges(ways=[1, 2]),
    "range of 3": _w(3, 3, 3).ranges(ways=[2]),
    "prefix of 3": _w(3, 2, 4).prefix(ways=[0, 1, 2, 3]),
    "suffix and prefix": _w(4, 3).prefix(ways=2).suffix(ways=1),
    "hybrid": Workload(ln.Domain.of(a=range(4), b=3, c=range(2))).hybrid(ways=[1, 2]),
    "mixed product": _w(3, 4, 2).add({"a": "prefix", "b": "range", "c": "marginal"}),
    "families by set": _w(4, 4).prefix("a").ranges("b").add({"a": "range", "b": "prefix"}, weight=2),
    "range by": _w(4, 3).ranges("a", by="b", weight=3).total(),
    "equal sizes, other families": _w(4, 4).prefix("a").ranges("b").marginals("a", "b"),
    "affine": _w(4, 4).affine("a", "b").marginals(ways=1),
    "affine of other sizes": _w(3, 5).affine("a", "b").prefix(ways=1),
    "affine of 3": _w(3, 3, 3).affine(ways=2).prefix(ways=1),
    "abs_diff": _w(4, 3).abs_diff("a", "b").prefix(ways=1),
    "abs_diff and marginals": _w(4, 4).abs_diff("a", "b").marginals("a", "b", weight=0.3),
    "random 1-way": _w(5, 5).random(count=6, density=0.4, seed=2, ways=1),
    "random 2-way": _w(3, 4).random("a", "b", count=7, density=0.4, seed=5).marginals("a"),
    "random of 3": _w(3, 3, 2).random(count=5, density=0.5, seed=5, ways=2),
    "matrix": _w(4, 3).matrix(generator(1).integers(0, 3, (5, 12)), "a", "b").prefix("a"),
    "matrix 1-way": _w(4, 3).matrix([[1, 2, 0, 0], [0, 0, 1, 3]], "a").marginals("b"),
    "phi": _w(4, 3).add({"a": {"phi": [1, 1, 0, 0]}, "b": "marginal"}).add({"phi": [1.0, 0.5, 0, 0]}, on="a"),
    "weights": _w(4, 3).prefix("a", weight=0.2).marginals("a", "b", weight=5).total(weight=2),
    "row weights": _w(4, 3).add("prefix", on="a", weights=[1, 2, 3, 4]).marginals("b"),
    "row weights 2-way": _w(3, 2).add("prefix", weights=[1, 2, 3, 4, 5, 6]).marginals(ways=1),
    "row weights affine": _w(3, 3).add("affine", weights=[1, 2, 3, 4, 5]).marginals(ways=1),
    "size one": _w(1, 4, 1).prefix(ways=[1, 2]),
    "sum of products": _w(3, 3).prefix("a", "b").marginals("a", "b").ranges("a", "b"),
    "low rank only": _w(4, 4).affine("a", "b"),
    "two contrasts": _w(4, 4)
    .add({n: {"matrix": [[1, -1, 0, 0]]} for n in "ab"})
    .add({n: {"matrix": [[0, 0, 1, -1]]} for n in "ab"}),
    "contrasts": _w(3, 3).add({"a": {"matrix": [[1, -1, 0], [0, 1, -1]]}, "b": "prefix"}),
    "marginals 2-way": _w(3, 4, 2).marginals(ways=2),
    "marginals of all": _w(2, 3, 2).marginals(ways=[0, 1, 2, 3]),
    "circular": _w(4, 5).circular(ways=[1, 2]),
    "total": _w(3, 2).total(),
}

UNIFORM_IS_BEST = {"marginals 2-way", "marginals of all", "circular", "total"}
