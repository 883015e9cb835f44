"""Files as they come: whatever the shape of a file, its rows count as those of the plain one do."""

import csv
import gzip
import io
import json
import re
import zipfile
from pathlib import Path

import numpy as np
import openpyxl
import pyarrow as pa
import pytest
from pyarrow import parquet

from leastnoise.domain.attributes import Domain, bins
from leastnoise.errors import DataError, LeastnoiseError
from leastnoise.sources import Rules, source_of
from leastnoise.sources import text_files as text_files_module
from leastnoise.sources.broken_rows import broken_rows
from leastnoise.sources.check import check
from leastnoise.sources.files import find_files
from leastnoise.workload.file_format import FileFormat
from tests.every import for_every

DOMAIN = Domain.of(
    {"age": range(18, 22), "größe": bins(0, 2, count=8), "town": ["Zürich", "Łódź", "a,b;c|d\te", "other"]}
)
RULES = {"age": Rules(outside="drop"), "größe": Rules(missing="drop"), "town": Rules(outside="other", missing="other")}
LATIN = {"Łódź": "Genève"}  # which Windows-1252 can write


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows(rng, count=400) -> list[list[str]]:
    """With missing values, values outside, quotes and line ends between quotes."""
    towns = ["Zürich", "Łódź", "a,b;c|d\te", "", 'say "no"', "two\nlines", "€ 5"]
    heights = ["0.25", "1.5", "0", "", "2", "1e-1", "0.1"]
    return [
        [str(rng.integers(17, 23)), heights[rng.integers(len(heights))], towns[rng.integers(len(towns))]]
        for _ in range(count)
    ]


def text(lines, delimiter=",", end="\n", decimal=".", names=("age", "größe", "town")) -> str:
    result = io.StringIO()
    quoting = csv.QUOTE_ALL if end == "\r" else csv.QUOTE_MINIMAL  # which would leave line feeds without quotes
    writer = csv.writer(result, delimiter=delimiter, lineterminator=end, quoting=quoting)
    writer.writerow(names)
    writer.writerows([age, height.replace(".", decimal), town] for age, height, town in lines)
    return result.getvalue()


def latin(lines):
    return [[age, height, LATIN.get(town, town)] for age, height, town in lines]


def counts(data, file=None, domain=DOMAIN, rules=RULES):
    source = source_of(data, domain, rules=rules, file=file)
    return [table.tolist() for table in source.count([(0,), (1,), (2,), (0, 1, 2)])]


def mixed(lines) -> bytes:
    """Every third line ends in another way; line ends between quotes stay as they are."""
    ends, whole = ["\n", "\r\n", "\r"], text([]).removesuffix("\n")
    records = [text([line]).split("\n", 1)[1].removesuffix("\n") for line in lines]
    return (whole + "".join(ends[k % 3] + record for k, record in enumerate(records)) + "\r\n").encode()


