"""Linear queries and conditions as values, and what comparing an attribute with a value means.

A query is a weighted sum over the cells of a few tables; a condition says which cells count. The language of
docs/ask.md is built from both.
"""

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array
from leastnoise.domain.attributes import UNKNOWN, Attribute, Bins, Dates, Domain, Hierarchy, Scalar, Values
from leastnoise.errors import LeastnoiseError
from leastnoise.workload.workload import finite

Cell = TypeVar("Cell", np.float64, np.bool_)
Part: TypeAlias = tuple[tuple[int, ...], npt.NDArray[Cell]]  # attributes in ascending position, one axis each

KEYWORDS = frozenset("and or not between in true false".split())
MAX_CELLS = 2**24  # of one term: 128 MB of weights

_BARE = re.compile(r"[^\W\d]\w*")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?")
_PLURAL = {"number": "numbers", "text": "text", "truth": "true and false"}


class EmptyGroupError(LeastnoiseError):
    """A statistic of a group that nobody can be in."""

    def __init__(self, message: str = "nobody can satisfy this condition") -> None:
        super().__init__(f"{message}; ask for a group that can have members")


class Term(NamedTuple):
    """Weights over the cells of one table: one axis per attribute, attributes in ascending position."""

    attributes: tuple[int, ...]
    weights: Array


