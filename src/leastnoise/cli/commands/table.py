"""`leastnoise table`."""

import json
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from leastnoise._types import Nonnegative
from leastnoise.cli.commands.ask import completing, opened, opened_tables
from leastnoise.cli.options import Confidence, Json, ReleaseArgument, tables_named
from leastnoise.cli.progress import ProgressBar
from leastnoise.errors import LeastnoiseError
from leastnoise.release import Release, TableRelease
from leastnoise.release.files.one_table import Format, about, write_table
from leastnoise.storage.files import check_target

COMPLETED = "completed from what was measured: a biased guess, without intervals"


def table(
    path: ReleaseArgument,
    attributes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ATTRIBUTE]...", help="Its attributes, or levels of them such as geo.state.", show_default=False
        ),
    ] = None,
    level: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ATTRIBUTE=LEVEL",
            help="A level of an attribute with a hierarchy, such as geo=state; the same as geo.state.",
        ),
    ] = None,
    queries: Annotated[
        bool, typer.Option("--queries", help="Instead of a table: the answers to all queries that were planned.")
    ] = False,
    people: Annotated[
        bool, typer.Option("--people", help="Distinct people instead of rows; without attributes, all of them.")
    ] = False,
    csv: Annotated[Path | None, typer.Option(help="Write the table to this CSV file.")] = None,
    parquet: Annotated[Path | None, typer.Option(help="Write the table to this Parquet file.")] = None,
    complete: Annotated[
        bool, typer.Option("--complete", help="Complete it from what was measured: a biased guess, without intervals.")
    ] = False,
    nonnegative: Annotated[
        Nonnegative | None,
        typer.Option(
            help="With --complete: no negative counts, in each table by itself or in all of the workload jointly.",
            show_default=False,
        ),
    ] = None,
    confidence: Confidence = 0.95,
    as_json: Json = False,
) -> None:
    """Show a table of a release, or without attributes the tables in reach. Costs no privacy, needs no data."""
    files = _files(csv, parquet)
    _check_alone(
        nonnegative and not (complete and attributes),
        "--nonnegative is for completed tables; name the attributes and add --complete",
    )
    release, note = opened(path), None
    attributes = [name for part in tables_named(release.domain.names, attributes) or [] for name in part]
    fields: dict[str, Any]
    if queries:
        _check_alone(attributes or level or people, "--queries shows all queries; leave the rest out")
        frame, fields = release.answer(confidence=confidence), {"queries": True, "confidence": confidence}
    elif people:
        _check_alone(level or complete, "--people shows what was counted; leave --level and --complete out")
        frame = release.people(*(attributes or []), confidence=confidence)
        fields = {"people": True, "attributes": attributes or [], "confidence": confidence}
    elif not attributes:
        _check_alone(files, "name the attributes of the table to write, for example: leastnoise table RELEASE age")
        _list_planned(opened_tables(path), as_json) if complete else _list_tables(release, as_json)
        return
    elif complete:
        tables = opened_tables(path)
        with ProgressBar() as bar:
            frame = tables.complete(nonnegative=nonnegative or False, progress=bar).table(*attributes)
        note = _note(tables, attributes)
        fields = {"attributes": attributes, "completed": True, "note": note}
    else:
        levels = dict(_level(text) for text in level or [])
        attributes, dotted = _split_levels(release, attributes)
        levels |= dotted
        with completing(release, path, [attributes]):
            frame = release.table(*attributes, levels=levels, confidence=confidence)
        fields = {"attributes": attributes, **({"levels": levels} if levels else {}), "confidence": confidence}
    for file, format in files:
        write_table(frame, file, format, about(release) | ({"note": note} if note else {}))
    if as_json:
        typer.echo(_json(release.insecure, frame, fields))
    elif not files:
        typer.echo((f"{note}\n" if note else "") + frame.to_string(index=False, float_format="{:,.1f}".format))


def _split_levels(release: Release, names: list[str]) -> tuple[list[str], dict[str, object]]:
    """Attributes, and the levels of those written as in questions: geo.state."""
    levels: dict[str, object] = {}
    attributes = list(names)
    for k, name in enumerate(names):
        attribute, dot, level = name.rpartition(".")
        if dot and name not in release.domain and attribute in release.domain:
            attributes[k], levels[attribute] = attribute, _level(f"{attribute}={level}")[1]
    return attributes, levels


def _level(text: str) -> tuple[str, object]:
    name, equals, level = text.rpartition("=")
    if not equals or not level:
        raise LeastnoiseError(f"--level {text!r} names no level; write the attribute and its level, such as geo=state")
    return name, int(level) if level.isdecimal() else level


def _note(release: TableRelease, attributes: list[str]) -> str:
    if release.has_table([release.domain.index(n) for n in attributes]):
        return f"{COMPLETED}; this table was measured: without --complete it is unbiased"
    return f"{COMPLETED}; this table was not measured"


def _check_alone(given: object, message: str) -> None:
    if given:
        raise LeastnoiseError(message)


def _files(csv: Path | None, parquet: Path | None) -> list[tuple[Path, Format]]:
    given: list[tuple[Path | None, Format]] = [(csv, "csv"), (parquet, "parquet")]
    files = [(file, format) for file, format in given if file is not None]
    for file, _ in files:
        check_target(file, overwrite=True)
    return files


def _list_tables(release: Release, as_json: bool) -> None:
    tables, sums = [list(names) for names in release.tables() if names], [list(names) for names in release.sums()]
    if as_json:
        more = {"sums": sums} if sums else {}
        typer.echo(json.dumps({"insecure": release.insecure, "tables": tables, **more}, indent=2))
    else:
        typer.echo("\n".join(" ".join(names) for names in tables + sums))


def _list_planned(release: TableRelease, as_json: bool) -> None:
    """The tables asked of an adaptive release, and the error to expect of each."""
    errors = release.complete().errors()
    if as_json:
        known = errors.astype(object).where(errors.notna(), None)
        rows = [{**row, "table": list(row["table"])} for row in known.to_dict("records")]
        typer.echo(json.dumps({"insecure": release.insecure, "tables": rows}, indent=2))
    else:
        errors["table"] = [" ".join(names) for names in errors["table"]]
        errors["measured"] = ["measured" if m else "completed" for m in errors["measured"]]
        errors.columns = ["table", "how", "expected_l1"]
        typer.echo(errors.to_string(index=False, float_format="{:,.1f}".format, na_rep="-"))


def _json(insecure: bool, frame: pd.DataFrame, fields: dict[str, Any]) -> str:
    rows = json.loads(frame.to_json(orient="records", double_precision=15))
    return json.dumps(fields | {"insecure": insecure, "rows": rows}, indent=2)
