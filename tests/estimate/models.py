"""Mixtures written out cell by cell, and releases of small tables to fit."""

from functools import reduce

import numpy as np

import leastnoise as ln
from leastnoise._types import Array
from leastnoise.estimate.loss import Logits, softmax
from leastnoise.estimate.mixture import Mixture
from leastnoise.estimate.targets import Targets
from leastnoise.noise import SeededBits
from leastnoise.sources import Table


def dense(mixture: Mixture) -> Array:
    """The probability of every cell."""
    parts = [reduce(np.multiply.outer, [f[k] for f in mixture.factors]) for k in range(len(mixture.weights))]
    return np.einsum("k,k...->...", mixture.weights, np.stack(parts))


def mixtures(targets: Targets, logits: Logits) -> list[Mixture]:
    """The mixtures behind logits, one by one."""
    w, *theta = [softmax(x) for x in logits]
    factors = {a: t[p] for members, t in zip(targets.members, theta, strict=True) for p, a in enumerate(members)}
    return [Mixture(w[e], tuple(factors[a][e] for a in sorted(factors))) for e in range(len(w))]


def random_logits(targets: Targets, count: int, components: int, rng: np.random.Generator) -> Logits:
    found = [rng.normal(size=(count, components))]
    for members, n in zip(targets.members, targets.sizes, strict=True):
        found.append(rng.normal(size=(len(members), count, components, n)))
    return found


def random_mixture(shape: tuple[int, ...], components: int, rng: np.random.Generator, sharp: float = 2.0) -> Mixture:
    """Components that differ: values follow softmaxes of normal numbers of deviation `sharp`."""
    weights = softmax(rng.normal(size=components) / 2)
    return Mixture(weights, tuple(softmax(sharp * rng.normal(size=(components, n))) for n in shape))


def released(work: ln.Workload, table: Array, seed: int = 1, **budget: float) -> ln.Release:
    plan = ln.plan(work, ln.Budget(**(budget or {"epsilon": 1, "delta": 1e-9})))
    return plan.run(Table(work.domain, table.astype(np.int64)), bits=SeededBits(seed))
