"""The baseline search: the baseline per class that makes the whole plan best (docs/theory.md).

The total is T(pi) = sum_A sqrt(L_A(G_A(pi))). At the optimum dL_A = tr(X_A dG_A) with the slope X_A of the dual (the
strategy need not be differentiated), and G_A depends on pi through the mean squares ||W pi||^2 of contracted axes and
through the centring W - (W pi) 1^T of kept ones.
"""

from __future__ import annotations

from collections.abc import Hashable
from math import prod

import numpy as np

from leastnoise._types import Array, Progress
from leastnoise.algebra.gram import Kron
from leastnoise.algebra.residual import join, split_gradient
from leastnoise.planning.design import Design, Solved, no_progress
from leastnoise.planning.residual_workload import Baseline, predictors_of
from leastnoise.planning.structure import Orbit
from leastnoise.strategies import Cache, CirculantStrategy, Solver, Strategy
from leastnoise.strategies.descent import Stop, descend
from leastnoise.strategies.strategy import along

FLAT = 1e-7  # relative gradient below which uniform is taken as optimal
WORTH = 1e-7  # relative gain below which uniform is kept
MAX_ROUNDS = 120
SEARCH_WORK = 1e12  # floating-point operations a search may take: about a minute on one core
LEAST_ROUNDS = 5  # fewer are not worth starting


def total_gradient(design: Design) -> list[Array]:
    """Gradient of T with respect to each class's baseline, every entry taken as free."""
    return _Gradient(design).run()


def predicted_gradient(design: Design) -> tuple[list[Array], dict[Orbit, Array]]:
    """The same, and with respect to what each predictor hands down, every entry taken as free."""
    gradient = _Gradient(design)
    return gradient.run(), gradient.taken


class _Gradient:
    def __init__(self, design: Design):
        self.design, self.residual_workload = design, design.residual_workload
        self.out = [np.zeros(c.size) for c in design.structure.classes]
        self.axis_cache: dict[Hashable, tuple[float, Array]] = {}
        self.taken = {o: np.zeros(p.taken.shape) for o, p in predictors_of(design.baselines).items()}

    def run(self) -> list[Array]:
        d = self.design
        share = np.divide(d.members, 2 * np.sqrt(d.losses), out=np.zeros_like(d.losses), where=d.losses > 0)
        pairs = d.structure.pairs
        # without the mean square that tensors bring to the total: it is differentiated below
        weights = share[pairs.orbit] * d.question.table_weights[pairs.table] * self.residual_workload.coefficients
        grouped: dict[Hashable, list[int]] = {}
        for p, (o, t, inside, kept) in enumerate(
            zip(pairs.orbit.tolist(), pairs.table.tolist(), pairs.inside, pairs.kept, strict=True)
        ):
            if weights[p] > 0 and self.residual_workload.bodies[p] is not None:
                key = (
                    (o, inside)
                    if inside is not None
                    else (o, self.residual_workload.tensors[t].key(kept), id(self.residual_workload.tensors[t]))
                )
                grouped.setdefault(key, []).append(p)
        traces = np.zeros(len(weights))
        for members in grouped.values():
            traces[members] = self._inside(members[0], float(weights[members].sum()))
        self._outside(weights * traces)
        return self.out

    def _inside(self, pair: int, weight: float) -> float:
        pairs = self.design.structure.pairs
        orbit, table = int(pairs.orbit[pair]), int(pairs.table[pair])
        solution = self.design.solutions[orbit]
        assert solution is not None
        slope = solution.strategy if solution.slope is None else solution.slope
        inside = pairs.inside[pair]
        if inside is None:
            return self._tensor(table, pairs.kept[pair], slope, weight)
        if not inside:
            return 1.0
        body = self.residual_workload.bodies[pair]
        assert isinstance(body, Kron)
        factors = slope.factors
        if factors is None:
            return self._dense_strategy(inside, body, slope, weight)
        parts = [self._axis(s, x) for s, x in zip(inside, factors, strict=True)]
        for i, slot in enumerate(inside):
            others = prod(e for j, (e, _) in enumerate(parts) if j != i)
            self.out[self.design.structure.slots[slot].cls] += weight * others * parts[i][1]
        return prod(e for e, _ in parts)

    def _axis(self, slot: int, strategy: Strategy) -> tuple[float, Array]:
        """tr(X G) and its gradient for one factor: G = P^T H P with P = I - pi 1^T gives -2 H P X 1."""
        key = (slot, id(strategy))
        if key not in self.axis_cache:
            data = self.residual_workload.slots[slot]
            if data.factor.circulant and isinstance(strategy, CirculantStrategy):  # all values are alike
                self.axis_cache[key] = strategy.error(Kron((data.factor,))), np.zeros(data.size)
                return self.axis_cache[key]
            if data.load is not None:  # the baseline of a tree stays what it is
                self.axis_cache[key] = strategy.error(Kron((data.factor,))), np.zeros(data.size)
                return self.axis_cache[key]
            x = strategy.inverse()
            ones = x.sum(axis=1)
            g = data.gram @ (ones - data.baseline.values * ones.sum())
            self.axis_cache[key] = (float(np.vdot(x, data.factor.dense)), -2 * g)
        return self.axis_cache[key]

    def _dense_strategy(self, inside: tuple[int, ...], body: Kron, strategy: Strategy, weight: float) -> float:
        half = strategy.half(np.eye(body.cells).reshape(body.cells, *body.shape)).T.reshape(-1, *body.shape)
        trace = 0.0
        for i, slot in enumerate(inside):
            data, moved = self.residual_workload.slots[slot], half
            for j, f in enumerate(body.factors):
                if j != i:
                    moved = along(f.dense, moved, j + 1)
            left = np.moveaxis(half, i + 1, -1).reshape(-1, body.shape[i])
            x = left.T @ np.moveaxis(moved, i + 1, -1).reshape(-1, body.shape[i])
            ones = x.sum(axis=1)
            trace = float(np.vdot(x, body.factors[i].dense))
            g = data.gram @ (ones - data.baseline.values * ones.sum())
            self.out[self.residual_workload.structure.slots[slot].cls] += -2 * weight * g
        return trace

    def _tensor(self, table: int, kept: tuple[int, ...], strategy: Strategy, weight: float) -> float:
        part = self.residual_workload.tensors[table]
        rows = part.piece(kept)
        if kept:
            half = strategy.half(rows)
            back = strategy.back(half).reshape(rows.shape)
            trace = float(np.vdot(half, half))
        else:
            back, trace = rows, float(np.vdot(rows, rows))
        baselines = [p.values for p in part.baselines]
        gradients = split_gradient(part.wide, baselines, kept, 2 * weight * back)
        for c, g in zip(self.design.structure.tables[table].axes, gradients, strict=True):
            self.out[c] += g
        if part.predictor is not None:
            up = -back if len(kept) == len(part.shape) else join({kept: back}, baselines, part.shape)
            seen = np.tensordot(part.root, part.predictor.contrasts, axes=(tuple(range(1, up.ndim)),) * 2)
            self.taken[self.design.structure.tables[table].axes] += 2 * weight * np.tensordot(seen, up, axes=(0, 0))
        return trace

    def _outside(self, amounts: Array) -> None:
        pairs, means = self.design.structure.pairs, self.residual_workload.mean_squares
        per_slot = np.zeros(len(means))
        for column in pairs.outside.T:
            np.add.at(
                per_slot, column, np.divide(amounts, means[column], out=np.zeros_like(amounts), where=means[column] > 0)
            )
        for s, amount in enumerate(per_slot[:-1]):
            if amount:
                data = self.residual_workload.slots[s]
                # otherwise constant, which the sum of a baseline forbids to follow, or fixed by a tree
                if not data.factor.circulant and data.load is None:
                    self.out[self.residual_workload.structure.slots[s].cls] += (
                        2 * amount * (data.gram @ data.baseline.values)
                    )


