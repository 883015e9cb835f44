"""A release for a public register: an entry for the OpenDP deployments registry, and a dossier for NIST SP 800-226.

What a release knows is filled in; what only its office knows is marked, and listed at the top.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import yaml

from leastnoise.errors import LeastnoiseError
from leastnoise.privacy.budget import Budget
from leastnoise.privacy.units import say
from leastnoise.release import Release
from leastnoise.storage.files import new_folder, put_file
from leastnoise.storage.records import software

BLANK = "TO BE FILLED IN"
DOSSIER = "dossier.md"
MECHANISM = (
    "Linear queries with whole-number weights are measured with Gaussian noise that is rounded exactly (matrix "
    "mechanism). Noise comes from the operating system's secure random bits."
)
PLANNED = "What is measured, at which noise levels, was planned without the data."
CHOSEN = "Which tables are measured was chosen by noisy looks at the data, whose cost is included."
EXACT = (
    "No floating point between the data and what is published: counts are integers, noise is drawn in exact "
    "arithmetic, and the privacy cost is a fraction."
)
CHANNELS = (
    "The release is made in one run that nobody queries; its time and its messages are not published. Messages name "
    "columns and rules, never values. The time that a run takes may depend on the data: keep it from those who must "
    "not see the data."
)
SOFTWARE = f"Software, as of this entry: {software()}."
PROCESSING = (
    "The attributes, their values and the queries come from a spec that was written down before; rows are counted by "
    "its rules. Whether somebody looked at the data to write it, only the office knows."
)


def register(release: Release, path: Path, overwrite: bool = False) -> list[str]:
    """Write entry and dossier to a new folder; returns the names of the files.

    Guarantees: entries_fit_the_schema_of_the_registry; what_only_the_office_knows_is_listed.
    """
    if release.insecure:
        raise LeastnoiseError("its noise came from a seed, which protects nobody; register a release made without one")
    name = f"{slug(release)}.yaml"
    text = yaml.safe_dump(entry(release), sort_keys=False, allow_unicode=True, width=10**6)
    with new_folder(path, overwrite=overwrite, ours=_is_ours, what="registration") as draft:
        put_file(draft, name, text.encode())
        put_file(draft, DOSSIER, dossier(release).encode())
    return [name, DOSSIER]


def _is_ours(path: Path) -> bool:
    names = {p.name for p in path.iterdir()} if path.is_dir() else set()
    return DOSSIER in names and all(name == DOSSIER or name.endswith(".yaml") for name in names)


def slug(release: Release) -> str:
    """The name of the entry: small letters, digits and underscores."""
    return "_".join(re.findall("[a-z0-9]+", name_of(release, "").lower())) or "release"


# --- the entry --------------------------------------------------------------------------------------------------------


def entry(release: Release) -> dict[str, Any]:
    """The entry, in the fields of the registry's schema."""
    return {"url_slug": slug(release), "status": "Draft", "tier": 3, "deployment": _deployment(release)}


def _deployment(release: Release) -> dict[str, Any]:
    privacy, holds = release.privacy, release.describe()["holds"]
    data = f"What the data is: {told(release, 'introduction')}"
    return {
        "basic": {
            "name": name_of(release),
            "data_curators": [told(release, "publisher")],
            "intended_use": BLANK,
            "data_product_type": "Summary statistics",
            "data_product_region": BLANK,
            "description": f"{holds}, with standard errors and intervals. {data}",
            "publication_date": release.origins[0].created[:10],
        },
        "dp_variant": {
            "variant_name": "Zero-concentrated DP",
            "data_domain": f"All datasets of rows with the attributes {', '.join(release.domain.names)}.",
            "unprotected_quantities": unprotected(release),
        },
        "privacy_loss": {
            "privacy_unit": unit(release),
            "privacy_unit_details": f"Neighbouring datasets differ by {release.cost.change}.",
            "privacy_parameters": {"epsilon": privacy.epsilon, "delta": privacy.delta, "rho": privacy.rho},
            "privacy_parameters_details": parameters(release),
        },
        "deployment_model": {
            "model_name": "Central",
            "actors": f"The curator, who holds the data and runs the measurement once: {BLANK}",
            "release_type": "One release",
            "release_type_details": f"Whether more will be published about the same people: {BLANK}",
            "access_type": "Non-interactive",
            "access_type_details": "Noisy measurements are published once; all answers are computed from them.",
        },
        "accounting": {"post_processing": POST_PROCESSING, "composition": composition(release)},
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": f"{PROCESSING} {counted(release)} How: {BLANK}",
            "mechanisms": f"{mechanism(release)} {EXACT} {CHANNELS} {SOFTWARE} Security of the data: {BLANK}",
            "justification": BLANK,
        },
        "administrative": {
            "sources": told(release, "citation"),
            "notes": " ".join([privacy.statement, *published(release)]),
            "registry_authors": [BLANK],
        },
    }


