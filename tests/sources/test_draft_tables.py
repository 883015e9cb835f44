"""Drafts of tables as offices have them, made here in the shapes of well-known ones: each passes the check as it is."""

import csv
import json
from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from leastnoise.domain.attributes import Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.release.frames import COLUMNS
from leastnoise.release.postprocessing.postprocess import UNBIASED
from leastnoise.sources.check import check
from leastnoise.sources.convert import source_of
from leastnoise.sources.draft import TAKEN, draft
from leastnoise.sources.duck import DuckDB
from leastnoise.sources.summary import Summaries
from leastnoise.workload.file_format import FileFormat
from leastnoise.workload.spec import parse_spec
from tests.every import for_every
from tests.shell import call

N = 1500


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Maker:
    """Columns of made-up values."""

    def __init__(self, rng) -> None:
        self.rng = rng
        self.days = [str(np.datetime64("2015-01-02") + int(k)) for k in rng.integers(0, 2700, N)]

    def pick(self, *values):
        return [values[k] for k in self.rng.integers(0, len(values), N)]

    def whole(self, low, high):
        return self.rng.integers(low, high, N).tolist()

    def gaps(self, values, mark="", share=0.05):
        return [mark if self.rng.random() < share else value for value in values]

    def money(self, sigma=1.0):
        return np.round(self.rng.lognormal(6, sigma, N), 2).tolist()


def write(name, columns, delimiter=",", encoding="utf-8", quoting=csv.QUOTE_MINIMAL):
    with open(name, "w", newline="", encoding=encoding) as file:
        writer = csv.writer(file, delimiter=delimiter, quoting=quoting)
        writer.writerow([column for column, _ in columns])
        writer.writerows(zip(*(values for _, values in columns), strict=True))
    return name


def bank(m):
    """Semicolons, quotes around texts, "unknown" and 999 for what is not known."""
    pdays = [999 if m.rng.random() < 0.96 else int(m.rng.integers(0, 27)) for _ in range(N)]
    columns = [
        ("age", m.whole(18, 95)), ("job", m.pick("admin.", "blue-collar", "unknown")), ("default", m.pick("no", "yes")),
        ("balance", m.whole(-8000, 90000)), ("pdays", pdays), ("poutcome", m.pick("nonexistent", "failure")),
        ("emp.var.rate", m.pick(1.1, -0.1, -1.8)), ("y", m.pick("yes", "no")),
    ]  # fmt: skip
    return write("bank.csv", columns, ";", quoting=csv.QUOTE_NONNUMERIC)


def police(m):
    """Dates, gaps, names, truth values as texts, places."""
    columns = [
        ("id", list(range(3, N + 3))), ("name", m.gaps([f"A B{k}" for k in range(N)])), ("date", m.days),
        ("manner_of_death", m.pick("shot", "shot and Tasered")), ("armed", m.pick("gun", "", "knife")),
        ("age", m.gaps(m.whole(6, 91))), ("gender", m.pick("M", "F", "")), ("race", m.pick("W", "B", "N", "")),
        ("city", [f"City {k}" for k in m.whole(0, 700)]), ("body_camera", m.pick("True", "False")),
        ("longitude", m.gaps(np.round(m.rng.normal(-97, 15, N), 3).tolist())),
    ]  # fmt: skip
    return write("police.csv", columns)


def force(m):
    """Timestamps, American dates, padded and mixed texts, NULL and NA."""
    columns = [
        ("occurred", [f"{day} {hour:02d}:15:00" for day, hour in zip(m.days, m.whole(0, 24), strict=True)]),
        ("reported", m.gaps([f"{d[5:7]}/{d[8:]}/{d[:4]}" for d in m.days])),
        ("race", m.pick("White ", "white", "Black", "NULL")), ("minutes", m.gaps(m.whole(0, 80), "NA")),
        ("officer_id", m.whole(0, 300)), ("stopped", [f"{d[5:7]}/{d[8:]}/{d[:4]} 12:05:00 AM +0000" for d in m.days]),
        ("sent", [f"{day}T23:59:59Z" for day in m.days]),
        ("got", [f"{day}T23:59:59.{k % 1000:03d}+01:00" for k, day in enumerate(m.days)]),
    ]  # fmt: skip
    return write("force.csv", columns)


