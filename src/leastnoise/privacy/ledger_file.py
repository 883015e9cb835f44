"""The SQLite file behind a ledger: its tables, durable transactions, and one-line errors.

Every operation opens a connection of its own, so that a ledger may be used after a fork and from several threads.
Nothing else may open the file: closing any other handle on it would drop SQLite's locks (POSIX).
"""

import secrets
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from leastnoise.errors import LeastnoiseError
from leastnoise.storage.files import new_file

APPLICATION = 0x6C6E6C67  # "lnlg", tells a ledger from other SQLite files
VERSION = 5
_TABLES = {
    "ledger": ("id INTEGER PRIMARY KEY CHECK (id = 1)", "dataset", "total", "mu_squared"),
    "debit": ("id INTEGER PRIMARY KEY", "time", "fingerprint", "mu_squared", "note"),
    "finish": ("id INTEGER PRIMARY KEY REFERENCES debit (id)", "time", "release"),
}
_ATTEMPTS = {  # since version 2: runs that look at data, and those of them that came to their end
    "allowed": ("id INTEGER PRIMARY KEY CHECK (id = 1)", "attempts"),
    "attempt": ("id INTEGER PRIMARY KEY", "time", "fingerprint"),
    "complete": ("id INTEGER PRIMARY KEY REFERENCES attempt (id)", "time"),
    "asked": (
        "id INTEGER PRIMARY KEY",
        "place",
        "coding",
    ),  # columns that can stop a run, and how they are coded
    "person": ("id INTEGER PRIMARY KEY CHECK (id = 1)", "place"),  # the column that distinguishes people
}
_HISTORY = {  # since version 3: raised totals, and who made a debit
    "raised": ("id INTEGER PRIMARY KEY", "time", "total", "mu_squared", "reason", "who"),
    "ran": ("id INTEGER PRIMARY KEY REFERENCES debit (id)", "who"),
}
_DELTAS = {
    "added": ("id INTEGER PRIMARY KEY REFERENCES debit (id)", "delta")
}  # since version 4: added to that of noise
_IDENTITY = {  # since version 5: what tells a ledger from others, and whether it was made beside another one
    "identity": ("id INTEGER PRIMARY KEY CHECK (id = 1)", "token", "another")
}
_SINCE: dict[int, Mapping[str, tuple[str, ...]]] = {2: _ATTEMPTS, 3: _HISTORY, 4: _DELTAS, 5: _IDENTITY}
ATTEMPTS = 10  # runs that may stop after they looked at the data, unless the ledger was made for another number
# A row is never changed, removed, or replaced by INSERT OR REPLACE, which fires no trigger on the removal.
_KEEPERS = {
    "update": "BEFORE UPDATE ON {table}",
    "delete": "BEFORE DELETE ON {table}",
    "insert": "BEFORE INSERT ON {table} WHEN NEW.id IN (SELECT id FROM {table})",
}


def schema() -> str:
    """The statements that make an empty ledger."""
    lines = [f"PRAGMA application_id = {APPLICATION}", f"PRAGMA user_version = {VERSION}"]
    return ";\n".join([*lines, *_statements(_TABLES | _ATTEMPTS | _HISTORY | _DELTAS | _IDENTITY)]) + ";"


