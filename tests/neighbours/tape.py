"""The two samplers of the product replaced: no noise, or noise that makes every data set publish the same.

Whatever is published is a sum of an exact number and noise, or the index of a private choice. A tape takes down the
exact side of each, and hands out the published side that is on it already. All data sets that are run with one tape
therefore see the same transcript, and what noise has to hide on the way is taken down exactly: adaptive composition.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod
from typing import Any
from unittest.mock import patch

import numpy as np

from leastnoise._types import IntArray
from leastnoise.mechanisms.adaptive import select
from leastnoise.noise import RandomSource
from leastnoise.noise.gaussian import rounded_gaussian as real_gaussian
from tests.neighbours.shifts import Choice

real_draw = select.draw


@dataclass
class Tape:
    """A transcript that grows in its first run and is replayed in later ones."""

    noise: RandomSource | None = None  # of the first run; none at all by default
    published: list[int] = field(default_factory=list)
    values: list[int] = field(default_factory=list)  # of the run under way: what is exact
    variances: list[Fraction] = field(default_factory=list)
    choices: list[Choice] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)

    @contextmanager
    def playing(self) -> Iterator[None]:
        """With the samplers of the product replaced; each run starts with `rewind`."""
        with replaced(self.gaussian), patch.object(select, "draw", self.draw):
            yield

    def rewind(self) -> None:
        """Start a run from the beginning."""
        self.values, self.variances, self.choices = [], [], []

    def gaussian(self, random_source: RandomSource, variance: Fraction, size: Any, threads: int | None = None) -> Noise:
        """Noise that is decided when it meets what it hides."""
        shape = tuple(size) if isinstance(size, Sequence) else (int(size),)
        view = np.zeros(shape, dtype=np.int64).view(Noise)
        view.tape, view.variance = self, Fraction(variance)
        return view

    def publish(self, variance: Fraction, exact: Any) -> IntArray:
        """Take down what is exact; returns what is published."""
        flat = [int(x) for x in np.asarray(exact, dtype=object).reshape(-1).tolist()]
        start = len(self.values)
        self.values += flat
        self.variances += [variance] * len(flat)
        if start == len(self.published):
            drawn = np.zeros(len(flat)) if self.noise is None else real_gaussian(self.noise, variance, len(flat))
            self.published += [x + int(e) for x, e in zip(flat, drawn.tolist(), strict=True)]
        reported = self.published[start : start + len(flat)]
        assert len(reported) == len(flat), "how much is measured depends on the data"
        return np.array(reported, dtype=np.int64).reshape(np.shape(exact))

    def draw(self, steps: Sequence[int], scale: int, random_source: RandomSource) -> int:
        """The choice that is on the tape; in the first run the likeliest, or a random one."""
        self.choices.append(Choice(tuple(steps), scale))
        if len(self.choices) > len(self.taken):
            likely = list(steps).index(min(steps))
            self.taken.append(likely if self.noise is None else real_draw(steps, scale, self.noise))
        return self.taken[len(self.choices) - 1]


class Noise(np.ndarray):
    """An array of noise: added to exact numbers, it gives what the tape says."""

    tape: Tape
    variance: Fraction

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        (exact,) = [x for x in inputs if x is not self]
        assert (ufunc, method, options) == (np.add, "__call__", {}), "noise is for adding, once"
        assert np.shape(exact) == self.shape
        return self.tape.publish(self.variance, exact)

    def tolist(self) -> list[Any]:
        """Numbers of which each does the same."""
        return [_Number.of(self.tape, self.variance) for _ in range(prod(self.shape))]


class _Number(int):
    tape: Tape
    variance: Fraction

    @classmethod
    def of(cls, tape: Tape, variance: Fraction) -> _Number:
        number = cls(0)
        number.tape, number.variance = tape, variance
        return number

    def __radd__(self, exact: Any) -> int:
        return int(self.tape.publish(self.variance, [exact])[0])

    __add__ = __radd__


def nothing(random_source: RandomSource, variance: Fraction, size: Any, threads: int | None = None) -> IntArray:
    """No noise at all."""
    return np.zeros(size, dtype=np.int64)


@contextmanager
def replaced(sampler: Any = nothing) -> Iterator[None]:
    """With another sampler in every module of the product that uses the one there is."""
    users = [m for name, m in list(sys.modules.items()) if name.split(".")[0] == "leastnoise"]
    users = [m for m in users if getattr(m, "rounded_gaussian", None) is real_gaussian]
    assert users
    for module in users:
        module.rounded_gaussian = sampler
    try:
        yield
    finally:
        for module in users:
            module.rounded_gaussian = real_gaussian
