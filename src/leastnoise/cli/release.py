"""`leastnoise release`."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from leastnoise.cli.options import DATA, Json, Shown, SpecArgument, Table
from leastnoise.cli.progress import ProgressBar
from leastnoise.cli.show import figure, privacy
from leastnoise.errors import LeastnoiseError
from leastnoise.plan.from_spec import plan_spec
from leastnoise.privacy.ledger import Ledger
from leastnoise.privacy.units import say
from leastnoise.release import Release
from leastnoise.release.files import HEADER
from leastnoise.workload.spec import load_spec

NO_LEDGER = (
    "no ledger: nothing adds up what is spent on this dataset. Start one with: "
    "leastnoise ledger init FILE --dataset NAME --epsilon 2 --delta 1e-9, then use --ledger FILE"
)


def release(
    spec: SpecArgument,
    data: Annotated[str, typer.Option(help=f"The data: {DATA}", show_default=False)],
    out: Annotated[Path, typer.Option(help="The release's new folder.", show_default=False)],
    ledger: Annotated[
        Path | None, typer.Option(help="The dataset's ledger, debited before any noise is drawn.")
    ] = None,
    dataset: Annotated[str | None, typer.Option(help="The dataset's name.", show_default="the ledger's")] = None,
    table: Table = None,
    note: Annotated[str, typer.Option(help="A line to remember in the ledger.", show_default=False)] = "",
    tables: Annotated[Literal["parquet", "csv"] | None, typer.Option(help="Save all tables in reach as well.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the release that has this name.")] = False,
    memory: Annotated[str | None, typer.Option(help="The most memory for DuckDB, for example 2GB.")] = None,
    as_json: Json = False,
    progress: Shown = None,
) -> None:
    """Measure data once by a spec, and save what may be published. This is the only command that spends privacy."""
    wanted = load_spec(spec)
    book = None if ledger is None else Ledger.open(ledger)
    if book is None:
        typer.echo(NO_LEDGER, err=True)
    with ProgressBar(progress) as bar, _stopping(book):
        made = plan_spec(wanted, progress=bar).run(
            data,
            ledger=book,
            dataset=dataset or (book.dataset if book else None),
            note=note,
            out=out,
            tables=tables,
            overwrite=overwrite,
            rules=wanted.rules or None,
            unit=wanted.unit_fields,
            table=table,
            memory=memory,
            progress=bar,
        )
    told = summary(made, out, book)
    typer.echo(json.dumps(told, indent=2) if as_json else words(told))


class StoppedError(LeastnoiseError):
    """Ctrl-C came when privacy was already spent."""


@contextmanager
def _stopping(ledger: Ledger | None) -> Iterator[None]:
    """Tell whether an interrupted release was paid for."""
    before = 0 if ledger is None else len(ledger.entries())
    try:
        yield
    except KeyboardInterrupt:
        entries = [] if ledger is None else ledger.entries()[before:]
        if entries:
            raise StoppedError(f"stopped after the debit; the ledger keeps its cost (entry {entries[-1].id})") from None
        raise


def summary(release: Release, out: Path, ledger: Ledger | None) -> dict[str, Any]:
    """What was released, at which cost, and where it is."""
    header = json.loads((out / HEADER).read_text())
    (origin,) = release.origins
    assert origin.summary is not None
    told = {
        "release": str(out),
        "id": header["id"],
        "dataset": release.dataset,
        "queries": origin.summary.queries,
        "rmse": origin.summary.rmse,
        "max_std_error": origin.summary.max_std_error,
        "privacy": header["privacy"],
        "insecure": release.insecure,
        "ledger": None,
    }
    if ledger is not None:
        left = say(ledger.left, ledger.total, up=False)
        told["ledger"] = {"path": str(ledger.path), "entry": origin.ledger_entry, "left": left}
    return told


def words(told: dict[str, Any]) -> str:
    """The same for people to read."""
    whose = f" of {told['dataset']}" if told["dataset"] else ""
    lines = [
        f"released {told['queries']:,} statistics{whose} to {told['release']}",
        f"RMSE {figure(told['rmse'])}, largest standard error {figure(told['max_std_error'])}",
        f"spent {privacy(told['privacy'])}",
    ]
    if told["ledger"]:
        lines.append(f"left in the ledger: {told['ledger']['left']} (entry {told['ledger']['entry']})")
    return "\n".join([*lines, f"look at it with: leastnoise report {told['release']}"])
