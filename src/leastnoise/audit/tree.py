"""Audits of tree plans: trees, products of trees and trees with exact counts, on the worst two leaves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from math import log, prod

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.audit.judge import FEW_RUNS, OneByOne, Published, Subject
from leastnoise.audit.pair import neighbours
from leastnoise.mechanisms.gate import Counts
from leastnoise.mechanisms.tree.closed import Law
from leastnoise.mechanisms.tree.plan import TreePlan
from leastnoise.mechanisms.tree.release import TreeRelease
from leastnoise.mechanisms.tree.targets import Cascade, Spread
from leastnoise.noise import RandomSource
from leastnoise.sources import Source

STARTS = 16  # of the search for two leaves


def of_tree(plan: TreePlan) -> Subject:
    """A tree plan: whole releases of datasets that differ by one row or person; exact counts are the same in both."""
    law, trials = _law(plan), []
    everything = tuple(range(len(plan.names)))
    for sources in neighbours(plan.domain, plan.cost.neighbours, lambda n: worst_leaves(plan, n)):
        zero, one = (counts for source in sources for counts in Counts(source).tables([everything]))
        weights = law.precision(one - zero).ravel()

        def released(dataset: int, random_source: RandomSource, sources: Sequence[Source] = sources) -> IntArray:
            release: TreeRelease = plan.run(sources[dataset], random_source=random_source)
            return release.leaves

        trials.append(OneByOne(Published((zero.ravel(), one.ravel()), weights, _surprise(plan)), released))
    cells = prod(law.shape)
    return Subject("tree plan", plan.cost, plan.delta, trials, cells, FEW_RUNS)


def of_release(release: TreeRelease) -> Subject:
    """The mechanism behind a release."""
    return of_tree(release.plan)


def _law(plan: TreePlan) -> Law:
    """The law of the noise. Where counts are exact there is none, and some stands in: datasets do not differ there."""
    return Law.of(*(_filled(c) for c in plan.noise_cascades))


def _filled(cascade: Cascade) -> Cascade:
    spreads = tuple(Spread(m, e or Fraction(1)) for m, e in cascade.spreads)
    return replace(cascade, root=cascade.root or Fraction(1), spreads=spreads)


def _surprise(plan: TreePlan) -> float:
    """No noise of the table is likelier than e to the minus this.

    Integers for the leaves stand for a region of volume 1, so their density bounds it; a factor of 2 for each leaf is
    more than the roundings on the way can add to it.
    """
    zero = np.zeros([t.leaf_count for t in plan.trees], dtype=np.int64)
    return max(0.0, -TreeRelease(plan, zero).likelihood(zero) - zero.size * log(2))


def worst_leaves(plan: TreePlan, count: int) -> Sequence[IntArray]:
    """The leaf (one index per tree) whose row costs most, or two between which a row moves at the highest cost.

    A second leaf is searched by taking, in turn, the one that is farthest from the first. With exact counts both are
    below the same lowest exact node.

    Guarantees: leaves_are_the_worst_of_all; exact_counts_stay_in_every_pair.
    """
    shape = tuple(t.leaf_count for t in plan.trees)
    law = _law(plan)
    lengths = _lengths(law)
    if count == 1:
        return [_place(int(lengths.argmax()), shape)]
    best, groups = (-1.0, 0, 0), _groups(plan)
    for start in _starts(lengths, groups):
        best = max(best, _climbed(law, lengths, groups, start))
    return [_place(leaf, shape) for leaf in best[1:]]


def _place(leaf: int, shape: tuple[int, ...]) -> IntArray:
    return np.array(np.unravel_index(leaf, shape), dtype=np.int64)


def _lengths(law: Law) -> Array:
    """Squared lengths of single rows in units of the noise: the diagonal of the inverse covariance."""
    values = np.ones(1)
    for cascade in law.cascades:
        values = np.multiply.outer(values, cascade.leaf_costs()).ravel()
    return values


def _groups(plan: TreePlan) -> IntArray:
    """Per leaf its lowest exact node: rows may move inside a group. Without exact counts all leaves are one group."""
    values = np.zeros(prod(t.leaf_count for t in plan.trees), dtype=np.int64)
    if plan.exact is not None:
        tree = plan.exact.tree
        for node in plan.exact.nodes.tolist():  # from the root down, so that the lowest is the last
            low, high = tree.range_of(node)
            values[low:high] = node
    return values


def _starts(lengths: Array, groups: IntArray) -> Iterator[int]:
    """The costliest leaf of each group in which a row can move, and some others."""
    order = np.argsort(-lengths, kind="stable")
    sizes = np.bincount(groups)
    seen: set[int] = set()
    for leaf in order[sizes[groups[order]] > 1].tolist():
        if groups[leaf] not in seen:
            seen.add(int(groups[leaf]))
            yield leaf
        if len(seen) == STARTS:
            break
    yield from np.random.default_rng(0).integers(0, len(lengths), STARTS).tolist()


def _climbed(law: Law, lengths: Array, groups: IntArray, leaf: int) -> tuple[float, int, int]:
    """The farthest from a leaf, the farthest from that, and so on: squared distance in the noise, and leaves."""
    best = (-1.0, leaf, leaf)
    while True:
        unit = np.zeros(len(lengths))
        unit[leaf] = 1.0
        products = law.precision(unit.reshape(law.shape)).ravel()
        apart = np.where(groups == groups[leaf], lengths[leaf] + lengths - 2 * products, -1.0)
        other = int(apart.argmax())
        if apart[other] <= best[0] * (1 + 1e-9):
            return best
        best, leaf = (float(apart[other]), leaf, other), other
