"""The curator's own diagnosis of some data: exact numbers that are not protected, spend nothing and publish nothing."""

import difflib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from leastnoise._types import IntArray
from leastnoise.domain.attributes import Domain
from leastnoise.domain.periods import Timed
from leastnoise.errors import LeastnoiseError
from leastnoise.sources.barrier import barrier, title_of
from leastnoise.sources.broken_rows import broken_rows
from leastnoise.sources.codes import check_columns
from leastnoise.sources.columns import as_column, diagnosed, id_texts
from leastnoise.sources.contribution_bounding import left_out, numbered_people
from leastnoise.sources.convert import columns_of, engine_of
from leastnoise.sources.engine import BrokenRowsError, Engine
from leastnoise.sources.files import AnyFormat, Files
from leastnoise.sources.number_signs import Signs, possible_signs
from leastnoise.sources.rules import PrivacyUnit
from leastnoise.sources.side_counts import impossible_rows
from leastnoise.sources.sql import Query
from leastnoise.sources.sql_impossible import ImpossibleCells
from leastnoise.workload.rules import AnyRules, Coding, Rules, as_part, codings, rules_of

NOTICE = "this check reads the data, spends nothing and publishes nothing; its numbers are exact and not protected"
OTHER = "other"
NO_DOMAIN = Domain(())


@dataclass(frozen=True)
class ColumnCheck:
    """What a column holds for one attribute; None where it cannot be read at all."""

    column: str
    missing: int | None
    outside: int | None
    rule: dict[str, Any]
    stops: bool
    fixes: list[str]


@dataclass(frozen=True)
class UnitCheck:
    """What the column of ids holds: `people` have rows that can be counted, `over` of them more than `max_rows`."""

    column: str
    missing: int | None
    max_rows: int
    people: int | None
    over: int | None
    left_out: int | None  # rows, because their people have too many
    rule: dict[str, Any]
    stops: bool
    fixes: list[str]
    one_per: tuple[str, ...] = ()


@dataclass(frozen=True)
class ImpossibleCheck:
    """How many rows are in impossible cells; None where columns cannot be read."""

    rows: int | None
    clauses: list[str]
    rule: dict[str, Any]
    stops: bool
    fixes: list[str]


@dataclass(frozen=True)
class Check:
    """All that would stop a release of some data, and what becomes of its rows. Exact, and for the curator alone.

    `counted` rows are those that a release would count if it left out what stops it.
    """

    rows: int
    counted: int
    columns: dict[str, ColumnCheck]
    unit: UnitCheck | None
    problems: list[str]
    file: dict[str, Any] | None = field(default=None, compare=False)  # how files are read
    impossible: ImpossibleCheck | None = None

    @property
    def ok(self) -> bool:
        """Whether a release would run."""
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        unsaid = ("file", "impossible")  # where there are none
        fields = {name: value for name, value in asdict(self).items() if name not in unsaid or value is not None}
        return {"protected": False} | fields | {"ok": self.ok}

    def __str__(self) -> str:
        return "\n".join(_lines(self))


@dataclass
class _Tally:
    """Exact numbers, by attribute: missing, outside, and outside still when clamped."""

    rows: int = 0
    countable: int = 0
    columns: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    ids_missing: int = 0
    people: tuple[int, int, int] = (0, 0, 0)  # all, those with too many rows, rows that these have too many
    impossible: int = 0  # rows


