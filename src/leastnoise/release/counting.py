"""Which rows were counted: the rules that left rows out or changed values, in words and as plain data.

Rules come from a spec, so they are public, and every release has them. How many rows each of them touched is private.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import Field

from leastnoise.domain.restrictions import RowRule as RowRuleName
from leastnoise.domain.unknown import UNKNOWN as UNKNOWN_VALUE
from leastnoise.privacy.neighbours import Neighbours
from leastnoise.release.answers import Answer
from leastnoise.release.side_counts import SideCounts, people_fields
from leastnoise.storage.records import Record, Text

if TYPE_CHECKING:
    from leastnoise.release.release import Release

NAMED = 6  # attributes that a sentence names
BY_RULE = "0, by rule"
UNKNOWN_COUNT = f"missing values count as '{UNKNOWN_VALUE}'"
NOT_MEASURED = "not measured"
IN_TABLES = "those of 'unknown' in its tables"
NO_BOUND = "not measured, as nothing bounds how many such rows one person has"
ADVICE = "to measure what was not, add 'quality: 0.02' to the spec: the share of the budget that it may cost"
UNKNOWN = "the rules of this source are not known here: it was made before the run, or by an earlier version"
CELLS = "impossible cells"
IMPOSSIBLE: dict[RowRuleName, str] = {
    "drop": "rows in impossible cells are left out",
    "keep": "rows in impossible cells are counted",
    "error": "a row in an impossible cell stops the run",
}
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
    """By which rules rows were counted. `max_rows`, `one_per` and `ids` are those of a unit, if it has one."""

    rules: list[RowRule]
    max_rows: Annotated[int, Field(gt=0)] | None
    ids: Literal["error", "drop"] | None
    impossible: RowRuleName | None = None  # what becomes of rows in impossible cells, where there are such
    one_per: list[Text] | None = None

    @property
    def strict(self) -> bool:
        """Whether every row was counted as it is: anything else would have stopped the run."""
        by_rule = any(rule.of(e) != "error" for rule in self.rules for e in EVENTS)
        return self.max_rows is None and not by_rule and self.impossible in (None, "error")

    def touching(self) -> Iterator[tuple[RowRule, Event]]:
        """Rules that may have touched rows, in the order of the attributes."""
        return ((rule, event) for rule in self.rules for event in EVENTS if rule.of(event) != "error")

    @property
    def several_drop(self) -> bool:
        """Whether several rules drop rows."""
        dropping = sum(rule.of(event) == "drop" for rule, event in self.touching())
        return dropping + (self.impossible == "drop") > 1

    def counters(self) -> list[tuple[str | None, str, str]]:
        """What is measured of the rules, in the order of the numbers: attribute, rule, what it does."""
        entries: list[tuple[str | None, str, str]] = [
            (rule.attribute, f"{event}: {rule.of(event)}", _does(rule, event)) for rule, event in self.touching()
        ]
        if self.impossible in ("drop", "keep"):
            entries.append((CELLS, f"rows: {self.impossible}", IMPOSSIBLE[self.impossible]))
        if self.several_drop:
            entries.append((None, "drop", "rows are left out by any of these rules"))
        if self.max_rows is not None:
            bound = f"max_rows: {self.max_rows}"
            if self.one_per:
                bound += f", one_per: [{', '.join(self.one_per)}]"
            entries.append((None, bound, f"of each person {self._at_most}"))
        return entries

    def sensitivity(self, neighbours: Neighbours) -> int:
        """The largest squared distance of the numbers of two neighbours (docs/privacy.md, Side counts).

        Of people each number has at most one per person. Of rows, a row has one event per attribute at most.
        """
        if self.max_rows is not None:
            return len(self.counters())
        square, difference = (self._farthest(replaced) for replaced in (False, True))
        return neighbours.squared_sensitivity(square, difference)

    def _farthest(self, replaced: bool) -> int:
        """The largest squared distance of two rows, or of a row and none: over the events of one attribute after the
        other, remembering whether each row is dropped.
        """
        best = {(False, False): 0}
        for rule in self.rules:
            events: list[Event | None] = [None, *(e for e in EVENTS if rule.of(e) != "error")]
            further: dict[tuple[bool, bool], int] = {}
            for (one, other), value in best.items():
                for a, b in product(events, events if replaced else [None]):
                    key = one or _drops(rule, a), other or _drops(rule, b)
                    apart = 0 if a == b else (a is not None) + (b is not None)
                    further[key] = max(further.get(key, 0), value + apart)
            best = further
        return max(
            value + apart + (self.several_drop and left != right)
            for (one, other), value in best.items()
            for left, right, apart in self._in_impossible_cells(one, other, replaced)
        )

    def _in_impossible_cells(self, one: bool, other: bool, replaced: bool) -> Iterator[tuple[bool, bool, int]]:
        """Whether each of two rows is dropped, and how far apart they are, as either may be in an impossible cell or
        not; rows that other rules drop are in none.
        """
        if self.impossible not in ("drop", "keep"):
            yield one, other, 0
            return
        drops = self.impossible == "drop"
        for a, b in product(*([False] if dropped else [False, True] for dropped in (one, other or not replaced))):
            yield one or (a and drops), other or (b and drops), int(a != b)

    def sentences(self, side: SideCounts | None = None) -> list[str]:
        """For the privacy statement; none where every row was counted as it is."""
        if self.strict:
            return []
        texts = [f"Of each person {self._at_most}."] if self.max_rows else []
        if dropped := [*self._dropped()]:
            texts.append(f"Rows are left out where {' or '.join(dropped)}.")
        kept: dict[str, list[str]] = {}
        for rule, event in self.touching():
            if rule.of(event) != "drop":
                kept.setdefault(_becomes(rule, event), []).append(f"'{rule.attribute}'")
        texts += [f"In {_listed(names)}, {text}." for text, names in kept.items()]
        texts += ["Rows in impossible cells are counted."] if self.impossible == "keep" else []
        how = "was not measured" if side is None else "was measured with noise, at a part of the stated cost"
        if side is None and {_becomes(rule, event) for rule, event in self.touching()} == {UNKNOWN_COUNT}:
            how = "is in the tables" if self.max_rows is None and self.impossible != "keep" else how
        return [*texts, f"How many {'people' if self.max_rows else 'rows'} that touched {how}."]

    @property
    def _at_most(self) -> str:
        each = f", at most one for each {_listed(self.one_per)}" if self.one_per else ""
        return f"at most {_rows(self.max_rows)} counted{each}"

    def _dropped(self) -> Iterator[str]:
        for event, what in (("missing", "missing"), ("outside", "outside its domain")):
            names = [f"'{r.attribute}'" for r, e in self.touching() if e == event and r.of(e) == "drop"]
            if names:
                yield f"{_listed(names, 'or')} is {what}"
        if self.impossible == "drop":
            yield "they are in impossible cells"
        if self.ids == "drop":
            yield "an id is missing"

    def lines(self, side: SideCounts | None = None, confidence: float = 0.95) -> list[dict[str, Any]]:
        """One entry per rule: `rule` as a spec has it, what it does in words, and how many rows or people it touched,
        in words and as `number`.
        """
        answers: list[Answer | None] = [None] * len(self.counters()) if side is None else [*side.answers(confidence)]
        what = "people" if self.max_rows else "rows"
        entries = [_line(*each, answer, what) for each, answer in zip(self.counters(), answers, strict=True)]
        if side is None:
            entries = [each for each in entries if each["rule"] != "drop"]
        if self.ids == "drop":
            entries.append(_line(None, "missing: drop", "rows without an id are left out", NO_BOUND))
        if self.ids == "error":
            entries.append(_line(None, "missing: error", "an id that is missing stops the run", BY_RULE))
        for event in EVENTS:
            if names := [rule.attribute for rule in self.rules if rule.of(event) == "error"]:
                entries.append(_line(_listed(names), f"{event}: error", f"{A_VALUE[event]} stops the run", BY_RULE))
        if self.impossible == "error":
            entries.append(_line(CELLS, "rows: error", IMPOSSIBLE["error"], BY_RULE))
        return entries


def _drops(rule: RowRule, event: Event | None) -> bool:
    return event is not None and rule.of(event) == "drop"


def _line(attribute: str | None, rule: str, does: str, answer: Answer | str | None, what: str = "") -> dict[str, Any]:
    missing = IN_TABLES if rule == f"missing: {UNKNOWN_VALUE}" else NOT_MEASURED
    touched = f"{answer} {what}" if isinstance(answer, Answer) else answer or missing
    number = answer.to_json() if isinstance(answer, Answer) else 0 if answer == BY_RULE else None
    return {"attribute": attribute, "rule": rule, "does": does, "touched": touched, "number": number}


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
    rules are not known; `people` the counts of distinct people, by their attributes.
    """
    total = release.total(confidence) if release.has_table([]) else None
    return {
        "rows_counted": None if total is None else total.to_json(),
        "rules": _rules(release, confidence),
        "people": people_fields(release, confidence),
        "confidence": confidence,
    }


