"""Rows that compare siblings in a tree, in integers or floats: one for each node but the root.

The row of a child with share k of K in its family is tau (K [below the child] - k [below the parent]). All rows vanish
on the distribution in which every node spreads over its children by their shares (docs/proofs.md). Even shares are
k = 1 of K = m, and then a family has one tau.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Generic

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array, IntArray
from leastnoise.domain.tree import Tree, sums_below
from leastnoise.errors import LeastnoiseError
from leastnoise.strategies.strategy import Number
from leastnoise.workload.hierarchy import downwards, upwards

MOST_PAIRS = 10**7  # of siblings that are compared


@dataclass(frozen=True, eq=False)
class Siblings(Generic[Number]):
    """The rows of all families of a core; what is said of each node is about the row of it among its siblings.

    Guarantees: contrasts_equal_their_dense_rows; strategy_equals_its_dense_twin.
    """

    core: Tree
    scales: npt.NDArray[Number]  # tau
    shares: npt.NDArray[Number]  # k
    wholes: npt.NDArray[Number]  # K
    even: bool

    @staticmethod
    def of(core: Tree, scales: npt.NDArray[Number], shares: IntArray | None) -> Siblings[Number]:
        """From one scale for each node with children where shares are even, and from one for each child elsewhere."""
        parent, one = core.parent[1:], np.ones(1, dtype=scales.dtype)
        if shares is None:
            whole = core.children[parent].astype(scales.dtype)
            tau = np.concatenate([0 * one, scales[parent]])
            return Siblings(core, tau, np.ones(core.nodes, dtype=scales.dtype), np.concatenate([one, whole]), True)
        totals = np.bincount(parent, shares[1:], core.nodes).astype(scales.dtype)  # exact: below 2^53
        return Siblings(core, scales, shares.astype(scales.dtype), np.concatenate([one, totals[parent]]), False)

    @cached_property
    def split(self) -> npt.NDArray[Number]:
        """u = tau^2 K k: leaves below two siblings have inner product R - u - u' at their parent."""
        return self.scales**2 * self.wholes * self.shares

    @cached_property
    def apart(self) -> npt.NDArray[Number]:
        """(tau K)^2, the precision of a node among its siblings."""
        return (self.scales * self.wholes) ** 2

    @cached_property
    def shared(self) -> npt.NDArray[Number]:
        """R, the sum over the children of each node of (tau k)^2."""
        out, each = np.zeros(self.core.nodes, dtype=self.scales.dtype), (self.scales * self.shares) ** 2
        for inner, below, counts in upwards(self.core):
            out[inner] = sums_below(counts, each[below])
        return out

    @cached_property
    def paths(self) -> npt.NDArray[Number]:
        """What the rows of the families down to each node add to the squared column norms of leaves below it."""
        out = np.zeros(self.core.nodes, dtype=self.scales.dtype)
        here = self.apart - 2 * self.split
        for inner, below, counts in downwards(self.core):
            out[below] = np.repeat(out[inner] + self.shared[inner], counts) + here[below]
        return out

    @property
    def costs(self) -> npt.NDArray[Number]:
        """Squared column norm of each leaf."""
        return self.paths[self.core.leaves]

    @cached_property
    def most(self) -> npt.NDArray[Number]:
        """The most that families at and below each node add to the squared norm of a leaf."""
        out = np.zeros(self.core.nodes, dtype=self.scales.dtype)
        for inner, below, counts in upwards(self.core):
            here = self.paths[below] - np.repeat(self.paths[inner], counts) + out[below]
            out[inner] = np.maximum.reduceat(here, np.cumsum(counts) - counts)
        return out

    def families(self) -> list[tuple[IntArray, IntArray]]:
        """Nodes with children, and the children of each as rows; one pair for each number of children."""
        inner = np.flatnonzero(self.core.children)
        counts = self.core.children[inner].astype(np.int64)
        first = 1 + np.cumsum(counts) - counts  # nodes are numbered level by level, families one after another
        sizes = np.unique(counts).tolist()
        return [(inner[counts == m], first[counts == m][:, None] + np.arange(m)) for m in sizes]

    def pairs(self) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
        """All nodes with two of their children; with even shares, where siblings are alike, with the first two.

        Guarantees: too_many_uneven_siblings_are_refused.
        """
        families = self.families()
        if not self.even and sum(children.shape[1] * children.size for _, children in families) > MOST_PAIRS:
            raise LeastnoiseError("a node has too many children of uneven shares to compare all of them; use even ones")
        for inner, children in families:
            a, b = (np.array([0]), np.array([1])) if self.even else np.triu_indices(children.shape[1], 1)
            yield np.repeat(inner, len(a)), children[:, a].ravel(), children[:, b].ravel()

    def crossed(self, node: IntArray, one: IntArray, other: IntArray) -> npt.NDArray[Number]:
        """Inner products of the columns of leaves that part at a node, below two of its children."""
        return self.paths[node] + self.shared[node] - self.split[one] - self.split[other]

    def products(self) -> npt.NDArray[Number]:
        """Every inner product of columns that occurs: by where two leaves part, and of a leaf with itself."""
        return np.concatenate([*(self.crossed(*pair) for pair in self.pairs()), self.costs])

    def rows(self) -> npt.NDArray[Number]:
        """A dense matrix."""
        core, leaf = self.core, np.arange(self.core.leaf_count)
        inside = (core.starts[:, None] <= leaf) & (leaf < (core.starts + core.sizes)[:, None])
        wide = [a[1:, None] for a in (self.scales, self.wholes, self.shares)]
        out: npt.NDArray[Number] = wide[0] * (wide[1] * inside[1:] - wide[2] * inside[core.parent[1:]])
        return out

    # --- in floats ----------------------------------------------------------------------------------------------------

    @cached_property
    def parts(self) -> Array:
        """k / K, the share that a node has of its parent."""
        return np.asarray(self.shares / self.wholes, dtype=np.float64)

    @cached_property
    def spread(self) -> tuple[Array, Array]:
        """The variance q = 1 / (tau K)^2 of each node, and what that is of the sum over its family."""
        q, part = np.zeros(self.core.nodes), np.zeros(self.core.nodes)
        q[1:] = 1 / self.apart[1:]
        for _, below, counts in downwards(self.core):
            part[below] = q[below] / np.repeat(sums_below(counts, q[below]), counts)
        return q, part

    @cached_property
    def own(self) -> Array:
        """Variance of what a node has beyond its share of its parent, at unit noise: q - q^2 / sum of q."""
        q, part = self.spread
        return q * (1 - part)

    def half(self, queries: Array) -> Array:
        """q B^+ for a batch of queries (batch, leaves), with nodes for columns."""
        core, (q, part) = self.core, self.spread
        mean = np.zeros((core.nodes, len(queries)))
        mean[core.leaves] = queries.T
        out = np.empty_like(mean)
        for inner, below, counts in upwards(core):
            mean[inner] = sums_below(counts, self.parts[below, None] * mean[below])
            centre = sums_below(counts, part[below, None] * mean[below])
            out[below] = (mean[below] - np.repeat(centre, counts, axis=0)) * np.sqrt(q[below, None])
        return np.ascontiguousarray(out[1:].T)

    def decode(self, answers: Array) -> Array:
        """Least-squares counts of the leaves (batch, leaves) behind answers (batch, nodes - 1), with sum 0."""
        core, (q, part) = self.core, self.spread
        x = np.zeros((core.nodes, len(answers)))
        for inner, below, counts in downwards(core):
            here = answers.T[below.start - 1 : below.stop - 1] * np.sqrt(q[below, None])
            extra = np.repeat(sums_below(counts, here), counts, axis=0)
            x[below] = self.parts[below, None] * np.repeat(x[inner], counts, axis=0) + here - part[below, None] * extra
        return np.ascontiguousarray(x[core.leaves].T)
