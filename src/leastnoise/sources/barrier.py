"""No value of the data gets into a message, whatever library raises it."""

import logging
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from leastnoise.errors import DataError, LeastnoiseError

Item = TypeVar("Item")
_PASS = (LeastnoiseError, KeyboardInterrupt, SystemExit, GeneratorExit)
_END = object()
_LIBRARIES = {"pandas": "pandas", "polars": "Polars", "pyarrow": "Arrow", "numpy": "NumPy", "pyspark": "Spark"}
_SCHEMES = {"postgresql": "PostgreSQL", "spark": "Spark"}


class barrier:
    """Whatever is raised inside, a `LeastnoiseError` gets out that has nothing of the data and nothing attached to it.

    Errors of libraries become a `DataError` that names `what` and the type of the error; warnings and logs are off.

    >>> with barrier("the source"):
    ...     float("a secret")
    Traceback (most recent call last):
    leastnoise.errors.DataError: the source could not read the data (ValueError); check the data with its own tools

    Guarantees: no_secret_gets_out.
    """

    def __init__(self, what: str, *, quiet: bool = True) -> None:
        """With `quiet` False for arithmetic in memory, which neither warns nor logs and must not wait for that."""
        self.what, self.quiet = what, quiet

    def __enter__(self) -> None:
        if self.quiet:
            _QUIET.enter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.quiet:
            _QUIET.leave()
        if error is None:
            return
        if isinstance(error, _PASS):
            error.__cause__ = error.__context__ = None
            return
        refusal = DataError(
            f"{self.what} could not read the data ({type(error).__name__}); check the data with its own tools"
        )
        try:
            raise refusal
        finally:  # raising has attached the other error, whose message may hold values
            refusal.__context__ = None


def guarded(what: str, items: Iterable[Item], *, quiet: bool = True) -> Iterator[Item]:
    """The same items, each of them made behind the barrier.

    >>> list(guarded("the source", iter("ab")))
    ['a', 'b']
    """
    with barrier(what, quiet=quiet):
        results = iter(items)
    while True:
        with barrier(what, quiet=quiet):
            item = next(results, _END)
        if item is _END:
            return
        yield item  # type: ignore[misc]


def title_of(data: object) -> str:
    """What holds some data, as messages call it.

    >>> title_of("people.csv"), title_of({"age": [18]})
    ('DuckDB', 'the source')
    """
    if isinstance(data, str | Path):
        return _SCHEMES.get(str(data).partition("://")[0], "DuckDB")
    return _LIBRARIES.get(type(data).__module__.partition(".")[0], "the source")


class _Quiet:
    """Warnings and logs are off while anybody is behind the barrier, in whatever thread.

    Both belong to the process, so threads that took turns at switching them would leave them off, or on too early.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._before = ExitStack()

    def enter(self) -> None:
        with self._lock:
            if not self._depth:
                self._before.enter_context(warnings.catch_warnings())
                warnings.simplefilter("ignore")
                self._before.callback(logging.disable, logging.root.manager.disable)
                logging.disable()  # PySpark logs the errors of its queries with the values in them
            self._depth += 1

    def leave(self) -> None:
        with self._lock:
            self._depth -= 1
            if not self._depth:
                self._before.close()


_QUIET = _Quiet()
