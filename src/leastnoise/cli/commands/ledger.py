"""`leastnoise ledger init`, `leastnoise ledger show` and `leastnoise ledger raise`."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from leastnoise.cli.options import Anonymous, Hidden, Json, KnownSize, RowsPerPerson, user_name
from leastnoise.cli.show import PIPE_WIDTH
from leastnoise.errors import LeastnoiseError
from leastnoise.privacy import Budget, Cost, Entry, Ledger
from leastnoise.privacy.cost import float_up
from leastnoise.privacy.ledger_file import ATTEMPTS, ledger_beside
from leastnoise.privacy.neighbours import Neighbours
from leastnoise.privacy.units import percent, say, stated

EXAMPLE = "Example: leastnoise ledger init people.ledger --dataset people --protects people --epsilon 1 --delta 1e-9"
RAISE_EXAMPLE = (
    'Example: leastnoise ledger raise people.ledger --epsilon 2 --delta 1e-9 --reason "second wave, board of 3 May"'
)
PROTECTS = {
    "rows": "it protects single rows; where a person can have several, make it with --protects people",
    "people": "it protects people: specs say with unit how many rows of each are counted, and may differ in that",
}

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
    protects: Annotated[
        Literal["rows", "people"] | None,
        typer.Option(
            help="What one change of the data is: a row, or a person with all their rows.", show_default="rows"
        ),
    ] = None,
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
    keys_delta: Annotated[
        float | None,
        typer.Option(
            help="The part of delta for finding keys; decided here, or by a first release that finds some.",
            show_default="a tenth if the first release finds keys, else none",
        ),
    ] = None,
    another: Annotated[
        bool,
        typer.Option(
            "--another", help="Although the data, or the folder, has a ledger already; what both spend adds up."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Create the ledger of a dataset, once. A file that exists is refused, and so is a second ledger of the dataset.

    It protects rows, or people: where a person can have several rows, protect people. Releases then count at most so
    many rows of each person as their specs say (`unit`), and may differ in it. This cannot be changed later; the
    total can be raised. On a terminal, and without --protects, it asks.
    """
    terminal = sys.stdin.isatty() and sys.stdout.isatty() and not as_json
    if terminal and protects is None and rows_per_person is None:
        protects = "people" if typer.confirm("Can a person have several rows in this dataset?") else "rows"
    hidden = Neighbours(neighbours, _rows(protects, rows_per_person), size, exact)
    total = Budget(epsilon=epsilon, delta=delta, rho=rho, mu=mu, neighbours=hidden)
    other = None if another else ledger_beside(path, dataset)
    if other is not None and other != path.absolute():
        raise LeastnoiseError(
            f"{other.name!r} in the same folder is a ledger of the dataset {dataset!r}; use it, raise its total with "
            "leastnoise ledger raise, or make a second one with --another (what both spend adds up)"
        )
    result = Ledger.create(path, total, dataset, attempts=attempts, keys_delta=keys_delta, another=another)
    if as_json:
        typer.echo(json.dumps(ledger_json(result), indent=2))
    else:
        typer.echo(f"created {path} for the dataset {dataset!r}: {with_people(total)}")
        typer.echo(PROTECTS["rows" if hidden.rows_per_person is None else "people"])


@ledger.command("raise", epilog=RAISE_EXAMPLE)
def raise_(
    path: PathArgument,
    reason: Annotated[str, typer.Option(help="Why, in one line; it is kept.", show_default=False)],
    epsilon: Annotated[float | None, typer.Option(help="The new total epsilon; needs --delta.")] = None,
    delta: Annotated[float | None, typer.Option(help="Delta of the new total epsilon.")] = None,
    rho: Annotated[float | None, typer.Option(help="The new total rho (zCDP), instead of epsilon.")] = None,
    mu: Annotated[float | None, typer.Option(help="The new total mu (Gaussian privacy), instead of epsilon.")] = None,
    anonymous: Anonymous = False,
    as_json: Json = False,
) -> None:
    """Raise the total of a ledger, with a reason that is kept. Everybody in the data has less privacy then."""
    old = Ledger.open(path)
    total = Budget(epsilon=epsilon, delta=delta, rho=rho, mu=mu, neighbours=old.total.neighbours)
    result = old.raise_total(total, reason, who=user_name(anonymous))
    if as_json:
        typer.echo(json.dumps(ledger_json(result), indent=2))
    else:
        typer.echo(f"raised {path} from {stated(old.total)} to {stated(total)}")


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
        "left": _cost_json(_left(ledger, spent), ledger.total),
        "left_percent": percent(_left(ledger, spent), ledger.total_cost, up=False),
        "further_releases": _further(ledger, entries),
        "keys_delta": None if ledger.keys_delta is None else float(ledger.keys_delta),
        "raises": [{**vars(item), "total": item.total.to_json()} for item in ledger.raises()],
        "attempts": {"limit": ledger.attempts, "stopped": ledger.stopped, "asked_again": ledger.repeated_requests},
        "entries": [_entry_json(entry, ledger.total) for entry in entries],
    }


