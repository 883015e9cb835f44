"""HDMM (McKenna et al. 2018) for Gaussian noise: OPT_kron, OPT_plus and OPT_M on workloads of products.

Attributes that the workload treats alike have the same strategy, and alike tables are counted, so that 40 attributes
cost as much as four. On one attribute HDMM offers the best strategy of all (a convex program, for Gaussian noise) and
p-identity strategies (for Laplace noise, where the former does not exist); both are here. The printed HDMM figures of
QuerySmasher's table 4 are OPT_kron with the former for prefix and range queries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from math import comb, exp, log, prod, sqrt

import numpy as np
from scipy.optimize import minimize

from bench.rp_plus import best_rows
from leastnoise import Budget, Workload, plan
from leastnoise._types import Array
from leastnoise.errors import LeastnoiseError
from leastnoise.planning.structure import Orbit, Structure, Table, build_structure

Covariance = Array  # V^-1 on one attribute, at privacy cost 1
OneAttribute = Callable[[Array], Covariance]
STEPS, SETTLED = 200, 1e-10
RESTARTS = 5


def convex(gram: Array) -> Covariance:
    """The best strategy of all on one attribute."""
    B = best_rows(gram)
    return np.asarray(np.linalg.inv(B.T @ B))


def p_identity(gram: Array, p: int | None = None, seed: int = 0) -> Covariance:
    """The best strategy found of the form [I; Theta] D with p rows Theta >= 0 and D such that columns have norm 1.

    HDMM section 5.2 (OPT_0), with the 2-norm that Gaussian noise needs; p = n / 16 as there, at least 1.

    Guarantees: p_identity_matches_dense_and_finite_differences.
    """
    n = len(gram)
    rows, scale = p or max(1, n // 16), float(np.trace(gram))
    rng = np.random.default_rng(seed)
    results = [
        minimize(
            lambda x: p_identity_error(gram / scale, x.reshape(rows, n)),
            rng.random(rows * n),
            jac=True,
            method="L-BFGS-B",
            bounds=[(0, None)] * (rows * n),
        )
        for _ in range(RESTARTS)
    ]
    return p_identity_covariance(min(results, key=lambda r: float(r.fun)).x.reshape(rows, n))


def p_identity_covariance(theta: Array) -> Covariance:
    """V^-1 of [I; Theta] D: D^-1 (I + Theta^T Theta)^-1 D^-1."""
    d = np.sqrt(1 + (theta**2).sum(axis=0))
    return np.asarray(np.linalg.inv(np.eye(len(d)) + theta.T @ theta) * np.outer(d, d))


def p_identity_error(gram: Array, theta: Array) -> tuple[float, Array]:
    """tr(G V^-1) and its gradient in Theta."""
    d = np.sqrt(1 + (theta**2).sum(axis=0))
    R = np.linalg.inv(np.eye(len(d)) + theta.T @ theta)
    C = gram * np.outer(d, d)
    gradient = theta * (2 * (gram * R) @ d / d) - 2 * theta @ R @ C @ R
    return float(np.vdot(C, R)), gradient.ravel()


@dataclass(frozen=True)
class Products:
    """A workload of products, by classes of like attributes."""

    workload: Workload

    @cached_property
    def structure(self) -> Structure:
        """Classes, tables and residuals."""
        result = build_structure(self.workload)
        if result.has_tensors:
            raise LeastnoiseError("HDMM takes products of queries on single attributes; leave out affine and abs_diff")
        return result

    @cached_property
    def grams(self) -> list[Array]:
        """Gram matrix of each family on its attribute."""
        slots = self.structure.slots
        return [s.family.gram(self.structure.classes[s.cls].size) for s in slots]

    def weight(self, table: Table) -> float:
        """Of all its queries."""
        return table.copies * self.structure.block_of(table).weight

    def rmse(self, error: float) -> float:
        """From the summed variance."""
        return sqrt(error / self.workload.queries)


def opt_kron(work: Workload, one_attribute: OneAttribute = convex) -> float:
    """RMSE of one product of strategies over all attributes, improved class by class (HDMM section 6.1).

    The error of a table is the product of tr(G V^-1) over its attributes and of 1^T V^-1 1 over all others. Given the
    other attributes, the best strategy of one is that for a weighted sum of its queries and the total.

    Guarantees: products_match_dense.
    """
    return KronSearch(Products(work), one_attribute).best()


@dataclass
class KronSearch:
    """One strategy per class of like attributes, as far as it was improved."""

    products: Products
    one_attribute: OneAttribute
    covariances: dict[int, Covariance] = field(default_factory=dict)  # by class

    def best(self) -> float:
        """RMSE once nothing improves any more."""
        structure, value = self.products.structure, np.inf
        attributes = sum(len(c.members) for c in structure.classes)
        self.errors = np.ones(len(structure.slots))  # tr(G V^-1) by slot
        self.totals = np.ones(len(structure.classes))  # 1^T V^-1 1 by class
        for c, cls in enumerate(structure.classes):  # nearly the total alone: exponents are as large as 40
            share = 1 / (attributes + 1)
            self._set(c, np.linalg.inv((1 - share) * np.ones((cls.size, cls.size)) + share * np.eye(cls.size)))
        for _ in range(STEPS):
            for c in range(len(structure.classes)):
                self._set(c, self.one_attribute(self._gram(c)))
            before, value = value, float(np.logaddexp.reduce(self._logs()))
            if abs(before - value) < SETTLED:
                break
        return self.products.rmse(exp(value))

    def _set(self, c: int, covariance: Covariance) -> None:
        self.covariances[c] = covariance
        self.totals[c] = covariance.sum()
        for s, slot in enumerate(self.products.structure.slots):
            if slot.cls == c:
                self.errors[s] = np.vdot(self.products.grams[s], covariance)

    def _outside(self, table: Table) -> list[int]:
        """Attributes of each class that a table leaves out."""
        used = Counter(table.axes)
        return [len(cls.members) - used[c] for c, cls in enumerate(self.products.structure.classes)]

    def _logs(self) -> Array:
        """Logarithm of each table's error."""
        tables = self.products.structure.tables
        inside = [np.log(self.errors[list(t.slots or ())]).sum() for t in tables]
        outside = [float(np.dot(self._outside(t), np.log(self.totals))) for t in tables]
        weights = [log(self.products.weight(t)) for t in tables]
        return np.array(inside) + np.array(outside) + np.array(weights)

    def _gram(self, c: int) -> Array:
        """Derivative of the error in V^-1 of the class: what its strategy must be good for."""
        logs, structure = self._logs(), self.products.structure
        size = structure.classes[c].size
        gram = np.zeros((size, size))
        for share, table in zip(np.exp(logs - logs.max()).tolist(), structure.tables, strict=True):
            gram += share * self._outside(table)[c] / self.totals[c]
            for s in table.slots or ():
                if structure.slots[s].cls == c:
                    gram += share / self.errors[s] * self.products.grams[s]
        return gram / np.trace(gram)


