"""Where attributes are found in the data, and what becomes of values outside the domain and of missing ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from leastnoise._types import IntArray
from leastnoise.domain.attributes import (
    Amount,
    Attribute,
    Bins,
    Dates,
    Domain,
    Encoding,
    Integers,
    Scalar,
    Sized,
    Square,
    Timed,
    Values,
)
from leastnoise.domain.listed import look_up
from leastnoise.domain.reading import Reading
from leastnoise.errors import DataError, LeastnoiseError

Outside = Literal["error", "other", "clamp", "drop"]
# What a value is coded as where it has no code. Rows with `DROPPED` are left out, the others are refused.
OUTSIDE, MISSING, DROPPED = -1, -2, -3


AS_IT_IS = Reading()


@dataclass(frozen=True)
class Rules:
    """Where an attribute is found, and what happens to values that are not in its domain, or not there at all.

    `outside` is error, drop (the row), other (the value "other", which the domain must list) or clamp (the nearest end
    of an ordered number); without it, amounts are clamped, and others are an error. `missing` is error, drop, or the
    value of the domain that stands for it.

    Before values are looked up, `trim` takes spaces off the ends of texts, `fold` makes their letters small, and
    `missing_values` are values that count as missing, such as "NA" or -99. `format` says how dates are written, and
    `zone` in which time zone moments have their date.

    >>> Rules(column="AGE", outside="clamp", missing="drop")
    Rules(column='AGE', outside='clamp', missing='drop')
    """

    column: str | None = None
    outside: Outside | None = None
    missing: Scalar = "error"
    trim: bool = field(default=False, repr=False)
    fold: bool = field(default=False, repr=False)
    missing_values: Sequence[Scalar] = field(default=(), repr=False)
    format: str | None = field(default=None, repr=False)
    zone: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Coding:
    """An attribute with its rules, as codes: what `outside` and `missing` values become, unless clamped."""

    attribute: Attribute
    column: str
    outside: int = OUTSIDE
    missing: int = MISSING
    clamp: bool = False
    reading: Reading = AS_IT_IS

    @property
    def largest(self) -> int:
        """The largest number that stands for a row."""
        return self.attribute.values.largest

    @property
    def values(self) -> Encoding:
        """The known values, which are looked for in the data."""
        return self.attribute.values.base

    @property
    def drops(self) -> bool:
        """Whether rows may be left out because of this attribute."""
        return DROPPED in (self.outside, self.missing)

    @property
    def clampable(self) -> bool:
        """Whether values have a nearest end."""
        return _clampable(self.attribute)

    @property
    def without_rules(self) -> "Coding":
        """The same attribute, with what is outside or missing left as it is."""
        return replace(self, outside=OUTSIDE, missing=MISSING, clamp=False)

    @property
    def clamped(self) -> "Coding":
        """The same without other rules than clamping, where that is possible."""
        return replace(self.without_rules, clamp=self.clampable)

    def code(self, value: object) -> int:
        """The code of one value, or of its label; -1 where there is none."""
        look = self.values.read if isinstance(self.values, Amount) else self.attribute.values.find
        return int(look(_box(value))[0])

    def read(self, value: object) -> int:
        """The code of one value as it stands in the data, -1 where there is none."""
        return int(self.read_all(_box(value))[0])

    def read_all(self, values: npt.NDArray[Any]) -> IntArray:
        """Codes of values of the data whose texts are clean, -1 where there is none."""
        if self.reading.cleans and isinstance(self.values, Values):
            return look_up(self._clean, values)
        return self.values.read(values)

    @cached_property
    def _clean(self) -> dict[Scalar, int]:
        return dict(self.written)

    @property
    def written(self) -> list[tuple[Scalar, int]]:
        """Listed values as they are looked up, with their codes; none where values are not listed."""
        values = self.values
        if not isinstance(values, Values) or isinstance(values, Timed):
            return []
        clean = self.reading.clean
        return [(clean(item) if isinstance(item, str) else item, code) for item, code in values.written]

    def check(self, outside: bool, missing: bool) -> None:
        """Refuse what no rule covers; says nothing of the values or how many there are."""
        if outside:
            choices = "other, drop or clamp" if _clampable(self.attribute) else "other or drop"
            fix = f"widen the domain, or choose outside: {choices}"
            if self.attribute.amount is not None:
                fix = "numbers can be clamped; repair what is no number, or choose outside: drop"
            raise DataError(
                f"the column {self.column!r} holds values outside the domain of {self.attribute.name!r}; {fix}"
            )
        if missing:
            raise DataError(
                f"the column {self.column!r} holds missing values; "
                f"choose missing: drop, or the value of {self.attribute.name!r} that stands for them"
            )


AnyRules = Mapping[str, Rules | Mapping[str, Any]]


def codings(domain: Domain, rules: AnyRules | None = None) -> tuple[Coding, ...]:
    """How each attribute is coded.

    >>> domain = Domain.of(age=range(18, 100), job=["nurse", "other"])
    >>> [c.outside for c in codings(domain, {"job": Rules(outside="other"), "age": {"outside": "drop"}})]
    [-3, 1]
    """
    for name in rules or {}:
        domain.index(name)  # an unknown name is refused with a hint
    return tuple(coding(domain[name], each) for name, each in rules_of(domain, rules).items())


def rules_of(domain: Domain, rules: AnyRules | None) -> dict[str, Rules]:
    """The rules of every attribute, by its name."""
    given = dict(rules or {})
    return {a.name: _with_outside(a, as_part(Rules, _given(a, given), f"the rules of {a.name!r}")) for a in domain}


def _given(attribute: Attribute, rules: Mapping[str, Any]) -> Any:
    """The rules of an attribute; squares have those of their amount."""
    name = attribute.values.of if isinstance(attribute.values, Square) else attribute.name
    return rules.get(attribute.name, rules.get(name, Rules()))


def _with_outside(attribute: Attribute, rules: Rules) -> Rules:
    """The same rules, with what happens to values outside where that is not said."""
    return rules if rules.outside is not None else replace(rules, outside="clamp" if attribute.amount else "error")


def as_part(kind: type[Any], data: Any, what: str) -> Any:
    """A `Rules` or `PrivacyUnit`, also from its plain fields, as a spec gives them."""
    if isinstance(data, kind):
        return data
    known = [f.name for f in fields(kind) if f.init]
    if not isinstance(data, Mapping) or not set(data) <= set(known):
        raise LeastnoiseError(f"{what} are {kind.__name__}(...) or a mapping with some of {', '.join(known)}")
    try:
        return kind(**data)
    except TypeError:
        raise LeastnoiseError(f"{what} lack a field; give {', '.join(known)}") from None


def coding(attribute: Attribute, rules: Rules) -> Coding:
    """One attribute with its rules, if they fit each other."""
    rules, name = _with_outside(attribute, rules), attribute.name
    own = attribute.values.of if isinstance(attribute.values, Square) else name
    column = own if rules.column is None else rules.column
    if not isinstance(column, str) or not column:
        raise LeastnoiseError(f"the column of {name!r} is a name, got {column!r}")
    if rules.outside not in get_args(Outside):
        raise LeastnoiseError(f"outside {rules.outside!r} of {name!r} is no rule; use error, other, clamp or drop")
    if rules.outside == "clamp" and not _clampable(attribute):
        raise LeastnoiseError(
            f"{name!r} cannot be clamped; only ranges, bins, dates and ordered codes can, use other or drop"
        )
    if rules.outside == "other" and attribute.amount:
        raise LeastnoiseError(f"{name!r} is an amount, which has no other value; use outside: clamp, drop or error")
    words = {"error": OUTSIDE, "clamp": OUTSIDE, "drop": DROPPED}
    outside = words[rules.outside] if rules.outside in words else _value(attribute, "other", "outside: other")
    words = {"error": MISSING, "drop": DROPPED}
    word = rules.missing if isinstance(rules.missing, str) else None
    missing = words[word] if word in words else _value(attribute, rules.missing, f"missing: {rules.missing}")
    result = Coding(attribute, column, outside, missing, rules.outside == "clamp", _reading(attribute, rules))
    if result.reading.cleans:
        _check_clean(result)
    return result


def _reading(attribute: Attribute, rules: Rules) -> Reading:
    """How the column is read, if that fits the attribute."""
    name, values = attribute.name, attribute.values.base
    if rules.fold and (not isinstance(values, Values) or isinstance(values, Timed)):
        raise LeastnoiseError(f"{name!r} has no listed texts to fold; leave 'fold' out")
    if not isinstance(values, Timed) and (rules.format is not None or rules.zone is not None):
        raise LeastnoiseError(f"{name!r} has no dates; leave 'format' and 'zone' out")
    if isinstance(rules.missing_values, str) or not isinstance(rules.missing_values, Sequence):
        raise LeastnoiseError(f"missing_values of {name!r} are a list, such as ['', NA, -99]")
    try:
        result = Reading(rules.trim, rules.fold, tuple(rules.missing_values), rules.format, rules.zone)
    except LeastnoiseError as error:
        raise LeastnoiseError(f"attribute {name!r}: {error}") from None
    if not result.has_dates and not (isinstance(values, Timed) and values.unit == "hour"):
        raise LeastnoiseError(
            f"attribute {name!r}: the format {rules.format!r} has times without days; count by: hour of day, or add "
            "%Y, %m and %d"
        )
    by_month = isinstance(values, Dates) and values.by in ("month", "quarter", "year")
    if result.has_dates and not result.has_days and not by_month:
        raise LeastnoiseError(
            f"attribute {name!r}: the format {rules.format!r} names no day; count by month, quarter or year"
        )
    return result


def _check_clean(coding: Coding) -> None:
    """Refuse values that are the same once they are trimmed and folded."""
    first: dict[Scalar, int] = {}
    for text, code in coding.written:
        if first.setdefault(text, code) != code:
            raise LeastnoiseError(
                f"two values of {coding.attribute.name!r} are {text!r} when trimmed or folded; keep one"
            )


def _box(value: object) -> npt.NDArray[np.object_]:
    box = np.empty(1, dtype=object)
    box[0] = value
    return box


def _value(attribute: Attribute, value: object, rule: str) -> int:
    code = Coding(attribute, attribute.name).code(value)
    if code < 0:
        raise LeastnoiseError(f"{rule!r} needs {value!r} among the values of {attribute.name!r}; add it to the domain")
    return code


def _clampable(attribute: Attribute) -> bool:
    values = attribute.values.base
    return isinstance(values, Integers | Bins | Dates | Amount) or (isinstance(values, Sized) and values.ordered)
