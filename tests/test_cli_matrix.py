"""Specs with `method: matrix` and `method: stream`, and `ask`, `table`, `show` and `report` on what they make."""

import io
import json
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.io import mmwrite

import leastnoise as ln
from leastnoise.errors import LeastnoiseError
from leastnoise.noise import SeededRandomSource
from leastnoise.release.statement import INSECURE
from leastnoise.workload.matrix_file import read_matrix
from leastnoise.workload.spec import parse_spec
from tests.shell import call, fail

PAGES = ["home", "shop", "help", "blog"]
W = np.array([[1, 1, 1, 1], [0, 1, 0, 0], [0, 0, 1, 1]])
NAMES = ["all", "sales", "info"]
COUNTS = [220, 81, 77, 120]
QUERIES = "query,home,shop,help,blog\nall,1,1,1,1\nsales,0,1,0,0\ninfo,0,0,1,1\n"
VALUES = f"values: [{', '.join(PAGES)}]"
SHARP = "mu: 1024"  # noise that rounds to nothing, so that releases show the truth


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "W.csv").write_text(QUERIES)
    visits().to_csv("visits.csv", index=False)
    return tmp_path


def visits():
    return pd.DataFrame({"page": np.repeat(PAGES, COUNTS), "visitor": np.arange(sum(COUNTS)) % 100})


def spec(queries="{matrix: W.csv}", page=VALUES, privacy=SHARP, more="method: matrix"):
    """Write a spec; returns its name."""
    head = f"attributes: {{page: {{{page}}}}}\nworkload: [{{queries: {queries}}}]\n"
    Path("spec.yaml").write_text(f"{head}privacy: {{{privacy}}}\n{more}\n")
    return "spec.yaml"


def made(capsys, *more, data="visits.csv", **parts):
    code, out, err = call(capsys, "release", spec(**parts), "--data", data, "--out", "out", *more)
    assert code == 0, err
    return out, err


# --- files ------------------------------------------------------------------------------------------------------------


def saved(kind):
    match kind:
        case "csv with names":
            return "W.csv"
        case "plain csv":
            np.savetxt("plain.csv", W, delimiter=",", fmt="%d")
            return "plain.csv"
        case "npy":
            np.save("W.npy", W)
            return "W.npy"
        case "npz":
            np.savez("W.npz", W=W, items=np.array(PAGES), names=np.array(NAMES))
            return "W.npz"
        case "sparse":
            sparse.save_npz("S.npz", sparse.csr_array(W))
            return "S.npz"
        case "mtx":
            mmwrite("W.mtx", sparse.coo_array(W))
            return "W.mtx"


@pytest.mark.parametrize("kind", ["csv with names", "plain csv", "npy", "npz", "sparse", "mtx"])
def test_files_and_arrays_are_planned_alike(kind, capsys):
    matrix = read_matrix(saved(kind))
    assert (np.asarray(matrix.queries) == W).all()
    named = kind in ("csv with names", "npz")
    assert (matrix.items, matrix.names) == ((PAGES, NAMES) if named else (None, None))
    code, out, _ = call(capsys, "plan", spec(f"{{matrix: {saved(kind)}}}", privacy="epsilon: 1, delta: 1e-9"))
    assert code == 0
    assert out == f"{ln.matrix_plan(W, ln.Budget(epsilon=1, delta=1e-9))}\n"


@pytest.mark.parametrize(
    ("text", "items", "names"),
    [
        (",2019,2020\na,1,0\nb,1,1\n", [2019, 2020], ["a", "b"]),
        ("x,y\n1,0\n1,1\n", ["x", "y"], None),
        ("a,1,0\nb,1,1\n", None, ["a", "b"]),
        ("1,0\n\n1,1\n", None, None),
        ("query,x,y\n1,1,0\n2,1,1\n", ["x", "y"], ["1", "2"]),
    ],
)
def test_names_in_text_files_are_found(text, items, names, folder):
    (folder / "a.csv").write_text(text)
    matrix = read_matrix("a.csv")
    assert matrix.queries.tolist() == [[1, 0], [1, 1]]
    assert (matrix.items, matrix.names) == (items, names)


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("a.csv", b"", "'a.csv' is empty; write a line for each query"),
        ("a.csv", b"1,2\n3\n", "the lines of 'a.csv' have different lengths; give each query an entry per item"),
        ("a.csv", b"1,2\n3,x\n", "'a.csv' has 'x' where a number belongs"),
        ("a.csv", b"a,b\n", "'a.csv' has names but no queries; write a line for each query"),
        ("a.npy", b"", "'a.npy' does not hold a matrix of numbers (an array of it holds neither numbers nor text)"),
        ("a.npz", b"x", "'a.npz' does not hold a matrix of numbers"),
        ("a.mtx", b"x", "'a.mtx' does not hold a matrix of numbers"),
        ("a.txt", b"1", "cannot read a matrix from 'a.txt'; use a file that ends in .csv, .npy, .npz, .mtx"),
        ("b.csv", None, "cannot read the matrix 'b.csv': No such file or directory"),
    ],
)
def test_bad_files_are_told(name, content, text, capsys, folder):
    if content is not None:
        (folder / name).write_bytes(content)
    message = fail(capsys, "plan", spec(f"{{matrix: {name}}}"))
    assert message.startswith(f"spec.yaml line 2: {text}")


