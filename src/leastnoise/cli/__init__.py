"""The command line."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from leastnoise import __version__
from leastnoise.cli.ask import ask
from leastnoise.cli.audit import audit
from leastnoise.cli.ledger import ledger
from leastnoise.cli.plan import plan, schema
from leastnoise.cli.report import report
from leastnoise.cli.table import table
from leastnoise.errors import LeastnoiseError

__all__ = ["app", "main"]

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False)
app.command(epilog="Example: leastnoise plan examples/survey.yaml --json")(plan)
app.command(epilog="Example: leastnoise schema > spec.schema.json")(schema)
app.command(epilog="""Example: leastnoise ask out "age < 35 and sex = 'M'" "sex = 'M'" --json""")(ask)
app.command(epilog="Example: leastnoise table out age sex --csv age-sex.csv")(table)
app.command(epilog="Example: leastnoise audit examples/survey.yaml --runs 1000 --confidence 0.99")(audit)
app.command(epilog="Example: leastnoise report out --out report.html")(report)
app.add_typer(ledger, name="ledger")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"leastnoise {__version__}")
        raise typer.Exit


@app.callback(epilog="Example: leastnoise plan examples/survey.yaml")
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Differentially private statistics with the least noise that is provably possible."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; a user's mistake is one line on stderr and exit code 2."""
    try:
        app(args=arguments)
    except (LeastnoiseError, OSError, MemoryError) as error:
        print(f"leastnoise: {_one_line(error)}", file=sys.stderr)
        sys.exit(2)


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, MemoryError):
        return f"out of memory ({error}); use coarser values or fewer ways"
    return " ".join(str(error).split())
