"""`leastnoise report`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from leastnoise.cascade.files import is_cascade
from leastnoise.cli.ask import opened, opened_cascade
from leastnoise.cli.options import Confidence, Json, ReleaseArgument
from leastnoise.report.cascade import write as write_cascade
from leastnoise.report.page import write


def report(
    path: ReleaseArgument,
    out: Annotated[Path, typer.Option(help="The page to write; one that exists is replaced.")] = Path("report.html"),
    confidence: Confidence = 0.95,
    as_json: Json = False,
) -> None:
    """Write a page to look at: tables, errors, budget. Costs no privacy, needs no data and no network."""
    if is_cascade(path):
        cascade = opened_cascade(path)
        shown = write_cascade(cascade, out, confidence=confidence)["trees"]
        what, many = "nodes", sum(len(tree["names"]) for tree in shown)
        left_out, insecure = sum(tree["nodes"] for tree in shown) - many, cascade.insecure
    else:
        release = opened(path)
        told = write(release, out, confidence=confidence)
        what, many, left_out, insecure = "tables", len(told["tables"]), told["left_out"], release.insecure
    if as_json:
        made = {"page": str(out), "bytes": out.stat().st_size, what: many, "left_out": left_out, "insecure": insecure}
        typer.echo(json.dumps(made, indent=2))
    else:
        left = f", {left_out:,} {'larger' if what == 'tables' else 'lower'} ones left out" if left_out else ""
        typer.echo(f"wrote {out}: {many:,} {what}{left}; open it in a browser")
