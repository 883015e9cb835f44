"""`leastnoise adjust`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from leastnoise.cli.commands.ask import opened_tables
from leastnoise.cli.options import Json, ReleaseArgument, Shown, tables_named
from leastnoise.cli.progress import ProgressBar
from leastnoise.errors import LeastnoiseError
from leastnoise.release.postprocessing.controlled import SECONDS
from leastnoise.release.postprocessing.readers import AdjustedTables
from leastnoise.release.postprocessing.totals_file import read_totals


def adjust(
    path: ReleaseArgument,
    out: Annotated[Path, typer.Option(help="The folder to write.", show_default=False)],
    whole: Annotated[bool, typer.Option("--whole", help="Round to whole numbers that add up.")] = False,
    base: Annotated[
        int | None, typer.Option(help="Round to multiples of this that add up, such as 5.", show_default=False)
    ] = None,
    total: Annotated[
        float | None, typer.Option(help="The number of rows, where it is public.", show_default=False)
    ] = None,
    totals: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="A CSV file of a table that is public, with columns of attributes and count; repeat for more.",
            show_default=False,
        ),
    ] = None,
    suppress_below: Annotated[
        float | None, typer.Option(help="Leave out cells with a lower count.", show_default=False)
    ] = None,
    suppress_cv: Annotated[
        float | None,
        typer.Option(help="Leave out cells with a larger standard error per count, such as 0.3.", show_default=False),
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ATTRIBUTE,...",
            help="A table to adjust with its margins, such as age,sex or date.year,sex; repeat for more.",
            show_default="all in reach",
        ),
    ] = None,
    negative: Annotated[bool, typer.Option("--negative", help="Keep negative counts as they are.")] = False,
    seconds: Annotated[float, typer.Option(help="The most time for each try to round.")] = SECONDS,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace adjusted tables of this name.")] = False,
    progress: Shown = None,
    as_json: Json = False,
) -> None:
    """Make tables for readers: no negative counts, rounded so that they add up, unreliable cells left out. Costs no
    privacy, needs no data.
    """
    if whole and base is not None:
        raise LeastnoiseError("--whole is --base 1; give one of them")
    release = opened_tables(path)
    tables = tables_named(release.domain.names, table)
    known: dict[object, object] = {} if total is None else {"": total}
    known |= dict(read_totals(file, release.domain) for file in totals or ())
    with ProgressBar(progress) as bar:
        adjusted = release.adjust(
            nonnegative=not negative, totals=known or None, tables=None if negative else tables, progress=bar
        )
        result = adjusted.finish(
            base=1 if whole else base,
            suppress_below=suppress_below,
            suppress_cv=suppress_cv,
            tables=tables,
            seconds=seconds,
            progress=bar,
        )
    result.save(out, overwrite=overwrite)
    _print(result, path, out, as_json)


def _print(result: AdjustedTables, path: Path, out: Path, as_json: bool) -> None:
    if as_json:
        fields = {
            "folder": str(out),
            "tables": [list(names) for names in result.tables()],
            "steps": [step.model_dump() for step in result.steps],
            "suppression": None if result.suppression is None else result.suppression.model_dump(),
            "insecure": result.insecure,
        }
        typer.echo(json.dumps(fields, indent=2))
        return
    for note in result.footnotes:
        typer.echo(note)
    typer.echo(
        f"wrote {len(result.contents):,} tables to {out}; next: leastnoise export {out} --out FOLDER --format excel, "
        f"or leastnoise report {path} --adjusted {out} for the page"
    )
