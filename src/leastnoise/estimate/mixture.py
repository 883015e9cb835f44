"""A mixture of products: p(x) = sum_k w_k prod_i theta_ki(x_i), its marginals and rows drawn from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.estimate.variables import Variable, spread

ROOM = 2**22  # numbers of an intermediate array of marginals


@dataclass(frozen=True, eq=False)
class Mixture:
    """Weights that sum to 1, and for every attribute one distribution per component.

    >>> mixture = Mixture(np.array([0.5, 0.5]), (np.eye(2), np.array([[1.0, 0.0], [0.5, 0.5]])))
    >>> mixture.marginal([0, 1]).tolist()
    [[0.5, 0.0], [0.25, 0.25]]

    Guarantees: marginals_are_those_of_the_dense_distribution; one_way_counts_match_to_rounding.
    """

    weights: Array
    factors: tuple[Array, ...]  # (components, values) each
    variables: tuple[Variable, ...] | None = None  # what the factors are about; None: one attribute each

    def marginal(self, attributes: Sequence[int]) -> Array:
        """The distribution of some attributes, one axis each; needs room for one such table."""
        if self.variables is None:
            return self._table([self.factors[a] for a in attributes])
        places = [k for k, v in enumerate(self.variables) if set(v.attributes) & set(attributes)]
        if len(places) == 1:  # all components at once
            (k,) = places
            table = self.variables[k].tables((self.weights @ self.factors[k])[None], attributes)
            return table.reshape([self._size(a) for a in attributes])
        inside = [[a for a in attributes if a in self.variables[k].attributes] for k in places]
        factors = [self.variables[k].tables(self.factors[k], some) for k, some in zip(places, inside, strict=True)]
        order = [a for some in inside for a in some]
        table = self._table(factors).reshape([self._size(a) for a in order])
        return table.transpose([order.index(a) for a in attributes])

    def _size(self, attribute: int) -> int:
        assert self.variables is not None
        (variable,) = (v for v in self.variables if attribute in v.attributes)
        return variable.shape[variable.attributes.index(attribute)]

    def _table(self, factors: Sequence[Array]) -> Array:
        """The distribution of the variables behind some factors."""
        shape = [f.shape[1] for f in factors]
        cut = min(range(len(shape) + 1), key=lambda c: prod(shape[:c]) + prod(shape[c:]))
        sides = prod(shape[:cut]), prod(shape[cut:])
        values, step = np.zeros(sides), max(1, ROOM // sum(sides))
        for low in range(0, len(self.weights), step):
            part = slice(low, low + step)
            left = _products(self.weights[part, None], [f[part] for f in factors[:cut]])
            right = _products(np.ones((len(left), 1)), [f[part] for f in factors[cut:]])
            values += left.T @ right
        return values.reshape(shape)

    def sample(self, rows: int, rng: np.random.Generator) -> IntArray:
        """Rows of codes, (rows, attributes), with counts as even as they can be.

        Components get their shares of the rows, and values their shares of each component, to rounding. What a value
        is given too much or too little is carried on to the next component, so that one-way counts match as well.
        Within a component the attributes are put together at random.
        """
        order = rng.permutation(len(self.weights))
        shares = spread(rows * self.weights[order], rng)
        values = np.empty((rows, len(self.factors)), dtype=np.int64)
        for a, factor in enumerate(self.factors):
            owed = np.zeros(factor.shape[1])
            low = 0
            for share, chances in zip(shares.tolist(), factor[order], strict=True):
                counts, owed = _shared(share, chances, owed, rng)
                values[low : low + share, a] = rng.permutation(np.repeat(np.arange(len(counts)), counts))
                low += share
        return self._decoded(rng.permutation(values), rng)

    def _decoded(self, values: IntArray, rng: np.random.Generator) -> IntArray:
        """Codes of the attributes from values of the variables."""
        if self.variables is None:
            return values
        out = np.empty((len(values), sum(len(v.attributes) for v in self.variables)), dtype=np.int64)
        for k, variable in enumerate(self.variables):
            for a, codes in variable.decoded(values[:, k], rng):
                out[:, a] = codes
        return out


def _products(start: Array, factors: Sequence[Array]) -> Array:
    """(components, cells): products of one row of each factor."""
    for f in factors:
        start = (start[:, :, None] * f[:, None, :]).reshape(len(f), -1)
    return start


def _shared(share: int, chances: Array, owed: Array, rng: np.random.Generator) -> tuple[IntArray, Array]:
    """Counts of the values in one component, and what is owed to each value after it."""
    due = share * chances + owed
    expected = np.maximum(due, 0.0)
    if not share or not expected.sum():
        return np.zeros(len(due), dtype=np.int64), due
    counts = spread(expected * (share / expected.sum()), rng)
    return counts, due - counts