def test_archives_need_one_matrix(capsys):
    np.savez("two.npz", a=W, b=W)
    assert fail(capsys, "plan", spec("{matrix: two.npz}")) == (
        "spec.yaml line 2: 'two.npz' has 2 matrices; save one, and perhaps items and names"
    )


def test_columns_must_be_the_values(capsys):
    turned = f"values: [{', '.join(reversed(PAGES))}]"
    assert fail(capsys, "plan", spec(page=turned)) == (
        "spec.yaml line 2: the columns of 'W.csv' are not the values of 'page' in their order; write them alike, or "
        "leave the first line out"
    )


def test_names_and_items_are_checked():
    for options, message in [
        ({"names": ["a"]}, "there are 1 names for 3 queries; give one for each"),
        ({"names": ["a", "b", "a"]}, "two queries are named 'a'; names must differ"),
        ({"names": ["a", "b", ""]}, "'' cannot name a query; give a line of at most 200 characters"),
        ({"names": "abc"}, "names are a list with a text for each query"),
        ({"items": ["x"]}, "'item' has 1 values but the queries have 4 items; give one value per item"),
        ({"items": {"a": 4, "b": 4}}, 'items are the values of one column; write {"page": ["home", "shop"]}'),
    ]:
        with pytest.raises(LeastnoiseError) as error:
            ln.matrix_plan(W, ln.Budget(mu=1), **options)
        assert str(error.value) == message
    with pytest.raises(LeastnoiseError, match=r"^a 10,000 x 2,000 matrix is too large"):
        ln.matrix_plan(sparse.coo_array((10_000, 2_000)), ln.Budget(mu=1))


def test_data_frames_bring_their_names():
    plan = ln.matrix_plan(pd.DataFrame(W, index=NAMES, columns=PAGES), ln.Budget(mu=1))
    assert plan.names == tuple(NAMES)
    assert plan.domain == ln.Domain.of(item=PAGES)
    bare = ln.matrix_plan(pd.DataFrame(W), ln.Budget(mu=1))
    assert bare.names is None


# --- from rows to answers ---------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("kind", ["csv", "parquet", "duckdb"])
def test_rows_become_answers(kind, capsys):
    data, more = "visits.csv", ()
    if kind == "parquet":
        data = "visits.parquet"
        visits().to_parquet(data)
    elif kind == "duckdb":
        with duckdb.connect("visits.db") as connection:
            connection.execute("CREATE TABLE visits AS SELECT * FROM 'visits.csv'")
        data, more = f"duckdb:///{Path.cwd()}/visits.db", ("--table", "visits")
    made(capsys, *more, data=data)
    release = ln.load("out")
    np.testing.assert_allclose(release.values, W @ COUNTS, atol=0.1)
    assert release.plan.names == tuple(NAMES)
    assert release.domain == ln.Domain.of(page=PAGES)


def test_questions(capsys):
    made(capsys)
    code, out, _ = call(capsys, "ask", "out", "all", "sales - info", "2")
    assert code == 0
    assert [line.split(" (")[0] for line in out.splitlines()] == ["all: 498.0", "sales - info: -116.0", "2: 197.0"]
    _, out, _ = call(capsys, "ask", "out", "all", "sales - sales", "--simultaneous", "--json")
    message = json.loads(out)
    assert message["simultaneous"]
    assert message["answers"][1]["std_error"] == 0
    assert fail(capsys, "ask", "out", "sale") == "'sale': no query is named 'sale'; did you mean 'sales'?"
    assert fail(capsys, "ask", "out", "zz") == "'zz': no query is named 'zz'; queries are numbered from 0 to 2"
    assert fail(capsys, "ask", "out", "3").startswith("'3': queries are numbered from 0 to 2")


