"""The design that a norm of the variances has in given residual spaces, for searches of these spaces.

The least norm in some residual spaces is the largest weighted sum over all multipliers (docs/theory.md, equation 14).
Its slope in the spaces is that of the weighted sum at the best multipliers (Danskin 1967), so that searches need a
design for these, not for the multipliers of another point: with fixed multipliers and spaces searched in turn, either
answers the other's last move, and the two need not meet. Multipliers follow the spaces from one call to the next.

The largest variance may have many best multipliers and then has no slope. The norms r = 16 and 64 have, and are close.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import inf

from leastnoise._types import Array
from leastnoise.planning.design import Design, Question, Solved, solve_design
from leastnoise.planning.multipliers import Multipliers
from leastnoise.planning.objective import Climb, Objective, query_weights
from leastnoise.planning.residual_workload import Baseline
from leastnoise.strategies import Solver

NORMS = (16.0, 64.0)  # in place of the largest variance
MOST_STEPS = 15  # of the multipliers at a point of the search
LEAST_GAIN = 1e-5  # of the total in a step, below which the multipliers are good enough


@dataclass
class Balanced:
    """Designs at the best multipliers for a norm of the variances, found from those of the last call on."""

    multipliers: Multipliers
    at: Array

    @staticmethod
    def of(question: Question, objective: Objective, r: float) -> Balanced:
        """For the norm r in place of that of the objective."""
        multipliers = Multipliers(question, r, query_weights(question.structure, objective), objective.r == inf)
        return Balanced(multipliers, multipliers.start())

    def __call__(self, baselines: tuple[Baseline, ...], solver: Solver) -> Design:
        climb = Climb(self.multipliers, self.at, lambda x: self._design(x, baselines, solver))
        for _ in range(MOST_STEPS):
            gain = climb.step()
            if gain is not None and gain < LEAST_GAIN:
                break
        self.at = climb.x
        return climb.design

    def _design(self, x: Array, baselines: tuple[Baseline, ...], solver: Solver) -> Design:
        return solve_design(self.multipliers.question_at(x), baselines, solver)


def solved_by(question: Question, objective: Objective) -> list[Solved]:
    """What searches of residual spaces evaluate, one search after the other."""
    first: Solved = partial(solve_design, question)  # soon had, and a better start for other norms than even baselines
    norms = () if objective.r == 1 else NORMS if objective.r == inf else (objective.r,)
    return [first, *(Balanced.of(question, objective, r) for r in norms)]


def start_of(solve: Solved) -> Array | None:
    """The multipliers of its last call, for the norm itself to start from."""
    return solve.at if isinstance(solve, Balanced) else None
