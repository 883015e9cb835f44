"""Plans to find unknown keys: how much noise, from which noisy count on, and which keys that will find."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from hashlib import sha256
from math import ceil, inf, sqrt
from typing import TYPE_CHECKING, Any

from leastnoise._types import Progress
from leastnoise.domain.attributes import Attribute, Domain, Values
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.discover.release import OTHER, KeysRelease, found_keys
from leastnoise.mechanisms.discover.threshold import LEAST, added_delta, least_gap
from leastnoise.mechanisms.gate import Counts
from leastnoise.mechanisms.mechanism import CELL_BYTES, FILE_BYTES, Mechanism
from leastnoise.noise import RandomSource
from leastnoise.noise.gaussian import LARGEST_VARIANCE
from leastnoise.planning.integer_plan import GRAIN, ROUNDED
from leastnoise.planning.summary import number
from leastnoise.privacy import gaussian
from leastnoise.privacy.budget import DELTA_SHARE, Budget, set_aside
from leastnoise.privacy.cost import Cost, float_down, fraction_text
from leastnoise.privacy.neighbours import MOST_ROWS, Neighbours
from leastnoise.release.counting import Counting
from leastnoise.release.statement import common_delta
from leastnoise.sources.rules import AnyRules, PrivacyUnit
from leastnoise.sources.source import Source
from leastnoise.workload.rules import Rules, as_part

if TYPE_CHECKING:
    from leastnoise.sources.convert import Prepared

SHOWN = (0.5, 0.95, 0.99, 0.999)  # probabilities with which a key is found
ROOM = 10_000  # keys for which room is made on disk
MOST_AT_LEAST = 10**15  # people


@dataclass(frozen=True, eq=False)
class DiscoverPlan(Mechanism[KeysRelease]):
    """How the keys of an attribute will be found. Nothing in it depends on data.

    A key is published if it has `least` people and its noisy count is at least `at_least`; of each person at most
    `max_keys` keys are counted, each once.

    Guarantees: stated_privacy_holds_for_all_small_data; cost_is_at_most_the_budget; uses_no_data.
    """

    method = "discover"

    attribute: str
    neighbours: Neighbours
    max_keys: int
    variance: Fraction
    at_least: int
    least: int
    stated_delta: float

    @cached_property
    def domain(self) -> Domain:
        """The attribute, of whose values none is known."""
        return Domain((Attribute(self.attribute, Values((OTHER,))),))

    @cached_property
    def cost(self) -> Cost:
        """Exact privacy cost: one person moves so many counts by one; who replaces another moves as many again."""
        moved = self.max_keys * (2 if self.neighbours.change == "replace" else 1)
        added = added_delta(self.variance, self.at_least - self.least, self.max_keys)
        return Cost(moved / self.variance, self.neighbours, added)

    @property
    def delta(self) -> float:
        """The delta at which epsilon is stated."""
        return self.stated_delta

    @cached_property
    def fingerprint(self) -> str:
        """sha256 of all that decides what is measured."""
        return sha256(json.dumps(self.fields, sort_keys=True).encode()).hexdigest()

    @property
    def fields(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {
            "attribute": self.attribute,
            **self.neighbours.to_json(),
            "max_keys": self.max_keys,
            "variance": fraction_text(self.variance),
            "at_least": self.at_least,
            "least": self.least,
            "stated_delta": self.stated_delta,
        }

    @property
    def std_error(self) -> float:
        """Of the noisy count of a key, its rounding included."""
        return sqrt(self.variance + ROUNDED)

    def found(self, people: int) -> float:
        """The probability that a key of so many people is found.

        Guarantees: probabilities_match_a_simulation.
        """
        from scipy.special import ndtr

        if people < self.least:
            return 0.0
        return float(ndtr((people - self.at_least + 0.5) / sqrt(self.variance)))

    def people_for(self, probability: float) -> int:
        """The least number of people of a key that is found with this probability.

        >>> plan = discover("url", Budget(epsilon=2, delta=1e-9, rows_per_person=1), at_least=50)
        >>> plan.people_for(0.5), plan.people_for(0.99)
        (50, 57)
        """
        from scipy.special import ndtri

        if not 0 < probability < 1:
            raise LeastnoiseError(
                f"a probability lies between 0 and 1, got {probability!r}; usual ones are 0.5 or 0.99"
            )
        people = max(self.least, self.at_least + ceil(sqrt(self.variance) * float(ndtri(probability))) - 2)
        while self.found(people) < probability:
            people += 1
        return people

    def expected_found(self, people: Mapping[int, int]) -> float:
        """How many keys will be found of so many (values) with so many people each (keys), on average.

        >>> plan = discover("url", Budget(mu=1, rows_per_person=1), at_least=20)
        >>> round(plan.expected_found({5: 1000, 20: 10, 100: 3}), 6)
        9.914625
        """
        return float(sum(keys * self.found(each) for each, keys in people.items()))

    def check(self) -> None:
        """Refuse what cannot be drawn."""
        if self.variance > LARGEST_VARIANCE:
            raise LeastnoiseError(f"keys of {self.attribute!r} would need noise beyond 1e16; use a larger budget")

    def prepare(self, data: Any, **options: Any) -> Prepared:
        """Data with a column of keys, and with ids where a person may have several rows."""
        from leastnoise.sources.keys import VALUES, prepare_keys

        if isinstance(data, Source):
            raise LeastnoiseError(VALUES)
        if options.get("unit") is None and (self.neighbours.rows_per_person, self.max_keys) != (1, 1):
            raise LeastnoiseError(
                f"of each person {self.max_keys:,} keys are counted, so discover needs to know whose rows they are; "
                "give a unit, such as {id: person, max_rows: 1}"
            )
        return prepare_keys(data, self.domain, self.max_keys, **options | {"rules": self._rules(options.get("rules"))})

    def _rules(self, rules: AnyRules | None) -> dict[str, Rules]:
        """The rules of the attribute alone; what is not found is `other` later."""
        given = as_part(Rules, (rules or {}).get(self.attribute, Rules()), f"the rules of {self.attribute!r}")
        missing = given.missing if given.missing in ("error", "drop") else "drop"
        return {self.attribute: replace(given, outside="other", missing=missing)}

    def counted_by(
        self, data: Any, rules: AnyRules | None, unit: PrivacyUnit | Mapping[str, Any] | None
    ) -> Counting | None:
        """Not rows are counted, but people."""
        return None

    def look(self, counts: Counts) -> None:
        """Refuse keys and ids that are missing and that no rule covers."""
        counts.check_keys()

    def measure(self, counts: Counts, random_source: RandomSource, progress: Progress | None = None) -> KeysRelease:
        """Find keys with fresh noise. Only `run` calls it on data: it debits first."""
        keys, noisy = found_keys(counts.keys(self.least), self.variance, self.at_least, random_source)
        return KeysRelease(self, keys, noisy, insecure=random_source.insecure)

    def room(self, tables: bool) -> int:
        """Bytes that the release needs on disk, of so many keys as are usual: how many there are is not known."""
        return FILE_BYTES + ROOM * CELL_BYTES * (1 + tables)

    def to_json(self) -> dict[str, Any]:
        """The plan in numbers; `people_of_found` has how many people a key needs to be found with a probability."""
        privacy = {"epsilon": self.cost.epsilon_at(self.delta), "delta": self.delta} | self.cost.to_json()
        return {
            "attribute": self.attribute,
            "at_least": self.at_least,
            "least": self.least,
            "max_keys": self.max_keys,
            "std_error": self.std_error,
            "people_of_found": {f"{p:g}": self.people_for(p) for p in SHOWN},
            "privacy": privacy,
        }

    def __str__(self) -> str:
        each = "one key" if self.max_keys == 1 else f"at most {self.max_keys:,} keys"
        chances = ", ".join(f"{100 * p:g}% from {self.people_for(p):,} people on" for p in SHOWN)
        return "\n".join(
            (
                f"finds keys of {self.attribute!r} with a noisy count of {self.at_least:,} people or more, of each "
                f"person {each}; standard error {number(self.std_error)}",
                f"a key is found with a probability of {chances}; a key of fewer than {self.least:,} people never",
                f"costs {self.cost}: epsilon {self.cost.epsilon_at(self.delta):.4g} at delta {self.delta:g} "
                f"for {self.cost.change}",
            )
        )


def discover(
    attribute: str,
    budget: Budget,
    *,
    at_least: int | None = None,
    max_keys: int | None = None,
    delta: float | None = None,
) -> DiscoverPlan:
    """A plan to find the values of an attribute that are not known: keys of which many people have rows.

    `at_least` is the noisy number of people from which on a key is published; by default the least that `delta`
    allows, the probability that is added to that of the noise: a tenth of the budget's delta (or 1e-10) unless given.
    The budget covers both. Of each person at most `max_keys` keys are counted, by default the budget's
    `rows_per_person`, which it must have.

    >>> print(discover("url", Budget(epsilon=1, delta=1e-9, rows_per_person=5), at_least=120))
    finds keys of 'url' with a noisy count of 120 people or more, of each person at most 5 keys; standard error 12.33
    a key is found with a probability of 50% from 120 people on, 95% from 140 people on, 99% from 149 people on, \
