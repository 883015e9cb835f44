"""The scalars of a spec file: what written text means in a field, and one-line errors for the rest.

The reader hands every scalar over as `Written` text, so that the field decides what it means:
`values: [no]` is the text 'no', `ordered: no` is false, `delta: 1e-9` is a number.
"""

import difflib
import math
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, ValidationInfo, WithJsonSchema

from leastnoise.errors import LeastnoiseError

# Leading zeros, underscores, exponents and colons are left as text in `values`: 01 and 1e5 may be codes.
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
_SPECIAL = {".inf": math.inf, "+.inf": math.inf, "-.inf": -math.inf, ".nan": math.nan}
USUAL_SHARE = 0.02  # of the budget, for what is measured beside the tables
LEAST, MOST = 1e-100, 1e100  # epsilon, mu and rho; budgets have such limits of their own


class Written(str):
    """A scalar as it stands in the file; `quoted` tells the text '5' from the number 5."""

    quoted: bool

    def __new__(cls, text: str, quoted: bool = False) -> Self:
        """Text with its quoting."""
        written = super().__new__(cls, text)
        written.quoted = quoted
        return written


class UnknownKeyError(LeastnoiseError):
    """A key that means nothing here; carries the key, so that its line can be reported."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


def listed(options: Iterable[str]) -> str:
    """'a, b or c'."""
    *first, last = options
    return f"{', '.join(first)} or {last}" if first else last


RENAMED = {"prior": "baseline"}  # keys that had another name


def hint(word: object, options: Iterable[str]) -> str:
    """The new name of a renamed key, the closest option, or all of them where none is close."""
    names = list(options)
    if (new := RENAMED.get(str(word))) in names:
        return f"it is called {new!r} now"
    close = difflib.get_close_matches(str(word), names, n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else f"use {listed(names)}"


def shown(value: object) -> str:
    """A value in an error message: short, whatever was written."""
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "a mapping"
    return "a list" if isinstance(value, list) else repr(str(value)[:40])


def number(value: object) -> float | None:
    """The number meant by a scalar: 5, '5', '1e-9' (text to YAML 1.1) or '.nan'; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if isinstance(value, str) and value in _SPECIAL:
        return _SPECIAL[value]
    try:
        if isinstance(value, str) and len(value) < 18:  # longer ones may not fit 64 bits
            return int(value)
    except ValueError:
        pass
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return None


def _number(value: object, info: ValidationInfo) -> float:
    result = number(value)
    if result is None:
        raise LeastnoiseError(f"{info.field_name} is {shown(value)}, not a number")
    return result


def _positive(value: object, info: ValidationInfo) -> float:
    result = _number(value, info)
    if not 0 < result < math.inf:
        raise LeastnoiseError(f"{info.field_name} {result} is not positive; use a finite number above 0")
    return result


def _budget(value: object, info: ValidationInfo) -> float:
    result = _positive(value, info)
    if not LEAST <= result <= MOST:
        raise LeastnoiseError(f"{info.field_name} {result:g} is out of range; use one between {LEAST:g} and {MOST:g}")
    return result


def _delta(value: object, info: ValidationInfo) -> float:
    result = _positive(value, info)
    if result >= 1:
        raise LeastnoiseError(f"delta {result} is not below 1; usual values are 1e-6 or smaller")
    return result


def _share(value: object, info: ValidationInfo) -> float:
    if str(value) == "true" and info.field_name == "people":
        return USUAL_SHARE
    result = number(value)
    if result is None or not 0 < result < 1:
        raise LeastnoiseError(
            f"{info.field_name} is {shown(value)}, not a share of the budget between 0 and 1; write for example "
            f"{info.field_name}: {USUAL_SHARE}"
        )
    return result


def _norm(value: object, info: ValidationInfo) -> float:
    result = _positive(value, info)
    if result < 1:
        raise LeastnoiseError(f"{info.field_name} {result} is below 1; 1 is the sum, large numbers come close to max")
    return result


def _whole(value: object, info: ValidationInfo) -> int:
    result = number(value)
    if result is None or not math.isfinite(result) or result != int(result):
        raise LeastnoiseError(f"{info.field_name} is {shown(value)}, not a whole number")
    if abs(result) >= 2**63:
        raise LeastnoiseError(f"{info.field_name} {shown(value)} is too large; use a number below 2**63")
    return int(result)


def _between(low: int, high: int) -> BeforeValidator:
    def check(value: object, info: ValidationInfo) -> int:
        number = _whole(value, info)
        if not low <= number <= high:
            raise LeastnoiseError(f"{info.field_name} {number} is not between {low} and {high}")
        return number

    return BeforeValidator(check)


