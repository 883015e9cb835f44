"""CSV and Parquet files and DuckDB databases: what is read, and one line for everything that can be wrong."""

import gzip
import os
import re
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from leastnoise.domain.attributes import Domain, bins
from leastnoise.errors import LeastnoiseError
from leastnoise.sources import Database, Rules, source_of
from leastnoise.sources import database as database_module
from leastnoise.sources.duck import DuckDB
from leastnoise.sources.files import LISTED, find_files

DOMAIN = Domain.of(age=range(18, 21), sex=["F", "M"])
NO_CSV = "the file 'x.csv' cannot be read as text with a line of names; it may be damaged or of another kind"
NO_NAMES = (
    "the first line of 'x.csv' has no names of columns; where they stand below a title, say how many lines are above "
    "them, such as file: {skip: 2} in a spec, or FILE?skip=2"
)
NO_PARQUET = "the file 'x.parquet' cannot be read as Parquet; it may be damaged or of another kind"
BROKEN = (
    "the file is not in UTF-8, its quotes do not match, or its rows differ in length; "
    "a check (leastnoise check) tells the lines"
)
OUTSIDE = (
    "the column 'age' holds values outside the domain of 'age'; "
    "widen the domain, or choose outside: other, drop or clamp"
)
MISSING = "the column 'age' holds missing values; choose missing: drop, or the value of 'age' that stands for them"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(message):
    return pytest.raises(LeastnoiseError, match=f"^{re.escape(message)}$")


def counts(data, domain=DOMAIN, **options):
    return [table.tolist() for table in source_of(data, domain, **options).count([(k,) for k in range(len(domain))])]


def check_refused(message, data, domain=DOMAIN, **options):
    """The message stands alone: no other error, which might show data, comes with it."""
    with refused(message) as caught:
        counts(data, domain, **options)
    assert caught.value.__context__ is None


# --- CSV --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        b"age,sex\n18,F\n20,M\n",
        b"age,sex\n18,F\n20,M",
        b"age,sex\r\n18,F\r\n20,M\r\n",
        b"\xef\xbb\xbfage,sex\n18,F\n20,M\n",
        b'\xef\xbb\xbf"age","sex"\n"18","F"\n"20","M"\n',
        b'note,age,sex\n"a\nb, ""c""",18,F\n"\r\n",20,M\n',
        b"age,sex\n18.0,F\n+2e1 ,M\n",
        b"sex,age\nF,18\n\nM,20\n",
        "name,age,sex\nJosé 😀,18,F\nß,20,M\n".encode(),
    ],
)
def test_csv(content):
    Path("x.csv").write_bytes(content)
    assert counts("x.csv") == [[1, 0, 1], [1, 1]]


def test_csv_without_rows():
    for content in (b"age,sex", b"age,sex\n"):
        Path("x.csv").write_bytes(content)
        assert counts("x.csv") == [[0, 0, 0], [0, 0]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file 'x.csv' is empty; it needs at least the names of its columns"),
        (b"\n18,F\n", NO_NAMES),
        (b"age,sex,\x81\n18,F,1\n", NO_CSV),
        (b"age,sex\n18,F\n19,\xe9\n", BROKEN),
        (b"age,sex\n" + b"18,F\n" * 100_000 + b"19,\xe9\n", BROKEN),
        (b"age,sex\n18,F\n19\n", BROKEN),
        (b"age,sex\n" + b"18,F\n" * 100_000 + b"19,M,3\n", BROKEN),
        (b'age,sex\n18,"F\n19,M\n', BROKEN),
        (
            b"age:sex\n18:F\n",
            "the column 'age' is missing; give the name it has in the data, as column or as id of the unit",
        ),
        (
            b"sex\nF\n",
            "the column 'age' is missing; give the name it has in the data, as column or as id of the unit",
        ),
        (b"age,sex\n21,F\n", OUTSIDE),
        (b"age,sex\n1_8,F\n", OUTSIDE),
        (b"age,sex\n0x12,F\n", OUTSIDE),
        (b"age,sex\nnan,F\n", OUTSIDE),
        (b"age,sex\n18.5,F\n", OUTSIDE),
        (b"age,sex\n1e999,F\n", OUTSIDE),
        (b"age,sex\n,F\n", MISSING),
        (b'age,sex\n"",F\n', MISSING),
    ],
)
def test_bad_csv(content, message):
    Path("x.csv").write_bytes(content)
    check_refused(message, "x.csv")


