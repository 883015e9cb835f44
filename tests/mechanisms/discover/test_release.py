"""Keys from a spec or from Python: what is found, saved, asked, shown, and refused."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import leastnoise as ln
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.discover import KeysRelease
from leastnoise.mechanisms.discover.from_spec import discover_plans
from leastnoise.mechanisms.discover.plan import discover
from leastnoise.mechanisms.discover.release import found_keys
from leastnoise.mechanisms.from_spec import for_tables
from leastnoise.mechanisms.mechanism import counting_of
from leastnoise.mechanisms.side_counts import WithSideCounts, with_side_counts
from leastnoise.noise import SecureRandomSource, SeededRandomSource
from leastnoise.report.pages import count, write
from leastnoise.sources import source_of
from leastnoise.workload.spec import parse_spec
from tests.shell import call, fail

SPEC = """\
attributes:
  page: {discover: {at_least: 60, max_keys: 2}, missing: drop}
  day: {range: [0, 2]}
unit: {id: person, max_rows: 3}
workload: [{queries: marginal, ways: [1, 2]}]
privacy: {epsilon: 6, delta: 1e-9}
"""
UNIT = {"id": "person", "max_rows": 3}


def visits(rows: int = 6000) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    pages = np.char.add("/p", np.minimum(rng.zipf(1.6, rows), 10**6).astype(str))
    return pd.DataFrame({"person": rng.integers(0, 2000, rows), "page": pages, "day": rng.integers(0, 3, rows)})


def released(seed: int = 1) -> KeysRelease:
    plan = discover("page", ln.Budget(epsilon=6, delta=1e-9, rows_per_person=3))
    return plan.run(visits(), unit=UNIT | {"secret": b"s"}, random_source=SeededRandomSource(seed), dataset="visits")


def test_probabilities_match_a_simulation():
    """10,000 keys of the same size each; five standard deviations, so that a false alarm has a rate of 1e-6 each."""
    plan = discover("page", ln.Budget(epsilon=1, delta=1e-9, rows_per_person=2))
    for people in (plan.least, plan.at_least - 8, plan.at_least, plan.at_least + 15):
        batch = [([f"{k:05d}" for k in range(10_000)], np.full(10_000, people))]
        found, _ = found_keys(iter(batch), plan.variance, plan.at_least, SeededRandomSource(people))
        p = plan.found(people)
        assert abs(len(found) / 10_000 - p) <= 5 * (p * (1 - p) / 10_000) ** 0.5 + 1e-9
    assert plan.found(plan.least - 1) == 0
    assert plan.found(plan.people_for(0.95)) >= 0.95 > plan.found(plan.people_for(0.95) - 1)


def test_found_keys_are_those_above_the_threshold():
    keys = ["a", "b", "c", "other", "x" * 1001, "z\0"]
    batches = [(keys[:3], np.array([10, 50, 99])), (keys[3:], np.array([500, 500, 500]))]
    found, noisy = found_keys(iter(batches), Fraction(1, 10**6), 50, SeededRandomSource(1))
    assert (found, noisy.tolist()) == (("c", "b"), [99, 50])


def test_order_is_that_of_what_is_published():
    """The same whatever the order of rows and of batches."""
    batches = [(["a", "b", "c", "d"], np.array([70, 80, 70, 90]))]
    found, noisy = found_keys(iter(batches), Fraction(1, 10**6), 50, SeededRandomSource(1))
    assert (found, noisy.tolist()) == (("d", "b", "a", "c"), [90, 80, 70, 70])


def test_save_and_load(tmp_path):
    release = released()
    assert len(release.keys) > 3
    release.save(tmp_path / "out", tables="csv")
    loaded = ln.load(tmp_path / "out")
    assert (loaded.keys, loaded.noisy.tolist()) == (release.keys, release.noisy.tolist())
    assert (loaded.cost, loaded.privacy, repr(loaded)) == (release.cost, release.privacy, repr(release))
    assert "except with probability" in loaded.privacy.statement
    assert loaded.ask(f"page = '{release.keys[0]}'").value == release.noisy[0]
    assert loaded.table("page")["count"].tolist() == release.noisy.tolist()
    assert count(loaded, write(loaded, tmp_path / "page.html")) == ("keys", len(release.keys), 0)


@pytest.mark.parametrize("change", ["noisy", "keys", "at_least", "variance", "least"])
def test_refuses_whatever_was_changed(tmp_path, change):
    """Sealed anew, a folder that no run can have left is still refused."""
    from leastnoise.mechanisms.discover.files import from_record, record

    saved = record(released())
    header = saved.header
    if change == "noisy":
        saved.arrays["noisy"] = saved.arrays["noisy"][::-1].copy()
    elif change == "keys":
        saved.names.keys[0] = saved.names.keys[1]
    else:
        value = "1/1" if change == "variance" else getattr(header, change) + 1
        object.__setattr__(saved, "header", header.model_copy(update={change: value}))
    with pytest.raises(LeastnoiseError) as error:
        from_record(saved)
    assert "\n" not in str(error.value)


def test_long_lists_are_cut(tmp_path):
    numbers = write(released(), tmp_path / "page.html", rows=2)
    assert len(numbers["rows"]) == 2 < numbers["keys"]
    assert "The first 2 of" in (tmp_path / "page.html").read_text()


def test_no_key_at_all(tmp_path):
    plan = discover("page", ln.Budget(epsilon=1, delta=1e-9, rows_per_person=1), at_least=10**6)
    release = plan.run({"page": ["a"], "person": ["p"]}, unit={"id": "person", "max_rows": 1}, out=tmp_path / "out")
    assert release.keys == ()
    assert release.attribute.size == 1
    with pytest.raises(LeastnoiseError, match="no key of 'page' was found"):
        ln.load(tmp_path / "out").total()
    write(release, tmp_path / "page.html")


def test_ledger_is_debited_first(tmp_path):
    class Failing(SecureRandomSource):
        def words(self, count):
            raise RuntimeError("no bits")

    plan = discover("page", ln.Budget(epsilon=6, delta=1e-9, rows_per_person=3))
    book = ln.Ledger.create(tmp_path / "l", ln.Budget(epsilon=7, delta=1e-9, rows_per_person=3), "visits")
    with pytest.raises(RuntimeError, match="no bits"):
        plan.run(visits(), unit=UNIT, ledger=book, random_source=Failing())
    (entry,) = book.entries()
    assert entry.cost == plan.cost
    with pytest.raises(ln.BudgetError):
        plan.run(visits(), unit=UNIT, ledger=book)
    assert len(book.entries()) == 1


def test_keys_and_tables_cost_no_more_than_the_budget():
    spec = parse_spec(SPEC)
    (plan,) = discover_plans(spec).values()
    tables = ln.plan_spec(parse_spec(SPEC, keys={"page": ["/p1", "/p2"]}))
    total = plan.cost + tables.cost
    assert total.epsilon_at(1e-9) <= 6
    assert total.epsilon_at(1e-9) > 5.9
    assert tables.domain["page"].values.items == ("/p1", "/p2", "other")
    assert for_tables(for_tables(parse_spec(SPEC, keys={"page": ["/p1"]}))).discover == {}


def test_commands(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("visits.yaml").write_text(SPEC)
    visits().to_csv("visits.csv", index=False)
    call(capsys, *"ledger init v.ledger --dataset visits --protects people --epsilon 6 --delta 1e-9".split())
    assert "a key is found with a probability of 50% from 60 people on" in call(capsys, "plan", "visits.yaml")[1]
    assert "are not known yet; find them first with leastnoise discover visits.yaml" in fail(
        capsys, *"release visits.yaml --data visits.csv --out out --ledger v.ledger".split()
    )
    for command in (
        "plan visits.yaml --json",
        "discover visits.yaml --data visits.csv --out keys --ledger v.ledger --json",
        "show keys", "show keys --json", "table keys page", "table keys page --json",
        "report keys", "audit keys --runs 100",
        "plan visits.yaml --keys keys --json",
        "release visits.yaml --keys keys --data visits.csv --out out --ledger v.ledger --json",
    ):  # fmt: skip
        code, out, err = call(capsys, *command.split())
        assert code == 0, (command, err)
        if "--json" in command:
            json.loads(out)
    found, tables = ln.load("keys"), ln.load("out")
    assert tables.domain["page"].values.items == (*found.keys, "other")
    book = ln.Ledger.open("v.ledger")
    assert book.spent.epsilon_at(1e-9) <= 6
    assert "was measured on 'visits' before" in fail(
        capsys, *"discover visits.yaml --data visits.csv --out again --ledger v.ledger".split(), code=2
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("unit: {id: person, max_rows: 3}\n", ""), "line 2: discover counts people, so it needs a unit"),
        (("privacy: {epsilon: 6, delta: 1e-9}", ""), "the spec needs 'privacy'"),
        (("at_least: 60", "at_least: 0"), "at_least 0 is not between 1"),
        (("at_least: 60", "at_leest: 60"), "unknown key 'at_leest' in discover; did you mean 'at_least'?"),
        (("missing: drop", "outside: drop"), "keys that are not found are 'other'; leave 'outside: drop' out"),
        (("missing: drop", "repeat: 3"), "leave 'repeat' out"),
        (("max_keys: 2", "share: 1"), "share is '1', not a share"),
        (("discover: {at_least: 60, max_keys: 2}", "discover: 60"), "discover is '60'; write for example"),
        (("on", "on"), None),
    ],
)  # fmt: skip
def test_bad_specs_are_one_line(change, words):
    text = SPEC.replace(*change)
    if words is None:
        with pytest.raises(LeastnoiseError, match="keys of 'day' are given, but the spec does not discover them"):
            parse_spec(text, keys={"day": [1]})
        return
    with pytest.raises(LeastnoiseError) as error:
        parse_spec(text)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_thresholds_of_specs_are_refused():
    with pytest.raises(LeastnoiseError, match=r"at_least 5 is too low for keys of 'page': .* use at_least: "):
        ln.plan_spec(parse_spec(SPEC.replace("at_least: 60", "at_least: 5")))
    rows = SPEC.replace("unit: {id: person, max_rows: 3}\n", "").replace("1e-9}", "1e-9, rows_per_person: 1}")
    several = parse_spec(rows)
    with pytest.raises(LeastnoiseError, match="give a unit"):
        ln.plan_spec(several).run(visits(), rules=several.rules)
    alone = parse_spec(rows.replace(", max_keys: 2", ""))
    assert ln.plan_spec(alone).run(visits(), rules=alone.rules).keys


def test_groups_of_people_go_with_keys(tmp_path):
    """Each key of a person counts once anyway: nothing more is needed, and the tables over the keys use the groups."""
    text = SPEC.replace("max_rows: 3}", "max_rows: 3, one_per: [page]}")
    spec = parse_spec(text)
    plan = ln.plan_spec(spec)
    assert plan.cost == ln.plan_spec(parse_spec(SPEC)).cost
    release = plan.run(
        visits(), rules=spec.rules, unit=spec.unit_fields, random_source=SeededRandomSource(1), out=tmp_path / "keys"
    )
    assert release.keys
    assert ln.load(tmp_path / "keys").keys == release.keys
    stated = parse_spec(text, keys=release.values)
    assert ln.plan_spec(stated).cost.neighbours.one_per == ("page",)


def test_a_key_may_be_called_unknown():
    """Or what was spent to find it would be lost."""
    text = SPEC.replace("missing: drop", "missing: unknown")
    for keys in (["unknown", "/a"], ["/a"]):
        spec = parse_spec(text, keys={"page": keys})
        domain = spec.workload.domain
        (table,) = source_of({"page": [None, "unknown", "/a"], "day": [0] * 3}, domain, rules=spec.rules).count([(0,)])
        counts = {domain["page"].label(code): count for code, count in enumerate(table.tolist())}
        known = "unknown" in keys
        assert counts == {"unknown": 1 + known, "/a": 1, "other": 1 - known}


def test_keys_have_no_side_counts():
    """Their delta must not get lost in what is measured beside them."""
    unit = {"id": "person", "max_rows": 1}
    plan = discover("page", ln.Budget(epsilon=1, delta=1e-9, rows_per_person=1))
    with pytest.raises(LeastnoiseError, match="keys are found by themselves"):
        with_side_counts(plan, people=0.1, unit=unit)
    assert WithSideCounts(plan, counting_of(plan.domain, None, unit), ()).cost == plan.cost


def test_sources_are_refused():
    plan = discover("page", ln.Budget(epsilon=1, delta=1e-9, rows_per_person=1))
    with pytest.raises(LeastnoiseError, match="keys are found in columns of values"):
        plan.run(ln.sources.Table(plan.domain, np.array([3])))