def _entry_json(entry: Entry, total: Budget) -> dict[str, Any]:
    fields = {name: getattr(entry, name) for name in ("id", "time", "status", "fingerprint", "note", "release", "who")}
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
    """The ledger as a whole, in a few lines."""
    spent, total = _spent(ledger, entries), ledger.total
    left = _left(ledger, spent)
    at = f" (at delta {total.delta:g})" if total.delta is not None else ""
    yield f"dataset {ledger.dataset}: {with_people(total)}"
    shares = percent(spent, ledger.total_cost, up=True), percent(left, ledger.total_cost, up=False)
    amounts = say(spent, total, up=True), say(left, total, up=False)
    yield f"spent {amounts[0]} ({shares[0]}), left {amounts[1]} ({shares[1]}){at}; shares are of mu^2, which adds up"
    if spent.added_delta:
        yield f"finding keys added {float_up(spent.added_delta):.4g} to delta, which the rest of it makes up for"
    if entries:
        yield _next(ledger, entries[-1].cost, spent)
    before = stated(ledger.first_total)
    for item in ledger.raises():
        who = f" by {item.who}" if item.who else ""
        yield f"raised on {item.time[:10]}{who} from {before} to {stated(item.total)}: {item.reason}"
        before = stated(item.total)
    most, releases = f"of at most {ledger.attempts:,}", "release" if len(entries) == 1 else "releases"
    yield f"{len(entries):,} {releases}; {ledger.stopped:,} {most} runs stopped after a look at the data"
    if ledger.repeated_requests:
        times = f"{ledger.repeated_requests:,} {most} times"
        yield f"columns were read by other rules or values than before, which may stop a run, {times}"


def _next(ledger: Ledger, cost: Cost, spent: Cost) -> str:
    """What one more release of the same cost would do."""
    price, after = say(cost, ledger.total, up=True), ledger.left_after(spent + cost)
    if after is None:
        return f"another release like the last ({price}) does not fit"
    rest, count = say(after, ledger.total, up=False), _fitting(ledger, cost, spent)
    return f"another release like the last ({price}) would leave {rest}; {count:,} of them fit"


def _fitting(ledger: Ledger, cost: Cost, spent: Cost) -> int:
    """How many more releases of a cost fit."""
    low, high = 0, int(_left(ledger, spent).mu_squared // cost.mu_squared)
    if not cost.added_delta:
        return high
    high = min(high, int((Fraction(str(ledger.total.delta)) - spent.added_delta) // cost.added_delta))
    while low < high:
        middle = (low + high + 1) // 2
        more = replace(cost, mu_squared=middle * cost.mu_squared, added_delta=middle * cost.added_delta)
        low, high = (low, middle - 1) if ledger.left_after(spent + more) is None else (middle, high)
    return high


def _left(ledger: Ledger, spent: Cost) -> Cost:
    return ledger.left_after(spent) or replace(spent, mu_squared=Fraction(0), added_delta=Fraction(0))


def _further(ledger: Ledger, entries: list[Entry]) -> int | None:
    """How many more releases of the last one's cost fit; None before the first."""
    return _fitting(ledger, entries[-1].cost, _spent(ledger, entries)) if entries else None


def with_people(total: Budget) -> str:
    """A total and what it protects; of people, of whom each release has its own bound on the rows."""
    return str(total).replace(str(total.neighbours), total.neighbours.of_ledger)


def _rows(protects: str | None, rows: int | None) -> int | None:
    if protects == "rows" and rows is not None:
        raise LeastnoiseError("--protects rows does not go with --rows-per-person; leave one of them out")
    return 1 if protects == "people" and rows is None else rows


def entries_table(ledger: Ledger, entries: list[Entry]) -> Table:
    """One row per debit, with what was left after it."""
    table = Table()
    table.add_column("", justify="right")
    for title in ("time (UTC)", "plan", "status"):
        table.add_column(title)
    for title in ("cost", "left"):
        table.add_column(title, justify="right")
    for title in ("note", "by"):
        table.add_column(title)
    spent = _spent(ledger, [])
    for entry in entries:
        spent += entry.cost
        left = _left(ledger, spent)
        words = (entry.time.removesuffix("+00:00").replace("T", " "), entry.fingerprint[:12], entry.status)
        costs = (say(entry.cost, ledger.total, up=True), say(left, ledger.total, up=False))
        table.add_row(str(entry.id), *(Text(word) for word in (*words, *costs, entry.note, entry.who)))
    return table


def _spent(ledger: Ledger, entries: list[Entry]) -> Cost:
    nothing = ledger.total_cost - ledger.total_cost
    return sum((entry.cost for entry in entries), start=nothing)
