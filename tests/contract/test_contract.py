"""Every law on every kind."""

import json
import re
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose

import leastnoise as ln
from leastnoise._lazy import resolve
from leastnoise.audit.subjects import audit
from leastnoise.errors import LeastnoiseError
from leastnoise.noise import SecureRandomSource, SeededRandomSource
from leastnoise.release import Release, merge
from leastnoise.release.kinds import KINDS as REGISTRY
from leastnoise.release.queries.linear import LinearQuery, quoted_name
from leastnoise.report.pages import count, write
from leastnoise.workload.families import Marginal
from tests.contract.kinds import KINDS, ledger_for, released
from tests.shell import call

pytestmark = pytest.mark.parametrize("name", KINDS)


def test_the_registry_knows_its_classes(name):
    kind, mechanism = KINDS[name], KINDS[name].mechanism()
    entry = REGISTRY[kind.method]
    assert type(getattr(mechanism, "inner", mechanism)) is resolve(entry.mechanism)
    assert type(released(name)) is resolve(entry.release)
    assert mechanism.method == kind.method


def test_spec_round_trip(name):
    """The same spec is the same mechanism, and says so in numbers that fit JSON."""
    one, other = KINDS[name].mechanism(), KINDS[name].mechanism()
    assert one.fingerprint == other.fingerprint
    assert (one.cost, one.delta, one.domain) == (other.cost, other.delta, other.domain)
    assert json.loads(json.dumps(one.to_json()))["privacy"]["mu"] == pytest.approx(float(one.cost.mu_squared) ** 0.5)


def test_round_trip(name, tmp_path):
    release = released(name)
    release.save(tmp_path / "out", tables="csv")
    loaded = ln.load(tmp_path / "out")
    assert type(loaded) is type(release)
    assert type(release).load(tmp_path / "out").cost == release.cost
    assert (loaded.cost, loaded.privacy, loaded.dataset, loaded.insecure) == (
        release.cost, release.privacy, release.dataset, release.insecure,
    )  # fmt: skip
    assert repr(loaded) == repr(release)
    assert loaded.domain == release.domain
    assert loaded.answer().equals(release.answer())
    assert sorted(p.name for p in (tmp_path / "out" / "tables").iterdir() if p.suffix == ".csv")


def test_damaged_files_are_refused(name, tmp_path):
    released(name).save(tmp_path / "out")
    for file in sorted((tmp_path / "out").iterdir()):
        whole = file.read_bytes()
        file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(LeastnoiseError) as error:
            ln.load(tmp_path / "out")
        assert "\n" not in str(error.value)
        file.write_bytes(whole)
    ln.load(tmp_path / "out")


def test_ask_equals_table_sums(name):
    """A table has the same numbers as questions about its cells, and its sum is the total."""
    release, kind = released(name), KINDS[name]
    frame = release.table(*kind.names)
    cells = list(product(*(range(release.domain[n].size) for n in kind.names)))[:40]
    units = [np.eye(release.domain[n].size) for n in kind.names]
    picks = [[rows[code] for rows, code in zip(units, cell, strict=True)] for cell in cells]
    joint = release.ask_many(
        [LinearQuery.product(release.domain, dict(zip(kind.names, p, strict=True))) for p in picks]
    )
    assert_allclose(frame["count"][: len(cells)], joint.values, rtol=1e-7, atol=1e-5)
    assert_allclose(frame["std_error"][: len(cells)], joint.std_errors, rtol=1e-6, atol=1e-9)
    assert_allclose(frame["count"].sum(), release.total().value, rtol=1e-7, atol=1e-4)
    assert_allclose(release.counts(*kind.names).ravel(), frame["count"])


def test_fast_ways_equal_the_joint_distribution(name):
    """What a kind computes faster is what follows from `joint`, the one reader: the dense twin."""
    release, kind = released(name), KINDS[name]
    attributes = [release.domain.index(n) for n in kind.names]
    if np.prod([release.domain.shape[a] for a in attributes]) > 200:
        attributes = attributes[:0]
    fast = release.product_answers(attributes, [Marginal()] * len(attributes))
    slow = Release.product_answers(release, attributes, [Marginal()] * len(attributes))
    for one, other in zip(fast, slow, strict=True):
        assert one.shape == other.shape
        assert_allclose(one, other, rtol=1e-6, atol=1e-5)


