"""Work in a process of its own, with limits on time and memory, for code by others and what it is compared with."""

from __future__ import annotations

import contextlib
import io
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Generic, TypeVar

from bench.common import peak_memory_mb

Result = TypeVar("Result")


@dataclass(frozen=True)
class Run(Generic[Result]):
    """What came of it, or why nothing did."""

    result: Result | None
    seconds: float
    cpu: float
    memory_mb: float
    failure: str = ""


@dataclass(frozen=True)
class Limits:
    """What a process may take on a machine that is shared."""

    seconds: float = 600.0
    memory_gb: float = 8.0


def run_alone(load: Callable[[], object], work: Callable[[], Result], limits: Limits) -> Run[Result]:
    """Load and work in a new process, which is ended after so many seconds and is refused more memory.

    Loading is not timed. Both must be picklable, and so must the result.
    """
    here, there = get_context("spawn").Pipe(duplex=False)
    process = get_context("spawn").Process(target=_child, args=(there, load, work, limits))
    started = time.perf_counter()
    process.start()
    there.close()
    try:
        if here.poll(limits.seconds):
            return here.recv()  # type: ignore[no-any-return]
        return Run(None, time.perf_counter() - started, 0.0, 0.0, f"stopped after {limits.seconds:,.0f} s")
    except EOFError:
        return Run(None, time.perf_counter() - started, 0.0, 0.0, "ended without a result")
    finally:
        if process.is_alive():
            process.terminate()
        process.join()


def _child(there: Connection, load: Callable[[], object], work: Callable[[], Result], limits: Limits) -> None:
    most = int(limits.memory_gb * 2**30)
    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (most, before[1]))
    try:
        load()
        started, cpu = time.perf_counter(), time.process_time()
        with contextlib.redirect_stdout(io.StringIO()):
            result = work()
        there.send(Run(result, time.perf_counter() - started, time.process_time() - cpu, peak_memory_mb()))
    except MemoryError:
        resource.setrlimit(resource.RLIMIT_DATA, before)  # nothing is left to report with
        there.send(Run(None, 0.0, 0.0, peak_memory_mb(), f"more than {limits.memory_gb:g} GB"))
    except Exception as error:  # of code that is not ours: the row says so
        there.send(Run(None, 0.0, 0.0, peak_memory_mb(), f"{type(error).__name__}: {error}"[:120]))
