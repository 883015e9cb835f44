"""Neighbours: words, refusals, and a sensitivity that covers every change, by listing all changes."""

import json
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from leastnoise.errors import LeastnoiseError
from leastnoise.privacy import Budget
from leastnoise.privacy.neighbours import Neighbours, as_neighbours

KINDS = {
    "rows": (Neighbours(), "adding or removing one row"),
    "replaced": (Neighbours("replace"), "replacing one row, the number of rows being public"),
    "private": (Neighbours("replace", size="private"), "replacing one row, the number of rows being private"),
    "people": (Neighbours("add-remove", 3), "adding or removing one person with at most 3 rows"),
    "one each": (Neighbours("add-remove", 1), "adding or removing one person with at most 1 row"),
    "people replaced": (Neighbours("replace", 2), "replacing one person with at most 2 rows"),
    "groups": (
        Neighbours(rows_per_person=10, one_per="page"),
        "adding or removing one person with at most 10 rows, at most one for each value of page",
    ),
    "several groups": (
        Neighbours("replace", 10, one_per=["page", "day"]),
        "replacing one person with at most 10 rows, at most one for each combination of values of page and day",
    ),
    "apart": (
        Neighbours(rows_per_person=8, min_separation=128),
        "adding or removing one person with at most 8 rows, at least 128 steps apart",
    ),
    "exact": (
        Neighbours("replace", exact="the root of 'geo' [01ab]"),
        "replacing one row such that these counts stay as they are: the root of 'geo' [01ab]",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_words_and_round_trips(kind):
    neighbours, words = KINDS[kind]
    assert str(neighbours) == words
    assert Neighbours.from_json(json.loads(json.dumps(neighbours.to_json()))) == neighbours
    assert as_neighbours(neighbours) is neighbours


def test_all_kinds_differ():
    results = [neighbours for neighbours, _ in KINDS.values()]
    assert len(set(results)) == len(results)
    assert len({str(n) for n in results}) == len(results)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"change": "swap"}, "neighbours must be 'add-remove' or 'replace', got 'swap'"),
        ({"change": 3}, "neighbours must be 'add-remove' or 'replace', got 3"),
        ({"size": "known"}, "size 'known' does not go with adding or removing one row; leave size out"),
        (
            {"change": "replace", "rows_per_person": 1, "size": "known"},
            "size 'known' does not go with replacing one person with at most 1 row; leave size out",
        ),
        ({"change": "replace", "size": "public"}, "size must be 'known' or 'private', got 'public'"),
        (
            {"exact": "the root"},
            "exact counts are kept by replacing only; use neighbours='replace' with size 'known'",
        ),
        (
            {"change": "replace", "size": "private", "exact": "the root"},
            "exact counts are kept by replacing only; use neighbours='replace' with size 'known'",
        ),
        ({"one_per": ["a"]}, "one_per is for people with several rows; say how many, such as rows_per_person=10"),
        (
            {"one_per": ["a"], "rows_per_person": 1},
            "one_per is for people with several rows; with rows_per_person 1 leave one_per out",
        ),
        ({"one_per": [1], "rows_per_person": 2}, "one_per takes names of attributes, such as ['page'], got [1]"),
        ({"one_per": 1, "rows_per_person": 2}, "one_per takes names of attributes, such as ['page'], got 1"),
        (
            {"one_per": ["a", "a"], "rows_per_person": 2},
            "one_per names an attribute twice in ['a', 'a']; name each once",
        ),
        (
            {"min_separation": 3},
            "min_separation is for people with several rows; say how many, such as rows_per_person=8",
        ),
        (
            {"min_separation": 3, "rows_per_person": 1},
            "min_separation is for people with several rows; leave min_separation out",
        ),
        (
            {"min_separation": 0, "rows_per_person": 3},
            "min_separation must be a whole number from 1 to 1,000,000,000, got 0",
        ),
        (
            {"min_separation": 3, "rows_per_person": 3, "one_per": ["a"]},
            "min_separation says more than one_per; leave one_per out",
        ),
        (
            {"change": "replace", "rows_per_person": 3, "one_per": ["a"], "exact": "the root"},
            "exact counts do not go with one_per or min_separation; leave one of them out",
        ),
        ({"rows_per_person": 0}, "rows_per_person must be a whole number from 1 to 1,000,000,000, got 0"),
    ],
)
def test_what_makes_no_sense_is_refused(given, text):
    with pytest.raises(LeastnoiseError) as error:
        Neighbours(**given)
    assert str(error.value) == text


def test_said_twice_is_refused():
    with pytest.raises(LeastnoiseError, match="leave rows_per_person, size, one_per and min_separation out"):
        Budget(mu=1, neighbours=Neighbours("replace"), rows_per_person=2)


def people(cells: int, rows: int) -> list[np.ndarray]:
    """Counted rows of one person in all ways: none up to `rows`, each in any cell."""
    result = []
    for k in range(rows + 1):
        for chosen in combinations_with_replacement(range(cells), k):
            result.append(np.bincount(np.array(chosen, dtype=int), minlength=cells))
    return result


def changes(neighbours: Neighbours, cells: int) -> list[np.ndarray]:
    """Differences of the counts of all neighbours. Rows that are not counted stand for dropped ones."""
    whole = people(cells, neighbours.rows)
    if neighbours.change == "add-remove":
        return whole
    if neighbours.size == "known":
        whole = [x for x in whole if x.sum() == neighbours.rows]
    return [x - y for x, y in product(whole, whole)]


@pytest.mark.parametrize("kind", [k for k in KINDS if k not in ("exact", "groups", "several groups", "apart")])
def test_sensitivity_covers_every_change(kind, rng):
    """Against all changes of small tables; it is reached by some matrix, so it is not larger than it must be."""
    neighbours, _ = KINDS[kind]
    reached = 0.0
    for _ in range(40):
        cells = int(rng.integers(1, 4))
        B = rng.integers(-5, 6, (int(rng.integers(1, 4)), cells))
        square = max(int((B[:, i] ** 2).sum()) for i in range(cells))
        difference = max(int(((B[:, i] - B[:, j]) ** 2).sum()) for i in range(cells) for j in range(cells))
        moved = max(int(((B @ x) ** 2).sum()) for x in changes(neighbours, cells))
        bound = neighbours.squared_sensitivity(square, difference)
        assert moved <= bound
        reached = max(reached, moved / bound if bound else 0)
        assert max(np.abs(x).sum() for x in changes(neighbours, cells)) <= neighbours.moves
    assert reached == 1


def test_dropped_rows_need_more_than_differences():
    """A matrix whose columns are long and alike: dropping a row moves far, replacing it hardly."""
    private, known = Neighbours("replace", size="private"), Neighbours("replace")
    assert (private.squared_sensitivity(100, 1), known.squared_sensitivity(100, 1)) == (100, 1)


def test_ledgers_take_people_with_and_without_groups():
    """They hide the same change: one person with all rows."""
    plain, grouped = Neighbours(rows_per_person=3), Neighbours(rows_per_person=10, one_per=["page"])
    assert plain.shares_ledger(grouped)
    assert grouped.shares_ledger(plain)
    assert not grouped.shares_ledger(Neighbours("replace", 10, one_per=["page"]))
    assert not grouped.shares_ledger(Neighbours())
    assert (grouped.rows, grouped.alike, plain.alike) == (10, 1, 3)
