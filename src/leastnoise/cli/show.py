"""A plan for people to read."""

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

PIPE_WIDTH = 120  # columns where there is no terminal to ask


def show_plan(plan: Mapping[str, Any], console: Console | None = None) -> None:
    """Print the summary and the groups of a plan given as `Plan.to_json` gives it."""
    console = console or Console()
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    for line in summary(plan):
        console.print(Text(line))
    console.print(groups_table(plan["groups"]))
    console.print(Text(footer(plan), style="dim"))


def summary(plan: Mapping[str, Any]) -> Iterable[str]:
    """The plan as a whole, in a few lines."""
    floor = plan["floor"]
    yield f"{plan['queries']:,} queries at {privacy(plan['privacy'])}"
    yield f"RMSE {figure(plan['rmse'])}, largest standard error {figure(plan['max_std_error'])}"
    yield f"floor {figure(floor['value'])} ({floor['kind']}), gap {percent(plan['gap'])}"


def privacy(fields: Mapping[str, Any]) -> str:
    """The budget, in the words it was stated in."""
    stated = [f"{name} {fields[name]:g}" for name in ("epsilon", "delta") if fields.get(name) is not None]
    said = ", ".join([*stated, f"mu {figure(fields['mu'])}"])
    return f"{said} ({fields['neighbours']} one row)"


def groups_table(groups: Iterable[Mapping[str, Any]]) -> Table:
    """One row per group of queries."""
    table = Table()
    for column, justify in COLUMNS:
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    for group in groups:
        numbers = [f"{group[key]:,}" for key in ("ways", "tables", "queries")]
        errors = [figure(group[key]) for key in ("rmse", "max_std_error", "weight")]
        table.add_row(Text(str(group["family"])), Text(attributes(group["attributes"])), *numbers, *errors)
    return table


COLUMNS = (
    ("queries", "left"),
    ("attributes", "left"),
    ("ways", "right"),
    ("tables", "right"),
    ("count", "right"),
    ("RMSE", "right"),
    ("largest std error", "right"),
    ("weight", "right"),
)


def attributes(names: Iterable[str], most: int = 6) -> str:
    """Names, shortened where there are many."""
    names = list(names)
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[: most - 2])}, ... {names[-1]} ({len(names)})"


def footer(plan: Mapping[str, Any]) -> str:
    """How the plan was made."""
    objective = plan["objective"]
    named = (
        objective if isinstance(objective, str) else ", ".join(f"{key} {value:g}" for key, value in objective.items())
    )
    made = f"solver {plan['solver']}, prior {plan['prior']}, objective {named}"
    return f"{made}; {plan['seconds']:.1f} s, {plan['peak_memory_mb']:,.0f} MB"


def figure(x: float | None) -> str:
    """Four digits, or whole numbers with separators from ten thousand on."""
    if x is None:
        return "-"
    return f"{x:,.0f}" if 10_000 <= abs(x) < 1e15 else f"{x:.4g}"


def percent(ratio: float | None) -> str:
    """A share in percent."""
    return "-" if ratio is None else f"{100 * ratio:.2g}%"
