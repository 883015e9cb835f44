"""The dense twin of a release: every measurement as a row over all cells, and generalized least squares by numpy."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import product

import numpy as np
from scipy.linalg import null_space

from leastnoise._types import Array
from leastnoise.domain.attributes import Domain
from leastnoise.release import LinearQuery
from leastnoise.release.measurements import Measurements
from leastnoise.strategies.integer import IntegerStrategy
from leastnoise.workload import Workload

ROUNDED = 1 / 12


def over_all_cells(domain: Domain, attributes: Sequence[int], rows: Array) -> Array:
    """Rows over the cells of some attributes (in that order) as rows over all cells of the domain."""
    shape = [domain.shape[a] for a in attributes]
    tensor = np.asarray(rows).reshape(-1, *shape)
    ascending = sorted(range(len(shape)), key=lambda axis: attributes[axis])
    tensor = tensor.transpose([0, *(1 + axis for axis in ascending)])
    wide = tensor.reshape(len(tensor), *(n if a in attributes else 1 for a, n in enumerate(domain.shape)))
    return np.broadcast_to(wide, (len(tensor), *domain.shape)).reshape(len(tensor), -1)


def table_rows(domain: Domain, attributes: Sequence[int]) -> Array:
    """One row per cell of a table."""
    return over_all_cells(domain, attributes, np.eye(int(np.prod([domain.shape[a] for a in attributes]))))


def query_row(query: LinearQuery) -> Array:
    """The weights of a query over all cells."""
    rows = [over_all_cells(query.domain, term.attributes, term.weights) for term in query.terms]
    return np.sum(rows, axis=0)[0] if rows else np.zeros(int(np.prod(query.domain.shape)))


def workload_rows(workload: Workload) -> Array:
    """Every query of a workload, statement by statement, table by table."""
    return np.concatenate(list(table_queries(workload)))


def table_queries(workload: Workload) -> Iterator[Array]:
    """The queries of every table as rows over all cells."""
    for block in workload.blocks:
        for subset in block.subsets():
            shape = tuple(workload.domain.shape[a] for a in subset)
            if block.is_product:
                matrices = [block.family(a).rows(n) for a, n in zip(subset, shape, strict=True)]
                rows = reduce(np.kron, matrices, np.ones((1, 1)))
            else:
                rows = block.tensor.rows(shape)
            yield over_all_cells(workload.domain, subset, rows)


def strategy_rows(strategy: IntegerStrategy) -> Array:
    """The integers of a strategy, entry by entry."""
    rows = reduce(np.kron, [p.matrix() for p in strategy.parts], np.ones((1, 1)))
    levels = 1.0 if strategy.levels is None else strategy.levels.reshape(-1, 1)
    return strategy.multiplier * levels * rows


@dataclass(frozen=True, eq=False)
class Dense:
    """All measurements of one or several releases of the same table, stacked."""

    parts: tuple[Measurements, ...]

    @property
    def domain(self) -> Domain:
        return self.parts[0].integer_plan.workload.domain

    @cached_property
    def stacked(self) -> tuple[Array, Array, Array]:
        """Rows over all cells, answers, and variances of their noise; row by row in the same order."""
        rows, answers, variances = [], [], []
        for part in self.parts:
            integer_plan = part.integer_plan
            for orbit, noisy_queries, measured in zip(
                integer_plan.structure.orbits, integer_plan.noisy_queries, part.answers, strict=True
            ):
                members = integer_plan.structure.sets(orbit).tolist()
                for noisy_query, values in zip(noisy_queries, measured, strict=True):
                    assert len(values) == len(members)
                    matrix = strategy_rows(noisy_query.strategy)
                    noise = float(noisy_query.variance) + ROUNDED if noisy_query.variance else 0.0
                    for attributes, y in zip(members, values, strict=True):
                        rows.append(over_all_cells(self.domain, attributes, matrix))
                        answers.append(np.asarray(y, dtype=np.float64))
                        variances.append(np.full(len(y), noise))
        return np.concatenate(rows), np.concatenate(answers), np.concatenate(variances)

    @cached_property
    def _solved(self) -> tuple[Array, Array]:
        """The least-squares table over all cells, and a root of its covariance (of what is measured)."""
        B, y, variances = self.stacked
        exact = variances == 0
        start, free = np.zeros(B.shape[1]), np.eye(B.shape[1])
        if exact.any():  # answers without noise hold exactly
            start, free = np.linalg.pinv(B[exact]) @ y[exact], null_space(B[exact])
        scale = 1 / np.sqrt(variances[~exact])[:, None]
        A = np.linalg.pinv(scale * B[~exact] @ free, rcond=1e-11)
        return start + free @ A @ (scale[:, 0] * (y[~exact] - B[~exact] @ start)), free @ A

    def answers(self, rows: Array) -> Array:
        """W (B^T S^-1 B)^+ B^T S^-1 y."""
        return rows @ self._solved[0]

    def covariance(self, rows: Array) -> Array:
        """W (B^T S^-1 B)^+ W^T."""
        half = rows @ self._solved[1]
        return half @ half.T

    def std_errors(self, rows: Array) -> Array:
        return np.sqrt(((rows @ self._solved[1]) ** 2).sum(axis=1))

    def reaches(self, rows: Array) -> bool:
        """Whether the measurements determine the answers."""
        B = self.stacked[0]
        B = B / np.linalg.norm(B, axis=1, keepdims=True)
        inside = rows @ np.linalg.pinv(B, rcond=1e-11) @ B
        return bool(np.abs(rows - inside).max() < 1e-7 * np.abs(rows).max())


def skewed_table(domain: Domain, seed: int = 5, scale: float = 400.0) -> Array:
    """Counts with a long tail: most cells small, a few large."""
    draws = np.random.default_rng(seed).pareto(1.2, domain.shape)
    return np.minimum(scale / 10 * draws, 100 * scale).astype(np.int64)


def subsets(count: int) -> list[tuple[int, ...]]:
    """All sets of attributes."""
    chosen = product([False, True], repeat=count)
    return [tuple(a for a, take in enumerate(pick) if take) for pick in chosen]
