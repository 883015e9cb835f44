"""The ledger: what may be spent on a dataset, what was spent, and the refusal to spend more."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

from leastnoise.errors import LeastnoiseError
from leastnoise.privacy import gaussian, units
from leastnoise.privacy.budget import Budget, set_aside
from leastnoise.privacy.cost import Cost, float_down, fraction_text, read_fraction
from leastnoise.privacy.known_ledgers import claim
from leastnoise.privacy.ledger_entries import Attempt, Entry, Raise
from leastnoise.privacy.ledger_file import ATTEMPTS, LedgerFile, damaged
from leastnoise.privacy.neighbours import Neighbours

TIMEOUT = 30.0  # seconds to wait for other processes
MOST_ATTEMPTS = 1000
COUNTED = ":"  # in the fingerprint of exact counts: what follows says how they were counted
_LONGEST = 1000  # characters of a note


class BudgetError(LeastnoiseError):
    """A release that the ledger refuses; nothing was spent."""


@dataclass(frozen=True)
class Ledger:
    """The budget of one dataset and every debit from it, in one file.

    A debit is decided and written in one transaction and is on disk when `debit` returns, before any noise is drawn. A
    crash can waste budget, never overspend it. Entries are never changed or refunded (docs/ledger.md).

    Finding keys adds to delta. How much of it that may be is fixed before the first release: `keys_delta`, or what the
    first release sets aside if it finds keys (docs/privacy.md, Unknown keys).

    A run begins with `attempt`, before it opens the data, and ends with `complete`. Runs that stop in between may have
    stopped because of the data, and further codings of a column that could stop one reveal as much; `attempts`
    bounds both.

    Guarantees: many_debits_of_several_processes_fill_the_budget_exactly; two_processes_cannot_overspend;
    survives_being_killed; sums_are_exact.
    """

    path: Path
    dataset: str
    total: Budget
    total_cost: Cost
    attempts: int = ATTEMPTS
    timeout: float = TIMEOUT
    keys_delta: Fraction | None = None

    @classmethod
    def create(
        cls,
        path: str | Path,
        total: Budget,
        dataset: str,
        *,
        attempts: int = ATTEMPTS,
        timeout: float = TIMEOUT,
        keys_delta: float | Fraction | None = None,
        another: bool = False,
    ) -> "Ledger":
        """Make a new ledger; refuses a file that exists. `another` may be used on data that has a ledger already."""
        if type(attempts) is not int or not 1 <= attempts <= MOST_ATTEMPTS:
            raise LeastnoiseError(f"attempts must be a whole number from 1 to {MOST_ATTEMPTS:,}, got {attempts!r}")
        file = LedgerFile(Path(path).absolute(), timeout)
        cost, aside = total.cost_value, None if keys_delta is None else total.keys_delta(keys_delta)
        texts = (_line("dataset", dataset), json.dumps(total.to_json()), fraction_text(cost.mu_squared))
        file.create(*texts, attempts, None if aside is None else fraction_text(aside), another)
        return cls(file.path, dataset, total, cost, attempts, timeout, aside)

    @classmethod
    def open(cls, path: str | Path, *, timeout: float = TIMEOUT) -> "Ledger":
        """Open a ledger and check that all of it can be read."""
        file = LedgerFile(Path(path).absolute(), timeout)
        with file.reading() as connection:
            (state,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if state != "ok":
                raise damaged(file.path, state)
            ledger = cls._head(file, connection)
            ledger._left(connection)
            return ledger

    @property
    def spent(self) -> Cost:
        """All debits together."""
        return self._sum(self.entries())

    @property
    def left(self) -> Cost:
        """What can still be spent, of a total that others may have raised meanwhile."""
        with self._file.reading() as connection:
            return self._head(self._file, connection)._left(connection)

    def entries(self) -> list[Entry]:
        """All debits, oldest first."""
        with self._file.reading() as connection:
            return list(self._entries(connection))

    @property
    def stopped(self) -> int:
        """Runs that looked at the data and did not come to their end, or not yet."""
        with self._file.reading() as connection:
            return _stopped(connection)

    @property
    def repeated_requests(self) -> int:
        """Codings that could stop a run, beyond the first of each column: that none did reveals something, too."""
        with self._file.reading() as connection:
            return _repeated_requests(connection)

    def attempt(
        self,
        cost: Cost,
        fingerprint: str,
        *,
        dataset: str | None = None,
        insecure: bool = False,
        person: str | None = None,
        stopping_columns: Sequence[tuple[str, str]] = (),
    ) -> Attempt:
        """Begin a run that would spend a cost, or raise `BudgetError`; call it before the data is opened.

        `person` is the column that distinguishes people, which is the same for all runs; `stopping_columns` has
        the columns whose values can stop the run, each with a digest of how it is coded.
        """
        cost = self._checked(cost, dataset, insecure)
        row = (_now(), _line("fingerprint", fingerprint))
        with self._file.writing() as connection:
            self._check_spendable(cost, connection)
            self._check_counting(fingerprint, connection)
            self._check_person(person, connection)
            for question in dict.fromkeys(stopping_columns):
                known = connection.execute("SELECT 1 FROM asked WHERE place = ? AND coding = ?", question).fetchone()
                if not known:
                    connection.execute("INSERT INTO asked (place, coding) VALUES (?, ?)", question)
            stopped, again = _stopped(connection), _repeated_requests(connection)
            if stopped + again >= self.attempts:  # which also takes back what was just asked
                raise BudgetError(self._used_up(stopped, again))
            connection.execute("INSERT INTO attempt (time, fingerprint) VALUES (?, ?)", row)
            (number,) = connection.execute("SELECT last_insert_rowid()").fetchone()
        return Attempt(number, fingerprint, stopped)

    def claim(self, places: Sequence[str]) -> None:
        """Note that data at these places spends from here, or raise `BudgetError` where it has spent from elsewhere."""
        with self._file.reading() as connection:
            known = connection.execute("SELECT token, another FROM identity").fetchone()
        if known is None:
            raise damaged(self.path, "it has no token")
        if (refusal := claim(places, known[0], self.path, another=known[1] == "yes")) is not None:
            raise BudgetError(refusal)

    def complete(self, attempt: Attempt) -> None:
        """Note that a run came to its end, or was stopped by something other than the data."""
        with self._file.writing() as connection:
            mark = (attempt.id, attempt.fingerprint)
            if not connection.execute("SELECT 1 FROM attempt WHERE id = ? AND fingerprint = ?", mark).fetchone():
                raise LeastnoiseError(f"attempt {attempt.id} is not one of the ledger {self.path}")
            connection.execute("INSERT INTO complete (id, time) VALUES (?, ?)", (attempt.id, _now()))

    def debit(
        self,
        cost: Cost,
        fingerprint: str,
        *,
        note: str = "",
        dataset: str | None = None,
        insecure: bool = False,
        who: str = "",
    ) -> Entry:
        """Spend a cost for the plan with this fingerprint, or raise `BudgetError`; call it before drawing noise.

        `who` is the name of whoever spends it, if that is to be kept.
        """
        cost, who = self._checked(cost, dataset, insecure), _line("who", who, empty=True)
        row = (
            _now(),
            _line("fingerprint", fingerprint),
            fraction_text(cost.mu_squared),
            _line("note", note, empty=True),
        )
        with self._file.writing() as connection:
            self._check_spendable(cost, connection)
            self._check_counting(fingerprint, connection)
            insert = "INSERT INTO debit (time, fingerprint, mu_squared, note) VALUES (?, ?, ?, ?)"
            connection.execute(insert, row)
            (number,) = connection.execute("SELECT last_insert_rowid()").fetchone()
            if who:
                connection.execute("INSERT INTO ran (id, who) VALUES (?, ?)", (number, who))
            if cost.added_delta:
                added = (number, fraction_text(cost.added_delta))
                connection.execute("INSERT INTO added (id, delta) VALUES (?, ?)", added)
        return Entry(number, row[0], fingerprint, cost, note, who=who)

    def finish(self, entry: Entry, release_id: str) -> Entry:
        """Note which release was written for a debit. It changes no cost, and can be done once."""
        row = (entry.id, _now(), _line("release_id", release_id))
        with self._file.writing() as connection:
            known = {old.id: old for old in self._entries(connection)}
            if entry.release is not None or entry != known.get(entry.id):
                raise LeastnoiseError(f"entry {entry.id} is not an open entry of the ledger {self.path}")
            connection.execute("INSERT INTO finish (id, time, release) VALUES (?, ?, ?)", row)
        return replace(entry, release=release_id)

    def raise_total(self, total: Budget, reason: str, *, who: str = "") -> "Ledger":
        """The same ledger with a larger total. What was spent stays; the raise and its reason are kept for ever.

        Guarantees: raises_are_kept; totals_are_never_lowered.
        """
        cost = total.cost_value
        if cost.neighbours != self.total_cost.neighbours:
            raise LeastnoiseError(
                f"this ledger is for {self.total_cost.change}, not for {cost.change}; its total can be raised, but not "
                "what it protects"
            )
        row = (_now(), json.dumps(total.to_json()), fraction_text(cost.mu_squared))
        words = (_line("reason", reason), _line("who", who, empty=True))
        with self._file.writing() as connection:
            self._check_same(connection)
            if cost <= self.total_cost:
                raise LeastnoiseError(
                    f"the total is {units.stated(self.total)} already; it can be raised, never lowered"
                )
            spent, larger = self._sum(self._entries(connection)), replace(self, total=total, total_cost=cost)
            if larger.left_after(spent) is None:
                raise LeastnoiseError(
                    f"{units.stated(total)} leaves no room for what was spent, with a delta of "
                    f"{float(spent.added_delta):.3g} added; raise it to an epsilon and a delta that do"
                )
            insert = "INSERT INTO raised (time, total, mu_squared, reason, who) VALUES (?, ?, ?, ?, ?)"
            connection.execute(insert, (*row, *words))
        return larger

    def raises(self) -> list[Raise]:
        """All raises of the total, oldest first."""
        with self._file.reading() as connection:
            rows = connection.execute("SELECT id, time, total, reason, who FROM raised ORDER BY id").fetchall()
        return [Raise(number, time, Budget.from_json(json.loads(text)), *words) for number, time, text, *words in rows]

    @property
    def first_total(self) -> Budget:
        """The total that the ledger was made with."""
        with self._file.reading() as connection:
            (text,) = connection.execute("SELECT total FROM ledger").fetchone()
        return Budget.from_json(json.loads(text))

    def measured(self, fingerprint: str) -> list[Entry]:
        """Releases of the plan with this fingerprint that were finished: to be used again, at no cost."""
        plans = ((entry, entry.fingerprint.partition(COUNTED)[0]) for entry in self.entries())
        return [entry for entry, plan in plans if plan == fingerprint and entry.status == "finished"]

    @property
    def _file(self) -> LedgerFile:
        return LedgerFile(self.path, self.timeout)

    @classmethod
    def _head(cls, file: LedgerFile, connection: sqlite3.Connection) -> "Ledger":
        rows = connection.execute("SELECT dataset, total, mu_squared FROM ledger").fetchall()
        try:
            ((dataset, *first),) = rows
            raises = connection.execute("SELECT total, mu_squared FROM raised ORDER BY id").fetchall()
            totals = [_total(*row) for row in (first, *raises)]
            ((attempts,),) = connection.execute("SELECT attempts FROM allowed").fetchall()
            attempts = int(attempts)
            kept = connection.execute("SELECT delta FROM added WHERE id = 0").fetchone()
            aside = None if kept is None else read_fraction(kept[0])
        except (TypeError, ValueError) as error:
            raise damaged(file.path, error) from None
        _check_totals(file, totals)
        return cls(file.path, str(dataset), *totals[-1], attempts, file.timeout, aside)

    def left_after(self, spent: Cost) -> Cost | None:
        """What some spending leaves of the total, beside what is set aside for keys; None where it is too much.

        Guarantees: added_deltas_count_in_ledgers.
        """
        left = self._room(self._aside(spent.added_delta)) - spent.mu_squared
        return self._cost(left) if left >= 0 else None

    def _left(self, connection: sqlite3.Connection) -> Cost:
        spent = self._sum(self._entries(connection))
        left = self.left_after(spent)
        if left is None and self._room(spent.added_delta) >= spent.mu_squared * (1 - Fraction(1, 10**9)):
            # The room beside an added delta is computed anew, with floats that may differ in the last bit elsewhere.
            left = self._cost(Fraction(0))
        if left is None:
            raise damaged(self.path, "its entries cost more than its total")
        return left

    def _aside(self, added: Fraction) -> Fraction:
        """The part of delta that is kept for keys, where so much was added by them: at least that."""
        if self.keys_delta is not None:
            return max(self.keys_delta, added)
        return set_aside(self.total.delta, added) if added and self.total.delta is not None else added

    def _room(self, added_delta: Fraction) -> Fraction:
        """All of mu^2 that fits the total beside an added delta: its epsilon must hold at what is left of its delta."""
        epsilon, delta = self.total.epsilon, self.total.delta
        if not added_delta:
            return self.total_cost.mu_squared
        if epsilon is None or delta is None or added_delta >= Fraction(str(delta)):
            return Fraction(-1)
        mu = gaussian.mu_for(epsilon, float_down(Fraction(str(delta)) - added_delta))
        return min(Fraction(mu) ** 2, self.total_cost.mu_squared)

    def _entries(self, connection: sqlite3.Connection) -> Iterator[Entry]:
        columns = (
            "debit.id, debit.time, fingerprint, mu_squared, COALESCE(delta, '0/1'), note, release, COALESCE(who, '')"
        )
        beside = "LEFT JOIN finish USING (id) LEFT JOIN ran USING (id) LEFT JOIN added USING (id)"
        for number, time, fingerprint, *costs, note, release, who in connection.execute(
            f"SELECT {columns} FROM debit {beside} ORDER BY debit.id"
        ):
            try:
                yield Entry(number, time, fingerprint, self._cost(*map(read_fraction, costs)), note, release, who)
            except LeastnoiseError as error:
                raise damaged(self.path, f"entry {number}: {error}") from None

    def _sum(self, entries: Iterable[Entry]) -> Cost:
        return sum((entry.cost for entry in entries), start=self._cost(Fraction(0)))

    def _cost(self, mu_squared: Fraction, added_delta: Fraction = Fraction(0)) -> Cost:
        return replace(self.total_cost, mu_squared=mu_squared, added_delta=added_delta)

    def _check_same(self, connection: sqlite3.Connection) -> None:
        head = self._head(self._file, connection)
        if head != self:
            raised = connection.execute("SELECT 1 FROM raised").fetchone() is not None
            what = "raised, or replaced by another one" if raised else "replaced by another one"
            raise LeastnoiseError(f"the ledger {self.path} was {what}; open it again")

    def _check_spendable(self, cost: Cost, connection: sqlite3.Connection) -> None:
        self._check_same(connection)
        entries = list(self._entries(connection))
        left, both = self._left(connection), self._sum(entries) + cost
        if cost.added_delta:
            self._check_delta(both.added_delta)
            self._check_aside(both.added_delta, entries)
        if self.left_after(both) is None:
            raise BudgetError(units.refusal(cost, left, self.total))

    def _check_delta(self, added: Fraction) -> None:
        """Refuse an added delta that no total of this ledger has room for."""
        if self.total.delta is None:
            raise BudgetError(
                f"this release adds a delta of {float(added):.3g}, but the ledger has a total of "
                f"{units.stated(self.total)} without any; use a ledger with epsilon and delta"
            )
        if self._room(added) <= 0:
            raise BudgetError(
                f"this release brings the deltas that are added to {float(added):.3g}, but the ledger has delta "
                f"{self.total.delta:g} for everything; plan it with a smaller one"
            )

    def _check_aside(self, added: Fraction, entries: Sequence[Entry]) -> None:
        """Refuse an added delta beyond what was set aside before anything was released.

        Guarantees: deltas_are_set_aside_before_the_first_release.
        """
        first = entries[0].cost.added_delta if entries else added
        aside = self.keys_delta if self.keys_delta is not None else first and self._aside(first)
        if added > aside:
            kept = f"sets {float_down(aside):.3g} of its delta aside" if aside else "sets none of its delta aside"
            raise BudgetError(
                f"this release brings the deltas that are added to {float(added):.3g}, but the ledger {kept} for "
                "finding keys, which is decided before the first release; find keys first, or make a ledger with "
                f"keys_delta {float(added):.3g}"
            )

    def _check_counting(self, fingerprint: str, connection: sqlite3.Connection) -> None:
        """Refuse exact counts beside others that were counted in another way: neighbours keep one of them only."""
        _, exact, counting = fingerprint.partition(COUNTED)
        others = (entry.fingerprint.partition(COUNTED) for entry in self._entries(connection))
        if exact and any(mark and how != counting for _, mark, how in others):
            raise BudgetError(
                "this ledger has exact counts that were counted with other rules or another unit, and a change that "
                "keeps those may change these; use the same rules, with a secret for the unit, or a ledger of their own"
            )

    def _check_person(self, person: str | None, connection: sqlite3.Connection) -> None:
        if person is None:
            return
        known = connection.execute("SELECT place FROM person").fetchone()
        if known is None:
            connection.execute("INSERT INTO person (id, place) VALUES (1, ?)", (_line("the id of a unit", person),))
        elif known[0] != person:
            raise BudgetError(
                f"this ledger protects people distinguished by the column {known[0]!r}, not by {person!r}; "
                "use the same id"
            )

    def _used_up(self, stopped: int, again: int) -> str:
        runs = f"{stopped:,} {'run' if stopped == 1 else 'runs'} on {self.dataset!r} looked at the data and stopped"
        codings = f", and {again:,} further codings of columns could stop one" if again else ""
        return (
            f"{runs}{codings}; its ledger allows fewer than {self.attempts:,} and takes no more of them "
            "(find problems with `leastnoise check`, and use rules that cover all values)"
        )

    def _checked(self, cost: Cost, dataset: str | None, insecure: bool) -> Cost:
        """The cost as one of the ledger's; refuses what can be refused without looking at the file."""
        if insecure:
            raise BudgetError(
                "seeded noise must not be spent on a ledger, as whoever knows the seed can remove it; use "
                "SecureRandomSource()"
            )
        if dataset is not None and dataset != self.dataset:
            raise BudgetError(
                f"this ledger is for the dataset {self.dataset!r}, not for {dataset!r}; use its own ledger"
            )
        kept = self.total_cost.neighbours
        if not cost.neighbours.shares_ledger(kept):
            raise BudgetError(
                f"this release is planned for {cost.change}, the ledger for {kept.of_ledger}; "
                f"{_fix(cost.neighbours, kept)}"
            )
        if not cost.mu_squared:
            raise BudgetError("a release of cost 0 cannot be spent; every release that reads data costs something")
        return self._cost(cost.mu_squared, cost.added_delta)


