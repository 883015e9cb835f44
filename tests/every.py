"""One test that holds a law against every member of a list, and names all members that break it."""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import ParamSpec

P = ParamSpec("P")


def for_every(**lists: Iterable[object]) -> Callable[[Callable[P, None]], Callable[..., None]]:
    """Like `pytest.mark.parametrize` over all combinations of the lists, as one test instead of one per combination.

    For laws whose cases are many and quick. Fixtures and parametrized arguments are those of the test: the cases share
    them. Every case runs, also after a failure; the failures are raised together, each with the case it belongs to.
    """
    cases = _combinations(lists)

    def decorate(law: Callable[P, None]) -> Callable[..., None]:
        @functools.wraps(law)
        def test(**shared: object) -> None:
            failures = [error for case in cases if (error := _failure(law, case, shared))]
            if failures:
                raise ExceptionGroup(f"{len(failures)} of {len(cases)} cases break {law.__name__}", failures)

        signature = inspect.signature(law)
        rest = [parameter for name, parameter in signature.parameters.items() if name not in lists]
        test.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]  # what pytest fills in
        return test

    return decorate


def _combinations(lists: Mapping[str, Iterable[object]]) -> list[dict[str, object]]:
    cases: list[dict[str, object]] = [{}]
    for name, members in lists.items():
        listed = list(members)
        cases = [{**case, name: member} for case in cases for member in listed]
    assert cases, f"nothing to hold the law against in {', '.join(lists)}"
    return cases


def _failure(law: Callable[..., None], case: dict[str, object], shared: dict[str, object]) -> Exception | None:
    try:
        law(**case, **shared)
    except Exception as error:
        error.add_note("in the case " + ", ".join(f"{name} = {member!r}" for name, member in case.items()))
        return error
    return None
