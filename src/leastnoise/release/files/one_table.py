"""One table as a file or an Arrow table, with the privacy statement beside the numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from leastnoise.errors import LeastnoiseError
from leastnoise.storage.files import new_file, put_file

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from leastnoise.release.statement import Privacy

Format = Literal["parquet", "csv"]
SCRIPT = "read_release.R"
METADATA = b"leastnoise"  # the key of the statement in the schema of an Arrow table
INSECURE = "insecure"  # the mark of seeded noise: a field of metadata, and a column
_FORMULA = re.compile(r"'*[=+\-@\t\r]")  # how texts begin that spreadsheets run


class Stated(Protocol):
    """What has a privacy statement."""

    @property
    def insecure(self) -> bool:
        """Whether its noise came from a seed."""

    @property
    def privacy(self) -> Privacy:
        """The privacy statement."""


def write_table(frame: pd.DataFrame, path: Path, format: Format, about: Mapping[Any, Any]) -> None:
    """Write one table: complete, or not at all. Parquet keeps `about` in its metadata; pandas reads it as `attrs`.

    Guarantees: outputs_say_whether_noise_was_seeded; csv_files_are_harmless_in_cells_and_heads.
    """
    with new_file(path) as draft:
        put_table(marked(frame, bool(about.get(INSECURE))), draft, format, about)


def put_table(frame: pd.DataFrame, draft: Path, format: Format, about: Mapping[Any, Any]) -> None:
    """Write a table that has its mark into a folder that is not complete yet."""
    if format == "csv":
        harmless(frame).to_csv(draft, index=False)
        return
    from pyarrow import parquet  # takes a while to import

    result = typed(frame)
    result.attrs = {**about}
    parquet.write_table(with_metadata(result, about), draft)


def put_script(folder: Path) -> tuple[str, str]:
    """Write the script that reads CSV files with R alone beside them; its name, and what it is for."""
    put_file(folder, SCRIPT, resources.files(__package__).joinpath(SCRIPT).read_bytes())
    return SCRIPT, 'reads these tables in R: source("read_release.R"); tables <- read_release(".")'


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


def about(source: Stated) -> dict[str, Any]:
    """What a table says about itself: the privacy in words and numbers, and whether its noise was seeded."""
    return {"privacy": source.privacy.model_dump(), INSECURE: source.insecure}


def typed(frame: pd.DataFrame) -> pd.DataFrame:
    """One type per column: values of several types become text."""
    mixed = [name for name in frame if frame[name].map(type).nunique() > 1]
    return frame.assign(**{str(name): frame[name].map(str) for name in mixed})
