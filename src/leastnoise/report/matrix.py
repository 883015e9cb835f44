"""The report of a matrix release: every answer with its interval, drawn and listed, in one page without script."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from math import floor, log10
from pathlib import Path
from typing import Any

import numpy as np

from leastnoise.mechanisms.matrix.names import bias_text
from leastnoise.mechanisms.matrix.release import MatrixRelease
from leastnoise.planning.summary import number, percent_above
from leastnoise.release.answers import interval_reach
from leastnoise.report.documents import opening
from leastnoise.report.frame import filled, framed, spent, write_page
from leastnoise.report.html_table import table

ROWS = 2_000  # of the table of answers
POINTS = 400  # of the chart
BARS = 60  # answers up to which each has its own whisker
NAMED = 10  # answers up to which each has its name below
WIDE, HIGH, LEFT, BASE = 960, 300, 70, 24  # of the chart, in its own units


def document(release: MatrixRelease, *, confidence: float = 0.95, rows: int = ROWS) -> dict[str, Any]:
    """Everything the page shows, as plain data.

    Guarantees: numbers_are_those_of_the_release; long_lists_are_thinned.
    """
    plan = release.plan
    return {
        **opening(release, confidence),
        "queries": plan.queries,
        "items": plan.items,
        "counted": plan.counted.name,
        "objective": plan.objective,
        "value": plan.value,
        "rmse": plan.rmse,
        "max_std_error": plan.max_std_error,
        "floor": plan.floor or None,
        "bias": plan.bias or None,
        "rows": [_row(release, place) for place in spaced(plan.queries, rows)],
        "points": [_row(release, place) for place in spaced(plan.queries, POINTS)],
    }


def spaced(count: int, most: int) -> list[int]:
    """At most so many numbers below `count`: the first, the last, and others evenly in between.

    >>> spaced(9, 3)
    [0, 4, 8]
    """
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int)).tolist()


def _row(release: MatrixRelease, place: int) -> dict[str, Any]:
    value, error = float(release.values[place]), float(release.plan.std_errors[place])
    row = {"place": place, "query": release.plan.label(place), "answer": value, "std_error": error}
    biases = release.own_biases
    return row if biases is None else row | {"bias": float(biases[place])}


def _reach(fields: dict[str, Any], row: dict[str, Any]) -> float:
    """Half of the interval of an answer."""
    return float(interval_reach(row["answer"], fields["width"] * row["std_error"] + row.get("bias", 0.0)))


def write(release: MatrixRelease, path: str | Path, *, confidence: float = 0.95, rows: int = ROWS) -> dict[str, Any]:
    """Write the report to an HTML file, complete or not at all; returns the numbers behind it."""
    return write_page(path, lambda: document(release, confidence=confidence, rows=rows), render)


def count(numbers: dict[str, Any]) -> tuple[str, int, int]:
    """What the page shows, how much of it, and how much is left out."""
    return "queries", len(numbers["rows"]), numbers["queries"] - len(numbers["rows"])


def render(fields: dict[str, Any]) -> str:
    """The page for a document.

    Guarantees: text_is_escaped; loads_nothing_and_has_no_script; same_document_same_page.
    """
    percent = f"{100 * fields['confidence']:.4g}%"
    body = {
        "lead": f"Each answer with its {percent} interval. {_unbiased(fields)}",
        "chart": _chart(fields),
        "rows": _answers(fields, percent),
    }
    return framed(
        fields,
        kind="Matrix release report",
        name="Differentially private answers",
        glance=_glance(fields),
        sections={"answers": "Answers"},
        body=filled("matrix.html", body),
        review=filled("matrix_review.html", {"errors": _errors(fields)}),
        notes=_notes(fields),
        styles=("style.css", "matrix.css"),
    )


def _unbiased(fields: dict[str, Any]) -> str:
    if fields["bias"] is None:
        return "They are unbiased, so they may be negative or fractions."
    return f"They may be negative or fractions; {bias_text(fields['bias'])}."


def _glance(fields: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield from spent(fields)
    yield "Queries", f"{fields['queries']:,} on {fields['items']:,} items"
    yield "Typical error (RMSE)", number(fields["rmse"])
    yield "Largest standard error", number(fields["max_std_error"])
    if fields["bias"] is not None:
        yield "Bias beside the noise", f"up to {100 * fields['bias']:.3g}% of the rows"
    if fields["floor"]:
        yield "Above the proven floor", percent_above(fields["value"] / fields["floor"])


def _answers(fields: dict[str, Any], percent: str) -> str:
    body = []
    for row in fields["rows"]:
        reach, value = _reach(fields, row), row["answer"]
        digits = max(0, 1 - floor(log10(row["std_error"]))) if row["std_error"] else 1
        cells = (f"{x:,.{digits}f}" for x in (value, row["std_error"], value - reach, value + reach))
        body.append([row["query"], *cells])
    return table(["query", "answer", "s.e.", f"low ({percent})", f"high ({percent})"], body)


def _errors(fields: dict[str, Any]) -> str:
    objectives = {"sum": "typical error", "max": "largest standard error"}
    rows = [
        ["typical error (RMSE)", number(fields["rmse"])],
        ["largest standard error", number(fields["max_std_error"])],
    ]
    if fields["floor"]:
        rows.append([f"floor of the {objectives[fields['objective']]}, which was minimized", number(fields["floor"])])
    return table(["", "of all queries"], rows)


# --- the chart --------------------------------------------------------------------------------------------------------


def _chart(fields: dict[str, Any]) -> str:
    """Answers from left to right: whiskers where they are few, else a line with a band."""
    rows = fields["points"]
    values, reach = np.array([r["answer"] for r in rows]), np.array([_reach(fields, r) for r in rows])
    low, high = min(float((values - reach).min()), 0.0), max(float((values + reach).max()), 0.0)
    places = np.array([r["place"] for r in rows])
    x = LEFT + (places + 0.5) / fields["queries"] * (WIDE - LEFT)

    def y(v: Any) -> Any:
        return (HIGH - BASE) * (high - v) / ((high - low) or 1.0) + 8

    marks = [m for m in (low, high) if abs(m) > (high - low) / 16] + [0.0]  # labels must not overlap
    parts = [_line("axis", LEFT, y(mark), WIDE, y(mark)) for mark in marks]
    parts += [_text(LEFT - 8, y(mark) + 4, f"{mark:,.4g}", "end") for mark in marks]
    if len(rows) <= NAMED:
        labels = [(place, row["query"][:12], "middle") for place, row in zip(x, rows, strict=True)]
    else:
        labels = [(x[0], rows[0]["query"][:24], "start"), (x[-1], rows[-1]["query"][:24], "end")]
    parts += [_text(place, HIGH + 4, label, anchor) for place, label, anchor in labels]
    if fields["queries"] <= BARS:
        parts += [_line("whisker", a, y(v - r), a, y(v + r)) for a, v, r in zip(x, values, reach, strict=True)]
        parts += [f'<circle class="dot" cx="{a:.1f}" cy="{b:.1f}" r="3.5"/>' for a, b in zip(x, y(values), strict=True)]
    else:
        upper, lower = _points(x, y(values + reach)), _points(x[::-1], y(values - reach)[::-1])
        parts.append(f'<polygon class="band" points="{upper} {lower}"/>')
        parts.append(f'<polyline class="middle" points="{_points(x, y(values))}"/>')
    label = f'role="img" aria-label="Answers with intervals, from the first query to the last; {len(rows):,} shown"'
    return f'<svg class="line" viewBox="0 0 {WIDE} {HIGH + 10}" {label}>{"".join(parts)}</svg>'


def _points(x: Any, y: Any) -> str:
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _notes(fields: dict[str, Any]) -> Iterator[str]:
    yield (
        f"Intervals hold with {100 * fields['confidence']:.4g}% confidence each. The noise is Gaussian but for "
        "rounding to whole numbers, which standard errors allow for; its size does not depend on the data."
    )
    yield f"Each query is a weighted sum of the counts of {fields['items']:,} values of {fields['counted']!r}."
    yield "Sums and differences of answers have exact errors of their own, not those of the parts; see leastnoise ask."
    if len(fields["rows"]) < fields["queries"]:
        yield (
            f"{len(fields['rows']):,} of {fields['queries']:,} answers are listed, evenly spaced; the release has all."
        )
    if fields["bias"] is not None:
        yield "The bias is a bound that holds for all data. It is a share of the number of rows, as estimated here."
    yield "Errors are those of the noise alone; sampling and response errors of the data come on top."
