"""Tables as files for other programs: Parquet or CSV, with the privacy statement beside the numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from leastnoise.errors import LeastnoiseError
from leastnoise.release import kinds
from leastnoise.release.files.folders import NOTES, drafted
from leastnoise.storage.files import new_file, put_file

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from leastnoise.release.release import Release

Format = Literal["parquet", "csv"]
METADATA = b"leastnoise"  # the key of the statement in the schema of an Arrow table
INSECURE = "insecure"  # the mark of seeded noise: a field of metadata, and a column
_FORMULA = re.compile(r"'*[=+\-@\t\r]")  # how texts begin that spreadsheets run
LONGEST_NAME = 80  # characters of a file name, without its ending
COLUMNS = """\
Each file is one table, with a row for every combination of values:
  count      an unbiased estimate; it may be negative or a fraction
  std_error  its exact standard error
  low, high  the ends of its {confidence:.4g}% interval
"""


def save(release: Release, path: Path, tables: Format | None, overwrite: bool) -> str:
    """Write a release, with all tables in reach where a format is given; returns its id."""
    with drafted(path, overwrite) as draft:
        return fill(release, draft, tables)


def fill(release: Release, draft: Path, tables: Format | None) -> str:
    """Write a release into an empty folder, with all tables in reach where a format is given; returns its id."""
    if tables is not None:
        checked_format(tables)
        (draft / "tables").mkdir()
        write_tables(release, draft / "tables", None, tables, 0.95)
    return kinds.write(release, draft)


def export(
    release: Release,
    folder: Path,
    tables: Sequence[Sequence[str]] | None,
    format: Format,
    confidence: float,
    overwrite: bool,
) -> None:
    """Write tables to a new folder: complete, or not at all."""
    checked_format(format)
    with drafted(folder, overwrite) as draft:
        write_tables(release, draft, tables, format, confidence)


def checked_format(format: object) -> Format:
    """One of the formats."""
    for known in get_args(Format):
        if format == known:
            return known
    raise LeastnoiseError(f"format must be {' or '.join(map(repr, get_args(Format)))}, got {format!r}")


def write_tables(
    release: Release, folder: Path, tables: Sequence[Sequence[str]] | None, format: Format, confidence: float
) -> None:
    """Write tables, and a README.txt with the privacy statement, into a folder that is there."""
    if tables is not None and any(isinstance(names, str) for names in tables):
        raise LeastnoiseError('tables are lists of attribute names; write [["age"], ["age", "sex"]]')
    sets = [tuple(names) for names in (release.tables() if tables is None else tables)]
    fields, listed = about(release), []
    for names, name in zip(sets, file_names(sets), strict=True):
        file = f"{name}.{format}"
        _put_table(release.table(*names, confidence=confidence), folder / file, format, fields)
        listed.append(f"  {file}: {' x '.join(map(json.dumps, names)) or 'everybody'}")
    lines = [fields["privacy"]["statement"], "", COLUMNS.format(confidence=100 * confidence), "Files:", *listed]
    put_file(folder, NOTES, ("\n".join(lines) + "\n").encode())


def file_names(tables: Sequence[Sequence[str]]) -> Iterator[str]:
    """A name for each table that every file system takes, whatever its attributes are called.

    >>> list(file_names([(), ("age",), ("age", "sex"), ("AGE",), ("../x y",)]))
    ['0-total', '1-age', '2-age_sex', '1-AGE-2', '1-x-y']
    """
    taken: set[str] = set()
    for names in tables:
        words = (re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-") or "x" for name in names)
        base = f"{len(names)}-{'_'.join(words) or 'total'}"[:LONGEST_NAME]
        name, copy = base, 1
        while name.lower() in taken:
            copy += 1
            name = f"{base}-{copy}"
        taken.add(name.lower())
        yield name


def write_table(frame: pd.DataFrame, path: Path, format: Format, about: Mapping[Any, Any]) -> None:
    """Write one table: complete, or not at all. Parquet keeps `about` in its metadata; pandas reads it as `attrs`.

    Guarantees: outputs_say_whether_noise_was_seeded; csv_files_are_harmless_in_cells_and_heads.
    """
    with new_file(path) as draft:
        _put_table(frame, draft, format, about)


def _put_table(frame: pd.DataFrame, draft: Path, format: Format, about: Mapping[Any, Any]) -> None:
    shown = marked(frame, bool(about.get(INSECURE)))
    if format == "csv":
        harmless(shown).to_csv(draft, index=False)
        return
    from pyarrow import parquet  # takes a while to import

    result = typed(shown)
    result.attrs = {**about}
    parquet.write_table(with_metadata(result, about), draft)


def marked(frame: pd.DataFrame, insecure: bool) -> pd.DataFrame:
    """A table with a column that says on every row that its noise came from a seed; without, where it did not."""
    if not insecure:
        return frame
    if INSECURE in frame.columns:
        raise LeastnoiseError(f"the attribute {INSECURE!r} has the name of the mark of seeded noise; rename it")
    return frame.assign(**{INSECURE: True})


def harmless(frame: pd.DataFrame) -> pd.DataFrame:
    """A table whose texts no spreadsheet takes for formulas; numbers stay numbers."""
    import pandas as pd

    texts = [k for k, kind in enumerate(frame.dtypes) if not pd.api.types.is_numeric_dtype(kind)]
    columns = {k: frame.iloc[:, k].astype(object).map(cell) for k in texts}
    result = pd.DataFrame({k: columns.get(k, frame.iloc[:, k]) for k in range(frame.shape[1])})
    return result.set_axis([cell(name) for name in frame.columns], axis=1)


def cell(value: Any) -> Any:
    """A text that a spreadsheet would run gets an apostrophe in front, which it takes for "this is text".

    So does one that looks like the outcome, so that different texts stay different. Other values stay as they are.

    >>> [cell(value) for value in ("=1+1", "-5", "'=1", "it's", -5)]
    ["'=1+1", "'-5", "''=1", "it's", -5]
    """
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value


def with_metadata(frame: pd.DataFrame, about: Mapping[Any, Any]) -> pa.Table:
    """An Arrow table with `about` in the metadata of its schema (JSON under 'leastnoise')."""
    import pyarrow as pa

    table = pa.Table.from_pandas(frame, preserve_index=False)
    return table.replace_schema_metadata({**(table.schema.metadata or {}), METADATA: json.dumps({**about}).encode()})


def about(release: Release) -> dict[str, Any]:
    """What a table says about itself: the privacy in words and numbers, and whether its noise was seeded."""
    return {"privacy": release.privacy.model_dump(), "insecure": release.insecure}


def typed(frame: pd.DataFrame) -> pd.DataFrame:
    """One type per column: values of several types become text."""
    mixed = [name for name in frame if frame[name].map(type).nunique() > 1]
    return frame.assign(**{str(name): frame[name].map(str) for name in mixed})
