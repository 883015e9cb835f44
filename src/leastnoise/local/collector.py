"""The collector: adds up reports in any order and answers queries. It never sees a record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array, IntArray
from leastnoise.errors import LeastnoiseError
from leastnoise.local.layout import by_part
from leastnoise.local.plan import SEEDED, VERSION, LocalPlan, Part, targets
from leastnoise.local.subsets import Payloads
from leastnoise.local.tables import Queries
from leastnoise.release.answers import Answer, half_widths, quantile
from leastnoise.release.queries.language import query_of
from leastnoise.release.queries.linear import LinearQuery
from leastnoise.release.statistics.simultaneous import MOST_ANSWERS, Together, half_width

REASONS = ("length", "version", "plan", "content")
_BLOCK = 2**18  # reports read at a time


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
    width: float | None = None  # half of the intervals in standard errors, where they hold all at once

    @property
    def _widths(self) -> Array:
        if self.width is not None:
            return self.width * self.std_errors + self.biases
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

    def __getitem__(self, i: int) -> Answer:
        value, error, bias = (float(a[i]) for a in (self.values, self.std_errors, self.biases))
        return Answer(value, error, self.confidence, self.width, bias)


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

    def answers(
        self, confidence: float = 0.95, simultaneous: Together = False, population: bool = False
    ) -> list[LocalAnswers]:
        """Counts among the devices that reported, for all queries of the workload, table by table.

        `simultaneous` intervals hold for all queries of all tables at once (Sidak's inequality), and with "joint" they
        are as narrow as the correlation of the answers allows, where reports are subsets, which tell it. For a
        `population` from which the devices were drawn, they hold in any case where a device reports on one part, and
        are made to hold where it reports on all of them.

        Guarantees: simultaneous_intervals_cover; joint_is_never_wider_than_sidak; intervals_cover_the_population.
        """
        width = self._width(self.plan.queries, confidence, simultaneous)
        return [self._answer(q, confidence, width, population) for q in self.plan.queries]

    def ask(self, query: str | LinearQuery, confidence: float = 0.95) -> Answer:
        """The count that any linear query asks for, for example "age < 30 and sex = 'F'", as of a release."""
        linear = query_of(self.plan.domain, query)
        names = [self.plan.domain.names[a] for a in linear.attributes]
        return self.rows(names, linear.weights().reshape(1, -1), confidence)[0]

    def rows(
        self,
        names: Sequence[str],
        rows: npt.ArrayLike,
        confidence: float = 0.95,
        simultaneous: Together = False,
        population: bool = False,
    ) -> LocalAnswers:
        """Counts for rows of weights over the cells of these attributes, the last one moving fastest; options as of
        `answers`.
        """
        queries = self.plan.rows_on(names, rows)
        return self._answer(queries, confidence, self._width([queries], confidence, simultaneous), population)

    def table(
        self, *names: str, confidence: float = 0.95, simultaneous: Together = False, population: bool = False
    ) -> LocalAnswers:
        """The counts of a table, cell by cell."""
        cells = int(np.prod([self.plan.domain[n].size for n in names], dtype=np.int64))
        return self.rows(names, np.eye(cells), confidence, simultaneous, population)

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

    def _width(self, tables: Sequence[Queries], confidence: float, simultaneous: Together) -> float | None:
        """Half width in standard errors of intervals for all queries at once; None for each by itself."""
        if simultaneous is False:
            return None
        count = sum(len(q.rows) for q in tables)
        covariance = self.covariance(tables) if simultaneous == "joint" and count <= MOST_ANSWERS else None
        if covariance is None:
            return half_width(np.empty((count, 0)), confidence, simultaneous == "joint" or simultaneous)
        w, u = np.linalg.eigh(covariance)
        return half_width(u * np.sqrt(np.maximum(w, 0.0)), confidence, "joint")

    def covariance(self, tables: Sequence[Queries]) -> Array | None:
        """Joint covariance of the answers to the queries of some tables, with the sampling of devices; None where the
        reports do not tell.

        Reports of different parts are independent, but for devices that report on all of them: there the noise is, and
        the spread of the records is counted in each. So it is at least that of the noise, which makes intervals that
        hold at once only wider (Anderson 1955).

        Guarantees: covariances_are_those_of_sums.
        """
        wanted = [dict(self._requested(queries)) for queries in tables]
        total = np.zeros((sum(len(q.rows) for q in tables),) * 2)
        for i in sorted({i for rows in wanted for i in rows}):
            part, count = self.plan.parts[i], int(self.counts[i])
            none = np.zeros((1, part.randomizer.cells))
            rows = np.concatenate(
                [some.get(i, np.repeat(none, len(q.rows), axis=0)) for some, q in zip(wanted, tables, strict=True)]
            )
            products = part.randomizer.products(rows, self.tallies[i])
            if products is None:
                return None
            mean = part.randomizer.totals(rows, self.tallies[i]) / count
            total += self.reports**2 / (count - 1) * (products / count - np.outer(mean, mean))
        return total

    def _answer(
        self, queries: Queries, confidence: float, width: float | None, population: bool = False
    ) -> LocalAnswers:
        """Counts with standard errors from the spread of each part's reports.

        The spread counts the noise and that other devices might have come, so that errors hold for the population too.
        Only where devices report on all parts, nobody sees how the records vary over these together; a query with
        range r has a variance of r^2 / 4 at most (Popoviciu 1935), which is added for a population.
        """
        quantile(confidence)  # refuses what is no confidence
        variances = np.zeros(len(queries.rows))
        for i, rows in self._requested(queries):
            count, randomizer = int(self.counts[i]), self.plan.parts[i].randomizer
            mean = randomizer.totals(rows, self.tallies[i]) / count
            spread = randomizer.squares(rows, self.tallies[i]) / count - mean**2
            variances += self.reports**2 / (count - 1) * np.maximum(spread, 0.0)
        if population and self.plan.split:
            variances += self.reports * np.ptp(queries.effective_rows, axis=1) ** 2 / 4
        names = tuple(self.plan.domain.names[a] for a in queries.attributes)
        biases = self.reports * queries.bias
        return LocalAnswers(queries.label, names, self.totals(queries), np.sqrt(variances), biases, confidence, width)
