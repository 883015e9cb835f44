"""The gate: one reader of counts for every mechanism, and data that does not fit what is promised is refused."""

import ast
import logging
import sys
import warnings
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import leastnoise as ln
from leastnoise.domain.tree import Tree
from leastnoise.errors import DataError, LeastnoiseError
from leastnoise.mechanisms.adaptive import adaptive_plan
from leastnoise.mechanisms.gate import Counts, check_promise, checked_count
from leastnoise.mechanisms.tree import tree_plan
from leastnoise.noise import SeededRandomSource
from leastnoise.privacy.neighbours import Neighbours
from leastnoise.sources import Table
from leastnoise.sources.convert import Prepared
from tests.test_layers import parsed

SOURCE = Path(ln.__file__).parent
DOMAIN = ln.Domain.of(item=range(4))
BUDGET = ln.Budget(mu=1)
MECHANISMS = {
    "plan": lambda budget=BUDGET: ln.plan(ln.Workload(DOMAIN).prefix("item"), budget),
    "survey": lambda budget=BUDGET: adaptive_plan(ln.Workload(DOMAIN).marginals(ways=1), budget),
    "aim": lambda budget=BUDGET: adaptive_plan(ln.Workload(DOMAIN).marginals(ways=1), budget, select="aim"),
    "matrix": lambda budget=BUDGET: ln.matrix_plan(np.tri(4), budget, items={"item": range(4)}),
    "cascade": lambda budget=BUDGET: tree_plan({"item": Tree.binary(2)}, budget=budget),
    "exact": lambda budget=BUDGET: tree_plan({"item": Tree.binary(2)}, budget=budget, exact_level=1),
}
BAD = {
    "fractions and negative": np.array([1.5, -7.25, 100, 3]),
    "floats": np.array([1.0, 2.0, 3.0, 4.0]),
    "negative": np.array([1, -2, 100, 3]),
    "too few": np.array([1, 2, 3]),
    "another axis": np.array([[1, 2, 3, 4]]),
    "sum to something else": np.array([1, 2, 3, 5]),
    "truth values": np.array([True, False, True, True]),
    "objects": np.array([1, 2, 3, 4], dtype=object),
    "masked": np.ma.masked_array([1, 2, 3, 4], [True, False, False, False]),
    "huge": np.array([2**62, 2, 3, 4]),
    "huge sum": np.array([2**61, 2**61, 3, 4]),
    "nothing": None,
    "ragged": [[1], [2, 3]],
}


class Custom:
    """A source of somebody else; it tells who asked it."""

    name, drops = None, False

    def __init__(self, table, total=10):
        self.domain, self.table, self.total, self.callers = DOMAIN, table, total, set()

    def count(self, sets):
        self.callers.add(Path(sys._getframe(1).f_code.co_filename).relative_to(SOURCE).as_posix())
        return iter([self.table if axes else np.array(self.total) for axes in sets])


class NoBits:
    """Noise must not be drawn."""

    insecure = False

    def words(self, count):
        raise AssertionError("noise was drawn")


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("kind", MECHANISMS)
def test_counts_are_checked(kind, bad):
    """Every mechanism gets whole counts of its shape that add up, or stops before any noise is drawn."""
    with pytest.raises(DataError) as error:
        MECHANISMS[kind]().run(Custom(BAD[bad]), random_source=NoBits())
    assert str(error.value).startswith("the source ")
    assert not any(character.isdigit() for character in str(error.value).replace("2**62", ""))


@pytest.mark.parametrize("early", [True, False, None])
@pytest.mark.parametrize("kind", MECHANISMS)
def test_errors_of_sources_do_not_get_out(kind, early, caplog):
    """Whatever a source raises, at once or while it counts, its text may hold values."""

    class Raising(Custom):
        def count(self, sets):
            if early:
                raise RuntimeError("patient 4711 has no ward")
            if early is None:
                warnings.warn("patient 4711", stacklevel=1)
                logging.getLogger("wards").error("patient 4711")
            return (np.array(10) if early is None and not axes else int("patient 4711") for axes in sets)

    with pytest.raises(DataError) as error:
        MECHANISMS[kind]().run(Raising(None), random_source=NoBits())
    assert "4711" not in repr(error.value)
    assert error.value.__cause__ is error.value.__context__ is None
    assert "4711" not in caplog.text  # and warnings are errors


@pytest.mark.parametrize("kind", MECHANISMS)
def test_good_counts_pass(kind):
    MECHANISMS[kind]().run(Custom(np.array([1, 2, 3, 4])), random_source=SeededRandomSource(1))


@pytest.mark.parametrize("kind", MECHANISMS)
def test_only_the_gate_calls_a_source(kind):
    source = Custom(np.array([1, 2, 3, 4]))
    MECHANISMS[kind]().run(source, random_source=SeededRandomSource(1))
    assert source.callers == {"mechanisms/gate.py"}


def outside_the_gate():
    return [p for p in sorted(SOURCE.rglob("*.py")) if p.name != "gate.py" and p.parent.name != "sources"]


def readers_of_counts(path):
    """Calls of methods of a source in a module, and imports of what makes one."""
    name = path.relative_to(SOURCE).as_posix()
    for node in ast.walk(parsed(path)):
        method = node.func if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
        if method and method.attr in ("count", "rows") and "source" in ast.unparse(method).lower():
            yield f"{name} calls {ast.unparse(method)}; counts come from gate.Counts"
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("leastnoise.sources"):
            makes = {alias.name for alias in node.names} & {"prepare", "source_of", "Database", "Codes"}
            if makes and name not in MAKERS:
                yield f"{name} imports {makes}; use mechanisms.mechanism.run_once"


