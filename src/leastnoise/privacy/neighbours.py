"""Between which datasets privacy is promised: what changes, how, and what is known of both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeVar, get_args

import numpy as np

from leastnoise.domain.groups import checked_one_per
from leastnoise.errors import LeastnoiseError

Change = Literal["add-remove", "replace"]
Size = Literal["known", "private"]
Length = TypeVar("Length", int, Fraction)
MOST_ROWS = 1_000_000_000
_VERBS = {"add-remove": "adding or removing", "replace": "replacing"}
FIELDS = ("neighbours", "rows_per_person", "size", "exact", "one_per", "min_separation")
ALWAYS = FIELDS[:4]  # the others are said where they are used


@dataclass(frozen=True, init=False, repr=False)
class Neighbours:
    """Two datasets are neighbours if one becomes the other by one change. Rows are rows of the data, before any rule.

    What changes is one row, or with `rows_per_person` all rows of one person, of whom at most so many are counted. How:
    they are added or removed, or replaced by others. With `size` "known" the number of counted rows is the same in both
    datasets and public; with "private" it is protected, too: a row that replaces another may be dropped. `exact` names
    counts that are published exactly: only changes that keep all of them are hidden.

    With `one_per`, no two of a person's counted rows have the same values of these attributes. With `min_separation`,
    which is for streams and matrices, their items are at least so many steps apart.

    >>> print(Neighbours(), Neighbours("replace"), Neighbours("replace", 3), sep="; ")
    adding or removing one row; replacing one row, the number of rows being public; replacing one person with at most \
