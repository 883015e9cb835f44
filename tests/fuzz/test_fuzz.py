"""Everything that reads input, under attack: read or refused in one line, within 2 s and 1 GB, without values of data.

Inputs follow from their seeds, so each run reads the same ones and there are no false alarms by chance: a failure is an
input that breaks the law, and its message has the command that replays it.
"""

from collections.abc import Callable

import pytest

from tests.fuzz.kinds import KINDS
from tests.fuzz.launcher import Launcher

pytestmark = pytest.mark.long

QUICK = {"specs": 400, "releases": 400, "pages": 100, "local": 2000, "data": 150, "files": 400, "questions": 300}
SLOW = {"specs": 150_000, "releases": 100_000, "pages": 50_000, "local": 500_000, "data": 75_000, "files": 75_000}
SLOW["questions"] = 50_000
BATCH = {"specs": 7_500, "releases": 10_000, "pages": 2_500, "local": 50_000, "data": 2_500, "files": 7_500}
BATCH["questions"] = 2_500
BATCHES = [(kind, first) for kind in SLOW for first in range(0, SLOW[kind], BATCH[kind])]

Note = Callable[[str, object], None]


def check(launcher: Launcher, kind: str, first: int, count: int, record_property: Note) -> None:
    outcome = launcher.run(kind, first, count)
    record_property("fuzz", [kind, outcome.inputs, outcome.seconds])
    assert outcome.inputs == count
    assert not outcome.findings, "\n".join(map(str, outcome.findings))


def test_a_million_inputs_are_read_and_each_kind_gets_many():
    assert SLOW.keys() == BATCH.keys() == QUICK.keys() == KINDS.keys()
    assert sum(SLOW.values()) == 1_000_000
    assert min(SLOW.values()) >= 50_000
    assert all(SLOW[kind] % BATCH[kind] == 0 for kind in SLOW)


@pytest.mark.xdist_group("fuzz")
@pytest.mark.parametrize("kind", QUICK)
def test_some_thousand_inputs(launcher, kind, record_property):
    check(launcher, kind, 0, QUICK[kind], record_property)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "first"), BATCHES)
def test_a_million_inputs(launcher, kind, first, record_property):
    check(launcher, kind, first, BATCH[kind], record_property)