def _total(text: str, mu_squared: str) -> tuple[Budget, Cost]:
    total = Budget.from_json(json.loads(text))
    return total, replace(total.cost_value, mu_squared=read_fraction(mu_squared))


def _check_totals(file: LedgerFile, totals: Sequence[tuple[Budget, Cost]]) -> None:
    """The first total and its raises, each as its budget says, and larger than the one before."""
    for total, cost in totals:
        # Written down, because epsilon and delta are converted with floats that may differ in the last bit elsewhere.
        if abs(cost.mu_squared / total.exact_cost - 1) > Fraction(1, 10**9):
            raise damaged(file.path, f"its total of {cost} is not its budget of {total}")
    costs = [cost for _, cost in totals]
    neighbours = {cost.neighbours for cost in costs}
    if len(neighbours) > 1 or any(later <= cost for cost, later in pairwise(costs)):
        raise damaged(file.path, "one of its raises does not raise its total")


def _stopped(connection: sqlite3.Connection) -> int:
    (count,) = connection.execute("SELECT COUNT(*) FROM attempt WHERE id NOT IN (SELECT id FROM complete)").fetchone()
    return int(count)


def _repeated_requests(connection: sqlite3.Connection) -> int:
    (count,) = connection.execute("SELECT COUNT(*) - COUNT(DISTINCT place) FROM asked").fetchone()
    return int(count)


def _fix(planned: Neighbours, kept: Neighbours) -> str:
    """How a plan and a ledger come to protect the same."""
    if planned.rows_per_person and not kept.rows_per_person:
        return "make a ledger with `leastnoise ledger init --protects people`, or plan without a unit"
    if kept.rows_per_person and not planned.rows_per_person:
        return "say whose rows they are, in a spec by unit: {id: COLUMN, max_rows: 3}"
    options = ", ".join(f"{name} {value!r}" for name, value in planned.arguments.items())
    return f"plan with the ledger's, or make a ledger for {options}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _line(name: str, text: object, *, empty: bool = False) -> str:
    if isinstance(text, str) and text.isprintable() and (empty or text.strip()) and len(text) <= _LONGEST:
        return text
    raise LeastnoiseError(f"{name} must be one line of text, at most {_LONGEST} characters, got {str(text)[:40]!r}")