def test_answers_of_sums_have_their_covariance():
    release = ln.matrix_plan(W, ln.Budget(mu=1), names=NAMES).run(COUNTS, random_source=SeededRandomSource(1))
    answer, joint = release.ask("all - sales + info"), release.ask_many(["all", "sales", "info"])
    assert answer.value == pytest.approx(joint.combine([1, -1, 1]).value)
    assert answer.std_error == pytest.approx(joint.combine([1, -1, 1]).std_error)
    assert release.ask("sales") == release.ask(1)
    assert release.ask("item = 1").value == pytest.approx(release.ask("sales").value)
    assert release.ask("").value == pytest.approx(release.ask("all").value)
    (wide, _), narrow = release.ask_many(["all", "info"], simultaneous=True), release.ask("all")
    assert wide.high > narrow.high


def test_tables(capsys):
    made(capsys)
    code, out, _ = call(capsys, "table", "out", "page", "--json")
    message = json.loads(out)
    assert (code, message["attributes"]) == (0, ["page"])
    home, shop, help_, blog = (row["count"] for row in message["rows"])
    assert (round(home), round(shop), round(help_ + blog)) == (
        220,
        81,
        197,
    )  # the queries hardly tell the last two apart
    assert call(capsys, "table", "out")[1] == "page\n"
    message = json.loads(call(capsys, "table", "out", "--queries", "--json")[1])
    assert [round(row["answer"]) for row in message["rows"]] == [498, 81, 197]
    assert call(capsys, "table", "out", "--queries", "--parquet", "all.parquet")[0] == 0
    frame = pd.read_parquet("all.parquet")
    assert frame["query"].tolist() == NAMES
    assert frame.attrs["privacy"]["mu"] == pytest.approx(1024)


def test_show_tells_what_a_folder_holds(capsys):
    made(capsys, "--dataset", "visits")
    code, out, _ = call(capsys, "show", "out")
    assert code == 0
    kind, holds, counted, *rules, privacy = out.splitlines()
    assert kind.startswith("matrix release of visits, measured 20")
    assert holds.startswith("3 queries on 4 values of page: rmse ")
    assert counted.startswith("rows counted: ")
    assert [rule.strip() for rule in rules] == [
        "page, missing: error (a missing value stops the run): 0, by rule",
        "page, outside: error (a value outside the domain stops the run): 0, by rule",
    ]
    assert privacy == ln.load("out").privacy.statement
    message = json.loads(call(capsys, "show", "out", "--json")[1])
    assert (message["kind"], message["names"], message["insecure"]) == ("matrix release", NAMES, False)
    ln.plan(ln.Workload(ln.Domain.of(a=3)).marginals(), ln.Budget(mu=1)).run(
        [1, 2, 3], random_source=SeededRandomSource(1)
    ).save("b")
    _, out, err = call(capsys, "show", "b")
    assert out.splitlines()[1] == "3 statistics of a"
    assert err == f"{INSECURE}\n"


def test_reports(capsys, folder):
    made(capsys)
    code, out, _ = call(capsys, "report", "out", "--out", "page.html")
    assert (code, out) == (0, "wrote page.html: 3 queries; open it in a browser\n")
    assert "sales" in (folder / "page.html").read_text()


def test_other_commands_say_what_to_use(capsys):
    made(capsys)
    assert fail(capsys, "synth", "out") == "out is a matrix release; ask, table, show and report take it"


def test_people_with_several_rows(capsys):
    made(capsys, more="method: matrix\nunit: {id: visitor, max_rows: 3}")
    release = ln.load("out")
    assert release.cost.neighbours.rows_per_person == 3
    assert release.ask("all").value == pytest.approx(300, abs=0.5)  # of 100 visitors


def test_rows_outside_are_told_or_dropped(capsys, folder):
    with (folder / "visits.csv").open("a") as file:
        file.write("cart,1\n")
    code, _, err = call(capsys, "release", spec(), "--data", "visits.csv", "--out", "out")
    assert code == 3
    assert "cart" not in err
    made(capsys, page=f"{VALUES}, outside: drop")
    assert ln.load("out").ask("all").value == pytest.approx(498, abs=0.5)


def test_totals(capsys, folder):
    (folder / "days.csv").write_text("page\n" + "0\n" * 4 + "2\n" * 7)
    out, _ = made(capsys, "--json", data="days.csv", queries="prefix", page="range: [0, 2]")
    assert json.loads(out)["streams"] is True
    np.testing.assert_allclose(ln.load("out").values, [4, 4, 11], atol=0.1)


@pytest.mark.long
def test_the_ledger_is_debited(capsys):
    ln.Ledger.create("visits.ledger", ln.Budget(mu=1025), "visits")
    out, err = made(capsys, "--ledger", "visits.ledger", "--note", "first")
    assert err == ""
    assert "left in the ledger: mu" in out
    again = ("release", spec(), "--data", "visits.csv", "--out", "b", "--ledger", "visits.ledger", "--again")
    assert "is left" in fail(capsys, *again)


