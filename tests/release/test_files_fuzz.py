"""Saved releases under attack: whatever is changed is refused with one line, or does not matter."""

import copy
import io
import json
import shutil
import signal
import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.errors import LeastnoiseError
from leastnoise.noise import SeededRandomSource
from leastnoise.release import TableRelease
from leastnoise.storage.archive import digest_of, read_arrays
from leastnoise.storage.records import File
from leastnoise.workload.store import workload_to_json
from tests.release.test_files import DOMAIN, counts, header, refused, released, same_numbers, sealed


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A small release with two parts; nothing done to it may take a minute."""
    folder = tmp_path_factory.mktemp("fuzz") / "out"
    release = released(baseline="uniform")
    work = ln.Workload(DOMAIN).marginals("b")
    other = ln.plan(work, ln.Budget(rho=0.1), baseline="uniform").run(
        counts(DOMAIN), random_source=SeededRandomSource(2)
    )
    TableRelease(release.parts + other.parts, "people", release.origins + other.origins).save(folder)

    def hang(*_: object) -> None:
        raise AssertionError("loading hangs")

    before = signal.signal(signal.SIGALRM, hang)
    yield folder
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def folder(good: Path, tmp_path: Path) -> Path:
    shutil.copytree(good, tmp_path / "out")
    return tmp_path / "out"


def forged(folder: Path, data: dict[str, Any]) -> None:
    """Write a changed header with all checksums and fingerprints right again, as far as it still has them."""
    data = copy.deepcopy(data)
    path = folder / "measurements.npz"
    try:
        if "measurements.npz" in data["files"]:
            data["files"]["measurements.npz"] = File.of(path).model_dump()
            data["id"] = data["files"]["measurements.npz"]["sha256"][:16]
        for k, part in enumerate(data["parts"]):
            arrays = {n.removeprefix(f"part{k}_"): a for n, a in read_arrays(path).items() if f"part{k}_" in n}
            own = {n: a for n, a in arrays.items() if not n.startswith("answers")}
            if "fingerprint" in part:
                part["fingerprint"] = digest_of(part["recipe"], own)
    except (LeastnoiseError, KeyError, TypeError, ValueError, zipfile.BadZipFile):
        pass  # then a forger has to leave it
    sealed(folder, data)


def outcome(folder: Path) -> ln.Release | None:
    """The release, or None where it is refused in one line."""
    signal.alarm(60)
    try:
        return ln.Release.load(folder)
    except LeastnoiseError as error:
        assert "\n" not in str(error)  # noqa: PT017
        assert str(folder) in str(error)  # noqa: PT017
        return None
    finally:
        signal.alarm(0)


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        yield (*path, key)
        yield from places(child, (*path, key))


def wrong_type(value: Any) -> Any:
    if isinstance(value, dict):
        return []
    if isinstance(value, list):
        return {"a": 1}
    return 7.5 if isinstance(value, str) else ["x"]


def changed(data: dict[str, Any]) -> Iterator[tuple[tuple[Any, ...], str, dict[str, Any]]]:
    """(place, kind of change, changed header) for every field."""
    for path in places(data):
        for kind in ("delete", "null", "type", "huge", "float", "empty"):
            new = copy.deepcopy(data)
            parent = new
            for key in path[:-1]:
                parent = parent[key]
            old = parent[path[-1]]
            if kind == "delete":
                del parent[path[-1]]
            else:
                values = {"null": None, "type": wrong_type(old), "huge": 10**400, "float": 1e300, "empty": ""}
                parent[path[-1]] = values[kind]
            if new != data:
                yield path, kind, new


@pytest.mark.long
def test_any_changed_field_is_refused(folder):
    tried = 0
    for _, _, new in islice(changed(header(folder)), 0, None, 5):  # a few of the changes of every field
        (folder / "release.json").write_text(json.dumps(new))
        assert outcome(folder) is None
        tried += 1
    assert tried > 200


def harmless(path: tuple[Any, ...], kind: str) -> bool:
    """By design: what is only told about a release. Its types are checked, and its numbers are not used."""
    if path == ("dataset",):
        return kind == "null"
    if path[0] == "parts" and path[2:3] == ("ledger_entry",):
        return kind == "huge"
    if path[-2:] in {("privacy", name) for name in ("one_per", "min_separation", "added_delta")}:
        return kind == "delete"  # saved before people had groups, and before deltas were added
    if path[0] == "parts" and path[2:] == ("adaptive",):
        return kind == "delete"  # saved before there were adaptive releases
    if path[0] == "parts" and path[2:] in {("run", "counting"), ("run", "side"), ("publication",)}:
        return kind in ("delete", "null")  # saved before releases had rules, side counts or a title
    if path[0] == "parts" and path[2:4] == ("run", "counting"):
        return True  # the rules are words; what they say is not in the numbers
    if path[0] == "parts" and path[2:3] == ("plan",):
        return kind in ("huge", "float") or (kind == "null" and path[3:] in {(), ("class_floor",), ("gap",)})
    return False


@pytest.mark.long
def test_any_changed_field_is_refused_by_what_it_says(folder):
    """With the checksum of release.json right again."""
    release, accepted = ln.Release.load(folder), 0
    for path, kind, new in changed(header(folder)):
        if path == ("sha256",) or ("recipe" in path and kind != "delete"):  # the next test changes those
            continue
        sealed(folder, new)
        new_release = outcome(folder)
        assert new_release is None or harmless(path, kind), (path, kind)
        if new_release is not None:
            same_numbers(new_release, release)
            accepted += 1
    assert 0 < accepted < 100


@pytest.mark.long
@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_forged_headers_are_refused_or_make_sense(folder, step):
    """With fingerprints right again too. Nothing can tell a forger who knows all formats from the author, so some
    changes give another release; but it is one that can be read and asked, and it states its own privacy cost."""
    refusals, accepted = 0, 0
    for path, kind, new in islice(changed(header(folder)), 0, None, step):
        if path[:1] != ("parts",) or path[2:3] != ("recipe",):
            continue
        forged(folder, new)
        release = outcome(folder)
        refusals += release is None
        if release is not None:
            accepted += 1
            assert kind not in ("type", "null") or path[-1] in {"target", 0, 1}, (path, kind)
            assert release.cost == ln.Release.load(folder).cost
            list(release.tables())
    assert refusals > 5 * accepted > 0


@pytest.mark.parametrize("file", ["release.json", "measurements.npz"])
def test_truncated_files_are_refused(folder, file):
    path, data = folder / file, header(folder)
    whole = path.read_bytes()
    for length in (0, 1, 10, len(whole) // 3, len(whole) // 2, len(whole) - 30, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert outcome(folder) is None
        if file == "measurements.npz":
            forged(folder, data)
            assert outcome(folder) is None


@pytest.mark.long
def test_flipped_bytes_are_refused_or_harmless(folder, rng):
    """As they are, and with all checksums of files right again: then only bytes that nobody reads may differ."""
    path, data = folder / "measurements.npz", header(folder)
    release, whole, equal = ln.Release.load(folder), path.read_bytes(), 0
    for place in rng.choice(len(whole), size=200, replace=False).tolist():
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        (folder / "release.json").write_text(json.dumps(data))
        assert outcome(folder) is None
        file = File.of(path)
        named = data | {"files": {"measurements.npz": file.model_dump()}, "id": file.sha256[:16]}
        sealed(folder, named)
        new_release = outcome(folder)
        if new_release is not None:
            same_numbers(new_release, release)
            equal += 1
    assert equal < 100  # dates and spare fields of the archive


def rebuilt(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    return stream.getvalue()


def npy(array: Any, **options: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


@pytest.mark.long
def test_flipped_bytes_inside_arrays_fail_in_one_line(folder, rng):
    """With the checksums of the archive right as well: other answers are a forgery; the rest must be refused."""
    path, data = folder / "measurements.npz", header(folder)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    refusals = 0
    for _ in range(200):
        name = str(rng.choice(list(members)))
        damaged = bytearray(members[name])
        damaged[int(rng.integers(min(len(damaged), 160)))] ^= 1 << int(rng.integers(8))
        path.write_bytes(rebuilt(members | {name: bytes(damaged)}))
        forged(folder, data)
        refusals += outcome(folder) is None
    assert refusals > 100


WRONG = {
    "floats": lambda a: a.astype(np.float64),
    "bytes": lambda a: a.astype(np.int8),
    "unsigned": lambda a: a.astype(np.uint64),
    "high byte first": lambda a: a.astype(">i8"),
    "more": lambda a: np.concatenate([a, a]),
    "fewer": lambda a: a[:0],
    "flat": lambda a: a.ravel(),
    "deeper": lambda a: a[None],
    "turned": lambda a: np.asfortranarray(np.vstack([a, a])),
    "words": lambda a: np.full(a.shape, "one"),
    "padded": lambda a: np.full(a.shape, " 1"),
    "underscores": lambda a: np.full(a.shape, "1_0"),
    "fractions": lambda a: np.full(a.shape, "1.5"),
    "not a number": lambda a: np.full(a.shape, np.nan),
    "objects": lambda a: a.astype(object),
}


@pytest.mark.parametrize("change", WRONG)
def test_arrays_of_the_wrong_kind_are_refused(folder, change):
    path, data = folder / "measurements.npz", header(folder)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for name in members:
        array = np.load(io.BytesIO(members[name]))
        if (change == "floats" and "prior" in name) or (change == "flat" and array.ndim == 1):
            continue
        path.write_bytes(rebuilt(members | {name: npy(WRONG[change](array), allow_pickle=True)}))
        forged(folder, data)
        assert outcome(folder) is None, name


def test_missing_and_additional_arrays_are_refused(folder):
    path, data = folder / "measurements.npz", header(folder)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for name in members:
        path.write_bytes(rebuilt({n: m for n, m in members.items() if n != name}))
        forged(folder, data)
        assert outcome(folder) is None, name
    for name in ("part0_answers99_0.npy", "part0_rows99.npy", "part2_prior0.npy", "other.npy"):
        path.write_bytes(rebuilt(members | {name: npy(np.zeros((1, 1), dtype=np.int64))}))
        forged(folder, data)
        assert outcome(folder) is None, name


@pytest.mark.parametrize("text", ["", "[]", "null", "7", "{", '{"leastnoise_release": NaN}', "[" * 100_000, "\ud800"])
def test_other_json_is_refused(folder, text):
    (folder / "release.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    assert outcome(folder) is None


@pytest.mark.parametrize("name", ["../secret", "/etc/hostname", "tables/../../x", "a/b", ".hidden", ""])
def test_files_are_only_looked_for_in_the_folder(folder, name):
    data = header(folder)
    data["files"][name] = data["files"]["measurements.npz"]
    sealed(folder, data)
    assert "files" in refused(folder)


# --- adaptive releases ------------------------------------------------------------------------------------------------


@pytest.fixture
def adaptive(good: Path, tmp_path: Path) -> Path:
    """A small adaptive release, several rounds long."""
    work = ln.Workload(DOMAIN).marginals(ways=2)
    adapt = ln.adaptive_plan(work, ln.Budget(mu=1), select="aim", rounds=12)
    adapt.run(counts(DOMAIN), random_source=SeededRandomSource(1), out=tmp_path / "adaptive")
    return tmp_path / "adaptive"


def only_told(path: tuple[Any, ...], kind: str) -> bool:
    """What is reported of rounds and questions and cannot be checked: weights, names, sets inside of others,
    guesses.
    """
    inside = path[path.index("adaptive") + 1 :]
    if inside[0] == "rounds":
        return kind == "delete" and "measured" in inside
    if inside[0] == "asked":
        return inside[-1] in {"weight", "label", "target"} and kind in {"huge", "float", "empty"}
    return inside[0] == "expected" and kind == "float"


@pytest.mark.long
def test_changed_rounds_are_refused_by_what_they_say(adaptive):
    """With all checksums and fingerprints right again."""
    release, tried, accepted = ln.Release.load(adaptive), 0, 0
    for path, kind, new in changed(header(adaptive)):
        if "adaptive" not in path and path[-1] != "selection":
            continue
        forged(adaptive, new)
        new_release = outcome(adaptive)
        tried += 1
        if new_release is not None:
            assert only_told(path, kind), (path, kind)
            same_numbers(new_release, release)
            accepted += 1
    assert tried > 300
    assert accepted < 40


def _rounds(part: dict[str, Any]) -> list[dict[str, Any]]:
    return part["adaptive"]["rounds"]


FORGED = {
    "cheaper choices": (
        lambda part: _rounds(part)[1].update(selection="1/1000000"),
        "the rounds do not cost what the measurements cost",
    ),
    "cheaper choices everywhere": (
        lambda part: (
            [r.update(selection="1/1000003") for r in _rounds(part)],
            part["recipe"].update(selection=f"{len(_rounds(part))}/1000003"),
        ),
        "the stated privacy cost is not that of the measurements",
    ),
    "free choices": (
        lambda part: part["recipe"].pop("selection"),
        "the rounds do not cost what the measurements cost",
    ),
    "choices paid as measurements": (
        lambda part: _rounds(part)[1].update(selection="0/1", measurement=_rounds(part)[1]["selection"]),
        "the rounds do not cost what the measurements cost",
    ),
    "one round less": (lambda part: _rounds(part).pop(), "the rounds do not cost what the measurements cost"),
    "one round twice": (
        lambda part: _rounds(part).append(_rounds(part)[0]),
        "the rounds do not cost what the measurements cost",
    ),
    "no rounds at all": (
        lambda part: part.update(adaptive=None),
        "it paid for choosing and does not say what was chosen",
    ),
    "another domain": (
        lambda part: part["adaptive"].update(
            asked=workload_to_json(ln.Workload(ln.Domain.of(a=range(3), b=2)).marginals(ways=1))
        ),
        "its workload is on another domain than the measurements",
    ),
    "other questions": (
        lambda part: part["adaptive"].update(
            asked=workload_to_json(ln.Workload(DOMAIN).marginals(ways=1)),
            expected=[1.0, 1.0, 1.0],
            rounds=[r | {"compared": 0} for r in _rounds(part)],
        ),
        "it measured a table that is not in its workload",
    ),
    "more questions": (
        lambda part: part["adaptive"].update(asked=workload_to_json(ln.Workload(DOMAIN).marginals(ways=[1, 2]))),
        "it does not state one expected error for each table",
    ),
    "an expected error less": (
        lambda part: part["adaptive"]["expected"].pop(),
        "it does not state one expected error for each table",
    ),
    "more tables than there are": (
        lambda part: _rounds(part)[1].update(compared=10**6),
        "a round compared more tables than there are",
    ),
    "nothing measured": (
        lambda part: [r.update(measured=[]) for r in _rounds(part)],
        "the rounds do not state what was measured",
    ),
    "something else measured": (
        lambda part: _rounds(part)[0].update(measured=[["a", "b", "c"]]),
        "the rounds do not state what was measured",
    ),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_rounds_are_refused(adaptive, name):
    change, message = FORGED[name]
    data = header(adaptive)
    change(data["parts"][0])
    forged(adaptive, data)
    with pytest.raises(LeastnoiseError) as error:
        ln.Release.load(adaptive)
    assert f"({message})" in str(error.value)


def test_merged_adaptive_releases_are_saved_with_their_rounds(adaptive, folder, tmp_path):
    """A release of a plan beside it keeps what each of them tells; rounds must stay with their own part."""
    one, other = ln.Release.load(adaptive), released(baseline="uniform", budget=ln.Budget(mu=1))
    both = ln.merge(one, other)
    both.save(tmp_path / "both")
    again = ln.Release.load(tmp_path / "both")
    same_numbers(again, both)
    assert [o.adaptive is None for o in again.origins] == [False, True]
    data = header(tmp_path / "both")
    data["parts"][0]["adaptive"], data["parts"][1]["adaptive"] = None, data["parts"][0]["adaptive"]
    forged(tmp_path / "both", data)
    assert outcome(tmp_path / "both") is None
