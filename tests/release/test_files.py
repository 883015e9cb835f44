"""Releases as folders: everything comes back, nothing half-written appears, and what was changed is refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import leastnoise as ln
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.gate import Counts
from leastnoise.mechanisms.measurement import measure
from leastnoise.noise import SeededRandomSource
from leastnoise.planning.integer_plan_store import fingerprint, integer_plan_data
from leastnoise.privacy.ledger import BudgetError
from leastnoise.release import TableRelease
from leastnoise.release.files.publication import file_names
from leastnoise.release.measurements import Measurements
from leastnoise.release.statement import INSECURE, Privacy, common_delta
from leastnoise.sources import Table
from leastnoise.storage import files as store
from leastnoise.storage.records import checksum
from tests.catalogue import WORKLOADS

BUDGET = ln.Budget(epsilon=1, delta=1e-9)
DOMAIN = ln.Domain.of(a=range(3), b=["x", "y"], c=ln.bins(0, 4, width=1))
WORK = ln.Workload(DOMAIN).marginals("a", "b", ways=2).prefix("c", weight=2).affine("a", "c")
ODD = ln.Domain.of({"../up": [1, "two"], "CON": [True, False], "con": 1, "年": range(2), "a\nb": ["'", '"']})


def counts(domain: ln.Domain, seed: int = 3) -> Table:
    return Table(domain, np.random.default_rng(seed).poisson(20, size=domain.shape))


def released(work: ln.Workload = WORK, budget: ln.Budget = BUDGET, **options: Any) -> ln.Release:
    return ln.plan(work, budget, **options).run(counts(work.domain), random_source=SeededRandomSource(1))


def wide() -> ln.Release:
    """Answers that no machine integer holds."""
    (part,) = released().parts
    answers = tuple(tuple(a.astype(object) * 10**30 for a in noisy_queries) for noisy_queries in part.answers)
    return TableRelease((Measurements(part.integer_plan, answers),))


def levelled() -> ln.Release:
    """Answers that are scaled one by one, which is planned for large residuals only."""
    integer_plan = ln.plan(WORK, BUDGET).integer_plan
    (*others, (*more, noisy_query)) = integer_plan.noisy_queries
    levels = np.full(noisy_query.strategy.answers, 2, dtype=np.int64)
    scaled = replace(
        noisy_query, strategy=replace(noisy_query.strategy, levels=levels), variance=4 * noisy_query.variance
    )
    integer_plan = replace(integer_plan, noisy_queries=(*others, (*more, scaled)))
    return TableRelease((measure(integer_plan, Counts(counts(DOMAIN)), SeededRandomSource(1)),))


def merged() -> ln.Release:
    one = released(baseline="uniform")
    other = released(ln.Workload(DOMAIN).marginals("b", "c"), ln.Budget(rho=0.1), baseline="uniform")
    return TableRelease(one.parts + other.parts)


RELEASES = {
    "several families": released,
    "given baseline": lambda: released(baseline={"a": [0.5, 0.3, 0.2]}),
    "replaced rows": lambda: released(budget=ln.Budget(mu=0.3, neighbours="replace")),
    "rows per person": lambda: released(budget=ln.Budget(rho=0.1, rows_per_person=3)),
    "levels": levelled,
    "wide answers": wide,
    "merged": merged,
    "odd names": lambda: released(ln.Workload(ODD).marginals(ways=[0, 1, 2])),
    "secure": lambda: ln.plan(WORK, BUDGET).run(counts(DOMAIN)),
}  # fmt: skip


def same_numbers(one: ln.Release, other: ln.Release) -> None:
    """The same measurements, to the last bit."""
    assert (one.cost, one.insecure) == (other.cost, other.insecure)
    for a, b in zip(one.parts, other.parts, strict=True):
        assert fingerprint(a.integer_plan) == fingerprint(b.integer_plan)
        for x, y in zip(sum(a.answers, ()), sum(b.answers, ()), strict=True):
            assert x.dtype == y.dtype
            assert x.tolist() == y.tolist()


def refused(path: Path) -> str:
    """The one line that says why a folder is not read."""
    with pytest.raises(LeastnoiseError) as error:
        ln.Release.load(path)
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)
    return str(error.value)


def header(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "release.json").read_text())


def sealed(folder: Path, data: dict[str, Any]) -> None:
    """Write a changed header with a checksum that is right again."""
    (folder / "release.json").write_text(json.dumps(data | {"sha256": checksum(data)}))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


# There and back


@pytest.mark.long
@pytest.mark.parametrize("name", RELEASES)
def test_every_release_comes_back(name, out):
    release = RELEASES[name]()
    release.save(out)
    assert [p.name for p in out.parent.iterdir()] == ["out"]  # no draft is left behind
    assert sorted(p.name for p in out.iterdir()) == ["measurements.npz", "release.json"]
    loaded = ln.Release.load(str(out))
    same_numbers(loaded, release)
    assert loaded.dataset == release.dataset
    assert list(loaded.tables()) == list(release.tables())
    for names in release.tables():
        np.testing.assert_array_equal(loaded.counts(*names), release.counts(*names))
        np.testing.assert_allclose(loaded.std_errors(*names), release.std_errors(*names), rtol=1e-12)


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_workload_comes_back(name, out):
    plan = ln.plan(WORKLOADS[name], BUDGET, baseline="uniform")
    release = plan.run(counts(plan.workload.domain), random_source=SeededRandomSource(1), out=out)
    same_numbers(ln.Release.load(out), release)


def test_saved_again_it_is_the_same(out, tmp_path):
    released().save(out)
    ln.Release.load(out).save(tmp_path / "again")
    for name in ("release.json", "measurements.npz"):
        assert (out / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


@pytest.mark.long
def test_cases_cover_every_kind_of_array():
    integer_plans = [part.integer_plan for make in RELEASES.values() for part in make().parts]
    members = {
        name.rstrip("0123456789_") for integer_plan in integer_plans for name in integer_plan_data(integer_plan)[1]
    }
    assert members == {"prior", "rows", "levels"}
    noisy_queries = [
        noisy_query for integer_plan in integer_plans for orbit in integer_plan.noisy_queries for noisy_query in orbit
    ]
    assert any(not noisy_query.variance for noisy_query in noisy_queries)


def test_header_says_what_was_done(out):
    plan = ln.plan(WORK, BUDGET)
    release = plan.run(counts(DOMAIN), dataset=None, random_source=SeededRandomSource(1))
    release.save(out)
    fields = header(out)
    (part,) = fields["parts"]
    assert (fields["leastnoise_release"], fields["software"]) == (1, f"leastnoise {ln.__version__}")
    assert (fields["insecure"], fields["warning"], part["insecure"]) == (True, INSECURE, True)
    assert part["created"] == release.origins[0].created
    assert part["fingerprint"] == fingerprint(plan.integer_plan)
    assert part["recipe"] == json.loads(json.dumps(integer_plan_data(plan.integer_plan)[0]))
    assert part["plan"]["rmse"] == plan.rmse
    assert part["plan"]["rounding_loss"] == plan.rounding_loss
    assert part["plan"]["floor"]["value"] == plan.floor_value
    assert not {"seconds", "peak_memory_mb"} & part["plan"].keys()
    cost = plan.integer_plan.cost
    assert fields["privacy"] | cost.to_json() == fields["privacy"]
    assert fields["privacy"]["epsilon"] == cost.epsilon_at(1e-9) <= 1
    assert fields["privacy"]["statement"].startswith(INSECURE)


def test_statements_name_the_change_and_what_is_composed():
    parts = merged().parts
    privacy = Privacy.of_parts(parts)
    assert privacy.mu_squared == Privacy.of_parts(parts).mu_squared
    assert "adding or removing one row" in privacy.statement
    assert "made of 2 releases whose mu^2 were added" in privacy.statement
    assert privacy.mu**2 >= sum(p.integer_plan.cost.mu_squared for p in parts)
    assert privacy.delta == 1e-9
    three = released(budget=ln.Budget(mu=0.3, neighbours="replace", rows_per_person=3)).parts
    assert "for replacing one person with at most 3 rows" in Privacy.of_parts(three).statement


def test_delta_is_the_stated_one():
    stated, other = ln.Budget(epsilon=1, delta=1e-6), ln.Budget(epsilon=1, delta=1e-7)
    assert common_delta([stated, stated]) == 1e-6
    assert common_delta([stated, other]) == 1e-9
    assert common_delta([ln.Budget(mu=1)]) == 1e-9


# Writing


@pytest.mark.long
def test_existing_folders_are_not_replaced_unless_asked(out):
    release = released()
    release.save(out, tables="csv")
    with pytest.raises(LeastnoiseError) as error:
        release.save(out)
    assert str(error.value) == f"{out} exists already; choose another name, or replace it with overwrite=True"
    other = RELEASES["given baseline"]()
    other.save(out, overwrite=True)
    same_numbers(ln.Release.load(out), other)
    assert [p.name for p in out.parent.iterdir()] == ["out"]
    assert not (out / "tables").exists()


@pytest.mark.parametrize("kind", ["folder", "project", "file", "link"])
def test_what_is_no_release_is_never_replaced(kind, out, tmp_path):
    if kind == "file":
        out.write_text("mine")
    elif kind == "link":
        released().save(tmp_path / "real")
        out.symlink_to(tmp_path / "real")
    else:
        out.mkdir()
        (out / "README.txt").write_text("mine")
        (out / "main.py" if kind == "project" else out / "release.json").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    for write in (released().save, released().export):
        with pytest.raises(LeastnoiseError) as error:
            write(out, overwrite=True)
        assert str(error.value) == f"{out} is no release and is not replaced; choose another name"
    assert sorted(tmp_path.rglob("*")) == before


def test_folder_must_be_there(tmp_path):
    with pytest.raises(LeastnoiseError) as error:
        released().save(tmp_path / "no" / "out")
    assert str(error.value) == f"there is no folder {str(tmp_path / 'no')!r} to write in; create it first"


def test_failed_writes_leave_nothing(out, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(LeastnoiseError, match=r"cannot be written \(No space left on device\)"):
        released().save(out)
    assert list(out.parent.iterdir()) == []


def no_exchange(*_: object) -> bool:
    """As where the system cannot exchange two names."""
    return False


def test_releases_are_replaced_where_names_cannot_be_exchanged(out, monkeypatch):
    monkeypatch.setattr(store, "exchange", no_exchange)
    released().save(out)
    other = RELEASES["given baseline"]()
    other.save(out, overwrite=True)
    same_numbers(ln.Release.load(out), other)
    assert [p.name for p in out.parent.iterdir()] == ["out"]


@pytest.mark.parametrize("steps", [1, 2])
def test_failed_replacement_keeps_the_old_one(steps, out, monkeypatch):
    old = released()
    old.save(out)
    rename = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if self.name.endswith(".part"):
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    monkeypatch.setattr(store, "exchange", failing if steps == 1 else no_exchange)
    with pytest.raises(LeastnoiseError, match="cannot be written"):
        RELEASES["given baseline"]().save(out, overwrite=True)
    same_numbers(ln.Release.load(out), old)
    assert [p.name for p in out.parent.iterdir()] == ["out"]


# Running into a folder


@pytest.mark.long
def test_run_debits_measures_saves_and_finishes(out, tmp_path):
    ledger = ln.Ledger.create(tmp_path / "l", ln.Budget(epsilon=2, delta=1e-9), "people")
    plan = ln.plan(WORK, BUDGET)
    data = Table(DOMAIN, np.ones(DOMAIN.shape, dtype=int), "people")
    plan.run(data, ledger=ledger)
    release = plan.run(data, ledger=ledger, note="second", out=out)
    first, second = ledger.entries()
    assert (first.status, second.status, second.note) == ("debited", "finished", "second")
    fields = header(out)
    assert (fields["parts"][0]["ledger_entry"], fields["id"], fields["dataset"]) == (2, second.release, "people")
    loaded = ln.Release.load(out)
    same_numbers(loaded, release)
    assert [(o.created, o.ledger_entry, o.summary) for o in loaded.origins] == [
        (o.created, o.ledger_entry, o.summary) for o in release.origins
    ]


@pytest.mark.long
def test_nothing_is_spent_where_nothing_can_be_written(out, tmp_path, monkeypatch):
    ledger = ln.Ledger.create(tmp_path / "l", ln.Budget(epsilon=2, delta=1e-9), "people")
    plan, data = ln.plan(WORK, BUDGET), counts(DOMAIN)
    released().save(out)
    for bad in (out, tmp_path / "no" / "out"):
        with pytest.raises(LeastnoiseError):
            plan.run(data, ledger=ledger, out=bad)
    monkeypatch.setattr(ln.Plan, "to_json", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        plan.run(data, ledger=ledger, out=tmp_path / "new")
    assert ledger.entries() == []


def test_refused_debits_leave_no_folder(out, tmp_path):
    ledger = ln.Ledger.create(tmp_path / "l", ln.Budget(epsilon=0.5, delta=1e-9), "people")
    with pytest.raises(BudgetError):
        ln.plan(WORK, BUDGET).run(counts(DOMAIN), ledger=ledger, out=out)
    assert [p.name for p in tmp_path.iterdir()] == ["l"]


# Refusing


def test_other_folders_are_refused(tmp_path, out):
    assert refused(out) == f"there is no release {out}; save one with release.save(path)"
    (tmp_path / "file").write_text("x")
    assert refused(tmp_path / "file").endswith("is a file; a release is a folder with release.json in it")
    assert "has no release.json, so it is not a whole release" in refused(tmp_path)
    released().save(out)
    (out / "measurements.npz").unlink()
    assert "has no measurements.npz, so it is not a whole release" in refused(out)


DRAFTS = {
    ".out.0a1b2c3d.part": "is left over from a save that did not finish; delete it and save the release again",
    ".out.0a1b2c3d.old": "was about to be replaced by a save that did not finish; rename it to keep it",
}


@pytest.mark.parametrize("name", DRAFTS)
def test_drafts_are_refused_even_when_complete(name, out, tmp_path, monkeypatch):
    released().save(out)
    draft = tmp_path / name
    out.rename(draft)
    assert refused(draft) == f"{draft} {DRAFTS[name]}"
    out.symlink_to(draft)
    assert refused(out) == f"{out} {DRAFTS[name]}"
    monkeypatch.chdir(draft)
    with pytest.raises(LeastnoiseError, match="did not finish"):
        ln.Release.load(".")


def test_newer_formats_are_refused(out):
    released().save(out)
    sealed(out, header(out) | {"leastnoise_release": 2, "news": 1})
    (out / "measurements.npz").rename(out / "measurements.new")
    text = f"{out / 'release.json'} has release format 2, this version reads 1; update leastnoise"
    assert refused(out) == text


def test_damage_names_the_file_and_the_fix(out):
    released().save(out, tables="csv")
    table = out / "tables" / "1-a.csv"
    table.write_text(table.read_text().replace("1", "2"))
    fix = "restore it from a copy or save the release again"
    assert refused(out) == f"{table} is damaged (its size or checksum is wrong); {fix}"
    table.unlink()
    assert refused(out) == f"{out} has no tables/1-a.csv, so it is not a whole release; {fix}"


@pytest.mark.long
def test_files_that_are_not_listed_do_not_matter(out):
    release = released()
    release.save(out)
    release.export(out / "tables")
    (out / "report.html").write_text("<p>")
    same_numbers(ln.Release.load(out), release)


def test_noise_cannot_be_left_out(out):
    """Answers that depend on people, marked as if they did not, have no cost, so nothing can be written of them."""
    (part,) = released().parts
    noisy_queries = tuple(
        tuple(replace(p, variance=p.variance * 0) for p in orbit) for orbit in part.integer_plan.noisy_queries
    )
    integer_plan = replace(part.integer_plan, noisy_queries=noisy_queries)
    with pytest.raises(LeastnoiseError, match="must not measure what a person changes without noise"):
        TableRelease((replace(part, integer_plan=integer_plan),)).save(out)
    assert not out.exists()


# Tables for other programs


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_exported_tables_are_the_tables(format, out):
    release = released()
    release.export(out, format=format, confidence=0.9)
    tables = list(release.tables())
    names = {"/".join(t): f"{name}.{format}" for t, name in zip(tables, file_names(tables), strict=True)}
    script = {"read_release.R"} if format == "csv" else set()
    assert {p.name for p in out.iterdir()} == {"README.txt", *names.values()} | script
    assert names["a/b"] == f"2-a_b.{format}"
    read = pd.read_csv if format == "csv" else pd.read_parquet
    for table in tables:
        frame = read(out / names["/".join(table)])
        pd.testing.assert_frame_equal(
            frame, release.table(*table, confidence=0.9).assign(insecure=True), check_dtype=False
        )
    note = (out / "README.txt").read_text()
    assert note.startswith(INSECURE)
    assert '2-a_b.csv: "a" x "b"' in note or '2-a_b.parquet: "a" x "b"' in note
    assert "90% interval" in note


def test_parquet_carries_the_privacy_statement(out):
    release = released()
    release.export(out, [["b"]])
    assert sorted(p.name for p in out.iterdir()) == ["1-b.parquet", "README.txt"]
    attrs = pd.read_parquet(out / "1-b.parquet").attrs
    assert attrs == {"privacy": Privacy.of_parts(release.parts).model_dump(), "insecure": True}


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_odd_names_and_values_make_safe_files(format, out):
    release = RELEASES["odd names"]()
    release.export(out, format=format)
    for file in out.iterdir():
        assert file.name in ("README.txt", "read_release.R") or file.stem.replace("-", "").replace("_", "").isalnum()
        assert file.name.isascii()
    assert len({p.name.lower() for p in out.iterdir() if p.suffix == f".{format}"}) == len(list(release.tables()))
    assert "\na\nb" not in (out / "README.txt").read_text()


def test_long_names_are_cut():
    one, other = file_names([["n" * 300], ["n" * 301]])
    assert one != other
    assert max(len(one), len(other)) < 100


@pytest.mark.long
def test_saved_tables_are_checked(out):
    released().save(out, tables="parquet")
    listed = header(out)["files"]
    assert {"tables/README.txt", "tables/1-a.parquet", "measurements.npz"} <= listed.keys()
    same_numbers(ln.Release.load(out), released())


def test_exported_tables_can_be_replaced(out):
    release = released()
    release.export(out, [["a"]])
    release.export(out, [["b"]], format="csv", overwrite=True)
    assert sorted(p.name for p in out.iterdir()) == ["1-b.csv", "README.txt", "read_release.R"]


def test_bad_exports_say_so_and_leave_nothing(out):
    release = released()
    cases = [
        ({"format": "xls"}, "format must be 'parquet', 'csv', 'excel', 'sdmx-csv', 'csvw' or 'json-stat', got 'xls'"),
        ({"tables": ["a"]}, 'tables are lists of attribute names; write [["age"], ["age", "sex"]]'),
        ({"tables": [["z"]]}, "no attribute 'z' in this domain (a, b, c)"),
        ({"confidence": 2}, "confidence 2 is not between 0 and 1; a usual one is 0.95"),
    ]
    for options, text in cases:
        with pytest.raises(LeastnoiseError) as error:
            release.export(out, **options)
        assert str(error.value) == text
    with pytest.raises(LeastnoiseError, match="format must be"):
        release.save(out, tables="xls")
    assert list(out.parent.iterdir()) == []
