"""Plans as files: everything comes back, and what is damaged is refused in one line."""

import io
import json
from pathlib import Path

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.errors import LeastnoiseError
from leastnoise.planning.request import clear_cache
from leastnoise.strategies import SOLVERS, Solver
from leastnoise.workload import Workload
from tests.catalogue import WORKLOADS, generator, ordered, skewed
from tests.fuzz.mutate import archived, members_of
from tests.laws import check_variances, same_plan

BUDGET = ln.Budget(epsilon=1, delta=1e-9)
WORK = WORKLOADS["families by set"]


def there_and_back(plan: ln.Plan, tmp_path: Path) -> ln.Plan:
    plan.save(tmp_path / "plan.npz")
    assert [p.name for p in tmp_path.iterdir()] == ["plan.npz"]  # no draft is left behind
    return ln.Plan.load(tmp_path / "plan.npz")


def close(one: object, other: object) -> None:
    """Equal plain data, numbers to rounding."""
    if isinstance(one, dict) and isinstance(other, dict):
        assert one.keys() == other.keys()
        for key in one:
            close(one[key], other[key])
    elif isinstance(one, list) and isinstance(other, list):
        for a, b in zip(one, other, strict=True):
            close(a, b)
    else:
        assert one == (pytest.approx(other, rel=1e-12) if isinstance(other, float) else other)


def check_same(plan: ln.Plan, loaded: ln.Plan) -> None:
    same_plan(loaded, plan, rel=1e-12)
    one, other = plan.to_json(), loaded.to_json()
    close(other | {"peak_memory_mb": 0}, one | {"peak_memory_mb": 0})
    a, b = plan.factorization(), loaded.factorization()
    for field in ("W", "L", "B", "Sigma"):
        np.testing.assert_allclose(getattr(b, field), getattr(a, field), atol=1e-12)
    assert str(loaded) == str(plan)
    assert loaded.explain() == plan.explain()


@pytest.mark.covering
@pytest.mark.long
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("objective", ["sum", "max", {"lr": 3}], ids=str)
def test_every_solver_and_objective_comes_back(solver, objective, tmp_path):
    baseline = "search" if objective == "sum" else "uniform"
    plan = ln.plan(
        Workload(ordered(3, 2)).prefix(ways=[1, 2]), BUDGET, solver=solver, objective=objective, baseline=baseline
    )
    check_same(plan, there_and_back(plan, tmp_path))


def test_embedding_comes_back(tmp_path):
    plan = ln.plan(WORKLOADS["suffix and prefix"], BUDGET, solver="embedding")
    check_same(plan, there_and_back(plan, tmp_path))


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_workload_comes_back(name, tmp_path):
    plan = ln.plan(WORKLOADS[name], BUDGET)
    loaded = there_and_back(plan, tmp_path)
    check_same(plan, loaded)
    check_variances(loaded)
    assert loaded.workload.blocks == plan.workload.blocks or name in {"matrix", "random 2-way", "row weights 2-way"}


@pytest.mark.long
def test_given_priors_bases_targets_and_row_weights_come_back(tmp_path):
    rng = generator(1)
    basis = {"a": np.eye(4) + 0.1 * rng.normal(size=(4, 4))}
    plans = [
        ln.plan(WORK, BUDGET, baseline={"a": skewed(4)}),
        ln.plan(WORK, BUDGET, solver="basis", bases=basis),
        ln.plan(Workload(ordered(4, 3)).prefix("a", within=3).marginals("b", within=9, confidence=0.9)),
        ln.plan(WORKLOADS["row weights"], BUDGET, objective="max", baseline="uniform"),
        ln.plan(WORKLOADS["row weights affine"], BUDGET, objective={"lr": 2}, baseline="uniform"),
    ]
    for i, plan in enumerate(plans):
        (tmp_path / str(i)).mkdir()
        check_same(plan, there_and_back(plan, tmp_path / str(i)))


def test_saving_again_replaces_the_file_whole(tmp_path):
    path = tmp_path / "plan"
    ln.plan(WORK, BUDGET).save(path)
    other = ln.plan(WORKLOADS["affine"], BUDGET)
    other.save(str(path))
    same_plan(ln.Plan.load(str(path)), other)


# Damage


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("plan") / "plan.npz"
    ln.plan(Workload(ordered(3, 2)).prefix(ways=[1, 2]), BUDGET).save(path)
    return path.read_bytes()


def refused(path: Path) -> str:
    """The one line that says why a file is not a plan."""
    with pytest.raises(LeastnoiseError) as error:
        ln.Plan.load(path)
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)
    return str(error.value)


def test_truncated_files_are_refused(saved, tmp_path):
    path = tmp_path / "plan.npz"
    for share in (0.0, 0.01, 0.1, 0.5, 0.9, 0.99):
        path.write_bytes(saved[: int(share * len(saved))])
        assert "save the plan again" in refused(path)


