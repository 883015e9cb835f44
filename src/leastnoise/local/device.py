"""The device: a record and the public plan in, a few bytes out. Nothing else ever leaves it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from leastnoise._types import IntArray
from leastnoise.errors import LeastnoiseError
from leastnoise.local.plan import SEEDED, LocalPlan
from leastnoise.local.subsets import Payloads
from leastnoise.local.tables import cells_of
from leastnoise.noise import RandomSource, SecureRandomSource


class Device:
    """Makes the report of one record.

    >>> from leastnoise.domain.attributes import Domain
    >>> from leastnoise.local.planner import local_plan
    >>> from leastnoise.workload import Workload
    >>> plan = local_plan(Workload(Domain.of(answer=["yes", "no"])).marginals(ways=1), 1)
    >>> len(Device(plan).report({"answer": "no"}))
    6

    Guarantees: likelihood_ratio_of_reports_is_at_most_e_to_the_epsilon; errors_do_not_reveal_the_record.
    """

    def __init__(self, plan: LocalPlan, random_source: RandomSource | None = None) -> None:
        self.plan = plan
        self._random_source = SecureRandomSource() if random_source is None else random_source

    def report(self, record: Mapping[str, object]) -> bytes:
        """The report of a record given by attribute names; every further report of it spends epsilon again."""
        return simulate(self.plan, np.array([self.codes(record)], dtype=np.int64), self._random_source)

    def codes(self, record: Mapping[str, object]) -> list[int]:
        """The record in codes, one per attribute of the plan, for `simulate`."""
        return [self._code(record, a) for a in range(len(self.plan.domain))]

    def _code(self, record: Mapping[str, object], attribute: int) -> int:
        known = self.plan.domain.attributes[attribute]
        if known.name not in record:
            raise LeastnoiseError(f"the record has no attribute {known.name!r}; the plan needs it")
        try:
            return known.code(record[known.name])
        except (LeastnoiseError, TypeError, ValueError, ArithmeticError):
            pass  # raised outside of the handler, because the other message shows the value
        raise LeastnoiseError(
            f"the value of {known.name!r} is none of the plan's; map such values to one of them before reporting"
        )


def simulate(plan: LocalPlan, codes: npt.ArrayLike, random_source: RandomSource) -> bytes:
    """Reports of many devices in one block, one record (row of codes) each, in the order of the records.

    Reports made from a seed say so in their first byte, so that nobody takes them for protected ones.

    Guarantees: block_equals_single_reports; reports_from_a_seed_are_counted.
    """
    records = _checked(plan, codes)
    out = np.zeros((len(records), plan.report_bytes), dtype=np.uint8)
    out[:, : len(plan.prefix)] = np.frombuffer(plan.prefix, dtype=np.uint8)
    if random_source.insecure:
        out[:, 0] = SEEDED
    if plan.split:
        _fill_all(plan, records, random_source, out)
    else:
        _fill_one(plan, records, random_source, out)
    return out.tobytes()


def _fill_all(plan: LocalPlan, records: IntArray, random_source: RandomSource, out: Payloads) -> None:
    """What every device says about every part."""
    first = len(plan.prefix)
    for part in plan.parts:
        last = first + part.randomizer.payload
        out[:, first:last] = part.randomizer.encode(cells_of(records, part.attributes, part.shape), random_source)
        first = last


def _fill_one(plan: LocalPlan, records: IntArray, random_source: RandomSource, out: Payloads) -> None:
    """What every device says about the part it draws."""
    at = plan.draw_parts(random_source, len(records))
    first = len(plan.prefix) + plan.part_bytes
    numbers = at.astype("<u4").view(np.uint8).reshape(-1, 4)
    out[:, len(plan.prefix) : first] = numbers[:, : plan.part_bytes]
    order = np.argsort(at, kind="stable")
    ends = np.searchsorted(at[order], np.arange(len(plan.parts) + 1))
    for part, low, high in zip(plan.parts, ends, ends[1:], strict=False):
        chosen = order[low:high]
        if len(chosen):
            cells = cells_of(records[chosen], part.attributes, part.shape)
            out[chosen, first : first + part.randomizer.payload] = part.randomizer.encode(cells, random_source)


def _checked(plan: LocalPlan, codes: npt.ArrayLike) -> IntArray:
    records = np.asarray(codes)
    if records.ndim != 2 or records.shape[1] != len(plan.domain) or records.dtype.kind not in "iu":
        raise LeastnoiseError(
            f"records must be rows of {len(plan.domain)} whole numbers, one per attribute of the plan"
        )
    if records.size and ((records < 0) | (records >= np.array(plan.domain.shape))).any():
        raise LeastnoiseError("a record has a code outside the plan's domain; codes count from 0 to the size less 1")
    return records.astype(np.int64, copy=False)
