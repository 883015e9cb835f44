"""The report: one HTML page that needs nothing else, no network and no server."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from functools import cache
from html import escape
from importlib.resources import files
from math import ceil, floor, log10
from pathlib import Path
from typing import Any

from leastnoise.errors import LeastnoiseError
from leastnoise.plan.plan import Plan
from leastnoise.plan.words import number, percent_above
from leastnoise.release import Release
from leastnoise.report.document import CELLS, FALSE_ALARMS, document

SCRIPTS = ("draw.js", "charts.js", "rounds.js", "page.js")


def write(
    release: Release,
    path: str | Path,
    plan: Plan | None = None,
    *,
    confidence: float = 0.95,
    cells: int = CELLS,
) -> dict[str, Any]:
    """Write the report of a release to an HTML file, complete or not at all; returns the numbers behind it."""
    path = checked_page(Path(path))
    told = document(release, confidence=confidence, plan=plan, cells=cells)
    write_page(path, render(told))
    return told


def checked_page(path: Path) -> Path:
    """Where a page can be written."""
    if path.suffix not in (".html", ".htm"):
        raise LeastnoiseError(f"a report is a web page; choose a name that ends in .html instead of {path.name!r}")
    if not path.parent.is_dir():
        raise LeastnoiseError(f"there is no folder {str(path.parent)!r} to write in; create it first")
    return path


def write_page(path: Path, page: str) -> None:
    """Write a page, complete or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        draft.write_bytes(page.encode("utf-8", "xmlcharrefreplace"))  # lone surrogates are no UTF-8
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def render(told: Mapping[str, Any]) -> str:
    """The page for a document.

    Guarantees: text_is_escaped; no_network; same_document_same_page.
    """
    style, script = part("style.css"), "\n".join(map(part, SCRIPTS))
    name = told["dataset"] or "Differentially private release"
    fields = {
        "policy": policy(style, script),
        "title": escape(name),
        "made": escape(made_words(told)),
        "banner": f'<p class="banner" role="alert">{escape(told["warning"])}</p>' if told["warning"] else "",
        "glance": "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in glance(told)),
        "privacy": "".join(f"<p>{escape(text)}</p>" for text in privacy_words(told)),
        "asked": "measured" if told["adaptive"] else "asked",
        "lines": escape(_lines(told)),
        "notes": "".join(f"<li>{escape(text)}</li>" for text in notes(told)),
        "software": escape(told["software"]),
        "style": style,
        "script": script,
        "data": script_json(told),
    }
    return filled("page.html", fields)


def filled(template: str, fields: Mapping[str, str]) -> str:
    """A page from a template, in one pass: what is filled in is never looked through again."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: fields[match[1]], part(template))


@cache
def part(name: str) -> str:
    """A piece of a page."""
    return (files("leastnoise.report") / "template" / name).read_text("utf-8")


def script_json(data: object) -> str:
    """JSON that may stand inside a script element: no character in it can end the element or start a comment.

    >>> script_json({"a": "</script><!--"})
    '{"a":"\\\\u003c/script\\\\u003e\\\\u003c!--"}'
    """
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def policy(style: str, script: str | None = None) -> str:
    """Nothing may be loaded, and nothing may run but the page's own script, if it has one."""
    own = {"style-src": style} | ({} if script is None else {"script-src": script})
    hashes = {kind: base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for kind, text in own.items()}
    return "; ".join(["default-src 'none'", *(f"{kind} 'sha256-{code}'" for kind, code in hashes.items())])


# --- words ------------------------------------------------------------------------------------------------------------


def made_words(told: Mapping[str, Any]) -> str:
    """When it was measured, and where it was paid for."""
    times = [part["created"].removesuffix("+00:00").replace("T", " ") for part in told["made"]]
    entries = [f"{part['ledger_entry']}" for part in told["made"] if part["ledger_entry"] is not None]
    ledger = f"; ledger {'entry' if len(entries) == 1 else 'entries'} {', '.join(entries)}" if entries else ""
    return f"Measured {', '.join(times)} UTC{ledger}" if times else "Measured at an unknown time"


