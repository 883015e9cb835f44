"""Every release says which rows were counted, and by which rules others were not."""

import json

import pytest

import leastnoise as ln
from leastnoise.noise import SeededRandomSource
from leastnoise.release import merge
from leastnoise.release.counting import BY_RULE, IN_TABLES, NO_BOUND, NOT_MEASURED, Counting, RowRule, counting_text
from leastnoise.report.pages import write
from leastnoise.sources import source_of
from tests.contract.kinds import KINDS
from tests.shell import call

DOMAIN = ln.Domain.of(age=range(5), sex=["F", "M", "other"])
ROWS = {"age": [0, 3, None, 9, 4], "sex": ["F", "x", "M", None, "F"], "who": [1, 1, 2, 3, None]}
RULES = {"age": {"outside": "clamp", "missing": "drop"}, "sex": {"outside": "other", "missing": "M"}}
UNIT = {"id": "who", "max_rows": 1, "missing": "drop"}
STATED = (
    "Of each person at most one row is counted. Rows are left out where 'age' is missing or an id is missing. "
    "In 'age', values outside count as the nearest end of the domain. In 'sex', missing values count as 'M'. "
    "In 'sex', values outside count as 'other'. How many people that touched was not measured."
)


def release_of(data=ROWS, seed=1, **options):
    budget = ln.Budget(mu=1, rows_per_person=1) if "unit" in options else ln.Budget(mu=1)
    plan = ln.plan(ln.Workload(DOMAIN).marginals(ways=1), budget, baseline="uniform")
    return plan.run(data, random_source=SeededRandomSource(seed), **options)


def rules_of(release):
    return {(line["attribute"], line["rule"]): line["touched"] for line in release.counting()["rules"]}


def test_rules_are_in_every_place(capsys, tmp_path):
    release = release_of(rules=RULES, unit=UNIT)
    assert STATED in release.privacy.statement
    release.save(tmp_path / "out", tables="csv")
    stored = json.loads((tmp_path / "out" / "release.json").read_text())["parts"][0]["run"]["counting"]
    assert stored["rules"][0] == {"attribute": "age", "column": "age", "outside": "clamp", "missing": "drop"}
    assert (stored["max_rows"], stored["ids"]) == (1, "drop")
    assert STATED in (tmp_path / "out" / "tables" / "README.txt").read_text()
    loaded = ln.load(tmp_path / "out")
    assert loaded.counting() == release.counting()
    shown = call(capsys, "show", tmp_path / "out")[1]
    write(loaded, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "rows counted: " in shown
    assert "Rows counted: " in page
    assert "rows in the data" not in page.lower()
    for line in counting_text(release.counting())[1:]:
        assert line in shown
        advice = "quality: 0.02" in line  # for who runs it, not for readers
        assert (line.strip().replace("'", "&#x27;") in page) != advice
    assert json.loads(call(capsys, "show", tmp_path / "out", "--json")[1])["counting"] == release.counting()


def test_every_rule_has_its_line():
    assert rules_of(release_of(rules=RULES, unit=UNIT)) == {
        ("age", "missing: drop"): NOT_MEASURED,
        ("age", "outside: clamp"): NOT_MEASURED,
        ("sex", "missing: M"): NOT_MEASURED,
        ("sex", "outside: other"): NOT_MEASURED,
        (None, "max_rows: 1"): NOT_MEASURED,
        (None, "missing: drop"): NO_BOUND,
    }


def test_missing_values_that_count_as_unknown_are_in_the_tables():
    """No budget is advised for a number that is published anyway."""
    domain = ln.Domain.of(age=range(5), sex=ln.or_unknown(["F", "M"]))
    plan = ln.plan(ln.Workload(domain).marginals(ways=1), ln.Budget(mu=1), baseline="uniform")
    release = plan.run(
        ROWS | {"age": [0] * 5, "sex": ["F", None, "M", None, "F"]}, rules={"sex": {"missing": "unknown"}}
    )
    assert rules_of(release)["sex", "missing: unknown"] == IN_TABLES
    text = counting_text(release.counting())
    assert text[1] == f"  sex, missing: unknown (a missing value counts as 'unknown'): {IN_TABLES}"
    assert not [line for line in text if "quality" in line]
    assert (
        "missing values count as 'unknown'. How many rows that touched is in the tables." in release.privacy.statement
    )


def test_where_rules_stop_runs_nothing_was_left_out():
    release = release_of({"age": [0, 1], "sex": ["F", "M"]})
    assert rules_of(release) == {("age and sex", "missing: error"): BY_RULE, ("age and sex", "outside: error"): BY_RULE}
    assert "left out" not in release.privacy.statement
    assert "not measured" not in release.privacy.statement


def test_rules_of_a_source_made_elsewhere_are_not_known():
    release = release_of(source_of(ROWS, DOMAIN, rules=RULES))
    assert release.counting()["rules"] is None
    assert "not known here" in counting_text(release.counting())[1]


def test_a_column_of_another_name_is_kept():
    release = release_of({"AGE": [1], "sex": ["F"]}, rules={"age": {"column": "AGE"}})
    assert release.origins[0].run.counting.rules[0].column == "AGE"


def test_merged_releases_have_the_rules_of_all():
    first, second = release_of(rules=RULES), release_of(seed=2, rules=RULES)
    other = release_of(seed=3, rules=RULES | {"sex": {"outside": "drop", "missing": "drop"}})
    assert merge(first, second).counting()["rules"] == first.counting()["rules"]
    assert ("sex", "outside: drop") in rules_of(merge(first, other))
    assert ("sex", "outside: other") in rules_of(merge(first, other))
    assert merge(first, release_of(source_of(ROWS, DOMAIN, rules=RULES), seed=4)).counting()["rules"] is None


def test_many_attributes_make_a_short_statement():
    rules = [RowRule(attribute=f"a{k}", column="c", outside="drop", missing="error") for k in range(200)]
    (text, _) = Counting(rules=rules, max_rows=None, ids=None).sentences()
    assert text == "Rows are left out where 'a0', 'a1', 'a2', 'a3', 'a4' or 195 others is outside its domain."


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.method != "stream" and not kind.options])
def test_every_kind_keeps_its_rules(name, tmp_path):
    """Of columns of values, with a rule for the first attribute."""
    kind = KINDS[name]
    mechanism = kind.mechanism()
    columns = {a.name: [a.value(0), a.value(1)] for a in mechanism.domain}
    first = mechanism.domain.names[0]
    rules = {first: {"missing": mechanism.domain[first].value(1)}}
    mechanism.run(columns, rules=rules, out=tmp_path / "out")
    release = ln.load(tmp_path / "out")
    assert release.counting()["rules"][0]["rule"] == f"missing: {mechanism.domain[first].value(1)}"
    assert f"In '{first}', missing values count as" in release.privacy.statement
    assert release.counting()["rows_counted"]["std_error"] >= 0
