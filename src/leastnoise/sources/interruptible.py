"""Waiting for an engine that does not hear Ctrl-C."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")


def stoppable(items: Callable[[], Iterator[Item]], stop: Callable[[], None]) -> Iterator[Item]:
    """Items made in another thread, one at a time, while this one can be interrupted; `stop` then ends their making.

    >>> list(stoppable(lambda: iter("ab"), print))
    ['a', 'b']

    Guarantees: an_interrupt_stops_the_engine.
    """
    with ThreadPoolExecutor(1) as pool:
        try:
            source = pool.submit(items).result()
            while (item := pool.submit(next, source, None).result()) is not None:
                yield item
        except KeyboardInterrupt:
            stop()
            raise
