"""A ledger as its file has it, read without the product: what the laws compare the product's words with."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

Rows = tuple[tuple[object, ...], ...]
TABLES = {
    "debit": "id, time, fingerprint, mu_squared, note",
    "finish": "id, time, release",
    "attempt": "id, time, fingerprint",
    "complete": "id, time",
}


@dataclass(frozen=True)
class Books:
    """All rows of a ledger, oldest first."""

    debit: Rows
    finish: Rows
    attempt: Rows
    complete: Rows

    @staticmethod
    def of(path: Path) -> Books:
        """Read a file; a transaction that was cut off is undone first, as by any reader."""
        with closing(sqlite3.connect(path)) as connection:
            read = {t: connection.execute(f"SELECT {c} FROM {t} ORDER BY id").fetchall() for t, c in TABLES.items()}
        return Books(**{table: tuple(map(tuple, rows)) for table, rows in read.items()})

    @property
    def spent(self) -> Fraction:
        """The sum of all debits."""
        return sum((Fraction(str(row[3])) for row in self.debit), start=Fraction(0))

    @property
    def stopped(self) -> int:
        """Runs that were taken down and not completed."""
        done = {row[0] for row in self.complete}
        return sum(row[0] not in done for row in self.attempt)

    def since(self, before: Books) -> Books:
        """The rows that were added; a row that was changed or is missing raises ValueError."""
        added = {}
        for table in TABLES:
            old, new = getattr(before, table), getattr(self, table)
            if new[: len(old)] != old:
                raise ValueError(f"rows of {table} were changed")
            added[table] = new[len(old) :]
        return Books(**added)
