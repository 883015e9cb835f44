import re

import numpy as np
import pytest

from leastnoise.domain import Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.sources import Codes, Marginals, Table, as_source, source_of

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
    source = as_source(domain, data, "people")
    assert type(source) is kind
    assert source.domain == domain
    assert source.name == "people"


def test_mappings_hold_values():
    source = as_source(DOMAIN, {"age": [18, 20], "sex": ["M", "M"], "job": [0, 3]}, "people")
    assert [table.tolist() for table in source.count([(0,), (1,), (2,)])] == [[1, 0, 1], [0, 2], [1, 0, 0, 1]]
    assert source.name == "people"
    with refused(
        "the column 'age' holds values outside the domain of 'age'; "
        "widen the domain, or choose outside: other, drop or clamp"
    ):
        as_source(DOMAIN, {"age": [0, 2], "sex": ["M", "M"], "job": [0, 3]})  # codes of ages


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
    assert as_source(AMBIGUOUS, source) is source
    assert as_source(Domain.of(age=3, sex=2), source, "people") is source
    with refused("the source has another domain than the one asked for; make it with the same domain"):
        as_source(PAIR, source)
    with refused("the source's name is 'people', not 'others'; name it where it is made"):
        as_source(AMBIGUOUS, source, "others")


@pytest.mark.parametrize("rows", [0, 2, 3, 4, 100])
def test_ambiguity_does_not_depend_on_the_rows(rows):
    with refused(
        "an array with two columns may be codes or counts here; say Codes(domain, array) or Table(domain, array)"
    ):
        as_source(AMBIGUOUS, np.zeros((rows, 2), dtype=int))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("people", "cannot tell what kind of file 'people' is; give one that ends in .csv, .parquet, .pq"),
        (None, "cannot count data of type 'NoneType'; give a file, a data frame, columns by name or a source"),
        ({1, 2}, "cannot count data of type 'set'; give a file, a data frame, columns by name or a source"),
        (np.zeros((5, 4), dtype=int), "the array is neither codes, rows x 3 attributes, nor counts of shape (3, 2, 4)"),
        (np.zeros(5, dtype=int), "the array is neither codes, rows x 3 attributes, nor counts of shape (3, 2, 4)"),
        (
            np.zeros((3, 2, 5), dtype=int),
            "the table of (age, sex, job) must have the shape (3, 2, 4), one axis per attribute",
        ),
        ([[1, 2, 3], [1]], "the data cannot be read as an array; give rows of equal length"),
        ({"age": [18], "sex": ["F"]}, "the column 'job' is missing; every attribute of the domain needs one"),
    ],
)
def test_other_data_is_refused(data, message):
    with refused(message):
        as_source(DOMAIN, data)


@pytest.mark.parametrize("secret", ["hun/ter2", "hun?ter2", "hun#ter2"])
def test_passwords_that_split_a_uri_stay_secret(secret):
    with pytest.raises(LeastnoiseError) as raised:
        source_of(f"postgresql://me:{secret}@localhost/db?table=t", Domain.of(age=3))
    said = "the password in the postgresql URI has a special character; write / as %2F, ? as %3F, # as %23"
    assert str(raised.value) == said