def told(release: Release, field: str) -> str:
    """What the office says of its publication, in one line; a blank where it does not."""
    words = getattr(release.publication, field, None)
    return " ".join(str(words).split()) if words else BLANK


def name_of(release: Release, otherwise: str = BLANK) -> str:
    """The title of the publication, or the name of the dataset."""
    return getattr(release.publication, "title", None) or release.dataset or otherwise


def published(release: Release) -> Iterator[str]:
    """Contact and licence, as far as they are told."""
    for field, name in (("contact", "Contact"), ("licence", "Licence")):
        if (text := told(release, field)) != BLANK:
            yield f"{name}: {text}."


UNBIASED = "Answers are unbiased: right on average over the noise."
POST_PROCESSING = (
    "Answers are the best linear unbiased estimates from the measurements, with exact standard errors. Adjusted tables "
    "(no negative counts, rounded, cells left out) are biased and say so."
)


def unit(release: Release) -> str:
    """Who or what is protected."""
    rows = release.privacy.rows_per_person
    if rows is None:
        return "One row of the data"
    each = release.privacy.one_per
    more = f", at most one for each {' and '.join(each)}" if each else ""
    return "A person with one row" if rows == 1 else f"A person with at most {rows:,} rows{more}"


def unprotected(release: Release) -> str:
    """What is published without noise."""
    parts = [release.privacy.exact] if release.privacy.exact else []
    if release.privacy.neighbours == "replace" and release.privacy.size == "known":
        parts.append("The number of rows is taken to be public.")
    return " ".join(parts) or "None."


def rounded_up(number: Any) -> str:
    """Six significant digits of a positive fraction, not below it.

    >>> rounded_up(Fraction(1, 3))
    '0.333334'
    """
    exact = Fraction(number)
    rounding = Context(prec=6, rounding=ROUND_CEILING)
    return str(rounding.divide(Decimal(exact.numerator), Decimal(exact.denominator)))


def parameters(release: Release) -> str:
    """The cost in all its units."""
    return (
        f"The cost is mu^2 = {rounded_up(release.privacy.mu_squared)} in Gaussian differential privacy (mu "
        f"{release.privacy.mu:.6g}); the exact fraction is in release.json. rho = mu^2 / 2, and epsilon follows from "
        "mu exactly at the stated delta. Floats are rounded up."
    )


def composition(release: Release) -> str:
    """How costs add up."""
    parts = len(release.origins)
    made = f"It is made of {parts} measurements, whose mu^2 add up. " if parts > 1 else ""
    kept = [o.ledger_entry for o in release.origins if o.ledger_entry is not None]
    ledger = f"It was debited as entry {', '.join(map(str, kept))} of the dataset's ledger before noise was drawn."
    none = f"No ledger was kept by the software. Other releases about the same people: {BLANK}"
    return f"{made}Costs in mu^2 add up over all measurements of the same people. {ledger if kept else none}"


def mechanism(release: Release) -> str:
    """What was measured, and how."""
    adaptive = any(origin.adaptive is not None for origin in release.origins)
    return f"{MECHANISM} {CHOSEN if adaptive else PLANNED}"


def counted(release: Release) -> str:
    """By which rules rows were counted."""
    known = [origin.run.counting for origin in release.origins]
    texts = [text for rules in known if rules is not None for text in rules.sentences()]
    if None in known:
        texts.append(f"The release does not say by which rules rows were counted. Rules: {BLANK}")
    return " ".join(dict.fromkeys(texts)) or "Every row was counted as it is."


# --- the dossier ------------------------------------------------------------------------------------------------------


