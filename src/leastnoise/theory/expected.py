"""How many people an expected largest error takes: the measure of error of Edmonds, Nikolov and Ullman (2020).

`sample_complexity` asks that all errors are small with a confidence. Here their largest is small on average:

    enough    E max |e_q| is the integral of P(max > t): by Sidak's inequality for Gaussian errors, by Chernoff's
              bound and the union over queries for sums of reports; a bias adds to it
    too few   by Markov's inequality an expected largest error of alpha exceeds alpha / beta with a chance of at most
              beta, so the floors of `sample_complexity` hold for every beta
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from leastnoise._types import Array
from leastnoise.errors import LeastnoiseError
from leastnoise.local.ball import Ball, cap, unit_columns
from leastnoise.local.randomized_response import Odds
from leastnoise.planning.variance import expected_largest_of
from leastnoise.strategies.differences import largest_difference
from leastnoise.strategies.norms import gamma_2_approximate
from leastnoise.theory.complexity import ANY, EXACT, GAUSSIAN, NEAR, SEPARATE, Bound, Model
from leastnoise.theory.queries import QueriesLike
from leastnoise.theory.question import (
    APPROXIMATE_GAP,
    APPROXIMATE_STEPS,
    BIASES,
    MOST_APPROXIMATE,
    Question,
    reports_of,
)
from leastnoise.theory.tails import people

CHANCES = (0.1, 0.25, 0.45)  # beta of Markov's inequality, to try


def expected_largest_people(
    queries: QueriesLike, alpha: float, *, epsilon: float, delta: float | None = None
) -> tuple[Bound, ...]:
    """How many people are enough, and how many too few, for an expected largest error of alpha.

    Queries are a matrix or a workload, as for `sample_complexity`, with few enough values to be written out.

    >>> for bound in expected_largest_people([[1, 0]], 0.05, epsilon=1, delta=1e-9)[:2]: print(bound)
                 88  enough for factorization mechanism (central, epsilon and delta)
                 88  enough for approximate factorization mechanism (central, epsilon and delta)

    Guarantees: expected_errors_are_what_is_stated; floors_of_expected_errors_are_below_the_best_mechanism.
    """
    question = Question.of(queries, epsilon, delta)
    if question.dense is None:
        raise LeastnoiseError("these queries are too large to be written out; use fewer values, or sample_complexity")
    return (*_enough(question, alpha), *_too_few(queries, alpha, epsilon, delta))


def _enough(question: Question, alpha: float) -> Iterator[Bound]:
    exact = [(0.0, norm.R, norm.A) for _, norm in question.solved]
    near = [*exact, *_near(question, alpha)]
    if question.delta is not None:
        places: tuple[tuple[Model, float], ...] = (("central", 1.0), ("local", 0.5))
        for model, power in places:
            for who, some in ((EXACT, exact), (NEAR, near)):
                size = min(_gaussian(question, R, A) / (1 - share) for share, R, A in some)
                yield Bound(model, "enough", who, "epsilon and delta", people(size, alpha, power))
    for who, some in ((EXACT, exact), (NEAR, near)):
        fewest = min(_reports(question, R, A, alpha * (1 - share)) for share, R, A in some if A.any())
        yield Bound("local", "enough", f"{who}, caps", "epsilon", fewest)


def _near(question: Question, alpha: float) -> Iterator[tuple[float, Array, Array]]:
    """(share of alpha, R, A) of matrices within so much of the queries less their middles."""
    assert question.dense is not None
    if sum(question.dense.shape) > MOST_APPROXIMATE:
        return
    for share in BIASES:
        norm = gamma_2_approximate(question.dense, share * alpha, APPROXIMATE_GAP, APPROXIMATE_STEPS)
        yield share, norm.R, norm.A


def _gaussian(question: Question, R: Array, A: Array) -> float:
    """Expected largest error for n = 1 if A is published with Gaussian noise."""
    return expected_largest_of(np.linalg.norm(R, axis=1) * largest_difference([A]) / question.mu)


def _reports(question: Question, R: Array, A: Array, alpha: float) -> int:
    """Enough reports of caps, by the tail of their sums."""
    return reports_of(Ball(unit_columns(A), cap(Odds.within(question.epsilon))), R @ A).people_for_mean(alpha)


def _too_few(queries: QueriesLike, alpha: float, epsilon: float, delta: float | None) -> Iterator[Bound]:
    best: dict[tuple[str, str, str], Bound] = {}
    for beta in CHANCES:
        for bound in Question.of(queries, epsilon, delta, "max", 1 - beta).at(alpha / beta).all:
            key = (bound.model, bound.who, bound.privacy)
            if bound.who in (ANY, GAUSSIAN, SEPARATE) and (key not in best or best[key].people < bound.people):
                best[key] = bound
    yield from best.values()
