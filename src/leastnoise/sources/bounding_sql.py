"""At most so many rows of each person, and at most one of each group, in SQL: the twin of `contribution_bounding`."""

from collections.abc import Sequence
from typing import Any

from sqlglot import exp

Expression = Any  # the types within SQLGlot change between its versions
PERSON, DIGEST, PLACE, RANK, COUNT, KEPT = "person", "digest", "place", "rank", "n", "kept"


def bounded(
    rows: exp.Select, columns: Sequence[str], digest: Expression, groups: Sequence[str], most: int
) -> exp.Subquery:
    """The rows of a person with the smallest digests: of each group the first, and of these at most so many."""
    order: Expression = digest
    if groups:
        place = _numbered([PERSON, *groups], digest.copy())
        rows = rows.select(*([] if PERSON in columns else [_column(PERSON)]), _named(digest, DIGEST), copy=False)
        first = rows.select(_named(place, PLACE), copy=False).subquery("placed", copy=False)
        names = dict.fromkeys([*columns, PERSON, DIGEST])
        rows = exp.Select(expressions=[*map(_column, names)]).from_(first, copy=False)
        rows, order = rows.where(_column(PLACE).eq(exp.convert(1)), copy=False), _column(DIGEST)
    ranked = rows.select(_named(_numbered([PERSON], order), RANK), copy=False).subquery("ranked", copy=False)
    kept = exp.Select(expressions=[*map(_column, columns)] or [exp.Star()]).from_(ranked, copy=False)
    return kept.where(_column(RANK) <= exp.convert(most), copy=False).subquery("kept", copy=False)


def each_person(
    rows: exp.Subquery, countable: Expression, flags: Sequence[Expression], groups: Sequence[str], most: int
) -> exp.Subquery:
    """Per person: whether each flag holds for a row (f0, f1, ...), rows that can be counted, and those that are.

    In two steps where there are groups, as aggregates of distinct values may need more memory than there is.
    """
    numbers = [_named(_any(flag), f"f{k}") for k, flag in enumerate(flags)]
    count = exp.Count(this=exp.Case(ifs=[exp.If(this=countable.copy(), true=exp.convert(1))]))
    seen = _any(countable) if groups else count.copy()
    columns = [_column(PERSON), *numbers, _named(count, COUNT), _named(seen, KEPT)]
    people = exp.Select(expressions=columns).from_(rows, copy=False)
    people = people.where(_column(PERSON).is_(exp.null()).not_(), copy=False)
    people = people.group_by(*map(_column, [PERSON, *groups]), copy=False)
    if groups:
        tops = [_named(exp.Max(this=_column(f"f{k}")), f"f{k}") for k in range(len(flags))]
        sums = [_named(_sum(name), name) for name in (COUNT, KEPT)]
        people = exp.Select(expressions=[*tops, *sums]).from_(people.subquery("grouped", copy=False), copy=False)
        people = people.group_by(_column(PERSON), copy=False)
    least = exp.Case(
        ifs=[exp.If(this=_column(KEPT) > exp.convert(most), true=exp.convert(most))], default=_column(KEPT)
    )
    names = [*(_column(f"f{k}") for k in range(len(flags))), _column(COUNT), _named(least, KEPT)]
    bounded_people = exp.Select(expressions=names).from_(people.subquery("people", copy=False), copy=False)
    return bounded_people.subquery("each", copy=False)


def _numbered(names: Sequence[str], order: Expression) -> Expression:
    ordered = exp.Order(expressions=[exp.Ordered(this=order, nulls_first=False)])
    return exp.Window(this=exp.RowNumber(), partition_by=[*map(_column, names)], order=ordered)


def _any(condition: Expression) -> Expression:
    case = exp.Case(ifs=[exp.If(this=condition.copy(), true=exp.convert(1))], default=exp.convert(0))
    return exp.func("COALESCE", exp.Max(this=case), exp.convert(0))


def _sum(name: str) -> Expression:
    return exp.Cast(this=exp.Sum(this=_column(name)), to=exp.DataType.build("bigint"))


def _named(expression: Expression, name: str) -> Expression:
    return exp.Alias(this=expression, alias=exp.to_identifier(name, quoted=True))


def _column(name: str) -> exp.Column:
    return exp.column(name, quoted=True)
