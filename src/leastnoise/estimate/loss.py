"""Squared distance between a mixture of products and the measurements, in units of noise, and its slope by hand.

The model is p(x) = sum_k w_k prod_i theta_ki(x_i), with softmax logits for w and every theta_ki. A marginal is built
from left to right: P_0 = w, P_j = P_{j-1} x U_j along the axes (U_j: mapped factors), and the last axis by one matrix
product that sums over the components. The slope walks the same chain back.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leastnoise.estimate.layout import Layout
from leastnoise.estimate.maps import Floats, sums
from leastnoise.estimate.targets import Target, Targets

Logits = tuple[Floats, Floats]  # weights (components,); factors (components, columns of the layout)


def softmax(logits: Floats) -> Floats:
    """Probabilities along the last axis."""
    e = np.exp(logits - logits.max(axis=-1, keepdims=True))
    e /= sums(e)
    return e


def probabilities(layout: Layout, logits: Logits) -> Logits:
    """Weights and factors: a softmax for each attribute."""
    w, x = logits
    return softmax(w), layout.segments.softmax(x)


@dataclass(frozen=True, eq=False)
class Loss:
    """The loss of a mixture.

    Guarantees: loss_is_dense_weighted_least_squares; slope_is_that_of_finite_differences.
    """

    targets: Targets

    def __call__(self, logits: Logits) -> tuple[float, Logits]:
        """The loss and its slope with respect to the logits."""
        w, theta = probabilities(self.targets.layout, logits)
        mapped = self._mapped(theta)
        slopes, dw, value = np.zeros_like(mapped), np.zeros_like(w), 0.0
        for target in self.targets.targets:
            value += _add(target, w, mapped, dw, slopes)
        dtheta = np.zeros_like(theta)
        for view in self.targets.views:
            dtheta[:, view.source] += view.back(slopes[:, view.into])
        dw = w * (dw - np.vdot(w, dw))
        return value, (dw, self.targets.layout.segments.unsoftmax(theta, dtheta))

    def _mapped(self, theta: Floats) -> Floats:
        values = np.empty((len(theta), self.targets.width), theta.dtype)
        for view in self.targets.views:
            values[:, view.into] = view.apply(theta[:, view.source])
        return values


def _chain(target: Target, w: Floats, mapped: Floats) -> list[Floats]:
    """P_0, ..., P_{d-1}, (components, cells) each."""
    chain = [w[:, None]]
    for columns in target.left:
        chain.append((chain[-1][:, :, None] * mapped[:, None, columns]).reshape(len(w), -1))
    return chain


def _model_answers(target: Target, left: Floats, right: Floats) -> Floats:
    """The model's answers."""
    expected: Floats = left.T @ right
    return expected if target.rows is None else target.rows @ expected.ravel()


def _add(target: Target, w: Floats, mapped: Floats, dw: Floats, slopes: Floats) -> float:
    """The loss of one target; adds to the slopes."""
    chain, right = _chain(target, w, mapped), mapped[:, target.right]
    rest = _model_answers(target, chain[-1], right)
    rest -= target.answers
    weighted = rest * target.precision
    value = float(np.vdot(rest, weighted))
    weighted *= 2
    if target.rows is not None:
        weighted = (weighted @ target.rows).reshape(chain[-1].shape[1], -1)
    slopes[:, target.right] += chain[-1] @ weighted
    back = right @ weighted.T
    for p, columns in zip(chain[-2::-1], target.left[::-1], strict=True):
        back = back.reshape(len(w), p.shape[1], -1)
        slopes[:, columns] += np.matmul(p[:, None, :], back)[:, 0]
        back = np.matmul(back, mapped[:, columns, None])[..., 0]
    dw += back[:, 0]
    return value
