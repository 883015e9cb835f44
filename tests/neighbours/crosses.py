"""Which kinds of releases meet which budgets, rules and data sets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import leastnoise as ln
from leastnoise.mechanisms.tree import Tree
from tests.neighbours import mechanisms as kinds
from tests.neighbours.data import ID, Universe, people_of, rows_of
from tests.neighbours.mechanisms import Mechanism
from tests.neighbours.suite import SECRET, Case

Rule = tuple[str, str]  # for values outside the domain, and for missing ones
Budget = dict[str, Any]

ADDED: Budget = {"mu": 1, "neighbours": "add-remove"}
REPLACED: Budget = {"mu": 1, "neighbours": "replace"}
DROPPED: Budget = {"mu": 1, "neighbours": "replace", "size": "private"}
ROWS = (ADDED, REPLACED, DROPPED)
PEOPLE: tuple[Budget, ...] = tuple(
    {"mu": 1, "neighbours": change, "rows_per_person": k} for k, change in product((1, 3), ("add-remove", "replace"))
)
RULES: tuple[Rule, ...] = tuple(product(("error", "drop", "clamp", "other"), ("error", "drop", "value")))
CROSSED = "sums and tables by group, impossible cells"
CROSSED_SIDE = "side counts, sums by group, impossible cells"
CROSSED_MOMENTS = "moments by group, impossible cells"
FEW_RULES: tuple[Rule, ...] = (("error", "error"), ("drop", "drop"), ("other", "value"))


@dataclass(frozen=True)
class Subject:
    """A kind of release and its columns: numbers, which can be clamped, and texts, which have the value "other"."""

    mechanism: Mechanism
    numbers: dict[str, tuple[int, ...]]
    texts: dict[str, tuple[str, ...]]
    rows: int = 2  # of a data set at most
    slow: bool = False  # a run takes long: fewer data sets
    more: bool = False  # more data sets
    people_only: bool = False  # no use is made of single rows
    one_per: tuple[str, ...] = ()  # where people have several rows, the attributes of whose values each has one

    @property
    def inside(self) -> dict[str, tuple[Any, ...]]:
        """The values of the domain."""
        return {**self.numbers, **self.texts}

    @property
    def columns(self) -> dict[str, tuple[Any, ...]]:
        """The raw values: those of the domain, one outside it, and none at all."""
        entries: dict[str, tuple[Any, ...]] = {}
        for name, values in self.inside.items():
            bad: tuple[Any, ...] = (99, None) if name in self.numbers else ("?", None)
            if entries:  # beside a column of numbers: fewer
                bad = () if self.slow else bad[:1]
            entries[name] = (*values, *bad)
        return entries

    def rules(self, rule: Rule) -> dict[str, dict[str, Any]]:
        """A rule for each column; where the one asked for does not exist, another that does not drop less."""
        outside, missing = rule
        result = {}
        for place, (name, values) in enumerate(self.inside.items()):
            no_number, no_text = name in self.numbers and outside == "other", name in self.texts and outside == "clamp"
            fills = missing == "value" or (missing == "drop" and place > 0)  # the first drops, the others fill in
            result[name] = {
                "outside": "clamp" if no_number else "drop" if no_text else outside,
                "missing": values[1] if fills else missing,
            }
        return result

    def drops(self, rule: Rule) -> bool:
        """Whether the rules leave rows out."""
        return any("drop" in each.values() for each in self.rules(rule).values())

    @property
    def universe(self) -> Universe:
        """All small data sets of any raw rows."""
        return _rows(tuple(self.columns.items()), self.rows)

    def people(self, k: int) -> Universe:
        """Some with more rows than are counted, of all kinds: counted, dropped, missing, the same again."""
        first, last = (tuple(values[i] for values in self.inside.values()) for i in (0, -1))
        bad = tuple({**dict.fromkeys(self.numbers, 99), **dict.fromkeys(self.texts, "?")}.values())
        rows = (first, last, bad) if self.slow else (first, last, bad, (None, *first[1:]))
        if self.one_per and k > 1:  # the same group in another cell, and a third group
            values = [*self.inside.values()]
            rows = (first, last, (first[0], *last[1:]), (values[0][1], *last[1:]), bad)
        most: dict[str | None, int] = {"p": k + 1, "r": 1 if self.slow else 2, None: 1}
        others: tuple[tuple[int, ...], ...] = ((), (0,)) if self.slow else ((), (0,), (0, 2))
        if self.more:
            most, others = {"p": k + 2, "r": k + 1, None: 2}, (*others, (1, 1, 2))
        return _people(tuple(self.columns), rows, tuple(most.items()), others)


@cache
def _rows(columns: tuple[tuple[str, tuple[Any, ...]], ...], most: int) -> Universe:
    return rows_of(dict(columns), most)


@cache
def _people(
    columns: tuple[str, ...],
    rows: tuple[tuple[Any, ...], ...],
    most: tuple[tuple[str | None, int], ...],
    others: tuple[tuple[int, ...], ...],
) -> Universe:
    return people_of(columns, rows, dict(most), others)


def _subjects() -> Iterator[Subject]:
    words, pages, days = ("x", "other"), ("home", "shop", "other"), {"item": (0, 1, 2, 3)}
    mixed = ln.Workload(ln.Domain.of(a=range(3), b=list(words))).marginals(ways=2).prefix("a")
    yield Subject(kinds.tables("plan", mixed), {"a": (0, 1, 2)}, {"b": words})
    yield Subject(kinds.tables("plan by group", mixed), {"a": (0, 1, 2)}, {"b": words}, rows=1, one_per=("a",))
    pairs_of_groups = kinds.tables("plan by two groups", mixed)
    yield Subject(pairs_of_groups, {"a": (0, 1, 2)}, {"b": words}, rows=1, one_per=("b", "a"))
    for name, alone in (("plan with side counts", False), ("side counts alone", True)):
        by = ("a", ("a", "b"))
        yield Subject(kinds.with_side(name, mixed, by, alone), {"a": (0, 1, 2)}, {"b": words}, rows=1)
    compared = ln.Workload(ln.Domain.of(a=range(3), c=range(3))).prefix(ways=1).affine("a", "c").abs_diff("a", "c")
    yield Subject(kinds.tables("plan with predictors", compared), {"a": (0, 1, 2), "c": (0, 2)}, {}, rows=1)
    yield from _impossible(words)
    cycles = ln.Workload(ln.Domain.of(a=range(4), b=list(words))).circular("a").prefix("a").marginals(ways=2)
    yield Subject(kinds.tables("plan on cycles", cycles, solver="fourier"), {"a": (0, 1, 2, 3)}, {"b": words}, rows=1)
    doubled = ln.Workload(ln.Domain.of(a=range(3), b=list(words))).extended(ways=2)
    extended = kinds.tables("extended marginals", doubled, solver="embedding")
    yield Subject(extended, {"a": (0, 1, 2)}, {"b": words}, rows=1)
    squared = ln.Domain.of(a=ln.amount(0, 4, squares=True), b=list(words))
    moments = ln.Workload(squared).moments("a", by="b")
    yield Subject(kinds.tables("sums and squares of an amount", moments), {"a": (0, 1, 4)}, {"b": words}, rows=1)
    amounts = ln.Domain.of(a=ln.amount(0, 3), c=ln.amount(-1, 1, unit=0.5), b=list(words))
    products = ln.Workload(amounts).sums("a", "c", by="b").sums("c", weight=3).marginals("b")
    yield Subject(kinds.tables("products of amounts", products), {"a": (0, 1, 3), "c": (-1, 0)}, {"b": words}, rows=1)
    crossed = ln.Domain.of(a=range(3), c=ln.amount(0, 2), b=list(words)).restricted(["a = 0 and b = 'x'"])
    summed = kinds.tables(CROSSED, ln.Workload(crossed).sums("c", by="a").marginals("b"))
    yield Subject(summed, {"a": (0, 1, 2), "c": (1, 2)}, {"b": words}, rows=1, one_per=("a",))
    side = kinds.with_side(CROSSED_SIDE, ln.Workload(crossed).sums("c", by="a").marginals("b"), ("a",), False)
    yield Subject(side, {"a": (0, 1, 2), "c": (1, 2)}, {"b": words}, rows=1, one_per=("a",))
    moved = ln.Domain.of(a=range(2), c=ln.amount(0, 2, squares=True), b=list(words)).restricted(["a = 0 and b = 'x'"])
    squares = kinds.tables(CROSSED_MOMENTS, ln.Workload(moved).moments("c", by="a").sums("c", by="b"))
    yield Subject(squares, {"a": (0, 1), "c": (0, 2)}, {"b": words}, rows=1, one_per=("a",))
    pairs, bits = ln.Workload(ln.Domain.of(a=range(2), b=list(words))).marginals(ways=2), {"a": (0, 1)}
    yield Subject(kinds.adaptive("survey", pairs, (None, 1)), bits, {"b": words}, slow=True)
    aim = kinds.adaptive("aim", pairs, (None, 1), select="aim", rounds=4)
    yield Subject(aim, bits, {"b": words}, slow=True)
    yield Subject(kinds.matrix("running totals", ln.running_totals(4), items={"item": range(4)}), days, {}, rows=3)
    # columns are much longer than their differences: a row that is dropped moves the answers most
    long = kinds.matrix("matrix", [[2, 2, 3], [3, 2, 2]], items={"page": pages}, objective="max")
    yield Subject(long, {}, {"page": pages}, rows=3)
    by_page = kinds.matrix("matrix by group", [[2, 2, 3], [3, -2, 2]], items={"page": pages})
    yield Subject(by_page, {}, {"page": pages}, rows=1, one_per=("page",))
    biased = kinds.matrix("matrix with a bias", [[2, 2, 3], [3, 2, 2]], items={"page": pages}, bias=0.3)
    yield Subject(biased, {}, {"page": pages}, rows=3)
    yield Subject(kinds.stream("stream", 4), days, {}, rows=3)
    found = kinds.keys("keys", ("home", "shop", "help", "other", "?"), 1)
    yield Subject(found, {}, {"page": ("home", "shop", "help")}, slow=True, people_only=True)
    yield Subject(kinds.cascade("cascade", Tree.regular([2, 3])), {"leaf": tuple(range(6))}, {})
    regions = Tree.from_paths([("n", "n1"), ("n", "n2"), ("n", "other"), ("s", "s1"), ("s", "s2")])
    exact = kinds.cascade("exact counts", regions, exact_level=1, values=["n1", "n2", "other", "s1", "s2"])
    yield Subject(exact, {}, {"leaf": ("n1", "n2", "s1", "s2", "other")})


# Subjects whose domains leave rows out, whatever the rules of their columns are.
LEAVE_OUT = {
    CROSSED,
    CROSSED_SIDE,
    CROSSED_MOMENTS,
    "impossible cells, drop",
    "allowed combinations",
    "side counts, impossible cells, drop",
    "survey, impossible cells",
}


def _impossible(words: tuple[str, ...]) -> Iterator[Subject]:
    """Domains with impossible cells, and every rule for rows in them; other rules can put rows there, too."""
    three = ("x", "y", "other")
    clause = "(a = 0 and b != 'x') or (a = 2 and b = 'x')"
    for rule, rows in (("drop", 2), ("error", 1), ("keep", 1)):
        domain = ln.Domain.of(a=range(3), b=list(three)).restricted([clause], rows=rule)
        work = ln.Workload(domain).marginals(ways=2).prefix("a")
        yield Subject(kinds.tables(f"impossible cells, {rule}", work), {"a": (0, 1, 2)}, {"b": three}, rows=rows)
    pairs = [{"of": ["a", "b"], "rows": [[0, "x"], [1, "x"], [2, "y"], [3, "other"]]}]
    paired = ln.Workload(ln.Domain.of(a=range(4), b=list(three)).restricted(allowed=pairs)).marginals(ways=2)
    yield Subject(kinds.tables("allowed combinations", paired), {"a": (0, 1, 2, 3)}, {"b": three}, rows=1)
    clause = "(a = 0 or a = 2) and b = 'x'"
    for rule in ("drop", "keep"):
        domain = ln.Domain.of(a=range(3), b=list(words)).restricted([clause], rows=rule)
        side = kinds.with_side(f"side counts, impossible cells, {rule}", ln.Workload(domain).marginals(), (), False)
        yield Subject(side, {"a": (0, 1, 2)}, {"b": words}, rows=1)
    bits = ln.Workload(ln.Domain.of(a=range(2), b=list(words)).restricted(["a = 0 and b = 'x'"])).marginals(ways=2)
    yield Subject(kinds.adaptive("survey, impossible cells", bits, (None, 1)), {"a": (0, 1)}, {"b": words}, slow=True)


SUBJECTS = {subject.mechanism.name: subject for subject in _subjects()}


def row_cases(subject: Subject, rules: Iterable[Rule] = RULES, budgets: Iterable[Budget] = ROWS) -> Iterator[Case]:
    """Single rows, with every rule that the columns can have."""
    if subject.people_only:
        return
    for budget, rule in product(budgets, rules):
        if subject.mechanism.name == "stream" and budget == REPLACED and subject.drops(rule):
            continue  # streams get counts: that their number is the same in both is what the caller says
        if (rule[0] != "clamp" or subject.numbers) and (rule[0] != "other" or subject.texts):
            yield Case(subject.mechanism, budget, subject.universe, {"rules": subject.rules(rule)})


def people_cases(
    subject: Subject, rules: Iterable[Rule] = FEW_RULES[1:], ids: Iterable[str] = ("drop",)
) -> Iterator[Case]:
    """People, with rules that drop rows and rules that keep them, and with ids that are missing."""
    for people, rule, missing in product(PEOPLE, rules, ids):
        k = people["rows_per_person"]
        groups = {"one_per": subject.one_per} if subject.one_per and k > 1 else {}
        budget, options = people | groups, {"rules": subject.rules(rule), "unit": unit(k, missing) | groups}
        yield Case(subject.mechanism, budget, subject.people(k), options)


def rows_of_people(subject: Subject) -> Iterator[Case]:
    """Data of people of whom one row is counted, where single rows are promised."""
    for budget in ROWS:
        options = {"rules": subject.rules(("other", "value")), "unit": unit(1, "drop")}
        yield Case(subject.mechanism, budget, subject.people(1), options)


def unit(max_rows: int, missing: str) -> dict[str, Any]:
    """People of whom at most so many rows are counted; the secret decides which, the same in every run."""
    return {"id": ID, "max_rows": max_rows, "missing": missing, "secret": SECRET}
