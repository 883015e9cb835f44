import re

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
from pyarrow import parquet

from leastnoise.domain.attributes import Domain
from leastnoise.errors import DataError, LeastnoiseError
from leastnoise.sources import Codes, Marginals, Table, prepare, source_of
from leastnoise.sources.files import LISTED

DOMAIN = Domain.of(age=range(18, 21), sex=["F", "M"], job=4)
PAIR = Domain.of(sex=2, age=3)
AMBIGUOUS = Domain.of(age=3, sex=2)


def refused(message):
    return pytest.raises(LeastnoiseError, match=f"^{re.escape(message)}$")


@pytest.mark.parametrize(
    ("domain", "data", "kind"),
    [
        (DOMAIN, np.zeros((5, 3), dtype=int), Codes),
        (DOMAIN, [[0, 1, 2], [2, 0, 3]], Codes),
        (DOMAIN, np.zeros((0, 3), dtype=int), Codes),
        (DOMAIN, np.zeros((3, 2, 4), dtype=int), Table),
        (PAIR, np.zeros((2, 3), dtype=int), Table),
        (PAIR, np.zeros((2, 2), dtype=int), Codes),
        (PAIR, np.zeros((9, 2), dtype=int), Codes),
        (Domain.of(a=4), [1, 2, 3, 4], Table),
        (Domain.of(a=4), [[1], [2], [3], [3]], Codes),
        (Domain.of(), np.array(5), Table),
        (Domain.of(a=2, b=2, c=2), np.zeros((2, 3), dtype=int), Codes),
    ],
)
def test_arrays_are_codes_or_counts(domain, data, kind):
    source = source_of(data, domain, name="people")
    assert type(source) is kind
    assert source.domain == domain
    assert source.name == "people"


def test_mappings_hold_values():
    source = source_of({"age": [18, 20], "sex": ["M", "M"], "job": [0, 3]}, DOMAIN, name="people")
    assert [table.tolist() for table in source.count([(0,), (1,), (2,)])] == [[1, 0, 1], [0, 2], [1, 0, 0, 1]]
    assert source.name == "people"
    with refused(
        "the column 'age' holds values outside the domain of 'age'; "
        "widen the domain, or choose outside: other, drop or clamp"
    ):
        source_of({"age": [0, 2], "sex": ["M", "M"], "job": [0, 3]}, DOMAIN)  # codes of ages


@pytest.mark.parametrize(
    "source",
    [
        Codes(AMBIGUOUS, [[0, 1]], "people"),
        Table(AMBIGUOUS, np.ones((3, 2), dtype=int), "people"),
        Marginals(AMBIGUOUS, {"age": [1, 2, 3]}, "people"),
    ],
    ids=lambda source: type(source).__name__,
)
def test_sources_pass_through(source):
    assert source_of(source, AMBIGUOUS) is source
    assert source_of(source, Domain.of(age=3, sex=2), name="people") is source
    with refused("the source has another domain than the one given; make it with the same domain"):
        source_of(source, PAIR)
    with refused("the source's name is 'people', not 'others'; name it where it is made"):
        source_of(source, AMBIGUOUS, name="others")


@pytest.mark.parametrize("rows", [0, 2, 3, 4, 100])
def test_ambiguity_does_not_depend_on_the_rows(rows):
    with refused(
        "an array with two columns may be codes or counts here; say Codes(domain, array) or Table(domain, array)"
    ):
        source_of(np.zeros((rows, 2), dtype=int), AMBIGUOUS)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("people", f"cannot tell what kind of file ends in ''; give one that ends in {LISTED}"),
        (None, "cannot count data of type 'NoneType'; give a file, a data frame, columns by name or a source"),
        ({1, 2}, "cannot count data of type 'set'; give a file, a data frame, columns by name or a source"),
        (np.zeros((5, 4), dtype=int), "the array is neither codes, rows x 3 attributes, nor counts of shape (3, 2, 4)"),
        (np.zeros(5, dtype=int), "the array is neither codes, rows x 3 attributes, nor counts of shape (3, 2, 4)"),
        (
            np.zeros((3, 2, 5), dtype=int),
            "the table of (age, sex, job) must have the shape (3, 2, 4), one axis per attribute",
        ),
        ([[1, 2, 3], [1]], "the data cannot be read as an array; give rows of equal length"),
        (
            {"age": [18], "sex": ["F"]},
            "the column 'job' is missing; give the name it has in the data, as column or as id of the unit",
        ),
    ],
)
def test_other_data_is_refused(data, message):
    with refused(message):
        source_of(data, DOMAIN)


@pytest.mark.parametrize("secret", ["hun/ter2", "hun?ter2", "hun#ter2"])
def test_passwords_that_split_a_uri_stay_secret(secret):
    with pytest.raises(LeastnoiseError) as raised:
        source_of(f"postgresql://me:{secret}@localhost/db?table=t", Domain.of(age=3))
    text = "the password in the postgresql URI has a special character; write / as %2F, ? as %3F, # as %23"
    assert str(raised.value) == text


class Unread(list):
    """A column that notices when somebody reads it."""

    def __iter__(self):
        raise AssertionError("a value was read")

    __getitem__ = __iter__


