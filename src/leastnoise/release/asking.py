"""Any questions to a release at once: statistics, by groups, and less those of another release.

A question that cannot be answered has its error in its place; the others are answered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from leastnoise._progress import shown
from leastnoise._types import Array, Progress
from leastnoise.errors import LeastnoiseError
from leastnoise.release.answers import Answer, quantile
from leastnoise.release.html import answers_html, cell
from leastnoise.release.queries.breakdown import MOST_GROUPS, Slice, breakdown
from leastnoise.release.queries.linear import EmptyGroupError, quoted_name
from leastnoise.release.queries.questions import Question, Several, counted, is_plain, read_question
from leastnoise.release.statistics.differences import Count, Difference, Reading
from leastnoise.release.statistics.moments import Regression
from leastnoise.release.statistics.ratios import Statistic
from leastnoise.release.statistics.top import Top

if TYPE_CHECKING:
    import pandas as pd

    from leastnoise.release.release import Release

MOST_SUMS = 20  # tables of sums on a page
AT_ONCE = 128  # queries that are read together
RESERVED = ("question", "rank", "term", "value", "std_error", "low", "high", "confidence", "note", "error")
NOBODY = "nobody can be in this group"
SAME_NOISE = (
    "the two releases share measurements, so their noise is not independent; ask one of them for the difference of "
    "two groups"
)


@dataclass(frozen=True)
class Row:
    """One answer: of which group, the number with its interval (None where nobody can be in it), what else is known."""

    labels: dict[str, Any]
    answer: Answer | Statistic | None
    more: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        known = {"value": None, "note": NOBODY} if self.answer is None else self.answer.to_json()
        return {**{name: _plain(label) for name, label in self.labels.items()}, **known, **self.more}


@dataclass(frozen=True)
class Answered:
    """The answers to one question, or why there is none."""

    question: str
    rows: tuple[Row, ...] = ()
    note: str = ""
    error: str = ""

    def plain(self, grouped: bool) -> dict[str, Any]:
        """Plain data; the answer itself where there are no groups."""
        start: dict[str, Any] = {"question": self.question}
        if self.error:
            return start | {"error": self.error}
        if not grouped and len(self.rows) == 1 and not self.rows[0].labels:
            return start | self.rows[0].to_json()
        return start | ({"note": self.note} if self.note else {}) | {"rows": [row.to_json() for row in self.rows]}

    def __str__(self) -> str:
        if self.error:
            return f"{self.question}: error: {self.error}"
        if len(self.rows) == 1 and not self.rows[0].labels:
            note = self.rows[0].more.get("note", "")
            return f"{self.question}: {self.rows[0].answer}{'; ' if note else ''}{note}"
        heading = f"{self.question}; {self.note}" if self.note else self.question
        return f"{heading}\n{_text([row.to_json() for row in self.rows])}"


@dataclass(frozen=True)
class Answers:
    """The answers to several questions, in their order. Costs no privacy.

    >>> Answers((Answered("age <", error="position 6: expected a value, found the end"),), False, False, False).errors
    1
    """

    items: tuple[Answered, ...]
    insecure: bool
    simultaneous: bool
    grouped: bool

    @property
    def errors(self) -> int:
        """How many questions have no answer."""
        return sum(bool(item.error) for item in self.items)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        answers = [item.plain(self.grouped) for item in self.items]
        return {"insecure": self.insecure, "simultaneous": self.simultaneous, "answers": answers}

    def to_pandas(self) -> pd.DataFrame:
        """One row per answer: the question, the group, value, std_error, low, high, confidence and notes."""
        import pandas as pd

        rows = [{"question": item.question, **row} for item in self.items for row in _rows(item)]
        order = list(dict.fromkeys(name for row in rows for name in row))
        last = [name for name in ("method", "note", "error") if name in order]
        return pd.DataFrame(rows, columns=[name for name in order if name not in last] + last)

    def __iter__(self) -> Iterator[Answered]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __str__(self) -> str:
        return "\n".join(map(str, self.items))

    def _repr_html_(self) -> str:
        items = ((item.question, item.error, [row.to_json() for row in item.rows]) for item in self.items)
        return answers_html(items, self.insecure)


def _rows(item: Answered) -> list[dict[str, Any]]:
    if item.error:
        return [{"error": item.error}]
    return [row.to_json() | ({"note": item.note} if item.note else {}) for row in item.rows]


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def _text(rows: Sequence[dict[str, Any]]) -> str:
    """Rows as a table; what is the same everywhere is left out or stands below."""
    hidden = {"confidence", "method", "note"}
    columns = [name for name in dict.fromkeys(n for row in rows for n in row) if name not in hidden]
    cells = [columns, *([cell(row.get(name)) for name in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)) for line in cells]
    notes = dict.fromkeys(str(row["note"]) for row in rows if row.get("note"))
    return "\n".join([*lines, *(f"note: {note}" for note in notes)])


# --- asking -----------------------------------------------------------------------------------------------------------


def ask_all(
    release: Release,
    questions: str | Sequence[str],
    by: str | Sequence[str] = (),
    *,
    minus: Release | None = None,
    confidence: float = 0.95,
    simultaneous: bool = False,
    progress: Progress | None = None,
) -> Answers:
    """Answers to any questions, counts or statistics such as "mean(age) where sex = 'F'" (docs/ask.md).

    `by` gives an answer for each value of attributes, or of levels such as "geo.state". `minus` subtracts the answers
    of another release whose noise is independent. Intervals hold all at once if `simultaneous`. A question that cannot
    be answered has its error in its place.

    Guarantees: one_bad_question_leaves_the_others; questions_are_those_of_python; groups_are_conditions.
    """
    texts, names = ([x] if isinstance(x, str) else list(x) for x in (questions, by))
    quantile(confidence)
    asking = _Asking(release, minus, names, confidence, shown(progress), simultaneous)
    alone = simultaneous and asking.plain and all(map(is_plain, texts))
    together = max(len(texts), 1) * len(asking.slices) if simultaneous and not alone else 1
    items = asking.all_at_once(texts) if alone else [asking.answered(text, together) for text in texts]
    return Answers(tuple(items), release.insecure or bool(minus and minus.insecure), simultaneous, bool(names))


def published_answers(release: Release, confidence: float = 0.95) -> Answers:
    """Answers to the questions that its spec asks for readers; the same each time, as they follow from the release.

    Guarantees: published_answers_are_those_of_ask_all.
    """
    quantile(confidence)
    words = release.publication
    items = [_published(release, text, by, confidence) for text, by in (words.asked if words else ())]
    return Answers(tuple(items), release.insecure, False, False)


def sums_of(release: Release, confidence: float = 0.95) -> Iterator[Answered]:
    """The tables of sums in reach as questions with their answers: for pages."""
    domain = release.domain
    for names in islice(release.sums(), MOST_SUMS):
        of = [quoted_name(name) for name in names if domain[name].amount is not None]
        by = [name for name in names if domain[name].amount is None]
        if prod(domain[name].size for name in by) <= MOST_GROUPS:
            yield _published(release, f"sum({' * '.join(of)})", by, confidence)


def _published(release: Release, text: str, by: Sequence[str], confidence: float) -> Answered:
    name = f"{text} by {', '.join(by)}" if by else text
    try:
        (item,) = ask_all(release, text, by, confidence=confidence)
    except LeastnoiseError as error:
        return Answered(name, error=str(error))
    return replace(item, question=name)


def check_answers(release: Release, text: str, by: Sequence[str]) -> None:
    """Refuse a question that is out of reach of a release, whatever its numbers are."""
    asking = _Asking(release, None, by, 0.95)
    for _ in read_all(release, list(readings_of(question_of(release, text), asking.slices, by))):
        pass


@dataclass(frozen=True, eq=False)
class _Asking:
    """Who is asked, about which groups."""

    release: Release
    minus: Release | None
    by: Sequence[str]
    confidence: float
    progress: Progress | None = None
    simultaneous: bool = False

    def __post_init__(self) -> None:
        if self.minus is not None and self.release.shares_noise(self.minus):
            raise LeastnoiseError(SAME_NOISE)
        if taken := [name for name in (self.slices[0].labels if self.slices else {}) if name in RESERVED]:
            raise LeastnoiseError(f"groups by {taken[0]!r} would have the name of a column; use a condition instead")
        for other in self._sides[1:]:
            if [s.labels for s in other[1]] != [s.labels for s in self.slices]:
                raise LeastnoiseError(f"by {', '.join(self.by)} the releases have different groups; ask for each alone")

    @cached_property
    def slices(self) -> list[Slice]:
        return breakdown(self.release.domain, self.by)

    @cached_property
    def _sides(self) -> list[tuple[Release, list[Slice]]]:
        """The releases, each with the groups in its own domain."""
        other = [] if self.minus is None else [(self.minus, breakdown(self.minus.domain, self.by))]
        return [(self.release, self.slices), *other]

    @property
    def plain(self) -> bool:
        return not self.by and self.minus is None

    def all_at_once(self, texts: Sequence[str]) -> list[Answered]:
        """Counts alone have narrower intervals that hold all at once."""
        items = [self.answered(text, 1) for text in texts]
        good = [item.question for item in items if not item.error]
        joint = iter(self.release.ask_many(good, self.confidence, True)) if good else iter(())
        return [item if item.error else replace(item, rows=(Row({}, next(joint)),)) for item in items]

    def answered(self, text: str, together: int) -> Answered:
        """The answers to one question; in `together` intervals that hold at once by Bonferroni's inequality."""
        confidence = 1 - (1 - self.confidence) / together
        try:
            if self.plain and is_plain(text):
                return Answered(text, (_stated(Row({}, self.release.ask(text, confidence)), self.confidence),))
            rows, notes = self._rows(text, confidence)
        except LeastnoiseError as error:
            return Answered(text, error=str(error))
        return Answered(text, tuple(_stated(row, self.confidence) for row in rows), notes)

    def _rows(self, text: str, confidence: float) -> tuple[list[Row], str]:
        read = [
            read_all(release, list(self._readings(release, text, slices)), self.progress)
            for release, slices in self._sides
        ]
        rows: list[Row] = []
        notes: list[str] = []
        for one, *parts in zip(self.slices, *read, strict=True):
            more, note = _answers(one.labels, parts, confidence, self.simultaneous)
            rows, notes = rows + more, notes + [note]
        return rows, notes[0] if len(notes) == 1 else ""

    def _readings(self, release: Release, text: str, slices: Sequence[Slice]) -> Iterator[Reading | Several | None]:
        """What must be read for each group; None where nobody can be in it."""
        return readings_of(question_of(release, text), slices, self.by)


