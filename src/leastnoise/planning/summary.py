"""A plan in words, for people."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from leastnoise.errors import LeastnoiseError
from leastnoise.privacy.cost import fraction_text
from leastnoise.strategies import CirculantStrategy

if TYPE_CHECKING:
    from leastnoise.mechanisms.tables.plan import Plan

SHOWN = 12  # groups that a plan shows of itself
ROUNDED_VALUES = 1_000  # of an attribute: up to here, rounding is quick


def number(x: float) -> str:
    """Four significant digits, with thousands separators."""
    return f"{x:,.4g}" if abs(x) < 10_000 else f"{x:,.0f}"


def no_noise_needed() -> LeastnoiseError:
    """What a plan says where no change that is to be hidden moves any of its answers."""
    return LeastnoiseError("replacing a row changes no answer, so no noise is needed; publish the answers as they are")


def where(group: dict[str, Any]) -> str:
    """The attributes of a group in a few words."""
    names = group["attributes"]
    if group["ways"] == 0:
        return "everybody"
    if group["ways"] == len(names):
        return " x ".join(names)
    some = ", ".join(names) if len(names) <= 4 else f"{len(names)} attributes"
    return f"every {group['ways']} of {some} ({group['tables']:,} tables)"


def percent_above(ratio: float) -> str:
    """A ratio of errors as a percentage."""
    return f"{100 * (ratio - 1):.2g}%" if ratio - 1 >= 1e-6 else "0%"


def summary(plan: Plan, most: int | None = None) -> str:
    """A short table: error per group, of which at most so many are listed; floor, gap."""
    groups = plan.groups()
    left = 0 if most is None else max(len(groups) - most, 0)
    lines = [f"{'queries':>14}  {'rmse':>10}  {'max s.e.':>10}  what"]
    lines += [
        f"{g['queries']:>14,}  {number(g['rmse']):>10}  {number(g['max_std_error']):>10}  {g['family']} on {where(g)}"
        for g in groups[: len(groups) - left]
    ]
    lines += [f"{'':>14}  {'':>10}  {'':>10}  and {left:,} more groups, which details() lists"] if left else []
    lines.append(f"{plan.queries:>14,}  {number(plan.rmse):>10}  {number(plan.max_std_error):>10}  all")
    lines.append(f"{plan.unit}: {number(plan.value)}; floor for any factorization: {_floor_text(plan)}")
    if plan.gap < inf:
        lines.append(f"within {percent_above(1 + plan.gap)} of the best strategies in these residual spaces (proven)")
    lines += filter(None, [_measured_text(plan)])
    lines.append(f"privacy: {plan.budget}")
    return "\n".join(lines)


def _floor_text(plan: Plan) -> str:
    """The floor and how far the plan is from it, or why there is none."""
    if not plan.floor_value > 0:
        return plan.floor.kind
    return f"{number(plan.floor_value)}, {percent_above(plan.value / plan.floor_value)} away (proven)"


def explain(plan: Plan) -> str:
    """The workload, what it costs, how good the plan is, and why."""
    design = plan.design
    measured = design.losses > 0
    parts = [
        f"{plan.queries:,} queries in {len(plan.workload.blocks)} statements are answered from "
        f"{int(design.members[measured].sum()):,} residual tables, of which {int(measured.sum()):,} differ.",
        f"A typical answer is off by about {number(plan.rmse)} (root mean square), the worst by "
        f"{number(plan.max_std_error)}; this holds for every dataset: the noise does not depend on the data.",
        _floor_sentence(plan),
    ]
    if plan.worst_case_floor > 0:
        parts.append(
            f"No mechanism of any kind with Gaussian privacy mu {number(plan.budget.mu)} keeps it below "
            f"{number(plan.worst_case_floor)} on all data, counts without a bound included."
        )
    if plan.gap < inf:
        parts.append(
            f"Within its own class (one strategy per residual) it is optimal to {percent_above(1 + plan.gap)}."
        )
    if plan.objective.r == inf and any(b.weight != 1 for b in plan.workload.blocks):
        parts.append("The objective `max` treats all queries alike; their weights do not enter it.")
    parts.append(_baseline_text(plan))
    parts += [_target_text(g) for g in plan.groups() if "target" in g]
    parts.append(f"Privacy: {plan.budget}.")
    return "\n".join(p for p in parts if p)


def _floor_sentence(plan: Plan) -> str:
    """How far from the best the plan is, or that nothing is known of it."""
    if not plan.floor_value > 0:
        known = f"how far that is from the best is not known (floor: {plan.floor.kind})."
        return f"This plan has a {plan.unit} of {number(plan.value)}; {known}"
    return (
        f"No factorization mechanism can bring the {plan.unit} below {number(plan.floor_value)} ({plan.floor.kind}); "
        f"this plan is at {number(plan.value)}, {percent_above(plan.value / plan.floor_value)} above that floor."
    )


def document(plan: Plan) -> dict[str, Any]:
    """The plan in numbers."""
    design, budget = plan.design, plan.budget
    delta = budget.delta if budget.delta is not None else 1e-9
    return {
        "queries": plan.queries,
        "rmse": plan.rmse,
        "weighted_rmse": plan.weighted_rmse,
        "max_std_error": plan.max_std_error,
        "objective": plan.objective.to_json(),
        "objective_value": plan.value,
        "unit": plan.unit,
        "floor": {"value": plan.floor_value, "kind": plan.floor.kind, "unit": plan.unit},
        "worst_case_floor": plan.worst_case_floor or None,
        "class_floor": plan.class_floor if plan.class_floor > 0 else None,
        "gap": plan.gap if plan.gap < inf else None,
        "ratio": plan.value / plan.floor_value if plan.floor_value > 0 else None,
        "measured": measured(plan),
        "privacy": {
            "mu": budget.mu,
            "rho": budget.rho,
            "epsilon": budget.epsilon if budget.epsilon is not None else budget.epsilon_at(delta),
            "delta": delta,
        }
        | budget.neighbours.to_json(),
        "solver": plan.solver,
        "baseline": plan.baseline,
        "groups": plan.groups(),
        "residuals": int(design.members[design.losses > 0].sum()),
        "distinct_residuals": int((design.losses > 0).sum()),
        "seconds": plan.seconds,
    }


def has_integer_plan(plan: Plan) -> bool:
    """Whether the plan has an integer form that is quickly made."""
    if any(p.size > ROUNDED_VALUES and p.tree is None for p in plan.design.baselines) and not _on_cycles(plan):
        return False
    try:
        return plan.integer_plan is not None
    except LeastnoiseError:  # a strategy without integer form; running the plan says which
        return False


def _on_cycles(plan: Plan) -> bool:
    """Whether everything is measured by Fourier coefficients, which are rounded quickly."""
    uniform = all(p.vector is None for p in plan.design.baselines)
    strategies = [s.strategy for s in plan.design.solutions if s is not None]
    parts = [part for s in strategies for part in ((s,) if s.factors is None else s.factors)]
    return uniform and all(isinstance(part, CirculantStrategy) for part in parts)


def measured(plan: Plan) -> dict[str, Any] | None:
    """The plan as it is measured, in integers: its error and exact cost; None where it has no integer form.

    Attributes with very many values are left out here, because rounding them takes longer than planning.
    """
    if not has_integer_plan(plan):
        return None
    cost = plan.integer_plan.cost
    return {
        "rmse": plan.integer_plan.rmse,
        "rounding_loss": plan.rounding_loss,
        "mu": cost.mu,
        "mu_squared": fraction_text(cost.mu_squared),
    }


def _measured_text(plan: Plan) -> str:
    entries = measured(plan)
    if entries is None:
        return ""
    loss = entries["rounding_loss"]
    change = f"{abs(loss):.2%} {'more' if loss >= 0 else 'less'} than planned"
    return f"measured in exact integers: rmse {number(entries['rmse'])}, {change}"


def _baseline_text(plan: Plan) -> str:
    if plan.baseline == "uniform":
        return "Residuals are taken against the uniform distribution of every attribute."
    if plan.baseline == "tree":
        how = "by uneven shares" if any(p.shares is not None for p in plan.design.baselines) else "evenly"
        return f"Residuals of a hierarchy are taken against nodes that spread {how} over their children."
    if plan.baseline == "given":
        return "Residuals are taken against the distributions given for the attributes."
    return "Residuals are taken against distributions found by the baseline search; that alone lowers the error."


def _target_text(group: dict[str, Any]) -> str:
    verdict = "met" if group["met"] else "NOT met"
    return (
        f"Target for {group['family']} on {where(group)}: standard error at most {number(group['target'])}; "
        f"planned {number(group['max_std_error'])}, {verdict}."
    )
