"""The barrier: errors, warnings and logs of libraries do not get out, and everything is as before afterwards."""

import logging
import threading
import time
import warnings

import pandas as pd
import pytest

from leastnoise.domain.attributes import Domain
from leastnoise.errors import DataError, LeastnoiseError
from leastnoise.sources import Codes, Marginals, Table, source_of
from leastnoise.sources.barrier import barrier, guarded
from tests.sources.test_secrets import UNIT, WORD, check, said


class Panic(BaseException):
    """As libraries in Rust raise it."""


def raise_behind_the_barrier(error: BaseException) -> None:
    """With a cause that holds a secret."""
    with barrier("the source"):
        try:
            raise ValueError(WORD)
        except ValueError as cause:
            raise error from cause


@pytest.mark.parametrize("kind", [ValueError, KeyError, MemoryError, OSError, RecursionError, StopIteration, Panic])
def test_errors_of_libraries_are_replaced(kind):
    with pytest.raises(DataError) as raised:
        raise_behind_the_barrier(kind(WORD))
    assert str(raised.value) == (
        f"the source could not read the data ({kind.__name__}); check the data with its own tools"
    )
    assert raised.value.__cause__ is None
    assert raised.value.__context__ is None


@pytest.mark.parametrize("kind", [LeastnoiseError, DataError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_others_pass_alone(kind):
    with pytest.raises(kind, match=r"^fine$") as raised:
        raise_behind_the_barrier(kind("fine"))
    assert raised.value.__cause__ is None
    assert raised.value.__context__ is None


def test_items_are_made_behind_the_barrier():
    def items():
        yield 1
        raise KeyError(WORD)

    results = guarded("the source", items())
    assert next(results) == 1
    with pytest.raises(DataError) as raised:
        next(results)
    check(said(raised.value))


def test_logs_are_silent_inside_and_as_before_outside(caplog):
    log = logging.getLogger("leastnoise.tests")
    log.warning("before")
    with barrier("one"):
        log.critical(WORD)
    log.warning("after")
    assert caplog.messages == ["before", "after"]


def test_threads_behind_the_barrier_leave_warnings_and_logs_as_they_were():
    before, start = (list(warnings.filters), logging.root.manager.disable), threading.Barrier(8)

    def work() -> None:
        start.wait(10)
        for _ in range(50):
            with barrier("one"):
                time.sleep(0)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (warnings.filters, logging.root.manager.disable) == before


def test_warnings_are_silent_inside_and_as_before_outside():
    before = list(warnings.filters)
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        with barrier("one"):
            with barrier("other"):
                warnings.warn(WORD, stacklevel=1)
            warnings.warn(WORD, stacklevel=1)
        warnings.warn("outside", stacklevel=1)
    assert [str(w.message) for w in shown] == ["outside"]
    assert warnings.filters == before


class Array:
    """Something that turns into an array, or rather does not."""

    def __array__(self, *_, **__):
        raise RuntimeError(WORD)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Codes(Domain.of(a=2), {"a": Array()}),
        lambda: Table(Domain.of(a=2), Array()),
        lambda: Marginals(Domain.of(a=2), {"a": Array()}),
        lambda: Codes.of_values(Domain.of(a=2), {"a": Array()}),
    ],
)
def test_sources_in_memory_are_made_behind_the_barrier(make):
    with pytest.raises(DataError, match=r"could not read the data \(RuntimeError\)") as raised:
        make()
    check(said(raised.value))


def test_categories_of_several_types_are_counted():
    frame = pd.DataFrame({"x": pd.Categorical([1, "F", None, 1], categories=[1, "F"])})
    source = source_of(frame, Domain.of(x=["F", 1, "none"]), rules={"x": {"missing": "none"}})
    assert next(source.count([(0,)])).tolist() == [1, 2, 1]


def test_ids_with_lone_surrogates_are_refused():
    message = "^the column 'x' has ids that are not valid Unicode; replace their lone surrogates$"
    with pytest.raises(DataError, match=message):
        source_of({"x": [f"\ud800{WORD}", "b"], "y": [0, 1]}, Domain.of(y=range(3)), unit=UNIT)
