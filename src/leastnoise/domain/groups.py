"""Groups of rows: values of some attributes, of each of which at most one row of a person is counted."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from leastnoise.errors import LeastnoiseError

if TYPE_CHECKING:
    from leastnoise.domain.attributes import Domain


def checked_one_per(names: object, rows: int | None, bound: str = "rows_per_person") -> tuple[str, ...]:
    """Attributes of whose values a person has at most one row each; `bound` is what the most rows are called."""
    listed = (names,) if isinstance(names, str) else tuple(names) if isinstance(names, Sequence) else (None,)
    if not all(isinstance(name, str) and name for name in listed):
        raise LeastnoiseError(f"one_per takes names of attributes, such as ['page'], got {names!r}")
    if len(set(listed)) < len(listed):
        raise LeastnoiseError(f"one_per names an attribute twice in {list(listed)}; name each once")
    if listed and (rows is None or rows == 1):
        fix = f"say how many, such as {bound}=10" if rows is None else f"with {bound} 1 leave one_per out"
        raise LeastnoiseError(f"one_per is for people with several rows; {fix}")
    return tuple(str(name) for name in listed)


def check_groups(one_per: Sequence[str], domain: "Domain") -> None:
    """Refuse groups that no attribute has, and groups of an amount: rows may have any number of different ones.

    Guarantees: amounts_are_no_groups.
    """
    for name in one_per:
        if name not in domain:
            known = ", ".join(domain.names[:6])
            raise LeastnoiseError(f"one_per names {name!r}, which is no attribute ({known}); name attributes")
    domain.check_counted("one_per", one_per)
