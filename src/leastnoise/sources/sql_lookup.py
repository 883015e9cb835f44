"""Codes looked up in SQL: among listed values, bins and whole numbers in a row."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from sqlglot import exp

from leastnoise.domain.attributes import Bins
from leastnoise.sources.columns import ends
from leastnoise.workload.rules import Coding

Expression = Any  # the types within SQLGlot change between its versions
MOST_BRANCHES = 5_000  # values of an attribute in a query; more are joined from a table
# Of these a CASE takes so many in passing; others are joined from a list in the query, or found in an array of it.
# PostgreSQL and Spark copy what is compared into every branch, and Spark compiles each: thousands took minutes.
MOST_CASES = {"duckdb": MOST_BRANCHES, "postgres": 100, "spark": 100}

# SQLGlot's builders copy what they are given, again at every level; trees of thousands of branches are built without.


def cast_to(expression: Expression, kind: str) -> Expression:
    """A value as another type."""
    return exp.Cast(this=expression, to=_type(kind).copy())


@cache
def _type(kind: str) -> exp.DataType:
    return exp.DataType.build(kind)


def case(condition: Expression, value: Expression, otherwise: Expression | None = None) -> Expression:
    """A value under a condition; another one, or NULL, otherwise."""
    return exp.Case(ifs=[exp.If(this=condition, true=value)], default=otherwise)


def _less(x: Expression, y: Expression) -> Expression:
    return exp.LT(this=x.copy(), expression=y.copy())


def integer(number: int) -> Expression:
    """A whole number."""
    return exp.convert(number)


def double(text: str) -> Expression:
    """A floating-point number, exactly as Python writes it."""
    return cast_to(exp.Literal.string(text), "double")


def number_literal(number: float) -> Expression:
    """A number of either type."""
    return integer(number) if isinstance(number, int) else double(repr(number))


def quoted(name: str) -> exp.Column:
    """A column by its name, whatever is in it."""
    return exp.column(name, quoted=True)


def named(expression: Expression, name: str) -> Expression:
    """An expression as a column of this name."""
    return exp.Alias(this=expression, alias=exp.to_identifier(name, quoted=True))


def plain_select(columns: Sequence[Expression]) -> exp.Select:
    """SELECT of some columns. SQLGlot's builders would copy them, again at every level, with thousands of branches."""
    return exp.Select(expressions=list(columns))


def any_row(condition: Expression) -> Expression:
    """1 where a condition holds for some row, else 0."""
    return exp.func("COALESCE", exp.Max(this=case(condition, integer(1), integer(0))), integer(0))


def as_text(column: Expression) -> Expression:
    """A value as text."""
    return cast_to(column, "text")


def aliased(table: Expression, name: str) -> Expression:
    """A table of values and codes, under a name."""
    if not isinstance(table, exp.Values):
        return exp.alias_(table.copy(), name, table=True, quoted=True)
    columns = [exp.to_identifier(column, quoted=True) for column in ("key", "code")]
    alias = exp.TableAlias(this=exp.to_identifier(name, quoted=True), columns=columns)
    return exp.Values(expressions=table.expressions, alias=alias)


def one_of(x: Expression, items: Sequence[tuple[object, Expression, int]]) -> Expression | None:
    """The code of a listed value, by halving the sorted list."""
    results = sorted(items, key=lambda item: item[0])  # type: ignore[return-value, arg-type]
    leaf = lambda k: case(exp.EQ(this=x.copy(), expression=results[k][1].copy()), integer(results[k][2]))  # noqa: E731
    return _search(x, [item[1] for item in results[1:]], leaf) if results else None


def bin_of(dialect: str, x: Expression, values: Bins) -> Expression:
    """The bin of a number; NULL outside."""
    edges = [double(repr(float(edge))) for edge in values.edges]
    inside = exp.and_(x.copy() >= edges[0], x.copy() <= edges[-1])
    if len(edges) > MOST_CASES[dialect]:
        return case(inside, {"postgres": _bucket, "spark": _halving}[dialect](x, edges[1:-1]))
    return case(inside, _search(x, edges[1:-1], integer))


def _bucket(x: Expression, cuts: Sequence[Expression]) -> Expression:
    """How many cuts are at most x, in PostgreSQL."""
    return exp.Anonymous(this="WIDTH_BUCKET", expressions=[x.copy(), exp.Array(expressions=list(cuts))])


def _halving(x: Expression, cuts: Sequence[Expression]) -> Expression:
    """The same in Spark: steps of halving length, over an array that is filled up to a power of two, less one."""
    steps = [1 << k for k in reversed(range(len(cuts).bit_length()))]
    array = exp.Array(expressions=[*cuts, *(double("Infinity") for _ in range(2 * steps[0] - 1 - len(cuts)))])
    at, step = exp.column("at"), exp.column("step")
    cut = exp.Anonymous(this="GET", expressions=[array, at + step - 1])
    further = exp.Add(this=at.copy(), expression=case(cut <= x.copy(), step.copy(), integer(0)))
    names = [exp.to_identifier("at"), exp.to_identifier("step")]
    merge = exp.Lambda(this=further, expressions=names)
    return exp.Anonymous(
        this="AGGREGATE", expressions=[exp.Array(expressions=[*map(integer, steps)]), integer(0), merge]
    )


def _search(x: Expression, cuts: Sequence[Expression], leaf: Callable[[int], Expression], first: int = 0) -> Expression:
    """leaf(number of cuts that are at most x), with about log2 comparisons."""
    if not cuts:
        return leaf(first)
    middle = len(cuts) // 2
    below = _search(x, cuts[:middle], leaf, first)
    above = _search(x, cuts[middle + 1 :], leaf, first + middle + 1)
    return case(_less(x, cuts[middle]), below, above)


def offset_of(x: Expression, low: int, size: int, whole: bool) -> Expression:
    """Whole numbers in a row have their distance from the first as code."""
    inside = exp.and_(x.copy() >= integer(low), x.copy() <= integer(low + size - 1))
    if not whole:
        inside = exp.and_(inside, x.copy().eq(exp.Floor(this=x.copy())))
    return case(inside, cast_to(exp.paren(x.copy() - integer(low)), "bigint"))


def clamped_to_ends(x: Expression, coding: Coding) -> Expression:
    """The first or the last code, for numbers beyond the ends."""
    low, high = ends(coding)
    first, last = coding.values.ends
    below, above = x.copy() < double(repr(low)), x.copy() > double(repr(high))
    return exp.Case().when(below, integer(first)).when(above, integer(last))
