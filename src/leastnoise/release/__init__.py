"""What is published: tables, answers and their errors, from measurements alone."""

from typing import TYPE_CHECKING

from leastnoise._lazy import export_lazily

if TYPE_CHECKING:
    from leastnoise.release.answers import Answer, Joint
    from leastnoise.release.merging import merge
    from leastnoise.release.postprocessing.postprocess import Adjusted
    from leastnoise.release.postprocessing.readers import AdjustedTables
    from leastnoise.release.queries.linear import LinearQuery
    from leastnoise.release.release import Release
    from leastnoise.release.statistics.ratios import Statistic
    from leastnoise.release.table_release import TableRelease

__all__ = [
    "Adjusted",
    "AdjustedTables",
    "Answer",
    "Joint",
    "LinearQuery",
    "Release",
    "Statistic",
    "TableRelease",
    "merge",
]

export_lazily(__name__)
