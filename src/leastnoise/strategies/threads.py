"""Threads: one inside linear algebra, several across independent problems.

Eigenvalue solvers meet at a barrier once per column; on a busy machine two BLAS threads then wait for each other far
longer than they work (a 400 x 400 problem was seen to take 150 times as long). Distinct problems need no barrier.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from typing import TypeVar

from threadpoolctl import ThreadpoolController

T = TypeVar("T")


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager[object]:
    """A context in which linear algebra uses one thread."""
    return _controller().limit(limits=1, user_api="blas")


def across_cores(work: Callable[[T], object], items: Iterable[T]) -> None:
    """Run independent pieces of work on all cores; the first error is raised."""
    todo = list(items)
    if len(todo) < 2:
        for item in todo:
            work(item)
        return
    with ThreadPoolExecutor(min(len(todo), os.cpu_count() or 1)) as pool:
        for _ in pool.map(work, todo):
            pass