def _statements(tables: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    for table, (key, *texts) in tables.items():
        yield f"CREATE TABLE {table} ({', '.join([key, *(f'{text} TEXT NOT NULL' for text in texts)])})"
        for name, event in _KEEPERS.items():
            stop = "BEGIN SELECT RAISE(ABORT, 'a ledger only grows'); END"
            yield f"CREATE TRIGGER {table}_{name} {event.format(table=table)} {stop}"


@dataclass(frozen=True)
class LedgerFile:
    """A ledger's file, by its absolute path; `timeout` is how long to wait for other processes, in seconds."""

    path: Path
    timeout: float

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection to read from."""
        self._check_there()
        with self._explained(), closing(self._connect(self.path, "rw")) as connection:
            self._check_kind(connection)
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that no other process can interleave with; an exception undoes it.

        Guarantees: two_processes_cannot_overspend; survives_being_killed.
        """
        with self.reading() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:  # SQLite may have rolled back by itself, on a full disk for example
                    connection.execute("ROLLBACK")
                raise

    def create(
        self, dataset: str, total: str, mu_squared: str, attempts: int, keys_delta: str | None, another: bool
    ) -> None:
        """Write a new ledger: complete under its name, or not at all."""
        self._check_free()
        new = new_file(self.path, overwrite=False)
        with new as draft, self._explained(), closing(self._connect(draft, "rwc")) as connection:
            connection.executescript(f"BEGIN; {schema()} COMMIT;")
            row = (1, dataset, total, mu_squared)
            connection.execute("INSERT INTO ledger (id, dataset, total, mu_squared) VALUES (?, ?, ?, ?)", row)
            connection.execute("INSERT INTO allowed (id, attempts) VALUES (1, ?)", (str(attempts),))
            if keys_delta is not None:  # of no debit: those are numbered from 1 on
                connection.execute("INSERT INTO added (id, delta) VALUES (0, ?)", (keys_delta,))
            _identify(connection, another)

    def _check_free(self) -> None:
        journal = self.path.with_name(f"{self.path.name}-journal")
        if journal.exists():  # SQLite would roll it back into the new file
            raise LeastnoiseError(
                f"{journal} is left over from another ledger; put that ledger back or choose another name"
            )

    def _check_there(self) -> None:
        if self.path.is_dir():
            raise LeastnoiseError(f"{self.path} is a folder, not a ledger")
        if not self.path.exists():
            example = f"leastnoise ledger init {self.path} --dataset NAME --epsilon 1 --delta 1e-9"
            raise LeastnoiseError(f"there is no ledger {self.path}; create it once: {example}")

    def _connect(self, path: Path, mode: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{path.as_uri()}?mode={mode}", uri=True, timeout=self.timeout, isolation_level=None
        )
        # A rollback journal works on network folders, a write-ahead log does not. EXTRA also syncs the folder after the
        # journal is removed: without it a power loss could bring the journal back, and with it undo a committed debit.
        connection.executescript("PRAGMA journal_mode = DELETE; PRAGMA synchronous = EXTRA; PRAGMA fullfsync = ON;")
        return connection

    def _check_kind(self, connection: sqlite3.Connection) -> None:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION:
            raise LeastnoiseError(self._foreign())
        if version in range(1, VERSION):
            _upgrade(connection)
        elif version != VERSION:
            knows = f"(format {version}, this one knows {VERSION})"
            raise LeastnoiseError(f"the ledger {self.path} is from a newer leastnoise {knows}; update leastnoise")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise LeastnoiseError(self._text(error)) from None
        except UnicodeDecodeError:  # SQLite quotes what it cannot read
            raise damaged(self.path, "it has text that is no UTF-8") from None

    def _foreign(self) -> str:
        return f"{self.path} is not a ledger; ledgers are made by `leastnoise ledger init`"

    def _text(self, error: sqlite3.Error) -> str:
        match getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF:  # the kind, without its details
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                return f"the ledger {self.path} was in use by others for {self.timeout:g} s; try again later"
            case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
                return f"the ledger {self.path} cannot be written; make the file and its folder writable"
            case sqlite3.SQLITE_NOTADB:
                return self._foreign()
            case sqlite3.SQLITE_FULL:
                return f"no space left on disk for the ledger {self.path}; nothing was spent"
            case sqlite3.SQLITE_CONSTRAINT:
                return f"the ledger {self.path} refused the change ({error})"
            case sqlite3.SQLITE_IOERR:
                return f"the ledger {self.path} cannot be reached ({error}); check its disk and try again"
        return str(damaged(self.path, error))


def _upgrade(connection: sqlite3.Connection) -> None:
    """A ledger of version 1 knows of no attempts, one of version 2 of no raises, one of version 3 of no added deltas,
    one of version 4 has no token; what it has stays as it is.
    """
    connection.execute("BEGIN IMMEDIATE")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version < VERSION:  # nobody was faster
        for later in (tables for since, tables in _SINCE.items() if since > version):
            for statement in _statements(later):
                connection.execute(statement)
        if version == 1:
            connection.execute("INSERT INTO allowed (id, attempts) VALUES (1, ?)", (str(ATTEMPTS),))
        _identify(connection, another=False)
        connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")


def _identify(connection: sqlite3.Connection, another: bool) -> None:
    row = (secrets.token_hex(16), "yes" if another else "no")
    connection.execute("INSERT INTO identity (id, token, another) VALUES (1, ?, ?)", row)


def ledger_beside(path: Path, dataset: str) -> Path | None:
    """A ledger of this dataset among the files of a folder that is to hold a new one, if there is any."""
    for file in sorted(path.absolute().parent.glob("*")):
        if file.is_file() and _dataset_of(file) == dataset:
            return file
    return None


def _dataset_of(file: Path) -> str | None:
    """By SQLite, which keeps its locks where it opens a file once more; None where it is no ledger."""
    try:
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=1)) as connection:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            if application != APPLICATION:
                return None
            return str(connection.execute("SELECT dataset FROM ledger").fetchone()[0])
    except (sqlite3.Error, TypeError, UnicodeDecodeError):
        return None


def damaged(path: Path, why: object) -> LeastnoiseError:
    """What to raise where a ledger cannot be trusted."""
    reason = " ".join(str(why).split())
    return LeastnoiseError(f"the ledger {path} is damaged ({reason}); restore it with all its entries and try again")
