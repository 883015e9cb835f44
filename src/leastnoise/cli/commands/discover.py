"""`leastnoise discover`."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from leastnoise.cli.commands.release import check_new, closing_text, ledger_at, run_stated, stopping, summary
from leastnoise.cli.options import (
    DATA,
    Anonymous,
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
    user_name,
)
from leastnoise.cli.progress import ProgressBar
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.discover.from_spec import discover_plans
from leastnoise.mechanisms.discover.plan import DiscoverPlan
from leastnoise.workload.spec import Spec, load_spec

FIRST = 10  # keys that are shown


def discover(
    spec: SpecArgument,
    out: Annotated[Path, typer.Option(help="The new folder of the keys.", show_default=False)],
    data: Annotated[str, typer.Option(help=f"The data: {DATA}", show_default=False)],
    attribute: Annotated[
        str | None, typer.Option(help="The attribute, where keys of several are unknown.", show_default=False)
    ] = None,
    ledger: LedgerFile = None,
    dataset: Dataset = None,
    table: Table = None,
    note: Note = "",
    overwrite: Overwrite = False,
    again: Annotated[bool, typer.Option("--again", help="Find keys once more; it costs again.")] = False,
    anonymous: Anonymous = False,
    memory: Memory = None,
    as_json: Json = False,
    progress: Shown = None,
    files_from: FilesFrom = None,
) -> None:
    """Find the values of an attribute with `discover` that many people have, and save them. This spends privacy.

    Plan and release the tables over them with --keys.
    """
    stated = load_spec(spec, files_from=files_from)
    mechanism, book = _chosen(stated, attribute), ledger_at(ledger)
    if book is not None and not again:
        check_new(book, mechanism)
    with ProgressBar(progress) as bar, stopping(book):
        found = run_stated(
            mechanism,
            data,
            stated,
            ledger=book,
            dataset=dataset or (book.dataset if book else None),
            note=note,
            who=user_name(anonymous),
            out=out,
            overwrite=overwrite,
            table=table,
            memory=memory,
            progress=bar,
        )
    fields = summary(found, out, book, mechanism)
    fields |= {"keys": len(found.keys), "first": [str(key) for key in found.keys[:FIRST]]}
    typer.echo(json.dumps(fields, indent=2) if as_json else _text(fields, mechanism, spec))


def _chosen(spec: Spec, attribute: str | None) -> DiscoverPlan:
    """The plan of the attribute that was named, or of the only one."""
    plans = discover_plans(spec) if spec.discover else {}
    if not plans:
        raise LeastnoiseError("the spec has no attribute with unknown values; write for example url: {discover: {}}")
    if attribute is None and len(plans) > 1:
        raise LeastnoiseError(f"keys of {', '.join(plans)} are unknown; choose one with --attribute")
    if attribute is not None and attribute not in plans:
        raise LeastnoiseError(f"the spec does not discover {attribute!r}; use {' or '.join(plans)}")
    return plans[attribute or next(iter(plans))]


def _text(fields: dict[str, Any], mechanism: DiscoverPlan, spec: Path) -> str:
    first = f", first {', '.join(map(repr, fields['first']))}" if fields["first"] else ""
    return "\n".join(
        [
            str(mechanism),
            f"found {fields['keys']:,} keys, now in {fields['release']}{first}",
            f"plan with them: leastnoise plan {spec} --keys {fields['release']}",
            *closing_text(fields),
        ]
    )
