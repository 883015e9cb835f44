"""Where in a report the parts of a plan are."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from leastnoise._types import IntArray
from leastnoise.local.plan import LocalPlan
from leastnoise.local.subsets import Payloads

Places = slice | IntArray


def by_part(plan: LocalPlan, rows: Payloads) -> Iterator[tuple[int, Places, Payloads]]:
    """Parts that reports (rows of bytes) are about: number, which reports, and all they say after prefix and number.

    Reports on parts that do not exist are left out. Where devices report on every part, each part has all reports.
    """
    prefix, first = len(plan.prefix), len(plan.prefix) + plan.part_bytes
    if plan.split:
        ends = first + np.cumsum([p.randomizer.payload for p in plan.parts])
        for i, part in enumerate(plan.parts):
            yield i, slice(None), rows[:, ends[i] - part.randomizer.payload : ends[i]]
        return
    if len(plan.parts) == 1:
        yield 0, slice(None), rows[:, first:]
        return
    at = np.zeros((len(rows), 4), dtype=np.uint8)
    at[:, : plan.part_bytes] = rows[:, prefix:first]
    numbers = at.view("<u4")[:, 0]
    order = np.argsort(numbers, kind="stable")
    ends = np.searchsorted(numbers[order], np.arange(len(plan.parts) + 1))
    for i in np.flatnonzero(np.diff(ends)).tolist():
        places = order[ends[i] : ends[i + 1]]
        yield i, places, rows[places, first:]