@dataclass(frozen=True, eq=False, repr=False)
class LinearQuery:
    """A linear query over a domain: a sum of terms, each on as few attributes as it needs.

    Terms whose attributes are among those of another are merged into it, and axes along which nothing changes are
    dropped. Comparisons are exact, and queries with the same terms are equal.

    >>> domain = Domain.of(age=range(3), sex=["F", "M"])
    >>> young = LinearQuery.product(domain, {"age": [1, 1, 0], "sex": [1, 1]})
    >>> young
    <LinearQuery: age, cells: 3>
    >>> (2 * young - LinearQuery.total(domain)).evaluate([[5, 0], [1, 0], [0, 4]])
    2.0

    Guarantees: same_number_as_dense_weights; terms_are_small; arithmetic_is_that_of_the_weights.
    """

    domain: Domain
    terms: tuple[Term, ...]

    __array_ufunc__ = None  # lets NumPy numbers multiply a query from the left

    def __post_init__(self) -> None:
        merged: dict[tuple[int, ...], Array] = {}
        with np.errstate(over="ignore", invalid="ignore"):  # refused in words below
            for attributes, weights in self.terms:
                self._check_shape(attributes, np.shape(weights))
                _insert(merged, attributes, np.array(weights, dtype=np.float64))
        for weights in merged.values():
            if not np.isfinite(weights).all():
                raise LeastnoiseError("the weights of this query are too large for floats; use smaller numbers")
            weights += 0.0  # turns -0.0 into 0.0, so that equal queries have equal bytes
            weights.setflags(write=False)
        object.__setattr__(self, "terms", tuple(Term(key, merged[key]) for key in sorted(merged)))

    def _check_shape(self, attributes: tuple[int, ...], shape: tuple[int, ...]) -> None:
        ascending = list(attributes) == sorted({a for a in attributes if 0 <= a < len(self.domain)})
        if not ascending or shape != tuple(self.domain.shape[a] for a in attributes):
            raise LeastnoiseError(
                f"weights of shape {shape} do not fit the attributes {attributes}; use LinearQuery.of"
            )

    @classmethod
    def total(cls, domain: Domain) -> "LinearQuery":
        """The number of rows."""
        return cls(domain, (Term((), np.ones(())),))

    @classmethod
    def of(cls, domain: Domain, names: str | Sequence[str], weights: npt.ArrayLike) -> "LinearQuery":
        """One weight per cell of the named attributes, in the order given, last one fastest.

        >>> LinearQuery.of(Domain.of(age=3, sex=2), ["sex", "age"], [[1, 0, 0], [0, 0, 1]]).terms[0].weights.tolist()
        [[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]
        """
        return cls(domain, (Term(*_checked(domain, [names] if isinstance(names, str) else list(names), weights)),))

    @classmethod
    def product(cls, domain: Domain, vectors: Mapping[str, npt.ArrayLike]) -> "LinearQuery":
        """The product of one vector of weights per named attribute."""
        parts = [without_constant_axes(*_checked(domain, [name], vector)) for name, vector in vectors.items()]
        with np.errstate(over="ignore", invalid="ignore"):
            return cls(domain, (Term(*joined(domain, parts)),))

    @property
    def attributes(self) -> tuple[int, ...]:
        """Positions of all attributes that the query needs, ascending."""
        return tuple(sorted({a for term in self.terms for a in term.attributes}))

    def weights(self) -> Array:
        """One weight per cell of `attributes`, one axis each; refused where there are too many."""
        fits(self.domain, self.attributes)
        whole = np.zeros([self.domain.shape[a] for a in self.attributes])
        for attributes, weights in self.terms:
            whole += _spread(attributes, weights, self.attributes)
        return whole

    def evaluate(self, table: npt.ArrayLike) -> float:
        """The answer on a dense table of the whole domain, for small domains."""
        x = finite(table, "table")
        if x.shape != self.domain.shape:
            raise LeastnoiseError(f"table has shape {x.shape} but the domain has {self.domain.shape}; give every cell")
        everything = range(len(self.domain))
        marginals = (x.sum(axis=tuple(a for a in everything if a not in term.attributes)) for term in self.terms)
        return float(sum(np.sum(term.weights * m) for term, m in zip(self.terms, marginals, strict=True)))

    def __add__(self, other: "LinearQuery") -> "LinearQuery":
        if not isinstance(other, LinearQuery):
            return NotImplemented
        if other.domain != self.domain:
            here, there = (", ".join(query.domain.names) for query in (self, other))
            raise LeastnoiseError(f"these queries are over different domains ({here}) and ({there}); use one domain")
        return LinearQuery(self.domain, self.terms + other.terms)

    def __neg__(self) -> "LinearQuery":
        return self * -1

    def __sub__(self, other: "LinearQuery") -> "LinearQuery":
        return self + -other if isinstance(other, LinearQuery) else NotImplemented

    def __mul__(self, number: float) -> "LinearQuery":
        number_like = isinstance(number, int | float | np.integer | np.floating) and not isinstance(number, bool)
        if not number_like or not abs(number) < 1e308:
            raise LeastnoiseError(f"a query is multiplied by a finite number, got {number!r}")
        with np.errstate(over="ignore"):
            return LinearQuery(
                self.domain, tuple(Term(term.attributes, term.weights * float(number)) for term in self.terms)
            )

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LinearQuery) and self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)

    @property
    def _content(self) -> tuple[Domain, tuple[tuple[tuple[int, ...], bytes], ...]]:
        return self.domain, tuple((term.attributes, term.weights.tobytes()) for term in self.terms)

    def __repr__(self) -> str:
        parts = (f"{named(self.domain, term.attributes)}, cells: {term.weights.size}" for term in self.terms)
        return f"<LinearQuery: {'; '.join(parts) or 'zero'}>"