def readings_of(question: Question, slices: Sequence[Slice], by: Sequence[str]) -> Iterator[Reading | Several | None]:
    """What a question needs for each group; None where nobody can be in it."""
    for one in slices:
        try:
            yield question(one.condition)
        except EmptyGroupError:
            if not by:
                raise
            yield None


def question_of(release: Release, text: str) -> Question:
    """What a text asks of a release; counts in the language of its kind."""
    return counted(release.query(text)) if is_plain(text) else read_question(release.domain, text)


class Part(NamedTuple):
    """What was read for one group, and its numbers."""

    reading: Reading | Several | None
    values: Array
    coordinates: Array


def read_all(
    release: Release, readings: Sequence[Reading | Several | None], progress: Progress | None = None
) -> Iterator[Part]:
    """The numbers of all readings, some at a time."""
    done = 0
    while done < len(readings):
        some = [readings[done]]
        while done + len(some) < len(readings) and sum(map(_width, some)) < AT_ONCE:
            some.append(readings[done + len(some)])
        values, coordinates = release.joint(
            [query for reading in some if reading is not None for query in reading.queries]
        )
        start = 0
        for reading in some:
            stop = start + _width(reading)
            yield Part(reading, values[start:stop], coordinates[start:stop])
            start = stop
        done += len(some)
        if progress is not None:
            progress(done, len(readings), "asking")


