"""`leastnoise table`."""

import json
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from leastnoise.cli.ask import opened
from leastnoise.cli.options import Confidence, Json, ReleaseArgument
from leastnoise.errors import LeastnoiseError
from leastnoise.release import Release
from leastnoise.release.export import Format, about, write_table


def table(
    path: ReleaseArgument,
    attributes: Annotated[list[str] | None, typer.Argument(metavar="[ATTRIBUTE]...", help="Its attributes.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the table to this CSV file.")] = None,
    parquet: Annotated[Path | None, typer.Option(help="Write the table to this Parquet file.")] = None,
    confidence: Confidence = 0.95,
    as_json: Json = False,
) -> None:
    """Show a table of a release, or without attributes the tables in reach. Costs no privacy, needs no data."""
    release = opened(path)
    if not attributes:
        _check_alone(csv, parquet)
        _list_tables(release, as_json)
        return
    frame = release.table(*attributes, confidence=confidence)
    for file, format in _files(csv, parquet):
        write_table(frame, file, format, about(release))
    if as_json:
        typer.echo(_json(release, attributes, frame, confidence))
    elif csv is None and parquet is None:
        typer.echo(frame.to_string(index=False, float_format="{:,.1f}".format))


def _check_alone(csv: Path | None, parquet: Path | None) -> None:
    if csv is not None or parquet is not None:
        raise LeastnoiseError("name the attributes of the table to write, for example: leastnoise table RELEASE age")


def _files(csv: Path | None, parquet: Path | None) -> list[tuple[Path, Format]]:
    wanted: list[tuple[Path | None, Format]] = [(csv, "csv"), (parquet, "parquet")]
    found = [(file, format) for file, format in wanted if file is not None]
    for file, _ in found:
        if not file.parent.is_dir():
            raise LeastnoiseError(f"there is no folder {str(file.parent)!r} to write in; create it first")
    return found


def _list_tables(release: Release, as_json: bool) -> None:
    tables = [list(names) for names in release.tables() if names]
    if as_json:
        typer.echo(json.dumps({"insecure": release.insecure, "tables": tables}, indent=2))
    else:
        typer.echo("\n".join(" ".join(names) for names in tables))


def _json(release: Release, attributes: list[str], frame: pd.DataFrame, confidence: float) -> str:
    rows = json.loads(frame.to_json(orient="records", double_precision=15))
    told = {"attributes": attributes, "confidence": confidence, "insecure": release.insecure, "rows": rows}
    return json.dumps(told, indent=2)
