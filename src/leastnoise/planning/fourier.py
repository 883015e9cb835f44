"""WFF's complex factorization of marginal and cyclic queries, which attains their least error, and its weights p*."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import inf, prod
from typing import cast

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array, IntArray
from leastnoise.domain.attributes import Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.planning.design import Question
from leastnoise.planning.embedding import Shifts, embed
from leastnoise.planning.factorization import guard
from leastnoise.planning.fourier_bound import MonotoneNorm, best_bound, best_weights_for, fourier_bound
from leastnoise.planning.objective import Objective, query_weights
from leastnoise.planning.structure import build_structure
from leastnoise.workload import Block, Workload
from leastnoise.workload.families import Cyclic, Marginal, Prefix, Threshold, Total

ComplexArray = npt.NDArray[np.complex128]


@dataclass(frozen=True)
class TableWeight:
    """WFF's weight p(S) of one table: the weight of its queries, all together."""

    attributes: tuple[str, ...]
    family: str
    p: float


@dataclass(frozen=True)
class _FourierTable:
    """All queries on one set of attributes: weight per query, and the Fourier transforms of their functions."""

    subset: tuple[int, ...]
    family: str
    weight: float
    phi_hat: tuple[ComplexArray, ...]
    shifts: tuple[IntArray, ...]  # that are queries, along each attribute

    @property
    def queries(self) -> int:
        """All shifts, whether they are queries or not: they have the same variance."""
        return prod(map(len, self.phi_hat))

    @property
    def rows(self) -> IntArray:
        """The queries among all shifts."""
        grid = np.ix_(*self.shifts)
        return np.ravel_multi_index(grid, tuple(map(len, self.phi_hat))).ravel() if grid else np.zeros(1, dtype=int)

    def coefficients(self, frequencies: npt.NDArray[np.int64]) -> ComplexArray:
        """Product of phi_hat(a_j) over the attributes / queries per row a, 0 where a lives on other attributes."""
        others = np.delete(frequencies, self.subset, axis=1)
        out = np.where(others.any(axis=1), 0, 1 / self.queries).astype(np.complex128)
        for j, hat in zip(self.subset, self.phi_hat, strict=True):
            out *= hat[frequencies[:, j]]
        return out


def fourier_weights(workload: Workload, objective: object = "sum") -> tuple[TableWeight, ...]:
    """The weights of WFF's mechanism for an objective, table by table.

    For `max` these are p* of WFF equations 6 and 12 (Lemmas 3.9, 4.2, 5.4 and 5.6), which sum to 1: the weighted sum of
    variances that is hardest to keep small. For `sum` they are the stated ones, scaled to sum to 1; for {"lr": r} those
    of Remark 3.12, of dual norm 1 (docs/errata.md). Any other monotone norm of the variances, one per table in the
    order of the result, is given by a function that returns the norm and its slope: m with m . variances = norm.

    >>> import leastnoise as ln
    >>> work = ln.Workload(ln.Domain.of(a=2, b=2)).marginals(ways=1)
    >>> [round(table.p, 3) for table in fourier_weights(work, "max")]
    [0.5, 0.5]
    """
    names, tables = workload.domain.names, _tables(_on_cycles(workload, objective), objective)
    stated = not callable(objective) and Objective.of(objective).r == 1
    scale = sum(t.weight * t.queries for t in tables) if stated else 1.0
    return tuple(TableWeight(tuple(names[a] for a in t.subset), t.family, t.weight * t.queries / scale) for t in tables)


def fourier_factorization(workload: Workload, objective: object = "sum") -> tuple[ComplexArray, ComplexArray]:
    """WFF's complex factorization W = L R (equations 18 and 22) for marginal and cyclic product queries.

    The columns of R have norm 1, and no factorization has a smaller objective: the weighted sum of the squared row
    norms of L for `sum`, the largest row norm for `max`, the norm in between for {"lr": r}. Extended marginals (prefix
    and suffix queries on some attributes) have the factorization of Theorem 4.8, which is the best on doubled cycles
    and nearly the best there is.
    """
    wide = _on_cycles(workload, objective)
    shape = wide.domain.shape
    guard(workload.queries, prod(shape))
    tables = _tables(wide, objective)
    frequencies = np.array(list(product(*map(range, shape))), dtype=np.int64).reshape(-1, len(shape))
    per_table = [t.coefficients(frequencies) for t in tables]
    tau = np.sqrt(sum(t.weight * t.queries * np.abs(c) ** 2 for t, c in zip(tables, per_table, strict=True)))
    used = np.flatnonzero(tau > 1e-14 * tau.max())
    for table, c in zip(tables, per_table, strict=True):
        _in_reach(workload, table, np.delete(c, used), c)
    share = np.sqrt(tau[used] / tau.sum())
    R = share[:, None] * _characters(frequencies[used], shape, workload.domain.shape).conj()
    rows = [
        _characters(frequencies[used][:, t.subset], sizes, sizes).T[t.rows] * c[used] / share
        for t, c in zip(tables, per_table, strict=True)
        for sizes in [tuple(shape[a] for a in t.subset)]
    ]
    return np.concatenate(rows), R


