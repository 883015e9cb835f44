"""`leastnoise export`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from leastnoise.cli.commands.ask import completing, opened
from leastnoise.cli.options import Confidence, Json, ReleaseArgument, Shown, tables_named
from leastnoise.cli.progress import ProgressBar
from leastnoise.release.files.export import ExportFormat


def export(
    path: ReleaseArgument,
    out: Annotated[Path, typer.Option(help="The folder to write.", show_default=False)],
    format: Annotated[ExportFormat, typer.Option(help="The format of the tables.")] = "csv",
    table: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ATTRIBUTE,...",
            help="A table to write, such as age,sex; repeat for more.",
            show_default="all in reach",
        ),
    ] = None,
    confidence: Confidence = 0.95,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an export that has this name.")] = False,
    progress: Shown = None,
    as_json: Json = False,
) -> None:
    """Write the tables of a release for other programs: CSV, Parquet, Excel, SDMX, CSV on the Web or JSON-stat. Costs
    no privacy, needs no data.
    """
    release = opened(path)
    tables = tables_named(release.domain.names, table)
    with ProgressBar(progress) as bar, completing(release, path, tables or []):
        files = release.export(out, tables, format=format, confidence=confidence, overwrite=overwrite, progress=bar)
    if as_json:
        fields = {"folder": str(out), "format": format, "files": files, "insecure": release.insecure}
        typer.echo(json.dumps(fields, indent=2))
    else:
        size = sum(file.stat().st_size for file in out.iterdir())
        typer.echo(f"wrote {len(files):,} files ({size:,} bytes) to {out}; README.txt says what is in each")
