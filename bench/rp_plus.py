"""ResidualPlanner+ as QuerySmasher compares with it (section 8), and the full-rank trick of its appendix D.

RP+ measures one basis per attribute and chooses the noise levels of the residuals (Xiao et al. 2025). Its basis for an
ordered attribute is the strategy of least error for the total and the centred prefix queries as one workload, moved
into the residual space (their Algorithm 4); other attributes are measured value by value. Solver 'basis' does the
rest. All printed RP+ figures of tables 2 to 5 follow, ranges with a twist: `printed_for_ranges`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from math import sqrt

import numpy as np

from leastnoise import Budget, Workload, plan
from leastnoise._types import Array
from leastnoise.mechanisms.tables.plan import Plan
from leastnoise.strategies.optimal import solve_optimal
from leastnoise.strategies.strategy import factor_gram

GAP = 1e-7


def best_rows(gram: Array) -> Array:
    """The strategy of least error for queries with this Gram matrix, over all strategies on one attribute."""
    return solve_optimal(factor_gram(gram), GAP).strategy.matrix()


def centred_basis(rows: Array) -> Array:
    """RP+: least error for the total and the centred queries together.

    Guarantees: bases_of_rp_plus_match_a_semidefinite_program.
    """
    centred = rows - rows.mean(axis=1, keepdims=True)
    return best_rows(centred.T @ centred + 1.0)


def full_rank_basis(rows: Array) -> Array:
    """Appendix D: least error for the queries as they are; centred afterwards, it is not the best any more.

    Guarantees: the_full_rank_trick_loses_half.
    """
    return best_rows(rows.T @ rows)


@cache
def prefix_basis(n: int) -> Array:
    """The basis of RP+ for an ordered attribute."""
    return centred_basis(np.tri(n))


def rp_plus(work: Workload, ordered: Iterable[str]) -> Plan:
    """RP+ at privacy cost 1, with prefix bases on the named attributes."""
    size = dict(zip(work.domain.names, work.domain.shape, strict=True))
    bases = {name: prefix_basis(size[name]) for name in ordered}
    return plan(work, Budget(mu=1), solver="basis", baseline="uniform", bases=bases)


def printed_for_ranges(ranges: Workload, prefixes: Workload) -> float:
    """RMSE of ranges from the noise levels that are best for prefixes: the printed ranges of table 4 are these.

    RP+ planned for the ranges themselves is better, and with a basis for ranges it is next to QuerySmasher
    (docs/errata.md).
    """
    names = ranges.domain.names
    own, other = rp_plus(ranges, names), rp_plus(prefixes, names)
    noise = dict(zip(other.design.structure.orbits, other.noise_variances.tolist(), strict=True))
    design = own.design
    parts = zip(design.structure.orbits, design.members.tolist(), design.losses.tolist(), strict=True)
    return sqrt(sum(members * noise[orbit] * loss for orbit, members, loss in parts) / own.queries)