def check(
    data: Any,
    domain: Domain,
    *,
    rules: AnyRules | None = None,
    unit: PrivacyUnit | Mapping[str, Any] | None = None,
    table: str | None = None,
    memory: str | None = None,
    file: AnyFormat = None,
) -> Check:
    """All problems that some data has with a domain, its rules and its unit. The arguments are those of `source_of`.

    The numbers are exact and not protected by noise. They are for whoever has the data; nothing is spent or published.

    >>> domain = Domain.of(age=range(18, 100), sex=["F", "M"])
    >>> result = check({"age": [18, 7, None], "sex": ["F", "M", "M"]}, domain, rules={"age": {"missing": "drop"}})
    >>> result.rows, result.counted, result.columns["age"].outside, result.columns["age"].fixes
    (3, 1, 1, ['outside: drop', 'outside: clamp'])

    Guarantees: engines_and_memory_agree; every_fix_settles_its_problem.
    """
    unit = None if unit is None else as_part(PrivacyUnit, unit, "the fields of the unit")
    how = codings(domain, rules)
    with barrier(title_of(data)):
        engine = engine_of(data, table, memory, file)
        columns = None if engine is not None else columns_of(data)
        if engine is None and columns is None:
            raise LeastnoiseError("a check needs columns of values; give a file, a table or a data frame")
        holder: _Held = _Columns(columns or {}) if engine is None else _Table(engine)
        try:
            return replace(_checked(holder, how, unit, rules_of(domain, rules), domain), file=_stated(engine))
        finally:
            if engine is not None:
                engine.close()


class _Held(ABC):
    """Where columns are found: in memory, or in a database."""

    names: Sequence[str]

    @abstractmethod
    def refuse(self, how: Sequence[Coding], unit: PrivacyUnit | None) -> None:
        """Raise what is wrong with names and types."""

    def lines(self) -> list[str]:
        """What is wrong with lines of a file."""
        return []

    def with_signs(self, how: Sequence[Coding]) -> Iterator[tuple[Signs, dict[str, tuple[int, int, int]]]]:
        """The numbers of a file as they were if it had other decimal signs, or some between thousands."""
        return iter(())

    @abstractmethod
    def tally(self, how: Sequence[Coding], unit: PrivacyUnit | None, domain: Domain) -> _Tally:
        """The numbers; of impossible cells in a domain of these attributes."""


class _Table(_Held):
    def __init__(self, engine: Engine) -> None:
        self.engine, self.names = engine, list(engine.fields)

    def _query(self, how: Sequence[Coding], unit: PrivacyUnit | None, domain: Domain = NO_DOMAIN) -> Query:
        engine, cells = self.engine, ImpossibleCells(domain)
        return Query(engine.dialect, engine.table, engine.fields, tuple(how), unit, engine.mapping, cells)

    def refuse(self, how: Sequence[Coding], unit: PrivacyUnit | None) -> None:
        self._query(how, unit)

    def lines(self) -> list[str]:
        return [] if (files := _files(self.engine)) is None else broken_rows(files)

    def with_signs(self, how: Sequence[Coding]) -> Iterator[tuple[Signs, dict[str, tuple[int, int, int]]]]:
        files = _files(self.engine)
        if files is None or files.kind == "Parquet" or not how:
            return
        for signs in possible_signs(files.format):
            fields = {name: replace(field, signs=signs) for name, field in self.engine.fields.items()}
            yield signs, self._tally(Query(self.engine.dialect, self.engine.table, fields, tuple(how)), how).columns

    def tally(self, how: Sequence[Coding], unit: PrivacyUnit | None, domain: Domain) -> _Tally:
        query = self._query(how, unit, domain)
        result = self._tally(query, how)
        if unit is not None:
            people, over, more = self._row(query.people())
            result.people = people, over, more
        return result

    def _tally(self, query: Query, how: Sequence[Coding]) -> _Tally:
        rows, countable, *numbers, ids, impossible = self._row(query.tally())
        triples = [(numbers[3 * k], numbers[3 * k + 1], numbers[3 * k + 2]) for k in range(len(how))]
        columns = {c.attribute.name: t for c, t in zip(how, triples, strict=True)}
        return _Tally(rows, countable, columns, ids, impossible=impossible)

    def _row(self, sql: str) -> list[int]:
        parts = list(self.engine.run(sql))
        return [int(np.concatenate(column)[0]) for column in zip(*parts, strict=True)]


