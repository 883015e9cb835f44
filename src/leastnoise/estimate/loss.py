"""Squared distance between a mixture of products and the measurements, in units of noise, and its gradient by hand.

The model is p(x) = sum_k w_k prod_i theta_ki(x_i), with softmax logits for w and every theta_ki. A marginal is built
from left to right: P_0 = w, P_j = P_{j-1} x U_j along the axes (U_j: mapped factors), and the last axis by one matrix
product that sums over the components. The gradient walks the same chain back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from leastnoise._types import IntArray
from leastnoise.estimate.targets import Floats, Target, Targets

BATCH = 2**19  # numbers of an intermediate array, unless a single table needs more

Logits = list[Floats]  # weights (mixtures, components); per class (attributes, mixtures, components, values)


def softmax(logits: Floats) -> Floats:
    """Probabilities along the last axis."""
    e = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _unsoftmax(p: Floats, slope: Floats) -> Floats:
    """The slope with respect to logits from that with respect to probabilities."""
    weighted = p * slope
    return weighted - p * weighted.sum(axis=-1, keepdims=True)


@dataclass(frozen=True, eq=False)
class Loss:
    """The loss of several mixtures at once.

    Guarantees: loss_is_dense_weighted_least_squares; slope_is_that_of_finite_differences.
    """

    targets: Targets
    mixtures: int
    components: int

    @cached_property
    def _batches(self) -> list[Target]:
        return [b for t in self.targets.targets for b in self._split(t)]

    def _split(self, target: Target) -> Iterator[Target]:
        """Parts of a target whose intermediate arrays are small."""
        widths = [self._width(m) for m in target.maps]
        largest = max(prod(widths), self.components * max(prod(widths[:-1]), widths[-1]))
        step = max(1, BATCH // (largest * self.mixtures))
        for low in range(0, len(target.members), step):
            part = slice(low, low + step)
            yield replace(target, members=target.members[part], answers=target.answers[part])

    def _width(self, number: int) -> int:
        found = self.targets.maps[number]
        return self.targets.sizes[found.cls] if found.matrix is None else len(found.matrix)

    def __call__(self, logits: Logits) -> tuple[Floats, Logits]:
        """Loss per mixture, and the slope of their sum with respect to the logits."""
        w, *theta = [softmax(x) for x in logits]
        mapped = [m.apply(theta[m.cls]) for m in self.targets.maps]
        slopes = [np.zeros_like(x) for x in mapped]
        dw, value = np.zeros_like(w), np.zeros(self.mixtures)
        for batch in self._batches:
            value += self._batch(batch, w, mapped, dw, slopes)
        dtheta = [np.zeros_like(x) for x in theta]
        for m, slope in zip(self.targets.maps, slopes, strict=True):
            dtheta[m.cls] += m.back(slope)
        return value, [_unsoftmax(p, s) for p, s in zip([w, *theta], [dw, *dtheta], strict=True)]

    def expected(self, logits: Logits) -> Targets:
        """The measurements without noise, if the mean of the mixtures were the truth."""
        w, *theta = [softmax(x) for x in logits]
        mapped = [m.apply(theta[m.cls]) for m in self.targets.maps]
        said = (self._forward(b, w, _gathered(b, mapped))[1].mean(axis=1) for b in self._batches)
        batches = tuple(replace(b, answers=a) for b, a in zip(self._batches, said, strict=True))
        return replace(self.targets, targets=batches)

    def _forward(self, target: Target, w: Floats, factors: list[Floats]) -> tuple[list[Floats], Floats]:
        """(P_0, ..., P_{d-1}) and the answers."""
        scale = w.dtype.type(target.scale * self.targets.total)
        chain = [np.broadcast_to((scale * w)[None, :, :, None], (len(target.members), *w.shape, 1))]
        for u in factors[:-1]:
            p = chain[-1][..., :, None] * u[..., None, :]
            chain.append(p.reshape(*p.shape[:-2], -1))
        said = np.matmul(chain[-1].swapaxes(-1, -2), factors[-1])
        if target.levels is not None:
            said *= target.levels
        if target.rows is not None:
            said = np.matmul(said.reshape(*said.shape[:2], -1), target.rows.T)
        return chain, said

    def _batch(self, target: Target, w: Floats, mapped: list[Floats], dw: Floats, slopes: list[Floats]) -> Floats:
        """The loss of one batch; adds to the slopes."""
        factors = _gathered(target, mapped)
        chain, rest = self._forward(target, w, factors)
        rest -= target.answers[:, None]
        flat = rest.reshape(*rest.shape[:2], -1)
        value = np.einsum("bex,bex->e", flat, flat)
        rest *= 2
        if target.rows is not None:
            rest = np.matmul(rest, target.rows).reshape(*rest.shape[:2], -1, factors[-1].shape[-1])
        if target.levels is not None:
            rest *= target.levels
        steps = [np.matmul(chain[-1], rest)]
        back = np.matmul(factors[-1], rest.swapaxes(-1, -2))
        for p, u in zip(chain[-2::-1], factors[-2::-1], strict=True):
            back = back.reshape(*back.shape[:-1], p.shape[-1], u.shape[-1])
            steps.append(np.matmul(p[..., None, :], back)[..., 0, :])
            back = np.matmul(back, u[..., None])[..., 0]
        for m, places, step in zip(target.maps, target.members.T, reversed(steps), strict=True):
            _scatter(slopes[m], places, step)
        dw += w.dtype.type(target.scale * self.targets.total) * back[..., 0].sum(axis=0)
        return value


def _gathered(target: Target, mapped: list[Floats]) -> list[Floats]:
    """The mapped factors of every axis, (sets, mixtures, components, width)."""
    return [mapped[m][p] for m, p in zip(target.maps, target.members.T, strict=True)]


def _scatter(into: Floats, places: IntArray, parts: Floats) -> None:
    """Add parts to the places they belong to, of which some may be the same."""
    if len(places) == 1:
        into[places[0]] += parts[0]
        return
    ones, order = np.ones(len(places), parts.dtype), np.arange(len(places))
    chosen: Any = csr_matrix((ones, (places, order)), (len(into), len(places)))
    into += (chosen @ parts.reshape(len(parts), -1)).reshape(into.shape)