def zipped(members: dict[str, bytes]) -> bytes:
    result = io.BytesIO()
    with zipfile.ZipFile(result, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return result.getvalue()


def zst(data: bytes) -> bytes:
    return pa.compress(data, "zstd", asbytes=True)


SHAPES = {
    "plain": ("x.csv", lambda r: text(r).encode(), {}),
    "no end": ("x.csv", lambda r: text(r).encode().rstrip(b"\n"), {}),
    "semicolon": ("x.csv", lambda r: text(r, ";").encode(), {}),
    "tab": ("x.tsv", lambda r: text(r, "\t").encode(), {}),
    "pipe": ("x.txt", lambda r: text(r, "|").encode(), {}),
    "mark": ("x.csv", lambda r: text(r).encode("utf-8-sig"), {}),
    "utf-16": ("x.csv", lambda r: text(r).encode("utf-16"), {}),
    "utf-16 big": ("x.csv", lambda r: b"\xfe\xff" + text(r).encode("utf-16-be"), {}),
    "utf-16 without mark": ("x.csv", lambda r: text(r, ";").encode("utf-16-le"), {}),
    "utf-16 stated": ("x.csv", lambda r: text(r).encode("utf-16"), {"encoding": "UTF-16"}),
    "returns": ("x.csv", lambda r: text(r, end="\r\n").encode(), {}),
    "old returns": ("x.csv", lambda r: text(r, end="\r").encode(), {}),
    "mixed": ("x.csv", mixed, {}),
    "mixed and packed": ("x.csv.gz", lambda r: gzip.compress(mixed(r)), {}),
    "mixed in utf-16": ("x.csv", lambda r: mixed(r).decode().encode("utf-16"), {}),
    "gz": ("x.csv.gz", lambda r: gzip.compress(text(r).encode()), {}),
    "gz in parts": ("x.tsv.gz", lambda r: b"".join(gzip.compress(c.encode()) for c in halves(text(r, "\t"))), {}),
    "zst": ("X.CSV.ZST", lambda r: zst(text(r).encode()), {}),
    "zst in utf-16": ("x.txt.zst", lambda r: zst(text(r, "|").encode("utf-16")), {}),
    "zip": ("x.zip", lambda r: zipped({"people.csv": text(r).encode(), "__MACOSX/._people.csv": b"?"}), {}),
    "zip in utf-16": ("x.csv.zip", lambda r: zipped({"a/b.txt": text(r, ";").encode("utf-16")}), {}),
    "title": ("x.csv", lambda r: b"People; 2024\r\n\n" + text(r).encode(), {"skip": 2}),
    "title and no names": (
        "x.csv",
        lambda r: b'a "title\n' + text(r).split("\n", 1)[1].encode(),
        {"skip": 1, "names": ["age", "größe", "town"]},
    ),
    "title in utf-16": ("x.csv.gz", lambda r: gzip.compress(("Ü\r" + text(r, "\t")).encode("utf-16")), {"skip": 1}),
    "decimal comma": ("x.csv", lambda r: text(r, ";", decimal=",").encode(), {"decimal": ","}),
    "everything": (
        "x.txt.gz",
        lambda r: gzip.compress(text(r, ";", "\r\n", ",").encode("utf-16")),
        {"decimal": ",", "delimiter": "semicolon"},
    ),
    "no names": (
        "x.csv",
        lambda r: text(r).split("\n", 1)[1].encode(),
        {"names": ["age", "größe", "town"]},
    ),
}  # fmt: skip


def halves(content: str) -> tuple[str, str]:
    return content[: len(content) // 2], content[len(content) // 2 :]


@pytest.mark.long
@for_every(name=SHAPES)
def test_every_shape_of_a_file_counts_alike(name, rng, folder):
    lines = rows(rng)
    (folder / "plain.csv").write_text(text(lines), encoding="utf-8", newline="")
    expected = counts("plain.csv")
    assert sum(expected[0]) > 100
    path, write, file = SHAPES[name]
    (folder / path).write_bytes(write(lines))
    assert counts(path, file) == expected, name
    (folder / path).unlink()


@pytest.mark.long
@for_every(encoding=["windows-1252", "iso-8859-15", "cp850", "mac-roman", "gb18030"])
def test_stated_encodings(encoding, rng):
    lines = [line for line in latin(rows(rng)) if encoding in ("windows-1252", "iso-8859-15") or "€" not in line[2]]
    domain = Domain((DOMAIN["age"], DOMAIN["größe"], Domain.of(town=["Zürich", "Genève", "€ 5", "other"])["town"]))
    Path("plain.csv").write_text(text(lines), encoding="utf-8", newline="")
    Path("x.csv").write_bytes(text(lines, ";").encode(encoding))
    expected = counts("plain.csv", domain=domain)
    assert counts("x.csv", {"encoding": encoding}, domain=domain) == expected
    assert counts(f"x.csv?encoding={encoding}", domain=domain) == expected


def test_names_that_are_not_utf8_are_windows_1252():
    Path("x.csv").write_bytes("age;größe;town\n18;0.5;Zürich\n".encode("windows-1252"))
    assert find_files("x.csv").encodings == ("windows-1252",)
    assert counts("x.csv")[2] == [1, 0, 0, 0]


@pytest.mark.long
def test_workbooks(rng):
    lines = rows(rng)
    Path("plain.csv").write_text(text(lines), encoding="utf-8", newline="")
    expected = counts("plain.csv")
    book = openpyxl.Workbook()
    book.active.append(["nothing", "here"])
    sheet = book.create_sheet("people 2")
    sheet.append(["age", "größe", "town", None])
    for k, (age, height, town) in enumerate(lines):
        sheet.append([int(age) if k % 2 else age, float(height) if height and k % 3 else height or None, town or None])
        if k % 50 == 0:
            sheet.append([None, None, None])  # a row without cells
    book.save("x.xlsx")
    assert counts("x.xlsx?sheet=people 2") == counts("x.xlsx", {"sheet": "people 2"}) == expected
    with pytest.raises(LeastnoiseError, match=r"^the workbook has no sheet 'x' among its 2; check the name$"):
        counts("x.xlsx?sheet=x")
    with pytest.raises(LeastnoiseError, match=r"^the column 'age' is missing"):
        counts("x.xlsx")
    sheet.insert_rows(1, 2)
    sheet["A1"] = "People of 2024"
    book.save("titled.xlsx")
    assert counts("titled.xlsx?sheet=people 2&skip=2") == expected


def test_titles_and_archives_that_cannot_be_read_are_refused():
    book = openpyxl.Workbook()
    for row in (["People of 2024"], ["age", "größe", "town"], [18, 0.5, "Zürich"]):
        book.active.append(row)
    book.save("x.xlsx")
    line = r"^line 2 has cells beyond the names; if these are the names, settled by file: {skip: 1} in a spec, or FILE"
    assert re.search(line, broken_rows(find_files("x.xlsx"))[0])
    assert counts("x.xlsx?skip=1")[2] == [1, 0, 0, 0]
    Path("two.zip").write_bytes(zipped({"a.csv": b"age\n", "b.csv": b"age\n"}))
    with pytest.raises(DataError, match=r"^the archive 'two.zip' has 2 files, or a password; pack one file of text"):
        find_files("two.zip")
    Path("odd.zip").write_bytes(b"no archive")
    with pytest.raises(DataError, match=r"^the file 'odd.zip' cannot be read as a zip archive; it may be damaged"):
        find_files("odd.zip")
    with pytest.raises(LeastnoiseError, match=r"^skip is 'x'; give the number of lines above the names"):
        find_files("odd.zip?skip=x")
    Path("both").mkdir()
    Path("both/a.csv").write_text("age\n18\n")
    Path("both/a.zip").write_bytes(zipped({"a.csv": b"age\n18\n"}))
    with pytest.raises(LeastnoiseError, match=r"^'both' means the file 'both/a.zip' twice: packed and unpacked"):
        find_files("both")
    assert str(find_files("x.xlsx")) == "read as Excel, sheet 'Sheet', decimal sign '.'"


def test_workbooks_need_an_extra(monkeypatch):
    Path("x.xlsx").write_bytes(b"PK")
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    with pytest.raises(
        LeastnoiseError, match=r"^workbooks need openpyxl; install it with: pip install 'leastnoise\[excel\]'$"
    ):
        counts("x.xlsx")


def test_cells_are_texts_as_csv_has_them():
    import datetime

    book = openpyxl.Workbook()
    book.active.append(["day", "ok", "n"])
    book.active.append([datetime.date(2024, 1, 31), True, 3.0])
    book.active.append([datetime.datetime(2024, 1, 31, 9, 30), False, 0.5])
    book.active.append([datetime.date(2024, 1, 31), None, "0,5"])
    book.save("x.xlsx")
    domain = Domain.of(day=["2024-01-31", "2024-01-31 09:30:00"], ok=["false", "true"], n=[3, 0.5])
    result = counts("x.xlsx", {"decimal": ","}, domain, {"ok": Rules(missing="true")})
    assert result[:3] == [[2, 1], [1, 2], [1, 2]]


@pytest.mark.parametrize("kind", ["packed", "symlink", "hard link"])
@pytest.mark.parametrize("place", ["parts", "parts/*"])
def test_no_file_is_read_twice(kind, place, rng, folder):
    content = text(rows(rng)).encode()
    Path("parts").mkdir()
    Path("parts/a.csv").write_bytes(content)
    if kind == "packed":
        Path("parts/a.csv.gz").write_bytes(gzip.compress(content))
    elif kind == "symlink":
        Path("parts/b.csv").symlink_to("a.csv")
    else:
        Path("parts/b.csv").hardlink_to("parts/a.csv")
    second = "a.csv.gz" if kind == "packed" else "b.csv"
    message = f"{place!r} means the file 'parts/{second}' twice: packed and unpacked, or a link; remove one"
    with pytest.raises(LeastnoiseError, match=f"^{re.escape(message)}$"):
        counts(place)


def test_names_of_folders_are_no_columns(folder):
    """DuckDB would take f0=y for a value of the first column in all rows."""
    Path("f0=y").mkdir()
    Path("f0=y/a.csv").write_text("a,b\nx,1\n")
    for place in ("f0=y/a.csv", "f0=y"):
        assert next(source_of(place, Domain.of(a=["x", "y"])).count([(0,)])).tolist() == [1, 0]


def test_folders_and_patterns(rng, folder):
    lines = rows(rng)
    Path("plain.csv").write_text(text(lines), encoding="utf-8", newline="")
    expected = counts("plain.csv")
    Path("parts").mkdir()
    Path("parts/_SUCCESS").write_bytes(b"")
    Path("parts/.part.csv.crc").write_bytes(b"x")
    Path("parts/a.csv").write_bytes(text(lines[:100]).encode())
    Path("parts/b.csv.gz").write_bytes(gzip.compress(text(lines[100:150]).encode("utf-16")))
    Path("parts/c.txt").write_bytes(mixed(lines[150:]))
    assert counts("parts") == counts("parts/") == counts("parts/[abc].*") == expected
    assert str(find_files("parts")) == (
        "read as 3 files of text, delimiter comma, encoding utf-8, utf-16-le, decimal sign '.'"
    )
    Path("parts/d.parquet").write_bytes(b"PAR1")
    with pytest.raises(
        LeastnoiseError, match=r"^'parts' means files of several kinds; use a pattern such as 'parts/\*.csv'$"
    ):
        counts("parts")
    Path("none").mkdir()
    with pytest.raises(LeastnoiseError, match=r"^the folder 'none' has no files that end in .csv, .tsv"):
        counts("none")


def test_parquet_in_parts():
    Path("parts").mkdir()
    domain = Domain.of(age=range(18, 22), sex=["F", "M"])
    parquet.write_table(pa.table({"age": pa.array([18, 19], pa.int8()), "sex": ["F", "M"]}), "parts/a.parquet")
    parquet.write_table(pa.table({"sex": pa.nulls(1), "age": pa.array([300], pa.int64())}), "parts/b.parquet")
    rules = {"sex": Rules(missing="F"), "age": Rules(outside="clamp")}
    source = source_of("parts", domain, rules=rules)
    assert [t.tolist() for t in source.count([(0,), (1,)])] == [[1, 1, 0, 1], [2, 1]]
    parquet.write_table(
        pa.table({"age": [18.5], "sex": ["F"]}), "parts/c.parquet"
    )  # which may not become a whole number
    with pytest.raises(
        DataError, match=r"^the files 'parts' differ in the type of the column 'age'; cast it to one type$"
    ):
        source_of("parts", domain)
    parquet.write_table(pa.table({"age": [18]}), "parts/c.parquet")
    with pytest.raises(DataError, match=r"^the files 'parts' differ in their columns; give them the same$"):
        source_of("parts", domain)


@pytest.mark.long
def test_columns_of_the_same_name_are_found_by_position():
    Path("x.csv").write_text(",age,Age,age,age_2\n5,18,19,20,21\n")
    found = find_files("x.csv")
    assert found.names == ("column_1", "age", "Age", "age_3", "age_2")
    assert found.to_json()["columns_named_by_position"] == [1, 4]
    domain = Domain.of({name: range(5, 22) for name in found.names})
    values = [next(source_of("x.csv", domain).count([(k,)])).tolist().index(1) + 5 for k in range(5)]
    assert values == [5, 18, 19, 20, 21]


def test_white_space_and_no_names():
    """The purchases of CDNOW: four columns, as wide as they need."""
    Path("x.txt").write_bytes(
        b" 00001 19970101  1   11.77\r\n 00002 19970112\t1   12.00  \r\n\r\n 00002 19970112  5   77.00"
    )
    domain = Domain.of(user=["00001", "00002"], quantity=range(10), amount=bins(0, 100, width=10))
    data = "x.txt?delimiter=whitespace&names=user,date,quantity,amount"
    result = [table.tolist() for table in source_of(data, domain).count([(0,), (1,), (2,)])]
    assert result == [[1, 2], [0, 2, 0, 0, 0, 1, 0, 0, 0, 0], [0, 2, 0, 0, 0, 0, 0, 1, 0, 0]]


def test_a_point_is_no_decimal_sign_where_a_comma_is():
    Path("x.csv").write_text("x;y\n1,5;1,5\n1.5;1.5\n2;2\n")
    domain = Domain.of(x=bins(0, 4, count=4), y=["1.5", 1.5, 2, "other"])
    rules = {"x": Rules(outside="drop"), "y": Rules(outside="other")}
    source = source_of("x.csv", domain, rules=rules, file={"decimal": ","})
    assert next(source.count([(0,)])).tolist() == [0, 1, 1, 0]
    everything = source_of("x.csv", domain.project("y"), rules={"y": Rules(outside="other")}, file={"decimal": ","})
    assert next(everything.count([(0,)])).tolist() == [1, 1, 1, 0]  # the text '1.5', the number 1,5 and 2


@pytest.mark.long
@for_every(block=[1, 2, 3, 7, 64])
def test_blocks_change_nothing(block, rng, monkeypatch):
    """Line ends, marks and letters of several bytes are cut wherever a block ends."""
    lines = rows(rng, 30)
    Path("plain.csv").write_text(text(lines), encoding="utf-8", newline="")
    Path("x.csv").write_bytes(mixed(lines))
    Path("y.csv").write_bytes(mixed(lines).decode().encode("utf-16"))
    expected = counts("plain.csv")
    monkeypatch.setattr(text_files_module, "_BLOCK", block)
    assert counts("x.csv") == counts("y.csv") == expected


# --- what is found, and what is not looked at -------------------------------------------------------------------------


@for_every(row=["18;0,5;x", "Zürich", "a\tb\tc\td\te\tf", "|" * 40, '"', "\0"])
def test_what_is_found_does_not_depend_on_rows(row):
    """Not even where the rows are in another encoding, or full of other delimiters."""
    Path("x.csv").write_bytes(b"age,town\n" + f"{row}\n".encode("windows-1252") * 100)
    assert find_files("x.csv") == find_files("x.csv")
    found = find_files("x.csv")
    assert (found.encodings, found.format.delimiter, found.names) == (("utf-8",), ",", ("age", "town"))


def test_formats_are_stated():
    Path("x.csv").write_bytes("größe;age;age\n1;2;3\n".encode("windows-1252"))
    found = find_files("x.csv?decimal=,")
    assert found.to_json() == {
        "kind": "text", "files": 1, "delimiter": "semicolon", "encoding": "windows-1252", "decimal": ",",
        "columns_named_by_position": [3],
    }  # fmt: skip
    assert str(found) == (
        "read as text, delimiter semicolon, encoding windows-1252, decimal sign ',', "
        "named by position because the name is empty or taken: column 3"
    )
    assert not found.plain
    Path("x.csv").write_bytes(b"a,b\n1,2\n")
    assert find_files("x.csv").plain


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"delimiter": "x"}, "delimiter 'x' is not known; use comma, semicolon, tab, pipe, whitespace"),
        ({"encoding": "klingon"}, "encoding 'klingon' is not known; use one of utf-8, utf-16"),
        ({"encoding": "punycode"}, "encoding 'punycode' is not known"),
        ({"decimal": ";"}, "decimal ';' is no decimal sign; use '.' or ','"),
        ({"names": []}, "names of columns are a list of texts, none of them empty; write names: [age, sex]"),
        ({"names": ["a", "a"]}, "two of the names of columns are the same; give every column another name"),
        ({"sep": ";"}, "the fields of the file are FileFormat(...) or a mapping with some of delimiter, encoding"),
    ],
)
def test_formats_that_make_no_sense(fields, message):
    Path("x.csv").write_text("age;sex\n")
    with pytest.raises(LeastnoiseError, match=f"^{re.escape(message)}"):
        find_files("x.csv", fields)


