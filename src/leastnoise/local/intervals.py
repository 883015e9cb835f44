"""Intervals around answers that may be off by a known bias."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from leastnoise._types import Array
from leastnoise.release.answers import quantile

_HALVINGS = 60


def half_widths(std_errors: npt.ArrayLike, biases: npt.ArrayLike, confidence: float) -> Array:
    """c with P(|b + s z| <= c) = confidence for Gaussian z: intervals of this half width cover, whatever the bias is.

    A smaller bias of either sign covers more (the density of |b + s z| moves outwards in |b|). So c is less than
    quantile * s + b, which adds the two, and no less than one-sided quantile * s + b.

    >>> half_widths([1, 1, 0], [0, 1, 1], 0.95).round(4).tolist()
    [1.96, 2.6461, 1.0]

    Guarantees: half_widths_cover_exactly_at_the_bias.
    """
    s, b = np.broadcast_arrays(np.asarray(std_errors, dtype=np.float64), np.asarray(biases, dtype=np.float64))
    two_sided, one_sided = quantile(confidence), float(ndtri(confidence))
    high = two_sided * s + b
    low = np.maximum(one_sided * s + b, two_sided * s)
    scale = np.where(s > 0, s, 1.0)
    for _ in range(_HALVINGS * bool(b.any())):
        middle = (low + high) / 2
        enough = ndtr((middle - b) / scale) - ndtr(-(middle + b) / scale) >= confidence
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.where(s > 0, high, b)