3 rows
    >>> print(Neighbours(rows_per_person=10, one_per=["page"]))
    adding or removing one person with at most 10 rows, at most one for each value of page
    >>> Neighbours("replace").size, Neighbours("replace", 1).size
    ('known', 'private')

    Guarantees: sensitivity_covers_every_change.
    """

    change: Change
    rows_per_person: int | None
    size: Size
    exact: str | None
    one_per: tuple[str, ...]
    min_separation: int | None

    def __init__(
        self,
        change: str = "add-remove",
        rows_per_person: int | None = None,
        size: str | None = None,
        exact: str | None = None,
        one_per: str | Sequence[str] = (),
        min_separation: int | None = None,
    ) -> None:
        how = _one_of("neighbours", change, get_args(Change))
        rows = None if rows_per_person is None else checked_rows(rows_per_person)
        each, apart = checked_one_per(one_per, rows), _checked_separation(min_separation, rows)
        if each and apart:
            raise LeastnoiseError("min_separation says more than one_per; leave one_per out")
        if exact is not None and (each or apart):
            raise LeastnoiseError("exact counts do not go with one_per or min_separation; leave one of them out")
        fixed = how == "replace" and (rows is None or exact is not None)  # only then can both have the same size
        known = ("known" if fixed else "private") if size is None else _one_of("size", size, get_args(Size))
        if known == "known" and not fixed:
            raise LeastnoiseError(f"size 'known' does not go with {_text(how, rows)}; leave size out")
        if exact is not None and (how, known) != ("replace", "known"):
            raise LeastnoiseError("exact counts are kept by replacing only; use neighbours='replace' with size 'known'")
        values = (how, rows, known, exact, each, apart)
        for name, value in zip(("change", *FIELDS[1:]), values, strict=True):
            object.__setattr__(self, name, value)

    @property
    def rows(self) -> int:
        """The most counted rows that one change adds, removes or replaces."""
        return self.rows_per_person or 1

    @property
    def moves(self) -> int:
        """The most rows by which the counts of two neighbours differ: a replaced row leaves one cell for another."""
        return self.rows * (2 if self.change == "replace" else 1)

    def squared_sensitivity(self, square: Length, difference: Length) -> Length:
        """How far one change moves answers, squared; from the largest squared column and difference of two columns.

        Adding or removing k rows moves the answers by at most k columns. Replacing pairs rows off, and what is left
        over on one side is added or removed: at most k times the larger of a difference and a column. Where every row
        is counted before and after, only differences occur.
        """
        if self.change == "add-remove":
            return self.rows**2 * square
        if self.size == "known" and self.rows_per_person is None:
            return difference
        return self.rows**2 * max(difference, square)

    @property
    def alike(self) -> int:
        """The most counted rows of one change that may be equal in all attributes."""
        return 1 if self.one_per or self.min_separation else self.rows

    def refuse_groups(self, what: str) -> None:
        """Refuse neighbours whose groups a mechanism makes no use of."""
        if self.one_per or self.min_separation:
            name = "one_per" if self.one_per else "min_separation"
            raise LeastnoiseError(f"{what} makes no use of {name}; leave it out, or use a plan of tables or a matrix")

    def shares_ledger(self, other: "Neighbours") -> bool:
        """Whether both hide the same change of the data: people may have any number of rows, of which each release
        counts as many as it is planned for (docs/privacy.md, Releases with different bounds).

        >>> Neighbours(rows_per_person=3).shares_ledger(Neighbours(rows_per_person=1))
        True

        Guarantees: releases_with_different_bounds_share_a_ledger.
        """
        bounded = None not in (self.rows_per_person, other.rows_per_person) and self.exact is other.exact is None
        return self == other or (bounded and (self.change, self.size) == (other.change, other.size))

    @property
    def arguments(self) -> dict[str, Any]:
        """What says the same to a budget, without what goes without saying."""
        usual = Neighbours(self.change, self.rows_per_person, exact=self.exact).size
        fields = self.to_json() | {"size": None if self.size == usual else self.size}
        return {name: value for name, value in fields.items() if value is not None}

    def to_json(self) -> dict[str, Any]:
        """Plain data; `from_json` reads it back."""
        values = (self.change, self.rows_per_person, self.size, self.exact, list(self.one_per), self.min_separation)
        return {name: value for name, value in zip(FIELDS, values, strict=True) if value or name in ALWAYS}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Neighbours":
        """Read what `to_json` wrote; before it had the size, rows_per_person 1 stood for single rows."""
        rows = data.get("rows_per_person")
        if data.get("size") is None and rows == 1:
            rows = None
        more = data.get("one_per") or (), data.get("min_separation")
        return cls(data["neighbours"], rows, data.get("size"), data.get("exact"), *more)

    def __str__(self) -> str:
        text = _text(self.change, self.rows_per_person) + self._apart
        if self.exact is not None:
            return f"{text} such that these counts stay as they are: {self.exact}"
        if self.rows_per_person is None and self.change == "replace":
            return f"{text}, the number of rows being {'public' if self.size == 'known' else 'private'}"
        return text

    @property
    def of_ledger(self) -> str:
        """The change in words where several releases are meant, each with its own bound on the rows of a person."""
        rows, text = self.rows_per_person, str(self)
        if rows is None or self.exact is not None:
            return text
        return text.removesuffix(f" with at most {rows} row{'s' * (rows > 1)}") + " with all their rows"

    @property
    def vouched(self) -> str:
        """What nobody has, where that is taken on trust."""
        most = "one row" if self.rows == 1 else f"{self.rows:,} rows"
        if self.one_per:
            return f"{most}, or two for the same {' and '.join(self.one_per)},"
        return f"{most}, or two within {self.min_separation:,} steps," if self.min_separation else most

    @property
    def _apart(self) -> str:
        if self.one_per:
            whole = "value" if len(self.one_per) == 1 else "combination of values"
            return f", at most one for each {whole} of {' and '.join(self.one_per)}"
        return f", at least {self.min_separation:,} steps apart" if self.min_separation else ""

    def __repr__(self) -> str:
        _, *more = (f"{name}={value!r}" for name, value in self.arguments.items())
        return f"Neighbours({', '.join([repr(self.change), *more])})"


def as_neighbours(
    given: "Neighbours | str",
    rows_per_person: int | None = None,
    size: str | None = None,
    one_per: str | Sequence[str] = (),
    min_separation: int | None = None,
) -> Neighbours:
    """Neighbours as they are, or from their parts."""
    if not isinstance(given, Neighbours):
        return Neighbours(given, rows_per_person, size, None, one_per, min_separation)
    if not any((rows_per_person, size, one_per, min_separation)):
        return given
    raise LeastnoiseError(f"{given!r} says all; leave rows_per_person, size, one_per and min_separation out")


def checked_rows(rows: object) -> int:
    """A bound on the rows of one person."""
    if isinstance(rows, int | np.integer) and not isinstance(rows, bool) and 1 <= rows <= MOST_ROWS:
        return int(rows)
    raise LeastnoiseError(f"rows_per_person must be a whole number from 1 to {MOST_ROWS:,}, got {rows!r}")


def _checked_separation(steps: object, rows: int | None) -> int | None:
    if steps is None:
        return None
    if not isinstance(steps, int | np.integer) or isinstance(steps, bool) or not 1 <= steps <= MOST_ROWS:
        raise LeastnoiseError(f"min_separation must be a whole number from 1 to {MOST_ROWS:,}, got {steps!r}")
    if rows is None or rows == 1:
        fix = "say how many, such as rows_per_person=8" if rows is None else "leave min_separation out"
        raise LeastnoiseError(f"min_separation is for people with several rows; {fix}")
    return int(steps)


def _text(change: str, rows: int | None) -> str:
    who = "one row" if rows is None else f"one person with at most {rows} row{'s' * (rows > 1)}"
    return f"{_VERBS[change]} {who}"


def _one_of(name: str, given: object, known: tuple[Any, ...]) -> Any:
    if isinstance(given, str) and given in known:
        return given
    raise LeastnoiseError(f"{name} must be {' or '.join(map(repr, known))}, got {given!r}")
