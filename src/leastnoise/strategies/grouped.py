"""How far one person moves the answers of a strategy, where no two rows of the person fall into the same group.

A person has at most k rows. On some axes of a table (those in `one_per`) no more than m of them agree: one, or more
where attributes of `one_per` are not in the table. Rows move the answers by sum_ij V(x_i, x_j), V = B^T B. For a
product V = V_1 x V_2 x ... (docs/privacy.md has the proofs):

- all:    at most k^2 times the largest squared column, whatever the rows are.
- spread: V_1 <= lambda I, and the Hadamard product with a Gram matrix keeps the order (Schur), so the sum is at most
          lambda times the squares of the sums of rows that agree on axis 1. With all grouped axes: k m lambda, times
          the largest squared column of the others.
- rows:   the sum is at most k times the largest sum of one row of V over itself and the k - 1 largest other groups.
          For a plain table, V = n I - J up to a factor, this is exact: k (n - k) / (n - 1) columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil, prod

import numpy as np
import numpy.typing as npt

from leastnoise.strategies.columns import Columns, Value

MOST_SUMS = 2**24  # partial sums of rows of V that are compared
MOST_DIGITS = 2**61  # up to which sums of integers are exact


@dataclass(frozen=True)
class Contributions:
    """What one person has in a table: at most `rows` rows, of which at most `agreeing` agree on the axes `grouped`."""

    rows: int
    grouped: tuple[int, ...]
    agreeing: int

    @property
    def bounded(self) -> bool:
        """Whether groups say more than the number of rows."""
        return bool(self.grouped) and self.agreeing < self.rows


def added(parts: Sequence[Columns], person: Contributions) -> Value:
    """Squared sensitivity to adding or removing one person, or more; parts are factors of a Kronecker product.

    Guarantees: sensitivity_is_never_below_brute_force.
    """
    k, m = person.rows, min(person.agreeing, person.rows)
    all_rows = k**2 * prod(p.square for p in parts)
    pairs = [(p, own) for p, own in zip(parts, _own_axes(parts, person), strict=True) if own]
    if not pairs or not person.bounded:
        return all_rows
    rest = [p for p, own in zip(parts, _own_axes(parts, person), strict=True) if not own]
    high, low = prod(p.square for p in rest), _lowest(rest)
    bounds = [all_rows, k * m * prod(p.spread for p, _ in pairs) * high]
    for i, (part, own) in enumerate(pairs):
        sums = _largest_row_sums(part, own, k, m, high, low)
        if sums is None:
            continue
        if len(pairs) == 1:
            bounds.append(max(j * total for j, total in enumerate(sums, 1)))
        else:
            bounds.append(k * prod(p.spread for j, (p, _) in enumerate(pairs) if j != i) * max(sums))
    return min(bounds)


def replaced(parts: Sequence[Columns], person: Contributions, difference: Value) -> Value:
    """Squared sensitivity to replacing the rows of one person by others, or more.

    `difference` is the largest squared difference of two columns of the axes that are not grouped. Rows that come and
    rows that go may share a group; there, pairs of them count by their difference.
    """
    k, m = person.rows, min(person.agreeing, person.rows)
    one = added(parts, person)
    owned = _own_axes(parts, person)
    if not any(owned) or not person.bounded:
        return 4 * one
    spread = prod(p.spread for p, own in zip(parts, owned, strict=True) if own)
    high = prod(p.square for p, own in zip(parts, owned, strict=True) if not own)
    return min(4 * one, k * m * spread * max(2 * high, difference))


def _own_axes(parts: Sequence[Columns], person: Contributions) -> list[tuple[int, ...]]:
    """The grouped axes of each part, by their places in it."""
    starts = np.cumsum([0, *(len(p.shape) for p in parts)]).tolist()
    return [
        tuple(a - start for a in person.grouped if start <= a < start + len(p.shape))
        for p, start in zip(parts, starts, strict=False)
    ]


def _lowest(parts: Sequence[Columns]) -> Value:
    """The smallest inner product of two columns of a Kronecker product, or less."""
    return min(prod(choice) for choice in product(*((p.low, p.square) for p in parts)))


def _largest_row_sums(
    part: Columns, own: tuple[int, ...], k: int, m: int, high: Value, low: Value
) -> list[Value] | None:
    """For 1, 2, ... k rows: the largest sum of one row of V over the groups that they can be in, at most m in each.

    Inner products of the other axes lie between `low` and `high`. None where that is too much to compute.
    """
    if part.inner is None or len(part.inner) * k > MOST_SUMS or (len(part.inner) > 1 and low != high):
        return None
    if part.inner.dtype.kind == "i" and k * part.square >= MOST_DIGITS:
        return None
    here, others = _by_group(part, own)
    wanted = ceil((k - 1) / m)
    first = np.diagonal(part.inner)[:, None]
    if low == high:
        best = np.sort(others, axis=1)[:, ::-1][:, :wanted]
    else:
        best, first, here = _with_rest(others, wanted, high, low), _times(first, high), _times(here, high)
    more = np.concatenate([np.repeat(here, min(m, k) - 1, axis=1), np.repeat(best, m, axis=1)], axis=1)
    more = np.sort(more, axis=1)[:, ::-1][:, : k - 1]
    return list(np.cumsum(np.concatenate([first, more], axis=1), axis=1).max(axis=0).tolist())


def _by_group(part: Columns, own: tuple[int, ...]) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.generic]]:
    """Largest inner products of each listed column within its own group, and with each other group."""
    assert part.inner is not None
    count, rest = len(part.inner), tuple(a for a in range(len(part.shape)) if a not in own)
    wide = part.inner.reshape(count, *part.shape).transpose([0, *(1 + a for a in own), *(1 + a for a in rest)])
    groups = prod(part.shape[a] for a in own)
    largest = wide.reshape(count, groups, -1).max(axis=2)
    cells = np.unravel_index(part.own, part.shape)
    mine = np.ravel_multi_index([cells[a] for a in own], [part.shape[a] for a in own])
    outside = np.ones(largest.shape, dtype=bool)
    outside[np.arange(count), mine] = False
    return largest[np.arange(count), mine][:, None], largest[outside].reshape(count, groups - 1)


def _with_rest(others: npt.NDArray[np.generic], wanted: int, high: Value, low: Value) -> npt.NDArray[np.generic]:
    """The largest products of inner products with any number between `low` and `high`, of one column."""
    ordered = np.sort(others[0])
    ends = (
        ordered if len(ordered) <= 2 * wanted else np.concatenate([ordered[:wanted], ordered[len(ordered) - wanted :]])
    )
    products = sorted((v * high if v >= 0 else v * low for v in ends.tolist()), reverse=True)
    return np.array([products[:wanted]], dtype=object)


def _times(values: npt.NDArray[np.generic], factor: Value) -> npt.NDArray[np.generic]:
    return values.astype(object) * factor
