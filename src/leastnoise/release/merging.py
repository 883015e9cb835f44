"""Several releases of the same data as one."""

from __future__ import annotations

from itertools import combinations

from leastnoise.errors import LeastnoiseError
from leastnoise.release.files.releases import origins_of
from leastnoise.release.measurements import same_numbers
from leastnoise.release.release import Release
from leastnoise.release.table_release import TableRelease


def merge(*releases: Release) -> TableRelease:
    """One release from several of the same data: every answer uses all measurements, each with its due weight.

    Nothing new is spent; the cost is the sum of all costs. The releases must be of the same rows, which nobody can
    check from noisy numbers, and their plans must have the same baselines, for example baseline="uniform"
    (docs/howto/several.md).

    Guarantees: merging_is_least_squares; cost_adds_up_exactly; refuses_what_does_not_belong_together.
    """
    if not releases:
        raise LeastnoiseError("there is nothing to merge; give at least one release")
    tables = [release for release in releases if isinstance(release, TableRelease)]
    if odd := [release.kind for release in releases if not isinstance(release, TableRelease)]:
        raise LeastnoiseError(f"only releases of tables are merged, not a {odd[0]}; combine its answers by hand")
    for other in tables[1:]:
        _check_pair(tables[0], other)
    parts = tuple(p for r in tables for p in r.parts)
    if any(a is b or same_numbers(a.arrays, b.arrays) for a, b in combinations(parts, 2)):
        raise LeastnoiseError("a release is given twice, or was made twice with one seed; give each release once")
    name = next((r.dataset for r in tables if r.dataset is not None), None)
    known = all(len(r.origins) == len(r.parts) for r in tables)
    known |= any(o.run.side for r in tables for o in r.origins)  # which cost something: none of them may get lost
    merged = TableRelease(parts, name, tuple(o for r in tables for o in origins_of(r)) if known else ())
    _ = merged.state  # fails here, not at the first question
    return merged


def _check_pair(first: Release, other: Release) -> None:
    names = (first.dataset, other.dataset)
    if None not in names and names[0] != names[1]:
        raise LeastnoiseError(f"the releases are of {names[0]!r} and {names[1]!r}; merge releases of the same data")
    if first.cost.change != other.cost.change:
        raise LeastnoiseError(
            f"one release hides {first.cost.change}, another {other.cost.change}; merge releases that hide the same"
        )