class _Columns(_Held):
    def __init__(self, columns: Mapping[str, Any]) -> None:
        self.columns, self.names = columns, list(columns)

    def refuse(self, how: Sequence[Coding], unit: PrivacyUnit | None) -> None:
        check_columns(how, unit, self.columns)
        if unit is not None:
            id_texts(as_column(self.columns[unit.id], unit.id), unit.id)

    def tally(self, how: Sequence[Coding], unit: PrivacyUnit | None, domain: Domain) -> _Tally:
        result = _Tally()
        keep: Any = None
        columns: list[IntArray] = []
        lengths: dict[str, int] = {}
        coded = []
        for coding in how:
            name = coding.attribute.name
            result.columns[name], codes = diagnosed(coding, as_column(self.columns[coding.column], coding.column))
            lengths[coding.column] = len(codes)
            columns.append(codes)
            _check_lengths(lengths)
            keep = codes >= 0 if keep is None else keep & (codes >= 0)
            coded.append(codes)
        if domain.together:
            impossible = impossible_rows(domain, coded)
            result.impossible = int(np.count_nonzero(impossible))
            keep = keep & ~impossible if domain.restrictions.leaves_out else keep
        if unit is not None:
            ids = id_texts(as_column(self.columns[unit.id], unit.id), unit.id)
            lengths[unit.id] = len(ids)
            _check_lengths(lengths)
            there = np.array([text is not None for text in ids], dtype=bool)
            result.ids_missing = int(np.count_nonzero(~there))
            keep = there if keep is None else keep & there
            person, grouped = numbered_people(ids[keep]), [columns[k][keep] for k in unit.groups(how)]
            more = left_out(person, grouped, unit.max_rows)
            result.people = int(person.max(initial=-1)) + 1, int(np.count_nonzero(more)), int(more.sum())
        result.rows, result.countable = (
            next(iter(lengths.values()), 0),
            0 if keep is None else int(np.count_nonzero(keep)),
        )
        return result


class _LengthError(LeastnoiseError):
    """Columns in memory differ in length."""


def _check_lengths(lengths: Mapping[str, int]) -> None:
    (first, *_), (*_, last) = lengths, lengths
    if lengths[first] != lengths[last]:
        raise _LengthError(f"the columns {first!r} and {last!r} differ in length; fill the shorter one")


def _checked(
    data: _Held, how: Sequence[Coding], unit: PrivacyUnit | None, rules: Mapping[str, Rules], domain: Domain
) -> Check:
    broken = {coding.attribute.name: _refusal(data, coding.column, [coding], None) for coding in how}
    no_ids = None if unit is None else _refusal(data, unit.id, [], unit)
    whole = [coding for coding in how if broken[coding.attribute.name] is None]
    counted_by = unit if no_ids is None else None
    problems: list[str] = []
    try:
        tally = data.tally(whole, counted_by, domain if len(whole) == len(how) else NO_DOMAIN)
    except (_LengthError, BrokenRowsError) as error:  # then there are no rows
        tally, whole, counted_by = _Tally(), [], None
        problems += data.lines() or [str(error)]
    unsettled = [c for c in whole if _unsettled(rules[c.attribute.name], tally.columns[c.attribute.name])]
    signs = _signs(data, rules, [c for c in unsettled if c.clampable])
    columns: dict[str, ColumnCheck] = {}
    for coding in how:
        name = coding.attribute.name
        columns[name], results = _column(coding, rules[name], tally.columns.get(name), broken[name], data.names)
        if name in signs:
            columns[name].fixes.append(f"file: {{{signs[name]}}}")
        problems += results
        if isinstance(coding.values, Timed) and any(coding is one for one in unsettled):
            problems += _format_hint(coding, tally.columns[name], tally.rows)
    people = None
    if unit is not None:
        people, results = _unit(unit, tally if counted_by is not None else None, no_ids, data.names)
        problems += results
    complete = len(whole) == len(how) and counted_by is unit
    cells = _impossible(domain, tally.impossible if len(whole) == len(how) else None)
    problems += (
        [f"{_many(cells.rows or 0, 'row')} are in impossible cells"] if cells is not None and cells.stops else []
    )
    counted = tally.countable - tally.people[2] if complete else 0
    return Check(tally.rows, counted, columns, people, problems, impossible=cells)


