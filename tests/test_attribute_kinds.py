"""Attributes as offices have them, from a spec to tables and questions: bins, labels, recodes, unknown values."""

import json

import numpy as np
import pandas as pd
import pytest

import leastnoise as ln
from leastnoise.domain.attributes import Attribute, Values
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.from_spec import plan_spec
from leastnoise.release.queries.language import parse
from leastnoise.workload.families import FAMILIES
from leastnoise.workload.known import Known
from leastnoise.workload.spec import load_spec, parse_spec
from leastnoise.workload.store import workload_from_json, workload_to_json
from tests.specs import message, one_attribute

SPEC = """
attributes:
  age:    {bins: {edges: [0, 18, 25, 65, 120]}, outside: clamp}
  sex:    {values: {1: Male, 2: Female}}
  region: {labels: codes.csv, outside: drop}
workload: [{queries: hybrid, ways: [1, 2]}]
privacy: {mu: 2000}
"""
CODES = "code,label,remark\nN1,north,x\nN2,north,x\n7,south,x\n007,west,x\n"


@pytest.fixture
def spec(tmp_path):
    (tmp_path / "codes.csv").write_text(CODES)
    (tmp_path / "spec.yaml").write_text(SPEC)
    return load_spec(tmp_path / "spec.yaml")


@pytest.fixture
def frame(rng):
    rows = 3000
    return pd.DataFrame(
        {
            "age": rng.integers(-5, 140, rows),
            "sex": rng.integers(1, 3, rows),
            "region": rng.choice(["N1", "N2", "7", "007", "other"], rows),
        }
    )


@pytest.fixture
def release(spec, frame):
    return plan_spec(spec).run(frame, rules=spec.rules)


def test_tables_show_labels(release, frame):
    table = release.table("age", "sex")
    assert table["age"].unique().tolist() == ["under 18", "18 to under 25", "25 to under 65", "65 or more"]
    assert table["sex"].unique().tolist() == ["Male", "Female"]
    kept = frame[frame.region != "other"]
    expected = [((kept.age < 18) & (kept.sex == 1)).sum(), ((kept.age >= 65) & (kept.sex == 2)).sum()]
    assert np.rint([table["count"].iloc[0], table["count"].iloc[-1]]).tolist() == expected
    assert release.table("region")["region"].tolist() == ["north", "south", "west"]


@pytest.mark.parametrize(
    ("question", "condition"),
    [
        ("sex = 'Male'", lambda f: f.sex == 1),
        ("sex = 1", lambda f: f.sex == 1),
        ("sex in ('Male', 2)", lambda f: f.sex > 0),
        ("age = 'under 18'", lambda f: f.age < 18),
        ("age >= 65", lambda f: f.age >= 65),
        ("18 <= age < 65 and sex = 'Female'", lambda f: (f.age >= 18) & (f.age < 65) & (f.sex == 2)),
        ("region = 'north'", lambda f: f.region.isin(["N1", "N2"])),
        ("region = 'N2'", lambda f: f.region.isin(["N1", "N2"])),
        ("region = 7", lambda f: f.region == "7"),
        ("region = '007'", lambda f: f.region == "007"),
    ],
)
def test_questions_take_labels_and_codes(release, frame, question, condition):
    kept = frame[frame.region != "other"]
    assert round(release.ask(question).value) == int(condition(kept).sum())


@pytest.mark.parametrize(
    ("question", "line"),
    [
        ("sex = 'Mal'", "'Mal' is not a value of 'sex' (Male, Female); nearest is 'Male'"),
        ("age = 'under 19'", "'under 19' is no bin of 'age'; write a range or a bin, such as 'under 18'"),
        ("age < 20", "'age' is binned and 20 lies inside [18, 25); use age < 18 or age < 25"),
    ],
)
def test_what_is_no_value_is_refused(release, question, line):
    with pytest.raises(LeastnoiseError) as error:
        release.ask(question)
    assert line in str(error.value)


def test_saved_releases_keep_them(release, tmp_path):
    release.save(tmp_path / "release")
    again = ln.load(tmp_path / "release")
    assert again.domain == release.domain
    assert again.ask("sex = 'Male' and region = 'N2'") == release.ask("sex = 'Male' and region = 'north'")


def test_means_of_unequal_bins_say_what_they_count(release):
    mean = release.mean("age")
    assert "may lie up to 27.5 further" in str(mean)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("code,name\n1,x\n", "codes.csv needs the columns 'code' and 'label'; name them so in its first line"),
        ("code,label\n1,x\n1,y\n", "codes.csv row 3 gives '1' a second label; keep one"),
        ("code,label\n1,\n", "codes.csv row 2 lacks a code or a label; fill it in"),
        ("code,label\n", "codes.csv needs a header and at least one row below it"),
    ],
)
def test_files_of_labels_are_checked(tmp_path, content, line):
    (tmp_path / "codes.csv").write_text(content)
    (tmp_path / "spec.yaml").write_text(SPEC)
    with pytest.raises(LeastnoiseError) as error:
        load_spec(tmp_path / "spec.yaml")
    assert str(error.value) == f"spec.yaml line 5: attribute 'region': {line}"


