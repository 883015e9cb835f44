"""The suite itself: its pairs, shifts, samplers and coordinates against brute force."""

import re
from collections import Counter
from fractions import Fraction
from itertools import combinations, product
from math import inf

import numpy as np
import pytest
from numpy.testing import assert_allclose

import leastnoise as ln
from leastnoise.mechanisms.tree import Tree, tree_plan
from leastnoise.mechanisms.tree.integer import integer_noise
from leastnoise.noise import SeededRandomSource
from leastnoise.privacy.cost import Cost
from leastnoise.privacy.exponential_mechanism import exponential_mechanism_cost
from leastnoise.privacy.neighbours import Neighbours
from tests.neighbours.crosses import DROPPED, PEOPLE, SUBJECTS
from tests.neighbours.data import people_of, rows_of
from tests.neighbours.mechanisms import coordinates
from tests.neighbours.shifts import Choice, Output, shifts, worst
from tests.neighbours.suite import planned
from tests.neighbours.tape import Tape, replaced

TIMES = re.compile(rb'"(created|sha256)": "[^"]+"')  # when it was made, and the checksum that depends on it

# --- pairs ------------------------------------------------------------------------------------------------------------


def brute_force_pairs(universe, neighbours):
    """By trying every change on every data set."""
    members = set()
    bags = [Counter(numbers) for numbers in universe.sets]
    person = None if neighbours.rows_per_person is None else universe.columns.index("id")
    for a, b in combinations(range(len(bags)), 2):
        gone, come = bags[a] - bags[b], bags[b] - bags[a]
        if person is None:
            sizes = {gone.total(), come.total()}
            replaced = sizes == {1}
            added = sizes == {0, 1}
        else:
            ids = [{universe.rows[i][person] for i in bag} for bag in (gone, come)]
            whole = [  # all rows of the one person on that side are exchanged, or some of them for the same person
                len(ids[k]) <= 1 and not any(universe.rows[i][person] in ids[k] for i in side)
                for k, side in enumerate((bags[a] - gone, bags[b] - come))
            ]
            same = ids[0] | ids[1]
            replaced = (len(same) == 1 and has(universe, person, a, same) and has(universe, person, b, same)) or (
                all(whole) and len(ids[0]) == len(ids[1]) == 1
            )
            added = len(same) == 1 and has(universe, person, a, same) != has(universe, person, b, same)
        if (neighbours.change == "replace" and replaced) or (neighbours.size == "private" and added):
            members.add((a, b))
    return members


def has(universe, person, place, ids):
    return any(universe.rows[i][person] in ids for i in universe.sets[place])


@pytest.mark.parametrize("change", ["add-remove", "replace"])
@pytest.mark.parametrize("rows", [None, 1, 3])
def test_pairs_match_brute_force(change, rows):
    universe = people_of(["a"], [(0,), (9,), (None,)], {"p": 3, "r": 2, None: 1}, ((), (0,), (0, 1)))
    sizes = ["known", "private"] if (change, rows) == ("replace", None) else [None]
    for size in sizes:
        neighbours = Neighbours(change, rows, size)
        pairs = universe.pairs(neighbours)
        assert {(min(p), max(p)) for p in pairs.tolist()} == brute_force_pairs(universe, neighbours)
        assert len(pairs) > 50


def test_row_pairs_match_brute_force():
    universe = rows_of({"a": (0, 9, None), "b": ("x", "?")}, 2)
    assert len(universe.sets) == 1 + 6 + 21
    for neighbours in (Neighbours(), Neighbours("replace"), Neighbours("replace", size="private")):
        members = {(min(p), max(p)) for p in universe.pairs(neighbours).tolist()}
        assert members == brute_force_pairs(universe, neighbours)
    assert len(universe.pairs(Neighbours("replace"))) == 7 * 15
    assert len(universe.pairs(Neighbours())) == 6 + 6 * 6


# --- shifts -----------------------------------------------------------------------------------------------------------


def test_shifts_match_fractions(rng):
    variances = (Fraction(3, 7), Fraction(5), Fraction(3, 7), Fraction(0))
    cost = Cost(Fraction(1))
    values = rng.integers(-50, 50, (6, 4))
    values[:3, 3], values[3:, 3] = 4, 5
    steps, scale = rng.integers(0, 99, (6, 3)) * 10**12, 10**14
    outputs = [
        Output(cost, tuple(v.tolist()), variances, (Choice(tuple(s.tolist()), scale),))
        for v, s in zip(values, steps, strict=True)
    ]
    pairs = np.array(list(combinations(range(6), 2)))
    result = shifts(outputs, pairs)
    for (a, b), shift in zip(pairs.tolist(), result, strict=True):
        if (a < 3) != (b < 3):
            assert shift == inf
            continue
        gauss = sum(Fraction(int(d)) ** 2 / v for d, v in zip(values[a] - values[b], variances, strict=True) if v)
        ratios = [Fraction(int(s) - int(t), scale) for s, t in zip(steps[a], steps[b], strict=True)]
        assert shift == gauss + exponential_mechanism_cost(Fraction(1)) * (max(ratios) - min(ratios)) ** 2
    assert worst(outputs, pairs[:2]).shift == max(result[:2])


