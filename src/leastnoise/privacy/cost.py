"""What a release costs, as an exact value that adds up."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import total_ordering
from typing import Any

from leastnoise.errors import LeastnoiseError
from leastnoise.privacy import gaussian
from leastnoise.privacy.neighbours import Neighbours, as_neighbours

LARGEST = 10**300  # beyond it, floats cannot say what the cost is
_LEAST_MU = 1e-100  # the conversions go no lower; less is reported as this much
LONGEST_FRACTION = 20_000  # characters; time to read them grows with the square
_FRACTION = re.compile(r"[0-9]+/[0-9]+", re.ASCII)


@total_ordering
@dataclass(frozen=True)
class Cost:
    """mu^2 of Gaussian noise as an exact fraction, and the change of the data that it hides.

    Costs of releases add up exactly: mu_1-GDP and mu_2-GDP together are sqrt(mu_1^2 + mu_2^2)-GDP, also where the
    second release was chosen after the first was seen (Dong, Roth and Su 2022; Smith and Thakurta 2022). What holds
    only up to some probability, as where keys are found, has that as its `added_delta`, which adds up as well
    (docs/privacy.md, Unknown keys). Floats made from a cost are never below the exact value.

    >>> tenth, fifth = Cost(Fraction(1, 10)), Cost(Fraction(2, 10))
    >>> tenth + fifth == Cost(Fraction(3, 10)), tenth < fifth
    (True, True)
    >>> print(tenth + fifth)
    mu 0.5477 (rho 0.15)

    Guarantees: adds_up_exactly; delta_is_never_optimistic; epsilon_is_never_optimistic.
    """

    mu_squared: Fraction
    neighbours: Neighbours = field(default_factory=Neighbours)
    added_delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if type(self.mu_squared) not in (Fraction, int):
            raise LeastnoiseError(f"mu_squared must be a Fraction, got {self.mu_squared!r}; use Budget(...).cost_value")
        if not 0 <= self.mu_squared <= LARGEST:
            raise LeastnoiseError(f"a cost must lie between 0 and 1e300, got mu^2 {_short(self.mu_squared)}")
        if type(self.added_delta) not in (Fraction, int) or not 0 <= self.added_delta < 1:
            raise LeastnoiseError(f"an added delta must be a Fraction from 0 to below 1, got {self.added_delta!r}")
        object.__setattr__(self, "mu_squared", Fraction(self.mu_squared))
        object.__setattr__(self, "added_delta", Fraction(self.added_delta))
        object.__setattr__(self, "neighbours", as_neighbours(self.neighbours))

    @staticmethod
    def total(costs: Iterable["Cost"]) -> "Cost":
        """What several releases cost together."""
        terms = list(costs)
        if not terms:
            raise LeastnoiseError("there are no costs to add up; give at least one")
        return sum(terms[1:], start=terms[0])

    @property
    def change(self) -> str:
        """The change of the data that stays hidden, in words."""
        return str(self.neighbours)

    @property
    def mu(self) -> float:
        """The least float that is not below mu."""
        return _root_up(self.mu_squared)

    @property
    def rho(self) -> float:
        """The least float that is not below mu^2 / 2."""
        return float_up(self.mu_squared / 2)

    def epsilon_at(self, delta: float) -> float:
        """An epsilon that holds with this delta; the least one up to rounding."""
        if not 0 < delta < 1:
            raise LeastnoiseError(f"delta must be between 0 and 1, got {delta!r}; usual values are 1e-6 or smaller")
        rest = Fraction(delta) - self.added_delta
        if rest <= 0:
            raise LeastnoiseError(
                f"no epsilon holds at delta {delta:g}: {float_up(self.added_delta):.4g} is added to it"
            )
        return gaussian.epsilon_for(max(self.mu, _LEAST_MU), float_down(rest)) if self.mu_squared else 0.0

    def delta_at(self, epsilon: float) -> float:
        """A delta that holds with this epsilon; the least one up to rounding."""
        if not 0 <= epsilon < math.inf:
            raise LeastnoiseError(f"epsilon must be a finite number from 0 on, got {epsilon!r}")
        delta = gaussian.delta_for(max(self.mu, _LEAST_MU), epsilon) if self.mu_squared else 0.0
        return min(float_up(Fraction(delta) + self.added_delta), 1.0)

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.mu_squared + self._like(other), self.neighbours, self.added_delta + other.added_delta)

    def __sub__(self, other: "Cost") -> "Cost":
        if self < other:
            raise LeastnoiseError(f"{other} cannot be taken from {self}, which is less")
        return Cost(self.mu_squared - self._like(other), self.neighbours)

    def __lt__(self, other: "Cost") -> bool:
        mu_squared = self._like(other)
        if self.added_delta != other.added_delta:
            raise LeastnoiseError("costs with different added deltas have no order; compare their delta_at(epsilon)")
        return self.mu_squared < mu_squared

    def _like(self, other: object) -> Fraction:
        """mu^2 of another cost, if it hides the same change."""
        if not isinstance(other, Cost):
            raise LeastnoiseError(f"a cost goes with costs only, got {other!r}; a budget has its cost in cost_value")
        if self.neighbours != other.neighbours:
            raise LeastnoiseError(f"a cost for {self.change} and one for {other.change} cannot be added or compared")
        return other.mu_squared

    def to_json(self) -> dict[str, Any]:
        """Plain data; `from_json` reads it back. The fraction counts, the floats are for people."""
        added = {"added_delta": fraction_text(self.added_delta)} if self.added_delta else {}
        return {
            "mu_squared": fraction_text(self.mu_squared),
            "mu": self.mu,
            "rho": self.rho,
            **added,
        } | self.neighbours.to_json()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Cost":
        """Read what `to_json` wrote."""
        try:
            added = data.get("added_delta") or "0/1"
            return cls(read_fraction(data["mu_squared"]), Neighbours.from_json(data), read_fraction(added))
        except (AttributeError, KeyError, TypeError) as error:
            raise LeastnoiseError(f"not a cost: {data!r} ({error})") from None

    def __str__(self) -> str:
        added = f" and delta {float_up(self.added_delta):.4g} added" if self.added_delta else ""
        return f"mu {self.mu:.4g} (rho {self.rho:.4g}){added}"


def fraction_text(x: Fraction) -> str:
    """'3/40', with any number of digits.

    >>> fraction_text(Fraction(3, 40)), fraction_text(Fraction(2))
    ('3/40', '2/1')
    """
    # Through Decimal, which converts exactly and has no limit on digits; str(int) stops at 4,300 of them.
    return f"{Decimal(x.numerator):f}/{Decimal(x.denominator):f}"


def read_fraction(text: object) -> Fraction:
    """Read what `fraction_text` wrote."""
    if isinstance(text, str) and len(text) <= LONGEST_FRACTION and _FRACTION.fullmatch(text):
        top, bottom = (int(Decimal(part)) for part in text.split("/"))
        if bottom:
            return Fraction(top, bottom)
    raise LeastnoiseError(f"{str(text)[:40]!r} is not a fraction such as '3/40'")


def read_positive_fraction(text: str) -> Fraction:
    """Read a fraction above 0 exactly as `fraction_text` writes it."""
    value = read_fraction(text)
    if value <= 0 or fraction_text(value) != text:
        raise LeastnoiseError(f"{text[:40]!r} is no positive fraction in lowest terms")
    return value


def float_up(x: Fraction) -> float:
    """The least float that is not below a fraction."""
    nearest = float(x)
    return nearest if Fraction(nearest) >= x else math.nextafter(nearest, math.inf)


def float_down(x: Fraction) -> float:
    """The largest float that is not above a fraction."""
    return -float_up(-x)


def _root_up(x: Fraction) -> float:
    """The least float whose square is at least x."""
    # sqrt(p/q) = sqrt(p q 4^64) / (q 2^64): the integer root has 64 bits or more, a float holds 53.
    p, q = x.numerator, x.denominator
    root = float(Fraction(math.isqrt(p * q << 128), q << 64))
    return root if Fraction(root) ** 2 >= x else math.nextafter(root, math.inf)


def _short(x: Fraction | int) -> str:
    return f"{Decimal(Fraction(x).numerator) / Decimal(Fraction(x).denominator):.4g}"
