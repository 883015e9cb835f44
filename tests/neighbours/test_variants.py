"""Crosses that nobody asks for until they break: other plans, other sources, other ways to say who is protected."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest

import leastnoise as ln
from leastnoise.mechanisms.tree import Tree
from leastnoise.sources import Codes, Marginals, Table
from tests.neighbours import mechanisms as kinds
from tests.neighbours.crosses import ADDED, DROPPED, FEW_RULES, PEOPLE, REPLACED, ROWS, Subject, people_cases, unit
from tests.neighbours.data import Numbers, Universe, people_of, rows_of
from tests.neighbours.mechanisms import Mechanism
from tests.neighbours.suite import Case, Verdict, examine

WORDS = ("x", "other")
DOMAIN = ln.Domain.of(a=range(3), b=list(WORDS))
WORK = ln.Workload(DOMAIN)
RAW = {"a": (0, 1, 2, None), "b": ("x", "?")}
KEEPING = {"rules": {"a": {"outside": "clamp", "missing": 1}, "b": {"outside": "other"}}}
DROPPING = {"rules": {"a": {"outside": "clamp", "missing": "drop"}, "b": {"outside": "drop"}}}


def held(case: Case, least: float = 0.0) -> Verdict:
    verdict = examine(case)
    assert not verdict.refused, str(verdict)
    assert verdict.holds, str(verdict)
    assert verdict.shift > least * verdict.claimed, str(verdict)
    return verdict


def both(mechanism: Mechanism, universe: Universe, keeping: Any = KEEPING, dropping: Any = DROPPING) -> None:
    """All three promises about rows: where the number of rows is public, with rules that keep all rows."""
    for budget in ROWS:
        held(Case(mechanism, budget, universe, keeping if budget == REPLACED else dropping))


# --- other plans ------------------------------------------------------------------------------------------------------

PLANS: dict[str, Callable[[], Mechanism]] = {
    "ranges": lambda: kinds.tables("ranges", WORK.ranges("a", by="b", weight=3).total()),
    "largest error": lambda: kinds.tables("largest error", WORK.marginals(ways=2).prefix("a"), objective="max"),
    "searched baseline": lambda: kinds.tables("searched baseline", WORK.ranges("a").marginals("b"), baseline="search"),
    "own baseline": lambda: kinds.tables(
        "own baseline", WORK.prefix("a").marginals(ways=2), baseline={"a": [0.7, 0.2, 0.1]}
    ),
    "low rank": lambda: kinds.tables("low rank", WORK.matrix([[1, 1, 0]], "a")),
    "total": lambda: kinds.tables("total", WORK.total().marginals("b")),
    "subtraction": lambda: kinds.tables("subtraction", WORK.marginals(ways=2), solver="subtraction"),
    "wavelet": lambda: kinds.tables("wavelet", WORK.prefix("a").marginals("b"), solver="wavelet"),
    "merged": lambda: kinds.merged("merged", WORK.marginals(ways=1), WORK.marginals(ways=2)),
}


@pytest.mark.long
@pytest.mark.parametrize("name", PLANS)
def test_other_plans(name):
    both(PLANS[name](), rows_of(RAW, 1 if name == "merged" else 2))


@pytest.mark.long
def test_sums_of_two_attributes():
    """Strategies of low rank are guarded by a second noisy query, whose cost counts."""
    domain = ln.Domain.of(a=range(3), b=range(3))
    rules = {"a": {"outside": "clamp", "missing": 1}, "b": {"outside": "clamp"}}
    dropping = {"a": {"outside": "drop", "missing": "drop"}, "b": {"outside": "clamp"}}
    universe = rows_of({"a": (0, 1, 2, None), "b": (0, 2, 7)}, 2)
    work = ln.Workload(domain).affine("a", "b").abs_diff("a", "b")
    both(kinds.tables("sums", work), universe, {"rules": rules}, {"rules": dropping})


@pytest.mark.long
def test_attributes_of_one_size():
    """Tables that look alike are planned once and measured each: the cost counts every one of them."""
    domain = ln.Domain.of(a=range(2), b=range(2), c=range(2))
    mechanism = kinds.tables("alike", ln.Workload(domain).marginals(ways=2))
    rules, dropping = {"a": {"missing": 1}}, {"a": {"missing": "drop"}}
    both(mechanism, rows_of({"a": (0, 1, None), "b": (0, 1), "c": (0, 1)}, 2), {"rules": rules}, {"rules": dropping})


@pytest.mark.long
def test_measuring_in_batches(monkeypatch):
    """As large tables are: counted in batches, multiplied in threads."""
    monkeypatch.setattr("leastnoise.mechanisms.measurement.BATCH_CELLS", 2)
    both(kinds.tables("batches", WORK.marginals(ways=2).prefix("a")), rows_of({"a": (0, 2, None), "b": WORDS}, 2))


@pytest.mark.long
@pytest.mark.parametrize("solver", ["optimal", "tree"])  # along the tree, shares between siblings are uneven
def test_hierarchies(solver):
    tree = ln.hierarchy([["n", 0], ["n", 1], ["s", 2]])
    domain = ln.Domain.of(a=tree, b=list(WORDS))
    work = ln.Workload(domain).nodes("a").marginals(ways=2)
    keeping = {"rules": {"a": {"missing": 1}, "b": {"outside": "other"}}}
    universe = rows_of({"a": (0, 1, 2, None), "b": RAW["b"]}, 2)
    along = ln.plan(work, ln.Budget(mu=1), solver=solver).design.baselines
    assert any(p.shares is not None for p in along) == (solver == "tree")
    both(
        kinds.tables("hierarchy", work, solver=solver),
        universe,
        keeping,
        {"rules": {"a": {"missing": "drop"}, "b": {"outside": "drop"}}},
    )


# --- other cascades, adaptive releases and matrices -------------------------------------------------------------------

LEAVES = {"leaf": (0, 1, 2, 5, 99, None)}
KEPT = {"rules": {"leaf": {"outside": "clamp", "missing": 1}}}
LEFT_OUT = {"rules": {"leaf": {"outside": "drop", "missing": "drop"}}}
CASCADES: dict[str, Callable[[], Mechanism]] = {
    "weights": lambda: kinds.cascade("weights", Tree.regular([2, 3]), weights=[100, 1, 10]),
    "uneven": lambda: kinds.cascade("uneven", Tree.from_parents([-1, 0, 0, 0, 1, 1, 2, 2, 2])),
    "chain": lambda: kinds.cascade("chain", Tree.from_parents([-1, 0, 1, 1, 2, 2, 2, 3, 3, 3])),
    "root exact": lambda: kinds.cascade("root exact", Tree.regular([2, 3]), exact_level=0),
    "some exact": lambda: kinds.cascade("some exact", Tree.regular([2, 3]), exact_nodes=[0, 1, 2]),
}


@pytest.mark.parametrize("name", CASCADES)
def test_other_cascades(name):
    both(CASCADES[name](), rows_of(LEAVES, 2), KEPT, LEFT_OUT)


@pytest.mark.long
def test_two_trees():
    trees = {"a": Tree.regular([3]), "b": Tree.regular([2, 2])}
    universe = rows_of({"a": (0, 2, 99), "b": (0, 1, 3, None)}, 2)
    rules = {"a": {"outside": "clamp"}, "b": {"missing": 1}}
    dropping = {"rules": {"a": {"outside": "drop"}, "b": {"missing": "drop"}}}
    both(kinds.cascade("two trees", trees), universe, {"rules": rules}, dropping)


THREE = ln.Workload(ln.Domain.of(a=range(2), b=range(2), c=range(2))).marginals(ways=2)
WEIGHTED = THREE.marginals("b", "c", weight=5)
BASELINE = {"baseline": {"a": [0.9, 0.1]}}
ADAPTIVE: dict[str, Callable[[], Mechanism]] = {
    "survey of three": lambda: kinds.adaptive("survey of three", THREE, (3,), **BASELINE),
    "survey for a fit": lambda: kinds.adaptive("survey for a fit", THREE, (3,), for_fit=True),
    "aim of three": lambda: kinds.adaptive("aim of three", THREE, (4,), select="aim", rounds=8),
    "aim with weights": lambda: kinds.adaptive("aim with weights", WEIGHTED, (4,), select="aim", rounds=8),
    "prefixes": lambda: kinds.adaptive("prefixes", WORK.add({"a": "prefix", "b": "marginal"}), (5,)),
}


@pytest.mark.parametrize("name", ADAPTIVE)
def test_other_adaptive_releases(name):
    if name == "prefixes":
        universe = rows_of({"a": (0, 2, None), "b": WORDS}, 1)
    else:
        universe = rows_of({"a": (0, 1, None), "b": (0, 1), "c": (0,)}, 1)
    for budget in (ADDED, DROPPED):
        held(Case(ADAPTIVE[name](), budget, universe, {"rules": {"a": {"missing": "drop"}}}))


@pytest.mark.slow
def test_adaptive_releases_that_fit_a_distribution():
    universe = rows_of({"a": (0, 1, None), "b": (0, 1), "c": (0,)}, 2)
    for budget in (ADDED, DROPPED):
        mechanism = kinds.adaptive("fitting", THREE, (None, 6), fitting=True)
        held(Case(mechanism, budget, universe, {"rules": {"a": {"missing": "drop"}}}))


def test_long_running_totals():
    """Beyond a thousand items another system is used; events are few, so differences are of a few columns."""
    universe = rows_of({"item": (0, 1, 700, 1099, None)}, 2)
    items = {"item": range(1100)}
    mechanism = kinds.matrix("long", ln.running_totals(1100), items=items)
    both(mechanism, universe, {"rules": {"item": {"missing": 5}}}, {"rules": {"item": {"missing": "drop"}}})


# --- people -----------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_fewer_rows_of_a_person_than_the_budget_allows():
    subject = Subject(kinds.tables("plan", WORK.marginals(ways=2)), {"a": (0, 1, 2)}, {"b": WORDS})
    for case in people_cases(subject, FEW_RULES[1:2]):
        if case.budget["rows_per_person"] == 3:
            held(Case(case.mechanism, case.budget, case.universe, {**case.options, "unit": unit(2, "drop")}))


@pytest.mark.long
def test_people_whose_rows_are_bounded_already():
    """Without a unit nothing is left out: it is the caller who says that nobody has more rows."""
    mechanism = kinds.tables("plan", WORK.marginals(ways=2))
    for budget in PEOPLE:
        k = budget["rows_per_person"]
        universe = people_of(["a", "b"], [(0, "x"), (2, "other"), (99, "?")], {"p": k, "r": 1}, ((), (0,)))
        for options in (KEEPING, DROPPING):
            held(Case(mechanism, budget, universe, options))


# --- other sources ----------------------------------------------------------------------------------------------------


class Mine:
    """A source of somebody's own, which counts row by row."""

    name = None

    def __init__(self, domain: ln.Domain, rows: Sequence[tuple[int, ...]], **declared: Any) -> None:
        self.domain, self._rows = domain, rows
        for name, value in declared.items():
            setattr(self, name, value)

    def count(self, sets: Sequence[tuple[int, ...]]) -> Iterator[np.ndarray]:
        for axes in sets:
            table = np.zeros([self.domain.shape[k] for k in axes], dtype=np.int64)
            for row in self._rows:
                table[tuple(row[k] for k in axes)] += 1
            yield table


