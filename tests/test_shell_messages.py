"""Refusals of commands on the way from a file to a page; that their advice works is tried by following it."""

from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd
import pytest
from openpyxl.chart import BarChart

import leastnoise as ln
from leastnoise.release import frames
from leastnoise.release.postprocessing import nonnegative
from tests.shell import SMALL, call, fail, people

MARGINALS = "{queries: marginal, ways: 1}"
TWO_KEYS = """\
attributes:
  page: {discover: {at_least: 60}}
  town: {discover: {at_least: 60}}
workload: [{queries: marginal, ways: 1}]
unit: {id: who, max_rows: 1}
privacy: {epsilon: 8, delta: 1e-6}
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(SMALL)
    people().to_csv("people.csv", index=False)


def spec(attributes: str, more: str = "", workload: str = MARGINALS, privacy: str = "epsilon: 1, delta: 1e-9") -> str:
    """Write a spec; returns its name."""
    Path("s.yaml").write_text(f"attributes: {{{attributes}}}\nworkload: [{workload}]\nprivacy: {{{privacy}}}\n{more}\n")
    return "s.yaml"


def works(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    code, out, err = call(capsys, *arguments)
    assert code == 0, err
    return out


def last_line(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The refusal of a command that says something else before, such as that there is no ledger."""
    code, _, err = call(capsys, *arguments)
    assert code in (2, 3), err
    return err.splitlines()[-1].removeprefix("leastnoise: ")


