"""Saved releases of every kind: changed, swapped, cut, forged with their checksums right; loaded and read."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import leastnoise as ln
from leastnoise.estimate import Estimate
from leastnoise.local.state import State
from leastnoise.mechanisms.tree import TreeRelease
from leastnoise.noise import SeededRandomSource
from leastnoise.release.files.folders import ARRAYS, HEADER
from leastnoise.release.postprocessing.readers import AdjustedTables
from leastnoise.storage.records import NAMES
from tests.fuzz import mutate, samples
from tests.fuzz.law import Kind, Trial
from tests.fuzz.samples import COUNTS, JOURNAL, PLAN, STREAM, Files, sample

FOLDERS = (
    *("plan", "parts", "tree", "adaptive", "choices", "matrix", "totals", "cascade", "replaced"),
    *("keys", "amounts"),
)


def attempt(trial: Trial) -> None:
    """Change a sample, load it, and read a little."""
    name = trial.rng.choice(list(samples.SAMPLES))
    trial.note(name)
    if name == "stream":
        _stream(trial)
    elif name in ("estimate", "state"):
        path = trial.folder / name
        path.write_bytes((_estimate if name == "estimate" else _state)(trial))
        _read_estimate(Estimate.load(path), trial.rng) if name == "estimate" else _read_state(State.load(path))
    elif name == "adjusted":
        put(trial.folder, changed(trial, sample(name)))
        _read_adjusted(AdjustedTables.load(trial.folder), trial)
    else:
        put(trial.folder, changed(trial, sample(name)))
        read(ln.load(trial.folder), trial.rng)


def _read_adjusted(tables: AdjustedTables, trial: Trial) -> None:
    names = trial.rng.choice(list(tables.tables()))
    tables.table(*names)
    tables.export(trial.folder / "exported", [names], format=trial.rng.choice(["csv", "json-stat", "sdmx-csv"]))


def put(folder: Path, files: Files) -> None:
    """Write files into a folder."""
    for name, data in files.items():
        (folder / name).write_bytes(data)


# --- changes ----------------------------------------------------------------------------------------------------------


def changed(trial: Trial, files: Files) -> Files:
    """A release with one thing changed: in bytes, in a header, in arrays, in names, or a file swapped or gone."""
    rng = trial.rng
    action = rng.choices(["bytes", "swap", "drop", "header", "arrays", "names", "loose"], [15, 4, 2, 40, 25, 10, 4])[0]
    trial.note(action)
    if action in ("bytes", "drop", "swap"):
        name = rng.choice(list(files))
        other = sample(rng.choice(FOLDERS))
        new = {
            "bytes": lambda: mutate.in_bytes(rng, files[name]),
            "swap": lambda: other.get(name, b""),
            "drop": lambda: b"",
        }
        entries = files | {name: new[action]()}
        if action == "drop":
            del entries[name]
        return entries if rng.random() < 0.5 else sealed(entries)
    if action == "names" and NAMES in files:
        return sealed(files | {NAMES: in_json(trial, files[NAMES])})
    if action == "arrays":
        arrays = PLAN if PLAN in files else ARRAYS
        archive, how = mutate.in_archive(rng, files[arrays], [sample(n)[ARRAYS] for n in FOLDERS])
        trial.note(how)
        return sealed(files | {arrays: archive})
    head = STREAM if STREAM in files else HEADER
    data = json.loads(files[head])
    trial.note(mutate.in_data(rng, data))
    if action == "loose":
        return files | {head: _text(data)}
    return samples.resealed(files, data)


def sealed(files: Files) -> Files:
    """Files with a header that fits them, if it can be read."""
    head = STREAM if STREAM in files else HEADER
    try:
        data = json.loads(files[head])
    except (KeyError, ValueError, RecursionError):
        return files
    return samples.resealed(files, data)


def in_json(trial: Trial, text: bytes) -> bytes:
    """JSON with something changed in it."""
    data = json.loads(text)
    trial.note(mutate.in_data(trial.rng, data))
    return _text(data)


def _text(data: Any) -> bytes:
    return json.dumps(data).encode("utf-8", "surrogatepass")


def _estimate(trial: Trial) -> bytes:
    rng, whole = trial.rng, sample("estimate")["estimate"]
    head, _, numbers = whole.partition(b"\n")
    action = rng.choice(["bytes", "header", "header", "header", "numbers"])
    trial.note(action)
    if action == "bytes":
        return mutate.in_bytes(rng, whole)
    data = json.loads(head)
    if action == "numbers":
        return samples.resealed_estimate(data, mutate.in_bytes(rng, numbers))
    trial.note(mutate.in_data(rng, data))
    return samples.resealed_estimate(data, numbers)


def _state(trial: Trial) -> bytes:
    rng, whole = trial.rng, sample("state")["state"]
    action = rng.choice(["bytes", "members", "header", "files", "plan"])
    trial.note(action)
    if action == "bytes":
        return mutate.in_bytes(rng, whole)
    if action == "members":
        archive, how = mutate.in_archive(rng, whole, [sample("plan")[ARRAYS]])
        trial.note(how)
        return archive
    members = mutate.members_of(whole)
    if action == "plan":
        inside, how = mutate.in_archive(rng, base64.b64decode(members["plan.base64"]))
        trial.note(how)
        members["plan.base64"] = base64.b64encode(inside)
    else:
        name = f"{action}.json"
        members[name] = in_json(trial, members[name])
    return mutate.archived(members, packed=True)


# --- streams ----------------------------------------------------------------------------------------------------------


def _stream(trial: Trial) -> None:
    """Streams have counts in their journal, which nobody may say."""
    rng, files = trial.rng, sample("stream")
    trial.secrets |= {str(c) for c in COUNTS if c}
    if rng.random() < 0.4:
        files = files | {JOURNAL: _journal(trial, files)}
    else:
        files = changed(trial, files)
    put(trial.folder, files)
    with ln.mechanisms.Stream.load(
        trial.folder, random_source=SeededRandomSource(9), moved=rng.random() < 0.95
    ) as stream:
        stream.to_pandas()
        if len(stream):
            stream.answer(rng.randrange(len(stream)))
        if rng.random() < 0.3:
            stream.add(rng.choice([0, 3, -1, 2**40, 2**64]), step=rng.choice([None, 0, len(stream), 10**9]))


def _journal(trial: Trial, files: Files) -> bytes:
    rng, start = trial.rng, json.loads(files[STREAM])["sha256"]
    if rng.random() < 0.5:
        return mutate.in_bytes(rng, files[JOURNAL])
    steps: list[tuple[Any, Any]] = [(c, c + rng.choice([0, 5, -9])) for c in COUNTS]
    odd = rng.choice([-1, 10**18, 10**19, 2**62, 2**63, 10**59, "+1", "1e3", "", "\x00"])
    steps[rng.randrange(4)] = rng.choice([(odd, 1), (1, odd), (odd, odd)])
    trial.note(steps)
    return samples.journal(start, tuple(steps * rng.choice([1, 1, 3])))


# --- reading ----------------------------------------------------------------------------------------------------------


def read(release: Any, rng: Random) -> None:
    """A few reads of a release of any kind."""
    str(release), release.privacy if hasattr(release, "privacy") else release.cost
    if isinstance(release, TreeRelease):
        rng.choice(_CASCADE)(release)
    elif isinstance(release, ln.mechanisms.MatrixRelease):
        rng.choice(_MATRIX)(release)
    else:
        rng.choice(_TABLES)(release)


_TABLES: tuple[Callable[[ln.Release], object], ...] = (
    lambda r: list(r.tables()),
    lambda r: r.table(r.domain.names[0]),
    lambda r: r.total(),
    lambda r: r.ask(f"'{r.domain.names[0]}' = 1"),
    lambda r: repr(r),
    lambda r: r.cost,
    lambda r: r.answer(),
)
_MATRIX: tuple[Callable[[ln.mechanisms.MatrixRelease], object], ...] = (
    lambda r: r.answer(),
    lambda r: r.ask(0),
    lambda r: r.table(*r.domain.names),
    lambda r: r._repr_html_(),
)
_CASCADE: tuple[Callable[[TreeRelease], object], ...] = (
    lambda r: r.to_pandas(*r.domain.names),
    lambda r: r.total(),
    lambda r: r.level(*[0] * len(r.trees)),
    lambda r: r._repr_html_(),
)


def _read_estimate(estimate: Estimate, rng: Random) -> None:
    str(estimate)
    rng.choice(
        [
            lambda: estimate.table("a"),
            lambda: estimate.ask("a = 1"),
            lambda: estimate.to_pandas(3),
        ]
    )()


def _read_state(state: State) -> None:
    state.collector.answers()


KIND = Kind("releases", attempt, samples.prepare)