def _rules(release: Release, confidence: float) -> list[dict[str, Any]] | None:
    runs = [origin.run for origin in release.origins]
    if not runs or any(run.counting is None for run in runs):
        return None
    lines = [line for run in runs if run.counting for line in run.counting.lines(run.quality, confidence)]
    return [line for k, line in enumerate(lines) if line not in lines[:k]]


def counting_text(fields: Mapping[str, Any]) -> list[str]:
    """The same for people to read, line by line."""
    numbers, rules = fields["rows_counted"], fields["rules"]
    first = "rows counted: not in reach" if numbers is None else f"rows counted: {_answer(numbers)}"
    counted = [_people(table, fields["confidence"]) for table in fields["people"]]
    if rules is None:
        return [first, *counted, f"rows not counted: {UNKNOWN}"]
    return [
        first,
        *counted,
        *(f"  {_called(rule)} ({rule['does']}): {rule['touched']}" for rule in rules),
        *_hint(rules),
    ]


def _people(table: Mapping[str, Any], confidence: float) -> str:
    if table["attributes"]:
        return f"people counted by {' x '.join(table['attributes'])}: {len(table['rows']):,} cells"
    (row,) = table["rows"]
    return f"people counted: {Answer(row['count'], row['std_error'], confidence)}"


def _hint(rules: Sequence[Mapping[str, Any]]) -> list[str]:
    return [ADVICE] if any(rule["touched"] == NOT_MEASURED for rule in rules) else []


def _called(rule: Mapping[str, Any]) -> str:
    return f"{rule['attribute'] or 'unit'}, {rule['rule']}"


def _answer(numbers: Mapping[str, float]) -> str:
    return str(Answer(numbers["value"], numbers["std_error"], numbers["confidence"], bias=numbers.get("bias", 0.0)))
