"""What every randomizer of a device can do, and how it is stored."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array, IntArray
from leastnoise.errors import LeastnoiseError
from leastnoise.local.ball import Ball
from leastnoise.local.gauss import GaussianVectors
from leastnoise.local.randomized_response import Choice, Odds
from leastnoise.local.subsets import Payloads, Subsets
from leastnoise.noise import RandomSource
from leastnoise.privacy.cost import fraction_text, read_fraction

Arrays = dict[str, npt.NDArray[Any]]


class Randomizer(Protocol):
    """A value in, a few bytes out; sums of what reports say are unbiased estimates of sums over values."""

    @property
    def cells(self) -> int:
        """Number of values."""

    @property
    def payload(self) -> int:
        """Bytes of a report."""

    @property
    def tallies(self) -> int:
        """Numbers a collector keeps."""

    def keeps(self, epsilon: Fraction, delta: float) -> bool:
        """Whether devices spend no more than epsilon and delta."""

    def delta_at(self, epsilon: Fraction) -> float:
        """The least delta that is known at which reports keep this epsilon."""

    def encode(self, cells: IntArray, random_source: RandomSource) -> Payloads:
        """Reports of devices that hold these values."""

    def valid(self, payloads: Payloads) -> npt.NDArray[np.bool_]:
        """Which reports a device can have sent."""

    def tally(self, payloads: Payloads) -> IntArray:
        """What a collector adds up."""

    def moments(self, queries: Array) -> Array:
        """Second moment of each query's estimate from one report (row) under each value (column)."""

    def log_moments(self, queries: Array, t: Array) -> Array:
        """ln E e^(t error), at most, of each query's estimate (row, with its own t) under each value (column)."""

    def totals(self, queries: Array, tally: IntArray) -> Array:
        """Sums of the estimates over reports: the unbiased answers."""

    def squares(self, queries: Array, tally: IntArray) -> Array:
        """Sums of the squared estimates over reports, or what they are at most, in expectation."""

    def products(self, queries: Array, tally: IntArray) -> Array | None:
        """Sums over reports of the products of the estimates of two queries; None where the tally does not tell."""

    def influence(self, queries: Array) -> Array:
        """How far one report, however it was made, moves each answer at most."""

    def promised_mu(self, epsilon: Fraction, delta: float) -> float:
        """The Gaussian privacy that follows from keeping epsilon and delta."""

    def log_ratio(self, payloads: Payloads, one: int, other: int) -> Array:
        """Logarithm of the likelihood of each report under one value over that under another."""

    def apart(self, values: IntArray, others: IntArray) -> Array:
        """How well reports distinguish values, pair by pair: a number to compare pairs by."""


def randomizer_data(randomizer: Randomizer) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of a randomizer."""
    match randomizer:
        case Subsets(members=members, odds=odds):
            header = {"kind": "subsets", "count": len(members), "values": members.shape[1]}
            return header | _odds_data(odds), {"members": np.packbits(members)}
        case Ball(columns=columns, choice=choice):
            header = {"kind": "ball", "candidates": choice.candidates, "favoured": choice.favoured}
            return header | _odds_data(choice.odds), {"columns": columns}
        case GaussianVectors(columns=integers, variance=variance):
            return {"kind": "gaussian", "variance": fraction_text(variance)}, {"columns": integers}
    raise LeastnoiseError(f"a randomizer of type {type(randomizer).__name__} cannot be saved")


def _odds_data(odds: Odds) -> dict[str, Any]:
    return {"odds": [odds.top, odds.bottom]}


def randomizer_from(header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Randomizer:
    """Read what `randomizer_data` made."""
    match header["kind"]:
        case "subsets":
            count, values = int(header["count"]), int(header["values"])
            if not 0 < count * values <= 8 * arrays["members"].size:
                raise LeastnoiseError("its subsets are not as many as it says")
            members = np.unpackbits(arrays["members"], count=count * values).reshape(count, values).astype(bool)
            return Subsets(members, Odds(*header["odds"]))
        case "ball":
            return Ball(arrays["columns"], Choice(header["candidates"], header["favoured"], Odds(*header["odds"])))
        case "gaussian":
            return GaussianVectors(arrays["columns"], read_fraction(header["variance"]))
    raise LeastnoiseError(f"unknown randomizer {header['kind']!r}; the plan is damaged or from a newer version")