@pytest.mark.parametrize(
    ("delimiter", "encoding", "name"),
    [(";", "windows-1252", "code"), (";", "utf-8-sig", "Code"), ("\t", "utf-16", "CODE"), ("|", "utf-8", " code ")],
)
def test_files_of_labels_are_read_as_offices_write_them(tmp_path, delimiter, encoding, name):
    lines = [f"{name}{delimiter}label", f"N1{delimiter}Süd, Küste", f"S1{delimiter}Übriges"]
    (tmp_path / "codes.csv").write_bytes("\r\n".join(lines).encode(encoding))
    (tmp_path / "spec.yaml").write_text(SPEC)
    region = load_spec(tmp_path / "spec.yaml").workload.domain["region"]
    assert [region.values.label(k) for k in range(2)] == ["Süd, Küste", "Übriges"]


def test_keys_of_values_are_numbers_unless_quoted():
    text = (
        "attributes: {a: {values: {1: x, '2': y, 2.5: z}}}\nworkload: [{queries: marginal, ways: 1}]\nprivacy: {mu: 1}"
    )
    assert parse_spec(text).workload.domain["a"].values.keys == ((1,), ("2",), (2.5,))


# --- unknown values ---------------------------------------------------------------------------------------------------

WITH_GAPS = """
attributes:
  age:  {range: [18, 30], outside: clamp, missing: unknown}
  pay:  {bins: {low: 0, high: 100, count: 5}, missing: unknown}
  sex:  {values: [F, M], missing: unknown}
  geo:  {hierarchy: {north: [a, b], south: [c]}, missing: unknown}
workload:
  - {queries: hybrid, ways: [1, 2]}
  - {queries: range, on: age}
  - {queries: nodes, on: geo}
privacy: {mu: 4000}
"""


@pytest.fixture(scope="module")
def gaps():
    rng = np.random.default_rng(5)
    rows = 2000
    frame = pd.DataFrame(
        {
            "age": rng.integers(10, 40, rows).astype(float),
            "pay": rng.random(rows) * 100,
            "sex": rng.choice(["F", "M"], rows).astype(object),
            "geo": rng.choice(["a", "b", "c"], rows).astype(object),
        }
    )
    for name in frame:
        frame.loc[rng.random(rows) < 0.2, name] = None
    spec = parse_spec(WITH_GAPS)
    return frame, plan_spec(spec).run(frame, rules=spec.rules)


@pytest.mark.parametrize(
    ("question", "condition"),
    [
        ("age = 'unknown'", lambda f: f.age.isna()),
        ("age > 20", lambda f: f.age > 20),
        ("age <= 30", lambda f: f.age.notna()),
        ("age between 18 and 25", lambda f: f.age <= 25),
        ("not (age > 20)", lambda f: ~(f.age > 20)),
        ("pay >= 40 and sex = 'unknown'", lambda f: (f.pay >= 40) & f.sex.isna()),
        ("pay in ('unknown', '[0, 20)')", lambda f: f.pay.isna() | (f.pay < 20)),
        ("sex != 'F'", lambda f: f.sex != "F"),
        ("geo under 'north'", lambda f: f.geo.isin(["a", "b"])),
        ("geo = 'unknown' and age = 'unknown'", lambda f: f.geo.isna() & f.age.isna()),
        ("true", lambda f: f.age.isna() | f.age.notna()),
    ],
)
def test_unknown_is_counted_on_its_own(gaps, question, condition):
    frame, release = gaps
    assert round(release.ask(question).value) == int(condition(frame).sum())


