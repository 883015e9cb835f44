"""Plans of QuerySmasher, ResidualPlanner, ResidualPlanner+ and HDMM, by their own code where it is on the module path.

Each is called as the experiments of its authors do and says the summed variance of all queries at privacy cost 1; on a
tiny domain also what it measures, so that cost and variance can be recomputed. Nothing of theirs is copied here.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from importlib import import_module
from importlib.util import find_spec
from math import sqrt
from typing import Any, ClassVar

import numpy as np
from scipy.sparse.linalg import LinearOperator

from bench.alone import Limits, Run, run_alone
from bench.floor_cases import Question, marginalization
from leastnoise._types import Array

LARGEST_CUBE = 12  # attributes up to which HDMM's marginals are searched: it has a number for each set of them
LARGEST_JOINT = 1000  # residual cells of a pair that is no product, up to which QuerySmasher is asked


@dataclass(frozen=True)
class Outcome:
    """What a mechanism says of itself, and on a tiny domain what it is."""

    variance: float  # summed over all queries, at privacy cost 1
    precision: Array | None = None  # B^T Sigma^-1 B over all cells
    remark: str = ""

    def rmse(self, queries: int) -> float:
        """At privacy cost 1."""
        return sqrt(self.variance / queries)


def rmse_of(gram: Array, precision: Array, queries: int) -> float:
    """RMSE at privacy cost 1 of least squares from measurements with this B^T Sigma^-1 B, from the definition.

    The privacy cost is the largest diagonal entry, the summed variance tr(G V^+). Queries must be answerable.
    """
    inverse = np.linalg.pinv(precision, rcond=1e-9, hermitian=True)
    if not np.allclose(gram @ inverse @ precision, gram, atol=1e-6 * np.abs(gram).max()):
        raise ValueError("these measurements do not answer all queries; measure more")
    return sqrt(float(np.vdot(gram, inverse)) * float(np.diag(precision).max()) / queries)


class Peer(ABC):
    """A mechanism by others."""

    name: str
    modules: tuple[str, ...]  # that must be importable
    source: str  # the public repository

    def available(self) -> bool:
        """Whether its code and what that needs are on the module path."""
        return all(find_spec(m) is not None for m in self.modules)

    def load(self) -> None:
        """Import what it needs, so that this is not timed."""
        for module in self.modules:
            import_module(module)

    @abstractmethod
    def refuses(self, question: Question) -> str:
        """Why it cannot answer this, or nothing."""

    @abstractmethod
    def plan(self, question: Question, dense: bool = False) -> Outcome:
        """Its plan at privacy cost 1."""


class QuerySmasher(Peer):
    """As in exp/paper_*.py: the convex solver, products as products."""

    name = "QuerySmasher"
    modules = ("smasher", "torch")
    source = "cmla-psu/QuerySmasherMatrixMechanism"

    def refuses(self, question: Question) -> str:
        joint = [t for t in question.tables if not t.is_product]
        cells = max((int(np.prod([question.sizes[i] - 1 for i in t.attributes])) for t in joint), default=0)
        return f"{cells:,} residual cells of a pair take it too long here" if cells > LARGEST_JOINT else ""

    def plan(self, question: Question, dense: bool = False) -> Outcome:
        from query import KronQuery, MatrixQuery  # type: ignore[import-not-found, unused-ignore]
        from smasher import Smasher  # type: ignore[import-not-found, unused-ignore]

        sizes = list(question.sizes)
        system = Smasher(sizes, privacy_cost=1.0, default_solver="convex", verbose=False)
        for table in question.tables:
            rows = table.matrices(question.sizes)
            product = len(rows) > 1
            query = KronQuery(sizes, table.attributes, rows) if product else MatrixQuery(sizes, table.attributes, *rows)
            system.add_queries_to_workload([query])
        system.optimize()
        return Outcome(float(system.workload_variance()), self._precision(question, system) if dense else None)

    @staticmethod
    def _precision(question: Question, system: Any) -> Array:
        total = np.zeros((int(np.prod(question.sizes)),) * 2)
        for attributes, solver in system.solvers.items():
            count = marginalization(attributes, question.sizes)
            measured = np.array([solver.measure(cell, add_noise=False) for cell in np.eye(len(count))]).T
            if np.iscomplexobj(measured):
                raise ValueError(f"QuerySmasher took its Fourier solver for {attributes}; check on another domain")
            B = measured @ count
            total += B.T @ B / solver.noise_scale
        return total


class ResidualPlannerPlus(Peer):
    """As in experiments/exp_large_dataset.py: the sum of variances that its own planner reports."""

    name = "RP+"
    modules = ("resplan", "gurobipy")
    source = "cmla-psu/ResidualPlannerPlus"
    bases: ClassVar = {"marginal": "I", "prefix": "P", "range": "R"}

    def refuses(self, question: Question) -> str:
        kinds: dict[int, str] = {}  # it keeps one basis for each size
        for table in question.tables:
            if not table.is_product or not set(table.kinds) <= set(self.bases):
                return "not of these queries"
            for i, kind in zip(table.attributes, table.kinds, strict=True):
                if kinds.setdefault(question.sizes[i], kind) != kind:
                    return "one kind of queries for each size only"
        return ""

    def plan(self, question: Question, dense: bool = False) -> Outcome:
        from resplan.ResPlan import ResPlanSum  # type: ignore[import-not-found, unused-ignore]

        kinds = {i: k for t in question.tables for i, k in zip(t.attributes, t.kinds, strict=True)}
        bases = [self.bases[kinds[i]] for i in range(len(question.sizes))]
        system = ResPlanSum(list(question.sizes), bases)
        for table in question.tables:
            system.input_mech(table.attributes)
        variance = float(system.get_noise_level())
        return Outcome(variance, self._precision(question, system) if dense else None)

    @staticmethod
    def _precision(question: Question, system: Any) -> Array:
        total = np.zeros((int(np.prod(question.sizes)),) * 2)
        for attributes, residual in system.res_dict.items():
            count = marginalization(attributes, question.sizes)
            B = reduce(np.kron, residual.res_mat_list, np.eye(1)) @ count
            root = reduce(np.kron, residual.gamma_mat_list, np.eye(1))
            total += B.T @ np.linalg.inv(root @ root.T) @ B / residual.noise_level
        return total


class ResidualPlanner(Peer):
    """The earlier one, for marginals; its modules are in residual_planner/selection_only."""

    name = "RP"
    modules = ("class_sumvar", "gurobipy", "cvxpy")
    source = "dkifer/ResidualPlanner"

    def refuses(self, question: Question) -> str:
        return "" if all(set(t.kinds) == {"marginal"} for t in question.tables) else "marginals only"

    def plan(self, question: Question, dense: bool = False) -> Outcome:
        from class_sumvar import RPSumVar  # type: ignore[import-not-found, unused-ignore]

        system = RPSumVar(list(question.sizes))
        for table in question.tables:
            system.input_mech(table.attributes)
        variance = float(system.get_noise_level())
        return Outcome(variance, self._precision(question, system) if dense else None)

    @staticmethod
    def _precision(question: Question, system: Any) -> Array:
        total = np.zeros((int(np.prod(question.sizes)),) * 2)
        for level, number in zip(system.var, range(len(system.var)), strict=True):
            attributes = system.id2res[number]
            # Differences of neighbouring values with their own covariance: the projection on the residual space.
            parts = [np.eye(n) - 1 / n if i in attributes else np.ones((n, n)) for i, n in enumerate(question.sizes)]
            total += reduce(np.kron, parts) / level
        return total


class HDMM(Peer):
    """Its three searches for Gaussian noise (approx=True), the best of them."""

    name = "HDMM"
    modules = ("hdmm", "hdmm.templates")
    source = "dpcomp-org/hdmm"

    def available(self) -> bool:
        return find_spec("hdmm") is not None and super().available()

    def load(self) -> None:
        super().load()
        # It takes np.abs of its matrices, which are SciPy's operators; SciPy 1.11 and later refuse that.
        with contextlib.suppress(AttributeError):
            del LinearOperator.__array_ufunc__

    def refuses(self, question: Question) -> str:
        return "" if all(t.is_product for t in question.tables) else "products only"

    def plan(self, question: Question, dense: bool = False) -> Outcome:
        from hdmm import templates  # type: ignore[import-not-found, unused-ignore]

        sizes, rows = tuple(question.sizes), self._workload(question)
        search: dict[str, Callable[[], Any]] = {
            "OPT_kron": lambda: templates.DefaultKron(sizes, True),
            "OPT_plus": lambda: templates.DefaultUnionKron(sizes, len(question.tables), True),
        }
        if len(sizes) <= LARGEST_CUBE:
            search["OPT_M"] = lambda: templates.Marginals(sizes, True)
        if len(question.tables) == 1:
            del search["OPT_plus"]
        np.random.seed(0)  # noqa: NPY002 (what it draws from)
        found: dict[str, tuple[float, Any]] = {}
        for name, make in search.items():
            template = make()
            found[name] = float(template.optimize(rows)), template
        best = min(found, key=lambda name: found[name][0])
        variance, template = found[best]
        precision = None
        if dense:
            strategy = template.strategy().dense_matrix()
            precision = np.asarray(strategy.T @ strategy)
        return Outcome(
            variance, precision, ", ".join(f"{k} {sqrt(v / question.queries):.3f}" for k, (v, _) in found.items())
        )

    @staticmethod
    def _workload(question: Question) -> Any:
        from hdmm import matrix, workload  # type: ignore[import-not-found, unused-ignore]

        named = {"marginal": workload.Identity, "prefix": workload.Prefix, "range": workload.AllRange}
        blocks = []
        for table in question.tables:
            own = dict(
                zip(table.attributes, zip(table.kinds, table.matrices(question.sizes), strict=True), strict=True)
            )
            factors = []
            for i, n in enumerate(question.sizes):
                if i not in own:
                    factors.append(workload.Total(n))
                else:
                    kind, rows = own[i]
                    factors.append(named[kind](n) if kind in named else matrix.EkteloMatrix(rows))
            blocks.append(workload.Kronecker(factors))
        return blocks[0] if len(blocks) == 1 else workload.VStack(blocks)


PEERS: tuple[Peer, ...] = (QuerySmasher(), ResidualPlannerPlus(), ResidualPlanner(), HDMM())


def plan_alone(peer: Peer, question: Question, limits: Limits, dense: bool = False) -> Run[Outcome]:
    """A plan in a process of its own."""
    return run_alone(peer.load, partial(peer.plan, question, dense), limits)


def chosen(names: Sequence[str] | None) -> list[Peer]:
    """Peers by name, all by default."""
    return [p for p in PEERS if names is None or p.name in names]
