"""The report of a release of tables: one HTML page that needs nothing else, no network and no server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from math import floor, log10
from pathlib import Path
from typing import Any

from leastnoise.mechanisms.tables.plan import Plan
from leastnoise.planning.summary import number, percent_above
from leastnoise.release import TableRelease
from leastnoise.release.postprocessing.readers import AdjustedTables
from leastnoise.report.adjusted import adjusted_notes, check_origin
from leastnoise.report.documents import CELLS, document
from leastnoise.report.frame import filled, framed, script_json, spent, write_page

SECTIONS = {"tables": "Tables", "distributions": "Distributions"}  # the script removes one that is empty
SCRIPTS = (
    "draw.js",
    "charts.js",
    "model.js",
    "lists.js",
    "rounds.js",
    "cross.js",
    "pictures.js",
    "files.js",
    "catalogue.js",
    "review.js",
    "page.js",
)
NUMBERS = ("counts", "std_errors")  # of a table; the page reads them when the table is opened


def write(
    release: TableRelease,
    path: str | Path,
    plan: Plan | None = None,
    *,
    confidence: float = 0.95,
    cells: int = CELLS,
    adjusted: AdjustedTables | None = None,
) -> dict[str, Any]:
    """Write the report of a release to an HTML file, complete or not at all; returns the numbers behind it."""
    if adjusted is not None:
        check_origin(release, adjusted)
    options: dict[str, Any] = {"plan": plan, "cells": cells, "adjusted": adjusted}
    return write_page(path, lambda: document(release, confidence=confidence, **options), render)


def count(numbers: Mapping[str, Any]) -> tuple[str, int, int]:
    """What the page shows, how much of it, and how much is left out."""
    return "tables", len(numbers["tables"]), numbers["left_out"]


def render(fields: Mapping[str, Any]) -> str:
    """The page for a document.

    Guarantees: text_is_escaped; no_network; same_document_same_page.
    """
    words = {"verb": "measured" if fields["adaptive"] else "asked", "lines": escape(_lines(fields))}
    total = fields["total"]
    return framed(
        fields,
        kind="Release report",
        name="Differentially private release",
        glance=glance(fields),
        sections=SECTIONS,
        body=filled("page.html", {}),
        review=filled("page_review.html", words),
        notes=notes(fields),
        styles=("style.css", "tables.css"),
        scripts=SCRIPTS,
        data=scripts_of(fields),
        example=None if total is None else (total[0], fields["width"] * total[1]),
    )


def scripts_of(fields: Mapping[str, Any]) -> str:
    """The document for the script: all but the cells, and a line of cells for each table, completed ones last."""
    rounds = fields["adaptive"]
    shown = [*fields["tables"], *(rounds["completed"] if rounds else [])]
    rest = {**fields, "tables": _without_numbers(fields["tables"])}
    if rounds:
        rest["adaptive"] = {**rounds, "completed": _without_numbers(rounds["completed"])}
    lines = "\n".join(script_json([table[name] for name in NUMBERS]) for table in shown)
    return (
        f'<script id="data" type="application/json">{script_json(rest)}</script>\n'
        f'<script id="cells" type="text/plain">{lines}</script>\n'
    )


def _without_numbers(tables: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in table.items() if key not in NUMBERS} for table in tables]


# --- words ------------------------------------------------------------------------------------------------------------


def glance(fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The figures that matter most."""
    whole = fields["errors"]["all"]
    yield from spent(fields)
    if fields["total"] is not None:
        value, std_error = fields["total"]
        yield "Rows counted", _total(value, std_error, fields["width"])
    rounds = fields["adaptive"]
    if rounds:
        yield "Tables asked for", f"{rounds['tables']:,} ({rounds['measured']:,} measured)"
        if rounds["expected"] is not None:
            which = "a measured table" if rounds["method"] == "aim" else "a table"
            yield f"Expected error of {which}", number(rounds["expected"])
    else:
        yield "Statistics asked for", f"{whole['queries']:,}"
    yield "Typical error (RMSE)", number(whole["rmse"])
    yield "Largest standard error", number(whole["max_std_error"])
    for plan in fields["plans"]:
        least = plan["floor"]["value"]
        above = percent_above(plan["objective_value"] / least) if least > 0 else "no floor known"
        yield "Above the proven floor", above


def _total(value: float, std_error: float, width: float) -> str:
    if not std_error:
        return f"{value:,.0f} (exact)"
    digits = max(0, 1 - floor(log10(std_error)))  # two digits of the error
    return f"{value:,.{digits}f} ± {width * std_error:,.{digits}f}"


def _lines(fields: Mapping[str, Any]) -> str:
    if fields["adaptive"]:
        return "One line for each table that was measured, with all its smaller ones. Completed tables are not here."
    return "One line for each statement of the workload. The errors hold whatever the data are."


def adaptive_notes(fields: Mapping[str, Any]) -> Iterator[str]:
    """How to read what is only in the page of an adaptive release."""
    yield (
        "Measured tables are unbiased with exact errors. Completed tables were not measured: they are put together "
        "from measured ones as if there were nothing more to know, which is a biased guess without intervals."
    )
    yield (
        "The expected error of a table is the sum of the errors of its statistics, in rows (L1), as far as noisy looks "
        "at the data can tell. It is an estimate, not a bound."
    )
    if fields["adaptive"]["completed_left_out"]:
        left = f"{fields['adaptive']['completed_left_out']:,} larger completed tables are left out of this page"
        yield f"{left}; the release has them (leastnoise table --complete)."


def notes(fields: Mapping[str, Any]) -> Iterator[str]:
    """How to read the page."""
    size = (
        "What was measured was decided by released numbers" if fields["adaptive"] else "It does not depend on the data"
    )
    yield (
        f"Intervals hold with {fields['confidence']:.4g} confidence each: ± {fields['width']:.4g} standard errors. "
        f"The noise is Gaussian and its size is known exactly. {size}."
    )
    if fields["adaptive"]:
        yield from adaptive_notes(fields)
    if fields["adjusted"]:
        yield from adjusted_notes(fields)
        return
    yield (
        "Counts are unbiased estimates, so they may be negative or fractions. Tables agree with each other: a table "
        "summed over an attribute is the table without it."
    )
    yield from fields.get("public", ())
    yield "Numbers in this page are rounded to less than a thousandth of their standard error."
    if fields["left_out"]:
        yield (
            f"{fields['left_out']:,} larger tables in reach are left out of this page; "
            "the release has them (leastnoise table)."
        )
    if fields["distributions_left_out"]:
        yield f"The distributions of {fields['distributions_left_out']:,} further attributes are left out of this page."
    yield "Errors are those of the noise alone; sampling and response errors of the data come on top."
