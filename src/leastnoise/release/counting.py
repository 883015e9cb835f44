"""Which rows were counted: the rules that left rows out or changed values, in words and as plain data.

Rules come from a spec, so they are public, and every release has them. How many rows each of them touched is private.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import Field

from leastnoise.storage.records import Record, Text

if TYPE_CHECKING:
    from leastnoise.release.release import Release

NAMED = 6  # attributes that a sentence names
BY_RULE = "0, by rule"
NOT_MEASURED = "not measured"
UNKNOWN = "the rules of this source are not known here: it was made before the run, or by an earlier version"
Event = Literal["missing", "outside"]
EVENTS: tuple[Event, ...] = get_args(Event)
A_VALUE: dict[Event, str] = {"missing": "a missing value", "outside": "a value outside the domain"}


class RowRule(Record):
    """What became of values of one attribute that are missing, or outside its domain."""

    attribute: Text
    column: Text
    outside: Text
    missing: Text  # error, drop, or the value that stands for it

    def of(self, event: Event) -> str:
        """The rule for missing values, or for those outside."""
        return self.missing if event == "missing" else self.outside


class Counting(Record):
    """By which rules rows were counted. `max_rows` and `ids` are those of the unit, where people are counted."""

    rules: list[RowRule]
    max_rows: Annotated[int, Field(gt=0)] | None
    ids: Literal["error", "drop"] | None

    @property
    def strict(self) -> bool:
        """Whether every row was counted as it is: anything else would have stopped the run."""
        return self.max_rows is None and not any(rule.of(e) != "error" for rule in self.rules for e in EVENTS)

    def touching(self) -> Iterator[tuple[RowRule, Event]]:
        """Rules that may have touched rows, in the order of the attributes."""
        return ((rule, event) for rule in self.rules for event in EVENTS if rule.of(event) != "error")

    def sentences(self) -> list[str]:
        """For the privacy statement; none where every row was counted as it is."""
        if self.strict:
            return []
        texts = [f"Of each person at most {_rows(self.max_rows)} counted."] if self.max_rows else []
        if dropped := [*self._dropped()]:
            texts.append(f"Rows are left out where {' or '.join(dropped)}.")
        kept: dict[str, list[str]] = {}
        for rule, event in self.touching():
            if rule.of(event) != "drop":
                kept.setdefault(_becomes(rule, event), []).append(f"'{rule.attribute}'")
        texts += [f"In {_listed(names)}, {text}." for text, names in kept.items()]
        return [*texts, "How many rows that touched was not measured."]

    def _dropped(self) -> Iterator[str]:
        for event, what in (("missing", "missing"), ("outside", "outside its domain")):
            names = [f"'{r.attribute}'" for r, e in self.touching() if e == event and r.of(e) == "drop"]
            if names:
                yield f"{_listed(names, 'or')} is {what}"
        if self.ids == "drop":
            yield "an id is missing"

    def lines(self) -> list[dict[str, Any]]:
        """One entry per rule: `rule` as a spec has it, what it does in words, and how many rows it touched."""
        entries = [
            _line(rule.attribute, f"{event}: {rule.of(event)}", _does(rule, event), NOT_MEASURED)
            for rule, event in self.touching()
        ]
        if self.max_rows is not None:
            rows = f"of each person at most {_rows(self.max_rows)} counted"
            entries.append(_line(None, f"max_rows: {self.max_rows}", rows, NOT_MEASURED))
            does = "rows without an id are left out" if self.ids == "drop" else "an id that is missing stops the run"
            entries.append(_line(None, f"missing: {self.ids}", does, NOT_MEASURED if self.ids == "drop" else BY_RULE))
        for event in EVENTS:
            if names := [rule.attribute for rule in self.rules if rule.of(event) == "error"]:
                entries.append(_line(_listed(names), f"{event}: error", f"{A_VALUE[event]} stops the run", BY_RULE))
        return entries


def _line(attribute: str | None, rule: str, does: str, number: str) -> dict[str, Any]:
    return {"attribute": attribute, "rule": rule, "does": does, "touched": number}


def _rows(most: int | None) -> str:
    return "one row is" if most == 1 else f"{most:,} rows are"


def _does(rule: RowRule, event: Event) -> str:
    if rule.of(event) == "drop":
        return f"rows where it is {'missing' if event == 'missing' else 'outside its domain'} are left out"
    return f"{A_VALUE[event]} counts as {_stand_in(rule, event)}"


def _becomes(rule: RowRule, event: Event) -> str:
    stand_in = _stand_in(rule, event)
    return f"missing values count as {stand_in}" if event == "missing" else f"values outside count as {stand_in}"


def _stand_in(rule: RowRule, event: Event) -> str:
    return "the nearest end of the domain" if rule.of(event) == "clamp" else f"'{rule.of(event)}'"


def _listed(names: Sequence[str], word: str = "and") -> str:
    """Names, shortened where there are many."""
    if len(names) > NAMED:
        return f"{', '.join(names[: NAMED - 1])} {word} {len(names) - NAMED + 1:,} others"
    *first, last = names
    return f"{', '.join(first)} {word} {last}" if first else last


def counting(release: Release, confidence: float = 0.95) -> dict[str, Any]:
    """Rows that were counted, and what became of the others, as plain data.

    `rows_counted` has the estimate, None where no table is in reach; `rules` one entry per rule, or None where the
    rules are not known.
    """
    total = release.total(confidence) if release.has_table([]) else None
    numbers = None if total is None else {name: getattr(total, name) for name in ("value", "std_error", "low", "high")}
    return {"rows_counted": numbers, "rules": _rules(release), "confidence": confidence}


def _rules(release: Release) -> list[dict[str, Any]] | None:
    known = [origin.run.counting for origin in release.origins]
    if not known or None in known:
        return None
    return [line for one in dict.fromkeys(c.model_dump_json() for c in known if c) for line in _parsed(one)]


def _parsed(text: str) -> list[dict[str, Any]]:
    return Counting.model_validate_json(text).lines()


def counting_text(fields: Mapping[str, Any]) -> list[str]:
    """The same for people to read, line by line."""
    numbers, rules = fields["rows_counted"], fields["rules"]
    first = "rows counted: not in reach" if numbers is None else f"rows counted: {_answer(numbers, fields)}"
    if rules is None:
        return [first, f"rows not counted: {UNKNOWN}"]
    return [first, *(f"  {_called(rule)} ({rule['does']}): {rule['touched']}" for rule in rules)]


def _called(rule: Mapping[str, Any]) -> str:
    return f"{rule['attribute'] or 'unit'}, {rule['rule']}"


def _answer(numbers: Mapping[str, float], fields: Mapping[str, Any]) -> str:
    from leastnoise.release.answers import Answer

    return str(Answer(numbers["value"], numbers["std_error"], fields["confidence"]))
