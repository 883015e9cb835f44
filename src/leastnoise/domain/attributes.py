"""Attributes and domains: which values exist, and in which order."""

import difflib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise._types import IntArray
from leastnoise.domain.amounts import SQUARED, Amount, Square, amount, scale_of, square_of
from leastnoise.domain.binned import Bins, bins
from leastnoise.domain.encoding import Encoding, Scalar, plain
from leastnoise.domain.forms import Spec, encoding_of, or_unknown, read_values
from leastnoise.domain.hierarchies import Hierarchy, hierarchy
from leastnoise.domain.listed import Labelled, Values, labelled
from leastnoise.domain.numeric import Integers, Sized, sized
from leastnoise.domain.periods import Dates, Timed, dates
from leastnoise.domain.restrictions import Mask, Restrictions, Together, connected, spread
from leastnoise.domain.unknown import UNKNOWN, OrUnknown
from leastnoise.errors import LeastnoiseError

__all__ = [
    "UNKNOWN",
    "Amount",
    "Attribute",
    "Bins",
    "Dates",
    "Domain",
    "Encoding",
    "Hierarchy",
    "Integers",
    "Labelled",
    "OrUnknown",
    "Scalar",
    "Sized",
    "Spec",
    "Square",
    "Timed",
    "Values",
    "amount",
    "bins",
    "dates",
    "hierarchy",
    "labelled",
    "or_unknown",
    "sized",
    "with_squares",
]  # fmt: skip


MOST_ATTRIBUTES = 100_000
LONGEST_NAME = 200  # characters of an attribute's name


