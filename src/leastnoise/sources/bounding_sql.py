"""At most so many rows of each person, and at most one of each group, in SQL: the twin of `contribution_bounding`."""

from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from leastnoise.sources.sql_lookup import any_row, named, quoted

Expression = Any  # the types within SQLGlot change between its versions
PERSON, DIGEST, PLACE, RANK, COUNT, KEPT = "person", "digest", "place", "rank", "n", "kept"


def bounded(
    rows: exp.Select, columns: Sequence[str], digest: Expression, groups: Sequence[str], most: int
) -> exp.Subquery:
    """The rows of a person with the smallest digests: of each group the first, and of these at most so many."""
    order: Expression = digest
    if groups:
        place = _numbered([PERSON, *groups], digest.copy())
        rows = rows.select(*([] if PERSON in columns else [quoted(PERSON)]), named(digest, DIGEST), copy=False)
        first = rows.select(named(place, PLACE), copy=False).subquery("placed", copy=False)
        names = dict.fromkeys([*columns, PERSON, DIGEST])
        rows = exp.Select(expressions=[*map(quoted, names)]).from_(first, copy=False)
        rows, order = rows.where(quoted(PLACE).eq(exp.convert(1)), copy=False), quoted(DIGEST)
    ranked = rows.select(named(_numbered([PERSON], order), RANK), copy=False).subquery("ranked", copy=False)
    kept = exp.Select(expressions=[*map(quoted, columns)] or [exp.Star()]).from_(ranked, copy=False)
    return kept.where(quoted(RANK) <= exp.convert(most), copy=False).subquery("kept", copy=False)


def each_person(
    rows: exp.Subquery, countable: Expression, flags: Sequence[Expression], groups: Sequence[str], most: int
) -> exp.Subquery:
    """Per person: whether each flag holds for a row (f0, f1, ...), rows that can be counted, and those that are.

    In two steps where there are groups, as aggregates of distinct values may need more memory than there is.
    """
    numbers = [named(any_row(flag.copy()), f"f{k}") for k, flag in enumerate(flags)]
    count = exp.Count(this=exp.Case(ifs=[exp.If(this=countable.copy(), true=exp.convert(1))]))
    seen = any_row(countable.copy()) if groups else count.copy()
    columns = [quoted(PERSON), *numbers, named(count, COUNT), named(seen, KEPT)]
    people = exp.Select(expressions=columns).from_(rows, copy=False)
    people = people.where(quoted(PERSON).is_(exp.null()).not_(), copy=False)
    people = people.group_by(*map(quoted, [PERSON, *groups]), copy=False)
    if groups:
        tops = [named(exp.Max(this=quoted(f"f{k}")), f"f{k}") for k in range(len(flags))]
        sums = [named(_sum(name), name) for name in (COUNT, KEPT)]
        people = exp.Select(expressions=[*tops, *sums]).from_(people.subquery("grouped", copy=False), copy=False)
        people = people.group_by(quoted(PERSON), copy=False)
    least = exp.Case(ifs=[exp.If(this=quoted(KEPT) > exp.convert(most), true=exp.convert(most))], default=quoted(KEPT))
    names = [*(quoted(f"f{k}") for k in range(len(flags))), quoted(COUNT), named(least, KEPT)]
    bounded_people = exp.Select(expressions=names).from_(people.subquery("people", copy=False), copy=False)
    return bounded_people.subquery("each", copy=False)


def _numbered(names: Sequence[str], order: Expression) -> Expression:
    ordered = exp.Order(expressions=[exp.Ordered(this=order, nulls_first=False)])
    return exp.Window(this=exp.RowNumber(), partition_by=[*map(quoted, names)], order=ordered)


def _sum(name: str) -> Expression:
    return exp.Cast(this=exp.Sum(this=quoted(name)), to=exp.DataType.build("bigint"))