def test_preparing_reads_no_values():
    ready = prepare({name: Unread() for name in DOMAIN.names}, DOMAIN, name="people")
    assert (ready.name, ready.rows_per_person, ready.drops) == ("people", None, False)
    with pytest.raises(DataError, match=r"^the source could not read the data \(AssertionError\)"):
        ready.open()


@pytest.mark.parametrize(
    "data",
    [
        {"age": [18, 99], "sex": ["F", "M"], "job": [0, 1]},
        {"age": np.array([18, 99]), "sex": np.array(["F", "M"]), "job": [0, 1]},
        pd.DataFrame({"age": [18, 99], "sex": pd.Categorical(["F", "M"]), "job": [0, 1]}),
        pa.table({"age": [18, 99], "sex": ["F", "M"], "job": [0, 1]}),
        polars.DataFrame({"age": [18, 99], "sex": ["F", "M"], "job": [0, 1]}),
        np.array([[0, 0, 0], [2, 1, 4]]),
        [[0, 0, 0], [2, 1, 4]],
        [[0, 0, 0], [2, 1]],
        np.full((3, 2, 4), -1),
        {"age": [18], "sex": ["F", "M"], "job": [0, 1]},
    ],
    ids=repr,
)
def test_values_are_refused_when_opened_and_no_earlier(data):
    ready = prepare(data, DOMAIN)
    with pytest.raises(DataError):
        ready.open()


@pytest.mark.parametrize("rows", [0, 2])
@pytest.mark.parametrize(
    "data",
    [
        lambda n: {"age": np.full(n, "18"), "sex": ["F"] * n, "job": [0] * n},
        lambda n: pd.DataFrame({"age": [18] * n, "sex": np.zeros(n), "job": [0] * n}),
        lambda n: pd.DataFrame({"age": [18] * n, "sex": pd.Categorical([0] * n, [0]), "job": [0] * n}),
        lambda n: pa.table({"age": [18] * n, "sex": pa.array([b"F"] * n, pa.binary()), "job": [0] * n}),
        lambda n: polars.DataFrame({"age": [18] * n, "sex": polars.Series([1.0] * n, dtype=float), "job": [0] * n}),
        lambda n: {"age": [18] * n, "sex": polars.Series([1.0] * n, dtype=float), "job": [0] * n},
        lambda n: {"age": [18] * n, "sex": ["F"] * n},
        lambda n: np.zeros((n, 3)),
        lambda n: np.zeros((3, 2, 4 + n)),
        lambda n: np.zeros((3, 2, 4, n)),
    ],
)
def test_refusals_of_prepare_do_not_depend_on_values(data, rows):
    with pytest.raises(LeastnoiseError):
        prepare(data(rows), DOMAIN)


class Custom:
    """A source of somebody's own, which says what it knows."""

    domain, name = AMBIGUOUS, "custom"

    def __init__(self, **known):
        self.__dict__.update(known)

    def count(self, sets):
        raise AssertionError("a value was read")


@pytest.mark.parametrize(
    ("data", "options", "known"),
    [
        (Custom(), {}, (None, None)),
        (Custom(rows_per_person=3, drops=True), {}, (3, True)),
        (Codes(AMBIGUOUS, [[0, 1]]), {}, (None, False)),
        (Table(AMBIGUOUS, np.ones((3, 2), dtype=int)), {}, (None, False)),
        (Marginals(AMBIGUOUS, {"age": [1, 2, 3]}), {}, (None, False)),
        (np.ones((3, 2, 1), dtype=int), {"domain": Domain.of(a=3, b=2, c=1)}, (None, False)),
        ({"age": [0], "sex": [1]}, {}, (None, False)),
        ({"age": [0], "sex": [1]}, {"rules": {"age": {"outside": "clamp"}}}, (None, False)),
        ({"age": [0], "sex": [1]}, {"rules": {"age": {"outside": "drop"}}}, (None, True)),
        ({"age": [0], "sex": [1]}, {"rules": {"sex": {"missing": "drop"}}}, (None, True)),
        ({"age": [0], "sex": [1], "id": [7]}, {"unit": {"id": "id", "max_rows": 1}}, (1, False)),
        ({"age": [0], "sex": [1], "id": [7]}, {"unit": {"id": "id", "max_rows": 2, "missing": "drop"}}, (2, True)),
    ],
)
def test_prepared_data_says_what_is_known_of_its_rows(data, options, known, tmp_path):
    domain = options.pop("domain", Domain.of(age=range(3), sex=range(2)) if isinstance(data, dict) else AMBIGUOUS)
    ready = prepare(data, domain, **options)
    assert (ready.rows_per_person, ready.drops) == known
    if isinstance(data, dict):
        source = ready.open()
        assert (source.rows_per_person, source.drops) == known
        parquet.write_table(pa.table(data), tmp_path / "data.parquet")
        ready = prepare(tmp_path / "data.parquet", domain, **options)
        assert (ready.rows_per_person, ready.drops) == known
        assert (ready.open().rows_per_person, ready.open().drops) == known
