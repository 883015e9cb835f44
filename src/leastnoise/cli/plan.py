"""`leastnoise plan` and `leastnoise schema`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from leastnoise.cli.options import Json, Shown, SpecArgument
from leastnoise.cli.progress import ProgressBar
from leastnoise.cli.show import show_plan
from leastnoise.errors import LeastnoiseError
from leastnoise.plan.from_spec import plan_spec
from leastnoise.workload.schema import json_schema
from leastnoise.workload.spec import Objective, load_spec


def plan(
    spec: SpecArgument,
    as_json: Json = False,
    solver: Annotated[str | None, typer.Option(help="Solver, instead of the one in the spec.")] = None,
    prior: Annotated[str | None, typer.Option(help="Prior: search or uniform.")] = None,
    objective: Annotated[str | None, typer.Option(help="Objective: sum, max or lr=4.")] = None,
    out: Annotated[Path | None, typer.Option(help="Save the plan to this file.")] = None,
    progress: Shown = None,
) -> None:
    """Plan the noise for a spec: the error of every group, and the least that is possible. Needs no data."""
    if out is not None and not out.parent.is_dir():
        raise LeastnoiseError(f"there is no folder {str(out.parent)!r} to save the plan in; create it first")
    wanted = load_spec(spec)
    aim = None if objective is None else parse_objective(objective)
    with ProgressBar(progress) as bar:
        made = plan_spec(wanted, solver=solver, prior=prior, objective=aim, progress=bar)
    if out is not None:
        made.save(out)
    if as_json:
        typer.echo(json.dumps(made.to_json(), indent=2))
    else:
        show_plan(made.to_json())


def parse_objective(text: str) -> Objective:
    """'sum', 'max', or a norm in between as 'lr=4'.

    >>> parse_objective("max"), parse_objective("lr=4")
    ('max', {'lr': 4.0})
    """
    name, _, value = text.partition("=")
    try:
        return {"lr": float(value)} if name == "lr" else {"sum": "sum", "max": "max"}[text]
    except (KeyError, ValueError):
        raise LeastnoiseError(f"unknown objective {text!r}; use sum, max or lr=4") from None


def schema() -> None:
    """Print the JSON schema of spec files, for editors and other programs."""
    typer.echo(json.dumps(json_schema(), indent=2))