@pytest.mark.long
def test_only_the_gate_reads_counts():
    """No other module calls a method of a source, or makes one, but for those that say why (see `MAKERS`)."""
    assert not [line for path in outside_the_gate() for line in readers_of_counts(path)]


MAKERS = {
    "mechanisms/mechanism.py": "the one way from data to a release",
    "audit/pair.py": "made-up data",
    "cli/commands/demo.py": "made-up data",
    "__init__.py": "names for users",
}


# --- what is promised -------------------------------------------------------------------------------------------------

PROMISES = {
    "rows": Neighbours(),
    "rows replaced": Neighbours("replace"),
    "rows replaced, private": Neighbours("replace", size="private"),
    "people": Neighbours("add-remove", 2),
    "people replaced": Neighbours("replace", 2),
    "one row each": Neighbours("replace", 1),
}


def fits(promise, rows, drops):
    """From the definition: people need a promise for as many rows, and a public size no dropped rows."""
    people = rows is None or (promise.rows_per_person is not None and rows <= promise.rows_per_person)
    return people and (promise.size == "private" or drops is False)


@pytest.mark.parametrize(("name", "rows", "drops"), list(product(PROMISES, [None, 1, 2, 3], [False, True, None])))
def test_what_is_counted_fits_what_is_promised(name, rows, drops):
    promise, data = PROMISES[name], Prepared("x", rows, drops, lambda: None)
    if fits(promise, rows, drops):
        check_promise(promise, data)
        return
    with pytest.raises(LeastnoiseError, match="; plan with "):
        check_promise(promise, data)


@pytest.mark.parametrize("kept", [(), ("a",), ("b",), ("a", "b"), ("a", "b", "c")])
@pytest.mark.parametrize("rows", [None, 1, 2, 3])
def test_groups_that_are_planned_for_are_kept(kept, rows):
    """One row for each value of a, or of b, is one for each combination of both."""
    promise = Neighbours(rows_per_person=3, one_per=["a", "b"])
    data = Prepared("x", rows, False, lambda: None, one_per=kept if (rows or 1) > 1 else ())
    if rows in (None, 1) or (kept and set(kept) <= {"a", "b"}):
        check_promise(promise, data)
    else:
        with pytest.raises(LeastnoiseError, match=r"; give the unit one_per=\['a', 'b'\]"):
            check_promise(promise, data)


def test_groups_that_nobody_planned_for_do_no_harm():
    check_promise(Neighbours(rows_per_person=3), Prepared("x", 3, False, lambda: None, one_per=("a",)))


def test_exact_counts_keep_the_size_themselves():
    kept = Neighbours("replace", exact="the root")
    check_promise(kept, Prepared("x", None, True, lambda: None), keeps_size=True)
    with pytest.raises(LeastnoiseError, match="the rules drop rows"):
        check_promise(kept, Prepared("x", None, True, lambda: None))


ROWS = pd.DataFrame({"item": [0, 1, 2, 3, 3, 9], "who": ["a", "a", "b", "c", "c", "d"]})
DROP = {"item": {"outside": "drop"}}


@pytest.mark.parametrize("kind", MECHANISMS)
def test_dropped_rows_are_refused_where_their_number_is_public(kind):
    mechanism = MECHANISMS[kind](ln.Budget(mu=1, neighbours="replace"))
    if kind == "exact":  # which publishes the number of rows: whoever changes it is not hidden
        assert "[" in mechanism.run(ROWS, rules=DROP, random_source=SeededRandomSource(1)).cost.change
        return
    with pytest.raises(LeastnoiseError, match=r"the rules drop rows.*; plan with size='private'"):
        mechanism.run(ROWS, rules=DROP, random_source=NoBits())
    private = MECHANISMS[kind](ln.Budget(mu=1, neighbours="replace", size="private"))
    private.run(ROWS, rules=DROP, random_source=SeededRandomSource(1))


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("kind", MECHANISMS)
def test_people_are_refused_where_rows_are_promised(kind, neighbours):
    unit = {"id": "who", "max_rows": 1}
    for rows in (None, 1):
        mechanism = MECHANISMS[kind](ln.Budget(mu=1, neighbours=neighbours, rows_per_person=rows))
        if rows is None:
            with pytest.raises(LeastnoiseError, match="the plan protects single rows; plan with rows_per_person=1"):
                mechanism.run(ROWS[:5], unit=unit, random_source=NoBits())
        else:
            assert (
                "one person with at most 1 row"
                in mechanism.run(ROWS[:5], unit=unit, random_source=SeededRandomSource(1)).cost.change
            )


@pytest.mark.parametrize("source", [Table(DOMAIN, np.array([1, 2, 3, 4])), Custom(np.array([1, 2, 3, 4]))])
def test_the_total_is_read_once(source):
    counts = Counts(source)
    assert counts.total == counts.total == 10
    assert [t.sum() for t in counts.tables([(0,), ()])] == [10, 10]


def test_another_domain_is_refused():
    with pytest.raises(LeastnoiseError, match=r"^the source counts other attributes than the plan; "):
        Counts(Table(DOMAIN, np.array([1, 2, 3, 4])), ln.Domain.of(item=range(5)))


@pytest.mark.parametrize("bad", [-1, 1.0, True, "3", None, 2**62, np.float64(2), np.int64(-5)])
def test_single_counts_are_checked(bad):
    with pytest.raises(LeastnoiseError):
        checked_count(bad)
    assert checked_count(np.uint8(7)) == checked_count(7) == 7
