"""Estimates as files: one line of JSON, then the numbers; written whole or not at all, refused where changed."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field, ValidationError

from leastnoise._types import Array
from leastnoise.domain import Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.estimate.mixture import Mixture
from leastnoise.privacy.cost import Cost
from leastnoise.release.files import DAMAGES, DRAFT, checksum
from leastnoise.release.statement import INSECURE, Privacy, Record, Text

if TYPE_CHECKING:
    from leastnoise.estimate.estimate import Estimate

VERSION = 1
MARK = b'{"leastnoise_estimate": '  # how such a file starts
NUMBERS = np.dtype("<f8")
LONGEST_HEADER = 2**26  # bytes
SAME = 1e-6  # what sums of probabilities may be off by


class Fit(Record):
    """A mixture in the file, and the rows it stands for."""

    components: Annotated[int, Field(gt=0)]
    total: Annotated[float, Field(ge=1)]


class Header(Record):
    """The first line. `sha256` is that of its canonical form without this field, `numbers` that of what follows."""

    leastnoise_estimate: int
    software: Text
    dataset: Text | None
    insecure: bool
    warning: Text | None
    privacy: Privacy
    domain: dict[str, Any]
    misfits: list[Annotated[float, Field(ge=0)]]
    fits: Annotated[list[Fit], Field(min_length=1)]  # the estimate, then its replicates
    numbers: Text
    sha256: Text


# --- writing ----------------------------------------------------------------------------------------------------------


def save(estimate: Estimate, path: Path, overwrite: bool) -> None:
    """Write an estimate; the file appears only when it is complete.

    Guarantees: appears_whole_or_not_at_all; never_replaces_what_is_no_estimate.
    """
    path = path.absolute()
    _check_target(path, overwrite)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}{DRAFT}")
    try:
        with draft.open("xb") as file:
            file.writelines(_content(estimate))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise LeastnoiseError(f"{path} cannot be written ({error.strerror or type(error).__name__})") from None
    finally:
        draft.unlink(missing_ok=True)


def _check_target(path: Path, overwrite: bool) -> None:
    if not path.parent.is_dir():
        raise LeastnoiseError(f"there is no folder {path.parent} to write in; create it first")
    if not (path.exists() or path.is_symlink()):
        return
    if not overwrite:
        raise LeastnoiseError(f"{path} exists already; choose another name, or replace it with overwrite=True")
    if path.is_symlink() or not path.is_file() or not _marked(path):
        raise LeastnoiseError(f"{path} is no estimate and is not replaced; choose another name")


def _marked(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(MARK)) == MARK


def _content(estimate: Estimate) -> Iterator[bytes]:
    mixtures = [(estimate.mixture, estimate.total), *((r.mixture, r.total) for r in estimate.replicates)]
    numbers = b"".join(a.astype(NUMBERS).tobytes() for mixture, _ in mixtures for a in _arrays(mixture))
    header = Header(
        leastnoise_estimate=VERSION,
        software=f"leastnoise {version('leastnoise')}",
        dataset=estimate.source.dataset,
        insecure=estimate.source.insecure,
        warning=INSECURE if estimate.source.insecure else None,
        privacy=estimate.source.privacy,
        domain=estimate.domain.to_json(),
        misfits=list(estimate.misfits),
        fits=[Fit(components=len(mixture.weights), total=total) for mixture, total in mixtures],
        numbers=hashlib.sha256(numbers).hexdigest(),
        sha256="-",
    ).model_dump()
    yield json.dumps(header | {"sha256": checksum(header)}).encode() + b"\n"
    yield numbers


def _arrays(mixture: Mixture) -> tuple[Array, ...]:
    return (mixture.weights, *mixture.factors)


# --- reading ----------------------------------------------------------------------------------------------------------


def load(path: Path) -> tuple[Header, Domain, list[Mixture]]:
    """What is in a saved estimate.

    Guarantees: refuses_whatever_was_changed; fails_only_with_a_message_in_one_line.
    """
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "is not there"
        raise LeastnoiseError(f"{path} {what}; save an estimate to a file with estimate.save(path)")
    with _reading(path):
        if not _marked(path):
            raise _Foreign
        with path.open("rb") as file:
            header = _header(file.readline(LONGEST_HEADER))
            numbers = file.read()
        if hashlib.sha256(numbers).hexdigest() != header.numbers:
            raise LeastnoiseError("the checksum of its numbers is wrong")
        domain = Domain.from_json(header.domain)
        if domain.to_json() != header.domain:
            raise LeastnoiseError("its domain has fields that do not belong there")
        if header.insecure != (header.warning is not None):
            raise LeastnoiseError("its marks for insecure noise contradict each other")
        Cost.from_json(header.privacy.model_dump())
        return header, domain, _mixtures(header, domain, numbers)


class _Foreign(Exception):
    """A file of another kind."""


class _Newer(Exception):
    """A file of a later version."""


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Whatever is wrong with a file, in one line."""
    try:
        yield
    except _Foreign:
        raise LeastnoiseError(f"{path} is no estimate; write one with estimate.save(path)") from None
    except _Newer as error:
        raise LeastnoiseError(
            f"{path} has estimate format {error}, this version reads {VERSION}; update leastnoise"
        ) from None
    except LeastnoiseError as error:
        raise _damaged(path, error) from None
    except ValidationError as error:
        first = error.errors()[0]
        raise _damaged(path, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    except DAMAGES as error:
        raise _damaged(path, type(error).__name__) from None


def _damaged(path: Path, why: object) -> LeastnoiseError:
    reason = " ".join(str(why).split())
    return LeastnoiseError(f"{path} is damaged ({reason[:200]}); restore it from a copy or fit and save it again")


def _header(line: bytes) -> Header:
    data = json.loads(line)
    found = data["leastnoise_estimate"]
    if type(found) is not int or found < 1:
        raise LeastnoiseError(f"unknown format {str(found)[:20]!r}")
    if found > VERSION:
        raise _Newer(found)
    header = Header.model_validate(data)
    if header.sha256 != checksum(data):
        raise LeastnoiseError("its checksum is wrong")
    return header


def _mixtures(header: Header, domain: Domain, numbers: bytes) -> list[Mixture]:
    width = 1 + sum(domain.shape)
    if len(numbers) != NUMBERS.itemsize * width * sum(fit.components for fit in header.fits):
        raise LeastnoiseError("its numbers are not as many as it says")
    values, found, low = np.frombuffer(numbers, NUMBERS).astype(np.float64), [], 0
    for fit in header.fits:
        arrays = []
        for size in (1, *domain.shape):
            high = low + fit.components * size
            arrays.append(values[low:high].reshape(fit.components, size))
            low = high
        weights, *factors = arrays
        found.append(Mixture(weights[:, 0], tuple(factors)))
        _check_probabilities([weights.T, *factors])
    return found


def _check_probabilities(arrays: list[Array]) -> None:
    for array in arrays:
        if not (np.isfinite(array).all() and (array >= 0).all() and np.allclose(array.sum(axis=1), 1, 0, SAME)):
            raise LeastnoiseError("its numbers are no probabilities")
