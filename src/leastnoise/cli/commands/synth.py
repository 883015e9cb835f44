"""`leastnoise synth`."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from leastnoise._types import IntArray
from leastnoise.cli.commands.ask import opened_tables
from leastnoise.cli.options import DATA, FilesFrom, Json, ReleaseArgument, Shown, Table
from leastnoise.cli.progress import ProgressBar
from leastnoise.errors import LeastnoiseError
from leastnoise.estimate import TruthEvaluation, fit
from leastnoise.estimate.truth import NOTICE
from leastnoise.mechanisms.curator import evaluate_on_data, synthetic_rows
from leastnoise.release import TableRelease
from leastnoise.release.files.one_table import Format, write_table
from leastnoise.storage.files import check_target
from leastnoise.workload.spec import load_spec

FORMATS: dict[str, Format] = {".parquet": "parquet", ".csv": "csv"}
DEFAULT = Path("rows.parquet")


def synth(
    path: ReleaseArgument,
    rows: Annotated[int | None, typer.Option(help="How many; by default as many as the release estimates.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="The .parquet or .csv file to write.", show_default=str(DEFAULT))
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the fit and the rows.")] = 0,
    evaluate: Annotated[
        bool,
        typer.Option("--evaluate", help="Compare the rows with the release: what noise explains, what it does not."),
    ] = False,
    given: Annotated[
        Path | None,
        typer.Option(
            help="With --evaluate: a file of synthetic rows to compare, instead of new ones.", show_default=False
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="With --evaluate: compare with the private data, too, without protection. Exact numbers, for whoever "
            f"has the data, never to be published. The data: {DATA}",
            show_default=False,
        ),
    ] = None,
    spec: Annotated[
        Path | None,
        typer.Option(
            help="With --data: the release's spec, for its rules and unit and how files are written.",
            show_default="the release's rules",
        ),
    ] = None,
    table: Table = None,
    target: Annotated[
        str | None,
        typer.Option(help="With --data: the attribute that a classifier guesses.", show_default="the last one"),
    ] = None,
    shown: Shown = None,
    as_json: Json = False,
    files_from: FilesFrom = None,
) -> None:
    """Write synthetic rows from a distribution fitted to a release. Costs no privacy, needs no data.

    With --evaluate, the rows are compared with the release: this costs no privacy either, and may be published.
    """
    _check_options(evaluate, given, rows, out, data, {"--spec": spec, "--table": table, "--target": target})
    file = out or DEFAULT
    if given is None:
        _check_file(file)
    if data is not None:
        _check_outside(path)
    release = opened_tables(path)
    fields: dict[str, Any] = {"insecure": release.insecure}
    with ProgressBar(shown) as bar:
        if given is None:
            codes, lines, more = _made(release, rows, file, seed, bar)
            fields = more | fields
        else:
            codes, lines = synthetic_rows(str(given), release.domain), []
            fields = {"file": str(given), "rows": len(codes)} | fields
        found = release.evaluate(codes, progress=bar) if evaluate else None
        truth = None if data is None else _truth(release, codes, data, spec, table, target, seed, files_from)
    if as_json:
        if truth is not None:
            typer.echo(NOTICE, err=True)
        fields |= {} if found is None else {"evaluation": found.to_json()}
        fields |= {} if truth is None else {"private": truth.to_json()}
        typer.echo(json.dumps(fields, indent=2))
        return
    lines += ([] if found is None else [str(found)]) + ([] if truth is None else ["", str(truth)])
    typer.echo("\n".join(lines))


def _made(
    release: TableRelease, rows: int | None, out: Path, seed: int, bar: ProgressBar
) -> tuple[IntArray, list[str], dict[str, Any]]:
    """New rows in a file; their codes, and what is said about them."""
    estimate = fit(release, seed=seed, progress=bar)
    frame = estimate.to_pandas(rows, seed)
    write_table(frame, out, FORMATS[out.suffix], frame.attrs)
    line = f"wrote {out}: {len(frame):,} synthetic rows; misfit {estimate.misfit:.2f} (1 is noise alone)"
    fields = {"file": str(out), "rows": len(frame), "misfit": estimate.misfit}
    return estimate.sample(rows, seed), [line], fields


def _truth(
    release: TableRelease,
    codes: IntArray,
    data: str,
    spec: Path | None,
    table: str | None,
    target: str | None,
    seed: int,
    files_from: Path | None,
) -> TruthEvaluation:
    options: dict[str, Any] = {"table": table, "target": target, "seed": seed}
    if spec is not None:
        loaded = load_spec(spec, budgeted=False, files_from=files_from)
        if loaded.workload.domain != release.domain:
            raise LeastnoiseError(f"{spec} has other attributes than the release; name the spec that it was made from")
        options |= {"rules": loaded.rules or None, "unit": loaded.unit_fields, "file": loaded.file}
    return evaluate_on_data(release, codes, data, **options)


def _check_options(
    evaluate: bool, given: Path | None, rows: int | None, out: Path | None, data: str | None, others: dict[str, Any]
) -> None:
    if not evaluate and (given is not None or data is not None):
        raise LeastnoiseError(f"{'--data' if given is None else '--given'} is for comparisons; add --evaluate")
    if given is not None and (rows is not None or out is not None):
        raise LeastnoiseError("--given compares rows that exist; leave --rows and --out out")
    if data is None and (unused := [name for name, value in others.items() if value is not None]):
        raise LeastnoiseError(f"{unused[0]} is about private data; add --data, or leave it out")


def _check_outside(release: Path) -> None:
    """Refuse to print exact numbers into a file of the release's folder, which is meant to be published."""
    try:
        here = os.fstat(sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):  # no file at all
        return
    for file in release.rglob("*") if release.is_dir() else ():
        if file.is_file() and os.path.samestat(file.stat(), here):
            raise LeastnoiseError(
                f"--data shows private numbers, and {file} is in the release's folder; write them somewhere else"
            )


def _check_file(out: Path) -> None:
    if out.suffix not in FORMATS:
        raise LeastnoiseError(f"{str(out)!r} ends in {out.suffix!r}; name a .parquet or .csv file")
    check_target(out, overwrite=True)
