"""Audits of plans to find keys: as many keys as one person may have, each of which is surely found, with and without
that person.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from leastnoise._types import IntArray
from leastnoise.audit.judge import FEW_RUNS, OneByOne, Published, Subject, surprise_of
from leastnoise.domain.attributes import Domain
from leastnoise.mechanisms.discover.plan import DiscoverPlan
from leastnoise.mechanisms.discover.release import KeysRelease
from leastnoise.mechanisms.gate import Counts
from leastnoise.noise import RandomSource
from leastnoise.sources.source import Axes

MOST_KEYS = 10_000  # of a person that are made up
SURELY = 40  # standard deviations above the threshold


@dataclass(frozen=True)
class MadeUpKeys:
    """A source of keys called k0, k1, ... with given numbers of people."""

    domain: Domain
    people: IntArray
    name: str | None = None

    def count(self, sets: Sequence[Axes]) -> Iterator[IntArray]:
        """All people, once for each of their keys."""
        return (np.full([1] * len(axes), self.people.sum(), dtype=np.int64) for axes in sets)

    def check(self) -> None:
        """Nothing is missing."""

    def keys(self, least: int) -> Iterator[tuple[list[str], IntArray]]:
        """Keys of at least so many people."""
        places = np.flatnonzero(self.people >= least)
        yield [name_of(place) for place in places.tolist()], self.people[places]


def name_of(place: int) -> str:
    """Names that are in the order of their numbers."""
    return f"k{place:05d}"


def of_discover(plan: DiscoverPlan) -> Subject:
    """A plan, run on made-up counts of keys that one person moves."""
    keys = min(plan.max_keys, MOST_KEYS)
    base = np.full(keys, plan.at_least + ceil(SURELY * plan.std_error), dtype=np.int64)
    pairs = [(base, base + 1)]
    if plan.neighbours.change == "replace":
        pairs = [(np.concatenate([base, base + 1]), np.concatenate([base + 1, base]))]
    trials = [_trial(plan, *pair) for pair in pairs]
    return Subject("release of keys", plan.cost, plan.delta, trials, len(pairs[0][0]), FEW_RUNS)


def of_release(release: KeysRelease) -> Subject:
    """The mechanism behind a release."""
    return of_discover(release.plan)


def _trial(plan: DiscoverPlan, zero: IntArray, one: IntArray) -> OneByOne:
    weights = (one - zero).astype(np.float64) / float(plan.variance)
    published = Published((zero, one), weights, surprise_of([(len(zero), float(plan.variance))]))

    def release(dataset: int, random_source: RandomSource) -> IntArray:
        counts = Counts(MadeUpKeys(plan.domain, (zero, one)[dataset]))
        found = plan.measure(counts, random_source)
        places = [int(str(key)[1:]) for key in found.keys]
        noisy = np.zeros(len(zero), dtype=np.int64)
        noisy[places] = found.noisy
        return noisy

    return OneByOne(published, release)
