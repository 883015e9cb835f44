"""The report of found keys: each with its noisy count of people, in one page without script."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leastnoise.mechanisms.discover.release import KeysRelease
from leastnoise.planning.summary import number
from leastnoise.report.documents import opening
from leastnoise.report.frame import filled, framed, spent, write_page
from leastnoise.report.html_table import table

ROWS = 2_000  # keys that are listed


def document(release: KeysRelease, *, confidence: float = 0.95, rows: int = ROWS) -> dict[str, Any]:
    """Everything the page shows, as plain data.

    Guarantees: numbers_are_those_of_the_release; long_lists_are_cut.
    """
    plan = release.plan
    pairs = zip(release.keys[:rows], release.noisy[:rows].tolist(), strict=True)
    return {
        **opening(release, confidence),
        **plan.to_json(),
        "privacy": opening(release, confidence)["privacy"],
        "keys": len(release.keys),
        "rows": [{"key": str(key), "people": count} for key, count in pairs],
    }


def write(release: KeysRelease, path: str | Path, *, confidence: float = 0.95, rows: int = ROWS) -> dict[str, Any]:
    """Write the report to an HTML file, complete or not at all; returns the numbers behind it."""
    return write_page(path, lambda: document(release, confidence=confidence, rows=rows), render)


def count(numbers: dict[str, Any]) -> tuple[str, int, int]:
    """What the page shows, how much of it, and how much is left out."""
    return "keys", len(numbers["rows"]), numbers["keys"] - len(numbers["rows"])


def render(fields: dict[str, Any]) -> str:
    """The page for a document.

    Guarantees: text_is_escaped; loads_nothing_and_has_no_script; same_document_same_page.
    """
    percent = f"{100 * fields['confidence']:.4g}%"
    lead = (
        f"Keys of {fields['attribute']!r} with a noisy count of {fields['at_least']:,} people or more, each with its "
        f"{percent} interval. Counts near {fields['at_least']:,} are too high on average, as lower ones are not shown."
    )
    reach = fields["width"] * fields["std_error"]
    lines = [
        [row["key"], *(f"{x:,.0f}" for x in (row["people"], row["people"] - reach, row["people"] + reach))]
        for row in fields["rows"]
    ]
    chances = [[f"{100 * float(p):g}%", f"{people:,}"] for p, people in fields["people_of_found"].items()]
    keys = (
        table(["key", "people", f"low ({percent})", f"high ({percent})"], lines) if lines else "<p>None was found.</p>"
    )
    return framed(
        fields,
        kind="Report of found keys",
        name="Differentially private keys",
        glance=_glance(fields),
        sections={"answers": "Keys"},
        body=filled("keys.html", {"lead": lead, "rows": keys}),
        review=filled(
            "keys_review.html", {"chances": table(["found with a probability of", "from people on"], chances)}
        ),
        notes=_notes(fields),
        styles=("style.css", "matrix.css"),
    )


def _glance(fields: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield from spent(fields)
    yield "Keys found", f"{fields['keys']:,}"
    yield "Noisy count of people", f"{fields['at_least']:,} or more"
    yield "Standard error", number(fields["std_error"])


def _notes(fields: dict[str, Any]) -> Iterator[str]:
    yield (
        f"Intervals hold with {100 * fields['confidence']:.4g}% confidence for keys with many more people than "
        f"{fields['at_least']:,}; nearer to it they are too high. The noise is Gaussian but for rounding."
    )
    yield f"A key of fewer than {fields['least']:,} people is never published; others are missed by chance."
    yield f"Of each person at most {fields['max_keys']:,} keys are counted, and a person counts with each of them."
    if len(fields["rows"]) < fields["keys"]:
        yield f"The first {len(fields['rows']):,} of {fields['keys']:,} keys are listed; the release has all."
