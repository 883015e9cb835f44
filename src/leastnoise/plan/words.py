"""A plan in words, for people."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leastnoise.plan.plan import Plan


def number(x: float) -> str:
    """Four significant digits, with thousands separators."""
    return f"{x:,.4g}" if abs(x) < 10_000 else f"{x:,.0f}"


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


def summary(plan: Plan) -> str:
    """A short table: error per group, floor, gap."""
    lines = [f"{'queries':>14}  {'rmse':>10}  {'max s.e.':>10}  what"]
    lines += [
        f"{g['queries']:>14,}  {number(g['rmse']):>10}  {number(g['max_std_error']):>10}  {g['family']} on {where(g)}"
        for g in plan.groups()
    ]
    lines.append(f"{plan.queries:>14,}  {number(plan.rmse):>10}  {number(plan.max_std_error):>10}  all")
    lines.append(
        f"{plan.unit}: {number(plan.value)}; floor for any mechanism: {number(plan.floor_value)} ({plan.floor.kind})"
    )
    if plan.gap < inf:
        lines.append(f"within {percent_above(1 + plan.gap)} of the best strategies in these residual spaces (proven)")
    lines.append(f"privacy: {plan.budget}")
    return "\n".join(lines)


def explain(plan: Plan) -> str:
    """What was asked, what it costs, how good it is, and why."""
    design = plan.design
    measured = design.losses > 0
    above = percent_above(plan.value / plan.floor_value) if plan.floor_value > 0 else "an unknown share"
    parts = [
        f"{plan.queries:,} queries in {len(plan.workload.blocks)} statements are answered from "
        f"{int(design.members[measured].sum()):,} residual tables, of which {int(measured.sum()):,} differ.",
        f"A typical answer is off by about {number(plan.rmse)} (root mean square), the worst by "
        f"{number(plan.max_std_error)}; this holds for every dataset: the noise does not depend on the data.",
        f"No factorization mechanism can bring the {plan.unit} below {number(plan.floor_value)} "
        f"({plan.floor.kind}); this plan is at {number(plan.value)}, {above} above that floor.",
    ]
    if plan.gap < inf:
        parts.append(
            f"Within its own class (one strategy per residual) it is optimal to {percent_above(1 + plan.gap)}."
        )
    if plan.objective.r == inf and any(b.weight != 1 for b in plan.workload.blocks):
        parts.append("The objective `max` treats all queries alike; their weights do not enter it.")
    parts.append(_prior_words(plan))
    parts += [_target_words(g) for g in plan.groups() if "target" in g]
    parts.append(f"Privacy: {plan.budget}.")
    return "\n".join(p for p in parts if p)


def _prior_words(plan: Plan) -> str:
    if plan.prior == "uniform":
        return "Residuals are taken against the uniform distribution of every attribute."
    if plan.prior == "given":
        return "Residuals are taken against the distributions given for the attributes."
    return "Residuals are taken against distributions found by the prior search; that alone lowers the error."


def _target_words(group: dict[str, Any]) -> str:
    verdict = "met" if group["met"] else "NOT met"
    return (
        f"Target for {group['family']} on {where(group)}: standard error at most {number(group['target'])}; "
        f"planned {number(group['max_std_error'])}, {verdict}."
    )
