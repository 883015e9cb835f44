"""`leastnoise audit`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from leastnoise.audit.subjects import audit as run_audit
from leastnoise.audit.subjects import opened
from leastnoise.cli.options import FilesFrom, Json, Shown
from leastnoise.cli.progress import ProgressBar


def audit(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH",
            help="A spec, a saved plan, a plan for devices, or the folder of a release or of a stream.",
            show_default=False,
        ),
    ],
    runs: Annotated[
        int | None,
        typer.Option(
            help="Runs on each of the two datasets.",
            show_default="10000 for tables, 100000 for reports of devices, 1000 for all others",
        ),
    ] = None,
    confidence: Annotated[float, typer.Option(help="Confidence of the bounds.")] = 0.95,
    delta: Annotated[
        float | None, typer.Option(help="Delta at which epsilon is compared.", show_default="the claimed one")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Repeat an audit; the noise is then not that of a release.")] = None,
    as_json: Json = False,
    progress: Shown = None,
    files_from: FilesFrom = None,
) -> None:
    """Try to refute a privacy claim: run the mechanism many times on synthetic neighbours. Needs no data, spends
    nothing.

    It takes every kind of release: of a saved one, the mechanism is run again on synthetic data.

    Exits with code 1 if the claim is refuted.
    """
    with ProgressBar(progress) as bar:
        result = run_audit(opened(path, files_from), runs, confidence, delta=delta, seed=seed, progress=bar)
    typer.echo(json.dumps(result.to_json(), indent=2) if as_json else str(result))
    if not result.ok:
        raise typer.Exit(1)
