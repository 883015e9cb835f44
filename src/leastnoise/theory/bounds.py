"""How many people queries take: bounds at one accuracy or at several, about the data or a population."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from leastnoise.theory.complexity import SampleComplexity
from leastnoise.theory.population import population_complexity
from leastnoise.theory.queries import QueriesLike
from leastnoise.theory.question import Question
from leastnoise.theory.tails import Kind

if TYPE_CHECKING:
    import pandas as pd


def sample_complexity(
    queries: QueriesLike,
    alpha: float,
    *,
    epsilon: float,
    delta: float | None = None,
    error: Kind = "max",
    confidence: float = 0.95,
    population: bool = False,
) -> SampleComplexity:
    """How many people are enough, and how many too few, for accuracy alpha on queries divided by their number.

    Queries are a matrix (one row each, one column per value a person can have), a list of matrices for their Kronecker
    product, or a workload. `error` is "max" (all errors at once, with `confidence`), "worst" (the largest root mean
    squared error) or "rms" (over all queries). Without a delta mechanisms keep epsilon alone. With `population` answers
    are about the population that people are drawn from: sampling errors count, too.

    >>> people = sample_complexity([[1, 0]], alpha=0.05, epsilon=1, delta=1e-9)
    >>> people.lower("central").people, people.upper("central").people
    (30, 216)

    Guarantees: enough_is_enough; floors_are_below_every_mechanism; bounds_fall_in_alpha; one_query_is_nearly_tight.
    """
    return bounds_of(Question.of(queries, epsilon, delta, error, confidence), alpha, population)


def bounds_of(question: Question, alpha: float, population: bool) -> SampleComplexity:
    """The bounds of a question that is already there."""
    return population_complexity(question, alpha) if population else question.at(alpha)


def sample_complexity_curves(
    queries: QueriesLike,
    alphas: Iterable[float],
    *,
    epsilon: float,
    delta: float | None = None,
    error: Kind = "max",
    confidence: float = 0.95,
    population: bool = False,
) -> pd.DataFrame:
    """Bounds at several accuracies: alpha, model, side, who, privacy, people; options as for `sample_complexity`."""
    return sample_complexity_curves_of(Question.of(queries, epsilon, delta, error, confidence), alphas, population)


def sample_complexity_curves_of(question: Question, alphas: Iterable[float], population: bool = False) -> pd.DataFrame:
    """The same for a question that is already there."""
    import pandas as pd

    return pd.DataFrame([{"alpha": a} | vars(b) for a in alphas for b in bounds_of(question, a, population).all])
