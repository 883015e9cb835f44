"""The one step that gives privacy: a choice among candidates, some of which are favoured by exact odds.

Of N candidates a value favours exactly K. Each favoured one is chosen with probability top / total, each other one with
bottom / total, where total = K top + (N - K) bottom is the same for every value. All of them are integers, so the
probabilities of any outcome under two values differ by the factor top / bottom at most, and that is at most e^epsilon.

With a delta the odds may be larger. Let d be the most candidates that one value favours and another does not. The
chance by which outcomes of one value exceed e^epsilon times those of the other is then at most

    delta(epsilon) = d (top - e^epsilon bottom) / total                      (docs/proofs.md, Devices with a delta)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, exp

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from leastnoise._types import IntArray
from leastnoise.errors import LeastnoiseError
from leastnoise.noise import RandomSource
from leastnoise.noise.tail import normal

DIGITS = 40  # bits of the numerator of the odds
MOST_CANDIDATES = 2**16
LEAST_EPSILON, MOST_EPSILON = 1e-6, 20
_WORDS = 2**64


def checked_epsilon(epsilon: object) -> Fraction:
    """Epsilon as the decimal number it was written as.

    >>> checked_epsilon(0.1)
    Fraction(1, 10)
    """
    number = isinstance(epsilon, int | float | Fraction | np.integer | np.floating) and not isinstance(epsilon, bool)
    if number and LEAST_EPSILON <= epsilon <= MOST_EPSILON:  # type: ignore[operator]
        return Fraction(str(epsilon))
    raise LeastnoiseError(f"epsilon {epsilon!r} is not a number from 1e-6 to {MOST_EPSILON}; usual ones are 0.5 to 8")


def pure_mu(epsilon: Fraction | float) -> float:
    """The mu of everything that keeps epsilon: the one at which both error rates are 1 / (1 + e^epsilon).

    >>> round(pure_mu(Fraction(1)), 4)
    1.232
    """
    return -2 * float(ndtri(1 / (1 + exp(epsilon))))


@dataclass(frozen=True)
class Odds:
    """Odds of a favoured candidate against another: top to bottom.

    >>> odds = Odds.within(Fraction(1))
    >>> odds.ratio < Fraction(2718281828459046, 10**15), round(float(odds.ratio), 9)
    (True, 2.718281828)

    Guarantees: odds_are_at_most_e_to_the_epsilon.
    """

    top: int
    bottom: int

    @classmethod
    def within(cls, epsilon: Fraction) -> Odds:
        """The largest odds with so many bits that are proven to be at most e^epsilon."""
        result = normal(2 * epsilon, 2 * DIGITS)  # holds e^(x^2/2), here with x^2 = 2 epsilon
        low = result.exponential.low
        return cls(low >> (low.bit_length() - DIGITS), 1 << (DIGITS - (low.bit_length() - result.bits)))

    @classmethod
    def with_delta(cls, epsilon: Fraction, delta: float, candidates: int, favoured: int, moved: int) -> Odds:
        """The largest odds with so many bits that are proven to keep epsilon and delta; `moved` is d.

        d (top - e^epsilon bottom) <= delta (K top + (N - K) bottom), solved for top / bottom.

        >>> odds = Odds.with_delta(Fraction(1), 0.1, 2, 1, 1)
        >>> round(float(odds.ratio), 4), round(float(Choice(2, 1, odds).delta_at(Fraction(1), 1)), 6)
        (3.1314, 0.1)

        Guarantees: odds_with_a_delta_keep_it_and_are_the_largest.
        """
        top, allowed = 2**DIGITS - 1, Fraction(delta)
        left = moved - allowed * favoured
        if left <= 0:  # whatever is said is within delta
            return cls(top, 1)
        ratio = (moved * cls.within(epsilon).ratio + allowed * (candidates - favoured)) / left
        return cls(top, max(ceil(top / ratio), 1))

    def __post_init__(self) -> None:
        if not 0 < self.bottom <= self.top < 2**DIGITS:
            raise LeastnoiseError(f"odds of {self.top} to {self.bottom} are not between 1 and 2^{DIGITS}")

    def keep(self, epsilon: Fraction) -> bool:
        """Whether they are proven to be at most e^epsilon."""
        # no odds are beyond 2^DIGITS < e^DIGITS; e^epsilon would take long to enclose
        return epsilon >= DIGITS or self.ratio <= Odds.within(epsilon).ratio

    @property
    def ratio(self) -> Fraction:
        """top / bottom, exactly."""
        return Fraction(self.top, self.bottom)


@dataclass(frozen=True)
class Choice:
    """Choose one of `candidates`, of which exactly `favoured` are favoured.

    >>> choice = Choice(4, 1, Odds(3, 1))
    >>> choice.probability(True), choice.probability(False)
    (Fraction(1, 2), Fraction(1, 6))

    Guarantees: every_outcome_has_its_exact_probability.
    """

    candidates: int
    favoured: int
    odds: Odds

    def __post_init__(self) -> None:
        if not 0 < self.favoured < self.candidates <= MOST_CANDIDATES:
            raise LeastnoiseError(
                f"{self.favoured} of {self.candidates} candidates cannot be favoured; "
                f"favour some and not all of at most {MOST_CANDIDATES:,}"
            )

    @property
    def total(self) -> int:
        """Sum of the weights of all candidates, the same for every value."""
        return self.favoured * self.odds.top + (self.candidates - self.favoured) * self.odds.bottom

    def probability(self, favoured: bool) -> Fraction:
        """Exact probability of one candidate."""
        return Fraction(self.odds.top if favoured else self.odds.bottom, self.total)

    def delta_at(self, epsilon: Fraction, moved: int) -> Fraction:
        """A delta at which outcomes keep epsilon, where values differ in at most `moved` candidates that they favour.

        It is exact but for the lower bound of e^epsilon, which has 40 bits.
        """
        if epsilon >= DIGITS:
            return Fraction(0)
        above = self.odds.top - Odds.within(epsilon).ratio * self.odds.bottom
        return max(moved * above / self.total, Fraction(0))

    def keeps(self, epsilon: Fraction, delta: float, moved: int) -> bool:
        """Whether outcomes are proven to spend no more than epsilon and delta."""
        return self.odds.keep(epsilon) or (delta > 0 and self.delta_at(epsilon, moved) <= Fraction(delta))

    def positions(self, random_source: RandomSource, count: int) -> IntArray:
        """Places in a list that has the favoured candidates first: one uniform integer below `total` decides each."""
        drawn = below(self.total, random_source, count)
        first = np.uint64(self.favoured * self.odds.top)
        inside = drawn < first
        top, bottom = np.uint64(self.odds.top), np.uint64(self.odds.bottom)
        others = self.favoured + ((drawn - np.where(inside, drawn, first)) // bottom).astype(np.int64)
        return np.where(inside, (drawn // top).astype(np.int64), others)


def below(total: int, random_source: RandomSource, count: int) -> npt.NDArray[np.uint64]:
    """Uniform integers below `total`, exactly: words beyond the last whole multiple are drawn again.

    Guarantees: every_integer_is_equally_likely.
    """
    limit = np.uint64(_WORDS // total * total - 1)
    words = random_source.words(count)
    again = np.flatnonzero(words > limit)
    while len(again):
        words[again] = random_source.words(len(again))
        again = again[words[again] > limit]
    return words % np.uint64(total)
