"""`leastnoise release`."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, Unpack

import typer

from leastnoise.adaptive.from_spec import release_spec
from leastnoise.cascade import CascadePlan
from leastnoise.cli.options import (
    DATA,
    Dataset,
    FilesFrom,
    Json,
    LedgerFile,
    Memory,
    Note,
    Overwrite,
    Shown,
    SpecArgument,
    Table,
)
from leastnoise.cli.progress import ProgressBar
from leastnoise.cli.show import figure, privacy
from leastnoise.errors import LeastnoiseError, StoppedError
from leastnoise.plan.matrix import MatrixPlan
from leastnoise.plan.options import Options
from leastnoise.privacy.ledger import Ledger
from leastnoise.privacy.units import say
from leastnoise.release import Release
from leastnoise.release.folders import HEADER
from leastnoise.release.rounds import Adaptivity
from leastnoise.release.statement import Origin
from leastnoise.workload.spec import load_spec

NO_LEDGER = (
    "no ledger: nothing adds up what is spent on this dataset. Start one with: "
    "leastnoise ledger init FILE --dataset NAME --epsilon 2 --delta 1e-9, then use --ledger FILE"
)


def release(
    spec: SpecArgument,
    data: Annotated[str, typer.Option(help=f"The data: {DATA}", show_default=False)],
    out: Annotated[Path, typer.Option(help="The release's new folder.", show_default=False)],
    ledger: LedgerFile = None,
    dataset: Dataset = None,
    table: Table = None,
    note: Note = "",
    tables: Annotated[Literal["parquet", "csv"] | None, typer.Option(help="Save all tables in reach as well.")] = None,
    overwrite: Overwrite = False,
    memory: Memory = None,
    as_json: Json = False,
    progress: Shown = None,
    files_from: FilesFrom = None,
) -> None:
    """Measure data once by a spec, and save what may be published. This spends privacy, as cascade and matrix do."""
    wanted = load_spec(spec, files_from=files_from)
    book = ledger_at(ledger)
    with ProgressBar(progress) as bar, stopping(book):
        made = release_spec(wanted, progress=bar).run(
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


def run_whole(
    plan: CascadePlan | MatrixPlan,
    data: str,
    folder: Path | None,
    account: Path | None,
    fields: dict[str, Any],
    *,
    as_json: bool,
    shown: bool | None,
    **options: Unpack[Options],
) -> None:
    """Carry out a plan that makes one table, and tell about it; `fields` are what only its kind has to tell."""
    if folder is None:
        raise LeastnoiseError("say where the release goes, with --out FOLDER")
    book = ledger_at(account)
    options["dataset"] = options.get("dataset") or (book.dataset if book else None)
    with ProgressBar(shown) as bar, stopping(book):
        made: Any = plan.run(data, **(options | Options(ledger=book, out=folder, progress=bar)))
    told = summed_up(made, folder, book, made.ledger_entry, fields)
    lines = [str(plan), f"released to {folder}", *last_words(told)]
    typer.echo(json.dumps(told, indent=2) if as_json else "\n".join(lines))


def ledger_at(path: Path | None) -> Ledger | None:
    """The ledger, if there is one; without, it is told how to start one."""
    if path is None:
        typer.echo(NO_LEDGER, err=True)
        return None
    return Ledger.open(path)


@contextmanager
def stopping(ledger: Ledger | None) -> Iterator[None]:
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
    (origin,) = release.origins
    fields = _planned(origin) if origin.adaptive is None else _adaptive(release, origin.adaptive)
    return summed_up(release, out, ledger, origin.ledger_entry, fields)


def summed_up(
    release: Any, out: Path, ledger: Ledger | None, entry: int | None, fields: dict[str, Any]
) -> dict[str, Any]:
    """The same for a release of any kind; `fields` are what only its kind has."""
    header = json.loads((out / HEADER).read_text())
    told = {
        "release": str(out),
        "id": header["id"],
        "dataset": release.dataset,
        **fields,
        "privacy": header["privacy"],
        "insecure": release.insecure,
        "ledger": None,
    }
    if ledger is not None:
        left = say(ledger.left, ledger.total, up=False)
        told["ledger"] = {"path": str(ledger.path), "entry": entry, "left": left}
    return told


def _planned(origin: Origin) -> dict[str, Any]:
    assert origin.summary is not None, "what is not adaptive was planned"
    fields = ("queries", "rmse", "max_std_error")
    return {"method": "plan"} | {name: getattr(origin.summary, name) for name in fields}


def _adaptive(release: Release, made: Adaptivity) -> dict[str, Any]:
    """What became of the tables asked for; errors are in rows, summed over the queries of a table (L1)."""
    errors = release.complete().errors()
    expected = float(errors["expected_l1"].mean())
    return {
        "method": "adaptive",
        "select": made.method,
        "queries": made.workload.queries,
        "tables": len(errors),
        "tables_measured": int(errors["measured"].sum()),
        "rounds": len(made.rounds),
        "expected_l1": expected,
    }


def words(told: dict[str, Any]) -> str:
    """The same for people to read."""
    lines = [*(_adaptive_words(told) if told["method"] == "adaptive" else _planned_words(told))]
    return "\n".join([*lines, f"spent {privacy(told['privacy'])}", *last_words(told)])


def last_words(told: dict[str, Any]) -> Iterator[str]:
    """What is left, and what to do next."""
    if told["ledger"]:
        yield f"left in the ledger: {told['ledger']['left']} (entry {told['ledger']['entry']})"
    yield f"look at it with: leastnoise report {told['release']}"


def _planned_words(told: dict[str, Any]) -> Iterator[str]:
    yield f"released {told['queries']:,} statistics{_whose(told)} to {told['release']}"
    yield f"RMSE {figure(told['rmse'])}, largest standard error {figure(told['max_std_error'])}"


def _adaptive_words(told: dict[str, Any]) -> Iterator[str]:
    asked, measured = told["tables"], told["tables_measured"]
    yield f"released {asked:,} tables{_whose(told)} to {told['release']}, adaptively in {told['rounds']:,} rounds"
    yield (
        f"{measured:,} measured, {asked - measured:,} to be completed from what was measured; the errors in a table "
        f"are expected to add up to {figure(told['expected_l1'])} on average"
    )


def _whose(told: dict[str, Any]) -> str:
    return f" of {told['dataset']}" if told["dataset"] else ""
