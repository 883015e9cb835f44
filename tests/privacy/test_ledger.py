"""The ledger: exact sums, refusals that say why, files that were tampered with, and permissions."""

import os
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leastnoise.errors import LeastnoiseError
from leastnoise.privacy import Budget, BudgetError, Cost, Ledger, ledger_file
from leastnoise.privacy.neighbours import Neighbours
from leastnoise.privacy.units import refusal, say
from leastnoise.storage import files
from tests.covering import examples

TOTAL = Budget(epsilon=1, delta=1e-9)
SMALL = Budget(epsilon=0.3, delta=1e-9).cost_value
RHO = Budget(rho=0.0075)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "people.ledger"


@pytest.fixture
def ledger(path: Path) -> Ledger:
    return Ledger.create(path, TOTAL, "people")


def refused(kind, function, *arguments, **options) -> str:
    with pytest.raises(kind) as error:
        function(*arguments, **options)
    assert type(error.value) is kind
    assert "\n" not in str(error.value)
    return str(error.value)


def tamper(path: Path, *statements: str) -> None:
    """Change a ledger behind its back, its triggers taken away."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            connection.execute(statement)


# Round trips


@pytest.mark.parametrize(
    "total",
    [TOTAL, Budget(mu=0.3), RHO, Budget(mu=2, neighbours="replace", rows_per_person=4)],
    ids=["epsilon", "mu", "rho", "replace"],
)
def test_open_reads_what_create_wrote(path, total):
    created = Ledger.create(path, total, "Gäste 2024")
    ledger = Ledger.open(str(path))
    assert ledger == created
    assert (ledger.dataset, ledger.total, ledger.left) == ("Gäste 2024", total, total.cost_value)
    assert ledger.spent == Cost(Fraction(0), total.neighbours)
    assert ledger.entries() == []


def test_debits_are_written_down(ledger, path):
    before = datetime.now(UTC) - timedelta(seconds=2)
    first = ledger.debit(SMALL, "a1b2", note="pilot", dataset="people")
    second = ledger.debit(SMALL, "c3d4")
    result = Ledger.open(path)
    assert result.entries() == [first, second]
    assert (first.id, first.fingerprint, first.cost, first.note, first.status) == (1, "a1b2", SMALL, "pilot", "debited")
    assert before <= datetime.fromisoformat(first.time) <= datetime.now(UTC)
    assert first.time.endswith("+00:00")
    assert result.spent == SMALL + SMALL
    assert result.left == TOTAL.cost_value - SMALL - SMALL


def test_finishing_changes_no_cost(ledger, path):
    entry = ledger.debit(SMALL, "a1b2")
    done = ledger.finish(entry, "release-7")
    assert (done.status, done.release, done.cost) == ("finished", "release-7", SMALL)
    assert Ledger.open(path).entries() == [done]
    assert ledger.spent == SMALL
    other = f"entry 1 is not an open entry of the ledger {path}"
    assert refused(LeastnoiseError, ledger.finish, entry, "release-8") == other
    assert refused(LeastnoiseError, ledger.finish, done, "release-8") == other
    assert ledger.entries() == [done]


def test_nothing_is_left_beside_the_file(ledger, path):
    ledger.debit(SMALL, "a1b2")
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_relative_paths_survive_a_change_of_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = Ledger.create("a b?#%.ledger", TOTAL, "people")
    monkeypatch.chdir("/")
    ledger.debit(SMALL, "a1b2")
    assert ledger.path == tmp_path / "a b?#%.ledger"


# Exactness


@pytest.mark.long
def test_ten_decimals_fill_the_budget(path):
    ledger = Ledger.create(path, RHO, "people")
    for k in range(10):
        ledger.debit(Budget(rho=0.00075).cost_value, f"plan {k}")
    assert ledger.left.mu_squared == 0
    assert refused(BudgetError, ledger.debit, Cost(Fraction(1, 10**30)), "plan") == (
        "this release costs rho 5e-31, but only rho 0 is left of rho 0.0075; nothing was spent"
    )


def test_a_tenth_and_a_fifth_fit_three_tenths(path):
    ledger = Ledger.create(path, Budget(rho=0.3), "people")
    for rho in (0.1, 0.2):
        ledger.debit(Budget(rho=rho).cost_value, "plan")
    assert ledger.left.mu_squared == 0


def test_the_whole_budget_fits_once(ledger):
    ledger.debit(TOTAL.cost_value, "plan")
    assert ledger.left.mu_squared == 0


COSTS = st.lists(st.fractions(0, 1, max_denominator=10**12).filter(bool), min_size=1, max_size=6)


@pytest.mark.long
@settings(max_examples=examples(50))
@given(COSTS)
def test_sums_are_exact(parts):
    """A model in three lines: take what fits, refuse the rest, and always know exactly what is left."""
    left = Fraction(9, 4)
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger.create(Path(folder) / "x.ledger", Budget(mu=1.5), "people")
        for part in parts:
            if part <= left:
                ledger.debit(Cost(part), "plan")
                left -= part
            else:
                refused(BudgetError, ledger.debit, Cost(part), "plan")
            assert ledger.left.mu_squared == left
        assert ledger.spent.mu_squared == Fraction(9, 4) - left
        assert Ledger.open(ledger.path).left.mu_squared == left


def test_costs_with_very_many_digits(path):
    ledger = Ledger.create(path, Budget(mu=1), "people")
    odd = Cost(Fraction(2**20_000, 3**20_000))
    ledger.debit(odd, "plan")
    assert Ledger.open(path).spent == odd


# Refusals; nothing is spent in any of them


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"cost": Budget(mu=1).cost_value},
            "this release costs epsilon 6.174, but only epsilon 0.9467 is left of epsilon 1 (at delta 1e-09); "
            "nothing was spent",
        ),
        (
            {"insecure": True},
            "seeded noise must not be spent on a ledger, as whoever knows the seed can remove it; use "
            "SecureRandomSource()",
        ),
        ({"dataset": "animals"}, "this ledger is for the dataset 'people', not for 'animals'; use its own ledger"),
        (
            {"cost": Cost(Fraction(1, 100), "replace")},
            "this release is planned for replacing one row, the number of rows being public, the ledger for adding or "
            "removing one row; plan with the ledger's, or make a ledger for neighbours 'replace'",
        ),
        (
            {"cost": Cost(Fraction(1, 100), Neighbours("add-remove", 3))},
            "this release is planned for adding or removing one person with at most 3 rows, the ledger for "
            "adding or removing one row; make a ledger with `leastnoise ledger init --protects people`, or plan "
            "without a unit",
        ),
        (
            {"cost": Cost(Fraction(0))},
            "a release of cost 0 cannot be spent; every release that reads data costs something",
        ),
    ],
    ids=["too much", "insecure", "dataset", "neighbours", "rows", "zero"],
)
def test_refusals(ledger, arguments, text):
    first = ledger.debit(SMALL, "first")
    assert refused(BudgetError, ledger.debit, **({"cost": SMALL, "fingerprint": "f"} | arguments)) == text
    assert ledger.entries() == [first]


def test_a_ledger_of_people_asks_whose_rows_they_are(path):
    ledger = Ledger.create(path, Budget(epsilon=1, delta=1e-9, rows_per_person=3), "people")
    text = refused(BudgetError, ledger.debit, SMALL, "f")
    assert "the ledger for adding or removing one person with all their rows; say" in text
    assert text.endswith("say whose rows they are, in a spec by unit: {id: COLUMN, max_rows: 3}")


@pytest.mark.parametrize("bad", ["", " ", "two\nlines", "x" * 1001, "\ud800", None, 7])
def test_texts_are_one_line(path, ledger, bad):
    text = f"must be one line of text, at most 1000 characters, got {str(bad)[:40]!r}"
    assert refused(LeastnoiseError, ledger.debit, SMALL, bad) == f"fingerprint {text}"
    assert refused(LeastnoiseError, Ledger.create, path.with_name("b"), TOTAL, bad) == f"dataset {text}"
    if bad not in ("", " "):
        assert refused(LeastnoiseError, ledger.debit, SMALL, "f", note=bad) == f"note {text}"
    assert ledger.entries() == []
    assert not path.with_name("b").exists()


@pytest.mark.parametrize(
    ("total", "whole"),
    [(TOTAL, "epsilon 1"), (Budget(mu=0.3), "mu 0.3"), (Budget(rho=0.1), "rho 0.1"), (Budget(mu=12345), "mu 12340")],
)
def test_units_are_those_of_the_budget(total, whole):
    assert say(total.cost_value, total, up=False) == whole


def test_a_hair_too_much_is_told_in_digits_that_differ():
    cost = Cost(TOTAL.exact_cost + Fraction(1, 10**40))
    assert refusal(cost, TOTAL.cost_value, TOTAL) == (
        "this release costs mu^2 0.03312, but only mu^2 0.03311 is left of mu^2 0.03311; nothing was spent"
    )


@pytest.mark.long
@given(st.fractions(Fraction(1, 10**9), 100), st.fractions(0, Fraction(999, 1000)))
def test_what_is_left_is_rounded_down_and_can_be_spent(x, share):
    left = Cost(x * share)
    for total in (Budget(mu=20), Budget(rho=200)):
        unit, number = say(left, total, up=False).split()
        assert Fraction(number) == 0 or Budget(**{unit: float(number)}).exact_cost <= left.mu_squared + Fraction(
            x, 10**9
        )
        question = refusal(Cost(x), left, total).split(",")[0].removeprefix("this release costs ")
        assert question != f"{unit} {number}"


# Files that are no ledger, or not the one expected


def test_missing(path):
    assert refused(LeastnoiseError, Ledger.open, path) == (
        f"there is no ledger {path}; create it once: "
        f"leastnoise ledger init {path} --dataset NAME --epsilon 1 --delta 1e-9"
    )
    assert not path.exists()


def test_removed_while_open(ledger, path):
    path.unlink()
    assert refused(LeastnoiseError, ledger.debit, SMALL, "f").startswith(f"there is no ledger {path}; create it once")
    assert not path.exists()


def test_replaced_while_open(ledger, path):
    path.unlink()
    Ledger.create(path, Budget(mu=5), "people")
    text = f"the ledger {path} was replaced by another one; open it again"
    assert refused(LeastnoiseError, ledger.debit, SMALL, "f") == text
    assert Ledger.open(path).entries() == []


def test_create_refuses_what_exists(ledger, path):
    ledger.debit(SMALL, "f")
    text = f"{path} exists already; choose another name"
    assert refused(LeastnoiseError, Ledger.create, path, TOTAL, "people") == text
    assert Ledger.open(path).spent == SMALL


def test_create_finds_out_that_somebody_was_faster(path, monkeypatch):
    monkeypatch.setattr(files, "check_target", lambda *target: None)
    path.write_text("theirs")
    text = f"{path} exists already; choose another name"
    assert refused(LeastnoiseError, Ledger.create, path, TOTAL, "people") == text
    assert path.read_text() == "theirs"
    assert len(list(path.parent.iterdir())) == 1


def test_create_needs_a_folder(tmp_path):
    text = f"there is no folder {str(tmp_path / 'no')!r} to write in; create it first"
    assert refused(LeastnoiseError, Ledger.create, tmp_path / "no" / "x", TOTAL, "people") == text


def test_create_refuses_a_stale_journal(path):
    journal = path.with_name(f"{path.name}-journal")
    journal.write_bytes(b"left over")
    text = f"{journal} is left over from another ledger; put that ledger back or choose another name"
    assert refused(LeastnoiseError, Ledger.create, path, TOTAL, "people") == text


def test_folders_are_no_ledgers(tmp_path):
    assert refused(LeastnoiseError, Ledger.open, tmp_path) == f"{tmp_path} is a folder, not a ledger"


@pytest.mark.parametrize("content", [b"", b"age,sex\n34,F\n" * 100])
def test_other_files_are_no_ledgers(path, content):
    path.write_bytes(content)
    text = f"{path} is not a ledger; ledgers are made by `leastnoise ledger init`"
    assert refused(LeastnoiseError, Ledger.open, path) == text
    assert path.read_bytes() == content


def test_other_databases_are_no_ledgers(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE debit (id)")
    text = f"{path} is not a ledger; ledgers are made by `leastnoise ledger init`"
    assert refused(LeastnoiseError, Ledger.open, path) == text


@pytest.mark.long
def test_newer_ledgers_are_refused(ledger, path):
    tamper(path, "PRAGMA user_version = 6")
    text = f"the ledger {path} is from a newer leastnoise (format 6, this one knows 5); update leastnoise"
    for function in (lambda: Ledger.open(path), lambda: ledger.debit(SMALL, "f"), lambda: ledger.left):
        assert refused(LeastnoiseError, function) == text


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("UPDATE debit SET mu_squared = 'much'", "entry 1: 'much' is not a fraction such as '3/40'"),
        ("UPDATE debit SET mu_squared = '-1/2'", "entry 1: '-1/2' is not a fraction such as '3/40'"),
        ("UPDATE debit SET mu_squared = x'00ff'", r"""entry 1: "b'\\x00\\xff'" is not a fraction such as '3/40'"""),
        ("UPDATE debit SET mu_squared = '1/0'", "entry 1: '1/0' is not a fraction such as '3/40'"),
        ("UPDATE debit SET mu_squared = '9/1'", "its entries cost more than its total"),
        ("UPDATE debit SET mu_squared = CAST(x'ff' AS TEXT)", "Could not decode to UTF-8"),
        ("UPDATE ledger SET mu_squared = '0/1'", "its total of mu 0 (rho 0) is not its budget of"),
        ("UPDATE ledger SET mu_squared = '9/1'", "its total of mu 3 (rho 4.5) is not its budget of"),
        ("UPDATE ledger SET total = '{'", "Expecting property name"),
        ("UPDATE ledger SET total = '[]'", "not a budget: []"),
        ("UPDATE ledger SET total = '{}'", "not a budget: {} ('neighbours')"),
        ("DELETE FROM ledger", "not enough values to unpack"),
        ("DROP TABLE debit", "no such table: debit"),
    ],
)
def test_tampering_is_noticed(ledger, path, statement, why):
    ledger.debit(SMALL, "f")
    tamper(path, statement)
    for function in (lambda: Ledger.open(path), lambda: ledger.debit(SMALL, "f")):
        text = refused(LeastnoiseError, function)
        assert text.startswith(f"the ledger {path} is damaged ({why}")
        assert text.endswith("; restore it with all its entries and try again")


@pytest.mark.parametrize("where", [0, 4096, 8192])
def test_broken_pages_are_noticed(ledger, path, where):
    ledger.debit(SMALL, "f")
    content = bytearray(path.read_bytes())
    content[where : where + 3000] = bytes(3000)
    path.write_bytes(content)
    text = refused(LeastnoiseError, Ledger.open, path)
    assert text.startswith(f"{path} is not a ledger" if where == 0 else f"the ledger {path} is damaged (")


def test_short_files_are_noticed(ledger, path):
    path.write_bytes(path.read_bytes()[:6000])
    assert refused(LeastnoiseError, Ledger.open, path).startswith(f"the ledger {path} is damaged (")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE debit SET mu_squared = '0/1'",
        "DELETE FROM debit",
        "INSERT OR REPLACE INTO debit VALUES (1, 't', 'f', '0/1', '')",
        "UPDATE finish SET release = 'x'",
        "DELETE FROM finish",
        "UPDATE ledger SET total = 'x'",
        "DELETE FROM ledger",
        "REPLACE INTO ledger VALUES (1, 'd', 't', '9/1')",
    ],
)
def test_rows_are_never_changed(ledger, path, statement):
    entry = ledger.finish(ledger.debit(SMALL, "f"), "r")
    with (
        closing(sqlite3.connect(path)) as connection,
        pytest.raises(sqlite3.IntegrityError, match="a ledger only grows"),
    ):
        connection.execute(statement)
    assert Ledger.open(path).entries() == [entry]


# Locks, disks and permissions


def test_a_lock_is_waited_for_and_then_told(ledger, path):
    waiting = Ledger.open(path, timeout=0.05)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        text = f"the ledger {path} was in use by others for 0.05 s; try again later"
        assert refused(LeastnoiseError, waiting.debit, SMALL, "f") == text
    assert waiting.debit(SMALL, "f").id == 1


@pytest.mark.long
def test_debits_are_synced_with_their_folder(ledger, path):
    with ledger._file.writing() as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (3,)  # EXTRA
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    tamper(path, "PRAGMA journal_mode = WAL")  # somebody's tool may have left it so
    with ledger._file.writing() as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_an_exception_undoes_the_transaction(ledger):
    def interrupted():
        with ledger._file.writing() as connection:
            connection.execute("INSERT INTO debit (time, fingerprint, mu_squared, note) VALUES ('t', 'f', '1/9', '')")
            raise KeyboardInterrupt

    refused(KeyboardInterrupt, interrupted)
    assert ledger.entries() == []
    assert ledger.debit(SMALL, "f").id == 1


def test_a_full_disk_is_told(ledger, path, monkeypatch):
    connect = ledger_file.LedgerFile._connect

    def small(self, path, mode):
        connection = connect(self, path, mode)
        connection.execute("PRAGMA max_page_count = 1")  # SQLite takes the present size, so nothing more fits
        return connection

    monkeypatch.setattr(ledger_file.LedgerFile, "_connect", small)

    def fill():
        for _ in range(100):
            ledger.debit(Cost(Fraction(1, 10**9)), "f" * 1000)

    assert refused(LeastnoiseError, fill) == f"no space left on disk for the ledger {path}; nothing was spent"
    monkeypatch.undo()
    assert len(Ledger.open(path).entries()) < 100


AS_NOBODY = """
import os, sys
from leastnoise.privacy import Budget, Ledger
path, do = sys.argv[1:]
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    if do == "create":
        Ledger.create(path, Budget(mu=1), "people")
    else:
        ledger = Ledger.open(path)
        print(len(ledger.entries()))
        ledger.debit(Budget(mu=0.1).cost_value, "f")
except ValueError as error:
    print(error)
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("file", "folder", "do", "seen"),
    [
        (0o444, 0o777, "debit", ["0"]),
        (0o666, 0o555, "debit", ["0"]),
        (0o000, 0o777, "debit", []),
        (None, 0o555, "create", []),
    ],
    ids=["file", "folder", "unreadable", "create"],
)
def test_read_only_is_told(file, folder, do, seen):
    with tempfile.TemporaryDirectory(dir="/tmp") as outer:
        place = Path(outer) / "place"
        place.mkdir()
        path = place / "people.ledger"
        if file is not None:
            Ledger.create(path, Budget(mu=1), "people")
            path.chmod(file)
        Path(outer).chmod(0o755)
        place.chmod(folder)
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-c", AS_NOBODY, str(path), do]
        process = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env=environment)
        place.chmod(0o755)
    text = f"the ledger {path} cannot be written; make the file and its folder writable"
    assert process.stdout.splitlines() == [*seen, text]
