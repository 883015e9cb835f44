"""Covering subsets: every value occurs, about equally often, and the rest is for `make slow`."""

from collections import Counter
from itertools import product
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.covering import chosen, examples, mark_others, values

LETTERS, NUMBERS = "abcdefg", range(3)


@given(st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=4), min_size=1, max_size=30))
def test_every_value_occurs_and_no_case_is_idle(cases):
    """Each case that is chosen has a value of its own when it is chosen, so there are at most as many as values."""
    kept = chosen(cases)
    every = {value for case in cases for value in case}
    assert {value for place in kept for value in cases[place]} == every
    assert len(kept) == len(set(kept)) <= len(every)


def test_crosses_are_as_long_as_their_longest_list_and_balanced():
    cases = [(("letter", x), ("number", n)) for x, n in product(LETTERS, NUMBERS)]
    kept = [cases[place] for place in chosen(cases)]
    assert sorted(letter for (_, letter), _ in kept) == list(LETTERS)
    counts = Counter(number for _, (_, number) in kept)
    assert max(counts.values()) - min(counts.values()) <= 1


class Case:
    """As much of a collected test as matters here."""

    def __init__(self, *marks, **parameters):
        self.nodeid = f"tests/test_x.py::test_law[{parameters}]"
        self.callspec, self.marks = SimpleNamespace(params=parameters), {mark.name: mark.mark for mark in marks}

    def get_closest_marker(self, name):
        return self.marks.get(name)

    def add_marker(self, mark):
        self.marks[mark.name] = mark.mark


def test_cases_that_are_not_needed_are_slow():
    cases = [Case(pytest.mark.covering, letter=x, number=n) for x, n in product(LETTERS, NUMBERS)]
    mark_others(cases)
    kept = [case.callspec.params for case in cases if "slow" not in case.marks]
    assert len(kept) == len(LETTERS)
    assert {case["number"] for case in kept} == set(NUMBERS)


def test_slow_cases_are_not_chosen():
    first = Case(pytest.mark.covering, pytest.mark.slow, letter="a", number=0)
    others = [Case(pytest.mark.covering, letter=x, number=0) for x in "ab"]
    mark_others([first, *others])
    assert [sorted(case.marks) for case in others] == [["covering"], ["covering"]]


@pytest.mark.covering("letter other", "number")
@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize(("letter", "other"), [("a", 1), ("a", 2), ("b", 1)])
def test_joined_names_are_one_parameter(letter, other, number, request):
    assert sorted(values(request.node)) == [("letter other", repr([letter, other])), ("number", repr([number]))]


def test_tests_without_the_mark_are_left_alone(request):
    mark_others([request.node])
    assert not request.node.get_closest_marker("slow")


def test_examples_are_in_proportion():
    assert examples(3) == 3
    assert 10 <= examples(1000) <= 1000
    assert examples(1000) * 10 >= examples(10_000) > examples(1000)