def earnings(m):
    """Codes as numbers, weights and incomes with a long tail."""
    columns = [
        ("A_SEX", m.pick(1, 2)), ("PRDTRACE", m.whole(1, 27)), ("A_HGA", m.whole(31, 47)), ("PTOTVAL", m.money(2.5)),
        ("A_ERNLWT", np.round(m.rng.random(N) * 9000, 2).tolist()), ("HRSWK", m.pick(-1, 0, 20, 40, 99)),
        ("EDUC", m.pick(*range(2, 130, 8), 125)), ("INCWAGE", m.gaps(m.whole(0, 500_000), 99_999_999, 0.3)),
        ("HOURWAGE", m.gaps(np.round(m.rng.gamma(5, 4, N), 2).tolist(), -1, 0.8)), ("ONES", m.gaps(m.whole(1, 31), -8)),
        ("UHRS", m.pick(20, 40, 997, 999)), ("AGE", m.whole(18, 100)), ("TEMP", m.whole(-9, 30)),
    ]  # fmt: skip
    return write("cps.csv", columns)


def purchases(m):
    """White space, no names, ids of people with several rows, days as numbers, amounts of zero."""
    amounts = [0.0 if m.rng.random() < 0.01 else amount for amount in m.money()]
    rows = zip(m.whole(1, 500), m.days, m.whole(1, 40), amounts, strict=True)
    lines = [f" {user:05d} {day.replace('-', '')}  {number}   {amount}" for user, day, number, amount in rows]
    Path("cdnow.txt").write_text("\n".join(lines) + "\n")
    return "cdnow.txt?delimiter=whitespace&names=user_id,date,quantity,amount"


def compas(m):
    """Empty columns, the same name twice, dates and timestamps with gaps."""
    columns = [
        ("id", list(range(N))), ("first", [f"n{k}" for k in range(N)]), ("dob", m.days), ("age", m.whole(18, 96)),
        ("age_cat", m.pick("25 - 45", "Greater than 45", "Less than 25")), ("decile_score", m.whole(1, 11)),
        ("c_jail_in", m.gaps([f"{day} 06:03:42" for day in m.days])), ("violent_recid", [""] * N),
        ("decile_score", m.whole(1, 11)), ("is_recid", m.pick(0, 1, -1)), ("score_text", m.pick("Low", "High", "N/A")),
    ]  # fmt: skip
    return write("compas.csv", columns)


def census(m):
    """Codes of nine letters, -9 for no code."""
    columns = [
        ("Person ID", list(range(7394483, 7394483 + N))), ("Region", m.pick("E12000001", "E12000002", "W92000004")),
        ("Sex", m.pick(1, 2)), ("Age", m.whole(1, 9)), ("Industry", m.pick(-9, *range(1, 13))),
        ("Hours", m.pick(-9, 1, 2)),
    ]  # fmt: skip
    return write("census.csv", columns)


def office(m):
    """Semicolons, Windows-1252 below names in ASCII, decimal commas."""
    heights = [f"{x:.2f}".replace(".", ",") for x in m.rng.normal(1.7, 0.1, N)]
    return write("office.csv", [("height", heights), ("region", m.pick("Süd", "Nord"))], ";", "windows-1252")


TABLES = {make.__name__: make for make in (bank, police, force, earnings, purchases, compas, census, office)}


@pytest.mark.long
@for_every(name=TABLES)
def test_drafts_pass_the_check_as_they_are(name, rng):
    data = TABLES[name](Maker(rng))
    spec = parse_spec(draft(data, look=True).text)
    place = data.partition("?")[0]
    result = check(place, spec.workload.domain, rules=spec.rules, file=spec.file)
    assert (result.rows, result.counted, result.problems) == (N, N, []), name


