"""What rules touched, and distinct people, are measured beside the tables: right, paid for, and not to be forged."""

import json
import re
from collections import defaultdict
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.from_spec import plan_spec
from leastnoise.mechanisms.side_counts import with_side_counts
from leastnoise.noise import SeededRandomSource
from leastnoise.privacy.neighbours import Neighbours
from leastnoise.release import merge
from leastnoise.release.counting import Counting, RowRule
from leastnoise.release.side_counts import people_sensitivity, side_counts_of
from leastnoise.storage.records import checksum
from leastnoise.workload.spec import parse_spec
from tests.contract.kinds import KINDS
from tests.every import for_every
from tests.neighbours.tape import replaced
from tests.shell import call

DOMAIN = ln.Domain.of(age=range(3), sex=["F", "M", "other"])
RULES = {"age": {"outside": "drop", "missing": "drop"}, "sex": {"outside": "other", "missing": "M"}}
UNIT = {"id": "who", "max_rows": 2, "missing": "drop", "secret": b"x"}
ROWS = {
    "age": [0, 1, 2, None, 9, 9, 0, 0, 1, None],
    "sex": ["F", "x", None, "F", "M", "?", "M", "F", "F", "M"],
    "who": ["a", "a", "a", "a", "b", "b", "c", "c", None, None],
}
HEAD = "attributes: {age: {range: [0, 2], outside: clamp, missing: drop}, sex: {values: [F, M]}}\n"
WORK = "workload: [{queries: marginal, ways: 2}]\n"
PRIVACY = "privacy: {epsilon: 1, delta: 1e-6}\n"


def refused(text):
    return pytest.raises(LeastnoiseError, match=re.escape(text))


def plan_of(budget):
    return ln.plan(ln.Workload(DOMAIN).marginals(ways=1), budget, baseline="uniform")


def by_rows(**options):
    return with_side_counts(plan_of(ln.Budget(mu=1)), quality=0.1, rules=RULES, **options)


def by_people(**options):
    budget = ln.Budget(mu=1, rows_per_person=2)
    return with_side_counts(
        plan_of(budget), quality=0.1, people=0.1, by=["sex", ("sex", "age")], rules=RULES, unit=UNIT
    )


def exact(mechanism, unit=None):
    """The side counts of a run without noise, by kind and attributes."""
    with replaced():
        release = mechanism.run(ROWS, rules=RULES, unit=unit)
    return {(side.kind, *side.attributes): side.counts for side in side_counts_of(release)}


# --- the right numbers ------------------------------------------------------------------------------------------------


def test_rows_that_rules_touch():
    """age missing, age outside, sex missing, sex outside, dropped in all."""
    assert exact(by_rows()) == {("quality",): [2, 2, 1, 2, 4]}


def test_people_that_rules_touch():
    """The same in people, who are a, b and c, and those with more than two rows that could be counted: a."""
    found = exact(by_people(), UNIT)
    assert found[("quality",)] == [1, 1, 1, 2, 2, 1]
    assert found[("people",)] == [2]  # all rows of b are dropped
    assert sum(found[("people", "sex")]) >= 3  # c has both
    assert len(found[("people", "age", "sex")]) == 9