@dataclass(frozen=True, eq=False)
class Condition:
    """Cells that count and cells that do not, as a product of factors on disjoint attributes.

    Factors keep a conjunction small until its cells are asked for. No factor means always; never is one factor on
    nothing. Factors have no constant axes.

    >>> domain = Domain.of(age=range(3), sex=["F", "M"])
    >>> young, female = Condition.of(domain, 0, [True, False, False]), Condition.of(domain, 1, [True, False])
    >>> Condition.every(domain, [young, female]).negated().cells()[1].tolist()
    [[False, True], [True, True], [True, True]]
    """

    domain: Domain
    factors: tuple[Part[np.bool_], ...] = ()

    @classmethod
    def of(cls, domain: Domain, attribute: int, holds: npt.ArrayLike) -> "Condition":
        """A condition on the values of one attribute."""
        return cls.every(domain, [cls(domain, (((attribute,), np.asarray(holds, dtype=np.bool_)),))])

    @classmethod
    def every(cls, domain: Domain, conditions: Iterable["Condition"]) -> "Condition":
        """All of them hold."""
        apart: list[Part[np.bool_]] = []
        for factor in (factor for condition in conditions for factor in condition.factors):
            touching = [other for other in apart if set(other[0]) & set(factor[0])]
            apart = [other for other in apart if not set(other[0]) & set(factor[0])]
            attributes, cells = without_constant_axes(*joined(domain, [*touching, factor]))
            if attributes:
                apart.append((attributes, cells))
            elif not cells:
                return cls(domain, (((), cells),))
        return cls(domain, tuple(apart))

    @property
    def never(self) -> bool:
        """Whether no cell counts."""
        return any(not attributes for attributes, _ in self.factors)

    def negated(self) -> "Condition":
        """It does not hold."""
        attributes, cells = self.cells()
        return Condition.every(self.domain, [Condition(self.domain, ((attributes, np.asarray(~cells)),))])

    def cells(self) -> Part[np.bool_]:
        """The attributes it depends on, and whether it holds for each of their cells."""
        return joined(self.domain, self.factors)

    def linear(self) -> LinearQuery:
        """The number of rows for which it holds."""
        attributes, cells = self.cells()
        return LinearQuery(self.domain, (Term(attributes, cells.astype(np.float64)),))


def named(domain: Domain, attributes: Iterable[int]) -> str:
    """'age x sex', or 'total' where there is no attribute."""
    return " x ".join(domain.names[a] for a in attributes) or "total"


def without_constant_axes(attributes: tuple[int, ...], cells: npt.NDArray[Cell]) -> Part[Cell]:
    """The same cells on the attributes along which they change; exact."""
    for axis in reversed(range(cells.ndim)):
        first = cells.take([0], axis=axis)
        if np.array_equal(np.broadcast_to(first, cells.shape), cells):
            cells = first.squeeze(axis)
            attributes = attributes[:axis] + attributes[axis + 1 :]
    return attributes, cells


def joined(domain: Domain, parts: Iterable[Part[Cell]]) -> Part[Cell]:
    """The product of cells over the union of their attributes; for conditions that is `and`."""
    parts = list(parts)
    union = tuple(sorted({a for attributes, _ in parts for a in attributes}))
    fits(domain, union)
    spread = [_spread(attributes, cells, union) for attributes, cells in parts]
    return union, np.asarray(reduce(np.multiply, spread, np.ones((1,) * len(union), dtype=np.bool_)))


def fits(domain: Domain, attributes: Sequence[int]) -> None:
    """Refuse a table of too many cells."""
    cells = math.prod(domain.shape[a] for a in attributes)
    if cells > MAX_CELLS:
        raise LeastnoiseError(
            f"this needs {named(domain, attributes)} in one piece, {cells:,} cells; at most {MAX_CELLS:,} fit, "
            "use fewer attributes or coarser ones"
        )


def _spread(attributes: tuple[int, ...], cells: npt.NDArray[Cell], union: tuple[int, ...]) -> npt.NDArray[Cell]:
    sizes = dict(zip(attributes, cells.shape, strict=True))
    return cells.reshape([sizes.get(a, 1) for a in union])


def _insert(merged: dict[tuple[int, ...], Array], attributes: tuple[int, ...], weights: Array) -> None:
    """Add a term to terms none of which covers another; a sum may shrink, so it is put in anew."""
    while True:
        attributes, weights = without_constant_axes(attributes, weights)
        if not weights.any():
            return
        other = next((o for o in merged if set(o) <= set(attributes) or set(attributes) <= set(o)), None)
        if other is None:
            merged[attributes] = weights
            return
        union = max(attributes, other, key=len)
        weights = np.asarray(_spread(other, merged.pop(other), union) + _spread(attributes, weights, union))
        attributes = union


def _checked(domain: Domain, names: Sequence[str], weights: npt.ArrayLike) -> Part[np.float64]:
    attributes = [domain.index(name) for name in names]
    for k, name in enumerate(names):
        if name in names[:k]:
            raise LeastnoiseError(f"the attribute {name!r} is named twice; name each once")
    shape = tuple(domain.shape[a] for a in attributes)
    w = finite(weights, "query")
    if w.size != math.prod(shape):
        cells = " x ".join(names) or "the total"
        raise LeastnoiseError(f"query has {w.size} entries but {cells} has {math.prod(shape)} cells; give one each")
    order = sorted(range(len(names)), key=lambda axis: attributes[axis])
    return tuple(sorted(attributes)), w.reshape(shape).transpose(order)


