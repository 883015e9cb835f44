"""Commands as a shell runs them, and a small dataset with things in it that must stay secret."""

import os
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

import leastnoise as ln
from leastnoise.cli import main

SECRET, ZEBRA, COUNT = "hunter2secret", "zebra-7731", 4217  # recognizable: a password, a value, a number
SMALL = """\
attributes:
  age: {range: [0, 4]}
  sex: {values: [F, M]}
workload: [{queries: hybrid, ways: [1, 2]}]
privacy: {mu: 1024}
"""  # noise that rounds to nothing, so that releases show the truth


def people() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    sex = rng.choice(["F", "M"], 300, p=[0.3, 0.7])
    return pd.DataFrame({"age": rng.integers(0, 5, 300), "sex": sex, "name": f"{ZEBRA} "})


def counted(frame: pd.DataFrame) -> list[int]:
    return [int(((frame.age == age) & (frame.sex == sex)).sum()) for age in range(5) for sex in "FM"]


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command in this process."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as exit_:
        main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return exit_.value.code or 0, out, err


def fail(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 2) -> str:
    """The one line on stderr of a command that fails with this code and prints nothing else."""
    number, out, err = call(capsys, *arguments)
    assert (number, out, err.count("\n")) == (code, "", 1), err
    return err.removeprefix("leastnoise: ").removesuffix("\n")


def release(capsys: pytest.CaptureFixture[str], data: object = "people.parquet", *more: object) -> tuple[int, str, str]:
    return call(capsys, "release", "small.yaml", "--data", data, "--out", "out", *more)


def ledger(total: float = 2048) -> ln.Ledger:
    return ln.Ledger.create("people.ledger", ln.Budget(mu=total), "people")


def shell(*arguments: object, setup: Callable[[], None] | None = None, **variables: str) -> subprocess.Popen[str]:
    """A command in a process of its own, with more environment variables."""
    command = [sys.executable, "-c", "from leastnoise.cli import main; main()", *map(str, arguments)]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"} | variables
    pipe = subprocess.PIPE
    return subprocess.Popen(command, text=True, env=environment, stdout=pipe, stderr=pipe, preexec_fn=setup)


def row(text: str, word: str) -> list[str]:
    """The cells of the line of a printed table that has a word in it."""
    line = next(line for line in text.splitlines() if word in line)
    return [cell.strip() for cell in line.strip("│┃").replace("┃", "│").split("│")]
