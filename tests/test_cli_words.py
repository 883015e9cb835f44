"""No refusal of the shell advises what only Python has."""

import re
from pathlib import Path

import numpy as np
import pytest

from leastnoise import Budget, plan
from leastnoise.cli.words import in_shell_words
from leastnoise.sources import Table
from leastnoise.workload.spec import parse_spec
from tests.refusal_texts import all_refusals
from tests.shell import SMALL, call, fail, people

PYTHON = re.compile(r"(?<![?&])\b[a-z_]+=['\"\w\[.]|\w\(\.*\)|\bln\.|\.\w+\(|\b[A-Z]\w+\(")
ALSO_SHELL = ("lr=4", "geo=state", "?table=name")  # how options and URIs are written
# What the shell cannot reach: values, arrays and releases that somebody makes in Python.
ONLY_PYTHON = {
    *(
        "domain/attributes.py",
        "estimate/estimate.py",
        "estimate/evaluation.py",
        "estimate/store.py",
        "planning/factorization.py",
    ),
    *("mechanisms/adaptive/completion.py", "mechanisms/adaptive/grem.py", "planning/fourier.py", "privacy/cost.py"),
    "privacy/accounting.py",
    *("privacy/exponential_mechanism.py", "release/release.py", "sources/codes.py"),
    *(
        "sources/source.py",
        "sources/tables.py",
        "release/queries/questions.py",
        "release/statistics/simultaneous.py",
        "workload/rules.py",
    ),
}
SOURCES = "(drops=False)", "X is no workload; ask() answers single queries"  # that somebody writes in Python
SEEDED = "use SecureRandomSource()"  # no command draws seeded noise on a ledger
ARRAYS = "say Codes(domain, array) or Table(domain, array)"


def test_the_shell_is_not_told_python():
    """All messages of the package that a command can print, as it prints them."""
    found = []
    for refusal in all_refusals():
        for text in () if refusal.file in ONLY_PYTHON else refusal.texts:
            shown = in_shell_words(text)
            for known in (*ALSO_SHELL, *SOURCES, SEEDED, ARRAYS):
                shown = shown.replace(known, "")
            if PYTHON.search(shown):
                found.append(f"{refusal.file}:{refusal.line}: {text}")
    assert not found, "\n".join(found)


def test_python_is_not_told_options_alone():
    """A message that Python prints names a whole command, or what Python has beside an option."""
    option = re.compile(r"(?<![\w-])--[a-z]")
    texts = [text for refusal in all_refusals() if not refusal.file.startswith("cli/") for text in refusal.texts]
    found = [t for t in texts if option.search(t) and "leastnoise " not in t and "(in Python: " not in t]
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
    code, _, err = call(capsys, *arguments)
    assert code in (2, 3)
    return err.splitlines()[-1]


def test_errors_of_several_questions_are_in_words_of_the_shell(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    spec = "attributes: {sex: {values: [F, M]}, size: {values: [S, M, L], ordered: true}}\n"
    workload = parse_spec(f"{spec}workload: [{{queries: marginal, ways: 1}}]\nprivacy: {{mu: 1}}").workload
    plan(workload, Budget(mu=1)).run(Table(workload.domain, np.ones((2, 3), dtype=int))).save("out")
    code, out, _ = call(capsys, "ask", "out", "mean(sex)", "mean(size)")
    assert code == 2
    assert "'sex' holds values that are no numbers, so it has no mean; ask for shares\n" in out
    assert "'size' holds values that are no numbers, so it has no mean; ask for a median, or for shares\n" in out