def test_answers_are_those_of_the_workload(name):
    release = released(name)
    frame = release.answer()
    assert len(frame) == release.workload.queries
    assert list(frame)[-4:] == ["answer", "std_error", "low", "high"]
    other = release.answer(ln.Workload(release.domain).total())
    assert other["answer"].item() == pytest.approx(release.total().value, rel=1e-7, abs=1e-5)


def test_questions(name):
    release, kind = released(name), KINDS[name]
    answer = release.ask(kind.question)
    assert answer.low <= answer.value <= answer.high
    joint = release.ask_many([kind.question, kind.question])
    assert joint.combine([1, -1]).value == pytest.approx(0, abs=1e-6)
    with pytest.raises(LeastnoiseError) as error:
        release.ask("nonsense ((")
    assert "\n" not in str(error.value)
    with pytest.raises(LeastnoiseError, match="another domain"):
        release.ask(LinearQuery.total(ln.Domain.of(other=2)))


@pytest.mark.long
def test_intervals_cover(name):
    """200 runs, 95% intervals of one question: fewer than 172 covering has probability below 1e-5 for each kind."""
    kind = KINDS[name]
    mechanism, data = kind.mechanism(), kind.data()
    query = released(name).query(kind.question)
    truth = query.evaluate(kind.counts())
    covered = 0
    few = "adaptive" in name or name == "keys"  # runs take longer
    for seed in range(60 if few else 200):
        answer = mechanism.run(data, random_source=SeededRandomSource(seed), **kind.options).ask(query)
        covered += answer.low <= truth <= answer.high
    assert covered >= (45 if few else 172)  # 60 runs: fewer has probability below 1e-6


def test_ledger_is_debited_first(name, tmp_path):
    class Failing(SecureRandomSource):
        def words(self, size):
            raise RuntimeError("no bits")

    kind = KINDS[name]
    ledger = ledger_for(kind, tmp_path / "people.ledger")
    with pytest.raises(RuntimeError, match="no bits"):
        kind.mechanism().run(kind.data(), **kind.options, ledger=ledger, random_source=Failing())
    (entry,) = ledger.entries()
    assert entry.cost == kind.mechanism().cost
    with pytest.raises(ln.BudgetError):
        kind.mechanism().run(kind.data(), **kind.options, ledger=ledger)
    assert len(ledger.entries()) == 1


def test_what_is_saved_is_finished_in_the_ledger(name, tmp_path):
    kind = KINDS[name]
    ledger = ledger_for(kind, tmp_path / "people.ledger")
    release = kind.mechanism().run(kind.data(), **kind.options, ledger=ledger, dataset="people", out=tmp_path / "out")
    (entry,) = ledger.entries()
    assert [o.ledger_entry for o in release.origins] == [entry.id]
    assert entry.status == "finished"
    assert entry.release == json.loads((tmp_path / "out" / "release.json").read_text())["id"]
    assert (release.dataset, release.insecure) == ("people", False)


def test_nothing_is_spent_on_bad_input(name, tmp_path):
    kind = KINDS[name]
    ledger = ledger_for(kind, tmp_path / "people.ledger")
    (tmp_path / "taken").mkdir()
    for options in (
        {"out": tmp_path / "taken"},
        {"dataset": "others"},
        {"tables": "csv"},
        {"random_source": SeededRandomSource(1)},
    ):
        with pytest.raises(LeastnoiseError):
            kind.mechanism().run(kind.data(), **kind.options, ledger=ledger, **options)
    for bad in (-kind.counts() - 1, kind.counts() * 0.5, kind.counts()[:-1]):
        with pytest.raises(LeastnoiseError):
            kind.mechanism().run(bad, ledger=ledger)
    assert not ledger.entries()


def test_report_opens(name, tmp_path):
    release = released(name)
    what, many, left = count(release, write(release, tmp_path / "page.html"))
    page = (tmp_path / "page.html").read_text()
    assert many > 0
    assert left >= 0
    assert what in ("tables", "nodes", "queries", "keys")
    assert page.lower().startswith("<!doctype html>")
    assert "INSECURE" in page


@pytest.mark.covering
@pytest.mark.parametrize("subject", ["mechanism", "release"])
def test_audit_runs(name, subject):
    """A false alarm has a rate of 1e-3 for each kind; a few runs only show that it runs and does not refute."""
    result = audit(KINDS[name].mechanism() if subject == "mechanism" else released(name), 100, 0.999, seed=1)
    assert result.ok, result
    assert result.claimed_mu > 0


