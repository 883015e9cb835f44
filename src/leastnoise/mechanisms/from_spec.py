"""From a spec file to a mechanism, and which one where the spec leaves it open.

Everything here is public: the spec, the noise that a plan would have, and about how many rows there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from math import pi, prod
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from leastnoise._types import Array, Progress
from leastnoise.domain.attributes import Attribute
from leastnoise.domain.hierarchies import Hierarchy
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.mechanism import Mechanism, counting_of
from leastnoise.mechanisms.questions import check_questions, read_questions
from leastnoise.mechanisms.tables.plan import Plan, plan
from leastnoise.planning.structure import Table
from leastnoise.privacy import Budget
from leastnoise.release.release import Release
from leastnoise.workload import Block, Workload
from leastnoise.workload.families import Matrix, Prefix
from leastnoise.workload.schema import MethodName
from leastnoise.workload.spec import Objective, Spec
from leastnoise.workload.weighted import Weighted

if TYPE_CHECKING:
    from leastnoise.mechanisms.adaptive.plan import AdaptivePlan
    from leastnoise.mechanisms.matrix.plan import MatrixPlan
    from leastnoise.mechanisms.stream.plan import StreamPlan
    from leastnoise.mechanisms.tree.plan import TreePlan

ENOUGH = 0.1  # of the rows: a plan whose errors add up to no more in a table is close enough (docs/decisions/010)
ENOUGH_FOR_FIT = 3.0  # the same where tables are read from a fit, which leaves out most of the noise
ASSUMED_ROWS = 1_000_000  # where the spec does not say: in doubt a plan, which measures everything


def plan_spec(
    spec: Spec,
    *,
    solver: str | None = None,
    baseline: str | None = None,
    objective: Objective | None = None,
    progress: Progress | None = None,
) -> Mechanism[Release]:
    """The mechanism that a spec states; its `run` makes the release.

    `solver`, `baseline` and `objective` are for `method: plan`, and take the place of what the spec says. While keys
    are unknown, it is the plan to find them.

    Guarantees: uses_no_data; spec_round_trip.
    """
    if spec.unknown:
        from leastnoise.mechanisms.discover.from_spec import discover_plans

        return discover_plans(spec)[spec.unknown[0]]
    spec = for_tables(spec)
    read_questions(spec.workload.domain, spec.method, spec.publication)
    mechanism = _mechanism(spec, solver, baseline, objective, progress)
    check_questions(mechanism, spec.publication)
    return mechanism


def _mechanism(
    spec: Spec,
    solver: str | None,
    baseline: str | None,
    objective: Objective | None,
    progress: Progress | None,
) -> Mechanism[Release]:
    method, reason = method_of(spec, progress=progress)
    share = side_share(spec)
    if share:  # the method is that of the whole budget
        return _with_side_counts(
            replace(spec, method=cast(MethodName, method)), share, solver, baseline, objective, progress
        )
    if method == "plan":
        return plan(
            spec.workload,
            Budget(**spec.budget_fields) if spec.budget_fields else None,
            solver=solver or spec.solver,
            baseline=baseline or spec.baseline,
            objective=spec.objective if objective is None else objective,
            progress=progress,
        )
    for name, given in {"solver": solver, "baseline": baseline, "objective": objective}.items():
        if given is not None:
            raise LeastnoiseError(f"{name} is for plans, but this spec has method {method!r}, as {reason}")
    return PLANNERS[method](spec)


def for_tables(spec: Spec) -> Spec:
    """The spec with what finding keys leaves of its budget."""
    if not spec.discover:
        return spec
    from leastnoise.mechanisms.discover.from_spec import rest_of

    return replace(spec, budget_fields=rest_of(spec), discover={})


def side_share(spec: Spec) -> Fraction:
    """The part of the budget that is spent beside the tables; rules that touch no row need none."""
    touching = counting_of(spec.workload.domain, spec.rules, spec.unit_fields).counters()
    shares = (spec.quality if touching else None, spec.people)
    return sum((Fraction(str(share)) for share in shares if share is not None), Fraction(0))


def _with_side_counts(spec: Spec, share: Fraction, *options: Any) -> Mechanism[Release]:
    from leastnoise.mechanisms.side_counts import with_side_counts

    rest = replace(spec, budget_fields=_rest(spec.budget_fields, share), quality=None, people=None, people_by=())
    return with_side_counts(
        _mechanism(rest, *options),
        quality=spec.quality,
        people=spec.people,
        by=spec.people_by,
        rules=spec.rules,
        unit=spec.unit_fields,
    )


def _rest(fields: dict[str, Any], share: Fraction) -> dict[str, Any]:
    """The budget of the tables; where accuracy targets decide it, what is beside them comes on top."""
    if not fields:
        return fields
    smaller = Budget(**fields).part(1 - share)
    return dict(smaller.stated) | smaller.neighbours.arguments


def method_of(spec: Spec, *, progress: Progress | None = None) -> tuple[str, str]:
    """How a spec is released, and why."""
    if spec.unknown:
        return "discover", f"the values of {spec.unknown[0]!r} are not known"
    spec = for_tables(spec)
    if spec.method != "auto":
        return spec.method, f"the spec says 'method: {spec.method}'"
    if any(block.target is not None for block in spec.workload.blocks):
        return "plan", "only a plan can promise the accuracy that 'within' asks for"
    if spec.budget_fields.get("one_per"):
        return "plan", "only a plan makes use of 'one_per'"
    budget = Budget(**spec.budget_fields)
    return choose_method(spec.workload, budget, spec.rows_about, for_fit=spec.for_fit, progress=progress)


def adaptive_plan_spec(spec: Spec) -> AdaptivePlan:
    """The adaptive release of a spec."""
    from leastnoise.mechanisms.adaptive.plan import adaptive_plan

    mechanism = adaptive_plan(
        spec.workload, Budget(**spec.budget_fields), select=spec.select, rounds=spec.rounds, for_fit=spec.for_fit
    )
    mechanism.check()
    return mechanism


def matrix_spec(spec: Spec) -> MatrixPlan:
    """The queries of a spec on its single attribute, as one matrix."""
    from leastnoise.mechanisms.matrix.plan import RunningTotals, matrix_plan

    attribute, budget = _single(spec), Budget(**spec.budget_fields)
    if not isinstance(spec.objective, str):
        stated = ", ".join(f"{name}: {power:g}" for name, power in spec.objective.items())
        raise LeastnoiseError(f"objective {{{stated}}} is for plans; a matrix has 'sum' or 'max'")
    options: dict[str, Any] = {"objective": spec.objective, "items": attribute, "bias": spec.bias}
    blocks = spec.workload.blocks
    if len(blocks) == 1 and type(blocks[0].family(0)) is Prefix:  # and no suffix, which is a kind of prefix
        return matrix_plan(RunningTotals(attribute.size), budget, **options)
    rows = [block.family(0).plain.rows(attribute.size) for block in blocks]
    weights = np.concatenate([_weights(block, len(some)) for block, some in zip(blocks, rows, strict=True)])
    families = [block.family(0).plain for block in blocks]
    named = [family.names for family in families if isinstance(family, Matrix) and family.names is not None]
    names = [name for some in named for name in some] if len(named) == len(families) else None
    return matrix_plan(
        np.concatenate(rows), budget, weights=None if (weights == 1).all() else weights, names=names, **options
    )


def _weights(block: Block, queries: int) -> Array:
    family = block.family(0)
    return block.weight * (family.row_weights if isinstance(family, Weighted) else np.ones(queries))


def _single(spec: Spec) -> Attribute:
    attributes = spec.workload.domain.attributes
    if len(attributes) != 1:
        raise LeastnoiseError(
            f"method {spec.method!r} is for a single attribute, the spec has {len(attributes)}; use 'method: plan'"
        )
    return attributes[0]


def stream_spec(spec: Spec) -> StreamPlan:
    """The same for a stream."""
    from leastnoise.mechanisms.stream.plan import StreamPlan

    return StreamPlan.of(matrix_spec(spec))


def tree_spec(spec: Spec) -> TreePlan:
    """A tree for each attribute of a spec, all of which have hierarchies."""
    from leastnoise.mechanisms.tree.plan import tree_plan

    attributes = spec.workload.domain.attributes
    trees = {a.name: a.values for a in attributes if isinstance(a.values, Hierarchy)}
    if odd := [a.name for a in attributes if a.name not in trees]:
        raise LeastnoiseError(f"method 'tree' needs a hierarchy for each attribute; {odd[0]!r} has none")
    budget = Budget(**spec.budget_fields) if spec.budget_fields else None
    options = {"kind" if name == "target_kind" else name: value for name, value in spec.tree.items()}
    return tree_plan(trees, budget=budget, **options)


PLANNERS: Mapping[str, Callable[[Spec], Mechanism[Release]]] = {
    "adaptive": adaptive_plan_spec,
    "matrix": matrix_spec,
    "stream": stream_spec,
    "tree": tree_spec,
}


def choose_method(
    workload: Workload,
    budget: Budget,
    rows_about: int | None = None,
    *,
    for_fit: bool = False,
    progress: Progress | None = None,
) -> tuple[str, str]:
    """Plan or adaptive, and why in words, from public knowledge alone.

    A fit takes out most of the noise of a plan: `for_fit`, a plan is left for an adaptive release at larger errors.

    >>> from leastnoise.domain.attributes import Domain
    >>> work = Workload(Domain.of(a=10, b=10)).marginals(ways=2)
    >>> choose_method(work, Budget(epsilon=1, delta=1e-9), 200_000)[0]
    'plan'
    >>> print(choose_method(work, Budget(epsilon=1, delta=1e-9), 2_000)[1])
    the errors of a plan would add up to 22% of the rows (about 2,000) in a table on average, which is more than 10%

    Guarantees: uses_no_data; more_rows_never_lead_away_from_a_plan.
    """
    if workload.domain.amounts:
        return "plan", "only a plan sums amounts"
    if all(block.ways < 2 for block in workload.blocks):
        return "plan", "one-way tables leave nothing to choose from"
    error = plan_error(plan(workload, budget, baseline="uniform", progress=progress))
    rows = rows_about or ASSUMED_ROWS
    enough = ENOUGH_FOR_FIT if for_fit else ENOUGH
    method = "plan" if error <= enough * rows else "adaptive"
    compared = f"is {'more' if method == 'adaptive' else 'no more'} than"
    if rows_about is None:
        return method, (
            f"a plan is close to the data from about {error / enough:,.0f} rows on, which {compared} "
            f"the {rows:,} that are assumed where the spec has no 'rows_about'"
        )
    return method, (
        f"the errors of a plan would add up to {_percent(error / rows)} of the rows (about {rows:,}) "
        f"in a table on average, which {compared} {enough:.0%}"
    )


def _percent(share: float) -> str:
    """Two digits, or whole percents from ten on.

    >>> _percent(0.01234), _percent(50.466)
    ('1.2%', '5,047%')
    """
    return f"{100 * share:,.0f}%" if share >= 0.1 else f"{100 * share:.2g}%"


def plan_error(plan: Plan) -> float:
    """L1 error that is to be expected of a table, on average over the tables, in rows.

    Errors of queries that count a row several times, such as cumulative ones, are divided by how often they do so.
    """
    structure, variances = plan.design.structure, plan.variances
    copies = np.array([t.copies for t in structure.tables], dtype=np.float64)
    variance = variances.table_sums(variances.plain) / copies
    sizes = np.array([_queries_and_mass(plan, t) for t in structure.tables])
    errors = np.sqrt(2 / pi * sizes[:, 0] * variance) / np.maximum(sizes[:, 1], 1.0)
    return float(np.average(errors, weights=copies))


def _queries_and_mass(plan: Plan, table: Table) -> tuple[float, float]:
    """The number of queries of a table, and the sum of their answers about one row, averaged over its values."""
    rows, structure = plan.variances.rows_of(table), plan.design.structure
    if rows is not None:
        return prod(float(r.counts.sum()) for r in rows), prod(float(r.counts @ np.abs(r.means)) for r in rows)
    shape = structure.shape(table.axes)
    answers = structure.block_of(table).tensor.plain.rows(shape)
    means = answers.reshape(len(answers), -1).mean(axis=1)
    return float(len(answers)), float(np.abs(means).sum())
