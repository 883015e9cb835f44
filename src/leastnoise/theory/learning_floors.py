"""How few examples are too few to learn a class of concepts from devices, whatever the mechanism (ENU Theorem 25).

Each concept v has a population s + M_v on which it is the best by far. Whoever learns chooses v, or a concept nearly as
good, there; under s a choice suits no more than a few v at once. Private reports tell so little about v that few
examples cannot do both (docs/proofs.md). No estimate of a loss is asked for, so this also bounds the choice of the best
parity (ENU, after Corollary 5).
"""

from __future__ import annotations

from math import ceil, log, log1p

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array
from leastnoise.errors import LeastnoiseError
from leastnoise.local.randomized_response import checked_epsilon
from leastnoise.theory.ladder import weighted
from leastnoise.theory.learning import checked_concepts, labelled
from leastnoise.theory.witness import SAFE, Witness, every_query, information

HEIGHTS = np.concatenate([np.geomspace(1.0001, 8, 24), [2.0001]])  # of a witness, in excesses


def examples_at_least(
    concepts: npt.ArrayLike, epsilon: float, excess: float, failure: float = 0.05, waiting: bool = True
) -> int:
    """With fewer examples no private mechanism chooses a concept whose loss exceeds the least by at most `excess`.

    Concepts are rows of -1 and 1 over the values, and a mechanism may fail with a probability of `failure`. Without
    `waiting` nobody's report depends on others' reports; then the logarithm of the number of concepts counts.

    >>> from leastnoise.theory import parities
    >>> examples_at_least(parities(5, 5), 1, 0.05), examples_at_least(parities(5, 5), 1, 0.05, waiting=False)
    (63140, 71820)

    Guarantees: floors_are_below_learners; learning_reports_tell_no_more.
    """
    if not (0 < excess < 1 and 0 < failure < 0.5):
        raise LeastnoiseError(f"excess {excess!r} must lie between 0 and 1, failure {failure!r} between 0 and 1/2")
    W = labelled(checked_concepts(concepts))
    queries = weighted(W, np.ones(len(W)), np.ones(W.shape[1]), "max")
    witnesses = (every_query(queries, height) for height in excess * HEIGHTS)
    moved = [(w, suited(W[:, queries.s > 0], w, excess)) for w in witnesses if w]
    rounds, own = ((True,) if waiting else (True, False)), float(checked_epsilon(epsilon))
    people = (_needed(chance, failure, r) / report_divergence(w, own, r) for w, chance in moved for r in rounds)
    return max(ceil(max(people, default=1.0) * (1 - SAFE)), 1)


def _needed(chance: float, failure: float, waiting: bool) -> float:
    """What must be told so that a choice is right on the population of v, and under s with this chance at most."""
    if chance >= 1 - failure:
        return 0.0
    return divergence(chance, 1 - failure) if waiting else divergence(1 - failure, chance)


def suited(W: Array, witness: Witness, excess: float) -> float:
    """The largest share of concepts v, by their weights, for which one concept is accurate on the population of v."""
    correlations = W @ (witness.s + witness.M).T  # of a concept (row) with labels from a population (column)
    good = correlations >= correlations.max(axis=0) - 2 * excess * (1 + SAFE)
    return float((good @ witness.p).max())


def report_divergence(witness: Witness, epsilon: float, waiting: bool) -> float:
    """The divergence of one example's report, at most, on average over the concepts.

    From s to s + M_v if reports wait for others, -ln(1 + y) <= -y + k y^2; else from s + M_v to s, (1 + y) ln(1 + y) <=
    y + k y^2, for |y| up to the largest tilt, where y has the mean 0 under s.
    """
    N = np.sqrt(witness.p)[:, None] * witness.M / np.sqrt(witness.s)
    y = min(witness.largest_tilt(epsilon), 1 - 1e-12)
    rest = -log1p(-y) - y if waiting else (1 - y) * log1p(-y) + y
    k = max(rest / y**2, 0.5) if y > 1e-4 else 0.5 + y  # 1/2 + y/3 + .. or 1/2 + y/6 + ..
    return k * float(np.linalg.norm(N, 2)) ** 2 * information(witness.s, epsilon) * (1 + SAFE)


def divergence(p: float, q: float) -> float:
    """Of two coins.

    >>> round(divergence(0.5, 0.05), 4)
    0.8304
    """
    return sum(a * log(a / b) for a, b in ((p, q), (1 - p, 1 - q)) if a > 0)
