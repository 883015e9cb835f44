"""`leastnoise local`: plans, reports and collections where nobody is trusted with the data."""

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from leastnoise._types import IntArray
from leastnoise.cli.commands.local_collect import PlanArgument, answers, check_new, collect, merge
from leastnoise.cli.local_summary import plan_json, plan_text
from leastnoise.cli.options import DATA, FilesFrom, Json, Shown, SpecArgument, Table
from leastnoise.cli.progress import ProgressBar
from leastnoise.errors import LeastnoiseError
from leastnoise.local import Device, LocalPlan, load_plan, local_plan, save_plan, simulate
from leastnoise.local.reports import FIELD, to_line
from leastnoise.mechanisms.gate import records
from leastnoise.noise import RandomSource, SecureRandomSource, SeededRandomSource
from leastnoise.storage.files import write_file
from leastnoise.workload.file_format import FileFormat
from leastnoise.workload.spec import Spec, load_spec

EXAMPLE = "Example: leastnoise local plan survey.yaml -o survey.plan --devices 100000"
PRIVATE = (
    "this machine reads records that devices would keep to themselves. The reports may leave it: each spends "
    "epsilon {epsilon:g} of its record, once more with every run on the same records"
)
SEEDED = "the reports come from a seed: whoever knows it can undo the noise. They must not leave this machine"

local = typer.Typer(
    no_args_is_help=True,
    help="Collect from devices that trust nobody: each randomizes its own record, a collector adds up.",
    epilog=EXAMPLE,
)
Devices = Annotated[int | None, typer.Option(help="Print the error with this many devices.", min=1, show_default=False)]


# --- plans ------------------------------------------------------------------------------------------------------------


@local.command(epilog=EXAMPLE)
def plan(
    spec: SpecArgument,
    out: Annotated[Path, typer.Option("--out", "-o", help="The plan's new file.", show_default=False)],
    devices: Devices = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Epsilon of each device, instead of the spec's.", show_default=False)
    ] = None,
    randomizer: Annotated[str, typer.Option(help="subsets, half space, cap or gaussian.")] = "auto",
    layout: Annotated[str, typer.Option(help="whole, tables, residuals or split.")] = "auto",
    population: Annotated[
        str, typer.Option(help="any: plan for the worst data; spread: for values that are about equally frequent.")
    ] = "any",
    bias: Annotated[float, typer.Option(help="Share of the devices by which answers may be off, for less noise.")] = 0,
    as_json: Json = False,
    progress: Shown = None,
    files_from: FilesFrom = None,
) -> None:
    """Plan what devices report, with the epsilon of a spec or of the option. Needs no data; the plan is public."""
    check_new(out, "choose another name, so that devices do not mix up two plans")
    loaded = load_spec(spec, budgeted=False, files_from=files_from)
    spent, delta = _budget(loaded, epsilon)
    with ProgressBar(progress) as bar:
        bar(0, 0, "planning for devices")
        new_plan = local_plan(
            loaded.workload,
            spent,
            delta if randomizer == "gaussian" else None,
            bias=bias,
            randomizer=randomizer,
            layout=layout,
            population=population,
        )
        save_plan(new_plan, out)
    _print_plan(new_plan, out, devices, as_json)


@local.command(epilog="Example: leastnoise local show survey.plan --devices 100000")
def show(path: PlanArgument, devices: Devices = None, as_json: Json = False) -> None:
    """Show what a plan asks of devices, what it costs them, and how accurate the answers will be."""
    _print_plan(load_plan(path), path, devices, as_json)


def _print_plan(plan: LocalPlan, path: Path, devices: int | None, as_json: bool) -> None:
    fields = plan_json(plan, path, devices)
    typer.echo(json.dumps(fields, indent=2) if as_json else "\n".join(plan_text(fields)))


def _budget(spec: Spec, epsilon: float | None) -> tuple[float, float | None]:
    """Epsilon, the spec's unless another is given, and delta if there is one; for one record per device."""
    fields = spec.budget_fields
    spent = fields.get("epsilon") if epsilon is None else epsilon
    if spent is None:
        stated = next(iter(fields), "no privacy")
        raise LeastnoiseError(f"devices need an epsilon, the spec has {stated}; give --epsilon 1")
    if fields.get("rows_per_person") is not None or spec.unit_fields:
        raise LeastnoiseError(
            "a device reports one record, so several rows per person mean nothing here; leave them out"
        )
    return spent, fields.get("delta")


# --- reports ----------------------------------------------------------------------------------------------------------


