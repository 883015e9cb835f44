"""One door to all solvers: a Gram and its attributes in, a strategy at privacy cost 1 out, each problem solved once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from leastnoise._types import Array
from leastnoise.algebra.gram import Gram, Kron, LowRank, Sum
from leastnoise.domain.restrictions import Mask
from leastnoise.errors import LeastnoiseError
from leastnoise.strategies.beside import solve_beside
from leastnoise.strategies.custom import StrategyConstructor, solve_custom
from leastnoise.strategies.eigen import solve_eigen
from leastnoise.strategies.fixed import BUILDERS, basis_strategy, fixed_strategy, solve_branching
from leastnoise.strategies.fourier import solve_fourier
from leastnoise.strategies.kronecker import follows_trees, rescaled, solve_along_trees, solve_kronecker
from leastnoise.strategies.large import solve_large
from leastnoise.strategies.loosened import loosened
from leastnoise.strategies.optimal import GAP, solve_optimal
from leastnoise.strategies.restricted import solve_restricted
from leastnoise.strategies.strategy import KronStrategy, ScaledKron, Solution, Strategy, product_of
from leastnoise.strategies.tree import solve_tree

DENSE_CELLS = 4_096  # cells up to which a Gram without structure is solved densely
LARGE_CELLS = 1_000  # cells from which an eigendecomposition takes long enough to look for symmetries first
LOOSE_CELLS = 500  # cells above which an unstructured solve is expensive enough to prepare
DEAR_CELLS, DEAR_GAP = 1_500, 3e-5  # above so many cells a step takes seconds: stop at this gap
CACHE_BYTES = 512 * 2**20

SOLVERS = (
    "optimal",
    "fourier",
    "subtraction",
    "basis",
    "identity",
    "hierarchical",
    "branching",
    "wavelet",
    "eigen",
    "kronecker",
    "tree",
)


@dataclass(frozen=True, eq=False)
class Axis:
    """What a solver may know of one attribute: its baseline and, for `basis`, the user's rows."""

    baseline: Array
    key: Hashable
    basis: Array | None = None


class Cache:
    """Solutions by content, least recently used dropped beyond a memory limit."""

    def __init__(self, limit: int = CACHE_BYTES):
        self.limit, self.used = limit, 0
        self._items: OrderedDict[Hashable, tuple[Solution, int]] = OrderedDict()

    def get(self, key: Hashable) -> Solution | None:
        """The stored solution, if any."""
        if key not in self._items:
            return None
        self._items.move_to_end(key)
        return self._items[key][0]

    def put(self, key: Hashable, solution: Solution) -> Solution:
        """Store and return."""
        size = _bytes(solution.strategy)
        self.used -= self._items.pop(key, (solution, 0))[1]
        self._items[key] = (solution, size)
        self.used += size
        while self.used > self.limit and len(self._items) > 1:
            _, (_, dropped) = self._items.popitem(last=False)
            self.used -= dropped
        return solution

    def clear(self) -> None:
        """Forget everything."""
        self._items.clear()
        self.used = 0


def _bytes(strategy: Strategy) -> int:
    """Memory of a solution: its strategy, with the inverse and the slope of the same size."""
    own = getattr(strategy, "rows", getattr(strategy, "theta", None))
    return 1_000 if own is None else 3 * int(own.nbytes)


