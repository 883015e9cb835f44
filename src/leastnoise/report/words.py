"""What a page says to everybody: where the numbers come from, that they have noise, and how to read them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import escape
from math import floor, log10
from typing import Any

WEAK = 0.5  # chance to notice one change, at 5% false alarms, from which on nothing reassuring is said
LINK = re.compile(r"https?://[^\s<>\"']+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+", re.ASCII)
FACTS = {"publisher": "Published by", "contact": "Contact", "licence": "Licence", "citation": "Cite as"}


def words_of(fields: Mapping[str, Any]) -> Mapping[str, str | None]:
    """What the office says of the publication; empty where it says nothing."""
    return fields.get("publication") or {}


def title_of(fields: Mapping[str, Any], name: str) -> str:
    """The title: the office's, or that of the dataset."""
    return words_of(fields).get("title") or fields["dataset"] or name


def introduction(fields: Mapping[str, Any], example: tuple[float, float] | None = None) -> Iterator[str]:
    """The page in plain words, before any figure of privacy; `example` is a number with the half of its interval."""
    own = words_of(fields).get("introduction")
    if own:
        yield from (" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", own))
    yield (
        "Every number on this page has a little random noise in it, added on purpose to protect privacy. It is a good "
        "estimate of the true number, not the true number itself."
    )
    yield reading(fields["confidence"], example)
    yield from protection(fields)


def reading(confidence: float, example: tuple[float, float] | None = None) -> str:
    """How to read "±"."""
    value, reach = example if example and example[1] else (1240.0, 80.0)
    digits = max(0, 1 - floor(log10(reach)))
    low, mid, high, far = (f"{x:,.{digits}f}" for x in (value - reach, value, value + reach, reach))
    share = f"{100 * confidence:.4g} of 100"
    return (
        f"“{mid} ± {far}” means: the true number is most likely between {low} and {high}. Such statements are right in "
        f"{share} cases. Small numbers should be read with care: where ± is as large as the number, little is known."
    )


def protection(fields: Mapping[str, Any]) -> Iterator[str]:
    """Privacy in two sentences; nothing where the noise protects nobody."""
    privacy = fields["privacy"]
    if fields["warning"]:
        return
    if privacy["caught"] > WEAK:
        yield f"The noise protects privacy only weakly: datasets that differ by {privacy['change']} may be told apart."
        return
    yield (
        f"The noise protects privacy: two datasets that differ by {privacy['change']} give almost the same numbers, so "
        "that nobody can be sure which of them was used. This holds whatever else somebody knows; how strong it is, is "
        "stated in numbers for reviewers."
    )


def linked(text: str) -> str:
    """Text as HTML, in which addresses of pages and of people are links.

    >>> linked("Ask <us>: info@example.org")
    'Ask &lt;us&gt;: <a href="mailto:info@example.org">info@example.org</a>'
    """
    parts, place = [], 0
    for match in LINK.finditer(text):
        address = match[0].rstrip(".,;:)")
        target = address if address.startswith("http") else f"mailto:{address}"
        parts += [escape(text[place : match.start()]), f'<a href="{escape(target)}">{escape(address)}</a>']
        place = match.start() + len(address)
    return "".join([*parts, escape(text[place:])])


def facts(fields: Mapping[str, Any]) -> str:
    """Who published it, on which terms, and how to cite it, as a list; empty where nothing is said."""
    words = words_of(fields)
    lines = [
        f"<div><dt>{said}</dt><dd>{linked(text)}</dd></div>" for key, said in FACTS.items() if (text := words.get(key))
    ]
    return f'<dl class="facts">{"".join(lines)}</dl>' if lines else ""
