"""`leastnoise init`."""

import json
import shlex
from pathlib import Path
from typing import Annotated

import typer

from leastnoise.cli.options import DATA, Json, Table
from leastnoise.errors import LeastnoiseError
from leastnoise.sources.draft import draft
from leastnoise.storage.files import check_target, write_file


def init(
    data: Annotated[str, typer.Argument(metavar="DATA", help=f"The data: {DATA}", show_default=False)],
    out: Annotated[Path | None, typer.Option(help="Write the spec to this new file.", show_default="stdout")] = None,
    look: Annotated[
        bool, typer.Option("--look", help="Fill in values and ranges from the data; keep only those that are public.")
    ] = False,
    sample: Annotated[int | None, typer.Option(help="With --look: look at this many rows only.")] = None,
    table: Table = None,
    as_json: Json = False,
) -> None:
    """Draft a spec from the columns of a file or table. Reads their names and types, and with --look their values."""
    if sample is not None and not look:
        raise LeastnoiseError("--sample says how much to look at; add --look, or leave it out")
    if out is not None:
        check_target(out)
    result = draft(data, look=look, sample=sample, table=table)
    if out is not None:
        write_file(out, result.text.encode(), overwrite=False)
    if as_json:
        message = {"spec": None if out is None else str(out), "looked": look, "text": result.text}
        typer.echo(json.dumps(message | {"attributes": result.attributes, "left_out": result.left_out}, indent=2))
    elif out is None:
        typer.echo(result.text, nl=False)
    else:
        todo = "keep only what is public" if look else "fill in what is marked"
        typer.echo(f"wrote {out}: {_many(len(result.attributes))}; {todo}, then: {_next(out, data, table)}")


def _many(attributes: int) -> str:
    return f"{attributes:,} attribute{'' if attributes == 1 else 's'}"


def _next(out: Path, data: str, table: str | None) -> str:
    """The command that says whether a release would run; an address may hold a password."""
    source = shlex.quote(data) if "://" not in data else "DATA"
    return f"leastnoise check {shlex.quote(str(out))} --data {source}" + (f" --table {table}" if table else "")
