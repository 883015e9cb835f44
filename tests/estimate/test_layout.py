"""Columns of many attributes at once, as one by one."""

import numpy as np
from numpy.testing import assert_allclose

from leastnoise.estimate.layout import Layout, Segments
from leastnoise.estimate.loss import softmax

SIZES = (1, 4, 2, 7)


def test_segments_are_their_columns_one_by_one():
    rng = np.random.default_rng(1)
    segments, x, g = Segments(SIZES), 30 * rng.normal(size=(5, 14)), rng.normal(size=(5, 14))
    parts = [slice(int(low), int(low) + n) for low, n in zip(segments.starts, SIZES, strict=True)]
    p = np.hstack([softmax(x[:, part]) for part in parts])
    assert_allclose(segments.softmax(x), p, rtol=1e-12)
    back = [p[:, part] * (g[:, part] - (p * g)[:, part].sum(axis=1, keepdims=True)) for part in parts]
    assert_allclose(segments.unsoftmax(p, g), np.hstack(back), atol=1e-14)
    centred = [x[:, part] - x[:, part].mean(axis=1, keepdims=True) for part in parts]
    assert_allclose(segments.centre(x), np.hstack(centred), atol=1e-12)
    assert_allclose(segments.sums(x), np.stack([x[:, part].sum(axis=1) for part in parts], axis=1), atol=1e-12)


def test_small_attributes_stand_first():
    layout = Layout((5, 2, 5, 1))
    assert layout.order == [3, 1, 0, 2]
    assert [layout.columns(a) for a in range(4)] == [slice(3, 8), slice(1, 3), slice(8, 13), slice(0, 1)]
    assert layout.width == 13
