"""From planned strategies to integer ones: scale, round, and keep what must hold exactly.

Every strategy on an attribute must vanish on the attribute's baseline, exactly and in every residual. Three ways:

- free: an attribute with a searched baseline and one full-rank strategy. Its rounded rows have a kernel of dimension
  one, and that *is* the baseline. Columns are trimmed to a common norm, because the longest column is what privacy
  costs.
- lattice: any other attribute. The baseline is put in integers p, and each row is rounded to an integer row with
  row.p = 0, close to the planned one; weak rows guard a strategy of low rank.
- joint: a strategy on several attributes together. Its rows are integer combinations of products of short integer
  rows orthogonal to each p; that errs a little more, and a single matrix has digits to spare.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.algebra.residual import split
from leastnoise.strategies.integer import Centring, Part, Rows
from leastnoise.strategies.strategy import along

BASELINE = 1024  # largest entry of an integer baseline
SMALL_PRIORS = (
    8,
    16,
    48,
    128,
    512,
    BASELINE,
)  # tried where values are few, because short rows orthogonal to p may be rare
PRECISE = 2.0**12
ALIKE = 2.0**-15  # relative to the largest entry: baselines closer than this are the same
SAME = 2.0**-45
LEAST_GUARD = 1e-5  # share of the squared norm for rows that only guard others
ROUNDING_ERROR = 8.0  # more than any entry errs
PIVOTS = 8  # values that balance all others in a short basis


def free_rows(rows: Array, norm: float) -> tuple[Rows, Array]:
    """Rounded rows with no column longer than `norm`, and their kernel with sum 1."""
    cap = int(norm**2)
    scaled = rows * (norm / np.sqrt(np.max(np.einsum("kx,kx->x", rows, rows))))
    z = np.rint(scaled).astype(np.int64)
    for x in range(z.shape[1]):
        _trim(z[:, x], cap)
    _, _, vt = np.linalg.svd(z.astype(np.float64), full_matrices=True)
    kernel: Array = vt[-1] / vt[-1].sum()
    return Rows(z, (z.shape[1],)), kernel


def _trim(column: IntArray, cap: int) -> None:
    """Shorten entries by one until the squared norm is at most the cap, in few steps and with little to spare."""
    excess = int(column @ column) - cap
    while excess > 0:
        gains = 2 * np.abs(column) - 1
        enough = np.flatnonzero(gains >= excess)
        i = enough[gains[enough].argmin()] if len(enough) else int(gains.argmax())
        excess -= int(gains[i])
        column[i] -= np.sign(column[i])


def integer_baseline(baseline: Array, norm: float = PRECISE) -> IntArray:
    """Integers in proportion to a baseline, without a common divisor, for rows with columns of about this norm."""
    if np.allclose(baseline, baseline[0], rtol=1e-9, atol=0):
        return np.ones(len(baseline), dtype=np.int64)
    shape = baseline / np.abs(baseline).max()
    same = _fraction(shape, SAME)
    if same is not None:  # an integer baseline stays what it is, so that later plans can use it again
        return same
    shifts = [np.arange(len(baseline)) % 3 - 1]  # equal entries have no small differences, and those make short rows
    if len(baseline) > PIVOTS:
        return _positive(np.rint(shape * BASELINE).astype(np.int64) + shifts[0])
    shifts.append(np.zeros_like(shifts[0]))
    tried = [_positive(np.rint(shape * times).astype(np.int64) + s) for times in SMALL_PRIORS for s in shifts]
    alike = _fraction(shape, ALIKE)
    return min([*tried, *([] if alike is None else [alike])], key=lambda p: _loss(p, baseline, norm))


def _fraction(shape: Array, tolerance: float) -> IntArray | None:
    """The smallest integers in proportion, if there are."""
    for times in range(1, BASELINE + 2):
        p = np.rint(shape * times).astype(np.int64)
        if np.abs(p - shape * times).max() < tolerance * times:
            return _positive(p)
    return None


def _loss(p: IntArray, baseline: Array, norm: float) -> float:
    """What an integer baseline costs, as a rule of thumb from many plans: it is missed a little, and rows get
    coarse.
    """
    missed = float(np.abs(p / p.sum() - baseline).max() / np.abs(baseline).max())
    return missed + 0.3 * (_longest(short_basis(p)) / norm) ** 2 if len(p) > 2 else missed


def _longest(rows: IntArray) -> float:
    return float(np.sqrt((rows**2).sum(axis=1).max()))


def _positive(p: IntArray) -> IntArray:
    """Coprime, with a positive sum also where entries of both signs have next to none."""
    if p.sum() <= 0:
        p[p.argmax()] += 1 - p.sum()
    return _coprime(p)


def _coprime(p: IntArray) -> IntArray:
    return p // gcd(*p.tolist())


class Lattice:
    """Integer rows orthogonal to an integer vector p, and the way to the near ones."""

    def __init__(self, p: IntArray):
        self.p = p
        self._steps = _coins(p) if len(p) > 2 else {}

    def round(self, rows: Array, norm: float) -> Rows:
        """Rows near the scaled ones, orthogonal to p."""
        p = self.p
        rows = rows - (rows @ p / p.sum())[:, None]
        scaled = rows * (norm / np.sqrt(np.max(np.einsum("kx,kx->x", rows, rows))))
        if len(p) == 2:
            return Rows(self._line(scaled), (2,))
        z = np.rint(scaled).astype(np.int64)
        for row, target in zip(z, scaled, strict=True):
            self._settle(row, target)
        return Rows(z[np.abs(z).any(axis=1)], (len(p),))

    def guarded(self, rows: Rows, norm: float) -> Rows:
        """The rows, and weak ones that reach everything orthogonal to p.

        Rows of norm N that err by e leave a query outside of their span by e/N. Weak rows with a share g of the squared
        norm cost g, and answer what is outside at (e/N)^2 / g: together least at g = e/N.
        """
        basis = short_basis(self.p)
        longest = _longest(basis)
        weak = norm * max(longest / norm, LEAST_GUARD) ** 0.5
        even = weak > 8 * longest or (self.p == 1).all()  # else rounding would lose rank
        guard = self.whole(weak) if even else Rows(basis, rows.shape)
        times = max(int(weak / guard.largest_square**0.5), 1)
        return Rows(np.concatenate([rows.rows, times * guard.matrix()]), rows.shape)

    def whole(self, norm: float) -> Part:
        """Rows that reach everything orthogonal to p, each value about alike."""
        if (self.p == 1).all():
            return Centring(len(self.p))
        return self.round(np.eye(len(self.p)), norm)

    def _line(self, rows: Array) -> IntArray:
        direction = np.array([self.p[1], -self.p[0]])
        times = rows @ direction / (direction @ direction)
        z = np.rint(times)[:, None].astype(np.int64) * direction
        return z[np.abs(z).any(axis=1)] if z.any() else direction[None]

    def _settle(self, row: IntArray, target: Array) -> None:
        """Move a rounded row to row.p = 0: large steps where rounding was closest, then a shortest small one."""
        p, off = self.p, int(row @ self.p)
        reach = int(np.abs(p).max())
        while abs(off) > reach:
            step = -np.sign(off) * np.sign(p)
            error = np.abs(row + step - target)
            error[p == 0] = np.inf
            i = int(error.argmin())
            row[i] += step[i]
            off += int(step[i] * p[i])
        while off:
            i, sign = self._steps[off]
            row[i] += sign
            off += sign * int(p[i])


def _coins(p: IntArray) -> dict[int, tuple[int, int]]:
    """For each small difference: the first of the fewest unit steps (where, sign) that lead to zero."""
    reach = 2 * int(np.abs(p).max())
    steps: dict[int, tuple[int, int]] = {}
    seen = np.zeros(2 * reach + 1, dtype=bool)
    seen[reach] = True
    frontier = np.array([0])
    while len(frontier):
        results = []
        for i in range(len(p)):
            for sign in (1, -1):
                before = frontier - sign * p[i]  # one step of `sign` at i leads from there to the frontier
                before = before[(np.abs(before) <= reach)]
                before = before[~seen[before + reach]]
                seen[before + reach] = True
                steps.update((int(d), (i, sign)) for d in before)
                results.append(before)
        frontier = np.concatenate(results)
    return steps


def short_basis(p: IntArray) -> IntArray:
    """n - 1 independent short integer rows orthogonal to p."""
    n = len(p)
    if (p == 1).all():
        return np.eye(n - 1, n, dtype=np.int64) - np.eye(n - 1, n, 1, dtype=np.int64)
    few = _pivots(p)  # every other value is balanced by these
    core = _short_core(p[few])
    steps = _coins(p[few])
    rows = []
    for x in sorted(set(range(n)) - set(few.tolist())):
        row = np.zeros(n, dtype=np.int64)
        row[x], off = 1, int(p[x])
        while off:
            i, sign = steps[off]
            row[few[i]] += sign
            off += sign * int(p[few[i]])
        rows.append(row)
    wide = np.zeros((len(core), n), dtype=np.int64)
    wide[:, few] = core
    return np.concatenate([wide, np.array(rows, dtype=np.int64).reshape(-1, n)])


def _pivots(p: IntArray) -> IntArray:
    """Places of the largest entries, and of further ones until nothing divides them all."""
    order = np.argsort(-np.abs(p), kind="stable")
    few, common = list(order[:PIVOTS]), gcd(*p[order[:PIVOTS]].tolist())
    for x in order[PIVOTS:]:
        if gcd(common, int(p[x])) < common:
            few.append(x)
            common = gcd(common, int(p[x]))
    return np.array(few)


def _short_core(p: IntArray) -> IntArray:
    """Short independent rows orthogonal to a few integers: the kernel that LLL leaves of the rows (e_i, heavy p_i)."""
    heavy = 2**20
    rows = lll(np.column_stack([np.eye(len(p), dtype=np.int64), heavy * p]))
    return rows[rows[:, -1] == 0, :-1]


def lll(basis: IntArray) -> IntArray:
    """A short basis of the lattice of a few integer rows (Lenstra, Lenstra and Lovasz 1982, parameter 0.99)."""
    b = basis.copy()
    k = 1
    while k < len(b):
        r: Array = np.asarray(np.linalg.qr(b.T.astype(np.float64), mode="r"))
        for j in range(k - 1, -1, -1):
            times = int(np.rint(r[j, k] / r[j, j]))
            b[k] -= times * b[j]
            r[:, k] -= times * r[:, j]
        if r[k, k] ** 2 >= (0.99 - (r[k - 1, k] / r[k - 1, k - 1]) ** 2) * r[k - 1, k - 1] ** 2:
            k += 1
        else:
            b[[k - 1, k]] = b[[k, k - 1]]
            k = max(k - 1, 1)
    return b


def joint_rows(
    rows: Array, shape: tuple[int, ...], baselines: Sequence[IntArray], bases: Sequence[IntArray], norm: float
) -> Rows:
    """Rounded rows on several attributes that vanish on every baseline: integer combinations of products of basis
    rows.
    """
    moved = split(rows.reshape(len(rows), *shape), [p / p.sum() for p in baselines], range(len(shape)))
    z = moved * (norm / np.sqrt(np.max(np.einsum("k...,k...->...", moved, moved))))
    for axis, basis in enumerate(bases):
        z = along(np.linalg.pinv(basis.astype(np.float64)), z, axis + 1)
    c = np.rint(z).astype(np.int64)
    for axis, basis in enumerate(bases):
        c = along(basis, c, axis + 1)
    c = c.reshape(len(rows), -1)
    return Rows(c[np.abs(c).any(axis=1)], shape)


def reaches(rows: IntArray, baselines: Sequence[Array]) -> bool:
    """Whether rows that vanish on a baseline along every axis span all that do, and not by rounding errors alone.

    Without one value of each attribute, what vanishes on the baselines is free, and the rows need a regular Gram.
    """
    free = rows.reshape(len(rows), *map(len, baselines))
    for axis, baseline in enumerate(baselines):
        free = np.delete(free, int(np.abs(baseline).argmax()), axis=axis + 1)
    R = free.reshape(len(rows), prod(len(p) - 1 for p in baselines)).astype(np.float64)
    if len(R) < R.shape[1]:
        return False
    try:
        pivots = np.diagonal(np.linalg.cholesky(R.T @ R))
    except np.linalg.LinAlgError:
        return False
    return bool(pivots.min() > ROUNDING_ERROR * len(R) ** 0.5)


def integer_levels(theta: Array, largest: int = 255) -> IntArray:
    """Whole multiples in proportion to the roots of the levels, at least 1."""
    root = np.sqrt(theta / theta.max())
    return np.maximum(np.rint(root * largest), 1).astype(np.int64)
