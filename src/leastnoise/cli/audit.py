"""`leastnoise audit`."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from leastnoise.adaptive import Adaptive
from leastnoise.adaptive.from_spec import release_spec
from leastnoise.cli.options import Json, Shown, SpecArgument
from leastnoise.cli.progress import ProgressBar
from leastnoise.errors import LeastnoiseError
from leastnoise.plan.matrix import MatrixPlan
from leastnoise.release.audit import audit as run_audit
from leastnoise.release.audit_matrix import audit as audit_matrix
from leastnoise.release.kinds import kind_of, load
from leastnoise.release.matrix import MatrixRelease
from leastnoise.workload.spec import load_spec


def audit(
    spec: SpecArgument,
    runs: Annotated[
        int | None,
        typer.Option(help="Runs on each of the two datasets.", show_default="10000; 1000 where the spec is adaptive"),
    ] = None,
    confidence: Annotated[float, typer.Option(help="Confidence of the bounds.")] = 0.95,
    delta: Annotated[float | None, typer.Option(help="Delta at which epsilon is told.", show_default="spec's")] = None,
    seed: Annotated[int | None, typer.Option(help="Repeat an audit; the noise is then not that of a release.")] = None,
    as_json: Json = False,
    progress: Shown = None,
) -> None:
    """Try to refute the privacy of a spec: run its mechanism many times on made-up neighbours. Needs no data.

    In place of a spec it takes a matrix release, whose mechanism is then run again on made-up data.

    Exits with code 1 if the claim is refuted.
    """
    released = _plan_in(spec) if spec.is_dir() else load_spec(spec)
    with ProgressBar(progress) as bar:
        made = released if isinstance(released, MatrixPlan) else release_spec(released, progress=bar)
        tell: dict[str, Any] = {"delta": delta, "seed": seed, "progress": bar}
        if isinstance(made, MatrixPlan):
            found = audit_matrix(made, 10_000 if runs is None else runs, confidence, **tell)
        elif isinstance(made, Adaptive):
            found = made.audit(1_000 if runs is None else runs, confidence, **tell)
        else:
            found = run_audit(made, 10_000 if runs is None else runs, confidence, **tell)
    typer.echo(json.dumps(found.to_json(), indent=2) if as_json else str(found))
    if not found.ok:
        raise typer.Exit(1)


def _plan_in(path: Path) -> MatrixPlan:
    """The plan of a matrix release."""
    release = load(path)
    if not isinstance(release, MatrixRelease):
        raise LeastnoiseError(f"{path} is a {kind_of(path)}; audit takes a spec or a matrix release")
    return release.plan
