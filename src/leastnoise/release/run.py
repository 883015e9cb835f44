"""Run a plan: check, debit, measure, and only then publish."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar, Unpack

from leastnoise.domain import Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.gate import Counts, check_promise
from leastnoise.measure import Measurements, Progress, measure
from leastnoise.noise import Bits, BoundBits, SecureBits
from leastnoise.plan.options import Options
from leastnoise.plan.plan import Plan
from leastnoise.plan.recipe import Recipe
from leastnoise.plan.recipe_store import fingerprint, recipe_data
from leastnoise.privacy.budget import Budget
from leastnoise.privacy.cost import Cost
from leastnoise.privacy.ledger import COUNTED, BudgetError, Entry, Ledger
from leastnoise.release import export, folders
from leastnoise.release.frames import check_names
from leastnoise.release.release import Release
from leastnoise.release.rounds import Adaptivity
from leastnoise.release.statement import Origin, Run, Summary
from leastnoise.sources.convert import Prepared, prepare
from leastnoise.sources.rules import AnyRules, Unit
from leastnoise.workload import Workload
from leastnoise.workload.rules import as_part, codings

Made = TypeVar("Made")
CELL_BYTES, FILE_BYTES = 100, 1 << 14  # that a row of a table and a file need on disk, rather too much


@dataclass(frozen=True, eq=False)
class Job:
    """What is to be done with data: what it costs at most, what it leaves behind, and how it is carried out."""

    workload: Workload
    budget: Budget
    cost: Cost  # debited before anything is drawn
    fingerprint: str  # of all that decides what is measured
    room: Callable[[bool], int]  # bytes it will need, without or with tables
    carry_out: Callable[[Counts, Bits, Progress | None], tuple[Measurements, Adaptivity | None]]
    plan: Plan | None = None


def run(plan: Plan, data: Any, **options: Any) -> Release:
    """Measure data once by a plan; the options are those of `conduct`."""
    recipe = plan.recipe

    def carry_out(counts: Counts, bits: Bits, progress: Progress | None) -> tuple[Measurements, None]:
        return measure(recipe, counts, bits, progress), None

    def room(tables: bool) -> int:
        return _room(recipe, tables)

    job = Job(plan.workload, plan.budget, recipe.cost, fingerprint(recipe), room, carry_out, plan)
    return conduct(job, data, **options)


def conduct(job: Job, data: Any, *, tables: export.Format | None = None, **options: Unpack[Options]) -> Release:
    """Measure data once. With a ledger, the exact cost is debited before the first number is drawn.

    With `out`, the release is also saved to that new folder, and only then marked as finished in the ledger.

    Guarantees: nothing_is_spent_on_bad_input; debit_comes_first; room_is_made_before_the_debit.
    """
    domain, out, progress = job.workload.domain, options.get("out"), options.get("progress")
    if tables is not None:
        _check_tables(tables, out, domain.names)
    planned = job.plan if out is None or job.plan is None else Summary.of(job.plan)  # before anything is spent

    def carry_out(counts: Counts, bits: Bits, name: str | None, debit: Debit) -> Release:
        measured, adaptive = job.carry_out(counts, bits, progress)
        origin = Origin(ledger_entry=debit.entry, run=debit.run, plan=planned, adaptive=adaptive)
        return Release((measured,), name, (origin,))

    def fill(release: Release, folder: Path) -> str:
        return export.fill(release, folder, tables)

    task = Task(domain, job.cost, job.fingerprint, partial(job.room, tables is not None), carry_out, fill)
    return spend(task, data, **options)


class Debit(NamedTuple):
    """How a run was paid for: the entry in its ledger, and what its cost does not tell."""

    entry: int | None
    run: Run


@dataclass(frozen=True, eq=False)
class Task(Generic[Made]):
    """What touches data once, whatever comes of it: its cost, how it is carried out, and how that is saved."""

    domain: Domain
    cost: Cost  # debited before anything is drawn
    fingerprint: str
    room: Callable[[], int]  # bytes it will need
    carry_out: Callable[[Counts, Bits, str | None, Debit], Made]  # with the name of the dataset
    fill: Callable[[Made, Path], str]  # write into an empty folder; returns the id
    keeps_size: bool = False  # what it publishes exactly holds the number of rows, whichever are dropped


def spend(
    task: Task[Made],
    data: Any,
    *,
    ledger: Ledger | str | Path | None = None,
    dataset: str | None = None,
    note: str = "",
    out: str | Path | None = None,
    overwrite: bool = False,
    rules: AnyRules | None = None,
    unit: Unit | Mapping[str, Any] | None = None,
    table: str | None = None,
    memory: str | None = None,
    bits: Bits | None = None,
    progress: Progress | None = None,
) -> Made:
    """Check, debit, carry out, save, in this order: the one way from data to a release.

    Whatever can fail without a look at the data fails first: names, types, a bad folder, a full disk, too small a
    budget. Then the ledger takes down that a run is about to look (docs/privacy.md, What an aborted run can tell).
    """
    bits = BoundBits(bits or SecureBits())
    book = ledger if isinstance(ledger, Ledger) or ledger is None else Ledger.open(ledger)
    identity = None
    with nullcontext() if out is None else folders.drafted(Path(out), overwrite) as folder:
        if folder is not None:
            _make_room(task.room(), folder)
        prepared = prepare(data, task.domain, rules=rules, unit=unit, name=dataset, table=table, memory=memory)
        check_promise(task.cost.neighbours, prepared, task.keeps_size)
        name = dataset or prepared.name
        # without a unit, that nobody has more rows than promised is the caller's word
        assumed = task.cost.neighbours.rows_per_person is not None and prepared.rows_per_person is None
        mark = _fingerprint(task, rules, unit)
        with _paying(book, task.cost, mark, name, note, bits.insecure, prepared) as pay:
            if progress is not None:
                progress(0, 0, "counting")
            counts = Counts(prepared.open(), task.domain)
            _ = counts.total  # a source that cannot count fails here
            entry, stopped = pay()
            run = Run(stopped_runs=stopped, rows_assumed=assumed, person=prepared.person)
            made = task.carry_out(counts, bits, name, Debit(None if entry is None else entry.id, run))
        if folder is not None:
            identity = task.fill(made, folder)
    if book is not None and entry is not None and identity is not None:
        book.finish(entry, identity)
    return made


def _fingerprint(task: Task[Made], rules: AnyRules | None, unit: Unit | Mapping[str, Any] | None) -> str:
    """What decides what is measured; of exact counts also how they are counted, as they have no noise to hide it."""
    if not task.keeps_size:
        return task.fingerprint
    counted = repr((codings(task.domain, rules), unit and vars(as_part(Unit, unit, "the fields of the unit"))))
    return f"{task.fingerprint}{COUNTED}{sha256(counted.encode(errors='surrogatepass')).hexdigest()}"


@contextmanager
def _paying(
    book: Ledger | None,
    cost: Cost,
    fingerprint: str,
    name: str | None,
    note: str,
    insecure: bool,
    data: Prepared,
) -> Iterator[Callable[[], tuple[Entry | None, int | None]]]:
    """Take down an attempt before data is opened, which is completed where nothing stops it, and a way to debit."""
    if book is None:
        yield lambda: (None, None)
        return
    attempt = book.attempt(cost, fingerprint, dataset=name, insecure=insecure, person=data.person, asks=data.asks)

    def pay() -> tuple[Entry, int]:
        try:
            entry = book.debit(cost, fingerprint, note=note, dataset=name, insecure=insecure)
        except BudgetError:  # others were faster, which the data has no part in
            book.complete(attempt)
            raise
        return entry, attempt.stopped

    yield pay
    book.complete(attempt)


def _check_tables(tables: export.Format, out: str | Path | None, names: tuple[str, ...]) -> None:
    export.checked_format(tables)
    check_names(names)
    if out is None:
        raise LeastnoiseError("tables are saved with the release; give out, the folder for both")


def _room(recipe: Recipe, tables: bool) -> int:
    """Bytes that the release of a recipe needs on disk."""
    structure, (_, arrays) = recipe.structure, recipe_data(recipe)
    answers = sum(
        members * prod(probe.strategy.answers)
        for members, probes in zip(structure.members, recipe.probes, strict=True)
        for probe in probes
    )
    need = 8 * answers + sum(array.nbytes for array in arrays.values()) + FILE_BYTES
    if tables:
        for members, orbit in zip(structure.members, structure.orbits, strict=True):
            need += members * (FILE_BYTES + CELL_BYTES * prod(structure.shape(orbit)))
    return need


def _make_room(need: int, folder: Path) -> None:
    """Fail now if the release will not fit the disk: after the debit, a full disk wastes budget."""
    room = folder / "room"
    if not hasattr(os, "posix_fallocate"):  # macOS
        return
    try:
        with room.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, need)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise LeastnoiseError(
            f"there is no room for {need:,} bytes in {folder.parent} ({why}); nothing was spent, choose another folder"
        ) from None
    finally:
        room.unlink(missing_ok=True)


Plan.runner = staticmethod(run)
