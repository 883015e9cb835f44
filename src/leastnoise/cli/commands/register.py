"""`leastnoise register`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from leastnoise.cli.commands.ask import opened
from leastnoise.cli.options import Json, ReleaseArgument
from leastnoise.report.registration import BLANK, rounded_up
from leastnoise.report.registration import register as write


def register(
    path: ReleaseArgument,
    out: Annotated[Path, typer.Option(help="The folder to write.", show_default=False)],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a registration of this name.")] = False,
    as_json: Json = False,
) -> None:
    """Write an entry for the OpenDP deployments registry and a dossier for NIST SP 800-226. Costs no privacy, needs no
    data.
    """
    release = opened(path)
    files = write(release, out, overwrite)
    blanks = sum((out / name).read_text("utf-8").count(BLANK) for name in files)
    if as_json:
        cost = {"mu_squared": release.privacy.mu_squared, "at_most": rounded_up(release.privacy.mu_squared)}
        typer.echo(json.dumps({"folder": str(out), "files": files, "blanks": blanks, "cost": cost}, indent=2))
    else:
        typer.echo(f"wrote {' and '.join(files)} to {out}; search for {BLANK!r} ({blanks} places)")
