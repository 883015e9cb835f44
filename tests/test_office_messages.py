"""Messages on the way from a file to a page that no other test holds: each in one line, with a fix that exists."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import leastnoise as ln
from leastnoise.cli.options import renamed
from leastnoise.domain.attributes import Attribute, Domain, bins, or_unknown
from leastnoise.domain.csv_files import read_csv
from leastnoise.domain.forms import read_values
from leastnoise.domain.numeric import Integers
from leastnoise.domain.periods import dates
from leastnoise.domain.restrictions import Restrictions
from leastnoise.errors import DataError, LeastnoiseError
from leastnoise.mechanisms.side_counts import with_side_counts
from leastnoise.privacy.cost import Cost, read_positive_fraction
from leastnoise.release.files import releases
from leastnoise.release.files.releases import _integers
from leastnoise.release.postprocessing.readers import _read
from leastnoise.release.queries.questions import linear_query
from leastnoise.release.sql import query as sql_query
from leastnoise.release.statistics.top import Top
from leastnoise.sources import spark as spark_module
from leastnoise.sources.draft import draft
from leastnoise.sources.postgres import PostgreSQL
from leastnoise.workload.spec import parse_spec
from tests.shell import SMALL, fail

DOMAIN = Domain.of(age=range(5), sex=["F", "M"])


@pytest.fixture(scope="module")
def release():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"age": rng.integers(0, 5, 200), "sex": rng.choice(["F", "M"], 200)})
    return ln.plan(ln.Workload(DOMAIN).marginals(ways=[1, 2]), ln.Budget(mu=1)).run(frame)


VALUES = {
    "edges have labels alone": (lambda: bins(0, 9, count=3, labels=["a"]), "only bins with edges have labels; write"),
    "width and count": (lambda: bins(0, 9, count=3, width=3), "bins need exactly one of width=... and count=..."),
    "neither": (lambda: bins(0, 9), "bins need exactly one of width=... and count=..."),
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
