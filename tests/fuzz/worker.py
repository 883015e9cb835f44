"""Inputs one after the other in a forked process, under limits that the kernel enforces.

The worker sets two timers before every input: one of its CPU time, which a busy machine does not use up, and one of the
clock, for what waits for nothing. Both end the process, whatever it is doing. The number of the input is in memory that
is shared with the parent, which reports it and goes on with the next one in a new process.
"""

from __future__ import annotations

import json
import mmap
import os
import resource
import shutil
import signal
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.fuzz.law import Finding, Kind, judged

Seconds = tuple[float, float]
SECONDS: Seconds = (2.0, 120.0)  # that an input may take: of the CPU, and by the clock, which others share
MOST_BYTES = 2**30
MOST_FINDINGS = 25  # of one signature, that are kept
_REST = 77  # exit code of a worker that has used much memory
_SHARED = Path("/dev/shm")


@dataclass
class Outcome:
    """What came of a batch of inputs."""

    kind: str
    inputs: int = 0
    refused: int = 0
    seconds: float = 0.0
    slowest: tuple[float, int] = (0.0, -1)  # CPU seconds, seed
    peak: int = 0  # bytes
    findings: list[Finding] = field(default_factory=list)
    signatures: Counter[str] = field(default_factory=Counter)

    def add(self, finding: Finding) -> None:
        """Keep a finding, unless there are many like it."""
        self.signatures[finding.signature] += 1
        if self.signatures[finding.signature] <= MOST_FINDINGS:
            self.findings.append(finding)

    def to_json(self) -> dict[str, Any]:
        return vars(self) | {"findings": [asdict(f) for f in self.findings], "signatures": dict(self.signatures)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Outcome:
        results = [Finding(**f) for f in data.pop("findings")]
        return cls(**data | {"findings": results, "signatures": Counter(data["signatures"])})

    def __str__(self) -> str:
        each = 1000 * self.seconds / max(self.inputs, 1)
        worst = f"slowest {1000 * self.slowest[0]:.0f} ms (seed {self.slowest[1]}), peak {self.peak / 2**20:.0f} MB"
        return f"{self.kind}: {self.inputs:,} inputs in {self.seconds:.1f} s ({each:.2f} ms each), {worst}"


def run(kind: Kind, seeds: range, limits: Seconds = SECONDS) -> Outcome:
    """Read all inputs of these seeds in workers of their own; goes on after one that had to be stopped."""
    kind.prepare()
    outcome, first, start = Outcome(kind.name), seeds.start, time.monotonic()
    while first < seeds.stop:
        first = _watched(kind, range(first, seeds.stop), limits, outcome)
    outcome.inputs, outcome.seconds = len(seeds), time.monotonic() - start
    return outcome


def _watched(kind: Kind, seeds: range, limits: Seconds, outcome: Outcome) -> int:
    """Start a worker and listen to it until it ends; returns the seed to go on with."""
    at = mmap.mmap(-1, 8)
    at[:] = struct.pack("q", seeds.start)
    read, write = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    if (child := os.fork()) == 0:
        os.close(read)
        _work(kind, seeds, limits, at, os.fdopen(write, "w"))
    os.close(write)
    with os.fdopen(read) as pipe:
        for line in pipe:
            _take(json.loads(line), outcome)
    _, status = os.waitpid(child, 0)
    (seed,) = struct.unpack("q", at[:])
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) in (0, _REST):
        return seed + 1 if os.WEXITSTATUS(status) else seeds.stop
    outcome.add(Finding(kind.name, seed, *_ending(status)))
    return seed + 1


def _ending(status: int) -> tuple[str, str]:
    if not os.WIFSIGNALED(status):
        return "crash", f"the process ended with code {os.WEXITSTATUS(status)}"
    by = signal.Signals(os.WTERMSIG(status))
    if by in (signal.SIGPROF, signal.SIGALRM):
        return "hang", f"more than {SECONDS[0]:g} s of CPU or much longer by the clock"
    return "crash", f"the process ended by {by.name}"


def _take(line: dict[str, Any], outcome: Outcome) -> None:
    if "seed" in line:
        outcome.add(Finding(**line))
    else:
        outcome.slowest = max(outcome.slowest, tuple(line["slowest"]))
        outcome.peak = max(outcome.peak, line["peak"])


def _work(kind: Kind, seeds: range, limits: Seconds, at: mmap.mmap, pipe: Any) -> None:
    """The life of a worker; it never returns."""
    code = 1
    try:
        code = _read_all(kind, seeds, limits, at, pipe)
        pipe.flush()
    except BaseException as error:  # nothing may run the parent's code in the child
        print(f"the worker itself failed: {error!r}", file=sys.__stderr__)
    finally:
        os._exit(code)


def _read_all(kind: Kind, seeds: range, limits: Seconds, at: mmap.mmap, pipe: Any) -> int:
    for number in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    base = Path(tempfile.mkdtemp(prefix="fuzz-", dir=_SHARED if _SHARED.is_dir() else None))
    slowest, code = (0.0, -1), 0
    try:
        os.chdir(base)
        _bound_memory()
        for seed in seeds:
            at[:] = struct.pack("q", seed)
            finding, spent = timed(lambda seed=seed: judged(kind, seed, emptied(base / "in")), limits)
            slowest = max(slowest, (spent, seed))
            if finding is None and peak() > MOST_BYTES:
                finding, code = Finding(kind.name, seed, "memory", f"more than {MOST_BYTES:,} bytes"), _REST
            if finding is not None:
                print(json.dumps(asdict(finding)), file=pipe, flush=True)
            if code:
                break
    finally:
        os.chdir("/")
        shutil.rmtree(base, ignore_errors=True)
    print(json.dumps({"slowest": slowest, "peak": peak()}), file=pipe)
    return code


def emptied(folder: Path) -> Path:
    """A folder without anything in it."""
    folder.mkdir(exist_ok=True)
    clear(folder)
    return folder


def clear(folder: Path) -> None:
    """Empty a folder; files first, because most hold nothing else."""
    for entry in os.scandir(folder):
        shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)


def timed(action: Callable[[], Finding | None], limits: Seconds) -> tuple[Finding | None, float]:
    """Do something under both timers; what it gives, and the CPU seconds it took."""
    signal.setitimer(signal.ITIMER_PROF, limits[0])
    signal.setitimer(signal.ITIMER_REAL, limits[1])
    start = time.process_time()
    finding = action()
    spent = time.process_time() - start
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    return finding, spent


def peak() -> int:
    """The most bytes of memory that this process has used at once."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _bound_memory() -> None:
    """What asks for much more than the law allows gets a MemoryError instead of the machine's memory.

    Allocators reserve a gigabyte or two of addresses that they never use, so the exact bound is on what is in memory.
    """
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    bound = pages * resource.getpagesize() + 3 * MOST_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (bound, bound))


def summed(outcomes: Iterable[Outcome]) -> str:
    """A line for each outcome, and one for all."""
    outcomes = list(outcomes)
    inputs, seconds = sum(o.inputs for o in outcomes), sum(o.seconds for o in outcomes)
    return "\n".join([*map(str, outcomes), f"all: {inputs:,} inputs in {seconds:.1f} s"])
