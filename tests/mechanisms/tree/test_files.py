"""Tree releases as folders: everything comes back, and whatever was changed is refused in one line."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.tree import Tree, TreeRelease, tree_plan, tree_release
from leastnoise.noise import SeededRandomSource
from leastnoise.privacy import Budget
from leastnoise.release import TableRelease
from leastnoise.release.files.folders import mark_of
from leastnoise.release.kinds import BY_MARK
from leastnoise.sources import Table
from leastnoise.storage.archive import digest_of
from leastnoise.storage.records import File, checksum

PATHS = [("north", "a"), ("north", "b"), ("north", "c"), ("south", "d"), ("south", "e"), ("west",)]
COUNTS = np.array([120, 80, 95, 60, 210, 7])


def regions(**options):
    given = {"targets": [3, 4, 5], "random_source": SeededRandomSource(1), "dataset": "people"} | options
    return tree_release(COUNTS, {"geo": Tree.from_paths(PATHS)}, **given)


def two_trees():
    plan = tree_plan({"a": Tree.binary(2), "b": Tree.balanced(5, 3)}, budget=Budget(rho=0.1))
    return plan.run(Table(plan.domain, np.arange(20).reshape(4, 5)), random_source=SeededRandomSource(2))


RELEASES = {
    "targets": regions,
    "some targets": lambda: regions(targets={2: 5}),
    "exact counts": lambda: regions(exact_level=1),
    "exact nodes": lambda: regions(exact_nodes=["all", "north", "south", "west", "north/a", "north/b", "north/c"]),
    "values of its own": lambda: regions(values=["a", "b", "c", 4, True, "ü/x"]),
    "budget": lambda: regions(targets=None, budget=Budget(epsilon=1, delta=1e-6)),
    "replaced rows": lambda: regions(neighbours="replace", rows_per_person=2),
    "two trees": two_trees,
    "no names": lambda: tree_release(
        np.arange(8), Tree.regular([2, 1, 4]), targets=5, random_source=SeededRandomSource(1)
    ),
    "one leaf": lambda: tree_release(np.array([5]), Tree.regular([]), targets=5, random_source=SeededRandomSource(1)),
    "secure": lambda: regions(random_source=None),
    "wide": lambda: regions(targets=1e9),
}


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def header(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "release.json").read_text())


def sealed(folder: Path, data: dict[str, Any]) -> None:
    """Write a changed header with a checksum that is right again."""
    (folder / "release.json").write_text(json.dumps(data | {"sha256": checksum(data)}))


def refused(path: Path) -> str:
    """The one line that says why a folder is not read."""
    with pytest.raises(LeastnoiseError) as error:
        TreeRelease.load(path)
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)
    return str(error.value)


def outcome(path: Path) -> TreeRelease | None:
    """A release, or None where it is refused in one line."""
    release = why = None
    try:
        release = TreeRelease.load(path)
    except LeastnoiseError as error:
        why = str(error)
    assert why is None or "\n" not in why
    return release


@pytest.mark.parametrize("name", RELEASES)
def test_every_release_comes_back(name, out):
    result = RELEASES[name]()
    result.save(out)
    assert sorted(p.name for p in out.iterdir()) == ["measurements.npz", "names.json", "release.json"]
    assert [p.name for p in out.parent.iterdir()] == ["out"]
    release = TreeRelease.load(out)
    np.testing.assert_array_equal(release.leaves, result.leaves)
    assert release.leaves.dtype == result.leaves.dtype
    for field in ("names", "dataset", "insecure", "origins", "cost", "privacy", "domain"):
        assert getattr(release, field) == getattr(result, field)
    assert release.plan.targets == result.plan.targets
    assert str(release.plan) == str(result.plan)
    for level in range(result.trees[0].depth + 1):
        levels = [level] + [0] * (len(result.trees) - 1)
        assert release.level(*levels).equals(result.level(*levels))
    assert mark_of(out, BY_MARK) == "leastnoise_cascade"
    again = out.with_name("again")
    release.save(again)
    for file in out.iterdir():
        assert file.read_bytes() == (again / file.name).read_bytes()


def test_every_kind_is_opened(out, tmp_path):
    assert mark_of(tmp_path, BY_MARK) is None
    work = ln.Workload(ln.Domain.of(a=3)).marginals()
    ln.plan(work, Budget(rho=1)).run(np.array([1, 2, 3]), random_source=SeededRandomSource(1)).save(out)
    regions().save(tmp_path / "cascade")
    ln.matrix_plan(np.eye(2), Budget(rho=1)).run([1, 2], random_source=SeededRandomSource(1)).save(tmp_path / "matrix")
    kinds = {out: TableRelease, tmp_path / "cascade": TreeRelease, tmp_path / "matrix": ln.mechanisms.MatrixRelease}
    for folder, kind in kinds.items():
        assert type(ln.load(folder)) is kind
        for other in kinds.values():
            if other is not kind:
                with pytest.raises(
                    LeastnoiseError, match=rf"^{folder} is a .*release.*; open it with leastnoise\.load$"
                ):
                    other.load(folder)


def test_existing_folders_are_kept(out):
    result = regions()
    result.save(out)
    with pytest.raises(LeastnoiseError, match="exists already"):
        result.save(out)
    other = regions(random_source=SeededRandomSource(7))
    other.save(out, overwrite=True)
    np.testing.assert_array_equal(TreeRelease.load(out).leaves, other.leaves)
    out.with_name("mine").mkdir()
    with pytest.raises(LeastnoiseError, match="is no release and is not replaced"):
        result.save(out.with_name("mine"), overwrite=True)


@pytest.mark.long
def test_any_changed_byte_is_refused(out):
    regions(exact_level=1).save(out)
    rng = np.random.default_rng(1)
    for name in ("release.json", "measurements.npz", "names.json"):
        content = (out / name).read_bytes()
        for place in rng.choice(len(content), min(len(content), 150), replace=False).tolist():
            changed = bytearray(content)
            changed[place] ^= int(rng.integers(1, 256))
            if content[place : place + 1].isspace() and bytes(changed[place : place + 1]).isspace():
                continue  # between two fields, where JSON takes any
            (out / name).write_bytes(bytes(changed))
            refused(out)
        for short in (0, len(content) // 2, len(content) - 1):
            (out / name).write_bytes(content[:short])
            refused(out)
        (out / name).unlink()
        refused(out)
        (out / name).write_bytes(content)
    TreeRelease.load(out)


STRANGE = [None, True, 0, -1, 1.5, 10**30, "", "x", "1/0", "-3/4", "6/8", [], {}, [None], float("inf")]
FREE = {
    ("software",),
    ("dataset",),
    ("created",),
    ("ledger_entry",),
    ("publication",),
}  # nothing in the numbers says what they must be


def places(data, path=()):
    yield path
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield from places(value, (*path, key))


def replaced(data, path, new):
    copy = json.loads(json.dumps(data))
    here = copy
    for key in path[:-1]:
        here = here[key]
    if new is places:
        del here[path[-1]]
    else:
        here[path[-1]] = new
    return copy


@pytest.mark.long
@pytest.mark.parametrize("name", ["targets", "exact nodes", "two trees"])
def test_any_changed_field_is_refused_by_what_it_says(name, out):
    """With the checksum of release.json right again: either refused, or what the release says is the same."""
    result = RELEASES[name]()
    result.save(out)
    data = header(out)
    accepted = set()
    for path in places(data):
        if not path or path[0] == "sha256":
            continue
        for new in [*STRANGE, places]:
            changed = replaced(data, path, new)
            if changed == data:
                continue
            sealed(out, changed)
            release = outcome(out)
            if release is None:
                continue
            accepted.add(path[:1] if path[0] != "privacy" else path)
            assert release.cost == result.cost
            if "counting" not in path:  # rules are words that the statement repeats
                assert release.privacy.statement == result.privacy.statement
    absent = {("privacy", name) for name in ("one_per", "min_separation", "added_delta")}  # as where there is none
    assert accepted <= FREE | absent | {("warning",), ("privacy", "statement"), ("run",)}  # none and unknown


def test_forged_noise_is_refused(out):
    """More privacy than there is: smaller costs need other numbers than those that were drawn from."""
    regions().save(out)
    data = header(out)
    forged = replaced(data, ("trees", 0, "root"), "1000/1")
    sealed(out, forged)
    assert "does not have its fingerprint" in refused(out)
    sealed(out, replaced(data, ("privacy", "mu_squared"), "1/1000"))
    assert "the stated privacy cost is not that of the measurements" in refused(out)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_forged_arrays_fail_in_one_line(out, seed):
    """Every checksum is right again, but arrays are not those of a tree."""
    rng = np.random.default_rng(seed)
    result = regions(exact_level=1)
    result.save(out)
    keep = out.with_name("keep")
    shutil.copytree(out, keep)
    with np.load(out / "measurements.npz") as file:
        arrays = dict(file)
    for _ in range(60):
        forged = {k: v.copy() for k, v in arrays.items()}
        name = str(rng.choice(list(forged)))
        kind = int(rng.integers(5))
        if kind == 0:
            forged[name].flat[int(rng.integers(forged[name].size))] = int(rng.integers(-300, 300))
        elif kind == 1:
            forged[name] = forged[name][:-1].copy()
        elif kind == 2:
            forged[name] = forged[name].astype(float)
        elif kind == 3:
            del forged[name]
        else:
            forged[name] = forged[name][None].copy()
        with (out / "measurements.npz").open("wb") as file:
            np.savez(file, **forged)
        data = header(keep)
        data["files"]["measurements.npz"] = File.of(out / "measurements.npz").model_dump()
        data["id"] = data["files"]["measurements.npz"]["sha256"][:16]
        rest = {k: v for k, v in forged.items() if k != "table"}
        data["fingerprint"] = digest_of({"trees": data["trees"]}, rest)
        sealed(out, data)
        release = outcome(out)
        if release is not None:  # other numbers, or the same cost by other noise
            assert name in ("table", "kind0")
            assert release.leaves.shape == (6,)
            assert release.cost == result.cost


def test_newer_formats_are_refused(out):
    regions().save(out)
    sealed(out, header(out) | {"leastnoise_cascade": 2})
    assert "has release format 2, this version reads 1; update leastnoise" in refused(out)


def test_names_must_fit(out):
    regions().save(out)
    data = header(out)
    for text in ('{"nodes":[null],"values":[null]}', '{"nodes":[],"values":[]}', '{"nodes":[["a"]],"values":[null]}'):
        (out / "names.json").write_text(text)
        data["files"]["names.json"] = File.of(out / "names.json").model_dump()
        sealed(out, data)
        refused(out)


@pytest.mark.long
def test_a_million_leaves(tmp_path):
    tree = Tree.binary(20)
    release = tree_release(np.zeros(2**20, dtype=np.int64), tree, targets=10, random_source=SeededRandomSource(1))
    release.save(tmp_path / "big")
    loaded = TreeRelease.load(tmp_path / "big")
    np.testing.assert_array_equal(loaded.leaves, release.leaves)
    assert loaded.node(1).value == release.leaves[: 2**19].sum()
