"""Releases that are killed: the budget is never overspent, and a folder under its name is a whole release."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import leastnoise as ln
from tests.release.crash import LEDGER, PLAN, STAGES

ROOT = Path(__file__).parents[2]
BEFORE_DEBIT = {"before the debit", "in the debit"}
PUBLISHED = {"after the rename", "before the finish", "after the finish"}


def crashes(folder: Path, trials: int, seed: int) -> list[dict]:
    command = [sys.executable, "-m", "tests.release.crash", str(folder), str(trials), str(seed)]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300, env=environment)
    assert told.returncode == 0, told.stderr
    return [json.loads(line) for line in told.stdout.splitlines()]


def check(folder: Path, trials: int, seed: int) -> list[dict]:
    found = crashes(folder, trials, seed)
    assert len(found) == trials
    for trial in found:
        # A debit may have been written without its acknowledgement getting out; more would be made up.
        assert trial["debits"] <= trial["counted"] <= 1, trial
        assert trial["finishes"] <= trial["finished"] <= trial["folder"], trial
        assert trial["folder"] == trial["loads"], trial  # never half a release under the final name
        assert trial["entry"] == (1 if trial["folder"] else None), trial  # and never one that was not paid for
        assert trial["drafts accepted"] == 0, trial
    for trial in found[: len(STAGES)]:
        stage = trial["stage"]
        assert trial["counted"] == (stage not in BEFORE_DEBIT), trial
        assert trial["folder"] == (stage in PUBLISHED), trial
        assert trial["finished"] == (stage == "after the finish"), trial
    check_end(folder, found)
    return found


def check_end(folder: Path, found: list[dict]) -> None:
    ledger = ln.Ledger.open(folder / LEDGER)
    entries = ledger.entries()
    assert len(entries) == sum(trial["counted"] for trial in found) + 3  # two before the kills and one after them
    assert ledger.spent.mu_squared == len(entries) * PLAN.recipe.cost.mu_squared
    assert entries[-1].status == "finished"
    assert len(list(folder.glob("done*"))) == sum(trial["folder"] for trial in found)


def test_survives_being_killed(tmp_path):
    check(tmp_path, len(STAGES) + 10, seed=1)


@pytest.mark.slow
def test_survives_being_killed_often(tmp_path):
    found = check(tmp_path, 220, seed=2)[len(STAGES) :]
    # Kills at random times hit all that lies between start and debit, and between debit and rename. Each of them takes
    # a tenth of the time or more; none of 205 kills there would have probability 4e-10.
    assert any(not trial["counted"] for trial in found)
    assert any(trial["counted"] and not trial["folder"] for trial in found)
