"""Codes, rules, people and counts as SQL, written by SQLGlot: names and texts are always quoted.

Every expression here has a twin in memory (`columns`, `contribution_bounding`), and tests hold them against each other.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import ErrorLevel, exp

from leastnoise.domain.attributes import Amount, Bins, Scalar, Timed, Values
from leastnoise.errors import LeastnoiseError
from leastnoise.sources.bounding_sql import COUNT, KEPT, PERSON, bounded, each_person
from leastnoise.sources.kinds import TIMES, Kind, check_id, check_kind, missing_column, texts, truth
from leastnoise.sources.number_signs import Signs, plain_number
from leastnoise.sources.rules import PrivacyUnit
from leastnoise.sources.side_counts import several_drop, touching
from leastnoise.sources.source import Axes
from leastnoise.sources.sql_amounts import sums_of, units_of
from leastnoise.sources.sql_impossible import ImpossibleCells
from leastnoise.sources.sql_lookup import (
    MOST_BRANCHES,
    MOST_CASES,
    aliased,
    any_row,
    as_text,
    bin_of,
    case,
    cast_to,
    clamped_to_ends,
    double,
    integer,
    named,
    number_literal,
    offset_of,
    one_of,
    plain_select,
    quoted,
)
from leastnoise.sources.sql_reading import PARTS, cleaned, date_parts, number_of_parts, number_of_time, period_of
from leastnoise.workload.rules import DROPPED, MISSING, OUTSIDE, Coding

Expression = Any  # the types within SQLGlot change between its versions
_NUMBER = r"^\s*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$"
TEXTS = ("text", "date", "written", "nothing")
_NUMBERS = ("integer", "float", "decimal", "written")
_BYTEWISE = {"duckdb": ("binary", True), "postgres": ("C", True), "spark": ("UTF8_BINARY", False)}  # name, quoted
_PERSON = PERSON


@dataclass(frozen=True)
class Field:
    """A column as the engine knows it."""

    identifier: str
    kind: Kind
    signs: Signs = field(default_factory=Signs)  # of written numbers

    def number(self, raw: "Expression") -> "Expression":
        """What a number is read from."""
        return plain_number(raw, self.signs)


@dataclass(frozen=True)
class Query:
    """What is counted, and where: makes the SQL that an engine runs.

    Guarantees: engines_code_alike; names_cannot_inject.
    """

    dialect: str
    table: exp.Table
    fields: Mapping[str, Field]
    codings: tuple[Coding, ...]
    unit: PrivacyUnit | None = None
    mapping: Callable[[Sequence[Scalar], Sequence[int]], exp.Table] | None = None  # makes a table to join
    impossible: ImpossibleCells = field(default_factory=ImpossibleCells)
    _maps: dict[str, Expression] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for coding in self.codings:
            check_kind(coding, self._field(coding.column).kind)
            if isinstance(coding.values, Bins) and coding.values.size > MOST_BRANCHES:
                raise LeastnoiseError(
                    f"{coding.attribute.name!r} has {coding.values.size:,} bins, more than {MOST_BRANCHES:,} in a "
                    "database; use fewer, or count in memory"
                )
        if self.unit is not None:
            check_id(self.unit.id, self._field(self.unit.id).kind)

    def unstaged(self) -> "Query":
        """The same from the rows of the table itself, with the tables of values that were made before."""
        query = Query(self.dialect, self.table, self.fields, self.codings, self.unit, self.mapping, self.impossible)
        query._maps.update(self._maps)
        return query

    def problems(self) -> str:
        """Rows; per attribute whether values are outside or missing; whether ids are; rows in impossible cells."""
        queries: list[Expression] = [exp.Count(this=exp.Star())]
        for k in range(len(self.codings)):
            queries += [any_row(quoted(_code(k)).eq(integer(flag))) for flag in (OUTSIDE, MISSING)]
        queries.append(any_row(quoted(_PERSON).is_(exp.null())) if self.unit is not None else integer(0))
        queries.append(any_row(self.impossible.holds()) if self.impossible else integer(0))
        return self._sql(_select(queries).from_(self._coded(range(len(self.codings))), copy=False))

    def tally(self) -> str:
        """Rows, those to count; by attribute missing, outside, so if clamped; missing ids; rows in impossible cells."""
        queries: list[Expression] = [exp.Count(this=exp.Star()), _how_many(self._countable())]
        for k in range(len(self.codings)):
            columns = (("u", MISSING), ("u", OUTSIDE), ("v", OUTSIDE))
            queries += [_how_many(quoted(f"{letter}{k}").eq(integer(flag))) for letter, flag in columns]
        queries.append(_how_many(quoted(_PERSON).is_(exp.null())) if self.unit is not None else integer(0))
        queries.append(_how_many(self.impossible.holds()) if self.impossible else integer(0))
        return self._sql(_select(queries).from_(self._diagnosed(), copy=False))

    def people(self) -> str:
        """Number of people with rows that can be counted, of those with too many rows, and of the rows too many."""
        more = exp.Sum(this=quoted(COUNT) - quoted(KEPT))
        queries = [_how_many(quoted(COUNT) > integer(0)), _how_many(quoted(COUNT) > quoted(KEPT))]
        queries.append(exp.func("COALESCE", cast_to(more, "bigint"), integer(0)))
        return self._sql(_select(queries).from_(self._each_person([]), copy=False))

    def touched(self) -> str:
        """Rows that each rule touches, and that several drop; with a unit, people with such rows, or too many."""
        touches: list[Expression] = [quoted(f"u{k}").eq(integer(flag)) for k, flag in touching(self.codings)]
        touches += [self.impossible.holds()] if self.impossible.rule.touches else []
        if several_drop(self.codings, self.impossible.rule):
            dropped: list[Expression] = [
                quoted(_code(k)).eq(integer(DROPPED)) for k, c in enumerate(self.codings) if c.drops
            ]
            dropped += [self.impossible.holds()] if self.impossible.rule.drops else []
            touches.append(exp.or_(*dropped))
        if self.unit is None:
            return self._sql(_select([_how_many(each) for each in touches]).from_(self._diagnosed(), copy=False))
        queries = [_how_many(quoted(f"f{k}").eq(integer(1))) for k in range(len(touches))]
        queries.append(_how_many(quoted(COUNT) > quoted(KEPT)))
        return self._sql(_select(queries).from_(self._each_person(touches), copy=False))

    def _each_person(self, flags: Sequence[Expression]) -> exp.Subquery:
        """Whom each flag holds for, with the rows that can be counted and those that are."""
        assert self.unit is not None, "people are told apart by a unit"
        groups = [_code(k) for k in self.groups]
        return each_person(self._diagnosed(), self._countable(), flags, groups, self.unit.max_rows)

    @property
    def groups(self) -> tuple[int, ...]:
        """Attributes of which a person has at most one row for each combination of values."""
        return () if self.unit is None else self.unit.groups(self.codings)

    def _diagnosed(self) -> exp.Subquery:
        """Rows as codes by the rules, without any, and clamped where that is possible."""
        columns: list[Expression] = []
        for k, coding in enumerate(self.codings):
            variants = {"c": coding, "u": coding.without_rules, "v": coding.clamped}
            columns += [named(self._code_of(k, variant), f"{letter}{k}") for letter, variant in variants.items()]
        columns += [quoted(_PERSON)] if self.unit is not None else []
        rows = plain_select(columns or [exp.Star()]).from_(self._read(range(len(self.codings))), copy=False)
        return rows.subquery("diagnosed", copy=False)

    def _countable(self) -> Expression:
        """Whether a row has all codes, and an id where it needs one."""
        needed: list[Expression] = [quoted(_code(k)) >= integer(0) for k in range(len(self.codings))]
        needed += [quoted(_PERSON).is_(exp.null()).not_()] if self.unit is not None else []
        needed += [self.impossible.holds().not_()] if self.impossible.rule.leaves_out else []
        return exp.and_(*needed) if needed else exp.true()

    def distinct(self) -> str:
        """Every combination of codes that occurs, and how often."""
        codes = [quoted(_code(k)) for k in range(len(self.codings))]
        return self._sql(
            _select([*codes, exp.Count(this=exp.Star())])
            .from_(self._kept(range(len(codes))), copy=False)
            .group_by(*codes, copy=False)
        )

    def rows(self, items: Sequence[int]) -> str:
        """Codes of every row that is counted."""
        return self._sql(_select([quoted(_code(k)) for k in items]).from_(self._kept(items), copy=False))

    def tables(self, sets: Sequence[Axes], people: bool = False, products: Sequence[Axes] = ((),)) -> str:
        """Several tables at once: codes, -1 for attributes outside of a table, and counts, of distinct people if asked
        for; then of each product of amounts that is not empty the sums of its lower and its upper part.
        """
        used, amounts = (sorted({k for axes in some for k in axes}) for some in (sets, products))
        codes = [exp.func("COALESCE", quoted(_code(k)), integer(-1)) for k in used]
        counted: Expression = exp.Distinct(expressions=[quoted(_PERSON)]) if people else exp.Star()
        sums = [total for some in products if some for total in sums_of([quoted(_code(k)) for k in some])]
        kept = self._kept([*used, *amounts], people)
        query = _select([*codes, exp.Count(this=counted), *sums]).from_(kept, copy=False)
        tuples = [exp.Tuple(expressions=[quoted(_code(k)) for k in axes]) for axes in sets]
        query.set("group", exp.Group(grouping_sets=[exp.GroupingSets(expressions=tuples)]))
        return self._sql(query)

    def _read(self, items: Iterable[int]) -> exp.Subquery:
        """Columns as they are, and as the text or the number that codes are found by."""
        columns: list[Expression] = []
        computed: list[Expression] = []
        for k in items:
            place = self._field(self.codings[k].column)
            raw = quoted(place.identifier)
            forms = {"r": raw, **self._forms(self.codings[k], place, raw)}
            columns += [named(form.copy(), f"{letter}{k}") for letter, form in forms.items()]
            computed += self._computed(k, forms)
        if self.unit is not None:
            columns.append(named(self._person(self.unit), _PERSON))
        rows = plain_select(columns or [named(integer(0), "nothing")]).from_(self.table.copy(), copy=False)
        joins = {name: self._map(k, name[0]) for k in items for name in self._joined(k)}
        if computed or joins:
            names = [quoted(column.alias) for column in columns]
            if computed and self.dialect == "postgres":  # which would write out parts of texts wherever they are used
                rows = rows.offset(0, copy=False)
            computed += [named(exp.column("code", table=f"m{name}", quoted=True), f"j{name}") for name in joins]
            rows = plain_select([*names, *computed]).from_(rows.subquery("parts", copy=False), copy=False)
        for name, table in joins.items():
            same = exp.column(name, table="parts", quoted=True).eq(exp.column("key", table=f"m{name}", quoted=True))
            rows = rows.join(aliased(table, f"m{name}"), on=same, join_type="left", copy=False)
        return rows.subquery("read", copy=False)

    def _joined(self, k: int) -> list[str]:
        """Forms of a column whose values are too many to be compared with one by one, and are looked up in a table."""
        coding, kind = self.codings[k], self._field(self.codings[k].column).kind
        if self.mapping is None or kind == "boolean" or len(coding.written) <= MOST_CASES[self.dialect]:
            return []
        return [f"t{k}"] * (kind in TEXTS) + [f"x{k}"] * (kind in _NUMBERS)

    def _map(self, k: int, form: str) -> Expression:
        """A table of values and codes: in the query, or, if it is long, in the database, made once."""
        if f"{form}{k}" not in self._maps:
            assert self.mapping is not None
            coding, whole = self.codings[k], self._field(self.codings[k].column).kind == "integer"
            texts_of = [(text, code) for text, code in texts(coding) if _writable(text)]
            numbers = [(int(n) if whole else float(n), code) for n, _, code in _numbers(coding, whole)]
            # Each key once, or a join would count rows twice: values may be the same when trimmed and folded.
            pairs: dict[Scalar, int] = dict(texts_of) if form == "t" else dict(numbers)
            short = 0 < len(pairs) <= MOST_BRANCHES
            self._maps[f"{form}{k}"] = self._list(pairs) if short else self.mapping([*pairs], [*pairs.values()])
        return self._maps[f"{form}{k}"]

    def _list(self, pairs: Mapping[Scalar, int]) -> Expression:
        rows = [
            [self._literal(key) if isinstance(key, str) else number_literal(key), integer(c)]
            for key, c in pairs.items()
        ]
        return exp.Values(expressions=[exp.Tuple(expressions=row) for row in rows])

    def _person(self, unit: PrivacyUnit) -> Expression:
        """Numbers stay numbers, which are smaller than their texts, and different where those are."""
        place = self._field(unit.id)
        raw = quoted(place.identifier)
        return raw if place.kind == "integer" else self._text(raw, place.kind)

    def _computed(self, k: int, forms: Mapping[str, Expression]) -> list[Expression]:
        """What follows from the forms of a column."""
        values = self.codings[k].values
        parts = {name: quoted(f"{name}{k}") for name in PARTS.values() if name in forms}
        if not isinstance(values, Timed) or not parts:
            return []
        return [named(number_of_parts(self.dialect, values, parts), f"x{k}")]

    def _coded(self, items: Sequence[int]) -> Expression:
        """Rows as codes."""
        columns: list[Expression] = [named(self._code_of(k, self.codings[k]), _code(k)) for k in items]
        if self.unit is not None:
            columns.append(quoted(_PERSON))
        rows = plain_select(columns or [exp.Star()]).from_(self._read(items), copy=False)
        return rows.subquery("coded", copy=False)

    def _kept(self, items: Iterable[int], people: bool = False) -> Expression:
        """Rows as codes, without those that are dropped and those that a person has too many of."""
        everything = range(len(self.codings))
        every = self.unit is not None or self.impossible.rule.drops
        needed = [k for k in everything if every or k in items or self.codings[k].drops]
        columns: list[Expression] = [quoted(_code(k)) for k in needed]
        rows = plain_select(columns or [exp.Star()]).from_(self._coded(needed), copy=False)
        for k in needed:
            if self.codings[k].drops:
                rows = rows.where(quoted(_code(k)) >= integer(0), copy=False)
        if self.impossible.rule.drops:
            rows = rows.where(self.impossible.holds().not_(), copy=False)
        if self.unit is None:
            return rows.subquery("kept", copy=False)
        rows = rows.where(quoted(_PERSON).is_(exp.null()).not_(), copy=False)
        names = [*map(_code, needed), *([_PERSON] if people else [])]
        if people:
            rows = rows.select(quoted(_PERSON), copy=False)
        groups = [_code(k) for k in self.groups]
        return bounded(rows, names, self._digest(self.unit), groups, self.unit.max_rows)

    def _digest(self, unit: PrivacyUnit) -> Expression:
        parts: list[Expression] = [exp.Literal.string(f"{unit.key}:"), as_text(quoted(_PERSON))]
        for k in range(len(self.codings)):
            parts += [exp.Literal.string("," if k else ":"), as_text(quoted(_code(k)))]
        return self._hashed(parts)

    def _hashed(self, parts: Sequence[Expression]) -> Expression:
        text: Expression = exp.Anonymous(this="CONCAT", expressions=parts)  # a chain of || takes DuckDB twice as long
        if self.dialect == "spark":
            return exp.Anonymous(this="SHA2", expressions=[text, integer(256)])
        if self.dialect == "postgres":
            text = exp.Anonymous(this="CONVERT_TO", expressions=[text, exp.Literal.string("UTF8")])
        return exp.Anonymous(this="SHA256", expressions=[text])

    def _forms(self, coding: Coding, field: Field, raw: Expression) -> dict[str, Expression]:
        """`t`, the text, and `x`, the number, where they are needed; of dates in texts the parts."""
        values, reading, kind, number = coding.values, coding.reading, field.kind, field.number(raw)
        text = cleaned(self.dialect, reading, self._text(raw, kind))
        if isinstance(values, Timed):
            if kind in TIMES:
                return {"x": number_of_time(self.dialect, values, reading, kind, raw)}
            return {"t": text, **date_parts(self.dialect, reading, text)}
        forms: dict[str, Expression] = {}
        if kind in TEXTS and (isinstance(values, Values) or reading.absent_texts):
            forms["t"] = text
        if not isinstance(values, Values):
            forms["x"] = _as_double(number, kind) if isinstance(values, Bins | Amount) else _as_number(number, kind)
        elif kind in _NUMBERS:
            forms["x"] = _as_number(number, kind)
        return forms

    def _code_of(self, k: int, coding: Coding) -> Expression:
        kind = self._field(coding.column).kind
        missing = exp.or_(*self._missing(k, coding, kind))
        coalesce = exp.Coalesce(this=exp.null(), expressions=[*self._ways(coding, kind, k), integer(coding.outside)])
        return cast_to(
            case(missing, integer(coding.missing), coalesce), "smallint" if coding.largest < 2**15 - 1 else "bigint"
        )

    def _missing(self, k: int, coding: Coding, kind: Kind) -> list[Expression]:
        """Conditions under which a value is missing."""
        results: list[Expression] = [quoted(f"r{k}").is_(exp.null())]
        if kind in ("float", "decimal"):
            results.append(self._is_nan(quoted(f"x{k}")))
        reading, timed = coding.reading, isinstance(coding.values, Timed)
        if reading.absent_texts and kind in TEXTS and not (timed and kind in TIMES):
            results.append(quoted(f"t{k}").isin(*map(self._literal, filter(_writable, sorted(reading.absent_texts)))))
        if reading.absent_numbers and kind in _NUMBERS and not timed:
            results.append(quoted(f"x{k}").isin(*map(number_literal, reading.absent_numbers)))
        return results

    def _ways(self, coding: Coding, kind: Kind, k: int) -> list[Expression]:
        """Ways to find the code, each of them NULL where it fails."""
        values, x = coding.values, quoted(f"x{k}")
        if isinstance(values, Timed):
            return [period_of(self.dialect, values, x), *([clamped_to_ends(x, coding)] if coding.clamp else [])]
        if isinstance(values, Values):
            if kind == "boolean":
                yes, no = (_code_or_null(truth(coding, value)) for value in (True, False))
                return [case(quoted(f"r{k}"), yes, no)]
            if joined := self._joined(k):
                return [quoted(f"j{name}") for name in joined]
            words = [(t.encode(), self._literal(t), c) for t, c in texts(coding) if _writable(t)]
            ways = [one_of(quoted(f"t{k}"), words)] if kind in TEXTS else []
            ways += [one_of(x, _numbers(coding, whole=kind == "integer"))] if kind in _NUMBERS else []
            return [way for way in ways if way is not None]
        if isinstance(values, Bins):
            ways = [bin_of(self.dialect, x, values)]
        elif isinstance(values, Amount):
            ways = [units_of(x, values)]
        else:
            ways = [offset_of(x, int(values.value(0)), values.size, whole=kind in ("integer", "boolean"))]
        return [*ways, *([clamped_to_ends(x, coding)] if coding.clamp else [])]

    def _is_nan(self, x: Expression) -> Expression:
        if self.dialect == "postgres":
            return x.eq(double("NaN"))
        # Not by comparing: DuckDB decides comparisons by the ranges that Parquet files state, which leave NaN out.
        return exp.Anonymous(this="ISNAN", expressions=[x])

    def _text(self, raw: exp.Column, kind: Kind) -> Expression:
        """As text that is compared byte by byte: a column's own collation may take different people for the same."""
        if self.dialect == "postgres" and kind == "date":  # its usual text depends on the settings of the server
            return exp.Anonymous(this="TO_CHAR", expressions=[raw, exp.Literal.string("YYYY-MM-DD")])
        return exp.Collate(this=as_text(raw), expression=exp.to_identifier(*_BYTEWISE[self.dialect]))

    def _literal(self, text: str) -> Expression:
        if self.dialect == "spark" and "$" in text:  # Spark puts variables into the text of a query
            return cast_to(exp.HexString(this=text.encode().hex()), "text")
        return exp.Literal.string(text)

    def _field(self, column: str) -> Field:
        if column not in self.fields:
            raise missing_column(column)
        return self.fields[column]

    def _sql(self, query: exp.Select) -> str:
        """The text of a query; SQLGlot would warn of what engines do alike here, as seconds since 1970 of a moment."""
        return query.sql(dialect=self.dialect, copy=False, unsupported_level=ErrorLevel.IGNORE)


