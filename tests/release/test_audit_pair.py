"""Made-up neighbours go through real sources: they differ by one change, and a dropped row is among them."""

from itertools import product

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.audit.pair import BYSTANDERS, farthest, made_up, neighbours
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.gate import Counts
from leastnoise.privacy.neighbours import Neighbours

DOMAIN = ln.Domain.of(age=range(3), sex=["F", "M"], stay=ln.bins(0, 10, width=5), person=2)
EVERYTHING = tuple(range(4))
WORST = {1: [np.array([2, 1, 1, 0])], 2: [np.array([2, 1, 1, 0]), np.array([0, 0, 1, 1])]}
CHANGES = [
    Neighbours(),
    Neighbours("replace"),
    Neighbours("replace", size="private"),
    Neighbours("add-remove", 1),
    Neighbours("add-remove", 3),
    Neighbours("replace", 1),
    Neighbours("replace", 3),
    Neighbours("replace", 3, exact="the total"),
]


def counted(source) -> np.ndarray:
    (table,) = Counts(source).tables([EVERYTHING])
    return table


@pytest.mark.parametrize("how", CHANGES, ids=repr)
def test_neighbours_differ_by_one_change(how):
    new, old = (tuple(cell) for cell in WORST[2])
    replaced = {new: how.rows, old: -how.rows}
    added = {tuple(WORST[1][0]): how.rows}
    expected = ([replaced] if how.change == "replace" else []) + ([added] if how.size == "private" else [])
    seen = []
    for zero, one in neighbours(DOMAIN, how, lambda count: [*WORST[count]][::-1] if count == 2 else WORST[count]):
        moved = counted(one) - counted(zero)
        seen.append({tuple(map(int, place)): int(moved[tuple(place)]) for place in np.argwhere(moved)})
    assert seen == expected


@pytest.mark.parametrize("how", CHANGES, ids=repr)
def test_sources_bound_what_is_counted(how):
    """The others are always counted; of a person, as many rows as are allowed; a dropped row is in the data."""
    source = made_up(DOMAIN, how, WORST[1][0])
    assert counted(source).sum() == BYSTANDERS + how.rows
    assert getattr(source, "rows_per_person", None) == how.rows_per_person
    if how.size == "private":
        assert counted(made_up(DOMAIN, how, None)).sum() == BYSTANDERS
        assert source.drops == (how.change == "replace")


def test_a_row_is_dropped_by_the_rules_of_a_source(monkeypatch):
    """Where rows are replaced, the missing row is there, and the source leaves it out."""
    given = {}
    real = ln.sources.source_of
    monkeypatch.setattr(
        "leastnoise.audit.pair.source_of",
        lambda data, *rest, **more: given.update(data) or real(data, *rest, **more),
    )
    made_up(DOMAIN, Neighbours("replace", size="private"), None)
    assert len(given["age"]) == BYSTANDERS + 1
    assert given["age"][-1] is None
    made_up(DOMAIN, Neighbours("replace", 3), None)
    assert given["age"][-5:] == [None] * 5  # of a person more rows than are counted
    assert len(set(given["person_"])) == BYSTANDERS + 1
    made_up(DOMAIN, Neighbours(), None)
    assert len(given["age"]) == BYSTANDERS


def test_too_many_rows_are_refused_in_one_line():
    with pytest.raises(LeastnoiseError) as error:
        made_up(DOMAIN, Neighbours("add-remove", 100_001), None)
    assert str(error.value) == (
        "an audit makes up all 100,001 rows of a person, which are too many; audit a plan with fewer"
    )


class Squares:
    """Distances in which the attributes play together: the search must change several of them."""

    def __init__(self, seed):
        self.members, self.table = np.arange(3), np.random.default_rng(seed).normal(size=(4, 3, 2, 5))

    def distance(self, cells, other):
        result = self.table[tuple(cells.T)] - (0 if other is None else self.table[tuple(other)])
        return np.square(result).sum(axis=1)


@pytest.mark.parametrize("seed", range(5))
def test_no_single_change_leads_farther(seed):
    """The search ends where no other value of one attribute is better; seldom far from the best."""
    term, cells = Squares(seed), [np.array(c) for c in product(range(4), range(3), range(2))]
    a, b = farthest([term], ln.Domain.of(a=4, b=3, c=2), 2)
    best = term.distance(a[None], b)[0]
    near = [c for c in cells if (c != a).sum() == 1]
    assert all(term.distance(c[None], b)[0] <= best * (1 + 1e-9) for c in near)
    (one,) = farthest([term], ln.Domain.of(a=4, b=3, c=2), 1)
    assert term.distance(one[None], None)[0] >= 0.7 * max(term.distance(c[None], None)[0] for c in cells)
