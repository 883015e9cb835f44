"""Fit mixtures to targets: Adam on the logits, and more components until the measurements are met to their noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from leastnoise._types import Array
from leastnoise.estimate.loss import Logits, Loss
from leastnoise.estimate.targets import Targets
from leastnoise.measure import Progress

FIRST = 4  # components to start with
RATE = 0.2  # of Adam, in logits
SPREAD = 1.0  # deviation of the first logits, which tells components apart
LOOK = 20  # steps between looks at the loss
LEAST_GAIN = 2e-3  # of the loss, between looks: below this a stage has converged
MOST_STEPS = 400  # of one stage
MOST = 128  # components of one mixture
REFIT_STEPS = 60


@dataclass(frozen=True, eq=False)
class Fitted:
    """Logits of several mixtures, and chi-square per degree of freedom after each stage."""

    logits: Logits
    misfits: tuple[float, ...]
    steps: int


class Adam:
    """Adam (Kingma and Ba 2015) on a list of arrays, in place."""

    def __init__(self, logits: Logits):
        self.logits, self.count = logits, 0
        self.mean = [np.zeros_like(x) for x in logits]
        self.square = [np.zeros_like(x) for x in logits]

    def step(self, slopes: Logits, rate: float) -> None:
        """One step."""
        self.count += 1
        a, b = 0.9, 0.99
        root = np.sqrt(1 - b**self.count) / (1 - a**self.count)
        for x, m, v, g in zip(self.logits, self.mean, self.square, slopes, strict=True):
            m += x.dtype.type(1 - a) * (g - m)
            v += x.dtype.type(1 - b) * (g * g - v)
            x -= x.dtype.type(rate * root) * m / (np.sqrt(v) + x.dtype.type(1e-12))


def start(targets: Targets, ones: Sequence[Array], mixtures: int, components: int, rng: np.random.Generator) -> Logits:
    """Components around the one-way distributions `ones` (one per attribute), told apart at random."""
    logits = [np.zeros((mixtures, components))]
    for members, n in zip(targets.members, targets.sizes, strict=True):
        centre = np.log(np.stack([ones[a] for a in members]))[:, None, None, :]
        logits.append(np.broadcast_to(centre, (len(members), mixtures, components, n)))
    return _told_apart(targets, [x.astype(targets.dtype) for x in logits], SPREAD, rng)


def _told_apart(targets: Targets, logits: Logits, spread: float, rng: np.random.Generator) -> Logits:
    """Noise on the factors; attributes that nothing was measured about stay as they are."""
    weights, *rest = logits
    seen = {m.cls for m in targets.maps}
    noise = (rng.standard_normal(x.shape) * (spread if c in seen else 0.0) for c, x in enumerate(rest))
    return [weights, *(x + e.astype(x.dtype) for x, e in zip(rest, noise, strict=True))]


def grown(targets: Targets, logits: Logits, rng: np.random.Generator) -> Logits:
    """Twice as many components: each is split into two that differ a little."""
    weights, *rest = logits
    doubled = [np.concatenate([weights] * 2, axis=1), *(np.concatenate([x, x], axis=2) for x in rest)]
    return _told_apart(targets, doubled, SPREAD / 2, rng)


def descend(loss: Loss, logits: Logits, steps: int, rate: float) -> tuple[float, int]:
    """Adam until the loss hardly falls any more, with ever smaller steps; returns chi-square (mean over mixtures)."""
    adam, last, value = Adam(logits), np.inf, np.inf
    for step in range(1, steps + 1):
        values, slopes = loss(logits)
        adam.step(slopes, rate)
        if step % LOOK == 0:
            value = float(values.mean())
            if last - value < LEAST_GAIN * value:
                if rate < RATE / 10:
                    return value, step
                rate /= 3
            last = value
    return value, steps


def fitted(
    targets: Targets,
    ones: Sequence[Array],
    mixtures: int,
    components: int | None,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> Fitted:
    """Mixtures of so many components each, or of as many as it takes to meet the measurements to their noise.

    Chi-square per degree of freedom should then be 1, give or take its own deviation of sqrt(2 / degrees); a stage that
    lowers it by less than that is the last one, too.

    Guarantees: stops_when_chi_square_per_degree_of_freedom_reaches_one.
    """
    count, slack = components or FIRST, sqrt(2 / max(targets.freedom, 1))
    logits, misfits, steps = start(targets, ones, mixtures, count, rng), [], 0
    while True:
        if progress is not None:
            progress(steps, 0, f"fitting {count} components")
        value, used = descend(Loss(targets, mixtures, count), logits, MOST_STEPS, RATE)
        steps += used
        misfits.append(value / max(targets.freedom, 1))
        idle = len(misfits) > 1 and misfits[-2] - misfits[-1] < slack
        if components or misfits[-1] <= 1 + slack or idle or 2 * count > MOST:
            return Fitted(logits, tuple(misfits), steps)
        logits, count = grown(targets, logits, rng), 2 * count


def refitted(targets: Targets, logits: Logits) -> Logits:
    """The same mixtures, moved to other measurements of nearly the same truth."""
    moved = [x.copy() for x in logits]
    descend(Loss(targets, *moved[0].shape), moved, REFIT_STEPS, RATE / 3)
    return moved
