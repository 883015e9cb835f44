"""Query families on one attribute: what the rows are, and their Gram matrix without building them.

A family on an attribute with n values is a list of query rows of length n. Planning needs only the
Gram matrix (sum over rows of row^T row) and its diagonal in the Fourier basis; both have closed forms
for the named families, so nothing of the size queries x values is built.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Generic, TypeVar

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.errors import LeastnoiseError

Size = TypeVar("Size")
DENSE_LIMIT = 12_000  # values of one attribute up to which an n x n array is built


def digest(*arrays: Array) -> str:
    """Content key of arrays: equal bytes and shapes give equal keys."""
    h = hashlib.blake2b(digest_size=16)
    for a in arrays:
        b = np.ascontiguousarray(a, dtype=np.float64)
        h.update(repr(b.shape).encode())
        h.update(b.tobytes())
    return h.hexdigest()


def wrapped_means(matrix: Array) -> Array:
    """Mean of each wrapped diagonal: the circulant matrix nearest to this one."""
    x = np.arange(len(matrix))
    return np.array([matrix[x, (x + k) % len(matrix)].mean() for k in range(len(matrix))])


def dense_guard(name: str, n: int, fix: str = "use coarser values") -> None:
    """Refuse an n x n array that cannot fit, and say what to do instead."""
    if n > DENSE_LIMIT:
        raise LeastnoiseError(
            f"{name} on {n:,} values needs a dense {n:,} x {n:,} array ({8 * n * n / 1e9:,.0f} GB); {fix}"
        )


def gram_guard(name: str, n: int) -> None:
    """The same for Gram matrices with a closed form in the Fourier basis, where nothing dense is built."""
    dense_guard(name, n, "use solver 'fourier' with baseline 'uniform', or coarser values")


@dataclass(frozen=True)
class AnyFamily(ABC, Generic[Size]):
    """Queries on attributes of a size: of n values for one attribute, of a shape for several."""

    name: ClassVar[str] = ""
    needs_order: ClassVar[bool] = False

    @abstractmethod
    def count(self, size: Size, /) -> int:
        """Number of queries."""

    def weights(self, size: Size, /) -> Array:
        """Weight of each query inside the family."""
        return np.ones(self.count(size))

    @property
    def key(self) -> tuple[object, ...]:
        """Equal keys mean equal queries on attributes of equal sizes."""
        return (self.name,)

    def to_json(self) -> object:
        """What the spec file calls this family."""
        return self.name


@dataclass(frozen=True)
class RandomRows(AnyFamily[Size]):
    """`rows_count` rows of independent 0/1 entries with the given density."""

    name: ClassVar[str] = "random"
    rows_count: int
    density: float = 0.3
    seed: int = 0

    def count(self, size: Size, /) -> int:
        return self.rows_count

    def drawn(self, *shape: int) -> Array:
        """The rows, the same for every table of this shape."""
        rng = np.random.default_rng([self.seed, *shape])
        return (rng.random((self.rows_count, *shape)) < self.density).astype(np.float64)

    @property
    def key(self) -> tuple[object, ...]:
        return (self.name, self.rows_count, self.density, self.seed)

    def to_json(self) -> object:
        return {"random": {"count": self.rows_count, "density": self.density, "seed": self.seed}}


@dataclass(frozen=True)
class Family(AnyFamily[int]):
    """Queries on one attribute."""

    circulant: ClassVar[bool] = False  # shifting all values maps queries to queries

    @property
    def plain(self) -> Family:
        """The same queries with weight 1 each."""
        return self

    @abstractmethod
    def rows(self, n: int) -> Array:
        """The queries as a (count, n) array."""

    def gram(self, n: int) -> Array:
        """Sum over queries of weight * row^T row."""
        gram_guard(self.name, n)
        w = self.rows(n)
        return w.T @ w

    def wrapped_diagonal(self, n: int) -> Array:
        """d[k] = mean over x of gram[x, (x+k) mod n]; its Fourier transform is the Fourier diagonal of the Gram."""
        shifts = self.up_to_shifts(n)
        if shifts is None and n <= DENSE_LIMIT:
            return wrapped_means(self.gram(n))
        rows, weights = (self.rows(n), self.weights(n)) if shifts is None else (shifts[0], np.bincount(shifts[1]))
        power = np.zeros(n)  # shifts have the same
        for weight, row in zip(weights, rows, strict=True):
            power += weight * np.abs(np.fft.fft(row)) ** 2
        return np.fft.ifft(power).real / n

    def spectrum(self, n: int) -> Array:
        """Diagonal of the Gram in the unitary Fourier basis (WFF: sum of |phi-hat|^2 over the queries, over n)."""
        s: Array = np.fft.fft(self.wrapped_diagonal(n)).real
        return np.maximum(s, 0.0)

    def intervals(self, n: int) -> tuple[IntArray, IntArray] | None:
        """(lengths, counts) when every query is an interval or arc, so that variances depend on lengths alone.

        In the order of the rows where each count is 1.
        """
        return None

    def spans(self, n: int) -> tuple[IntArray, IntArray, IntArray] | None:
        """(low, high, flip) when every row is a run low..high of values (flip 0) or everything else (flip 1)."""
        return None

    def up_to_shifts(self, n: int) -> tuple[Array, IntArray] | None:
        """A few rows, and for each query the one of which it is a shift around the cycle; None where there are many."""
        return None


@dataclass(frozen=True)
class Total(Family):
    """One query: everybody."""

    name: ClassVar[str] = "total"
    circulant: ClassVar[bool] = True

    def count(self, n: int) -> int:
        return 1

    def rows(self, n: int) -> Array:
        return np.ones((1, n))

    def gram(self, n: int) -> Array:
        gram_guard(self.name, n)
        return np.ones((n, n))

    def wrapped_diagonal(self, n: int) -> Array:
        return np.ones(n)

    def intervals(self, n: int) -> tuple[IntArray, IntArray]:
        return np.array([n]), np.array([1])


@dataclass(frozen=True)
class Marginal(Family):
    """A = c for every value c."""

    name: ClassVar[str] = "marginal"
    circulant: ClassVar[bool] = True

    def count(self, n: int) -> int:
        return n

    def rows(self, n: int) -> Array:
        dense_guard(self.name, n)
        return np.eye(n)

    def wrapped_diagonal(self, n: int) -> Array:
        d = np.zeros(n)
        d[0] = 1.0
        return d

    def intervals(self, n: int) -> tuple[IntArray, IntArray]:
        return np.array([1]), np.array([n])

    def up_to_shifts(self, n: int) -> tuple[Array, IntArray]:
        return np.eye(1, n), np.zeros(n, dtype=np.int64)


def _triangle(k: Array) -> Array:
    return k * (k + 1) / 2


@dataclass(frozen=True)
class Prefix(Family):
    """A <= c for every value c."""

    name: ClassVar[str] = "prefix"
    needs_order: ClassVar[bool] = True

    def count(self, n: int) -> int:
        return n

    def rows(self, n: int) -> Array:
        dense_guard(self.name, n)
        return np.tril(np.ones((n, n)))

    def gram(self, n: int) -> Array:
        gram_guard(self.name, n)
        x = np.arange(n)
        return (n - np.maximum(x[:, None], x)).astype(np.float64)

    def wrapped_diagonal(self, n: int) -> Array:
        # a query {x <= c} covers both x and x+k; the pairs that do not wrap and those that do each sum to a triangle
        k = np.arange(n, dtype=np.float64)
        return (_triangle(n - k) + _triangle(k)) / n

    def intervals(self, n: int) -> tuple[IntArray, IntArray]:
        return np.arange(1, n + 1), np.ones(n, dtype=np.int64)


@dataclass(frozen=True)
class Suffix(Prefix):
    """A >= c for every value c."""

    name: ClassVar[str] = "suffix"

    def rows(self, n: int) -> Array:
        dense_guard(self.name, n)
        return np.triu(np.ones((n, n)))

    def gram(self, n: int) -> Array:
        gram_guard(self.name, n)
        x = np.arange(n)
        return (np.minimum(x[:, None], x) + 1).astype(np.float64)

    def intervals(self, n: int) -> tuple[IntArray, IntArray]:
        return np.arange(n, 0, -1), np.ones(n, dtype=np.int64)


@dataclass(frozen=True)
class Threshold(Family):
    """A <= c for every value c, then A >= c for every value c (WFF section 4.2)."""

    name: ClassVar[str] = "threshold"
    needs_order: ClassVar[bool] = True

    def count(self, n: int) -> int:
        return 2 * n

    def rows(self, n: int) -> Array:
        return np.concatenate([Prefix().rows(n), Suffix().rows(n)])

    def gram(self, n: int) -> Array:
        gram_guard(self.name, n)
        return Prefix().gram(n) + Suffix().gram(n)

    def wrapped_diagonal(self, n: int) -> Array:
        return 2 * Prefix().wrapped_diagonal(n)

    def intervals(self, n: int) -> tuple[IntArray, IntArray]:
        """One by one: each may have a weight of its own."""
        (up, one), (down, _) = Prefix().intervals(n), Suffix().intervals(n)
        return np.concatenate([up, down]), np.concatenate([one, one])


@dataclass(frozen=True)
class Range(Family):
    """a <= A <= b for every a <= b."""

    name: ClassVar[str] = "range"
    needs_order: ClassVar[bool] = True

    def count(self, n: int) -> int:
        return n * (n + 1) // 2

    def spans(self, n: int) -> tuple[IntArray, IntArray, IntArray]:
        low, high = np.triu_indices(n)
        return low, high, np.zeros(len(low), dtype=np.int64)

    def rows(self, n: int) -> Array:
        dense_guard(self.name, n)
        low, high, _ = self.spans(n)
        x = np.arange(n)
        return ((low[:, None] <= x) & (x <= high[:, None])).astype(np.float64)

    def gram(self, n: int) -> Array:
        gram_guard(self.name, n)
        x = np.arange(n, dtype=np.float64)
        return (np.minimum(x[:, None], x) + 1) * (n - np.maximum(x[:, None], x))

    def wrapped_diagonal(self, n: int) -> Array:
        k = np.arange(n, dtype=np.float64)
        m = n - k
        return (m * (m + 1) * (m + 2) + k * (k + 1) * (k + 2)) / (6 * n)

    def intervals(self, n: int) -> tuple[IntArray, IntArray]:
        lengths = np.arange(1, n + 1)
        return lengths, n - lengths + 1


@dataclass(frozen=True)
class Circular(Family):
    """Arcs: n starts x n lengths, wrapping around."""

    name: ClassVar[str] = "circular"
    circulant: ClassVar[bool] = True
    needs_order: ClassVar[bool] = True

    def count(self, n: int) -> int:
        return n * n

    def rows(self, n: int) -> Array:
        dense_guard(self.name, n)
        start, length = (a.ravel() for a in np.mgrid[0:n, 1 : n + 1])
        return ((np.arange(n) - start[:, None]) % n < length[:, None]).astype(np.float64)

    def spans(self, n: int) -> tuple[IntArray, IntArray, IntArray]:
        start, length = (a.ravel() for a in np.mgrid[0:n, 1 : n + 1])
        wraps = start + length > n  # then the rest is a run: from the end of the arc to its start
        low = np.where(wraps, start + length - n, start)
        high = np.where(wraps, start - 1, start + length - 1)
        return low, high, wraps.astype(np.int64)

    def gram(self, n: int) -> Array:
        gram_guard(self.name, n)
        x = np.arange(n)
        return self.wrapped_diagonal(n)[(x[:, None] - x) % n]

    def wrapped_diagonal(self, n: int) -> Array:
        k = np.arange(n, dtype=np.float64)
        return _triangle(n - k) + _triangle(k)

    def intervals(self, n: int) -> tuple[IntArray, IntArray]:
        return np.arange(1, n + 1), np.full(n, n)


@dataclass(frozen=True)
class Random(RandomRows[int], Family):
    """Random 0/1 rows over the values of an attribute."""

    def rows(self, n: int) -> Array:
        return self.drawn(n)


class ArrayFamily(Family):
    """Families given by an array: the key is the content."""

    @abstractmethod
    def _array(self) -> Array:
        """The array that gives the rows."""

    @property
    def key(self) -> tuple[object, ...]:
        return (self.name, digest(self._array()))

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Family) and self.key == other.key


@dataclass(frozen=True, eq=False)
class Matrix(ArrayFamily):
    """Rows given by the user, one column per value; they may have names."""

    name: ClassVar[str] = "matrix"
    matrix: Array = field(repr=False)
    names: tuple[str, ...] | None = None

    def _array(self) -> Array:
        return self.matrix

    def count(self, n: int) -> int:
        return len(self.matrix)

    def rows(self, n: int) -> Array:
        if self.matrix.shape[1] != n:
            raise LeastnoiseError(
                f"matrix has {self.matrix.shape[1]} columns but the attribute has {n} values; give one column per value"
            )
        return self.matrix

    def to_json(self) -> object:
        named = {} if self.names is None else {"names": list(self.names)}
        return {"matrix": self.matrix.tolist(), **named}


@dataclass(frozen=True, eq=False)
class Cyclic(ArrayFamily):
    """WFF product queries: row t is phi((t - x) mod n), for every t (WFF section 4.1)."""

    name: ClassVar[str] = "phi"
    circulant: ClassVar[bool] = True
    phi: Array = field(repr=False)

    def _array(self) -> Array:
        return self.phi

    def count(self, n: int) -> int:
        return n

    def rows(self, n: int) -> Array:
        dense_guard(self.name, n)
        t = np.arange(n)
        return self._fitting(n)[(t[:, None] - t) % n]

    def _fitting(self, n: int) -> Array:
        if len(self.phi) != n:
            raise LeastnoiseError(f"phi has {len(self.phi)} values but the attribute has {n}; give one per value")
        return self.phi

    def wrapped_diagonal(self, n: int) -> Array:
        return np.fft.ifft(np.abs(np.fft.fft(self._fitting(n))) ** 2).real

    def up_to_shifts(self, n: int) -> tuple[Array, IntArray]:
        return self._fitting(n)[None], np.zeros(n, dtype=np.int64)

    def to_json(self) -> object:
        return {"phi": self.phi.tolist()}


FAMILIES: dict[str, Family] = {
    f.name: f for f in (Total(), Marginal(), Prefix(), Suffix(), Threshold(), Range(), Circular())
}
