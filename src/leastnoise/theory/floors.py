"""How few people are too few: lower bounds with their constants (docs/sample_complexity.md has the proofs).

Neighbours replace one person, answers are divided by the number of people n, which is public. A bound N says that it is
not true that every n from N - 1 on is enough.
"""

from __future__ import annotations

from math import exp, expm1, log, sinh, sqrt

import numpy as np
from scipy.special import ndtr, ndtri

from leastnoise.theory.tails import MOST_PEOPLE, Error, at_least

GROUPS = 400  # sizes of groups that are tried
TRIED = 2_000  # numbers of people that are tried
EXACT = 5_000  # people up to which chances are exact
BERRY_ESSEEN = 0.56  # for sums of unlike terms (Shevtsova 2010)


def group_delta(m: float, epsilon: float, delta: float) -> float:
    """Delta of m changes at m epsilon."""
    return delta * expm1(m * epsilon) / expm1(epsilon) if delta else 0.0


def overlap(m: int, epsilon: float, delta: float) -> float:
    """1 - total variation, at least, between what is published about two datasets m changes apart."""
    if m * epsilon > 700:
        return 0.0
    return max(2 * (1 - group_delta(m, epsilon, delta)) / (exp(m * epsilon) + 1), 0.0)


def _groups(epsilon: float) -> list[int]:
    most = max(int(20 / epsilon), 2)
    return sorted({round(m) for m in np.geomspace(1, most, GROUPS).tolist()})


def two_datasets(r: float, together: float, alpha: float, epsilon: float, delta: float, error: Error) -> int:
    """Any mechanism: two datasets that differ in m people must be told apart by accurate answers, and cannot be.

    Another value of one person moves some query by r, and all of them by `together` in root mean square.
    Guarantees: floors_are_below_every_mechanism.
    """
    if error.kind == "max":
        if r <= 2 * alpha:
            return 1
        beta, d = 1 - error.confidence, delta / expm1(epsilon)
        changes = log((1 - beta + d) / (beta + d)) / epsilon  # fewer changes than this leave answers confused
        m = int(np.ceil(changes * (1 - 1e-12))) - 1
        return at_least(m * r / (2 * alpha))
    # E|M - a|^2 + E|M - a'|^2 >= |a - a'|^2 / 2 * overlap, and the larger of the two is at least half of it
    moved = r if error.kind == "worst" else together
    return at_least(_best(moved / 2, alpha, epsilon, delta))


def added_noise(floor: float, alpha: float, epsilon: float, delta: float) -> int:
    """Any noise that does not depend on the data, for errors "worst" and "rms" (ENU Theorem 28, with its constant).

    `floor` is the norm by differences (divided by the root of the number of queries for "rms").
    """
    return at_least(_best(floor / 2, alpha, epsilon, delta))


def _best(step: float, alpha: float, epsilon: float, delta: float) -> float:
    """The largest m step overlap^1/2 / alpha that is at least m: two datasets m apart need m people."""
    generator = ((m, m * step * sqrt(overlap(m, epsilon, delta)) / alpha) for m in _groups(epsilon))
    return max((needed for m, needed in generator if needed >= m), default=1.0)


def unbiased_reports(trace: float, spread: float, alpha: float, epsilon: float) -> int:
    """Unbiased answers from independent epsilon-private reports, for errors "worst" and "rms".

    A report tells at most sinh(epsilon / 2)^2 about all directions together (Fisher's information), so the weighted
    variance about the population is at least trace^2 / (n sinh^2); `spread` / n of it is not the reports' fault.
    """
    information = sinh(epsilon / 2) ** 2
    return at_least(max(trace**2 / information - spread, 0.0) / alpha**2)


def two_populations(largest_range: float, alpha: float, epsilon: float, error: Error) -> int:
    """Any epsilon-private reports, also interactive ones, for errors "max": who holds which of two values is shuffled.

    Of n people, n (1/2 + a) or a few more hold one value and the rest the other, or the other way round; a = alpha /
    range, so accurate answers tell which. All that reports can tell is in one randomized response per person, and of
    those only their sum matters. It misleads with a chance that is computed, or bounded by Berry and Esseen's theorem
    where n is large; where that chance exceeds 1 - confidence, n people are not enough.

    Guarantees: floors_are_below_every_mechanism; one_query_is_nearly_tight.
    """
    a, beta = alpha / largest_range, 1 - error.confidence
    if a >= 0.5:
        return 1
    near = (ndtri(beta) / (2 * a * sinh(epsilon / 2))) ** 2
    for n in np.geomspace(min(1.02 * near + 2, MOST_PEOPLE), 1, TRIED):
        if _misleads(int(n), a, epsilon) > beta:
            return int(n) + 1
    return 1


def _misleads(n: int, a: float, epsilon: float) -> float:
    """Chance, or less, that the sum of n randomized responses points to the wrong side."""
    from scipy.stats import binom

    many = int(n * (0.5 + a)) + 1
    if many > n:
        return 0.0
    p = 1 / (1 + exp(-epsilon))
    if n <= EXACT:
        j = np.arange(many + 1)
        ahead = binom.pmf(j, many, p)
        below = binom.cdf((n + 1) // 2 - 1 - j, n - many, 1 - p)  # sums below n / 2
        level = binom.pmf(n // 2 - j, n - many, 1 - p) if n % 2 == 0 else 0.0
        return float(ahead @ (below + level / 2))
    deviation = sqrt(n * p * (1 - p))
    apart = (2 * many - n) * (2 * p - 1) / (2 * deviation)
    return float(ndtr(-apart)) - BERRY_ESSEEN * (p**2 + (1 - p) ** 2) / deviation
