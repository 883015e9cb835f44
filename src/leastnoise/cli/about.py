"""`leastnoise show`."""

import json
from typing import Any

import typer

from leastnoise.cascade import CascadeRelease
from leastnoise.cli.ask import opened
from leastnoise.cli.options import Json, ReleaseArgument
from leastnoise.plan.words import number
from leastnoise.release import Release
from leastnoise.release.kinds import kind_of
from leastnoise.release.matrix import MatrixRelease


def about(path: ReleaseArgument, as_json: Json = False) -> None:
    """Tell what a release holds, and its privacy statement. Costs no privacy, needs no data."""
    release = opened(path)
    kind = kind_of(path)
    if isinstance(release, Release):
        privacy, made = release.privacy, [o.created for o in release.origins]
    else:
        privacy, made = release.privacy, [release.created]
    fields = _tables(release) if isinstance(release, Release) else _whole(release)
    told = {"release": str(path), "kind": kind, "dataset": release.dataset, "created": made, **fields}
    if as_json:
        typer.echo(json.dumps(told | {"privacy": privacy.model_dump(), "insecure": release.insecure}, indent=2))
        return
    whose = f" of {release.dataset}" if release.dataset else ""
    lines = [f"{kind}{whose}, measured {', '.join(made)}", fields["holds"], privacy.statement]
    typer.echo("\n".join(lines))


def _tables(release: Release) -> dict[str, Any]:
    names = list(release.domain.names)
    holds = f"{release.workload.queries:,} statistics of {', '.join(names)}"
    return {"holds": holds, "attributes": names, "queries": release.workload.queries}


def _whole(release: CascadeRelease | MatrixRelease) -> dict[str, Any]:
    if isinstance(release, CascadeRelease):
        leaves = " x ".join(f"{tree.leaf_count:,}" for tree in release.trees)
        return {"holds": f"{leaves} leaves of {', '.join(release.names)}", "attributes": list(release.names)}
    plan = release.plan
    errors = f"rmse {number(plan.rmse)}, largest standard error {number(plan.max_std_error)}"
    holds = f"{plan.queries:,} queries on {plan.items:,} values of {plan.counted.name}: {errors}"
    names = None if plan.names is None else list(plan.names)
    return {"holds": holds, **plan.to_json(), "names": names}