def test_numbers_in_csv_are_read_as_python_reads_them(rng):
    """Edges of bins, written in full and shortest form."""
    domain = Domain.of(x=bins(0, 1, width=0.1), y=[0.1, 7, "7.50", "other"])
    values = [*domain["x"].values.edges, *np.nextafter(domain["x"].values.edges, 0), *rng.random(200)]
    texts = [repr(float(x)) for x in values] + [f"{x:.25f}" for x in values]
    more = ["0.1", "7.0", "7.50", "07", "1e-1"]
    lines = [f"{text},{more[k % 5]}" for k, text in enumerate(texts)]
    Path("x.csv").write_text("\n".join(["x,y", *lines]))
    result, others = counts("x.csv", domain, rules={"y": Rules(outside="other")})
    expected = domain["x"].codes([float(text) for text in texts])
    assert result == np.bincount(expected, minlength=10).tolist()
    kinds = np.bincount([k % 5 for k in range(len(texts))])
    assert others == [kinds[0] + kinds[4], kinds[1] + kinds[3], kinds[2], 0]  # text first, then number


def test_several_files():
    for k in range(3):
        Path(f"part-{k}.csv").write_text(f"age,sex\n{18 + k},F\n")
    assert counts("part-*.csv") == [[1, 1, 1], [3, 0]]
    Path("part-3.csv").write_text("sex,year\nF,18\n")
    line = "the files 'part-*.csv' differ in their columns; give them the same ones, each with its own name"
    check_refused(line, "part-*.csv")


def test_several_files_with_their_columns_in_several_orders():
    """Columns are told apart by name, packed and in other encodings as well; where names do not, they are refused."""
    line = "the files {!r} differ in their columns; give them the same ones, each with its own name"
    Path("part-0.csv").write_text("age,sex\n18,F\n19,M\n")
    with gzip.open("part-1.csv.gz", "wt") as file:
        file.write("sex,age\nF,20\n")
    Path("part-2.csv").write_text("age,sex\n18,M\n")
    assert counts("part-*") == [[2, 1, 1], [2, 2]]
    assert "columns in several orders, told apart by their names" in str(find_files("part-*"))
    Path("part-3.csv").write_bytes('sex,age,"\xfc"\nF,19,0\n'.encode("cp1252"))
    check_refused(line.format("part-*"), "part-*")
    Path("part-3.csv").write_bytes("\ufeffsex,age\nF,19\n".encode("utf-16-le"))
    assert counts("part-*") == [[2, 2, 1], [3, 2]]
    for k in (4, 5):
        Path(f"twin-{k}.csv").write_text("age,sex,sex\n18,F,M\n" if k == 4 else "sex,age,sex\nF,18,M\n")
    check_refused(line.format("twin-*.csv"), "twin-*.csv")


@pytest.mark.parametrize("name", ["a[1].csv", "it's.csv", 'a"b.csv', "100%.csv", "a b;c.csv", "é.csv"])
def test_names_of_files_mean_themselves(name):
    Path(name).write_text("age,sex\n18,F\n")
    Path("a1.csv").write_text("age,sex\n20,M\n")
    assert counts(name) == [[1, 0, 0], [1, 0]]


# --- Parquet ----------------------------------------------------------------------------------------------------------


def write(name="x.parquet", **columns):
    parquet.write_table(pa.table({"age": [18, 20], "sex": ["F", "M"]} | columns), name)


def test_bad_parquet():
    write(age=[18, 19] * 5000, sex=["F", "M"] * 5000)
    whole = Path("x.parquet").read_bytes()
    for content in (whole[: len(whole) // 2], whole[:-1], b"age,sex\n18,F\n", whole[:4]):
        Path("x.parquet").write_bytes(content)
        check_refused(NO_PARQUET, "x.parquet")
    Path("x.parquet").write_bytes(b"")
    check_refused("the file 'x.parquet' is empty; it needs at least the names of its columns", "x.parquet")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"age": ["18", "19"]}, "the column 'age' holds text, but the values of 'age' are numbers; cast the column"),
        (
            {"sex": [1, 2]},
            "the column 'sex' holds whole numbers, but the values of 'sex' are texts; cast the column to text",
        ),
        (
            {"sex": [1.5, 2]},
            "the column 'sex' holds numbers, but the values of 'sex' are texts; cast the column to text",
        ),
        ({"sex": [[1], [2]]}, "the column 'sex' is neither number, text, date nor truth value; cast it to one of them"),
        ({"age": [18, 99]}, OUTSIDE),
        ({"age": [18, None]}, MISSING),
        ({"age": [18.0, float("nan")]}, MISSING),
    ],
)
def test_wrong_types_and_values(columns, message):
    write(**columns)
    check_refused(message, "x.parquet")
    check_refused(message, parquet.read_table("x.parquet"))
    if "date nor" not in message:
        check_refused(message, parquet.read_table("x.parquet").to_pandas())


