"""What `leastnoise local` prints, as plain data and in words."""

from collections.abc import Iterator, Mapping
from math import sqrt
from pathlib import Path
from typing import Any

import pandas as pd
import typer

from leastnoise.cli.show import attributes, figure
from leastnoise.local import LocalPlan
from leastnoise.local.ball import Ball
from leastnoise.local.gauss import GaussianVectors
from leastnoise.local.randomizer import Randomizer
from leastnoise.local.state import State

INSECURE = "INSECURE: {seeded} came from a seed, which protects nobody; do not publish the answers"
ROWS = 40  # of a frame in the terminal
LAYOUTS = {
    "whole": "every device reports on all attributes together",
    "tables": "a device draws one table and reports on that",
    "residuals": "a device draws one residual table and reports on that",
    "split": "every device reports on every table, with a part of epsilon each",
}


def plan_json(plan: LocalPlan, path: Path, devices: int | None) -> dict[str, Any]:
    """What a plan asks of devices and promises to collectors."""
    fields: dict[str, Any] = {
        "plan": str(path),
        "fingerprint": plan.fingerprint,
        "epsilon": float(plan.epsilon),
        "delta": plan.delta,
        "layout": plan.layout,
        "randomizers": sorted({randomizer_name(p.randomizer) for p in plan.parts}),
        "tables": [[plan.domain.names[a] for a in p.attributes] for p in plan.parts],
        "queries": sum(len(q.rows) for q in plan.queries),
        "report_bytes": plan.report_bytes,
        "std_error_per_device": plan.worst_std_error,
        "bias": plan.bias,
        "influence": largest_influence(plan),
    }
    if devices is not None:
        fields |= {"devices": devices, "std_error": plan.worst_std_error * sqrt(devices)}
    return fields


def randomizer_name(randomizer: Randomizer) -> str:
    """As `local_plan` calls it."""
    if isinstance(randomizer, Ball):
        return "half space" if randomizer.choice.candidates == 2 else "cap"
    return "gaussian" if isinstance(randomizer, GaussianVectors) else "subsets"


def largest_influence(plan: LocalPlan) -> float:
    """How far one forged report moves any answer of the workload, at most."""
    return max(float(plan.influence(q).max(initial=0.0)) for q in plan.queries)


def plan_text(fields: Mapping[str, Any]) -> Iterator[str]:
    """The same for people to read."""
    delta = f" and delta {fields['delta']:g}" if fields["delta"] else ""
    yield f"plan {fields['plan']} ({fields['fingerprint'][:8]}): {fields['queries']:,} queries"
    yield f"each device spends epsilon {fields['epsilon']:g}{delta}, whoever reads its report"
    tables = [attributes(names) for names in fields["tables"]]
    listed = " | ".join(tables[:4]) + (f" | ... ({len(tables):,} tables)" if len(tables) > 4 else "")
    yield f"layout {fields['layout']}: {LAYOUTS[fields['layout']]} ({listed})"
    yield f"randomizer {', '.join(fields['randomizers'])}; reports of {fields['report_bytes']} bytes"
    each = f"largest standard error {figure(fields['std_error_per_device'])} times the root of the number of devices"
    yield each + (f"; answers may be off by {fields['bias']:.4g} of the devices beside that" if fields["bias"] else "")
    if "devices" in fields:
        error, n = fields["std_error"], fields["devices"]
        yield f"with {n:,} devices: standard error {figure(error)} ({100 * error / n:.3g}% of them)"
    yield f"one forged report moves an answer by {figure(fields['influence'])} at most"


def state_json(state: State) -> dict[str, Any]:
    """What a state holds."""
    collector = state.collector
    fields = {"reports": collector.reports, "rejected": dict(collector.rejected), "files": len(state.files)}
    return fields | {"seeded": collector.seeded, "insecure": collector.insecure}


def warn(state: State) -> None:
    """Say on stderr that reports came from a seed."""
    if state.collector.insecure:
        typer.echo(INSECURE.format(seeded=many(state.collector.seeded, "report")), err=True)


def collected_text(fields: Mapping[str, Any]) -> Iterator[str]:
    """What a run of `collect` did."""
    new, state = fields["new"], fields["all"]
    skipped = f"; {many(new['skipped'], 'file')} passed over" if new["skipped"] else ""
    taken = f"{many(new['reports'], 'report')} of {many(new['files'], 'file')}"
    yield f"collected {taken}{rejected_text(new['rejected'])}{skipped}"
    yield f"{fields['state']} has {many(state['reports'], 'report')} of {many(state['files'], 'file')}"
    yield f"answers: leastnoise local answers {fields['state']}"


def many(count: int, what: str) -> str:
    """A number of things.

    >>> many(1, "file"), many(2000, "file")
    ('1 file', '2,000 files')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def rejected_text(rejected: Mapping[str, int]) -> str:
    """How many reports were not taken, and why."""
    reasons = ", ".join(f"{count:,} by {reason}" for reason, count in rejected.items() if count)
    return f"; {sum(rejected.values()):,} rejected ({reasons})" if reasons else ""


def answers_json(state: State, path: Path, confidence: float, influence: float) -> dict[str, Any]:
    """What stands above the answers."""
    plan = state.plan
    return {
        "state": str(path),
        "fingerprint": plan.fingerprint,
        "epsilon": float(plan.epsilon),
        "delta": plan.delta,
        **state_json(state),
        "confidence": confidence,
        "influence": influence,
    }


def answers_text(fields: Mapping[str, Any], frame: pd.DataFrame | None) -> Iterator[str]:
    """The same for people to read, with the first answers."""
    yield f"{many(fields['reports'], 'report')} at epsilon {fields['epsilon']:g}{rejected_text(fields['rejected'])}"
    yield f"one forged report moves an answer of the plan by {figure(fields['influence'])} at most"
    if frame is None:
        return
    yield frame.head(ROWS).to_string(index=False, float_format="{:,.1f}".format)
    if len(frame) > ROWS:
        yield f"... {len(frame) - ROWS:,} more; write all to a file with --csv FILE"
