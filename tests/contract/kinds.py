"""All kinds of mechanisms, each with a spec, small data, and what it publishes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import leastnoise as ln
from leastnoise._types import IntArray
from leastnoise.mechanisms.from_spec import plan_spec
from leastnoise.mechanisms.mechanism import Mechanism
from leastnoise.noise import SeededRandomSource
from leastnoise.release import Release
from leastnoise.sources import Table
from leastnoise.workload.spec import Spec, parse_spec

PEOPLE = "attributes: {age: {range: [0, 4]}, sex: {values: [F, M]}, job: {size: 3}}\n"
RULED = PEOPLE.replace("[0, 4]", "[0, 4], outside: clamp, missing: drop")
PAIRS = "workload: [{queries: marginal, ways: 2}, {queries: prefix, on: age}]\n"
EXTENDED = "workload: [{queries: extended, ways: 2}]\n"
DAYS = "attributes: {day: {range: [0, 6]}}\n"
GEO = "geo: {hierarchy: {north: [a, b], south: [c, d, e]}, levels: [region, place]}"
PLACES = f"attributes: {{{GEO}}}\n"
PREFIX = "workload: [{queries: prefix, on: day}]\n"
RANDOM = "workload: [{queries: {random: {count: 9, seed: 3}}, on: day}]\n"
CHOICES = "adaptive: {select: aim, rounds: 6}\n"
HALF = "half: {hierarchy: {am: [m1, m2], pm: [p1, p2]}}"


@dataclass(frozen=True)
class Kind:
    """One kind: its spec without a method, the method, and a question that it must be able to answer."""

    method: str
    spec: str
    question: str
    names: tuple[str, ...]  # of a table in reach
    more: str = ""
    neighbours: str = ""  # of the budget, where they are not the usual ones

    @property
    def text(self) -> str:
        """The spec."""
        privacy = f"privacy: {{epsilon: 2, delta: 1e-9, {self.neighbours}}}\n"
        return f"{self.spec}{privacy}method: {self.method}\n{self.more}"

    def parsed(self) -> Spec:
        """The spec, read."""
        return parse_spec(self.text)

    def mechanism(self) -> Mechanism[Release]:
        """What the spec states."""
        return plan_spec(self.parsed())

    def counts(self) -> IntArray:
        """Counts of every cell of the domain."""
        shape = self.parsed().workload.domain.shape
        return np.random.default_rng(7).integers(0, 60, shape)

    def data(self) -> Any:
        """The same as a source."""
        return Table(self.parsed().workload.domain, self.counts(), "people")

    def run(self, seed: int = 1, **options: Any) -> Release:
        """A release of those counts."""
        return self.mechanism().run(self.data(), random_source=SeededRandomSource(seed), **self.options, **options)

    @property
    def options(self) -> dict[str, Any]:
        """What a run needs beside the data."""
        return {}

    @property
    def command(self) -> str:
        """What publishes it."""
        return "release"

    def csv(self) -> str:
        """Some rows as a file."""
        domain = self.parsed().workload.domain
        cells = [
            ",".join(str(a.value(c)) for a, c in zip(domain, cell, strict=True))
            for cell in list(np.ndindex(*domain.shape))[:50]
        ]
        return "\n".join([",".join(domain.names), *cells]) + "\n"


@dataclass(frozen=True)
class Beside(Kind):
    """Rows of values with rules, and what is measured beside their tables."""

    def data(self) -> Any:
        """The same rows, as columns of values."""
        domain, counts = self.parsed().workload.domain, self.counts()
        cells = np.repeat(np.argwhere(counts >= 0), counts.reshape(-1), axis=0)
        return {a.name: [a.value(int(code)) for code in cells[:, k]] for k, a in enumerate(domain)}

    @property
    def options(self) -> dict[str, Any]:
        """The rules of the spec."""
        return {"rules": self.parsed().rules}


@dataclass(frozen=True)
class Keys(Kind):
    """People with one key each, of whom there are so many that every run finds the same ones in the same order."""

    @property
    def text(self) -> str:
        """The spec, which has no method: its keys are unknown."""
        return "".join(line for line in super().text.splitlines(True) if not line.startswith("method"))

    def counts(self) -> IntArray:
        """People of each key, from the largest on."""
        return np.array([2000, 1200, 500])

    def data(self) -> Any:
        """A row for each of them."""
        pages = np.repeat(["/home", "/shop", "/help"], self.counts())
        return {"page": pages, "who": np.arange(len(pages))}

    @property
    def options(self) -> dict[str, Any]:
        """The unit of the spec."""
        return {"rules": self.parsed().rules, "unit": self.parsed().unit_fields}

    @property
    def command(self) -> str:
        """What publishes it."""
        return "discover"

    def csv(self) -> str:
        """The rows as a file."""
        data = self.data()
        rows = [f"{page},{who}" for page, who in zip(data["page"], data["who"], strict=True)]
        return "\n".join(["page,who", *rows]) + "\n"


AGES = ("age = 2 and sex = 'F'", ("age", "sex"))
KINDS = {
    "plan": Kind("plan", PEOPLE + PAIRS, *AGES),
    "plan with side counts": Beside("plan", RULED + PAIRS, *AGES, "quality: 0.1\n"),
    "tree with side counts": Beside(
        "tree", PLACES.replace("]}}", "], missing: drop}}"), "c", ("geo",), "quality: 0.2\n"
    ),
    "plan of hierarchies": Kind(
        "plan", f"attributes: {{{GEO}, sex: {{size: 2}}}}\nworkload: [{{queries: {{geo: nodes, sex: marginal}}}}]\n",
        "geo under 'north'", ("geo",),
    ),
    "plan on cycles": Kind(
        "plan", "attributes: {hour: {range: [0, 5]}, side: {size: 4}}\nworkload: [{queries: {hour: circular, side: "
        "marginal}}, {queries: {hour: {phi: [3, 2, 1, 0, 0, 0]}, side: {phi: [2, 1, 0, 0]}}}]\n",
        "hour < 2 and side = 1", ("hour", "side"), "solver: fourier\n",
    ),
    "extended marginals": Kind("plan", PEOPLE + EXTENDED, *AGES, "solver: embedding\n"),
    "adaptive by surveys": Kind("adaptive", PEOPLE + PAIRS, "age < 2", ("age",)),
    "adaptive by choices": Kind("adaptive", PEOPLE + PAIRS, "age < 2", ("age",), CHOICES),
    "matrix": Kind("matrix", DAYS + RANDOM, "day < 3", ("day",)),
    "matrix with names": Kind(
        "matrix", "attributes: {page: {values: [home, shop, help]}}\n"
        "workload: [{queries: {matrix: [[1, 1, 1], [0, 1, 0]], names: [all, sales]}}]\n",
        "all - sales", ("page",), "objective: max\n",
    ),
    "matrix with a bias": Kind("matrix", DAYS + RANDOM, "0", ("day",), "bias: 0.1\n"),
    "matrix with a bias, rows replaced": Kind(
        "matrix", DAYS + RANDOM, "3", ("day",), "bias: 0.1\nobjective: max\n", neighbours="neighbours: replace",
    ),
    "running totals": Kind("matrix", DAYS + PREFIX, "day between 2 and 4", ("day",)),
    "long running totals": Kind(
        "matrix", "attributes: {day: {range: [0, 1099]}}\n" + PREFIX,
        "day between 20 and 400", ("day",),
    ),
    "stream": Kind("stream", DAYS + PREFIX, "day <= 5", ("day",)),
    "tree": Kind("tree", PLACES, "north", ("geo",)),
    "two trees": Kind("tree", f"attributes: {{{GEO}, {HALF}}}\n", "north and pm", ("geo", "half")),
    "tree with targets": Kind("tree", PLACES, "geo under 'south'", ("geo",), "tree: {targets: [9, 9, 12]}\n"),
    "tree with exact counts": Kind("tree", PLACES, "c", ("geo",), "tree: {exact_level: 1}\n"),
    "keys": Keys(
        "discover", "attributes: {page: {discover: {at_least: 150}}}\nunit: {id: who, max_rows: 1}\n"
        "workload: [{queries: marginal}]\n", "page = '/shop'", ("page",),
    ),
}  # fmt: skip


@cache
def released(name: str) -> Release:
    """One release of each kind, made once."""
    return KINDS[name].run()


def ledger_for(kind: Kind, path: Path) -> ln.Ledger:
    """A ledger with room for one run and a little more."""
    cost = kind.mechanism().cost
    total = ln.Budget(mu=1.2 * float(cost.mu_squared) ** 0.5, neighbours=cost.neighbours)
    if cost.added_delta:  # which needs a total with a delta, of which a tenth is for keys
        total = ln.Budget(epsilon=total.epsilon_at(9e-10), delta=1e-9, neighbours=cost.neighbours)
    return ln.Ledger.create(path, total, "people")
