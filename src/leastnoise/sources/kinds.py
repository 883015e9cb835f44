"""What a column may hold, and which attributes it can fill."""

from typing import Literal

from leastnoise.domain.attributes import Values
from leastnoise.errors import DataError, LeastnoiseError
from leastnoise.workload.rules import Coding

# `written` is text in a file that knows no types: numbers are read from it.
Kind = Literal["integer", "float", "decimal", "boolean", "text", "date", "written", "nothing", "unknown"]
_WORDS: dict[Kind, str] = {
    "integer": "whole numbers",
    "float": "numbers",
    "decimal": "numbers",
    "boolean": "truth values",
    "text": "text",
    "date": "dates",
}
NUMBERS: tuple[Kind, ...] = ("integer", "float", "decimal")
TEXTS: tuple[Kind, ...] = ("text", "date")


def check_kind(coding: Coding, kind: Kind) -> None:
    """Refuse a column whose type can never match; its type is no secret."""
    column, name = coding.column, coding.attribute.name
    if kind == "unknown":
        raise DataError(f"the column {column!r} is neither number, text, date nor truth value; cast it to one of them")
    if kind in TEXTS and not texts(coding):
        raise DataError(
            f"the column {column!r} holds {_WORDS[kind]}, but the values of {name!r} are numbers; cast the column"
        )
    if kind in NUMBERS and not numbers(coding):
        raise DataError(
            f"the column {column!r} holds {_WORDS[kind]}, but the values of {name!r} are texts; cast the column to text"
        )


def check_id(column: str, kind: Kind) -> None:
    """Ids must be the same text in every engine."""
    if kind not in ("integer", "text", "written", "nothing"):
        raise DataError(f"the column {column!r} cannot be an id; ids are whole numbers or texts, cast it")


def texts(coding: Coding) -> list[tuple[str, int]]:
    """The values that are texts, with their codes."""
    values = coding.values
    return (
        [(item, code) for item, code in values.written if isinstance(item, str)] if isinstance(values, Values) else []
    )


def numbers(coding: Coding) -> bool:
    """Whether some values are numbers."""
    values = coding.values
    return not isinstance(values, Values) or any(not isinstance(item, str) for item, _ in values.written)


def truth(coding: Coding, value: bool) -> int:
    """The code of a truth value: itself, else the number 1 or 0, else the text 'true' or 'false'."""
    code = coding.read(value)
    return code if code >= 0 else coding.read(str(value).lower())


def missing_column(name: str) -> LeastnoiseError:
    """One message for all sources."""
    return LeastnoiseError(f"the column {name!r} is missing; every attribute of the domain needs one")
