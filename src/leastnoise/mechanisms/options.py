"""The keywords of every `run`, listed once."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict

from leastnoise._types import Progress
from leastnoise.noise import RandomSource
from leastnoise.privacy.ledger import Ledger
from leastnoise.workload.publication import Publication


class Options(TypedDict, total=False):
    """What may be said when data is measured, whatever comes of it."""

    ledger: Ledger | str | Path | None
    dataset: str | None
    note: str
    who: str
    out: str | Path | None
    tables: Literal["parquet", "csv"] | None
    overwrite: bool
    rules: Mapping[str, Any] | None
    unit: Any
    table: str | None
    memory: str | None
    file: Any
    random_source: RandomSource | None
    progress: Progress | None
    publication: Publication | Mapping[str, Any] | None
