"""The harness notices what it is for: readers that are wrong on purpose, and inputs that follow from their seeds."""

import os
import subprocess
import sys

import pytest

from tests.fuzz.defects import BAD, DEFECTS
from tests.fuzz.kinds import KINDS
from tests.fuzz.launcher import ROOT
from tests.fuzz.law import Finding, generator
from tests.fuzz.worker import SECONDS

pytestmark = [pytest.mark.xdist_group("fuzz"), pytest.mark.long]


LIMITS = {"waits": (2.0, 1.0), "fills memory": (60.0, 60.0)}  # which takes long where pages are slow, and is no hang


def bad(kind: str, count: int) -> list[int]:
    """Seeds of the inputs that a reader with a defect reads badly."""
    return [seed for seed in range(count) if generator(kind, seed).randrange(BAD) == 0]


@pytest.mark.parametrize("name", DEFECTS)
def test_defects_are_found_with_their_seeds(launcher, name):
    """Each of them among sound inputs; of those that take seconds, one and the sound one after it."""
    slow = DEFECTS[name][1] in ("hang", "memory")
    first = next(seed for seed in bad(name, 100) if seed + 1 not in bad(name, 100)) if slow else 0
    count = 2 if slow else 12
    outcome = launcher.run(name, first, count, LIMITS.get(name, SECONDS))
    assert outcome.inputs == count
    assert {finding.rule for finding in outcome.findings} == {DEFECTS[name][1]}
    assert [f.seed for f in outcome.findings] == [seed for seed in bad(name, 100) if first <= seed < first + count]


def test_a_sound_reader_passes(launcher):
    outcome = launcher.run("sound", 0, 50)
    assert outcome.inputs == 50
    assert outcome.findings == []
    assert bad("sound", 50)  # some of them were refused, in one line


def test_a_finding_says_how_to_replay_it():
    text = str(Finding("specs", 17, "traceback", "KeyError: 'x'", "at domain.py:3 of"))
    assert text == "traceback: KeyError: 'x' at domain.py:3 of; replay: python -m tests.fuzz replay specs 17"


def test_one_command_replays_one_seed():
    seed = bad("key error", 100)[0]
    command = [sys.executable, "-m", "tests.fuzz", "replay", "key error", str(seed)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "KeyError: 'missing'" in done.stderr
    assert done.stdout.startswith("traceback: KeyError")


def test_inputs_follow_from_their_seeds():
    """Processes with other hashes of texts make the same inputs, of all kinds."""
    command = [sys.executable, "-m", "tests.fuzz", "digest", "20"]
    running = [
        subprocess.Popen(
            command, cwd=ROOT, env=os.environ | {"PYTHONHASHSEED": hashes}, stdout=subprocess.PIPE, text=True
        )
        for hashes in ("1", "2")
    ]
    one, other = (process.communicate(timeout=300)[0].splitlines() for process in running)
    assert [line.split()[0] for line in one] == [kind for kind in KINDS for _ in range(20)]
    assert one == other
