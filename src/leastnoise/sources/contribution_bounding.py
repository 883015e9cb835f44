"""At most so many rows of each person, in memory; engines do the same in SQL."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise._types import IntArray
from leastnoise.errors import DataError
from leastnoise.sources.rules import PrivacyUnit

Mask = npt.NDArray[np.bool_]
Columns = Sequence[npt.NDArray[Any]]


def kept_rows(unit: PrivacyUnit, ids: npt.NDArray[Any], codes: Columns, groups: Sequence[int] = ()) -> Mask:
    """Which rows are counted: of each person those with the smallest digests, of each group of a person one.

    `groups` are the places of the attributes of `unit.one_per`. Equal rows of a person have equal digests, and it does
    not matter which of them is kept.

    >>> unit = PrivacyUnit("person", max_rows=1, secret=b"x")
    >>> kept_rows(unit, np.array(["a", "a", "b"], dtype=object), [np.array([0, 0, 1])]).tolist()
    [True, False, True]

    Guarantees: engines_code_alike; nobody_has_more_rows; nobody_has_two_rows_in_a_group;
    the_order_of_rows_changes_nothing.
    """
    person = numbered_people(ids)
    check_ids(unit, bool(np.any(person < 0)))
    keep = person >= 0
    grouped = [codes[k] for k in groups]
    more = left_out(person[keep], [column[keep] for column in grouped], unit.max_rows)
    busy = np.flatnonzero(keep & (more[person] > 0))
    digests = np.array([_digest(unit.key, ids[row], [column[row] for column in codes]) for row in busy], dtype="S64")
    order = np.lexsort((digests, person[busy]))
    busy = busy[order]
    keep[busy[~first_rows(person[busy], [column[busy] for column in grouped], unit.max_rows)]] = False
    return keep


def first_rows(person: npt.NDArray[Any], groups: Columns, most: int) -> Mask:
    """Of each person the first row of every group, and of these the first ones; rows come by person, in order.

    >>> first_rows(np.array([7, 7, 7, 7, 3]), [np.array([0, 0, 1, 2, 0])], 2).tolist()
    [True, False, True, False, True]
    """
    first = np.flatnonzero(_first_of_groups(person, groups))
    keep = np.zeros(len(person), dtype=bool)
    keep[first[ranks(person[first]) < most]] = True
    return keep


def left_out(person: IntArray, groups: Columns, most: int) -> IntArray:
    """For each person, by number, how many rows are not counted.

    >>> left_out(np.array([0, 0, 0, 1]), [np.array([5, 5, 6, 5])], 9).tolist()
    [1, 0]
    """
    rows = np.bincount(person, minlength=1)
    counted = np.bincount(person[_first_of_groups(person, groups)], minlength=1)
    return np.asarray(rows - np.minimum(counted, most))


def _first_of_groups(person: npt.NDArray[Any], groups: Columns) -> Mask:
    """Whether a row is the first of its person in its group; without groups all are."""
    first = np.ones(len(person), dtype=bool)
    if groups:
        order = np.lexsort((*groups, person))  # which is stable
        again = np.ones(max(len(person) - 1, 0), dtype=bool)
        for column in (person, *groups):
            again &= column[order][1:] == column[order][:-1]
        first[order[1:][again]] = False
    return first


def numbered_people(ids: npt.NDArray[Any]) -> IntArray:
    """A number for each person, -1 where there is no id; other texts are other people.

    Not by pandas, which until 3.1 took texts for the same that agree up to a zero byte.

    >>> numbered_people(np.array(["a", None, "a\\0", "a"], dtype=object)).tolist()
    [0, -1, 1, 0]
    """
    numbers: dict[str, int] = {}
    return np.array([-1 if text is None else numbers.setdefault(text, len(numbers)) for text in ids], dtype=np.int64)


def ranks(person: npt.NDArray[Any]) -> IntArray:
    """Each row's place among those of its person; rows come by person.

    >>> ranks(np.array([7, 7, 7, 3, 5, 5])).tolist()
    [0, 1, 2, 0, 0, 1]
    """
    place = np.arange(len(person))
    begins = np.ones(len(person), dtype=bool)
    begins[1:] = person[1:] != person[:-1]
    return place - np.maximum.accumulate(np.where(begins, place, 0))


def check_ids(unit: PrivacyUnit, missing: bool) -> None:
    """Refuse rows that belong to nobody, unless they are to be dropped."""
    if missing and unit.missing == "error":
        raise DataError(f"the column {unit.id!r} lacks some ids; fill them, or choose missing: drop for the unit")


def _digest(key: str, person: str, codes: Sequence[Any]) -> str:
    return sha256(f"{key}:{person}:{','.join(map(str, codes))}".encode()).hexdigest()
