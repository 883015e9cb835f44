"""`leastnoise ledger init` and `leastnoise ledger show`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from leastnoise.cli.options import Hidden, Json, KnownSize, RowsPerPerson
from leastnoise.cli.show import PIPE_WIDTH
from leastnoise.privacy import Budget, Cost, Entry, Ledger
from leastnoise.privacy.ledger_file import ATTEMPTS
from leastnoise.privacy.neighbours import Neighbours
from leastnoise.privacy.units import say

EXAMPLE = "Example: leastnoise ledger init people.ledger --dataset people --epsilon 1 --delta 1e-9"

ledger = typer.Typer(no_args_is_help=True, help="Keep account of the privacy spent on a dataset.", epilog=EXAMPLE)
PathArgument = Annotated[Path, typer.Argument(metavar="PATH", help="The ledger's file.", show_default=False)]


@ledger.command(epilog=EXAMPLE)
def init(
    path: PathArgument,
    dataset: Annotated[str, typer.Option(help="Name of the dataset that the ledger is for.", show_default=False)],
    epsilon: Annotated[float | None, typer.Option(help="Total epsilon; needs --delta.")] = None,
    delta: Annotated[float | None, typer.Option(help="Delta of the total epsilon.")] = None,
    rho: Annotated[float | None, typer.Option(help="Total rho (zCDP), instead of epsilon.")] = None,
    mu: Annotated[float | None, typer.Option(help="Total mu (Gaussian privacy), instead of epsilon.")] = None,
    neighbours: Hidden = "add-remove",
    rows_per_person: RowsPerPerson = None,
    size: KnownSize = None,
    exact: Annotated[
        str | None,
        typer.Option(help="Counts that are published exactly, as the plan of a tree prints them.", show_default=False),
    ] = None,
    attempts: Annotated[
        int, typer.Option(help="How many runs may stop after they looked at the data; then further ones are refused.")
    ] = ATTEMPTS,
    as_json: Json = False,
) -> None:
    """Create the ledger of a dataset, once. Its total can never be changed; a file that exists is refused."""
    hidden = Neighbours(neighbours, rows_per_person, size, exact)
    total = Budget(epsilon=epsilon, delta=delta, rho=rho, mu=mu, neighbours=hidden)
    result = Ledger.create(path, total, dataset, attempts=attempts)
    if as_json:
        typer.echo(json.dumps(ledger_json(result), indent=2))
    else:
        typer.echo(f"created {path} for the dataset {dataset!r}: {total}")


@ledger.command(epilog="Example: leastnoise ledger show people.ledger --json")
def show(path: PathArgument, as_json: Json = False) -> None:
    """Show what was spent on a dataset and what is left."""
    result = Ledger.open(path)
    if as_json:
        typer.echo(json.dumps(ledger_json(result), indent=2))
    else:
        show_ledger(result)


def ledger_json(ledger: Ledger) -> dict[str, Any]:
    """A ledger as plain data; with a total in epsilon, costs have theirs at its delta."""
    entries = ledger.entries()
    spent = _spent(ledger, entries)
    return {
        "dataset": ledger.dataset,
        "total": ledger.total.to_json(),
        "spent": _cost_json(spent, ledger.total),
        "left": _cost_json(ledger.total_cost - spent, ledger.total),
        "attempts": {"limit": ledger.attempts, "stopped": ledger.stopped, "asked_again": ledger.repeated_requests},
        "entries": [_entry_json(entry, ledger.total) for entry in entries],
    }


def _entry_json(entry: Entry, total: Budget) -> dict[str, Any]:
    fields = {name: getattr(entry, name) for name in ("id", "time", "status", "fingerprint", "note", "release")}
    return fields | {"cost": _cost_json(entry.cost, total)}


def _cost_json(cost: Cost, total: Budget) -> dict[str, Any]:
    more = {} if total.delta is None else {"epsilon": cost.epsilon_at(total.delta), "delta": total.delta}
    return cost.to_json() | more


def show_ledger(ledger: Ledger, console: Console | None = None) -> None:
    """Print a ledger for people to read."""
    console = console or Console()
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    entries = ledger.entries()
    for line in summary(ledger, entries):
        console.print(Text(line), soft_wrap=True)
    if entries:
        console.print(entries_table(ledger, entries))


def summary(ledger: Ledger, entries: list[Entry]) -> Iterator[str]:
    """The ledger as a whole, in three lines."""
    spent, total = _spent(ledger, entries), ledger.total
    at = f" (at delta {total.delta:g})" if total.delta is not None else ""
    yield f"dataset {ledger.dataset}: {total}"
    yield f"spent {say(spent, total, up=True)}, left {say(ledger.total_cost - spent, total, up=False)}{at}"
    looks = (
        f"{ledger.stopped:,} runs stopped after a look at the data, {ledger.repeated_requests:,} further codings could"
    )
    releases = "release" if len(entries) == 1 else "releases"
    yield f"{len(entries):,} {releases}; {looks} (the limit for both is {ledger.attempts:,})"


def entries_table(ledger: Ledger, entries: list[Entry]) -> Table:
    """One row per debit, with what was left after it."""
    table = Table()
    table.add_column("", justify="right")
    for title in ("time (UTC)", "plan", "status"):
        table.add_column(title)
    for title in ("cost", "left"):
        table.add_column(title, justify="right")
    table.add_column("note")
    left = ledger.total_cost
    for entry in entries:
        left -= entry.cost
        words = (entry.time.removesuffix("+00:00").replace("T", " "), entry.fingerprint[:12], entry.status)
        costs = (say(entry.cost, ledger.total, up=True), say(left, ledger.total, up=False))
        table.add_row(str(entry.id), *(Text(word) for word in (*words, *costs, entry.note)))
    return table


def _spent(ledger: Ledger, entries: list[Entry]) -> Cost:
    nothing = ledger.total_cost - ledger.total_cost
    return sum((entry.cost for entry in entries), start=nothing)
