"""Answers as the items come: continual counting, and any lower-triangular matrix of queries.

Row t of the integers touches items up to t only, and query t needs rows up to t only. So noise is drawn row by row and
every answer is final. Gaussian noise keeps its privacy if later items depend on earlier answers (Denisov, McMahan,
Rush, Smith and Thakurta 2022, Theorem 2.1).

What must never happen is that two different noisy answers of one row are seen. A stream with a folder therefore has
each step on disk before it is answered, and goes on from there after a crash.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.gate import checked_count
from leastnoise.mechanisms.matrix.plan import MatrixPlan
from leastnoise.mechanisms.matrix.release import MatrixRelease
from leastnoise.mechanisms.stream import files as stream_files
from leastnoise.mechanisms.stream.journal import FORMAT, JOURNAL, Journal, Step
from leastnoise.mechanisms.stream.plan import StreamPlan
from leastnoise.noise import BoundRandomSource, RandomSource, SecureRandomSource, rounded_gaussian
from leastnoise.privacy.ledger import Ledger
from leastnoise.privacy.ledger_entries import Entry
from leastnoise.release.answers import Answer, quantile
from leastnoise.release.files import export, folders
from leastnoise.release.statement import Origin, Privacy, Run
from leastnoise.workload.publication import Publication

if TYPE_CHECKING:
    import pandas as pd

FITS = 2**62


class Stream:
    """Counts go in one by one, answers come out at once. The cost was debited when it was opened.

    With a `folder` it survives the process: `Stream.load(folder)` goes on where it was (docs/matrix.md).

    Guarantees: stream_equals_one_run; stream_never_waits; debit_comes_first; published_answers_survive_being_killed.
    """

    _journal: Journal | None
    _random_source: RandomSource

    def __init__(
        self,
        plan: MatrixPlan | StreamPlan,
        *,
        ledger: Ledger | str | Path | None = None,
        dataset: str | None = None,
        note: str = "",
        random_source: RandomSource | None = None,
        folder: str | Path | None = None,
        publication: Publication | Mapping[str, Any] | None = None,
    ) -> None:
        plan, words = StreamPlan.of(plan), Publication.of(publication)
        self._random_source = BoundRandomSource(random_source or SecureRandomSource())
        assumed = plan.budget.neighbours.rows_per_person is not None  # counts come as they are
        run = Run(stopped_runs=None, person=None, rows_assumed=assumed)
        self._begin(plan, dataset, self._random_source.insecure, _opened(ledger), Origin(run=run, publication=words))
        if folder is None:
            self._debit(note)
            return
        with folders.drafted(Path(folder)) as draft:  # it appears with its debit, or not at all
            self._debit(note)
            start = stream_files.write(self, draft)
        self._journal = Journal(Path(folder) / JOURNAL, start)

    def _begin(
        self, plan: StreamPlan, dataset: str | None, insecure: bool, book: Ledger | None, origin: Origin
    ) -> None:
        self.plan, self.dataset, self.insecure, self._book = plan, dataset, insecure, book
        self.origins = (origin,)
        self._counts = np.zeros(plan.items, dtype=np.int64)
        self._total = 0
        self._measured: list[int] = []
        self._divided = np.zeros(plan.items)  # noisy answers, as they are read
        self._entry: Entry | None = None
        self._journal = None
        self._turn = threading.Lock()

    def _debit(self, note: str) -> None:
        if self._book is not None:
            cost, mark = self.plan.cost, self.plan.fingerprint
            self._entry = self._book.debit(cost, mark, note=note, dataset=self.dataset, insecure=self.insecure)
            (origin,) = self.origins
            run = origin.run.model_copy(update={"stopped_runs": self._book.stopped})
            self.origins = (replace(origin, ledger_entry=self._entry.id, run=run),)

    @property
    def ledger_entry(self) -> int | None:
        """Where it was paid for."""
        return self.origins[0].ledger_entry

    @classmethod
    def load(
        cls,
        folder: str | Path,
        *,
        ledger: Ledger | str | Path | None = None,
        random_source: RandomSource | None = None,
        moved: bool = False,
    ) -> Stream:
        """Go on with a stream that has a folder. Give its ledger again if `close` is to note the release there.

        Folders that were copied or restored are refused, unless you say that it was `moved`: no other copy is in use,
        and it has every step that was ever answered.
        """
        path = Path(folder)
        header, plan = stream_files.load(path, moved)
        stream = cls.__new__(cls)
        stream._random_source = BoundRandomSource(random_source or SecureRandomSource())
        if stream._random_source.insecure and not header.insecure:
            raise LeastnoiseError("the noise of this stream is secure; go on without random_source")
        origin = Origin(header.created, header.ledger_entry, run=header.run, publication=header.publication)
        stream._begin(plan, header.dataset, header.insecure, _opened(ledger), origin)
        if stream._book is not None:
            stream._entry = _entry(stream._book, header)
        stream._journal = Journal(path / JOURNAL, header.sha256)
        if len(stream._journal.steps) > plan.items:
            raise FORMAT.damaged(path / JOURNAL, "it has more steps than items")
        for step in stream._journal.steps:
            stream._take(step)
        return stream

    @cached_property
    def privacy(self) -> Privacy:
        """The privacy statement, for all answers together."""
        return Privacy.of(self.plan.cost, self.plan.delta, insecure=self.insecure, run=self.origins[0].run)

    def __len__(self) -> int:
        return len(self._measured)

    def add(self, count: int, confidence: float = 0.95, *, step: int | None = None) -> Answer:
        """Take the next item's count and answer the next query.

        With `step`, its number from 0, the same call can be made again after a crash: a step that was taken with this
        count is answered as before, and nothing is counted twice.
        """
        quantile(confidence)  # whatever is wrong with the call is reported before a step is taken
        with self._turn:
            number = checked_count(count)
            if step is not None and self._known(step, number):
                return self.answer(step, confidence)
            t = len(self._measured)
            if t == self.plan.items:
                raise LeastnoiseError(f"all {t:,} items have come; make a release of them with close()")
            taken = Step(number, self._exact(t, number) + self._noise())
            if self._journal is not None:
                self._journal.append(t, taken)  # on disk before anybody sees an answer
            self._take(taken)
            return self.answer(t, confidence)

    def _known(self, step: int, count: int) -> bool:
        """Whether a step was taken; refused if it is not the next one either, or had another count."""
        t = len(self._measured)
        if isinstance(step, bool) or not isinstance(step, int | np.integer) or not 0 <= step <= t:
            raise LeastnoiseError(
                f"step {step} cannot come now, the next is {t}; add what is missing (if steps were answered that are "
                "gone, the folder is an old copy: do not go on)"
            )
        if step < t and self._counts[step] != count:
            raise LeastnoiseError(f"step {step} was taken with another count, which is final; go on with step {t}")
        return step < t

    def _noise(self) -> int:
        (noise,) = rounded_gaussian(self._random_source, self.plan.variance, 1).tolist()
        return int(noise)

    def _exact(self, t: int, count: int) -> int:
        self._counts[t] = count
        fits = (self._total + count) * self.plan.system.largest_entry < FITS
        return self.plan.system.row_answer(t, self._counts[: t + 1].astype(np.int64 if fits else object, copy=False))

    def _take(self, step: Step) -> None:
        t = len(self._measured)
        self._counts[t], self._divided[t] = step.count, float(step.measured) / self.plan.system.divisor[t]
        self._total += step.count
        self._measured.append(step.measured)

    def answer(self, step: int, confidence: float = 0.95) -> Answer:
        """The answer of a step that was taken, as it was reported then."""
        if not 0 <= step < len(self._measured):
            raise LeastnoiseError(f"step {step} has not come yet; {len(self._measured):,} steps were taken")
        return Answer(self.plan.system.read(step, self._divided), float(self.plan.std_errors[step]), confidence)

    def to_pandas(self, confidence: float = 0.95) -> pd.DataFrame:
        """All answers so far: query, answer, std_error, low, high."""
        padded = np.zeros(self.plan.items)  # rows that have not come do not matter
        padded[: len(self)] = [float(number) for number in self._measured]
        return (
            MatrixRelease(self.plan, padded.astype(object), self.dataset, self.insecure)
            .answer(confidence=confidence)
            .head(len(self))
        )

    def close(self, out: str | Path | None = None, *, overwrite: bool = False) -> MatrixRelease:
        """All answers as a release, once all items have come; with `out` it is saved and noted in the ledger."""
        missing = self.plan.items - len(self._measured)
        if missing:
            raise LeastnoiseError(f"{missing:,} of {self.plan.items:,} items have not come yet; add them, or zeros")
        fits = max(map(abs, self._measured)) < FITS
        measured = np.array(self._measured, dtype=np.int64 if fits else object)
        release = MatrixRelease(self.plan, measured, self.dataset, self.insecure, self.origins)
        if out is not None:
            identity = export.save(release, Path(out), None, overwrite)
            if self._book is not None and self._entry is not None and self._entry.release != identity:
                self._entry = self._book.finish(self._entry, identity)
        self.leave()
        return release

    def leave(self) -> None:
        """Stop for now: another process may then load the folder. Without a folder there is nothing to come back to."""
        if self._journal is not None:
            self._journal.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        self.leave()

    def __reduce__(self) -> Any:
        # Two copies would draw different noise for the same row.
        raise LeastnoiseError("a stream cannot be copied; open it with a folder, leave it, and load it elsewhere")


def _opened(ledger: Ledger | str | Path | None) -> Ledger | None:
    return ledger if isinstance(ledger, Ledger) or ledger is None else Ledger.open(ledger)


def _entry(book: Ledger, header: stream_files.Header) -> Entry:
    """The debit of a stream."""
    for entry in book.entries():
        if entry.id == header.ledger_entry and entry.fingerprint == header.fingerprint:
            return entry
    raise LeastnoiseError(f"the ledger {book.path} has no debit of this stream; give the one it was opened with")
