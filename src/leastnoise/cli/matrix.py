"""`leastnoise matrix`."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer

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
    Memory,
    Mu,
    Note,
    Overwrite,
    Rho,
    RowsPerPerson,
    Shown,
    Table,
)
from leastnoise.cli.progress import ProgressBar
from leastnoise.cli.release import ledger_at, run_whole
from leastnoise.errors import LeastnoiseError
from leastnoise.plan.matrix import MatrixPlan, Objective, factorize, running_totals
from leastnoise.plan.matrix_file import KINDS, read_matrix
from leastnoise.plan.matrix_names import ITEM
from leastnoise.privacy import Budget
from leastnoise.privacy.neighbours import Neighbours
from leastnoise.sources import Rules
from leastnoise.sources.rules import Unit


def matrix(
    queries: Annotated[
        Path | None,
        typer.Argument(
            metavar="[MATRIX]",
            help=f"The queries: a file ({', '.join(KINDS)}) with a row per query and a column per item.",
            show_default=False,
        ),
    ] = None,
    totals: Annotated[
        int | None, typer.Option(help="Instead of a file: the running totals of so many items.", show_default=False)
    ] = None,
    item: Annotated[str, typer.Option(help="The column of the data that is counted.")] = ITEM,
    objective: Annotated[Objective, typer.Option(help="What is made small: mean squared or largest error.")] = "sum",
    epsilon: Epsilon = None,
    delta: Delta = None,
    mu: Mu = None,
    rho: Rho = None,
    neighbours: Hidden = "add-remove",
    rows_per_person: RowsPerPerson = None,
    size: KnownSize = None,
    person: Annotated[
        str | None,
        typer.Option(help="The column that tells people apart; of each, so many rows are counted.", show_default=False),
    ] = None,
    outside: Annotated[
        Literal["error", "drop"], typer.Option(help="Rows whose value is no item, or is missing.")
    ] = "error",
    stream: Annotated[
        Path | None,
        typer.Option(help="Open a stream in this new folder, for items that come one by one.", show_default=False),
    ] = None,
    data: MaybeData = None,
    out: MaybeOut = None,
    ledger: LedgerFile = None,
    dataset: Dataset = None,
    table: Table = None,
    note: Note = "",
    overwrite: Overwrite = False,
    memory: Memory = None,
    as_json: Json = False,
    progress: Shown = None,
) -> None:
    """Any matrix of queries on the counts of one column: show its least error, or with data make a release."""
    if person is not None and rows_per_person is None:
        rows_per_person = 1
    if outside == "drop" and neighbours == "replace" and rows_per_person is None:
        size = size or "private"  # what replaces a row may be dropped
    hidden = Neighbours(neighbours, rows_per_person, size)
    budget = Budget(epsilon=epsilon, delta=delta, mu=mu, rho=rho, neighbours=hidden)
    with ProgressBar(progress) as bar:
        bar(0, 0, "planning")
        plan = _planned(queries, totals, item, budget, objective)
    if stream is not None:
        _open(plan, stream, data, ledger, dataset, note, as_json)
        return
    if data is None:
        typer.echo(json.dumps(plan.to_json(), indent=2) if as_json else str(plan))
        return
    run_whole(
        plan,
        data,
        out,
        ledger,
        {"method": "matrix", **plan.to_json()},
        as_json=as_json,
        shown=progress,
        dataset=dataset,
        note=note,
        overwrite=overwrite,
        rules={item: Rules(outside="drop", missing="drop")} if outside == "drop" else None,
        unit=None if person is None else Unit(person, hidden.rows),
        table=table,
        memory=memory,
    )


def _open(
    plan: MatrixPlan,
    folder: Path,
    data: str | None,
    ledger: Path | None,
    dataset: str | None,
    note: str,
    as_json: bool,
) -> None:
    if data is not None:
        raise LeastnoiseError("a stream takes counts one by one, with leastnoise stream; leave --data out")
    book = ledger_at(ledger)
    name = dataset or (book.dataset if book else None)
    with plan.stream(folder=folder, ledger=book, dataset=name, note=note) as opened:
        told = {"stream": str(folder), "ledger_entry": opened.ledger_entry, **plan.to_json()}
    words = f"{plan}\nopened the stream {folder}; add counts with: leastnoise stream {folder} COUNT"
    typer.echo(json.dumps(told, indent=2) if as_json else words)


def _planned(queries: Path | None, totals: int | None, item: str, budget: Budget, objective: Objective) -> MatrixPlan:
    if (queries is None) == (totals is None):
        raise LeastnoiseError("give a file with a matrix of queries, or --totals N for running totals of N items")
    options: dict[str, Any] = {"objective": objective}
    if totals is not None:
        return factorize(running_totals(totals), budget, items={item: range(totals)}, **options)
    assert queries is not None
    found = read_matrix(queries)
    shape = np.shape(found.queries)
    items = range(shape[1]) if found.items is None and len(shape) == 2 else found.items or []
    return factorize(found.queries, budget, items={item: items}, names=found.names, **options)
