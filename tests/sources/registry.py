"""Every source, made from rows of codes, and brute-force counts to hold against it.

A new source joins `FACTORIES`, and the contract runs on it.
"""

from collections import Counter
from collections.abc import Callable
from itertools import combinations

import numpy as np
from hypothesis import strategies as st

from leastnoise._types import IntArray
from leastnoise.domain import Domain, bins, sized
from leastnoise.sources import Codes, Marginals, Source, Table, as_source

Rows = list[tuple[int, ...]]


def brute_force(domain: Domain, rows: Rows, axes: tuple[int, ...]) -> IntArray:
    counts = Counter(tuple(row[k] for k in axes) for row in rows)
    table = np.zeros([domain.shape[k] for k in axes], dtype=np.int64)
    for cell, count in counts.items():
        table[cell] = count
    return table


def array_of(domain: Domain, rows: Rows) -> IntArray:
    return np.array(rows, dtype=np.int64).reshape(len(rows), len(domain))


def columns_of(domain: Domain, rows: Rows) -> dict[str, list[int]]:
    """In another order, and with a column that nobody asked for."""
    return {"other": ["?"] * len(rows)} | {
        name: [row[k] for row in rows] for k, name in reversed([*enumerate(domain.names)])
    }


def values_of(domain: Domain, rows: Rows) -> dict[str, list[object]]:
    return {a.name: [a.value(row[k]) for row in rows] for k, a in enumerate(domain)}


def marginals_of(domain: Domain, rows: Rows) -> dict[tuple[str, ...], IntArray]:
    """The whole table with its axes reversed, and all pairs."""
    everything = tuple(reversed(range(len(domain))))
    sets = {everything} | {pair for pair in combinations(range(len(domain)), 2) if len(domain) > 2}
    return {tuple(domain.names[k] for k in axes): brute_force(domain, rows, axes) for axes in sets}


def whole(domain: Domain, rows: Rows) -> IntArray:
    return brute_force(domain, rows, tuple(range(len(domain))))


FACTORIES: dict[str, Callable[[Domain, Rows, str | None], Source]] = {
    "codes by place": lambda domain, rows, name: Codes(domain, array_of(domain, rows), name),
    "codes by name": lambda domain, rows, name: Codes(domain, columns_of(domain, rows), name),
    "values": lambda domain, rows, name: Codes.of_values(domain, values_of(domain, rows), name),
    "table": lambda domain, rows, name: Table(domain, whole(domain, rows), name),
    "marginals": lambda domain, rows, name: Marginals(domain, marginals_of(domain, rows), name),
    "as_source": lambda domain, rows, name: as_source(domain, values_of(domain, rows), name),
}

SPECS = [
    sized,
    lambda n: sized(n, ordered=True),
    lambda n: range(3, 3 + n),
    lambda n: [f"value {k}" for k in range(n)],
    lambda n: bins(0, n, width=1),
]


@st.composite
def problems(draw: st.DrawFn) -> tuple[Domain, Rows, list[tuple[int, ...]]]:
    """A domain of up to four attributes, rows of it, and sets of attributes in any order, some of them repeated."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    domain = Domain.of({f"a{k}": draw(st.sampled_from(SPECS))(n) for k, n in enumerate(sizes)})
    rows = draw(st.lists(st.tuples(*(st.integers(0, n - 1) for n in sizes)), max_size=60))
    one_set = st.lists(st.integers(0, len(sizes) - 1), unique=True).map(tuple)
    return domain, rows, draw(st.lists(one_set, max_size=8))
