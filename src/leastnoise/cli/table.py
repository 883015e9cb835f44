"""`leastnoise table`."""

import json
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from leastnoise.cascade import CascadeRelease
from leastnoise.cli.ask import completing, opened
from leastnoise.cli.options import Confidence, Json, ReleaseArgument
from leastnoise.errors import LeastnoiseError
from leastnoise.release import Release
from leastnoise.release.export import Format, about, write_table
from leastnoise.release.matrix import MatrixRelease

COMPLETED = "completed from what was measured: a biased guess, without intervals"


def table(
    path: ReleaseArgument,
    attributes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ATTRIBUTE]...", help="Its attributes; levels of a cascade, queries of a matrix."),
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the table to this CSV file.")] = None,
    parquet: Annotated[Path | None, typer.Option(help="Write the table to this Parquet file.")] = None,
    complete: Annotated[
        bool, typer.Option("--complete", help="Complete it from what was measured: a biased guess, without intervals.")
    ] = False,
    confidence: Confidence = 0.95,
    as_json: Json = False,
) -> None:
    """Show a table of a release, or without attributes the tables in reach. Costs no privacy, needs no data."""
    release = opened(path)
    if not isinstance(release, Release):
        shown = _levels if isinstance(release, CascadeRelease) else _queries
        _show_whole(release, *shown(release, attributes or [], confidence), _files(csv, parquet), as_json)
        return
    if not attributes:
        _check_alone(csv, parquet)
        (_list_asked if complete else _list_tables)(release, as_json)
        return
    if complete:
        frame = release.complete().table(*attributes)
        label = _label(release, attributes)
        told: dict[str, Any] = {"attributes": attributes, "completed": True, "note": label}
    else:
        with completing(release, path, [attributes]):
            frame = release.table(*attributes, confidence=confidence)
        label, told = None, {"attributes": attributes, "confidence": confidence}
    for file, format in _files(csv, parquet):
        write_table(frame, file, format, about(release) | ({"note": label} if label else {}))
    if as_json:
        typer.echo(_json(release.insecure, frame, told))
    elif csv is None and parquet is None:
        typer.echo((f"{label}\n" if label else "") + frame.to_string(index=False, float_format="{:,.1f}".format))


def _label(release: Release, attributes: list[str]) -> str:
    if release.reach.has_table([release.domain.index(n) for n in attributes]):
        return f"{COMPLETED}; this table was measured: without --complete it is unbiased"
    return f"{COMPLETED}; this table was not measured"


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


def _list_asked(release: Release, as_json: bool) -> None:
    """The tables asked of an adaptive release, and the error to expect of each."""
    errors = release.complete().errors()
    if as_json:
        rows = [{**row, "table": list(row["table"])} for row in errors.to_dict("records")]
        typer.echo(json.dumps({"insecure": release.insecure, "tables": rows}, indent=2))
    else:
        errors["table"] = [" ".join(names) for names in errors["table"]]
        errors["measured"] = ["measured" if m else "completed" for m in errors["measured"]]
        errors.columns = ["table", "how", "expected_l1"]
        typer.echo(errors.to_string(index=False, float_format="{:,.1f}".format))


def _json(insecure: bool, frame: pd.DataFrame, told: dict[str, Any]) -> str:
    rows = json.loads(frame.to_json(orient="records", double_precision=15))
    return json.dumps(told | {"insecure": insecure, "rows": rows}, indent=2)


def _show_whole(
    release: CascadeRelease | MatrixRelease,
    frame: pd.DataFrame,
    told: dict[str, Any],
    files: list[tuple[Path, Format]],
    as_json: bool,
) -> None:
    """The table of a release that is one table."""
    for file, format in files:
        write_table(frame, file, format, {"privacy": release.privacy.model_dump(), "insecure": release.insecure})
    if as_json:
        typer.echo(_json(release.insecure, frame, told))
    elif not files:
        typer.echo(frame.to_string(index=False, float_format="{:,.1f}".format))


def _levels(release: CascadeRelease, levels: list[str], confidence: float) -> tuple[pd.DataFrame, dict[str, Any]]:
    """A level of a cascade release, by its number; by default the leaves."""
    deepest = max(tree.depth for tree in release.trees)
    if odd := [level for level in levels if not level.isdecimal()]:
        raise LeastnoiseError(f"{odd[0]!r} is no level of this release; give numbers from 0 to {deepest}")
    frame = release.level(*map(int, levels), confidence=confidence) if levels else release.to_pandas(confidence)
    return frame, {"levels": [*map(int, levels)], "confidence": confidence}


def _queries(release: MatrixRelease, queries: list[str], confidence: float) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Some queries of a matrix release, by name or number; by default all."""
    frame = release.to_pandas(confidence)
    if queries:
        frame = frame.iloc[release.plan.places(queries)]
    return frame, {"queries": [release.plan.label(place) for place in frame.index], "confidence": confidence}
