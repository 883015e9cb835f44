"""People who are drawn from a population: how many are enough, and how many too few, for answers about the population.

An answer is then off by what sampling and the mechanism add up to.

    enough    a share of alpha is for sampling (Hoeffding's inequality for all queries at once, or the variance, at most
              range^2 / 4 per person), the rest for the mechanism on whatever people were drawn; errors of unbiased
              answers add up in squares
    too few   for any curator, private or not: two populations that hold two values in shares 1/2 + a and 1/2 - a. The
              best guess is the value that most people have, so its chance to be wrong is a binomial's
              for any reports: the same with randomized responses, of which all reports on two values are a function
              (Kairouz, Oh and Viswanath 2015): their shares are 1/2 +- a tanh(epsilon / 2)
              for a private curator: everybody has one value, or each person another with chance t, K people in all.
              What is published about K changes is private by groups, and K is binomial

docs/sample_complexity.md has the setting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from math import ceil, exp, log, sqrt, tanh

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import binom

from leastnoise._types import Array
from leastnoise.theory.complexity import ANY, GAUSSIAN, Bound, SampleComplexity
from leastnoise.theory.floors import group_delta, overlap
from leastnoise.theory.question import Question
from leastnoise.theory.tails import MOST_PEOPLE, Error, at_least, people

SHARES = (0.1, 0.25, 0.5, 0.75)  # of alpha, or of its square, that are left to sampling
DISTANCES = 40  # between populations, to try
MOST_CHANGES = 20_000  # of values, that group privacy is counted for
Chance = Callable[[int], float]  # of being wrong, or an overlap, with n people: falls in n


def population_complexity(question: Question, alpha: float) -> SampleComplexity:
    """The bounds of `sample_complexity` for answers about a population.

    Guarantees: enough_people_are_enough_for_populations; floors_for_populations_are_below_every_mechanism.
    """
    bounds = (*_enough(question, alpha), *_too_few(question, alpha))
    return replace(question.at(alpha), all=bounds, population=True)


def _enough(question: Question, alpha: float) -> Iterator[Bound]:
    if question.trivial(alpha):
        for bound in question.at(alpha).all:
            if bound.who.startswith("constants"):
                yield bound
    best: dict[tuple[str, str, str], Bound] = {}
    for share in SHARES:
        rest, drawn = _divided(question, alpha, share)
        for bound in (b for b in rest if b.side == "enough" and not b.who.startswith("constants")):
            key, number = (bound.model, bound.who, bound.privacy), max(bound.people, drawn)
            if key not in best or number < best[key].people:
                best[key] = replace(bound, people=number)
    yield from best.values()


def _divided(question: Question, alpha: float, share: float) -> tuple[tuple[Bound, ...], int]:
    """Bounds for the mechanism's part of alpha, and the people that sampling needs for its share."""
    r, error = float(question.ranges.max()), question.error
    if error.kind != "max":  # errors of unbiased answers add up in squares
        return question.at(alpha * sqrt(1 - share)).all, people(r / 2, alpha * sqrt(share), 0.5)
    failing = (1 - error.confidence) / 2
    strict = replace(question, error=Error("max", 1 - failing), _near_factors={})
    drawn = ceil(log(2 * question.count / failing) * (r / (share * alpha)) ** 2 / 2)  # Hoeffding 1963, Theorem 2
    return strict.at(alpha * (1 - share)).all, max(drawn, 1)


def _too_few(question: Question, alpha: float) -> Iterator[Bound]:
    epsilon, delta = float(question.epsilon), question.delta
    drawn, reported = (_two_shares(question, alpha, tell) for tell in (1.0, tanh(epsilon / 2)))
    privacy = "epsilon" if delta is None else "epsilon and delta"
    low = max(drawn, _two_values(question, alpha, *_by_groups(question, epsilon, delta or 0.0)))
    yield Bound("central", "too few", ANY, privacy, low)
    if delta is not None:
        number = _two_values(question, alpha, *_gaussian_groups(question))
        yield Bound("central", "too few", GAUSSIAN, f"mu = {question.mu:.2g}", max(low, number))
    yield Bound("local", "too few", ANY, "epsilon", reported)


def _two_shares(question: Question, alpha: float, tell: float) -> int:
    """Too few to tell shares of 1/2 + a from 1/2 - a, of which `tell` times a is seen."""
    (r, together), error = question.moved, question.error
    if error.kind == "max":
        a = alpha / r if r else 1.0
        return 1 if a >= 0.5 else _more_than(partial(_majority_misleads, a * tell), 1 - error.confidence)
    moved = r if error.kind == "worst" else together
    if moved <= 2 * alpha:
        return 1
    # The mean of both squared errors is at least (2 a moved)^2 / 4 times the overlap, twice the chance to be wrong.
    distances = np.geomspace(alpha / moved, 0.5, DISTANCES + 1)[1:].tolist()
    return max(_more_than(partial(_majority_misleads, a * tell), (alpha / (a * moved)) ** 2 / 2) for a in distances)


def _majority_misleads(a: float, n: int) -> float:
    """Chance that most of n people have the rarer of two values; an even n is as good as n - 1."""
    odd = n - 1 + n % 2
    return float(binom.cdf((odd - 1) // 2, odd, 0.5 + a)) if n else 0.5


def _two_values(question: Question, alpha: float, accurate: Array, overlaps: Array) -> int:
    """Too few to tell one value from a mixture with another, by what holds with 0, 1, ... changes."""
    (r, together), error = question.moved, question.error
    moved = together if error.kind == "rms" else r
    if moved <= 2 * alpha:
        return 1
    if error.kind == "max":
        return _more_than(_mixed(2 * alpha / moved, accurate), 1 - error.confidence)
    shares = np.geomspace(2 * alpha / moved, 1.0, DISTANCES + 1)[1:].tolist()
    return max(_more_than(_mixed(t, overlaps), (2 * alpha / (t * moved)) ** 2) for t in shares)


def _mixed(t: float, held: Array) -> Chance:
    """The mean of `held` over the people who have the other value; beyond its end nothing holds."""
    changes = np.arange(len(held))
    return lambda n: float(binom.pmf(changes, n, t) @ held)


def _by_groups(question: Question, epsilon: float, delta: float) -> tuple[Array, Array]:
    """With 0, 1, ... changes: the chance, at least, of what has the confidence without any, and the overlap."""
    k = range(min(int(40 / epsilon) + 2, MOST_CHANGES))
    confidence = question.error.confidence
    accurate = [exp(-m * epsilon) * max(confidence - group_delta(m, epsilon, delta), 0.0) for m in k]
    return np.array(accurate), np.array([1.0, *(overlap(m, epsilon, delta) for m in k[1:])])


def _gaussian_groups(question: Question) -> tuple[Array, Array]:
    """The same with the mu of epsilon and delta."""
    k, mu = np.arange(min(int(20 / question.mu) + 2, MOST_CHANGES)), question.mu
    return ndtr(ndtri(question.error.confidence) - k * mu), 2 * ndtr(-k * mu / 2)


def _more_than(chance: Chance, limit: float) -> int:
    """One more than the most people with whom this chance is above the limit."""
    low, high = 0, 1
    while chance(high) > limit:
        low, high = high, 2 * high
        if high > MOST_PEOPLE:
            return at_least(MOST_PEOPLE)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if chance(middle) > limit else (low, middle)
    return at_least(low + 1)
