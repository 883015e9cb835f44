"""The optimal strategy for a Gram of many cells without structure, where an eigendecomposition takes seconds.

The same climb as in `optimal`, with the same two bounds at every step, on

    M = (S^1/2 G S^1/2)^1/2,    t = tr M,    v = diag(S^-1/2 M S^-1/2)

itself: with rows R of G, two products of matrices would come to each decomposition. Three things make it quicker:
M is decomposed in the blocks that symmetries of G leave (`symmetry`); the first step of L-BFGS has the length of the
gradient, which is that of the fixed point s <- s v / t (docs/theory.md, the search), not 1; and the weights that the
search ends with come with their decomposition.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh, eigvalsh

from leastnoise._types import Array, IntArray
from leastnoise.algebra.gram import Gram
from leastnoise.strategies.optimal import GAP, MAX_STEPS, MIX, climb, fixed_point, solve_optimal
from leastnoise.strategies.strategy import MatrixStrategy, Slope, Solution
from leastnoise.strategies.symmetry import Block, alike, blocks, symmetries

NOTHING = 1e-12  # relative power of directions that no query asks for
EVEN = 1e-3  # least weight of a cell at the start, relative to the mean
OPERATIONS = 9.0  # of an eigendecomposition, times the third power of its size

Roots = list[tuple[Array, Array]]  # per block: singular values D and vectors Z of R S^1/2


@dataclass(frozen=True)
class Part:
    """A block of a Gram."""

    block: Block
    gram: Array
    empty: int  # directions that no query asks for

    def roots(self, s: Array) -> tuple[Array, Array]:
        """D and Z with M = Z D Z^T."""
        root = np.sqrt(s[self.block.cells])
        w, Z = eigh(self.gram * root * root[:, None], overwrite_a=True, check_finite=False, driver="evd")
        return np.sqrt(np.maximum(w[self.empty :], w[-1] * 1e-15)), Z[:, self.empty :]

    def rows(self, s: Array, D: Array, Z: Array) -> Array:
        """D Z^T S^-1/2, without a division by weights that vanish: M is S^1/2 G S^1/2 M^-1."""
        return np.asarray((Z * np.sqrt(s[self.block.cells])[:, None] / D).T @ self.gram)


@dataclass
class LargeSearch:
    """State of one dual climb: the best bounds seen and where."""

    parts: list[Part]
    gap: float
    lower: float = 0.0
    upper: float = np.inf
    steps: int = 0
    weights: Array | None = None  # s of the best upper bound
    dual: Array | None = None  # s of the best lower bound
    decomposed: dict[str, Roots] = field(default_factory=dict)  # at both
    last: tuple[Array, float, Array] | None = None  # s, t and v of the last step

    def evaluate(self, s: Array) -> tuple[float, Array]:
        """t and v at s, recording the bounds."""
        if self.last is not None and np.allclose(s, self.last[0], rtol=1e-12, atol=0):
            return self.last[1:]
        mixed = (1 - MIX) * s + MIX / len(s)
        found = [part.roots(mixed) for part in self.parts]
        t = float(sum(D.sum() for D, _ in found))
        v: Array = sum(
            (p.block.spread((Z * Z) @ D / mixed[p.block.cells]) for p, (D, Z) in zip(self.parts, found, strict=True)),
            np.zeros(len(s)),
        )
        self.steps, self.last = self.steps + 1, (s, t, v)
        if t * t > self.lower:
            self.lower, self.dual, self.decomposed["dual"] = t * t, mixed, found
        if t * v.max() < self.upper:
            self.upper, self.weights, self.decomposed["weights"] = t * float(v.max()), mixed, found
        return t, v

    @property
    def done(self) -> bool:
        return self.upper <= self.lower * (1 + self.gap)

    @property
    def rank(self) -> int:
        """Directions that queries ask for."""
        return sum(len(p.gram) - p.empty for p in self.parts)

    @property
    def step_work(self) -> float:
        """Floating-point operations of one step, roughly."""
        return OPERATIONS * sum(float(len(p.gram)) ** 3 for p in self.parts)


def solve_large(gram: Gram, gap: float = GAP, *starts: Array) -> Solution:
    """Strategy of least tr(G V^+) at privacy cost 1, proven optimal to the relative `gap`; as `solve_optimal`.

    Guarantees: large_grams_have_the_same_optimum; no_solver_beats_the_optimum_or_its_own_floor.
    """
    search, permutations = _search(gram, gap)
    if search.rank**2 * (4 * gram.cells + OPERATIONS * search.rank) < search.step_work:
        return solve_optimal(gram, gap, starts[0] if starts else None)  # few rows: decomposed row by row
    s, t, v = _best_start(search, permutations, gram.cells, starts)
    if not search.done:
        length = float(np.linalg.norm(np.sqrt(s) * (v - v @ s))) / t  # of the gradient of log t
        climb(search, s, MAX_STEPS, scale=1 / max(length, np.finfo(float).tiny))
    if not search.done and search.weights is not None:  # stalled at rounding level
        fixed_point(search, search.weights, search.steps + 200)
    return _solution(gram, search)


def _best_start(
    search: LargeSearch, permutations: list[IntArray], cells: int, starts: tuple[Array, ...]
) -> tuple[Array, float, Array]:
    """The weights with the largest lower bound, their t and v; the last ones evaluated, which are free to repeat."""
    even = np.full(cells, 1 / cells)
    tried = []
    for start in [start for start in starts if len(start) == cells] or [even]:
        s = alike(np.maximum(start, EVEN * even), permutations)
        tried.append((s / s.sum(), *search.evaluate(s / s.sum())))
    best = max(tried, key=lambda found: found[1])
    search.last = best
    return best


def _search(gram: Gram, gap: float) -> tuple[LargeSearch, list[IntArray]]:
    G = gram.dense()
    permutations = symmetries(G, gram.shape)
    split = blocks(gram.cells, permutations)
    grams = [b.folded(G) for b in split] if permutations else [G]
    powers = [eigvalsh(g, check_finite=False) for g in grams]
    least = NOTHING * max(float(w[-1]) for w in powers)
    parts = [Part(b, g, int(np.sum(w <= least))) for b, g, w in zip(split, grams, powers, strict=True) if w[-1] > least]
    return LargeSearch(parts, gap), permutations


def _solution(gram: Gram, search: LargeSearch) -> Solution:
    assert search.weights is not None
    assert search.dual is not None
    rows, inverses, error = [], [], 0.0
    for part, (D, Z) in zip(search.parts, search.decomposed.pop("weights"), strict=True):
        B = part.rows(search.weights, D, Z) / np.sqrt(D)[:, None]
        inverse = cho_solve(cho_factor(B @ B.T), B).T
        error += float(np.vdot(inverse, part.gram @ inverse))
        rows.append(part.block.unfolded(B))
        inverses.append(part.block.unfolded(inverse.T))
    matrix = np.concatenate(rows)
    cost = float(np.einsum("kx,kx->x", matrix, matrix).max())
    strategy = MatrixStrategy(matrix / np.sqrt(cost), gram.shape, np.concatenate(inverses).T * np.sqrt(cost))
    error *= cost
    lower, slope = min(search.lower, error), _slope(gram, search)
    return Solution(strategy, error, lower, search.dual, slope, search.steps, search.steps * search.step_work)


def _slope(gram: Gram, search: LargeSearch) -> Slope:
    """dL/dG = t S^1/2 M^+ S^1/2, exact by Danskin's theorem at the s that maximizes the dual."""
    s, found = search.dual, search.decomposed["dual"]
    assert s is not None
    t = sum(float(D.sum()) for D, _ in found)
    rows = [
        p.block.unfolded(np.sqrt(t / D)[:, None] * (Z * np.sqrt(s[p.block.cells])[:, None]).T)
        for p, (D, Z) in zip(search.parts, found, strict=True)
    ]
    return Slope(np.concatenate(rows), gram.shape)
