"""Messages on the way from a file to a page that no other test holds: each in one line, with a fix that exists."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import leastnoise as ln
from leastnoise.cli.options import renamed
from leastnoise.domain.amounts import Amount
from leastnoise.domain.attributes import Attribute, Domain, bins, or_unknown
from leastnoise.domain.csv_files import read_csv
from leastnoise.domain.forms import read_values
from leastnoise.domain.numeric import Integers
from leastnoise.domain.periods import dates
from leastnoise.domain.restrictions import Restrictions
from leastnoise.errors import DataError, LeastnoiseError
from leastnoise.local.planner import local_plan
from leastnoise.mechanisms.side_counts import with_side_counts
from leastnoise.mechanisms.tree.covariance import covariance_cost
from leastnoise.noise import SeededRandomSource
from leastnoise.privacy.cost import Cost, read_positive_fraction
from leastnoise.release.files import releases
from leastnoise.release.files.releases import _integers
from leastnoise.release.postprocessing.readers import _read
from leastnoise.release.queries.questions import linear_query
from leastnoise.release.sql import query as sql_query
from leastnoise.release.statistics.top import Top
from leastnoise.sources import spark as spark_module
from leastnoise.sources.codes import Codes
from leastnoise.sources.draft import draft
from leastnoise.sources.postgres import PostgreSQL
from leastnoise.strategies.toeplitz import Toeplitz
from leastnoise.theory.learning import examples_needed
from leastnoise.theory.symmetric import checked_ways, marginal_queries
from leastnoise.workload.spec import parse_spec
from leastnoise.workload.sums import Sum, check_sums
from tests.shell import SMALL, fail

DOMAIN = Domain.of(age=range(5), sex=["F", "M"])


@pytest.fixture(scope="module")
def release():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"age": rng.integers(0, 5, 200), "sex": rng.choice(["F", "M"], 200)})
    return ln.plan(ln.Workload(DOMAIN).marginals(ways=[1, 2]), ln.Budget(mu=1)).run(frame)


VALUES = {
    "edges have labels alone": (
        lambda: bins(0, 9, count=3, labels=["a"]),
        "only bins with edges have labels; give edges, such as",
    ),
    "width and count": (
        lambda: bins(0, 9, count=3, width=3),
        "bins need exactly one of width and count; give one of them",
    ),
    "neither": (lambda: bins(0, 9), "bins need exactly one of width and count; give one of them"),
    "negative width": (lambda: bins(0, 9, width=-1), "bins need a positive width, got -1"),
    "infinite": (lambda: bins(0, float("inf"), count=2), "bins need finite ends, got inf"),
    "narrow": (lambda: bins(1e15, 1e15 + 1, count=1000), "are too narrow for floats"),
    "labels twice": (
        lambda: bins(edges=[0, 1, 2], labels=["a", "a"]),
        "two bins have the label 'a'; labels must differ",
    ),
    "no values": (lambda: Attribute.of("x", object()), "as values; use a size, a range, a list of values or bins"),
    "unknown twice": (lambda: or_unknown(["a", "unknown"]), "these values have 'unknown' among them already"),
    "kind of later": (lambda: read_values({"kind": "new"}), "unknown kind of values 'new'; use a newer version"),
    "no text": (lambda: Attribute.of("x", [None, "a"]), "None cannot be a value; use text or a finite number"),
    "broken integers": (lambda: Integers(0.5, 2), "an integer range needs integer ends below 2**53, got 0.5"),
    "no day": (lambda: dates("2020-02-30", "2020-12-31", "day"), "'2020-02-30' is no date; write it as 2015-01-31"),
    "no name": (lambda: Attribute("", Integers(0, 1)), "an attribute needs a name, got ''"),
    "no encoding": (lambda: Attribute("x", 3), "'x' got 3 as its values; use Attribute.of(name, ...)"),
    "no attribute": (lambda: Domain((3,)), "a domain is made of attributes, got 3; use Domain.of(name=...)"),
    "no domain": (lambda: Domain.from_json([]), "expected an object with a list of attributes"),
    "attribute of a file": (lambda: Attribute.from_json({}), "not an attribute: {}"),
    "restrictions of a file": (lambda: Restrictions.from_json({}, {}), "not restrictions of a domain ('impossible')"),
    "cost of a file": (lambda: Cost.from_json({}), "not a cost: {} ('mu_squared')"),
    "fraction of a file": (lambda: read_positive_fraction("2/4"), "'2/4' is no positive fraction in lowest terms"),
    "option of another name": (lambda: renamed("--out")("x"), "this option is called --out now; use --out x"),
    "impossible without cells": (
        lambda: parse_spec(SMALL + "impossible: {rows: drop}\n"),
        "impossible needs 'cells', or 'allowed' beside it; write",
    ),
    "one edge": (lambda: bins(edges=[1]), "1 edges make no bins; give 2 or more, such as [0, 18, 65, 120]"),
    "labels of bins": (lambda: bins(edges=[0, 1, 2], labels=["a"]), "2 bins need 2 labels, got 1"),
    "sum of values": (lambda: Sum(0, 1, 1).rows(3), "a sum is of an amount, not of 3 values; declare the attribute"),
    "sum of another amount": (
        lambda: check_sums(Domain.of(pay=Amount(0, 9)), 0, Sum(0, 5, 1)),
        "the sum of 'pay' has other bounds than the amount; make it anew",
    ),
    "no product": (
        lambda: ln.Workload(Domain.of(a=range(3), b=range(3))).abs_diff().blocks[0].family(0),
        "abs_diff is not a product block; it has no family per attribute",
    ),
    "large entries": (
        lambda: ln.matrix_plan(np.eye(2) * 1e200, ln.Budget(mu=1)),
        "the queries have entries beyond 1e+100, too large for floats; divide them",
    ),
    "no bias": (
        lambda: ln.matrix_plan(np.eye(2), ln.Budget(mu=1), bias=-1),
        "bias -1 is not a share of the rows; use a number above 0, such as 0.01",
    ),
    "no probability": (
        lambda: ln.discover("url", ln.Budget(mu=1, rows_per_person=1)).people_for(2),
        "a probability lies between 0 and 1, got 2; usual ones are 0.5 or 0.99",
    ),
    "keys without a budget": (
        lambda: ln.discover("url", ln.Budget(mu=1e-17, rows_per_person=1)).run(pd.DataFrame({"url": ["a"]})),
        "keys of 'url' would need noise beyond 1e16; use a larger budget",
    ),
    "rules of codes": (
        lambda: Codes(DOMAIN, np.array([[1, 0]])).side_counts(True, []),
        "codes have no rules and no people; give a file, a table or a data frame",
    ),
    "too few words": (lambda: SeededRandomSource(1).words(-1), "cannot draw -1 words; ask for 0 or more"),
    "too many leaves": (
        lambda: covariance_cost(np.broadcast_to(1.0, (8_193, 8_193))),
        "a covariance of 8,193 leaves is too large; up to 8,192 are possible",
    ),
    "rising totals": (lambda: Toeplitz(np.array([1, 2])), "needs whole numbers that never rise, from 1 on"),
    "no attributes": (
        lambda: checked_ways(0, 2, 1),
        "0 attributes of 2 values; give at least 1 attribute and 2 values",
    ),
    "no ways": (lambda: checked_ways(3, 2, [4]), "ways is [4]; give different whole numbers from 0 to 3, at least one"),
    "many queries": (
        lambda: marginal_queries(40, 2, 3).rows(),
        "cells are too many to write out; use at most",
    ),
    "no excess": (
        lambda: examples_needed(None, 2),  # type: ignore[arg-type]
        "excess 2 and failure 0.05 must lie between 0 and 1, as in 0.05 and 0.05",
    ),
    "large tables of devices": (
        lambda: local_plan(ln.Workload(Domain.of(a=200, b=200)).marginals(ways=1), epsilon=1, layout="whole"),
        "a table of 40,000 cells is too large for devices to report on at once; use coarser values, fewer ways",
    ),
    "no file": (lambda: read_csv(Path("a\0b"), "labels"), "is no name of a file; name the CSV file of the labels"),
}


@pytest.mark.parametrize("case", VALUES)
def test_attributes(case):
    make, words = VALUES[case]
    with pytest.raises(LeastnoiseError) as refusal:
        make()
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_budgets_of_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(SMALL)
    twice = fail(capsys, "plan", "small.yaml", "--epsilon", "1", "--mu", "2")
    assert twice == "--epsilon and --mu state the budget twice; use one"
    missing = fail(capsys, "plan", "small.yaml", "--epsilon", "1")
    assert missing == "--epsilon needs a delta; add --delta, for example --delta 1e-9"


def test_shares_of_side_counts():
    plan = ln.plan(ln.Workload(DOMAIN).marginals(ways=1), ln.Budget(mu=1, rows_per_person=2))
    rules, unit = {"age": {"outside": "drop"}}, {"id": "who", "max_rows": 2}
    for words, options in {
        "quality and people take the whole budget; their shares must add up to less than 1": {
            "quality": 0.5,
            "people": 0.5,
        },
        "quality is 2, not a share of the budget between 0 and 1; 0.02 is usual": {"quality": 2},
        "'by' is for people; give their share of the budget too": {"by": ["sex"]},
    }.items():
        with pytest.raises(LeastnoiseError, match=words):
            with_side_counts(plan, rules=rules, unit=unit, **options)
    planned = with_side_counts(plan, rules=rules, unit=unit, quality=0.1)
    with pytest.raises(LeastnoiseError, match="were planned for other rules or another unit than this run has"):
        planned.run(pd.DataFrame({"age": [1], "sex": ["F"], "who": [1]}), unit=unit)
    wide = ln.plan(ln.Workload(Domain.of(a=4000, b=4000)).marginals(ways=1), ln.Budget(mu=1, rows_per_person=2))
    with pytest.raises(LeastnoiseError, match="people by these attributes are 16,000,001 counts, more than"):
        with_side_counts(wide, rules=None, unit=unit, people=0.1, by=[["a", "b"]])


def test_sql(release, monkeypatch):
    for query, words in {
        "drop table release": "only one SELECT is answered; a release is never changed",
        "select 1; select 2": "only one SELECT is answered; a release is never changed",
        "select " + "1+" * 60_000 + "1": "a query is text of at most",
        "select sum(": "this is no SQL: ",
        "select sex, sum(count) from release group by sex order by 9": "order by 9: there are 2 columns",
    }.items():
        with pytest.raises(LeastnoiseError, match=words):
            release.sql(query)
    monkeypatch.setattr(sql_query, "MOST_ROWS", 3)
    with pytest.raises(LeastnoiseError, match="the result has more than 3 rows; ask for fewer, or add a limit"):
        sql_query._run({}, "select * from range(9)")
    monkeypatch.setattr(sql_query, "SECONDS", 0.05)
    with pytest.raises(LeastnoiseError, match=r"the query took more than 0.05 s; ask for less"):
        sql_query._run({}, "select sum(a.range * b.range) from range(1000000) a, range(1000000) b")


def test_questions():
    with pytest.raises(
        LeastnoiseError, match=r"'mean\(age\)' is no count or sum, which this needs; ask_all\(\) answers"
    ):
        linear_query(DOMAIN, "mean(age)")


def test_methods_of_tables_alone():
    """Each refusal names the method that was called."""
    other = ln.matrix_plan(np.tri(3), ln.Budget(mu=1)).run(np.arange(3))
    for name in ("fit", "adjust", "sum", "regression"):
        with pytest.raises(LeastnoiseError, match=rf"a matrix release has no {name}\(\); it is for releases of tables"):
            getattr(other, name)


def test_sums_and_samples_of_tables():
    domain = Domain.of(a=3, pay=Amount(0, 9))
    frame = pd.DataFrame({"a": [0, 1, 2] * 4, "pay": [3] * 12})
    paid = ln.plan(ln.Workload(domain).sums("pay", by="a"), ln.Budget(mu=1)).run(frame)
    with pytest.raises(LeastnoiseError, match=r"a sum needs an amount; name it, as in sum\('income'\)"):
        paid.sum()
    assert paid.sum("pay").std_error > 0
    bounded = Domain.of(a=3).restricted(bounds=[{"where": f"a = {k}", "at_least": 1} for k in range(3)])
    estimate = ln.plan(ln.Workload(bounded).marginals(ways=1), ln.Budget(mu=9)).run(frame[["a"]]).fit()
    with pytest.raises(LeastnoiseError, match="no 1 rows keep the public bounds; draw about") as refusal:
        estimate.sample(1)
    assert len(estimate.sample(int(str(refusal.value).split()[-1]))) > 0


def test_baselines(release):
    for shares in ([1, 2], [-1, 1, 1, 1, 1], [0, 0, 0, 0, 0]):
        with pytest.raises(LeastnoiseError, match="the baseline of 'age' must be 5 numbers from 0 on, not all of them"):
            release.complete(baseline={"age": shares})
    release.complete(baseline={"age": [1, 2, 3, 2, 1]})


def test_a_top_of_none():
    with pytest.raises(LeastnoiseError, match=r"top\(0, ...\) names nothing; ask for at least 1"):
        Top(0, ())


def test_allowed_combinations_of_other_columns(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs.csv").write_text("age,gender\n1,F\n")
    (tmp_path / "small.yaml").write_text(SMALL + "allowed: [{of: [age, sex], file: pairs.csv}]\n")
    assert fail(capsys, "plan", "small.yaml").endswith("pairs.csv has no column 'sex'; name its columns as in 'of'")


def test_tables_for_readers(release):
    adjusted = release.adjust(round=True)
    with pytest.raises(LeastnoiseError, match="are rounded one by one already; leave round out to round them together"):
        adjusted.finish(base=5)
    bounded = DOMAIN.restricted(bounds=[{"where": "age = 1", "at_most": 9}])
    frame = pd.DataFrame({"age": [1, 2], "sex": ["F", "M"]})
    other = ln.plan(ln.Workload(bounded).marginals(ways=1), ln.Budget(mu=1)).run(frame)
    with pytest.raises(LeastnoiseError, match="may break public bounds; leave it out and use finish"):
        other.adjust(round=True)
    for array in (None, np.ones(3), np.array([1.0, np.nan])):
        with pytest.raises(LeastnoiseError, match="a table has no numbers as its count"):
            _read(array, (2,), "count")


# --- damaged files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stored", "words"),
    [
        (np.zeros((2, 2), dtype=np.int64), "answers of shape (2, 2) where (1, 2) is needed"),
        (np.zeros((1, 2)), "answers of type float64, which are not integers"),
        (np.array([["1", "+2"]]), "answers that are not decimal numbers"),
    ],
)
def test_answers_that_cannot_be(stored, words):
    with pytest.raises(LeastnoiseError) as refusal:
        _integers(stored, (1, 2))
    assert str(refusal.value) == words


def test_arrays_that_belong_to_nothing(release, tmp_path):
    from leastnoise.storage.records import read_folder

    release.save(tmp_path / "out")
    saved = read_folder(tmp_path / "out", releases.Header)
    for name, words in {
        "odd": "nothing belongs to the array 'odd'",
        "part0_answers9_9": "no measurement has the array",
    }.items():
        arrays = {**saved.arrays, name: np.zeros(1, dtype=np.int64)}
        with pytest.raises(LeastnoiseError, match=words):
            releases.from_record(replace(saved, arrays=arrays))


def test_people_where_rows_are_protected(release):
    run = release.origins[0].run.model_copy(update={"person": "who"})
    with pytest.raises(LeastnoiseError, match="it speaks of people and protects rows"):
        run.check(release.privacy)


# --- engines ----------------------------------------------------------------------------------------------------------


class Refusing:
    """A connection to a server where this user may not make temporary tables."""

    read_only = True

    def rollback(self) -> None:
        pass


class DriverError(Exception):
    pass


def test_a_user_without_temporary_tables():
    engine = PostgreSQL.__new__(PostgreSQL)
    engine._driver, engine._connection = SimpleNamespace(Error=DriverError), Refusing()

    def copy(*_: object) -> None:
        raise DriverError("permission denied for database hunter2secret")

    engine._copy = copy
    with pytest.raises(LeastnoiseError) as refusal:
        engine.mapping(["a"], [0])
    assert str(refusal.value) == (
        "PostgreSQL makes no temporary table for this user, which lists of more than 5,000 values need; "
        "grant TEMPORARY on the database, or use fewer values"
    )
    assert refusal.value.__context__ is None
    assert engine._connection.read_only


def test_a_cluster_that_does_not_answer(monkeypatch):
    class Builder:
        def master(self, _: str) -> "Builder":
            return self

        def getOrCreate(self) -> None:
            raise OSError("hunter2secret")

    session = SimpleNamespace(SparkSession=SimpleNamespace(builder=SimpleNamespace(appName=lambda _: Builder())))
    monkeypatch.setattr(spark_module, "optional", lambda *_, **__: session)
    with pytest.raises(
        DataError, match=r"cannot start Spark at spark://x:1 \(OSError\); check the address and Java"
    ) as refusal:
        spark_module.session_at("spark://x:1")
    assert "hunter2" not in str(refusal.value)


def test_only_files_are_looked_at(monkeypatch):
    engine = SimpleNamespace(dialect="postgres", close=lambda: None)
    monkeypatch.setattr("leastnoise.sources.draft.engine_of", lambda *_: engine)
    with pytest.raises(LeastnoiseError, match="only files and DuckDB databases can be looked at; leave out --look"):
        draft("postgresql://db/office?table=people", look=True)