WORDS = {
    "bank": [
        "age: * {range: [18, 94]}", "pdays: * {range: [0, 26], missing_values: [999], missing: unknown}",
        "file: {delimiter: semicolon}",
    ],
    "police": [
        "# id: left out, nearly every row has another number",
        "date: * {dates: {from: 2015-01-01, to: 2022-12-31, by: month}}",
        "gender: * {values: [F, M], missing: unknown}", "age: * {range: [6, 90], missing: unknown}",
    ],
    "force": [
        "occurred: * {dates: {from: 2015-01-01", 'by: month}, format: "%m/%d/%Y", missing: unknown}',
        'race: * {values: [black, white], trim: true, fold: true, missing_values: ["NULL"], missing: unknown}',
        "minutes: * {range: [0, 79], missing_values: [NA], missing: unknown}", "# unit: {id: officer_id, max_rows: 3}",
        'by: month}, format: "%m/%d/%Y %I:%M:%S %p %z"}', 'format: "%Y-%m-%dT%H:%M:%S%z"}',
        'format: "%Y-%m-%dT%H:%M:%S.%f%z"}',
    ],
    "earnings": [
        "A_SEX: * {values: [1, 2]}", "outside: clamp}", "EDUC: * {values: [2, 10, 18,", "AGE: * {range: [18, 99]}",
        "INCWAGE: * {bins: {low: 0, high: 500000, count: 10}, missing_values: [99999999], missing: unknown}",
        "HOURWAGE: * {bins: {low: 0,", "missing_values: [-1], missing: unknown} # from the data: keep only if public",
        "ONES: * {range: [1, 30], missing_values: [-8], missing: unknown}", "TEMP: * {range: [-9, 29]}",
        "UHRS: * {values: [20, 40], missing_values: [997, 999], missing: unknown}",
    ],
    "purchases": [
        'format: "%Y%m%d"}', "# unit: {id: user_id, max_rows: 3}", "delimiter: whitespace, names: [user_id, date",
    ],
    "compas": ["decile_score_2: * {values: [1, 2", "# violent_recid: left out, it is empty", 'missing_values: ["N/A"]'],
    "census": [
        "Region: * {values: [E12000001, E12000002, W92000004]}",
        "Hours: * {values: [1, 2], missing_values: [-9], missing: unknown}",
    ],
    "office": ['file: {delimiter: semicolon, encoding: windows-1252, decimal: ","}', "height: {bins"],
}  # fmt: skip


@pytest.mark.long
@for_every(name=WORDS)
def test_drafts_say_what_is_there(name, rng):
    text = " ".join(draft(TABLES[name](Maker(rng)), look=True).text.split())
    for words in WORDS[name]:
        assert words.replace(" * ", " ") in text, (name, words)


@pytest.mark.long
def test_columns_are_looked_at_together(rng, monkeypatch):
    """200 columns in a number of queries that does not grow with each of them."""
    columns = [(f"c{k}", rng.integers(0, 10 ** (k % 6 + 1), 300).tolist()) for k in range(200)]
    write("wide.csv", columns)
    queries = []
    run = DuckDB.run
    monkeypatch.setattr(DuckDB, "run", lambda self, sql: queries.append(sql) or run(self, sql))
    draft("wide.csv", look=True)
    assert len(queries) <= 16


def test_moments_get_a_zone_and_the_remark_that_it_is_to_be_chosen():
    days = pa.array([0, 86400 * 364], pa.timestamp("s", "America/New_York"))
    pq.write_table(pa.table({"at": days}), "moments.parquet")
    text = draft("moments.parquet", look=True).text
    spec = parse_spec(text)
    assert check("moments.parquet", spec.workload.domain, rules=spec.rules).problems == []
    assert "{dates: {from: 1970-01-01, to: 1970-12-31, by: month}, zone: UTC}" in text
    assert "zone: the place whose calendar counts" in text


def test_a_title_above_the_names_of_a_sheet_is_named_as_what_is_wrong():
    """Where it cannot be told from names, as one of these is empty."""
    book = openpyxl.Workbook()
    book.create_sheet("staff").append(["Staff of 2023"])
    for row in (["site", None, "hours"], ["Graz", 1, 20]):
        book["staff"].append(row)
    book.save("x.xlsx")
    problem = r"line 2 has cells beyond the names; if these are the names, settled by file: \{skip: 1\} in a spec"
    with pytest.raises(LeastnoiseError, match=problem):
        draft("x.xlsx?sheet=staff", look=True)


def test_names_below_cells_that_span_columns_are_found(capsys):
    """Two lines of title, an empty one, and a line of names that groups those below it."""
    book = openpyxl.Workbook()
    sheet = book.active
    for row in (["Visits"], ["Office of X"], [], ["Person", None, "Visit"], ["age", "sex", "cost"]):
        sheet.append(row)
    sheet.merge_cells("A1:C1")
    sheet.merge_cells("A4:B4")
    for k in range(60):
        sheet.append([k % 40, "fm"[k % 2], k / 4])
    book.save("x.xlsx")
    text = draft("x.xlsx", look=True).text
    assert "file: {skip: 4, sheet: Sheet}" in text
    spec = parse_spec(text)
    assert check("x.xlsx", spec.workload.domain, rules=spec.rules, file=spec.file).rows == 60


