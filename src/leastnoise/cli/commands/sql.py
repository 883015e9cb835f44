"""`leastnoise sql`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from leastnoise.cli.commands.ask import opened
from leastnoise.cli.options import Json, ReleaseArgument
from leastnoise.release.files.one_table import about, write_table
from leastnoise.storage.files import check_target


def sql(
    path: ReleaseArgument,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="One SELECT over the table release, in quotes.")],
    csv: Annotated[Path | None, typer.Option(help="Write the result to this CSV file.", show_default=False)] = None,
    as_json: Json = False,
) -> None:
    """Answer a SELECT from a release, with standard errors where it is linear. Costs no privacy, needs no data.

    The table release has one row per cell of the domain: its attributes, and count. Sums of counts by any attributes in
    reach have their standard errors beside them; anything else is computed from the noisy numbers and says so.
    """
    if csv is not None:
        check_target(csv, overwrite=True)
    release = opened(path)
    frame = release.sql(query)
    notes: list[str] = frame.attrs["notes"]
    if csv is not None:
        write_table(frame, csv, "csv", about(release) | ({"note": "; ".join(notes)} if notes else {}))
    if as_json:
        rows = json.loads(frame.to_json(orient="records", double_precision=15))
        typer.echo(json.dumps({"insecure": release.insecure, "notes": notes, "rows": rows}, indent=2))
    elif csv is None:
        lines = [frame.to_string(index=False, float_format="{:,.1f}".format), *(f"note: {note}" for note in notes)]
        typer.echo("\n".join(lines))
