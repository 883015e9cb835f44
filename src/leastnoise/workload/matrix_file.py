"""Matrices of queries from files: text, NumPy arrays, sparse matrices."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise.errors import LeastnoiseError
from leastnoise.storage.archive import ArchiveError, Arrays, array_from, read_array, read_members
from leastnoise.storage.formats import DAMAGES
from leastnoise.workload.matrix_market import read_market
from leastnoise.workload.tensors import ROWS_LIMIT

KINDS = (".csv", ".npy", ".npz", ".mtx")
CORNERS = ("", "query")  # first fields of a file whose first line names the items
SPARSE = "csr, csc or coo"


@dataclass(frozen=True, eq=False)
class MatrixFile:
    """A matrix of queries, and what its file calls items and queries."""

    queries: Any
    items: list[Any] | None = None
    names: list[str] | None = None


def read_matrix(path: str | Path) -> MatrixFile:
    """A matrix from a file: .csv, perhaps with names in the first line and column; .npy; .npz of NumPy (queries, and
    perhaps items and names) or SciPy (sparse); .mtx of Matrix Market.

    Guarantees: files_and_arrays_are_planned_alike.
    """
    file = Path(path)
    if file.suffix not in KINDS:
        raise LeastnoiseError(f"cannot read a matrix from {file.name!r}; use a file that ends in {', '.join(KINDS)}")
    try:
        return READERS[file.suffix](file)
    except OSError as error:
        raise LeastnoiseError(f"cannot read the matrix {str(file)!r}: {error.strerror or error}") from None
    except ArchiveError as error:
        raise LeastnoiseError(f"{file.name!r} does not hold a matrix of numbers ({error})") from None
    except LeastnoiseError:
        raise
    except (csv.Error, *DAMAGES) as error:
        why = " ".join(str(error).split())[:120]
        raise LeastnoiseError(f"{file.name!r} does not hold a matrix of numbers ({why})") from None


def _csv(path: Path) -> MatrixFile:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = [row for row in csv.reader(file) if row]
    if not rows:
        raise LeastnoiseError(f"{path.name!r} is empty; write a line for each query")
    head = rows.pop(0) if rows[0][0].strip() in CORNERS or not all(map(_is_number, rows[0][1:] or rows[0])) else None
    if not rows:
        raise LeastnoiseError(f"{path.name!r} has names but no queries; write a line for each query")
    named = not all(_is_number(row[0]) for row in rows)
    named = named or (head is not None and head[0].strip() in CORNERS)
    names = [row[0].strip() for row in rows] if named else None
    body = [row[1:] if named else row for row in rows]
    items = None if head is None else _values(head[1:] if named else head)
    if len({len(row) for row in body} | ({len(items)} if items else set())) > 1:
        raise LeastnoiseError(f"the lines of {path.name!r} have different lengths; give each query an entry per item")
    return MatrixFile(np.array([[_number(path, x) for x in row] for row in body]), items, names)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _number(path: Path, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise LeastnoiseError(f"{path.name!r} has {text[:40]!r} where a number belongs") from None


def _values(texts: Sequence[str]) -> list[Any]:
    """Names of items as data has them: whole numbers where all are."""
    names = [text.strip() for text in texts]
    return [int(name) for name in names] if all(n.removeprefix("-").isdecimal() for n in names) else names


def _npy(path: Path) -> MatrixFile:
    array = read_array(path, ROWS_LIMIT)
    if array.dtype.kind not in "biuf":
        raise LeastnoiseError(f"{path.name!r} does not hold a matrix of numbers; save real numbers with numpy.save")
    return MatrixFile(array)


def _npz(path: Path) -> MatrixFile:
    members = read_members(path, packed=True)
    form = members.pop("format.npy", b"")  # three letters at its end, where SciPy wrote the file
    arrays = {name.removesuffix(".npy"): array_from(member) for name, member in members.items()}
    if form:
        return MatrixFile(_sparse(path, form[-3:], arrays))
    others = [name for name in arrays if name not in ("items", "names")]
    if len(others) != 1:
        raise LeastnoiseError(f"{path.name!r} has {len(others)} matrices; save one, and perhaps items and names")
    named = {name: _list(arrays[name]) for name in ("items", "names") if name in arrays}
    return MatrixFile(arrays[others[0]], **named)


def _list(names: npt.NDArray[Any]) -> list[Any]:
    if names.ndim != 1:
        raise LeastnoiseError("items and names are lists; save each as an array of one dimension")
    return list(names.tolist())


def _sparse(path: Path, form: bytes, arrays: Arrays) -> Any:
    """A matrix as SciPy saves it, dense; its places are checked, because SciPy believes them."""
    from scipy.sparse import coo_matrix, csc_matrix, csr_matrix

    shape = tuple(arrays["shape"].tolist())
    if form == b"coo":
        result: Any = coo_matrix((arrays["data"], (arrays["row"], arrays["col"])), shape=shape)
    elif form in (b"csr", b"csc"):
        kind = csr_matrix if form == b"csr" else csc_matrix
        result = kind((arrays["data"], arrays["indices"], arrays["indptr"]), shape=shape)
        result.check_format(full_check=True)
    else:
        raise LeastnoiseError(f"{path.name!r} is of a sparse format that is not read here; save it as {SPARSE}")
    if result.shape[0] * result.shape[1] > ROWS_LIMIT:
        raise LeastnoiseError(
            f"a {result.shape[0]:,} x {result.shape[1]:,} matrix is too large; use at most {ROWS_LIMIT:,} entries"
        )
    return result.toarray()


def _mtx(path: Path) -> MatrixFile:
    return MatrixFile(read_market(path))


READERS = {".csv": _csv, ".npy": _npy, ".npz": _npz, ".mtx": _mtx}
