"""WFF's complex factorization of marginal and cyclic queries, which attains their least error."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import numpy.typing as npt

from leastnoise.errors import LeastnoiseError
from leastnoise.planning.factorization import guard
from leastnoise.workload import Workload
from leastnoise.workload.families import Cyclic, Marginal, Total

ComplexArray = npt.NDArray[np.complex128]


def fourier_factorization(workload: Workload) -> tuple[ComplexArray, ComplexArray]:
    """WFF's complex factorization W = L R (equations 18 and 22) for marginal and cyclic product queries."""
    shape = workload.domain.shape
    guard(workload.queries, prod(shape))
    frequencies = list(product(*(range(n) for n in shape)))
    phi_hat = [
        [(s, w, [_phi_hat(b.family(a), shape[a]) for a in s]) for s in b.subsets()]
        for b in workload.blocks
        for w in [b.weight]
    ]
    tables = [t for block in phi_hat for t in block]
    tau = np.array([_tau(a, tables, shape) for a in frequencies])
    used = np.flatnonzero(tau > 1e-14 * tau.max())
    waves = _characters(shape)[used]  # chi_a(x), one row per frequency
    share = tau[used] / tau.sum()
    R = np.sqrt(share)[:, None] * waves.conj()
    blocks = []
    for subset, _, hats in tables:
        size = prod(shape[a] for a in subset)
        t = _characters(tuple(shape[a] for a in subset))
        rows = np.zeros((size, len(used)), dtype=np.complex128)
        for k, u in enumerate(used):
            a = frequencies[u]
            if all(a[j] == 0 for j in range(len(shape)) if j not in subset):
                inner = tuple(a[j] for j in subset)
                number = int(np.ravel_multi_index(inner, tuple(shape[j] for j in subset))) if subset else 0
                rows[:, k] = prod(h[i] for h, i in zip(hats, inner, strict=True)) * t[number] / size
        blocks.append(rows / np.sqrt(share))
    return np.concatenate(blocks), R


def _phi_hat(family: object, n: int) -> ComplexArray:
    if isinstance(family, Marginal):
        return np.ones(n, dtype=np.complex128)
    if isinstance(family, Cyclic):
        return np.fft.fft(family.phi)
    if isinstance(family, Total):
        return np.where(np.arange(n) == 0, n, 0).astype(np.complex128)
    raise LeastnoiseError(
        "WFF's factorization is for marginal and cyclic (phi) queries; use plan.factorization() for others"
    )


def _tau(
    a: tuple[int, ...],
    tables: list[tuple[tuple[int, ...], float, list[ComplexArray]]],
    shape: tuple[int, ...],
) -> float:
    total = 0.0
    for subset, weight, hats in tables:
        if all(a[j] == 0 for j in range(len(shape)) if j not in subset):
            power = prod(float(abs(h[a[j]]) ** 2) for h, j in zip(hats, subset, strict=True))
            total += weight * power / prod(shape[j] for j in subset)  # p(S) = weight * |U_S|
    return float(np.sqrt(total))


def _characters(shape: tuple[int, ...]) -> ComplexArray:
    out = np.ones((1, 1), dtype=np.complex128)
    for n in shape:
        x = np.arange(n)
        out = np.kron(out, np.exp(2j * np.pi * np.outer(x, x) / n))
    return out
