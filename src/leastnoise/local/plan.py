"""LocalPlan: everything devices and collectors agree on beforehand. It is public and was made without data.

A plan has parts. Each is a table of some attributes with a randomizer for its cells; a device draws one part, without
looking at its record, and reports on that (or, where epsilon is large enough to be split, on all of them). A query is
split into residual pieces, and each piece is answered from the parts that carry it (docs/local.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import inf, prod
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array, IntArray
from leastnoise.domain.attributes import Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.local.composition import composed
from leastnoise.local.randomized_response import below, checked_epsilon
from leastnoise.local.randomizer import Arrays, Randomizer, randomizer_data
from leastnoise.local.tables import Attributes, Queries, cells_of, lifted, queries_of
from leastnoise.noise import RandomSource
from leastnoise.planning.variance import expected_largest_of
from leastnoise.privacy.cost import fraction_text
from leastnoise.release.answers import half_widths
from leastnoise.storage.archive import digest_of
from leastnoise.workload import Workload
from leastnoise.workload.families import digest
from leastnoise.workload.store import workload_to_json

VERSION = 1
SEEDED = VERSION | 0x80  # first byte of a report whose noise came from a seed
SPLIT = "split"
SHARES = 2**32  # shares of parts are whole numbers that add up to this
_TAG = 4  # bytes of the fingerprint in every report


@dataclass(frozen=True, eq=False)
class Seat:
    """A table that devices report on, with the share of devices that do so."""

    attributes: Attributes
    shape: tuple[int, ...]
    share: int
    carries: tuple[Attributes, ...] | None  # residual pieces it is used for; None for all it can

    def can(self, piece: Attributes) -> bool:
        """Whether it is used for a residual piece."""
        return set(piece) <= set(self.attributes) if self.carries is None else piece in self.carries

    @property
    def fraction(self) -> float:
        """Share of devices."""
        return self.share / SHARES


@dataclass(frozen=True, eq=False)
class Part(Seat):
    """A table with the randomizer for its cells."""

    randomizer: Randomizer


def targets(seats: Sequence[Seat], queries: Queries) -> dict[int, Array]:
    """Per seat: its part of the queries, as rows over its cells. They sum to the queries less their constants.

    Where several seats carry a piece, each is trusted in proportion to its share.

    Guarantees: targets_sum_to_the_queries.
    """
    entries: dict[int, Array] = {}
    for attributes, piece in queries.pieces.items():
        if not attributes:
            continue
        carriers = [i for i, seat in enumerate(seats) if seat.can(attributes)]
        if not carriers:
            raise LeastnoiseError("no device reports on these attributes together; plan with such queries")
        total = sum(seats[i].share for i in carriers)
        for i in carriers:
            seat = seats[i]
            rows = lifted(piece, attributes, seat.attributes, seat.shape) * (seat.share / total)
            entries[i] = entries[i] + rows if i in entries else rows
    return entries


@dataclass(frozen=True, eq=False)
class LocalPlan:
    """What devices report on and how, for which queries, at which epsilon.

    Devices need not trust who made a plan: one that spends more than it says cannot be made or loaded.

    A plan with a bias answers, in place of some queries, others that differ by no more than that in every entry.

    Guarantees: fingerprints_differ; variances_match_a_simulation; plans_that_spend_more_are_refused;
    biased_answers_are_within_the_bias.
    """

    workload: Workload
    epsilon: Fraction
    delta: float
    parts: tuple[Part, ...]
    layout: str = "whole"
    bias: float = 0.0  # how far the mean of an answer may be from its query, as a share of the devices
    approximations: tuple[Array | None, ...] = ()  # rows answered instead, per table of the workload

    def __post_init__(self) -> None:
        shares = [p.share for p in self.parts]
        if not shares or min(shares) < 1 or (set(shares) != {SHARES} if self.split else sum(shares) != SHARES):
            raise LeastnoiseError("the shares of the parts must be positive and add up to one; make the plan again")
        if any(p.randomizer.cells != prod(p.shape) for p in self.parts):
            raise LeastnoiseError("a randomizer does not fit the cells of its table; make the plan again")
        number = isinstance(self.delta, int | float) and not isinstance(self.delta, bool)
        if not (number and 0 <= self.delta < 1):  # from 1 on, reports may say everything
            raise LeastnoiseError(f"delta {self.delta!r} of this plan is not a number from 0 to below 1; do not use it")
        times = len(self.parts) if self.split else 1
        if not all(p.randomizer.keeps(self.epsilon / times, self.delta / times) for p in self.parts):
            raise LeastnoiseError(f"this plan spends more than its epsilon of {float(self.epsilon):g}; do not use it")
        if not 0 <= self.bias < inf:
            raise LeastnoiseError(f"bias {self.bias!r} is not a share of the devices; use a number from 0 on")
        if self.approximations and len(self.approximations) != sum(b.tables for b in self.workload.blocks):
            raise LeastnoiseError("this plan does not say what is answered in every table; make it again")

    @property
    def split(self) -> bool:
        """Whether devices report on every part with a part of epsilon, not on one of them with all of it."""
        return self.layout == SPLIT

    @property
    def domain(self) -> Domain:
        """The attributes of a record."""
        return self.workload.domain

    @cached_property
    def queries(self) -> tuple[Queries, ...]:
        """The tables of the workload, with what is answered in place of their rows."""
        requests = tuple(queries_of(self.workload))
        if not self.approximations:
            return requests
        results = tuple(replace(q, answered=rows) for q, rows in zip(requests, self.approximations, strict=True))
        if any(q.bias.max(initial=0.0) > self.bias for q in results):
            raise LeastnoiseError(f"this plan answers queries beyond its bias of {self.bias:g}; make it again")
        return results

    # --- identity -----------------------------------------------------------------------------------------------------

    def data(self) -> tuple[dict[str, Any], Arrays]:
        """Header and arrays; equal randomizers are kept once."""
        numbers: dict[int, int] = {}
        arrays: Arrays = {}
        kinds: list[dict[str, Any]] = []
        for part in self.parts:
            if id(part.randomizer) not in numbers:
                number = numbers[id(part.randomizer)] = len(kinds)
                header, entries = randomizer_data(part.randomizer)
                kinds.append(header)
                arrays |= {f"{name}{number}": array for name, array in entries.items()}
        parts = [
            {
                "attributes": list(p.attributes),
                "share": p.share,
                "randomizer": numbers[id(p.randomizer)],
                "carries": None if p.carries is None else [list(c) for c in p.carries],
            }
            for p in self.parts
        ]
        plain = {
            "version": VERSION,
            "workload": workload_to_json(self.workload),
            "epsilon": fraction_text(self.epsilon),
            "delta": self.delta,
            "layout": self.layout,
            "randomizers": kinds,
            "parts": parts,
        }
        return (plain | self._bias_data(arrays) if self.bias else plain), arrays

    def _bias_data(self, arrays: Arrays) -> dict[str, Any]:
        """What a bias adds to the header; equal rows join the arrays once."""
        distinct = {id(rows): rows for rows in self.approximations if rows is not None}
        numbers = {key: number for number, key in enumerate(distinct)}
        arrays |= {f"answered{numbers[key]}": rows for key, rows in distinct.items()}
        return {
            "bias": self.bias,
            "approximations": [None if rows is None else numbers[id(rows)] for rows in self.approximations],
        }

    @cached_property
    def fingerprint(self) -> str:
        """A digest of everything that devices and collectors must agree on."""
        return digest_of(*self.data())

    @cached_property
    def prefix(self) -> bytes:
        """What every report starts with: version and the first bytes of the fingerprint."""
        return bytes([VERSION]) + bytes.fromhex(self.fingerprint)[:_TAG]

    @property
    def part_bytes(self) -> int:
        """Bytes that say which part a report is about."""
        return 0 if len(self.parts) == 1 or self.split else 1 if len(self.parts) <= 256 else 4

    @property
    def report_bytes(self) -> int:
        """Length of every report."""
        payloads = [p.randomizer.payload for p in self.parts]
        return len(self.prefix) + self.part_bytes + (sum(payloads) if self.split else max(payloads))

    # --- who reports on what ------------------------------------------------------------------------------------------

    def draw_parts(self, random_source: RandomSource, count: int) -> IntArray:
        """The parts of so many devices: drawn without records, by exact shares."""
        if len(self.parts) == 1:
            return np.zeros(count, dtype=np.int64)
        ends = np.cumsum([p.share for p in self.parts])
        return np.searchsorted(ends, below(SHARES, random_source, count).astype(np.int64), side="right").astype(
            np.int64
        )

    def delta_at(self, epsilon: float | Fraction) -> float:
        """The least delta that is known at which a report keeps this epsilon: what a plan costs besides its own pair.

        Which part a report is about says nothing, so their deltas count by their shares. Reports on all parts compose:
        the loss of a choice is its log odds, the opposite or 0, and the worst pair of values of each part is at least
        as telling as any other (Zhu, Dong and Wang 2022), so sums of losses are enumerated. For Gaussian noise mu^2
        adds up; where kinds are mixed, only the plan's own pair is known.

        Guarantees: profiles_match_brute_force.
        """
        epsilon = checked_epsilon(epsilon)
        if not self.split:
            return float(sum(p.fraction * p.randomizer.delta_at(epsilon) for p in self.parts))
        losses = composed([p.randomizer for p in self.parts], float(epsilon))
        own = self.delta if epsilon >= self.epsilon else 1.0
        return own if losses is None else min(losses, own)

    # --- answers ------------------------------------------------------------------------------------------------------

    def worst_variances(self, queries: Queries) -> Array:
        """Variance per device of each answer, at most, whatever the records are: n devices give n times it."""
        total = np.zeros(len(queries.rows))
        for i, rows in targets(self.parts, queries).items():
            total += self._worst(self.parts[i].randomizer, rows) / self.parts[i].fraction
        return np.maximum(total, 0.0)  # what vanishes may round below

    @cached_property
    def _largest_moments(self) -> dict[tuple[int, str], Array]:
        return {}

    def _worst(self, randomizer: Randomizer, rows: Array) -> Array:
        """Largest moment of each row, less its square where no part is drawn; like tables have the same rows."""
        key = id(randomizer), digest(rows)
        if key not in self._largest_moments:
            moments = randomizer.moments(rows)
            alone = len(self.parts) == 1 or self.split
            self._largest_moments[key] = (moments - rows**2 if alone else moments).max(axis=1)
        return self._largest_moments[key]

    def variances(self, queries: Queries, codes: IntArray) -> Array:
        """Variance of each answer on these records (rows of codes), over the randomness of the devices.

        Devices of a part are drawn without replacement, so variances over devices count n / (n - 1) (docs/local.md).
        Guarantees: variances_match_a_simulation; variances_over_who_draws_what.
        """
        n = len(codes)
        drawn = 0.0 if self.split else n / max(n - 1, 1)
        total = np.zeros(len(queries.rows))
        for i, rows in targets(self.parts, queries).items():
            part = self.parts[i]
            share = np.bincount(cells_of(codes, part.attributes, part.shape), minlength=prod(part.shape)) / n
            square = rows**2 @ share
            noise, spread = part.randomizer.moments(rows) @ share - square, square - (rows @ share) ** 2
            total += n * (noise + drawn * spread) / part.fraction
        total -= n * drawn * _variance(queries.effective_rows, cells_of(codes, queries.attributes, queries.shape))
        return np.maximum(total, 0.0)

    def influence(self, queries: Queries) -> Array:
        """How far one forged report moves each answer, at most, if devices are spread over parts as planned."""
        moved = [
            self.parts[i].randomizer.influence(r) / self.parts[i].fraction
            for i, r in targets(self.parts, queries).items()
        ]
        if not moved:
            return np.zeros(len(queries.rows))
        return np.sum(moved, axis=0) if self.split else np.max(moved, axis=0)

    @cached_property
    def worst_std_error(self) -> float:
        """Standard error of the worst answer for one device; n devices have it times n^(1/2), in counts."""
        results = [float(self.worst_variances(q).max(initial=0.0)) for q in self.queries]
        return float(max(results, default=0.0)) ** 0.5

    @cached_property
    def weighted_std_error(self) -> float:
        """Largest root of weight times variance for one device: what planning makes small.

        Guarantees: weights_of_rows_are_honoured.
        """
        results = [float((q.weights * self.worst_variances(q)).max(initial=0.0)) for q in self.queries]
        return float(max(results, default=0.0)) ** 0.5

    @cached_property
    def usual_std_error(self) -> float:
        """Largest root of weight times variance for one device, where all records are equally frequent."""
        results = [float((q.weights * self._usual_variances(q)).max(initial=0.0)) for q in self.queries]
        return float(max(results, default=0.0)) ** 0.5

    def _usual_variances(self, queries: Queries) -> Array:
        total = np.zeros(len(queries.rows))
        for i, rows in targets(self.parts, queries).items():
            known = np.mean(rows**2, axis=1) if self.split else 0.0  # rows have mean 0
            total += (self.parts[i].randomizer.moments(rows).mean(axis=1) - known) / self.parts[i].fraction
        return total if self.split else total - queries.effective_rows.var(axis=1)

    def half_width(self, devices: int, confidence: float = 0.95) -> float:
        """Half of the widest interval among the answers of so many devices, as a share of them: noise and bias.

        Guarantees: half_widths_are_those_of_intervals.
        """
        if devices < 1:
            raise LeastnoiseError(f"{devices} devices report nothing; give a number from 1 on")
        results = [
            half_widths(np.sqrt(self.worst_variances(q) / devices), q.bias, confidence).max(initial=0.0)
            for q in self.queries
        ]
        return float(max(results, default=0.0))

    def expected_largest(self, devices: int) -> float:
        """The expected largest error of all answers of so many devices is at most this, as a share of them, as far as
        sums of reports are Gaussian: the mean of the largest of independent errors (Sidak 1967), and the bias.

        Guarantees: expected_largest_bounds_a_simulation_of_devices.
        """
        variances = np.concatenate([self.worst_variances(q) for q in self.queries])
        bias = max(float(q.bias.max(initial=0.0)) for q in self.queries)
        return expected_largest_of(np.sqrt(variances / devices)) + bias

    def rows_on(self, names: Sequence[str], rows: npt.ArrayLike, label: str = "") -> Queries:
        """Queries on named attributes, in the order of the domain; rows may be over the cells of the named order."""
        attributes = [self.domain.index(n) for n in names]
        if len(set(attributes)) < len(attributes):
            raise LeastnoiseError(f"attributes {', '.join(names)} repeat; name each once")
        array = np.asarray(rows, dtype=np.float64)
        shape = [self.domain.shape[a] for a in attributes]
        if array.ndim == 0 or array.size % prod(shape) or array.shape[-1] != prod(shape):
            raise LeastnoiseError(
                f"queries on {', '.join(names)} need rows of {prod(shape)} numbers, got an array of shape {array.shape}"
            )
        order = list(np.argsort(attributes))
        cube = array.reshape(-1, *shape).transpose(0, *(1 + int(a) for a in order))
        inside = tuple(sorted(attributes))
        return Queries(inside, tuple(shape[int(a)] for a in order), cube.reshape(len(cube), -1), label)


def _variance(rows: Array, cells: IntArray) -> Array:
    share = np.bincount(cells, minlength=rows.shape[1]) / max(len(cells), 1)
    return rows**2 @ share - (rows @ share) ** 2