def _value(value: object) -> object:
    if value is None:
        raise LeastnoiseError("values hold an empty or null entry; quote it ('null') if it is meant as text")
    if not isinstance(value, str | int | float):
        raise LeastnoiseError(f"values hold {shown(value)}; give text or numbers, such as [F, M]")
    if not isinstance(value, Written):
        return value
    if value.quoted or not _NUMBER.fullmatch(value):
        return str(value)
    return float(value) if "." in value else int(value)


def _tree(value: object) -> object:
    """A hierarchy as written: text is a file, lists hold paths or leaves, mappings hold what is below their keys."""
    if isinstance(value, Mapping):
        return {str(key): _tree(inside) for key, inside in value.items()}
    return [_tree(entry) for entry in value] if isinstance(value, list) else _value(value)


def _missing(value: object) -> object:
    if value is None or not isinstance(value, str | int | float):
        raise LeastnoiseError(f"missing is {shown(value)}; use error, drop or a value of the attribute")
    return _value(value)


def _text(value: object, info: ValidationInfo) -> str:
    if not isinstance(value, str):
        raise LeastnoiseError(f"{info.field_name} is {shown(value)}, not a name")
    return str(value)


def _list(value: object) -> object:
    return [value] if isinstance(value, str | int) else value


def word(*options: str, more: Iterable[str] = ()) -> BeforeValidator:
    """One of a few words, with a hint for a misspelt one; `more` are other forms to name in it."""

    def check(value: object, info: ValidationInfo) -> str:
        if isinstance(value, str) and value in options:
            return str(value)
        if not isinstance(value, str):
            raise LeastnoiseError(f"{info.field_name} is {shown(value)}; use {listed((*options, *more))}")
        raise LeastnoiseError(f"unknown {info.field_name} {shown(value)}; {hint(value, (*options, *more))}")

    return BeforeValidator(check)


def schema(**fields: Any) -> WithJsonSchema:
    """What the JSON schema says about a field."""
    return WithJsonSchema(fields)


def _one_or_many(kind: str) -> WithJsonSchema:
    return schema(anyOf=[{"type": kind}, {"type": "array", "items": {"type": kind}, "minItems": 1}])


Number = Annotated[int | float, BeforeValidator(_number), schema(type="number")]
# The workload refuses weights that are not positive, with its own words; the schema tells editors.
AboveZero = Annotated[int | float, BeforeValidator(_number), schema(type="number", exclusiveMinimum=0)]
Delta = Annotated[float, BeforeValidator(_delta), schema(type="number", exclusiveMinimum=0, exclusiveMaximum=1)]
_BELOW_ONE = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
Share = Annotated[float, BeforeValidator(_share), schema(**_BELOW_ONE)]
ShareOrTrue = Annotated[float, BeforeValidator(_share), schema(anyOf=[{"const": True}, _BELOW_ONE])]
Spent = Annotated[int | float, BeforeValidator(_budget), schema(type="number", minimum=LEAST, maximum=MOST)]
Norm = Annotated[int | float, BeforeValidator(_norm), schema(type="number", minimum=1)]
Whole = Annotated[int, BeforeValidator(_whole), schema(type="integer")]
Repeat = Annotated[int, _between(1, 100_000), schema(type="integer", minimum=1, maximum=100_000)]
RowsPerPerson = Annotated[int, _between(1, 10**9), schema(type="integer", minimum=1, maximum=10**9)]
PeopleCount = Annotated[int, _between(1, 10**15), schema(type="integer", minimum=1, maximum=10**15)]
Seed = Annotated[int, _between(0, 2**32 - 1), schema(type="integer", minimum=0, maximum=2**32 - 1)]
Text = Annotated[str, BeforeValidator(_text)]
NonEmpty = Annotated[str, Field(min_length=1), BeforeValidator(_text)]
Value = Annotated[str | int | float, BeforeValidator(_value)]
# text that is quoted or no number stays text; the hierarchy itself says in its own words what is wrong
TreeForm = Annotated[
    Any,
    BeforeValidator(_tree),
    schema(anyOf=[{"type": "string"}, {"type": "array", "minItems": 1}, {"type": "object", "minProperties": 1}]),
]
Missing = Annotated[str | int | float, BeforeValidator(_missing)]
Names = Annotated[list[Text], Field(min_length=1), BeforeValidator(_list), _one_or_many("string")]
Ways = Annotated[list[Whole], Field(min_length=1), BeforeValidator(_list), _one_or_many("integer")]
