"""One dataset, one ledger: wherever the second one is made, it is refused unless it was asked for."""

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import leastnoise as ln
from leastnoise.privacy import known_ledgers
from leastnoise.privacy.known_ledgers import claim, state_folder
from leastnoise.privacy.ledger import BudgetError
from leastnoise.sources.convert import places_of
from tests.shell import SMALL, fail
from tests.shell import call as shell_call

HINT = "leastnoise ledger init --another"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEASTNOISE_STATE", str(tmp_path / "state"))
    rng = np.random.default_rng(3)
    pd.DataFrame({"age": rng.integers(0, 5, 50), "sex": rng.choice(["F", "M"], 50)}).to_parquet("people.parquet")
    Path("small.yaml").write_text(SMALL)
    return tmp_path


def plan():
    return ln.plan(ln.Workload(ln.Domain.of(age=range(5), sex=["F", "M"])).marginals(ways=1), ln.Budget(mu=1))


def ledger(path: str, **options) -> ln.Ledger:
    Path(path).parent.mkdir(exist_ok=True)
    return ln.Ledger.create(path, ln.Budget(mu=9), "people", **options)


def run(book: ln.Ledger, data="people.parquet"):
    return plan().run(data, ledger=book)


def test_data_has_one_ledger(folder):
    first, second = ledger("a/people.ledger"), ledger("b/people.ledger")
    run(first)
    Path("link.parquet").symlink_to("people.parquet")
    for data in ("people.parquet", str(folder / "people.parquet"), "link.parquet", "./peopl*.parquet"):
        with pytest.raises(BudgetError, match=f"was released with the ledger {first.path}; use it.*{HINT}"):
            run(second, data)
    assert second.entries() == []
    assert second.stopped == 0
    run(first)
    third = ledger("c/people.ledger", another=True)
    run(third)
    run(first)  # which stays one of its ledgers


def test_moved_ledgers_are_known_and_lost_ones_still_count():
    first = ledger("a/people.ledger")
    run(first)
    Path("a/people.ledger").rename("moved.ledger")
    run(ln.Ledger.open("moved.ledger"))
    Path("moved.ledger").unlink()
    with pytest.raises(BudgetError, match=r"moved.ledger, which is no longer there; restore it, as what was spent"):
        run(ledger("new.ledger"))
    with pytest.raises(BudgetError, match=f"another ledger that was at .*moved.ledger; restore it.*{HINT}"):
        run(ledger("moved.ledger"))


def test_frames_in_memory_are_nowhere():
    frame = pd.read_parquet("people.parquet")
    run(ledger("a.ledger"), frame)
    run(ledger("b.ledger"), frame)


def test_the_shell_says_it_in_one_line(capsys):
    for name, options in (("a", []), ("b", []), ("c", ["--another"])):
        made = ["ledger", "init", f"{name}.ledger", "--dataset", name, "--mu", "2048", "--protects", "rows", *options]
        assert shell_call(capsys, *made)[0] == 0
    release = ("release", "small.yaml", "--data", "people.parquet", "--ledger")
    assert shell_call(capsys, *release, "a.ledger", "--out", "one")[0] == 0
    text = fail(capsys, *release, "b.ledger", "--out", "two")
    assert text.startswith("this data was released with the ledger ")
    assert text.endswith(HINT)
    assert shell_call(capsys, *release, "c.ledger", "--out", "three")[0] == 0


def test_a_release_without_a_ledger_is_told_the_one_of_its_data(capsys):
    release = ("release", "small.yaml", "--data", "people.parquet", "--out")
    assert "spent from the ledger" not in shell_call(capsys, *release, "none")[2]
    book = ledger("a.ledger")
    run(book, "people.parquet")
    code, _, err = shell_call(capsys, *release, "out")
    assert code == 0
    assert (
        f"this data spent from the ledger {book.path.absolute()} before, which will not know of this; add --ledger"
        in err
    )
    assert book.path.name not in Path("out", "release.json").read_text()  # said to the owner, not published
    book.path.unlink()
    assert "spent from the ledger" not in shell_call(capsys, *release, "gone")[2]


def test_addresses_have_no_passwords_and_one_form():
    written = "postgresql://me:hunter2@DB:5432/office?table=public.people", "postgresql://you@db/office?table=people"
    assert len({places_of(text, None, None) for text in written}) == 1
    assert "hunter2" not in str(places_of(written[0], None, None))
    assert places_of("spark://host:7077?table=a", None, None) == ("spark://host:7077?a",)
    assert places_of("duckdb:///tmp/x/../a.db", "t", None) == places_of("duckdb:///tmp/a.db?table=t", None, None)


def test_two_processes_cannot_begin_two_ledgers(folder):
    """Of many that claim the same data at once, one is first."""
    code = (
        "import sys; from pathlib import Path; from leastnoise.privacy.known_ledgers import claim\n"
        "print(claim(['here'], sys.argv[1], Path(sys.argv[1]), another=False) is None)"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", code, str(k)], stdout=subprocess.PIPE, text=True) for k in range(4)
    ]
    assert sorted(process.communicate()[0].strip() for process in started) == ["False"] * 3 + ["True"]


def test_a_list_that_cannot_be_written_stops_before_the_data(monkeypatch):
    Path("file").write_text("")
    monkeypatch.setenv("LEASTNOISE_STATE", str(Path("file").absolute()))
    book = ledger("a.ledger")
    with pytest.raises(ln.LeastnoiseError, match="set LEASTNOISE_STATE to a folder that can be written"):
        run(book)
    assert book.entries() == []
    assert book.stopped == 0


@pytest.mark.parametrize(
    ("platform", "variables", "end"),
    [
        ("linux", {"XDG_STATE_HOME": "/s"}, "/s/leastnoise"),
        ("linux", {}, ".local/state/leastnoise"),
        ("darwin", {}, "Library/Application Support/leastnoise"),
        ("win32", {"LOCALAPPDATA": "/w"}, "/w/leastnoise"),
    ],
)
def test_the_list_is_where_the_system_keeps_such_things(monkeypatch, platform, variables, end):
    for name in ("LEASTNOISE_STATE", "XDG_STATE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(known_ledgers.sys, "platform", platform)
    assert str(state_folder()).endswith(end)


def test_the_list_has_no_address(folder):
    assert claim([str(folder / "people.parquet")], "t", Path("a.ledger"), another=False) is None
    content = (state_folder() / "ledgers.sqlite").read_bytes()
    assert b"people.parquet" not in content
    assert b"a.ledger" in content


def test_a_ledger_without_its_token_is_damaged():
    book = ledger("a.ledger")
    with closing(sqlite3.connect("a.ledger", isolation_level=None)) as connection:
        connection.execute("DROP TRIGGER identity_delete")
        connection.execute("DELETE FROM identity")
    with pytest.raises(ln.LeastnoiseError, match=r"is damaged \(it has no token\)"):
        run(book)


def test_a_copy_of_a_ledger_is_the_same_one_only_while_the_other_is_gone():
    first = ledger("a.ledger")
    run(first)
    shutil.copy("a.ledger", "copy.ledger")
    with pytest.raises(BudgetError, match="is a copy of the ledger"):
        run(ln.Ledger.open("copy.ledger"))
    os.remove("a.ledger")
    run(ln.Ledger.open("copy.ledger"))
