"""`leastnoise report`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from leastnoise.cascade import CascadeRelease
from leastnoise.cli.ask import opened
from leastnoise.cli.options import Confidence, Json, ReleaseArgument
from leastnoise.release.matrix import MatrixRelease
from leastnoise.report.cascade import write as write_cascade
from leastnoise.report.matrix import write as write_matrix
from leastnoise.report.page import write

OTHERS = {"tables": "larger", "nodes": "lower", "queries": "other"}


def report(
    path: ReleaseArgument,
    out: Annotated[Path, typer.Option(help="The page to write; one that exists is replaced.")] = Path("report.html"),
    confidence: Confidence = 0.95,
    as_json: Json = False,
) -> None:
    """Write a page to look at: tables, errors, budget. Costs no privacy, needs no data and no network."""
    release = opened(path)
    if isinstance(release, CascadeRelease):
        shown = write_cascade(release, out, confidence=confidence)["trees"]
        many = sum(len(tree["names"]) for tree in shown)
        what, left_out = "nodes", sum(tree["nodes"] for tree in shown) - many
    elif isinstance(release, MatrixRelease):
        rows = write_matrix(release, out, confidence=confidence)
        what, many, left_out = "queries", len(rows["rows"]), rows["queries"] - len(rows["rows"])
    else:
        told = write(release, out, confidence=confidence)
        what, many, left_out = "tables", len(told["tables"]), told["left_out"]
    if as_json:
        made = {"page": str(out), "bytes": out.stat().st_size, what: many, "left_out": left_out}
        made["insecure"] = release.insecure
        typer.echo(json.dumps(made, indent=2))
    else:
        left = f", {left_out:,} {OTHERS[what]} ones left out" if left_out else ""
        typer.echo(f"wrote {out}: {many:,} {what}{left}; open it in a browser")
