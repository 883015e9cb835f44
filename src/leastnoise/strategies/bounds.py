"""Lower bounds on the error of every factorization mechanism.

For any distribution s on the domain, gamma_F(W) >= ||W S^1/2||_tr (WFF Lemma 5.2), and a trace norm is at least
|tr(X Y^T)| for any Y of operator norm at most 1. With product s, take for every table the polar factor of its own
weighted matrix W S^1/2 (or of W S^1/2 M, tilted by a positive M that keeps the direction s^1/2) and glue the tables
with weights as in WFF's proof of Theorem 5.15; without a tilt the bound is

    sum over A of sqrt( sum over tables S containing A of weight * (trace of K_S on the residual space A)^2 ),

K_S = (S^1/2 W_S^T W_S S^1/2)^1/2, where "on the residual space" keeps the direction s^1/2 on axes outside A and its
complement on axes in A. For product tables K_S is a Kronecker product, so per family only two numbers matter: the
trace on s^1/2 (`constant`) and on the rest (`rest`). Proof in docs/theory.md. Theorems 5.8, 5.14 and 5.15 of WFF are
the case of uniform s and the Fourier basis.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leastnoise._types import Array
from leastnoise.workload.families import Circular, Cyclic, Family, Marginal, Prefix, Suffix, Threshold, Total
from leastnoise.workload.weighted import Weighted


@dataclass(frozen=True)
class RootTrace:
    """Trace of (S^1/2 H S^1/2)^1/2 along s^1/2, and on its complement."""

    constant: float
    rest: float


@dataclass(frozen=True)
class RootSlopes:
    """Gradients of the two traces with respect to sigma = s^1/2 (entries free) and to log alpha."""

    constant: Array
    rest: Array
    constant_alpha: float
    rest_alpha: float


def root_trace(gram: Array, s: Array, alpha: float = 1.0) -> RootTrace:
    """Numeric traces for one family's Gram, any weights s and any tilt alpha > 0."""
    v = np.sqrt(s)
    w, u = np.linalg.eigh(_tilted(gram, v, alpha))
    lam = np.sqrt(np.where(w > w[-1] * 1e-13, w, 0.0))  # roots of rounding errors must not count as trace
    inner = float(lam @ (u.T @ v) ** 2)
    return RootTrace(inner / alpha, max(float(lam.sum()) - inner, 0.0))


def _tilted(gram: Array, sigma: Array, alpha: float) -> Array:
    return _between(gram * np.outer(sigma, sigma), sigma, 1 - alpha)


def _between(a: Array, v: Array, c: float) -> Array:
    """M A M with M = I - c v v^T and a symmetric A, without a product of matrices."""
    av = a @ v
    return a - c * (np.outer(v, av) + np.outer(av, v)) + (c * c * float(v @ av)) * np.outer(v, v)


def root_trace_slopes(gram: Array, sigma: Array, alpha: float) -> tuple[RootTrace, RootSlopes]:
    """Both traces at s = sigma^2 and their gradients, for searches; `root_trace` has them without regularization.

    The isometry is the polar factor of W D M, D = diag(sigma), M = I - (1 - alpha) sigma sigma^T: alpha below 1 gives
    up some trace along sigma for more on the rest. With K = (M D H D M)^1/2 the traces are sigma^T K sigma / alpha
    and tr K - sigma^T K sigma. Gradients run backwards through K (dK K + K dK = dX, solved in the eigenbasis of K).
    """
    v, c = sigma, 1 - alpha
    y = gram * np.outer(v, v)
    w, u = np.linalg.eigh(_between(y, v, c))
    lam = np.sqrt(np.maximum(w, max(w[-1] * 1e-14, np.finfo(float).tiny)))  # the gradients divide by it
    u_v = u.T @ v
    k_v = u @ (lam * u_v)
    inner, total = float(v @ k_v), float(lam.sum())

    def backwards(z: Array) -> tuple[Array, float]:
        """From the slope of K in its eigenbasis, divided by sums of its eigenvalues."""
        zv, yv = z @ v, y @ v
        left = z @ (yv - c * float(v @ yv) * v)  # (Y M Z)^T v
        right = y @ (zv - c * float(v @ zv) * v)  # Y M Z v
        return 2 * (gram * _between(z, v, c)) @ v - 2 * c * (left + right), 2 * float(v @ right)

    inner_sigma, inner_alpha = backwards(u @ (np.outer(u_v, u_v) / (lam[:, None] + lam)) @ u.T)
    inner_sigma = inner_sigma + 2 * k_v
    total_sigma, total_alpha = backwards((u / (2 * lam)) @ u.T)
    slopes = RootSlopes(
        inner_sigma / alpha,
        total_sigma - inner_sigma,
        inner_alpha - inner / alpha,  # times alpha: the gradient in log alpha of inner / alpha
        alpha * (total_alpha - inner_alpha),
    )
    return RootTrace(inner / alpha, max(total - inner, 0.0)), slopes


