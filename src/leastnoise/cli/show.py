"""A plan for people to read."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from leastnoise.mechanisms.side_counts import side_lines
from leastnoise.privacy.neighbours import Neighbours

SHOWN = 20  # groups of a plan, unless all are asked for
PIPE_WIDTH = 120  # columns where there is no terminal to ask


def show_adaptive(fields: Mapping[str, Any]) -> None:
    """Print what an adaptive release will do, given as `AdaptivePlan.to_json` gives it."""
    console = Console()
    for line in [*adaptive_summary(fields), *side_lines(fields)]:
        console.print(Text(line), soft_wrap=True)


def adaptive_summary(fields: Mapping[str, Any]) -> Iterator[str]:
    """An adaptive release before it is made, in a few lines."""
    shares = {name: percent(share) for name, share in fields["shares"].items()}
    yield f"adaptive, as {fields['reason']}" if "reason" in fields else "adaptive"
    size = f"{fields['queries']:,} queries in {fields['tables']:,} tables"
    yield f"{size} at {privacy(fields['privacy'])}"
    yield f"first the total and the one-way tables, for {shares['one_way_tables']} of the budget"
    sets = f"{fields['candidates']:,} sets of two or more attributes"
    if fields["select"] == "survey":
        yield f"then {sets} are compared with what those suggest, all at once, for up to {shares['comparing']}"
        yield "and the best of them are measured, for the rest"
    else:
        yield f"then rounds choose one of {sets} by how far it is from its estimate, for {shares['comparing']}"
        yield "and measure what is still unknown of it, for the rest"
    yield (
        "what is measured, and so its noise, is decided by noisy looks at the data: errors are known after the "
        "release; tables that were not measured are completed from the others, which makes them biased"
    )


def show_plan(plan: Mapping[str, Any], console: Console | None = None, every: bool = False) -> None:
    """Print the summary and the first groups, or every group, of a plan given as `Plan.to_json` gives it."""
    console = console or Console()
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    for line in summary(plan):
        console.print(Text(line), soft_wrap=True)
    groups = plan["groups"] if every else plan["groups"][:SHOWN]
    console.print(groups_table(groups))
    if more := len(plan["groups"]) - len(groups):
        console.print(Text(f"and {more:,} more groups; --groups shows all"), soft_wrap=True)
    for line in side_lines(plan):
        console.print(Text(line), soft_wrap=True)
    console.print(Text(footer(plan)), soft_wrap=True)


def summary(plan: Mapping[str, Any]) -> Iterator[str]:
    """The plan as a whole, in a few lines."""
    floor = plan["floor"]
    if "reason" in plan:
        yield f"a plan, as {plan['reason']}"
    yield f"{plan['queries']:,} queries at {privacy(plan['privacy'])}"
    yield f"RMSE {figure(plan['rmse'])}, largest standard error {figure(plan['max_std_error'])}"
    what = f"{plan['unit']} {figure(plan['objective_value'])}"
    away = "" if plan.get("ratio") is None else f", {percent(plan['ratio'] - 1)} away"
    least = f"no factorization mechanism can go below {figure(floor['value'])}{away} (proven)"
    yield f"{what}; {least if floor['value'] else 'floor for any factorization: ' + floor['kind']}"
    if plan["gap"] is not None:
        yield f"proven to be within {percent(plan['gap'])} of the best plan of its kind"
    if plan.get("measured"):
        loss = plan["measured"]["rounding_loss"]
        than = f"{percent(abs(loss))} {'more' if loss >= 0 else 'less'} than planned"
        yield f"measured in exact integers: RMSE {figure(plan['measured']['rmse'])} ({than})"


def privacy(fields: Mapping[str, Any]) -> str:
    """The privacy spent, and against which change."""
    text = f"epsilon {figure(fields['epsilon'])} and delta {fields['delta']:g} (mu {figure(fields['mu'])})"
    return f"{text} for {Neighbours.from_json(fields)}"


def groups_table(groups: Sequence[Mapping[str, Any]]) -> Table:
    """One row per group of queries; accuracy targets where there are any."""
    targets = any("target" in group for group in groups)
    table = Table()
    table.add_column("queries")
    table.add_column("attributes")
    for title in ("ways", "tables", "count", "weight", "RMSE", "largest std error", *(["target", "met"] * targets)):
        table.add_column(title, justify="right")
    for group in groups:
        counts = [f"{group[key]:,}" for key in ("ways", "tables", "queries")]
        errors = [figure(group[key]) for key in ("weight", "rmse", "max_std_error")]
        target = [figure(group.get("target")), _met(group)] * targets
        table.add_row(Text(group["family"]), Text(attributes(group["attributes"])), *counts, *errors, *target)
    return table


def _met(group: Mapping[str, Any]) -> str:
    if "met" not in group:
        return "-"
    return "yes" if group["met"] else "no"


def attributes(names: Iterable[str], most: int = 4) -> str:
    """Names, shortened where there are many."""
    names = list(names)
    if len(names) <= most:
        return ", ".join(names) or "everybody"
    return f"{names[0]}, {names[1]}, ... {names[-1]} ({len(names)})"


def footer(plan: Mapping[str, Any]) -> str:
    """How the plan was made."""
    aim = plan["objective"]
    named = aim if isinstance(aim, str) else ", ".join(f"{key} {value:g}" for key, value in aim.items())
    text = f"solver {plan['solver']}, baseline {plan['baseline']}, objective {named}"
    return f"{text}; {plan['seconds']:.1f} s, {plan['peak_memory_mb']:,.0f} MB"


def figure(x: float | None) -> str:
    """Four digits, or whole numbers with separators from ten thousand on."""
    if x is None:
        return "-"
    return f"{x:,.0f}" if 10_000 <= abs(x) < 1e15 else f"{x:.4g}"


def percent(ratio: float) -> str:
    """A share in percent; what is only rounding counts as nothing."""
    return f"{100 * ratio:.2g}%" if ratio > 1e-9 else "0%"
