"""Mechanism: what measures data once and leaves a release, and `run_once`, the one way from data to a release.

Plans of every kind are mechanisms. A run checks, debits, measures, and only then publishes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, Unpack

from leastnoise._progress import shown
from leastnoise._types import Progress
from leastnoise.domain.attributes import Domain, Square
from leastnoise.domain.groups import checked_one_per
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.gate import Counts, check_promise
from leastnoise.mechanisms.options import Options
from leastnoise.mechanisms.questions import read_questions
from leastnoise.noise import BoundRandomSource, RandomSource, SecureRandomSource
from leastnoise.privacy.cost import Cost
from leastnoise.privacy.ledger import COUNTED, BudgetError, Ledger
from leastnoise.privacy.ledger_entries import Entry
from leastnoise.release.counting import Counting, RowRule
from leastnoise.release.files import export, folders
from leastnoise.release.files.one_table import Format
from leastnoise.release.frames import check_names
from leastnoise.release.release import Release
from leastnoise.release.statement import Run
from leastnoise.sources.rules import AnyRules, PrivacyUnit
from leastnoise.sources.source import Source
from leastnoise.storage.files import reserve
from leastnoise.workload.publication import Publication
from leastnoise.workload.rules import as_part, codings, rules_of

if TYPE_CHECKING:
    from leastnoise.audit.judge import Audit
    from leastnoise.sources.convert import Prepared
    from leastnoise.sources.files import AnyFormat

Published = TypeVar("Published", bound=Release, covariant=True)
CELL_BYTES, FILE_BYTES = 100, 1 << 14  # that a row of a table and a file need on disk, rather too much


class Mechanism(ABC, Generic[Published]):
    """A domain, an exact cost and a way to measure counts. Nothing in it depends on data.

    Guarantees: ledger_is_debited_first; nothing_is_spent_on_bad_input.
    """

    method: ClassVar[str]  # what a spec calls it

    @property
    def keeps_size(self) -> bool:
        """Whether what is published exactly holds the number of rows, whichever are dropped."""
        return False

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """The attributes that are counted."""

    @property
    @abstractmethod
    def cost(self) -> Cost:
        """The exact privacy cost, debited before anything is drawn."""

    @property
    @abstractmethod
    def delta(self) -> float:
        """The delta at which epsilon is stated."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """sha256 of all that decides what is measured."""

    @abstractmethod
    def measure(self, counts: Counts, random_source: RandomSource, progress: Progress | None = None) -> Published:
        """Measure counts with fresh noise. Only `run` calls it on data: it debits first."""

    @abstractmethod
    def room(self, tables: bool) -> int:
        """Bytes that the release needs on disk, without or with its tables; called before anything is spent."""

    def check(self) -> None:
        """Refuse before the debit what would fail after it."""

    def prepare(self, data: Any, **options: Any) -> Prepared:
        """Data whose columns fit, before any value is looked at; the options are those of `source_of`."""
        from leastnoise.sources.convert import prepare

        return prepare(data, self.domain, **options)

    def counted_by(
        self, data: Any, rules: AnyRules | None, unit: PrivacyUnit | Mapping[str, Any] | None
    ) -> Counting | None:
        """By which rules rows are counted; None where that is not known here."""
        return None if isinstance(data, Source) else counting_of(self.domain, rules, unit)

    def check_counting(self, counting: Counting | None) -> None:
        """Refuse rules, or data without any, that it was not planned for."""

    def look(self, counts: Counts) -> None:
        """Read what must be there before the debit: a source that cannot count fails here."""
        _ = counts.total

    def run(self, data: Any, **options: Unpack[Options]) -> Published:
        """Measure data, once: the only private line.

        Options: `ledger` (its path, debited first), `dataset` (its name there), `note`, `who` (runs it);
        `out` (a folder to save the
        release in), `tables` and `overwrite` as in `Release.save`; `rules`, `unit`, `table`, `memory` and `file` say
        how the data is read, as in `source_of`; `publication` has title, contact and licence for pages;
        `random_source`, `progress`.
        """
        return run_once(self, data, **options)

    def audit(
        self,
        runs: int | None = None,
        confidence: float = 0.95,
        *,
        delta: float | None = None,
        seed: int | None = None,
        progress: Progress | None = None,
    ) -> Audit:
        """Try to refute the claimed privacy: run it many times on made-up neighbours (docs/audit.md)."""
        from leastnoise.audit.subjects import audit

        return audit(self, runs, confidence, delta=delta, seed=seed, progress=progress)

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """The mechanism in numbers, as `leastnoise plan --json` prints it."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {shortened(self.domain.names)}; {self.cost}>"

    def _repr_html_(self) -> str:
        """What notebooks show: its text, which is short. All of it is escaped."""
        return f"<pre>{escape(str(self))}</pre>"


