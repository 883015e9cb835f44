"""How few people are too few for all errors at once, whatever the local mechanism: many signs at once.

Populations s + sum over v of e_v M_v for all signs e_v, where M_v moves query v alone. All errors are small only if all
signs are told right, so that any two populations one sign apart are told apart with a chance of error of beta / m, m
the number of queries, on average (docs/proofs.md). It takes queries that are independent of each other,
such as parities, and pays if they are many.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from leastnoise._types import Array
from leastnoise.theory.centred import Centred
from leastnoise.theory.tails import Error
from leastnoise.theory.witness import SAFE, SCALES, Witness, information, largest

RANK = 1e-6  # singular values below this share of the largest make queries depend on each other


def every_sign(queries: Centred) -> Witness | None:
    """The largest moves, each of one query alone and all by the same, with which all populations have shares >= 0."""
    q = np.sqrt(queries.s)
    B = queries.moved * q
    if np.linalg.matrix_rank(B, tol=RANK * float(np.linalg.norm(B, 2))) < len(B):
        return None
    M = np.asarray(np.linalg.pinv(B).T * q, dtype=np.float64)
    M -= np.outer(M.sum(axis=1), queries.s)
    used = queries.s > 0
    most = float((np.abs(M).sum(axis=0)[used] / queries.s[used]).max())
    witness = Witness(queries.W[:, used], np.full(len(M), 1 / len(M)), queries.s[used], M[:, used] * (1 - SAFE) / most)
    return witness if witness.two_answers.all() else None


def all_signs(witness: Witness, height: float, alpha: float, epsilon: float, error: Error) -> int:
    """For errors "max": so many people are too few, or 0, with moves scaled to `height` and a little less.

    Guarantees: floors_are_below_every_mechanism; signs_are_told_apart_no_better.
    """
    beta, m, number = 1 - error.confidence, len(witness.p), 0
    top = float(witness.heights.min())
    for scale in (SCALES * height / top).tolist():
        value = information_on_sign(witness, scale, epsilon)
        if scale > 1 or scale * top <= alpha or not value:
            continue

        def too_few(n: Array, scale: float = scale, value: float = value) -> Array:
            drawn = witness.drawn_wrong(n, scale, alpha).max(axis=1).sum(axis=1)
            return np.asarray(n * value < _divergence(np.minimum(beta + (1 - beta) * drawn, 1.0), m))

        number = largest(too_few, float(_divergence(np.array([beta]), m)[0]) / value, number)
    return number


def information_on_sign(witness: Witness, scale: float, epsilon: float) -> float:
    """The divergence, at most, of one report between populations one sign apart, on average; 0 if there is no bound."""
    b = (scale * float(np.linalg.norm(witness.M / np.sqrt(witness.s), 2))) ** 2 / len(witness.p) * (1 + SAFE)
    others = len(witness.p) * sqrt(b * information(witness.s, epsilon))
    if others >= 1:
        return 0.0
    t = scale * witness.largest_tilt(epsilon) / (1 - others)
    if t >= 0.499:
        return 0.0
    curve = (-np.log1p(-2 * t) - 2 * t) / t**2 if t > 1e-4 else 2 + 4 * t  # 2 at 0
    return float(curve * b * information(witness.s, epsilon) / (1 - others) ** 2)


def _divergence(wrong: Array, m: int) -> Array:
    """Of coins with the chances 1 - wrong and wrong / m; 0 where the first is not the larger."""
    wrong = np.maximum(wrong, 1e-300)
    right, other = np.maximum(1 - wrong, 1e-300), wrong / m
    return np.where(right > other, right * np.log(right / other) + wrong * np.log(wrong / (1 - other)), 0.0)
