"""Tables and workloads as data frames."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product as combinations_of
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from leastnoise._types import Array
from leastnoise.domain import Attribute, Bins, Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.factorize.strategy import along
from leastnoise.plan.variance import positions
from leastnoise.release.answers import quantile
from leastnoise.residual import split
from leastnoise.workload import Block, Family, Workload
from leastnoise.workload.families import Marginal, Prefix, Suffix, Total

if TYPE_CHECKING:
    from leastnoise.release.release import Release

TINY = 1e-9  # relative size of a residual piece that is only rounding


def values_of(attribute: Attribute) -> list[Any]:
    """What tables show for each code: the value itself, or the bin."""
    show = attribute.label if isinstance(attribute.values, Bins) else attribute.value
    return [show(code) for code in range(attribute.size)]


def with_errors(frame: dict[str, Any], what: str, values: Array, errors: Array, width: float) -> pd.DataFrame:
    """A frame with a number, its standard error and an interval."""
    spread = width * errors
    return pd.DataFrame({**frame, what: values, "std_error": errors, "low": values - spread, "high": values + spread})


def table_frame(
    domain: Domain, attributes: Sequence[int], counts: Array, errors: Array, confidence: float, simultaneous: bool
) -> pd.DataFrame:
    """One row per cell; the last attribute varies fastest."""
    check_names(domain.names[a] for a in attributes)
    columns: dict[str, Any] = {}
    for axis, a in enumerate(attributes):
        codes = np.indices(counts.shape, dtype=np.int32)[axis].ravel()
        columns[domain.names[a]] = pd.Series(values_of(domain.attributes[a])).take(codes).to_numpy()
    width = quantile(confidence, counts.size if simultaneous else 1)
    return with_errors(columns, "count", counts.ravel(), errors.ravel(), width)


def check_names(names: Iterable[str]) -> None:
    """Refuse attributes that would be taken for the columns beside them."""
    reserved = {"count", "std_error", "low", "high"} & set(names)
    if reserved:
        raise LeastnoiseError(
            f"the attribute {min(reserved)!r} has the name of a column; use counts() and std_errors()"
        )


def answers_frame(release: Release, workload: Workload, confidence: float, labels: bool = True) -> pd.DataFrame:
    """All queries of a workload: group, attributes, query, answer and its error."""
    if workload.domain != release.domain:
        raise LeastnoiseError("the workload is on another domain than the release; build it from release.domain")
    if not workload.blocks:
        raise LeastnoiseError("the workload is empty; add queries, for example workload.marginals(ways=2)")
    width = quantile(confidence)
    frames = []
    for g, block in enumerate(workload.blocks):
        for subset in block.subsets():
            values, variances = block_answers(release, block, subset)
            names = [workload.domain.names[a] for a in subset]
            text = row_labels(workload.domain, block, subset) if labels else range(len(values))
            start = {"group": g, "family": block.label, "attributes": ", ".join(names), "query": text}
            frames.append(with_errors(start, "answer", values, np.sqrt(variances), width))
    return pd.concat(frames, ignore_index=True)


def block_answers(release: Release, block: Block, subset: tuple[int, ...]) -> tuple[Array, Array]:
    """Answers and variances of all queries of one statement on one attribute set, in the order of its rows."""
    state = release.state
    order = state.order(subset)
    sizes = [release.domain.shape[a] for a in subset]
    table = state.marginal(subset)
    if not block.is_product:
        rows = block.tensor.plain.rows(tuple(sizes)).reshape(-1, *sizes)
        _check_rows(release, subset, rows)
        moved = rows.transpose([0, *(1 + subset.index(a) for a in order)])
        return rows.reshape(len(rows), -1) @ table.ravel(), state.errors.variances_of(moved, state.orbit(order))
    families = [block.family(a).plain for a in subset]
    matrices = [f.rows(n) for f, n in zip(families, sizes, strict=True)]
    _check_products(release, subset, matrices)
    for axis, m in enumerate(matrices):
        table = along(m.T, table, axis)
    found = state.errors.product_variances([families[subset.index(a)] for a in order], state.orbit(order))
    return table.ravel(), found.transpose([order.index(a) for a in subset]).ravel()


def _check_products(release: Release, subset: tuple[int, ...], matrices: Sequence[Array]) -> None:
    """Products need the residual of a set of axes where rows vary along these axes and do not cancel along others."""
    release.reach.check_wide(subset)
    scale = prod(float(np.abs(m).max(initial=0.0)) for m in matrices)
    inside, outside = [], []
    for a, m in zip(subset, matrices, strict=True):
        mean = m @ release.state.prior(a)
        inside.append(float(np.abs(m - mean[:, None]).max(initial=0.0)))
        outside.append(float(np.abs(mean).max(initial=0.0)))
    missing = {}
    for kept in positions(len(subset)):
        members = release.state.order([subset[p] for p in kept])
        worst = prod(inside[p] if p in kept else outside[p] for p in range(len(subset)))
        if worst > TINY * scale and release.state.find(members) is None:
            missing[members] = worst
    release.reach.check(missing)


def _check_rows(release: Release, subset: tuple[int, ...], rows: Array) -> None:
    release.reach.check_wide(subset)
    priors = [release.state.prior(a) for a in subset]
    missing = {}
    for kept in positions(len(subset)):
        members = release.state.order([subset[p] for p in kept])
        if release.state.find(members) is None:
            worst = float(np.abs(split(rows, priors, kept)).max(initial=0.0))
            if worst > TINY * np.abs(rows).max(initial=0.0):
                missing[members] = worst
    release.reach.check(missing)


def row_labels(domain: Domain, block: Block, subset: tuple[int, ...]) -> list[str]:
    """Each query in words, where its family has words."""
    if not block.is_product:
        sizes = tuple(domain.shape[a] for a in subset)
        return [f"row {k}" for k in range(block.tensor.count(sizes))]
    words = [_axis_labels(domain.attributes[a], block.family(a)) for a in subset]
    return [" and ".join(w for w in pick if w) or "everybody" for pick in combinations_of(*words)]


def _axis_labels(attribute: Attribute, family: Family) -> list[str]:
    n, name = attribute.size, attribute.name
    if isinstance(family.plain, Marginal):
        return [f"{name} = {attribute.label(k)}" for k in range(n)]
    if isinstance(family.plain, Total):
        return [""]
    if isinstance(family.plain, Suffix):
        return [f"{name} from {attribute.label(k)}" for k in range(n)]  # before prefix, of which it is a kind
    if isinstance(family.plain, Prefix):
        return [f"{name} up to {attribute.label(k)}" for k in range(n)]
    spans = family.plain.spans(n)
    if spans is None:
        return [f"{name} row {k}" for k in range(family.count(n))]
    words = ("outside", "from")
    return [
        f"{name} {words[0] if flip else words[1]} {attribute.label(low)} to {attribute.label(high)}"
        for low, high, flip in zip(*(s.tolist() for s in spans), strict=True)
    ]
