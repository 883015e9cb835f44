"""Attributes as offices have them, from a spec to tables and questions: unequal bins, labels, recodes."""

import numpy as np
import pandas as pd
import pytest

import leastnoise as ln
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.from_spec import plan_spec
from leastnoise.workload.spec import load_spec, parse_spec

SPEC = """
attributes:
  age:    {bins: {edges: [0, 18, 25, 65, 120]}, outside: clamp}
  sex:    {values: {1: Male, 2: Female}}
  region: {labels: codes.csv, outside: drop}
workload: [{queries: hybrid, ways: [1, 2]}]
privacy: {mu: 2000}
"""
CODES = "code,label,remark\nN1,north,x\nN2,north,x\n7,south,x\n007,west,x\n"


@pytest.fixture
def spec(tmp_path):
    (tmp_path / "codes.csv").write_text(CODES)
    (tmp_path / "spec.yaml").write_text(SPEC)
    return load_spec(tmp_path / "spec.yaml")


@pytest.fixture
def frame(rng):
    rows = 3000
    return pd.DataFrame(
        {
            "age": rng.integers(-5, 140, rows),
            "sex": rng.integers(1, 3, rows),
            "region": rng.choice(["N1", "N2", "7", "007", "other"], rows),
        }
    )


@pytest.fixture
def release(spec, frame):
    return plan_spec(spec).run(frame, rules=spec.rules)


def test_tables_show_labels(release, frame):
    table = release.table("age", "sex")
    assert table["age"].unique().tolist() == ["under 18", "[18, 25)", "[25, 65)", "65 or more"]
    assert table["sex"].unique().tolist() == ["Male", "Female"]
    kept = frame[frame.region != "other"]
    expected = [((kept.age < 18) & (kept.sex == 1)).sum(), ((kept.age >= 65) & (kept.sex == 2)).sum()]
    assert np.rint([table["count"].iloc[0], table["count"].iloc[-1]]).tolist() == expected
    assert release.table("region")["region"].tolist() == ["north", "south", "west"]


@pytest.mark.parametrize(
    ("question", "condition"),
    [
        ("sex = 'Male'", lambda f: f.sex == 1),
        ("sex = 1", lambda f: f.sex == 1),
        ("sex in ('Male', 2)", lambda f: f.sex > 0),
        ("age = 'under 18'", lambda f: f.age < 18),
        ("age >= 65", lambda f: f.age >= 65),
        ("18 <= age < 65 and sex = 'Female'", lambda f: (f.age >= 18) & (f.age < 65) & (f.sex == 2)),
        ("region = 'north'", lambda f: f.region.isin(["N1", "N2"])),
        ("region = 'N2'", lambda f: f.region.isin(["N1", "N2"])),
        ("region = 7", lambda f: f.region == "7"),
        ("region = '007'", lambda f: f.region == "007"),
    ],
)
def test_questions_take_labels_and_codes(release, frame, question, condition):
    kept = frame[frame.region != "other"]
    assert round(release.ask(question).value) == int(condition(kept).sum())


@pytest.mark.parametrize(
    ("question", "line"),
    [
        ("sex = 'Mal'", "'Mal' is not a value of 'sex' (Male, Female); nearest is 'Male'"),
        ("age = 'under 19'", "'under 19' is no bin of 'age'; write a range or a bin, such as 'under 18'"),
        ("age < 20", "'age' is binned and 20 lies inside [18, 25); use age < 18 or age < 25"),
    ],
)
def test_what_is_no_value_is_refused(release, question, line):
    with pytest.raises(LeastnoiseError) as error:
        release.ask(question)
    assert line in str(error.value)


def test_saved_releases_keep_them(release, tmp_path):
    release.save(tmp_path / "release")
    again = ln.load(tmp_path / "release")
    assert again.domain == release.domain
    assert again.ask("sex = 'Male' and region = 'N2'") == release.ask("sex = 'Male' and region = 'north'")


def test_means_of_unequal_bins_say_what_they_count(release):
    mean = release.mean("age")
    assert "may lie up to 27.5 further" in str(mean)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("code,name\n1,x\n", "codes.csv needs the columns 'code' and 'label'; name them so in its first line"),
        ("code,label\n1,x\n1,y\n", "codes.csv row 3 gives '1' a second label; keep one"),
        ("code,label\n1,\n", "codes.csv row 2 lacks a code or a label; fill it in"),
        ("code,label\n", "codes.csv needs a header and at least one row below it"),
    ],
)
def test_files_of_labels_are_checked(tmp_path, content, line):
    (tmp_path / "codes.csv").write_text(content)
    (tmp_path / "spec.yaml").write_text(SPEC)
    with pytest.raises(LeastnoiseError) as error:
        load_spec(tmp_path / "spec.yaml")
    assert str(error.value) == f"spec.yaml line 5: attribute 'region': {line}"


def test_keys_of_values_are_numbers_unless_quoted():
    text = (
        "attributes: {a: {values: {1: x, '2': y, 2.5: z}}}\nworkload: [{queries: marginal, ways: 1}]\nprivacy: {mu: 1}"
    )
    assert parse_spec(text).workload.domain["a"].values.keys == ((1,), ("2",), (2.5,))
