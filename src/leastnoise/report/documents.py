"""The numbers behind a report: plain data, rounded far below the noise, the same for the same release."""

from __future__ import annotations

from fractions import Fraction
from importlib.metadata import version
from math import floor, inf, log10, sqrt
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from leastnoise._types import Array
from leastnoise.domain.attributes import UNKNOWN, Attribute, Bins
from leastnoise.mechanisms.tables.plan import Plan
from leastnoise.planning.summary import where
from leastnoise.privacy import gaussian
from leastnoise.release import Release, TableRelease
from leastnoise.release.answers import quantile
from leastnoise.release.asking import sums_of
from leastnoise.release.files.publication import file_names
from leastnoise.release.postprocessing.readers import AdjustedTables
from leastnoise.release.statement import INSECURE, Summary
from leastnoise.release.structural_zeros import footnotes
from leastnoise.report.adjusted import adjusted_tables
from leastnoise.report.allocation import allocation
from leastnoise.report.levels import Errors, levels
from leastnoise.report.rounds import adaptive
from leastnoise.report.selection import fitting, impossible_cells, short
from leastnoise.workload.families import Prefix
from leastnoise.workload.known import on_known

CELLS = 1_000_000  # of all tables in the page together
COMPLETED = 100_000  # of those that are completed
VALUES = 1_000  # of all ordered attributes together whose distributions are in the page
DIGITS = 4  # counts are rounded to this many digits below their standard error
POINTS = 80  # of the curve of errors, on each side of the release
FACTOR = 20.0  # the curve goes from epsilon / FACTOR to epsilon * FACTOR
FALSE_ALARMS = 0.05  # of the attacker in the explanation of mu


def document(
    release: TableRelease,
    *,
    confidence: float = 0.95,
    plan: Plan | None = None,
    cells: int = CELLS,
    adjusted: AdjustedTables | None = None,
) -> dict[str, Any]:
    """Everything the page shows. `plan` fills in the floor where the release does not know its plan.

    With `adjusted`, its tables are shown instead of the unbiased ones.

    Guarantees: numbers_are_those_of_the_release; same_release_same_document; tables_stay_below_the_cell_limit.
    """
    head = opening(release, confidence)
    privacy = head["privacy"]
    shown = (
        tables(release, cells) | distributions(release)
        if adjusted is None
        else adjusted_tables(adjusted, release.domain, cells)
    )
    rounds = adaptive(release, min(cells, COMPLETED)) if adjusted is None else None
    all_tables = shown["tables"] + (rounds["completed"] if rounds else [])
    named = {a for t in all_tables for a in t["attributes"]} | {d["attribute"] for d in shown["distributions"]}
    return {
        **head,
        "total": _total(release),
        "attributes": [_attribute(x, a in named) for a, x in enumerate(release.domain)],
        "errors": errors(release),
        "plans": [s.model_dump() for s in _summaries(release, plan)],
        "allocation": _allocation(release),
        # With another budget an adaptive release would measure something else.
        "curve": curve(privacy["mu"], 0.0 if rounds else privacy["epsilon"], privacy["delta"]),
        "adaptive": rounds,
        "adjusted": None,
        **({"public": list(footnotes(release.domain))} if release.domain.restrictions else {}),
        **shown,
    }


def opening(release: Release, confidence: float) -> dict[str, Any]:
    """What the page of a release of any kind begins with."""
    privacy = release.privacy.model_dump()
    return {
        "software": f"leastnoise {version('leastnoise')}",
        "dataset": release.dataset,
        "publication": None if release.publication is None else release.publication.model_dump(),
        "warning": INSECURE if release.insecure else None,
        "made": [{"created": run.created, "ledger_entry": run.ledger_entry} for run in release.origins],
        "privacy": privacy | {"change": release.cost.change, "caught": caught(privacy["mu"], release.cost.added_delta)},
        "counting": release.counting(confidence),
        "answers": answers(release, confidence),
        "confidence": confidence,
        "width": quantile(confidence),
    }


def answers(release: Release, confidence: float) -> list[dict[str, Any]]:
    """The questions that are answered for readers, each with its rows or why it has no answer; then sums of amounts."""
    return [
        {
            "question": item.question,
            "error": item.error,
            "note": item.note,
            "rows": [row.to_json() for row in item.rows],
        }
        for item in (*release.published_answers(confidence), *sums_of(release, confidence))
    ]


def caught(mu: float, added_delta: Fraction = Fraction(0)) -> float:
    """The best chance to notice one change of the data, where 5% false alarms are accepted.

    Gaussian privacy bounds the power of every test by that between N(0, 1) and N(mu, 1) (Dong, Roth and Su 2022); what
    holds up to some probability only may add that much.

    >>> round(caught(0.182), 4)
    0.0718
    """
    return min(float(ndtr(ndtri(FALSE_ALARMS) + mu)) + float(added_delta), 1.0)


def curve(mu: float, epsilon: float, delta: float) -> dict[str, Any]:
    """How mu, and with it every error, would move with epsilon; the release itself is at `own`.

    Errors are in proportion to 1 / mu, so the page needs nothing else.
    """
    if not epsilon:  # there is no epsilon to move, for example where delta alone is enough
        return {"own": 0, "epsilon": [], "mu": []}
    steps = FACTOR ** np.linspace(-1, 1, 2 * POINTS + 1)
    points = [(epsilon * float(s), gaussian.mu_for(epsilon * float(s), delta)) for s in steps]
    points[POINTS] = (epsilon, mu)
    return {"own": POINTS, "epsilon": [short(e) for e, _ in points], "mu": [short(m, 8) for _, m in points]}


