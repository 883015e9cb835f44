"""Mixtures written out cell by cell, and releases of small tables to fit."""

from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np

import leastnoise as ln
from leastnoise._types import Array
from leastnoise.estimate.loss import Logits, probabilities, softmax
from leastnoise.estimate.mixture import Mixture
from leastnoise.estimate.targets import Targets
from leastnoise.mechanisms.gate import Counts
from leastnoise.mechanisms.measurement import measure
from leastnoise.noise import SeededRandomSource
from leastnoise.planning.integer_plan import IntegerPlan, NoisyQuery
from leastnoise.planning.residual_workload import Baseline
from leastnoise.planning.structure import build_structure
from leastnoise.release import TableRelease
from leastnoise.sources import Table, source_of
from leastnoise.strategies.integer import Centring, IntegerStrategy


def dense(mixture: Mixture) -> Array:
    """The probability of every cell."""
    parts = [reduce(np.multiply.outer, [f[k] for f in mixture.factors]) for k in range(len(mixture.weights))]
    return np.einsum("k,k...->...", mixture.weights, np.stack(parts))


def mixture(targets: Targets, logits: Logits) -> Mixture:
    """The mixture behind logits."""
    layout = targets.layout
    w, theta = probabilities(layout, logits)
    return Mixture(w, tuple(theta[:, layout.columns(a)] for a in range(len(layout.sizes))))


def random_logits(targets: Targets, components: int, rng: np.random.Generator) -> Logits:
    return rng.normal(size=components), rng.normal(size=(components, targets.layout.width))


def random_mixture(shape: tuple[int, ...], components: int, rng: np.random.Generator, sharp: float = 2.0) -> Mixture:
    """Components that differ: values follow softmaxes of normal numbers of deviation `sharp`."""
    weights = softmax(rng.normal(size=components) / 2)
    return Mixture(weights, tuple(softmax(sharp * rng.normal(size=(components, n))) for n in shape))


def released(work: ln.Workload, table: Array, seed: int = 1, **budget: float) -> ln.Release:
    plan = ln.plan(work, ln.Budget(**(budget or {"epsilon": 1, "delta": 1e-9})))
    return plan.run(Table(work.domain, table.astype(np.int64)), random_source=SeededRandomSource(seed))


def in_rounds(domain: ln.Domain, data: Any, rounds: list[list[tuple[int, ...]]], seed: int = 1) -> ln.Release:
    """Tables measured in several rounds, as adaptive releases are: no two attributes alike, every set its own noise."""
    source, random_source, parts = source_of(data, domain), SeededRandomSource(seed), []
    for sets in rounds:
        work = ln.Workload(domain)
        for attributes in sets:
            work = work.marginals(*(domain.names[a] for a in attributes))
        structure = build_structure(work, lambda a: a)
        noisy_queries = []
        for k, orbit in enumerate(structure.orbits):
            parts_of = tuple(Centring(domain.shape[c]) for c in orbit)
            noisy_queries.append((NoisyQuery(IntegerStrategy(parts_of), Fraction((64 + k) ** 2)),))
        baselines = tuple(Baseline(c.size) for c in structure.classes)
        parts.append(
            measure(
                IntegerPlan(work, ln.Budget(mu=10), structure, baselines, tuple(noisy_queries)),
                Counts(source),
                random_source,
            )
        )
    return TableRelease(tuple(parts))
