"""Between which datasets privacy is promised: the change of one row, or of all rows of one person."""

from typing import Literal, get_args

import numpy as np

from leastnoise.errors import LeastnoiseError

Neighbours = Literal["add-remove", "replace"]
MOST_ROWS = 1_000_000_000
_WORDS = {"add-remove": "adding or removing", "replace": "replacing"}


def change(neighbours: Neighbours, rows_per_person: int) -> str:
    """The change that stays hidden, in words.

    >>> change("add-remove", 1), change("replace", 3)
    ('adding or removing one row', 'replacing one person with at most 3 rows')
    """
    who = "one row" if rows_per_person == 1 else f"one person with at most {rows_per_person} rows"
    return f"{_WORDS[neighbours]} {who}"


def checked_neighbours(neighbours: object) -> Neighbours:
    """One of the two relations."""
    for known in get_args(Neighbours):
        if neighbours == known:
            return known
    raise LeastnoiseError(f"neighbours must be {' or '.join(map(repr, get_args(Neighbours)))}, got {neighbours!r}")


def checked_rows(rows: object) -> int:
    """A bound on the rows of one person."""
    if isinstance(rows, int | np.integer) and not isinstance(rows, bool) and 1 <= rows <= MOST_ROWS:
        return int(rows)
    raise LeastnoiseError(f"rows_per_person must be a whole number from 1 to {MOST_ROWS:,}, got {rows!r}")
