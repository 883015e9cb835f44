"""`leastnoise report`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from leastnoise.cli.ask import opened
from leastnoise.cli.options import Confidence, Json, ReleaseArgument
from leastnoise.report.page import write


def report(
    path: ReleaseArgument,
    out: Annotated[Path, typer.Option(help="The page to write; one that exists is replaced.")] = Path("report.html"),
    confidence: Confidence = 0.95,
    as_json: Json = False,
) -> None:
    """Write a page to look at: tables, errors, budget. Costs no privacy, needs no data and no network."""
    release = opened(path)
    told = write(release, out, confidence=confidence)
    made = {
        "page": str(out),
        "bytes": out.stat().st_size,
        "tables": len(told["tables"]),
        "left_out": told["left_out"],
        "insecure": release.insecure,
    }
    if as_json:
        typer.echo(json.dumps(made, indent=2))
    else:
        left = f", {made['left_out']:,} larger ones left out" if made["left_out"] else ""
        typer.echo(f"wrote {out}: {made['tables']:,} tables{left}; open it in a browser")
