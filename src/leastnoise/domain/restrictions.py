"""What is public about the data before anything is counted: cells that cannot occur, and bounds on some counts.

All of it is about cells of the table of a few attributes. Clauses that share attributes are looked at together, on all
attributes that they connect, so that whether a cell of any table extends to a possible row is known exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from leastnoise.errors import LeastnoiseError

RowRule = Literal["drop", "error", "keep"]
Mask = npt.NDArray[np.bool_]
MOST_CELLS = 2**24  # of the attributes that clauses connect
MOST_COUNT = 2**53  # of a bound


@dataclass(frozen=True)
class CellSet:
    """Some cells of the table of a few attributes, as lengths of runs: outside, inside, outside, ...

    The last attribute runs fastest. `text` is how they were stated.

    >>> CellSet.of(("age", "sex"), np.array([[False, True], [False, False]]), "age = 0 and sex = 'M'").runs
    (1, 1, 2)
    """

    attributes: tuple[str, ...]
    shape: tuple[int, ...]
    runs: tuple[int, ...]
    text: str

    def __post_init__(self) -> None:
        whole = all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in self.runs)
        if not whole or sum(self.runs) != prod(self.shape) or 0 in self.runs[1:]:
            raise LeastnoiseError(f"the runs of {self.text[:40]!r} do not make up its table; the file is damaged")

    @classmethod
    def of(cls, attributes: Sequence[str], mask: Mask, text: str) -> CellSet:
        """From one truth per cell."""
        flat = np.concatenate([[False], mask.ravel()])
        ends = np.append(np.flatnonzero(flat[1:] != flat[:-1]), mask.size)
        return cls(tuple(attributes), mask.shape, tuple(np.diff(ends, prepend=0).tolist()), text)

    @cached_property
    def mask(self) -> Mask:
        """One truth per cell."""
        inside = np.arange(len(self.runs)) % 2 == 1
        return np.repeat(inside, self.runs).reshape(self.shape)

    def to_json(self) -> dict[str, Any]:
        """Plain data; `from_json` reads it back."""
        return {"of": list(self.attributes), "runs": list(self.runs), "text": self.text}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], sizes: Mapping[str, int]) -> CellSet:
        """Read what `to_json` wrote, about attributes of these sizes."""
        names = tuple(data["of"])
        if len(set(names)) < len(names) or not all(name in sizes for name in names):
            raise LeastnoiseError("it restricts attributes that are not in the domain, or one of them twice")
        if not isinstance(data["text"], str) or prod(sizes[name] for name in names) > MOST_CELLS:
            raise LeastnoiseError("it restricts a table that is too large, or without words")
        return cls(names, tuple(sizes[name] for name in names), tuple(data["runs"]), data["text"])


@dataclass(frozen=True)
class Bound:
    """A public bound on how many rows are in some cells, such as the beds of a prison."""

    cells: CellSet
    at_least: int = 0
    at_most: int | None = None

    def __post_init__(self) -> None:
        ends = [self.at_least, *([] if self.at_most is None else [self.at_most])]
        if not all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n <= MOST_COUNT for n in ends):
            raise LeastnoiseError(f"the bounds of {self.cells.text!r} are whole numbers from 0 on, got {ends[-1]!r}")
        if self.at_most is not None and self.at_least > self.at_most:
            raise LeastnoiseError(
                f"at_least {self.at_least} of {self.cells.text!r} is above at_most {self.at_most}; correct one of them"
            )
        if not self.at_least and self.at_most is None:
            raise LeastnoiseError(f"the bound of {self.cells.text!r} says nothing; give at_least or at_most")

    def __str__(self) -> str:
        most = f"at most {self.at_most:,}" if self.at_most is not None else ""
        words = [f"at least {self.at_least:,}"] * bool(self.at_least) + [most] * bool(most)
        return f"{self.cells.text}: {' and '.join(words)}"

    def to_json(self) -> dict[str, Any]:
        """Plain data; `from_json` reads it back."""
        return {"cells": self.cells.to_json(), "at_least": self.at_least, "at_most": self.at_most}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], sizes: Mapping[str, int]) -> Bound:
        """Read what `to_json` wrote."""
        return cls(CellSet.from_json(data["cells"], sizes), data["at_least"], data["at_most"])


@dataclass(frozen=True)
class Restrictions:
    """Cells that are impossible, what becomes of rows in them, and bounds.

    `rows` is drop (they are left out), error (they stop a run) or keep (they are counted: an error of the data that
    stays in the counts). `determines` are pairs of attributes: each value of the first has one value of the second, and
    which one is not stated. That restricts no count, so it is no part of what makes restrictions true.
    """

    impossible: tuple[CellSet, ...] = ()
    rows: RowRule = "drop"
    bounds: tuple[Bound, ...] = ()
    determines: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.rows not in get_args(RowRule):
            raise LeastnoiseError(f"rows {self.rows!r} of impossible cells is no rule; use drop, error or keep")

    def __bool__(self) -> bool:
        return bool(self.impossible or self.bounds)

    @property
    def leaves_out(self) -> bool:
        """Whether no row in an impossible cell is ever counted."""
        return bool(self.impossible) and self.rows != "keep"

    @property
    def drops(self) -> bool:
        """Whether rows may be left out because of it."""
        return bool(self.impossible) and self.rows == "drop"

    @property
    def touches(self) -> bool:
        """Whether a run may meet rows in impossible cells and go on."""
        return bool(self.impossible) and self.rows != "error"

    def within(self, names: Iterable[str]) -> Restrictions:
        """Those that are about some attributes alone."""
        known = set(names)
        impossible = tuple(c for c in self.impossible if known.issuperset(c.attributes))
        bounds = tuple(b for b in self.bounds if known.issuperset(b.cells.attributes))
        determines = tuple(pair for pair in self.determines if known.issuperset(pair))
        return Restrictions(impossible, self.rows, bounds, determines)

    def to_json(self) -> dict[str, Any]:
        """Plain data; `from_json` reads it back."""
        fields: dict[str, Any] = {
            "impossible": [cells.to_json() for cells in self.impossible],
            "rows": self.rows,
            "bounds": [bound.to_json() for bound in self.bounds],
        }
        return fields | ({"determines": [list(pair) for pair in self.determines]} if self.determines else {})

    @classmethod
    def from_json(cls, data: Mapping[str, Any], sizes: Mapping[str, int]) -> Restrictions:
        """Read what `to_json` wrote, about attributes of these sizes."""
        try:
            impossible = tuple(CellSet.from_json(each, sizes) for each in data["impossible"])
            bounds = tuple(Bound.from_json(each, sizes) for each in data["bounds"])
            pairs = tuple((str(parent), str(child)) for parent, child in data.get("determines") or ())
            check_determined(pairs, sizes)
            return cls(impossible, data["rows"], bounds, pairs)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise LeastnoiseError(f"not restrictions of a domain ({error})") from None


def check_determined(pairs: Sequence[tuple[str, str]], names: Iterable[str]) -> None:
    """Refuse pairs that are not a forest of attributes, each determined by at most one other."""
    known, parents = set(names), dict[str, str]()
    for parent, child in pairs:
        if unknown := [name for name in (parent, child) if name not in known]:
            raise LeastnoiseError(f"determines names {unknown[0]!r}, which is no attribute; name those of the domain")
        if child in parents:
            raise LeastnoiseError(
                f"{child!r} is determined by {parents[child]!r} and by {parent!r}; state the one that is coarser"
            )
        parents[child] = parent
    for child in parents:
        path = [child]
        while path[-1] in parents:
            path.append(parents[path[-1]])
            if path[-1] == child:
                raise LeastnoiseError(f"{child!r} determines itself; list the pairs that exist in 'allowed' instead")
            if len(path) > len(parents) + 1:  # a circle further up, which its own members report
                break


@dataclass(frozen=True, eq=False)
class Together:
    """Attributes (ascending positions) that clauses connect, and which of their cells are possible."""

    attributes: tuple[int, ...]
    possible: Mask

    def among(self, attributes: Sequence[int]) -> tuple[tuple[int, ...], Mask] | None:
        """Which cells of those attributes that are among these extend to a possible cell; None where all do."""
        inside = tuple(a for a in self.attributes if a in attributes)
        away = tuple(axis for axis, a in enumerate(self.attributes) if a not in inside)
        mask: Mask = np.asarray(self.possible.any(axis=away))
        return None if mask.all() else (inside, mask)


def connected(clauses: Sequence[tuple[tuple[int, ...], Mask]], sizes: Sequence[int]) -> tuple[Together, ...]:
    """Clauses (ascending positions, impossible cells) in groups that share no attribute.

    >>> a, b = np.array([[True, False], [False, False]]), np.array([[False, False], [False, True]])
    >>> [(t.attributes, int(t.possible.sum())) for t in connected([((0, 1), a), ((1, 2), b)], (2, 2, 2))]
    [((0, 1, 2), 4)]
    """
    groups: list[tuple[set[int], list[int]]] = []
    for k, (attributes, _) in enumerate(clauses):
        touching = [g for g in groups if g[0] & set(attributes)]
        groups = [g for g in groups if g not in touching]
        together = set(attributes).union(*(g[0] for g in touching))
        groups.append((together, sorted([k, *(i for g in touching for i in g[1])])))
    return tuple(_together(tuple(sorted(names)), [clauses[k] for k in some], sizes) for names, some in groups)


def _together(
    attributes: tuple[int, ...], clauses: Sequence[tuple[tuple[int, ...], Mask]], sizes: Sequence[int]
) -> Together:
    shape = tuple(sizes[a] for a in attributes)
    if prod(shape) > MOST_CELLS:
        raise LeastnoiseError(
            f"impossible cells connect attributes with {prod(shape):,} cells together, more than {MOST_CELLS:,}; "
            "use fewer clauses that share attributes, or coarser values"
        )
    possible = np.ones(shape, dtype=np.bool_)
    for inside, mask in clauses:
        possible &= ~spread(mask, inside, attributes)
    return Together(attributes, possible)


def spread(mask: npt.NDArray[Any], inside: Sequence[int], attributes: Sequence[int]) -> npt.NDArray[Any]:
    """A table of some attributes (in any order) with an axis for each of several others, to be broadcast."""
    order = sorted(range(len(inside)), key=lambda axis: list(attributes).index(inside[axis]))
    moved = mask.transpose(order)
    kept = [inside[axis] for axis in order]
    return moved.reshape([mask.shape[order[kept.index(a)]] if a in kept else 1 for a in attributes])
