"""Raises of the total, who spent, plans that were measured before, and the one ledger of a dataset."""

import getpass
import json
import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from leastnoise.errors import LeastnoiseError
from leastnoise.privacy import Budget, BudgetError, Cost, Ledger, Neighbours
from leastnoise.privacy.ledger_file import ledger_beside
from tests.shell import SMALL, call, fail, people, release

TOTAL, MORE = Budget(rho=0.5), Budget(rho=0.75)
COST = Budget(rho=0.25).cost_value


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def ledger() -> Ledger:
    return Ledger.create("people.ledger", TOTAL, "people")


def test_raises_are_kept(ledger):
    ledger.debit(COST, "a")
    ledger.debit(COST, "b", who="ann")
    with pytest.raises(BudgetError):
        ledger.debit(COST, "c")
    larger = ledger.raise_total(MORE, "a second wave", who="bob")
    assert larger == Ledger.open("people.ledger")
    assert larger.left == COST
    (kept,) = larger.raises()
    assert (kept.total, kept.reason, kept.who) == (MORE, "a second wave", "bob")
    assert larger.first_total == TOTAL
    larger.debit(COST, "c")
    assert [entry.who for entry in larger.entries()] == ["", "ann", ""]
    assert larger.left.mu_squared == 0


def test_totals_are_never_lowered(ledger):
    larger = ledger.raise_total(MORE, "a second wave")
    for total in (TOTAL, MORE, Budget(rho=0.7)):
        with pytest.raises(LeastnoiseError, match=r"the total is rho 0\.75 already; it can be raised, never lowered"):
            larger.raise_total(total, "less")
    with pytest.raises(LeastnoiseError, match="its total can be raised, but not what it protects"):
        larger.raise_total(Budget(rho=9, rows_per_person=2), "people")
    with pytest.raises(LeastnoiseError, match="reason must be one line of text"):
        larger.raise_total(Budget(rho=9), "")
    assert len(larger.raises()) == 1


def test_what_is_left_counts_raises_by_others(ledger):
    """A run that lasts longer than that is no sign of damage."""
    larger = ledger.raise_total(MORE, "a second wave")
    larger.debit(MORE.cost_value, "a")
    assert ledger.left.mu_squared == larger.left.mu_squared == 0
    assert ledger.spent.mu_squared == larger.total_cost.mu_squared > ledger.total_cost.mu_squared


def test_a_ledger_that_was_open_notices_a_raise(ledger):
    ledger.raise_total(MORE, "a second wave")
    for spend in (lambda: ledger.debit(COST, "a"), lambda: ledger.raise_total(Budget(rho=2), "more")):
        with pytest.raises(LeastnoiseError, match="was raised, or replaced by another one; open it again"):
            spend()
    assert Ledger.open("people.ledger").entries() == []


@pytest.mark.parametrize(
    "change", ["total = 'x'", "mu_squared = '9/1'", "mu_squared = '1/2'", "total = (SELECT total FROM ledger)"]
)
def test_raises_that_were_changed_are_noticed(ledger, change):
    ledger.raise_total(MORE, "a second wave")
    with closing(sqlite3.connect("people.ledger")) as connection:
        for statement in (f"UPDATE raised SET {change}", "DELETE FROM raised"):
            with pytest.raises(sqlite3.IntegrityError, match="a ledger only grows"):
                connection.execute(statement)
        connection.execute("DROP TRIGGER raised_update")
        connection.execute(f"UPDATE raised SET {change}")
        connection.commit()
    with pytest.raises(LeastnoiseError, match="is damaged"):
        Ledger.open("people.ledger")


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_old_ledgers_are_read_and_continued(ledger, version):
    ledger.debit(COST, "a")
    tables = ["identity"] + ["added"] * (version < 4) + ["raised", "ran"] * (version < 3)
    tables += ["allowed", "attempt", "complete", "asked", "person"] * (version == 1)
    with closing(sqlite3.connect("people.ledger")) as connection:
        for table in reversed(tables):
            connection.execute(f"DROP TABLE {table}")
        connection.execute(f"PRAGMA user_version = {version}")
        connection.commit()
    book = Ledger.open("people.ledger")
    assert [entry.who for entry in book.entries()] == [""]
    assert book.raise_total(MORE, "a second wave").left == COST + COST


