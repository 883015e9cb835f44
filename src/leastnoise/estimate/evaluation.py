"""How close synthetic rows are to the release that they were made from. Reads no data, costs no privacy.

The release is noisy, so rows that reproduced the data exactly would be at a distance from it, too. That distance is
known, because the noise is: every number comes with the part of it that noise alone explains.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from leastnoise._types import Array, IntArray, Progress
from leastnoise.domain.attributes import Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.estimate.associations import Association, table_of, with_release
from leastnoise.estimate.combined import visible
from leastnoise.estimate.kept import Constraint, constraints_of
from leastnoise.release.table_release import TableRelease

if TYPE_CHECKING:
    import pandas as pd

FALSE_ALARMS = 0.05  # chance that a list of rare values or of associations names any for noise alone
MOST_TABLES = 1_000
MOST_CELLS = 2**22  # of a table
EXACT_CELLS = 128
SHOWN = 5
HALF_NORMAL = float(np.sqrt(2 / np.pi))  # mean absolute value of a standard normal number


@dataclass(frozen=True)
class TableDistance:
    """How far rows are from an unbiased table of the release, as shares of all rows.

    `distance` is the total variation, `noise` what noise alone would make it, `visible` the part that rises above the
    noise, which may be far from all of it; `chi_square` is the mean squared difference in standard errors: 1 for noise.
    """

    attributes: tuple[str, ...]
    distance: float
    noise: float
    visible: float
    chi_square: float


@dataclass(frozen=True)
class RareValue:
    """A value with its number of rows, scaled to those of the release, and its released count."""

    attribute: str
    value: str
    rows: float
    released: float
    std_error: float

    def __str__(self) -> str:
        counts = f"{self.rows:,.0f} rows, released {self.released:,.0f}, s.e. {self.std_error:,.0f}"
        return f"{self.attribute} = {self.value} ({counts})"


@dataclass(frozen=True)
class Evaluation:
    """Synthetic rows beside the release: tables, associations, rare values, and what must hold for every row.

    `missing` are values with a released count above zero beyond noise, and no row. `invented` are values whose
    released count is about zero, and which have more rows than noise explains. `insecure` is that of the release.

    Guarantees: noise_alone_is_at_no_distance; rare_values_are_found_and_noise_is_not.
    """

    rows: int
    tables: tuple[TableDistance, ...]
    tables_in_reach: int
    associations: tuple[Association, ...]
    missing: tuple[RareValue, ...]
    invented: tuple[RareValue, ...]
    constraints: tuple[Constraint, ...]
    insecure: bool

    @property
    def different(self) -> tuple[Association, ...]:
        """Associations that differ by more than noise explains, the most different first."""
        z = float(-ndtri(FALSE_ALARMS / 2 / max(len(self.associations), 1)))
        beyond = [a for a in self.associations if abs(a.difference) > z * a.std_error]
        return tuple(sorted(beyond, key=lambda a: -abs(a.difference)))

    def by_ways(self) -> dict[int, TableDistance]:
        """Means over tables of as many attributes."""
        ordered = sorted(self.tables, key=lambda t: len(t.attributes))
        return {ways: _mean(list(some)) for ways, some in groupby(ordered, key=lambda t: len(t.attributes))}

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        means = [asdict(mean) | {"attributes": ways} for ways, mean in self.by_ways().items()]
        return asdict(self) | {"means": means, "different": [asdict(a) for a in self.different]}

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def evaluate(release: TableRelease, rows: IntArray | pd.DataFrame, *, progress: Progress | None = None) -> Evaluation:
    """Compare synthetic rows (codes, or a frame of values) with the release. Costs no privacy, needs no data."""
    release.need_residuals("evaluate()")
    codes = codes_of(release.domain, rows)
    total = max(release.total().value, 1.0)
    known = [[release.domain.index(n) for n in names] for names in release.tables() if names]
    known = [members for members in known if np.prod([float(release.domain.shape[a]) for a in members]) <= MOST_CELLS]
    chosen = [known[k] for k in np.unique(np.linspace(0, len(known) - 1, min(len(known), MOST_TABLES)).astype(int))]
    tables, associations = [], []
    for k, members in enumerate(chosen):
        if progress is not None:
            progress(k, len(chosen), "comparing tables")
        here = table_of(codes, members, release.domain.shape)
        tables.append(_distance(release, members, here * (total / len(codes)), total))
        ones = len(members) == 2 and all(release.has_table([a]) for a in members)
        if ones and (found := with_release(release, (members[0], members[1]), here)) is not None:
            associations.append(found)
    missing, invented = _rare(release, codes, total)
    return Evaluation(
        len(codes),
        tuple(tables),
        len(known),
        tuple(associations),
        tuple(missing),
        tuple(invented),
        constraints_of(release.domain, codes, total),
        release.insecure,
    )


def codes_of(domain: Domain, rows: Any) -> IntArray:
    """Codes of rows, (rows, attributes), from codes or from a frame of values such as `to_pandas` gives."""
    if hasattr(rows, "columns"):
        if missing := [name for name in domain.names if name not in rows.columns]:
            raise LeastnoiseError(
                f"the synthetic rows have no column {missing[0]!r}; give all attributes of the release"
            )
        rows = np.stack([_coded(domain, name, rows[name]) for name in domain.names], axis=1)
    codes = np.asarray(rows)
    if codes.ndim != 2 or codes.shape[1] != len(domain) or codes.dtype.kind not in "iu":
        raise LeastnoiseError(f"synthetic rows are a frame, or codes in {len(domain)} columns; use estimate.sample()")
    if not len(codes):
        raise LeastnoiseError("there are no synthetic rows to compare; give one at least")
    outside = (codes < 0) | (codes >= np.array(domain.shape))
    if outside.any():
        name = domain.names[int(np.argmax(outside.any(axis=0)))]
        raise LeastnoiseError(
            f"synthetic rows hold codes that {name!r} does not have; use 0 to {domain[name].size - 1}"
        )
    return codes.astype(np.int64, copy=False)


def _coded(domain: Domain, name: str, column: Any) -> IntArray:
    places, values = column.factorize(use_na_sentinel=False)
    return np.array([domain[name].code(value) for value in values], dtype=np.int64)[places]


def _distance(release: TableRelease, members: Sequence[int], here: Array, total: float) -> TableDistance:
    names = tuple(release.domain.names[a] for a in members)
    away, errors = here - release.counts(*names), _errors(release, members, names, here / here.sum())
    distance, noise = 0.5 * float(np.abs(away).sum()) / total, 0.5 * HALF_NORMAL * float(errors.sum()) / total
    noisy = errors > 0
    chi_square = float(np.mean((away[noisy] / errors[noisy]) ** 2)) if noisy.any() else 0.0
    seen = 0.5 * float(visible(away[noisy], errors[noisy]).sum() + np.abs(away[~noisy]).sum()) / total
    return TableDistance(names, distance, noise, seen, chi_square)


def _errors(release: TableRelease, members: Sequence[int], names: Sequence[str], shares: Array) -> Array:
    """Standard errors of released counts less shares of the released total; of many cells the total hardly matters."""
    errors = release.std_errors(*names)
    if errors.size > EXACT_CELLS:
        return errors
    weights = np.eye(errors.size) - shares.reshape(-1, 1)
    _, variances = release.row_answers(members, weights.reshape(-1, *errors.shape))
    exact: Array = np.sqrt(np.maximum(variances, 0.0)).reshape(errors.shape)
    return np.where(errors > 0, exact, 0.0)


def _rare(release: TableRelease, codes: IntArray, total: float) -> tuple[list[RareValue], list[RareValue]]:
    """Values that are missing and values that are invented, by one-way tables, beyond noise in any of them."""
    ones = [a for a in range(len(release.domain)) if release.has_table([a])]
    z = float(-ndtri(FALSE_ALARMS / max(sum(release.domain.shape[a] for a in ones), 1)))
    missing, invented = [], []
    for a in ones:
        attribute = release.domain.attributes[a]
        here = np.bincount(codes[:, a], minlength=attribute.size) * (total / len(codes))
        counts, errors = release.counts(attribute.name), release.std_errors(attribute.name)
        values = [
            RareValue(attribute.name, attribute.label(k), *map(float, x))
            for k, x in enumerate(zip(here, counts, errors, strict=True))
        ]
        missing += [v for v in values if not v.rows and v.released > z * v.std_error]
        invented += [v for v in values if v.rows - v.released > z * v.std_error and v.released < z * v.std_error]
    return missing, invented


def _mean(tables: Sequence[TableDistance]) -> TableDistance:
    names = ("distance", "noise", "visible", "chi_square")
    return TableDistance((), *(float(np.mean([getattr(t, name) for t in tables])) for name in names))


def _lines(found: Evaluation) -> Iterator[str]:
    mark = " (INSECURE: seeded noise)" if found.insecure else ""
    yield f"{found.rows:,} synthetic rows beside the release{mark}; this reads no data and may be published"
    if len(found.tables) < found.tables_in_reach:
        yield f"{len(found.tables):,} of {found.tables_in_reach:,} tables in reach are compared"
    yield f"{'tables':<12}{'distance':>10}{'noise alone':>13}{'above noise':>14}{'chi-square':>12}"
    numbers = {ways: sum(len(t.attributes) == ways for t in found.tables) for ways in found.by_ways()}
    for ways, mean in found.by_ways().items():
        yield (
            f"{f'{numbers[ways]:,} {ways}-way':<12}{mean.distance:>10.4f}{mean.noise:>13.4f}{mean.visible:>14.4f}"
            f"{mean.chi_square:>12.2f}"
        )
    farthest = sorted(found.tables, key=lambda t: -t.visible)[:SHOWN]
    yield f"farthest: {listed(f'{_joined(t.attributes)} {t.visible:.4f}' for t in farthest)}"
    yield from association_lines(found.associations, found.different, "released")
    yield f"rare values missing: {listed(map(str, found.missing[:SHOWN]), len(found.missing))}"
    yield f"rare values invented: {listed(map(str, found.invented[:SHOWN]), len(found.invented))}"
    yield from map(str, found.constraints)


def association_lines(every: Sequence[Association], different: Sequence[Association], other: str) -> Iterator[str]:
    """How associations differ, and which of them the most."""
    if not every:
        return
    mean = float(np.mean([abs(a.difference) for a in every]))
    noise = HALF_NORMAL * float(np.mean([a.std_error for a in every]))
    part = f", noise alone {noise:.4f}" if noise else ""
    yield f"correlations of {len(every):,} pairs: mean difference {mean:.4f}{part}"
    words = [f"{_joined(a.attributes)} {a.rows:.3f} ({other} {a.other:.3f})" for a in different[:SHOWN]]
    yield f"{'beyond noise' if noise else 'most different'}: {listed(words, len(different))}"


def listed(words: Iterable[str], number: int | None = None) -> str:
    """Words in a line; how many more there are."""
    some = list(words)
    more = 0 if number is None else number - len(some)
    return "; ".join([*some, *([f"and {more:,} more"] if more > 0 else [])]) or "none"


def _joined(names: Sequence[str]) -> str:
    return " x ".join(names)