def test_options_after_the_path():
    Path("x.csv").write_text("age,sex\n")
    with pytest.raises(
        LeastnoiseError,
        match=r"^unknown option 'sep' of a file; use delimiter, encoding, decimal, thousands, sheet, names, skip$",
    ):
        find_files("x.csv?sep=;")
    Path("what?a=b.csv").write_text("age,sex\n")
    assert find_files("what?a=b.csv").names == ("age", "sex")
    assert find_files("x.csv?delimiter=tab", FileFormat(delimiter=";", decimal=",")).format == FileFormat(
        "\t", None, ","
    )


# --- broken rows ------------------------------------------------------------------------------------------------------

BROKEN = {
    "too few": ("utf-8", "18,F\n19\n", [(3, "has 1 field, the file has 2 columns")]),
    "too many": ("utf-8", "18,F\n19,M,zq7secret\n,,\n", [(3, "has 3 fields, the file has 2 columns")]),
    "quoted lines before": ("utf-8", '18,"F\n\n\nx"\n19\n', [(6, "has 1 field, the file has 2 columns")]),
    "returns": ("utf-8", "18,F\r\n\r\n19\r\n", [(4, "has 1 field, the file has 2 columns")]),
    "utf-16": ("utf-16", "18,F\n19\n", [(3, "has 1 field, the file has 2 columns")]),
    "quote": (
        "utf-8",
        '18,F\n19,"zq7secret\n20,M\n',
        [(3, "has a quote that is not closed, or text after a closing quote; lines below it were not looked at")],
    ),
    "after a quote": (
        "utf-8",
        '18,"F"zq7secret\n20,M\n',
        [(2, "has a quote that is not closed, or text after a closing quote; lines below it were not looked at")],
    ),
    "bytes": (
        "windows-1252",
        "18,F\n19,é\n",
        [(3, "has bytes that are not UTF-8; settled by file: {encoding: windows-1252}")],
    ),
    "several": (
        "utf-8",
        "18\n" * 12,
        [*((k, "has 1 field, the file has 2 columns") for k in range(2, 12)), (None, "and 2 more such lines")],
    ),
}


