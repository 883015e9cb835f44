"""Releases as folders: written whole or not at all, read without the data, refused where anything is wrong."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from importlib.metadata import version
from math import isclose, prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import Field, ValidationError

from leastnoise.errors import LeastnoiseError
from leastnoise.measure import WIDTHS, Answers, Measurements
from leastnoise.plan.recipe import Recipe
from leastnoise.plan.recipe_store import Arrays, digest_of, recipe_data, recipe_from
from leastnoise.plan.store import UNREADABLE
from leastnoise.release.rounds import Adaptivity
from leastnoise.release.statement import INSECURE, SAME, Origin, Privacy, Record, Summary, Text, Time

if TYPE_CHECKING:
    from leastnoise.release.release import Release

VERSION = 1
Kind = TypeVar("Kind", bound=Record)
HEADER, ARRAYS = "release.json", "measurements.npz"
NOTES, TABLES = "README.txt", (".csv", ".parquet")  # of exported tables
BATCH_BYTES = 2**20
DRAFT, ASIDE = ".part", ".old"  # ends of the hidden names that a folder has before it is complete, or when replaced
# What NumPy writes at the head of such arrays. Its own reader takes more, and fails in more ways.
NPY = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '(?P<type><i[248]|<f8|<U[1-9][0-9]{0,3})', "
    rb"'fortran_order': False, 'shape': \((?P<shape>[0-9, ]*)\), \} *\n",
    re.DOTALL,
)
DAMAGES = (*UNREADABLE, AttributeError, IndexError, ArithmeticError, MemoryError)  # RecursionError is a RuntimeError
RESTORE = "restore it from a copy or save the release again"


class File(Record):
    """A file of the folder."""

    bytes: Annotated[int, Field(ge=0)]
    sha256: Text


class Part(Record):
    """One set of measurements."""

    created: Time
    ledger_entry: Annotated[int, Field(gt=0)] | None
    plan: Summary | None
    adaptive: Adaptivity | None = None
    insecure: bool
    privacy: Privacy
    fingerprint: Text
    recipe: dict[str, Any]


class Header(Record):
    """release.json. `sha256` is that of its canonical form without this field."""

    leastnoise_release: int
    software: Text
    id: Text
    dataset: Text | None
    insecure: bool
    warning: Text | None
    privacy: Privacy
    parts: Annotated[list[Part], Field(min_length=1)]
    files: dict[Annotated[str, Field(pattern=r"^(tables/)?[A-Za-z0-9][A-Za-z0-9._-]*$")], File]
    sha256: Text


# --- writing ----------------------------------------------------------------------------------------------------------


@contextmanager
def drafted(path: Path, overwrite: bool = False) -> Iterator[Path]:
    """A new folder to write into; it gets its name when all of it is on disk, and is removed after an exception.

    Guarantees: appears_whole_or_not_at_all; never_replaces_what_is_no_release.
    """
    path = path.absolute()
    _check_target(path, overwrite)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}{DRAFT}")
    with writing(path):
        draft.mkdir()
    try:
        yield draft
        with writing(path):
            for file in (*sorted(draft.rglob("*")), draft):
                _sync(file)
            _check_target(path, overwrite)  # somebody may have been faster
            _move(draft, path)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _check_target(path: Path, overwrite: bool) -> None:
    if not path.parent.is_dir():
        raise LeastnoiseError(f"there is no folder {path.parent} to write in; create it first")
    if not (path.exists() or path.is_symlink()):
        return
    if not overwrite:
        raise LeastnoiseError(f"{path} exists already; choose another name, or replace it with overwrite=True")
    if path.is_symlink() or not _is_ours(path):
        raise LeastnoiseError(f"{path} is no release and is not replaced; choose another name")


def _is_ours(path: Path) -> bool:
    """Whether a folder holds a release, or exported tables and nothing else."""
    names = {p.name for p in path.iterdir()} if path.is_dir() else set()
    return {HEADER, ARRAYS} <= names or (NOTES in names and all(n == NOTES or n.endswith(TABLES) for n in names))


def _move(draft: Path, path: Path) -> None:
    """Give a complete folder its name; a folder that has it steps aside and is removed after."""
    aside = draft.with_suffix(ASIDE)
    if path.exists():
        path.rename(aside)
    try:
        draft.rename(path)
    except OSError:
        if aside.exists():
            aside.rename(path)
        raise
    _sync(path.parent)
    shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Whatever the disk refuses, in one line."""
    try:
        yield
    except OSError as error:
        raise LeastnoiseError(f"{path} cannot be written ({error.strerror or type(error).__name__})") from None


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write(release: Release, folder: Path) -> str:
    """Write a release into a folder that may already hold tables; returns the id of the release."""
    recipes = [recipe_data(p.recipe) for p in release.parts]
    arrays: Arrays = {}
    for k, (part, (_, own)) in enumerate(zip(release.parts, recipes, strict=True)):
        arrays |= {f"part{k}_{name}": np.ascontiguousarray(array) for name, array in own.items()}
        arrays |= {f"part{k}_{name}": _stored(array) for name, array in _answers(part)}
    with writing(folder):
        with (folder / ARRAYS).open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
        others = sorted(p for p in folder.rglob("*") if p.is_file())
        files = {p.relative_to(folder).as_posix(): measured(p) for p in others}
        header = _header(release, recipes, files)
        (folder / HEADER).write_text(json.dumps(header, indent=1))
    return str(header["id"])