def errors(release: TableRelease) -> dict[str, Any]:
    """Root mean square and largest standard error of each statement of the workload, as measured."""
    structure, variances = release.state.structure, release.state.errors
    sums = variances.table_sums(variances.plain)
    largest = np.array([variances.table_maximum(t) for t in structure.tables])
    groups = []
    for b, block in enumerate(structure.workload.blocks):
        mine = [i for i, t in enumerate(structure.tables) if t.block == b]
        names = [release.domain.names[a] for a in block.on]
        queries = block.count(release.domain)
        groups.append(
            {
                "family": block.label,
                "where": where({"attributes": names, "ways": block.ways, "tables": block.tables}),
                "tables": block.tables,
                "queries": queries,
                "weight": block.relative_weight(release.domain),
                "rmse": sqrt(float(sums[mine].sum()) / queries),
                "max_std_error": sqrt(float(largest[mine].max())),
                "target": block.target,
            }
        )
    queries = structure.workload.queries
    whole = {
        "queries": queries,
        "rmse": sqrt(float(sums.sum()) / queries),
        "max_std_error": sqrt(float(largest.max())),
    }
    return {"all": whole, "groups": groups}


def tables(release: TableRelease, cells: int = CELLS) -> dict[str, Any]:
    """Tables in reach, those of few attributes and few cells first, as far as the limits go; how many are left out."""
    listed = [names for names in release.tables() if names]
    shown = fitting(release.domain, listed, cells)
    known, domain = Errors(release), release.domain
    sums = known.above([[domain.index(n) for n in names] for names in shown])
    return {
        "tables": [_table(release, known, names, f) for names, f in zip(shown, file_names(shown), strict=True)],
        "sums": {key: _alike(errors) for key, errors in sums.items()},
        "left_out": len(listed) - len(shown),
    }


def _table(release: TableRelease, known: Errors, names: tuple[str, ...], file: str) -> dict[str, Any]:
    attributes = [release.domain.index(n) for n in names]
    own, zeros = known.at(known.cells(attributes)), impossible_cells(release.domain, attributes)
    # With dashes in place of impossible cells, sums are still those of the release: their noise is not left out.
    counts = release.state.marginal(attributes) if zeros and not release.doubling else release.counts(*names)
    return {"attributes": attributes, "file": f"{file}.csv", **_numbers(counts, own), **zeros}


def distributions(release: TableRelease, values: int = VALUES) -> dict[str, Any]:
    """Counts of ordered attributes in reach, each and cumulative, as far as the limit goes; how many are left out."""
    results = [
        a
        for a, attribute in enumerate(release.domain)
        if attribute.ordered and attribute.size > 2 and release.reach.has_table([a])
    ]
    shown = []
    for a in results:
        if release.domain.shape[a] <= values:
            values -= release.domain.shape[a]
            shown.append(_distribution(release, a))
    return {"distributions": shown, "distributions_left_out": len(results) - len(shown)}


def _distribution(release: TableRelease, a: int) -> dict[str, Any]:
    name = release.domain.names[a]
    attribute = release.domain.attributes[a]
    counts, known = release.counts(name), slice(0, attribute.known)  # of which unknown ones are no part
    variances = release.product_answers([a], [on_known(Prefix(), attribute)])[1]
    return {
        "attribute": a,
        "at_most": _numbers(counts[known].cumsum(), np.sqrt(variances[known])),
        "each": _numbers(counts[known], release.std_errors(name)[known]),
    }


def _numbers(values: Array, std_errors: Array) -> dict[str, Any]:
    """Numbers in few characters: rounded far below their errors; one error for all where they are the same."""
    least = float(std_errors.min(initial=inf, where=std_errors > 0))
    decimals = DIGITS - floor(log10(least)) if least < inf else DIGITS
    rounded = np.round(values.ravel(), decimals) + 0.0  # no negative zeros
    return {
        "counts": [int(x) if x == int(x) else x for x in rounded.tolist()],
        "std_errors": _alike(std_errors),
    }


def _alike(std_errors: Array) -> float | list[float]:
    """Standard errors, or the one that all of them are."""
    values, places = np.unique(std_errors, return_inverse=True)
    few = [short(e) for e in values.tolist()]
    return few[0] if len(set(few)) == 1 else [few[k] for k in places.ravel().tolist()]


def _total(release: TableRelease) -> list[float] | None:
    if not release.reach.has_table([]):
        return None
    total = release.total()
    return [total.value, total.std_error]


def _attribute(attribute: Attribute, named: bool) -> dict[str, Any]:
    """An attribute; values only where the page names them. Bins are marked on axes by their lower edges."""
    codes = range(attribute.size if named else 0)
    bins = isinstance(attribute.values.base, Bins)
    return {
        "name": attribute.name,
        "ordered": attribute.ordered,
        "size": attribute.size,
        "labels": [attribute.label(code) for code in codes],
        **(levels(attribute) if named else {}),
        "ticks": [_tick(attribute.value(code)) for code in codes] if bins else None,
    }


def _tick(edge: Any) -> str:
    return UNKNOWN if edge is None else f"{edge:,.10g}"


def _summaries(release: TableRelease, plan: Plan | None) -> list[Summary]:
    known = [o.summary for o in release.origins]
    if plan is not None and not any(known):
        return [plan.summary]
    return [s for s in known if s is not None]


def _allocation(release: TableRelease) -> dict[str, Any]:
    result = allocation(release.state.structure, [p.integer_plan for p in release.parts])
    shares = [{"attributes": list(names), "share": short(share)} for names, share in result.shares]
    choosing = short(result.choosing)
    return {"shares": shares, "rest": short(result.rest), "rest_sets": result.rest_sets, "choosing": choosing}