def search_baselines(
    solve: Solved, first: tuple[Baseline, ...], solver: Solver, progress: Progress = no_progress
) -> tuple[Baseline, ...]:
    """The best baselines found; exactly those of the start (uniform, or along a tree) where nothing is gained.

    Guarantees: search_is_never_worse_than_uniform.
    """
    # a cache of its own, as the search's problems never come back; its first ones may be solved already
    solver = Solver(solver.name, solver.gap, Cache(), known=solver.cache)
    start = solve(first, solver)
    if solver.work * LEAST_ROUNDS > SEARCH_WORK:
        return start.baselines
    structure = start.structure
    free = [c for c, g in enumerate(total_gradient(start)) if not _flat(g, start.root_total)]
    if not free:
        return start.baselines
    best = _descend(solve, solver, start, free, progress)
    smooth = [c for c in free if structure.classes[c].size > 2]  # two values: uniform is a kink, where descent stalls
    if smooth and len(smooth) < len(free):
        best = min(best, _descend(solve, solver, start, smooth, progress), key=lambda d: d.root_total)
    return best.baselines if best.root_total < start.root_total * (1 - WORTH) else start.baselines


def _flat(gradient: Array, total: float) -> bool:
    return bool(np.abs(gradient - gradient.mean()).max() <= FLAT * len(gradient) * total)


def _descend(solve: Solved, solver: Solver, start: Design, free: list[int], progress: Progress) -> Design:
    classes = start.structure.classes
    origin = [np.ones(p.size) if p.vector is None else p.size * p.values for p in start.baselines]
    sizes = [classes[c].size for c in free]
    cuts = np.cumsum(sizes)[:-1]
    best, rounds = start, 0

    def baselines_at(y: Array) -> tuple[Baseline, ...]:
        moved = dict(zip(free, np.split(y, cuts), strict=True))
        return tuple(
            Baseline(c.size, (origin[i] + moved[i] - moved[i].mean()) / c.size) if i in moved else start.baselines[i]
            for i, c in enumerate(classes)
        )

    def objective(y: Array) -> tuple[float, Array]:
        nonlocal best, rounds
        rounds += 1
        done = max(rounds / MAX_ROUNDS, solver.work / SEARCH_WORK)
        progress(min(done, 1.0), 1.0, "searching the baseline")
        if done >= 1:
            raise Stop
        design = solve(baselines_at(y), solver)
        if design.root_total < best.root_total:
            best = design
        gradient = total_gradient(design)
        flat = [(gradient[c] - gradient[c].mean()) / classes[c].size for c in free]
        return float(np.log(design.root_total)), np.concatenate(flat) / design.root_total

    descend(objective, np.zeros(sum(sizes)), MAX_ROUNDS, ftol=1e-7)
    return best