def _width(reading: Reading | Several | None) -> int:
    return 0 if reading is None else len(reading.queries)


def _answers(
    labels: dict[str, Any], parts: Sequence[Part], confidence: float, simultaneous: bool
) -> tuple[list[Row], str]:
    """The rows of one group, from one release or as the difference of two."""
    one = parts[0] if len(parts) == 1 else _apart(*parts)
    if not isinstance(one.reading, Top):
        return rows_of(labels, one, confidence), ""
    ranking = one.reading.ranking(one.values, one.coordinates, confidence, simultaneous)
    rows = [
        Row(
            {**labels, "rank": item.place, **item.labels},
            item.answer,
            {"rank_low": item.first, "rank_high": item.last, "top_confidence": ranking.confidence},
        )
        for item in ranking.items
    ]
    return rows, ranking.note


def rows_of(labels: dict[str, Any], part: Part, confidence: float) -> list[Row]:
    """The rows of one group: a row, or one for each coefficient of a regression."""
    reading, values, coordinates = part
    if reading is None:
        return [Row(labels, None)]
    assert not isinstance(reading, Top)
    if isinstance(reading, Regression):
        answers = reading.answers(values, coordinates, confidence)
        return [Row({**labels, "term": name}, each) for name, each in zip(reading.terms, answers, strict=True)]
    more = {"note": reading.note} if isinstance(reading, Count) and reading.note else {}
    return [Row(labels, reading.answer(values, coordinates, confidence), more)]


def _apart(one: Part, other: Part) -> Part:
    """The difference of what two releases say, whose noise is independent."""
    if one.reading is None or other.reading is None:
        return one._replace(reading=None)
    if isinstance(one.reading, Several) or isinstance(other.reading, Several):
        raise LeastnoiseError("several numbers at once have no difference; ask each release by itself")
    (rows, left), (more, right) = one.coordinates.shape, other.coordinates.shape
    coordinates = np.zeros((rows + more, left + right))
    coordinates[:rows, :left], coordinates[rows:, left:] = one.coordinates, other.coordinates
    return Part(Difference(one.reading, other.reading), np.concatenate([one.values, other.values]), coordinates)


def _stated(row: Row, confidence: float) -> Row:
    """A row whose interval is wider than for itself states the confidence of all."""
    if row.answer is None or row.answer.confidence == confidence:
        return row
    if isinstance(row.answer, Statistic):
        return replace(row, answer=replace(row.answer, confidence=confidence))
    width = row.answer.width or quantile(row.answer.confidence)
    return replace(row, answer=replace(row.answer, confidence=confidence, width=width))