def codes(universe: Universe, numbers: Numbers) -> list[tuple[int, ...]]:
    return [universe.rows[i] for i in numbers]


def weighted(universe: Universe, numbers: Numbers) -> Codes:
    """Equal rows once, with how often they occur."""
    distinct = sorted(set(numbers))
    given = np.array([universe.rows[i] for i in distinct], dtype=np.int64).reshape(-1, 2)
    return Codes(DOMAIN, given, weights=np.array([numbers.count(i) for i in distinct], dtype=np.int64))


def table(universe: Universe, numbers: Numbers) -> np.ndarray:
    return next(Mine(DOMAIN, codes(universe, numbers)).count([(0, 1)]))


SOURCES: dict[str, Callable[[Universe, Numbers], Any]] = {
    "weights": weighted,
    "codes": lambda u, n: Codes(DOMAIN, np.array(codes(u, n), dtype=np.int64).reshape(-1, 2)),
    "table": lambda u, n: Table(DOMAIN, table(u, n)),
    "marginals": lambda u, n: Marginals(DOMAIN, {("b", "a"): table(u, n).T}),
    "own source": lambda u, n: Mine(DOMAIN, codes(u, n), drops=False),
}
CODES = rows_of({"a": (0, 1, 2), "b": (0, 1)}, 3)