@dataclass(frozen=True)
class Attribute:
    """A named attribute and its values.

    >>> sex = Attribute.of("sex", ["F", "M"])
    >>> sex.code("M"), sex.label(0), sex.ordered
    (1, 'F', False)
    """

    name: str
    values: Encoding

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise LeastnoiseError(f"an attribute needs a name, got {self.name!r}")
        if len(self.name) > LONGEST_NAME:
            raise LeastnoiseError(
                f"the name {self.name[:40]!r}... has {len(self.name):,} characters; use at most {LONGEST_NAME}"
            )
        if not isinstance(self.values, Encoding):
            raise LeastnoiseError(f"{self.name!r} got {self.values!r} as its values; use Attribute.of(name, ...)")

    @classmethod
    def of(cls, name: str, spec: Spec) -> "Attribute":
        """From a size, a range, values, labels by value, `bins(...)`, `hierarchy(...)` or `sized(...)`."""
        try:
            return cls(name, encoding_of(spec))
        except LeastnoiseError as error:
            raise LeastnoiseError(f"attribute {name!r}: {error}") from None

    @property
    def size(self) -> int:
        """Number of values."""
        return self.values.size

    @property
    def known(self) -> int:
        """Number of values without the last, where that stands for missing ones."""
        return self.values.known

    @property
    def amount(self) -> Amount | None:
        """Its values, where they are summed and not counted."""
        return self.values if isinstance(self.values, Amount) else None

    @property
    def ordered(self) -> bool:
        """Whether prefixes and ranges of the values mean something."""
        return self.values.ordered

    @property
    def comparable(self) -> bool:
        """Whether values can be compared: they are ordered, or numbers that are listed in their order."""
        values = self.values.base
        return self.ordered or (type(values) is Values and _ascending(values.items))

    def code(self, value: object) -> int:
        """The code of one value.

        >>> Attribute.of("age", range(100)).code(120)
        Traceback (most recent call last):
        leastnoise.errors.LeastnoiseError: 120 is not a value of 'age' (0 to 99); nearest is 99
        """
        box = np.empty((), dtype=object)
        box[()] = value
        return int(self.codes(box))

    def has(self, value: object) -> bool:
        """Whether this is one of the values."""
        box = np.empty((), dtype=object)
        box[()] = value
        return int(self.values.find(box)) >= 0

    def codes(self, values: npt.ArrayLike) -> IntArray:
        """The codes of many values, same shape."""
        result = self.values.find(values)
        if np.any(result < 0):
            where = int(np.flatnonzero(result.ravel() < 0)[0])
            array = np.asarray(values) if hasattr(values, "__array__") else np.asarray(values, dtype=object)
            raise LeastnoiseError(self._unknown(array.ravel()[where]))
        return result

    def _unknown(self, value: object) -> str:
        value = plain(value)
        return f"{value!r} is not a value of {self.name!r} ({self._known()}); nearest is {self.values.nearest(value)}"

    def _known(self) -> str:
        if self.ordered or isinstance(self.values.base, Sized):
            rest = f" or {UNKNOWN}" if self.known < self.size else ""
            return f"{self.values.base.start(0)} to {self.values.base.end(self.known - 1)}{rest}"
        return ", ".join([self.label(code) for code in range(min(self.size, 5))] + ["..."] * (self.size > 5))

    def value(self, code: int) -> Scalar:
        """A value that has this code; the lower edge for bins."""
        return self.values.value(self._checked(code))

    def label(self, code: int) -> str:
        """Text for tables and plots."""
        return self.values.label(self._checked(code))

    def is_called(self, text: str, code: int) -> bool:
        """Whether a text stands for a code: its label, or the interval of a bin."""
        values = self.values.base
        interval = isinstance(values, Bins) and code < values.count and text == values.interval(code)
        return text == self.label(code) or interval

    def _checked(self, code: int) -> int:
        if not isinstance(code, int | np.integer) or not 0 <= code < self.size:
            raise LeastnoiseError(f"{code!r} is not a code of {self.name!r}; codes run from 0 to {self.size - 1}")
        return int(code)

    def to_json(self) -> dict[str, Any]:
        """Plain data; `from_json` reads it back."""
        return {"name": self.name, **self.values.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Attribute":
        """Read what `to_json` wrote."""
        try:
            return cls(data["name"], read_values(data))
        except (KeyError, TypeError) as error:
            raise LeastnoiseError(f"not an attribute: {data!r} ({error})") from None


def check_number_of_attributes(number: int) -> None:
    """Refuse more attributes than a domain may have, before they are made where the number is known."""
    if number > MOST_ATTRIBUTES:
        raise LeastnoiseError(f"{number:,} attributes are more than {MOST_ATTRIBUTES:,}; use fewer")


@dataclass(frozen=True)
class Domain:
    """Named attributes and their values, in a fixed order.

    >>> Domain.of(age=4, sex=2).project("sex").shape
    (2,)
    >>> domain = Domain.of(age=range(100), sex=["F", "M"], income=bins(0, 200_000, width=4_000))
    >>> domain.size, domain["income"].label(49)
    (10000, '196000 to 200000')
    """

    attributes: tuple[Attribute, ...]
    restrictions: Restrictions = field(default_factory=Restrictions, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", tuple(self.attributes))
        for attribute in self.attributes:
            if not isinstance(attribute, Attribute):
                raise LeastnoiseError(f"a domain is made of attributes, got {attribute!r}; use Domain.of(name=...)")
        check_number_of_attributes(len(self.attributes))
        if len(self._positions) < len(self.names):
            twice = next(name for k, name in enumerate(self.names) if self._positions[name] != k)
            raise LeastnoiseError(f"the attribute {twice!r} is named twice; names must differ")
        if not all(together.possible.any() for together in self.together):
            raise LeastnoiseError("the impossible cells leave no row possible; leave some of them out")

    @classmethod
    def of(cls, specs: Mapping[str, Spec] | None = None, /, **more: Spec) -> "Domain":
        """From `name=values` pairs, or a mapping where a name is no identifier."""
        given = [Attribute.of(name, spec) for name, spec in [*(specs or {}).items(), *more.items()]]
        return cls(tuple(each for attribute in given for each in with_squares(attribute)))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names in order."""
        return tuple(attribute.name for attribute in self.attributes)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Sizes in order."""
        return tuple(attribute.size for attribute in self.attributes)

    @property
    def size(self) -> int:
        """Number of cells, exact however large."""
        return math.prod(self.shape)

    @cached_property
    def amounts(self) -> frozenset[int]:
        """Positions of the attributes that are summed."""
        return frozenset(k for k, attribute in enumerate(self.attributes) if attribute.amount is not None)

    def scale(self, positions: Iterable[int]) -> int:
        """A table of these attributes adds up to so many times the rows: 1, or the units of amounts multiplied."""
        return scale_of([self.attributes[k].values for k in positions])

    def check_counted(self, what: str, names: Iterable[str] | None = None) -> None:
        """Refuse amounts where values are counted; among all attributes, or among some."""
        for name in self.names if names is None else names:
            if self[name].amount is not None:
                raise LeastnoiseError(f"{what} counts values, and {name!r} is an amount, which has none; leave it out")

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: k for k, name in reversed([*enumerate(self.names)])}

    def index(self, name: str) -> int:
        """Position of an attribute.

        >>> Domain.of(age=4, sex=2).index("aeg")
        Traceback (most recent call last):
        leastnoise.errors.LeastnoiseError: no attribute 'aeg' in this domain (age, sex); did you mean 'age'?
        """
        if name not in self._positions:
            close = difflib.get_close_matches(str(name), self.names, n=1, cutoff=0.5)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise LeastnoiseError(f"no attribute {name!r} in this domain ({', '.join(self.names)}){hint}")
        return self._positions[name]

    def project(self, *names: str) -> "Domain":
        """The domain of these attributes, in the order given, with what restricts them alone."""
        return Domain(tuple(self[name] for name in names), self.restrictions.within(names))

    # --- what is public about the data --------------------------------------------------------------------------------

    def restricted(
        self,
        impossible: Iterable[str] = (),
        *,
        allowed: Iterable[Mapping[str, Any]] = (),
        rows: str = "drop",
        bounds: Iterable[Mapping[str, Any]] = (),
        determines: Mapping[str, str | Sequence[str]] | None = None,
    ) -> "Domain":
        """The same domain with cells that cannot occur and with public bounds (docs/spec.md, Impossible cells).

        `impossible` are conditions in the language of `ask`; `allowed` are lists of the only combinations that exist,
        {"of": names, "rows": [...]}; `rows` is what becomes of rows in impossible cells: drop, error or keep; `bounds`
        are {"where": condition, "at_least": ..., "at_most": ...}; `determines` says that each value of an attribute has
        one value of another, {"zip": "district"}, without saying which.

        >>> domain = Domain.of(age=range(3), married=[False, True]).restricted(["age < 2 and married = true"])
        >>> domain.possible(["age", "married"]).tolist()
        [[True, False], [True, False], [True, True]]
        """
        from leastnoise.domain.restricting import restrictions

        return replace(self, restrictions=restrictions(self, impossible, allowed, rows, bounds, determines or {}))

    @property
    def unrestricted(self) -> "Domain":
        """The same attributes, with every row possible and nothing known about counts."""
        return replace(self, restrictions=Restrictions()) if self.restrictions else self

    @cached_property
    def together(self) -> tuple[Together, ...]:
        """Attributes that impossible cells connect, with their possible cells."""
        clauses = [(tuple(map(self.index, c.attributes)), c.mask) for c in self.restrictions.impossible]
        ordered = [(tuple(sorted(a)), spread(mask, a, sorted(a))) for a, mask in clauses]
        return connected(ordered, self.shape)

    def possible(self, names: Sequence[str]) -> Mask:
        """Which cells of a table can have rows: those that extend to a row that no clause excludes."""
        attributes = [self.index(name) for name in names]
        mask = self.possible_cells(attributes)
        return np.ones([self.shape[a] for a in attributes], dtype=np.bool_) if mask is None else mask

    def possible_cells(self, attributes: Sequence[int]) -> Mask | None:
        """The same by positions of attributes; None where all cells are possible."""
        found = [part for together in self.together if (part := together.among(attributes)) is not None]
        if not found:
            return None
        mask = np.ones([self.shape[a] for a in attributes], dtype=np.bool_)
        for inside, cells in found:
            mask &= spread(cells, inside, attributes)
        return mask

    def possible_rows(self, codes: npt.ArrayLike) -> Mask:
        """Which rows of codes (rows x attributes) no clause excludes.

        >>> domain = Domain.of(age=range(3), sex=["F", "M"]).restricted(["age = 0 and sex = 'M'"])
        >>> domain.possible_rows([[0, 0], [0, 1], [2, 1]]).tolist()
        [True, False, True]
        """
        array = np.asarray(codes)
        return self.possible_columns([array[:, k] for k in range(len(self))], len(array))

    def possible_columns(self, columns: Sequence[npt.NDArray[Any]], rows: int) -> Mask:
        """The same from a column of codes for each attribute."""
        keep = np.ones(rows, dtype=np.bool_)
        for together in self.together:
            keep &= together.possible[tuple(columns[a] for a in together.attributes)]
        return keep

    def __getitem__(self, name: str) -> Attribute:
        return self.attributes[self.index(name)]

    def __contains__(self, name: object) -> bool:
        return name in self._positions

    def __len__(self) -> int:
        return len(self.attributes)

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.attributes)

    def to_json(self) -> dict[str, Any]:
        """Plain data; `from_json` reads it back."""
        known = self.restrictions
        fields: dict[str, Any] = {"attributes": [attribute.to_json() for attribute in self]}
        return fields | ({"restrictions": known.to_json()} if known or known.determines else {})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Domain":
        """Read what `to_json` wrote."""
        if not isinstance(data, Mapping) or not isinstance(data.get("attributes"), Iterable):
            raise LeastnoiseError(f"not a domain: {data!r}; expected an object with a list of attributes")
        attributes = tuple(Attribute.from_json(entry) for entry in data["attributes"])
        if data.get("restrictions") is None:
            return cls(attributes)
        sizes = {attribute.name: attribute.size for attribute in attributes}
        return cls(attributes, Restrictions.from_json(data["restrictions"], sizes))


def with_squares(attribute: Attribute) -> list[Attribute]:
    """The attribute, and behind an amount that is squared its squares."""
    values = attribute.amount
    if values is None or not values.squares or isinstance(values, Square):
        return [attribute]
    return [attribute, Attribute(attribute.name + SQUARED, square_of(attribute.name, values))]


def _ascending(items: Sequence[Scalar]) -> bool:
    """Whether all are numbers, from the least to the largest."""
    numbers = [item for item in items if isinstance(item, int | float) and not isinstance(item, bool)]
    return len(numbers) == len(items) and all(a < b for a, b in pairwise(numbers))
