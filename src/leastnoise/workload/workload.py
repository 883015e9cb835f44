"""Workload: which statistics matter, and how much."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import NormalDist
from typing import Any, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array
from leastnoise.domain.attributes import Attribute, Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.workload.blocks import WEIGHTS, Block, total_block
from leastnoise.workload.families import FAMILIES, Cyclic, Family, Marginal, Matrix, Prefix, Random, Threshold
from leastnoise.workload.hierarchy import Nodes, nodes_of
from leastnoise.workload.known import on_known
from leastnoise.workload.sums import Sum, squares_of, sum_of
from leastnoise.workload.tensors import TENSORS, MatrixTensor, ProductTensor, RandomTensor, TensorFamily, WeightedTensor
from leastnoise.workload.weighted import Weighted

Queries = str | Family | TensorFamily | Mapping[str, Any]
BY_ORDER: dict[str, Family] = {"hybrid": Prefix(), "extended": Threshold()}  # on ordered attributes; else marginal
NAMES = (*FAMILIES, "nodes", Sum.name, *BY_ORDER, *TENSORS, "random", "matrix", "phi")


def finite(array: npt.ArrayLike, what: str) -> Array:
    """The array in float64; NaN, infinity and text refused by name."""
    try:
        a = np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError):
        raise LeastnoiseError(f"{what} is not an array of numbers; give rows of equal length") from None
    if a.size == 0:
        raise LeastnoiseError(f"{what} is empty; give at least one row")
    bad = np.argwhere(~np.isfinite(a))
    if len(bad):
        where = tuple(int(i) for i in bad[0])
        raise LeastnoiseError(f"{what} holds {a[where]} at {list(where)}; every entry must be a finite number")
    return a


LARGEST_ENTRY = 1e15  # of a matrix: products of several stay finite
MOST_RANDOM = 10**7  # random queries
STD_ERRORS = (1e-30, 1e30)  # between which accuracy targets are


def accuracy(within: float, confidence: float) -> float:
    """Largest standard error that keeps a Gaussian answer within +-`within` with this confidence."""
    if not 0 < confidence < 1:
        raise LeastnoiseError(f"confidence {confidence} is not between 0 and 1; use for example 0.95")
    if not within > 0:
        raise LeastnoiseError(f"within {within} is not positive; give the half-width of the interval")
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    if not STD_ERRORS[0] * z <= within <= STD_ERRORS[1] * z:
        raise LeastnoiseError(
            f"within {within:g} at confidence {confidence:g} is out of range; use a within between 1e-20 and 1e20"
        )
    return within / z


def family_of(queries: Any) -> Family:
    """A one-attribute family from its name or its spec form."""
    if isinstance(queries, Family):
        return queries
    if isinstance(queries, str) and queries in FAMILIES:
        return FAMILIES[queries]
    if isinstance(queries, Mapping) and set(queries) == {"matrix", "names"}:
        return _named_rows(_two_dimensional(queries["matrix"]), queries["names"])
    if isinstance(queries, Mapping) and len(queries) == 1:
        ((kind, value),) = queries.items()
        if kind == "matrix":
            return Matrix(_two_dimensional(value))
        if kind == "phi":
            return Cyclic(_entries(value, "phi").ravel())
        if kind == "random":
            return Random(*random_options(value))
    if isinstance(queries, Mapping) and set(queries) == {"of", "weights"}:
        base = family_of(queries["of"])
        if base.plain is not base:
            raise _weighted_twice(base.name)
        return Weighted(base, positive_weights(queries["weights"]))
    raise _unknown(queries)


def _named_rows(rows: Array, names: Any) -> Matrix:
    """Rows with a name for each, all different."""
    texts = tuple(str(name) for name in names)
    if len(texts) != len(rows):
        raise LeastnoiseError(f"there are {len(texts):,} names for {len(rows):,} queries; give one for each")
    if twice := [name for k, name in enumerate(texts) if name in texts[:k]]:
        raise LeastnoiseError(f"two queries are named {twice[0]!r}; names must differ")
    return Matrix(rows, texts)


def _unknown(queries: object) -> LeastnoiseError:
    return LeastnoiseError(f"unknown queries {queries!r}; use one of {', '.join(NAMES)}")


def _weighted_twice(label: str) -> LeastnoiseError:
    return LeastnoiseError(f"the {label} queries have weights already; give weights once")


def positive_weights(weights: npt.ArrayLike) -> Array:
    """Per-query weights: finite and positive."""
    w = finite(weights, "weights")
    if (w <= 0).any():
        raise LeastnoiseError(f"weight {w[w <= 0].flat[0]} is not positive; leave the query out instead")
    if len(odd := w[(w < WEIGHTS[0]) | (w > WEIGHTS[1])]):
        raise LeastnoiseError(f"weight {odd[0]:g} is out of range; use one between {WEIGHTS[0]} and {WEIGHTS[1]}")
    return w


def _entries(array: Any, what: str) -> Array:
    """Finite numbers whose squares and products stay finite."""
    values = finite(array, what)
    if (largest := float(np.abs(values).max())) > LARGEST_ENTRY:
        raise LeastnoiseError(f"{what} holds an entry of size {largest:g}, above {LARGEST_ENTRY:g}; use a larger unit")
    return values


def _two_dimensional(value: Any) -> Array:
    m = _entries(value, "matrix")
    if m.ndim != 2:
        raise LeastnoiseError(f"matrix has {m.ndim} dimensions; give a list of rows")
    return m


def random_options(value: Mapping[str, Any]) -> tuple[int, float, int]:
    """Count, density and seed of random queries, checked."""
    count, density, seed = value.get("count"), value.get("density", 0.3), value.get("seed", 0)
    if not isinstance(count, int) or count < 1:
        raise LeastnoiseError(f"random needs a positive count, not {count!r}")
    if count > MOST_RANDOM:
        raise LeastnoiseError(f"random count {count:,} is above {MOST_RANDOM:,}; use fewer queries")
    if not 0 < density < 1:
        raise LeastnoiseError(f"random density {density} is not between 0 and 1")
    if not isinstance(seed, int) or seed < 0:
        raise LeastnoiseError(f"random seed {seed!r} is not a whole number from 0 on")
    return count, float(density), int(seed)


def _tensor_of(queries: Any) -> TensorFamily | None:
    if isinstance(queries, TensorFamily):
        return queries
    if isinstance(queries, str):
        return TENSORS.get(queries)
    return None


class Accuracy(TypedDict, total=False):
    """How accurate the answers should be, by weight of each query or by an interval; see `Workload.add`."""

    weights: npt.ArrayLike | Mapping[str, float] | None
    within: float | None
    confidence: float


class QueryOptions(Accuracy, total=False):
    """What all methods that add queries take besides names of attributes, as `Workload.add` does."""

    ways: int | Sequence[int] | None
    weight: float


class _Placed(QueryOptions, total=False):
    on: str | Sequence[str] | None


def _on(names: Sequence[str], options: QueryOptions) -> _Placed:
    """Options with the attributes that were named as arguments, unless the options name some."""
    return {"on": names or None, **options}


@dataclass(frozen=True)
class Workload:
    """Statistics wanted from a domain; every method returns a new workload.

    >>> from leastnoise.domain.attributes import Domain
    >>> work = Workload(Domain.of(age=range(10), sex=["F", "M"])).marginals(ways=2).prefix("age")
    >>> work.queries
    30
    """

    domain: Domain
    blocks: tuple[Block, ...] = ()

    @property
    def queries(self) -> int:
        """Number of queries."""
        return sum(b.count(self.domain) for b in self.blocks)

    def add(
        self,
        queries: Queries,
        *,
        on: str | Sequence[str] | None = None,
        ways: int | Sequence[int] | None = None,
        weight: float = 1.0,
        weights: npt.ArrayLike | Mapping[str, float] | None = None,
        within: float | None = None,
        confidence: float = 0.95,
    ) -> Workload:
        """Add queries on exactly the attributes `on`, or on every `ways`-subset of them (of all, without `on`).

        `within` asks for accuracy instead of weight: every answer within +-`within` with this confidence.
        """
        target = None if within is None else accuracy(within, confidence)
        if isinstance(weights, Mapping):
            queries, weights = _weighted_nodes(queries, weights), None
        indices = self._indices(queries, on)
        blocks = []
        for k in self._ways(ways, len(indices)):
            block = self._block(queries, indices, k, weight, target)
            if weights is not None:
                block = _with_weights(block, positive_weights(weights))
            block.check(self.domain)
            blocks.append(block)
        return replace(self, blocks=self.blocks + tuple(blocks))

    def _indices(self, queries: Queries, on: str | Sequence[str] | None) -> tuple[int, ...]:
        if on is None and isinstance(queries, Mapping) and not _is_family_form(queries):
            on = list(queries)
        if on is None:  # amounts are summed, which a statement says by name
            return tuple(k for k in range(len(self.domain.attributes)) if k not in self.domain.amounts)
        names = [on] if isinstance(on, str) else list(on)
        twice = [n for n in names if names.count(n) > 1]
        if twice:
            raise LeastnoiseError(f"attribute {twice[0]!r} is named twice in {names}; name it once")
        return tuple(sorted(self.domain.index(n) for n in names))

    def _ways(self, ways: int | Sequence[int] | None, size: int) -> list[int]:
        if ways is None:
            return [size]
        sizes = list(ways) if isinstance(ways, Iterable) else [ways]
        for k in sizes:
            if not isinstance(k, int) or isinstance(k, bool) or not 0 <= k <= size:
                raise LeastnoiseError(f"ways {k!r} is not between 0 and the {size} attributes")
        if len(set(sizes)) < len(sizes):
            raise LeastnoiseError(f"ways {sizes} names a size twice; name each once")
        return sizes

    def _block(self, queries: Queries, on: tuple[int, ...], ways: int, weight: float, target: float | None) -> Block:
        if isinstance(queries, str) and queries not in NAMES:
            raise _unknown(queries)
        if ways == 0 or queries == "total":
            return total_block(weight, target)
        tensor = _tensor_of(queries)
        if tensor is not None:
            return Block(on, ways, tensor, weight, tensor.name, target)
        if isinstance(queries, str) and queries in BY_ORDER:
            mix = tuple(on_known(BY_ORDER[queries] if a.ordered else Marginal(), a) for a in self._at(on))
            return Block(on, ways, mix, weight, queries, target)
        if isinstance(queries, Mapping) and not _is_family_form(queries):
            return self._mixed(queries, on, ways, weight, target)
        if isinstance(queries, Mapping) and ways > 1 and next(iter(queries)) in ("matrix", "random"):
            form = _whole(queries)
            return Block(on, ways, form, weight, form.name, target)
        families = tuple(self._family(queries, i) for i in on)
        return Block(on, ways, families, weight, families[0].name, target)

    def _family(self, queries: Any, attribute: int) -> Family:
        """The family meant on one attribute; nodes are those of its own hierarchy, sums those of its bounds."""
        if queries == Sum.name:
            return sum_of(self.domain.attributes[attribute])
        if queries == Nodes.name:
            return nodes_of(self.domain.attributes[attribute])
        if isinstance(queries, Mapping) and _is_nodes_form(queries):
            return nodes_of(self.domain.attributes[attribute], queries[Nodes.name])
        return on_known(family_of(queries), self.domain.attributes[attribute])

    def _at(self, on: Sequence[int]) -> list[Attribute]:
        return [self.domain.attributes[i] for i in on]

    def _mixed(
        self, queries: Mapping[str, Any], on: tuple[int, ...], ways: int, weight: float, target: float | None
    ) -> Block:
        for name in queries:
            self.domain.index(name)
        names = [self.domain.attributes[i].name for i in on]
        if set(names) != set(queries):
            odd = sorted(set(names) ^ set(queries))[0]
            raise LeastnoiseError(f"attribute {odd!r} is not in both 'queries' and 'on'; give one family per attribute")
        families = tuple(self._family(queries[n], i) for n, i in zip(names, on, strict=True))
        label = " x ".join(f.name for f in families)
        return Block(on, ways, families, weight, label, target)

    def total(self, weight: float = 1.0, **options: Unpack[Accuracy]) -> Workload:
        """The number of people."""
        return self.add("total", weight=weight, **options)

    def marginals(self, *on: str, **options: Unpack[QueryOptions]) -> Workload:
        """Tables of counts."""
        return self.add("marginal", **_on(on, options))

    def prefix(self, *on: str, by: str | Sequence[str] = (), **options: Unpack[QueryOptions]) -> Workload:
        """A <= c for every c (products of those on several attributes), for each value of the attributes `by`."""
        return self._grouped("prefix", "prefix('age', by='sex')", on, by, options)

    def suffix(self, *on: str, by: str | Sequence[str] = (), **options: Unpack[QueryOptions]) -> Workload:
        """A >= c for every c, for each value of the attributes `by`."""
        return self._grouped("suffix", "suffix('age', by='sex')", on, by, options)

    def ranges(self, *on: str, by: str | Sequence[str] = (), **options: Unpack[QueryOptions]) -> Workload:
        """Every range of the attributes `on`, for each value of the attributes `by`."""
        return self._grouped("range", "ranges('age', by='sex')", on, by, options)

    def nodes(self, *on: str, by: str | Sequence[str] = (), **options: Unpack[QueryOptions]) -> Workload:
        """Every node of the hierarchies of the attributes `on`, for each value of the attributes `by`.

        `weights` may name levels and nodes, such as {"state": 10, "Bavaria": 50}; others have weight 1, and weight 0
        leaves them out.

        >>> from leastnoise.domain.attributes import Domain, hierarchy
        >>> domain = Domain.of(geo=hierarchy({"north": ["a", "b"], "south": ["c"]}), sex=["F", "M"])
        >>> Workload(domain).nodes("geo", by="sex", weights={"all": 0}).queries
        10
        """
        return self._grouped(Nodes.name, "nodes('geo', by='sex')", on, by, options)

    def sums(
        self,
        *of: str,
        by: str | Sequence[str] = (),
        weight: float = 1.0,
        within: float | None = None,
        confidence: float = 0.95,
    ) -> Workload:
        """The sum of an amount, or of the product of several, for each value of the attributes `by`.

        A weight of 1 weighs its error in spans of the amounts, high - low, as that of a count of rows: what one row
        can change has the same weight, whatever the amount is measured in.

        >>> from leastnoise.domain.attributes import Domain, amount
        >>> Workload(Domain.of(sex=["F", "M"], income=amount(0, 200_000))).sums("income", by="sex").queries
        2
        """
        if not of:
            raise LeastnoiseError("a sum needs an amount; name it, as in sums('income', by='sex')")
        groups = [by] if isinstance(by, str) else list(by)
        self._indices(Sum.name, [*of, *groups])  # no attribute twice
        families = dict.fromkeys(of, Sum.name) | dict.fromkeys(groups, "marginal")
        spans = [1.0 if (values := self.domain[name].amount) is None else values.span for name in of]
        work = self.add(families, weight=weight / float(np.prod(spans)) ** 2, within=within, confidence=confidence)
        return replace(work, blocks=(*self.blocks, replace(work.blocks[-1], label=Sum.name)))

    def moments(self, *of: str, by: str | Sequence[str] = (), weight: float = 1.0) -> Workload:
        """Counts, sums, sums of squares and of products of pairs: what variances, covariances, correlations and
        regressions are computed from, for each value of the attributes `by`.

        >>> from leastnoise.domain.attributes import Domain, amount
        >>> domain = Domain.of(sex=["F", "M"], age=amount(0, 100, squares=True), pay=amount(0, 500, squares=True))
        >>> Workload(domain).moments("age", "pay", by="sex").queries
        12
        """
        if not of:
            raise LeastnoiseError("moments need an amount; name it, as in moments('income', by='sex')")
        groups = [by] if isinstance(by, str) else list(by)
        result = self.marginals(*groups, weight=weight) if groups else self.total(weight)
        for name in (each for one in of for each in (one, squares_of(self.domain, one))):
            result = result.sums(name, by=groups, weight=weight)
        for pair in combinations(of, 2):
            result = result.sums(*pair, by=groups, weight=weight)
        return result

    def _grouped(
        self, queries: str, example: str, on: Sequence[str], by: str | Sequence[str], options: QueryOptions
    ) -> Workload:
        groups = [by] if isinstance(by, str) else list(by)
        if not groups:
            return self.add(queries, **_on(on, options))
        if not on:
            what = example.split("(")[0]
            raise LeastnoiseError(f"{what} by {groups[0]!r} need an attribute; name it, as in {example}")
        self._indices(queries, [*on, *groups])  # no attribute twice
        return self.add({**dict.fromkeys(on, queries), **dict.fromkeys(groups, "marginal")}, **options)

    def circular(self, *on: str, by: str | Sequence[str] = (), **options: Unpack[QueryOptions]) -> Workload:
        """Ranges that wrap around, as on a clock, for each value of the attributes `by`."""
        return self._grouped("circular", "circular('age', by='sex')", on, by, options)

    def hybrid(self, *on: str, **options: Unpack[QueryOptions]) -> Workload:
        """Prefix on ordered attributes, marginal on the others."""
        return self.add("hybrid", **_on(on, options))

    def thresholds(self, *on: str, by: str | Sequence[str] = (), **options: Unpack[QueryOptions]) -> Workload:
        """A <= c and A >= c for every c, for each value of the attributes `by`."""
        return self._grouped("threshold", "thresholds('age', by='sex')", on, by, options)

    def extended(self, *on: str, **options: Unpack[QueryOptions]) -> Workload:
        """WFF's extended marginals: `threshold` on ordered attributes, marginal on the others.

        >>> from leastnoise.domain.attributes import Domain
        >>> Workload(Domain.of(age=range(10), sex=["F", "M"])).extended(ways=2).queries
        40
        """
        return self.add("extended", **_on(on, options))

    def affine(self, *on: str, **options: Unpack[QueryOptions]) -> Workload:
        """A + B <= c for every c, on two attributes (or `ways=2`: every pair)."""
        return self.add("affine", **_on(on, options))

    def abs_diff(self, *on: str, **options: Unpack[QueryOptions]) -> Workload:
        """|A - B| <= c for every c, on two attributes (or `ways=2`: every pair)."""
        return self.add("abs_diff", **_on(on, options))

    def random(
        self, *on: str, count: int, density: float = 0.3, seed: int = 0, **options: Unpack[QueryOptions]
    ) -> Workload:
        """Random 0/1 rows, the same on every subset of equal shape."""
        form = {"random": {"count": count, "density": density, "seed": seed}}
        return self.add(form, **_on(on, options))

    def matrix(self, rows: npt.ArrayLike, *on: str, **options: Unpack[QueryOptions]) -> Workload:
        """Rows given by the user over one or several attributes."""
        m = finite(rows, "matrix")
        return self.add({"matrix": m.reshape(len(m), -1)}, **_on(on, options))


def _is_family_form(queries: Mapping[str, Any]) -> bool:
    one = len(queries) == 1 and next(iter(queries)) in ("matrix", "random", "phi")
    return one or set(queries) in ({"of", "weights"}, {"matrix", "names"}) or _is_nodes_form(queries)


def _is_nodes_form(queries: Mapping[str, Any]) -> bool:
    return set(queries) == {Nodes.name} and isinstance(queries[Nodes.name], Mapping)


def _weighted_nodes(queries: Queries, weights: Mapping[Any, float]) -> Queries:
    """Queries on nodes with weights by level or node."""
    form = {Nodes.name: weights}
    if queries == Nodes.name:
        return form
    if isinstance(queries, Mapping) and Nodes.name in list(queries.values()):
        return {name: form if family == Nodes.name else family for name, family in queries.items()}
    raise LeastnoiseError("weights by name are for nodes of a hierarchy; give one number per query instead")


def _whole(queries: Mapping[str, Any]) -> TensorFamily:
    if "matrix" in queries:
        return MatrixTensor(_two_dimensional(queries["matrix"]))
    return RandomTensor(*random_options(queries["random"]))


def _with_weights(block: Block, weights: Array) -> Block:
    parts = [block.families] if isinstance(block.families, TensorFamily) else block.families
    if any(f.plain is not f for f in parts):
        raise _weighted_twice(block.label)
    if isinstance(block.families, TensorFamily):
        return replace(block, families=WeightedTensor(block.families, weights))
    if block.ways == 1:
        return replace(block, families=tuple(Weighted(f, weights.ravel()) for f in block.families))
    if len({f.key for f in block.families}) > 1 and block.ways < len(block.on):
        raise LeastnoiseError("per-query weights on mixed families need 'on' without 'ways'; name one subset at a time")
    return replace(block, families=WeightedTensor(ProductTensor(block.families[: block.ways]), weights))
