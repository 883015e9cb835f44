"""What drafts find in files of offices: titles above names, words among numbers, names that nobody can type."""

import gzip
import random
import re
from pathlib import Path

import openpyxl
import pytest

import leastnoise as ln
from leastnoise.errors import DataError, LeastnoiseError
from leastnoise.sources.draft import draft
from leastnoise.workload.spec import parse_spec
from tests.every import for_every

N = 1200
ROWS = [("north" if k % 2 else "south", 18 + k % 70, f"{k % 9}.5") for k in range(N)]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lines_of(sign: str) -> str:
    return "".join(sign.join(map(str, row)) + "\n" for row in [("region", "age", "pay"), *ROWS])


def checked(path: str) -> tuple[str, list[int]]:
    """A draft that passes the check as it is, and the sizes of its attributes."""
    text = draft(path, look=True).text
    spec = parse_spec(text)
    assert ln.check(path, spec.workload.domain, rules=spec.rules, file=spec.file).ok
    return text, [attribute.size for attribute in spec.workload.domain]


TITLES = {
    "one line": "2011 Census Microdata Teaching File\n",
    "one field of the row": "Staff, in thousands,,\n".replace(", in", " in"),
    "a line between": "Staff 2024\n\n",
    "no numbers": "Staff\n",
    "several": "Office of Examples\nStaff\n2024-01-31\n\n",
    "quotes": '"Staff, and guests"\n',
    "line ends": "Staff\r\n\r\n",
}


@for_every(title=TITLES, sign=[",", ";", "\t", "|"])
def test_titles_above_the_names_are_left_out(title, sign):
    above = TITLES[title].replace(",,", 2 * sign)
    rows = lines_of(sign) if title != "no numbers" else re.sub("[0-9.]+", "x", lines_of(sign))
    Path("staff.csv").write_text(above + rows, newline="")
    text, sizes = checked("staff.csv")
    assert f"skip: {above.count(chr(10))}" in text
    assert title == "no numbers" or sizes == [2, 70, 16]


def test_titles_of_packed_files_and_workbooks_are_left_out():
    with gzip.open("staff.csv.gz", "wt") as file:
        file.write("Staff\n" + lines_of(";"))
    assert "file: {delimiter: semicolon, skip: 1}" in checked("staff.csv.gz")[0]
    book = openpyxl.Workbook()
    for row in [["Staff of 2024"], [], ["region", "age", "pay"], *ROWS]:
        book.active.append(row)
    book.save("staff.xlsx")
    assert "file: {skip: 2, sheet: Sheet}" in checked("staff.xlsx")[0]


NO_TITLES = {
    "names alone": lines_of(","),
    "a name of two lines": '"Region\nof birth",age\n' + "".join(f"{a},{b}\n" for a, b, _ in ROWS),
    "decimal commas": "region;town;pay\n" + "".join(f"{a};b{b},c;{k},5\n" for k, (a, b, _) in enumerate(ROWS)),
    "one name": "region,,\n" + "".join(f"{a},{b},{c}\n" for a, b, c in ROWS),
    "one column": "region\n" + "".join(f"{a}\n" for a, _, _ in ROWS),
    "only texts": "region,,\n" + "".join(f"{a},{a},{a}\n" for a, _, _ in ROWS),
}


@for_every(shape=NO_TITLES)
def test_names_are_no_titles(shape):
    Path("staff.csv").write_text(NO_TITLES[shape])
    assert "skip" not in draft("staff.csv", look=True).text


def test_a_first_line_without_names_says_how_to_leave_it_out():
    Path("staff.csv").write_text("\n" + lines_of(","))
    with pytest.raises(DataError) as error:
        draft("staff.csv", look=True)
    assert "has no names of columns; where they stand below a title, say how many lines are above them" in str(
        error.value
    )
    assert "region: {values: [north, south]}" in draft("staff.csv?skip=1", look=True).text


def test_words_among_numbers_count_as_missing():
    ages = [random.Random(k).choice(["Unknown", "refused"]) if k % 40 == 0 else 18 + k % 90 for k in range(N)]
    few = ["not known" if k % 50 == 0 else k % 20 for k in range(N)]
    Path("x.csv").write_text("age,rooms\n" + "".join(f"{a},{b}\n" for a, b in zip(ages, few, strict=True)))
    text, sizes = checked("x.csv")
    assert "age:   {range: [18, 107], missing_values: [Unknown, refused], missing: unknown}" in text
    assert 'rooms: {range: [0, 19], missing_values: ["not known"], missing: unknown}' in text
    assert sizes == [91, 21]


def test_texts_with_digits_are_no_marks_of_missing_values():
    """Such as 90+, which is an age: the column is left to whoever knows it."""
    values = ["90+" if k % 30 == 0 else str(k % 90) for k in range(N)]
    Path("x.csv").write_text("age,kind\n" + "".join(f"{value},a\n" for value in values))
    assert "# age: left out, it has numbers and other texts; declare the numbers" in draft("x.csv", look=True).text


def test_numbers_with_units_are_said_to_have_them():
    rows = [f"${k}.{k % 90 + 10},{k % 101}%,{k / 7:.2f} km,word{k % 200}" for k in range(N)]
    Path("x.csv").write_text("price,share,way,word,kind\n" + "".join(f"{row},a\n" for row in rows))
    text = draft("x.csv", look=True).text
    assert (
        text.count("left out, its numbers have units or other signs, such as $ or %; write them as plain numbers") == 3
    )
    assert "# word: left out, it has more than" in text


def test_names_with_odd_blanks_are_written_as_one_would_type_them():
    names = ['"Income\n(EUR)"', "Date  of birth ", " sex", '"sex"']
    rows = "".join(f"{k % 60},1990-01-0{k % 9 + 1},{'mf'[k % 2]},{'mf'[k % 2]}\n" for k in range(N))
    Path("x.csv").write_text(",".join(names) + "\n" + rows)
    found = draft("x.csv", look=True)
    assert found.attributes == ["Income (EUR)", "Date of birth", " sex", "sex"]  # the last two would be one
    assert '"Date of birth": {column: "Date  of birth ", dates:' in found.text
    assert checked("x.csv")[1] == [60, 12, 2, 2]


def test_an_empty_column_is_said_to_be_empty_whatever_it_is_called():
    Path("x.csv").write_text("name,kind\n" + ",a\n" * 50)
    assert "# name: left out, it is empty" in draft("x.csv", look=True).text


def test_a_file_that_breaks_off_is_told_by_its_line():
    """It was said to be in no encoding, and a check to tell the lines, for which there was no spec."""
    text = lines_of(";").replace("north", '"north"')
    Path("x.csv").write_text(text[: text.rindex("north") + 2])
    with pytest.raises(DataError) as error:
        draft("x.csv", look=True)
    assert str(error.value).startswith("line 1201 has a quote that is not closed")


def test_lines_in_quotes_as_a_whole_are_told_as_what_they_are():
    rows = "".join(f'"{k};""{a}"";{b}"\n' for k, (a, b, _) in enumerate(ROWS))
    Path("x.csv").write_text('"""id"";""region"";""age"""\n' + rows)
    with pytest.raises(LeastnoiseError) as error:
        draft("x.csv", look=True)
    assert str(error.value).startswith("each line is one text in quotes that has several fields in it; save the file")
