"""Keys and their people as SQL: which of a person's keys are counted, and how many people each key has."""

from __future__ import annotations

from collections.abc import Sequence
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
    DuckDB and Spark compare the first 64 bits of digests. Should two keys of a person agree in them, which has odds of
    2^-64 for each such pair, engines may keep different ones: bound and privacy are the same. In DuckDB that is done
    once, in temporary tables; in Spark rows are exchanged once by person, and what is kept once by key.

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
        rows = self._present()
        if (
            self.dialect == "spark"
        ):  # which would exchange all rows for the distinct ones, and these for the ranks again
            rows.set(
                "hint", exp.Hint(expressions=[exp.Anonymous(this="REPARTITION", expressions=[exp.column(PERSON)])])
            )
        rows = plain_select([quoted(KEY), quoted(PERSON)]).from_(rows.subquery("rows", copy=False), copy=False)
        return self._few(rows, exp.DenseRank(), [quoted(KEY)])

    def _few(self, rows: exp.Select, rank: Expression, further: Sequence[Expression] = ()) -> Expression:
        """Of each person so many pairs as are counted, each once. Where rows are repeated their digests and dense ranks
        are equal; `further` orders different ones whose digests are equal, so that nobody has more pairs.
        """
        digest = self._key_digest()
        order = [exp.Ordered(this=each, nulls_first=False) for each in (digest, *further)]
        window = exp.Window(this=rank, partition_by=[quoted(PERSON)], order=exp.Order(expressions=order))
        ranked = rows.select(named(window, RANK), copy=False).subquery("ranked", copy=False)
        kept = plain_select([quoted(KEY), quoted(PERSON)]).from_(ranked, copy=False)
        kept = kept.where(quoted(RANK) <= integer(self.most), copy=False)
        return (kept.distinct(copy=False) if further else kept).subquery("kept", copy=False)

    def _key_digest(self) -> Expression:
        """What the keys of a person are ordered by: in DuckDB and Spark the first 64 bits, which take less to sort."""
        assert self.unit is not None, "only people have too many"
        key, colon = exp.Literal.string(f"{self.unit.key}:"), exp.Literal.string(":")
        digest = self._hashed([key, as_text(quoted(PERSON)), colon, as_text(quoted(KEY))])
        if self.dialect == "postgres":
            return digest
        first = exp.Anonymous(this="LEFT", expressions=[digest, integer(16)])
        if self.dialect == "spark":
            return exp.Anonymous(this="UNHEX", expressions=[first])
        number = exp.Anonymous(this="CONCAT", expressions=[exp.Literal.string("0x"), first])
        return exp.Cast(this=number, to=exp.DataType(this=exp.DataType.Type.UBIGINT))

    def _present(self) -> exp.Select:
        """Keys of all rows that have one and an id, and whose they are."""
        kind = self._field(self.codings[0].column).kind
        columns: list[Expression] = [named(quoted("t0" if kind in TEXTS else "x0"), KEY)]
        columns += [quoted(PERSON)] if self.unit is not None else []
        there = case(self._absent(), integer(0), integer(1)).eq(integer(1))
        rows = plain_select(columns).from_(self._read([0]), copy=False).where(there, copy=False)
        if self.unit is not None:
            rows = rows.where(quoted(PERSON).is_(exp.null()).not_(), copy=False)
        return rows

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
        busiest = exp.select("key", "person").from_("pairs").join("busy", using=["person"])
        few = self._few(busiest, exp.RowNumber())
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
