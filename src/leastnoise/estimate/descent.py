"""Fit mixtures to targets: Adam on the logits, and more components until the measurements are met to their noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from math import sqrt
from typing import TypeVar

import numpy as np

from leastnoise._types import Array, Progress
from leastnoise.estimate.loss import Logits, Loss
from leastnoise.estimate.maps import Floats
from leastnoise.estimate.targets import Targets
from leastnoise.strategies.threads import across_cores

FIRST = 8  # components to start with
RATE = 0.2  # of Adam, in logits
SPREAD = 1.0  # deviation of the first logits, which distinguishes components
LOOK = 20  # steps between looks at the loss
LEAST_GAIN = 2e-3  # of the loss, between looks: below this a stage has converged
MOST_STEPS = 400  # of one stage
MOST = 128  # components of one mixture
# Deviation of a component's logits about the mean over all components, a weak penalty: components that few rows speak
# for stay near the rest instead of following the noise.
APART = 2.0
REFIT_STEPS = 60
# Multiplications of a matrix product, on average, from which on threads pay: they hand Python's lock to each other
# between any two products, which takes as long as a small one.
LEAST_PRODUCT = 2_000_000

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Fitted:
    """Logits of several mixtures, and their mean chi-square per degree of freedom after each stage."""

    logits: list[Logits]
    misfits: tuple[float, ...]


class Adam:
    """Adam (Kingma and Ba 2015), in place."""

    def __init__(self, logits: Sequence[Floats]):
        self.logits, self.count = logits, 0
        self.mean = [np.zeros_like(x) for x in logits]
        self.square = [np.zeros_like(x) for x in logits]

    def step(self, slopes: Sequence[Floats], rate: float) -> None:
        """One step."""
        self.count += 1
        a, b = 0.9, 0.99
        root = np.sqrt(1 - b**self.count) / (1 - a**self.count)
        for x, m, v, g in zip(self.logits, self.mean, self.square, slopes, strict=True):
            m += x.dtype.type(1 - a) * (g - m)
            v += x.dtype.type(1 - b) * (g * g - v)
            x -= x.dtype.type(rate * root) * m / (np.sqrt(v) + x.dtype.type(1e-12))


class Course:
    """One mixture on its way; its random numbers are its own, so that mixtures can be fitted in any order."""

    def __init__(self, targets: Targets, centre: Floats, components: int, rng: np.random.Generator):
        self.targets, self.rng, self.value = targets, rng, np.inf
        factors = np.broadcast_to(centre, (components, len(centre)))
        self.logits = self._distinguished(np.zeros(components, targets.dtype), factors, SPREAD)

    def _distinguished(self, weights: Floats, factors: Floats, spread: float) -> Logits:
        """Noise on the factors; attributes that nothing was measured about stay as they are."""
        noise = spread * self.rng.standard_normal(factors.shape) * self.targets.measured
        return weights, factors + noise.astype(factors.dtype)

    def grow(self) -> None:
        """Twice as many components: each is split into two that differ a little."""
        weights, factors = (np.concatenate([x, x]) for x in self.logits)
        self.logits = self._distinguished(weights, factors, SPREAD / 2)

    def run(self) -> None:
        """Fit."""
        self.value = descend(Loss(self.targets), self.logits, MOST_STEPS, RATE)


def descend(loss: Loss, logits: Logits, steps: int, rate: float) -> float:
    """Adam until the loss and the penalty hardly fall any more, with ever smaller steps; returns chi-square."""
    with quiet():
        value = _descend(loss, logits, steps, rate)
    assert np.isfinite(value), "a fit stays finite"
    return value


def quiet() -> AbstractContextManager[None]:
    """Some linear-algebra kernels raise the flag for invalid numbers though all of them are finite."""
    return np.errstate(invalid="ignore")


def _descend(loss: Loss, logits: Logits, steps: int, rate: float) -> float:
    adam, last, value = Adam(logits), np.inf, np.inf
    for step in range(1, steps + 1):
        value, slopes = loss(logits)
        whole = value + _pulled(logits[1], slopes[1])
        adam.step(slopes, rate)
        if step % LOOK == 0:
            if last - whole < LEAST_GAIN * whole:
                if rate < RATE / 10:
                    return value
                rate /= 3
            last = whole
    return value


def _pulled(factors: Floats, slope: Floats) -> float:
    """What the penalty adds to chi-square; adds its slope."""
    apart = factors - factors.mean(axis=0)
    apart *= factors.dtype.type(1 / APART)
    slope += factors.dtype.type(2 / APART) * apart
    return float(np.vdot(apart, apart))


def fitted(
    targets: Targets,
    ones: Sequence[Array],
    components: int | None,
    rngs: Sequence[np.random.Generator],
    progress: Progress | None = None,
    most: int = MOST,
) -> Fitted:
    """One mixture per generator, of so many components each, or of as many as it takes to meet the measurements to
    their noise, up to `most`. `ones` are the one-way distributions to start from.

    Chi-square per degree of freedom should then be 1, give or take its own deviation of sqrt(2 / degrees); a stage that
    lowers it by less than that is the last one, too.

    Guarantees: stops_when_chi_square_per_degree_of_freedom_reaches_one; any_number_of_threads_gives_the_same.
    """
    count, slack = components or FIRST, sqrt(2 / max(targets.freedom, 1))
    centre = np.log(np.concatenate([ones[a] for a in targets.layout.order])).astype(targets.dtype)
    courses = [Course(targets, centre, count, rng) for rng in rngs]
    misfits: list[float] = []
    while True:
        if progress is not None:
            progress(len(misfits), 0, f"fitting {count} components")
        each(targets, count, Course.run, courses)
        chi_square = float(np.mean([c.value for c in courses])) + targets.fixed
        misfits.append(chi_square / max(targets.freedom, 1))
        idle = len(misfits) > 1 and misfits[-2] - misfits[-1] < slack
        if components or misfits[-1] <= 1 + slack or idle or 2 * count > most:
            return Fitted([c.logits for c in courses], tuple(misfits))
        count *= 2
        for course in courses:
            course.grow()


def each(targets: Targets, components: int, work: Callable[[T], object], items: Sequence[T]) -> None:
    """Independent pieces of work, on all cores where matrix products are large enough for threads to pay."""
    cells = sum(t.answers.size for t in targets.targets)
    if components * cells >= LEAST_PRODUCT * max(len(targets.targets), 1):
        across_cores(work, items)
        return
    for item in items:
        work(item)


def refitted(targets: Targets, logits: Logits) -> Logits:
    """The same mixture, moved to other measurements of nearly the same truth."""
    weights, factors = (x.copy() for x in logits)
    descend(Loss(targets), (weights, factors), REFIT_STEPS, RATE / 3)
    return weights, factors
