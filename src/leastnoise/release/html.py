"""Releases and tables as small pieces of HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from leastnoise.planning.summary import number
from leastnoise.release.statement import INSECURE

if TYPE_CHECKING:
    from leastnoise.release.release import Release

ROWS = 20  # of a table that are shown


def release_html(release: Release) -> str:
    """A release in a few lines: what it is of, what it cost, what is in it. All text is escaped."""
    rows = [
        ("dataset", release.dataset or "not named"),
        ("attributes", ", ".join(release.domain.names)),
        ("statistics", release.describe()["holds"]),
        ("privacy", release.privacy.statement),
        *release.highlights(),
    ]
    return described(release.kind.capitalize(), rows, release.insecure)


def described(caption: str, rows: Iterable[Sequence[str]], insecure: bool) -> str:
    """What a release is, line by line, with a warning where its noise was seeded."""
    warning = f"<p><strong>{escape(INSECURE)}</strong></p>" if insecure else ""
    return f"{warning}<table><caption>{caption}</caption><tbody>{_rows(rows)}</tbody></table>"


def table_html(release: Release, *names: str, confidence: float = 0.95) -> str:
    """The first rows of a table with their intervals. All text is escaped."""
    frame = release.table(*names, confidence=confidence)
    columns = [*names, "count", "std_error", "low", "high"]
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    shown = [
        [*(str(row[n]) for n in names), *(number(row[c]) for c in columns[len(names) :])]
        for _, row in frame.head(ROWS).iterrows()
    ]
    more = f"<p>{len(frame) - ROWS:,} more rows</p>" if len(frame) > ROWS else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{_rows(shown)}</tbody></table>{more}"


def _rows(rows: Iterable[Sequence[str]]) -> str:
    lines = ("".join(f"<td>{escape(text)}</td>" for text in row) for row in rows)
    return "".join(f"<tr>{line}</tr>" for line in lines)
