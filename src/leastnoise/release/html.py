"""Releases and tables as small pieces of HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
    return f"{_warning(insecure)}<table><caption>{caption}</caption><tbody>{_rows(rows)}</tbody></table>"


def table_html(release: Release, *names: str, confidence: float = 0.95) -> str:
    """The first rows of a table with their intervals. All text is escaped."""
    frame = release.table(*names, confidence=confidence)
    columns = [*names, "count", "std_error", "low", "high"]
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    shown = [
        [*(str(row[n]) for n in names), *(number(row[c]) for c in columns[len(names) :])]
        for _, row in frame.head(ROWS).iterrows()
    ]
    return f"<table><thead><tr>{head}</tr></thead><tbody>{_rows(shown)}</tbody></table>{_more(len(frame))}"


def answers_html(items: Iterable[tuple[str, str, Sequence[Mapping[str, object]]]], insecure: bool) -> str:
    """Questions with their errors or the first rows of their answers. All text is escaped."""
    parts = [_warning(insecure)]
    for question, error, rows in items:
        columns = [
            name for name in dict.fromkeys(n for row in rows for n in row) if name not in ("method", "confidence")
        ]
        head = "".join(f"<th>{escape(column)}</th>" for column in columns)
        shown = [[cell(row.get(name)) for name in columns] for row in rows[:ROWS]]
        body = f"<thead><tr>{head}</tr></thead><tbody>{_rows(shown)}</tbody>" if rows else ""
        problem = f"<p>{escape(error)}</p>" if error else ""
        parts.append(f"<table><caption>{escape(question)}</caption>{body}</table>{problem}{_more(len(rows))}")
    return "".join(parts)


def cell(value: object) -> str:
    """A value as tables for people show it."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "-" if value is None else str(value)
    return str(value) if isinstance(value, int) else number(value)


def _warning(insecure: bool) -> str:
    return f"<p><strong>{escape(INSECURE)}</strong></p>" if insecure else ""


def _more(rows: int) -> str:
    return f"<p>{rows - ROWS:,} more rows</p>" if rows > ROWS else ""


def _rows(rows: Iterable[Sequence[str]]) -> str:
    lines = ("".join(f"<td>{escape(text)}</td>" for text in row) for row in rows)
    return "".join(f"<tr>{line}</tr>" for line in lines)
