"""Product weights that raise the trace norm of a question, by ascent with its slopes."""

from __future__ import annotations

import numpy as np

from leastnoise._types import Array, Progress
from leastnoise.planning.design import Question
from leastnoise.planning.sector_trace import trace_of
from leastnoise.strategies.descent import Stop, descend

SEARCH_STEP = 2.5  # of the rule for the trace: coarse while weights are searched
LEAST_STEPS, STEPS = 5, 200  # of the ascent: fewer gain nothing, and at most
GAIN = 1e-7  # relative, of one step, below which the ascent ends
LEAST_WEIGHT = 1e-9  # share of the uniform distribution in all weights


def weight_root(s: Array) -> Array:
    """s^1/2, with a little of the uniform distribution in it."""
    return np.sqrt((s + LEAST_WEIGHT / len(s)) / (1 + LEAST_WEIGHT))


class Ascent:
    """s = theta^2 / |theta|^2 per class, by L-BFGS on the logarithm of the trace (equation 8 of docs/theory.md)."""

    def __init__(self, question: Question, steps: int, progress: Progress):
        self.question, self.steps, self.progress = question, steps, progress
        self.members = [len(c.members) for c in question.structure.classes]
        self.best: list[Array] = []
        self.value, self.done = 0.0, 0

    def run(self, roots: list[Array]) -> list[Array]:
        self.cuts = np.cumsum([len(v) for v in roots])[:-1]
        self.best = roots
        descend(self.objective, np.concatenate(roots), self.steps, ftol=GAIN)
        return self.best

    def objective(self, x: Array) -> tuple[float, Array]:
        thetas = np.split(x, self.cuts)
        norms = [float(np.linalg.norm(theta)) for theta in thetas]
        if min(norms) == 0:  # a step across the origin: where it leads is as good as anywhere
            raise Stop
        units = [theta / norm for theta, norm in zip(thetas, norms, strict=True)]
        roots = [weight_root(unit**2) for unit in units]
        model = trace_of(self.question, roots)
        if model is None:
            raise Stop
        try:
            result = model.slopes(SEARCH_STEP)
        except np.linalg.LinAlgError:  # singular to rounding, so that slopes are lost: what is found so far has to do
            raise Stop from None
        self._note(result.trace, roots)
        slopes = []
        for d, unit, norm, v in zip(self.members, units, norms, result.per_class, strict=True):
            slope = d * unit * v / (norm * result.trace)
            slopes.append(slope - (slope @ unit) * unit)  # the trace does not depend on the norm
        return -float(np.log(result.trace)), -np.concatenate(slopes)

    def _note(self, value: float, roots: list[Array]) -> None:
        if value > self.value:
            self.value, self.best = value, roots
        self.done += 1
        self.progress(self.done, self.steps, "searching the floor")
        if value == 0 or self.done >= self.steps:
            raise Stop
