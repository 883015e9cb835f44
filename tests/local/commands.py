"""`leastnoise local` as a shell runs it, in a folder with a small plan, and reports of devices for it."""

from pathlib import Path

import numpy as np

from leastnoise.local import load_plan, simulate
from leastnoise.noise import SeededRandomSource
from tests import shell
from tests.shell import call

SPEC = """\
attributes:
  age: {range: [0, 5], outside: clamp}
  sex: {values: [F, M]}
workload: [{queries: prefix, on: age}, {queries: marginal, on: [age, sex]}]
privacy: {epsilon: 1, delta: 1e-9}
"""
BYTES = 6  # of a report


def ok(capsys, *arguments):
    code, out, err = call(capsys, "local", *arguments)
    assert code == 0, err
    return out


def fail(capsys, *arguments, code=2):
    return shell.fail(capsys, "local", *arguments, code=code)


def reports(name: str, count: int, seed: int = 0) -> Path:
    plan = load_plan("s.plan")
    codes = np.random.default_rng(seed).integers(0, plan.domain.shape, size=(count, 2))
    Path(name).write_bytes(simulate(plan, codes, SeededRandomSource(seed)))
    return Path(name)
