"""Fit mixtures to targets: Adam on the logits, and more components until the measurements are met to their noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
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
MOMENTUM, MEMORY = 0.9, 0.8  # of Adam, for slopes and their squares: slopes change quickly where components part
TINY = 1e-12  # beside the root of a squared slope
SPREAD = 1.0  # deviation of the first logits, which distinguishes components
LOOK = 15  # steps between looks at the loss
LEAST_GAIN = 1.5e-3  # of the loss, between looks: below this a stage has converged
MOST_STEPS = 500  # of one stage
SLOW = 7.5e-3  # of the loss, between looks: below this a stage that is far from its aim has gained enough
FAR = 1.1  # times the chi-square aimed at, which smaller steps will not reach
MOST = 128  # components of one mixture
FURTHER = 2  # runs where these do not do
# Deviation of a component's logits about the mean over all components, a weak penalty: components that few rows speak
# for stay near the rest instead of following the noise.
APART = 2.0
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
    """Adam with Nesterov's momentum (Dozat 2016), in place: the mean slope is taken as it will be if the next slope is
    like this one.

    Guarantees: a_step_is_that_of_its_formulas.
    """

    def __init__(self, logits: Sequence[Floats]):
        self.logits, self.count = logits, 0
        self.mean = [np.zeros_like(x) for x in logits]
        self.square = [np.zeros_like(x) for x in logits]

    def step(self, slopes: Sequence[Floats], rate: float) -> None:
        """One step."""
        self.count += 1
        a, b = MOMENTUM, MEMORY
        scale = rate * sqrt(1 - b**self.count) / (1 - a ** (self.count + 1))
        for x, m, v, g in zip(self.logits, self.mean, self.square, slopes, strict=True):
            m += (1 - a) * (g - m)
            v += (1 - b) * (g * g - v)
            move = a * m
            move += (1 - a) * g
            move /= np.sqrt(v) + TINY
            x -= scale * move


class Course:
    """One mixture on its way; its random numbers are its own, so that mixtures can be fitted in any order."""

    def __init__(self, targets: Targets, logits: Logits, rng: np.random.Generator, rate: float = RATE):
        self.loss, self.rng, self.rate, self.value = Loss(targets), rng, rate, np.inf
        self.measured, self.logits, self.short = targets.measured, logits, False

    @classmethod
    def new(cls, targets: Targets, centre: Floats, components: int, rng: np.random.Generator) -> Course:
        """Components that differ about a centre."""
        factors = np.broadcast_to(centre, (components, len(centre)))
        course = cls(targets, (np.zeros(components, targets.dtype), factors), rng)
        course.logits = course._distinguished(*course.logits, SPREAD)
        return course

    @property
    def components(self) -> int:
        """How many."""
        return len(self.logits[0])

    def _distinguished(self, weights: Floats, factors: Floats, spread: float) -> Logits:
        """Noise on the factors; attributes that nothing was measured about stay as they are."""
        noise = spread * self.rng.standard_normal(factors.shape) * self.measured
        return weights, factors + noise.astype(factors.dtype)

    def grow(self) -> None:
        """Twice as many components: each is split into two that differ a little."""
        weights, factors = (np.concatenate([x, x]) for x in self.logits)
        self.logits, self.rate = self._distinguished(weights, factors, SPREAD / 2), RATE

    def run(self, far: float = np.inf) -> None:
        """Fit; where chi-square stays above `far`, only until it falls slowly."""
        self.value = descend(self.loss, self.logits, MOST_STEPS, self.rate, far)
        self.short = self.value > far

    def further(self) -> None:
        """Fit on, from steps of middle length; nothing changes where that does not lower chi-square."""
        before, self.rate = ((self.logits[0].copy(), self.logits[1].copy()), self.value), RATE / 3
        self.run()
        if self.value > before[1]:
            self.logits, self.value = before

    def finish(self) -> None:
        """Fit to the end where that was left out."""
        if self.short:
            self.run()


def descend(loss: Loss, logits: Logits, steps: int, rate: float, far: float = np.inf) -> float:
    """Adam until the loss and the penalty hardly fall any more, with ever smaller steps; returns chi-square.

    Above `far` it ends with the large steps.
    """
    with quiet():
        value = _descend(loss, logits, steps, rate, far)
    assert np.isfinite(value), "a fit stays finite"
    return value


def quiet() -> AbstractContextManager[None]:
    """Some linear-algebra kernels raise the flag for invalid numbers though all of them are finite."""
    return np.errstate(invalid="ignore")


def _descend(loss: Loss, logits: Logits, steps: int, rate: float, far: float) -> float:
    adam, last, value = Adam(logits), np.inf, np.inf
    for step in range(1, steps + 1):
        value, slopes = loss(logits)
        whole = value + _pulled(logits[1], slopes[1])
        adam.step(slopes, rate)
        if step % LOOK == 0:
            if value > far and last - whole < SLOW * whole:
                return value
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
    least: int = 0,
) -> Fitted:
    """One mixture per generator, of so many components each, or of as many as it takes to meet the measurements to
    their noise, from `least` up to `most`. `ones` are the one-way distributions to start from.
    """
    centre = np.log(np.concatenate([ones[a] for a in targets.layout.order])).astype(targets.dtype)
    courses = [Course.new(targets, centre, components or FIRST, rng) for rng in rngs]
    return _finished(targets, courses, components or most, progress, least)


def continued(
    targets: Targets, logits: Sequence[Logits], components: int | None, progress: Progress | None = None
) -> Fitted:
    """Mixtures that were fitted to other measurements of much the same, fitted to these; with more components only
    where they are needed.
    """
    rngs = map(np.random.default_rng, range(len(logits)))
    copies = ((w.copy(), x.copy()) for w, x in logits)
    courses = [Course(targets, x, rng, RATE / 3) for x, rng in zip(copies, rngs, strict=True)]
    return _finished(targets, courses, components or MOST, progress)


def _finished(
    targets: Targets, courses: Sequence[Course], most: int, progress: Progress | None, least: int = 0
) -> Fitted:
    """More components for all mixtures, until there are `least` and chi-square per degree of freedom is 1, give or take
    its own deviation of sqrt(2 / degrees); a stage that lowers it by less than that is the last one, too. Stages that
    end far above it are short, and those that have the most components and are still above it are fitted further.

    Guarantees: stops_when_chi_square_per_degree_of_freedom_reaches_one; any_number_of_threads_gives_the_same.
    """
    freedom = max(targets.freedom, 1)
    misfits: list[float] = []
    slack = sqrt(2 / freedom)
    while True:
        count = courses[0].components
        if progress is not None:
            progress(len(misfits), 0, f"fitting {count} components")
        last = 2 * count > most
        far = np.inf if last else FAR * (1 + slack) * freedom - targets.fixed
        each(targets, count, partial(Course.run, far=far), courses)
        misfits.append(_misfit(targets, courses))
        if len(misfits) > 1 and misfits[-2] - misfits[-1] < slack:
            each(targets, count, Course.finish, courses)
            misfits[-1] = _misfit(targets, courses)
        idle = len(misfits) > 1 and misfits[-2] - misfits[-1] < slack
        if last or (count >= least and (idle or misfits[-1] <= 1 + slack)):
            for _ in range(FURTHER if 2 * count > MOST and misfits[-1] > 1 + slack else 0):
                each(targets, count, Course.further, courses)
                misfits[-1] = _misfit(targets, courses)
            return Fitted([c.logits for c in courses], tuple(misfits))
        for course in courses:
            course.grow()


def _misfit(targets: Targets, courses: Sequence[Course]) -> float:
    """Chi-square per degree of freedom, the mean over all mixtures."""
    return (float(np.mean([c.value for c in courses])) + targets.fixed) / max(targets.freedom, 1)


def each(targets: Targets, components: int, work: Callable[[T], object], items: Sequence[T]) -> None:
    """Independent pieces of work, on all cores where matrix products are large enough for threads to pay."""
    cells = sum(t.answers.size for t in targets.targets)
    if components * cells >= LEAST_PRODUCT * max(len(targets.targets), 1):
        across_cores(work, items)
        return
    for item in items:
        work(item)
