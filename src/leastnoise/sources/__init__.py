"""Sources of exact counts: the only part that reads private data."""

from leastnoise.sources.codes import Codes
from leastnoise.sources.convert import as_source
from leastnoise.sources.source import Source
from leastnoise.sources.tables import Marginals, Table

__all__ = ["Codes", "Marginals", "Source", "Table", "as_source"]
