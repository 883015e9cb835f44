"""Rows in impossible cells: every source leaves out the same ones, counts them alike, and refuses them alike."""

import numpy as np
import pyarrow as pa
import pytest

from leastnoise.domain.attributes import Domain
from leastnoise.errors import DataError, LeastnoiseError
from leastnoise.sources import Marginals, PrivacyUnit, source_of
from leastnoise.sources.check import check
from leastnoise.sources.sql_impossible import MOST_CHANGES
from tests.engines import postgres, spark
from tests.refusals import refusal
from tests.sources.registry import ENGINES, FACTORIES, MARKS, brute_force, file_of, params, postgres_table

PLAIN = Domain.of(age=range(18, 26), sex=["F", "M"], job=["none", "nurse", "other"])
CLAUSES = ["age < 21 and job != 'none'", "sex = 'M' and job = 'nurse'", "age = 25"]
SETS = [(0, 1, 2), (2, 0), (1,), ()]
RULES = {"age": {"outside": "drop"}, "job": {"missing": "drop", "outside": "other"}}


def rows(rng, count=300):
    return [tuple(int(rng.integers(n)) for n in PLAIN.shape) for _ in range(count)]


def possible(row):
    age, sex, job = row
    return not ((age < 3 and job != 0) or (sex == 1 and job == 1) or age == 7)


@pytest.mark.parametrize("make", params([n for n in (*FACTORIES, *ENGINES) if n != "marginals"]))
@pytest.mark.parametrize("rule", ["drop", "keep"])
def test_sources_leave_out_the_same_rows(make, rule, rng):
    domain, given = PLAIN.restricted(CLAUSES, rows=rule), rows(rng)
    source = make(domain, given, None)
    counted = [row for row in given if possible(row)] if rule == "drop" else given
    for axes, table in zip(SETS, source.count(SETS), strict=True):
        assert np.array_equal(table, brute_force(domain, counted, axes))
    assert source.drops is (rule == "drop")


@pytest.mark.parametrize("make", params([n for n in (*FACTORIES, *ENGINES) if n != "marginals"]))
def test_sources_refuse_alike(make, rng):
    domain, given = PLAIN.restricted(CLAUSES, rows="error"), rows(rng)
    call = lambda: list(make(domain, given, None).count([()]))  # noqa: E731
    assert "rows in impossible cells" in refusal(call, DataError)
    good = [row for row in given if possible(row)]
    (total,) = make(domain, good, None).count([()])
    assert int(total) == len(good)


def raw(rng, count=400):
    """With values outside and missing, and people with several rows."""
    return pa.table(
        {
            "age": rng.integers(16, 28, count),
            "sex": rng.choice(["F", "M"], count),
            "job": pa.array([[None, "none", "nurse", "cook"][k] for k in rng.integers(0, 4, count)]),
            "person": rng.integers(0, 120, count),
        }
    )


HOLDERS = {
    "CSV": lambda table, path: str(_written(table, path)),
    "PostgreSQL": lambda table, path: postgres.server().uri(postgres_table(table)),
    "Spark": lambda table, path: spark.session().createDataFrame(table),
}


def _written(table, path):
    table.to_pandas().to_csv(path / "people.csv", index=False)
    return path / "people.csv"


@pytest.mark.parametrize("holder", [pytest.param(name, marks=MARKS.get(name, ())) for name in HOLDERS])
@pytest.mark.parametrize("unit", [None, PrivacyUnit("person", 2, secret=b"s")], ids=["rows", "people"])
@pytest.mark.parametrize("rule", ["drop", "keep"])
def test_engines_and_memory_agree(holder, unit, rule, rng, tmp_path):
    """Tables, what rules touched, distinct people and the owner's check."""
    domain, table = PLAIN.restricted(CLAUSES, rows=rule), raw(rng)
    given, people = HOLDERS[holder](table, tmp_path), [] if unit is None else [(0,), (2, 1)]
    here, there = (source_of(data, domain, rules=RULES, unit=unit) for data in (table, given))
    for one, other in zip(here.side_counts(True, people), there.side_counts(True, people), strict=True):
        assert one.tolist() == other.tolist()
    for one, other in zip(here.count(SETS), there.count(SETS), strict=True):
        assert one.tolist() == other.tolist()
    checks = [check(data, domain, rules=RULES, unit=unit) for data in (table, given)]
    assert checks[0] == checks[1]
    assert checks[0].impossible.rows > 0
    assert "rows in impossible cells" in str(checks[0])


def test_a_check_counts_for_the_owner(rng):
    domain, table = PLAIN.restricted(CLAUSES, rows="error"), raw(rng)
    result = check(table, domain, rules=RULES)
    assert not result.ok
    assert result.impossible.fixes == ["rows: drop", "rows: keep"]
    settled = check(table, PLAIN.restricted(CLAUSES), rules=RULES)
    assert settled.ok
    assert settled.counted == result.counted
    assert check(table, PLAIN, rules=RULES).impossible is None


def test_marginals_and_other_sources_cannot_tell(rng):
    domain = PLAIN.restricted(CLAUSES)
    assert "give the rows" in refusal(lambda: Marginals(domain, {("sex",): np.array([3, 4])}))
    kept = PLAIN.restricted(CLAUSES, rows="keep")
    assert [t.tolist() for t in Marginals(kept, {("sex",): np.array([3, 4])}).count([(1,)])] == [[3, 4]]

    class Theirs:
        name, drops = None, False

        def __init__(self, domain):
            self.domain = domain

        def count(self, sets):
            return iter([np.array(0)])

    assert "by possible_only" in refusal(lambda: source_of(Theirs(domain), domain))
    assert source_of(Theirs(kept), kept).name is None


def test_too_many_edges_for_a_query(tmp_path):
    n = MOST_CHANGES
    domain = Domain.of(a=range(n), b=["x", "y"]).restricted(
        allowed=[{"of": ["a", "b"], "rows": [[k, "x"] for k in range(n)]}]
    )
    path = file_of("csv", domain, [(0, 0)])
    with pytest.raises(LeastnoiseError, match="use clauses on fewer values"):
        source_of(str(path), domain)
