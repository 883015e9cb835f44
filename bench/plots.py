"""Plots of figures, where the extra `plots` is installed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.common import Row


def line_plot(
    rows: Sequence[Row], out: Path | None, title: str, *, x: str, y: str, color: str, facet: str, rule: str = ""
) -> bool:
    """Lines of y over x, one per color, one panel per facet; written as the suffix of `out` says (svg, png, html).

    `rule` names a column with the height of a dashed line, such as a limit.
    """
    if out is None or (altair := _altair(out)) is None:
        return False
    data: list[dict[str, Any]] = [dict(r) for r in rows]
    base = altair.Chart().encode(color=f"{color}:N").properties(width=240, height=200)
    layers = [base.mark_line(point=True).encode(x=f"{x}:Q", y=f"{y}:Q")]
    if rule:
        layers.append(base.mark_rule(strokeDash=[4, 4]).encode(y=f"{rule}:Q"))
    panel = altair.layer(*layers, data=altair.Data(values=data))
    return _saved(panel.facet(f"{facet}:N", columns=3).properties(title=title), out)


def dot_plot(rows: Sequence[Row], out: Path | None, title: str, *, x: str, y: str, color: str, facet: str) -> bool:
    """A line of dots for each y, one panel per facet, each with its own lines."""
    if out is None or (altair := _altair(out)) is None:
        return False
    data: list[dict[str, Any]] = [dict(r) for r in rows]
    dots = altair.Chart(altair.Data(values=data)).mark_circle(size=50, opacity=0.9)
    dots = dots.encode(
        x=altair.X(f"{x}:Q", title="%"),
        y=altair.Y(f"{y}:N", title=None, sort=None),
        color=altair.Color(f"{color}:N", title=None, sort=None),
    )
    panel = dots.properties(width=230).facet(altair.Facet(f"{facet}:N", title=None), columns=2)
    return _saved(panel.resolve_scale(y="independent").properties(title=title), out)


def _altair(out: Path) -> Any:
    """The library, if it is installed."""
    try:
        import altair  # type: ignore[import-not-found, unused-ignore]
    except ModuleNotFoundError:
        print(f"no plot in {out}: install leastnoise[plots]")
        return None
    return altair


def _saved(chart: Any, out: Path) -> bool:
    out.parent.mkdir(parents=True, exist_ok=True)
    chart.save(str(out))
    print(f"plot in {out}")
    return True
