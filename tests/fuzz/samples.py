"""Small saved releases of every kind, as bytes, and the seals that a forger would renew."""

from __future__ import annotations

import hashlib
import io
import json
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import leastnoise as ln
from leastnoise.local import Collector, LocalPlan, load_plan, local_plan, save_plan, simulate
from leastnoise.local.reports import ReportFile
from leastnoise.local.state import State
from leastnoise.mechanisms.tree import Tree, TreeRelease, tree_release
from leastnoise.noise import SeededRandomSource
from leastnoise.release import TableRelease
from leastnoise.release.files.folders import ARRAYS, HEADER
from leastnoise.sources import Codes, Table
from leastnoise.storage.archive import digest_of, read_arrays
from leastnoise.storage.records import checksum
from tests.fuzz.mutate import members_of

Files = dict[str, bytes]  # by name; an estimate or a state is a single one
CREATED, IDENTITY = "2026-03-01T12:00:00+00:00", "0123456789abcdef"
COUNTS = (481516, 234201, 0, 90210)  # of a stream; nobody may say them
STREAM, JOURNAL, PLAN = "stream.json", "private.journal", "plan.npz"
DOMAIN = ln.Domain.of(a=range(3), b=["x", "y"])


def _files(folder: Path) -> Files:
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir())}


def _saved(release: Any) -> Files:
    with tempfile.TemporaryDirectory() as folder:
        release.save(Path(folder) / "out")
        path = Path(folder) / "out"
        return _dated(_files(path) if path.is_dir() else {"estimate": path.read_bytes()})


def _dated(files: Files) -> Files:
    """The same without the time of day, so that a seed always stands for the same input."""
    if HEADER not in files:
        return files
    data = json.loads(files[HEADER])
    for part in data.get("parts", [data] if "created" in data else []):
        part["created"] = CREATED
    return resealed(files, data)


def _tables(plan: ln.Plan) -> ln.Release:
    counts = np.random.default_rng(1).poisson(40, plan.workload.domain.shape)
    return plan.run(Table(plan.workload.domain, counts, "people"), random_source=SeededRandomSource(1))


def _plan(workload: ln.Workload, **options: Any) -> ln.Release:
    return _tables(ln.plan(workload, ln.Budget(rho=0.1), baseline="uniform", **options))


def _merged() -> ln.Release:
    work = ln.Workload(DOMAIN)
    one, other = _plan(work.marginals(ways=2).prefix("a")), _plan(work.marginals("b"))
    return TableRelease(one.parts + other.parts, "people", one.origins + other.origins)


def _adjusted() -> Any:
    adjusted = _plan(ln.Workload(DOMAIN).marginals(ways=2)).adjust(nonnegative=True)
    return adjusted.finish(base=5, suppress_below=20)


def _along_a_tree() -> ln.Release:
    regions = ln.hierarchy({"north": ["n1", "n2"], "south": ["s1"]})
    return _plan(ln.Workload(ln.Domain.of(place=regions, b=["x", "y"])).add("nodes", on=["place"]).marginals(ways=1))


def _adaptive(**options: Any) -> ln.Release:
    domain = ln.Domain.of(a=range(3), b=["x", "y"], c=2)
    rows = np.random.default_rng(7).integers(domain.shape, size=(400, 3))
    rows[:, 1] = rows[:, 0] % 2
    adapt = ln.adaptive_plan(ln.Workload(domain).marginals(ways=2), ln.Budget(mu=1), **options)
    return adapt.run(Codes(domain, rows, name="people"), random_source=SeededRandomSource(2))


def _matrix() -> ln.mechanisms.MatrixRelease:
    factorize = ln.matrix_plan(
        [[1.0, 1, 0], [0, 1, 1], [0, 0, 0.5]], ln.Budget(mu=1), items=["u", "v", "w"], names=list("pqr")
    )
    return factorize.run({factorize.counted.name: ["u", "v", "v", "w"]}, random_source=SeededRandomSource(1))


def _totals() -> ln.mechanisms.MatrixRelease:
    factorize = ln.matrix_plan(ln.running_totals(6), ln.Budget(mu=1))
    return factorize.run({factorize.counted.name: [0, 1, 1, 5]}, random_source=SeededRandomSource(1))


def _cascade(**options: Any) -> TreeRelease:
    tree = Tree.from_paths([("north", "a"), ("north", "b"), ("north", "c"), ("south", "d"), ("south", "e")])
    return tree_release(
        np.array([120, 80, 95, 60, 210]), tree, targets=[3, 4, 5], random_source=SeededRandomSource(1), **options
    )


