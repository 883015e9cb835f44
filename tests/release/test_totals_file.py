"""Known totals from files, on the command line."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import leastnoise as ln
from leastnoise.errors import LeastnoiseError
from leastnoise.release.postprocessing.readers import AdjustedTables
from leastnoise.release.postprocessing.totals_file import read_totals
from leastnoise.sources import Table
from tests.shell import call

DOMAIN = ln.Domain.of(age=ln.bins(0, 30, width=10), sex=ln.or_unknown(["F", "M"]), rooms=[1, 2])
PEOPLE = np.arange(18).reshape(3, 3, 2) * 7


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def released() -> ln.Release:
    work = ln.Workload(DOMAIN).marginals(ways=[1, 2])
    return ln.plan(work, ln.Budget(mu=0.5)).run(Table(DOMAIN, PEOPLE))


def test_known_totals_of_a_file_are_kept_exactly(capsys):
    """A file as an export has it; another with the columns in another order, and one more column."""
    release = released()
    release.save("out")
    first = release.table("age").assign(count=PEOPLE.sum((1, 2)))
    first.to_csv("age.csv", index=False)
    second = release.table("rooms", "sex").assign(count=PEOPLE.sum(0).T.ravel(), source="register")
    second[["source", "count", "sex", "rooms"]].sample(frac=1, random_state=1).to_csv("more.csv", index=False)
    code, _, err = call(capsys, "adjust", "out", "--totals", "age.csv", "--totals", "more.csv", "--out", "printed")
    assert code == 0, err
    printed = AdjustedTables.load(Path("printed"))
    np.testing.assert_allclose(printed.counts("age"), PEOPLE.sum((1, 2)), atol=1e-6)
    np.testing.assert_allclose(printed.counts("sex", "rooms"), PEOPLE.sum(0), atol=1e-6)


def test_totals_that_noise_does_not_explain_are_told(capsys):
    """As 9.000 for 9000 in some countries; right ones are not."""
    released().save("out")
    for rows, wrong in (("1,504\n2,567\n", False), ("1,0.504\n2,0.567\n", True)):
        Path("rooms.csv").write_text(f"rooms,count\n{rows}")
        code, out, err = call(capsys, "adjust", "out", "--totals", "rooms.csv", "--out", f"printed{wrong}")
        assert code == 0, err
        told = "standard errors from the released counts, which noise does not explain"
        assert (told in out) == (told in " ".join(AdjustedTables.load(Path(f"printed{wrong}")).footnotes)) == wrong


def test_attributes_are_those_of_the_columns():
    pd.DataFrame({"rooms": [2, 1], "count": [5, 4.5], "low": 0}).to_csv("rooms.csv", index=False)
    names, table = read_totals(Path("rooms.csv"), DOMAIN)
    assert (names, table.tolist()) == (("rooms",), [4.5, 5])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rooms,number\n1,2\n", "f.csv has no totals; its columns are attributes (age, sex, rooms, ...) and 'count'"),
        ("kind,count\na,2\n", "f.csv has no totals; its columns are attributes"),
        ("rooms,count\n1,2\n", "f.csv needs 2 rows of totals and lacks 1; write 0 where nobody is"),
        ("rooms,count\n1,2\n1,3\n", "f.csv row 3 has a cell that another row has; keep one of them"),
        ("rooms,count\n1,2\n3,3\n", "f.csv row 3: '3' is no value of 'rooms' (1, 2, ...)"),
        ("rooms,count\n1,many\n2,3\n", "f.csv row 2: the count 'many' is no number"),
        ("rooms,count\n1,nan\n2,3\n", "f.csv row 2: the count 'nan' is no number"),
    ],
)
def test_files_that_are_no_totals_are_refused(text, message):
    Path("f.csv").write_text(text)
    with pytest.raises(LeastnoiseError) as error:
        read_totals(Path("f.csv"), DOMAIN)
    assert message in str(error.value)


def test_a_file_that_is_not_there_is_named(capsys):
    released().save("out")
    code, _, err = call(capsys, "adjust", "out", "--totals", "none.csv", "--out", "printed")
    assert code == 2
    assert "cannot read the file of totals 'none.csv'" in err
