"""Estimates as files: one line of JSON, then the numbers; written whole or not at all, refused where changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from leastnoise._types import Array
from leastnoise.domain.attributes import Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.estimate.mixture import Mixture
from leastnoise.estimate.variables import Attached, Variable, forest, variables_of
from leastnoise.privacy.cost import Cost
from leastnoise.release.files.folders import Private, shared_fields
from leastnoise.storage.files import write_file
from leastnoise.storage.formats import Format
from leastnoise.storage.records import Record, Text, read_header, sealed

if TYPE_CHECKING:
    from leastnoise.estimate.estimate import Estimate

MARK = b'{"leastnoise_estimate": '  # how such a file starts
NUMBERS = np.dtype("<f8")
LONGEST_HEADER = 2**26  # bytes
FORMAT = Format("leastnoise_estimate", "estimate", "restore it from a copy or fit and save it again", version=2)
SAME = 1e-6  # what sums of probabilities may be off by


class Fit(Record):
    """A mixture in the file, and the rows it stands for."""

    components: Annotated[int, Field(gt=0)]
    total: Annotated[float, Field(ge=1)]


class Link(Record):
    """An attribute that is attached to another one, by their positions."""

    child: Annotated[int, Field(ge=0)]
    parent: Annotated[int, Field(ge=0)]


class Header(Private):
    """The first line. `numbers` is the checksum of what follows: conditional tables of `attached`, and the mixtures."""

    format = FORMAT

    domain: dict[str, Any]
    misfits: list[Annotated[float, Field(ge=0)]]
    fits: Annotated[list[Fit], Field(min_length=1)]  # the estimate, then its replicates
    numbers: Text
    attached: Annotated[list[Link], Field(default_factory=list)]  # since format 2


# --- writing ----------------------------------------------------------------------------------------------------------


def save(estimate: Estimate, path: Path, overwrite: bool) -> None:
    """Write an estimate; the file appears only when it is complete.

    Guarantees: appears_whole_or_not_at_all; refuses_to_replace.
    """
    write_file(path, _content(estimate), overwrite=overwrite, ours=_is_ours, what="estimate")


def _is_ours(path: Path) -> bool:
    return path.is_file() and _marked(path)


def _marked(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(MARK)) == MARK


def _content(estimate: Estimate) -> Iterator[bytes]:
    mixtures = [(estimate.mixture, estimate.total), *((r.mixture, r.total) for r in estimate.replicates)]
    links = [link for variable in estimate.mixture.variables or () for link in variable.attached]
    arrays = [*(link.chances for link in links), *(a for mixture, _ in mixtures for a in _arrays(mixture))]
    numbers = b"".join(a.astype(NUMBERS).tobytes() for a in arrays)
    header = Header(
        **shared_fields(estimate.source),
        domain=estimate.domain.to_json(),
        misfits=list(estimate.misfits),
        fits=[Fit(components=len(mixture.weights), total=total) for mixture, total in mixtures],
        numbers=hashlib.sha256(numbers).hexdigest(),
        attached=[Link(child=link.child, parent=link.parent) for link in links],
    )
    yield json.dumps(sealed(header)).encode() + b"\n"
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
    with FORMAT.reading(path):
        ours = _marked(path)
    if not ours:
        raise LeastnoiseError(f"{path} is no estimate; write one with estimate.save(path)")
    with FORMAT.reading(path), path.open("rb") as file:
        first, numbers = file.readline(LONGEST_HEADER), file.read()
    header = read_header(path, first, Header)
    with FORMAT.reading(path):
        if hashlib.sha256(numbers).hexdigest() != header.numbers:
            raise LeastnoiseError("the checksum of its numbers is wrong")
        domain = Domain.from_json(header.domain)
        if domain.to_json() != header.domain:
            raise LeastnoiseError("its domain has fields that do not belong there")
        Cost.from_json(header.privacy.model_dump())
        return header, domain, _mixtures(header, domain, numbers)


def _mixtures(header: Header, domain: Domain, numbers: bytes) -> list[Mixture]:
    values = np.frombuffer(numbers[: len(numbers) // NUMBERS.itemsize * NUMBERS.itemsize], NUMBERS).astype(np.float64)
    variables, low = _variables(header, domain, values)
    sizes = domain.shape if variables is None else tuple(v.size for v in variables)
    width = low + (1 + sum(sizes)) * sum(fit.components for fit in header.fits)
    if len(numbers) != NUMBERS.itemsize * width:
        raise LeastnoiseError("its numbers are not as many as it says")
    results = []
    for fit in header.fits:
        arrays = []
        for size in (1, *sizes):
            high = low + fit.components * size
            arrays.append(values[low:high].reshape(fit.components, size))
            low = high
        weights, *factors = arrays
        results.append(Mixture(weights[:, 0], tuple(factors), variables))
        _check_probabilities([weights.T, *factors])
    return results


def _variables(header: Header, domain: Domain, values: Array) -> tuple[tuple[Variable, ...] | None, int]:
    """What the factors are about, and how many numbers tell it."""
    if domain.restrictions and header.attached:
        raise LeastnoiseError("its attributes are both restricted and attached")
    if not header.attached:
        return variables_of(domain) if domain.restrictions else None, 0
    links, low = [], 0
    for link in header.attached:
        rows, columns = domain.shape[link.parent], domain.shape[link.child]
        links.append(Attached(link.child, link.parent, values[low : low + rows * columns].reshape(rows, columns)))
        low += rows * columns
    _check_probabilities([link.chances for link in links])
    return forest(domain.shape, links), low


def _check_probabilities(arrays: list[Array]) -> None:
    for array in arrays:
        if not (np.isfinite(array).all() and (array >= 0).all() and np.allclose(array.sum(axis=1), 1, 0, SAME)):
            raise LeastnoiseError("its numbers are no probabilities")
