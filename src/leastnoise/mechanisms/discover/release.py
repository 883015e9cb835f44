"""The release of found keys: each with a noisy count of its people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.domain.attributes import Attribute, Domain, Scalar, Values
from leastnoise.domain.listed import LONGEST_TEXT
from leastnoise.errors import LeastnoiseError
from leastnoise.noise import RandomSource, rounded_gaussian
from leastnoise.planning.summary import number
from leastnoise.release.answers import Answer
from leastnoise.release.planned import PlannedRelease
from leastnoise.release.queries.linear import LinearQuery
from leastnoise.release.statement import Origin
from leastnoise.workload import Family, Workload
from leastnoise.workload.families import Marginal

if TYPE_CHECKING:
    from leastnoise.mechanisms.discover.plan import DiscoverPlan

OTHER = "other"  # what stands for all keys that were not found
MOST_KEYS = 1 << 20  # that are published, those with the largest noisy counts
SHOWN = 8  # keys in a notebook


@dataclass(frozen=True, eq=False, repr=False)
class KeysRelease(PlannedRelease):
    """Keys that were found, with noisy counts of their people, from the largest on.

    Keys that were not found are not in it, so counts near the threshold are too high on average. People with several
    keys are counted with each of them.

    Guarantees: save_and_load; found_keys_are_those_above_the_threshold; order_is_that_of_what_is_published.
    """

    kind = "release of keys"
    mark = "leastnoise_keys"
    count_means = "people with this key; too high on average near the threshold, as lower counts are not published"

    plan: DiscoverPlan  # type: ignore[assignment]  # whose workload is that of the keys that were found
    keys: tuple[Scalar, ...]
    noisy: IntArray
    dataset: str | None = None
    insecure: bool = False
    origins: tuple[Origin, ...] = field(default_factory=lambda: (Origin(),))

    @cached_property
    def domain(self) -> Domain:
        """The attribute with the keys that were found; without any, with `other` alone."""
        return Domain((Attribute(self.plan.attribute, Values(self.keys or (OTHER,))),))

    @cached_property
    def workload(self) -> Workload:
        """The count of each key."""
        return Workload(self.domain).marginals()

    @property
    def attribute(self) -> Attribute:
        """The attribute for plans: the keys that were found, and `other` for whatever else there is."""
        return Attribute(self.plan.attribute, Values((*self.keys, OTHER)))

    @property
    def values(self) -> dict[str, tuple[Scalar, ...]]:
        """The keys by the name of their attribute, as `load_spec(..., keys=...)` takes them."""
        return {self.plan.attribute: self.keys}

    @property
    def independent_parts(self) -> list[list[IntArray]]:
        """Its noisy integers."""
        return [[self.noisy]]

    def joint(self, queries: Sequence[LinearQuery]) -> tuple[Array, Array]:
        """Values of some queries, and coordinates whose inner products are covariances."""
        self._check_found()
        self.check_weights(len(queries), len(self.keys))
        rows = np.zeros((len(queries), len(self.keys)))
        for row, query in zip(rows, queries, strict=True):
            for term in query.terms:
                row += term.weights
        return rows @ self.noisy.astype(np.float64), self.plan.std_error * rows

    def product_answers(self, attributes: Sequence[int], families: Sequence[Family]) -> tuple[Array, Array]:
        """Answers and variances of all queries of a family; those of single keys are known at once."""
        self._check_found()
        if len(families) == 1 and isinstance(families[0], Marginal):
            return self.noisy.astype(np.float64), np.full(len(self.keys), self.plan.std_error**2)
        return super().product_answers(attributes, families)

    def has_table(self, attributes: Sequence[int]) -> bool:
        """Whether there is any key."""
        return bool(self.keys)

    def _check_found(self) -> None:
        if not self.keys:
            raise LeastnoiseError(f"no key of {self.plan.attribute!r} was found, so nothing can be asked about them")

    def counting(self, confidence: float = 0.95) -> dict[str, Any]:
        """Not rows are counted, but people, with each of their keys."""
        return {"rows_counted": None, "rules": [], "people": [], "confidence": confidence}

    @property
    def caveat(self) -> str:
        """What readers of keys must know."""
        plan = self.plan
        each = "one key is" if plan.max_keys == 1 else f"at most {plan.max_keys:,} keys are"
        return (
            f"It has the keys of '{plan.attribute}' whose noisy count of people is at least {plan.at_least:,} and "
            f"which have at least {plan.least:,} people; of each person {each} counted, and a person counts with each "
            f"of them. Counts near {plan.at_least:,} are too high on average, because lower ones are not published."
        )

    def highlights(self) -> list[tuple[str, str]]:
        """The first keys."""
        pairs = zip(self.keys[:SHOWN], self.noisy.tolist(), strict=False)
        return [(str(key), str(Answer(float(count), self.plan.std_error))) for key, count in pairs]

    def describe(self) -> dict[str, Any]:
        """What it holds."""
        plan = self.plan
        many = f"{len(self.keys):,} {'key' if len(self.keys) == 1 else 'keys'}"
        holds = f"{many} of {plan.attribute}, found by noisy counts of people of {plan.at_least:,} or more"
        holds += f": standard error {number(plan.std_error)}"
        return {"holds": holds, "attributes": [plan.attribute], "queries": len(self.keys), **plan.to_json()}


def found_keys(
    counted: Iterable[tuple[Sequence[Scalar], IntArray]], variance: Fraction, at_least: int, random_source: RandomSource
) -> tuple[tuple[Scalar, ...], IntArray]:
    """Keys whose noisy count reaches a threshold, with these counts: the largest first, and then by the keys.

    Keys come some at a time, and only those that are found are kept. What no domain can hold is left out at the end.
    """
    found: list[tuple[int, Scalar]] = []
    for keys, counts in counted:
        noisy = counts + rounded_gaussian(random_source, variance, len(counts))
        places = np.flatnonzero(noisy >= at_least).tolist()
        found += [(-int(noisy[place]), keys[place]) for place in places if holdable(keys[place])]
    found.sort()
    return tuple(key for _, key in found[:MOST_KEYS]), np.array([-n for n, _ in found[:MOST_KEYS]], dtype=np.int64)


def holdable(key: Scalar) -> bool:
    """Whether a key can be a value beside `other`; no engine finds it again otherwise."""
    if isinstance(key, str):
        return key != OTHER and len(key) <= LONGEST_TEXT and "\0" not in key
    return abs(key) < 2**63