@dataclass
class Solver:
    """A named way to choose strategies; `solve` gives the strategy for one residual."""

    name: str = "optimal"
    gap: float = GAP
    cache: Cache = field(default_factory=Cache)
    warm: dict[Hashable, Array] = field(default_factory=dict)
    solves: int = 0
    work: float = 0.0  # floating-point operations spent so far, roughly
    construct: StrategyConstructor | None = None  # a user's own way, in place of a named one
    known: Cache | None = None  # solutions of others, taken as if solved here
    loosen: bool = False  # search the rows of large sums, too, which takes seconds
    beside: bool = False  # measure queries of low rank beside products, where rows are added or removed one by one

    def __post_init__(self) -> None:
        if self.construct is None and self.name not in SOLVERS:
            raise LeastnoiseError(f"unknown solver {self.name!r}; use one of {', '.join(SOLVERS)}")

    def solve(self, gram: Gram, axes: tuple[Axis, ...], hint: Hashable = None) -> Solution:
        """Strategy for the Gram at privacy cost 1; `hint` names the place for warm starts."""
        if self.name in BUILDERS or self.name == "basis":
            return self._fixed(gram, axes)
        if isinstance(gram, Kron):
            return self._product(gram, axes, hint)
        return self._cached(gram, axes, hint)

    def restricted(self, gram: Gram, possible: Mask, plain: Solution) -> Solution:
        """The same where only some cells are possible, from the strategy for all of them."""
        if self.construct is not None or self.name != "optimal":
            return replace(plain, floor=0.0)
        key = ("restricted", self.gap, gram.key, possible.tobytes())
        found = self.cache.get(key)
        return self.cache.put(key, solve_restricted(gram, possible, plain, self.gap)) if found is None else found

    def _product(self, gram: Kron, axes: tuple[Axis, ...], hint: Hashable) -> Solution:
        # both the primal and the dual of a Kronecker product multiply (docs/theory.md)
        parts = [
            self._cached(Kron((f,)), (axis,), (hint, i))
            for i, (f, axis) in enumerate(zip(gram.factors, axes, strict=True))
        ]
        if len(parts) == 1:
            return parts[0]
        strategy = product_of([p.strategy for p in parts])
        slopes = [p.slope for p in parts if p.slope is not None]
        slope = product_of(slopes) if len(slopes) == len(parts) else None
        return Solution(strategy, prod(p.error for p in parts), prod(p.floor for p in parts), slope=slope)

    def _fixed(self, gram: Gram, axes: tuple[Axis, ...]) -> Solution:
        parts: list[Strategy] = []
        for axis in axes:
            key = (self.name, axis.key)
            solution = self.cache.get(key)
            if solution is None:
                result = (
                    basis_strategy(axis.baseline, axis.basis)
                    if self.name == "basis"
                    else fixed_strategy(self.name, axis.baseline)
                )
                solution = self.cache.put(key, Solution(result, 0.0, 0.0))
            parts.append(solution.strategy)
        strategy = product_of(parts)
        return Solution(strategy, strategy.error(gram), 0.0)

    def _cached(self, gram: Gram, axes: tuple[Axis, ...], hint: Hashable) -> Solution:
        key = (self.name, self.gap, gram.key, gram.cells > DENSE_CELLS and (self.loosen, self.beside))
        result = self.cache.get(key)
        if result is not None:
            return result
        solution = None if self.known is None or hint in self.warm else self.known.get(key)
        solution = self._solve(gram, axes, self.warm.get(hint)) if solution is None else solution
        self.solves += 1
        self.work += solution.work
        if solution.dual is not None:
            self.warm[hint] = solution.dual
        return self.cache.put(key, solution)

    def _solve(self, gram: Gram, axes: tuple[Axis, ...], start: Array | None) -> Solution:
        if self.construct is not None:
            self._need_dense(gram)
            return solve_custom(self.construct, gram, tuple(a.baseline for a in axes))
        if isinstance(gram, Kron) and (load := gram.factors[0].load) is not None:
            return solve_tree(load)
        if follows_trees(gram):
            return solve_along_trees(gram, self.gap)
        if self.name == "fourier":
            self._need_uniform(gram, axes)
            return solve_fourier(gram)
        if self.name == "eigen":
            self._need_dense(gram)
            return solve_eigen(gram, self.gap)
        baselines = tuple(a.baseline for a in axes)
        if self.name == "branching":
            return solve_branching(gram, baselines)
        if self.name == "kronecker" and not isinstance(gram, Kron):
            return solve_kronecker(gram, baselines, self.gap)
        if circulant(gram):
            return closed_form(gram)
        if thin(gram):
            return solve_optimal(gram, self.gap, start)
        if isinstance(gram, Kron) or gram.cells <= DENSE_CELLS:
            return self._dense(gram, baselines, start)
        plain = best_structured(gram, baselines, self.gap, self.loosen)
        more = (
            solve_beside(gram, lambda g: self.solve(g, axes, ("beside", gram.key)), plain.floor)
            if self.beside
            else None
        )
        if more is None or more.error < plain.error:
            return plain if more is None else more
        return replace(plain, floor=min(max(plain.floor, more.floor), plain.error))

    def _dense(self, gram: Gram, baselines: tuple[Array, ...], start: Array | None) -> Solution:
        starts = [] if start is None else [start]
        if not isinstance(gram, Kron) and gram.cells > (LOOSE_CELLS if start is None else LARGE_CELLS):
            product = solve_kronecker(gram, baselines, 1e-3).dual  # cheap, and close
            starts += [] if product is None else [product]
        if gram.cells < LARGE_CELLS:
            return solve_optimal(gram, self.gap, starts[0] if starts else None)
        return solve_large(gram, max(self.gap, DEAR_GAP) if gram.cells > DEAR_CELLS else self.gap, *starts)

    def _need_uniform(self, gram: Gram, axes: tuple[Axis, ...]) -> None:
        """Coefficients that do not vanish on the baseline are measured by dense rows."""
        if gram.cells > DENSE_CELLS and any(np.ptp(axis.baseline) > 0 for axis in axes):
            raise LeastnoiseError(
                f"solver 'fourier' takes a baseline of your own on {DENSE_CELLS:,} cells at most, not {gram.cells:,}; "
                "use baseline 'uniform'"
            )

    def _need_dense(self, gram: Gram) -> None:
        if gram.cells > DENSE_CELLS:
            raise LeastnoiseError(
                f"solver {self.name!r} needs a dense {gram.cells:,} x {gram.cells:,} array "
                f"({8 * gram.cells**2 / 1e9:,.0f} GB); use solver 'optimal' or 'kronecker'"
            )


