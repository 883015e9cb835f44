"""`leastnoise local collect`, `merge` and `answers`: what a collector does."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from leastnoise.cli.local_summary import (
    answers_json,
    answers_text,
    collected_text,
    largest_influence,
    many,
    state_json,
    warn,
)
from leastnoise.cli.options import Confidence, Json, Shown, Simultaneous
from leastnoise.cli.progress import ProgressBar
from leastnoise.errors import LeastnoiseError
from leastnoise.local.frames import answers_frame, counts_frame
from leastnoise.local.reports import read_reports
from leastnoise.local.state import State
from leastnoise.release.files.one_table import write_table
from leastnoise.report.local import write as write_page
from leastnoise.storage.files import check_target

SAVE_AFTER = 10.0  # seconds of collecting

PlanArgument = Annotated[Path, typer.Argument(metavar="PLAN", help="The plan's file.", show_default=False)]
PlanOption = Annotated[
    Path | None, typer.Option("--plan", help="The plan's file, for states without it.", show_default=False)
]
StateOption = Annotated[Path, typer.Option("--out", "-o", help="The state's file.", show_default=False)]


def collect(
    path: PlanArgument,
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILES...", help="Reports as bytes, or as lines of base64 or JSON.", show_default=False),
    ],
    out: StateOption,
    add: Annotated[bool, typer.Option("--add", help="Add to the state, where there is one.")] = False,
    skip: Annotated[bool, typer.Option("--skip", help="Pass over files that the state has already.")] = False,
    as_json: Json = False,
    progress: Shown = None,
) -> None:
    """Count files of reports, each whole or not at all, and once. Continue a run that was stopped with --add --skip."""
    if not add:
        check_new(out, "add to it with --add, or choose another name")
    check_target(out, overwrite=True)
    for file in files:
        if not file.is_file():
            raise LeastnoiseError(f"there is no file {str(file)!r}; check the path")
    state = State.load(out, path) if out.exists() else State.start(path)
    with ProgressBar(progress) as bar:
        fields = _Collecting(state, out, bar, sum(file.stat().st_size for file in files)).run(files, skip)
    warn(state)
    typer.echo(json.dumps(fields, indent=2) if as_json else "\n".join(collected_text(fields)))


@dataclass
class _Collecting:
    """One run of `collect`, which saves now and then."""

    state: State
    out: Path
    bar: ProgressBar
    size: int
    done: int = 0
    counted: int = 0
    skipped: int = 0
    saved: float = 0.0

    def run(self, files: Sequence[Path], skip: bool) -> dict[str, Any]:
        """Count the files; what came before an error, or before Ctrl-C, is kept."""
        before, self.saved = state_json(self.state), time.monotonic()
        try:
            for file in files:
                self._take(file, skip)
        except LeastnoiseError as error:
            kept = f"; what came before it is in {self.out}" if self.counted else ""
            raise type(error)(f"{error}{kept}") from None
        finally:
            if self.counted:
                self.state.save(self.out)
        if not self.counted and not self.out.exists():
            self.state.save(self.out)  # files without reports make a state without reports
        return collected_json(self, before)

    def _take(self, file: Path, skip: bool) -> None:
        report_file = read_reports(self.state.plan, file, lambda read: self._show(read, file))
        if self.state.has(report_file):
            if not skip:
                raise LeastnoiseError(f"{file} was collected before; leave it out, or pass over such files with --skip")
            self.skipped += 1
            return
        self.state.add(report_file)
        self.counted += 1
        if time.monotonic() - self.saved > SAVE_AFTER:
            self.state.save(self.out)
            self.saved = time.monotonic()

    def _show(self, read: int, file: Path) -> None:
        self.done += read
        self.bar(self.done / max(self.size, 1), 1, f"collecting {file.name}")


def collected_json(run: _Collecting, before: dict[str, Any]) -> dict[str, Any]:
    """What a run of `collect` changed."""
    after = state_json(run.state)
    rejected = {reason: count - before["rejected"][reason] for reason, count in after["rejected"].items()}
    new = {"files": run.counted, "skipped": run.skipped, "reports": after["reports"] - before["reports"]}
    return {"state": str(run.out), "new": new | {"rejected": rejected}, "all": after}


def merge(
    states: Annotated[list[Path], typer.Argument(metavar="STATES...", help="States of one plan.", show_default=False)],
    out: StateOption,
    plan: PlanOption = None,
    as_json: Json = False,
) -> None:
    """Make one state of several; states that share a file of reports are refused."""
    check_new(out, "choose another name")
    if len({path.resolve() for path in states}) < len(states):
        raise LeastnoiseError("a state is named twice; its reports would count twice")
    first, *others = (State.load(path, plan) for path in states)
    merged = State(first.collector, first.plan_file, first.files)
    for other in others:
        merged.merge(other)
    merged.save(out)
    warn(merged)
    fields = {"state": str(out), "states": len(states), **state_json(merged)}
    have = f"{many(merged.collector.reports, 'report')} of {many(len(merged.files), 'file')}"
    words = f"merged {many(len(states), 'state')} into {out}: {have}"
    typer.echo(json.dumps(fields, indent=2) if as_json else words)


def answers(
    path: Annotated[Path, typer.Argument(metavar="STATE", help="The state's file.", show_default=False)],
    attributes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ATTRIBUTE]...", help="A table of counts, instead of the plan's queries."),
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the answers to this CSV file.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page to look at.")] = None,
    plan: PlanOption = None,
    confidence: Confidence = 0.95,
    simultaneous: Simultaneous = False,
    as_json: Json = False,
) -> None:
    """Answer the queries of the plan from a state, with errors and intervals. Costs no privacy."""
    for file in (csv, html):
        if file is not None:
            check_target(file, overwrite=True)
    state = State.load(path, plan)
    if attributes:
        frame = counts_frame(state.collector, attributes, confidence, simultaneous)
    else:
        frame = answers_frame(state.collector, confidence, simultaneous)
    if csv is not None:
        write_table(frame, csv, "csv", {"insecure": state.collector.insecure})
    if html is not None:
        write_page(state.collector, html, confidence=confidence, simultaneous=simultaneous)
    influence = largest_influence(state.plan) if attributes else float(frame["influence"].max())
    warn(state)
    fields = answers_json(state, path, confidence, influence) | {"simultaneous": simultaneous}
    if as_json:
        rows = json.loads(frame.to_json(orient="records", double_precision=15))
        typer.echo(json.dumps(fields | {"rows": rows}, indent=2))
    else:
        typer.echo("\n".join(answers_text(fields, frame if csv is None and html is None else None)))


def check_new(path: Path, fix: str) -> None:
    """Nothing is there, and it can be made."""
    check_target(path, overwrite=True)
    if path.exists():
        raise LeastnoiseError(f"{str(path)!r} exists; {fix}")