def _estimate() -> Any:
    return _plan(ln.Workload(DOMAIN).marginals(ways=2)).fit(mixtures=1, components=2, replicates=2)


def _keys() -> ln.Release:
    """Keys of made-up people."""
    plan = ln.discover("page", ln.Budget(epsilon=3, delta=1e-6, rows_per_person=1))
    pages = np.repeat(["home", "shop", "help"], [90, 140, 60])
    return plan.run({"page": pages, "who": np.arange(290)}, unit=_WHO, random_source=SeededRandomSource(1))


def _amounts() -> ln.Release:
    """Sums and counts of people with groups, some cells of which are impossible."""
    domain = ln.Domain.of(a=range(3), pay=ln.amount(0, 40, squares=True), b=["x", "y"])
    domain = domain.restricted(["a = 0 and b = 'x'"], bounds=[{"where": "a = 1", "at_most": 50}])
    budget = ln.Budget(mu=1, rows_per_person=2, one_per=["a"])
    plan = ln.plan(ln.Workload(domain).moments("pay", by="a").marginals("b"), budget, baseline="uniform")
    data = {"a": [0, 1, 2, 2] * 9, "pay": [3, 40, 17, 0] * 9, "b": ["y", "x", "y", "x"] * 9, "who": [*range(12)] * 3}
    unit = _WHO | {"max_rows": 2, "one_per": ["a"], "secret": b"the same rows in every run"}
    return plan.run(data, unit=unit, random_source=SeededRandomSource(1))


_WHO: dict[str, Any] = {"id": "who", "max_rows": 1}


def _stream() -> Files:
    """An open stream with some steps; its header is renewed, because it has the time of day and a random name."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "days"
        with ln.mechanisms.Stream(
            ln.matrix_plan(ln.running_totals(6), ln.Budget(mu=1)), folder=path, random_source=SeededRandomSource(3)
        ):
            files = _files(path)
    return resealed(files, json.loads(files[STREAM]) | {"created": CREATED, "id": IDENTITY, "inode": 1})


SAMPLES: dict[str, Callable[[], Any]] = {
    "plan": lambda: _saved(_plan(ln.Workload(DOMAIN).marginals(ways=2))),
    "parts": lambda: _saved(_merged()),
    "tree": lambda: _saved(_along_a_tree()),
    "adaptive": lambda: _saved(_adaptive()),
    "choices": lambda: _saved(_adaptive(select="aim", rounds=8)),
    "matrix": lambda: _saved(_matrix()),
    "totals": lambda: _saved(_totals()),
    "cascade": lambda: _saved(_cascade()),
    "replaced": lambda: _saved(_cascade(neighbours="replace")),
    "adjusted": lambda: _saved(_adjusted()),
    "estimate": lambda: _saved(_estimate()),
    "stream": _stream,
    "state": lambda: {"state": state()},
    "keys": lambda: _saved(_keys()),
    "amounts": lambda: _saved(_amounts()),
}


@cache
def sample(name: str) -> Files:
    """One of the samples."""
    return SAMPLES[name]()


def prepare() -> None:
    """Make all samples, before workers are forked."""
    for name in SAMPLES:
        sample(name)


# --- the local model --------------------------------------------------------------------------------------------------


def _local_plans() -> dict[str, LocalPlan]:
    pairs = ln.Workload(ln.Domain.of(a=range(3), b=["u", "v"], c=range(2))).marginals(ways=2)
    line = ln.Workload(ln.Domain.of(x=range(6))).prefix("x")
    return {
        "value": local_plan(ln.Workload(ln.Domain.of(answer=["yes", "no"])).marginals(ways=1), 1),
        "prefix": local_plan(line, 1),
        "half space": local_plan(line, 1, randomizer="half space"),
        "cap": local_plan(line, 1, randomizer="cap"),
        "gaussian": local_plan(line, 1, 1e-5, randomizer="gaussian"),
        "tables": local_plan(pairs, 1, layout="tables"),
        "split": local_plan(pairs, 6, layout="split"),
    }


@cache
def local_files() -> dict[str, bytes]:
    """Plans for devices, as files."""
    entries = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, plan in _local_plans().items():
            save_plan(plan, Path(folder) / "plan")
            entries[name] = undated((Path(folder) / "plan").read_bytes())
    return entries


@cache
def local_plans() -> dict[str, LocalPlan]:
    """Plans for devices, as they come back from their files."""
    entries = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, data in local_files().items():
            (Path(folder) / "plan").write_bytes(data)
            entries[name] = load_plan(Path(folder) / "plan")
    return entries


@cache
def reports(name: str, count: int = 40) -> bytes:
    """Reports of one of the plans, one after the other."""
    plan = local_plans()[name]
    codes = np.random.default_rng(5).integers(plan.domain.shape, size=(count, len(plan.domain)))
    return simulate(plan, codes, SeededRandomSource(4))


def state() -> bytes:
    """A collection as a file, with its plan inside."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "plan").write_bytes(local_files()["tables"])
        result = State.start(Path(folder) / "plan")
        collector = Collector(result.plan)
        collector.add_block(reports("tables"))
        result.add(ReportFile(collector, "f" * 64))
        result.save(Path(folder) / "state")
        return undated((Path(folder) / "state").read_bytes())


