"""`leastnoise cascade`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from leastnoise.cascade import CascadePlan, cascade_plan
from leastnoise.cascade.aims import Kind
from leastnoise.cli.options import (
    Dataset,
    Delta,
    Epsilon,
    Hidden,
    Json,
    KnownSize,
    LedgerFile,
    MaybeData,
    MaybeOut,
    Mu,
    Note,
    Overwrite,
    Rho,
    Shown,
    Table,
)
from leastnoise.cli.release import run_whole
from leastnoise.domain import hierarchy
from leastnoise.errors import LeastnoiseError
from leastnoise.hierarchy import Hierarchy
from leastnoise.privacy import Budget

PER_LEVEL = "From the root's level down, such as 10,20,50; with several trees NAME=10,20,50 for each."


def cascade(
    trees: Annotated[
        list[str],
        typer.Argument(metavar="ATTRIBUTE=TREE.csv...", help="Attributes and the CSV files of their trees."),
    ],
    targets: Annotated[
        list[str] | None, typer.Option(help=f"Largest error of each level. {PER_LEVEL}", show_default=False)
    ] = None,
    kind: Annotated[Kind, typer.Option(help="What targets are.")] = "std_error",
    confidence: Annotated[float, typer.Option(help="Of targets that are within so much.")] = 0.95,
    weights: Annotated[
        list[str] | None, typer.Option(help=f"How much each level counts. {PER_LEVEL}", show_default=False)
    ] = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    mu: Mu = None,
    rho: Rho = None,
    neighbours: Hidden = "add-remove",
    size: KnownSize = None,
    exact_level: Annotated[
        int | None, typer.Option(help="Publish this level, and all above it, exactly.", show_default=False)
    ] = None,
    exact_node: Annotated[
        list[str] | None, typer.Option(help="Publish this node exactly; repeat for more.", show_default=False)
    ] = None,
    digits: Annotated[
        str | None, typer.Option(help="Where levels of codes end, such as 1,3,5.", show_default=False)
    ] = None,
    data: MaybeData = None,
    out: MaybeOut = None,
    ledger: LedgerFile = None,
    dataset: Dataset = None,
    table: Table = None,
    note: Note = "",
    overwrite: Overwrite = False,
    as_json: Json = False,
    progress: Shown = None,
) -> None:
    """Noise on trees with an accuracy per level: show what it costs, or with data make a release that adds up."""
    named = _trees(trees, digits)
    budget = None
    if any(given is not None for given in (epsilon, delta, mu, rho)):
        budget = Budget(epsilon=epsilon, delta=delta, mu=mu, rho=rho, neighbours=neighbours, size=size)
    plan = cascade_plan(
        named,
        targets=_per_tree("targets", targets, named),
        kind=kind,
        confidence=confidence,
        weights=_per_tree("weights", weights, named),
        budget=budget,
        neighbours=neighbours,
        size=size,
        exact_level=exact_level,
        exact_nodes=exact_node or (),
    )
    if data is None:
        typer.echo(json.dumps(_plan_json(plan), indent=2) if as_json else str(plan))
        return
    run_whole(
        plan,
        data,
        out,
        ledger,
        {"method": "cascade", **_plan_json(plan)},
        as_json=as_json,
        shown=progress,
        dataset=dataset,
        note=note,
        overwrite=overwrite,
        table=table,
    )


def _trees(given: Sequence[str], digits: str | None) -> dict[str, Hierarchy]:
    found: dict[str, Hierarchy] = {}
    for text in given:
        name, _, file = text.partition("=")
        if not name or not file:
            raise LeastnoiseError(f"{text!r} is no tree; write the attribute and its file, such as geo=regions.csv")
        if name in found:
            raise LeastnoiseError(f"{name!r} has two trees; give one for each attribute")
        found[name] = hierarchy(Path(file), digits=None if digits is None else _whole("digits", digits))
    return found


def _whole(name: str, text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise LeastnoiseError(f"{name} {text!r} must be whole numbers, such as 1,3,5") from None


def _per_tree(name: str, given: Sequence[str] | None, trees: dict[str, Hierarchy]) -> Any:
    """Numbers per level: of the only tree, or by attribute."""
    if not given:
        return None
    found: dict[str, list[float]] = {}
    for text in given:
        head, equals, tail = text.rpartition("=")
        attribute = head if equals else next(iter(trees))
        if attribute not in trees or (not equals and len(trees) > 1):
            raise LeastnoiseError(f"{name} {text!r} belong to no tree; write {next(iter(trees))}={tail}")
        try:
            found[attribute] = [float(part) for part in tail.split(",")]
        except ValueError:
            raise LeastnoiseError(f"{name} {text!r} must be numbers, such as 10,20,50") from None
        if len(found[attribute]) == 1 and name == "targets":
            found[attribute] *= trees[attribute].tree.depth + 1
    return found


def _plan_json(plan: CascadePlan) -> dict[str, Any]:
    frame = plan.levels().astype(object)
    levels = frame.where(frame.notna(), None).to_dict("records")
    privacy = plan.cost.to_json() | {"epsilon": plan.cost.epsilon_at(plan.delta), "delta": plan.delta}
    exact = None if plan.exact is None else plan.exact.listed()
    return {"trees": list(plan.names), "levels": levels, "privacy": privacy, "exact": exact}