def glance(told: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The figures that matter most."""
    privacy, whole = told["privacy"], told["errors"]["all"]
    if told["warning"]:
        yield "Privacy", "none (seeded noise)"
    else:
        yield "Privacy spent", f"ε {privacy['epsilon']:.4g} at δ {privacy['delta']:g}".replace("e-0", "e-")
        yield "Gaussian privacy", f"μ {privacy['mu']:.4g}"
    if told["total"] is not None:
        value, std_error = told["total"]
        yield "Rows in the data", _total(value, std_error, told["width"])
    rounds = told["adaptive"]
    if rounds:
        yield "Tables asked for", f"{rounds['tables']:,} ({rounds['measured']:,} measured)"
        yield "Expected error of a table", number(rounds["expected"])
    else:
        yield "Statistics asked for", f"{whole['queries']:,}"
    yield "Typical error (RMSE)", number(whole["rmse"])
    yield "Largest standard error", number(whole["max_std_error"])
    for plan in told["plans"]:
        least = plan["floor"]["value"]
        above = percent_above(plan["objective_value"] / least) if least > 0 else "no floor known"
        yield "Above the proven floor", above


def _total(value: float, std_error: float, width: float) -> str:
    if not std_error:
        return f"{value:,.0f} (exact)"
    digits = max(0, 1 - floor(log10(std_error)))  # two digits of the error
    return f"{value:,.{digits}f} ± {width * std_error:,.{digits}f}"


def privacy_words(told: Mapping[str, Any]) -> Iterator[str]:
    """The privacy statement, and what it means for one person."""
    privacy = told["privacy"]
    yield privacy["statement"]
    if not told["warning"]:
        yield (
            f"In other words: take two datasets that differ by {privacy['change']}. Whoever tries to tell from this "
            f"release which of the two it was made of, and raises a false alarm in {FALSE_ALARMS:.0%} of cases, "
            f"notices the difference in at most {_up(privacy['caught'])} of cases. Guessing blindly notices it in "
            f"{FALSE_ALARMS:.0%}."
        )


def _up(share: float) -> str:
    """A share in percent, rounded up to tenths."""
    return f"{ceil(1000 * share) / 10:g}%"


def _lines(told: Mapping[str, Any]) -> str:
    if told["adaptive"]:
        return "One line for each table that was measured, with all its smaller ones. Completed tables are not here."
    return "One line for each statement of the workload. The errors hold whatever the data are."


def adaptive_notes(told: Mapping[str, Any]) -> Iterator[str]:
    """How to read what is only in the page of an adaptive release."""
    yield (
        "Measured tables are unbiased with exact errors. Completed tables were not measured: they are put together "
        "from measured ones as if there were nothing more to know, which is a biased guess without intervals."
    )
    yield (
        "The expected error of a table is the sum of the errors of its statistics, in rows (L1), as far as noisy looks "
        "at the data can tell. It is an estimate, not a bound."
    )
    if told["adaptive"]["completed_left_out"]:
        left = f"{told['adaptive']['completed_left_out']:,} larger completed tables are left out of this page"
        yield f"{left}; the release has them (leastnoise table --complete)."


def notes(told: Mapping[str, Any]) -> Iterator[str]:
    """How to read the page."""
    size = "What was measured was decided by released numbers" if told["adaptive"] else "It does not depend on the data"
    yield (
        f"Intervals hold with {told['confidence']:.4g} confidence each: ± {told['width']:.4g} standard errors. "
        f"The noise is Gaussian and its size is known exactly. {size}."
    )
    if told["adaptive"]:
        yield from adaptive_notes(told)
    yield (
        "Counts are unbiased estimates, so they may be negative or fractions. Tables agree with each other: a table "
        "summed over an attribute is the table without it."
    )
    yield "Numbers in this page are rounded to less than a thousandth of their standard error."
    if told["left_out"]:
        yield (
            f"{told['left_out']:,} larger tables in reach are left out of this page; "
            "the release has them (leastnoise table)."
        )
    if told["distributions_left_out"]:
        yield f"The distributions of {told['distributions_left_out']:,} further attributes are left out of this page."
    yield "Errors are those of the noise alone; sampling and response errors of the data come on top."