@local.command(epilog="""Example: echo '{"age": 7, "sex": "F"}' | leastnoise local report survey.plan""")
def report(
    path: PlanArgument,
    record: Annotated[
        str | None,
        typer.Option(
            help="The record as JSON; without it, one per line from stdin, which keeps it out of lists of processes.",
            show_default=False,
        ),
    ] = None,
    binary: Annotated[bool, typer.Option("--binary", help="Write the bytes as they are.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON lines.")] = False,
) -> None:
    """Randomize a record on its own device: one line of base64 out. Every report of a record spends epsilon again."""
    plan = load_plan(path)
    codes = list(_codes(plan, sys.stdin if record is None else [record]))
    if not codes:
        raise LeastnoiseError("stdin has no record; write one JSON object per line")
    block, size = simulate(plan, np.array(codes, dtype=np.int64), SecureRandomSource()), plan.report_bytes
    if binary:
        typer.get_binary_stream("stdout").write(block)
        return
    for at in range(0, len(block), size):
        line = to_line(block[at : at + size])
        typer.echo(json.dumps({FIELD: line}) if as_json else line)


def _codes(plan: LocalPlan, lines: Iterable[str]) -> Iterator[list[int]]:
    """All records are read before any is reported, so that none is reported in vain. No message shows one."""
    device = Device(plan)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            raise LeastnoiseError(f'record {number} is no JSON object; write for example {{"age": 7}}')
        try:
            yield device.codes(record)
        except LeastnoiseError as error:
            raise LeastnoiseError(f"record {number}: {error}") from None


@local.command("simulate", epilog="Example: leastnoise local simulate survey.plan people.parquet -o reports.bin")
def simulate_(
    path: PlanArgument,
    data: Annotated[str, typer.Argument(metavar="DATA", help=f"The records: {DATA}", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", help="The new file of reports.", show_default=False)],
    spec: Annotated[
        Path | None,
        typer.Option(
            help="A spec of the same attributes: its rules for values, and how the file is written.",
            show_default=False,
        ),
    ] = None,
    table: Table = None,
    seed: Annotated[
        int | None, typer.Option(help="For studies only: the same reports again, without privacy.", show_default=False)
    ] = None,
    as_json: Json = False,
    progress: Shown = None,
    files_from: FilesFrom = None,
) -> None:
    """Make the reports of all records of a table, as if each were on a device of its own. For studies."""
    plan = load_plan(path)
    check_new(out, "its reports would be lost")
    rules, file = _rules(plan, spec, files_from)
    typer.echo(SEEDED if seed is not None else PRIVATE.format(epsilon=float(plan.epsilon)), err=True)
    random_source: RandomSource = SecureRandomSource() if seed is None else SeededRandomSource(seed)
    with ProgressBar(progress) as bar:
        count = _write_reports(plan, records(data, plan.domain, rules, table, file), random_source, out, bar)
    fields = {"file": str(out), "reports": count, "bytes": out.stat().st_size, "insecure": seed is not None}
    mark = " (INSECURE: seeded)" if seed is not None else ""
    words = f"wrote {out}: {count:,} reports of {plan.report_bytes} bytes{mark}"
    typer.echo(json.dumps(fields, indent=2) if as_json else words)


def _rules(plan: LocalPlan, spec: Path | None, files_from: Path | None) -> tuple[Any, FileFormat | None]:
    if spec is None:
        return None, None
    loaded = load_spec(spec, budgeted=False, files_from=files_from)
    if loaded.workload.domain != plan.domain:
        raise LeastnoiseError(f"{spec} has other attributes than the plan; name the spec that the plan was made from")
    return loaded.rules or None, loaded.file


def _write_reports(
    plan: LocalPlan, rows: Iterator[IntArray], random_source: RandomSource, out: Path, bar: ProgressBar
) -> int:
    """Some records at a time; the file is complete or not there."""
    count = 0

    def reports() -> Iterator[bytes]:
        nonlocal count
        for some in rows:
            yield simulate(plan, some, random_source)
            count += len(some)
            bar(count, 0, f"reporting, {count:,} records so far")

    write_file(out, reports(), overwrite=False)
    return count


local.command(epilog="Example: leastnoise local collect survey.plan monday.bin tuesday.jsonl -o survey.state")(collect)
local.command(epilog="Example: leastnoise local merge north.state south.state -o all.state")(merge)
local.command(epilog="Example: leastnoise local answers survey.state --csv answers.csv")(answers)