def _select(columns: Sequence[Expression]) -> exp.Select:
    return plain_select([named(column, f"g{k}") for k, column in enumerate(columns)])


def _code(k: int) -> str:
    return f"c{k}"


def _how_many(condition: Expression) -> Expression:
    return exp.Count(this=case(condition, integer(1)))


def _as_number(raw: Expression, kind: Kind) -> Expression:
    if kind == "boolean":
        return case(raw, integer(1), integer(0))
    return raw if kind == "integer" else _as_double(raw, kind)


def _as_double(raw: Expression, kind: Kind) -> Expression:
    if kind == "written":
        matched = exp.Anonymous(this="REGEXP_MATCHES", expressions=[raw, exp.Literal.string(_NUMBER)])
        return exp.TryCast(this=case(matched, raw), to=exp.DataType.build("double"))
    if kind == "decimal":  # through its text, because some engines divide and round twice
        raw = as_text(raw)
    return cast_to(_as_number(raw, kind) if kind == "boolean" else raw, "double")


def _code_or_null(code: int) -> Expression:
    return integer(code) if code >= 0 else exp.null()


def _writable(text: str) -> bool:
    """Whether a text can stand in a query; no column can hold the others."""
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)


def _numbers(coding: Coding, whole: bool) -> list[tuple[float, Expression, int]]:
    """Listed numbers that a column of whole numbers, or of floats, can hold exactly."""
    results: list[tuple[float, Expression, int]] = []
    for item, code in coding.written:
        if isinstance(item, str):
            continue
        if whole and abs(item) < 2**64 and item == int(item):  # no type of whole numbers goes further
            results.append((item, integer(int(item)), code))
        elif not whole and abs(item) < 1e308 and item == float(item):
            results.append((item, double(repr(float(item))), code))
    return results
