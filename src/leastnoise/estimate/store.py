"""Estimates as files: one line of JSON, then the numbers; written whole or not at all, refused where changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from leastnoise._types import Array, IntArray
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
FORMAT = Format("leastnoise_estimate", "estimate", "restore it from a copy or fit and save it again", version=3)
SAME = 1e-6  # what sums of probabilities may be off by


class Fit(Record):
    """A mixture in the file, and the rows it stands for; `rows` that it was simulated from, where it is a replicate."""

    components: Annotated[int, Field(gt=0)]
    total: Annotated[float, Field(ge=1)]
    rows: Annotated[int, Field(ge=0, default=0)]  # since format 3


class Link(Record):
    """An attribute that is attached to another one, by their positions."""

    child: Annotated[int, Field(ge=0)]
    parent: Annotated[int, Field(ge=0)]


class Header(Private):
    """The first line. `numbers` is the checksum of what follows: conditional tables of `attached`, mixtures, codes."""

    format = FORMAT

    domain: dict[str, Any]
    misfits: list[Annotated[float, Field(ge=0)]]
    fits: Annotated[list[Fit], Field(min_length=1)]  # the estimate, then its replicates
    numbers: Text
    attached: Annotated[list[Link], Field(default_factory=list)]  # since format 2
    inflation: Annotated[list[Annotated[float, Field(ge=1)]], Field(default=[1.0], min_length=1)]  # since format 3


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
    others = estimate.replicates
    mixtures = [(estimate.mixture, estimate.total), *((r.mixture, r.total) for r in others)]
    counts, codes = [0, *(len(r.rows) for r in others)], _codes(estimate.domain)
    links = [link for variable in estimate.mixture.variables or () for link in variable.attached]
    arrays = [*(link.chances for link in links), *(a for mixture, _ in mixtures for a in _arrays(mixture))]
    numbers = b"".join(
        [*(a.astype(NUMBERS).tobytes() for a in arrays), *(r.rows.astype(codes).tobytes() for r in others)]
    )
    header = Header(
        **shared_fields(estimate.source),
        domain=estimate.domain.to_json(),
        misfits=list(estimate.misfits),
        fits=[Fit(components=len(m.weights), total=t, rows=n) for (m, t), n in zip(mixtures, counts, strict=True)],
        numbers=hashlib.sha256(numbers).hexdigest(),
        attached=[Link(child=link.child, parent=link.parent) for link in links],
        inflation=list(estimate.inflation.factors),
    )
    yield json.dumps(sealed(header)).encode() + b"\n"
    yield numbers


def _codes(domain: Domain) -> np.dtype[Any]:
    """What holds the codes of all attributes."""
    return np.min_scalar_type(max(domain.shape, default=1) - 1).newbyteorder("<")


def _arrays(mixture: Mixture) -> tuple[Array, ...]:
    return (mixture.weights, *mixture.factors)


# --- reading ----------------------------------------------------------------------------------------------------------


def load(path: Path) -> tuple[Header, Domain, list[Mixture], list[IntArray]]:
    """What is in a saved estimate: mixtures, and the rows behind all but the first one.

    Replicates of earlier formats are left out: they had no rows of their own, and their errors were too small.

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
        end = len(numbers) - sum(fit.rows for fit in header.fits) * len(domain) * _codes(domain).itemsize
        mixtures, rows = (
            _mixtures(header, domain, numbers[: max(end, 0)]),
            _rows(header, domain, numbers[max(end, 0) :]),
        )
        kept = [k for k, fit in enumerate(header.fits) if fit.rows or not k]
        header = header.model_copy(update={"fits": [header.fits[k] for k in kept]})
        return header, domain, [mixtures[k] for k in kept], [rows[k] for k in kept[1:]]


def _rows(header: Header, domain: Domain, numbers: bytes) -> list[IntArray]:
    """The codes behind each fit, which are last in the file."""
    every = np.frombuffer(numbers, _codes(domain)).reshape(-1, len(domain))
    if (every >= np.array(domain.shape)).any():
        raise LeastnoiseError("its rows have values outside the domain")
    return np.split(every, np.cumsum([fit.rows for fit in header.fits])[:-1])


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
