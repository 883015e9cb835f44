"""From a spec file to a plan or an adaptive release, and which of the two where the spec leaves it open.

Everything here is public: the spec, the noise that a plan would have, and about how many rows there are.
"""

from __future__ import annotations

from math import pi, prod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from leastnoise.plan import Plan, plan
from leastnoise.plan.design import Progress
from leastnoise.plan.from_spec import plan_spec
from leastnoise.plan.structure import Table
from leastnoise.privacy import Budget
from leastnoise.release.statement import common_delta
from leastnoise.workload import Workload
from leastnoise.workload.spec import Spec

if TYPE_CHECKING:
    from leastnoise.adaptive.adapt import Adaptive

Method = Literal["plan", "adaptive"]
ENOUGH = 0.1  # of the rows: a plan whose errors add up to no more in a table is close enough (docs/decisions/010)
ASSUMED_ROWS = 1_000_000  # where the spec does not say: in doubt a plan, which measures everything


def release_spec(spec: Spec, *, progress: Progress | None = None) -> Plan | Adaptive:
    """What a spec asks for, planned or adaptive; `run` of either makes the release.

    Guarantees: uses_no_data.
    """
    method, _ = method_of(spec, progress=progress)
    return plan_spec(spec, progress=progress) if method == "plan" else adapt_spec(spec)


def method_of(spec: Spec, *, progress: Progress | None = None) -> tuple[Method, str]:
    """How a spec is released, and why."""
    if spec.method != "auto":
        return spec.method, f"the spec says 'method: {spec.method}'"
    if any(block.target is not None for block in spec.workload.blocks):
        return "plan", "only a plan can promise the accuracy that 'within' asks for"
    return choose_method(spec.workload, Budget(**spec.budget_fields), spec.rows_about, progress=progress)


def adapt_spec(spec: Spec) -> Adaptive:
    """The adaptive release of a spec."""
    from leastnoise.adaptive.adapt import adapt

    made = adapt(spec.workload, Budget(**spec.budget_fields), method=spec.select, rounds=spec.rounds)
    made.check()
    return made


def choose_method(
    workload: Workload, budget: Budget, rows_about: int | None = None, *, progress: Progress | None = None
) -> tuple[Method, str]:
    """Plan or adaptive, and why in words, from public knowledge alone.

    >>> from leastnoise.domain import Domain
    >>> work = Workload(Domain.of(a=10, b=10)).marginals(ways=2)
    >>> choose_method(work, Budget(epsilon=1, delta=1e-9), 200_000)[0]
    'plan'
    >>> print(choose_method(work, Budget(epsilon=1, delta=1e-9), 2_000)[1])
    the errors of a plan would add up to 22% of the rows (about 2,000) in a table on average, which is more than 10%

    Guarantees: uses_no_data; more_rows_never_lead_away_from_a_plan.
    """
    if all(block.ways < 2 for block in workload.blocks):
        return "plan", "one-way tables leave nothing to choose from"
    error = plan_error(plan(workload, budget, prior="uniform", progress=progress))
    rows = rows_about or ASSUMED_ROWS
    method: Method = "plan" if error <= ENOUGH * rows else "adaptive"
    compared = f"is {'more' if method == 'adaptive' else 'no more'} than"
    if rows_about is None:
        return method, (
            f"a plan is close to the data from about {error / ENOUGH:,.0f} rows on, which {compared} "
            f"the {rows:,} that are assumed where the spec has no 'rows_about'"
        )
    return method, (
        f"the errors of a plan would add up to {_percent(error / rows)} of the rows (about {rows:,}) "
        f"in a table on average, which {compared} {ENOUGH:.0%}"
    )


def _percent(share: float) -> str:
    """Two digits, or whole percents from ten on.

    >>> _percent(0.01234), _percent(50.466)
    ('1.2%', '5,047%')
    """
    return f"{100 * share:,.0f}%" if share >= 0.1 else f"{100 * share:.2g}%"


def plan_error(made: Plan) -> float:
    """L1 error that is to be expected of a table, on average over the tables, in rows.

    Errors of queries that count a row several times, such as cumulative ones, are divided by how often they do so.
    """
    structure, variances = made.design.structure, made.variances
    copies = np.array([t.copies for t in structure.tables], dtype=np.float64)
    variance = variances.table_sums(variances.plain) / copies
    sizes = np.array([_queries_and_mass(made, t) for t in structure.tables])
    errors = np.sqrt(2 / pi * sizes[:, 0] * variance) / np.maximum(sizes[:, 1], 1.0)
    return float(np.average(errors, weights=copies))


def _queries_and_mass(made: Plan, table: Table) -> tuple[float, float]:
    """The number of queries of a table, and the sum of their answers about one row, averaged over its values."""
    rows, structure = made.variances.rows_of(table), made.design.structure
    if rows is not None:
        return prod(float(r.counts.sum()) for r in rows), prod(float(r.counts @ np.abs(r.means)) for r in rows)
    shape = structure.shape(table.axes)
    answers = structure.block_of(table).tensor.plain.rows(shape)
    means = answers.reshape(len(answers), -1).mean(axis=1)
    return float(len(answers)), float(np.abs(means).sum())


def preview(made: Adaptive, reason: str) -> dict[str, Any]:
    """What an adaptive release will do, as plain data. What it measures is decided by noisy looks at the data."""
    aims, budget = made.aims, made.budget
    cost, delta = budget.cost_value, common_delta([budget])
    return {
        "method": "adaptive",
        "reason": reason,
        "select": made.method,
        "rounds": made.rounds,
        "queries": made.workload.queries,
        "tables": len(aims.tables),
        "candidates": int((aims.ways > 1).sum()),
        "shares": shares(made),
        "privacy": {"epsilon": cost.epsilon_at(delta), "delta": delta} | cost.to_json(),
    }


def shares(made: Adaptive) -> dict[str, float]:
    """Of the budget: what the total and the one-way tables get first, comparing, and measuring what was found.

    A survey that finds everything measured already is left out, and what it would cost is spent on measuring.
    """
    from leastnoise.adaptive import chosen, surveyed

    ones = _one_way(made)
    if not (made.aims.ways > 1).any():
        first, comparing = 1.0, 0.0
    elif made.method == "survey":
        first, comparing = float(surveyed.START), float(surveyed.LOOK)
    else:
        rounds = made.rounds or chosen.ROUNDS_PER_ATTRIBUTE * ones
        first = float(1 - chosen.CHOICE) * ones / rounds
        comparing = float(chosen.CLOSING + chosen.CHOICE * (1 - chosen.CLOSING)) - float(chosen.CHOICE) * first
    return {"one_way_tables": first, "comparing": comparing, "measuring": 1 - first - comparing}


def _one_way(made: Adaptive) -> int:
    return max(1, int((made.aims.ways == 1).sum()))
