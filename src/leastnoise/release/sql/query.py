"""One SELECT over a release, answered with standard errors where it is linear.

In a linear query, every aggregate is a sum of counts. Each is read for all groups with its standard error, and DuckDB
runs what is left, such as ORDER BY, HAVING and arithmetic, on those numbers. Any other SELECT runs in DuckDB on the
table of the attributes that it names, from the noisy counts alone. DuckDB has no access to files or settings, and
limits of time and memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import Timer
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import sqlglot
from sqlglot import exp

from leastnoise.errors import LeastnoiseError
from leastnoise.release.asking import read_all
from leastnoise.release.queries.breakdown import Slice, breakdown
from leastnoise.release.queries.linear import Condition, LinearQuery
from leastnoise.release.queries.questions import restricted
from leastnoise.release.sql.linear import CELLS, NotLinearError, Sums, condition
from leastnoise.release.sql.names import COUNT, ERROR, Names
from leastnoise.release.statistics.differences import Count

if TYPE_CHECKING:
    import pandas as pd

    from leastnoise.release.release import Release

MOST_ROWS = 1_000_000  # of a result
MOST_CELLS = 10**7  # of a table that DuckDB reads
LONGEST = 100_000  # characters
SECONDS, MEMORY = 60.0, "2GB"
FROM_NOISY = "{} {} computed from noisy numbers, no standard error"
QUOTIENTS = "leastnoise ask has intervals for quotients: mean(age), percent(sex = 'F'), ratio(...)"
CHOSEN = "groups are chosen by noisy numbers (HAVING): others may belong here, too"
NOTES = "notes"  # of a frame, in its attrs


def sql(release: Release, query: str) -> pd.DataFrame:
    """The answer to a SELECT over the table `release`: one row per cell of the domain, its attributes and `count`.

    Where columns are linear in the counts, each is followed by its standard error; what is not says so in
    `frame.attrs["notes"]` (docs/sql.md).

    Guarantees: linear_sql_is_ask; sql_is_read_only.
    """
    tree = _parsed(query)
    names = Names.of(release.domain, release.dataset, tree)
    try:
        frame, notes = _Linear.of(release, names, tree).run()
    except NotLinearError:
        frame, notes = _from_noisy(release, names, tree)
    quotients = bool(notes) and tree.find(exp.Div) is not None
    frame.attrs[NOTES] = notes + [QUOTIENTS] * quotients
    return frame


def _parsed(query: str) -> exp.Expr:
    if not isinstance(query, str) or len(query) > LONGEST:
        raise LeastnoiseError(f"a query is text of at most {LONGEST:,} characters")
    try:
        trees = [tree for tree in sqlglot.parse(query, dialect="duckdb") if tree is not None]
    except (sqlglot.errors.SqlglotError, RecursionError) as error:
        raise LeastnoiseError(f"this is no SQL: {_first_line(error)}") from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise LeastnoiseError("only one SELECT is answered; a release is never changed")
    return trees[0]


def _first_line(error: BaseException) -> str:
    lines = str(error).replace("\x1b[4m", "").replace("\x1b[0m", "").splitlines()
    return lines[0].strip() if lines else "it nests too deeply"


# --- linear -----------------------------------------------------------------------------------------------------------


@dataclass
class _Linear:
    """A SELECT whose aggregates are sums of counts, being taken apart."""

    release: Release
    names: Names
    tree: exp.Select
    sums: Sums
    keys: list[str]
    queries: list[LinearQuery]

    @classmethod
    def of(cls, release: Release, names: Names, tree: exp.Expr) -> _Linear:
        """Refused as not linear where it is anything but one SELECT of groups and sums."""
        plain = isinstance(tree, exp.Select) and not any(
            tree.args.get(part) for part in ("joins", "with_", "with", "distinct", "qualify", "windows", "laterals")
        )
        if not isinstance(tree, exp.Select) or not plain or any(tree.find_all(exp.Subquery, exp.Window, exp.Star)):
            raise NotLinearError
        where = tree.args.get("where")
        cells = Condition(release.domain) if where is None else condition(names, where.this)
        if not any(tree.find_all(exp.AggFunc)):
            raise NotLinearError
        tree = tree.copy()
        return cls(release, names, tree, Sums(names, cells), _keys(names, tree), [])

    def run(self) -> tuple[pd.DataFrame, list[str]]:
        """The frame and its notes."""
        notes: list[str] = []
        select = exp.select(*self._projections(notes)).from_(exp.to_identifier(GROUPS))
        if (having := self.tree.args.get("having")) is not None:
            select = select.where(self._replaced(having.this))
            notes.append(CHOSEN)
        if (order := self.tree.args.get("order")) is not None:
            select.set("order", self._order(order))
        for part in ("limit", "offset"):
            select.set(part, self.tree.args.get(part))
        return _run({GROUPS: self._groups()}, select.sql(dialect="duckdb")), notes

    def _projections(self, notes: list[str]) -> Iterator[exp.Expr]:
        for projection in self.tree.expressions:
            node, name = projection.unalias(), projection.alias or self._called(projection)
            query = self.sums.linear(node)
            if query is not None:
                place = self._place(query)
                yield exp.alias_(_identifier(f"v{place}"), name, quoted=True)
                yield exp.alias_(_identifier(f"s{place}"), f"{name}_{ERROR}", quoted=True)
                continue
            if not isinstance(node, exp.Column):
                notes.append(FROM_NOISY.format(name, "is"))
            yield exp.alias_(self._replaced(node), name, quoted=True)

    def _order(self, order: exp.Expr) -> exp.Expr:
        """Numbers stand for columns as they were asked for, before standard errors came between them."""
        order = order.copy()
        for item in order.expressions:
            place = item.this
            if isinstance(place, exp.Literal) and not place.is_string:
                projections = self.tree.expressions
                k = int(place.this) - 1
                if not 0 <= k < len(projections):
                    raise LeastnoiseError(f"order by {place.this}: there are {len(projections)} columns")
                item.set("this", _identifier(projections[k].alias or self._called(projections[k])))
            elif not (isinstance(place, exp.Column) and place.name.lower() in self.names.own):
                item.set("this", self._replaced(place))
        return order

    def _replaced(self, node: exp.Expr) -> exp.Expr:
        """An expression with its sums of counts as columns."""
        query = self.sums.linear(node)
        if query is not None:
            return _identifier(f"v{self._place(query)}")
        if isinstance(node, exp.Column):
            place = self.names.axis(node)
            if place not in self.keys:
                raise NotLinearError
            return _identifier(f"k{self.keys.index(place)}")
        if isinstance(node, exp.AggFunc):
            _check_cells(self.names, node)
            raise NotLinearError
        changed = node.copy()
        for key, value in node.args.items():
            if isinstance(value, exp.Expr):
                changed.set(key, self._replaced(value))
            elif isinstance(value, list):
                changed.set(key, [self._replaced(v) if isinstance(v, exp.Expr) else v for v in value])
        return changed

    def _called(self, projection: exp.Expr) -> str:
        """The name of a column without an alias: the attribute, or what was written."""
        place = self.names.axis(projection) if isinstance(projection, exp.Column) else None
        return place or projection.sql(dialect="duckdb").lower()

    def _place(self, query: LinearQuery) -> int:
        if query not in self.queries:
            self.queries.append(query)
        return self.queries.index(query)

    def _groups(self) -> pd.DataFrame:
        """One row per group that somebody can be in: keys, sums and their standard errors."""
        import pandas as pd

        slices = [s for s in breakdown(self.release.domain, self.keys) if not self._empty(s)]
        readings = [Count(restricted(query, s.condition)) for s in slices for query in self.queries]
        read = list(read_all(self.release, readings))
        values = np.array([part.values[0] for part in read]).reshape(len(slices), len(self.queries))
        errors = np.array([np.linalg.norm(part.coordinates[0]) for part in read]).reshape(values.shape)
        columns: dict[str, Any] = {f"k{i}": [s.labels[key] for s in slices] for i, key in enumerate(self.keys)}
        for j in range(len(self.queries)):
            columns |= {f"v{j}": values[:, j], f"s{j}": errors[:, j]}
        return pd.DataFrame(columns)

    def _empty(self, one: Slice) -> bool:
        return bool(self.keys) and Condition.every(self.release.domain, [one.condition, self.sums.where]).never


GROUPS = "leastnoise_groups"


def _identifier(name: str) -> exp.Column:
    return exp.column(name, quoted=True)


def _keys(names: Names, tree: exp.Select) -> list[str]:
    """What is grouped by; columns beside the sums must be among it."""
    group = tree.args.get("group")
    keys: list[str] = []
    for node in () if group is None else group.expressions:
        if isinstance(node, exp.Literal) and not node.is_string and 0 < int(node.this) <= len(tree.expressions):
            node = tree.expressions[int(node.this) - 1].unalias()
        place = names.axis(node) if isinstance(node, exp.Column) else None
        if place is None:
            raise NotLinearError
        keys.append(place)
    if group is not None and (not group.expressions or any(v for k, v in group.args.items() if k != "expressions")):
        raise NotLinearError  # GROUP BY ALL, CUBE and others
    return keys


def _check_cells(names: Names, node: exp.AggFunc) -> None:
    """Refuse aggregates that count cells where people are meant."""
    if any(names.is_count(column) for column in node.find_all(exp.Column)):
        return
    _check_amounts(names, node)
    if isinstance(node, exp.Count):
        raise LeastnoiseError("a row of the table is a cell, not a person; write sum(count) for the number of people")
    if isinstance(node, exp.Sum | exp.Avg):
        raise LeastnoiseError(CELLS.format(node.this.sql(dialect="duckdb")))


def _check_amounts(names: Names, tree: exp.Expr) -> None:
    """Refuse what is made of amounts and is no sum of them."""
    for column in tree.find_all(exp.Column):
        if (place := names.axis(column)) in names.domain and names.domain[str(place)].amount is not None:
            raise LeastnoiseError(
                f"{place!r} is an amount, of which SQL has sum({place}), also times numbers and in CASE WHEN; "
                "ask() has means, variances and regressions"
            )


# --- anything else ----------------------------------------------------------------------------------------------------


def _all_attributes(select: exp.Expr | None, tree: exp.Expr) -> bool:
    """Whether a `*` stands for all columns of the release, and not for those of a query within the query."""
    if not isinstance(select, exp.Select):
        return False
    named = {query.alias for query in tree.find_all(exp.CTE)}
    read = [part.this for part in (select.args.get("from_"), *(select.args.get("joins") or [])) if part is not None]
    return any(isinstance(table, exp.Table) and table.name not in named for table in read)


def _from_noisy(release: Release, names: Names, tree: exp.Expr) -> tuple[pd.DataFrame, list[str]]:
    """Run a SELECT on the table of the attributes that it names."""
    _check_amounts(names, tree)
    if any(_all_attributes(star.parent, tree) for star in tree.find_all(exp.Star)):
        raise LeastnoiseError("* would be a table of all attributes; name the columns")
    for node in tree.find_all(exp.AggFunc):
        _check_cells(names, node)
    tree = tree.copy()
    used: dict[str, None] = {}
    for column in list(tree.find_all(exp.Column)):
        place = names.axis(column)
        if place is None:
            continue
        used[place] = None
        if place not in release.domain:
            column.replace(expression=_identifier(place))
    for table in tree.find_all(exp.Table):
        if table.name.lower() in names.tables and release.dataset and table.name.lower() == release.dataset.lower():
            table.set("this", exp.to_identifier("release"))
    plain = isinstance(tree, exp.Select) and all(isinstance(p.unalias(), exp.Column) for p in tree.expressions)
    notes = [] if plain else [FROM_NOISY.format("all columns", "are")]
    return _run({"release": _table(release, list(used))}, tree.sql(dialect="duckdb")), notes


def _table(release: Release, places: Sequence[str]) -> pd.DataFrame:
    """The table of some attributes and levels, with the standard error of each count."""
    attributes = [place if place in release.domain else place.rpartition(".")[0] for place in places]
    if len(set(attributes)) < len(attributes):
        raise LeastnoiseError("an attribute and its level, or two levels, in one query; use one of them")
    cells = int(np.prod([release.domain[name].size for name in attributes]))
    if cells > MOST_CELLS:
        raise LeastnoiseError(f"this needs a table of {cells:,} cells, more than {MOST_CELLS:,}; name fewer columns")
    levels = {a: place[len(a) + 1 :] for a, place in zip(attributes, places, strict=True) if place != a}
    frame = release.table(*attributes, levels=levels)
    renamed = {a: place for a, place in zip(attributes, places, strict=True) if place != a}
    return frame.rename(columns=renamed)[[*places, COUNT, ERROR]]


def _run(tables: dict[str, pd.DataFrame], text: str) -> pd.DataFrame:
    """The result of a SELECT on some frames, without any access to files or settings."""
    connection = duckdb.connect(":memory:", config={"memory_limit": MEMORY, "temp_directory": "", "threads": "2"})
    clock = Timer(SECONDS, connection.interrupt)
    clock.daemon = True
    clock.start()
    try:
        for name, frame in tables.items():
            connection.register("leastnoise_frame", frame)
            connection.execute(f'create table "{name}" as select * from leastnoise_frame')
            connection.unregister("leastnoise_frame")
        for setting in ("enable_progress_bar = false", "enable_external_access = false", "lock_configuration = true"):
            connection.execute(f"set {setting}")
        result = connection.execute(f"select * from ({text}) limit {MOST_ROWS + 1}").df()
    except duckdb.InterruptException:
        raise LeastnoiseError(f"the query took more than {SECONDS:g} s; ask for less") from None
    except duckdb.Error as error:
        raise LeastnoiseError(f"DuckDB refuses this query: {_first_line(error)}") from None
    finally:
        clock.cancel()
        connection.close()
    if len(result) > MOST_ROWS:
        raise LeastnoiseError(f"the result has more than {MOST_ROWS:,} rows; ask for fewer, or add a limit")
    return result
