"""Floors from exact trace norms under product weights, and the ascent that finds the weights.

For every distribution s on the cells, (tr (S^1/2 G S^1/2)^1/2)^2 is a floor for all factorization mechanisms
(equation 6 of docs/theory.md). With product s the trace is computed exactly (pair_trace.py, triple_trace.py) or bounded
closely (triple_bound.py), after attributes that do not couple are split off (sector_trace.py). The derivative in s_i is
a diagonal of the root, so that s is found by ascent. It starts at the dual weights of the residuals of one attribute,
which are close to the best. Any s gives a floor.
"""

from __future__ import annotations

import numpy as np

from leastnoise._types import Array, Progress
from leastnoise.planning.block_trace import BlockTrace, building_work
from leastnoise.planning.design import Design, Question, no_progress
from leastnoise.planning.sector_trace import SectorTrace, trace_of
from leastnoise.strategies.descent import Stop, descend

SEARCH_STEP, FINAL_STEP = 2.5, 1.5  # of the rule for the trace: coarse while weights are searched
CLOSE_STEP = 2.0  # where the trace is bounded: loses 3e-5, less than the bound does
LEAST_STEPS, STEPS = 5, 200  # of the ascent: fewer gain nothing, and at most
GAIN = 1e-7  # relative, of one step, below which the ascent ends
LEAST_WEIGHT = 1e-9  # share of the uniform distribution in all weights
KIND = "exact trace norm under product weights (docs/theory.md)"
CLOSE = "trace norm under product weights, bounded closely (docs/theory.md)"


def exact_trace_floor(
    design: Design, work: float, progress: Progress = no_progress, once: float | None = None
) -> tuple[float, str] | None:
    """The floor and its kind, after as much ascent as `work` (multiplications) allows.

    None where one evaluation is over `once`, which is `work` unless told.

    None also where numbers leave the range of floats, as for sums of amounts, whose Gram matrices are singular.
    """
    try:
        with np.errstate(over="raise", divide="raise", invalid="raise"):
            return _exact_trace_floor(design, work, progress, work if once is None else once)
    except (FloatingPointError, np.linalg.LinAlgError):
        return None


def _exact_trace_floor(design: Design, work: float, progress: Progress, once: float) -> tuple[float, str] | None:
    question = design.question
    if building_work(question) > once:
        return None
    roots = [_root(s) for s in start_weights(design)]
    first = trace_of(question, roots)
    if first is None or first.work > once:
        return None
    if not first.exact:
        return _climbed(question, roots, first, work, progress).trace(CLOSE_STEP, progress) ** 2, CLOSE
    steps = min(int((work - 2 * first.work) / first.slopes_work), STEPS)
    trace = first.trace(FINAL_STEP, progress)
    if steps >= LEAST_STEPS:
        better = trace_of(question, _Ascent(question, steps, progress).run(roots))
        trace = max(trace, 0.0 if better is None else better.trace(FINAL_STEP, progress))
    return trace**2, KIND


def _climbed(question: Question, roots: list[Array], first: BlockTrace, work: float, progress: Progress) -> BlockTrace:
    """The same at better weights: those of the sector with the largest share that has slopes.

    Sectors are about the same attributes, in tables with fewer of them, so that their best weights are alike.
    """
    lead = first.leading(SEARCH_STEP) if isinstance(first, SectorTrace) else None
    if not isinstance(first, SectorTrace) or lead is None or (steps := min(int(work / lead.slopes_work), STEPS)) < 1:
        return first
    found = dict(zip(first.coupled, _Ascent(lead.question, steps, progress).run(lead.roots), strict=True))
    return trace_of(question, [found.get(c, root) for c, root in enumerate(roots)]) or first


def start_weights(design: Design) -> list[Array]:
    """Per class: the weights that prove the strategy of its one-way residual optimal; uniform where there are none."""
    return [
        np.full(c.size, 1 / c.size) if (dual := dual_weights(design, k)) is None else dual
        for k, c in enumerate(design.structure.classes)
    ]


def dual_weights(design: Design, cls: int) -> Array | None:
    """The dual weights of the one-way residual of a class, if its solver has them."""
    if (cls,) not in design.structure.orbits:
        return None
    solution = design.solutions[design.structure.orbits.index((cls,))]
    return None if solution is None else solution.dual


def _root(s: Array) -> Array:
    return np.sqrt((s + LEAST_WEIGHT / len(s)) / (1 + LEAST_WEIGHT))


class _Ascent:
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
        roots = [_root(unit**2) for unit in units]
        model = trace_of(self.question, roots)
        if model is None:
            raise Stop
        result = model.slopes(SEARCH_STEP)
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