def undated(archive: bytes) -> bytes:
    """An archive without the times at which its members were written."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
        for name, member in members_of(archive).items():
            file.writestr(zipfile.ZipInfo(name), member)
    return stream.getvalue()


# --- seals ------------------------------------------------------------------------------------------------------------


def resealed(files: Files, data: Any) -> Files:
    """Files around a changed header, with all checksums and fingerprints right again, as far as it still has them."""
    head = STREAM if STREAM in files else HEADER
    with suppress(Exception):  # a forger has to leave what cannot be renewed
        _renew(files, data, PLAN if head == STREAM else ARRAYS, head)
    entries = files | {head: json.dumps(data, indent=1).encode("utf-8", "surrogatepass")}
    if head == STREAM and isinstance(data, dict):
        entries[JOURNAL] = journal(str(data.get("sha256")))
    return entries


def _renew(files: Files, data: dict[str, Any], arrays: str, head: str) -> None:
    for name in data["files"]:
        if name in files:
            data["files"][name] = {"bytes": len(files[name]), "sha256": hashlib.sha256(files[name]).hexdigest()}
    if head == HEADER and ARRAYS in files:
        data["id"] = data["files"][ARRAYS]["sha256"][:16]
    try:
        _renew_fingerprints(files, data, arrays)
    finally:
        data["sha256"] = checksum(data)


def _renew_fingerprints(files: Files, data: dict[str, Any], arrays: str) -> None:
    entries = read_arrays(io.BytesIO(files[arrays]), packed=True)  # which does not unpack a bomb
    if "leastnoise_cascade" in data:
        own = {n: a for n, a in entries.items() if n != "table"}
        data["fingerprint"] = digest_of({"trees": data["trees"]}, own)
    elif "parts" in data:
        for k, part in enumerate(data["parts"]):
            mine = {n.removeprefix(f"part{k}_"): a for n, a in entries.items() if n.startswith(f"part{k}_")}
            own = {n: a for n, a in mine.items() if not n.startswith("answers")}
            part["fingerprint"] = digest_of(part["recipe"], own)
    elif "leastnoise_keys" in data:
        names = "attribute neighbours rows_per_person size exact max_keys variance at_least least stated_delta".split()
        own_fields = json.dumps({name: data[name] for name in names}, sort_keys=True)
        data["fingerprint"] = hashlib.sha256(own_fields.encode()).hexdigest()
    else:
        counted = json.loads(files["names.json"])["counted"]
        own = {n: a for n, a in entries.items() if n != "measured"}
        data["fingerprint"] = digest_of({"variance": data["variance"], "counted": counted}, own)


def journal(start: str, steps: tuple[tuple[Any, Any], ...] = tuple((c, c + 7) for c in COUNTS)) -> bytes:
    """The lines of a stream's journal, each with a digest of all before it."""
    digest, lines = start.encode("utf-8", "surrogatepass"), []
    for number, (count, measured) in enumerate(steps):
        payload = f"{number} {count} {measured}".encode()
        digest = hashlib.sha256(digest + b" " + payload).hexdigest().encode()
        lines.append(payload + b" " + digest + b"\n")
    return b"".join(lines)


def resealed_estimate(head: Any, numbers: bytes) -> bytes:
    """The file of an estimate with its checksums right again."""
    if isinstance(head, dict):
        head["numbers"] = hashlib.sha256(numbers).hexdigest()
        head["sha256"] = checksum(head)
    return json.dumps(head).encode("utf-8", "surrogatepass") + b"\n" + numbers
