"""PostgreSQL and Spark: what is refused, and what never shows in a message."""

import re

import pyarrow as pa
import pytest

from leastnoise.domain.attributes import Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.sources import PrivacyUnit, source_of
from leastnoise.sources import convert as convert_module
from tests.engines import postgres, spark
from tests.sources.registry import MARKS, postgres_table, sql_name

DOMAIN = Domain.of(age=range(18, 21), sex=["F", "M"])
TABLE = pa.table({"age": [18, 20], "sex": ["F", "M"]})


def refused(message):
    return pytest.raises(LeastnoiseError, match=f"^{re.escape(message)}$")


def counts(data, domain=DOMAIN, **options):
    source = source_of(data, domain, **options)
    return [table.tolist() for table in source.count([(k,) for k in range(len(domain))])]


@pytest.mark.postgres
@MARKS["PostgreSQL"][1]
class TestPostgreSQL:
    def uri(self, table, **changes):
        login = {
            "user": "tester",
            "password": postgres.QUOTED,
            "port": postgres.server().port,
            "db": "postgres",
        } | changes
        return "postgresql://{user}:{password}@127.0.0.1:{port}/{db}?table={table}".format(**login, table=table)

    def test_names_cannot_inject(self):
        import psycopg

        name = 'pe"ople; DROP TABLE x--'
        with psycopg.connect(**postgres.server().login) as connection:
            connection.execute(f"CREATE TABLE IF NOT EXISTS {sql_name(name)} AS SELECT 18 AS age, 'F'::varchar AS sex")
            connection.execute("CREATE SCHEMA IF NOT EXISTS other")
            connection.execute("CREATE TABLE IF NOT EXISTS other.people AS SELECT 19::int8 AS age, 'M'::char(9) AS sex")
        assert counts(self.uri("pe%22ople%3B+DROP+TABLE+x--")) == [[1, 0, 0], [1, 0]]
        assert counts(self.uri("other.people")) == [[0, 1, 0], [0, 1]]

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            (
                {"table": "nope"},
                "there is no table 'nope' in the database 'postgres', or it may not be read; check its name and schema",
            ),
            (
                {"password": "hunter2"},
                "PostgreSQL at 127.0.0.1:PORT refuses user 'tester' for the database 'postgres'; "
                "check the user, the password and the name of the database",
            ),
            (
                {"user": "nobody"},
                "PostgreSQL at 127.0.0.1:PORT refuses user 'nobody' for the database 'postgres'; "
                "check the user, the password and the name of the database",
            ),
            (
                {"db": "nope"},
                "PostgreSQL at 127.0.0.1:PORT refuses user 'tester' for the database 'nope'; "
                "check the user, the password and the name of the database",
            ),
            (
                {"port": 1},
                "cannot reach PostgreSQL at 127.0.0.1:1; check the address, and that the server is running",
            ),
            (
                {"port": "x"},
                "the port in the postgresql URI is no number; write postgresql://user:password@host:5432/db",
            ),
        ],
    )
    def test_passwords_stay_secret(self, changes, message):
        changes = {"table": "people"} | changes
        with refused(message.replace("PORT", str(postgres.server().port))) as caught:
            counts(self.uri(**changes))
        assert caught.value.__context__ is None
        for secret in (postgres.PASSWORD, postgres.QUOTED, "hunter2"):
            assert secret not in str(caught.value)

    def test_printing_a_source_shows_no_login(self):
        source = source_of(postgres.server().uri(postgres_table(TABLE)), DOMAIN)
        for secret in (postgres.PASSWORD, postgres.QUOTED, "tester"):
            assert secret not in repr(source)
        source.close()

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            ({"age": [18, 99]}, "the column 'age' holds values outside the domain of 'age'; "),
            ({"age": [18, None]}, "the column 'age' holds missing values; choose missing: drop, "),
            (
                {"age": ["18", "19"]},
                "the column 'age' holds text, but the values of 'age' are numbers; cast the column",
            ),
            (
                {"aeg": [18, 19], "age": None},
                "the column 'age' is missing; give the name it has in the data, as column or as id of the unit",
            ),
        ],
    )
    def test_bad_columns(self, columns, message):
        entries = {key: value for key, value in (TABLE.to_pydict() | columns).items() if value is not None}
        with pytest.raises(LeastnoiseError, match=f"^{re.escape(message)}"):
            counts(postgres.server().uri(postgres_table(pa.table(entries))))

    def test_every_pass_sees_the_same_rows(self):
        import psycopg

        name = postgres_table(TABLE)
        source = source_of(postgres.server().uri(name), DOMAIN)
        source._engine.most_bytes = 0
        assert next(source.count([()])) == 2
        with psycopg.connect(**postgres.server().login) as connection:
            connection.execute(f"INSERT INTO {name} VALUES (19, 'F')")
        assert next(source.count([(0,)])).tolist() == [1, 0, 1]
        source.close()

    def test_a_lost_server_is_one_line(self):
        source = source_of(postgres.server().uri(postgres_table(TABLE)), DOMAIN)
        source._engine._connection.close()
        with refused(
            "PostgreSQL could not count the table (OperationalError); look for the cause in its own log"
        ) as caught:
            next(source.count([()]))
        assert caught.value.__context__ is None


@pytest.mark.spark
@MARKS["Spark"][1]
@MARKS["Spark"][2]
class TestSpark:
    def test_tables_of_a_session(self):
        session = spark.session()
        session.createDataFrame(TABLE).createOrReplaceTempView("people")
        assert counts(session, table="people") == [[1, 0, 1], [1, 1]]
        assert counts("spark://?table=people") == [[1, 0, 1], [1, 1]]
        with refused(
            "there is no table 'pe`ople' in Spark, or it may not be read; check its name and schema"
        ) as caught:
            counts(session, table="pe`ople")
        assert caught.value.__context__ is None
        with refused("say which table to count; add ?table=name to the URI, or table='name'"):
            counts(session)

    def test_bad_columns(self):
        session = spark.session()
        with refused("the column 'job' is missing; give the name it has in the data, as column or as id of the unit"):
            counts(session.createDataFrame(TABLE), Domain.of(job=3))
        with refused("the column 'sex' holds text, but the values of 'sex' are numbers; cast the column"):
            counts(session.createDataFrame(TABLE), Domain.of(sex=3))
        with refused("the column 'weight' cannot be an id; ids are whole numbers or texts, cast it"):
            frame = session.createDataFrame(TABLE.append_column("weight", pa.array([0.5, 1.5])))
            counts(frame, unit=PrivacyUnit("weight", 2))

    def test_views_are_forgotten(self):
        session = spark.session()
        source = source_of(session.createDataFrame(TABLE), DOMAIN)
        view = source._engine.table.name
        assert session.catalog.tableExists(view)
        source.close()
        assert not session.catalog.tableExists(view)


def test_drivers_are_asked_for(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "psycopg", None)
    text = "needs the package {!r}, which is not installed; install leastnoise with its extra {!r} (README.md)"
    with refused(f"PostgreSQL {text.format('psycopg', 'postgres')}"):
        source_of("postgresql://u:p@h/d?table=t", DOMAIN)
    monkeypatch.setitem(__import__("sys").modules, "pyspark.sql", None)
    with refused(f"Spark (with Java 17) {text.format('pyspark', 'spark')}"):
        source_of("spark://h:7077?table=t", DOMAIN)


def test_every_scheme_is_known():
    assert [*convert_module.SCHEMES] == ["duckdb", "postgresql", "spark"]
