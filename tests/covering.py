"""Few cases of many: a cross of parameters is covered by `make test` and run whole by `make slow`."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import settings

FULL = 100  # examples of a property in `make slow`, the default of hypothesis


def chosen(cases: Sequence[Iterable[object]]) -> list[int]:
    """Places of few cases in which every value of all cases occurs, each value about equally often.

    Always the case with most values that did not occur yet; of several, the one whose values occurred least, then the
    first. Each choice adds such a value, so that a cross needs no more cases than its lists have members together.
    """
    rows = [frozenset(case) for case in cases]
    missing, used, places = set().union(*rows), Counter[object](), list[int]()
    while missing:
        place = min(range(len(rows)), key=lambda k: (-len(rows[k] & missing), sum(used[v] for v in rows[k]), k))
        places.append(place)
        missing -= rows[place]
        used.update(rows[place])
    return sorted(places)


def values(item: pytest.Function) -> list[tuple[str, str]]:
    """The values of a case by name; the mark may join names, as in `covering("kind output", "seed")`."""
    mark = item.get_closest_marker("covering")
    parameters = item.callspec.params
    groups = [group.split() for group in mark.args] if mark and mark.args else [[name] for name in parameters]
    return [(" ".join(group), repr([parameters[name] for name in group])) for group in groups]


def mark_others(items: Iterable[pytest.Item]) -> None:
    """Of each test marked `covering`, mark the cases `slow` that are not needed for every value to occur."""
    tests = defaultdict[str, list[pytest.Function]](list)
    for item in items:
        covered = hasattr(item, "callspec") and item.get_closest_marker("covering")
        if covered and not item.get_closest_marker("slow"):
            tests[item.nodeid.split("[")[0]].append(item)
    for cases in tests.values():
        needed = set(chosen([values(case) for case in cases]))
        for place, case in enumerate(cases):
            if place not in needed:
                case.add_marker(pytest.mark.slow)


def examples(full: int) -> int:
    """How many examples of a property to try: `full` in `make slow`, in proportion fewer in other runs, at least 10."""
    return max(min(full, 10), full * settings.default.max_examples // FULL)