def test_a_column_without_values_is_missing():
    table = pa.table({"age": pa.nulls(2), "sex": ["F", "M"]})
    parquet.write_table(table, "x.parquet")
    for data in (table, "x.parquet"):
        check_refused(MISSING, data)
        assert counts(data, rules={"age": {"missing": 19}}) == [[0, 2, 0], [1, 1]]


@pytest.mark.parametrize("swap", [("c1", "c0"), ("person", "rank"), ("g0", "n")])
def test_names_that_the_query_uses_itself(swap):
    domain = Domain.of({swap[0]: 2, swap[1]: 3})
    parquet.write_table(pa.table({swap[0]: [0, 1, 1], swap[1]: [2, 2, 1], "id": [1, 1, 1]}), "x.parquet")
    assert counts("x.parquet", domain) == [[1, 2], [0, 1, 2]]
    assert counts("x.parquet", domain, unit={"id": "id", "max_rows": 3}) == [[1, 2], [0, 1, 2]]


# --- databases and addresses ------------------------------------------------------------------------------------------


def make_database():
    with duckdb.connect("x.db") as connection:
        connection.execute("CREATE TABLE people AS SELECT 18 AS age, 'F' AS sex")
        connection.execute('CREATE TABLE "pe""o;ple" AS SELECT 19 AS age, \'F\' AS sex')
        connection.execute("CREATE SCHEMA s; CREATE VIEW s.seen AS SELECT 20 AS age, 'M' AS sex")


def test_tables_of_a_database(folder):
    make_database()
    assert counts("duckdb://x.db?table=people") == [[1, 0, 0], [1, 0]]
    assert counts(f"duckdb://{folder}/x.db?table=pe%22o%3Bple") == [[0, 1, 0], [1, 0]]
    assert counts("duckdb://x.db", table="s.seen") == [[0, 0, 1], [0, 1]]


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        (
            "duckdb://x.db?table=nope",
            "there is no table 'nope' in the database 'x.db', or it may not be read; check its name and schema",
        ),
        (
            "duckdb://x.db?table=people%22%3B+DROP+TABLE+people--",
            "there is no table 'people\"; DROP TABLE people--' in the database 'x.db', or it may not be read; "
            "check its name and schema",
        ),
        ("duckdb://x.db?table=a..b", "'a..b' does not name a table; write table=name or table=schema.name"),
        ("duckdb://x.db", "say which table to count; add ?table=name to the URI, or table='name'"),
        ("duckdb://y.db?table=people", "there is no file 'y.db'; check the path"),
        ("duckdb://x.db?tabel=people", "unknown option 'tabel' of a duckdb source; use table"),
        (
            "duckdb://x.csv?table=people",
            "cannot open 'x.csv' as a DuckDB database; check the file, and who else has it open",
        ),
        (
            "mysql://root:hunter2@host/db?table=t",
            "unknown kind of source 'mysql'; use a file, or duckdb, postgresql, spark://...",
        ),
        ("none.csv", "there is no file 'none.csv'; check the path"),
        ("none-*.parquet", "there is no file 'none-*.parquet'; check the path"),
        ("people.xls", f"cannot tell what kind of file ends in '.xls'; give one that ends in {LISTED}"),
        ("d.parquet", f"the folder 'd.parquet' has no files that end in {LISTED}; name others by a pattern"),
    ],
)
def test_bad_addresses(uri, message):
    make_database()
    Path("x.csv").write_text("age,sex\n" * 5000)
    Path("d.parquet").mkdir()
    check_refused(message, uri)
    assert counts("duckdb://x.db?table=people") == [[1, 0, 0], [1, 0]]  # nothing was dropped


