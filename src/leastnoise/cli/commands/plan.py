"""`leastnoise plan` and `leastnoise schema`."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from leastnoise.cli.options import FilesFrom, Json, Shown, SpecArgument, renamed
from leastnoise.cli.progress import ProgressBar
from leastnoise.cli.show import show_adaptive, show_plan
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.from_spec import method_of, plan_spec
from leastnoise.mechanisms.tables.plan import Plan
from leastnoise.workload.schema import json_schema
from leastnoise.workload.spec import Objective, load_spec


def plan(
    spec: SpecArgument,
    as_json: Json = False,
    solver: Annotated[str | None, typer.Option(help="Solver, instead of the one in the spec.")] = None,
    baseline: Annotated[str | None, typer.Option(help="Baseline: search or uniform.")] = None,
    prior: Annotated[str | None, typer.Option("--prior", hidden=True, callback=renamed("--baseline"))] = None,
    objective: Annotated[str | None, typer.Option(help="Objective: sum, max or lr=4.")] = None,
    out: Annotated[Path | None, typer.Option(help="Save the plan to this file.")] = None,
    progress: Shown = None,
    files_from: FilesFrom = None,
) -> None:
    """Plan the noise for a spec: the error of every group, and the least that is possible. Needs no data.

    Of an adaptive plan it shows what will be done.
    """
    if out is not None and not out.parent.is_dir():
        raise LeastnoiseError(f"there is no folder {str(out.parent)!r} to save the plan in; create it first")
    stated = load_spec(spec, files_from=files_from)
    goal = None if objective is None else parse_objective(objective)
    with ProgressBar(progress) as bar:
        method, reason = method_of(stated, progress=bar)
        for name, given in {"solver": solver, "baseline": baseline, "objective": objective, "out": out}.items():
            if given is not None and method != "plan":
                raise LeastnoiseError(f"--{name} is for plans, but this spec has method {method!r}, as {reason}")
        bar(0, 0, "planning")
        mechanism = plan_spec(stated, solver=solver, baseline=baseline, objective=goal, progress=bar)
        fields = mechanism.to_json() | {"method": method} | ({} if stated.method == "plan" else {"reason": reason})
        if isinstance(mechanism, Plan) and out is not None:
            mechanism.save(out)
    if as_json:
        typer.echo(json.dumps(fields, indent=2))
    else:
        show = SHOWN.get(method)
        show(fields) if show is not None else typer.echo(str(mechanism))


SHOWN: dict[str, Callable[[Mapping[str, Any]], None]] = {"plan": show_plan, "adaptive": show_adaptive}


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
