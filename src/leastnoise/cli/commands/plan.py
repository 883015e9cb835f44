"""`leastnoise plan` and `leastnoise schema`."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from leastnoise.cli.keys import keys_in
from leastnoise.cli.options import FilesFrom, Json, KeyFolders, Shown, SpecArgument, renamed
from leastnoise.cli.progress import ProgressBar
from leastnoise.cli.show import show_adaptive, show_plan
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.from_spec import method_of, plan_spec, side_share
from leastnoise.mechanisms.mechanism import Mechanism
from leastnoise.mechanisms.tables.plan import Plan
from leastnoise.privacy import Budget
from leastnoise.release.frames import check_showable
from leastnoise.release.release import Release
from leastnoise.workload.schema import json_schema
from leastnoise.workload.spec import Objective, Spec, load_spec


def plan(
    spec: SpecArgument,
    as_json: Json = False,
    solver: Annotated[str | None, typer.Option(help="Solver, instead of the one in the spec.")] = None,
    baseline: Annotated[str | None, typer.Option(help="Baseline: search, product or uniform.")] = None,
    prior: Annotated[str | None, typer.Option("--prior", hidden=True, callback=renamed("--baseline"))] = None,
    objective: Annotated[str | None, typer.Option(help="Objective: sum, max or lr=4.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Epsilon, instead of the spec's budget; with --delta.")] = None,
    delta: Annotated[float | None, typer.Option(help="Delta, instead of the one in the spec.")] = None,
    mu: Annotated[float | None, typer.Option(help="Gaussian privacy mu, instead of the spec's budget.")] = None,
    rho: Annotated[float | None, typer.Option(help="Zero-concentrated privacy, instead of the spec's budget.")] = None,
    groups: Annotated[bool, typer.Option("--groups", help="Show every group of queries, however many.")] = False,
    certify: Annotated[bool, typer.Option("--certify", help="Prove the best floor, if it takes minutes.")] = False,
    out: Annotated[Path | None, typer.Option(help="Save the plan to this file.")] = None,
    progress: Shown = None,
    files_from: FilesFrom = None,
    keys: KeyFolders = None,
) -> None:
    """Plan the noise for a spec: the error of every group, and the least that is possible. Needs no data.

    Of an adaptive plan it shows what will be done; while keys are unknown, which of them will be found.
    """
    if out is not None and not out.parent.is_dir():
        raise LeastnoiseError(f"there is no folder {str(out.parent)!r} to save the plan in; create it first")
    given_budget = {"epsilon": epsilon, "delta": delta, "mu": mu, "rho": rho}
    budget = {name: value for name, value in given_budget.items() if value is not None}
    stated = _with_budget(load_spec(spec, budgeted=not budget, files_from=files_from, keys=keys_in(keys)), budget)
    check_showable(stated.workload.domain.names, stated.method)
    goal = None if objective is None else parse_objective(objective)
    with ProgressBar(progress) as bar:
        method, reason = method_of(stated, progress=bar)
        asked = {"solver": solver, "baseline": baseline, "objective": objective, "certify": certify or None, "out": out}
        for name, given in asked.items():
            if given is not None and method != "plan":
                raise LeastnoiseError(f"--{name} is for plans, but this spec has method {method!r}, as {reason}")
        if out is not None and side_share(stated):
            raise LeastnoiseError("--out saves a plan alone; leave 'quality' and 'people' out of the spec, or --out")
        bar(0, 0, "planning")
        mechanism = plan_spec(stated, solver=solver, baseline=baseline, objective=goal, progress=bar)
        if isinstance(mechanism, Plan) and certify:
            mechanism = mechanism.certify(bar)
        fields = mechanism.to_json() | {"method": method} | ({} if stated.method == "plan" else {"reason": reason})
        if isinstance(mechanism, Plan) and out is not None:
            mechanism.save(out)
    if as_json:
        typer.echo(json.dumps(fields, indent=2))
    else:
        _show(mechanism, method, fields, groups)


def _show(mechanism: Mechanism[Release], method: str, fields: Mapping[str, Any], groups: bool) -> None:
    if method == "plan":
        show_plan(fields, every=groups)
    elif method == "adaptive":
        show_adaptive(fields)
    else:
        typer.echo(str(mechanism))


def _with_budget(spec: Spec, budget: Mapping[str, float]) -> Spec:
    """The spec with another budget; what it protects stays, and so does its delta unless there is another."""
    if not budget:
        return spec
    ways = [name for name in ("epsilon", "mu", "rho") if name in budget]
    if len(ways) > 1:
        raise LeastnoiseError(f"--{ways[0]} and --{ways[1]} state the budget twice; use one")
    replaced = {"epsilon", "mu", "rho"} if ways else set()
    replaced |= {"delta"} if ways and ways[0] != "epsilon" else set()
    fields = {name: value for name, value in spec.budget_fields.items() if name not in replaced} | dict(budget)
    if "epsilon" in fields and "delta" not in fields:
        raise LeastnoiseError("--epsilon needs a delta; add --delta, for example --delta 1e-9")
    Budget(**fields)  # refuses what is no budget
    return replace(spec, budget_fields=fields)


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
