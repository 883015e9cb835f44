"""How much work something does, counted instead of timed: the same on every machine, busy or not."""

import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


@dataclass
class Work:
    """Calls of functions (Python's and those of extensions), and the most bytes that were held at once."""

    calls: int = 0
    peak: int = 0


@contextmanager
def counted_calls() -> Iterator[Work]:
    """Counts calls in the block. A call of an extension counts as one, however much it does; see `traced_memory`."""
    work = Work()

    def count(frame: FrameType, event: str, argument: object) -> None:
        work.calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield work
    finally:
        sys.setprofile(before)


@contextmanager
def traced_memory() -> Iterator[Work]:
    """Measures the largest memory that Python and NumPy hold in the block, beyond what they held before."""
    work = Work()
    tracemalloc.start()
    try:
        yield work
    finally:
        work.peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
