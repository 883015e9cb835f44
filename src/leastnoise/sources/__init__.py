"""Sources of exact counts: the only part that reads private data."""

from typing import TYPE_CHECKING

from leastnoise._lazy import export_lazily

if TYPE_CHECKING:
    from leastnoise.sources.codes import Codes
    from leastnoise.sources.convert import Prepared, prepare, source_of
    from leastnoise.sources.database import Database
    from leastnoise.sources.rules import PrivacyUnit
    from leastnoise.sources.source import Source
    from leastnoise.sources.tables import Marginals, Table
    from leastnoise.workload.rules import Rules

__all__ = [
    "Codes",
    "Database",
    "Marginals",
    "Prepared",
    "PrivacyUnit",
    "Rules",
    "Source",
    "Table",
    "prepare",
    "source_of",
]

export_lazily(__name__)