@pytest.mark.long
@pytest.mark.parametrize("name", SOURCES)
def test_other_sources(name):
    mechanism = kinds.tables("tables", WORK.marginals(ways=2).prefix("a"))
    for budget in ROWS:
        held(Case(mechanism, budget, CODES, {}, SOURCES[name]))


@pytest.mark.long
def test_sources_that_do_not_say_whether_they_drop_rows():
    mechanism = kinds.tables("tables", WORK.marginals(ways=2).prefix("a"))
    for declared in ({}, {"drops": True}):
        case = Case(mechanism, REPLACED, CODES, {}, lambda u, n, d=declared: Mine(DOMAIN, codes(u, n), **d))
        assert "drops" in examine(case).refused or "drop" in examine(case).refused
        held(Case(mechanism, DROPPED, CODES, {}, case.given))
    most = Case(mechanism, ADDED, CODES, {}, lambda u, n: Mine(DOMAIN, codes(u, n), drops=False, rows_per_person=1))
    assert "rows_per_person=1" in examine(most).refused


FRAMES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "pandas": pd.DataFrame,
    "categories": lambda columns: pd.DataFrame(columns).astype({"b": "category"}),
    "Polars": lambda columns: polars.DataFrame(columns, schema={"a": polars.Int64, "b": polars.String}),
    "Arrow": lambda columns: pa.table(
        {"a": pa.array(columns["a"], pa.int64()), "b": pa.array(columns["b"], pa.string())}
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", FRAMES)
def test_data_frames(name):
    def frame(universe: Universe, numbers: Numbers) -> Any:
        return FRAMES[name]({key: list(values) for key, values in universe.data(numbers).items()})

    mechanism = kinds.tables("plan", WORK.marginals(ways=2).prefix("a"))
    universe = rows_of({"a": (0, 2, 99, None), "b": ("x", "?")}, 2)
    for budget in ROWS:
        held(Case(mechanism, budget, universe, KEEPING if budget == REPLACED else DROPPING, frame))