def test_a_file_without_rows_says_so():
    Path("x.csv").write_text("age,sex\n")
    with pytest.raises(LeastnoiseError, match=r"^the data has no rows to look at; leave out --look"):
        draft("x.csv", look=True)
    assert draft("x.csv").attributes == ["age", "sex"]


def test_attributes_called_as_columns_of_tables_are_renamed_or_refused(capsys):
    write("x.csv", [("count", [1, 2, 3] * 50), ("note", ["a", "b", "c"] * 50), ("sex", ["F", "M"] * 75)])
    assert call(capsys, "init", "x.csv", "--look", "--out", "x.yaml")[0] == 0
    text = Path("x.yaml").read_text()
    assert "count_: {column: count, values: [1, 2, 3]}" in text
    assert "note_:  {column: note, values: [a, b, c]}" in text
    for command in (("release", "--data", "x.csv", "--out", "out"), ("ask", "count_ = 1"), ("export", "--out", "e")):
        first = "x.yaml" if command[0] == "release" else "out"
        assert call(capsys, command[0], first, *command[1:])[0] == 0
    Path("y.yaml").write_text(text.replace("count_: {column: count, ", "count:  {"))
    for command in (("check", "--data", "x.csv"), ("plan",), ("release", "--data", "x.csv", "--out", "no")):
        code, _, err = call(capsys, command[0], "y.yaml", *command[1:])
        assert code == 2
        assert "the attribute 'count' has the name of a column of every table" in err
        assert "as in 'count_: {column: count, ...}'" in err


@pytest.mark.parametrize("name", ["userId", "CustomerNo", "visitID"])
def test_names_of_ids_may_have_capitals_between_words(name):
    write("x.csv", [(name, [*range(100)] * 3), ("a", [1, 2, 3] * 100)])
    assert f"# unit: {{id: {name}, max_rows: 3}}" in draft("x.csv", look=True).text
    write("y.csv", [("isPaid", [*range(100)] * 3), ("a", [1, 2, 3] * 100)])
    assert "# unit: {id: person" in draft("y.csv", look=True).text


def test_the_unit_is_rather_a_person_than_a_thing():
    write("x.csv", [(name, [*range(100)] * 3) for name in ("incident_num", "subject_id")] + [("a", [1, 2, 3] * 100)])
    assert "# unit: {id: subject_id, max_rows: 3}" in draft("x.csv", look=True).text


def test_only_columns_with_signs_are_looked_at_again(monkeypatch):
    """Dates and texts are not read a second time where numbers turn out to have decimal commas."""
    looked, of = [], Summaries.of

    def watched(self, column, field, *more):
        looked.append(field.identifier)
        return of(self, column, field, *more)

    monkeypatch.setattr(Summaries, "of", watched)
    days = [f"{1 + k % 28}.{1 + k % 12}.2020" for k in range(300)]
    pay, place = [f"{k},5" for k in range(300)], ["north", "south", "east"] * 100
    write("x.csv", [("day", days), ("pay", pay), ("place", place), ("count", [*range(300)])], delimiter=";")
    text = draft("x.csv", look=True).text
    assert sorted(looked) == ["f0", "f1", "f1", "f2", "f3", "f3"]
    for drafted in ('format: "%d.%m.%Y"', "{bins: {low: 0, high: 300, count: 15}}", "{values: [east, north, south]}"):
        assert drafted in text
    assert 'decimal: ","' in text


def test_a_unit_whose_ids_are_not_all_there_leaves_the_other_rows_out():
    """So that the draft passes the check when the line is taken as it stands."""
    write("x.csv", [("patient", [None, *range(99)] * 3), ("a", [1, 2, 3] * 100)])
    text = draft("x.csv", look=True).text
    assert "# unit: {id: patient, max_rows: 3, missing: drop}" in text
    spec = parse_spec(text.replace("# unit:", "unit:"))
    assert check("x.csv", spec.workload.domain, rules=spec.rules, unit=spec.unit_fields).ok


def test_a_file_that_is_read_as_one_column_of_no_use_says_how_to_go_on(capsys):
    Path("x.txt").write_text("".join(f"{k:05d}~19970101~1~11.77\n" for k in range(80)))
    code, out, err = call(capsys, "init", "x.txt", "--look")
    assert (code, out) == (2, "")
    assert "the data has one column, which is no attribute" in err
    assert "FILE?delimiter=whitespace&names=person,day,amount" in err
    assert "1997" not in err  # its name is a row


