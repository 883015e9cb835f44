"""Dense twins: explicit Kronecker matrices for small cases, to check the in-axis operations against."""

from collections.abc import Collection, Sequence
from functools import reduce

import numpy as np

from leastnoise._types import Array


def kron_all(mats: Sequence[Array]) -> Array:
    """Kronecker product of any number of matrices, [[1]] for none."""
    return reduce(np.kron, mats, np.ones((1, 1)))


def dense_split_matrix(baselines: Sequence[Array], keep: Collection[int]) -> Array:
    """M (cells x kept cells) with `queries @ M` the pieces on `keep`, for queries as rows over raveled cells."""
    return kron_all(
        [
            np.eye(len(pi)) - np.outer(pi, np.ones(len(pi))) if i in keep else pi[:, None]
            for i, pi in enumerate(baselines)
        ]
    )


def dense_marginal_matrix(shape: Sequence[int], keep: Collection[int]) -> Array:
    """Sums of the raveled data of `shape` over the axes outside `keep`."""
    return kron_all([np.eye(n) if i in keep else np.ones((1, n)) for i, n in enumerate(shape)])


def dense_residual_matrix(baselines: Sequence[Array], keep: Collection[int]) -> Array:
    """R (kept cells x cells) with `R @ x` the centred part of the data on `keep`."""
    return kron_all(
        [
            np.eye(len(pi)) - np.outer(pi, np.ones(len(pi))) if i in keep else np.ones((1, len(pi)))
            for i, pi in enumerate(baselines)
        ]
    )


def dense_smear_matrix(baselines: Sequence[Array], keep: Collection[int]) -> Array:
    """Spread a part on `keep` along the baselines of the other axes."""
    return kron_all([np.eye(len(pi)) if i in keep else pi[:, None] for i, pi in enumerate(baselines)])


def smear(part: Array, baselines: Sequence[Array], keep: Collection[int]) -> Array:
    """Spread a part on `keep` over all attributes, along the baseline of each other axis; leading axes are a batch."""
    array = np.asarray(part, dtype=np.float64)
    for axis, baseline in enumerate(baselines):
        if axis not in keep:
            after = sum(later > axis for later in keep)
            array = np.expand_dims(array, -1 - after) * baseline.reshape(-1, *[1] * after)
    return array
