"""Releases that cannot be made: one line, nothing spent, nothing written, nothing private told."""

import re
import resource
import signal
import time
from importlib import import_module
from pathlib import Path
from urllib.parse import quote

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

import leastnoise as ln
from leastnoise.cli import without_passwords
from leastnoise.cli.commands.release import NO_LEDGER, OTHER_LEDGER
from tests.engines import postgres, spark
from tests.shell import COUNT, SECRET, SMALL, ZEBRA, call, counted, ledger, people, release, shell
from tests.sources.registry import postgres_table


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(SMALL)
    return tmp_path


# --- bad input --------------------------------------------------------------------------------------------------------

OUTSIDE = (
    "the column 'age' holds values outside the domain of 'age'; "
    "widen the domain, or choose outside: other, drop or clamp"
)
NOT_CSV = "cannot be read as text with a line of names; it may be damaged or of another kind"
BAD_FILES = {
    "missing column": (2, "x.csv", b"age,gender\n1,F\n", "the column 'sex' is missing"),
    "wrong type": (3, "x.parquet", {"age": ["one"], "sex": ["F"]}, "the column 'age' holds text, but the values of"),
    "outside": (3, "x.csv", f"age,sex\n1,F\n{COUNT},F\n".encode(), OUTSIDE),
    "missing value": (3, "x.csv", b"age,sex\n,F\n", "the column 'age' holds missing values; choose missing: drop"),
    "empty": (3, "x.csv", b"", "the file 'x.csv' is empty; it needs at least the names of its columns"),
    "truncated": (3, "x.parquet", b"PAR1" + b"\0" * 50, "the file 'x.parquet' cannot be read as Parquet"),
    "wrong encoding": (3, "x.csv", "age,sex\n1,F\n2,ü\n".encode("latin-1"), "UTF-8"),
    "no file": (2, "x.csv", None, "there is no file 'x.csv'; check the path"),
    "unknown kind": (2, "x.doc", b"age", "cannot tell what kind of file ends in '.doc'"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files_cost_nothing(capsys, case):
    expected, name, content, text = BAD_FILES[case]
    if isinstance(content, dict):
        pd.DataFrame(content).to_parquet(name)
    elif content is not None:
        Path(name).write_bytes(content)
    check_refused(capsys, expected, text, name)


def check_refused(capsys, expected: int, text: str, data: str, *more: object) -> None:
    """One line, nothing spent, nothing written, nothing of the data told."""
    book = ledger()
    code, out, err = release(capsys, data, "--ledger", "people.ledger", *more)
    assert (code, out, err.count("\n")) == (expected, "", 1), err
    assert err.startswith("leastnoise: ")
    assert text in err
    assert not any(word in err for word in (SECRET, ZEBRA, str(COUNT), "Traceback"))
    assert (book.entries(), list(Path().glob("*out*"))) == ([], [])


@pytest.mark.long
def test_a_byte_order_mark_and_quoted_newlines_are_read(capsys):
    Path("x.csv").write_bytes(b'\xef\xbb\xbfage,sex,remark\r\n1,F,"two\r\nlines, and ""quotes"""\r\n3,M,\r\n')
    assert release(capsys, "x.csv")[0] == 0
    assert ln.Release.load("out").counts("age").round().tolist() == [0, 1, 0, 1, 0]


@pytest.mark.long
def test_a_table_name_with_a_quote(capsys):
    with duckdb.connect("x.db") as connection:
        connection.execute("""CREATE TABLE "pe""op'le" AS SELECT 1 AS age, 'F' AS sex""")
    uri = f"duckdb:///{Path('x.db').absolute()}"
    assert release(capsys, uri, "--table", "pe\"op'le")[0] == 0
    Path("out").rename("done")
    text = "there is no table 'people\"; DROP TABLE x' in the database 'x.db'"
    check_refused(capsys, 2, text, uri, "--table", 'people"; DROP TABLE x')


def test_a_database_that_is_down(capsys):
    uri = f"postgresql://me:{SECRET}@127.0.0.1:1/db?table=people"
    check_refused(capsys, 3, "cannot reach PostgreSQL at 127.0.0.1:1", uri)


@pytest.mark.long
@pytest.mark.postgres
@pytest.mark.skipif(postgres.binaries() is None, reason="NO POSTGRESQL: run tests/engines/install.sh")
def test_a_wrong_password(capsys):
    check_refused(capsys, 2, "refuses user 'tester'", postgres.server().uri("people", SECRET))


@pytest.mark.parametrize(
    ("uri", "text"),
    [
        (f"mysql://me:{SECRET}@host/db", "unknown kind of source 'mysql'"),
        (f"postgresql://me:{SECRET}@host:port/db?table=x", "the port in the postgresql URI is no number"),
        (f"postgresql://me:{SECRET}@host/db", "say which table to count"),
        (f"postgresql://me:{SECRET}@host/db?tabel=x", "unknown option 'tabel'"),
    ],
)
def test_bad_uris(capsys, uri, text):
    check_refused(capsys, 2, text, uri)


def test_misplaced_arguments_do_not_show_a_password(capsys):
    uri = f"postgresql://me:{SECRET}@host/db"
    code, out, err = call(capsys, "release", "small.yaml", uri, "--data", "x.csv", "--out", "out")
    assert (code, out) == (2, "")
    assert "postgresql://me:...@host/db" in err
    assert SECRET not in err
    assert without_passwords(f"({uri})") == "(postgresql://me:...@host/db)"
    assert without_passwords("x://me:a/b@c:d@host b@c") == "x://me:...@host b@c"  # not escaped as it should be
    assert without_passwords("spark://host:7077?table=x") == "spark://host:7077?table=x"


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


@pytest.mark.long
def test_room_is_made_before_the_debit():
    people().to_parquet("people.parquet")
    book = ledger()
    arguments = "release small.yaml --data people.parquet --out out --ledger people.ledger --tables csv".split()
    process = shell(*arguments, setup=limited)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err.count("\n")) == (2, "", 1), err
    assert re.match(r"leastnoise: there is no room for [\d,]+ bytes in .*\(File too large\); nothing was spent", err)
    assert (book.entries(), list(Path().glob("*out*"))) == ([], [])


@pytest.mark.long
def test_an_interrupt_stops_the_engine():
    with duckdb.connect("slow.db") as connection:  # a view that takes hours to count
        connection.execute("CREATE VIEW people AS SELECT range % 5 AS age, 'F' AS sex FROM range(50_000_000_000)")
    book = ledger()
    uri = f"duckdb:///{Path('slow.db').absolute()}?table=people"
    Path("aside").mkdir()
    process = shell("release", "small.yaml", "--data", uri, "--out", "out", "--ledger", "people.ledger", TMPDIR="aside")
    deadline = time.monotonic() + 60
    while not list(Path().glob(".out*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)  # the folder is there, the counting begins
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "", "leastnoise: stopped\n")
    assert (book.entries(), list(Path().glob("*out*")), list(Path("aside").iterdir())) == ([], [], [])


@pytest.mark.long
def test_interrupted_after_the_debit(capsys, monkeypatch):
    def interrupted(*given):
        raise KeyboardInterrupt

    people().to_parquet("people.parquet")
    people().to_parquet("other.parquet")
    book = ledger()
    monkeypatch.setattr(import_module("leastnoise.mechanisms.tables.plan"), "measure", interrupted)
    text = "leastnoise: stopped after the debit; the ledger keeps its cost (entry 1)\n"
    assert release(capsys, "people.parquet", "--ledger", "people.ledger") == (130, "", text)
    assert ([entry.status for entry in book.entries()], list(Path().glob("*out*"))) == (["debited"], [])
    known = OTHER_LEDGER.format(Path("people.ledger").absolute())
    assert release(capsys, "people.parquet") == (130, "", f"{known}\nleastnoise: stopped\n")
    assert release(capsys, "other.parquet") == (130, "", f"{NO_LEDGER}\nleastnoise: stopped\n")


def postgres_people(folder: Path) -> tuple[str, str]:
    """A table on a server, its URI and its password."""
    name = postgres_table(pa.table({k: column.tolist() for k, column in people().items()}))
    return postgres.server().uri(name), postgres.PASSWORD


def duckdb_people(folder: Path) -> tuple[str, str]:
    frame = people()  # noqa: F841
    with duckdb.connect("people.db") as connection:
        connection.execute("CREATE TABLE people AS SELECT * FROM frame")
    return f"duckdb:///{folder}/people.db?table=people", SECRET


NEEDS_POSTGRES = [
    pytest.mark.postgres,
    pytest.mark.skipif(postgres.binaries() is None, reason="NO POSTGRESQL: run tests/engines/install.sh"),
]


@pytest.mark.long
@pytest.mark.parametrize("make", [duckdb_people, pytest.param(postgres_people, marks=NEEDS_POSTGRES)])
def test_nothing_private_gets_out(capsys, folder, make):
    """Values and passwords are in no file and no line, whatever is done with the release."""
    uri, password = make(folder)
    Path("secret").write_text(SECRET)
    Path("small.yaml").write_text(SMALL + "unit: {id: name, max_rows: 1, secret: 'file:secret'}\n")
    ln.Ledger.create("people.ledger", ln.Budget(mu=2048, rows_per_person=1), "people")
    commands = [
        ["release", "small.yaml", "--data", uri, "--out", "out", "--ledger", "people.ledger", "--tables", "csv"],
        ["ask", "out", "age < 3"],
        ["report", "out", "--out", "report.html"],
        ["table", "out", "age", "sex", "--parquet", "table.parquet"],
        ["ledger", "show", "people.ledger"],
        ["init", uri],
    ]
    failing = [
        ["release", "small.yaml", "--data", uri + "&other=1", "--out", "two"],
        ["release", "small.yaml", "--data", uri + "2", "--out", "two"],
        ["release", "small.yaml", "--data", uri, "--out", "out"],
        ["init", uri + "2"],
    ]
    text = ""
    for command in commands + failing:
        code, out, err = call(capsys, *command)
        assert (code == 0) == (command in commands), err
        text += out + err
    files = [p for p in folder.rglob("*") if p.is_file() and p.name not in ("people.db", "secret")]
    assert len(files) > 8
    for word in (ZEBRA, SECRET, password, quote(password, safe="")):
        assert word not in text
        assert not [p.name for p in files if word.encode() in p.read_bytes()]


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.skipif(not spark.installed(), reason="NO SPARK: run tests/engines/install.sh")
def test_data_in_spark(capsys):
    frame = people()
    spark.session().createDataFrame(pa.Table.from_pandas(frame)).createOrReplaceTempView("cli_people")
    assert release(capsys, "spark://?table=cli_people")[0] == 0
    assert ln.Release.load("out").table("age", "sex")["count"].round().tolist() == counted(frame)
    Path("out").rename("done")
    check_refused(capsys, 2, "there is no table 'none' in Spark", "spark://?table=none")
