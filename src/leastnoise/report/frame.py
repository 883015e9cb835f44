"""What the pages of all kinds of releases share: head, privacy, notes, and how they are written."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from math import ceil
from pathlib import Path
from typing import Any

from leastnoise.errors import LeastnoiseError
from leastnoise.planning.summary import number
from leastnoise.release.counting import ADVICE, counting_text
from leastnoise.report.answers import answers_text
from leastnoise.report.documents import FALSE_ALARMS
from leastnoise.report.words import facts, introduction, linked, title_of, words_of
from leastnoise.storage.files import check_target, write_file

MOST_PEOPLE = 200  # cells of a table of people
OPTIONAL = {"distributions"}  # sections that a script removes where they are empty
BUTTON = '<button id="theme" type="button" aria-pressed="false">Dark mode</button>'
NOSCRIPT = (
    '<noscript><p class="banner">The tables and charts of this page are drawn by its own script, '
    "which is switched off.</p></noscript>"
)


def write_page(
    path: str | Path, document: Callable[[], dict[str, Any]], render: Callable[[dict[str, Any]], str]
) -> dict[str, Any]:
    """Write the page of a document, complete or not at all; a path that does not do is refused before there is work."""
    path = _checked(Path(path))
    fields = document()
    write_file(path, render(fields).encode("utf-8", "xmlcharrefreplace"))  # lone surrogates are no UTF-8
    return fields


def _checked(path: Path) -> Path:
    """Where a page can be written."""
    if path.suffix not in (".html", ".htm"):
        raise LeastnoiseError(f"a report is a web page; choose a name that ends in .html instead of {path.name!r}")
    check_target(path, overwrite=True)
    return path


def framed(
    content: Mapping[str, Any],
    *,
    kind: str,
    name: str,
    glance: Iterable[tuple[str, str]],
    sections: Mapping[str, str],
    body: str,
    review: str,
    notes: Iterable[str],
    styles: Sequence[str],
    scripts: Sequence[str] = (),
    data: str = "",
    example: tuple[float, float] | None = None,
) -> str:
    """A whole page around a body for everybody, and a part for reviewers, which is closed at first.

    `content` has what every document has, `data` what scripts read; `example` is a number with its "±" to explain.

    Guarantees: text_is_escaped; no_network; same_document_same_page.
    """
    style, script = "\n".join(map(part, styles)), "\n".join(map(part, scripts))
    sections = {**({"questions": "Questions"} if content.get("answers") else {}), **sections}
    fields = {
        "policy": policy(style, script if scripts else None),
        "kind": escape(words_of(content).get("publisher") or kind),
        "title": escape(title_of(content, name)),
        "button": BUTTON if scripts else "",
        "made": escape(created_text(content)),
        "banner": f'<p class="banner" role="alert">{escape(content["warning"])}</p>' if content["warning"] else "",
        "glance": "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in glance),
        "sections": "\n".join(_link(place, title) for place, title in sections.items()),
        "introduction": "".join(f"<p>{linked(text)}</p>" for text in introduction(content, example)),
        "facts": facts(content),
        "privacy": "".join(f"<p>{escape(text)}</p>" for text in privacy_text(content)),
        "counting": _counting(content),
        "answers": _answers(content),
        "body": body,
        "review": review,
        "notes": "".join(f"<li>{escape(text)}</li>" for text in notes),
        "software": escape(content["software"]),
        "style": style,
        "noscript": NOSCRIPT if scripts else "",
        "scriptless": "" if scripts else " and has no script",
        "scripts": f"{data}<script>{script}</script>" if scripts else "",
    }
    return filled("frame.html", fields)


def _answers(content: Mapping[str, Any]) -> str:
    """Questions with their answers; nothing where none are asked."""
    answers = content.get("answers")
    return filled("answers.html", {"tables": answers_text(answers)}) if answers else ""


def _counting(content: Mapping[str, Any]) -> str:
    """Rows that were counted, and the rules by which others were not; devices of the local model have none."""
    if "counting" not in content:
        return ""
    first, *rules = (line for line in counting_text(content["counting"]) if line != ADVICE)  # which is for the office
    lines = "".join(f"<li>{escape(line.strip())}</li>" for line in rules)
    tables = "".join(_people(table) for table in content["counting"]["people"] if table["attributes"])
    return filled("counting.html", {"first": escape(first.capitalize()), "lines": lines, "tables": tables})


def _people(table: Mapping[str, Any]) -> str:
    """Distinct people in each cell; the first cells where there are many."""
    names, numbers = table["attributes"], ("count", "std_error", "low", "high")
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in (*names, "people", *numbers[1:]))
    rows = "".join(
        f"<tr>{''.join(f'<td>{escape(str(row[name]))}</td>' for name in names)}"
        f"{''.join(f'<td>{number(row[name])}</td>' for name in numbers)}</tr>"
        for row in table["rows"][:MOST_PEOPLE]
    )
    left = len(table["rows"]) - MOST_PEOPLE
    more = f"<p>{left:,} more cells are in the release (leastnoise table --people).</p>" if left > 0 else ""
    caption = escape(" x ".join(names))
    return (
        f"<table><caption>People counted by {caption}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}"
    )


def _link(place: str, title: str) -> str:
    needs = f' data-needs="{place}"' if place in OPTIONAL else ""
    return f'<a href="#{place}"{needs}>{title}</a>'


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
    rest = ["base-uri 'none'", "form-action 'none'"]
    return "; ".join(["default-src 'none'", *(f"{kind} 'sha256-{code}'" for kind, code in hashes.items()), *rest])


# --- words ------------------------------------------------------------------------------------------------------------


def created_text(fields: Mapping[str, Any]) -> str:
    """When it was measured, and where it was paid for."""
    times = [part["created"].removesuffix("+00:00").replace("T", " ") for part in fields["made"]]
    entries = [f"{part['ledger_entry']}" for part in fields["made"] if part["ledger_entry"] is not None]
    ledger = f"; ledger {'entry' if len(entries) == 1 else 'entries'} {', '.join(entries)}" if entries else ""
    return f"Measured {', '.join(times)} UTC{ledger}" if times else "Measured at an unknown time"


def spent(fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The figures of privacy."""
    privacy = fields["privacy"]
    if fields["warning"]:
        yield "Privacy", "none (seeded noise)"
    else:
        yield "Privacy spent", f"ε {privacy['epsilon']:.4g} at δ {privacy['delta']:g}".replace("e-0", "e-")
        yield "Gaussian privacy", f"μ {privacy['mu']:.4g}"


def privacy_text(fields: Mapping[str, Any]) -> Iterator[str]:
    """The privacy statement, and what it means for one person."""
    privacy = fields["privacy"]
    yield privacy["statement"]
    if not fields["warning"]:
        yield (
            f"In other words: take two datasets that differ by {privacy['change']}. Whoever tries to tell from this "
            f"release which of the two it was made of, and raises a false alarm in {FALSE_ALARMS:.0%} of cases, "
            f"notices the difference in at most {_up(privacy['caught'])} of cases. Guessing blindly notices it in "
            f"{FALSE_ALARMS:.0%}."
        )


def _up(share: float) -> str:
    """A share in percent, rounded up to tenths."""
    return f"{ceil(1000 * share) / 10:g}%"