def eta(m: int) -> float:
    """(1/m) sum over l = 1..m of 1 / sin(pi (2l - 1) / 2m) (WFF Theorem 4.8)."""
    return float(np.sum(1 / np.sin(np.pi * (2 * np.arange(1, m + 1) - 1) / (2 * m)))) / m


def zeta(m: int) -> float:
    """(1/m) sum over l = 1..m-1 of 1 / sin(pi l / m) (WFF Theorem 5.15)."""
    return float(np.sum(1 / np.sin(np.pi * np.arange(1, m) / m))) / m


def fourier_amplitudes(family: Family, n: int) -> Array | None:
    """|e_a* Q^T W e_a| / n^1/2 per frequency a, where WFF has a test matrix Q in closed form (docs/theory.md).

    For cyclic families these are the singular values (Theorems 5.8 and 5.14), for prefixes those of Theorem 5.15.
    """
    frequencies = np.arange(1, n)
    if isinstance(family, Total):
        return np.where(np.arange(n) == 0, 1.0, 0.0)
    if isinstance(family, Marginal):
        return np.full(n, 1 / np.sqrt(n))
    if isinstance(family, Prefix):  # suffix too: the same matrix read backwards
        return np.concatenate([[(n + 1) / 2], 0.5 / np.sin(np.pi * frequencies / n)]) / np.sqrt(n)
    if isinstance(family, Threshold):  # prefixes and suffixes, one below the other
        return np.sqrt(2) * np.asarray(fourier_amplitudes(Prefix(), n))
    if isinstance(family, Cyclic):
        return np.abs(np.fft.fft(family.phi)) / np.sqrt(n)
    if isinstance(family, Circular):  # the squares of sin(pi a l / n) / sin(pi a / n) over the lengths l add to this
        rest = np.sqrt(n / 2) / np.sin(np.pi * frequencies / n)
        return np.concatenate([[np.sqrt(n * (n + 1) * (2 * n + 1) / 6)], rest]) / np.sqrt(n)
    return _weighted_amplitudes(family, n)


def _weighted_amplitudes(family: Family, n: int) -> Array | None:
    """The same for rows with weights w: Q of the plain family, W with rows scaled by w^1/2."""
    if not isinstance(family, Weighted):
        return None
    if family.circulant:  # singular values are the roots of the eigenvalues of the Gram
        return np.sqrt(family.spectrum(n) / n)
    roots, base = np.sqrt(family.weights(n)), family.plain
    if isinstance(base, Prefix):  # row t at frequency a is (1 - omega^(a (t + 1))) / (1 - omega^a)
        roots = roots[::-1] if isinstance(base, Suffix) else roots
        wave = np.exp(2j * np.pi * np.arange(1, n) / n)
        rest = np.abs((np.fft.fft(roots)[1:] - wave * roots.sum()) / (1 - wave)) / n
        return np.concatenate([[roots @ np.arange(1, n + 1) / n], rest]) / np.sqrt(n)
    plain = fourier_amplitudes(base, n) if isinstance(base, Total | Marginal | Cyclic) else None
    return None if plain is None else plain * roots.mean()  # all rows have the same magnitudes


def fourier_trace(family: Family, n: int) -> RootTrace | None:
    """The same two numbers in closed form at uniform s (WFF Theorems 5.8, 5.14, 5.15), where WFF has one."""
    amplitudes = fourier_amplitudes(family, n)
    return None if amplitudes is None else RootTrace(float(amplitudes[0]), float(amplitudes[1:].sum()))


def tensor_traces(rows: Array, weights: list[Array]) -> tuple[Array, Array, list[Array]]:
    """(singular values, right singular rows, s^1/2 per axis) of a table's matrix under product weights."""
    roots = [np.sqrt(s) for s in weights]
    if not rows.any():
        return np.zeros(1), np.zeros((1, *rows.shape[1:])), roots
    scaled = rows
    for axis, v in enumerate(roots):
        shape = [1] * rows.ndim
        shape[axis + 1] = len(v)
        scaled = scaled * v.reshape(shape)
    flat = scaled.reshape(len(rows), -1)
    w, u = np.linalg.eigh(flat @ flat.T)
    keep = w > w[-1] * 1e-12
    d = np.sqrt(w[keep])
    z = (u[:, keep].T @ flat) / d[:, None]
    return d, z.reshape(-1, *rows.shape[1:]), roots


def trace_on(d: Array, z: Array, roots: list[Array], kept: tuple[int, ...]) -> float:
    """Trace of Z D Z^T on a residual space: contract s^1/2 outside, project it away inside."""
    for axis in reversed(range(len(roots))):
        v = roots[axis]
        mean = np.tensordot(z, v, axes=(axis + 1, 0))
        z = (
            z - np.expand_dims(mean, axis + 1) * v.reshape([-1 if a == axis else 1 for a in range(-1, z.ndim - 1)])
            if axis in kept
            else mean
        )
    return float(d @ np.sum(z.reshape(len(d), -1) ** 2, axis=1))
