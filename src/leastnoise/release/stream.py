"""Answers as the items come: continual counting, and any lower-triangular matrix of queries.

Row t of the integers touches items up to t only, and query t needs rows up to t only. So noise is drawn row by row and
every answer is final. Gaussian noise keeps its privacy if later items depend on earlier answers (Denisov, McMahan,
Rush, Smith and Thakurta 2022, Theorem 2.1).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from leastnoise._types import Array
from leastnoise.errors import LeastnoiseError
from leastnoise.factorize.system import Measured
from leastnoise.factorize.toeplitz import Toeplitz
from leastnoise.noise import Bits, SecureBits, rounded_gaussian
from leastnoise.plan.matrix import MatrixPlan
from leastnoise.privacy.ledger import Entry, Ledger
from leastnoise.release import matrix_files as files
from leastnoise.release.answers import Answer
from leastnoise.release.matrix import MatrixRelease

FITS = 2**62


class Stream:
    """Counts go in one by one, answers come out at once. The cost was debited when it was opened.

    Guarantees: stream_equals_one_run; stream_never_waits; debit_comes_first.
    """

    def __init__(
        self,
        plan: MatrixPlan,
        *,
        ledger: Ledger | str | Path | None = None,
        dataset: str | None = None,
        note: str = "",
        bits: Bits | None = None,
    ) -> None:
        if not plan.streams:
            raise LeastnoiseError("these queries need all items before any is answered; use run, or order the queries")
        self.plan, self.dataset, self._bits = plan, dataset, bits or SecureBits()
        self._book = ledger if isinstance(ledger, Ledger) or ledger is None else Ledger.open(ledger)
        self._counts = np.zeros(plan.items, dtype=np.int64)
        self._total = 0
        self._measured: list[int] = []
        self._read = np.empty(plan.items)
        self._entry: Entry | None = None
        if self._book is not None:
            cost, mark = plan.cost, files.fingerprint(plan)
            self._entry = self._book.debit(cost, mark, note=note, dataset=dataset, insecure=self._bits.insecure)

    def __len__(self) -> int:
        return len(self._measured)

    def add(self, count: int, confidence: float = 0.95) -> Answer:
        """Take the next item's count and answer the next query."""
        t = len(self._measured)
        if t == self.plan.items:
            raise LeastnoiseError(f"all {t:,} items have come; make a release of them with close()")
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 0:
            raise LeastnoiseError("a count is a whole number of 0 or more; give how many events there were")
        if count >= FITS:
            raise LeastnoiseError("a count holds 2**62 events or more; counts must be less")
        self._counts[t] = count
        self._total += int(count)
        (noise,) = rounded_gaussian(self._bits, self.plan.variance, 1).tolist()
        self._measured.append(self._exact(t) + noise)
        self._read[t] = float(self._measured[t])
        value = float(self._reading(t) @ self._read[: t + 1])
        return Answer(value, float(self.plan.std_errors[t]), confidence)

    def _exact(self, t: int) -> int:
        row, counts = self.plan.system.row(t), self._counts[: t + 1]
        if self._total * self.plan.system.largest_entry < FITS:
            return int(row @ counts)
        return int(row.astype(object) @ counts.astype(object))

    def _reading(self, t: int) -> Array:
        system: Any = self.plan.system
        if isinstance(system, Toeplitz):
            return system.reading[t::-1]
        assert isinstance(system, Measured)
        return system.reading[t, : t + 1]

    def close(self, out: str | Path | None = None, *, overwrite: bool = False) -> MatrixRelease:
        """All answers as a release, once all items have come; with `out` it is saved and noted in the ledger."""
        missing = self.plan.items - len(self._measured)
        if missing:
            raise LeastnoiseError(f"{missing:,} of {self.plan.items:,} items have not come yet; add them, or zeros")
        fits = max(map(abs, self._measured)) < FITS
        measured = np.array(self._measured, dtype=np.int64 if fits else object)
        entry = None if self._entry is None else self._entry.id
        release = MatrixRelease(self.plan, measured, self.dataset, self._bits.insecure, entry)
        if out is not None:
            identity = files.save(release, Path(out), overwrite)
            if self._book is not None and self._entry is not None:
                self._entry = self._book.finish(self._entry, identity)
        return release


MatrixPlan.streamer = Stream
