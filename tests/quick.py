"""The selection of `make quick`: of every test the first case, without what is slow, long or needs an engine."""

from collections import Counter
from collections.abc import Iterable

import pytest

LEFT_OUT = ("slow", "postgres", "spark", "browser", "data", "long")  # marks, in the order in which they are counted
FURTHER = "further cases"  # of tests of which another case runs


def reason(item: pytest.Item, seen: set[str]) -> str | None:
    """Why a test is left out; None for the first case of a test that is not."""
    for mark in LEFT_OUT:
        if item.get_closest_marker(mark):
            return mark
    test = item.nodeid.split("[")[0]
    if test in seen:
        return FURTHER
    seen.add(test)
    return None


def split(items: Iterable[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item], Counter[str]]:
    """What runs, what does not, and how many of these for which reason."""
    seen: set[str] = set()
    reasons = [(item, reason(item, seen)) for item in items]
    kept = [item for item, why in reasons if why is None]
    left = [item for item, why in reasons if why is not None]
    return kept, left, Counter(why for _, why in reasons if why is not None)


def summary(left: Counter[str]) -> str:
    """One line that says what did not run."""
    parts = [f"{number:,} {why if why == FURTHER else f'marked {why}'}" for why, number in left.most_common()]
    return f"left out: {', '.join(parts)}; `make test` runs all but the slow ones"
