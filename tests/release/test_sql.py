"""SQL over a release: linear queries against questions, others against DuckDB itself, refusals and limits."""

import json
from functools import cache

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import leastnoise as ln
from leastnoise.errors import LeastnoiseError
from leastnoise.noise import SeededRandomSource
from leastnoise.release import LinearQuery, Release
from leastnoise.release.sql import query
from tests.contract.kinds import KINDS
from tests.contract.kinds import released as of_kind
from tests.covering import examples
from tests.shell import call

DOMAIN = ln.Domain.of(
    {
        "age": range(10, 18),
        "sex": ["F", "M"],
        "net income": ln.bins(0, 500, width=100),
        "geo": ln.hierarchy({"north": ["a", "b"], "south": ["c", "d", "e"]}, levels=["region", "place"]),
    }
)
PEOPLE = np.random.default_rng(3).poisson(6.0, DOMAIN.shape)


@cache
def released() -> Release:
    plan = ln.plan(ln.Workload(DOMAIN).marginals(ways=2), ln.Budget(epsilon=2, delta=1e-9))
    return plan.run(PEOPLE, dataset="people", random_source=SeededRandomSource(1))


ASKED = {
    "sum(count) from release": "",
    "sum(count) from people": "",
    "sum(count) from release where sex = 'F' and age < 12": "sex = 'F' and age < 12",
    "sum(count) from release where sex <> 'F' or (age between 11 and 12)": "sex != 'F' or age between 11 and 12",
    "sum(count) from release where age in (11, 13)": "age in (11, 13)",
    "sum(count) from release where not 12 > age": "not age < 12",
    "sum(count) from release where geo.region = 'north'": "geo under 'north'",
    "sum(count) from release where geo.region in ('north', 'south') and geo <> 'e'": "geo != 'e'",
    'sum(count) from release where "net income" < 200': "`net income` < 200",
    "sum(r.count) from release as r where r.SEX = 'F'": "sex = 'F'",
    "sum(count) filter (where sex = 'F') from release": "sex = 'F'",
    "sum(case when sex = 'F' then count else 0 end) from release": "sex = 'F'",
    "sum(case when age < 12 then count when age < 14 then -count end) from release": "(age < 12) - (12 <= age < 14)",
    "sum(case when sex = 'F' then 1 else -1 end * count) from release": "(sex = 'F') - (sex = 'M')",
    "2 * sum(count) - sum(count) filter (where age = 10) / 4 from release": "2 * (true) - 0.25 * (age = 10)",
    "-(sum(count)) + sum(count * 3) from release": "2 * (true)",
    "sum(age * count) from release": "sum(age)",
    "sum((age - 1) * count) from release": "sum(age) - count()",
}


@pytest.mark.parametrize("text", ASKED)
def test_linear_sql_is_ask(text):
    frame = released().sql(f"select {text}")
    answer = released().ask(ASKED[text])
    assert frame.shape == (1, 2)
    assert frame.iloc[0, 0] == pytest.approx(answer.value)
    assert frame.iloc[0, 1] == pytest.approx(answer.std_error)
    assert frame.attrs["notes"] == []


def test_groups_are_tables():
    frame = released().sql("select sex, age, sum(count) as n from release group by age, sex order by sex, age")
    table = released().table("sex", "age")
    assert list(frame) == ["sex", "age", "n", "n_std_error"]
    assert list(frame["age"]) == list(table["age"])
    assert_allclose(frame["n"], table["count"])
    assert_allclose(frame["n_std_error"], table["std_error"])
    levels = released().sql("select geo.region, sum(count) from release group by 1 order by 2 desc")
    assert list(levels) == ["geo.region", "sum(count)", "sum(count)_std_error"]
    expected = released().table("geo", levels={"geo": "region"}).sort_values("count", ascending=False)
    assert_allclose(levels["sum(count)"], expected["count"])
    assert_allclose(levels["sum(count)_std_error"], expected["std_error"])
    few = released().sql("select age, sum(count) from release where age < 12 group by age")
    assert sorted(few["age"]) == [10, 11]  # others have no rows


