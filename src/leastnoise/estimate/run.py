"""`release.fit()`: from a release to its best estimate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from leastnoise._types import Array
from leastnoise.errors import LeastnoiseError
from leastnoise.estimate.descent import Fitted, fitted, refitted
from leastnoise.estimate.estimate import Estimate, Replicate, checked_seed
from leastnoise.estimate.loss import Logits, Loss, softmax
from leastnoise.estimate.mixture import Mixture
from leastnoise.estimate.targets import Targets, targets_of
from leastnoise.measure import Progress
from leastnoise.release import Release

LEAST_SHARE = 0.01  # of a value, relative to the even one, where fits start


def fit(
    release: Release,
    *,
    mixtures: int = 5,
    components: int | None = None,
    replicates: int = 0,
    seed: int = 0,
    progress: Progress | None = None,
) -> Estimate:
    """The distribution closest to a release: the mean of a few mixtures of products. Costs no privacy.

    Mixtures get more components until they meet the measurements to their noise, unless `components` says how many.
    `replicates` are refits to simulated measurements, which tell approximate errors; 10 is a usual number.
    """
    _check_counts(mixtures, components, replicates)
    rng = np.random.default_rng(checked_seed(seed))
    answer = release.total()
    targets = targets_of(release.state, max(answer.value, 1.0), answer.std_error)
    found = fitted(targets, _one_way(release, targets.total), mixtures, components, rng, progress)
    others = tuple(_replicate(targets, found, rng) for _ in range(replicates))
    return Estimate(release, _mixture(targets, found.logits), targets.total, found.misfits, others)


def _check_counts(mixtures: object, components: object, replicates: object) -> None:
    least = {"mixtures": 1, "components": 1, "replicates": 0}
    for name, value in {"mixtures": mixtures, "components": components, "replicates": replicates}.items():
        whole = isinstance(value, int) and not isinstance(value, bool) and value >= least[name]
        if not whole and not (name == "components" and value is None):
            raise LeastnoiseError(f"{name} is {value!r}; use a whole number from {least[name]} on")


def _one_way(release: Release, total: float) -> list[Array]:
    """Distributions of single attributes to start from."""
    counts = [release.state.marginal([a]) for a in range(len(release.domain))]
    positive = [np.maximum(c, LEAST_SHARE * total / len(c)) for c in counts]
    return [c / c.sum() for c in positive]


def _mixture(targets: Targets, logits: Logits) -> Mixture:
    """All mixtures as one: their mean."""
    w, *theta = [softmax(x.astype(np.float64)) for x in logits]
    factors: dict[int, Array] = {}
    for members, values in zip(targets.members, theta, strict=True):
        for place, attribute in enumerate(members):
            factors[attribute] = values[place].reshape(w.size, -1)
    return Mixture(w.ravel() / len(w), tuple(factors[a] for a in sorted(factors)))


def _replicate(targets: Targets, found: Fitted, rng: np.random.Generator) -> Replicate:
    """A fit to what would have been measured if the estimate were the truth, started from the estimate."""
    total = max(targets.total + targets.total_error * rng.standard_normal(), 1.0)
    truth = Loss(targets, *found.logits[0].shape).expected(found.logits)
    noisy = tuple(
        replace(t, answers=t.answers + rng.standard_normal(t.answers.shape).astype(t.answers.dtype))
        for t in truth.targets
    )
    simulated = replace(targets, targets=noisy, total=total)
    return Replicate(_mixture(targets, refitted(simulated, found.logits)), total)
