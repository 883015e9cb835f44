"""Messages that a new user can meet on the way from a file to a page, each in one line with its fix."""

import datetime
import re
from pathlib import Path

import numpy as np
import openpyxl
import pytest

import leastnoise as ln
from leastnoise.domain.attributes import dates, labelled
from leastnoise.domain.listed import Labelled
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.side_counts import with_side_counts
from leastnoise.noise import SeededRandomSource
from leastnoise.sources.draft import draft
from leastnoise.workload.rules import Rules, codings
from leastnoise.workload.spec import load_spec
from tests.shell import call

SPEC = """\
attributes:
  place: {ATTRIBUTE}
workload: [{queries: marginal, ways: 1}]
privacy: {mu: 1}
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def release(**attributes: object) -> ln.Release:
    domain = ln.Domain.of(attributes)
    return ln.plan(ln.Workload(domain).marginals(ways=1), ln.Budget(mu=1)).run(
        np.zeros(domain.shape, dtype=int), random_source=SeededRandomSource(1)
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ln.bins(low=0), "bins need low, high and a width or count; or edges, such as [0, 18, 65, 120]"),
        (lambda: ln.bins(0, 1, count=10**8), "100,000,000 bins are more than 10,000,000; use a larger width"),
        (lambda: dates("2020-01-01", by="hour of day"), "'hour of day' needs no first and last day; leave them out"),
        (lambda: dates("2020-01-01", "2020-02-01", by="decade"), "dates by 'decade' are not known; use day, week"),
        (
            lambda: dates(datetime.date(1, 1, 1), datetime.date(9999, 12, 31), by="day"),
            "days are more than 200,000; use fewer, or longer periods",
        ),
        (lambda: labelled({}), "a list of values needs at least one value"),
        (lambda: Labelled(("x",)), "each label needs at least one value of the data; write {value: label}"),
        (lambda: Labelled(("x", "y"), keys=((1,), (1,))), "the value 1 has two labels; give it one"),
        (lambda: draft({"a": [1]}), "a spec is drafted from a file or a table; give its path or URI"),  # type: ignore[arg-type]
        (
            lambda: codings(ln.Domain.of(a=["x"]), {"a": Rules(trim="yes")}),  # type: ignore[arg-type]
            "trim is 'yes'; use true or false",
        ),
        (
            lambda: codings(ln.Domain.of(a=dates("2020-01-01", "2020-02-01", by="day")), {"a": Rules(format=3)}),  # type: ignore[arg-type]
            "the format 3 is no text; write for example '%d/%m/%Y'",
        ),
        (
            lambda: release(age=range(200), job=range(90)).ask_all(["median(age)"], by=["age", "job"]),
            "by age, job there are 18,000 groups, more than 10,000; use fewer attributes, or a level",
        ),
        (
            lambda: release(value=["a", "b"]).ask_all(["count()"], by="value"),
            "groups by 'value' would have the name of a column; use a condition instead",
        ),
    ],
)
def test_python_says_what_to_do(make, message):
    with pytest.raises(LeastnoiseError, match=re.escape(message)) as caught:
        make()
    assert "\n" not in str(caught.value)


@pytest.mark.long
@pytest.mark.parametrize(
    ("question", "message"),
    [
        ("top(1, age)", "top compares all pairs of 3,000 values, more than 2,000; use a level of a hierarchy"),
        ("count(place.area = 'a')", "'a' is not on the level 'area' of 'place'"),
    ],
)
def test_questions_say_what_to_do(question, message):
    place = ln.hierarchy({"north": ["a", "b"], "south": ["c"]}, levels=["area", "town"])
    answers = release(age=range(3_000), place=place).ask_all([question])
    assert message in str(answers)


def test_the_largest_counts_of_two_releases_have_no_difference():
    one, other = (
        ln.plan(ln.Workload(ln.Domain.of(a=3)).marginals(), ln.Budget(mu=1)).run(
            np.arange(3), random_source=SeededRandomSource(seed)
        )
        for seed in (1, 2)
    )
    message = "several numbers at once have no difference; ask each release by itself"
    assert message in str(one.ask_all(["top(1, a)"], minus=other))


@pytest.mark.parametrize(
    ("attribute", "content", "message"),
    [
        (
            "labels: codes.csv",
            b"code,label\n1,\x81\n",
            "codes.csv is no CSV file in UTF-8, UTF-16 or Windows-1252; save it",
        ),
        ('labels: "a\\0b.csv"', b"", "cannot be the name of a file; use one beside the spec"),
        ("labels: codes.csv", b"code,label\n1,x\n1,y\n", "codes.csv row 3 gives '1' a second label; keep one"),
    ],
)
def test_specs_say_what_to_do(attribute, content, message):
    Path("codes.csv").write_bytes(content)
    Path("s.yaml").write_text(SPEC.replace("ATTRIBUTE", attribute))
    with pytest.raises(LeastnoiseError, match=re.escape(message)) as caught:
        load_spec("s.yaml")
    assert "\n" not in str(caught.value)


def workbook(path: str, names: list[str]) -> None:
    book = openpyxl.Workbook()
    book.active.append(names)  # type: ignore[union-attr]
    book.save(path)


def test_files_that_do_not_fit_together(capsys):
    Path("s.yaml").write_text(SPEC.replace("ATTRIBUTE", "size: 3"))
    for folder in ("texts", "books", "broken"):
        Path(folder).mkdir()
    Path("texts/a.csv").write_text("place\n1\n")
    Path("texts/b.csv").write_text("place\n1\n")
    workbook("books/a.xlsx", ["place"])
    workbook("books/b.xlsx", ["other"])
    Path("broken/a.xlsx").write_bytes(b"nothing of a workbook")
    expected = {
        "books": "the workbooks differ in their columns",
        "broken": "cannot be read as a workbook; save it anew",
    }
    for folder, message in expected.items():
        code, _, err = call(capsys, "check", "s.yaml", "--data", folder)
        assert code in (2, 3)
        assert message in err
        assert err.count("\n") == 1
    assert call(capsys, "check", "s.yaml", "--data", "texts")[0] == 0


def test_pages_of_other_releases_have_no_adjusted_tables(capsys):
    ln.matrix_plan(np.tri(3), ln.Budget(mu=1)).run(np.arange(3), random_source=SeededRandomSource(1)).save("out")
    code, _, err = call(capsys, "report", "out", "--adjusted", "print")
    assert code == 2
    assert "--adjusted is for releases of tables" in err


def test_shares_that_are_too_small_are_refused():
    plan = ln.plan(ln.Workload(ln.Domain.of(a=3)).marginals(), ln.Budget(mu=1e-6))
    with pytest.raises(LeastnoiseError, match="would need noise beyond 1e16, which cannot be drawn; give it a larger"):
        with_side_counts(plan, quality=1e-25, rules={"a": {"missing": "drop"}})