def test_mistakes_are_told(capsys):
    assert fail(capsys, "release", spec(), "--out", "b") == (
        "say where the data is, with --data; only 'method: stream' does without"
    )
    assert fail(capsys, "plan", spec(privacy="mu: 0")).startswith("spec.yaml line 3: mu 0 is not positive")
    two = "attributes: {a: {size: 2}, b: {size: 2}}\nworkload: [{queries: marginal}]\nprivacy: {mu: 1}\n"
    for method in ("matrix", "stream"):
        Path("two.yaml").write_text(f"{two}method: {method}\n")
        assert fail(capsys, "plan", "two.yaml") == (
            f"method {method!r} is for a single attribute, the spec has 2; use 'method: plan'"
        )
    assert fail(capsys, "plan", spec(more="method: stream")) == (
        "these queries need all items before any is answered; use run, or order the queries"
    )
    assert fail(capsys, "plan", spec(more="method: matrix\nbaseline: uniform")) == (
        "spec.yaml line 5: 'baseline' is for plans; leave it out with 'method: matrix'"
    )
    assert fail(capsys, "plan", spec(), "--out", "plan.zip") == (
        "--out is for plans, but this spec has method 'matrix', as the spec says 'method: matrix'"
    )


def test_weights_and_several_lines_are_one_matrix():
    text = f"""
attributes: {{page: {{values: [{", ".join(PAGES)}]}}}}
workload:
  - {{queries: {{matrix: [[1, 1, 0, 0]], names: [web]}}, weight: 4}}
  - {{queries: {{matrix: [[0, 0, 1, 0], [0, 0, 0, 1]], names: [help, blog]}}, weights: [1, 2]}}
privacy: {{mu: 1}}
method: matrix
"""
    plan = ln.plan_spec(parse_spec(text))
    rows = [[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    other = ln.matrix_plan(
        rows, ln.Budget(mu=1), weights=[4, 1, 2], items={"page": PAGES}, names=["web", "help", "blog"]
    )
    assert plan.names == other.names
    np.testing.assert_allclose(plan.std_errors, other.std_errors)


# --- streams ----------------------------------------------------------------------------------------------------------


DAYS = ("range: [0, 2]", SHARP, "method: stream")  # of three items


def test_streams(capsys, monkeypatch, folder):
    ln.Ledger.create("a.ledger", ln.Budget(mu=1025), "log")
    code, out, err = call(capsys, "release", spec("prefix", *DAYS), "--out", "days", "--ledger", "a.ledger")
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == "opened the stream days; add counts with: leastnoise stream days COUNT"
    code, out, _ = call(capsys, "stream", "days")
    assert (code, out) == (0, "0 of 3 steps were taken\n")
    code, out, _ = call(capsys, "stream", "days", 4, "--step", 0)
    assert code == 0
    assert out.startswith("step 0 (0): 4.0 (s.e. 0.0; 95%:")
    again = call(capsys, "stream", "days", 4, "--step", 0)
    assert again[1] == out
    monkeypatch.setattr("sys.stdin", io.StringIO("0\n7\n"))
    code, out, _ = call(capsys, "stream", "days", "-", "--json")
    message = json.loads(out)
    assert (code, message["stream"], [round(a["value"]) for a in message["answers"]]) == (
        0,
        {"steps": 3, "items": 3},
        [4, 11],
    )
    code, out, _ = call(capsys, "stream", "days", "--close", "out", "--ledger", "a.ledger")
    assert code == 0, out
    assert out.splitlines()[:2] == ["3 of 3 steps were taken", "released to out"]
    np.testing.assert_allclose(ln.load("out").values, [4, 4, 11], atol=0.1)
    assert ln.Ledger.open("a.ledger").entries()[0].status == "finished"


def test_mistakes_with_streams_are_told(capsys):
    call(capsys, "release", spec("prefix", *DAYS), "--out", "days")
    assert fail(capsys, "stream", "days", "x").startswith("a count is a whole number of 0 or more")
    assert fail(capsys, "stream", "days", "--close", "out").startswith("3 of 3 items have not come yet")
    text = "there is no stream out; open one with leastnoise release and 'method: stream'"
    assert fail(capsys, "stream", "out") == text
    for command in (["show"], ["report"], ["table"], ["ask"]):
        more = ["all"] if command == ["ask"] else []
        assert fail(capsys, *command, "days", *more) == (
            "days is a stream; add to it with leastnoise stream, or close it to make a release"
        )


def test_a_stream_on_data_at_once_is_a_release(capsys, folder):
    (folder / "days.csv").write_text("page\n" + "0\n" * 4 + "2\n" * 7)
    made(capsys, data="days.csv", queries="prefix", page="range: [0, 2]", more="method: stream")
    np.testing.assert_allclose(ln.load("out").values, [4, 4, 11], atol=0.1)
