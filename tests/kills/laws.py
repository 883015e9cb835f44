"""What must hold after a kill, whenever it came: nothing is undercounted, nothing is half published."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import leastnoise as ln
from leastnoise.errors import LeastnoiseError
from leastnoise.release.files.folders import HEADER
from tests.kills.books import Books
from tests.kills.watch import LEDGER_STEPS


class Violation(Exception):
    """A law that does not hold; `law` is its name."""

    def __init__(self, law: str, detail: object) -> None:
        super().__init__(f"{law}: {detail}")
        self.law = law


def hold(law: str, holds: bool, detail: object = "") -> None:
    """Raise where a law does not hold."""
    if not holds:
        raise Violation(law, detail)


@dataclass(frozen=True)
class Seen:
    """What a process reported before its end."""

    lines: tuple[str, ...]

    def count(self, line: str) -> int:
        """How often a line was reported."""
        return self.lines.count(line)

    def cut_off(self, event: str) -> bool:
        """Whether the process ended in the middle of an event."""
        return self.count(f"{event}?") > self.count(event)

    @property
    def stage(self) -> str:
        """How far it came with the ledger."""
        return next((line for line in reversed(self.lines) if line.removesuffix("?") in LEDGER_STEPS), "start")

    @property
    def point(self) -> str | None:
        """The call at which it ended, where that is known."""
        return self.lines[-1].removeprefix("point ") if self.lines[-1].startswith("point ") else None

    @property
    def calls(self) -> list[str]:
        """The points that a process passed which came to its end."""
        return self.lines[-1].removeprefix("calls ").split("|")

    @property
    def returned(self) -> bool:
        """Whether the caller got the release."""
        return "returned" in self.lines

    @property
    def answers(self) -> dict[int, str]:
        """Answers of a stream that the caller got, by step; two for one step are a violation."""
        answers: dict[int, str] = {}
        for line in self.lines:
            if line.startswith("answer "):
                _, step, value = line.split()
                same_answer(answers, int(step), value)
                answers[int(step)] = value
        return answers


def same_answer(answers: dict[int, str], step: int, value: str) -> None:
    """A step that was answered has this answer forever."""
    hold("an answer stays", answers.get(step, value) == value, f"step {step}")


def books_of(path: Path, before: Books, cost: Fraction, seen: Seen) -> tuple[Books, Books]:
    """All rows of a ledger after a kill, and those that are new; the laws of ledgers hold for them."""
    book = opened(path)
    after = Books.of(path)
    try:
        new = after.since(before)
    except ValueError as error:
        raise Violation("a ledger only grows", error) from None
    spent = book.spent
    hold("sums are exact", after.spent == spent.mu_squared and book.left == book.left_after(spent))
    if not spent.added_delta:  # beside one, less than the total fits
        hold("sums are exact", after.spent + book.left.mu_squared == book.total_cost.mu_squared)
    hold("debits are whole", all(Fraction(str(row[3])) == cost for row in new.debit), new.debit)
    for step in LEDGER_STEPS:
        written = len(getattr(new, step))
        bounds = seen.count(step), seen.count(f"{step}?")
        hold("the ledger has what was acknowledged", bounds[0] <= written <= bounds[1], f"{step}: {written} {bounds}")
    hold("stopped runs are counted", book.stopped == after.stopped, (book.stopped, after.stopped))
    return after, new


def opened(path: Path) -> ln.Ledger:
    """The ledger, which opens whatever happened."""
    try:
        return ln.Ledger.open(path)
    except LeastnoiseError as error:
        raise Violation("the ledger opens", error) from None


def run_is_paid(before: Books, after: Books, new: Books, seen: Seen) -> None:
    """A run that may have drawn noise has its debit; one that may have looked at data is taken down until its end."""
    hold("noise is paid for", not seen.count("noise?") or len(new.debit) == 1, new.debit)
    hold("looks are taken down", not seen.count("look?") or len(new.attempt) == 1, new.attempt)
    stopped = after.stopped - before.stopped
    if seen.cut_off("look") or seen.cut_off("noise"):
        hold("a run that was cut off counts as stopped", stopped == 1, stopped)
    if seen.count("complete"):
        hold("a run that came to its end does not count as stopped", stopped == 0, stopped)


@dataclass(frozen=True)
class Published:
    """A release as it lies on disk."""

    release: Any
    id: str
    entries: tuple[int, ...]  # of the ledger
    rounded: bool  # whether it may have cost a little less than was debited: nobody knows before what is measured


def published(path: Path) -> Published:
    """The release of a folder, which is whole: all its files have their checksums."""
    try:
        release = ln.load(path)
    except LeastnoiseError as error:
        raise Violation("never half a release", error) from None
    header = json.loads((path / HEADER).read_text())
    parts = header.get("parts", [header])
    entries = tuple(part["ledger_entry"] for part in parts)
    return Published(release, header["id"], entries, any(part.get("adaptive") for part in parts))


def is_paid(published: Published, after: Books) -> None:
    """The entries that a release names cost what it cost, and name it or nothing."""
    costs = {row[0]: Fraction(str(row[3])) for row in after.debit}
    hold("a release names its debits", set(published.entries) <= set(costs), published.entries)
    paid = sum((costs[entry] for entry in published.entries), start=Fraction(0))
    cost = published.release.cost.mu_squared
    hold("a release is paid in full", cost == paid or (published.rounded and 0 < cost < paid), (cost, paid))


def finished_is_published(new: Books, published: Published | None) -> None:
    """An entry that names a release does so after the release was there."""
    for entry, _, identity in new.finish:
        there = published is not None and published.id == identity and entry in published.entries
        hold("what is marked as finished is there", there, (entry, identity))


def hidden_does_not_load(folder: Path, known: set[Path]) -> None:
    """What a kill left under a hidden name is taken for no release."""
    for path in set(folder.glob(".*")) - known:
        if path.is_dir():
            try:
                ln.load(path)
            except LeastnoiseError:
                continue
            raise Violation("hidden folders do not load", path.name)