def test_seeded_noise_is_marked(name):
    release = released(name)
    assert release.insecure
    assert release.privacy.statement.startswith("INSECURE")
    assert "INSECURE" in repr(release)
    assert "INSECURE" in release._repr_html_()
    assert release.to_arrow(*KINDS[name].names).column("insecure").to_pylist()[0] is True


def test_other_programs(name, tmp_path):
    release, kind = released(name), KINDS[name]
    frame = release.to_pandas(*kind.names)
    assert frame.attrs["privacy"]["statement"] == release.privacy.statement
    release.export(tmp_path / "tables", [kind.names], format="csv")
    assert (tmp_path / "tables" / "README.txt").read_text().startswith("INSECURE")
    assert release.plot(kind.names[0]).to_dict() if release.domain[kind.names[0]].size < 200 else True


def test_statistics(name):
    release, kind = released(name), KINDS[name]
    share = release.share(kind.question)
    assert 0 <= share.low <= share.value <= share.high <= 1
    attribute = release.domain[kind.names[0]]
    if attribute.ordered:
        assert release.mean(kind.names[0]).low <= release.mean(kind.names[0]).high
        assert release.quantile(kind.names[0], 0.5).low <= release.quantile(kind.names[0], 0.5).high
    else:
        with pytest.raises(LeastnoiseError, match="no order"):
            release.quantile(kind.names[0], 0.5)


def test_questions_about_statistics(name):
    """The whole language works on every kind: statistics, groups, the largest, and another release subtracted."""
    release, kind = released(name), KINDS[name]
    first = quoted_name(kind.names[0])
    top, plain, bad = release.ask_all([f"top(1, {first})", kind.question, "mean("])
    assert (top.error, plain.error) == ("", "")
    assert bad.error
    assert plain.rows[0].answer.to_json() == release.ask(kind.question).to_json()
    table = release.table(kind.names[0])
    assert top.rows[0].answer.value == pytest.approx(table["count"].max())
    groups = release.ask_all("count()", by=kind.names[0]).items[0].rows
    assert_allclose([row.answer.value for row in groups], table["count"], rtol=1e-7, atol=1e-5)
    assert_allclose([row.answer.std_error for row in groups], table["std_error"], rtol=1e-6, atol=1e-9)
    share = release.ask_all("share(true)", by=kind.names[0]).items[0]
    assert {row.answer.value for row in share.rows} <= {1.0, 0.5}
    with pytest.raises(LeastnoiseError, match="share measurements"):
        release.ask_all("count()", minus=release)
    less = release.ask_all("count()", minus=kind.run(seed=2)).items[0].rows[0].answer
    error = release.total().std_error
    assert less.std_error == pytest.approx(2**0.5 * error) or "adaptive" in name


def test_what_a_kind_cannot_do_is_one_line(name):
    """Merging, fitting, completing and adjusting are for releases of tables; others say so."""
    release, other = released(name), KINDS[name].run(seed=2)
    calls = {
        "merge": lambda: merge(release, other),
        "fit": lambda: release.fit(mixtures=1),
        "adjust": lambda: release.adjust(),
    }
    for what, attempt in calls.items():
        if release.mark == "leastnoise_release":
            if what == "merge" and "adaptive" not in name:
                assert_allclose(float(attempt().cost.mu_squared), 2 * float(release.cost.mu_squared))
            continue
        with pytest.raises(LeastnoiseError, match="release") as error:
            attempt()
        assert "\n" not in str(error.value)


@pytest.mark.long
def test_commands(name, tmp_path, capsys, monkeypatch):
    """One command each: plan, release, show, ask, table, report, audit."""
    kind = KINDS[name]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spec.yaml").write_text(kind.text)
    (tmp_path / "people.csv").write_text(kind.csv())
    for command in (
        ["plan", "spec.yaml"],
        ["plan", "spec.yaml", "--json"],
        [kind.command, "spec.yaml", "--data", "people.csv", "--out", "out", "--json"],
        ["show", "out"],
        ["show", "out", "--json"],
        ["ask", "out", kind.question],
        ["ask", "out", kind.question, "--simultaneous", "--json"],
        ["table", "out"],
        ["table", "out", *kind.names, "--json"],
        ["table", "out", "--queries", "--csv", "answers.csv"],
        ["report", "out", "--json"],
        ["audit", "out", "--runs", "100", "--confidence", "0.999", "--seed", "1"],
    ):
        code, out, err = call(capsys, *command)
        assert code == 0, (command, err)
        if "--json" in command:
            json.loads(out)
    assert ln.load("out").insecure is False
    assert re.match(r"\w", call(capsys, "show", "out")[1])
