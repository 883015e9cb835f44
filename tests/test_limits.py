"""Limits of readers of specs: whatever is written there, a refusal takes one line, little time and little memory."""

import resource
from fractions import Fraction

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.domain.attributes import Bins
from leastnoise.errors import LONGEST, LeastnoiseError
from leastnoise.mechanisms.from_spec import plan_spec
from leastnoise.planning.structure import build_structure
from leastnoise.workload.blocks import pieces_of
from leastnoise.workload.spec import load_spec, parse_spec
from tests.catalogue import WORKLOADS
from tests.work import counted_calls

CALLS, BYTES = 10**7, 2**28  # an ordinary spec takes about 4,000 calls


def spec(attributes: str = "a: {size: 3}", line: str = "{queries: marginal, ways: 1}", privacy: str = "mu: 1") -> str:
    return f"attributes: {{{attributes}}}\nworkload: [{line}]\nprivacy: {{{privacy}}}\n"


def alike(n: int) -> str:
    return ", ".join(f"a{i}: {{size: 2}}" for i in range(n))


def unlike(n: int) -> str:
    return ", ".join(f"a{i}: {{size: {i + 2}}}" for i in range(n))


def laughs(start: str, each: str) -> str:
    """Ten thousand million entries in some lines: each is made of the one before, several times."""
    return start + "".join(f"      k{i}: &k{i} {each.replace('*', f'*k{i - 1}')}\n" for i in range(1, 40))


