"""Floors from exact trace norms under product weights, and the ascent that finds the weights.

For every distribution s on the cells, (tr (S^1/2 G S^1/2)^1/2)^2 is a floor for all factorization mechanisms
(equation 6 of docs/theory.md). With product s the trace is computed exactly (pair_trace.py, symmetric_trace.py) or
bounded closely (triple_bound.py), after attributes that do not couple are split off (sector_trace.py); what is left of
large tables then may have a loose bound (glued_trace.py). The derivative
in s_i is a diagonal of the root, so that s is found by ascent (weight_ascent.py). It starts at the dual weights of the
residuals of one attribute, which are close to the best. Any s gives a floor.
"""

from __future__ import annotations

import numpy as np

from leastnoise._types import Array, Progress
from leastnoise.planning.block_trace import BlockTrace, building_work
from leastnoise.planning.coarse_trace import coarse_trace
from leastnoise.planning.design import Design, Question, no_progress
from leastnoise.planning.sector_trace import SectorTrace, trace_of
from leastnoise.planning.weight_ascent import LEAST_STEPS, SEARCH_STEP, STEPS, Ascent, weight_root

FINAL_STEP = 1.5  # of the rule for the trace
CLOSE_STEP = 2.0  # where the trace is bounded, or takes long: loses 3e-5, less than the bound does
KIND = "exact trace norm under product weights (docs/theory.md)"
CLOSE = "trace norm under product weights, bounded closely (docs/theory.md)"
PROBED = "trace norm under product weights, bounded closely but for a probability of 1e-9 (docs/theory.md)"
GLUED = "trace norm under product weights, in part with polar test matrices (docs/theory.md)"
GLUED_PROBED = f"{GLUED}, right but for a probability of 1e-9"


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
    roots = [weight_root(s) for s in start_weights(design)]
    first = trace_of(question, roots)
    if isinstance(first, SectorTrace) and first.work > (work if first.glued else once):
        first.lighten(work)
    if first is None or first.work > once:
        return None
    if not first.exact:
        return _bounded(question, roots, first, work, progress)
    steps = min(int((work - 2 * first.work) / first.slopes_work), STEPS)
    if steps < LEAST_STEPS and 2 * first.work <= work and _mixed(question):
        first = max((first, _evener(question, roots) or first), key=lambda m: m.nodes(SEARCH_STEP).trace)
    trace = first.trace(FINAL_STEP if 3 * first.work <= work else CLOSE_STEP, progress)
    if steps >= LEAST_STEPS:
        better = trace_of(question, Ascent(question, steps, progress).run(roots))
        trace = max(trace, 0.0 if better is None else better.trace(FINAL_STEP, progress))
    return trace**2, KIND


def _bounded(
    question: Question, roots: list[Array], first: BlockTrace, work: float, progress: Progress
) -> tuple[float, str]:
    """Where the trace is not exact. Better weights are not searched where a part of the bound is loose anyway."""
    glued = isinstance(first, SectorTrace) and first.glued
    model = first if glued else _climbed(question, roots, first, work, progress)
    trace = model.trace(CLOSE_STEP, progress)
    kinds = (GLUED, GLUED_PROBED) if glued else (CLOSE, PROBED)
    return trace**2, kinds[model.random]


def _mixed(question: Question) -> bool:
    """Whether an attribute has several families, which may have different best weights."""
    tables = zip(question.structure.tables, question.table_weights, strict=True)
    slots = {s for table, weight in tables if weight > 0 for s in table.slots or ()}
    return len({question.structure.slots[s].cls for s in slots}) < len(slots)


def _evener(question: Question, roots: list[Array]) -> BlockTrace | None:
    """The same half of the way to uniform weights."""
    return trace_of(question, [weight_root((v**2 + 1 / len(v)) / 2) for v in roots])


def _climbed(question: Question, roots: list[Array], first: BlockTrace, work: float, progress: Progress) -> BlockTrace:
    """The same at better weights: those of the sector with the largest share that has slopes.

    Sectors are about the same attributes, in tables with fewer of them, so that their best weights are alike; but the
    weights of the start may be better for all sectors together, as a coarse copy tells.

    Guarantees: weights_of_a_sector_are_taken_where_they_serve_all.
    """
    lead = first.leading(SEARCH_STEP) if isinstance(first, SectorTrace) else None
    if not isinstance(first, SectorTrace) or lead is None or (steps := min(int(work / lead.slopes_work), STEPS)) < 1:
        return first
    found = dict(zip(first.coupled, Ascent(lead.question, steps, progress).run(lead.roots), strict=True))
    climbed = [found.get(c, root) for c, root in enumerate(roots)]
    before, after = (coarse_trace(question, [v**2 for v in vs]) for vs in (roots, climbed))
    if before is not None and after is not None and after <= before:
        return first
    return trace_of(question, climbed) or first


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
