"""`leastnoise stream`."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from leastnoise.cli.commands.release import closing_text, summary
from leastnoise.cli.options import Confidence, Json, Overwrite
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.stream.stream import Stream
from leastnoise.privacy import Ledger
from leastnoise.release.answers import Answer
from leastnoise.release.statement import INSECURE


def stream(
    folder: Annotated[Path, typer.Argument(metavar="STREAM", help="The stream's folder.", show_default=False)],
    counts: Annotated[
        list[str] | None,
        typer.Argument(metavar="[COUNT]...", help="Counts of the next items; - reads them from standard input."),
    ] = None,
    step: Annotated[
        int | None,
        typer.Option(help="Number of the first of them, from 0; then a command can be repeated.", show_default=False),
    ] = None,
    close: Annotated[
        Path | None, typer.Option(help="Once all items have come: the release's new folder.", show_default=False)
    ] = None,
    ledger: Annotated[Path | None, typer.Option(help="The ledger it was opened with, for --close.")] = None,
    moved: Annotated[
        bool, typer.Option("--moved", help="The folder was moved to another disk; no other copy of it is in use.")
    ] = False,
    overwrite: Overwrite = False,
    confidence: Confidence = 0.95,
    as_json: Json = False,
) -> None:
    """Add counts to a stream, each of which is answered at once; without counts, show how far it is.

    Streams are opened with leastnoise release SPEC --out STREAM, of a spec with method: stream. The folder is as
    private as the data.
    """
    given = _counts(counts or [])
    book = None if ledger is None else Ledger.open(ledger)
    with Stream.load(folder, ledger=book, moved=moved) as result:
        if result.insecure:
            typer.echo(INSECURE, err=True)
        first = len(result) if step is None else step
        answers = {k: result.add(c, confidence, step=k) for k, c in enumerate(given, first)}
        if not answers and len(result) and close is None:
            answers = {len(result) - 1: result.answer(len(result) - 1, confidence)}
        fields, lines = _summary(result, answers)
        if close is not None:
            release = result.close(close, overwrite=overwrite)
            fields["release"] = summary(release, close, book)
            lines += [f"released to {close}", *closing_text(fields["release"])]
    typer.echo(json.dumps(fields, indent=2) if as_json else "\n".join(lines))


def _counts(given: list[str]) -> list[int]:
    texts = sys.stdin.read().split() if given == ["-"] else given
    if not all(text.isdecimal() for text in texts):
        raise LeastnoiseError("a count is a whole number of 0 or more; give how many events there were")
    return [int(text) for text in texts]


def _summary(stream: Stream, answers: dict[int, Answer]) -> tuple[dict[str, Any], list[str]]:
    """What was answered, and how far the stream has come, as data and in words."""
    plan = stream.plan
    rows = [{"step": k, "query": plan.label(k), **answer.to_json()} for k, answer in answers.items()]
    fields = {"stream": {"steps": len(stream), "items": plan.items}, "insecure": stream.insecure, "answers": rows}
    lines = [f"step {k} ({plan.label(k)}): {answer}" for k, answer in answers.items()]
    return fields, [*lines, f"{len(stream):,} of {plan.items:,} steps were taken"]
