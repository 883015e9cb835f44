"""`leastnoise export`."""

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from leastnoise.cli.commands.ask import completing, opened
from leastnoise.cli.options import Confidence, Json, Shown, tables_named
from leastnoise.cli.progress import ProgressBar
from leastnoise.release import Release
from leastnoise.release.files.export import ExportFormat
from leastnoise.release.postprocessing.readers import AdjustedTables, is_adjusted


def export(
    path: Annotated[
        Path,
        typer.Argument(metavar="RELEASE", help="The folder of a release, or of adjusted tables.", show_default=False),
    ],
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
    source = AdjustedTables.load(path) if is_adjusted(path) else opened(path)
    tables = tables_named(source.domain.names, table)
    release = source if isinstance(source, Release) else None
    with ProgressBar(progress) as bar, nullcontext() if release is None else completing(release, path, tables or []):
        files = source.export(out, tables, format=format, confidence=confidence, overwrite=overwrite, progress=bar)
    if as_json:
        fields = {"folder": str(out), "format": format, "files": files, "insecure": source.insecure}
        typer.echo(json.dumps(fields, indent=2))
    else:
        size = sum(file.stat().st_size for file in out.iterdir())
        typer.echo(f"wrote {len(files):,} files ({size:,} bytes) to {out}; README.txt says what is in each")
