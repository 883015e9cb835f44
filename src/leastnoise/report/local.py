"""The report of a collector: what devices sent, and the answers with their intervals, in one page without script."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from importlib.metadata import version
from math import exp
from pathlib import Path
from typing import Any

from leastnoise.local import Collector, LocalPlan
from leastnoise.local.frames import answers_frame
from leastnoise.planning.summary import number
from leastnoise.report.documents import FALSE_ALARMS
from leastnoise.report.frame import filled, framed, write_page

SEEDED = "Some reports came from a seed. Whoever knows it reads the records from them: this page protects nobody."
ROWS = 2_000  # queries in the page
CHART = 8  # queries of a table from which on it has a chart
WIDTH, HEIGHT = 640, 160  # of a chart


def document(
    collector: Collector, *, confidence: float = 0.95, rows: int = ROWS, simultaneous: bool = False
) -> dict[str, Any]:
    """Everything the page shows, as plain data.

    Guarantees: the_page_has_the_numbers_and_no_script; long_answers_are_cut_on_the_page.
    """
    plan, frame = collector.plan, answers_frame(collector, confidence, simultaneous)
    shown = frame.head(rows)
    return {
        "software": f"leastnoise {version('leastnoise')}",
        "dataset": None,
        "warning": SEEDED if collector.insecure else None,
        "seeded": collector.seeded,
        "made": [],
        "privacy": {
            "epsilon": float(plan.epsilon),
            "delta": plan.delta,
            "statement": SEEDED if collector.insecure else statement(plan),
            "change": "the record of one device",
            "caught": caught(float(plan.epsilon), plan.delta),
        },
        "confidence": confidence,
        "simultaneous": simultaneous,
        "split": plan.split,
        "fingerprint": plan.fingerprint,
        "reports": collector.reports,
        "rejected": dict(collector.rejected),
        "report_bytes": plan.report_bytes,
        "queries": len(frame),
        "bias": plan.bias,
        "max_std_error": float(frame["std_error"].max()),
        "influence": float(frame["influence"].max()),
        "tables": [
            {"family": family, "attributes": attributes, "rows": some.to_dict("records")}
            for (family, attributes), some in shown.groupby(["family", "attributes"], sort=False)
        ],
    }


def statement(plan: LocalPlan) -> str:
    """What a device spends."""
    delta = f" and delta {plan.delta:g}" if plan.delta else ""
    return (
        f"Every report satisfies local differential privacy with epsilon {float(plan.epsilon):g}{delta}: whoever reads "
        "it, it is about as likely under any other record of its device. A device that reports twice spends it twice."
    )


def caught(epsilon: float, delta: float) -> float:
    """The best chance to notice another record, where 5% false alarms are accepted (Kairouz, Oh and Viswanath 2017).

    >>> round(caught(1, 0), 4)
    0.1359
    """
    return min(exp(epsilon) * FALSE_ALARMS + delta, 1 - exp(-epsilon) * (1 - FALSE_ALARMS - delta))


def write(
    collector: Collector,
    path: str | Path,
    *,
    confidence: float = 0.95,
    rows: int = ROWS,
    simultaneous: bool = False,
) -> dict[str, Any]:
    """Write the report to an HTML file, complete or not at all; returns the numbers behind it."""
    return write_page(
        path, lambda: document(collector, confidence=confidence, rows=rows, simultaneous=simultaneous), render
    )


def render(fields: dict[str, Any]) -> str:
    """The page for a document.

    Guarantees: text_is_escaped; loads_nothing_and_has_no_script; same_document_same_page.
    """
    body = {
        "confidence": f"{100 * fields['confidence']:.4g}%",
        "answers": "".join(_answers(table, fields["reports"]) for table in fields["tables"]),
    }
    return framed(
        fields,
        kind="Local collection report",
        name="Counts from devices that trust nobody",
        glance=_glance(fields),
        sections={"answers": "Answers"},
        body=filled("local.html", body),
        review=filled("local_review.html", {"reports": _table(["reports", "number"], _reports(fields))}),
        notes=_notes(fields),
        styles=("style.css",),
    )


def _glance(fields: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if fields["warning"]:
        yield "Privacy", f"none ({fields['seeded']:,} reports from a seed)"
        yield from _figures(fields)
        return
    delta = f" at δ {fields['privacy']['delta']:g}" if fields["privacy"]["delta"] else ""
    yield "Spent by each device", f"ε {fields['privacy']['epsilon']:.4g}{delta}"
    yield from _figures(fields)


def _figures(fields: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "Reports", f"{fields['reports']:,}"
    yield "Statistics asked for", f"{fields['queries']:,}"
    yield (
        "Largest standard error",
        f"{number(fields['max_std_error'])} ({fields['max_std_error'] / fields['reports']:.2%})",
    )
    yield "One forged report moves", f"{number(fields['influence'])} at most"


def _reports(fields: dict[str, Any]) -> list[list[str]]:
    taken = [[f"taken, {fields['report_bytes']} bytes each", f"{fields['reports']:,}"]]
    return taken + [[f"rejected for their {reason}", f"{count:,}"] for reason, count in fields["rejected"].items()]


def _answers(table: dict[str, Any], reports: int) -> str:
    name = f"{table['family']} of {table['attributes']}" if table["attributes"] else table["family"]
    rows = table["rows"]
    heads = ["query", "answer", "of devices", "s.e.", "from", "to"]
    cells = [
        [
            row["query"],
            f"{row['answer']:,.0f}",
            f"{row['answer'] / reports:.2%}",
            number(row["std_error"]),
            f"{row['low']:,.0f}",
            f"{row['high']:,.0f}",
        ]
        for row in rows
    ]
    chart = _chart(name, rows) if len(rows) >= CHART else ""
    region = f'<div class="scroll" role="region" aria-label="{escape(name)}" tabindex="0">'
    return f"<h3>{escape(name)}</h3>{chart}{region}{_table(heads, cells)}</div>"


def _chart(name: str, rows: Sequence[dict[str, Any]]) -> str:
    """Answers in the order of the queries, with a band for the intervals."""
    low, high = min(0.0, *(r["low"] for r in rows)), max(r["high"] for r in rows)
    scale = HEIGHT / ((high - low) or 1.0)

    def points(key: str, order: Sequence[int]) -> str:
        return " ".join(f"{(i + 0.5) * WIDTH / len(rows):.1f},{(high - rows[i][key]) * scale:.1f}" for i in order)

    there = range(len(rows))
    band = f"{points('low', there)} {points('high', there[::-1])}"
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="100%" role="img" aria-label="{escape(name)}, with intervals">'
        f'<polygon points="{band}" fill="currentColor" opacity="0.2"/>'
        f'<polyline points="{points("answer", there)}" fill="none" stroke="currentColor" stroke-width="1.5"/></svg>'
    )


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    kinds = ["", *[' class="number"'] * (len(heads) - 1)]
    head = "".join(f'<th scope="col"{k}>{escape(h)}</th>' for h, k in zip(heads, kinds, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{k}>{escape(c)}</td>" for c, k in zip(row, kinds, strict=True)) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _notes(fields: dict[str, Any]) -> Iterator[str]:
    how = "all at once" if fields["simultaneous"] else "each"
    others = "" if fields["split"] else " and for those that might have come instead"
    yield (
        f"Intervals hold with {100 * fields['confidence']:.4g}% confidence {how}, for the devices that reported"
        f"{others}. Devices that stayed silent are not counted."
    )
    if fields["bias"]:
        yield (
            f"Answers may be off by {fields['bias']:.4g} of the devices beside the noise; intervals make room for that."
        )
    else:
        yield "Answers are unbiased, so they may be negative or fractions, and need not agree with each other."
    yield "Devices may lie about their records or forge reports; what one of them can do is stated above."
    shown = sum(len(table["rows"]) for table in fields["tables"])
    if shown < fields["queries"]:
        yield f"The first {shown:,} of {fields['queries']:,} answers are shown; leastnoise local answers --csv has all."
    yield f"Plan {fields['fingerprint']}."