@pytest.mark.long
def test_flipped_bytes_are_refused_or_harmless(saved, tmp_path):
    """Each byte in turn: the file is refused with one line, or the plan it gives is the plan that was saved."""
    path, rng = tmp_path / "plan.npz", generator(6)
    path.write_bytes(saved)
    good, refusals = ln.Plan.load(path), 0
    places = rng.choice(len(saved), size=min(400, len(saved)), replace=False)
    for place in places.tolist():
        damaged = bytearray(saved)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            loaded = ln.Plan.load(path)
        except LeastnoiseError as error:
            assert "\n" not in str(error)  # noqa: PT017
            refusals += 1
        else:
            same_plan(loaded, good)
    assert refusals > len(places) / 2


def rewritten(saved: bytes, path: Path, **changes: object) -> Path:
    """The saved file with other entries in its header."""
    members = members_of(saved)
    members["header.json"] = json.dumps(json.loads(members["header.json"]) | changes).encode()
    path.write_bytes(archived(members))
    return path


def test_plans_of_earlier_versions_are_read(saved, tmp_path):
    """Their header was an array."""
    members, stream = members_of(saved), io.BytesIO()
    np.save(stream, np.frombuffer(members.pop("header.json"), dtype=np.uint8))
    (tmp_path / "old.npz").write_bytes(archived(members | {"header.npy": stream.getvalue()}))
    (tmp_path / "new.npz").write_bytes(saved)
    check_same(ln.Plan.load(tmp_path / "new.npz"), ln.Plan.load(tmp_path / "old.npz"))


def test_newer_formats_are_refused(saved, tmp_path):
    path = rewritten(saved, tmp_path / "plan.npz", leastnoise_plan=99)
    assert refused(path) == f"{path} has plan format 99, this version reads 3; update leastnoise"


@pytest.mark.parametrize(
    "changes",
    [
        {"strategies": []},
        {"solutions": [{"strategy": 99, "error": 1.0, "floor": 1.0}]},
        {"workload": {}},
        {"workload": None},
        {"budget": {}},
        {"objective": "mean"},
        {"classes": []},
        {"any_floor": []},
    ],
    ids=str,
)
def test_headers_that_make_no_sense_are_refused(saved, tmp_path, changes):
    assert "damaged" in refused(rewritten(saved, tmp_path / "plan.npz", **changes))


def test_other_files_are_refused(tmp_path):
    missing = tmp_path / "none.npz"
    assert refused(missing) == f"there is no plan {missing}; save one with plan.save(path)"
    (tmp_path / "text").write_text("not a plan")
    assert "is not a plan" in refused(tmp_path / "text")
    assert "is not a plan" in refused(tmp_path)
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    assert "is not a plan" in refused(tmp_path / "other.npz")
    np.save(tmp_path / "array.npy", np.zeros(3))
    assert "is not a plan" in refused(tmp_path / "array.npy")


# Replanning


def test_replanning_solves_nothing(monkeypatch):
    work = Workload(ln.Domain.of({f"x{i}": range(10) for i in range(20)})).prefix(ways=[1, 2, 3])
    clear_cache()
    first = ln.plan(work, BUDGET)
    monkeypatch.setattr(Solver, "solve", lambda *problem: pytest.fail("solved again"))
    again = ln.plan(work, ln.Budget(mu=0.1))
    assert again.rmse * 0.1 == pytest.approx(first.rmse * first.budget.mu, rel=1e-12)
    assert again.design is first.design


@pytest.mark.parametrize(
    "other",
    [
        {"baseline": "uniform"},
        {"solver": "fourier"},
        {"objective": "max"},
        {"objective": {"lr": 2}},
        {"baseline": {"a": skewed(4)}},
        {"solver": "basis", "bases": {"a": np.tril(np.ones((4, 4)))}},
        {"gap": 1e-2},
    ],
    ids=str,
)
def test_other_requests_are_not_mixed_up(other):
    work = Workload(ordered(4, 3)).prefix(ways=[1, 2])
    plain = ln.plan(work, BUDGET)
    assert ln.plan(work, BUDGET, **other).design is not plain.design
    assert ln.plan(work, BUDGET).design is plain.design


@pytest.mark.long
def test_other_workloads_are_not_mixed_up():
    base = Workload(ordered(4, 4))
    works = [
        base.prefix("a"), base.prefix("b"), base.suffix("a"), base.prefix("a", weight=2).total(),
        base.prefix("a").total(), base.add("prefix", on="a", weights=[1, 2, 3, 4]),
        base.add("prefix", on="a", weights=[1, 2, 3, 5]),
        base.random("a", count=4, seed=1), base.random("a", count=4, seed=2), base.matrix(np.eye(4), "a"),
        base.matrix(2 * np.eye(4), "a"), Workload(ordered(4, 5)).prefix("a"), base.add({"phi": [1, 0, 0, 0]}, on="a"),
        base.affine("a", "b"), base.abs_diff("a", "b"), base.random("a", "b", count=4, seed=1),
    ]  # fmt: skip
    designs = [ln.plan(w, BUDGET).design for w in works]
    assert len({id(d) for d in designs}) == len(works)
