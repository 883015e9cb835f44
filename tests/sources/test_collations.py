"""Texts are compared byte by byte: what a column's collation takes for equal stays apart, as in memory."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from leastnoise.domain.attributes import Domain
from leastnoise.errors import DataError
from leastnoise.sources import source_of
from tests.engines import postgres, spark

# Alike for one collation or another: letter case, accents, normal forms, spaces at the ends, ligatures, width.
WORDS = [
    "a",
    "A",
    "á",
    "a\u0301",
    "a ",
    " a",
    "ss",
    "ß",
    "SS",
    "fi",
    "ﬁ",
    "I",
    "İ",
    "ı",
    "Å",
    "\u212b",
    "1",
    "１",
    "01",
]
IDS = [word for word in WORDS for _ in range(2)]  # two rows each
DOMAIN = Domain.of(word=WORDS[::2] + ["other"])
UNIT = {"id": "person", "max_rows": 1, "secret": b"k"}
RULES = {"word": {"outside": "other"}}


def counted(data: Any) -> list[list[int]]:
    """Rows by word, and by word with one row per person."""
    units = (None, UNIT)
    return [next(source_of(data, DOMAIN, rules=RULES, unit=unit).count([(0,)])).tolist() for unit in units]


def expected() -> list[list[int]]:
    rows = np.array([2] * len(DOMAIN.attributes[0].values.items[:-1]) + [2 * len(WORDS[1::2])])
    return [rows.tolist(), (rows // 2).tolist()]


def test_memory_keeps_all_words_apart():
    assert counted({"person": IDS, "word": IDS}) == expected()
    assert counted(pd.DataFrame({"person": IDS, "word": pd.Categorical(IDS)})) == expected()
    assert counted(pa.table({"person": IDS, "word": IDS})) == expected()


@pytest.mark.long
@pytest.mark.parametrize("collation", ["NOCASE", "NOACCENT", "NOCASE.NOACCENT", "NFC"])
def test_duckdb(collation, tmp_path):
    with duckdb.connect(str(tmp_path / "people.db")) as connection:
        connection.execute(f"CREATE TABLE t (person VARCHAR COLLATE {collation}, word VARCHAR COLLATE {collation})")
        connection.executemany("INSERT INTO t VALUES (?, ?)", list(zip(IDS, IDS, strict=True)))
        ((merged,),) = connection.execute("SELECT COUNT(*) FROM (SELECT person FROM t GROUP BY person)").fetchall()
    assert merged < len(WORDS)  # the collation does merge some
    assert counted(f"duckdb://{tmp_path / 'people.db'}?table=t") == expected()


@pytest.mark.long
def test_files(tmp_path):
    parquet.write_table(pa.table({"person": IDS, "word": IDS}), tmp_path / "people.parquet")
    pd.DataFrame({"person": IDS, "word": IDS}).to_csv(tmp_path / "people.csv", index=False)
    assert counted(tmp_path / "people.parquet") == expected()
    assert counted(tmp_path / "people.csv") == expected()


def postgres_kinds() -> Iterator[str]:
    """Types of columns, in a database that has what they need."""
    import psycopg

    with psycopg.connect(**postgres.server().login) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS citext")
        for name, strength in (("base_letters", "level1"), ("no_case", "level2"), ("spaces", "level1-ka-shifted")):
            locale = f"und-u-ks-{strength}"
            connection.execute(
                f"CREATE COLLATION IF NOT EXISTS {name} (provider = icu, locale = '{locale}', deterministic = false)"
            )
            yield f'text COLLATE "{name}"'
    yield "citext"


@pytest.mark.postgres
@pytest.mark.skipif(postgres.binaries() is None, reason="NO POSTGRESQL: run tests/engines/install.sh")
def test_postgres():
    import psycopg

    for place, kind in enumerate(list(postgres_kinds())):
        with psycopg.connect(**postgres.server().login) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE TABLE collated{place} (person {kind}, word {kind})")
            cursor.executemany(f"INSERT INTO collated{place} VALUES (%s, %s)", list(zip(IDS, IDS, strict=True)))
            cursor.execute(f"SELECT COUNT(*) FROM (SELECT person FROM collated{place} GROUP BY person) AS p")
            ((merged,),) = cursor.fetchall()
        assert merged < len(WORDS)
        assert counted(postgres.server().uri(f"collated{place}")) == expected(), kind


@pytest.mark.postgres
@pytest.mark.skipif(postgres.binaries() is None, reason="NO POSTGRESQL: run tests/engines/install.sh")
def test_char_of_postgres_has_no_spaces_at_the_end():
    import psycopg

    with psycopg.connect(**postgres.server().login) as connection:
        connection.execute("CREATE TABLE padded (person char(3), word char(5))")
        connection.execute("INSERT INTO padded VALUES ('a', 'a'), ('a ', 'a  '), (' a', ' a'), ('A', 'A')")
    # To PostgreSQL the first two are one person and one word: spaces at the end of such a column only fill it up.
    plain = {"person": ["a", "a", " a", "A"], "word": ["a", "a", " a", "A"]}
    assert counted(postgres.server().uri("padded")) == counted(plain)


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.skipif(not spark.installed(), reason="NO SPARK: run tests/engines/install.sh")
@pytest.mark.parametrize("collation", ["UTF8_LCASE", "UNICODE_CI_AI", "UTF8_BINARY_RTRIM"])
def test_spark(collation):
    from pyspark.sql import functions

    frame = spark.session().createDataFrame(pa.table({"person": IDS, "word": IDS}))
    frame = frame.select([functions.collate(functions.col(name), collation).alias(name) for name in frame.columns])
    assert frame.select("person").distinct().count() < len(WORDS)
    assert counted(frame) == expected()


# --- numbers that are ids --------------------------------------------------------------------------------------------

LARGE = [2**53, 2**53 + 1, 2**63 - 1, -(2**63), 0, 1, -1]


def as_file(table: pa.Table, path: Path) -> Path:
    parquet.write_table(table, path)
    return path


@pytest.mark.parametrize(
    "hold",
    [
        lambda ids, path: {"person": ids, "word": [0] * len(ids)},
        lambda ids, path: {"person": np.array(ids), "word": np.zeros(len(ids), dtype=int)},
        lambda ids, path: pd.DataFrame({"person": pd.array(ids, dtype="Int64"), "word": 0}),
        lambda ids, path: pa.table({"person": ids, "word": [0] * len(ids)}),
        lambda ids, path: as_file(pa.table({"person": ids, "word": [0] * len(ids)}), path / "ids.parquet"),
    ],
    ids=["lists", "NumPy", "pandas", "Arrow", "Parquet"],
)
def test_large_ids_stay_apart(hold: Callable[[list[int], Path], Any], tmp_path):
    source = source_of(hold(LARGE * 2, tmp_path), Domain.of(word=range(2)), unit=UNIT)
    assert next(source.count([(0,)])).tolist() == [len(LARGE), 0]
    listed = source_of(hold(LARGE, tmp_path), Domain.of(person=LARGE))
    assert next(listed.count([(0,)])).tolist() == [1] * len(LARGE)


@pytest.mark.parametrize("ids", [[1, "1"], [1, 1.0], [True, 1], [1.0, 2.0], [True, False]], ids=repr)
def test_ids_that_might_be_the_same_are_refused(ids):
    with pytest.raises(
        DataError, match=r"^the column 'person' cannot be an id; ids are whole numbers or texts, cast it"
    ):
        source_of({"person": ids, "word": [0, 0]}, Domain.of(word=range(2)), unit=UNIT)


@pytest.mark.parametrize("kind", [pa.float64(), pa.bool_(), pa.decimal128(5, 2), pa.binary(), pa.date32()], ids=str)
def test_columns_of_such_types_are_no_ids(kind, tmp_path):
    table = pa.table({"person": pa.array([None, None], kind), "word": [0, 0]})
    for data in (table, table.to_pandas(types_mapper=pd.ArrowDtype), as_file(table, tmp_path / "ids.parquet")):
        with pytest.raises(DataError, match=r"^the column 'person' cannot be an id"):
            source_of(data, Domain.of(word=range(2)), unit=UNIT)


def test_people_are_not_told_apart_by_pandas(monkeypatch):
    """Until 3.1, it takes ids for the same that agree up to a zero byte: one person would decide on another's rows."""
    monkeypatch.setattr(pd, "factorize", lambda ids: pytest.fail("pandas was asked"))
    table = pa.table({"person": ["p\0a", "p\0b", "p", "p\0a", None], "a": [0, 1, 2, 0, 0]})
    unit = {"id": "person", "max_rows": 1, "missing": "drop"}
    source = source_of(table, Domain.of(a=3), unit=unit)
    assert next(source.count([(0,)])).tolist() == [1, 1, 1]
    assert [numbers.tolist() for numbers in source.side_counts(True, [(), (0,)])] == [[1], 3, [1, 1, 1]]
