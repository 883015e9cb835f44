"""The list of commands. Each is imported when it is called, so that `leastnoise --help` needs none of them."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand
from typer.main import get_command, get_group

from leastnoise._lazy import resolve


class Entry(NamedTuple):
    """One command: its name, the function or group behind it, the first lines of its help, and an example."""

    name: str
    target: str
    help: str
    example: str


COMMANDS = (
    Entry(
        "demo",
        "leastnoise.cli.commands.demo:demo",
        "See all of it in a minute: a made-up survey of 50,000 people, a plan, a release, questions and a report.",
        "leastnoise demo",
    ),
    Entry(
        "init",
        "leastnoise.cli.commands.init:init",
        "Draft a spec from the columns of a file or table. Reads their names and types, and with --look their values.",
        "leastnoise init people.csv --out people.yaml",
    ),
    Entry(
        "plan",
        "leastnoise.cli.commands.plan:plan",
        "Plan the noise for a spec: the error of every group, and the least that is possible. Needs no data.",
        "leastnoise plan examples/survey.yaml --json",
    ),
    Entry(
        "check",
        "leastnoise.cli.commands.check:check",
        "List all that would stop a release of some data, and what becomes of its rows.",
        "leastnoise check people.yaml --data people.parquet",
    ),
    Entry(
        "bounds",
        "leastnoise.cli.commands.bounds:bounds",
        "How many people a spec's queries need for an accuracy: upper bounds by mechanisms, lower bounds for any.",
        "leastnoise bounds survey.yaml --alpha 0.05 --plot curves.svg",
    ),
    Entry(
        "discover",
        "leastnoise.cli.commands.discover:discover",
        "Find the values of an attribute with `discover` that many people have, and save them. This spends privacy.",
        "leastnoise discover visits.yaml --data visits.parquet --out pages --ledger visits.ledger",
    ),
    Entry(
        "release",
        "leastnoise.cli.commands.release:release",
        "Measure data once by a spec, and save what may be published. This spends privacy.",
        "leastnoise release people.yaml --data people.parquet --out out --ledger people.ledger",
    ),
    Entry(
        "stream",
        "leastnoise.cli.commands.stream:stream",
        "Add counts to a stream, each of which is answered at once; without counts, show how far it is.",
        "leastnoise stream days 17 --step 0",
    ),
    Entry(
        "schema",
        "leastnoise.cli.commands.plan:schema",
        "Print the JSON schema of spec files, for editors and other programs.",
        "leastnoise schema > spec.schema.json",
    ),
    Entry(
        "show",
        "leastnoise.cli.commands.show:about",
        "Show what a release holds, and its privacy statement. Costs no privacy, needs no data.",
        "leastnoise show out",
    ),
    Entry(
        "ask",
        "leastnoise.cli.commands.ask:ask",
        "Ask a release any questions: counts, sums, means, medians, percentages, ratios, differences, the largest "
        "counts.",
        """leastnoise ask out "mean(age) where sex = 'M'" "percent(age < 35)" --by region""",
    ),
    Entry(
        "sql",
        "leastnoise.cli.commands.sql:sql",
        "Answer a SELECT from a release, with standard errors where it is linear. Costs no privacy, needs no data.",
        """leastnoise sql out "select region, sum(count) from release where age < 35 group by region\"""",
    ),
    Entry(
        "table",
        "leastnoise.cli.commands.table:table",
        "Show a table of a release, or without attributes the tables in reach. Costs no privacy, needs no data.",
        "leastnoise table out age sex --csv age-sex.csv",
    ),
    Entry(
        "adjust",
        "leastnoise.cli.commands.adjust:adjust",
        "Make tables for readers: no negative counts, rounded so that they add up, unreliable cells left out. "
        "Costs no privacy, needs no data.",
        "leastnoise adjust out --base 5 --suppress-below 10 --out printed",
    ),
    Entry(
        "export",
        "leastnoise.cli.commands.export:export",
        "Write the tables of a release for other programs: CSV, Parquet, Excel, SDMX, CSV on the Web or JSON-stat. "
        "Costs no privacy, needs no data.",
        "leastnoise export out --out tables --format excel",
    ),
    Entry(
        "audit",
        "leastnoise.cli.commands.audit:audit",
        "Try to refute a privacy claim: run the mechanism many times on synthetic neighbours. "
        "Needs no data, spends nothing.",
        "leastnoise audit examples/survey.yaml --runs 1000 --confidence 0.99",
    ),
    Entry(
        "report",
        "leastnoise.cli.commands.report:report",
        "Write a page to look at: tables, errors, budget. Costs no privacy, needs no data and no network.",
        "leastnoise report out --out report.html",
    ),
    Entry(
        "register",
        "leastnoise.cli.commands.register:register",
        "Write an entry for the OpenDP deployments registry and a dossier for NIST SP 800-226. "
        "Costs no privacy, needs no data.",
        "leastnoise register out --out registration",
    ),
    Entry(
        "synth",
        "leastnoise.cli.commands.synth:synth",
        "Write synthetic rows from a distribution fitted to a release. Costs no privacy, needs no data.",
        "leastnoise synth out --out rows.parquet --evaluate",
    ),
    Entry(
        "ledger",
        "leastnoise.cli.commands.ledger:ledger",
        "Keep account of the privacy spent on a dataset.",
        "leastnoise ledger init people.ledger --dataset people --protects people --epsilon 1 --delta 1e-9",
    ),
    Entry(
        "local",
        "leastnoise.cli.commands.local:local",
        "Collect from devices that trust nobody: each randomizes its own record, a collector adds up.",
        "leastnoise local plan survey.yaml -o survey.plan --devices 100000",
    ),
)


@cache
def command(entry: Entry) -> Any:
    """The command itself, with its options."""
    result = resolve(entry.target)
    if isinstance(result, typer.Typer):
        return get_group(result)
    alone = typer.Typer(add_completion=False)
    alone.command(entry.name, epilog=f"Example: {entry.example}")(result)
    return get_command(alone)


class Deferred(TyperCommand):
    """Stands for a command in lists and completions; it imports the command when there are arguments to read."""

    entry: Entry

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The context of the command itself."""
        return command(self.entry).make_context(info_name, args, parent, **extra)


def register(app: typer.Typer) -> None:
    """Add all commands to the command line."""
    for entry in COMMANDS:
        kind = type(Deferred.__name__, (Deferred,), {"entry": entry})
        app.command(entry.name, cls=kind, help=entry.help)(_not_called)


def _not_called() -> None:
    """The function of a stand-in, which has none of its own."""