@pytest.mark.parametrize("named", [False, True])
def test_white_space_and_a_missing_line_of_names_are_found_out(named, rng):
    place, _, names = purchases(Maker(rng)).partition("?delimiter=whitespace")
    text = draft(place + names.replace("&", "?") * named, look=True).text
    given = "user_id, date, quantity, amount" if named else "column_1, column_2, column_3, column_4"
    first, day = given.split(", ")[:2]
    assert f"file: {{delimiter: whitespace, names: [{given}]}}" in text
    assert f"# unit: {{id: {first}, max_rows: 3}}" in text
    assert f"{day}:" in text
    assert 'format: "%Y%m%d"' in text
    spec = parse_spec(text)
    assert check(place, spec.workload.domain, rules=spec.rules, file=spec.file).problems == []
    assert "19" not in spec.workload.domain.names


def test_texts_in_quotes_between_white_space_are_one_value():
    """As R writes tables; a quote within a text, as in 5", is a letter."""
    for names in ('"person" "place of birth" "size"', "person place size"):
        rows = [f'{k} "{("New York", "Bonn")[k % 2]}" {(1, "NA")[k % 3 == 0]}' for k in range(60)]
        Path("r.txt").write_text("\n".join([names, *rows]) + "\n")
        text = draft("r.txt", look=True).text
        assert '{values: [Bonn, "New York"]}' in text
        assert "delimiter: whitespace" in text
        spec = parse_spec(text)
        assert check("r.txt", spec.workload.domain, rules=spec.rules, file=spec.file).problems == []
    Path("r.txt").write_text('place size\n"a b" 5"\n"c ""d""" 6"\n"open 7\n')
    names = ["a b", 'c "d"', '"open']
    domain = Domain.of(place=names, size=['5"', '6"', "7"])
    (counts,) = source_of(Path("r.txt"), domain, file=FileFormat(delimiter=" ")).count([(0, 1)])
    np.testing.assert_array_equal(np.reshape(counts, (3, 3)), np.eye(3))


def test_values_in_place_of_names_are_no_names(rng):
    """A file of commas without a line of names; numbers above columns that are years or questions are names."""
    m = Maker(rng)
    write("x.csv", [("39.5", m.money()), ("State-gov", m.pick("State-gov", "Private")), ("12", m.whole(0, 9))])
    text = draft("x.csv", look=True).text
    assert "names: [column_1, column_2, column_3]" in text
    assert "39.5" not in text.partition("workload")[0].replace("low", "")
    write("y.csv", [("2019", m.whole(0, 9)), ("2020", m.whole(0, 9)), ("7", m.whole(0, 9))])
    assert "names:" not in draft("y.csv", look=True).text
    write("d.csv", [("place", m.pick("a", "b")), ("2020-01-01", m.whole(0, 9)), ("2020-01-02", m.whole(0, 9))])
    assert "names:" not in draft("d.csv", look=True).text
    Path("z.txt").write_text("name surname\n" + "Ann Smith\nBob Stone\n" * 20)  # words are no columns
    assert "whitespace" not in draft("z.txt", look=True).text


def test_dates_that_mark_missing_ones_are_no_years(rng):
    m = Maker(rng)
    columns = [
        ("day", m.gaps(m.days, "1900-01-01")), ("at", m.gaps([f"{d}T10:00:00" for d in m.days], "1900-01-01T00:00:00")),
        ("until", m.gaps(m.days, "9999-12-31")), ("us", m.gaps([f"{d[5:7]}/{d[8:]}/{d[:4]} 01:05:00 AM +0000" for d in
        m.days], "01/01/1900 12:00:00 AM +0000")), ("born", [f"{1900 + k % 90}-03-01" for k in range(N)]),
    ]  # fmt: skip
    write("x.csv", columns)
    text = draft("x.csv", look=True).text
    assert text.count("dates: {from: 2015-01-01, to: 2022-12-31, by: month}") == 4
    for mark in ("1900-01-01", "1900-01-01T00:00:00", "9999-12-31", "01/01/1900 12:00:00 AM +0000"):
        assert f'missing_values: ["{mark}"], missing: unknown' in text
    assert "dates: {from: 1900-01-01, to: 1989-12-31, by: year}}" in text
    spec = parse_spec(text)
    assert check("x.csv", spec.workload.domain, rules=spec.rules).problems == []