def quoted(value: Scalar) -> str:
    """A value as questions write it.

    >>> print(quoted("rock 'n' roll"), quoted(-2.5), quoted(True))
    'rock ''n'' roll' -2.5 true
    """
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value).lower()


def quoted_name(name: str) -> str:
    """An attribute's name as questions write it: bare where that is possible.

    >>> print(quoted_name("age"), quoted_name("net income"), quoted_name("Between"))
    age `net income` `Between`
    """
    bare = _BARE.fullmatch(name) and name.lower() not in KEYWORDS
    return name if bare else "`" + name.replace("`", "``") + "`"


def code_of(attribute: Attribute, value: Scalar) -> int:
    """The code of one value; bins go by their label only, since no single number fills one."""
    bins = attribute.values.base
    if value == UNKNOWN and attribute.known < attribute.size:
        return attribute.known
    if isinstance(bins, Bins) and isinstance(value, str):
        return _labelled(attribute, bins, value)
    _check_kind(attribute, value)
    code = attribute.code(value)
    if isinstance(bins, Bins) and not isinstance(value, str):
        code = _bin_of(bins, value)
        name, label = quoted_name(attribute.name), bins.label(code)
        within = f"{_edge(bins, code)} <= {name} {_cuts(bins, code, '<')[1]}"
        raise LeastnoiseError(f"{_inside(attribute, value, code)}; write {within} or {name} = {quoted(label)}")
    return code


def on_level(attribute: Attribute, level: str | None, value: Scalar) -> Scalar:
    """A value as it is meant on a level of a hierarchy; refused where it is none of that level."""
    values = attribute.values
    if level is None or not isinstance(values, Hierarchy):
        return value
    if isinstance(values, Dates):
        values.check_level(value, level)
    elif values.node(value) not in values.across(level):
        raise LeastnoiseError(f"{_shown(value)} is not on the level {level!r} of {attribute.name!r}")
    return str(value)


def codes_of(attribute: Attribute, value: Scalar, level: str | None = None) -> slice:
    """The codes of one value; of a month, say, where days are counted, or of a node on a level of a hierarchy."""
    values, value = attribute.values, on_level(attribute, level, value)
    if level is not None and isinstance(values, Hierarchy) and not isinstance(values, Dates):
        return slice(*values.under(value))
    if not isinstance(values, Dates) or value == UNKNOWN:
        code = code_of(attribute, value)
        return slice(code, code + 1)
    start, stop = values.span(value)
    if start == stop:
        raise LeastnoiseError(
            f"{_shown(value)} is not among the dates of {attribute.name!r}, {values.first} to {values.last}"
        )
    return slice(start, stop)


def _labelled(attribute: Attribute, bins: Bins, label: str) -> int:
    code = bins.labelled(label)
    if code is None:
        known = quoted(bins.label(0))
        raise LeastnoiseError(
            f"{_shown(label)} is no bin of {attribute.name!r}; write a range or a bin, such as {known}"
        )
    return code


def below(attribute: Attribute, sign: str, value: Scalar) -> int:
    """How many codes lie on the lower side of `attribute sign value`."""
    values, including = attribute.values.base, sign in ("<=", ">")
    if isinstance(values, Dates):
        return values.cut(value, including)
    number = _as_number(attribute, value)
    if number is None:
        return attribute.code(value) + including
    if isinstance(values, Bins):
        return _bins_below(attribute, values, sign, number)
    if isinstance(values, Values):
        numbers = [item for item in values.items if not isinstance(item, str)]
        if any(a > b for a, b in pairwise(numbers)):
            raise LeastnoiseError(f"the order of {attribute.name!r} is not that of its numbers; use = or in")
        return (bisect_right if including else bisect_left)(numbers, number)
    whole = math.floor(number) + 1 if including else math.ceil(number)
    return min(max(whole - int(values.value(0)), 0), values.size)