def test_outputs_of_different_form_are_refused():
    one, two = (Output(Cost(Fraction(1)), (0,), (Fraction(v),)) for v in (1, 2))
    with pytest.raises(AssertionError, match="depends on the data"):
        shifts([one, two], np.array([[0, 1]]))


# --- samplers ---------------------------------------------------------------------------------------------------------


def test_tapes_hand_out_what_the_first_run_published():
    tape = Tape(SeededRandomSource(1))
    for first, values in ((True, [3, 5]), (False, [30, 50])):
        tape.rewind()
        published = np.array([values]) + tape.gaussian(SeededRandomSource(0), Fraction(100), (1, 2))
        (number,) = [7 + e for e in tape.gaussian(SeededRandomSource(0), Fraction(9), 1).tolist()]
        assert tape.draw([5, 0, 5], 1000, SeededRandomSource(0)) == tape.taken[0]
        if first:
            reported = [*published[0].tolist(), number]
            assert reported != [3, 5, 7]
        assert [*published[0].tolist(), number] == reported == tape.published
        assert tape.values == [*values, 7]
        assert tape.variances == [100, 100, 9]
        assert tape.choices == [Choice((5, 0, 5), 1000)]


@pytest.mark.parametrize("name", SUBJECTS)
def test_without_noise_equal_data_publish_equal_numbers(name):
    """Every sampler is replaced: twice the same data give twice the same integers, which real noise would not."""
    subject = SUBJECTS[name]
    budget = PEOPLE[0] if subject.people_only else DROPPED
    plan = planned(subject.mechanism, tuple(budget.items()))
    data = {column: list(values[:2]) for column, values in subject.inside.items()}
    with replaced():
        first, second = (subject.mechanism.publish(plan, data, {}, tape) for tape in (Tape(), Tape()))
    assert first == second


# --- nothing else -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["plan", "survey", "aim"])
def test_a_release_holds_nothing_but_what_is_published(name, tmp_path):
    """Runs that publish the same integers leave the same files behind, whatever the data are; but for the time."""
    subject, tape = SUBJECTS[name], Tape(SeededRandomSource(2))
    plan = planned(subject.mechanism, tuple(DROPPED.items()))
    rules, kept = subject.rules(("drop", "drop")), []
    with tape.playing():
        for place, numbers in enumerate([(), (0,), (1, 1), (3, 5)]):
            tape.rewind()
            plan.run(subject.universe.data(numbers), rules=rules, out=tmp_path / str(place))
            files = sorted((tmp_path / str(place)).iterdir())
            kept.append({f.name: TIMES.sub(b"", f.read_bytes()) for f in files})
    for other in kept[1:]:
        assert other.keys() == kept[0].keys()
        differ = [file for file in other if other[file] != kept[0][file]]
        assert not differ, differ


# --- cascades ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "trees",
    [
        {"leaf": Tree.regular([2, 3])},
        {"leaf": Tree.from_parents([-1, 0, 0, 0, 1, 1, 2, 2, 2, 2])},
        {"a": Tree.regular([3]), "b": Tree.regular([2, 2])},
    ],
    ids=["even", "uneven", "two trees"],
)
def test_coordinates_of_cascades_match_the_noise_that_is_drawn(trees):
    """The shift in independent coordinates is d' Cov^-1 d, with the covariance of what the sampler is asked for."""
    plan = tree_plan(trees, budget=ln.Budget(mu=0.5))
    covariance = drawn_covariance(plan)
    axes = [coordinates(c) for c in plan.noise_cascades]
    rows = np.ones((1, 1))
    for each, _ in axes:
        rows = np.kron(rows, each)
    variances = [float(np.prod([float(v) for v in each])) for each in product(*(v for _, v in axes))]
    precision = rows.T @ (rows / np.array(variances)[:, None])
    assert_allclose(precision, np.linalg.inv(covariance), rtol=1e-4, atol=1e-4 * np.abs(precision).max())


def drawn_covariance(plan):
    """From the response of the published table to each number that the sampler is asked for."""
    shape = tuple(t.leaf_count for t in plan.trees)
    size, queries = 2**24, []

    def respond(place):
        left = iter(range(10**9))

        def sampler(random_source, variance, shape, threads=None):
            drawn = np.zeros(shape, dtype=np.int64)
            for i in range(drawn.size):
                number = next(left)
                if place is None:
                    queries.append(float(variance))
                elif number == place:
                    drawn.reshape(-1)[i] = size
            return drawn

        with replaced(sampler):
            return integer_noise(SeededRandomSource(1), *plan.noise_cascades).reshape(-1) / size

    assert not respond(None).any()
    answers = np.stack([respond(place) for place in range(len(queries))], axis=1)
    assert answers.shape[0] == np.prod(shape)
    return (answers * np.array(queries)) @ answers.T