def shortened(names: Sequence[str], most: int = 6) -> str:
    """Names, of which the first few stand for many.

    >>> shortened("abcdefgh")
    'a, b, c, d, e, f and 2 more'
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def run_once(
    mechanism: Mechanism[Published],
    data: Any,
    *,
    ledger: Ledger | str | Path | None = None,
    dataset: str | None = None,
    note: str = "",
    who: str = "",
    out: str | Path | None = None,
    tables: Format | None = None,
    overwrite: bool = False,
    rules: AnyRules | None = None,
    unit: PrivacyUnit | Mapping[str, Any] | None = None,
    table: str | None = None,
    memory: str | None = None,
    file: AnyFormat = None,
    random_source: RandomSource | None = None,
    progress: Progress | None = None,
    publication: Publication | Mapping[str, Any] | None = None,
) -> Published:
    """Check, debit, measure, save, in this order: the one way from data to a release.

    Whatever can fail without a look at the data fails first: names, types, a bad folder, a full disk, too small a
    budget. Then the ledger takes down that a run is about to look (docs/privacy.md, What an aborted run reveals).
    With a ledger, the exact cost is debited before the first number is drawn. With `out`, the release is also saved
    to that new folder, and only then marked as finished in the ledger.

    Guarantees: nothing_is_spent_on_bad_input; debit_comes_first; room_is_made_before_the_debit.
    """
    domain, cost, progress = mechanism.domain, mechanism.cost, shown(progress)
    words = Publication.of(publication)
    mechanism.check()
    read_questions(domain, mechanism.method, words)
    if tables is not None:
        _check_tables(tables, out, domain.names)
    random_source = BoundRandomSource(random_source or SecureRandomSource())
    book = ledger if isinstance(ledger, Ledger) or ledger is None else Ledger.open(ledger)
    identity = None
    with nullcontext() if out is None else folders.drafted(Path(out), overwrite) as folder:
        if folder is not None:
            _make_room(mechanism.room(tables is not None), folder)
        prepared = mechanism.prepare(data, rules=rules, unit=unit, name=dataset, table=table, memory=memory, file=file)
        check_promise(cost.neighbours, prepared, mechanism.keeps_size)
        name = dataset or prepared.name
        # without a unit, that nobody has more rows than promised is the caller's word
        assumed = cost.neighbours.rows_per_person is not None and prepared.rows_per_person is None
        mark = _fingerprint(mechanism, rules, unit, file)
        counting = mechanism.counted_by(data, rules, unit)
        mechanism.check_counting(counting)
        with _paying(book, cost, mark, name, (note, who), random_source.insecure, prepared) as pay:
            if progress is not None:
                progress(0, 0, "counting")
            counts = Counts(prepared.open(), domain)
            mechanism.look(counts)
            entry, stopped = pay()
            run = Run(stopped_runs=stopped, rows_assumed=assumed, person=prepared.person, counting=counting)
            release = mechanism.measure(counts, random_source, progress)
            release = release.recorded(name, None if entry is None else entry.id, run, words)
        if folder is not None:
            identity = export.fill(release, folder, tables)
    if book is not None and entry is not None and identity is not None:
        book.finish(entry, identity)
    return release


def _fingerprint(
    mechanism: Mechanism[Published],
    rules: AnyRules | None,
    unit: PrivacyUnit | Mapping[str, Any] | None,
    file: AnyFormat = None,
) -> str:
    """What decides what is measured; of exact counts also how they are counted, as they have no noise to hide it."""
    if not mechanism.keeps_size:
        return mechanism.fingerprint
    how = (codings(mechanism.domain, rules), unit and vars(as_part(PrivacyUnit, unit, "the fields of the unit")))
    counted = repr(how if file is None else (*how, file))
    return f"{mechanism.fingerprint}{COUNTED}{sha256(counted.encode(errors='surrogatepass')).hexdigest()}"


def counting_of(domain: Domain, rules: AnyRules | None, unit: PrivacyUnit | Mapping[str, Any] | None) -> Counting:
    """By which rules rows are counted, as a release keeps it."""
    whose = {} if unit is None else {"missing": "error"} | dict(unit if isinstance(unit, Mapping) else vars(unit))
    return Counting(
        rules=[
            RowRule(attribute=name, column=r.column or name, outside=str(r.outside), missing=str(r.missing))
            for name, r in rules_of(domain, rules).items()
            if not isinstance(domain[name].values, Square)  # touched as its amount is
        ],
        max_rows=None if unit is None else int(whose["max_rows"]),
        ids=whose.get("missing"),
        impossible=domain.restrictions.rows if domain.restrictions.impossible else None,
        one_per=list(checked_one_per(whose.get("one_per") or (), int(whose.get("max_rows", 1)), "max_rows")) or None,
    )


@contextmanager
def _paying(
    book: Ledger | None,
    cost: Cost,
    fingerprint: str,
    name: str | None,
    words: tuple[str, str],
    insecure: bool,
    data: Prepared,
) -> Iterator[Callable[[], tuple[Entry | None, int | None]]]:
    """Take down an attempt before data is opened, which is completed where nothing stops it, and a way to debit."""
    if book is None:
        yield lambda: (None, None)
        return
    attempt = book.attempt(
        cost, fingerprint, dataset=name, insecure=insecure, person=data.person, stopping_columns=data.stopping_columns
    )
    try:
        book.claim(data.places)
    except LeastnoiseError:
        book.complete(attempt)  # no data was looked at
        raise

    def pay() -> tuple[Entry, int]:
        note, who = words
        try:
            entry = book.debit(cost, fingerprint, note=note, dataset=name, insecure=insecure, who=who)
        except BudgetError:  # others were faster, which the data has no part in
            book.complete(attempt)
            raise
        return entry, attempt.stopped

    yield pay
    book.complete(attempt)


def _check_tables(tables: Format, out: str | Path | None, names: tuple[str, ...]) -> None:
    export.checked_format(tables)
    check_names(names)
    if out is None:
        raise LeastnoiseError("tables are saved with the release; give out, the folder for both")


def _make_room(need: int, folder: Path) -> None:
    """Fail now if the release will not fit the disk: after the debit, a full disk wastes budget."""
    try:
        reserve(folder, need)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise LeastnoiseError(
            f"there is no room for {need:,} bytes in {folder.parent} ({why}); nothing was spent, choose another folder"
        ) from None
