"""No refusal of the shell advises what only Python has."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import leastnoise
from leastnoise.cli.words import in_shell_words
from tests.shell import SMALL, fail, people

ERRORS = {"LeastnoiseError", "DataError", "BudgetError", "StoppedError"}
PYTHON = re.compile(r"(?<![?&])\b[a-z_]+=['\"\w\[.]|\w\(\.*\)|\bln\.|\.\w+\(|\b[A-Z]\w+\(")
ALSO_SHELL = ("lr=4", "geo=state", "?table=name")  # how options and URIs are written
# What the shell cannot reach: values, arrays and releases that somebody makes in Python.
ONLY_PYTHON = {
    *(
        "domain/attributes.py",
        "domain/binned.py",
        "estimate/estimate.py",
        "estimate/store.py",
        "planning/factorization.py",
    ),
    *("mechanisms/adaptive/completion.py", "mechanisms/adaptive/grem.py", "planning/fourier.py", "privacy/cost.py"),
    "privacy/accounting.py",
    *("privacy/exponential_mechanism.py", "release/frames.py", "release/release.py", "sources/codes.py"),
    *(
        "sources/source.py",
        "sources/tables.py",
        "release/queries/questions.py",
        "release/statistics/simultaneous.py",
        "workload/rules.py",
    ),
}
SEEDED = "use SecureRandomSource()"  # no command draws seeded noise on a ledger
ARRAYS = "say Codes(domain, array) or Table(domain, array)"


def messages(file: Path) -> Iterator[str]:
    """Texts of errors, with a letter for whatever they are filled with."""
    for call in ast.walk(ast.parse(file.read_text())):
        if not isinstance(call, ast.Call) or getattr(call.func, "id", "") not in ERRORS:
            continue
        for node in ast.walk(call):
            if isinstance(node, ast.JoinedStr):
                yield "".join(part.value if isinstance(part, ast.Constant) else "X" for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_the_shell_is_not_told_python():
    """All messages of the package that a command can print, as it prints them."""
    root, found = Path(leastnoise.__file__).parent, []
    for file in sorted(root.rglob("*.py")):
        if file.relative_to(root).as_posix() in ONLY_PYTHON:
            continue
        for text in messages(file):
            shown = in_shell_words(text)
            for known in (*ALSO_SHELL, SEEDED, ARRAYS):
                shown = shown.replace(known, "")
            if PYTHON.search(shown):
                found.append(f"{file.relative_to(root)}: {text}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["release", "small.yaml", "--data", "people.parquet", "--out", "here"], "replace it with --overwrite"),
        (["release", "small.yaml", "--data", "people.parquet", "--out", "o", "--memory", "x"], "--memory 4GB"),
        (["release", "small.yaml", "--data", "duckdb://x.db", "--out", "o"], "?table=name to the URI, or --table name"),
        (["ledger", "init", "x.ledger", "--dataset", "x", "--epsilon", "1"], "try --delta 1e-9"),
        (["show", "nowhere"], "make one with leastnoise release"),
        (["stream", "nowhere"], "open one with leastnoise release and 'method: stream'"),
        (["ask", "nowhere", "a = 1"], "make one with leastnoise release"),
    ],
)
def test_refusals_name_what_the_shell_has(tmp_path, monkeypatch, capsys, arguments, advice):
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(SMALL)
    people().to_parquet("people.parquet")
    Path("here").mkdir()
    Path("x.db").touch()
    monkeypatch.setattr("leastnoise.cli.commands.release.NO_LEDGER", "", raising=True)
    text = fail(capsys, *arguments) if arguments[0] != "release" else last_line(capsys, arguments)
    assert advice in text


def last_line(capsys, arguments) -> str:
    from tests.shell import call

    code, _, err = call(capsys, *arguments)
    assert code in (2, 3)
    return err.splitlines()[-1]
