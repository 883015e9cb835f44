"""Answers that may be off by a stated bias: other queries W~, at most `bias` from W in every entry, with less variance.

Whatever the records are, the mean of an answer then differs from the truth by at most `bias` times the devices. Given
the randomizers of a plan, the variance of a query w at equal frequencies is a quadratic form w H w, so each w~ solves

    minimize  w~ H w~   over  |w~ - w| <= bias entry by entry

(`strategies.nearest`). The bias holds by construction: a last projection puts every entry into its box, with room for
rounding. Randomizers and W~ are found in turns, beginning with W itself and, where the workload is one small table,
with the matrix of least gamma_2 within the bias (`norms`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from leastnoise._types import Array
from leastnoise.errors import LeastnoiseError
from leastnoise.local.ball import Ball
from leastnoise.local.design import SMALL, centred
from leastnoise.local.gauss import GaussianVectors
from leastnoise.local.plan import LocalPlan, targets
from leastnoise.local.randomizer import Randomizer
from leastnoise.local.subsets import Subsets
from leastnoise.local.tables import Queries
from leastnoise.local.vectors import centred_inverse
from leastnoise.strategies.nearest import cheapest, inside, least_gamma_2
from leastnoise.workload.families import digest

MOST_CELLS = 2048  # of a table whose queries are replaced
SHARES = (1 / 16, 1 / 8, 3 / 16, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1)  # of the half width without bias, to try as bias
WORTH = 0.98  # of the half width without bias, from which a bias is worth its name
_TOLD = 1e-6

Replan = Callable[[Sequence[Queries]], LocalPlan]  # randomizers in the same layout for what is to be answered


def noise_form(randomizer: Randomizer) -> Array | None:
    """H of one randomizer, for queries of mean 0; None where its reports do not determine every query."""
    match randomizer:
        case Subsets():
            H, seen = randomizer.inverse, randomizer.inverse @ randomizer.information
        case Ball():
            H, seen = _vector_form(randomizer.columns, 1 / randomizer.gain**2)
        case GaussianVectors():
            H, seen = _vector_form(randomizer.columns.astype(np.float64), float(randomizer.variance))
        case _:
            return None
    missed = np.abs(seen - centred(np.eye(len(H)))).max()
    return H if missed <= _TOLD else None


def _vector_form(columns: Array, variance: float) -> tuple[Array, Array]:
    inverse = centred_inverse(columns)
    return variance * (inverse @ inverse.T), inverse @ (columns - columns.mean(axis=1, keepdims=True))


def query_form(plan: LocalPlan, queries: Queries, forms: dict[int, Array | None] | None = None) -> Array | None:
    """H over the cells of a table, from all parts that report on it; None where they do not determine every query.

    `forms` are those of randomizers seen before.
    """
    forms = {} if forms is None else forms
    cells = Queries(queries.attributes, queries.shape, np.eye(queries.rows.shape[1]))
    if not all(any(part.can(piece) for part in plan.parts) for piece in cells.pieces if piece):
        return None
    total = np.zeros((len(cells.rows), len(cells.rows)))
    for i, rows in targets(plan.parts, cells).items():
        randomizer = plan.parts[i].randomizer
        if id(randomizer) not in forms:
            forms[id(randomizer)] = noise_form(randomizer)
        form = forms[id(randomizer)]
        if form is None:
            return None
        total += rows @ form @ rows.T / plan.parts[i].fraction
    return total


def replaced(plan: LocalPlan, bias: float, before: Sequence[Array | None]) -> LocalPlan:
    """The plan with the cheapest rows in place of its queries; those from before where not every row is reported."""
    fields: dict[str, Array] = {}
    forms: dict[int, Array | None] = {}
    rows: list[Array | None] = []
    for queries, known in zip(plan.queries, before, strict=True):
        form = query_form(plan, queries, forms) if any(queries.pieces) else None
        if form is None:
            rows.append(known)
            continue
        key = digest(queries.rows) + digest(np.round(form / np.abs(form).max(), 6) + 0.0)  # like tables share theirs
        if key not in fields:
            fields[key] = cheapest(queries.rows, bias, form)
        rows.append(fields[key])
    return replace(plan, bias=bias, approximations=tuple(rows))


def with_bias(plan: LocalPlan, bias: float, replan: Replan) -> LocalPlan:
    """The best plan found whose answers may be off by `bias`, as a share of the devices; the plan where none is better.

    Guarantees: biased_answers_are_within_the_bias; a_bias_never_adds_variance.
    """
    _check(plan, bias)
    results = [plan, replaced(plan, bias, [None] * len(plan.queries))]
    for start in (results[1].approximations, _near(plan, bias)):
        if start is not None:
            queries = replace(plan, bias=bias, approximations=start).queries
            results.append(replaced(replan(queries), bias, start))
    return min(results, key=lambda p: p.weighted_std_error)


def _check(plan: LocalPlan, bias: float) -> None:
    half = half_range(plan)
    if not (isinstance(bias, int | float | np.number) and 0 < bias < np.inf):
        raise LeastnoiseError(f"bias {bias!r} is not a share of the devices; use a number above 0, such as 0.01")
    if bias >= half:
        raise LeastnoiseError(
            f"no query differs by more than {2 * half:g} between records, so the middle of its range is within "
            f"{half:g} of every answer: at a bias of {bias:g} no device needs to report"
        )
    if _cells(plan) > MOST_CELLS:
        raise LeastnoiseError(f"a table of {_cells(plan):,} cells is too large for a bias; use at most {MOST_CELLS:,}")


def _cells(plan: LocalPlan) -> int:
    """Cells of the largest table of the workload."""
    return max(q.rows.shape[1] for q in plan.queries)


def half_range(plan: LocalPlan) -> float:
    """Half of how much any query differs between records."""
    return max(float((q.rows.max(axis=1) - q.rows.min(axis=1)).max()) / 2 for q in plan.queries)


def _near(plan: LocalPlan, bias: float) -> tuple[Array | None, ...] | None:
    """The matrix of least gamma_2 within the bias; None where that is not computed."""
    if len(plan.queries) > 1:
        return None
    (queries,) = plan.queries
    weights, rows = np.broadcast_to(queries.weights, len(queries.rows)), centred(queries.rows)
    if (weights != weights[0]).any():
        return None
    norm = least_gamma_2(rows, inside(queries.rows, bias))
    return None if norm is None else (norm.approximation + (queries.rows - rows),)


def for_devices(plan: LocalPlan, devices: int, replan: Replan) -> LocalPlan:
    """The plan of narrowest intervals for so many devices: without bias, or with the best of some where that gains 2%.

    Guarantees: devices_choose_the_bias.
    """
    width, half = plan.half_width(devices), half_range(plan)
    tried = [share * width for share in SHARES if share * width < half]
    if _cells(plan) <= MOST_CELLS and tried:
        biased = _best(plan, devices, tried, replan)
        if biased.half_width(devices) <= WORTH * width:
            plan = biased
    if plan.half_width(devices) >= half:
        raise LeastnoiseError(
            f"{devices:,} devices are too few: 95% intervals would be within {plan.half_width(devices):.3g} of the "
            f"truth, and the middle of each query's range is within {half:g} of it; use more devices or raise epsilon"
        )
    return plan


def _best(plan: LocalPlan, devices: int, biases: Sequence[float], replan: Replan) -> LocalPlan:
    """The narrowest of some biases: from the best one for the present randomizers, up or down while it gets better."""
    nothing = [None] * len(plan.queries)
    start = int(np.argmin([replaced(plan, bias, nothing).half_width(devices) for bias in biases]))
    best = with_bias(plan, biases[start], replan)
    if _cells(plan) > SMALL:
        return best  # other randomizers take minutes
    for way in (biases[start + 1 :], biases[:start][::-1]):
        for bias in way:
            other = with_bias(plan, bias, replan)
            if other.half_width(devices) >= best.half_width(devices):
                break
            best = other
    return best
