"""From which noisy count on a key may be published: exact integers and fractions, never on the optimistic side.

A key of c people is looked at if c >= least, and published if c + noise >= threshold. What one person adds or takes
away moves at most `keys` counts by one each. Either a count stays at `least` or above in both datasets, and its noise
hides the person; or it crosses `least`, and then the key can be published in one dataset only, with probability
P[least + noise >= threshold] at most. That any of these happens is the added delta (docs/privacy.md, Unknown keys).
"""

from fractions import Fraction

from leastnoise.noise.tail import upper_tail

LEAST = 2  # people that every published key has, for certain: nobody's own key is ever published
BITS = 40  # that a delta is rounded up to, so that ledgers stay readable


def added_delta(variance: Fraction, gap: int, keys: int) -> Fraction:
    """At most this likely is any of so many keys published that fewer people would have hidden; of 40 bits.

    1 - (1 - p)^k <= k p, and both differ by less than k p / 2 of themselves.

    >>> 1e-10 < float(added_delta(Fraction(100), 64, keys=1)) < 1.1e-10
    True

    Guarantees: added_deltas_are_never_optimistic.
    """
    return min(_rounded_up(keys * upper_tail(variance, gap)), Fraction(1))


def least_gap(variance: Fraction, keys: int, delta: Fraction) -> int:
    """The least distance of threshold and `least` that keeps the added delta within `delta`.

    >>> least_gap(Fraction(100), 1, Fraction(1, 10**10))
    65

    Guarantees: gaps_are_the_least.
    """
    high = 1
    while added_delta(variance, high, keys) > delta:
        high *= 2
    low = high // 2  # which is too little, or 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if added_delta(variance, middle, keys) > delta else (low, middle)
    return high


def _rounded_up(x: Fraction) -> Fraction:
    """The next number of few bits from x on."""
    shift = BITS - x.numerator.bit_length() + x.denominator.bit_length()
    scale = Fraction(2) ** shift
    return -(-(x * scale) // 1) / scale
