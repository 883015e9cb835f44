"""Exact integer noise for releases: what is published is the table of leaves plus integers; nodes are its sums.

The noise is built as if the tree were measured (docs/proofs.md). Answers to integer questions, the total and the
contrasts between the children of each node, get independent rounded Gaussian noise. From noisy answers an integer table
follows by integer arithmetic that never sees the data. It commutes with adding a table of integers: the answers on x
plus noise give x plus what the noise alone gives. So the noise can be drawn without the data, and x plus noise is as
private as the measured answers are, which is an exact fraction: `Cascade.cost`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache, partial
from itertools import pairwise, product
from math import prod

import numpy as np
import numpy.typing as npt

from leastnoise._types import IntArray
from leastnoise.domain.tree import Counts, Tree, Where, first_children, next_level
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.tree.targets import Cascade
from leastnoise.noise.gaussian import LEAST_VARIANCE, rounded_gaussian
from leastnoise.noise.random_source import RandomSource

FINE = 20  # nodes are first known in units of 2^-FINE
MOST_CHILDREN = 2**20  # beyond, the rounding of one family does not fit 64 bits
_MARGIN = 3000  # three terms of a family's numerators, and noise of up to 1,000 standard deviations


def integer_noise(random_source: RandomSource, *cascades: Cascade, threads: int | None = None) -> IntArray:
    """Integer noise for the table of leaves, one axis per tree: unbiased, with the cost of the cascades exactly.

    Every node has the variance of its target plus `extra_variance` at most.

    >>> from leastnoise.mechanisms.tree import Tree
    >>> from leastnoise.noise import SeededRandomSource
    >>> integer_noise(SeededRandomSource(1), Cascade.by_level(Tree.binary(2), 100)).tolist()
    [-27, 14, -2, 0]

    Guarantees: noise_commutes_with_data; integer_noise_has_the_covariance; same_noise_for_any_threads.
    """
    if not cascades:
        raise LeastnoiseError("noise needs at least one cascade; build one with Cascade.by_level")
    variances = [answer_variances(c) for c in cascades]
    fine = check_fits(*cascades)
    noise = np.empty([answer_count(c.tree) for c in cascades], dtype=np.int64)
    for places, kinds in _blocks([_answer_kinds(c) for c in cascades]):
        variance = prod((v[k] for v, k in zip(variances, kinds, strict=True)), start=Fraction(1))
        shape = noise[places].shape
        noise[places] = (
            rounded_gaussian(random_source, variance, shape, threads) if variance else 0
        )  # exact: invariants
    return assemble(random_source, [c.tree for c in cascades], noise, fine)


def check_fits(*cascades: Cascade) -> int:
    """Refuse noise that cannot be drawn in 64 bits; returns the finest unit, as a power of 1/2, in which it can."""
    variances = [[v for v in answer_variances(c) if v] for c in cascades]
    least = prod((min(each) for each in variances), start=Fraction(1))
    if least < LEAST_VARIANCE:
        raise LeastnoiseError(f"noise of variance {float(least):.3g} is too little to be drawn; use larger targets")
    return _fine_bits([c.tree for c in cascades], prod((max(each) for each in variances), start=Fraction(1)))


def extra_variance(dimensions: int = 1) -> Fraction:
    """What rounding adds to the variance of a node of so many trees, at most; half of it or so as a rule.

    >>> extra_variance()
    Fraction(1, 3)
    """
    return Fraction(1, 12) + Fraction(4 ** (dimensions - 1), 4)


def answer_count(tree: Tree) -> int:
    """Queries measured on a tree: its total, and per node one contrast of two children or one per child."""
    return 1 + sum(times * _questions(m) for m, times in tree.core.tree.arities.items())


def answer_variances(cascade: Cascade) -> tuple[Fraction, ...]:
    """Exact noise variances of the questions: of the total, then of the contrasts of each spread.

    The contrast of two children moves by 1 and is worth 4 e. With m children, contrast i is m times the child less
    their sum; its noise is centred and divided by m, so e = s^2 (m - 1) / m^3.
    """
    return cascade.root, *(4 * e if m == 2 else e * Fraction(m**3, m - 1) for m, e in cascade.spreads)


def assemble(random_source: RandomSource, trees: Sequence[Tree], noisy: IntArray, fine: int = FINE) -> IntArray:
    """An integer table of leaves from noisy answers.

    First in units of 2^-fine, axis by axis and from the root down: children get a share of their parent and their
    centred contrast, rounded without bias so that they sum to the parent. Then whole numbers: sums from the first
    cell on are rounded with one common random offset, so every range of one tree is one of the two integers next to it.

    Guarantees: assembly_is_unbiased; ranges_are_next_to_their_estimate.
    """
    table = noisy << fine
    for axis, tree in enumerate(trees):
        table = _per_axis(partial(_tree_leaves, random_source, tree.core.tree), table, axis)
    for axis in range(table.ndim):
        np.cumsum(table, axis=axis, out=table)
    table += int(_below(random_source, np.full(1, 1 << fine))[0])
    table >>= fine
    for axis in range(table.ndim):
        table = np.diff(table, axis=axis, prepend=0)
    return table


def _questions(children: int) -> int:
    return 1 if children == 2 else children


def _question_counts(children: Counts) -> IntArray:
    return np.where(children == 2, 1, children).astype(np.int64)


def _fine_bits(trees: Sequence[Tree], variance: Fraction) -> int:
    """The finest unit for which all numbers fit 64 bits: numerators of families, and sums over up to depth + 1 runs."""
    for tree in trees:
        most = max(tree.core.tree.arities, default=1)
        if most > MOST_CHILDREN:
            node = int(np.argmax(tree.children == most))
            raise LeastnoiseError(
                f"{tree.name(node)} has {most:,} children; exact noise takes up to {MOST_CHILDREN:,}, "
                "so put a level in between"
            )
    widest = max(max(tree.core.tree.arities, default=1) for tree in trees)
    reach = _MARGIN * widest * prod(tree.core.tree.depth + 1 for tree in trees)
    fine = next((b for b in range(FINE, -1, -1) if (reach << b) ** 2 * variance < 2**124), None)
    if fine is None:
        raise LeastnoiseError(
            f"answers with noise of variance {float(variance):.3g} do not fit 64 bits; use smaller targets"
        )
    return fine


def _answer_kinds(cascade: Cascade) -> npt.NDArray[np.unsignedinteger]:
    """Per question: 0 for the total, 1 + the spread for contrasts."""
    core = cascade.tree.core.tree
    inner = core.children > 0
    wide = np.min_scalar_type(len(cascade.spreads))
    kinds = np.repeat(cascade.kind[inner].astype(wide), _question_counts(core.children[inner]))
    return np.append(np.zeros(1, dtype=wide), kinds + np.ones(1, dtype=wide))


def _blocks(kinds: list[npt.NDArray[np.unsignedinteger]]) -> list[tuple[tuple[slice | IntArray, ...], tuple[int, ...]]]:
    """Parts of the array of answers that have one variance, with the kind on each axis."""
    results = []
    for parts in product(*(_runs(k) for k in kinds)):
        places: tuple[slice | IntArray, ...] = tuple(place for place, _ in parts)
        if len(parts) > 1 and not all(isinstance(place, slice) for place in places):
            whole = [np.arange(len(k)) for k in kinds]
            places = np.ix_(*(w[place] for w, place in zip(whole, places, strict=True)))
        results.append((places, tuple(kind for _, kind in parts)))
    return results


def _runs(kinds: npt.NDArray[np.unsignedinteger]) -> list[tuple[slice | IntArray, int]]:
    """Places of equal kinds: as slices where kinds follow each other, otherwise one list of places per kind."""
    cuts = [0, *(np.flatnonzero(kinds[1:] != kinds[:-1]) + 1).tolist(), len(kinds)]
    if len(cuts) <= 4 * int(kinds.max()) + 16:
        return [(slice(a, b), int(kinds[a])) for a, b in pairwise(cuts)]
    order = np.argsort(kinds, kind="stable")
    ends = np.cumsum(np.bincount(kinds))
    return [(place, kind) for kind, place in enumerate(np.split(order, ends[:-1])) if len(place)]


def _per_axis(apply: Callable[[IntArray], IntArray], table: IntArray, axis: int) -> IntArray:
    """A map of columns (rows, batch), applied along one axis."""
    moved = np.moveaxis(table, axis, 0)
    out = apply(moved.reshape(len(moved), -1))
    return np.moveaxis(out.reshape(len(out), *moved.shape[1:]), 0, axis)


def _tree_leaves(random_source: RandomSource, core: Tree, noisy: IntArray) -> IntArray:
    out = np.empty((core.leaf_count, noisy.shape[1]), dtype=np.int64)
    values, used = noisy[:1], 1
    for level in core.levels():
        counts = core.children[level]
        ends = counts == 0
        if ends.any():
            out[slice(None) if core.even else core.starts[level][ends]] = values[ends] if not core.even else values
        if not ends.all():
            rows = noisy[used : used + int(_question_counts(counts).sum())]
            values = next_level(
                counts, noisy.shape[1], np.int64, _integer_children(random_source, counts, values, rows)
            )
            used += len(rows)
    return out


def _integer_children(
    random_source: RandomSource, counts: Counts, values: IntArray, rows: IntArray
) -> Callable[[Where, int], IntArray]:
    @cache
    def first_questions() -> IntArray:
        return first_children(_question_counts(counts))

    def make(which: Where, m: int) -> IntArray:
        above, questions = values[which], _questions(m)
        if isinstance(which, slice):
            requested = rows.reshape(len(above), questions, -1)
        else:
            requested = rows[first_questions()[which][:, None] + np.arange(questions)]
        return _halves(random_source, above, requested[:, 0]) if m == 2 else _shares(random_source, above, requested)

    return make


def _halves(random_source: RandomSource, total: IntArray, contrast: IntArray) -> IntArray:
    """Two integers with this sum and about this difference; an odd unit goes to either with probability 1/2."""
    out = np.empty((len(total), 2, total.shape[1]), dtype=np.int64)
    coin = random_source.words(total.size).astype(np.int64).reshape(total.shape) & 1
    np.right_shift(total + contrast + coin, 1, out=out[:, 0])
    np.subtract(total, out[:, 0], out=out[:, 1])
    return out


def _shares(random_source: RandomSource, total: IntArray, contrasts: IntArray) -> IntArray:
    """m integers with this sum, near total / m + (contrast less the mean contrast) / m, and equal to it on average.

    In units of 1 / m^2 the numbers are integers and their running sums end at total; running sums plus a uniform
    offset are rounded down, and differences taken.
    """
    m = contrasts.shape[1]
    whole, rest = np.divmod(m * (total[:, None] + contrasts) - contrasts.sum(axis=1, keepdims=True), m * m)
    np.cumsum(rest, axis=1, out=rest)
    rest += _below(random_source, np.full(total.size, m * m)).reshape(len(total), 1, -1)
    rest //= m * m
    whole += np.diff(rest, axis=1, prepend=0)
    return whole


def _below(random_source: RandomSource, limits: IntArray) -> IntArray:
    """Uniform integers from 0 to limit - 1: words beyond the last whole multiple are drawn again."""
    bound = limits.astype(np.uint64)
    words = random_source.words(len(bound))
    last = np.uint64(2**64 - 1) // bound * bound
    while len(again := np.flatnonzero(words >= last)):
        words[again] = random_source.words(len(again))
    return (words % bound).astype(np.int64)
