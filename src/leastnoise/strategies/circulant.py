"""Integer strategies for cycles: exact convolutions with a kernel of integers, the Fourier mechanism without rounding.

Noise on Fourier coefficients, one level each (WFF Algorithm 3), is a strategy B with B^T B = V circulant. Privacy and
errors depend on V alone, so any B with this V will do. The Fourier basis is one choice, but its entries are
irrational; the circulant root of V is another, and it can be rounded to integers: a kernel h and all its shifts.
Everything about it is exact: answers h * x are integers (`cyclic_convolution`), every column is a shift of h and has
the norm |h|, and V has the eigenvalues |h^(a)|^2 of the *rounded* kernel, which are what reading uses. Rounding costs a
little accuracy and no exactness (docs/proofs.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array, IntArray
from leastnoise.algebra.exact import exact_sum
from leastnoise.errors import LeastnoiseError
from leastnoise.strategies.columns import Columns, shifts_bound
from leastnoise.strategies.convolution import cyclic_convolution
from leastnoise.strategies.strategy import CirculantStrategy

LARGEST_NORM = 2**30  # of a column: squares then fit int64
GUARD = 1e-5  # least level of a coefficient over their mean: all of them are reached, for this share of the cost
DIGITS = 64  # norm of the kernel over what rounding moves a coefficient by: costs less than 1e-4 of the error
CLEAR = 8  # the least level is so many times what rounding moves it by
LISTED = 256  # cells up to which the matrix is multiplied out


@dataclass(frozen=True, eq=False)
class Circulant:
    """All shifts of an integer kernel on the cycles of one attribute or several; its sums along every axis are 0.

    >>> part = Circulant(np.array([3, -2, -1]))
    >>> part.apply(np.array([[5, 0, 1]]), 1).tolist(), part.largest_square, part.largest_difference
    ([[13, -11, -2]], 14, 42)

    Guarantees: circulants_equal_their_dense_rows; answers_are_exact_integers; cost_is_an_exact_integer.
    """

    kernel: IntArray

    def __post_init__(self) -> None:
        h = self.kernel
        if h.dtype.kind not in "iu" or not h.ndim or min(h.shape) < 2 or not h.any():
            raise LeastnoiseError("an integer strategy on cycles needs a kernel of integers that are not all 0")
        if self.largest_entry > LARGEST_NORM or self.largest_square > LARGEST_NORM**2:
            raise LeastnoiseError(f"an integer strategy has columns longer than {LARGEST_NORM}; use less precision")
        if any(h.sum(axis=axis).any() for axis in range(h.ndim)):
            raise LeastnoiseError("the kernel of an integer strategy on cycles must sum to 0 along every axis")

    @staticmethod
    def rounded(planned: CirculantStrategy, norm: float) -> Circulant:
        """A planned strategy in integers, with columns of about this norm, or longer where levels differ much."""
        inner = _inner(planned.shape)
        levels = np.where(inner, np.maximum(planned.theta, GUARD), 0.0)
        levels /= levels.mean()
        kernel = np.fft.ifftn(np.sqrt(levels)).real  # of norm 1
        moved = 2.0**kernel.ndim * kernel.size**0.5  # about what rounding moves a coefficient by, or more
        norm = max(norm, moved * max(DIGITS, CLEAR / float(levels[inner].min()) ** 0.5))
        while norm <= LARGEST_NORM / 2:
            part = Circulant(_rounded(norm * kernel))
            if (part.strategy().theta[inner] > levels[inner] / 2).all():
                return part
            norm *= 2
        raise LeastnoiseError(
            f"Fourier coefficients of {kernel.size:,} cells differ too much to be rounded; use coarser values"
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the attributes it acts on."""
        sizes: tuple[int, ...] = self.kernel.shape
        return sizes

    @property
    def kind(self) -> object:
        """Equal for the same matrix."""
        return "shifts", self.shape, self.kernel.astype(np.int64, copy=False).tobytes()

    @property
    def measurements(self) -> int:
        """Answers per table."""
        return self.kernel.size

    @property
    def largest_entry(self) -> int:
        """Largest absolute entry."""
        return max(int(self.kernel.max()), -int(self.kernel.min()))

    @cached_property
    def largest_square(self) -> int:
        """Largest squared column norm, which all columns have."""
        squares = self.kernel.astype(np.int64) ** 2
        return exact_sum(squares)

    @cached_property
    def products(self) -> IntArray:
        """Inner products of two columns by their distance: of the kernel with its shifts."""
        mirrored = np.roll(np.flip(self.kernel), 1, axis=tuple(range(self.kernel.ndim)))
        return cyclic_convolution(self.kernel, mirrored)

    def inner(self, x: IntArray, y: IntArray) -> IntArray:
        """Inner products of the columns of cells x (cells, axes) with those of cells y."""
        return self.products[tuple((x - y).T % np.array(self.shape)[:, None])]

    @property
    def largest_difference(self) -> int:
        """Largest squared difference of two columns."""
        return 2 * (self.largest_square - int(self.products.min()))

    @cached_property
    def columns(self) -> Columns:
        """What its columns have in common."""
        return Columns.of_shifts(self.products, shifts_bound(self.kernel, self.products))

    def pairs(self) -> IntArray:
        """(|x|^2, |y|^2, x.y) over pairs of columns, of which only the extremes of x.y can differ the most."""
        square, products = self.largest_square, self.products
        return np.array([[square, square, int(c)] for c in (products.max(), products.min())])

    def matrix(self) -> IntArray:
        """The matrix: entry (t, x) is kernel(t - x)."""
        n = self.kernel.size
        places = np.arange(n).reshape(self.shape)
        shifts = [np.roll(places, c, axis=tuple(range(self.kernel.ndim))) for c in np.ndindex(self.shape)]
        out = np.empty((n, n), dtype=np.int64)
        for x, shifted in enumerate(shifts):
            out[:, x] = self.kernel.ravel()[shifted.ravel()]
        return out

    def apply(self, counts: IntArray, axis: int) -> IntArray:
        """The answers along one axis (the cells of all its attributes in one)."""
        if self.kernel.size <= LISTED:
            return np.moveaxis(np.tensordot(counts, self.matrix(), axes=(axis, 1)), -1, axis)
        lines = np.moveaxis(counts, axis, -1)
        out = np.empty_like(lines)
        for place in np.ndindex(lines.shape[:-1]):
            out[place] = cyclic_convolution(lines[place].reshape(self.shape), self.kernel).ravel()
        return np.moveaxis(out, -1, axis)

    def permuted(self, axes: tuple[int, ...]) -> Circulant:
        """The same for tables with their axes in another order."""
        return Circulant(np.ascontiguousarray(self.kernel.transpose(axes)))

    @cached_property
    def _coefficients(self) -> npt.NDArray[np.complex128]:
        """The Fourier transform of the kernel, exactly 0 where it vanishes by its sums."""
        return np.where(_inner(self.shape), np.fft.fftn(self.kernel.astype(np.float64)), 0.0)

    @property
    def reaches(self) -> bool:
        """Whether every coefficient of the residual is measured: of others, reading knows neither value nor error."""
        return bool(self._coefficients[_inner(self.shape)].all())

    def decode(self, answers: Array) -> Array:
        """Pseudo-inverse on rows, up to multiples of the baseline (WFF section 4.1: reading by FFT)."""
        axes = tuple(range(1, 1 + len(self.shape)))
        h = self._coefficients
        inverse = np.divide(1.0, h, out=np.zeros_like(h), where=h != 0)
        waves = np.fft.fftn(answers.reshape(-1, *self.shape), axes=axes) * inverse
        return np.fft.ifftn(waves, axes=axes).real.reshape(len(answers), -1)

    def strategy(self) -> CirculantStrategy:
        """The same V with largest column norm 1, in floating point."""
        return CirculantStrategy(np.abs(self._coefficients) ** 2)


def _rounded(kernel: Array) -> IntArray:
    """Integers that sum to 0 along every axis: differences of running sums, which are rounded."""
    for axis in range(kernel.ndim):
        kernel = np.cumsum(kernel, axis=axis)
    whole = np.rint(kernel).astype(np.int64)
    for axis in range(kernel.ndim):
        whole = whole - np.roll(whole, 1, axis=axis)
    return whole


def _inner(shape: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """The frequencies of a residual: none of them 0 on any axis."""
    out = np.ones(shape, dtype=bool)
    for index in np.indices(shape, sparse=True):
        out &= index > 0
    return out
