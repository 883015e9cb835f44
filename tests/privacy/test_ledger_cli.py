"""`leastnoise ledger`: create, show, and one line per mistake."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from leastnoise.cli import app, main
from leastnoise.cli.commands.ledger import show_ledger
from leastnoise.privacy import Budget, Cost, Ledger
from tests.shell import row

TOTAL = ["--epsilon", "1", "--delta", "1e-9"]
HALF = Budget(epsilon=0.5, delta=1e-9).cost_value


def invoke(*arguments: object):
    return CliRunner().invoke(app, ["ledger", *(str(a) for a in arguments)], catch_exceptions=False)


def fail(capsys, *arguments: object) -> str:
    """Stderr of a command that exits with 2 and prints nothing else."""
    with pytest.raises(SystemExit) as exit_:
        main(["ledger", *(str(a) for a in arguments)])
    assert exit_.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "people.ledger"


@pytest.fixture
def ledger(path: Path) -> Ledger:
    """A ledger with a finished and an open debit."""
    ledger = Ledger.create(path, Budget(epsilon=1, delta=1e-9), "people")
    ledger.finish(ledger.debit(HALF, "0123456789abcdef", note="pilot [bold]"), "out/")
    ledger.debit(HALF, "fedcba")
    return ledger


def shown(ledger: Ledger) -> str:
    stream = io.StringIO()
    show_ledger(ledger, Console(file=stream))
    return stream.getvalue()


# init


@pytest.mark.long
@pytest.mark.parametrize(("word", "rows"), [("y", 1), ("n", None)])
def test_init_asks_for_people_on_a_terminal(path, word, rows):
    ours, theirs = os.openpty()
    command = [sys.executable, "-c", "from leastnoise.cli import main; main()", "ledger", "init", str(path)]
    process = subprocess.Popen([*command, "--dataset", "people", *TOTAL], stdin=theirs, stdout=theirs, stderr=theirs)
    os.write(ours, f"{word}\n".encode())
    assert process.wait(timeout=60) == 0
    assert b"Can a person have several rows in this dataset?" in os.read(ours, 100_000)
    os.close(theirs)
    os.close(ours)
    assert Ledger.open(path).total.neighbours.rows_per_person == rows


def test_init_creates_the_ledger(path):
    result = invoke("init", path, "--dataset", "people", *TOTAL)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        f"created {path} for the dataset 'people': "
        "epsilon 1 and delta 1e-09 (mu 0.182, rho 0.01656) for adding or removing one row\n"
        "it protects single rows; where a person can have several, make it with --protects people\n"
    )
    ledger = Ledger.open(path)
    assert (ledger.dataset, ledger.total) == ("people", Budget(epsilon=1, delta=1e-9))


@pytest.mark.parametrize(
    ("options", "total"),
    [
        (["--rho", "0.0075"], Budget(rho=0.0075)),
        (["--mu", "0.3", "--neighbours", "replace"], Budget(mu=0.3, neighbours="replace")),
        (["--mu", "0.3", "--rows-per-person", "4"], Budget(mu=0.3, rows_per_person=4)),
    ],
)
def test_init_takes_every_budget(path, options, total):
    assert invoke("init", path, "--dataset", "people", *options).exit_code == 0
    assert Ledger.open(path).total == total
    assert Ledger.open(path).left.mu_squared == total.exact_cost


def test_init_prints_json(path):
    message = json.loads(invoke("init", path, "--dataset", "people", "--rho", "0.5", "--json").stdout)
    assert message == json.loads(invoke("show", path, "--json").stdout)
    assert (message["dataset"], message["left"]["mu_squared"], message["entries"]) == ("people", "1/1", [])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ([], "a budget is epsilon and delta, or mu, or rho; got nothing"),
        (
            ["--epsilon", "1"],
            "epsilon needs a delta, because Gaussian noise has no delta of zero; try --delta 1e-9",
        ),
        (["--mu", "1", "--rho", "1"], "a budget is epsilon and delta, or mu, or rho; got mu, rho"),
        (["--mu", "0"], "mu must be a positive finite number, got 0.0"),
        (["--mu", "1", "--neighbours", "swap"], "neighbours must be 'add-remove' or 'replace', got 'swap'"),
        (
            ["--mu", "1", "--rows-per-person", "0"],
            "rows_per_person must be a whole number from 1 to 1,000,000,000, got 0",
        ),
    ],
)
def test_init_refuses_bad_budgets(path, capsys, options, text):
    assert fail(capsys, "init", path, "--dataset", "people", *options) == f"leastnoise: {text}\n"
    assert not path.exists()


def test_init_never_overwrites(ledger, path, capsys):
    text = f"leastnoise: {path} exists already; choose another name\n"
    assert fail(capsys, "init", path, "--dataset", "people", *TOTAL) == text
    assert len(Ledger.open(path).entries()) == 2


def test_init_needs_a_dataset(path, capsys):
    assert "--dataset" in fail(capsys, "init", path, *TOTAL)
    assert not path.exists()


# show


def test_show_json_is_the_ledger(ledger, path):
    result = invoke("show", path, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    message = json.loads(result.stdout)
    assert message["dataset"] == "people"
    assert Budget.from_json(message["total"]) == ledger.total
    assert Cost.from_json(message["spent"]) == ledger.spent
    assert Cost.from_json(message["left"]) == ledger.left
    assert message["left"]["epsilon"] == ledger.left.epsilon_at(1e-9)
    for entry, plain in zip(ledger.entries(), message["entries"], strict=True):
        assert Cost.from_json(plain.pop("cost")) == entry.cost
        assert plain == {
            "id": entry.id,
            "time": entry.time,
            "status": entry.status,
            "fingerprint": entry.fingerprint,
            "note": entry.note,
            "release": entry.release,
            "who": "",
        }


def test_show_prints_a_table(ledger, path):
    result = invoke("show", path)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == shown(ledger)
    assert result.stdout.startswith(
        "dataset people: epsilon 1 and delta 1e-09 (mu 0.182, rho 0.01656) for adding or removing one row\n"
        "spent epsilon 0.7177 (53.1%), left epsilon 0.6738 (46.9%) (at delta 1e-09); "
        "shares are of mu^2, which adds up\n"
        "another release like the last (epsilon 0.5) would leave epsilon 0.4372; 1 of them fit\n"
        "2 releases; 0 of at most 10 runs stopped after a look at the data\n"
    )
    assert row(result.stdout, "time") == ["", "time (UTC)", "plan", "status", "cost", "left", "note", "by"]
    first, second = (row(result.stdout, word) for word in ("finished", "debited"))
    assert first[2:] == ["0123456789ab", "finished", "epsilon 0.5", "epsilon 0.8511", "pilot [bold]", ""]
    assert second[2:] == ["fedcba", "debited", "epsilon 0.5", "epsilon 0.6738", "", ""]
    assert f"{first[1].replace(' ', 'T')}+00:00" == ledger.entries()[0].time


def test_show_without_entries_has_no_table(path):
    assert shown(Ledger.create(path, Budget(rho=0.5), "people")) == (
        "dataset people: rho 0.5 (mu 1) for adding or removing one row\n"
        "spent rho 0 (0%), left rho 0.5 (100%); shares are of mu^2, which adds up\n"
        "0 releases; 0 of at most 10 runs stopped after a look at the data\n"
    )


def test_show_creates_nothing(path, capsys):
    text = fail(capsys, "show", path)
    assert text.startswith(f"leastnoise: there is no ledger {path}; create it once: leastnoise ledger init ")
    assert text.count("\n") == 1
    assert not path.exists()


def test_show_refuses_other_files(path, capsys):
    path.write_text("age,sex\n" * 200)
    text = f"leastnoise: {path} is not a ledger; ledgers are made by `leastnoise ledger init`\n"
    assert fail(capsys, "show", path) == text


@pytest.mark.parametrize("command", [[], ["init"], ["show"]], ids=["all", "init", "show"])
def test_help_has_an_example(command):
    result = invoke(*command, "--help")
    assert result.exit_code == 0
    assert f"Example: leastnoise ledger {' '.join(command) or 'init'}" in result.stdout