def _bins_below(attribute: Attribute, bins: Bins, sign: str, number: float) -> int:
    if not bins.low <= number <= bins.high:
        return 0 if number < bins.low else bins.count
    edge = bins.edge_at(number)
    # A bin holds its lower edge, so only < and >= can cut there; the last bin also holds the end, so <= and > can.
    if edge is None or (edge == bins.count) != (sign in ("<=", ">")):
        code, name = _bin_of(bins, number), quoted_name(attribute.name)
        first, second = _cuts(bins, code, sign)
        raise LeastnoiseError(f"{_inside(attribute, number, code)}; use {name} {first} or {name} {second}")
    return edge


def through(attribute: Attribute, low: Scalar, high: Scalar, start: int) -> int:
    """Where `between low and high` stops; `start` is where it starts."""
    bins = attribute.values.base
    first, last = (None if isinstance(bins, Dates) else _as_number(attribute, end) for end in (low, high))
    in_order = first is None or last is None or first <= last
    if isinstance(bins, Bins) and in_order and last is not None and bins.low <= last < bins.high:
        code, left = _bin_of(bins, last), f"{quoted(low)} <= {quoted_name(attribute.name)}"
        ways = " or ".join(f"{left} {cut}" for cut in _cuts(bins, code, "<")[start >= code :])
        raise LeastnoiseError(f"{_inside(attribute, high, code)}, where between cannot end; write {ways}")
    stop = below(attribute, "<=", high) if in_order else start
    if not in_order or (last is None and start >= stop):
        raise LeastnoiseError(f"between {_shown(low)} and {_shown(high)} is empty; put the smaller end first")
    return stop


def _bin_of(bins: Bins, number: float) -> int:
    edge = bins.edge_at(number)
    return int(bins.find(float(number))) if edge is None else min(edge, bins.count - 1)


def _edge(bins: Bins, k: int) -> str:
    return f"{bins.edges[k]:.15g}"


def _cuts(bins: Bins, code: int, sign: str) -> tuple[str, str]:
    """Comparisons in the direction of `sign` that cut below and above a bin."""
    split, end = ("<", "<=") if sign[0] == "<" else (">=", ">")
    upper = end if code == bins.count - 1 else split
    return f"{split} {_edge(bins, code)}", f"{upper} {_edge(bins, code + 1)}"


def _inside(attribute: Attribute, value: Scalar, code: int) -> str:
    bins = attribute.values.base
    bin_ = bins.interval(code) if isinstance(bins, Bins) else attribute.label(code)
    return f"{attribute.name!r} is binned and {_shown(value)} lies inside {bin_}"


def _as_number(attribute: Attribute, value: Scalar) -> float | None:
    """The value where an attribute is ordered by number, None where it is ordered by its list."""
    _check_kind(attribute, value)
    values = attribute.values.base
    listed = isinstance(values, Values) and any(_kind(item) != "number" for item in values.items)
    return None if listed or isinstance(value, str) else value


def _check_kind(attribute: Attribute, value: Scalar) -> None:
    values = attribute.values.base
    items = values.askable if isinstance(values, Values) else (0,)
    if any(_kind(item) == _kind(value) for item in items):
        return
    kinds = {_kind(item) for item in items}
    known = " and ".join(_PLURAL[kind] for kind in _PLURAL if kind in kinds)
    raise LeastnoiseError(f"{attribute.name!r} holds {known}, not {_shown(value)}; write {_instead(kinds, value)}")


def _instead(kinds: Set[str], value: Scalar) -> str:
    if "text" in kinds:
        return quoted(quoted(value))
    if "number" in kinds:
        return value if isinstance(value, str) and _NUMBER.fullmatch(value) else "a number"
    return "true or false"


def _kind(value: Scalar) -> str:
    if isinstance(value, bool):
        return "truth"
    return "text" if isinstance(value, str) else "number"


def _shown(value: Scalar) -> str:
    """In a message: short and on one line."""
    text = repr(value) if isinstance(value, str) else quoted(value)
    return text if len(text) <= 40 else text[:37] + "..."
