"""What the rows and columns of a plain matrix of queries are called."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise._types import IntArray
from leastnoise.domain.attributes import Attribute, Domain, Spec
from leastnoise.errors import LeastnoiseError
from leastnoise.strategies.system import MOST_ENTRIES, MOST_ITEMS

ITEM = "item"  # the column of the data, where no other is named
LONGEST = 200  # characters of a name
Items = Mapping[str, Spec] | Spec | Attribute
Names = tuple[str, ...]
_SIGN = re.compile(r" ([+-]) ")


def unwrapped(
    queries: Any, items: Items | None, names: Sequence[str] | None
) -> tuple[Any, Items | None, Sequence[str] | None]:
    """Queries as an array. A data frame brings names along: its columns are items, its index names the queries."""
    import pandas as pd
    from scipy.sparse import issparse

    if issparse(queries):
        sparse: Any = queries
        if sparse.shape[0] * sparse.shape[1] > MOST_ENTRIES:
            raise too_large(*sparse.shape)
        return sparse.toarray(), items, names
    if not isinstance(queries, pd.DataFrame):
        return queries, items, names
    columns: Any = queries.columns
    rows: Any = queries.index
    if items is None and not isinstance(columns, pd.RangeIndex):
        items = columns.tolist()
    if names is None and not isinstance(rows, pd.RangeIndex):
        names = [str(name) for name in rows]
    return queries.to_numpy(), items, names


def too_large(rows: int, columns: int) -> LeastnoiseError:
    """What to raise where a matrix is too large."""
    return LeastnoiseError(
        f"a {rows:,} x {columns:,} matrix is too large to factorize; use at most {MOST_ITEMS:,} items "
        f"and {MOST_ENTRIES:,} entries, or running_totals for prefixes"
    )


def counted(items: Items | None, count: int) -> Attribute:
    """The column of the data that is counted, and its values: one per item."""
    if isinstance(items, Attribute):
        attribute = items
    elif isinstance(items, Mapping):
        if len(items) != 1:
            raise LeastnoiseError('items are the values of one column; write {"page": ["home", "shop"]}')
        ((name, spec),) = items.items()
        attribute = Attribute.of(name, spec)
    else:
        attribute = Attribute.of(ITEM, count if items is None else items)
    Domain((attribute,)).check_counted("a matrix")
    if attribute.size != count:
        raise LeastnoiseError(
            f"{attribute.name!r} has {attribute.size:,} values but the queries have {count:,} items; give "
            "one value per item"
        )
    return attribute


def checked_names(names: object, count: int) -> Names | None:
    """A name for each query, all different."""
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Sequence | np.ndarray):
        raise LeastnoiseError("names are a list with a text for each query")
    results = tuple(names)
    if len(results) != count:
        raise LeastnoiseError(f"there are {len(results):,} names for {count:,} queries; give one for each")
    for name in results:
        if not isinstance(name, str) or not name.strip() or not name.isprintable() or len(name) > LONGEST:
            raise LeastnoiseError(
                f"{str(name)[:40]!r} cannot name a query; give a line of at most {LONGEST} characters"
            )
    if len(set(results)) < count:
        twice = next(name for k, name in enumerate(results) if name in results[:k])
        raise LeastnoiseError(f"two queries are named {twice!r}; names must differ")
    return results


def place_of(query: object, count: int, numbers: Mapping[str, int]) -> int:
    """The number of a query, from its number or its name."""
    if isinstance(query, str):
        if query in numbers:
            return numbers[query]
        if not query.isdecimal():
            close = difflib.get_close_matches(query, list(numbers), n=1, cutoff=0.5)
            hint = f"did you mean {close[0]!r}?" if close else f"queries are numbered from 0 to {count - 1:,}"
            raise LeastnoiseError(f"no query is named {query!r}; {hint}")
        query = int(query)
    if isinstance(query, bool) or not isinstance(query, int | np.integer) or not 0 <= query < count:
        raise LeastnoiseError(f"queries are numbered from 0 to {count - 1:,}; give a list of such numbers")
    return int(query)


def places_of(queries: npt.ArrayLike, count: int, numbers: Mapping[str, int]) -> IntArray:
    """Numbers of some queries."""
    values = np.atleast_1d(np.asarray(queries))
    if values.dtype.kind == "U" and values.ndim == 1:
        return np.array([place_of(q, count, numbers) for q in values.tolist()], dtype=np.int64)
    if values.dtype.kind not in "iu" or values.ndim != 1 or ((values < 0) | (values >= count)).any():
        raise LeastnoiseError(f"queries are numbered from 0 to {count - 1:,}; give a list of such numbers")
    return values.astype(np.int64)


def parsed(question: str, count: int, numbers: Mapping[str, int]) -> dict[int, float]:
    """A query, or sums and differences of some with spaces around the signs: weights by number.

    >>> parsed("north - south + 2", 3, {"north": 0, "south": 1})
    {0: 1.0, 1: -1.0, 2: 1.0}
    """
    if question in numbers:
        return {numbers[question]: 1.0}
    first, *rest = _SIGN.split(question.strip())
    entries: dict[int, float] = {}
    for sign, name in [("+", first), *zip(rest[::2], rest[1::2], strict=True)]:
        place = place_of(name.strip(), count, numbers)
        entries[place] = entries.get(place, 0.0) + (1.0 if sign == "+" else -1.0)
    return entries


def bias_text(bias: float) -> str:
    """What a bias means."""
    return f"answers may be off by {100 * bias:.3g}% of the rows beside the noise, which errors and intervals count"