def test_people_with_different_bounds_share_a_ledger():
    book = Ledger.create("people.ledger", Budget(rho=1, rows_per_person=1), "people")
    for rows in (1, 3, 20):
        entry = book.debit(Cost(Fraction(1, 10), Neighbours("add-remove", rows)), f"{rows}")
        book.finish(entry, f"release {rows}")
    assert book.spent.mu_squared == Fraction(3, 10)
    for other in (Neighbours("replace", 3), Neighbours()):
        with pytest.raises(BudgetError, match="this release is planned for"):
            book.debit(Cost(Fraction(1, 10), other), "other")


# --- the shell --------------------------------------------------------------------------------------------------------


def test_raise_on_the_command_line(capsys, ledger):
    ledger.debit(COST, "a")
    arguments = ("ledger", "raise", "people.ledger", "--rho", "0.75", "--reason", "a second wave")
    assert call(capsys, *arguments) == (0, "raised people.ledger from rho 0.5 to rho 0.75\n", "")
    _, out, _ = call(capsys, "ledger", "show", "people.ledger")
    day = Ledger.open("people.ledger").raises()[0].time[:10]
    assert f"raised on {day} by {getpass.getuser()} from rho 0.5 to rho 0.75: a second wave\n" in out
    assert "another release like the last (rho 0.25) would leave rho 0.25; 2 of them fit\n" in out
    assert "lowered" in fail(capsys, *arguments)
    arguments = ("ledger", "raise", "people.ledger", "--rho", "1", "--reason", "third", "--anonymous", "--json")
    fields = json.loads(call(capsys, *arguments)[1])
    assert [item["who"] for item in fields["raises"]] == [getpass.getuser(), ""]
    assert (fields["left_percent"], fields["further_releases"]) == ("75%", 3)


def test_people_are_asked_for_from_the_start(capsys):
    arguments = ("ledger", "init", "people.ledger", "--dataset", "people", "--rho", "1")
    _, out, _ = call(capsys, *arguments, "--protects", "people")
    assert "for adding or removing one person with all their rows\nit protects people: " in out
    assert Ledger.open("people.ledger").total.neighbours.rows_per_person == 1
    text = fail(capsys, *arguments, "--protects", "rows", "--rows-per-person", "3")
    assert text == "--protects rows does not go with --rows-per-person; leave one of them out"


def test_one_dataset_has_one_ledger(capsys, ledger):
    arguments = ("ledger", "init", "second.ledger", "--dataset", "people", "--rho", "1")
    Path("notes.txt").write_text("no ledger")
    assert fail(capsys, *arguments).startswith(
        "'people.ledger' in the same folder is a ledger of the dataset 'people'; "
    )
    assert not Path("second.ledger").exists()
    assert call(capsys, *arguments, "--another")[0] == 0
    assert ledger_beside(Path("third.ledger"), "visits") is None


def test_the_same_plan_is_not_paid_for_twice(capsys):
    Path("small.yaml").write_text(SMALL)
    people().to_parquet("people.parquet")
    Ledger.create("people.ledger", Budget(mu=4096), "people")
    options = ("--ledger", "people.ledger", "--note", "pilot")
    code, out, _ = release(capsys, "people.parquet", *options)
    assert (code, "left in the ledger: mu 3965, 93.7% of the total (entry 1)" in out) == (0, True)
    (entry,) = Ledger.open("people.ledger").entries()
    assert entry.who == getpass.getuser()
    again = ("release", "small.yaml", "--data", "people.parquet", "--out", "out2", *options)
    assert fail(capsys, *again) == (
        f"this plan was measured on 'people' before (entry 1 of {entry.time[:10]}, 'pilot': release {entry.release}); "
        "use that release, which costs nothing more, or pay for another one with --again"
    )
    assert not Path("out2").exists()
    assert Ledger.open("people.ledger").entries() == [entry]
    assert Ledger.open("people.ledger").stopped == 0
    assert call(capsys, *again, "--again", "--anonymous")[0] == 0
    assert [entry.who for entry in Ledger.open("people.ledger").entries()] == [getpass.getuser(), ""]
