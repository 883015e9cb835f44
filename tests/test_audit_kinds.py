"""Every kind of release is audited: honest mechanisms pass, halved noise is refuted, saved ones are taken as they are.

All seeds are fixed, so nothing here fails by chance; the rates in comments are those over seeds.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from importlib import import_module
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.audit.subjects import audit, subject_of
from leastnoise.errors import LeastnoiseError
from leastnoise.local import load_plan, local_plan, save_plan
from leastnoise.local.randomized_response import Choice, Odds
from leastnoise.local.state import State
from leastnoise.mechanisms.stream.journal import JOURNAL
from leastnoise.mechanisms.tree import Tree, tree_plan
from leastnoise.noise import SeededRandomSource
from leastnoise.sources import Table
from tests.shell import call

DOMAIN = ln.Domain.of(age=range(3), sex=["F", "M"])
WORK = ln.Workload(DOMAIN).marginals(ways=2).prefix("age")
DATA = Table(DOMAIN, np.full((3, 2), 20))
SMALL = ln.Workload(ln.Domain.of(a=2, b=2)).marginals(ways=2)
TREE, TREES = Tree.regular([2, 3]), {"a": Tree.regular([2, 2]), "b": Tree.regular([3])}
GAUSSIAN = [  # all modules that draw Gaussian noise
    "leastnoise.mechanisms.measurement",
    "leastnoise.mechanisms.adaptive.survey",
    "leastnoise.mechanisms.side_counts",
    "leastnoise.mechanisms.matrix.plan",
    "leastnoise.mechanisms.stream.stream",
    "leastnoise.mechanisms.tree.integer",
    "leastnoise.mechanisms.discover.release",
    "leastnoise.local.gauss",
]


@dataclass(frozen=True)
class Kind:
    """A mechanism for a budget. With so many runs, half of its noise is noticed with probability `confidence`."""

    kind: str
    make: Callable[[ln.Budget], Any]
    runs: int = 400
    confidence: float = 0.99
    rounds: bool = False  # to whole rows, which adds up to 1/3 to variances; of little noise that is a lot


MECHANISMS = {
    "plan": Kind("plan", lambda budget: ln.plan(WORK, budget), 1000),
    "release": Kind(
        "release of tables", lambda budget: ln.plan(WORK, budget).run(DATA, random_source=SeededRandomSource(1)), 1000
    ),
    "matrix": Kind("matrix release", lambda budget: ln.matrix_plan(np.tri(4), budget)),
    "stream": Kind("stream", lambda budget: ln.stream_plan(np.tri(4), budget)),
    "tree": Kind("tree plan", lambda budget: tree_plan(TREE, budget=budget), rounds=True),
    "trees": Kind("tree plan", lambda budget: tree_plan(TREES, budget=budget), rounds=True),
    "exact": Kind("tree plan", lambda budget: tree_plan(TREE, budget=budget, exact_level=1), rounds=True),
    "survey": Kind("adaptive release", lambda budget: ln.adaptive_plan(SMALL, budget), 200, 0.95),
    "aim": Kind("adaptive release", lambda budget: ln.adaptive_plan(SMALL, budget, select="aim", rounds=3), 200, 0.95),
}
CHANGES = {
    "add a row": {},
    "replace a row": {"neighbours": "replace"},
    "replace or drop a row": {"neighbours": "replace", "size": "private"},
    "add a person": {"rows_per_person": 9},
    "replace a person": {"neighbours": "replace", "rows_per_person": 9},
}
QUICK = {  # the others take seconds
    "plan": set(CHANGES),
    "release": set(CHANGES),
    "matrix": set(CHANGES),
    "tree": {"add a person"},
    "trees": {"add a person"},
    "exact": {"replace a person"},
    "stream": {"add a row", "replace or drop a row"},
    "survey": {"add a row"},
    "aim": {"add a person"},
}
CASES = [
    pytest.param(name, change, marks=[pytest.mark.slow] * (change not in QUICK[name]))
    for name in MECHANISMS
    for change in CHANGES
    if name != "exact" or "replace a" in change  # exact counts stay, so rows can only be replaced
]


def case(name: str, change: str) -> tuple[Any, int, float]:
    """A mechanism, runs and confidence; single rows of cascades get so much noise that rounding matters little."""
    kind = MECHANISMS[name]
    if kind.rounds and "row" in change:
        return kind.make(ln.Budget(mu=0.5, **CHANGES[change])), 3000, 0.95
    runs = 3 * kind.runs if kind.kind == "adaptive release" and "replace" in change else kind.runs  # two pairs
    return kind.make(ln.Budget(mu=2, **CHANGES[change])), runs, kind.confidence


def halved(patch: pytest.MonkeyPatch) -> None:
    """Draw all Gaussian noise with half of its standard deviation."""
    for name in GAUSSIAN:
        module = import_module(name)
        full = module.rounded_gaussian
        patch.setattr(module, "rounded_gaussian", lambda b, v, *rest, full=full: full(b, v / 4, *rest))


@pytest.mark.covering
@pytest.mark.parametrize(("name", "change"), CASES)
def test_honest_noise_passes(name, change):
    """A false alarm has a rate of 1% (adaptive releases, single rows of cascades: 5%) at most."""
    result, runs, confidence = case(name, change)
    honest = audit(result, runs // 2, confidence, seed=1)
    assert honest.ok, honest
    assert honest.kind == MECHANISMS[name].kind
    assert 0.7 * honest.claimed_mu < honest.pair_mu <= honest.claimed_mu * (1 + 1e-9)
    assert 0 <= honest.mu <= honest.pair_mu
    assert honest.pairs == (2 if change in ("replace or drop a row", "replace a person") and name != "exact" else 1)


@pytest.mark.covering
@pytest.mark.parametrize(("name", "change"), CASES)
def test_half_of_the_noise_is_refuted(name, change, monkeypatch):
    """It is noticed with probability 0.99 (adaptive releases, single rows of cascades: 0.95) at least."""
    result, runs, confidence = case(name, change)
    halved(monkeypatch)
    broken = audit(result, runs, confidence, seed=1)
    assert broken.noticed_mu < (2 if not MECHANISMS[name].rounds else 1.73 if "row" in change else 1.9) * broken.pair_mu
    assert broken.verdict.startswith("VIOLATION: mu is at least"), broken


@pytest.mark.covering
@pytest.mark.parametrize("layout", ["whole", "tables", "split"])
@pytest.mark.parametrize("randomizer", ["subsets", "half space", "cap", "gaussian"])
def test_twice_the_epsilon_of_devices_is_refuted(randomizer, layout, monkeypatch):
    """The randomizer has twice its epsilon (half its noise where that is Gaussian); 1% false alarms at most."""
    plan = local_plan(WORK, 1, 1e-6 if randomizer == "gaussian" else None, randomizer=randomizer, layout=layout)
    honest = audit(plan, 4000, 0.99, seed=3)
    assert honest.ok, honest
    assert honest.claimed_epsilon == 1
    assert honest.epsilon > (0 if randomizer == "gaussian" else 0.6)
    assert (honest.kind, honest.delta) == ("plan for devices", 1e-6 if randomizer == "gaussian" else 0.0)
    halved(monkeypatch)
    positions = Choice.positions

    def likelier(choice, random_source, count):
        epsilon = Fraction(log(choice.odds.ratio)).limit_denominator(10**6)
        return positions(replace(choice, odds=Odds.within(2 * epsilon)), random_source, count)

    monkeypatch.setattr(Choice, "positions", likelier)
    broken = audit(plan, 4000, 0.99, seed=3)
    assert broken.verdict.startswith("VIOLATION: "), broken


def test_every_module_that_draws_gaussian_noise_is_halved():
    """The list above is complete: otherwise a mechanism would be called broken that is not."""
    root = Path(ln.__file__).parent
    users = {
        ".".join(["leastnoise", *path.relative_to(root).with_suffix("").parts])
        for path in root.rglob("*.py")
        if "rounded_gaussian(" in path.read_text()
    }
    assert users - {"leastnoise.noise.gaussian"} == set(GAUSSIAN)


# --- what is saved ----------------------------------------------------------------------------------------------------


SPEC = """\
attributes: {age: {range: [0, 2]}, sex: {values: [F, M]}}
workload: [{queries: marginal, ways: 2}]
privacy: {mu: 1}
"""


def saved(path: Path) -> dict[str, tuple[Path, str]]:
    """Everything that can be audited as a file or folder, and its kind."""
    (path / "spec.yaml").write_text(SPEC)
    (path / "adaptive.yaml").write_text(SPEC + "method: adaptive\n")
    budget, random_source = ln.Budget(mu=1), SeededRandomSource(1)
    plan, matrix, devices = ln.plan(WORK, budget), ln.matrix_plan(np.tri(3), budget), local_plan(WORK, 1)
    plan.save(path / "tables.plan")
    plan.run(DATA, random_source=random_source, out=path / "tables")
    ln.adaptive_plan(SMALL, budget).run(
        Table(SMALL.domain, np.full((2, 2), 9)), random_source=random_source, out=path / "adaptive"
    )
    matrix.run([1, 2, 3], random_source=random_source, out=path / "matrix")
    tree_plan(TREE, budget=budget).run([5] * 6, random_source=random_source, out=path / "cascade")
    with ln.mechanisms.Stream(matrix, folder=path / "stream", random_source=random_source) as stream:
        stream.add(3)
    save_plan(devices, path / "devices.plan")
    State.start(path / "devices.plan").save(path / "devices.state")
    return {
        "spec": (path / "spec.yaml", "plan"),
        "adaptive spec": (path / "adaptive.yaml", "adaptive release"),
        "plan": (path / "tables.plan", "plan"),
        "tables": (path / "tables", "release of tables"),
        "adaptive": (path / "adaptive", "release of tables"),
        "matrix": (path / "matrix", "matrix release"),
        "cascade": (path / "cascade", "tree plan"),
        "stream": (path / "stream", "stream"),
        "devices": (path / "devices.plan", "plan for devices"),
        "collection": (path / "devices.state", "plan for devices"),
    }


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("shelf"))


@pytest.mark.long
@pytest.mark.parametrize(
    "name", "spec,adaptive spec,plan,tables,adaptive,matrix,cascade,stream,devices,collection".split(",")
)
def test_files_and_folders_are_audited(name, shelf, capsys):
    path, kind = shelf[name]
    command = ("audit", path, "--runs", 100, "--confidence", 0.999, "--seed", 1)  # 0.1% false alarms
    code, out, err = call(capsys, *command, "--json")
    result = json.loads(out)
    assert (code, err, result["kind"], result["ok"], result["runs"]) == (0, "", kind, True, 100)
    if name == "tables":
        assert call(capsys, *command)[1].splitlines()[-1] == "consistent with the claim"


@pytest.mark.long
def test_a_violation_has_its_exit_code(shelf, capsys, monkeypatch):
    halved(monkeypatch)
    code, out, _ = call(capsys, "audit", shelf["cascade"][0], "--runs", 600, "--seed", 1, "--json")
    result = json.loads(out)
    assert result["noticed_mu"] < 2 * result["pair_mu"]  # so it is noticed with probability 0.95 at least
    assert (code, result["ok"]) == (1, False)
    assert result["verdict"].startswith("VIOLATION: mu is at least 1.")


@pytest.mark.long
def test_streams_are_not_touched(shelf):
    folder = shelf["stream"][0]
    with ln.mechanisms.Stream.load(folder) as stream:  # somebody has its journal open
        before = {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in folder.iterdir()}
        result = audit(folder, 100, 0.999, seed=1)
        assert audit(stream, 100, 0.999, seed=1) == result  # a stream in memory is not touched either
        assert len(stream) == 1
        assert before == {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in folder.iterdir()}
        assert JOURNAL in before


@pytest.mark.long
def test_releases_in_memory_are_audited_as_their_plans(shelf):
    for name, plan in (("matrix", ln.matrix_plan(np.tri(3), ln.Budget(mu=1))), ("devices", None)):
        opened = load_plan(shelf[name][0]) if plan is None else ln.load(shelf[name][0])
        plan = plan or local_plan(WORK, 1)
        assert audit(opened, 100, seed=1) == audit(plan, 100, seed=1)


def test_mistakes_are_told_in_one_line(tmp_path, capsys):
    np.savez(tmp_path / "other.npz", x=np.ones(2))
    (tmp_path / "empty").mkdir()
    cases = {
        "missing.yaml": "No such file or directory",
        "other.npz": "is no plan, and no spec either; give one of them, or the folder of a release",
        "empty": "has no release.json",
    }
    for name, text in cases.items():
        code, out, err = call(capsys, "audit", tmp_path / name)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert text in err, err
    with pytest.raises(LeastnoiseError) as error:
        subject_of(7)
    assert str(error.value) == (
        "a int cannot be audited; give a spec, a file, a folder, or one of Plan, AdaptivePlan, StreamPlan, MatrixPlan, "
        "TreePlan, DiscoverPlan, TableRelease, MatrixRelease, TreeRelease, KeysRelease, Stream, LocalPlan"
    )
    with pytest.raises(LeastnoiseError, match="all 200,000 rows of a person, which are too many"):
        audit(ln.plan(WORK, ln.Budget(mu=1, rows_per_person=200_000)))


def test_every_kind_of_release_that_is_saved_is_in_the_registry():
    from leastnoise._lazy import resolve
    from leastnoise.release.kinds import KINDS

    for kind in KINDS.values():
        assert resolve(kind.release).mark == kind.mark
        assert callable(resolve(kind.audit))
        assert callable(resolve(kind.audit_release))
    assert {name: resolve(kind.mechanism).method for name, kind in KINDS.items()} == {name: name for name in KINDS}