def _impossible(domain: Domain, rows: int | None) -> ImpossibleCheck | None:
    rule = domain.restrictions
    if not rule.impossible:
        return None
    stops = rule.rows == "error" and rows != 0
    fixes = ["rows: drop", "rows: keep"] if stops and rows else []
    return ImpossibleCheck(rows, [cells.text for cells in rule.impossible], {"rows": rule.rows}, stops, fixes)


def _refusal(data: _Held, column: str, how: Sequence[Coding], unit: PrivacyUnit | None) -> str | None:
    """Why a column can never be counted; a fix for a name that is spelt otherwise."""
    try:
        data.refuse(how, unit)
    except LeastnoiseError as error:
        return str(error)
    return None


def _column(
    coding: Coding, rules: Rules, numbers: tuple[int, int, int] | None, refusal: str | None, names: Sequence[str]
) -> tuple[ColumnCheck, list[str]]:
    rule = {"outside": rules.outside, "missing": rules.missing}
    if numbers is None:
        fixes = _other_names(coding.column, names)
        return ColumnCheck(coding.column, None, None, rule, True, fixes), [] if refusal is None else [refusal]
    missing, outside, unclamped = numbers
    unsettled = _unsettled(rules, numbers)
    problems, fixes = [], []
    name, column = coding.attribute.name, coding.column
    if unsettled:
        fixes += ["outside: drop", *(["outside: clamp"] if coding.clampable and not unclamped else [])]
        fixes += ["outside: other"] if coding.code(OTHER) >= 0 else []
        problems.append(f"the column {column!r} holds {_many(unsettled, 'value')} outside the domain of {name!r}")
    if missing and rules.missing == "error":
        fixes += ["missing: drop", *(["missing: other"] if coding.code(OTHER) >= 0 else [])]
        problems.append(f"the column {column!r} lacks {_many(missing, 'value')}")
    return ColumnCheck(column, missing, outside, rule, bool(problems), fixes), problems


def _format_hint(coding: Coding, numbers: tuple[int, int, int], rows: int) -> list[str]:
    """What to try where no text is a date as they are read: dropping them all would leave nothing to count."""
    missing, outside, _ = numbers
    if not outside or missing + outside < rows:
        return []
    read = "as 2015-01-31" if coding.reading.format is None else f"as {coding.reading.format!r}"
    return [f'no value of the column {coding.column!r} is written {read}; say how they are, as in format: "%d.%m.%Y"']


def _signs(data: _Held, rules: Mapping[str, Rules], how: Sequence[Coding]) -> dict[str, Signs]:
    """By attribute the first signs with which all numbers of its column are read."""
    found: dict[str, Signs] = {}
    for signs, columns in data.with_signs(how):
        found |= {n: signs for n, counts in columns.items() if n not in found and not _unsettled(rules[n], counts)}
        if len(found) == len(how):
            break
    return found


def _unsettled(rules: Rules, numbers: tuple[int, int, int]) -> int:
    """How many values outside stop a release."""
    _, outside, unclamped = numbers
    return {"error": outside, "clamp": unclamped}.get(str(rules.outside), 0)


def _unit(
    unit: PrivacyUnit, tally: _Tally | None, refusal: str | None, names: Sequence[str]
) -> tuple[UnitCheck, list[str]]:
    rule = {"missing": unit.missing}
    if tally is None:
        fixes = _other_names(unit.id, names, "id")
        groups = tuple(unit.one_per)
        unit_check = UnitCheck(unit.id, None, unit.max_rows, None, None, None, rule, True, fixes, groups)
        return unit_check, [] if refusal is None else [refusal]
    stops = bool(tally.ids_missing) and unit.missing == "error"
    fixes = ["missing: drop"] if stops else []
    problems = [f"the column {unit.id!r} lacks {_many(tally.ids_missing, 'id')}"] if stops else []
    numbers = tally.ids_missing, unit.max_rows, *tally.people
    return UnitCheck(unit.id, *numbers, rule, stops, fixes, tuple(unit.one_per)), problems


