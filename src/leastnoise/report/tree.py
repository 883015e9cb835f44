"""The report of a tree release: the tree with its counts, targets and intervals, in one page without script."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from leastnoise.domain.tree import Tree
from leastnoise.mechanisms.tree import TreeRelease
from leastnoise.planning.summary import number
from leastnoise.release.answers import interval_reach
from leastnoise.report.documents import opening
from leastnoise.report.frame import filled, framed, spent, write_page

NODES = 2_000  # of each tree in the page, from the root down
DEEP = 60  # levels in the page
OPEN = 2  # levels that are open at first
ROWS = 400  # of the table of levels


def document(release: TreeRelease, *, confidence: float = 0.95, nodes: int = NODES) -> dict[str, Any]:
    """Everything the page shows, as plain data.

    Guarantees: numbers_are_those_of_the_release; long_trees_are_cut.
    """
    head = opening(release, confidence)
    frame = release.plan.levels()
    return {
        **head,
        "columns": release.plan.columns,
        "levels": frame.astype(object).where(frame.notna(), None).to_dict("records"),
        "cells": prod(release.leaves.shape),
        "trees": [_tree(release, axis, nodes, head["width"]) for axis in range(len(release.trees))],
        "exact": None if release.plan.exact is None else release.plan.exact.listed(),
    }


def _tree(release: TreeRelease, axis: int, most: int, width: float) -> dict[str, Any]:
    """The first nodes of one tree, level by level; summed over the other trees."""
    tree = release.trees[axis]
    deepest = int(tree.ends[min(DEEP, tree.depth)])
    some = np.arange(min(tree.nodes, most, deepest))
    nodes = [some if a == axis else np.zeros(1, dtype=np.int64) for a in range(len(release.trees))]
    errors = np.sqrt(release.law.node_variances(nodes)).ravel()
    ranges = np.stack([tree.starts[some], tree.starts[some] + tree.sizes[some]], axis=-1)
    whole = [np.broadcast_to([0, t.leaf_count], ranges.shape) for t in release.trees]
    whole[axis] = ranges
    counts = release.totals(ranges if len(release.trees) == 1 else np.stack(whole, axis=-2))
    return {
        "attribute": release.names[axis],
        "nodes": tree.nodes,
        "leaves": tree.leaf_count,
        "names": [_label(tree, i) for i in some.tolist()],
        "children": tree.children[some].tolist(),
        "first": tree.first[some].tolist(),
        "level": tree.level_of(some).tolist(),
        "counts": counts.tolist(),
        "reach": interval_reach(counts, width * errors).tolist(),
    }


def _label(tree: Tree, node: int) -> str:
    return f"node {node}" if tree.names is None else tree.names[node]


def write(release: TreeRelease, path: str | Path, *, confidence: float = 0.95, nodes: int = NODES) -> dict[str, Any]:
    """Write the report to an HTML file, complete or not at all; returns the numbers behind it."""
    return write_page(path, lambda: document(release, confidence=confidence, nodes=nodes), render)


def count(numbers: dict[str, Any]) -> tuple[str, int, int]:
    """What the page shows, how much of it, and how much is left out."""
    shown = sum(len(tree["names"]) for tree in numbers["trees"])
    return "nodes", shown, sum(tree["nodes"] for tree in numbers["trees"]) - shown


def render(fields: dict[str, Any]) -> str:
    """The page for a document.

    Guarantees: text_is_escaped; loads_nothing_and_has_no_script; same_document_same_page.
    """
    first = fields["trees"][0]
    body = {
        "confidence": f"{100 * fields['confidence']:.4g}%",
        "trees": "".join(_tree_html(tree) for tree in fields["trees"]),
    }
    return framed(
        fields,
        kind="Tree release report",
        name="Differentially private counts",
        glance=_glance(fields),
        sections={"trees": "Counts"},
        body=filled("tree.html", body),
        review=filled("tree_review.html", {"levels": _levels(fields)}),
        notes=_notes(fields),
        styles=("style.css", "tree.css"),
        example=(first["counts"][0], first["reach"][0]),
    )


def _glance(fields: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield from spent(fields)
    first = fields["trees"][0]
    yield "Rows counted", _count(first["counts"][0], first["reach"][0])
    yield "Counts that add up", f"{fields['cells']:,}"
    yield "Largest standard error", number(max(row["std_error"] for row in fields["levels"]))


def _count(value: int, spread: float) -> str:
    return f"{value:,} ± {number(spread)}" if spread else f"{value:,} (exact)"


def _levels(fields: dict[str, Any]) -> str:
    heads = [*fields["columns"], "nodes", "target s.e.", "s.e.", f"within ({100 * fields['confidence']:.4g}%)"]
    rows = []
    for row in fields["levels"][:ROWS]:
        target = "-" if row["target"] is None else number(row["target"])
        cells = [*(str(row[c]) for c in fields["columns"]), f"{row['nodes']:,}", target]
        cells += [number(row["std_error"]), number(float(interval_reach(0, fields["width"] * row["std_error"])))]
        rows.append("".join(f'<td class="number">{escape(c)}</td>' for c in cells))
    head = "".join(f'<th scope="col" class="number">{escape(h)}</th>' for h in heads)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _tree_html(tree: dict[str, Any]) -> str:
    """Nested lists that open and close; without recursion, as trees may be deep."""
    shown = len(tree["names"])
    out = [f"<h3>{escape(tree['attribute'])}</h3>", '<ul class="tree">']
    todo: list[int | str] = [0]
    while todo:
        node = todo.pop()
        if isinstance(node, str):
            out.append(node)
            continue
        line = _line(tree, node)
        children = tree["children"][node]
        if not children:
            out.append(f'<li><div class="leaf">{line}</div></li>')
            continue
        first = tree["first"][node]
        inside = range(first, min(first + children, shown))
        mark = " open" if tree["level"][node] < OPEN else ""
        out.append(f"<li><details{mark}><summary>{line}</summary><ul>")
        missing = children - len(inside)
        more = f'<li class="more">{missing:,} nodes are left out of this page</li>' if missing else ""
        todo.append(f"{more}</ul></details></li>")
        todo.extend(reversed(inside))
    out.append("</ul>")
    return "".join(out)


def _line(tree: dict[str, Any], node: int) -> str:
    value, reach = tree["counts"][node], tree["reach"][node]
    name = escape(tree["names"][node])
    if not reach:
        return f'{name} <span class="count">{value:,}</span> <span class="exact">exact</span>'
    interval = f"{value - reach:,.1f} to {value + reach:,.1f}"
    return f'{name} <span class="count">{value:,}</span> <span class="interval">{interval}</span>'


def _notes(fields: dict[str, Any]) -> Iterator[str]:
    yield (
        f"Intervals hold with {100 * fields['confidence']:.4g}% confidence each. The noise is Gaussian but for "
        "rounding to whole numbers, which standard errors allow for; its size does not depend on the data."
    )
    yield "Counts are whole numbers and add up exactly, on every level. They are unbiased, so they may be negative."
    yield "Any other sum of the smallest counts can be made, with its own exact error; see leastnoise ask."
    if fields["exact"]:
        yield f"Exact, and not protected: {fields['exact']}."
    for tree in fields["trees"]:
        if len(tree["names"]) < tree["nodes"]:
            yield f"Of {tree['attribute']} the first {len(tree['names']):,} of {tree['nodes']:,} nodes are shown."
    if len(fields["trees"]) > 1:
        yield "Each tree is shown summed over the others; the release has all combinations."
    yield "Errors are those of the noise alone; sampling and response errors of the data come on top."