def test_statistics_leave_unknown_out(gaps):
    frame, release = gaps
    ages = frame.age.clip(18, 30).dropna()
    assert release.mean("age").value == pytest.approx(ages.mean(), abs=0.01)
    assert release.quantile("age", 0.5).value == np.quantile(ages, 0.5, method="inverted_cdf")
    assert release.mean("age", "sex = 'unknown'").value == pytest.approx(ages[frame.sex.isna()].mean(), abs=0.02)
    shares = release.cdf("age")
    assert shares["value"].tolist() == list(range(18, 31))
    assert shares["share"].iloc[-1] == pytest.approx(1)
    middle = 20 * (frame.pay.dropna() // 20) + 10
    assert release.mean("pay").value == pytest.approx(middle.mean(), abs=0.1)


def test_tables_and_answers_name_unknown(gaps, tmp_path):
    frame, release = gaps
    table = release.table("age")
    assert table["age"].tolist() == [*range(18, 31), "unknown"]
    assert round(table["count"].iloc[-1]) == frame.age.isna().sum()
    answers = release.answer(parse_spec(WITH_GAPS).workload)
    texts = answers[(answers.attributes == "age") & (answers.family == "range")]["query"].tolist()
    assert len(texts) == 13 * 14 // 2 + 1
    assert texts[-2:] == ["age from 30 to 30", "age = unknown"]
    release.save(tmp_path / "release")
    again = ln.load(tmp_path / "release")
    assert again.domain == release.domain
    assert again.ask("age = 'unknown'") == release.ask("age = 'unknown'")


@pytest.mark.parametrize("name", ["prefix", "suffix", "threshold", "range", "circular"])
def test_known_families_are_those_of_the_known_values(name):
    family = Known(FAMILIES[name])
    for n in (2, 3, 6):
        rows = family.rows(n)
        assert rows.shape == (family.count(n), n)
        assert np.array_equal(rows[:-1, :-1], FAMILIES[name].rows(n - 1))
        assert not rows[:-1, -1].any()
        assert rows[-1].tolist() == [0.0] * (n - 1) + [1.0]
        assert np.allclose(family.gram(n), rows.T @ rows)


def test_what_needs_all_values_is_refused():
    text = WITH_GAPS.replace("{queries: range, on: age}", "{queries: abs_diff, on: [age, pay]}")
    line = "abs_diff compares values, and those of 'age' may be unknown; use 'missing: drop' there, or other queries"
    assert message(text) == f"s.yaml line 9: {line}"


def test_a_listed_unknown_stays_what_it_is():
    values = parse_spec(one_attribute("{values: [a, unknown], missing: unknown}")).workload.domain["a"].values
    assert values == Values(("a", "unknown"))


def test_workloads_on_unknown_values_are_stored():
    workload = parse_spec(WITH_GAPS).workload
    again = workload_from_json(json.loads(json.dumps(workload_to_json(workload))))
    assert again == workload
    assert again.queries == workload.queries


# --- dates ------------------------------------------------------------------------------------------------------------

WITH_DATES = """
attributes:
  date: {dates: {from: 2015-01-01, to: 2016-12-31, by: day}, format: "%d.%m.%Y", missing: unknown}
  hour: {dates: {by: hour of day}, column: time, missing: drop}
  town: {values: [Oslo, Bergen], trim: true, fold: true, missing_values: ["", n/a], missing: unknown}
workload:
  - {queries: nodes, on: date}
  - {queries: marginal, on: [hour, town]}
privacy: {mu: 4000}
"""


@pytest.fixture(scope="module")
def dated():
    rng = np.random.default_rng(7)
    rows = 3000
    days = pd.to_datetime("2015-01-01") + pd.to_timedelta(rng.integers(0, 731, rows), unit="D")
    frame = pd.DataFrame(
        {
            "date": pd.Series(days).dt.strftime("%d.%m.%Y").where(rng.random(rows) < 0.9, None),
            "time": days + pd.to_timedelta(rng.integers(0, 86_400, rows), unit="s"),
            "town": rng.choice(["Oslo", " OSLO", "bergen ", "", "N/A"], rows),
        }
    )
    spec = parse_spec(WITH_DATES)
    release = plan_spec(spec).run(frame, rules=spec.rules)
    return frame.assign(day=pd.Series(days).where(frame.date.notna())), release


@pytest.mark.long
@pytest.mark.parametrize(
    ("question", "condition"),
    [
        ("date between '2015-03-01' and '2015-03-31'", lambda f: f.day.dt.strftime("%Y-%m") == "2015-03"),
        ("date between '2015-03' and '2015-Q2'", lambda f: (f.day >= "2015-03-01") & (f.day < "2015-07-01")),
        ("date = '2015-03'", lambda f: f.day.dt.strftime("%Y-%m") == "2015-03"),
        ("date = '2015-03-04'", lambda f: f.day == "2015-03-04"),
        ("date = 2016", lambda f: f.day.dt.year == 2016),
        ("date.year = 2016", lambda f: f.day.dt.year == 2016),
        ("2015 < date.year", lambda f: f.day.dt.year == 2016),
        ("date.quarter in ('2015-Q4', '2016-Q1')", lambda f: (f.day >= "2015-10-01") & (f.day < "2016-04-01")),
        ("date.year != 2016", lambda f: f.day.dt.year != 2016),
        ("date > '2016-06'", lambda f: f.day >= "2016-07-01"),
        ("date >= '1999-01-01'", lambda f: f.day.notna()),
        ("date <= '2015-12-31'", lambda f: f.day.dt.year == 2015),
        ("date = 'unknown'", lambda f: f.day.isna()),
        ("date under '2015-Q1'", lambda f: f.day < "2015-04-01"),
        ("hour >= 22 and town = 'Oslo'", lambda f: (f.time.dt.hour >= 22) & f.town.isin(["Oslo", " OSLO"])),
        ("town = 'unknown'", lambda f: f.town.isin(["", "N/A"])),
    ],
)
def test_questions_about_dates(dated, question, condition):
    frame, release = dated
    assert round(release.ask(question).value) == int(condition(frame).sum())


@pytest.mark.long
@pytest.mark.parametrize(
    ("question", "line"),
    [
        ("date = '2015-02-30'", "'2015-02-30' is no date; write '2015-01-01', '2015-01', '2015-Q1', '2015'"),
        ("date = '2017'", "'2017' is not among the dates of 'date', 2015-01-01 to 2016-12-31"),
        ("date.month = 3", "3 is no month; write for example '2015-01'"),
        ("date.yeer = 2015", "no level 'yeer' in this hierarchy; its levels are all, year, quarter, month, day"),
        ("hour.year = 2015", "'hour' has no hierarchy, so it has no levels; leave the dot out"),
        ("date.year = '2015-Q1'", "'2015-Q1' is no year; write for example '2015'"),
    ],
)
def test_what_is_no_date_is_refused(dated, question, line):
    with pytest.raises(LeastnoiseError) as error:
        dated[1].ask(question)
    assert line in str(error.value)


def test_days_within_months_are_refused():
    domain = ln.Domain.of(date=ln.dates("2015-01-01", "2015-12-31", by="month"))
    with pytest.raises(
        LeastnoiseError, match="'2015-03-05' lies inside '2015-03', and whole months are counted; write '2015-03'"
    ):
        parse(domain, "date < '2015-03-05'")
    assert parse(domain, "date < '2015-03-01'").domain == domain


@pytest.mark.long
def test_tables_by_level_of_dates(dated, tmp_path):
    frame, release = dated
    table = release.table("date", levels={"date": "year"})
    assert table["date"].tolist() == ["2015", "2016", "unknown"]
    years = frame.day.dt.year
    assert np.rint(table["count"]).tolist() == [(years == 2015).sum(), (years == 2016).sum(), years.isna().sum()]
    assert len(release.table("date", levels={"date": "month"})) == 25
    release.save(tmp_path / "release")
    again = ln.load(tmp_path / "release")
    assert again.domain == release.domain
    assert again.ask("date.year = 2016") == release.ask("date = '2016'")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "{dates: {from: 2015-01-01}}",
            "dates needs 'to'; write for example {from: 2015-01-01, to: 2025-12-31, by: month}",
        ),
        (
            "{dates: {from: 2015-01-32, to: 2016-01-01}}",
            "attribute 'a': the first day '2015-01-32' is no date; write it as",
        ),
        ("{dates: {from: 2016-01-01, to: 2015-01-01}}", "attribute 'a': no day lies from 2016-01-01 to 2015-01-01"),
        ("{dates: {from: 2015-01-01, to: 2016-01-01, by: weak}}", "unknown by 'weak'; did you mean 'week'?"),
        ("{dates: {frm: 2015-01-01, to: 2016-01-01}}", "unknown key 'frm' in dates; did you mean 'from'?"),
        ("{dates: {by: hour of day}, zone: Mars}", "attribute 'a': 'Mars' is no time zone"),
        ("{range: [0, 9], fold: true}", "unknown key 'fold' in an attribute with 'range'"),
        ("{values: [a, A], fold: true}", "two values of 'a' are 'a' when trimmed or folded; keep one"),
        ("{values: [a], trim: maybe}", "trim is 'maybe'; write for example trim: true"),
        ("{values: [a], missing_values: []}", "missing_values is empty; write for example ['', NA, -99]"),
    ],
)
def test_bad_dates_and_readings_are_refused(text, line):
    assert message(one_attribute(text)).startswith(f"s.yaml line 2: {line}")


@pytest.mark.parametrize("by", ["day", "week", "month", "quarter", "year", "hour of day", "day of week"])
def test_dates_are_stored_and_their_values_are_found(by):
    days = {} if "of" in by.split() else {"first": "2015-12-20", "last": "2017-01-05"}
    for values in (ln.dates(**days, by=by), ln.or_unknown(ln.dates(**days, by=by))):
        attribute = Attribute("a", values)
        assert Attribute.from_json(json.loads(json.dumps(attribute.to_json()))) == attribute
        known = range(attribute.known)
        assert [attribute.code(attribute.value(code)) for code in known] == list(known)
        assert [attribute.code(values.shown(code)) for code in known] == list(known)
        assert [int(values.read([attribute.value(code)])[0]) for code in known] == list(known)
