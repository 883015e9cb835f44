"""`leastnoise plan` and `leastnoise schema`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from leastnoise.adaptive.from_spec import adapt_spec, method_of, preview
from leastnoise.cli.options import FilesFrom, Json, Shown, SpecArgument
from leastnoise.cli.progress import ProgressBar
from leastnoise.cli.show import show_adaptive, show_plan
from leastnoise.errors import LeastnoiseError
from leastnoise.plan.from_spec import plan_spec
from leastnoise.workload.schema import json_schema
from leastnoise.workload.spec import Objective, Spec, load_spec


def plan(
    spec: SpecArgument,
    as_json: Json = False,
    solver: Annotated[str | None, typer.Option(help="Solver, instead of the one in the spec.")] = None,
    prior: Annotated[str | None, typer.Option(help="Prior: search or uniform.")] = None,
    objective: Annotated[str | None, typer.Option(help="Objective: sum, max or lr=4.")] = None,
    out: Annotated[Path | None, typer.Option(help="Save the plan to this file.")] = None,
    progress: Shown = None,
    files_from: FilesFrom = None,
) -> None:
    """Plan the noise for a spec: the error of every group, and the least that is possible. Needs no data.

    Of a spec that is released adaptively it tells what will be done.
    """
    if out is not None and not out.parent.is_dir():
        raise LeastnoiseError(f"there is no folder {str(out.parent)!r} to save the plan in; create it first")
    wanted = load_spec(spec, files_from=files_from)
    aim = None if objective is None else parse_objective(objective)
    steering = {"solver": solver, "prior": prior, "objective": objective, "out": out}
    with ProgressBar(progress) as bar:
        method, reason = method_of(wanted, progress=bar)
        if method == "adaptive":
            bar(0, 0, "listing candidates")
            told = _adaptive(wanted, reason, steering)
        else:
            made = plan_spec(wanted, solver=solver, prior=prior, objective=aim, progress=bar)
            told = made.to_json() | ({"method": method, "reason": reason} if wanted.method == "auto" else {})
            if out is not None:
                made.save(out)
    if as_json:
        typer.echo(json.dumps(told, indent=2))
    elif method == "adaptive":
        show_adaptive(told)
    else:
        show_plan(told)


def _adaptive(wanted: Spec, reason: str, steering: Mapping[str, object]) -> dict[str, Any]:
    for name, given in steering.items():
        if given is not None:
            raise LeastnoiseError(f"--{name} is for plans, but this spec is released adaptively, as {reason}")
    return preview(adapt_spec(wanted), reason)


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
