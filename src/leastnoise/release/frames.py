"""Tables and workloads as data frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product as combinations_of
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.algebra.residual import split, subsets
from leastnoise.domain.attributes import Attribute, Domain
from leastnoise.domain.restrictions import Mask
from leastnoise.errors import LeastnoiseError
from leastnoise.planning.embedding import Shifts, Unfolded, folded
from leastnoise.release.answers import interval_reach, quantile
from leastnoise.strategies.strategy import along
from leastnoise.workload import Block, Family, Workload
from leastnoise.workload.families import Cyclic, Marginal, Matrix, Prefix, Suffix, Threshold, Total
from leastnoise.workload.hierarchy import Nodes, hierarchy_of
from leastnoise.workload.known import Known
from leastnoise.workload.sums import Sum, sum_of

if TYPE_CHECKING:
    import pandas as pd

    from leastnoise.release.release import Release
    from leastnoise.release.table_release import TableRelease

IMPOSSIBLE = "impossible"  # the note of a cell that cannot have rows
TINY = 1e-9  # relative size of a residual piece that is only rounding
COLUMNS = frozenset({"count", "sum", "std_error", "low", "high"})  # of tables, beside attributes
MOST_ANSWERS = 10**8  # rows of a frame with all answers


def values_of(attribute: Attribute) -> list[Any]:
    """What tables show for each code: the value itself, its label, or the bin."""
    return [attribute.values.shown(code) for code in range(attribute.size)]


def labels_of(attribute: Attribute) -> list[str]:
    """The same as texts: what files say where every value is a text."""
    return [str(value) for value in values_of(attribute)]


def with_errors(
    frame: dict[str, Any], what: str, values: Array, errors: Array, width: float, biases: Array | None = None
) -> pd.DataFrame:
    """A frame with a number, its standard error and an interval, after how far its mean may be off, where it may."""
    import pandas as pd

    spread = width * errors
    if biases is not None:
        frame, spread = frame | {"bias": biases}, spread + biases
    spread = interval_reach(values, spread)
    return pd.DataFrame({**frame, what: values, "std_error": errors, "low": values - spread, "high": values + spread})


def table_frame(
    domain: Domain,
    attributes: Sequence[int],
    counts: Array,
    errors: Array,
    confidence: float,
    simultaneous: bool,
    shown: Mapping[int, Sequence[Any]] | None = None,
    what: str = "count",
) -> pd.DataFrame:
    """One row per cell; the last attribute varies fastest. `shown` stands in place of the values of attributes."""
    import pandas as pd

    check_names(domain.names[a] for a in attributes)
    columns: dict[str, Any] = {}
    for axis, a in enumerate(attributes):
        codes = np.indices(counts.shape, dtype=np.int32)[axis].ravel()
        values = shown[a] if shown is not None and a in shown else values_of(domain.attributes[a])
        columns[domain.names[a]] = pd.Series(values).take(codes).to_numpy()
    width = quantile(confidence, counts.size if simultaneous else 1)
    return with_errors(columns, what, counts.ravel(), errors.ravel(), width)


def sums_frame(release: Release, attributes: Sequence[int], confidence: float, simultaneous: bool) -> pd.DataFrame:
    """Sums of the amounts among some attributes, of their product where there are several, by the other attributes."""
    domain = release.domain
    families = [sum_of(domain.attributes[a]) if a in domain.amounts else Marginal() for a in attributes]
    sums, variances = release.product_answers(attributes, families)
    amounts = tuple(axis for axis, a in enumerate(attributes) if a in domain.amounts)
    groups = [a for a in attributes if a not in domain.amounts]
    values, errors = sums.squeeze(amounts), np.sqrt(variances.squeeze(amounts))
    return table_frame(domain, groups, values, errors, confidence, simultaneous, what="sum")


def noted(frame: pd.DataFrame, possible: Mask | None, notes: str = "note") -> pd.DataFrame:
    """A table with a mark on each cell that cannot have rows, where it has such cells."""
    if possible is None or notes in frame.columns:
        return frame
    return frame.assign(**{notes: np.where(possible.ravel(), "", IMPOSSIBLE)})


def level_frame(
    release: Release, names: Sequence[str], levels: Mapping[str, object], confidence: float, simultaneous: bool
) -> pd.DataFrame:
    """A table in which some attributes stand at a level of their hierarchy: its nodes, and leaves that end above it."""
    domain = release.domain
    if odd := [name for name in levels if name not in names]:
        raise LeastnoiseError(f"a level is given for {odd[0]!r}, which is not in the table; name it there too")
    attributes = [domain.index(name) for name in names]
    across = {domain.index(name): hierarchy_of(domain[name]).across(level) for name, level in levels.items()}
    families = [level_family(domain.attributes[a], across[a]) if a in across else Marginal() for a in attributes]
    counts, variances = release.product_answers(attributes, families)
    shown = {}
    for a, nodes in across.items():
        order = np.argsort(np.argsort(nodes))  # rows come by number, tables from left to right
        axis = attributes.index(a)
        counts, variances = counts.take(order, axis=axis), variances.take(order, axis=axis)
        shown[a] = [hierarchy_of(domain.attributes[a]).names[node] for node in nodes.tolist()]
    return table_frame(domain, attributes, counts, np.sqrt(variances), confidence, simultaneous, shown)


def level_family(attribute: Attribute, which: IntArray) -> Family:
    """The nodes of a level, or any others, as queries."""
    tree = hierarchy_of(attribute).tree
    requested = np.zeros(tree.nodes)
    requested[which] = 1.0
    return Nodes(tree, requested)


def check_showable(names: Iterable[str], method: str) -> None:
    """Refuse attributes of a spec that no table could show, before anything is spent."""
    taken = [name for name in names if name in COLUMNS]
    if taken and method not in ("matrix", "stream"):
        raise LeastnoiseError(
            f"the attribute {taken[0]!r} has the name of a column of every table; call it otherwise and say where it "
            f"is, as in '{taken[0]}_: {{column: {taken[0]}, ...}}'"
        )


def check_names(names: Iterable[str]) -> None:
    """Refuse attributes that would be taken for the columns beside them."""
    if reserved := COLUMNS & set(names):
        raise LeastnoiseError(
            f"the attribute {min(reserved)!r} has the name of a column; use counts() and std_errors()"
        )


def answers_frame(release: Release, workload: Workload, confidence: float, labels: bool = True) -> pd.DataFrame:
    """All queries of a workload: group, attributes, query, answer and its error."""
    import pandas as pd

    if not isinstance(workload, Workload):
        raise LeastnoiseError(f"{workload!r} is no workload; ask() answers single queries")
    if workload.domain != release.domain:
        raise LeastnoiseError("the workload is on another domain than the release; build it from release.domain")
    if not workload.blocks:
        raise LeastnoiseError("the workload is empty; add queries, for example workload.marginals(ways=2)")
    if workload.queries > MOST_ANSWERS:
        raise LeastnoiseError(
            f"the workload has {workload.queries:,} queries, of which at most {MOST_ANSWERS:,} are listed at once; "
            "use ask() for those of interest, or answer(workload) with fewer"
        )
    width = quantile(confidence)
    frames = []
    for g, block in enumerate(workload.blocks):
        for subset in block.subsets():
            values, variances = block_answers(release, block, subset)
            names = [workload.domain.names[a] for a in subset]
            text = row_labels(workload.domain, block, subset) if labels else range(len(values))
            start = {"group": g, "family": block.label, "attributes": ", ".join(names), "query": text}
            biases = None
            if block.is_product:
                biases = release.answer_biases(subset, [block.family(a).plain for a in subset])
            frames.append(with_errors(start, "answer", values, np.sqrt(variances), width, biases))
    return pd.concat(frames, ignore_index=True)


def block_answers(release: Release, block: Block, subset: tuple[int, ...]) -> tuple[Array, Array]:
    """Answers and variances of all queries of one statement on one attribute set, in the order of its rows."""
    if block.is_product:
        values, variances = release.product_answers(subset, [block.family(a).plain for a in subset])
        return values.ravel(), variances.ravel()
    sizes = tuple(release.domain.shape[a] for a in subset)
    return release.row_answers(subset, block.tensor.plain.rows(sizes).reshape(-1, *sizes))


def state_answers(release: TableRelease, subset: Sequence[int], rows: Array) -> tuple[Array, Array]:
    """Answers and variances of any queries on one table, from the residuals of a release of tables."""
    _check_rows(release, subset, rows)
    state = release.state
    order, table = state.order(subset), state.marginal(subset)
    moved = rows.transpose([0, *(1 + list(subset).index(a) for a in order)])
    return rows.reshape(len(rows), -1) @ table.ravel(), state.errors.variances_of(moved, state.orbit(order))


def state_products(release: TableRelease, subset: Sequence[int], families: Sequence[Family]) -> tuple[Array, Array]:
    """Answers and variances of all products of one row per attribute, from the residuals of a release of tables."""
    _check_products(release, subset, families)
    state = release.state
    order, table = state.order(subset), state.marginal(subset)
    for axis, f in enumerate(families):
        table = _applied(f, table, axis)
    product_variances = state.errors.product_variances([families[subset.index(a)] for a in order], state.orbit(order))
    return table, product_variances.transpose([order.index(a) for a in subset])


def _runs(family: Family, n: int) -> tuple[IntArray, IntArray] | None:
    """First and last value of each query, for families of a few runs of values per value."""
    values, zeros = np.arange(n), np.zeros(n, dtype=np.int64)
    if isinstance(family, Nodes):
        return family.spans(n)[:2]
    if isinstance(family, Marginal):
        return values, values
    if isinstance(family, Threshold):
        return np.concatenate([zeros, values]), np.concatenate([values, zeros + n - 1])
    if isinstance(family, Prefix):
        return (values, zeros + n - 1) if isinstance(family, Suffix) else (zeros, values)
    return None


def _applied(family: Family, table: Array, axis: int) -> Array:
    """The answers of a family along one axis; runs are differences of running sums, as their rows may be too many."""
    if isinstance(family, Marginal):
        return table
    if isinstance(family, Unfolded):
        return _applied(family.base, folded(table, axis), axis)
    if isinstance(family, Cyclic | Shifts):
        waves = np.fft.fft(np.moveaxis(table, axis, -1)) * np.fft.fft(family.phi)
        every = np.moveaxis(np.fft.ifft(waves).real, -1, axis)
        return every if isinstance(family, Cyclic) else every.take(family.shifts, axis=axis)
    runs = _runs(family, table.shape[axis])
    if runs is None:
        return along(family.rows(table.shape[axis]).T, table, axis)
    low, high = runs
    start = np.zeros_like(table.take([0], axis=axis))
    running = np.concatenate([start, np.cumsum(table, axis=axis)], axis=axis)
    return running.take(high + 1, axis=axis) - running.take(low, axis=axis)


def _extremes(family: Family, baseline: Array) -> tuple[float, float, float]:
    """Largest absolute entry of the rows of a family, of the rows without their means, and of the means."""
    n = len(baseline)
    if (few := family.up_to_shifts(n)) is not None and np.ptp(baseline) <= TINY / n:
        return _largest(few[0], few[0].mean(axis=1))  # shifts have the same mean
    if (runs := _runs(family, n)) is not None:
        low, high = runs
        below = np.concatenate([[0.0], np.cumsum(baseline)])
        mean = below[high + 1] - below[low]
        apart = np.where(high - low + 1 < n, np.maximum(np.abs(mean), np.abs(1 - mean)), 0.0)
        return 1.0, float(apart.max()), float(np.abs(mean).max())
    rows = family.rows(len(baseline))
    return _largest(rows, rows @ baseline)


def _largest(rows: Array, mean: Array) -> tuple[float, float, float]:
    whole, inside, outside = (float(np.abs(a).max(initial=0.0)) for a in (rows, rows - mean[:, None], mean))
    return whole, inside, outside


def _check_products(release: TableRelease, subset: Sequence[int], families: Sequence[Family]) -> None:
    """Products need the residual of a set of axes where rows vary along these axes and do not cancel along others."""
    release.reach.check_wide(subset)
    results = [_extremes(f, release.state.baseline(a)) for a, f in zip(subset, families, strict=True)]
    scale = prod(whole for whole, _, _ in results)
    inside, outside = [x for _, x, _ in results], [x for _, _, x in results]
    missing = {}
    for kept in subsets(len(subset)):
        members = release.state.order([subset[p] for p in kept])
        worst = prod(inside[p] if p in kept else outside[p] for p in range(len(subset)))
        if worst > TINY * scale and release.state.find(members) is None:
            missing[members] = worst
    release.reach.check(missing)


def _check_rows(release: TableRelease, subset: Sequence[int], rows: Array) -> None:
    release.reach.check_wide(subset)
    baselines = [release.state.baseline(a) for a in subset]
    missing = {}
    for kept in subsets(len(subset)):
        members = release.state.order([subset[p] for p in kept])
        if release.state.find(members) is None:
            worst = float(np.abs(split(rows, baselines, kept)).max(initial=0.0))
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
    if isinstance(family.plain, Known):
        known = Attribute(name, attribute.values.base)
        return [*_axis_labels(known, family.plain.base), f"{name} = {attribute.label(n - 1)}"]
    if isinstance(family.plain, Marginal):
        return [f"{name} = {attribute.label(k)}" for k in range(n)]
    if isinstance(family.plain, Sum):
        return [f"sum of {name}"]
    if isinstance(family.plain, Total):
        return [""]
    if isinstance(family.plain, Nodes):
        names = hierarchy_of(attribute).names
        return [f"{name} under {names[node]}" for node in family.plain.nodes.tolist()]
    if isinstance(family.plain, Matrix) and family.plain.names is not None:
        return list(family.plain.names)
    if isinstance(family.plain, Threshold):
        return [*_axis_labels(attribute, Prefix()), *_axis_labels(attribute, Suffix())]
    if isinstance(family.plain, Suffix):
        return [f"{name} from {attribute.values.start(k)}" for k in range(n)]  # before prefix, of which it is a kind
    if isinstance(family.plain, Prefix):
        ends = [attribute.values.end(k) for k in range(n)]
        return [f"{name} {'' if end.startswith('under ') else 'up to '}{end}" for end in ends]
    spans = family.plain.spans(n)
    if spans is None:
        return [f"{name} row {k}" for k in range(family.count(n))]
    words = ("outside", "from")
    return [
        f"{name} {words[0] if flip else words[1]} {attribute.values.start(low)} to {attribute.values.end(high)}"
        for low, high, flip in zip(*(s.tolist() for s in spans), strict=True)
    ]
