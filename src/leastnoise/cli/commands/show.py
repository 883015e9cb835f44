"""`leastnoise show`."""

import json

import typer

from leastnoise.cli.commands.ask import opened
from leastnoise.cli.options import Json, ReleaseArgument
from leastnoise.release.counting import counting_text


def about(path: ReleaseArgument, as_json: Json = False) -> None:
    """Show what a release holds, and its privacy statement. Costs no privacy, needs no data."""
    release = opened(path)
    created, fields = [origin.created for origin in release.origins], release.describe()
    if as_json:
        known = {"release": str(path), "kind": release.kind, "dataset": release.dataset, "created": created, **fields}
        known |= {"counting": release.counting(), "privacy": release.privacy.model_dump(), "insecure": release.insecure}
        known["answers"] = release.published_answers().to_json()["answers"]
        typer.echo(json.dumps(known, indent=2))
        return
    whose = f" of {release.dataset}" if release.dataset else ""
    first = f"{release.kind}{whose}, measured {', '.join(created)}"
    typer.echo("\n".join([first, fields["holds"], *counting_text(release.counting()), release.privacy.statement]))
    answers = release.published_answers()
    if len(answers):
        typer.echo(str(answers))