def test_names_of_people_are_never_copied(rng):
    """Neither from columns that are called so nor from small tables where nearly every row has another text."""
    m = Maker(rng)
    people = ["Ann", "Bob", "Eve"]
    titles = ("name", "First Name", "last", "customer_name", "Nachname", "e-mail", "officer.name", "phone")
    write("x.csv", [*((title, m.pick(*people)) for title in titles), ("country name", m.pick("Peru", "Chile"))])
    text = draft("x.csv", look=True).text
    assert not any(name in text for name in people)
    assert text.count("names of people, or how to reach them, must never stand in a spec") == len(titles)
    assert '"country name": {values: [Chile, Peru]}' in text
    some = [f"Person {k % 20}" for k in range(30)]
    write("y.csv", [("who", some), ("whose", [f"P{k}" for k in range(30)]), ("sex", ["F", "M"] * 15)])
    assert draft("y.csv", look=True).left_out == ["who", "whose"]


def test_counts_with_a_long_tail_are_no_codes(rng):
    times = np.minimum(rng.geometric(0.4, N) - 1, 9).tolist()
    write("x.csv", [("previous", [*times[:-40], *range(11, 50), 275]), ("state", [f"S{k % 51:02d}" for k in range(N)])])
    text = draft("x.csv", look=True).text
    assert "previous: {range: [0, " in text
    assert "outside: clamp}" in text
    assert "S00, S01" in text
    spec = parse_spec(text)
    assert check("x.csv", spec.workload.domain, rules=spec.rules).problems == []


def test_samples_leave_room_for_what_they_missed(rng, capsys):
    write("x.csv", [("town", ["a"] * 50 + ["b"] * 50), ("n", [*range(50), *range(500, 550)])])
    code, out, _ = call(capsys, "init", "x.csv", "--look", "--sample", "50", "--json")
    spec = parse_spec(json.loads(out)["text"])
    assert (code, check("x.csv", spec.workload.domain, rules=spec.rules).problems) == (0, [])


def drafted(tmp_path, **columns) -> dict[str, str]:
    """What a draft says about each column of a file."""
    pd.DataFrame(columns).to_csv(tmp_path / "office.csv", index=False)
    lines = draft(tmp_path / "office.csv", look=True).text.splitlines()
    return {name: next(line for line in lines if line.strip(" #").startswith(f"{name}:")) for name in columns}


def test_none_is_an_answer(tmp_path):
    """It is listed with the others; where the rest are many numbers it can only be a mark, which the draft shows."""
    rng = np.random.default_rng(3)
    said = drafted(
        tmp_path,
        school=rng.choice(["None", "Primary", "College"], 300),
        priors=rng.choice(["None", "1", "2", "3"], 300),
        place=rng.choice(["None", "NA", "north"], 300),
        pay=[*map(str, 100 * rng.integers(0, 90, 290)), *["None"] * 10],
    )
    assert "values: [College, None, Primary]}" in said["school"]
    assert "None is a value here: where it marks missing ones, write missing_values: [None]" in said["school"]
    assert 'values: ["1", "2", "3", None]}' in said["priors"]
    assert "values: [None, north], missing_values: [NA], missing: unknown}" in said["place"]
    assert "bins:" in said["pay"]
    assert "missing_values: [None], missing: unknown}" in said["pay"]


def test_numbers_of_things_are_no_amounts(tmp_path):
    """Left out by their names and by how many there are; amounts, ages and weights of surveys are kept."""
    rng = np.random.default_rng(4)
    said = drafted(
        tmp_path,
        id=np.arange(150) + 1,
        case_id=rng.permutation(150) + 100,
        intnum=rng.integers(0, 120, 150) + 88_000,
        fnlwgt=rng.integers(11, 110, 150) * 7_919,
        paid=rng.integers(0, 90, 150) * 10,
        age=rng.integers(0, 99, 150),
    )
    for name in ("id", "case_id", "intnum"):
        assert "left out, " in said[name], name
    for name in ("fnlwgt", "paid", "age"):
        assert "from the data: keep only if public" in said[name], name


def test_drafts_know_the_names_of_columns_that_are_refused():
    """Drafts come before releases in the layers, so that they have a list of their own."""
    assert {*COLUMNS, UNBIASED} <= TAKEN
