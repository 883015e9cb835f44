"""Arguments that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

SpecArgument = Annotated[
    Path, typer.Argument(metavar="SPEC", help="Spec file (YAML): attributes, workload, privacy.", show_default=False)
]
ReleaseArgument = Annotated[Path, typer.Argument(metavar="RELEASE", help="The release's folder.", show_default=False)]
Confidence = Annotated[float, typer.Option(help="Confidence of the intervals.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Shown = Annotated[
    bool | None,
    typer.Option("--progress/--no-progress", help="Report on stderr; by default on a terminal, after two seconds."),
]
DATA = (
    "a .csv or .parquet file, duckdb:///FILE, postgresql://USER@HOST/DATABASE or spark://HOST:PORT. "
    "PostgreSQL also takes the password from PGPASSWORD or ~/.pgpass."
)
Table = Annotated[str | None, typer.Option(help="The table to read, where the data is a database.")]
