"""What a column may hold, and which attributes it can fill."""

from typing import Literal

from leastnoise.domain.attributes import Timed, Values
from leastnoise.errors import DataError, LeastnoiseError
from leastnoise.workload.rules import Coding

# `timestamp` is a time on a clock, `instant` a moment in time; `written` is text in a file that knows no types:
# numbers and dates are read from it.
Kind = Literal[
    "integer", "float", "decimal", "boolean", "text", "date", "timestamp", "instant", "written", "nothing", "unknown"
]
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
TIMES: tuple[Kind, ...] = ("date", "timestamp", "instant")


def check_kind(coding: Coding, kind: Kind) -> None:
    """Refuse a column whose type can never match; its type is no secret."""
    column, name = coding.column, coding.attribute.name
    if isinstance(coding.values, Timed):
        _check_time(coding, coding.values, kind)
        return
    if kind in ("unknown", "timestamp", "instant"):
        raise DataError(f"the column {column!r} is neither number, text, date nor truth value; cast it to one of them")
    if kind in TEXTS and not texts(coding):
        raise DataError(
            f"the column {column!r} holds {_WORDS[kind]}, but the values of {name!r} are numbers; cast the column"
        )
    if kind in NUMBERS and not numbers(coding):
        raise DataError(
            f"the column {column!r} holds {_WORDS[kind]}, but the values of {name!r} are texts; cast the column to text"
        )


def _check_time(coding: Coding, values: Timed, kind: Kind) -> None:
    """The same for attributes of dates."""
    column, name = coding.column, coding.attribute.name
    if kind in ("unknown", "boolean", *NUMBERS):
        raise DataError(
            f"the column {column!r} holds no dates, but the values of {name!r} are; cast it to date or text"
        )
    if kind == "instant" and coding.reading.zone is None:
        raise DataError(
            f"the column {column!r} holds moments, whose date depends on the time zone; "
            "state it, as in zone: Europe/Berlin"
        )
    if kind == "date" and values.unit == "hour":
        raise DataError(f"the column {column!r} holds dates without a time, but {name!r} needs hours; name another one")


def check_id(column: str, kind: Kind) -> None:
    """Ids must be the same text in every engine."""
    if kind not in ("integer", "text", "written", "nothing"):
        raise DataError(f"the column {column!r} cannot be an id; ids are whole numbers or texts, cast it")


def texts(coding: Coding) -> list[tuple[str, int]]:
    """The values that are texts as they are looked up, with their codes."""
    return [(item, code) for item, code in coding.written if isinstance(item, str)]


def numbers(coding: Coding) -> bool:
    """Whether some values are numbers."""
    return not isinstance(coding.values, Values) or any(not isinstance(item, str) for item, _ in coding.written)


def truth(coding: Coding, value: bool) -> int:
    """The code of a truth value: itself, else the number 1 or 0, else the text 'true' or 'false'."""
    code = coding.read(value)
    return code if code >= 0 else coding.read(str(value).lower())


def missing_column(name: str) -> LeastnoiseError:
    """One message for all sources."""
    return LeastnoiseError(
        f"the column {name!r} is missing; give the name it has in the data, as column or as id of the unit"
    )