def test_people_are_those_of_the_rows_that_are_counted():
    """Each cell against the rows themselves, over many data sets."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        n = int(rng.integers(0, 30))
        codes = rng.integers(0, 3, (n, 2))
        who = rng.integers(0, 6, n).tolist()
        data = {
            "age": codes[:, 0].tolist(),
            "sex": [DOMAIN["sex"].value(int(c)) for c in codes[:, 1]],
            "who": [str(w) for w in who],
        }
        unit = UNIT | {"max_rows": 30}
        budget = ln.Budget(mu=1, rows_per_person=30)
        mechanism = with_side_counts(plan_of(budget), people=0.1, by=["sex", ("age", "sex")], unit=unit)
        with replaced():
            release = mechanism.run(data, unit=unit)
        seen = defaultdict(set)
        for (age, sex), person in zip(codes.tolist(), who, strict=True):
            for cell in ((), ("sex", sex), ("both", age, sex)):
                seen[cell].add(person)
        assert release.people()["count"].tolist() == [len(seen[()])]
        assert release.people("sex")["count"].tolist() == [len(seen[("sex", s)]) for s in range(3)]
        both = release.people("sex", "age")["count"].to_numpy().reshape(3, 3)
        assert both.tolist() == [[len(seen[("both", a, s)]) for a in range(3)] for s in range(3)]


def test_intervals_cover_the_numbers():
    """400 numbers in 95% intervals: fewer than 350 covered has a probability below 1e-8."""
    mechanism, truth = by_rows(), [2, 2, 1, 2, 4]
    covered = 0
    for seed in range(80):
        release = mechanism.run(ROWS, rules=RULES, random_source=SeededRandomSource(seed))
        numbers = [line["number"] for line in release.counting()["rules"]]
        covered += sum(n["low"] <= t <= n["high"] for n, t in zip(numbers, truth, strict=True))
    assert 350 <= covered <= 398


# --- sensitivity, against all rows and all people there can be --------------------------------------------------------

OUTCOMES = ("error", "drop", "M")


def vector(rules, events):
    """The numbers of one row, from its event per attribute, one by one."""
    out = [events[k] == e for k, r in enumerate(rules) for e in ("missing", "outside") if r.of(e) != "error"]
    drops = sum(r.of(e) == "drop" for r in rules for e in ("missing", "outside"))
    dropped = any(e is not None and r.of(e) == "drop" for r, e in zip(rules, events, strict=True))
    return [*map(int, out), *([int(dropped)] if drops > 1 else [])]


@for_every(
    pair=[*combinations_with_replacement(product(OUTCOMES, OUTCOMES), 2)],
    change=["add-remove", "replace"],
)
def test_sensitivity_of_rows_is_exact(pair, change):
    rules = [RowRule(attribute=f"a{k}", column="c", missing=m, outside=o) for k, (m, o) in enumerate(pair)]
    counting = Counting(rules=rules, max_rows=None, ids=None)
    choices = [[None, *(e for e in ("missing", "outside") if r.of(e) != "error")] for r in rules]
    rows = [vector(rules, events) for events in product(*choices)]
    if change == "add-remove":
        largest = max(sum(x * x for x in row) for row in rows)
    else:
        largest = max(sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) for a in rows for b in rows)
    assert counting.sensitivity(Neighbours(change, size="private")) == largest
    assert all(len(row) == len(counting.counters()) for row in rows)


@for_every(most=[1, 2, 3], cells=[1, 2, 3, 5], change=["add-remove", "replace"])
def test_sensitivity_of_people_is_exact(most, cells, change):
    people = [set(rows) for rows in product(range(cells), repeat=most)] + [set()]
    others = people if change == "replace" else [set()]
    assert people_sensitivity(Neighbours(change, most), most, cells) == max(len(a ^ b) for a in people for b in others)


# --- what it costs ----------------------------------------------------------------------------------------------------


def test_side_counts_cost_what_they_state(tmp_path):
    mechanism = by_people()
    shares = [query.mu_squared / mechanism.cost.mu_squared for query in mechanism.queries]
    assert float(shares[0]) == pytest.approx(0.1, rel=1e-3)
    assert [float(share) for share in shares[1:]] == pytest.approx([0.1 / 3] * 3, rel=1e-3)
    assert sum(shares) <= Fraction(1, 5)
    total = ln.Budget(mu=2, rows_per_person=2)
    ledger = ln.Ledger.create(tmp_path / "people.ledger", total, "people")
    release = mechanism.run(ROWS, rules=RULES, unit=UNIT, ledger=ledger, dataset="people", out=tmp_path / "out")
    (entry,) = ledger.entries()
    assert entry.cost == mechanism.cost == release.cost == ln.load(tmp_path / "out").cost
    assert entry.cost.mu_squared == mechanism.inner.cost.mu_squared + sum(q.mu_squared for q in mechanism.queries)


@for_every(privacy=["{epsilon: 1, delta: 1e-6}", "{mu: 0.3}", "{rho: 0.1}", "{epsilon: 1e-9, delta: 1e-3}"])
def test_a_spec_spends_no_more_than_its_budget(privacy):
    spec = parse_spec(f"{HEAD}{WORK}privacy: {privacy}\nquality: 0.2\n")
    mechanism, whole = plan_spec(spec), ln.Budget(**spec.budget_fields)
    assert 0.999 * float(whole.exact_cost) <= float(mechanism.cost.mu_squared)
    assert mechanism.cost <= whole.cost_value
    assert mechanism.delta == (whole.delta or 1e-9) or "1e-9" in privacy


def test_rules_that_touch_nothing_cost_nothing():
    spec = parse_spec("attributes: {sex: {values: [F, M]}}\nworkload: [{queries: marginal}]\nquality: 0.2\n" + PRIVACY)
    plan = plan_spec(spec)
    assert isinstance(plan, ln.Plan)
    assert float(plan.cost.mu_squared) == pytest.approx(ln.Budget(epsilon=1, delta=1e-6).cost, rel=1e-4)
    assert {line["number"] for line in plan.run({"sex": ["F"]}).counting()["rules"]} == {0}


def test_targets_pay_for_side_counts_on_top():
    spec = parse_spec(HEAD + "workload: [{queries: marginal, ways: 2, within: 10}]\nquality: 0.2\n")
    mechanism = plan_spec(spec)
    assert float(mechanism.cost.mu_squared) == pytest.approx(float(mechanism.inner.cost.mu_squared) / 0.8, rel=1e-3)


# --- every kind -------------------------------------------------------------------------------------------------------

# Releases of keys take none (tests/mechanisms/discover/test_release.py).
PLAIN = [name for name, kind in KINDS.items() if kind.method != "stream" and "side" not in name and name != "keys"]


@pytest.mark.long
@pytest.mark.parametrize("name", PLAIN)
def test_every_kind_takes_side_counts(name, tmp_path):
    inner = KINDS[name].mechanism()
    first = inner.domain[inner.domain.names[0]]
    rules = {first.name: {"missing": first.value(1)}}
    mechanism = with_side_counts(inner, quality=0.1, rules=rules)
    columns = {a.name: [a.value(0), a.value(1), a.value(0)] for a in inner.domain} | {
        first.name: [first.value(0), None, None]
    }
    release = mechanism.run(columns, rules=rules, out=tmp_path / "out", random_source=SeededRandomSource(1))
    loaded = ln.load(tmp_path / "out")
    assert loaded.counting() == release.counting()
    assert loaded.cost == release.cost <= mechanism.cost  # adaptive runs may spend a little less than they debit
    assert mechanism.cost > inner.cost
    assert release.cost.mu_squared - sum(s.mu_squared for s in side_counts_of(release)) <= inner.cost.mu_squared
    assert loaded.privacy == release.privacy
    number = loaded.counting()["rules"][0]["number"]
    assert number["low"] <= number["value"] <= number["high"]
    assert mechanism.audit(100, 0.999, seed=1).ok


def test_merged_releases_keep_what_they_cost():
    first, second = (by_rows().run(ROWS, rules=RULES, random_source=SeededRandomSource(k)) for k in (1, 2))
    plain = plan_of(ln.Budget(mu=1)).run(ROWS, rules=RULES, random_source=SeededRandomSource(3))
    unknown = type(plain)(plain.parts, plain.dataset)  # which does not say where it comes from
    assert merge(first, second).cost == first.cost + second.cost
    assert merge(first, unknown).cost == first.cost + unknown.cost


# --- what is forged, and what cannot be -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("sensitivity", 1), ("variance", "1/1000"), ("counts", [1]), ("kind", "people"), ("attributes", ["age"]),
        ("variance", "0/1"), ("counts", [2**70] * 5),
    ],
)  # fmt: skip
def test_forged_side_counts_are_refused(field, value, tmp_path):
    by_rows().run(ROWS, rules=RULES, out=tmp_path / "out")
    file = tmp_path / "out" / "release.json"
    header = json.loads(file.read_text())
    header["parts"][0]["run"]["side"][0][field] = value
    file.write_text(json.dumps(header | {"sha256": checksum(header)}))
    with pytest.raises(LeastnoiseError) as error:
        ln.load(tmp_path / "out")
    assert "\n" not in str(error.value)


def test_bad_requests_are_refused():
    rows, people = plan_of(ln.Budget(mu=1)), plan_of(ln.Budget(mu=1, rows_per_person=1))
    with refused("'by' is for people"):
        with_side_counts(rows, quality=0.1, by=["sex"])
    with refused("people are told apart by a unit"):
        with_side_counts(rows, people=0.1)
    with refused("quality needs a unit"):
        with_side_counts(people, quality=0.1, rules=RULES)
    with refused("between 0 and 1"):
        with_side_counts(rows, quality=1.5, rules=RULES)
    with refused("add up to less than 1"):
        with_side_counts(people, quality=0.5, people=0.5, rules=RULES, unit=UNIT | {"max_rows": 1})
    with refused("more than 100,000"):
        with_side_counts(
            ln.plan(ln.Workload(ln.Domain.of(a=400, b=400)).marginals(ways=1), ln.Budget(mu=1, rows_per_person=2)),
            people=0.1, by=[("a", "b")], unit=UNIT,
        )  # fmt: skip
    with refused("a stream gets counts"):
        with_side_counts(KINDS["stream"].mechanism(), quality=0.1, rules={"day": {"missing": 0}})


def test_runs_with_other_rules_are_refused(tmp_path):
    ledger = ln.Ledger.create(tmp_path / "people.ledger", ln.Budget(mu=9), "people")
    for data, rules in ((ROWS, {}), (ROWS, RULES | {"sex": {"outside": "other"}}), (np.zeros((3, 3), dtype=int), None)):
        with refused("planned for other rules"):
            by_rows().run(data, rules=rules, ledger=ledger, dataset="people")
    assert not ledger.entries()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("quality: 2\n", "quality is '2', not a share of the budget between 0 and 1; write for example quality: 0.02"),
        ("quality: {shar: 0.1}\n", "unknown key 'shar' in quality; did you mean 'share'?"),
        ("people: true\n", "people are told apart by a unit; write for example unit: {id: person, max_rows: 3}"),
        ("unit: {id: p, max_rows: 1}\npeople: {by: [agee]}\n", "agee"),
        ("unit: {id: p, max_rows: 1}\nquality: 0.5\npeople: 0.5\n", "add up to less than 1"),
    ],
)
def test_bad_specs_are_refused(lines, message):
    with refused(message):
        parse_spec(HEAD + WORK + PRIVACY + lines)


def test_streams_refuse_side_counts():
    spec = "attributes: {day: {range: [0, 6], outside: drop}}\nworkload: [{queries: prefix, on: day}]\nmethod: stream\n"
    with refused("a stream gets counts, not rows; leave 'quality' out"):
        parse_spec(spec + "privacy: {mu: 1}\nquality: 0.1\n")


def test_rows_of_people_without_a_unit_are_refused():
    with refused("a rule may touch any number of rows of one person"):
        parse_spec(HEAD + WORK + "privacy: {mu: 1, rows_per_person: 3}\nquality: 0.1\n")


# --- commands ---------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_commands(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    unit = "unit: {id: who, max_rows: 2}\nquality: {share: 0.1}\npeople: {share: 0.1, by: [sex, [sex, age]]}\n"
    (tmp_path / "spec.yaml").write_text(HEAD + WORK + PRIVACY + unit)
    (tmp_path / "rows.csv").write_text("age,sex,who\n1,F,a\n,M,a\n7,F,b\n")
    code, text, _ = call(capsys, "plan", "spec.yaml")
    assert code == 0
    assert "beside it: what each rule touched, standard error" in text
    assert "people by age x sex" in text
    fields = json.loads(call(capsys, "plan", "spec.yaml", "--json")[1])
    assert [entry["kind"] for entry in fields["side_counts"]] == ["quality", "people", "people", "people"]
    assert "leave 'quality' and 'people' out" in call(capsys, "plan", "spec.yaml", "--out", "plan")[2]
    assert call(capsys, "release", "spec.yaml", "--data", "rows.csv", "--out", "out")[0] == 0
    shown = call(capsys, "show", "out")[1]
    assert "people counted: " in shown
    assert "add 'quality" not in shown
    rows = json.loads(call(capsys, "table", "out", "sex", "--people", "--json")[1])
    assert [row["sex"] for row in rows["rows"]] == ["F", "M"]
    assert call(capsys, "table", "out", "--people")[0] == 0
    assert (
        "people were not counted by age; there are: in all; sex; age x sex"
        in call(capsys, "table", "out", "age", "--people")[2]
    )
    assert call(capsys, "report", "out", "--out", "page.html")[0] == 0
    page = (tmp_path / "page.html").read_text()
    assert "people counted: " in page
    assert "<caption>People counted by age x sex</caption>" in page
    assert call(capsys, "audit", "spec.yaml", "--runs", "100")[0] == 0
