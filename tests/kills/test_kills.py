"""Releases of every kind, killed at random points: never an undercount, never half a release.

Points are the same in every run but for those by time. What SIGKILL cannot show is the order of syncs: see `points`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kills.catalogue import RUNS, STREAMS
from tests.kills.mutations import MUTATIONS

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
WAYS = {"time", "call", "system call"}


def program(*arguments: object) -> list[str]:
    """What the program of this folder prints."""
    command = [sys.executable, "-m", "tests.kills", *map(str, arguments)]
    one_thread = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # forks and threads do not mix
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=3600, env=os.environ | one_thread
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.splitlines()


def kills(folder: Path, count: int, seed: int, *kinds: str) -> list[dict]:
    """What came of all kills; the laws hold after each trial, killed or not."""
    lines = program(folder, count, seed, *kinds)
    trials = [json.loads(line) for line in lines if line.startswith("{")]
    print("\n".join(line for line in lines if not line.startswith("{")))
    assert [t for t in trials if t["violation"] is not None] == []
    dead = [t for t in trials if t["killed"]]
    assert len(dead) == count
    assert {t["kind"] for t in dead} == set(kinds or RUNS + STREAMS)
    return dead


def test_survives_being_killed(tmp_path):
    dead = kills(tmp_path, 120, 1, *RUNS)
    assert {t["way"] for t in dead} >= WAYS - {"system call"}  # which not every system lets tests trace
    # One kill in five cuts a transaction of the ledger off; were it one in ten, none of 120 would have odds of 3e-6.
    assert any(t["journal"] for t in dead)


def test_published_answers_survive_being_killed(tmp_path):
    kills(tmp_path, 50, 2, *STREAMS)


@pytest.mark.slow
def test_survives_being_killed_often(tmp_path):
    dead = kills(tmp_path, 2_000, 3)
    # Seven kills in a hundred and more end at each of these stages; were it two, the odds that one of them is missed
    # would be below 7 * 0.98^2000 = 2e-17.
    assert {t["stage"] for t in dead} >= {"start", "attempt?", "debit?", "debit", "complete?", "complete", "finish?"}


def test_every_mutation_is_caught(tmp_path):
    """The laws see a debit after the noise, a run that nobody took down, a folder written in place, and so on."""
    (line,) = program(tmp_path, "mutations")
    results = zip(MUTATIONS, json.loads(line), strict=True)
    assert [(m.break_it.__name__, m.kind, law) for m, law in results if not str(law).startswith(m.law)] == []
