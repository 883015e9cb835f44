"""Arguments that several commands have."""

import getpass
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from leastnoise.errors import LeastnoiseError

SpecArgument = Annotated[
    Path, typer.Argument(metavar="SPEC", help="Spec file (YAML): attributes, workload, privacy.", show_default=False)
]
FilesFrom = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="A folder whose files the spec may name, beside those in its own.",
        show_default=False,
        exists=True,
        file_okay=False,
    ),
]
KeyFolders = Annotated[
    list[Path] | None,
    typer.Option(
        "--keys", metavar="FOLDER", help="Found keys, of an attribute with discover; repeatable.", show_default=False
    ),
]
ReleaseArgument = Annotated[Path, typer.Argument(metavar="RELEASE", help="The release's folder.", show_default=False)]
Confidence = Annotated[float, typer.Option(help="Confidence of the intervals.")]
Simultaneous = Annotated[bool, typer.Option("--simultaneous", help="Intervals that hold all at once.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Shown = Annotated[
    bool | None,
    typer.Option(
        "--progress/--no-progress", help="Show progress on stderr; by default on a terminal, after two seconds."
    ),
]
DATA = (
    "a file (.csv, .tsv, .txt, also .gz, .zst or .zip; .parquet; .xlsx), a folder or a pattern of such files, "
    "duckdb:///FILE, postgresql://USER@HOST/DATABASE or spark://HOST:PORT. "
    "A file may be followed by how it is written, such as ?sheet=NAME or ?encoding=windows-1252&delimiter=semicolon. "
    "PostgreSQL also takes the password from PGPASSWORD or ~/.pgpass."
)
Table = Annotated[str | None, typer.Option(help="The table to read, where the data is a database.")]
LedgerFile = Annotated[Path | None, typer.Option(help="The dataset's ledger, debited before any noise is drawn.")]
Dataset = Annotated[str | None, typer.Option(help="The dataset's name.", show_default="the ledger's")]
Anonymous = Annotated[bool, typer.Option("--anonymous", help="Leave your user name out of the ledger.")]
Note = Annotated[str, typer.Option(help="A line to remember in the ledger.", show_default=False)]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the release that has this name.")]
Memory = Annotated[str | None, typer.Option(help="The most memory for counting by DuckDB, for example 2GB.")]
Hidden = Annotated[str, typer.Option(help="The change that stays hidden: add-remove or replace.")]
KnownSize = Annotated[
    str | None, typer.Option(help="With replace: the number of rows is known or private.", show_default="known")
]
RowsPerPerson = Annotated[
    int | None, typer.Option(help="Protect people, each with at most this many rows.", show_default="protect rows")
]


def user_name(anonymous: bool) -> str:
    """Who runs this, as the ledger keeps it; nothing where the system does not say."""
    try:
        name = "" if anonymous else getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""
    return name if name.isprintable() else ""


def renamed(new: str) -> Callable[[str | None], None]:
    """A callback that refuses an option under its earlier name."""

    def refuse(value: str | None) -> None:
        if value is not None:
            raise LeastnoiseError(f"this option is called {new} now; use {new} {value}")

    return refuse


def tables_named(known: Sequence[str], texts: Sequence[str] | None) -> list[list[str]] | None:
    """The attributes of tables such as age,sex; a name with commas in it is taken as it is.

    >>> tables_named(["age", "sex", "a,b"], ["age,sex", "a,b"])
    [['age', 'sex'], ['a,b']]
    """
    if texts is None:
        return None
    return [[text] if text in known else [name.strip() for name in text.split(",") if name.strip()] for text in texts]
