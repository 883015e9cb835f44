"""Tables beyond what was measured: GReM with the released one-way tables as the baseline.

Where nothing was measured about a set of attributes beyond its subsets, the subsets are put together as if there were
nothing more to know: with the one-way distributions as baselines, that is independence (docs/theory.md). Residuals that
were measured are moved towards it as far as their noise suggests (James and Stein). All tables still agree with each
other. They are biased: the measured tables themselves are in the release. `as_published` does neither: it is GReM-MLE.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from leastnoise._types import Array
from leastnoise.algebra.residual import Axes, join, residual, subsets, uniform_baselines
from leastnoise.domain.attributes import Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.release.state import Members
from leastnoise.workload.workload import finite

ALONE = 8  # independent numbers from which on a residual is moved by its own noise, and not with others


@dataclass(frozen=True, eq=False)
class Completed:
    """Consistent tables over any attributes, from what is known about some.

    `known` are residuals with all their subsets, `table` gives the unbiased table of a known set, and `noise` the
    expected sum of squares of the noise in the residual of one. Where nothing is known, attributes are independent,
    with the distributions that are given or else with those that were measured.

    Guarantees: equals_the_measured_tables_without_noise; tables_agree; independence_where_nothing_is_known.
    """

    shape: tuple[int, ...]
    known: Collection[Members]
    table: Callable[[Members], Array]
    noise: Callable[[Members], float]
    given: Mapping[int, Array] = field(default_factory=dict)  # public distributions of some attributes
    shrink: bool = True  # move what was measured towards nothing by its noise

    @property
    def as_published(self) -> Completed:
        """The tables of GReM-MLE (AIM+GReM algorithm 3): residuals as measured, even fills where none is given."""
        even = dict(enumerate(uniform_baselines(self.shape)))
        return replace(self, given=even | dict(self.given), shrink=False)

    @cached_property
    def total(self) -> float:
        """The number of rows, at least 1."""
        return max(float(self.table(())), 1.0) if () in self.known else 1.0

    @cached_property
    def baselines(self) -> tuple[Array, ...]:
        """The given distributions, or the measured ones without negative shares; uniform where nothing is known."""
        return tuple(self.given[a] if a in self.given else self._one_way(a) for a in range(len(self.shape)))

    def _one_way(self, attribute: int) -> Array:
        if (attribute,) in self.known:
            return simplex(self.table((attribute,)) / self.total)
        return np.full(self.shape[attribute], 1 / self.shape[attribute])

    @cached_property
    def _raw(self) -> dict[Members, Array]:
        """What is known of attributes beyond their subsets; of one attribute, beyond a given distribution."""
        sets = [m for m in self.known if len(m) > 1 or (m and m[0] in self.given)]
        return {m: residual(self.table(m), self._baselines(m), range(len(m))) for m in sets}

    @cached_property
    def factors(self) -> dict[Members, float]:
        """How far each of these is trusted: 1 - noise / (signal + noise), from its own energy, or small ones pooled."""
        if not self.shrink:
            return dict.fromkeys(self._raw, 1.0)
        entries: dict[Members, float] = {}
        pools: dict[int, list[Members]] = {}
        for m, part in self._raw.items():
            if prod(self.shape[a] - 1 for a in m) < ALONE:
                pools.setdefault(len(m), []).append(m)
            else:
                entries[m] = _factor(self.noise(m), float(np.vdot(part, part)))
        for together in pools.values():
            energy = sum(float(np.vdot(self._raw[m], self._raw[m])) for m in together)
            entries |= dict.fromkeys(together, _factor(sum(self.noise(m) for m in together), energy))
        return entries

    @cached_property
    def parts(self) -> dict[Members, Array]:
        """The same, moved towards nothing by its noise."""
        return {m: self.factors[m] * part for m, part in self._raw.items()}

    def counts(self, members: Sequence[int]) -> Array:
        """The completed table of some attributes, in ascending order."""
        ordered = tuple(members)
        inside: dict[Axes, Array] = {(): np.array(self.total if self.shrink else float(self.table(())))}
        for axes in subsets(len(ordered)):
            part = self.parts.get(tuple(ordered[i] for i in axes))
            if part is not None:
                inside[axes] = part
        return join(inside, self._baselines(ordered), [self.shape[a] for a in ordered])

    def _baselines(self, members: Sequence[int]) -> list[Array]:
        return [self.baselines[a] for a in members]


def _factor(noise: float, energy: float) -> float:
    return max(0.0, 1 - noise / energy) if energy > 0 else 0.0


def given_baselines(domain: Domain, baselines: Mapping[str, Any] | None) -> dict[int, Array]:
    """Public distributions by attribute, checked and scaled to sum 1."""
    entries = {}
    for name, values in (baselines or {}).items():
        a = domain.index(name)
        shares = finite(values, f"the baseline of {name!r}").ravel()
        if len(shares) != domain.shape[a] or shares.min() < 0 or not shares.sum() > 0:
            raise LeastnoiseError(
                f"the baseline of {name!r} must be {domain.shape[a]} numbers from 0 on, not all of them 0"
            )
        entries[a] = shares / shares.sum()
    return entries


def simplex(shares: Array) -> Array:
    """The closest numbers that are not negative and sum to 1.

    >>> simplex(np.array([0.7, 0.5, -0.2])).round(6).tolist()
    [0.6, 0.4, 0.0]
    """
    ordered = np.sort(shares)[::-1]
    levels = (np.cumsum(ordered) - 1) / np.arange(1, len(ordered) + 1)
    values: Array = np.maximum(shares - levels[np.flatnonzero(ordered > levels)[-1]], 0.0)
    return values / values.sum()
