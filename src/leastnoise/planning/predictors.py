"""The search for predictors: residual spaces of tables that are no products, jointly with the baselines.

Each predictor is held as its residual space: rows that queries leave there. Moving a baseline then moves only what goes
from single attributes to the total. With the baselines fixed, the total sum_A sqrt(L_A) is convex in what the
predictors hand down (docs/theory.md), and its slope is that of the baseline search: G_A = R^T R with R affine in what
is handed down, and dL_A = tr(X_A dG_A).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from scipy.linalg import eigh

from leastnoise._types import Array, Progress
from leastnoise.algebra.predictor import Predictor, smaller_functions
from leastnoise.algebra.residual import split, split_gradient, subsets, uniform_baselines
from leastnoise.planning.baseline import LEAST_ROUNDS, predicted_gradient
from leastnoise.planning.design import Design, Question, Solved, no_progress
from leastnoise.planning.residual_workload import Baseline, Baselines, predictable, predictors_of
from leastnoise.planning.structure import Orbit, Structure
from leastnoise.strategies import Cache, Solver
from leastnoise.strategies.descent import Stop, descend

MOST_CELLS = 2_500  # of a table with a predictor: the rows of its residual are measured one by one
MOST_ENTRIES = 2**19  # of what is handed down, all of which is searched at once
LEAST_VALUE = 1e-5  # of the largest singular value: contrasts below are left to the baselines
PHASES = ((1e-3, 15), (1e-4, 40), (1e-5, 60))  # gaps of the solver, and rounds with them
MAX_ROUNDS = sum(rounds for _, rounds in PHASES)
PATIENCE, LEAST_GAIN = 20, 3e-5  # rounds that must lower the total by so much together
MEMORY = 100  # steps that the descent looks back: few directions of many are steep
MOST_WORK = 5e10  # floating-point operations of a search: about ten seconds where residuals have 1,600 cells
TOLERANCE = 2e-9


@dataclass(frozen=True, eq=False)
class PredictorSpace:
    """Where the predictor of one residual is searched: contrasts of one symmetry, and what they may hand down.

    `rows` are what queries ask of the table, so scaled that queries are orthonormal combinations of them;
    `contrasts` see how much of each row a query has.
    """

    orbit: Orbit
    rows: Array  # (rank, *shape)
    contrasts: Array  # (rank, *shape)
    basis: Array  # (dimension, *shape): functions of fewer attributes, orthonormal

    @staticmethod
    def of_all(question: Question, orbits: Sequence[Orbit]) -> list[PredictorSpace]:
        """Those of several residuals."""
        return [space for orbit in orbits for space in PredictorSpace.of(question, orbit)]

    @staticmethod
    def of(question: Question, orbit: Orbit) -> list[PredictorSpace]:
        """The contrasts that queries on a table ask for; where attributes are alike, by what exchanging them does."""
        structure = question.structure
        shape = structure.shape(orbit)
        rows = np.concatenate(
            [
                np.sqrt(weight) * family.root(shape)
                for weight, table, family in zip(
                    question.table_weights.tolist(), structure.tables, question.requested.tensors, strict=True
                )
                if table.axes == orbit and family is not None
            ]
        )
        centred = split(rows, uniform_baselines(shape), range(len(shape)))
        scale = float(np.linalg.norm(centred.reshape(len(centred), -1), 2))
        signs = (1, -1) if orbit[0] == orbit[1] else (0,)
        found = [PredictorSpace._made(orbit, _symmetric(centred, sign), sign, LEAST_VALUE * scale) for sign in signs]
        return [space for space in found if space is not None]

    @staticmethod
    def _made(orbit: Orbit, centred: Array, sign: int, least: float) -> PredictorSpace | None:
        m, n = centred.shape[1:]
        _, s, Z = np.linalg.svd(centred.reshape(len(centred), -1), full_matrices=False)
        kept = s > least
        if not kept.any() or kept.sum() * m * n > MOST_ENTRIES:
            return None
        wide, Z = s[kept][:, None, None], Z[kept].reshape(-1, m, n)
        return PredictorSpace(orbit, wide * Z, Z / wide, smaller_functions((m, n), sign))

    @property
    def size(self) -> int:
        """Numbers to be searched."""
        return len(self.rows) * len(self.basis)


def _symmetric(arrays: Array, sign: int) -> Array:
    """The part that an exchange of the attributes multiplies by this sign; all of it for 0."""
    return (arrays + sign * arrays.swapaxes(1, 2)) / 2 if sign else arrays


@dataclass(frozen=True, eq=False)
class _Coordinates:
    """Coordinates of what a space hands down in which the total is about equally curved in all directions.

    At fixed dual weights s the total is a sum of trace norms. ||R S^1/2||_tr is at most tr(K^-1 R S R^T) / 2 plus a
    constant, K = (R S R^T)^1/2, and also at most tr(R X R^T) / 2 t, X being the slope. With the first for the residual
    itself and the second for those below, the curvature is T -> K^-1 T B + T C, which one turn of the rows and one
    of the functions make diagonal.
    """

    space: PredictorSpace
    turn: Array
    functions: Array  # (dimension, *shape)
    roots: Array  # (rank, dimension)

    @staticmethod
    def at(design: Design, space: PredictorSpace) -> _Coordinates:
        """For the dual weights of a design."""
        solution = design.solutions[design.structure.orbits.index(space.orbit)]
        assert solution is not None
        N = space.basis.reshape(len(space.basis), -1)
        s = np.full(N.shape[1], 1 / N.shape[1]) if solution.dual is None else solution.dual
        below = _below(design, space)
        members = design.members[design.structure.orbits.index(space.orbit)]
        rows = _residual_rows(design, space).reshape(len(space.rows), -1)
        k, turn = np.linalg.eigh((rows * s) @ rows.T)
        k = members / np.sqrt(np.maximum(k, 1e-12 * k[-1]))
        e, E = eigh((N * s) @ N.T, below)
        return _Coordinates(
            space,
            turn,
            np.tensordot(E.T, space.basis, axes=1),
            np.sqrt((np.multiply.outer(k, e) + 1) / design.root_total),
        )

    def taken(self, z: Array) -> Array:
        """What is handed down at a point."""
        return np.asarray(np.tensordot(self.turn @ (z.reshape(self.roots.shape) / self.roots), self.functions, axes=1))

    def back(self, slopes: Array) -> Array:
        """The gradient there."""
        flat = slopes.reshape(len(slopes), -1) @ self.functions.reshape(len(self.functions), -1).T
        return np.asarray((self.turn.T @ flat) / self.roots).ravel()


def _residual_rows(design: Design, space: PredictorSpace) -> Array:
    """The rows of a space in the residual of a design."""
    baselines = [design.baselines[c].values for c in space.orbit]
    own = split(space.rows, baselines, range(len(space.orbit)))
    predictor = predictors_of(design.baselines).get(space.orbit)
    return own if predictor is None else own - predictor.moved(space.rows)


def _below(design: Design, space: PredictorSpace) -> Array:
    """The curvature in functions that are handed down, from the residuals that get them."""
    pairs, structure = design.structure.pairs, design.structure
    table = next(t for t, x in enumerate(structure.tables) if x.axes == space.orbit)
    out = np.zeros((len(space.basis),) * 2)
    for p in np.flatnonzero(pairs.table == table).tolist():
        o, kept = int(pairs.orbit[p]), pairs.kept[p]
        solution = design.solutions[o]
        if len(kept) == len(space.orbit) or solution is None:
            continue
        piece = split(space.basis, [design.baselines[c].values for c in space.orbit], kept)
        slope = solution.strategy if solution.slope is None else solution.slope
        half = slope.half(piece) if kept else piece.reshape(-1, 1)
        half = half.reshape(len(piece), -1)
        out += design.members[o] / np.sqrt(design.losses[o]) * float(pairs.extensions[p]) * (half @ half.T)
    return out + 1e-9 * np.trace(out) / len(out) * np.eye(len(out))


def search_predictors(
    solve: Solved, structure: Structure, first: tuple[Baseline, ...], solver: Solver, progress: Progress = no_progress
) -> Baselines | None:
    """The best baselines with predictors that are found from these baselines on; None where there are none to search.

    Guarantees: predictors_are_never_worse.
    """
    if not any(predictable(structure, orbit) for orbit in structure.orbits):
        return None
    solver = Solver(solver.name, solver.gap, Cache())
    start = solve(first, solver)
    if solver.work * LEAST_ROUNDS > MOST_WORK:
        return None
    spaces = PredictorSpace.of_all(start.question, _orbits(start))
    return PredictorSearch(solve, solver, start, spaces, progress).run() if spaces else None


def _orbits(design: Design) -> list[Orbit]:
    """Residuals that may have a predictor, all of whose smaller residuals are measured."""
    structure = design.structure
    measured = {o for o, s in zip(structure.orbits, design.solutions, strict=True) if s is not None}
    return [
        orbit
        for orbit in structure.orbits
        if predictable(structure, orbit)
        and prod(structure.shape(orbit)) <= MOST_CELLS
        and all(design.baselines[c].tree is None for c in orbit)
        and all(tuple(orbit[p] for p in kept) in measured for kept in subsets(len(orbit)))
    ]


class PredictorSearch:
    """The descent; its points are baselines and what predictors hand down, in coordinates that fit the best so far."""

    def __init__(
        self,
        solve: Solved,
        solver: Solver,
        start: Design,
        spaces: list[PredictorSpace],
        progress: Progress = no_progress,
    ):
        self.solve, self.solver, self.spaces, self.progress = solve, solver, spaces, progress
        self.classes = start.structure.classes
        self.free = [c for c, p in enumerate(start.baselines) if p.tree is None and self.classes[c].size > 1]
        self.cuts = np.cumsum([self.classes[c].size - 1 for c in self.free] + [space.size for space in spaces])
        self.best, self.rounds = start, 0
        self.checked = start.root_total  # the best some rounds ago

    def run(self) -> Baselines:
        """Search roughly first, then on from there with a smaller gap and coordinates that fit better."""
        for gap, rounds in PHASES:
            self.solver = Solver(self.solver.name, gap, Cache(), self.solver.warm, work=self.solver.work)
            self.settle()
            descend(self.objective, np.zeros(int(self.cuts[-1])), rounds, ftol=TOLERANCE, memory=MEMORY)
        found = self.best.baselines
        return found if isinstance(found, Baselines) else Baselines(found, {})

    def settle(self) -> None:
        """Take the best so far as the origin, with coordinates that fit there."""
        self.origin = self.best
        self.kept = [_residual_rows(self.origin, space) for space in self.spaces]
        self.coordinates = [_Coordinates.at(self.origin, space) for space in self.spaces]
        self.moves = {c: _moves(self.origin, c) for c in self.free}

    def at(self, z: Array) -> Baselines:
        """Baselines and predictors at a point; moving a baseline leaves the residual spaces of predictors alone."""
        parts = np.split(z, self.cuts[:-1])
        moved = dict(zip(self.free, parts, strict=False))
        baselines = [
            Baseline(p.size, p.values + moved[c] @ self.moves[c]) if c in moved else p
            for c, p in enumerate(self.origin.baselines)
        ]
        found: dict[Orbit, list[tuple[Array, Array]]] = {}
        for space, kept, where, part in zip(
            self.spaces, self.kept, self.coordinates, parts[len(self.free) :], strict=True
        ):
            own = split(space.rows, [baselines[c].values for c in space.orbit], range(len(space.orbit)))
            found.setdefault(space.orbit, []).append((space.contrasts, own - kept + where.taken(part)))
        joined = {o: [np.concatenate(arrays) for arrays in zip(*both, strict=True)] for o, both in found.items()}
        return Baselines(baselines, {o: Predictor(*both) for o, both in joined.items()})

    def _stalled(self) -> bool:
        """Whether the last rounds gained next to nothing."""
        if self.rounds % PATIENCE:
            return False
        before, self.checked = self.checked, self.best.root_total
        return self.checked > before * (1 - LEAST_GAIN)

    def objective(self, z: Array) -> tuple[float, Array]:
        """The logarithm of the total and its gradient; only baselines that are distributions are kept."""
        self.rounds += 1
        done = max(self.rounds / MAX_ROUNDS, self.solver.work / MOST_WORK)
        self.progress(min(done, 1.0), 1.0, "searching predictors")
        if done >= 1 or self._stalled():
            raise Stop
        design = self.solve(self.at(z), self.solver)
        if design.root_total < self.best.root_total and all(p.values.min() >= 0 for p in design.baselines):
            self.best = design
        # the floor is exact to second order in what the solver leaves open, and its slope is this one
        return float(np.log(design.root_floor)), self._gradient(design) / design.root_total

    def _gradient(self, design: Design) -> Array:
        baselines, taken = predicted_gradient(design)
        at, flat = dict.fromkeys(taken, 0), []
        for space, where in zip(self.spaces, self.coordinates, strict=True):
            low = at[space.orbit]
            slopes = taken[space.orbit][low : low + len(space.rows)]
            at[space.orbit] += len(space.rows)
            values = [design.baselines[c].values for c in space.orbit]
            for c, g in zip(space.orbit, split_gradient(space.rows, values, (0, 1), slopes), strict=True):
                baselines[c] += g
            flat.append(where.back(slopes))
        return np.concatenate([*(self.moves[c] @ baselines[c] for c in self.free), *flat])


def _moves(design: Design, cls: int) -> Array:
    """Directions of a baseline, about equally curved: V of the residual of the attribute is the curvature there."""
    n = design.structure.classes[cls].size
    contrasts = smaller_functions((n, 1))[1:, :, 0]
    if (cls,) not in design.structure.orbits or n > MOST_CELLS:
        return contrasts / n
    o = design.structure.orbits.index((cls,))
    solution = design.solutions[o]
    if solution is None:
        return contrasts / n
    rows = solution.strategy.matrix() @ contrasts.T
    curved = design.members[o] * np.sqrt(design.losses[o]) / design.root_total * (rows.T @ rows)
    lower = np.linalg.cholesky(curved + 1e-6 * np.trace(curved) / n * np.eye(n - 1))
    return np.asarray(np.linalg.solve(lower, contrasts), dtype=np.float64)