def _tables(workload: Workload, objective: object) -> list[_FourierTable]:
    if not all(isinstance(f, Marginal | Cyclic | Shifts | Total) for b in workload.blocks for f in _families(b)):
        raise LeastnoiseError(
            "WFF's factorization is for marginal and cyclic (phi) queries, and for prefix and suffix queries on "
            "attributes without others; use plan.factorization() for others"
        )
    places = [(number, subset) for number, block in enumerate(workload.blocks) for subset in block.subsets()]
    tables = [_table(workload, workload.blocks[number], subset) for number, subset in places]
    all_shifts = replace(workload, blocks=tuple(map(_with_all_shifts, workload.blocks)))
    structure = build_structure(all_shifts, lambda attribute: attribute)  # a norm may tell like tables apart
    index = {(t.block, t.axes): i for i, t in enumerate(structure.tables)}
    order = [index[number, tuple(sorted(structure.class_of[a] for a in subset))] for number, subset in places]
    if callable(objective):
        queries = np.array([t.queries for t in tables], dtype=np.float64)
        bound = fourier_bound(structure, structure.stated).reordered(order)
        best = best_weights_for(bound, queries, _checked(cast(MonotoneNorm, objective)))
    else:
        question = Question(structure, query_weights(structure, Objective(1.0)), structure.stated)
        best = best_bound(question, Objective.of(objective))[1][order]
    return [replace(table, weight=float(weight)) for table, weight in zip(tables, best, strict=True)]


def _on_cycles(workload: Workload, objective: object) -> Workload:
    """Prefix and suffix queries as shifts on doubled cycles (WFF Theorem 4.8), one table at a time.

    Weights are those of all shifts of a half circle together, where only some of them are queries. All have the same
    variance: under `sum` and `lr` they share the weight of the queries, under `max` and other norms, which take one
    variance of each table, nothing changes.
    """
    if not any(isinstance(f, Prefix | Threshold) for b in workload.blocks for f in _families(b)):
        return workload
    r = inf if callable(objective) else Objective.of(objective).r
    try:
        wide = embed(workload)
    except LeastnoiseError:  # queries of another kind, which are refused below with all such
        return workload
    blocks = [_table_block(block, subset, wide.domain, r) for block in wide.blocks for subset in block.subsets()]
    return replace(wide, blocks=tuple(blocks))


def _table_block(block: Block, subset: tuple[int, ...], domain: Domain, r: float) -> Block:
    families = tuple(block.family(a) for a in subset)
    shares = [len(f.shifts) / domain.shape[a] for a, f in zip(subset, families, strict=True) if isinstance(f, Shifts)]
    weight = block.weight * prod(shares) if r < inf else block.weight
    return replace(block, on=subset, ways=len(subset), families=families, weight=weight)


def _with_all_shifts(block: Block) -> Block:
    families = map(block.family, block.on)
    return replace(block, families=tuple(Cyclic(f.phi) if isinstance(f, Shifts) else f for f in families))


def _in_reach(workload: Workload, table: _FourierTable, left: ComplexArray, all_of_it: ComplexArray) -> None:
    """Tables of weight 0 come for free where tables with weight contain them, and not at all otherwise (WFF 3.3)."""
    if np.abs(left).max(initial=0.0) > 1e-12 * np.abs(all_of_it).max():
        names = " x ".join(workload.domain.names[a] for a in table.subset)
        raise LeastnoiseError(
            f"the table of {names} has weight 0 and needs more than the tables with weight; give it some weight"
        )


def _checked(norm: MonotoneNorm) -> MonotoneNorm:
    """The same norm; slopes that cannot be those of a monotone norm are refused, since bounds rest on them."""

    def checked(variances: Array) -> tuple[float, Array]:
        value, slope = norm(variances)
        array = np.asarray(slope, dtype=np.float64)
        if array.shape != variances.shape or (array < 0).any() or not np.isclose(array @ variances, value, rtol=1e-9):
            raise LeastnoiseError(
                f"the norm's slope does not fit its value {value:g}; return one number of at least 0 per table, "
                "so that slope . variances is the norm"
            )
        return value, array

    return checked


def _families(block: Block) -> tuple[object, ...]:
    return tuple(map(block.family, block.on)) if block.is_product else (block.tensor,)


def _table(workload: Workload, block: Block, subset: tuple[int, ...]) -> _FourierTable:
    axes = tuple(a for a in subset if not isinstance(block.family(a), Total))  # the total leaves an attribute out
    pairs = [(block.family(a), workload.domain.shape[a]) for a in axes]
    shifts = tuple(f.shifts if isinstance(f, Shifts) else np.arange(n) for f, n in pairs)
    return _FourierTable(axes, block.label, block.weight, tuple(_phi_hat(f, n) for f, n in pairs), shifts)


def _phi_hat(family: object, n: int) -> ComplexArray:
    return np.fft.fft(family.phi) if isinstance(family, Cyclic | Shifts) else np.ones(n, dtype=np.complex128)


def _characters(frequencies: IntArray, shape: tuple[int, ...], cells: tuple[int, ...]) -> ComplexArray:
    """chi_a(x) for every frequency a (a row) on cycles of this shape, and every cell x among the first ones."""
    out = np.ones((len(frequencies), 1), dtype=np.complex128)
    for j, (n, m) in enumerate(zip(shape, cells, strict=True)):
        wave = np.exp(2j * np.pi * np.outer(frequencies[:, j], np.arange(m)) / n)
        out = (out[:, :, None] * wave[:, None, :]).reshape(len(frequencies), -1)
    return out