PAIR = "a: {size: 3}, b: {size: 3}"
MANY = ", ".join(f"a{k}: {{size: 2}}" for k in range(200))
# Parts of a spec: what is refused, what the refusal advises, and its words.
SPECS = {
    "turned bins": (
        {"attributes": "a: {bins: {low: 9, high: 0, count: 3}}"},
        {"attributes": "a: {bins: {low: 0, high: 9, count: 3}}"},
        "attribute 'a': bins from 9 to 0 are empty; put the smaller end first",
    ),
    "infinite edge": (
        {"attributes": "a: {bins: {edges: [0, .inf]}}"},
        {"attributes": "a: {bins: {edges: [0, 18, 65, 120]}}"},
        "the edge inf is no finite number; write edges such as [0, 18, 65, 120]",
    ),
    "infinite amount": (
        {"attributes": "a: {amount: {low: 0, high: .inf}}", "workload": "{queries: sum, of: a}"},
        {"attributes": "a: {amount: {low: 0, high: 100}}", "workload": "{queries: sum, of: a}"},
        "an amount needs a finite number as its high, got inf; use one such as 100",
    ),
    "one node": (
        {"attributes": "a: {hierarchy: one.csv, missing: unknown}"},
        {"attributes": "a: {hierarchy: three.csv, missing: unknown}"},
        "a hierarchy of one node has no room for unknown values; give it leaves",
    ),
    "large pairs": (
        {"attributes": "a: {size: 5000}, b: {size: 5000}", "more": "allowed: {of: [a, b], rows: [[1, 1]]}"},
        {"attributes": PAIR, "more": "allowed: {of: [a, b], rows: [[1, 1]]}"},
        "allowed of a, b has 25,000,000 cells; use at most 16,777,216",
    ),
    "no pairs": (
        {"attributes": PAIR, "more": "allowed: {of: [a, b]}"},
        {"attributes": PAIR, "more": "allowed: {of: [a, b], file: pairs.csv}"},
        "needs 'file' or 'rows', one of them; write for example allowed: {of: [district, area], file: pairs.csv}",
    ),
    "short pair": (
        {"attributes": PAIR, "more": "allowed: {of: [a, b], rows: [[1]]}"},
        {"attributes": PAIR, "more": "allowed: {of: [a, b], rows: [[1, 2]]}"},
        "allowed of a, b lists '[1]'; give 2 values",
    ),
    "random": (
        {"attributes": "a: {size: 3}", "workload": "{queries: {random: {count: 100000000}}, ways: 1}"},
        {"attributes": "a: {size: 3}", "workload": "{queries: {random: {count: 10}}, ways: 1}"},
        "random count 100,000,000 is above 10,000,000; use fewer queries",
    ),
    "tables": (
        {"attributes": MANY, "workload": "{queries: marginal, ways: 16}"},
        {"attributes": MANY, "workload": "{queries: marginal, ways: 1}"},
        "16-way marginal on 200 attributes are about 10^23 tables; use fewer ways",
    ),
    "objective": (
        {"attributes": "a: {range: [1, 5]}", "more": "method: matrix\nobjective: {lr: 4}"},
        {"attributes": "a: {range: [1, 5]}", "more": "method: matrix\nobjective: max"},
        "objective {lr: 4} is for plans; a matrix has 'sum' or 'max'",
    ),
    "names of a matrix": (
        {"attributes": "a: {size: 2}", "workload": "{queries: {matrix: nested.npz}}", "more": "method: matrix"},
        {"attributes": "a: {size: 2}", "workload": "{queries: {matrix: flat.npz}}", "more": "method: matrix"},
        "items and names are lists; save each as an array of one dimension",
    ),
    "keys": (
        {
            "attributes": "page: {discover: {at_least: 1000000000000000}}",
            "more": "unit: {id: who, max_rows: 1}",
            "privacy": "mu: 1e-15",
        },
        {
            "attributes": "page: {discover: {at_least: 1000000000000000}}",
            "more": "unit: {id: who, max_rows: 1}",
            "privacy": "mu: 1e-3",
        },
        "1 key per person it takes 14,224,390,685,825,484; use a larger budget",
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("case", SPECS)
def test_specs(case, capsys):
    Path("one.csv").write_text("node,parent\nall,\n")
    Path("three.csv").write_text("node,parent\nall,\nx,all\ny,all\n")
    Path("pairs.csv").write_text("a,b\n1,1\n1,2\n")
    np.savez("nested.npz", W=np.eye(2), items=np.array([[0, 1]]))
    np.savez("flat.npz", W=np.eye(2), items=np.array([0, 1]))
    wrong, right, words = SPECS[case]
    assert words in fail(capsys, "plan", spec(**wrong))
    works(capsys, "plan", spec(**right))


HEAD = "%%MatrixMarket matrix coordinate real general\n"
MATRICES = {
    HEAD + "2 2 2\n1 1 1\n": "it has 1 entries and says 2",
    HEAD + "2 2 1\n3 1 1\n": "entry 1 is outside the matrix",
    HEAD + "2 2 1\nx 1 1\n": "'x' is no place in a matrix",
    HEAD + "2 2 1\n1 1\n": "a line of it does not have 3 entries",
    "%%MatrixMarket matrix array real general\n2 2\n1\n": "it has 1 entries and needs 4",
}


@pytest.mark.parametrize("text", MATRICES, ids=MATRICES.values())
def test_matrix_files(text, capsys):
    Path("W.mtx").write_text(text)
    line = fail(capsys, "plan", spec("a: {size: 2}", "method: matrix", "{queries: {matrix: W.mtx}}"))
    assert line == f"s.yaml line 2: 'W.mtx' does not hold a matrix of numbers ({MATRICES[text]})"


def test_specs_that_are_too_long(capsys):
    Path("long.yaml").write_text("#" * 1_000_001)
    line = "long.yaml has more than 1,000,000 characters; put long lists into files and name these"
    assert fail(capsys, "plan", "long.yaml") == line
    Path("codes.csv").write_text("code,label\n" + "".join(f"{k},place {k}\n" for k in range(3)))
    works(capsys, "plan", spec("a: {labels: codes.csv}"))


def test_plans_with_side_counts_are_not_saved(capsys):
    name = spec("a: {size: 5, missing: drop}", "quality: 0.02")
    line = fail(capsys, "plan", name, "--out", "plan.json")
    assert line == "--out saves a plan alone; leave 'quality' and 'people' out of the spec, or --out"
    works(capsys, "plan", name)
    works(capsys, "plan", spec("a: {size: 5, missing: drop}"), "--out", "plan.json")


@pytest.mark.long
def test_unknown_keys(capsys):
    Path("keys.yaml").write_text(TWO_KEYS)
    pd.DataFrame({"page": "a", "town": "b", "who": range(900)}).to_csv("x.csv", index=False)
    find = ("discover", "keys.yaml", "--data", "x.csv")
    assert fail(capsys, *find, "--out", "k") == "keys of page, town are unknown; choose one with --attribute"
    for attribute, out in (("page", "one"), ("page", "two"), ("town", "three")):
        works(capsys, *find, "--out", out, "--attribute", attribute)
    line = fail(capsys, "plan", "keys.yaml", "--keys", "one", "--keys", "two", "--keys", "three")
    assert line == "two folders have keys of 'page'; give one of them to --keys"
    works(capsys, "plan", "keys.yaml", "--keys", "one", "--keys", "three")
    Path("keys.yaml").write_text(TWO_KEYS.replace("at_least: 60", "at_least: 60, delta: 6e-7"))
    line = fail(capsys, *find, "--out", "k", "--attribute", "page")
    assert line.endswith("the deltas of discover add up to 1e-06 or more, that of the whole; use smaller ones")
    Path("keys.yaml").write_text(TWO_KEYS.replace("at_least: 60", "at_least: 60, delta: 2e-7"))
    works(capsys, *find, "--out", "k", "--attribute", "page")


def test_the_delta_of_keys_in_a_ledger(capsys):
    make = ("ledger", "init", "x.ledger", "--dataset", "x", "--epsilon", "1", "--delta", "1e-9", "--keys-delta")
    assert fail(capsys, *make, "1e-8") == "--keys-delta must be above 0 and below delta 1e-09, got 1e-08"
    works(capsys, *make, "1e-10")


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [["check", "s.yaml", "--data", "signs"], ["init", "signs"]])
def test_files_with_different_delimiters(command, capsys):
    spec("place: {size: 3}")
    Path("signs").mkdir()
    Path("signs/a.csv").write_text("place;sex\n1;F\n")
    Path("signs/b.csv").write_text("place,sex\n1,F\n")
    line = "the files 'signs' differ in their delimiters; give them the same"
    assert fail(capsys, *command, code=3) == line
    Path("signs/b.csv").write_text("place;sex\n1;F\n")
    works(capsys, *command)


@pytest.mark.long
def test_workbooks_of_charts_alone(capsys):
    book = openpyxl.Workbook()
    book.create_chartsheet("only").add_chart(BarChart())
    book.remove(book.worksheets[0])
    book.save("charts.xlsx")
    line = "the workbook has no sheet of cells; save the rows as a sheet, or as CSV"
    assert fail(capsys, "init", "charts.xlsx", code=3) == line
    book.create_sheet("rows").append(["place"])
    book.save("charts.xlsx")
    works(capsys, "init", "charts.xlsx")
    assert "DATA?sheet=NAME looks at another sheet" in works(capsys, "init", "charts.xlsx?sheet=rows")


@pytest.mark.long
def test_too_many_impossible_cells_for_a_query(capsys):
    pairs = [(i, j) for i in range(72) for j in range(72) if (i + j) % 2]
    pd.DataFrame(pairs, columns=["a", "b"]).to_csv("pairs.csv", index=False)
    pd.DataFrame({"a": [1, 2], "b": [2, 3]}).to_csv("ab.csv", index=False)
    name = spec("a: {size: 72}, b: {size: 72}", "allowed: {of: [a, b], file: pairs.csv}")
    words = "the impossible cells have more than 5,000 edges, too many for a query; use clauses on fewer values"
    assert fail(capsys, "check", name, "--data", "ab.csv") == words
    domain = ln.Domain.of(a=72, b=72).restricted(allowed=[{"of": ["a", "b"], "rows": pairs}])
    plan = ln.plan(ln.Workload(domain).marginals(ways=1), ln.Budget(mu=1))
    with pytest.raises(ln.LeastnoiseError, match=r"\(in Python: or give the rows as a data frame\)"):
        plan.run("ab.csv")
    plan.run(pd.read_csv("ab.csv"))


# --- releases ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def out(capsys) -> str:
    works(capsys, "release", "small.yaml", "--data", "people.csv", "--out", "out")
    return "out"


@pytest.mark.long
@pytest.mark.parametrize(
    ("wrong", "right", "line"),
    [
        (
            ["ask", "out", "count()", "--by", "sex,sex"],
            ["ask", "out", "count()", "--by", "sex"],
            "groups by 'sex' name its attribute twice; name each once",
        ),
        (
            ["sql", "out", "select place.town, sum(count) from release group by 1"],
            ["sql", "out", "select sex, sum(count) from release group by 1"],
            "there is no place.town here; attributes are age, sex",
        ),
        (
            ["table", "out", "age", "--queries"],
            ["table", "out", "--queries"],
            "--queries shows all queries; leave the rest out",
        ),
        (
            ["table", "out", "--people", "--complete"],
            ["table", "out", "age", "--complete"],
            "--people shows what was counted; leave --level and --complete out",
        ),
    ],
)
def test_releases(wrong, right, line, out, capsys):
    assert fail(capsys, *wrong) == line
    works(capsys, *right)


@pytest.mark.long
def test_tables_that_are_too_large_to_adjust(out, capsys, monkeypatch):
    monkeypatch.setattr(nonnegative, "MAX_CELLS", 9)
    line = fail(capsys, "adjust", out, "--out", "print")
    assert line.endswith("more than the 9 that can be made non-negative at once; choose some with --table")
    works(capsys, "adjust", out, "--out", "print", "--table", "sex")


@pytest.mark.long
def test_too_many_queries_to_list(out, capsys, monkeypatch):
    monkeypatch.setattr(frames, "MOST_ANSWERS", 9)
    line = fail(capsys, "table", out, "--queries")
    assert line.endswith("of which at most 9 are listed at once; use leastnoise ask for those of interest")
    works(capsys, "ask", out, "age <= 2 and sex = 'F'")


@pytest.mark.long
def test_bounds_of_too_many_queries(capsys):
    ages = "a: {range: [0, 399]}, b: {range: [0, 399]}"
    line = fail(capsys, "bounds", spec(ages, workload="{queries: prefix, ways: [1, 2]}"))
    assert line.startswith("160,800 queries on 160,000 cells are too many for bounds; use at most 2,048 cells and")
    assert line.endswith("16,777,216 entries, or one product of queries")
    works(capsys, "bounds", spec("a: {range: [0, 4]}, b: {size: 2}", workload="{queries: marginal, ways: 2}"))


def test_a_table_of_a_file_is_refused(capsys):
    """It was left unread, as if another sheet had been counted."""
    line = (
        "--table visits names a table of a database, but the data is a file; leave it out (a sheet of a workbook is "
        "named behind the path, as in FILE.xlsx?sheet=NAME)"
    )
    assert fail(capsys, "init", "people.csv", "--table", "visits") == line
    assert fail(capsys, "check", "small.yaml", "--data", "people.csv", "--table", "visits") == line
    assert last_line(capsys, "release", "small.yaml", "--data", "people.csv", "--table", "visits", "--out", "o") == line
    assert "300 rows, 300 counted" in works(capsys, "check", "small.yaml", "--data", "people.csv")


def test_a_table_is_named_with_commas_as_in_other_commands(out, capsys):
    assert works(capsys, "table", out, "age,sex") == works(capsys, "table", out, "age", "sex")


NUMBERS = {
    "--suppress-below": ("-1", "--suppress-below is -1.0; use a number from 1e-06 on"),
    "--suppress-cv": ("0", "--suppress-cv is 0.0; use a number from 1e-06 on"),
    "--base": ("0", "--base is 0; use a whole number from 1 on"),
}


@pytest.mark.parametrize(("option", "given"), NUMBERS.items(), ids=NUMBERS)
def test_numbers_of_adjusted_tables_are_named_as_options(out, capsys, option, given):
    number, line = given
    assert fail(capsys, "adjust", out, option, number, "--out", "print") == line


def test_one_row_is_no_rows(capsys):
    people().head(1).to_csv("one.csv", index=False)
    assert "1 row, 1 counted" in works(capsys, "check", "small.yaml", "--data", "one.csv")


CALLS = {
    "no number": (("plan", "small.yaml", "--mu", "abc"), "invalid value for '--mu': 'abc' is no number"),
    "no whole number": (("synth", "o", "--rows", "1.5"), "invalid value for '--rows': '1.5' is no whole number"),
    "no question": (("ask", "o"), "missing argument 'QUESTION...'"),
    "no option": (("plan", "small.yaml", "--epsilin", "1"), "no such option: --epsilin"),
    "no command": (("plann", "small.yaml"), "no such command 'plann'"),
    "no choice": (
        ("export", "out", "--out", "tables", "--format", "sdmx"),
        "invalid value for '--format': 'sdmx' is not one of 'parquet', 'csv', 'excel', 'sdmx-csv', 'csvw', 'json-stat'",
    ),
}


@pytest.mark.parametrize(("arguments", "words"), CALLS.values(), ids=CALLS)
def test_wrong_calls_are_told_in_one_line_with_the_help_that_says_more(arguments, words, capsys):
    line = fail(capsys, *arguments)
    assert line.startswith(words)
    command = "" if arguments[0] == "plann" else f" {arguments[0]}"
    assert line.endswith(f" see leastnoise{command} --help")
