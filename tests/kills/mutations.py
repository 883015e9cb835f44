"""Releases that are broken on purpose, in the forked process alone: the laws must catch each of them.

A sync that is missing or comes too late is not among them: a killed process loses nothing that it has written.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from leastnoise.mechanisms.stream.journal import Journal, Step
from leastnoise.privacy import Cost, Ledger
from leastnoise.privacy.ledger_entries import Entry
from leastnoise.release.files import folders
from leastnoise.storage import files
from tests.kills.catalogue import kinds
from tests.kills.kinds import Kind
from tests.kills.trial import forked, trial
from tests.kills.watch import patched

MOST = 60  # trials in which a mutation must be caught
Pay = Callable[[], tuple[Entry | None, int]]
Words = tuple[str, str]  # the note, and who runs it


def _pay_by(paying: Callable[..., Iterator[Pay]]) -> None:
    """Replace the way in which a run is paid for."""
    run: Any = import_module("leastnoise.mechanisms.mechanism")
    run._paying = contextmanager(paying)


def debit_after_the_noise() -> None:
    """The run is measured first, and paid for when that has worked."""

    def paying(book: Ledger, cost: Cost, mark: str, name: str, words: Words, insecure: bool, _: Any) -> Iterator[Pay]:
        attempt = book.attempt(cost, mark, dataset=name, insecure=insecure)
        entry = Entry(len(book.entries()) + 1, "", mark, cost, words[0])
        yield lambda: (entry, attempt.stopped)
        written = book.debit(cost, mark, note=words[0], dataset=name, insecure=insecure)
        object.__setattr__(entry, "time", written.time)
        book.complete(attempt)

    _pay_by(paying)


def no_attempt() -> None:
    """The run looks at data, and no ledger knows."""

    def paying(book: Ledger, cost: Cost, mark: str, name: str, words: Words, insecure: bool, _: Any) -> Iterator[Pay]:
        def pay() -> tuple[Entry, int]:
            entry = book.debit(cost, mark, note=words[0], dataset=name, insecure=insecure)
            return entry, 0

        yield pay

    _pay_by(paying)


def completed_at_once() -> None:
    """The run counts as come to its end before it looks."""

    def paying(book: Ledger, cost: Cost, mark: str, name: str, words: Words, insecure: bool, _: Any) -> Iterator[Pay]:
        attempt = book.attempt(cost, mark, dataset=name, insecure=insecure)
        book.complete(attempt)

        def pay() -> tuple[Entry, int]:
            entry = book.debit(cost, mark, note=words[0], dataset=name, insecure=insecure)
            return entry, attempt.stopped

        yield pay

    _pay_by(paying)


def half_a_debit() -> None:
    """The ledger is charged half of what is spent."""

    def debit(old: Callable[..., Entry], book: Ledger, cost: Any, *given: Any, **named: Any) -> Entry:
        return old(book, replace(cost, mu_squared=cost.mu_squared / 2), *given, **named)

    patched(Ledger, "debit", debit)


def finished_before_it_is_written() -> None:
    """The entry names a release that is not there yet."""

    def paying(book: Ledger, cost: Cost, mark: str, name: str, words: Words, insecure: bool, _: Any) -> Iterator[Pay]:
        attempt = book.attempt(cost, mark, dataset=name, insecure=insecure)
        entry = book.debit(cost, mark, note=words[0], dataset=name, insecure=insecure)
        yield lambda: (None, attempt.stopped)  # so that it is not finished again
        book.complete(attempt)
        book.finish(entry, "0123456789abcdef")

    _pay_by(paying)


def written_in_place() -> None:
    """The folder has its name while it is written."""

    @contextmanager
    def drafted(path: Path, overwrite: bool = False) -> Iterator[Path]:
        path.mkdir()
        yield path

    folders.drafted = drafted


def replaced_in_two_steps() -> None:
    """The old release steps aside before the new one takes its name."""
    files.exchange = lambda one, other: False


def ledger_made_in_two_steps() -> None:
    """The name of a new ledger is taken before the ledger is there."""
    files.rename_to_free = lambda old, new: False


def answered_before_it_is_written() -> None:
    """A step of a stream is written when the next one comes."""
    late: list[tuple[int, Step]] = []

    def append(old: Callable[..., None], journal: Journal, *step: Any) -> None:
        if late:
            old(journal, *late.pop())
        late.append(step)

    patched(Journal, "append", append)


def drawn_again_when_it_is_loaded() -> None:
    """A stream forgets its last step, which is then answered with other noise."""
    patched(Journal, "_read", lambda old, journal, content: old(journal, b"".join(content.splitlines(True)[:-1])))


@dataclass(frozen=True)
class Mutation:
    """A defect, the kind of release that has it, the calls near which it shows, and how the law it violates begins."""

    break_it: Callable[[], None]
    kind: str
    near: str
    law: str


MUTATIONS = (
    Mutation(debit_after_the_noise, "plan", "words", "noise is paid for"),
    Mutation(debit_after_the_noise, "aim", "words", "noise is paid for"),
    Mutation(debit_after_the_noise, "cascade", "words", "noise is paid for"),
    Mutation(no_attempt, "matrix", "looked", "looks are taken down"),
    Mutation(completed_at_once, "survey", "words", "a run that was cut off counts as stopped"),
    Mutation(half_a_debit, "cascade with exact counts", "savez", "debits are whole"),
    Mutation(finished_before_it_is_written, "plan with tables", "savez", "what is marked as finished is there"),
    Mutation(written_in_place, "plan", "_put", "never half a release"),
    Mutation(written_in_place, "stream", "savez", "a stream goes on"),
    Mutation(replaced_in_two_steps, "overwrite", "rename", "the old or the new release is there"),
    Mutation(ledger_made_in_two_steps, "new ledger", "replace", "the ledger opens"),
    Mutation(answered_before_it_is_written, "stream steps", "words", "an answer that was seen is on disk"),
    Mutation(drawn_again_when_it_is_loaded, "stream steps", "", "an answer"),  # is on disk, or stays: as kills come
)


def hunt(mutation: Mutation, kind: Kind, folder: Path) -> str | None:
    """The law that was violated first, in trials near the calls where the defect shows, in a random order."""
    site = kind.open_site(folder / "unharmed")
    kind.prepare(site)
    calls = forked(kind, site, "call", 0, mutation.break_it).seen.calls
    places = [n for n, call in enumerate(calls, 1) if mutation.near in call]
    random.Random(mutation.kind).shuffle(places)
    site = kind.open_site(folder / "killed")
    for place in places[:MOST]:
        outcome = trial(mutation.kind, kind, site, "call", place, mutation.break_it)
        if outcome.violation is not None:
            return outcome.violation
    return None


def hunt_all(folder: Path) -> list[str | None]:
    """The violated law of each mutation."""
    all_kinds, result = kinds(), []
    for number, mutation in enumerate(MUTATIONS):
        (folder / str(number)).mkdir()
        result.append(hunt(mutation, all_kinds[mutation.kind], folder / str(number)))
    return result
