"""Kinds of releases with a ledger: how they are made, and what their folders must be after a kill."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import leastnoise as ln
from leastnoise.privacy import Budget, Cost, Ledger
from tests.kills import laws
from tests.kills.books import Books
from tests.kills.laws import Published, Seen, hold
from tests.kills.watch import Tell, Watched

SMALL, LARGE = Budget(rho=0.001), Budget(rho=1)
DOMAIN = ln.Domain.of(a=range(4), b=["x", "y"], c=range(3))
DATA = Watched(DOMAIN, np.arange(DOMAIN.size).reshape(DOMAIN.shape), "people")
COUNTS = [3, 0, 12, 7, 1, 0]


@dataclass
class Site:
    """A folder in which one trial after the other is killed, beside what those before have left behind."""

    folder: Path
    ledger: Path
    known: set[Path] = field(default_factory=set)  # hidden leftovers that were looked at
    old: str | None = None  # the release that is to be replaced
    steps: dict[int, str] = field(default_factory=dict)  # answers of a stream that somebody has seen
    counter: int = 0

    @property
    def out(self) -> Path:
        """Where releases go."""
        return self.folder / "out"

    @property
    def stream(self) -> Path:
        """The stream that trials go on with."""
        return self.folder / f"stream{self.counter}"


class Kind:
    """One kind of release, run and checked in trials."""

    @property
    def cost(self) -> Cost:
        """Of a debit."""
        raise NotImplementedError

    @property
    def total(self) -> Budget:
        """Room for many trials."""
        return Budget(rho=1, neighbours=self.cost.neighbours)

    def open_site(self, folder: Path) -> Site:
        """A new folder with a ledger that has room for many trials."""
        folder.mkdir()
        total = self.total
        return Site(folder, Ledger.create(folder / "people.ledger", total, "people", attempts=1000).path)

    def prepare(self, site: Site) -> None:
        """What must be there before a trial; nobody is killed here."""

    def act(self, site: Site, tell: Tell) -> None:
        """What is killed."""
        raise NotImplementedError

    def check(self, site: Site, before: Books, seen: Seen) -> None:
        """The laws, and a clean table for the next trial."""
        after, new = laws.books_of(site.ledger, before, self.cost.mu_squared, seen)
        laws.hidden_does_not_load(site.folder, site.known)
        site.known |= set(site.folder.glob(".*"))
        self.settle(site, before, after, new, seen)

    def settle(self, site: Site, before: Books, after: Books, new: Books, seen: Seen) -> None:
        """The laws of this kind."""
        raise NotImplementedError


@dataclass(frozen=True)
class Run(Kind):
    """Anything with `run`: looks at data once, and is paid for before."""

    made: Any
    data: Any = DATA
    options: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def cost(self) -> Cost:
        if isinstance(self.made, ln.Plan):
            return self.made.integer_plan.cost
        return self.made.cost if hasattr(self.made, "cost") else self.made.budget.cost_value

    def act(self, site: Site, tell: Tell) -> None:
        self.made.run(self.data, ledger=site.ledger, out=site.out, **self.options)

    def settle(self, site: Site, before: Books, after: Books, new: Books, seen: Seen) -> None:
        laws.run_is_paid(before, after, new, seen)
        published = self.found(site, after, new, seen)
        if published is not None:
            hold("a release is of the run that wrote it", published.entries == (len(after.debit),), published.entries)
            shutil.rmtree(site.out)

    def found(self, site: Site, after: Books, new: Books, seen: Seen) -> Published | None:
        """The release that is there, which is whole and paid for."""
        published = laws.published(site.out) if site.out.exists() else None
        laws.finished_is_published(new, published)
        hold("what was returned is there", not seen.returned or (published is not None and len(new.finish) == 1))
        if published is not None:
            laws.is_paid(published, after)
        return published


@dataclass(frozen=True)
class KeyRun(Run):
    """A run whose cost has an added delta."""

    @property
    def total(self) -> Budget:
        return Budget(epsilon=9, delta=1e-6, neighbours=self.cost.neighbours)


@dataclass(frozen=True)
class Overwrite(Run):
    """A run that replaces a release: at every moment the old or the new one is there, whole."""

    def prepare(self, site: Site) -> None:
        if site.old is None:
            self.made.run(self.data, ledger=site.ledger, out=site.out)
            site.old = laws.published(site.out).id

    def act(self, site: Site, tell: Tell) -> None:
        self.made.run(self.data, ledger=site.ledger, out=site.out, overwrite=True)

    def settle(self, site: Site, before: Books, after: Books, new: Books, seen: Seen) -> None:
        laws.run_is_paid(before, after, new, seen)
        hold("the old or the new release is there", site.out.exists(), "neither")
        published = self.found(site, after, new, seen)
        assert published is not None
        replaced = bool(new.debit) and published.entries == (len(after.debit),)
        hold("the old or the new release is there", replaced or published.id == site.old, published.entries)
        hold("what was returned is there", replaced or not seen.returned)
        site.old = published.id


@dataclass(frozen=True)
class Merge(Kind):
    """Two releases as one: a ledger has no part in it."""

    made: Any

    @cached_property
    def cost(self) -> Cost:
        return self.made.integer_plan.cost

    def prepare(self, site: Site) -> None:
        if not (site.folder / "two").exists():
            for name in ("one", "two"):
                self.made.run(DATA, ledger=site.ledger, out=site.folder / name)

    def act(self, site: Site, tell: Tell) -> None:
        ln.merge(*(ln.Release.load(site.folder / name) for name in ("one", "two"))).save(site.out)

    def settle(self, site: Site, before: Books, after: Books, new: Books, seen: Seen) -> None:
        hold("reading spends nothing", after == before)
        hold("what was returned is there", site.out.exists() or not seen.returned)
        if site.out.exists():
            published = laws.published(site.out)
            laws.is_paid(published, after)
            hold("a merged release has all debits", len(set(published.entries)) == 2, published.entries)
            shutil.rmtree(site.out)


@dataclass(frozen=True)
class RaiseTotal(Kind):
    """A raise is in the ledger, whole and with its reason, or it is not; what was returned is."""

    @property
    def cost(self) -> Cost:
        return SMALL.cost_value

    def prepare(self, site: Site) -> None:
        site.counter = len(Ledger.open(site.ledger).raises())

    def act(self, site: Site, tell: Tell) -> None:
        book = Ledger.open(site.ledger)
        book.raise_total(Budget(rho=book.total.rho + 1), "a second wave", who="ann")

    def settle(self, site: Site, before: Books, after: Books, new: Books, seen: Seen) -> None:
        book = laws.opened(site.ledger)
        raises = book.raises()
        added = len(raises) - site.counter
        hold("a raise is there or not", added in (0, 1))
        hold("what was returned is there", added == 1 or not seen.returned)
        hold("a ledger has its last total", book.total == (raises[-1].total if raises else LARGE))
        hold("a raise has its reason", all((item.reason, item.who) == ("a second wave", "ann") for item in raises))


class NewLedger(Kind):
    """A ledger that is being made is there with its total, or not at all; then it can be made again."""

    @property
    def cost(self) -> Cost:
        return SMALL.cost_value

    def act(self, site: Site, tell: Tell) -> None:
        Ledger.create(site.out, LARGE, "people", attempts=7)

    def settle(self, site: Site, before: Books, after: Books, new: Books, seen: Seen) -> None:
        hold("what was returned is there", site.out.exists() or not seen.returned)
        if not site.out.exists():
            Ledger.create(site.out, LARGE, "people", attempts=7)
        book = laws.opened(site.out)
        hold("a new ledger has its total", (book.left, book.attempts, book.dataset) == (LARGE.cost_value, 7, "people"))
        site.out.unlink()
