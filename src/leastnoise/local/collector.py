"""The collector: adds up reports in any order and answers queries. It never sees a record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array, IntArray
from leastnoise.errors import LeastnoiseError
from leastnoise.local.intervals import half_widths
from leastnoise.local.layout import by_part
from leastnoise.local.plan import SEEDED, VERSION, LocalPlan, Part, targets
from leastnoise.local.subsets import Payloads
from leastnoise.local.tables import Queries
from leastnoise.release.answers import Answer, quantile
from leastnoise.release.queries.language import query_of
from leastnoise.release.queries.linear import LinearQuery

REASONS = ("length", "version", "plan", "content")
_BLOCK = 2**18  # reports read at a time


@dataclass(frozen=True)
class LocalAnswer(Answer):
    """A count with the standard error of its noise, and how far its mean may be from the truth beside that."""

    bias: float = 0.0

    @property
    def _spread(self) -> float:
        return float(half_widths(self.std_error, self.bias, self.confidence))

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return super().to_json() | {"bias": self.bias}

    def __str__(self) -> str:
        return super().__str__() + (f" with a bias of {self.bias:,.1f} at most" if self.bias else "")


@dataclass(frozen=True, eq=False)
class LocalAnswers:
    """Counts with their standard errors, for the queries of one table.

    They are unbiased, or as far off as `biases` at most, where the plan allows a bias. Standard errors are those of the
    noise; intervals make room for both.
    """

    label: str
    names: tuple[str, ...]
    values: Array
    std_errors: Array
    biases: Array
    confidence: float = 0.95

    @property
    def _widths(self) -> Array:
        return half_widths(self.std_errors, self.biases, self.confidence)

    @property
    def low(self) -> Array:
        """Lower ends of the intervals."""
        return self.values - self._widths

    @property
    def high(self) -> Array:
        """Upper ends of the intervals."""
        return self.values + self._widths

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, i: int) -> LocalAnswer:
        value, error, bias = (float(a[i]) for a in (self.values, self.std_errors, self.biases))
        return LocalAnswer(value, error, self.confidence, bias=bias)


class Collector:
    """Counts what reports say; memory depends on the plan, not on the number of reports.

    Guarantees: order_does_not_matter_and_merged_collectors_equal_one; bad_reports_are_counted_and_change_nothing;
    answers_are_unbiased; intervals_cover; intervals_cover_whatever_the_bias.
    """

    def __init__(self, plan: LocalPlan) -> None:
        self.plan = plan
        self.tallies: list[IntArray] = [np.zeros(p.randomizer.tallies, dtype=np.int64) for p in plan.parts]
        self.counts: IntArray = np.zeros(len(plan.parts), dtype=np.int64)
        self.rejected = dict.fromkeys(REASONS, 0)
        self.seeded = 0  # reports taken whose noise came from a seed

    @property
    def reports(self) -> int:
        """Reports taken."""
        return int(self.counts[0] if self.plan.split else self.counts.sum())

    @property
    def insecure(self) -> bool:
        """Whether some reports came from a seed, which protects nobody."""
        return self.seeded > 0

    # --- taking reports -----------------------------------------------------------------------------------------------

    def add(self, report: bytes) -> bool:
        """Take one report; False, and counted by reason, where it is none of this plan's."""
        if len(report) != self.plan.report_bytes:
            self.rejected["length"] += 1
            return False
        before = self.reports
        self.add_block(report)
        return self.reports > before

    def add_all(self, reports: Iterable[bytes]) -> None:
        """Take reports one by one."""
        good, size = [], self.plan.report_bytes
        for report in reports:
            if len(report) == size:
                good.append(report)
            else:
                self.rejected["length"] += 1
            if len(good) == _BLOCK:
                self.add_block(b"".join(good))
                good.clear()
        self.add_block(b"".join(good))

    def add_block(self, block: bytes | bytearray | memoryview) -> None:
        """Take many reports that stand one after the other; a block of a wrong length is rejected as one report."""
        size = self.plan.report_bytes
        if len(block) % size:
            self.rejected["length"] += 1
            return
        rows = np.frombuffer(block, dtype=np.uint8).reshape(-1, size)
        for low in range(0, len(rows), _BLOCK):
            self._take(rows[low : low + _BLOCK])

    def _take(self, rows: Payloads) -> None:
        prefix = np.frombuffer(self.plan.prefix, dtype=np.uint8)
        seeded = rows[:, 0] == SEEDED
        version = (rows[:, 0] == VERSION) | seeded
        plan = (rows[:, 1 : len(prefix)] == prefix[1:]).all(axis=1)
        self.rejected["version"] += int((~version).sum())
        self.rejected["plan"] += int((version & ~plan).sum())
        good = version & plan
        self._tally(rows if good.all() and not seeded.any() else rows[good & ~seeded])
        before = self.reports
        self._tally(rows[good & seeded])
        self.seeded += self.reports - before

    def _tally(self, rows: Payloads) -> None:
        """Count reports of this plan, unless their content is wrong."""
        if len(rows):
            (self._take_all if self.plan.split else self._take_one)(rows)

    def _take_all(self, rows: Payloads) -> None:
        """Reports on all parts, which are taken or rejected as a whole."""
        pieces = [piece for _, _, piece in by_part(self.plan, rows)]
        good = np.ones(len(rows), dtype=bool)
        for part, piece in zip(self.plan.parts, pieces, strict=True):
            good &= part.randomizer.valid(piece)
        self.rejected["content"] += int((~good).sum())
        for i, (part, piece) in enumerate(zip(self.plan.parts, pieces, strict=True)):
            self._count(i, part, piece[good])

    def _take_one(self, rows: Payloads) -> None:
        """Reports on one part each."""
        known = 0
        for i, _, payloads in by_part(self.plan, rows):
            self._count(i, self.plan.parts[i], payloads)
            known += len(payloads)
        self.rejected["content"] += len(rows) - known

    def _count(self, number: int, part: Part, payloads: Payloads) -> None:
        size = part.randomizer.payload
        good = part.randomizer.valid(payloads[:, :size]) & ~payloads[:, size:].any(axis=1)
        self.rejected["content"] += int((~good).sum())
        if not good.all():
            payloads = payloads[good]
        self.tallies[number] += part.randomizer.tally(payloads[:, :size])
        self.counts[number] += len(payloads)

    def merge(self, other: Collector) -> None:
        """Take over all that another collector of the same plan has; the other one stays as it is."""
        if other.plan.fingerprint != self.plan.fingerprint:
            raise LeastnoiseError("these collectors follow different plans; merge those of one plan only")
        if other is self:
            raise LeastnoiseError("a collector cannot be merged with itself; its reports would count twice")
        for mine, theirs in zip(self.tallies, other.tallies, strict=True):
            mine += theirs
        self.counts += other.counts
        self.seeded += other.seeded
        for reason in REASONS:
            self.rejected[reason] += other.rejected[reason]

    # --- answers ------------------------------------------------------------------------------------------------------

    def answers(self, confidence: float = 0.95) -> list[LocalAnswers]:
        """Counts among the devices that reported, for all queries of the workload, table by table."""
        return [self._answer(q, confidence) for q in self.plan.queries]

    def ask(self, query: str | LinearQuery, confidence: float = 0.95) -> LocalAnswer:
        """The count that any linear query asks for, for example "age < 30 and sex = 'F'", as of a release."""
        linear = query_of(self.plan.domain, query)
        names = [self.plan.domain.names[a] for a in linear.attributes]
        return self.rows(names, linear.weights().reshape(1, -1), confidence)[0]

    def rows(self, names: Sequence[str], rows: npt.ArrayLike, confidence: float = 0.95) -> LocalAnswers:
        """Counts for rows of weights over the cells of these attributes, the last one moving fastest."""
        return self._answer(self.plan.rows_on(names, rows), confidence)

    def table(self, *names: str, confidence: float = 0.95) -> LocalAnswers:
        """The counts of a table, cell by cell."""
        cells = int(np.prod([self.plan.domain[n].size for n in names], dtype=np.int64))
        return self.rows(names, np.eye(cells), confidence)

    def totals(self, queries: Queries) -> Array:
        """Counts alone, unbiased for what the plan answers: each part's mean stands for all devices."""
        values = self.reports * queries.pieces[()]
        for i, rows in self._requested(queries):
            values = values + self.reports / self.counts[i] * self.plan.parts[i].randomizer.totals(
                rows, self.tallies[i]
            )
        return values

    def _requested(self, queries: Queries) -> Iterator[tuple[int, Array]]:
        """Parts with their parts of the queries; refused where they have too few reports."""
        for i, rows in targets(self.plan.parts, queries).items():
            if self.counts[i] < 2:
                raise LeastnoiseError(
                    f"only {self.counts[i]} reports are about these queries; collect more before asking"
                )
            yield i, rows

    def _answer(self, queries: Queries, confidence: float) -> LocalAnswers:
        """Counts with standard errors from the spread of each part's reports.

        The spread counts the noise and that other devices might have come, so that errors hold for the population too.
        """
        quantile(confidence)  # refuses what is no confidence
        variances = np.zeros(len(queries.rows))
        for i, rows in self._requested(queries):
            count, randomizer = int(self.counts[i]), self.plan.parts[i].randomizer
            mean = randomizer.totals(rows, self.tallies[i]) / count
            spread = randomizer.squares(rows, self.tallies[i]) / count - mean**2
            variances += self.reports**2 / (count - 1) * np.maximum(spread, 0.0)
        names = tuple(self.plan.domain.names[a] for a in queries.attributes)
        biases = self.reports * queries.bias
        return LocalAnswers(queries.label, names, self.totals(queries), np.sqrt(variances), biases, confidence)
