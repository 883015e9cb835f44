"""`leastnoise check`."""

import json
from typing import Annotated, Any

import typer

from leastnoise.cli.options import DATA, FilesFrom, Json, Memory, SpecArgument, Table
from leastnoise.mechanisms.questions import read_questions
from leastnoise.release.frames import check_showable
from leastnoise.sources.check import NOTICE
from leastnoise.sources.check import check as check_data
from leastnoise.workload.spec import load_spec


def check(
    spec: SpecArgument,
    data: Annotated[str, typer.Option(help=f"The data: {DATA}", show_default=False)],
    table: Table = None,
    memory: Memory = None,
    as_json: Json = False,
    files_from: FilesFrom = None,
) -> None:
    """List all that would stop a release of some data, and what becomes of its rows.

    For whoever has the data: the numbers are exact and not protected. It spends nothing, publishes nothing and needs no
    ledger. Exits with 0 where a release would run, with 1 where it would stop.
    """
    loaded = load_spec(spec, budgeted=False, files_from=files_from)
    check_showable(loaded.workload.domain.names, loaded.method)
    read_questions(loaded.workload.domain, loaded.method, loaded.publication)
    options: dict[str, Any] = {"rules": loaded.rules or None, "unit": loaded.unit_fields, "file": loaded.file}
    result = check_data(data, loaded.workload.domain, table=table, memory=memory, **options)
    if as_json:
        typer.echo(NOTICE, err=True)
    typer.echo(json.dumps(result.to_json(), indent=2) if as_json else str(result))
    if not result.ok:
        raise typer.Exit(1)
