"""Curves of people against accuracy as a picture (SVG) or a page, without any other program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from pathlib import Path
from typing import TYPE_CHECKING

from leastnoise.errors import LeastnoiseError
from leastnoise.storage.files import write_file

if TYPE_CHECKING:
    import pandas as pd

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 960, 440, 90, 380, 30, 50
# Told apart by the colour-blind (Okabe and Ito).
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")


@dataclass(frozen=True)
class Axes:
    """Places in the picture for alpha and a number of people, both logarithmic."""

    alphas: tuple[float, float]  # logarithms
    people: tuple[int, int]

    @classmethod
    def of(cls, frame: pd.DataFrame) -> Axes:
        """That hold all of a frame."""
        low, high = (log10(n) for n in (frame["people"].min(), frame["people"].max()))
        ends = log10(frame["alpha"].min()), log10(frame["alpha"].max())
        return cls(ends, (floor(low), max(ceil(high), floor(low) + 1)))

    def x(self, alpha: float) -> float:
        """Across."""
        low, high = self.alphas
        return LEFT + (log10(alpha) - low) / max(high - low, 1e-9) * (WIDTH - LEFT - RIGHT)

    def y(self, people: float) -> float:
        """Down."""
        low, high = self.people
        return HEIGHT - BOTTOM - (log10(people) - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    def draw(self) -> Iterator[str]:
        """Lines and numbers."""
        low, high = self.people
        for power in range(low, high + 1, max((high - low) // 8, 1)):
            y = self.y(10**power)
            yield f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
            yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{10**power:,}</text>'
        for alpha in _marks(*self.alphas):
            place = f'x="{self.x(alpha):.1f}" y="{HEIGHT - BOTTOM + 18}"'
            yield f'<text {place} text-anchor="middle">{alpha:g}</text>'
        yield f'<text x="{LEFT}" y="{HEIGHT - 10}">alpha (error of answers divided by the number of people)</text>'


def picture(frame: pd.DataFrame, title: str) -> str:
    """People against alpha on logarithmic axes, one line per bound: whole where it is enough, dashed where too few."""
    axes = Axes.of(frame)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="11" role="img" aria-label="{escape(title)}">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="18" font-size="13">{escape(title)}</text>',
        *axes.draw(),
    ]
    for i, (name, rows) in enumerate(frame.groupby(["model", "side", "who", "privacy"], sort=False)):
        points = " ".join(
            f"{axes.x(a):.1f},{axes.y(n):.1f}" for a, n in zip(rows["alpha"], rows["people"], strict=True)
        )
        parts += _line(i, points, *map(str, name))
    return "\n".join([*parts, "</svg>"])


def _line(i: int, points: str, model: str, side: str, who: str, privacy: str) -> list[str]:
    """A curve and its words."""
    x, y = WIDTH - RIGHT + 12, TOP + 12 + 26 * i
    style = f'stroke="{COLOURS[i % len(COLOURS)]}" stroke-width="1.6"'
    style += "" if side == "enough" else ' stroke-dasharray="5 3"'
    return [
        f'<polyline points="{points}" fill="none" {style}/>',
        f'<line x1="{x}" x2="{x + 22}" y1="{y}" y2="{y}" {style}/>',
        f'<text x="{x + 28}" y="{y + 1}">{escape(f"{side}: {who}")}</text>',
        f'<text x="{x + 28}" y="{y + 12}" fill="#666">{escape(f"{model}, {privacy}")}</text>',
    ]


def _marks(low: float, high: float) -> list[float]:
    """Round numbers 1, 2, 5 times powers of ten inside a range of logarithms."""
    results = [m * 10.0**p for p in range(floor(low), ceil(high) + 1) for m in (1, 2, 5)]
    return [a for a in results if low - 1e-9 <= log10(a) <= high + 1e-9]


def write_curves(frame: pd.DataFrame, title: str, path: Path) -> None:
    """A picture (.svg), or a page with it and the numbers (.html)."""
    drawn = picture(frame, title)
    if path.suffix == ".html":
        wide = frame.pivot_table(
            index=["model", "side", "who", "privacy"], columns="alpha", values="people", sort=False
        )
        table = wide.to_html(float_format=lambda n: f"{n:,.0f}", na_rep="-")
        drawn = f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(title)}</title>{drawn}{table}</html>"
    elif path.suffix != ".svg":
        raise LeastnoiseError(f"a plot is an .svg or .html file, got {path.name!r}; name it curves.svg")
    write_file(path, drawn.encode())
