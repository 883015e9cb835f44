"""`leastnoise report`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from leastnoise.cli.commands.ask import opened
from leastnoise.cli.options import Confidence, Json, ReleaseArgument
from leastnoise.errors import LeastnoiseError
from leastnoise.release import Release, TableRelease
from leastnoise.release.postprocessing.readers import AdjustedTables, is_adjusted
from leastnoise.report.pages import count, write
from leastnoise.workload.publication import Publication
from leastnoise.workload.spec import load_spec

OTHERS = {"tables": "larger", "nodes": "lower", "queries": "other"}


def report(
    path: ReleaseArgument,
    out: Annotated[Path, typer.Option(help="The page to write; one that exists is replaced.")] = Path("report.html"),
    spec: Annotated[
        Path | None,
        typer.Option(
            metavar="SPEC",
            help="Take title, publisher, contact, licence and citation from the publication of this spec, "
            "instead of those kept in the release.",
            show_default=False,
        ),
    ] = None,
    adjusted: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Show these tables instead, made from the release with leastnoise adjust.",
            show_default=False,
        ),
    ] = None,
    confidence: Confidence = 0.95,
    as_json: Json = False,
) -> None:
    """Write a page to look at: tables, errors, budget. Costs no privacy, needs no data and no network."""
    release = opened(path)
    words = None if spec is None else publication_of(spec)
    options = {} if adjusted is None else {"adjusted": adjusted_to(release, path, adjusted)}
    numbers = write(release, out, confidence=confidence, publication=words, **options)
    what, many, left_out = count(release, numbers)
    if as_json:
        page = {"page": str(out), "bytes": out.stat().st_size, what: many, "left_out": left_out}
        typer.echo(json.dumps(page | {"insecure": release.insecure}, indent=2))
    else:
        left = f", {left_out:,} {OTHERS[what]} ones left out" if left_out else ""
        typer.echo(f"wrote {out}: {many:,} {what}{left}; open it in a browser")


def adjusted_to(release: Release, path: Path, folder: Path) -> AdjustedTables:
    """Adjusted tables for the page of a release of tables."""
    if not isinstance(release, TableRelease):
        raise LeastnoiseError(f"{path} is a {release.kind}; --adjusted is for releases of tables")
    if not is_adjusted(folder):
        raise LeastnoiseError(f"{folder} has no adjusted tables; make them with: leastnoise adjust {path} --out FOLDER")
    return AdjustedTables.load(folder)


def publication_of(spec: Path) -> Publication:
    """What a spec says to readers."""
    words = load_spec(spec, budgeted=False).publication
    if words is None:
        raise LeastnoiseError(f"{spec.name} has no 'publication'; add for example publication: {Publication.example}")
    return words
