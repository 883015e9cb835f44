"""Counts beside the tables, from columns in memory: what each rule touched, and distinct people. SQL has a twin.

Without a unit, rows are counted. With one, people: each of them at most once in every number, however many rows they
have. Rows without an id belong to nobody and are in none of the numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise._types import IntArray
from leastnoise.domain.attributes import Domain, Square
from leastnoise.domain.restrictions import Restrictions
from leastnoise.sources.contribution_bounding import left_out
from leastnoise.workload.rules import DROPPED, MISSING, OUTSIDE, Coding

Mask = npt.NDArray[np.bool_]


def touching(how: Sequence[Coding]) -> list[tuple[int, int]]:
    """(attribute, MISSING or OUTSIDE) of every rule that may touch rows, in the order of the attributes."""
    return [
        (k, flag)
        for k, coding in enumerate(how)
        for flag, touches in (
            (MISSING, coding.missing != MISSING),
            (OUTSIDE, coding.outside != OUTSIDE or coding.clamp),
        )
        if touches and not isinstance(coding.values, Square)  # whose amount is touched alike
    ]


def several_drop(how: Sequence[Coding], restrictions: Restrictions) -> bool:
    """Whether several rules drop rows, so that how many are dropped in all is a number of its own."""
    counted = [coding for coding in how if not isinstance(coding.values, Square)]
    dropping = sum((coding.missing == DROPPED) + (coding.outside == DROPPED) for coding in counted)
    return dropping + restrictions.drops > 1


def touched_rows(
    how: Sequence[Coding], raw: Sequence[IntArray], ruled: Sequence[IntArray], domain: Domain
) -> list[Mask]:
    """Which rows each rule touches, which are in impossible cells, then which are dropped by any, where several drop.

    `raw` and `ruled` have the codes of each attribute without rules and with them.
    """
    masks: list[Mask] = [raw[k] == flag for k, flag in touching(how)]
    rule, dropped = domain.restrictions, [codes == DROPPED for codes in ruled]
    if rule.touches:
        impossible = impossible_rows(domain, ruled)
        masks.append(impossible)
        dropped += [impossible] if rule.drops else []
    return [*masks, np.any(dropped, axis=0)] if several_drop(how, rule) else masks


def impossible_rows(domain: Domain, columns: Sequence[npt.NDArray[Any]]) -> Mask:
    """Which rows have all codes and are in an impossible cell; negative codes stand for none."""
    whole: Mask = np.all([codes >= 0 for codes in columns], axis=0)
    result = np.zeros(len(whole), dtype=np.bool_)
    result[whole] = ~domain.possible_columns([codes[whole] for codes in columns], int(np.count_nonzero(whole)))
    return result


def count_rows(masks: Sequence[Mask]) -> IntArray:
    """The number of rows of each."""
    return np.array([np.count_nonzero(mask) for mask in masks], dtype=np.int64)


def count_people(
    masks: Sequence[Mask], person: IntArray, countable: Mask, max_rows: int, groups: Sequence[npt.NDArray[Any]] = ()
) -> IntArray:
    """The number of people with such a row, and of those with more rows than are counted; person -1 is nobody.

    >>> person = np.array([0, 0, 1, -1])
    >>> count_people([np.array([True, True, False, True])], person, np.array([True, True, True, True]), 1).tolist()
    [1, 1]
    """
    here = person >= 0
    each = [np.unique(person[mask & here]).size for mask in masks]
    rows = countable & here
    more = left_out(person[rows], [column[rows] for column in groups], max_rows)
    return np.array([*each, np.count_nonzero(more)], dtype=np.int64)


def people_table(person: IntArray, columns: Sequence[npt.NDArray[Any]], shape: tuple[int, ...]) -> IntArray:
    """Distinct people in every cell, of rows that are counted.

    >>> people_table(np.array([0, 0, 1]), [np.array([1, 1, 1])], (2,)).tolist()
    [0, 2]
    """
    cells = np.zeros(len(person), dtype=np.int64)
    for column, size in zip(columns, shape, strict=True):
        cells = cells * size + column
    pairs = np.unique(np.stack([person.astype(np.int64), cells]), axis=1)
    size = int(np.prod(shape, dtype=np.int64))
    return np.bincount(pairs[1], minlength=size).astype(np.int64).reshape(shape)