def opt_plus(work: Workload, one_attribute: OneAttribute = convex) -> float:
    """RMSE of one product of strategies per table, each for itself, with the best shares of the budget (section 6.2).

    Guarantees: unions_match_dense.
    """
    products = Products(work)
    errors = [float(np.vdot(g, one_attribute(g))) for g in products.grams]
    roots = [
        t.copies * sqrt(products.structure.block_of(t).weight * prod(errors[s] for s in t.slots or ()))
        for t in products.structure.tables
    ]
    return products.rmse(sum(roots) ** 2)


def opt_marginals(work: Workload, signed: bool = False) -> float:
    """RMSE of marginals with the best noise levels (OPT_M, section 6.3), of the workload's tables and smaller ones.

    With `signed` B^T B may be any combination of those of marginals that is positive: ResidualPlanner's optimum.

    Guarantees: marginals_match_dense.
    """
    products = Products(work)
    design = plan(work, Budget(mu=1), solver="subtraction", baseline="uniform").design
    if signed:
        return products.rmse(design.root_total**2)
    structure = design.structure
    shares = [prod(1 - 1 / n for n in structure.shape(o)) for o in structure.orbits]
    squares = design.members * design.losses / np.array(shares)  # squared norms of the queries in each residual
    reach = np.array([[_reach(structure, a, s) for s in structure.orbits] for a in structure.orbits]) / design.members

    def error(y: Array) -> tuple[float, Array]:
        v = reach @ y
        total = float(np.sum(squares / v))
        return total * y.sum(), total - y.sum() * (squares / v**2) @ reach

    # y: privacy cost of each kind of marginal; the sum is convex in y at a fixed sum, which only scales the problem
    start = np.full(len(squares), 1 / len(squares))
    scale = error(start)[0]
    best = minimize(
        lambda y: tuple(x / scale for x in error(y)),
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[(1e-12, None)] * len(start),
        options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 10_000},
    )
    return products.rmse(scale * float(best.fun))


def _reach(structure: Structure, residual: Orbit, marginal: Orbit) -> float:
    """What the marginals of an orbit tell of one residual: how many contain it, over the cells that they add up."""
    have, wanted = Counter(residual), Counter(marginal)
    if have - wanted:
        return 0.0
    left = wanted - have
    many = prod(comb(len(structure.classes[c].members) - have[c], k) for c, k in left.items())
    return many / prod(structure.classes[c].size ** k for c, k in left.items())


def hdmm(work: Workload, one_attribute: OneAttribute = convex) -> dict[str, float]:
    """RMSE of the three searches; HDMM takes the best."""
    return {
        "kron": opt_kron(work, one_attribute),
        "plus": opt_plus(work, one_attribute),
        "marginals": opt_marginals(work),
    }
