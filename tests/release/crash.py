"""Kills processes in the middle of releases: `python -m tests.release.crash FOLDER TRIALS SEED`, a JSON line per trial.

A program of its own, because it forks: planning in a fresh interpreter per trial would take most of the time. The first
trials stop at chosen stages, one each, and are killed there; the others are killed at random times.
"""

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import leastnoise as ln
from leastnoise import measure
from leastnoise.errors import LeastnoiseError
from leastnoise.release import files, folders
from leastnoise.sources import Table

DOMAIN = ln.Domain.of(a=range(10), b=["x", "y"], c=range(8))
PLAN = ln.plan(ln.Workload(DOMAIN).marginals(ways=2).prefix("a"), ln.Budget(rho=0.001))
DATA = Table(DOMAIN, np.arange(DOMAIN.size).reshape(DOMAIN.shape), "people")
LEDGER = "people.ledger"

# where to stop: before or after a function returns, at which of its calls
STAGES: dict[str, tuple[Any, str, str, int]] = {
    "before the debit": (ln.Ledger, "debit", "before", 1),
    "in the debit": (ln.Ledger, "_left", "after", 1),
    "after the debit": (ln.Ledger, "debit", "after", 1),
    "first noise": (measure, "rounded_gaussian", "before", 1),
    "between noise": (measure, "rounded_gaussian", "after", 3),
    "before the arrays": (np, "savez", "before", 1),
    "after the arrays": (np, "savez", "after", 1),
    "before release.json": (files, "_header", "after", 1),
    "half of release.json": (Path, "write_text", "half", 1),
    "after release.json": (Path, "write_text", "after", 1),
    "in the sync": (folders, "_sync", "after", 1),
    "before the rename": (folders, "_move", "before", 1),
    "after the rename": (folders, "_move", "after", 1),
    "before the finish": (ln.Ledger, "finish", "before", 1),
    "after the finish": (ln.Ledger, "finish", "after", 1),
}


def tell(pipe: int, letter: str) -> None:
    os.write(pipe, letter.encode())


def patched(owner: Any, name: str, around: Callable[..., Any]) -> None:
    """Replace a function, in this process only, by one that gets the old one first."""
    old = getattr(owner, name)
    setattr(owner, name, lambda *given, **named: around(old, *given, **named))


def stopping(pipe: int, stage: str) -> None:
    """Make this process report a stage and wait there for its end."""
    owner, name, when, call = STAGES[stage]
    calls = 0

    def around(old: Callable[..., Any], *given: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls != call:
            return old(*given, **named)
        if when == "half":
            path, text = given
            given = (path, text[: len(text) // 2])
        result = None if when == "before" else old(*given, **named)
        tell(pipe, "s")
        time.sleep(600)
        return result

    patched(owner, name, around)


def acknowledging(pipe: int, name: str, letter: str) -> None:
    def around(old: Callable[..., Any], *given: Any, **named: Any) -> Any:
        result = old(*given, **named)
        tell(pipe, letter)
        return result

    patched(ln.Ledger, name, around)


def child(folder: Path, pipe: int, stage: str | None) -> None:
    """One release; it never returns."""
    acknowledging(pipe, "debit", "d")
    acknowledging(pipe, "finish", "f")
    if stage is not None:
        stopping(pipe, stage)
    PLAN.run(DATA, ledger=folder / LEDGER, out=folder / "out")
    os._exit(0)


def killed(folder: Path, stage: str | None, seconds: float) -> str:
    """What a process told before it was killed: d for its debit, f for its finish, s for its stage."""
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reader)
        child(folder, writer, stage)
    os.close(writer)
    told = ""
    while stage is not None and "s" not in told:
        chunk = os.read(reader, 1).decode()
        assert chunk, f"the process ended before the stage {stage!r}"
        told += chunk
    if stage is None:
        time.sleep(seconds)
    os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the release failed by itself"
    while chunk := os.read(reader, 4096).decode():
        told += chunk
    os.close(reader)
    return told


def accepted(path: Path) -> bool:
    """Whether a folder is taken for a release."""
    try:
        ln.Release.load(path)
    except LeastnoiseError:
        return False
    return True


def trial(folder: Path, number: int, stage: str | None, seconds: float) -> dict[str, Any]:
    """One release that is killed, and what is found after it."""
    before = len(ln.Ledger.open(folder / LEDGER).entries())
    told = killed(folder, stage, seconds)
    entries = ln.Ledger.open(folder / LEDGER).entries()
    drafts, out = list(folder.glob(".out.*")), folder / "out"
    found: dict[str, Any] = {
        "stage": stage,
        "debits": told.count("d"),
        "finishes": told.count("f"),
        "counted": len(entries) - before,
        "finished": sum(entry.release is not None for entry in entries[before:]),
        "folder": out.exists(),
        "loads": out.exists() and accepted(out),
        "drafts": len(drafts),
        "drafts accepted": sum(accepted(draft) for draft in drafts),
        "entry": None,
    }
    if found["loads"]:
        header = json.loads((out / "release.json").read_text())
        found["entry"] = header["parts"][0]["ledger_entry"] - before
        release = entries[-1].release
        assert release in (None, header["id"]), "the ledger names another release"
        out.rename(folder / f"done{number}")
    return found


def main(folder: Path, trials: int, seed: int) -> None:
    """Run the trials, each beside what the ones before left behind, and one release that nobody kills."""
    rng = random.Random(seed)
    ledger = ln.Ledger.create(folder / LEDGER, ln.Budget(rho=0.001 * (trials + 3)), "people")
    for name in ("first", "second"):  # the first one also prepares what later ones share
        started = time.perf_counter()
        PLAN.run(DATA, ledger=ledger, out=folder / name)
        one = time.perf_counter() - started
    stages: list[str | None] = [*STAGES][:trials]
    stages += [None] * (trials - len(stages))
    for number, stage in enumerate(stages):
        print(json.dumps(trial(folder, number, stage, rng.uniform(0, one))), flush=True)
    PLAN.run(DATA, ledger=ledger, out=folder / "out")
    assert accepted(folder / "out"), "the last release does not load"


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
