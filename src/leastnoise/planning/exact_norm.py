"""The least norm of the variances over all factorization mechanisms, where domain and workload are small."""

from __future__ import annotations

from math import inf

import numpy as np

from leastnoise._types import Array
from leastnoise.algebra.gram import outer_all
from leastnoise.planning.certificate import OPTIMUM, SMALL_DOMAIN, Floor
from leastnoise.planning.factorization import workload_matrix
from leastnoise.planning.objective import Objective
from leastnoise.strategies.norms import gamma_r
from leastnoise.workload import Block, Workload

MOST_ENTRIES = 400_000  # of the matrix of the workload, whose norm then takes a second
GAP = 1e-4


def exact_norm_floor(workload: Workload, objective: Objective) -> Floor | None:
    """gamma_r of the workload, which is gamma_2 for the largest variance; None where it takes too long.

    Guarantees: floors_of_norms_are_the_optimum_on_small_domains.
    """
    cells = workload.domain.size
    if cells > SMALL_DOMAIN or workload.queries * cells > MOST_ENTRIES:
        return None
    weights = query_row_weights(workload, objective)
    norm = gamma_r(workload_matrix(workload)[weights > 0], r=objective.r, weights=weights[weights > 0], gap=GAP)
    return Floor(norm.lower**2, OPTIMUM)


def query_row_weights(workload: Workload, objective: Objective) -> Array:
    """What each query counts, in the order of `workload_matrix`."""
    aimed = any(block.target is not None for block in workload.blocks)
    found = []
    for block in workload.blocks:
        for subset in block.subsets():
            sizes = tuple(workload.domain.shape[a] for a in subset)
            rows = _family_weights(block, subset, sizes)
            if objective.r < inf:
                found.append(block.weight * rows)
            else:
                scale = 1.0 if not aimed else 0.0 if block.target is None else block.target**-2
                found.append(np.full(len(rows), scale))
    return np.concatenate(found)


def _family_weights(block: Block, subset: tuple[int, ...], sizes: tuple[int, ...]) -> Array:
    if not block.is_product:
        return block.tensor.weights(sizes)
    return outer_all(block.family(a).weights(n) for a, n in zip(subset, sizes, strict=True)).ravel()
