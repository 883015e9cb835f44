"""The climb behind gamma_2, gamma_F and the norms between, for one dense matrix (docs/norms.md).

    gamma_(r)(W) = min over W = R A with columns of A of norm at most 1 of  (sum_q |R_q|^2r)^(1/2r)
                 = max over p, s >= 0 with |p|_r' <= 1 and |s|_1 <= 1 of    | P^1/2 W S^1/2 |_tr,      1/r + 1/r' = 1

r = 1 is gamma_F (p = 1), r = infinity gamma_2. With P^1/2 W S^1/2 = Y D Z^T, any p and s give both sides:

    t = tr D                                        lower bound, with the witness U = P^1/2 Y Z^T S^1/2: W . U = t
    R = P^-1/2 Y D^1/2,  A = D^1/2 Z^T S^-1/2       upper bound: W = R A

p = phi^2 and s = theta^2, scaled to their unit balls, make the climb smooth and free of constraints; L-BFGS needs 5 to
10 times fewer steps than the fixed point p <- p |R_q|^2, s <- s |A_x|^2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

import numpy as np
from scipy.linalg import qr, solve_triangular

from leastnoise._types import Array, IntArray
from leastnoise.strategies.descent import Stop, descend

MAX_STEPS = 3000
FALLBACK_STEPS = 300
SKETCH = 32  # columns of the first attempt at a low rank
RANK_GAP = 1e11  # a sketch of a larger condition number has found all of the matrix
QUICK_SIZE = 200  # queries from which eigenvectors are used where singular vectors would be slower
QUICK_SPREAD = 1e-10  # least ratio of eigenvalues for it
TALL = 4  # rows per column from which triangles come from Cholesky's decomposition
CHOLESKY_SPREAD = 1e-4  # least ratio of its diagonal
MIX = 1e-3  # share of the gap spent on a little weight everywhere, so that R and A stay finite and accurate


@dataclass(frozen=True)
class Lines:
    """Rows of a matrix up to zero rows, repetitions and signs: which are distinct, and the way back."""

    first: IntArray
    class_of: IntArray
    sign: Array  # against the first of its class; 0 for a row of zeros
    count: Array

    @classmethod
    def of(cls, matrix: Array) -> Lines:
        """Rows that are exactly equal, or equal up to sign, form one class."""
        leading = matrix[np.arange(len(matrix)), (matrix != 0).argmax(axis=1)]
        sign = np.sign(leading)
        kept = np.flatnonzero(sign)
        turned = matrix[kept] * sign[kept, None] + 0.0  # no negative zeros: unique compares bytes
        _, first, inverse, count = np.unique(turned, axis=0, return_index=True, return_inverse=True, return_counts=True)
        order = np.argsort(first)  # as they occur: symmetries survive
        class_of = np.zeros(len(matrix), dtype=np.int64)
        class_of[kept] = np.argsort(order)[inverse.ravel()]
        first = kept[first[order]]
        return cls(first, class_of, sign * sign[first][class_of], count[order].astype(np.float64))

    def expand(self, rows: Array) -> Array:
        """One row per original row, with its sign."""
        return self.sign[:, None] * rows[self.class_of]

    def spread(self, weights: Array) -> Array:
        """One weight per original row; nothing on rows of zeros."""
        return np.abs(self.sign) * weights[self.class_of]


@dataclass(frozen=True)
class Point:
    """What one p and s yield: the bounds and all that attains them."""

    p: Array
    s: Array
    t: float
    rows: Array  # squared row norms of R
    columns: Array  # squared column norms of A
    R: Array
    A: Array


def conjugate(r: float) -> float:
    """r' with 1/r + 1/r' = 1."""
    return inf if r == 1 else 1.0 if r == inf else r / (r - 1)


def power(base: Array, exponent: float) -> Array:
    """base^exponent, also for an exponent 1/infinity."""
    return np.ones_like(base) if exponent == 0 else base**exponent


def length(values: Array, r: float) -> float:
    """The l_r norm, without overflow for large r."""
    largest = float(values.max())
    return largest if r == inf else largest * float(np.linalg.norm(values / largest, r))


def full_rank_factors(W: Array) -> tuple[Array | None, Array]:
    """W = L Q with as many columns in L as the rank; None stands for the identity.

    Guarantees: low_rank_is_used.
    """
    m, n = W.shape
    rounding = max(m, n) * float(np.finfo(float).eps)
    if (sketched := _sketched(W, rounding)) is not None:
        basis, core = sketched
        U, d, Vt = np.linalg.svd(core, full_matrices=False)
        U = basis @ U
    else:
        d = np.linalg.svd(W, compute_uv=False)
        k = int((d > d[0] * rounding).sum())
        if k == m:
            return None, W
        if k == n:
            return W, np.eye(n)
        U, d, Vt = np.linalg.svd(W, full_matrices=False)
    k = int((d > d[0] * rounding).sum())
    root = np.sqrt(d[:k])
    return U[:, :k] * root, root[:, None] * Vt[:k]


def _sketched(W: Array, rounding: float) -> tuple[Array, Array] | None:
    """An orthonormal B with W = B (B^T W), if W is large and of low rank: random combinations of columns span it."""
    rng = np.random.default_rng(0)
    columns = SKETCH
    while 4 * columns <= min(W.shape):
        B, core = np.linalg.qr(W @ rng.normal(size=(W.shape[1], columns)))
        if np.linalg.cond(core) > RANK_GAP:
            inside = B.T @ W
            return (B, inside) if np.linalg.norm(W - B @ inside) <= rounding * np.linalg.norm(W) else None
        columns *= 4
    return None


@dataclass
class Search:
    """State of one climb: the best bounds seen and where."""

    W: Array
    r: float
    gap: float
    target: float = 0.0  # an upper bound that is good enough, whatever the gap
    lower: float = 0.0
    upper: float = inf
    best: Point | None = None  # of the upper bound
    dual: tuple[Array, Array] = field(default_factory=lambda: (np.zeros(0), np.zeros(0)))
    steps: int = 0

    def __post_init__(self) -> None:
        self.L, self.Q = full_rank_factors(self.W)
        self.conjugate = conjugate(self.r)
        self.quick = self.L is None and len(self.W) >= QUICK_SIZE

    @property
    def done(self) -> bool:
        """Whether the bounds meet, or the target is reached, or cannot be."""
        return self.upper <= max(self.lower * (1 + self.gap), self.target) or self.lower > self.target > 0

    def mixed(self, p: Array, s: Array) -> tuple[Array, Array]:
        """p and s with a little weight everywhere, on their unit spheres."""
        share = min(MIX * self.gap, 1e-6)
        if self.conjugate < inf:
            p = (1 - share) * p + share * len(p) ** (-1 / self.conjugate)
            p = p / length(p, self.conjugate)
        return p, (1 - share) * s + share / len(s)

    def evaluate(self, p: Array, s: Array) -> Point:
        """Both bounds at p and s, recorded."""
        p, s = self.mixed(p, s)
        R, A, t = self._quick_factors(p, s) or self._factors(p, s)
        point = Point(p, s, t, np.einsum("qk,qk->q", R, R), np.einsum("kx,kx->x", A, A), R, A)
        self._record(point)
        return point

    def _quick_factors(self, p: Array, s: Array) -> tuple[Array, Array, float] | None:
        """From the eigenvectors Y of X X^T, X = P^1/2 W S^1/2: W = R A holds for any orthogonal Y and any D.

        A third of the time of singular vectors, and as good unless small eigenvalues drown in rounding; then None.
        """
        if not self.quick:
            return None
        X = np.sqrt(p)[:, None] * self.W * np.sqrt(s)
        squares, Y = np.linalg.eigh(X @ X.T)
        if squares[0] < QUICK_SPREAD * squares[-1]:
            self.quick = False
            return None
        root = squares**0.25
        return Y * root / np.sqrt(p)[:, None], (Y.T * np.sqrt(p) / root[:, None]) @ self.W, float(np.sum(root**2))

    def _factors(self, p: Array, s: Array) -> tuple[Array, Array, float]:
        left, right = self._halves(p, s)
        Y, D, _ = np.linalg.svd(left @ right.T)
        root = np.sqrt(np.maximum(D, D[0] * 1e-15))
        R = solve_triangular(left, Y * root)  # L times it is P^-1/2 Y D^1/2: no division by small p
        R = R if self.L is None else self.L @ R
        A = (Y.T @ left / root[:, None]) @ self.Q
        return R, A, float(D.sum())

    def _halves(self, p: Array, s: Array) -> tuple[Array, Array]:
        """Triangular F, G with F^T F = L^T P L and G^T G = Q S Q^T."""
        left = np.diag(np.sqrt(p)) if self.L is None else triangle(np.sqrt(p)[:, None] * self.L)
        return left, triangle(np.sqrt(s)[:, None] * self.Q.T)

    def _record(self, point: Point) -> None:
        self.steps += 1
        if point.t > self.lower:
            self.lower, self.dual = point.t, (point.p, point.s)
        upper = float(np.sqrt(length(point.rows, self.r) * point.columns.max()))
        if upper < self.upper:
            self.upper, self.best = upper, point

    def witness(self) -> Array:
        """U of the best lower bound, P^1/2 times a partial isometry times S^1/2."""
        p, s = self.dual
        rows, columns = np.sqrt(p)[:, None], np.sqrt(s)
        k = len(self.Q)
        if self.L is not None and 2 * k <= min(self.W.shape):
            (B, left), (C, right) = np.linalg.qr(rows * self.L), np.linalg.qr((self.Q * columns).T)
            Y, _, Z = np.linalg.svd(left @ right.T)
            return np.asarray(rows * (B @ Y) @ (Z @ C.T) * columns)
        Y, _, Z = np.linalg.svd(rows * self.W * columns, full_matrices=False)
        return np.asarray(rows * (Y[:, :k] @ Z[:k]) * columns)


def triangle(matrix: Array) -> Array:
    """A triangular F with F^T F = M^T M for the matrix M, with as many rows as columns.

    The bounds hold for any F; so for many rows Cholesky's, four times as fast as QR, unless it loses digits.
    """
    m, n = matrix.shape
    if m >= TALL * n:
        try:
            factor = np.asarray(np.linalg.cholesky(matrix.T @ matrix).T, dtype=np.float64)
        except np.linalg.LinAlgError:
            factor = np.zeros((n, n))
        diagonal = np.diagonal(factor)
        if diagonal.min() > CHOLESKY_SPREAD * diagonal.max():
            return np.ascontiguousarray(factor)
    return np.asarray(qr(matrix, mode="r", check_finite=False)[0][:n], dtype=np.float64)


def climb(
    W: Array,
    r: float,
    gap: float,
    max_steps: int = MAX_STEPS,
    start: tuple[Array, Array] | None = None,
    target: float = 0.0,
) -> Search:
    """Search for p and s until the bounds meet to the relative `gap`, or the steps are used up.

    W has neither zero rows nor zero columns. `start` are the first p and s; a `target` ends the search where the upper
    bound is as low, or the lower bound shows that it never will be.
    Guarantees: norms_match_a_cone_solver; search_stops_on_the_gap.
    """
    search = Search(W, r, gap, target)
    m, n = W.shape
    fixed = search.conjugate == inf  # gamma_F: p = 1 throughout

    def objective(x: Array) -> tuple[float, Array]:
        theta, phi = x[:n], x[n:]
        size = float(theta @ theta)
        norm = 1.0 if fixed else length(phi * phi, search.conjugate)
        p = np.ones(m) if fixed else phi * phi / norm
        point = search.evaluate(p, theta * theta / size)
        if search.done or search.steps >= max_steps:
            raise Stop
        slope = theta / size * (point.columns / point.t - 1)
        if not fixed:
            pull = point.rows / point.t - power(p, search.conjugate - 1)
            slope = np.concatenate([slope, phi / norm * pull])
        return -float(np.log(point.t)), -slope

    p, s = start or (np.full(m, 1 / m), np.full(n, 1 / n))
    descend(objective, np.sqrt(s if fixed else np.concatenate([s, p])), max_steps)
    if not search.done:  # the line search stalled at rounding level: plain steps still climb
        _fixed_point(search, min(search.steps + FALLBACK_STEPS, max_steps))
    return search


def _fixed_point(search: Search, steps: int) -> None:
    p, s = search.dual
    while not search.done and search.steps < steps:
        point = search.evaluate(p, s)
        s = point.s * point.columns
        s = s / s.sum()
        if search.conjugate < inf:
            p = (point.p * point.rows) ** (1 / search.conjugate)
            p = p / length(p, search.conjugate)
