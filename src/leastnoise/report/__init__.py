"""Pages and plots for people who would rather look than read."""

from typing import TYPE_CHECKING

from leastnoise._lazy import export_lazily

if TYPE_CHECKING:
    from leastnoise.release.html import release_html, table_html
    from leastnoise.report.documents import document
    from leastnoise.report.page import render
    from leastnoise.report.pages import write
    from leastnoise.report.plots import plot_plan, plot_table

__all__ = ["document", "plot_plan", "plot_table", "release_html", "render", "table_html", "write"]

export_lazily(__name__)
