"""Static plots for notebooks, with Altair (the extra `plots`)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from leastnoise._lazy import optional
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.tables.plan import Plan
from leastnoise.planning.summary import number, where
from leastnoise.release import Release
from leastnoise.release.answers import interval_reach, quantile
from leastnoise.report.allocation import allocation

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

WIDTH = 520
BLUE, INK, ORANGE = "#5b93bb", "#1a1f26", "#b14a00"  # distinguished by the colour-blind
MOST_CELLS = 5_000  # what Altair embeds in a chart by default


def plot_table(release: Release, *names: str, confidence: float = 0.95) -> alt.LayerChart | alt.Chart:
    """A table of one attribute as bars or a band with intervals, of two as a heat map."""
    import pandas as pd

    if len(names) not in (1, 2):
        raise LeastnoiseError(f"a plot shows one or two attributes, not {len(names)}; name them, for example 'age'")
    counts, errors = release.counts(*names), release.std_errors(*names)
    if counts.size > MOST_CELLS:
        raise LeastnoiseError(f"{counts.size:,} cells are too many for a plot; use release.table or the report")
    attributes = [release.domain[name] for name in names]
    spread = interval_reach(counts.ravel(), quantile(confidence) * errors.ravel())
    # Fixed column names: an attribute's own may have dots or brackets, which mean something to Vega.
    frame = pd.DataFrame({"count": counts.ravel(), "std_error": errors.ravel()})
    frame["low"], frame["high"] = frame["count"] - spread, frame["count"] + spread
    last = counts.shape[-1]
    codes = [frame.index] if len(names) == 1 else [frame.index // last, frame.index % last]
    for axis, attribute in enumerate(attributes):
        labels = _distinct([attribute.label(code) for code in range(attribute.size)])
        frame[f"value{axis}"] = [labels[code] for code in codes[axis]]
    if len(names) == 2:
        return _heat_map(frame, names, confidence)
    return _one_way(frame, names[0], attributes[0].ordered, confidence)


def _tooltip(names: tuple[str, ...], confidence: float) -> list[Any]:
    alt = _altair()
    values = [alt.Tooltip(f"value{axis}:N", title=name) for axis, name in enumerate(names)]
    titles = {"count": "count", "std_error": "std. error"}
    titles |= {end: f"{end} ({confidence:.4g})" for end in ("low", "high")}
    return values + [alt.Tooltip(f"{column}:Q", title=title, format=",.1f") for column, title in titles.items()]


def _one_way(frame: pd.DataFrame, name: str, ordered: bool, confidence: float) -> alt.LayerChart:
    alt = _altair()
    where_ = alt.X("value0:N", sort=None, title=name, axis=alt.Axis(labelOverlap=True))
    base = alt.Chart(frame).encode(tooltip=_tooltip((name,), confidence))
    ends = {"y": alt.Y("low:Q", title="count"), "y2": "high:Q"}
    if ordered and len(frame) > 2:
        marks = base.mark_area(opacity=0.3, color=BLUE), base.mark_line(color=BLUE, point=alt.OverlayMarkDef(size=12))
        shown = [marks[0].encode(x=where_, **ends), marks[1].encode(x=where_, y=alt.Y("count:Q"))]
    else:
        shown = [
            base.mark_bar(color=BLUE).encode(x=where_, y=alt.Y("count:Q", title="count")),
            base.mark_rule(color=INK).encode(x=where_, **ends),
        ]
    return alt.layer(*shown).properties(width=WIDTH)


def _heat_map(frame: pd.DataFrame, names: tuple[str, ...], confidence: float) -> alt.Chart:
    alt = _altair()
    scale = alt.Scale(scheme="blues", domain=[0, max(float(frame["count"].max()), 1e-9)], clamp=True)
    return (
        alt.Chart(frame)
        .mark_rect()
        .encode(
            x=alt.X("value1:N", sort=None, title=names[1], axis=alt.Axis(labelOverlap=True)),
            y=alt.Y("value0:N", sort=None, title=names[0], axis=alt.Axis(labelOverlap=True)),
            color=alt.Color("count:Q", scale=scale),
            tooltip=_tooltip(names, confidence),
        )
        .properties(width=WIDTH)
    )


def plot_plan(plan: Plan) -> alt.VConcatChart:
    """The error of each statement of a plan, and the shares of its budget."""
    import pandas as pd

    alt = _altair()
    groups = plan.groups()
    frame = pd.DataFrame(
        {
            "what": _distinct([f"{g['family']} on {where(g)}" for g in groups]),
            "rmse": [g["rmse"] for g in groups],
            "largest": [g["max_std_error"] for g in groups],
        }
    )
    base = alt.Chart(frame).encode(
        y=alt.Y("what:N", sort=None, title=None, axis=alt.Axis(labelLimit=320)),
        tooltip=[
            alt.Tooltip("what:N", title="statement"),
            alt.Tooltip("rmse:Q", title="typical error (RMSE)", format=",.4g"),
            alt.Tooltip("largest:Q", title="largest standard error", format=",.4g"),
        ],
    )
    errors = alt.layer(
        base.mark_bar(color=BLUE).encode(x=alt.X("rmse:Q", title="typical error (bar), largest (tick)")),
        base.mark_tick(color=ORANGE, thickness=2).encode(x="largest:Q"),
    )
    floor = f"{plan.unit} {number(plan.value)}; floor of any factorization {number(plan.floor_value)}"
    return alt.vconcat(
        errors.properties(width=WIDTH, title=alt.TitleParams(f"Errors at {plan.budget}", subtitle=floor)),
        _shares(plan).properties(width=WIDTH, title="Shares of the budget (μ²)"),
    )


def _shares(plan: Plan) -> alt.Chart:
    import pandas as pd

    alt = _altair()
    result = allocation(plan.integer_plan.structure, [plan.integer_plan])
    rows = [{"what": " × ".join(names) or "total", "share": share} for names, share in result.shares]
    if result.rest_sets:
        rows.append({"what": f"{result.rest_sets:,} further", "share": result.rest})
    return (
        alt.Chart(pd.DataFrame(rows))
        .mark_bar(color=BLUE)
        .encode(
            x=alt.X("share:Q", axis=alt.Axis(format="%"), title=None),
            y=alt.Y("what:N", sort=None, title=None, axis=alt.Axis(labelLimit=320)),
            tooltip=[alt.Tooltip("what:N", title="attributes"), alt.Tooltip("share:Q", format=".2%")],
        )
    )


def _distinct(texts: list[str]) -> list[str]:
    """Repeated texts with numbers, because a chart adds up what has the same name.

    >>> _distinct(["a", "b", "a"])
    ['a', 'b', 'a (2)']
    """
    seen: Counter[str] = Counter()
    out = []
    for text in texts:
        seen[text] += 1
        out.append(text if seen[text] == 1 else f"{text} ({seen[text]})")
    return out


def _altair() -> Any:
    return optional("a plot", "altair", extra="plots")
