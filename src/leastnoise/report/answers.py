"""Questions with their answers in the page, as plain tables that need no script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from leastnoise.release.html import cell

MOST_ROWS = 200  # of one question
TITLES = {"value": "answer", "low": "from", "high": "to", "rank_low": "place from", "rank_high": "to place"}
HIDDEN = ("confidence", "method", "std_error", "note", "top_confidence")
NUMBERS = ("value", "low", "high", "rank", "rank_low", "rank_high")


def answers_text(answers: Sequence[Mapping[str, Any]]) -> str:
    """All questions; what has no answer says why. All text is escaped."""
    return "".join(map(_one, answers))


def _one(answer: Mapping[str, Any]) -> str:
    caption = f"<caption>{escape(answer['question'])}</caption>"
    if answer["error"]:
        return f"<table>{caption}<tbody><tr><td>No answer: {escape(answer['error'])}</td></tr></tbody></table>"
    rows = answer["rows"]
    columns = [name for name in dict.fromkeys(name for row in rows for name in row) if name not in HIDDEN]
    head = "".join(f'<th scope="col">{escape(TITLES.get(name, name))}</th>' for name in columns)
    body = "".join(f"<tr>{''.join(_cell(name, row.get(name)) for name in columns)}</tr>" for row in rows[:MOST_ROWS])
    left = len(rows) - MOST_ROWS
    notes = dict.fromkeys(filter(None, [answer["note"], *(row.get("note") for row in rows)]))
    notes |= {f"{left:,} more answers are left out of this page (leastnoise show).": None} if left > 0 else {}
    said = "".join(f'<p class="note">{escape(note)}</p>' for note in notes)
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{said}"


def _cell(name: str, value: Any) -> str:
    """Labels are headers of their row."""
    tag = "td" if name in NUMBERS else 'th scope="row"'
    return f"<{tag}>{escape(cell(value))}</{tag[:2]}>"