REFUSED = {
    "aliases of lists": (
        laughs("attributes:\n  a:\n    values:\n      k0: &k0 [u, v]\n", "[*, *, *]"),
        "line 13: more than 50,000 entries, aliases written out; put long lists into files and name these",
    ),
    "aliases of mappings": (
        laughs("attributes:\n  a:\n    hierarchy:\n      k0: &k0 [u, v]\n", "{m: *, n: *}"),
        "line 18: more than 50,000 entries, aliases written out",
    ),
    "aliases within themselves": ("attributes: &a {b: *a}\n", "nested too deeply, or within itself"),
    "merge keys": ("attributes:\n  a: &a {size: 3}\n  b: {<<: *a}\n", "line 3: merge keys (<<) are not read"),
    "many entries": ("a: [" + 120_000 * "1," + "]", "line 1: more than 50,000 entries"),
    "deep lists": ("a: " + 5_000 * "[", "line 1: more than 100 levels"),
    "deep mappings": ("".join(f"{' ' * i}a:\n" for i in range(500)), "line 100: more than 100 levels"),
    "long": ("a: " + 10**7 * "x", "has more than 1,000,000 characters"),
    "size": (spec("a: {size: 1000000000000000000000000000}"), "line 1: size '1000000000000000000000000000' is too"),
    "size in words": (spec("a: {size: 1e300}"), "line 1: size '1e300' is too large"),
    "size of an attribute": (spec("a: {size: 2000000000}"), "line 1: attribute 'a': 2000000000 values are more than"),
    "size that is asked about": (spec("a: {size: 100000000}"), "line 2: 'a' has 100,000,000 values, queries take"),
    "range": (spec("a: {range: [0, 9007199254740000]}"), "line 1: attribute 'a': 9007199254740001 values are more"),
    "range without end": (spec("a: {range: [0, 1e400]}"), "line 1: range is '1e400', not a whole number"),
    "bins": (spec("a: {bins: {low: 0, high: 1, count: 1e300}}"), "line 1: count '1e300' is too large"),
    "width": (spec("a: {bins: {low: 0, high: 1, width: 1e-300}}"), "width 1e-300 makes more than 10,000,000 bins"),
    "digits": (spec(f"a: {{size: {9_000 * '9'}}}"), "line 1: size is '9999"),
    "a value of many digits": (spec(f"a: {{values: [1, {400 * '9'}]}}"), "the value about 10^400 is not below 2**64"),
    "a long value": (spec(f"a: {{values: [y, {10**5 * 'x'}]}}"), "has 100,000 characters; use at most 1,000"),
    "a long name": (f"attributes: {{'{500 * 'x'}': {{size: 2}}}}\nworkload: []\n", "line 2: workload is empty"),
    "a long name in use": (
        f"attributes: {{'{500 * 'x'}': {{size: 2}}}}\nworkload: [{{queries: total}}]\nprivacy: {{mu: 1}}\n",
        "line 1: the name 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'... has 500 characters; use at most 200",
    ),
    "a long key": (spec(f"a: {{'{500 * 'x'}': 2}}"), "line 1: unknown key 'xxx"),
    "a long word": (spec(line=f"{{queries: {10**5 * 'x'}}}"), "line 2: unknown queries 'xxxx"),
    "a long tag": (f"a: !{10**5 * 'x'} 1", "line 1: the tag '!xxx"),
    "many copies": (spec("a: {size: 2, repeat: 99999}, b: {size: 2, repeat: 9}"), "100,008 attributes are more than"),
    "ways": (spec(alike(200), "{queries: marginal, ways: 100}"), "line 2: marginal on 100 attributes at once is too"),
    "ways as a number": (spec(line="{queries: marginal, ways: 1e300}"), "line 2: ways '1e300' is too large"),
    "all at once": (spec(alike(60), "{queries: marginal}"), "line 2: marginal on 60 attributes at once is too wide"),
    "cells": (
        spec("a: {size: 1000000, repeat: 3}", "{queries: marginal}"),
        "line 2: a table of marginal would have 1.0e+18 cells; use fewer ways or coarser values",
    ),
    "tables": (spec(alike(999), "{queries: marginal, ways: 12}"), "12-way marginal on 999 attributes are about 10^27"),
    "unlike tables": (spec(unlike(200), "{queries: marginal, ways: 3}"), "line 2: 3-way marginal on 200 attributes"),
    "random tables": (spec(alike(200), "{queries: {random: {count: 3}}, ways: 5}"), "line 2: 5-way random on 200"),
    "random rows": (spec(line="{queries: {random: {count: 1e12}}, on: a}"), "random count 1,000,000,000,000 is above"),
    "random entries": (
        spec("a: {size: 100000}", "{queries: {random: {count: 1000000}}, on: a}"),
        "line 2: random on 100000 values needs an array of 100,000,000,000 numbers (800 GB)",
    ),
    "epsilon": (spec(privacy="epsilon: 1e300, delta: 1e-9"), "line 3: epsilon 1e+300 is out of range"),
    "no epsilon": (spec(privacy="epsilon: 1e-300, delta: 1e-9"), "line 3: epsilon 1e-300 is out of range"),
    "rho": (spec(privacy="rho: 5e-324"), "line 3: rho 4.94066e-324 is out of range"),
    "weight": (spec(line="{queries: marginal, ways: 1, weight: 1e300}"), "line 2: weight 1e+300 of marginal is out of"),
    "weights": (spec(line="{queries: marginal, on: a, weights: [1, 1, 1e300]}"), "line 2: weight 1e+300 is out of"),
    "within": (spec(line="{queries: total, within: 1e-300}"), "line 2: within 1e-300 at confidence 0.95 is out of"),
    "confidence": (spec(line="{queries: total, within: 5, confidence: 1e-320}"), "line 2: within 5 at confidence"),
    "entries": (spec(line="{queries: {matrix: [[1e300, 1, 1]]}, on: a}"), "line 2: matrix holds an entry of size"),
    "phi": (spec(line="{queries: {phi: [1e300, 1, 1]}, on: a}"), "line 2: phi holds an entry of size 1e+300"),
}


