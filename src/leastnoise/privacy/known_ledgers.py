"""Which ledgers this user's data has spent from, so that a second one is not begun by mistake.

The list is in a folder of the user: `LEASTNOISE_STATE`, or `leastnoise` in the place where the system keeps the state
of programs. It has digests of addresses, and paths and tokens of ledgers; no data, no password and no cost.
"""

import os
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from leastnoise.errors import LeastnoiseError

VARIABLE = "LEASTNOISE_STATE"
_FILE = "ledgers.sqlite"
_TABLE = "CREATE TABLE IF NOT EXISTS used (place TEXT, token TEXT, path TEXT, PRIMARY KEY (place, token))"
_WAIT = 10.0  # seconds, for other processes


def state_folder() -> Path:
    """Where the list is kept."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "leastnoise"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "leastnoise"
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "leastnoise"


def claim(places: Sequence[str], token: str, path: Path, *, another: bool) -> str | None:
    """Note that data at these places spends from a ledger; says why not, where it spent from others, unless `another`.

    A ledger is known by its token, so that it may move; one that is gone still counts, as what it spent is not given
    back.

    Guarantees: data_has_one_ledger; two_processes_cannot_begin_two_ledgers.
    """
    digests = [sha256(place.encode(errors="surrogatepass")).hexdigest() for place in places]
    if not digests:
        return None
    with _writing() as connection:
        for digest in digests:
            known = dict(connection.execute("SELECT token, path FROM used WHERE place = ?", (digest,)).fetchall())
            if token in known and _is_copied(Path(known[token]), path):
                return f"this ledger is a copy of the ledger {known[token]}, which is still there; use that one"
            if known and token not in known and not another:
                return _refusal(Path(next(iter(known.values()))), path)
        rows = [(digest, token, str(path)) for digest in digests]
        connection.executemany("INSERT OR REPLACE INTO used (place, token, path) VALUES (?, ?, ?)", rows)
    return None


def spent_from(places: Sequence[str]) -> Path | None:
    """The last ledger that data at one of these places spent from and that is still there, as far as is known here."""
    digests = [sha256(place.encode(errors="surrogatepass")).hexdigest() for place in places]
    with suppress(OSError, sqlite3.Error, RuntimeError):
        if digests and (state_folder() / _FILE).exists():
            with closing(sqlite3.connect(state_folder() / _FILE, timeout=_WAIT)) as connection:
                marks = ", ".join("?" * len(digests))
                rows = connection.execute(
                    f"SELECT path FROM used WHERE place IN ({marks}) ORDER BY rowid DESC", digests
                )
                return next((path for (text,) in rows.fetchall() if (path := Path(text)).exists()), None)
    return None


def _is_copied(known: Path, path: Path) -> bool:
    return known.exists() and path.exists() and not known.samefile(path)


def _refusal(known: Path, path: Path) -> str:
    if known == path:
        what = f"another ledger that was at {known}; restore it"
    elif not known.exists():
        what = f"the ledger {known}, which is no longer there; restore it"
    else:
        what = f"the ledger {known}; use it"
    return (
        f"this data was released with {what}, as what was spent stays spent, or make one whose spending adds up with "
        "it: leastnoise ledger init --another"
    )


@contextmanager
def _writing() -> Iterator[sqlite3.Connection]:
    try:
        folder = state_folder()
        folder.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(folder / _FILE, timeout=_WAIT, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(_TABLE)
            yield connection
            connection.execute("COMMIT")
    except (OSError, sqlite3.Error, RuntimeError) as error:  # the last where there is no home
        raise LeastnoiseError(
            f"the list of ledgers of this user cannot be written ({type(error).__name__}); set {VARIABLE} to a folder "
            "that can be written"
        ) from None