def _answers(part: Measurements) -> Iterator[tuple[str, Answers]]:
    for o, orbit in enumerate(part.answers):
        for i, array in enumerate(orbit):
            yield _name(o, i), array


def _name(orbit: int, probe: int) -> str:
    return f"answers{orbit}_{probe}"


def _stored(answers: Answers) -> npt.NDArray[Any]:
    """Integers as they are, low byte first; those that need Python's own as decimal text."""
    kind = str if answers.dtype == object else answers.dtype.newbyteorder("<")
    return np.ascontiguousarray(answers.astype(kind, copy=False))


def measured(path: Path) -> File:
    """Size and checksum of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(BATCH_BYTES):
            digest.update(chunk)
    return File(bytes=path.stat().st_size, sha256=digest.hexdigest())


def origins_of(release: Release) -> tuple[Origin, ...]:
    """One origin per part; unknown ones are made now."""
    known = len(release.origins) == len(release.parts)
    return release.origins if known else tuple(Origin() for _ in release.parts)


def _header(release: Release, recipes: list[tuple[dict[str, Any], Arrays]], files: dict[str, File]) -> dict[str, Any]:
    parts = [
        Part(
            created=origin.created,
            ledger_entry=origin.ledger_entry,
            plan=origin.summary,
            adaptive=origin.adaptive,
            insecure=part.insecure,
            privacy=Privacy.of([part]),
            fingerprint=digest_of(*recipe),
            recipe=recipe[0],
        )
        for part, origin, recipe in zip(release.parts, origins_of(release), recipes, strict=True)
    ]
    header = Header(
        leastnoise_release=VERSION,
        software=f"leastnoise {version('leastnoise')}",
        id=identity_of(files),
        dataset=release.dataset or None,
        insecure=release.insecure,
        warning=INSECURE if release.insecure else None,
        privacy=Privacy.of(release.parts),
        parts=parts,
        files=files,
        sha256="-",
    ).model_dump()
    return header | {"sha256": checksum(header)}


def identity_of(files: Mapping[str, File]) -> str:
    """The id of a release: of what was measured."""
    return files[ARRAYS].sha256[:16]


def checksum(header: Mapping[str, Any]) -> str:
    """sha256 of a header's canonical form without its own checksum."""
    rest = {name: value for name, value in header.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


# --- reading ----------------------------------------------------------------------------------------------------------


def load(path: Path) -> dict[str, Any]:
    """The fields of a saved release.

    Guarantees: refuses_whatever_was_changed; fails_only_with_a_message_in_one_line.
    """
    check_folder(path)
    file = path / HEADER
    header = read_header(file, "leastnoise_release", VERSION, Header)
    check_files(path, header.files, header.id)
    with reading(path / ARRAYS):
        arrays = read_arrays(path / ARRAYS)
    with reading(file), np.errstate(all="ignore"):  # forged numbers may overflow; what comes of them is refused
        parts = tuple(_part(k, part, arrays) for k, part in enumerate(header.parts))
        if arrays:
            raise LeastnoiseError(f"nothing belongs to the array {min(arrays)!r}")
        if any(p.recipe.workload.domain != parts[0].recipe.workload.domain for p in parts):
            raise LeastnoiseError("its parts are on different domains")
        header.privacy.check(Privacy.of(parts))
        if header.insecure != any(p.insecure for p in parts) or header.insecure != (header.warning is not None):
            raise LeastnoiseError("its marks for insecure noise contradict each other")
    origins = tuple(Origin(p.created, p.ledger_entry, p.plan, p.adaptive) for p in header.parts)
    return {"parts": parts, "dataset": header.dataset, "origins": origins}


def check_folder(path: Path) -> None:
    """Refuse what is no folder of a release, or one that is not complete."""
    name = path.resolve().name
    if name.startswith(".") and name.endswith(DRAFT):
        raise LeastnoiseError(f"{path} is left of a save that did not finish; delete it and save the release again")
    if name.startswith(".") and name.endswith(ASIDE):
        raise LeastnoiseError(f"{path} was about to be replaced by a save that did not finish; rename it to keep it")
    if path.is_file():
        raise LeastnoiseError(f"{path} is a file; a release is a folder with {HEADER} in it")
    if not path.is_dir():
        raise LeastnoiseError(f"there is no release {path}; save one with release.save(path)")
    check_there(path, HEADER)


def check_there(path: Path, name: str) -> None:
    """Refuse a release that lacks a file."""
    if not (path / name).is_file():
        raise LeastnoiseError(f"{path} has no {name}, so it is not a whole release; {RESTORE}")


@contextmanager
def reading(file: Path) -> Iterator[None]:
    """Whatever is wrong with a file, in one line."""
    try:
        yield
    except LeastnoiseError as error:
        raise damaged(file, error) from None
    except ValidationError as error:
        first = error.errors()[0]
        raise damaged(file, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    except DAMAGES as error:
        raise damaged(file, type(error).__name__) from None


def damaged(file: Path, why: object) -> LeastnoiseError:
    """What to raise where a file cannot be trusted."""
    reason = " ".join(str(why).split())
    return LeastnoiseError(f"{file} is damaged ({reason[:200]}); {RESTORE}")


def read_header(file: Path, mark: str, version: int, kind: type[Kind]) -> Kind:
    """A header of this kind; `mark` is the field that holds the version of its format."""
    with reading(file):
        data = json.loads(file.read_bytes())
        if mark not in data:
            raise LeastnoiseError("it is of another kind of release")
        found = data[mark]
        if type(found) is not int or found < 1:
            raise LeastnoiseError(f"unknown format {str(found)[:20]!r}")
    if found > version:
        raise LeastnoiseError(f"{file} has release format {found}, this version reads {version}; update leastnoise")
    with reading(file):
        header = kind.model_validate(data)
        if data["sha256"] != checksum(data):
            raise LeastnoiseError("its checksum is wrong")
    return header


def check_files(path: Path, listed: Mapping[str, File], identity: str) -> None:
    """Refuse files that are not those of the header."""
    if ARRAYS not in listed:
        raise damaged(path / HEADER, f"{ARRAYS} is not in its list of files")
    for name, stated in listed.items():
        check_there(path, name)
        with reading(path / name):
            if measured(path / name) != stated:
                raise LeastnoiseError("its size or checksum is wrong")
    if identity != identity_of(listed):
        raise damaged(path / HEADER, f"its id is not that of {ARRAYS}")


def read_arrays(file: Path) -> Arrays:
    """The arrays of a file: numbers and text only."""
    with zipfile.ZipFile(file) as archive:  # reading a member whole checks it
        return {name.removesuffix(".npy"): _array(archive.read(name)) for name in archive.namelist()}


def _array(member: bytes) -> npt.NDArray[Any]:
    found = NPY.match(member)
    if found is None:
        raise LeastnoiseError("an array of it holds neither numbers nor text")
    shape = tuple(int(n) for n in found["shape"].split(b",") if n.strip())
    return np.frombuffer(member, found["type"].decode(), offset=found.end()).reshape(shape)


def _part(k: int, part: Part, arrays: Arrays) -> Measurements:
    """One part; its arrays are taken out of `arrays`."""
    prefix = f"part{k}_"
    own = {name.removeprefix(prefix): arrays.pop(name) for name in list(arrays) if name.startswith(prefix)}
    answers = {name: own.pop(name) for name in list(own) if name.startswith("answers")}
    if digest_of(part.recipe, own) != part.fingerprint:
        raise LeastnoiseError("its recipe does not have its fingerprint")
    recipe = recipe_from(part.recipe, own)
    _check_recipe(recipe, part.recipe, own)
    if part.adaptive is not None:
        part.adaptive.check(recipe)
    elif recipe.selection:
        raise LeastnoiseError("it paid for choosing and does not tell what was chosen")
    measured = Measurements(recipe, _read_answers(recipe, answers), part.insecure)
    part.privacy.check(Privacy.of([measured]))
    return measured


def _check_recipe(recipe: Recipe, header: Mapping[str, Any], arrays: Arrays) -> None:
    """Refuse a recipe that nobody can have planned."""
    for block in recipe.workload.blocks:
        block.check(recipe.workload.domain)
        if not isinstance(block.label, str):
            raise LeastnoiseError("its queries have no name")
    again, own = recipe_data(recipe)
    if not _alike(again, dict(header)) or own.keys() != arrays.keys():
        raise LeastnoiseError("its recipe has fields that do not belong there")
    for orbit, prior in zip(recipe.structure.classes, recipe.priors, strict=True):
        values = prior.values
        if values.dtype != np.float64 or values.shape != (orbit.size,) or not abs(values.sum() - 1) < SAME:
            raise LeastnoiseError(f"a prior is not {orbit.size} numbers that sum to 1")
    for name, array in arrays.items():
        if not name.startswith("prior") and (array.dtype != np.int64 or not array.size):
            raise LeastnoiseError(f"the array {name!r} does not hold integers")
    for probe in (p for probes in recipe.probes for p in probes):
        levels = probe.strategy.levels
        if probe.strategy.multiplier < 1 or (
            levels is not None and (levels.shape != probe.strategy.answers or levels.min() < 1)
        ):
            raise LeastnoiseError("a strategy is scaled by less than 1")
    if recipe.cost.mu_squared > recipe.budget.exact_cost * (1 + Fraction(SAME)):
        raise LeastnoiseError("its noise costs more than its budget")


def _alike(one: object, other: object) -> bool:
    """Equal plain data, where floats may differ by what machines round differently."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(one[k], other[k]) for k in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return isclose(one, other, rel_tol=SAME)
    return type(one) is type(other) and one == other


def _read_answers(recipe: Recipe, arrays: Arrays) -> tuple[tuple[Answers, ...], ...]:
    found = []
    for o, (members, probes) in enumerate(zip(recipe.structure.members, recipe.probes, strict=True)):
        shapes = [(members, prod(p.strategy.answers)) for p in probes]
        found.append(tuple(_integers(arrays.pop(_name(o, i)), shape) for i, shape in enumerate(shapes)))
    if arrays:
        raise LeastnoiseError(f"nothing asked for {min(arrays)!r}")
    return tuple(found)


def _integers(stored: npt.NDArray[Any], shape: tuple[int, int]) -> Answers:
    if stored.shape != shape:
        raise LeastnoiseError(f"answers of shape {stored.shape} where {shape} were asked for")
    if stored.dtype.kind != "U":
        for width in WIDTHS:
            if stored.dtype == np.dtype(width):
                return stored.astype(width, copy=False)
        raise LeastnoiseError(f"answers of type {stored.dtype}, which are not integers")
    numbers = np.array([int(text) for text in stored.ravel().tolist()], dtype=object).reshape(shape)
    if not np.array_equal(numbers.astype(str), stored):
        raise LeastnoiseError("answers that are not decimal numbers")
    return numbers