def test_what_is_not_linear_says_so():
    frame = released().sql(
        "select sex, sum(count) n, sum(age * count) / sum(count) as mean from release group by sex "
        "having sum(count) > 0 order by mean limit 1"
    )
    assert list(frame) == ["sex", "n", "n_std_error", "mean"]
    assert frame.attrs["notes"][0] == "mean is computed from noisy numbers, no standard error"
    assert "chosen by noisy numbers" in frame.attrs["notes"][1]
    assert frame.attrs["notes"][2].startswith("leastnoise ask has intervals for quotients: mean(age), percent(")
    means = {s: released().mean("age", f"sex = '{s}'").value for s in "FM"}
    assert frame["mean"].item() == pytest.approx(min(means.values()))


OTHERS = [
    "select sex, max(count) as m from release group by sex, age order by m",
    "with t as (select sex, age, sum(count) as c from release group by all) select sex, max(c) as m from t group by 1 "
    "order by m",
    "select sex, age, count, rank() over (order by count) as k from release order by k",
    "select sum(count * count) as s from release where sex like 'F%'",
    "select a.sex, sum(a.count * b.count) as s from release a join release b on a.sex = b.sex group by 1 order by s",
    "select distinct sex from release order by sex",
    "select sex, count from release where count > 100 union all select sex, count from release order by 2",
]


@pytest.mark.parametrize("text", OTHERS)
def test_other_sql_is_what_duckdb_says_of_the_table(text):
    frame = released().sql(text)
    names = [name for name in ("sex", "age") if name in text]
    table = released().table(*names)[[*names, "count", "std_error"]]
    connection = duckdb.connect(":memory:")
    connection.register("release", table)
    pd.testing.assert_frame_equal(frame, connection.execute(text).df(), check_exact=False)
    plain = text.startswith("select distinct")
    assert frame.attrs["notes"] == ([] if plain else ["all columns are computed from noisy numbers, no standard error"])


def test_cells_have_their_standard_errors():
    frame = released().sql("select age, count, std_error from release where age > 15")
    assert_allclose(frame["std_error"], released().std_errors("age")[-2:])
    level = released().sql("select geo.region, max(count) as m from release group by geo.region")
    assert sorted(level["geo.region"]) == ["north", "south"]


REFUSED = {
    "select count(*) from release": "write sum(count) for the number of people",
    "select sex, count(*) from release group by sex": "write sum(count)",
    "select avg(age) from release": "write sum(age * count)",
    "select sum(age) from release": "write sum(age * count)",
    "select * from release": "name the columns",
    "with a as (select * from release) select sex from a": "name the columns",
    "select * from (select sex, sum(count) n from release group by sex) a, release": "name the columns",
    "select foo, sum(count) from release group by foo": "no attribute 'foo'",
    "select sum(count) from release where agee = 3": "did you mean 'age'",
    "select sum(count) from release where sex = 'X'": "'X' is not a value of 'sex'",
    'select sum(count) from release where "net income" < 250': "lies inside [200, 300)",
    "select sum(count) from other": "there is no table 'other' here; write: from release",
    "select sum(count) from read_csv('/etc/passwd')": "write: from release",
    "select sum(count) from '/etc/passwd'": "write: from release",
    "select sex, sum(count), (select max(content) from read_text('/etc/passwd')) from release group by sex": "no table",
    "drop table release": "only one SELECT",
    "select sum(count) from release; drop table release": "only one SELECT",
    "copy release to 'x.csv'": "only one SELECT",
    "set memory_limit = '1TB'": "only one SELECT",
    "attach 'x.db'": "only one SELECT",
    "": "only one SELECT",
    "select sum(count from release": "this is no SQL",
    "select nonsense(sum(count)) from release": "DuckDB refuses this query",
    "select sum(count) from release order by 7": "there are 1 columns",
    "select planet.x, sum(count) from release group by 1": "there is no planet.x",
    "select geo.planet, sum(count) from release group by 1": "no level 'planet'",
    "select geo, geo.region, max(count) from release group by 1, 2": "an attribute and its level",
    "select age, sex, geo, sum(count) from release group by 1, 2, 3": "was not measured",
}


