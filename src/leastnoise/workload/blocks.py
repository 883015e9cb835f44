"""Blocks: one statement of a workload, standing for all its attribute subsets at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb, prod

import numpy as np

from leastnoise.domain.amounts import MOST_UNITS
from leastnoise.domain.attributes import Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.workload.families import Family, Total
from leastnoise.workload.sums import check_sums
from leastnoise.workload.tensors import ROWS_LIMIT, TensorFamily, too_many_rows

MOST_QUERIED = 10**7  # values of an attribute that a workload asks about
MOST_WAYS = 16  # attributes of a table, each subset of which is measured on its own
MOST_TABLES = 2**53  # that a block stands for, up to which floats count
MOST_CELLS = 2**53  # of a table
MOST_PIECES = 2_000_000  # of unlike tables, which are listed: one for every subset of the attributes of each
WEIGHTS = (1e-30, 1e30)  # between which weights are


@dataclass(frozen=True)
class Block:
    """All queries of one kind on every `ways`-subset of the attributes `on`.

    `families` has one family per attribute of `on` (a product group), or is one `TensorFamily`
    for queries over the subset as a whole.
    """

    on: tuple[int, ...]
    ways: int
    families: tuple[Family, ...] | TensorFamily
    weight: float = 1.0
    label: str = ""
    target: float | None = None  # largest standard error allowed

    @property
    def is_product(self) -> bool:
        """True when every query is a product of one row per attribute."""
        return not isinstance(self.families, TensorFamily)

    @property
    def tensor(self) -> TensorFamily:
        """The family of a block that is not a product."""
        if not isinstance(self.families, TensorFamily):
            raise LeastnoiseError(f"{self.label} is a product block and has no tensor family")
        return self.families

    def family(self, attribute: int) -> Family:
        """The family of one attribute in a product block."""
        if isinstance(self.families, TensorFamily):
            raise LeastnoiseError(f"{self.label} is not a product block; it has no family per attribute")
        return self.families[self.on.index(attribute)]

    @property
    def families_key(self) -> object:
        """Content key of the queries."""
        if isinstance(self.families, TensorFamily):
            return self.families.key
        return tuple(f.key for f in self.families)

    @property
    def tables(self) -> int:
        """Number of attribute subsets."""
        return comb(len(self.on), self.ways)

    def subsets(self) -> Iterator[tuple[int, ...]]:
        """The attribute subsets, in order."""
        return combinations(self.on, self.ways)

    def count(self, domain: Domain) -> int:
        """Number of queries, without listing the subsets."""
        if isinstance(self.families, TensorFamily):
            shapes: dict[tuple[int, ...], int] = {}
            for s in self.subsets():
                shape = tuple(domain.shape[i] for i in s)
                shapes[shape] = shapes.get(shape, 0) + 1
            return sum(self.families.count(shape) * times for shape, times in shapes.items())
        poly = [1] + [0] * self.ways  # elementary symmetric polynomials of the counts, in exact integers
        for i, f in zip(self.on, self.families, strict=True):
            c = f.count(domain.shape[i])
            for k in range(self.ways, 0, -1):
                poly[k] += c * poly[k - 1]
        return poly[self.ways]

    def signature(self, attribute: int) -> tuple[object, ...]:
        """How this block treats one attribute; attributes with equal signatures everywhere are interchangeable."""
        if attribute not in self.on:
            return ()
        if isinstance(self.families, TensorFamily):
            return ("in",) if self.families.symmetric else ("in", attribute)
        return ("in", self.family(attribute).key)

    def check(self, domain: Domain) -> None:
        """Refuse what cannot be meant or done: order where there is none, weights that are not positive, too many ways.

        Guarantees: refusals_are_short_in_every_way.
        """
        if not (isinstance(self.weight, int | float | np.number) and 0 < self.weight < np.inf):
            raise LeastnoiseError(
                f"weight {self.weight!r} of {self.label} is not positive; leave the queries out instead"
            )
        if not WEIGHTS[0] <= self.relative_weight(domain) <= WEIGHTS[1]:
            raise LeastnoiseError(
                f"weight {self.weight:g} of {self.label} is out of range; use one between {WEIGHTS[0]} and {WEIGHTS[1]}"
            )
        if not 0 <= self.ways <= len(self.on):
            raise LeastnoiseError(f"{self.ways}-way {self.label} on {len(self.on)} attributes is empty; use fewer ways")
        if self.target is not None and not (np.isfinite(self.target) and self.target > 0):
            raise LeastnoiseError(f"accuracy target {self.target} of {self.label} is not positive")
        self._check_amount(domain)
        for i, needs in zip(self.on, self._each, strict=True):
            check_sums(domain, i, needs)
            if needs.needs_order and not domain.attributes[i].ordered:
                name = domain.attributes[i].name
                raise LeastnoiseError(
                    f"{needs.name} needs an order but attribute {name!r} has none; "
                    "declare it ordered or use 'marginal' on it"
                )
            if needs.needs_order and isinstance(needs, TensorFamily) and domain.attributes[i].known < domain.shape[i]:
                raise LeastnoiseError(
                    f"{needs.name} compares values, and those of {domain.attributes[i].name!r} may be unknown; "
                    "use 'missing: drop' there, or other queries"
                )
        self._check_sizes(domain)

    def relative_weight(self, domain: Domain) -> float:
        """Its weight, where errors are measured in what one row can change: 1 for counts, spans of amounts for sums."""
        spans = (values.span for k in self.on if (values := domain.attributes[k].amount) is not None)
        return self.weight * prod(spans) ** 2

    def _check_amount(self, domain: Domain) -> None:
        """Refuse what would take hours or terabytes, from numbers alone."""
        for i in self.on if self.ways else ():
            if (values := domain.shape[i]) > MOST_QUERIED:
                name = domain.attributes[i].name
                raise LeastnoiseError(
                    f"{name!r} has {values:,} values, queries take {MOST_QUERIED:,} at most; use coarser ones"
                )
        if self.ways > MOST_WAYS:
            raise LeastnoiseError(
                f"{self.label} on {self.ways} attributes at once is too wide; use at most {MOST_WAYS} ways"
            )
        if (cells := prod(sorted(domain.shape[i] for i in self.on)[len(self.on) - self.ways :])) > MOST_CELLS:
            raise LeastnoiseError(
                f"a table of {self.label} would have {cells:.1e} cells; use fewer ways or coarser values"
            )
        if (units := domain.scale(self.on)) > MOST_UNITS:
            raise LeastnoiseError(
                f"products of {self.label} have {units:,} units, more than {MOST_UNITS:,}; "
                "use a larger unit for the amounts"
            )
        if self.tables > MOST_TABLES:
            raise LeastnoiseError(
                f"{self.ways}-way {self.label} on {len(self.on)} attributes are {_about(self.tables)} tables; "
                "use fewer ways"
            )
        if pieces_of(self._kinds(domain), self.ways) > MOST_PIECES:
            raise too_many_pieces(f"{self.ways}-way {self.label} on {len(self.on)} attributes")

    @property
    def _each(self) -> Sequence[Family | TensorFamily]:
        """What is asked of each attribute of `on`."""
        return [self.families] * len(self.on) if isinstance(self.families, TensorFamily) else self.families

    def _kinds(self, domain: Domain) -> list[tuple[int, int]]:
        """Kinds of attributes that this block distinguishes: how many attributes, how many values."""
        own = isinstance(self.families, TensorFamily) and not self.families.symmetric
        keys = ((i if own else each.key, domain.shape[i]) for i, each in zip(self.on, self._each, strict=True))
        kinds: Counter[tuple[object, int]] = Counter(keys)
        return [(many, values) for (_, values), many in kinds.items()]

    def _check_sizes(self, domain: Domain) -> None:
        if isinstance(self.families, TensorFamily):
            for shape in {tuple(domain.shape[i] for i in s) for s in self.subsets()}:
                self.families.weights(shape)
                if self.families.name == "matrix":
                    self.families.rows(shape)
            return
        for i, f in zip(self.on, self.families, strict=True):
            if f.name == "matrix":
                f.rows(domain.shape[i])
            if f.name == "phi":
                f.wrapped_diagonal(domain.shape[i])
            if f.name == "random" and (entries := f.count(domain.shape[i]) * domain.shape[i]) > ROWS_LIMIT:
                raise too_many_rows(f.name, (domain.shape[i],), entries)
            if f.name == "nodes":
                f.spans(domain.shape[i])
            if f.name == "weighted":
                f.weights(domain.shape[i])


def total_block(weight: float = 1.0, target: float | None = None) -> Block:
    """The single query that counts everybody."""
    return Block((), 0, (), weight, Total.name, target)


def pieces_of(kinds: Iterable[tuple[int, int]], ways: int) -> float:
    """How many pieces all tables of `ways` attributes have, where alike ones count once.

    `kinds` are the kinds of attributes: how many there are of each, and how many values these have. With one value
    they add nothing. A generating function: a table with n attributes of a kind keeps 0 to n of them in a piece.

    >>> pieces_of([(200, 2)], 2), pieces_of([(1, 2), (1, 3), (1, 4)], 2)
    (3.0, 12.0)
    """
    result = np.eye(1, ways + 1)[0]  # by the number of attributes used
    for many, values in kinds:
        used = np.arange(min(many, ways) + 1)
        result = np.convolve(result, used + 1.0 if values > 1 else np.ones(len(used)))[: ways + 1]
        if result[ways] > MOST_PIECES:  # more kinds can only add to it
            break
    return float(result[ways])


def too_many_pieces(what: str) -> LeastnoiseError:
    """What to raise where unlike tables are too many to list."""
    return LeastnoiseError(
        f"{what} have more than {MOST_PIECES:,} pieces to measure; use fewer ways, name fewer attributes in 'on', "
        "or make attributes alike: of equal size and with the same queries"
    )


def _about(many: int) -> str:
    """A whole number of any length in few characters."""
    return f"about 10^{len(str(many)) - 1}"