@pytest.mark.long
@for_every(name=BROKEN)
def test_broken_rows_are_named_by_line_and_nothing_else(name):
    encoding, content, expected = BROKEN[name]
    Path("x.csv").write_bytes(f"age,sex\n{content}".encode(encoding))
    problems = [text if line is None else f"line {line} {text}" for line, text in expected]
    assert broken_rows(find_files("x.csv")) == problems
    domain = Domain.of(age=range(18, 21), sex=["F", "M"])
    result = check("x.csv", domain)
    assert (result.ok, result.problems) == (False, problems)
    assert "zq7secret" not in str(result) + json.dumps(result.to_json())
    with pytest.raises(DataError, match=r"tells the lines$") as caught:
        next(source_of("x.csv", domain).count([()]))
    assert not re.search(r"\d", str(caught.value).replace("UTF-8", "").replace("UTF-16", ""))  # not where, nor how many


def test_check_proposes_what_settles_a_file():
    Path("x.csv").write_bytes(b"age;x\n18;0,5\n19;1,25\n20;7\n")
    domain = Domain.of(age=range(18, 21), x=bins(0, 10, count=10))
    result = check("x.csv", domain)
    assert result.columns["x"].fixes == ["outside: drop", 'file: {decimal: ","}']
    assert check("x.csv", domain, file={"decimal": ","}).ok
    assert check("x.csv", domain).file["delimiter"] == "semicolon"
    Path("x.csv").write_bytes(b"age;x\n18;0,5\n19;1,25\n20;high\n")
    assert check("x.csv", domain).columns["x"].fixes == ["outside: drop"]


@pytest.mark.long
def test_large_files_are_read_in_blocks(rng):
    """More than one block of ours, and more than one buffer of DuckDB's."""
    n = 300_000
    values = rng.integers(0, 50, n)
    content = "x;y\r\n" + "".join(f'{v};"é {v}"\r\n' for v in values)
    Path("x.csv").write_bytes(content.encode("utf-16"))
    domain = Domain.of(x=range(50), y=[f"é {v}" for v in range(50)])
    result = [table.tolist() for table in source_of("x.csv", domain).count([(0,), (1,)])]
    assert result == [np.bincount(values, minlength=50).tolist()] * 2
