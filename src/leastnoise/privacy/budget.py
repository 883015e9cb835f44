"""How much privacy a release may spend, as a value."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from leastnoise.errors import LeastnoiseError
from leastnoise.privacy import gaussian
from leastnoise.privacy.cost import Cost
from leastnoise.privacy.neighbours import Neighbours, as_neighbours

LEAST, MOST = 1e-100, 1e100  # mu and epsilon, between which nothing overflows
DELTA_SHARE = 10  # a tenth of delta is for finding keys, unless more is stated


@dataclass(frozen=True, init=False, repr=False)
class Budget:
    """A privacy budget, said in one of three ways: epsilon with delta, mu (Gaussian privacy) or rho (zCDP).

    The noise is Gaussian, so the conversions are exact. It protects one row; with `rows_per_person`, all rows of one
    person, of whom at most so many are counted. `neighbours`, `rows_per_person`, `size`, `one_per` and `min_separation`
    are those of `Neighbours`.

    >>> budget = Budget(epsilon=1, delta=1e-9)
    >>> round(budget.mu, 6), round(budget.rho, 6)
    (0.181975, 0.016557)
    >>> round(Budget(mu=0.5).epsilon_at(1e-9), 4)
    2.9097

    Guarantees: agrees_with_multiprecision (and never exceeds epsilon and delta).
    """

    mu: float
    neighbours: Neighbours
    stated: tuple[tuple[str, float], ...]

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        mu: float | None = None,
        rho: float | None = None,
        neighbours: Neighbours | str = "add-remove",
        rows_per_person: int | None = None,
        size: str | None = None,
        one_per: str | Sequence[str] = (),
        min_separation: int | None = None,
    ) -> None:
        given = {"epsilon": epsilon, "delta": delta, "mu": mu, "rho": rho}
        stated = {name: _positive(name, value) for name, value in given.items() if value is not None}
        object.__setattr__(self, "stated", tuple(stated.items()))
        object.__setattr__(self, "mu", _mu(stated))
        hides = as_neighbours(neighbours, rows_per_person, size, one_per, min_separation)
        object.__setattr__(self, "neighbours", hides)

    @property
    def rho(self) -> float:
        """Zero-concentrated privacy, mu^2 / 2."""
        return dict(self.stated).get("rho", self.mu**2 / 2)

    @property
    def cost(self) -> float:
        """What adds up over releases: mu^2."""
        return self.mu**2

    def keys_delta(self, delta: float | Fraction) -> Fraction:
        """A part of its delta that is for finding keys, as it was written; refuses what is none."""
        if self.delta is None:
            raise LeastnoiseError("keys_delta is a part of delta, but this total has none; leave it out")
        if not isinstance(delta, int | float | Fraction) or isinstance(delta, bool) or not 0 < delta < self.delta:
            raise LeastnoiseError(f"keys_delta must be above 0 and below delta {self.delta:g}, got {delta!r}")
        return Fraction(str(delta))

    @property
    def exact_cost(self) -> Fraction:
        """mu^2 as an exact number, from the decimals that were stated: rho 0.1 and rho 0.2 make rho 0.3.

        Epsilon and delta have no rational mu; theirs is `self.mu`, which is rounded to the safe side.
        """
        match dict(self.stated):
            case {"rho": rho}:
                return 2 * Fraction(str(rho))
            case {"mu": mu}:
                return Fraction(str(mu)) ** 2
        return Fraction(self.mu) ** 2

    @property
    def cost_value(self) -> Cost:
        """The whole budget as a cost, which can be added to others and compared."""
        return Cost(self.exact_cost, self.neighbours)

    def part(self, share: float | Fraction) -> "Budget":
        """At most this share of mu^2, stated in the same way: as epsilon with the same delta, mu or rho.

        >>> Budget(rho=0.5).part(0.98)
        Budget(rho=0.49, neighbours='add-remove')

        Guarantees: parts_add_up_to_no_more.
        """
        exact = Fraction(str(share))
        if not 0 < exact <= 1:
            raise LeastnoiseError(f"a part of a budget is a share above 0 and at most 1, got {share}")
        most, stated, scale = self.exact_cost * exact, dict(self.stated), 1.0
        while True:
            fields: dict[str, Any] = _scaled(stated, math.sqrt(most), scale)
            smaller = Budget(**fields, neighbours=self.neighbours)
            if smaller.exact_cost <= most:
                return smaller
            scale *= 1 - 1e-12

    @property
    def epsilon(self) -> float | None:
        """Epsilon, if the budget was stated so."""
        return dict(self.stated).get("epsilon")

    @property
    def delta(self) -> float | None:
        """Delta, if the budget was stated so."""
        return dict(self.stated).get("delta")

    def delta_at(self, epsilon: float) -> float:
        """The delta that belongs to an epsilon (zero allowed), never below the exact one."""
        if epsilon != 0:
            epsilon = _positive("epsilon", epsilon)
        return gaussian.delta_for(self.mu, epsilon)

    def epsilon_at(self, delta: float) -> float:
        """The epsilon that belongs to a delta, never below the exact one; 0 where delta alone is enough."""
        return gaussian.epsilon_for(self.mu, _below_one(_positive("delta", delta)))

    def to_json(self) -> dict[str, Any]:
        """Plain data; `from_json` reads it back."""
        return {
            "stated": [name for name, _ in self.stated],
            "epsilon": self.epsilon,
            "delta": self.delta,
            "mu": self.mu,
            "rho": self.rho,
        } | self.neighbours.to_json()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Budget":
        """Read what `to_json` wrote."""
        try:
            return cls(neighbours=Neighbours.from_json(data), **{name: data[name] for name in data["stated"]})
        except (AttributeError, KeyError, TypeError) as error:
            raise LeastnoiseError(f"not a budget: {data!r} ({error})") from None

    def __str__(self) -> str:
        text = " and ".join(f"{name} {value:g}" for name, value in self.stated)
        also = ", ".join(f"{name} {getattr(self, name):.4g}" for name in ("mu", "rho") if name not in dict(self.stated))
        return f"{text} ({also}) for {self.neighbours}"

    def __repr__(self) -> str:
        text = ", ".join(f"{name}={value!r}" for name, value in self.stated)
        hidden = ", ".join(f"{name}={value!r}" for name, value in self.neighbours.arguments.items())
        return f"Budget({text}, {hidden})"


def set_aside(delta: float, added: Fraction) -> Fraction:
    """The part of a delta that is kept for finding keys, where those add so much: a tenth of it, or what they add.

    >>> set_aside(1e-9, Fraction(1, 10**12)) == Fraction(1, 10**10)
    True
    """
    return max(Fraction(str(delta)) / DELTA_SHARE, added)


def _mu(stated: Mapping[str, float]) -> float:
    match stated:
        case {"epsilon": epsilon, "delta": delta, **rest} if not rest:
            if not LEAST <= epsilon <= MOST:
                raise LeastnoiseError(f"epsilon {epsilon:g} is out of range; use one between {LEAST} and {MOST}")
            mu = gaussian.mu_for(epsilon, _below_one(delta))
        case {"mu": mu, **rest} if not rest:
            pass
        case {"rho": rho, **rest} if not rest:
            mu = math.sqrt(2 * rho)
        case {"epsilon": _, **rest} if not rest:
            raise LeastnoiseError("epsilon needs a delta, because Gaussian noise has no delta of zero; try delta=1e-9")
        case _:
            text = ", ".join(stated) or "nothing"
            raise LeastnoiseError(f"a budget is epsilon and delta, or mu, or rho; got {text}")
    if not LEAST < mu < MOST:
        raise LeastnoiseError(f"a budget of mu {mu:g} is out of range; use one between {LEAST} and {MOST}")
    return mu


def _scaled(stated: Mapping[str, float], mu: float, scale: float) -> dict[str, float]:
    """A budget of this mu as it was stated, by a scale that is 1 or a little less."""
    if "rho" in stated:
        return {"rho": float(f"{mu**2 / 2:.15g}") * scale}
    if "delta" in stated and (epsilon := gaussian.epsilon_for(mu, stated["delta"])) >= LEAST:
        return {"epsilon": epsilon * scale, "delta": stated["delta"]}
    return {"mu": float(f"{mu:.15g}") * scale}


def _positive(name: str, value: object) -> float:
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool) and 0 < value < 1e308:
        return float(value)
    raise LeastnoiseError(f"{name} must be a positive finite number, got {value!r}")


def _below_one(delta: float) -> float:
    if delta >= 1:
        raise LeastnoiseError(f"delta must be below 1, got {delta:g}; usual values are 1e-6 or smaller")
    return delta