def test_bad_options():
    write()
    check_refused("memory 'lots' is no size; write for example memory='4GB'", "x.parquet", memory="lots")
    check_refused("no attribute 'agee' in this domain (age, sex); did you mean 'age'?", "x.parquet", rules={"agee": {}})
    too_many = Domain.of(age=bins(0, 5_001, width=1))
    write(age=[1.0, 2.0])
    check_refused(
        "'age' has 5,001 bins, more than 5,000 in a database; use fewer, or count in memory", "x.parquet", too_many
    )


def test_nothing_is_left_behind(folder, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    write()
    counts("x.parquet")
    with pytest.raises(LeastnoiseError):
        counts("x.parquet", Domain.of(nope=2))
    source_of("x.parquet", DOMAIN)  # never counted
    assert os.listdir() == ["x.parquet"]


# --- passes -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def passes(monkeypatch):
    """Queries that are run."""
    results = []
    run = DuckDB.run
    monkeypatch.setattr(DuckDB, "run", lambda self, sql: results.append(sql) or run(self, sql))
    return results


def test_two_passes_where_distinct_rows_are_few(passes):
    write()
    source = source_of("x.parquet", DOMAIN)
    for _ in range(5):
        list(source.count([(0,), (1, 0), ()]))
    assert len(passes) == 2


def many(rng, attributes=8, embedded=True):
    domain = Domain.of({f"a{k}": 4 for k in range(attributes)})
    codes = rng.integers(0, 4, (500, attributes))
    parquet.write_table(pa.table({f"a{k}": codes[:, k] for k in range(attributes)}), "x.parquet")
    engine = DuckDB.of_file("x.parquet")
    engine.embedded, engine.most_bytes = embedded, 0
    return Database(domain, engine), codes


both = pytest.mark.parametrize("embedded", [True, False], ids=["streamed", "counted over there"])


@both
def test_one_pass_for_one_call(rng, passes, embedded):
    source, codes = many(rng, embedded=embedded)
    sets = [(i, j) for i in range(8) for j in range(8) if i != j]
    for axes, table in zip(sets, source.count(sets), strict=True):
        expected = np.zeros((4, 4), dtype=int)
        np.add.at(expected, (codes[:, axes[0]], codes[:, axes[1]]), 1)
        np.testing.assert_array_equal(table, expected)
    assert len(passes) == 2
    list(source.count([(0, 1, 2)]))
    assert len(passes) == 3  # another call takes another


@both
@pytest.mark.parametrize(("cells", "tables"), [(1, 64), (100, 64), (1 << 22, 1), (1 << 22, 3)])
def test_small_batches_change_nothing(rng, monkeypatch, cells, tables, embedded):
    source, codes = many(rng, 4, embedded)
    monkeypatch.setattr(database_module, "_BATCH_CELLS", cells)
    monkeypatch.setattr(database_module, "_BATCH_TABLES", tables)
    monkeypatch.setattr(database_module, "_UNION_CELLS", 20)
    sets = [(), (0,), (3, 1), (1, 3), (0, 1, 2), (2, 3), (3, 1)]
    expected = [table.tolist() for table in source_of(codes, source.domain).count(sets)]
    assert [table.tolist() for table in source.count(sets)] == expected


@both
def test_data_that_changes_is_noticed(rng, embedded):
    source, _ = many(rng, 2, embedded)
    list(source.count([()]))
    parquet.write_table(pa.table({"a0": [0, 9], "a1": [0, 0]}), "x.parquet")
    with refused("the data changed while it was counted; count a copy, or in a transaction"):
        list(source.count([(0,)]))


@pytest.mark.slow
def test_files_larger_than_memory(rng):
    """4 million rows of 20 attributes: 40 MB on disk, and 40 MB of memory, of which DuckDB has 30."""
    domain = Domain.of({f"a{k}": 10 for k in range(20)})
    codes = rng.integers(0, 10, (4_000_000, 20), dtype=np.uint8)
    parquet.write_table(pa.table({f"a{k}": codes[:, k] for k in range(20)}), "x.parquet")
    assert Path("x.parquet").stat().st_size > 35e6
    source = source_of("x.parquet", domain, memory="40MB")
    sets = [(k, (k + 3) % 20) for k in range(20)]
    for axes, table in zip(sets, source.count(sets), strict=True):
        expected = np.bincount(codes[:, axes[0]].astype(int) * 10 + codes[:, axes[1]], minlength=100)
        np.testing.assert_array_equal(table.ravel(), expected)
    assert source._held is None
