"""Exact odds: bounds of e^epsilon, exact probabilities, exact uniform integers."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from leastnoise.errors import LeastnoiseError
from leastnoise.local.randomized_response import MOST_CANDIDATES, Choice, Odds, below, checked_epsilon
from leastnoise.noise import SeededRandomSource

EPSILONS = [
    Fraction(1, 10**6),
    Fraction(1, 100),
    Fraction(1, 2),
    Fraction(1),
    Fraction(7, 3),
    Fraction(8),
    Fraction(20),
]


class FixedWords:
    """Words that were chosen beforehand."""

    insecure = True

    def __init__(self, *words):
        self._text = list(words)

    def words(self, count):
        some, self._text = self._text[:count], self._text[count:]
        return np.array(some, dtype=np.uint64)


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_odds_are_at_most_e_to_the_epsilon(epsilon):
    odds = Odds.within(epsilon)
    with mpmath.workdps(60):
        exact = mpmath.e ** (mpmath.mpf(epsilon.numerator) / epsilon.denominator)
        ratio = mpmath.mpf(odds.top) / odds.bottom
        assert ratio <= exact
        assert ratio > exact * (1 - mpmath.mpf(2) ** -38)


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_sums_of_weights_fit_a_word(epsilon):
    assert Choice(MOST_CANDIDATES, MOST_CANDIDATES - 1, Odds.within(epsilon)).total < 2**57


@pytest.mark.parametrize("choice", [Choice(4, 1, Odds(3, 1)), Choice(5, 2, Odds(7, 3)), Choice(3, 2, Odds(1, 1))])
def test_every_outcome_has_its_exact_probability(choice):
    # each integer below the total once: the outcomes must come out in proportion to their weights
    counts = np.bincount(choice.positions(FixedWords(*range(choice.total)), choice.total), minlength=choice.candidates)
    expected = [choice.probability(i < choice.favoured) for i in range(choice.candidates)]
    assert [Fraction(int(c), choice.total) for c in counts] == expected
    assert sum(expected) == 1
    assert max(expected) / min(expected) == choice.odds.ratio


def test_every_integer_is_equally_likely():
    total = 2**63 + 1  # one multiple fits: words from it on are drawn again
    random_source = FixedWords(total, 2**64 - 1, 5, 7, 9)
    assert below(total, random_source, 2).tolist() == [5, 7]
    assert below(total, random_source, 1).tolist() == [9]


def test_uniform_integers_spread_evenly():
    counts = np.bincount(below(10, SeededRandomSource(1), 100_000).astype(int), minlength=10)
    chi_square = float(((counts - 10_000) ** 2 / 10_000).sum())
    assert chi_square < 40  # 9 degrees of freedom: one false alarm in 10^5


@pytest.mark.parametrize("epsilon", [0, -1, 21, float("nan"), float("inf"), "1", None, True, 1e-7])
def test_what_is_no_epsilon(epsilon):
    with pytest.raises(LeastnoiseError, match=r"is not a number from 1e-6 to 20; usual ones are 0\.5 to 8"):
        checked_epsilon(epsilon)


def test_epsilon_is_the_decimal_that_was_written():
    assert checked_epsilon(0.1) == Fraction(1, 10)
    assert checked_epsilon(np.float64(2.5)) == Fraction(5, 2)
    assert checked_epsilon(Fraction(1, 3)) == Fraction(1, 3)


@pytest.mark.parametrize(("candidates", "favoured"), [(1, 1), (4, 0), (4, 4), (2**16 + 1, 3)])
def test_some_but_not_all_are_favoured(candidates, favoured):
    with pytest.raises(LeastnoiseError, match=f"{favoured} of {candidates} candidates cannot be favoured"):
        Choice(candidates, favoured, Odds(2, 1))


@pytest.mark.parametrize(("top", "bottom"), [(1, 2), (0, 0), (2**40, 1)])
def test_odds_in_range(top, bottom):
    with pytest.raises(LeastnoiseError, match=f"odds of {top} to {bottom} are not between"):
        Odds(top, bottom)