@pytest.mark.parametrize("text", REFUSED)
def test_refusals(text):
    with pytest.raises(LeastnoiseError) as error:
        released().sql(text)
    assert REFUSED[text] in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "expression",
    ["getenv('HOME')", "(select max(content) from read_text('/etc/passwd'))"],
)
def test_sql_is_read_only(expression, tmp_path, monkeypatch):
    """No file and no environment: as an expression of a linear query, and as one of any other."""
    monkeypatch.chdir(tmp_path)
    for text in (f"select sum(count), {expression} from release", f"select max(count), {expression} from release"):
        with pytest.raises(LeastnoiseError):
            released().sql(text)
    assert not list(tmp_path.iterdir())


@pytest.mark.long
def test_limits(monkeypatch):
    monkeypatch.setattr(query, "SECONDS", 0.5)
    with pytest.raises(LeastnoiseError, match="took more than"):
        released().sql(
            "with recursive t(i) as (select 1 union all select i + 1 from t where i < 1000000000) "
            "select max(i), max(count) from t, release"
        )
    monkeypatch.setattr(query, "MOST_ROWS", 3)
    with pytest.raises(LeastnoiseError, match="more than 3 rows"):
        released().sql("select age, count from release")
    monkeypatch.setattr(query, "MOST_CELLS", 3)
    with pytest.raises(LeastnoiseError, match="a table of 8 cells"):
        released().sql("select max(count), max(age) from release")
    with pytest.raises(LeastnoiseError, match="at most"):
        released().sql("select 1 " + " " * 100_000)


PIECES = (
    "select sum(count) from release where group by having order limit sex age geo . region 'F' 12 = < and or not case "
    "when then else end ( ) , * - / max count as n in between union with release r sum( filter over"
).split()


@settings(max_examples=examples(200))
@given(st.lists(st.sampled_from(PIECES), max_size=14).map(" ".join))
def test_sql_fails_only_with_a_message_in_one_line(text):
    message = ""
    try:
        released().sql(f"select {text}")
    except LeastnoiseError as error:
        message = str(error)
    assert "\n" not in message


@pytest.mark.parametrize("name", ["plan of hierarchies", "matrix", "tree", "adaptive by surveys"])
def test_sql_of_every_kind(name):
    release, column = of_kind(name), KINDS[name].names[0]
    frame = release.sql(f'select "{column}", sum(count) as n from release group by "{column}"')
    table = release.table(column).sort_values(column, kind="stable")
    frame = frame.sort_values(column, kind="stable")
    assert_allclose(frame["n"], table["count"], rtol=1e-7, atol=1e-5)
    assert_allclose(frame["n_std_error"], table["std_error"], rtol=1e-6, atol=1e-9)
    total = release.sql("select sum(count) from release").iloc[0, 0]
    assert total == pytest.approx(release.ask(LinearQuery.total(release.domain)).value)


def test_command(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    released().save("out")
    text = "select sex, sum(count) as n, round(sum(count)) as r from release group by sex order by sex"
    code, out, err = call(capsys, "sql", "out", text)
    assert code == 0
    assert out.splitlines()[0].split() == ["sex", "n", "n_std_error", "r"]
    assert out.splitlines()[-1] == "note: r is computed from noisy numbers, no standard error"
    assert "INSECURE" in err
    message = json.loads(call(capsys, "sql", "out", text, "--json")[1])
    assert [row["sex"] for row in message["rows"]] == ["F", "M"]
    assert message["rows"][0]["n"] == pytest.approx(released().ask("sex = 'F'").value)
    assert message["notes"] == ["r is computed from noisy numbers, no standard error"]
    assert call(capsys, "sql", "out", text, "--csv", "x.csv")[:2] == (0, "")
    assert "n_std_error" in (tmp_path / "x.csv").read_text()
    assert fail_line(capsys, "sql", "out", "drop table release").startswith("only one SELECT")


def fail_line(capsys, *arguments) -> str:
    """The last line on stderr; a line before it says that the noise was seeded."""
    code, _, err = call(capsys, *arguments)
    assert code == 2
    return err.splitlines()[-1].removeprefix("leastnoise: ")


def test_all_columns_of_a_query_within_the_query_may_be_asked_for():
    inner = "select sex, sum(count) as n from release group by sex"
    expected = released().sql(f"{inner} order by n")
    for text in (f"with a as ({inner}) select * from a order by n", f"select * from ({inner}) order by n"):
        found = released().sql(text)
        assert found["n"].tolist() == expected["n"].tolist()
        assert found.columns.tolist() == ["sex", "n"]