@pytest.fixture
def bounded():
    """Little work, counted in calls, and no new peak of the memory of this process."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with counted_calls() as work:
        yield
    assert work.calls < CALLS
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < BYTES


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_short_in_every_way(name, bounded):
    text, line = REFUSED[name]
    with pytest.raises(LeastnoiseError) as error:
        plan_spec(parse_spec(text, "s.yaml"))
    message = str(error.value)
    assert line in message
    assert "\n" not in message
    assert message.startswith("s.yaml")
    assert len(message) <= LONGEST


def test_long_files_are_not_read_to_their_end(tmp_path, bounded):
    path = tmp_path / "s.yaml"
    with path.open("wb") as file:
        file.truncate(2**32)  # a hole: it takes no room on the disk
    with pytest.raises(LeastnoiseError, match="has more than 1,000,000 characters"):
        load_spec(path)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: ln.Domain.of(a=10**27), "attribute 'a': about 10^27 values are more than 1,000,000,000"),
        (lambda: ln.Domain.of(a=range(10**12)), "attribute 'a': 1000000000000 values are more than"),
        (lambda: ln.Domain.of({300 * "x": 2}), "has 300 characters; use at most 200"),
        (lambda: ln.bins(0, 1, width=1e-300), "makes more than 10,000,000 bins"),
        (lambda: ln.Workload(ln.Domain.of({f"a{i}": 2 for i in range(200)})).marginals(ways=100), "at most 16 ways"),
        (lambda: ln.Budget(epsilon=1e300, delta=1e-9), "epsilon 1e+300 is out of range"),
        (lambda: ln.hierarchy([[str(k) for k in range(5_000)]]), "a path has 5,000 levels"),
        (lambda: ln.hierarchy([10**5 * "1", *map(str, range(9))], digits=[1, 2]), "must have 2 characters"),
    ],
)
def test_python_has_the_same_limits(call, text, bounded):
    with pytest.raises(LeastnoiseError) as error:
        call()
    assert text in str(error.value)
    assert len(str(error.value)) <= LONGEST


def test_what_many_blocks_ask_together_is_limited_too():
    """Each of these blocks is below the limit: 120 unlike attributes have 28,560 pieces in pairs."""
    work = ln.Workload(ln.Domain.of({f"a{i}": i + 2 for i in range(120)}))
    for _ in range(80):
        work = work.marginals(ways=2)
    with pytest.raises(LeastnoiseError, match="the tables of this workload have more than 2,000,000 pieces"):
        build_structure(work)


@pytest.mark.parametrize("name", WORKLOADS)
def test_pieces_are_counted_as_they_are_listed(name):
    """The generating function against the list that it stands for."""
    structure = build_structure(WORKLOADS[name])
    class_of = {a: c for c, members in enumerate(structure.classes) for a in members.members}
    pieces = 0.0
    for block in structure.workload.blocks:
        counts = np.bincount([class_of[a] for a in block.on], minlength=len(structure.classes)) if block.on else []
        pieces += pieces_of([(n, structure.classes[c].size) for c, n in enumerate(counts) if n], block.ways)
    assert pieces == len(structure.pairs.table)


@pytest.mark.parametrize("mu", [1e-99, 1e-30, 1e-6, 1e30, 1e99])
def test_budgets_in_range_are_planned(mu):
    plan = ln.plan(ln.Workload(ln.Domain.of(a=3)).marginals(ways=1), ln.Budget(mu=mu))
    assert plan.rmse > 0
    assert 0 <= plan.worst_case_floor <= plan.floor_value


@pytest.mark.parametrize(
    ("low", "high", "count"), [(0, 1, 10), (0.1, 0.7, 6), (-1e300, 1e300, 7), (0, 1e-300, 3), (1 / 3, 2 / 3, 1000)]
)
def test_edges_are_exact_decimals_rounded_once(low, high, count):
    ends = Fraction(str(low)), Fraction(str(high))
    exact = [float(ends[0] + k * (ends[1] - ends[0]) / count) for k in range(count + 1)]
    assert Bins(low, high, count).edges.tolist() == exact


def test_ten_million_bins_take_no_time_until_they_are_used(bounded):
    assert ln.Domain.of(a=ln.bins(0, 1, count=10**7)).size == 10**7
