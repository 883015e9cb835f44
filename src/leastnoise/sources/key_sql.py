"""Keys and their people as SQL: which of a person's keys are counted, and how many people each key has."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from leastnoise.errors import DataError
from leastnoise.sources.engine import Embedded
from leastnoise.sources.kinds import Kind, check_id
from leastnoise.sources.sql import TEXTS, Expression, Query
from leastnoise.sources.sql_lookup import any_row, as_text, case, integer, named, plain_select, quoted

KEY, PERSON, RANK, COUNT = "key", "person", "rank", "n"
ROWS, KEPT, COMMON = "leastnoise_rows", "leastnoise_kept", "leastnoise_common"
_MOST_PARTS = 256  # passes over the rows
_ROW_BYTES = 300  # that a pair needs while it is sorted


def check_key(column: str, kind: Kind) -> None:
    """Refuse a column that holds no keys; its type is no secret."""
    if kind not in ("integer", "text", "date", "written", "nothing"):
        raise DataError(f"the column {column!r} holds no keys; keys are texts, whole numbers or dates, cast it")


@dataclass(frozen=True)
class KeyQuery(Query):
    """The keys of one column; of each person at most so many different ones are counted.

    Those with the smallest digests are: they are drawn at random by the secret of the unit, and depend on nobody else.
    In DuckDB that is done once, in temporary tables.

    Guarantees: engines_find_alike; nobody_has_more_keys; names_cannot_inject.
    """

    most: int = 1

    def __post_init__(self) -> None:
        check_key(self.codings[0].column, self._field(self.codings[0].column).kind)
        if self.unit is not None:
            check_id(self.unit.id, self._field(self.unit.id).kind)

    def problems(self) -> str:
        """Whether keys are missing, and whether ids are."""
        ids: Expression = quoted(PERSON).is_(exp.null()) if self.unit is not None else exp.false()
        queries = [named(any_row(each), f"g{k}") for k, each in enumerate((self._absent(), ids))]
        return self._sql(plain_select(queries).from_(self._read([0]), copy=False))

    def keys(self, least: int) -> str:
        """Keys of at least so many people, in their order, with the number of people."""
        number = exp.Count(this=exp.Star())
        query = plain_select([quoted(KEY), named(number, COUNT)]).from_(self._counted(), copy=False)
        query = query.group_by(quoted(KEY), copy=False).having(number.copy() >= integer(least), copy=False)
        return self._sql(query.order_by(quoted(KEY), copy=False))

    def pairs(self) -> str:
        """The number of pairs that are counted."""
        return self._sql(plain_select([named(exp.Count(this=exp.Star()), COUNT)]).from_(self._counted(), copy=False))

    def _counted(self) -> Expression:
        """A row for each pair of a person and a key that is counted; without a unit each row is a person."""
        if self.unit is None:
            return self._present().subquery("counted", copy=False)
        pairs = self._present(distinct=True).subquery("pairs", copy=False)
        return self._few(plain_select([quoted(KEY), quoted(PERSON)]).from_(pairs, copy=False))

    def _few(self, pairs: exp.Select) -> Expression:
        """Of each person so many pairs as are counted."""
        assert self.unit is not None, "only people have too many"
        key, colon = exp.Literal.string(f"{self.unit.key}:"), exp.Literal.string(":")
        parts: list[Expression] = [key, quoted(PERSON), colon, as_text(quoted(KEY))]
        rank = exp.Window(
            this=exp.RowNumber(),
            partition_by=[quoted(PERSON)],
            order=exp.Order(expressions=[exp.Ordered(this=self._hashed(parts), nulls_first=False)]),
        )
        ranked = pairs.select(named(rank, RANK), copy=False).subquery("ranked", copy=False)
        kept = plain_select([quoted(KEY)]).from_(ranked, copy=False)
        return kept.where(quoted(RANK) <= integer(self.most), copy=False).subquery("kept", copy=False)

    def _present(self, distinct: bool = False) -> exp.Select:
        """Keys of all rows that have one and an id, and whose they are."""
        kind = self._field(self.codings[0].column).kind
        columns: list[Expression] = [named(quoted("t0" if kind in TEXTS else "x0"), KEY)]
        columns += [quoted(PERSON)] if self.unit is not None else []
        there = case(self._absent(), integer(0), integer(1)).eq(integer(1))
        rows = plain_select(columns).from_(self._read([0]), copy=False).where(there, copy=False)
        if self.unit is not None:
            rows = rows.where(quoted(PERSON).is_(exp.null()).not_(), copy=False)
        return rows.distinct(copy=False) if distinct else rows

    def _absent(self) -> Expression:
        conditions = self._missing(0, self.codings[0], self._field(self.codings[0].column).kind)
        return exp.or_(*conditions)

    def staged(self, database: Embedded) -> StagedKeys:
        """The same from temporary tables, which are made in parts that fit the memory."""
        database.store(ROWS, self._sql(self._present()))
        ((rows,),) = next(database.run(f"SELECT COUNT(*) FROM {ROWS}"))
        parts = min(1 + int(rows) * _ROW_BYTES // database.most_bytes, _MOST_PARTS)
        query = StagedKeys(self.dialect, self.table, self.fields, self.codings, self.unit, most=self.most, parts=parts)
        database.store(KEPT, f"SELECT key FROM {ROWS} LIMIT 0")
        for part in range(parts):
            database.insert(KEPT, query.kept(part))
        database.forget(ROWS)
        return query


@dataclass(frozen=True)
class StagedKeys(KeyQuery):
    """Keys of pairs that are counted, in a temporary table of DuckDB; only people who have too many are hashed.

    Sorts and aggregates over all rows would need more memory than there may be, so people and keys come in parts.
    """

    parts: int = 1

    def kept(self, part: int) -> str:
        """Keys that are counted of some of the people."""
        pairs = f"SELECT DISTINCT key, person FROM {ROWS} WHERE hash(person) % {self.parts} = {part}"
        busy = f"SELECT person FROM pairs GROUP BY person HAVING COUNT(*) > {self.most}"
        few = self._few(exp.select("key", "person").from_("pairs").join("busy", using=["person"]))
        rest = exp.select("key").from_("pairs").join("busy", using=["person"], join_type="anti")
        both = exp.union(exp.select("key").from_(few), rest, distinct=False).sql(dialect=self.dialect)
        return f"WITH pairs AS MATERIALIZED ({pairs}), busy AS MATERIALIZED ({busy}) {both}"

    def common(self, least: int, part: int) -> str:
        """Some of the keys that have at least so many people, with the number of people."""
        keys = f"SELECT key, COUNT(*) AS n FROM {KEPT} WHERE hash(key) % {self.parts} = {part}"
        return f"{keys} GROUP BY key HAVING COUNT(*) >= {least}"

    def found(self, database: Embedded, least: int) -> str:
        """The table of all of them, and the query that reads it."""
        database.store(COMMON, f"SELECT key, CAST(0 AS BIGINT) AS n FROM {KEPT} LIMIT 0")
        for part in range(self.parts):
            database.insert(COMMON, self.common(least, part))
        return f"SELECT key, n FROM {COMMON} ORDER BY key"

    def _counted(self) -> Expression:
        return exp.table_(KEPT)