def _files(engine: Engine | None) -> Files | None:
    return getattr(engine, "files", None)


def _stated(engine: Engine | None) -> dict[str, Any] | None:
    """How files are read, for whoever has them: with the names of columns that were named by position."""
    if (files := _files(engine)) is None:
        return None
    return files.to_json() | {
        "named_by_position": {k: files.names[k - 1] for k in files.by_position},
        "read": str(files),
    }


def _other_names(column: str, names: Sequence[str], key: str = "column") -> list[str]:
    """Columns that are named alike, where this one is missing."""
    if column in names:
        return []
    alike = {str(name).lower(): str(name) for name in names}
    return [f"{key}: {alike[close]}" for close in difflib.get_close_matches(column.lower(), alike, n=1)]


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def _lines(result: Check) -> list[str]:
    head = ("attribute", "column", "missing", "outside", "rules", "a release")
    table = [head, *(_cells(name, column) for name, column in result.columns.items())]
    lines = [
        NOTICE,
        *_read_as(result.file),
        f"{_many(result.rows, 'row')}, {result.counted:,} counted",
        "",
        *_aligned(table),
    ]
    if result.unit is not None:
        lines += ["", *_unit_lines(result.unit)]
    if result.impossible is not None:
        lines += ["", _impossible_line(result.impossible)]
    lines += ["", *(f"- {problem}" for problem in result.problems)] if result.problems else []
    return [*lines, "", "a release would run" if result.ok else "a release would stop"]


def _read_as(file: Mapping[str, Any] | None) -> list[str]:
    if file is None:
        return []
    named = [f"column {place} is called {name!r}" for place, name in file["named_by_position"].items()]
    return [file["read"], *named]


def _cells(name: str, column: ColumnCheck) -> tuple[str, ...]:
    numbers = ("-" if number is None else f"{number:,}" for number in (column.missing, column.outside))
    rules = ", ".join(f"{key}: {value}" for key, value in column.rule.items())
    return name, column.column, *numbers, rules, _verdict(column)


def _impossible_line(cells: ImpossibleCheck) -> str:
    rows = "-" if cells.rows is None else f"{cells.rows:,}"
    return f"rows in impossible cells: {rows} (rows: {cells.rule['rows']}): {_verdict(cells)}"


def _verdict(part: ColumnCheck | UnitCheck | ImpossibleCheck) -> str:
    if not part.stops:
        return "runs"
    return f"stops; settled by {' or '.join(part.fixes)}" if part.fixes else "stops"


def _unit_lines(unit: UnitCheck) -> list[str]:
    if unit.people is None or unit.over is None or unit.left_out is None or unit.missing is None:
        return [f"people by {unit.column!r}: {_verdict(unit)}"]
    return [
        f"people by {unit.column!r} with rows that can be counted: {unit.people:,}",
        f"people with more than {_many(unit.max_rows, 'row')}{_or_in_a_group(unit)}: {unit.over:,}; "
        "rows of theirs that are left out: "
        f"{unit.left_out:,}",
        f"ids missing: {unit.missing:,} (missing: {unit.rule['missing']}): {_verdict(unit)}",
    ]


def _or_in_a_group(unit: UnitCheck) -> str:
    return f", or more than one for the same {' and '.join(unit.one_per)}" if unit.one_per else ""


def _aligned(table: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    right = (False, False, True, True, False, False)
    return [
        "  ".join(cell.rjust(w) if r else cell.ljust(w) for cell, w, r in zip(row, widths, right, strict=True)).rstrip()
        for row in table
    ]
