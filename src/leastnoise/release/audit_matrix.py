"""The audit of a plan for a plain matrix: its mechanism, run many times on the two datasets it tells apart best."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.errors import LeastnoiseError
from leastnoise.factorize.system import Measured
from leastnoise.plan.matrix import MatrixPlan
from leastnoise.release.audit import CHUNK_ANSWERS, Audit, Look, Wish, bits_of, judged, repeats
from leastnoise.release.audit_pair import BYSTANDERS
from leastnoise.release.matrix import measured

MOST_DRAWN = 2**30  # numbers of all runs together


def audit(plan: MatrixPlan, runs: int = 10_000, confidence: float = 0.95, **options: Any) -> Audit:
    """The same as `leastnoise.release.audit.audit`, with its options, for a plan of a plain matrix.

    >>> from leastnoise.plan.matrix import factorize
    >>> from leastnoise.privacy.budget import Budget
    >>> audit(factorize(np.tri(5), Budget(mu=1)), runs=200, confidence=0.999, seed=1).verdict
    'consistent with the claim'

    Guarantees: false_alarms_are_rare; halved_noise_is_flagged; reused_seed_is_flagged.
    """
    wish = Wish(runs, confidence, **options)
    bits, counts = bits_of(wish.seed), neighbours(plan)
    zero, one = (plan.system.apply(x)[None] for x in counts)
    if 2 * runs * zero.size > MOST_DRAWN:
        raise LeastnoiseError(f"{runs:,} runs on {plan.items:,} items take too long; ask for fewer with runs")
    keys = tuple(np.random.default_rng(0).integers(-(2**63), 2**63 - 1, (n, 2)) for n in zero.shape)
    look = Look(0, 0, float(plan.variance), (zero, one), (keys[0], keys[1]), merged=True)
    scores: list[list[Array]] = [[], []]
    prints, step = [], max(1, CHUNK_ANSWERS // zero.size)
    for done in range(0, runs, step):
        for dataset, x in enumerate(counts):
            drawn = np.stack([measured(plan, x, bits()) for _ in range(min(step, runs - done))])
            score, mark = look.score(drawn[None], dataset)
            scores[dataset].append(score)
            prints.append(mark)
        wish.tell(done + step)
    found = repeats([(zero.size, float(plan.variance))], np.concatenate(prints))
    columns = [np.concatenate(s) for s in scores]
    return judged(wish, plan.budget, columns, look.gaps, sqrt(look.gaps.sum()), found)


def neighbours(plan: MatrixPlan) -> tuple[IntArray, IntArray]:
    """Two made-up vectors of counts that differ by all rows of one person, as much as the integers can tell."""
    rng, rows = np.random.default_rng(0), plan.budget.neighbours.rows
    others = np.bincount(rng.integers(0, plan.items, BYSTANDERS), minlength=plan.items)
    new, *old = _worst(plan)
    one, zero = others.copy(), others.copy()
    one[new] += rows
    zero[old] += rows
    return zero, one


def _worst(plan: MatrixPlan) -> list[int]:
    """The longest column, or the two columns that differ most. Of running totals the first column holds all others."""
    replace = plan.budget.neighbours.change == "replace"
    if not isinstance(plan.system, Measured):
        return [0, plan.items - 1] if replace and plan.items > 1 else [0]
    A = plan.system.strategy.astype(np.float64)
    gram = A.T @ A
    lengths = np.diagonal(gram)
    if replace:
        apart = lengths[:, None] + lengths - 2 * gram
        if plan.budget.neighbours.size == "known" or apart.max() >= lengths.max():
            return [int(i) for i in np.unravel_index(int(apart.argmax()), apart.shape)]
    return [int(lengths.argmax())]
