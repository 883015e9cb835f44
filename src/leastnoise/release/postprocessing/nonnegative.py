"""The closest tables without negative counts: least squares in the residual spaces, all chosen tables at once.

    minimize  1/2 sum_A (z_A - e_A)^T P_A (z_A - e_A)   subject to   every chosen table M_T z >= 0

with e_A the measured residual, P_A = V_A / noise_A its exact precision (times what holds smaller tables, see
`nonnegative`), and M_T the map that joins residuals to a table (docs/theory.md). Because tables are joined from the
same residuals, they stay consistent. The problem is solved in its dual, one multiplier y >= 0 per cell: with s_A the
sum of the pieces of all y_T,

    z_A = e_A + P_A^-1 s_A,   dual value  -1/2 sum_A s_A^T P_A^-1 s_A - sum_T y_T.x_T   (x_T the unbiased table)

by accelerated projected gradient steps, as GReM-LNN does for orthogonal residuals (Mullins et al. 2024). The unknowns
of the dual are also a certificate: shrinking z towards a positive table until nothing is negative gives a feasible
point, and since the objective is strongly convex it lies within sqrt(2 gap) of the solution in the metric P. No answer
to any query is then off by more than sqrt(2 gap) times its own standard error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from math import sqrt

import numpy as np

from leastnoise._types import Array, Progress
from leastnoise.errors import LeastnoiseError
from leastnoise.planning.residual_workload import predictors_of
from leastnoise.release.postprocessing.cells import Parts, Point, Problem
from leastnoise.release.postprocessing.totals import centred
from leastnoise.release.state import Known, Members, State

MAX_CELLS = 2**24  # of all tables: a dozen numbers are kept per cell
MAX_STEPS = 5_000
PROGRESS_EVERY = 25
SHARE_OF_UNIFORM = 0.5  # in the positive table to which results are shrunk


@dataclass(frozen=True)
class Certificate:
    """How close a result is to the exact least-squares solution: its objective, and one that nothing goes below."""

    primal: float
    dual: float
    steps: int
    shortfall: float = 0.0  # counts were up to this much below zero (where known totals forbid a positive table)

    @property
    def gap(self) -> float:
        """By how much the objective exceeds its minimum, at most."""
        return max(self.primal - self.dual, 0.0)

    @property
    def distance(self) -> float:
        """From the exact solution, in standard errors of any answer, at most."""
        return sqrt(2 * self.gap)

    @property
    def moved(self) -> float:
        """From the unbiased estimate, in the same units."""
        return sqrt(2 * max(self.primal, 0.0))


# --- a positive table to shrink to ------------------------------------------------------------------------------------


def positive_point(problem: Problem) -> Point | None:
    """A consistent point with positive tables: independent attributes, half-way to uniform; None if that has zeros.

    It is written as e + P^-1 s like every point of the dual, so that its objective is known. P is not at hand, so s is
    found by conjugate gradients; whatever they find is a valid point, and only its being positive counts.
    """
    state = problem.state
    shares = {a: _shares(state, a) for members in problem.tables for a in members}
    known = state.find(())
    assert known is not None
    rows = float(known.tables[0]) if not known.noise else max(float(known.tables[0]), sqrt(known.noise), 1.0)
    requests: Parts = {}
    for number in dict.fromkeys(n for batch in problem.batches for n, _, _ in batch.links.values()):
        requests[number] = np.zeros_like(problem.known(number).tables)
    for number, row, members in touched(problem):
        if problem.known(number).noise:
            product = rows * reduce(np.multiply.outer, [shares[a] for a in members], np.ones(()))
            requests[number][row] = centred(state, members, product - problem.known(number).tables[row])
    for number, target in requests.items():
        requests[number] = inverted(problem, number, target)
    point = problem.at(requests)
    return point if point.tables.min() > 0 else None


def touched(problem: Problem) -> Iterator[tuple[int, int, Members]]:
    """(residual orbit, row, attributes) of each residual that some table needs, once each."""
    seen: set[tuple[int, int]] = set()
    for batch in problem.batches:
        for kept, (number, rows, _) in batch.links.items():
            for row, members in zip(rows.tolist(), batch.sets, strict=True):
                if (number, row) not in seen:
                    seen.add((number, row))
                    yield number, row, tuple(members[p] for p in kept)


def _shares(state: State, attribute: int) -> Array:
    counts = np.maximum(state.marginal([attribute]), 0.0)
    uniform = np.full(len(counts), 1 / len(counts))
    total = float(counts.sum())
    if not total:
        return uniform
    known = state.find((attribute,))
    mixed = 0.0 if known is not None and not known.noise else SHARE_OF_UNIFORM
    return (1 - mixed) * counts / total + mixed * uniform


def inverted(problem: Problem, number: int, target: Array) -> Array:
    """s with P^-1 s = `target`, roughly, row by row (conjugate gradients on the query side)."""
    known, orbit = problem.known(number), problem.state.structure.orbits[number]
    predicted = orbit in predictors_of(problem.state.baselines)
    if predicted:  # into the row space of the strategy
        target = (known.strategy.half(target) @ known.strategy.matrix()).reshape(target.shape)
    for axis, baseline in enumerate([] if predicted else problem.baselines(orbit)):
        along = baseline.reshape(-1, *[1] * (len(orbit) - axis - 1))
        target = target - (target * along).sum(axis=axis + 1, keepdims=True) * along / (baseline @ baseline)
    rest = target.reshape(len(target), -1)
    values, direction = np.zeros_like(rest), rest
    power = np.einsum("rx,rx->r", rest, rest)
    goal = 1e-16 * power
    for _ in range(300):
        if not known.noise or (power <= goal).all():
            break
        image = problem.moved({number: direction.reshape(target.shape)})[0][number].reshape(rest.shape)
        curve = np.einsum("rx,rx->r", direction, image)
        step = np.divide(power, curve, out=np.zeros_like(power), where=(curve > 0) & (power > goal))
        values = values + step[:, None] * direction
        rest = rest - step[:, None] * image
        before, power = power, np.einsum("rx,rx->r", rest, rest)
        ratio = np.divide(power, before, out=np.zeros_like(power), where=before > 0)
        direction = rest + ratio[:, None] * direction
    return values.reshape(target.shape)


# --- the solver -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Finish:
    """A feasible point made from a dual one: shrunk towards a positive point, or cut off where there is none."""

    problem: Problem
    positive: Point | None

    @cached_property
    def _positive_moves(self) -> Parts:
        assert self.positive is not None
        return self.problem.moved(self.positive.requested)[0]

    def of(self, y: Array, point: Point, steps: int) -> tuple[float, Certificate]:
        """How far to shrink, and how close to the solution that is."""
        dual = -point.energy / 2 - float(y @ self.problem.unbiased)
        if self.positive is None:
            # exact for the problem with a bound of -shortfall in place of 0
            shortfall = float(self.problem.violations(point.tables).max(initial=0.0))
            return 0.0, Certificate(point.energy / 2, dual - shortfall * float(np.abs(y).sum()), steps, shortfall)
        share = _least_share(point.tables, self.positive.tables)
        across = sum(float(np.vdot(s, self._positive_moves[n])) for n, s in point.requested.items())
        rest = 1 - share
        energy = rest**2 * point.energy + 2 * share * rest * across + share**2 * self.positive.energy
        return share, Certificate(energy / 2, dual, steps)

    def excess(self, certificate: Certificate, tolerance: float) -> float:
        """How many times larger than the tolerance the distance or the shortfall is."""
        distance = certificate.distance / max(1.0, certificate.moved)
        return max(distance, certificate.shortfall / sqrt(float(self.problem.scales.min()))) / tolerance

    def requested(self, point: Point, share: float) -> Parts:
        """What the feasible point asks of the residuals."""
        if self.positive is None:
            return point.requested
        return {n: (1 - share) * s + share * self.positive.requested[n] for n, s in point.requested.items()}


def _least_share(tables: Array, positive: Array) -> float:
    """Least share of a positive table that lifts all counts to zero, and a little more for rounding errors."""
    below = tables < 0
    if not below.any():
        return 0.0
    needed = float((-tables[below] / (positive[below] - tables[below])).max())
    return min(1.0, needed * (1 + 1e-6) + 1e-13)


def nonnegative(
    state: State, tables: Sequence[Members], hold: float, tolerance: float, progress: Progress | None = None
) -> tuple[State, Certificate]:
    """The state closest to a given one for which no chosen table has a negative count.

    A residual of k attributes counts with its precision times hold^(K - k), K attributes being the most of any chosen
    table. Stops when the distance to the exact solution is below `tolerance` standard errors, or below that share of
    the distance to the unbiased estimate where that is larger.

    Guarantees: equals_the_quadratic_program; tables_stay_consistent_and_nothing_negative; certificate_holds.
    """
    problem = Problem(held(state, hold, max(map(len, tables))), tuple(tables))
    check_cells(problem.size)
    finish = Finish(problem, positive_point(problem))

    def excess(certificate: Certificate) -> float:
        if progress is not None and certificate.steps % PROGRESS_EVERY == 0:
            progress(certificate.steps, MAX_STEPS, "non-negative tables")
        return finish.excess(certificate, tolerance)

    point, share, certificate = ascend(problem, finish, excess)
    return moved_state(state, problem.moved(finish.requested(point, share))[0]), certificate


def moved_state(state: State, moves: Parts) -> State:
    """The same state with some residuals moved."""
    known = list(state.known)
    for number, move in moves.items():
        before = state.known[number]
        assert before is not None
        known[number] = Known(before.tables + move, before.noise, before.strategy)
    return State(state.structure, state.baselines, tuple(known), state.errors)


def check_cells(cells: int, fix: str = "choose some with tables=[...]") -> None:
    """Refuse tables that are too large to be solved for at once."""
    if cells > MAX_CELLS:
        raise LeastnoiseError(
            f"the tables have {cells:,} cells, more than the {MAX_CELLS:,} that can be made non-negative at once; {fix}"
        )


def held(state: State, hold: float, widest: int) -> State:
    """The same state with smaller tables held more firmly than by their precision.

    Cutting off negative noise adds rows, and with many more cells than rows the plain precisions would let the total
    grow by many of its standard errors. The factor is at least 1, so distances are still in standard errors at most.
    """
    pairs = zip(state.structure.orbits, state.known, strict=True)
    known = (k and Known(k.tables, k.noise * hold ** (len(orbit) - widest), k.strategy) for orbit, k in pairs)
    return State(state.structure, state.baselines, tuple(known), state.errors)


def ascend(
    problem: Problem, finish: Finish, excess: Callable[[Certificate], float]
) -> tuple[Point, float, Certificate]:
    """Accelerated projected gradient steps on the dual, started anew where they overshoot (O'Donoghue, Candes 2015)."""
    slope = problem.steepest()
    y = np.zeros(problem.size)
    point = problem.at(problem.requested(y))
    best = (point, *finish.of(y, point, 0))
    least = excess(best[2])
    wide, wide_tables, speed = y, point.tables, 1.0
    for steps in range(1, MAX_STEPS + 1):
        if least <= 1:
            break
        while True:
            new = problem.projected(wide - wide_tables / (slope * problem.scales))
            after = problem.at(problem.requested(new))
            change = new - wide
            # the dual is quadratic, so this is its curvature along the step, exactly
            if change @ (after.tables - wide_tables) <= slope * (1 + 1e-9) * (change @ (problem.scales * change)):
                break
            slope *= 1.5
        share, certificate = finish.of(new, after, steps)
        if (left := excess(certificate)) <= least:
            best, least = (after, share, certificate), left
        again = float(wide_tables @ (new - y)) > 0
        faster = 1.0 if again else (1 + sqrt(1 + 4 * speed**2)) / 2
        ahead = 0.0 if again else (speed - 1) / faster
        wide, wide_tables = new + ahead * (new - y), after.tables + ahead * (after.tables - point.tables)
        y, point, speed = new, after, faster
    return best
