"""`leastnoise synth`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from leastnoise.cli.commands.ask import opened_tables
from leastnoise.cli.options import Json, ReleaseArgument, Shown
from leastnoise.cli.progress import ProgressBar
from leastnoise.errors import LeastnoiseError
from leastnoise.estimate import fit
from leastnoise.release.files.one_table import Format, write_table
from leastnoise.storage.files import check_target

FORMATS: dict[str, Format] = {".parquet": "parquet", ".csv": "csv"}


def synth(
    path: ReleaseArgument,
    rows: Annotated[int | None, typer.Option(help="How many; by default as many as the release estimates.")] = None,
    out: Annotated[Path, typer.Option(help="The .parquet or .csv file to write.")] = Path("rows.parquet"),
    seed: Annotated[int, typer.Option(help="Of the fit and the rows.")] = 0,
    shown: Shown = None,
    as_json: Json = False,
) -> None:
    """Write synthetic rows from a distribution fitted to a release. Costs no privacy, needs no data."""
    format = _format(out)
    release = opened_tables(path)
    with ProgressBar(shown) as bar:
        estimate = fit(release, seed=seed, progress=bar)
    frame = estimate.to_pandas(rows, seed)
    write_table(frame, out, format, frame.attrs)
    fields = {"file": str(out), "rows": len(frame), "misfit": estimate.misfit, "insecure": release.insecure}
    if as_json:
        typer.echo(json.dumps(fields, indent=2))
    else:
        typer.echo(f"wrote {out}: {len(frame):,} synthetic rows; misfit {estimate.misfit:.2f} (1 is noise alone)")


def _format(out: Path) -> Format:
    if out.suffix not in FORMATS:
        raise LeastnoiseError(f"{str(out)!r} ends in {out.suffix!r}; name a .parquet or .csv file")
    check_target(out, overwrite=True)
    return FORMATS[out.suffix]