def dossier(release: Release) -> str:
    """Point by point what NIST SP 800-226 asks of a differential privacy guarantee, in Markdown."""
    sections = list(_sections(release))
    missing = [f"- {title}: {text}" for _, points in sections for title, text in _asked(points)]
    lines = [
        f"# Differential privacy of {name_of(release, 'this release')}: dossier for NIST SP 800-226",
        "",
        f"Written by {software()} from the release itself. What only its office knows is marked **{BLANK}**:",
        "",
        *missing,
        "",
    ]
    for title, points in sections:
        lines += [f"## {title}", ""]
        for name, text in points:
            lines += [f"**{name}.** {text.replace(BLANK, f'**{BLANK}**')}", ""]
    return "\n".join(lines)


Points = list[tuple[str, str]]


def _asked(points: Points) -> Iterator[tuple[str, str]]:
    """Points with a blank, and what is asked for there."""
    for name, text in points:
        if BLANK in text:
            yield name, text.partition(BLANK)[0].rpartition(". ")[2].rstrip(": ") or "all of it"


def _sections(release: Release) -> Iterator[tuple[str, Points]]:
    yield "The guarantee", _guarantee(release)
    yield "Algorithms, utility and bias", _algorithms(release)
    yield "Deployment", _deployed(release)


def _guarantee(release: Release) -> Points:
    privacy = release.privacy
    epsilon = say(release.cost, Budget(epsilon=1, delta=privacy.delta), up=True)
    return [
        ("Statement", privacy.statement),
        ("Privacy parameters", f"{epsilon} at delta {privacy.delta:g}. {parameters(release)}"),
        ("Why this epsilon", f"Reasons for the choice: {BLANK}"),
        ("Variant", "Gaussian differential privacy, which implies zCDP and approximate DP with the stated numbers."),
        (
            "Delta",
            f"{privacy.delta:g}; it should be far below one over the number of people. Number of people: {BLANK}",
        ),
        ("Unit of privacy", f"{unit(release)}. {privacy_rows(release)}"),
        ("Neighbouring datasets", f"They differ by {release.cost.change}."),
        ("What is not protected", unprotected(release)),
        ("Composition", composition(release)),
    ]


def privacy_rows(release: Release) -> str:
    """How the unit is held."""
    if release.privacy.rows_per_person is None:
        return f"Somebody with several rows is protected less. Rows that a person can have: {BLANK}"
    person = next((o.run.person for o in release.origins if o.run.person is not None), None)
    how = f"Rows beyond that are left out; people are told apart by {person!r}." if person else ""
    return how or f"That nobody has more was not checked by the software. How it is known: {BLANK}"


def _algorithms(release: Release) -> Points:
    return [
        ("Mechanism", f"{mechanism(release)} This is a {release.kind}: {release.describe()['holds']}."),
        ("Sensitivity", "Computed from the integer matrices of the queries for the stated neighbours, exactly."),
        ("Data processing before the mechanism", f"{PROCESSING} {counted(release)} How values were chosen: {BLANK}"),
        (
            "Utility",
            "Every answer has its exact standard error and an interval; the total's is " + _total(release) + ".",
        ),
        ("Fitness for use", f"Accuracy that users need, and whether it is met: {BLANK}"),
        ("Statistical bias", f"{getattr(release, 'caveat', '') or UNBIASED} {POST_PROCESSING}"),
        ("Systemic and human bias", f"Groups for which noise matters more, and who was asked: {BLANK}"),
        ("Post-processing", POST_PROCESSING),
    ]


def _total(release: Release) -> str:
    return f"{release.total().std_error:.4g} rows"


def _deployed(release: Release) -> Points:
    return [
        (
            "Query model",
            "Not interactive: measured once, published once. Questions are answered from what was published.",
        ),
        ("Threat model", "Central: the curator is trusted with the data, and readers of the release with nothing."),
        ("Exactness and floating point", EXACT),
        (
            "Random numbers",
            "The operating system's secure generator; a release from a seed is marked and not registered.",
        ),
        ("Side channels", CHANNELS),
        ("Software", f"{software()}, as of this dossier. Version that is reviewed, and by whom: {BLANK}"),
        ("Security of the curator", f"Where the data is kept, and how it is protected: {BLANK}"),
        ("Access control", f"Who can read the data, run releases and write the ledger: {BLANK}"),
        ("Data collection", f"How the data was collected, and who saw it before: {BLANK}"),
        ("Deletion", f"When the data is deleted: {BLANK}"),
        ("Contact", f"Who answers questions: {told(release, 'contact')}"),
    ]
