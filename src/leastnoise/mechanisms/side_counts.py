"""A mechanism of any kind, with counts that are measured beside it: what each rule touched, and distinct people.

The two are one release: one cost, one debit, one folder. The noise of both is independent, so their mu^2 add up.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import sha256
from math import ceil, isfinite, prod
from typing import Any

from leastnoise._types import IntArray, Progress
from leastnoise.domain.attributes import Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.gate import Counts
from leastnoise.mechanisms.mechanism import Mechanism, counting_of
from leastnoise.noise import RandomSource, rounded_gaussian
from leastnoise.noise.gaussian import LARGEST_VARIANCE
from leastnoise.planning.integer_plan import GRAIN
from leastnoise.planning.summary import number
from leastnoise.privacy.cost import Cost, fraction_text, read_positive_fraction
from leastnoise.privacy.neighbours import Neighbours
from leastnoise.release.counting import Counting
from leastnoise.release.release import Release
from leastnoise.release.side_counts import MOST_CELLS, Kind, SideCounts, SideQuery, expected_sensitivity
from leastnoise.sources.rules import AnyRules, PrivacyUnit
from leastnoise.sources.source import Axes, checked_sets

Share = float | Fraction


@dataclass(frozen=True, eq=False)
class WithSideCounts(Mechanism[Release]):
    """A mechanism, and what is measured beside it by the same run.

    Guarantees: side_counts_cost_what_they_state; nothing_is_spent_on_bad_input.
    """

    inner: Mechanism[Release]
    counting: Counting
    queries: tuple[SideQuery, ...]

    @property
    def method(self) -> str:  # type: ignore[override]
        """What a spec calls it."""
        return self.inner.method

    @property
    def keeps_size(self) -> bool:
        """Whether what is published exactly holds the number of rows."""
        return self.inner.keeps_size

    @property
    def domain(self) -> Domain:
        """The attributes that are counted."""
        return self.inner.domain

    @property
    def cost(self) -> Cost:
        """The exact cost of everything."""
        more = sum(query.mu_squared for query in self.queries)
        return replace(self.inner.cost, mu_squared=self.inner.cost.mu_squared + more)

    @property
    def delta(self) -> float:
        """The delta at which epsilon is stated."""
        return self.inner.delta

    @property
    def fingerprint(self) -> str:
        """sha256 of all that decides what is measured."""
        unused = {"impossible"} if self.counting.impossible is None else set()
        beside = [self.counting.model_dump(exclude=unused), *(query.model_dump() for query in self.queries)]
        return sha256(f"{self.inner.fingerprint}{json.dumps(beside, sort_keys=True)}".encode()).hexdigest()

    def check(self) -> None:
        """Refuse before the debit what would fail after it."""
        self.inner.check()

    def check_counting(self, counting: Counting | None) -> None:
        """Refuse data that is counted otherwise than was planned."""
        if counting != self.counting:
            raise LeastnoiseError(
                "quality and people were planned for other rules or another unit than this run has; "
                "give both the same, and data with columns of values"
            )

    def look(self, counts: Counts) -> None:
        """Read the side counts, before any table is counted."""
        self._exact(counts)
        super().look(counts)

    def _exact(self, counts: Counts) -> list[IntArray]:
        rules = sum(len(self.counting.counters()) for query in self.queries if query.kind == "quality")
        return counts.side_counts(rules, [self._axes(query) for query in self.queries if query.kind == "people"])

    def _axes(self, query: SideQuery) -> Axes:
        return tuple(self.domain.index(name) for name in query.attributes)

    def measure(self, counts: Counts, random_source: RandomSource, progress: Progress | None = None) -> Release:
        """Measure everything with fresh noise; `run` debits first."""
        exact = self._exact(counts)
        release = self.inner.measure(counts, random_source, progress)
        return beside(release, [measured(*each, random_source) for each in zip(self.queries, exact, strict=True)])

    def room(self, tables: bool) -> int:
        """Bytes that the release needs on disk."""
        return self.inner.room(tables) + 32 * sum(self._cells(query) for query in self.queries)

    def _cells(self, query: SideQuery) -> int:
        if query.kind == "quality":
            return len(self.counting.counters())
        return prod(self.domain[name].size for name in query.attributes)

    def to_json(self) -> dict[str, Any]:
        """The mechanism in numbers."""
        privacy = {"epsilon": self.cost.epsilon_at(self.delta), "delta": self.delta} | self.cost.to_json()
        beside = [
            {"kind": q.kind, "attributes": q.attributes, "counts": self._cells(q), "std_error": q.std_error}
            | {"share": float(q.mu_squared / self.cost.mu_squared)}
            for q in self.queries
        ]
        return self.inner.to_json() | {"privacy": privacy, "side_counts": beside}

    def __str__(self) -> str:
        return "\n".join([str(self.inner), *side_lines(self.to_json())])


def side_lines(fields: Mapping[str, Any]) -> Iterator[str]:
    """What is measured beside a plan that is given as `to_json` gives it, in a few lines."""
    for entry in fields.get("side_counts", ()):
        what = " x ".join(entry["attributes"])
        named = (
            "what each rule touched" if entry["kind"] == "quality" else f"people {f'by {what}' if what else 'in all'}"
        )
        error, share = number(entry["std_error"]), f"{100 * entry['share']:.2g}%"
        yield f"beside it: {named}, standard error {error}, for {share} of mu^2"


def measured(query: SideQuery, exact: IntArray, random_source: RandomSource) -> SideCounts:
    """Exact integers plus exact integer noise."""
    noise = rounded_gaussian(random_source, read_positive_fraction(query.variance), exact.size)
    noisy = exact.reshape(-1) + noise
    return SideCounts(
        **query.model_dump(include={*SideQuery.model_fields}), counts=[int(count) for count in noisy.tolist()]
    )


def beside(release: Release, side: Sequence[SideCounts]) -> Release:
    """A release with what was measured beside it."""
    (origin,) = release.origins
    run = origin.run.model_copy(update={"side": list(side)})
    changed: Release = replace(release, origins=(replace(origin, run=run),))  # type: ignore[type-var]
    return changed


def with_side_counts(
    mechanism: Mechanism[Release],
    *,
    quality: Share | None = None,
    people: Share | None = None,
    by: Sequence[str | Sequence[str]] = (),
    rules: AnyRules | None = None,
    unit: PrivacyUnit | Mapping[str, Any] | None = None,
) -> Mechanism[Release]:
    """A mechanism that measures more in the same run: what each rule touched, and distinct people.

    `quality` and `people` are shares of mu^2 of the whole, which then costs more than the mechanism alone: plan that
    with `Budget.part(1 - quality - people)`. `by` lists attributes, or sets of them, by which people are counted as
    well. `rules` and `unit` are those of the run.

    >>> import leastnoise as ln
    >>> plan = ln.plan(ln.Workload(ln.Domain.of(age=range(9))).marginals(), ln.Budget(mu=1).part(0.98))
    >>> more = with_side_counts(plan, quality=0.02, rules={"age": {"missing": "drop"}})
    >>> more.run({"age": [4, None]}, rules={"age": {"missing": "drop"}}).counting()["rules"][0]["rule"]
    'missing: drop'

    Guarantees: side_counts_cost_what_they_state; uses_no_data.
    """
    counting, neighbours = counting_of(mechanism.domain, rules, unit), mechanism.cost.neighbours
    if people is None and by:
        raise LeastnoiseError("'by' is for people; give their share of the budget too, such as 0.02 for people")
    wanted = [*_quality(counting, quality), *_people(mechanism.domain, people, by)]
    _check(mechanism, counting, [kind for kind, *_ in wanted])
    rest = 1 - sum((share for *_, share in wanted), Fraction(0))
    if rest <= 0:
        raise LeastnoiseError("quality and people take the whole budget; their shares must add up to less than 1")
    whole = mechanism.cost.mu_squared / rest
    queries = [_query(kind, names, cells, whole * share, counting, neighbours) for kind, names, cells, share in wanted]
    return WithSideCounts(mechanism, counting, tuple(queries)) if queries else mechanism


Wanted = tuple[Kind, tuple[str, ...], int, Fraction]  # kind, attributes, numbers, share of the budget


def _quality(counting: Counting, share: Share | None) -> list[Wanted]:
    """Nothing where no rule can touch a row: those numbers are 0 without a look at the data."""
    if share is None:
        return []
    checked = checked_share("quality", share)
    return [("quality", (), len(counting.counters()), checked)] if counting.counters() else []


def _people(domain: Domain, share: Share | None, by: Sequence[str | Sequence[str]]) -> list[Wanted]:
    if share is None:
        return []
    named = [(each,) if isinstance(each, str) else tuple(each) for each in by]
    tables = [(), *dict.fromkeys(tuple(sorted(names, key=domain.index)) for names in named if names)]
    checked_sets(domain, [tuple(map(domain.index, names)) for names in tables])
    domain.check_counted("a number of people", [name for names in tables for name in names])
    sizes = [prod(domain[name].size for name in names) for names in tables]
    if sum(sizes) > MOST_CELLS:
        raise LeastnoiseError(
            f"people by these attributes are {sum(sizes):,} counts, more than {MOST_CELLS:,}; use fewer or smaller ones"
        )
    each = checked_share("people", share) / len(tables)
    return [("people", names, size, each) for names, size in zip(tables, sizes, strict=True)]


def checked_share(name: str, share: Share) -> Fraction:
    """A share of the budget, exactly as it was written."""
    exact = Fraction(str(share)) if isinstance(share, int | float | Fraction) and isfinite(share) else Fraction(0)
    if not 0 < exact < 1:
        raise LeastnoiseError(f"{name} is {share}, not a share of the budget between 0 and 1; 0.02 is usual")
    return exact


def _check(mechanism: Mechanism[Release], counting: Counting, kinds: Sequence[Kind]) -> None:
    if kinds and mechanism.method == "discover":
        raise LeastnoiseError("keys are found by themselves; leave quality and people out, or measure them with tables")
    if kinds and mechanism.method == "stream":
        raise LeastnoiseError("a stream gets counts, not rows; leave quality and people out, or use another method")
    if "people" in kinds and counting.max_rows is None:
        raise LeastnoiseError("people are told apart by a unit; add one, such as unit: {id: person, max_rows: 1}")
    if "quality" in kinds and counting.max_rows is None and mechanism.cost.neighbours.rows_per_person is not None:
        raise LeastnoiseError(
            "a rule may touch any number of rows of one person, so quality needs a unit; "
            "add one, such as unit: {id: person, max_rows: 1}"
        )


def _query(
    kind: Kind, names: tuple[str, ...], cells: int, part: Fraction, counting: Counting, neighbours: Neighbours
) -> SideQuery:
    """The least noise that costs at most mu^2 = `part`."""
    query = SideQuery(kind=kind, attributes=list(names), sensitivity=1, variance="1/1")
    square = expected_sensitivity(query, counting, neighbours, cells)
    variance = Fraction(ceil(square / part * GRAIN), GRAIN)
    if variance > LARGEST_VARIANCE:
        raise LeastnoiseError(f"{kind} would need noise beyond 1e16, which cannot be drawn; give it a larger share")
    return query.model_copy(update={"sensitivity": square, "variance": fraction_text(variance)})