99.9% from 158 people on; a key of fewer than 38 people never
    costs mu 0.1814 (rho 0.01645) and delta 9.51e-11 added: epsilon 0.9998 at delta 1e-09 for adding or removing one \
person with at most 5 rows

    Guarantees: cost_is_at_most_the_budget; thresholds_that_delta_forbids_are_refused; uses_no_data.
    """
    stated = common_delta([budget])
    allowed = Fraction(str(stated)) / DELTA_SHARE if delta is None else checked_delta(delta, stated)
    return within(
        attribute,
        mu_squared_beside(budget, allowed),
        allowed,
        budget.neighbours,
        at_least=at_least,
        max_keys=max_keys,
        stated_delta=stated,
    )


def within(
    attribute: str,
    mu_squared: Fraction,
    delta: Fraction,
    neighbours: Neighbours,
    *,
    at_least: int | None = None,
    max_keys: int | None = None,
    stated_delta: float,
) -> DiscoverPlan:
    """The plan of least noise that costs at most mu^2 and adds at most delta."""
    if neighbours.rows_per_person is None:
        raise LeastnoiseError(
            "discover counts people, but this budget protects rows; give rows_per_person, in a spec by "
            "unit: {id: COLUMN, max_rows: 1}"
        )
    keys = neighbours.rows_per_person if max_keys is None else checked_keys(max_keys)
    neighbours = Neighbours(neighbours.change, neighbours.rows_per_person, neighbours.size)  # groups are not needed
    moved = keys * (2 if neighbours.change == "replace" else 1)
    variance = max(Fraction(ceil(moved / mu_squared * GRAIN), GRAIN), Fraction(1, 4))
    needed = LEAST + least_gap(variance, keys, delta)
    wanted = needed if at_least is None else checked_at_least(at_least)
    if wanted < needed:
        raise LeastnoiseError(_too_low(attribute, wanted, needed, keys, float(delta)))
    return DiscoverPlan(attribute, neighbours, keys, variance, wanted, wanted - needed + LEAST, stated_delta)


def _too_low(attribute: str, wanted: int, needed: int, keys: int, delta: float) -> str:
    """Why a threshold is refused; the least noise that allows it is about in proportion to it."""
    times = ((needed - LEAST - 0.5) / (wanted - LEAST - 0.5)) ** 2 if wanted > LEAST else inf
    more = f"{1.01 * times:.2g} times the budget for keys, " if times < 100 else ""
    fix = f"use at_least: {needed}, {more}a larger delta or a smaller max_keys"
    return (
        f"at_least {wanted:,} is too low for keys of {attribute!r}: with this noise, delta {delta:.3g} and {keys:,} "
        f"{'key' if keys == 1 else 'keys'} per person it takes {needed:,}; "
        f"{fix if needed <= MOST_AT_LEAST else 'use a larger budget'}"
    )


def mu_squared_beside(budget: Budget, added: Fraction) -> Fraction:
    """mu^2 of a budget beside what is set aside of its delta, as ledgers do: at least an added delta."""
    if budget.epsilon is None or budget.delta is None:
        return budget.exact_cost
    rest = Fraction(str(budget.delta)) - set_aside(budget.delta, added)
    return Fraction(gaussian.mu_for(budget.epsilon, float_down(rest))) ** 2


def checked_delta(delta: object, stated: float) -> Fraction:
    """A delta for keys, below that of the whole, as it was written."""
    if isinstance(delta, int | float | Fraction) and not isinstance(delta, bool) and 0 < delta < stated:
        return Fraction(str(delta))
    raise LeastnoiseError(
        f"the delta of discover must be above 0 and below {stated:g}, that of the whole, got {delta!r}"
    )


def checked_keys(keys: object) -> int:
    """A bound on the keys of one person."""
    if isinstance(keys, int) and not isinstance(keys, bool) and 1 <= keys <= MOST_ROWS:
        return keys
    raise LeastnoiseError(f"max_keys must be a whole number from 1 to {MOST_ROWS:,}, got {keys!r}")


def checked_at_least(at_least: object) -> int:
    """A number of people from which on keys are published."""
    if isinstance(at_least, int) and not isinstance(at_least, bool) and 1 <= at_least <= MOST_AT_LEAST:
        return at_least
    raise LeastnoiseError(f"at_least must be a whole number of people from 1 to 10^15, got {at_least!r}")
