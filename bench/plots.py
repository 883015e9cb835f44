"""Plots of figures, where the extra `plots` is installed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.common import Row


def line_plot(rows: Sequence[Row], out: Path | None, title: str, *, x: str, y: str, color: str, facet: str) -> bool:
    """Lines of y over x, one per color, one panel per facet; written as the suffix of `out` says (svg, png, html)."""
    if out is None:
        return False
    try:
        import altair  # type: ignore[import-not-found, unused-ignore]
    except ModuleNotFoundError:
        print(f"no plot in {out}: install leastnoise[plots]")
        return False
    data: list[dict[str, Any]] = [dict(r) for r in rows]
    line = altair.Chart(altair.Data(values=data)).mark_line(point=True)
    panel = line.encode(x=f"{x}:Q", y=f"{y}:Q", color=f"{color}:N").properties(width=240, height=200)
    chart = panel.facet(f"{facet}:N", columns=3).properties(title=title)
    out.parent.mkdir(parents=True, exist_ok=True)
    chart.save(str(out))
    print(f"plot in {out}")
    return True