def circulant(gram: Gram) -> bool:
    """Whether all shifts along any cycle leave the Gram as it is."""
    if isinstance(gram, Sum):
        return all(circulant(term) for _, term in gram.terms)
    return isinstance(gram, Kron) and all(f.circulant for f in gram.factors)


def closed_form(gram: Gram) -> Solution:
    """The optimum where the Gram is circulant: the dual at uniform weights equals the error of the Fourier strategy."""
    waves = solve_fourier(gram)
    return Solution(waves.strategy, waves.error, waves.error, np.full(gram.cells, 1 / gram.cells), waves.strategy)


def thin(gram: Gram) -> bool:
    """Low rank enough for a direct solve: the rows and one rank x rank problem."""
    return isinstance(gram, LowRank) and len(gram.rows) <= DENSE_CELLS


def best_structured(gram: Gram, baselines: tuple[Array, ...], gap: float, loosen: bool = True) -> Solution:
    """For sums too large to be dense: the better of a rescaled product and a Fourier strategy, with an honest floor."""
    product = rescaled(gram, solve_kronecker(gram, baselines, gap), gap)
    product = _loosened(gram, product) if loosen else product
    if not all(np.allclose(p, 1 / len(p)) for p in baselines):
        return product  # the Fourier basis is orthogonal to the uniform baseline only
    waves = solve_fourier(gram)
    return product if product.error <= waves.error else Solution(waves.strategy, waves.error, product.floor)


def _loosened(gram: Gram, product: Solution) -> Solution:
    """The better of product measurements and those that a descent from them finds."""
    start = product.strategy
    found = loosened(gram, start) if isinstance(start, ScaledKron | KronStrategy) else None
    error = np.inf if found is None else found.error(gram)
    return product if found is None or error >= product.error else Solution(found, error, min(product.floor, error))
