"""`leastnoise audit`."""

import json
from typing import Annotated

import typer

from leastnoise.adaptive.from_spec import method_of
from leastnoise.cli.options import Json, Shown, SpecArgument
from leastnoise.cli.progress import ProgressBar
from leastnoise.errors import LeastnoiseError
from leastnoise.plan.from_spec import plan_spec
from leastnoise.release.audit import audit as run_audit
from leastnoise.workload.spec import load_spec


def audit(
    spec: SpecArgument,
    runs: Annotated[int, typer.Option(help="Runs on each of the two datasets.")] = 10_000,
    confidence: Annotated[float, typer.Option(help="Confidence of the bounds.")] = 0.95,
    delta: Annotated[float | None, typer.Option(help="Delta at which epsilon is told.", show_default="spec's")] = None,
    seed: Annotated[int | None, typer.Option(help="Repeat an audit; the noise is then not that of a release.")] = None,
    as_json: Json = False,
    progress: Shown = None,
) -> None:
    """Try to refute the privacy of a spec: run its mechanism many times on made-up neighbours. Needs no data.

    Exits with code 1 if the claim is refuted.
    """
    wanted = load_spec(spec)
    with ProgressBar(progress) as bar:
        if method_of(wanted, progress=bar)[0] == "adaptive":
            raise LeastnoiseError(
                "an audit must know the noise beforehand, and this spec is released adaptively; "
                "audit the same tables with 'method: plan'"
            )
        made = plan_spec(wanted, progress=bar)
        found = run_audit(made, runs, confidence, delta=delta, seed=seed, progress=bar)
    typer.echo(json.dumps(found.to_json(), indent=2) if as_json else str(found))
    if not found.ok:
        raise typer.Exit(1)
