"""`leastnoise report`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from leastnoise.cli.commands.ask import opened
from leastnoise.cli.options import Confidence, Json, ReleaseArgument
from leastnoise.report.pages import count, write

OTHERS = {"tables": "larger", "nodes": "lower", "queries": "other"}


def report(
    path: ReleaseArgument,
    out: Annotated[Path, typer.Option(help="The page to write; one that exists is replaced.")] = Path("report.html"),
    confidence: Confidence = 0.95,
    as_json: Json = False,
) -> None:
    """Write a page to look at: tables, errors, budget. Costs no privacy, needs no data and no network."""
    release = opened(path)
    what, many, left_out = count(release, write(release, out, confidence=confidence))
    if as_json:
        page = {"page": str(out), "bytes": out.stat().st_size, what: many, "left_out": left_out}
        typer.echo(json.dumps(page | {"insecure": release.insecure}, indent=2))
    else:
        left = f", {left_out:,} {OTHERS[what]} ones left out" if left_out else ""
        typer.echo(f"wrote {out}: {many:,} {what}{left}; open it in a browser")
