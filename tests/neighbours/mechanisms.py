"""Every kind of release, run as users run it, and what it publishes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

import numpy as np

import leastnoise as ln
from leastnoise.mechanisms.adaptive.plan import AdaptivePlan, adaptive_plan
from leastnoise.mechanisms.discover.plan import DiscoverPlan
from leastnoise.mechanisms.gate import Counts, check_promise
from leastnoise.mechanisms.matrix.plan import MatrixPlan
from leastnoise.mechanisms.matrix.release import MatrixRelease
from leastnoise.mechanisms.side_counts import with_side_counts
from leastnoise.mechanisms.tree import Tree, tree_plan
from leastnoise.mechanisms.tree.plan import TreePlan
from leastnoise.mechanisms.tree.release import TreeRelease
from leastnoise.mechanisms.tree.targets import Cascade
from leastnoise.noise import SeededRandomSource
from leastnoise.privacy import Cost
from leastnoise.release.side_counts import side_counts_of
from leastnoise.sources import source_of
from tests.neighbours.shifts import Output
from tests.neighbours.tape import Tape, replaced

Options = Mapping[str, Any]  # of a run: rules, unit, ledger


@dataclass(frozen=True)
class Mechanism:
    """A kind of release: what is planned with a budget, and what a run of it publishes where noise is zero.

    Adaptive ones are run along each of some transcripts: those without noise (None) or with seeded noise.
    """

    name: str
    make: Callable[[ln.Budget], Any]
    publish: Callable[[Any, Any, Options, Tape | None], Output]
    transcripts: tuple[int | None, ...] = ()

    def tapes(self) -> list[Tape | None]:
        """One for each transcript; None where no tape is needed."""
        results = [Tape(None if seed is None else SeededRandomSource(seed)) for seed in self.transcripts]
        return [*results] or [None]


def silent(tape: Tape | None) -> AbstractContextManager[None]:
    """The samplers of the product replaced: by a tape, or by no noise."""
    return replaced() if tape is None else tape.playing()


# --- keys ------------------------------------------------------------------------------------------------------------


def keys(name: str, pages: Sequence[str], least: int) -> Mechanism:
    """Counts that are looked at; of others the largest that is not, which is as near to them as any."""

    def make(budget: ln.Budget) -> DiscoverPlan:
        return ln.discover("page", budget)

    def publish(plan: DiscoverPlan, data: Any, given: Options, tape: Tape | None) -> Output:
        prepared = plan.prepare(data, **{"rules": None, **given})
        check_promise(plan.cost.neighbours, prepared)
        counts = Counts(prepared.open())
        plan.look(counts)
        found = {key: n for keys, people in counts.keys(least) for key, n in zip(keys, people.tolist(), strict=True)}
        assert set(found) <= set(pages)
        values = tuple(found.get(page, least - 1) for page in pages)
        return Output(plan.cost, values, (plan.variance,) * len(values))

    return Mechanism(name, make, publish)


# --- plans of tables --------------------------------------------------------------------------------------------------


def tables(name: str, work: ln.Workload, **options: Any) -> Mechanism:
    def make(budget: ln.Budget) -> Any:
        return ln.plan(work, budget, **options)

    return Mechanism(name, make, _planned)


def merged(name: str, *works: ln.Workload) -> Mechanism:
    """Several plans, each with a part of the budget, and their releases as one."""

    def make(budget: ln.Budget) -> Any:
        part = ln.Budget(mu=budget.mu / len(works) ** 0.5, neighbours=budget.neighbours)
        return [ln.plan(work, part, baseline="uniform") for work in works]

    def publish(plans: Any, data: Any, options: Options, tape: Tape | None) -> Output:
        return of_tables(ln.merge(*(plan.run(data, **options) for plan in plans)))

    return Mechanism(name, make, publish)


def _planned(plan: Any, data: Any, options: Options, tape: Tape | None) -> Output:
    return of_tables(plan.run(data, **options))


def of_tables(release: ln.Release, noisy: bool = True) -> Output:
    """All integers of a release; with `noisy` off those without noise alone."""
    values: list[int] = []
    variances: list[Fraction] = []
    for part in release.parts:
        for noisy_queries, answers in zip(part.integer_plan.noisy_queries, part.answers, strict=True):
            for noisy_query, message in zip(noisy_queries, answers, strict=True):
                if noisy or not noisy_query.variance:
                    values += [int(x) for x in message.reshape(-1).tolist()]
                    variances += [noisy_query.variance] * message.size
    return Output(release.cost, tuple(values), tuple(variances))


# --- counts beside tables ---------------------------------------------------------------------------------------------


def with_side(name: str, work: ln.Workload, by: tuple[Any, ...], alone: bool) -> Mechanism:
    """A plan with what rules touch, and people where there is a unit; `alone`: these against their own cost."""

    def make(budget: ln.Budget) -> Any:
        return ln.plan(work, budget.part(Fraction(1, 2)))

    def publish(plan: Any, data: Any, options: Options, tape: Tape | None) -> Output:
        people = {"people": Fraction(1, 4), "by": by} if "unit" in options else {}
        how = {key: options.get(key) for key in ("rules", "unit")}
        release = with_side_counts(plan, quality=Fraction(1, 4), **people, **how).run(data, **options)
        side = side_counts_of(release)
        values = tuple(count for each in side for count in each.counts)
        variances = tuple(Fraction(each.variance) for each in side for _ in each.counts)
        if alone and side:
            cost = Cost(sum(each.mu_squared for each in side), release.cost.neighbours)
            return Output(cost, values, variances)
        tables = of_tables(release)
        return Output(release.cost, tables.values + values, tables.variances + variances)

    return Mechanism(name, make, publish)


# --- adaptive releases ------------------------------------------------------------------------------------------------


def adaptive(name: str, work: ln.Workload, transcripts: tuple[int | None, ...], **options: Any) -> Mechanism:
    def make(budget: ln.Budget) -> AdaptivePlan:
        return adaptive_plan(work, budget, **options)

    def publish(plan: AdaptivePlan, data: Any, given: Options, tape: Tape | None) -> Output:
        assert tape is not None
        tape.rewind()
        release = plan.run(data, **given)
        exact = of_tables(release, noisy=False)  # what the sampler never saw
        values, variances = (*tape.values, *exact.values), (*tape.variances, *exact.variances)
        return Output(plan.budget.cost_value, values, variances, tuple(tape.choices))

    return Mechanism(name, make, publish, transcripts)


# --- matrices and streams ---------------------------------------------------------------------------------------------


def matrix(name: str, queries: Any, **options: Any) -> Mechanism:
    def make(budget: ln.Budget) -> MatrixPlan:
        return ln.matrix_plan(queries, budget, **options)

    def publish(plan: MatrixPlan, data: Any, given: Options, tape: Tape | None) -> Output:
        return _of_matrix(plan.run(data, **given))

    return Mechanism(name, make, publish)


def stream(name: str, steps: int, column: str = "item") -> Mechanism:
    """Counts of items, counted by a source with the rules of the data, go in one by one."""

    def make(budget: ln.Budget) -> MatrixPlan:
        return ln.matrix_plan(ln.running_totals(steps), budget, items={column: range(steps)})

    def publish(plan: MatrixPlan, data: Any, given: Options, tape: Tape | None) -> Output:
        (counts,) = source_of(data, plan.domain, **given).count([(0,)])
        running = ln.mechanisms.Stream(plan)
        for count in counts.tolist():
            running.add(count)
        return _of_matrix(running.close())

    return Mechanism(name, make, publish)


def _of_matrix(release: MatrixRelease) -> Output:
    values = tuple(int(x) for x in release.measured.tolist())
    return Output(release.cost, values, (release.plan.variance,) * len(values))


# --- cascades ---------------------------------------------------------------------------------------------------------


def cascade(name: str, trees: Tree | Mapping[str, Tree], **options: Any) -> Mechanism:
    def make(budget: ln.Budget) -> TreePlan:
        return tree_plan(trees, budget=budget, **options)

    def publish(plan: TreePlan, data: Any, given: Options, tape: Tape | None) -> Output:
        return of_tree(plan.run(data, **given))

    return Mechanism(name, make, publish)


def of_tree(release: TreeRelease) -> Output:
    """The published table of leaves in coordinates whose noise is independent: the total, and contrasts of children."""
    axes = [coordinates(c) for c in release.plan.noise_cascades]
    values = release.leaves.astype(object)
    for axis, (rows, _) in enumerate(axes):
        values = np.moveaxis(np.tensordot(rows.astype(object), values, axes=(1, axis)), 0, axis)
    variances = [prod(each, start=Fraction(1)) for each in product(*(v for _, v in axes))]
    return Output(release.cost, tuple(map(int, values.reshape(-1).tolist())), tuple(variances))


def coordinates(cascade: Cascade) -> tuple[np.ndarray, list[Fraction]]:
    """Integer rows on the leaves and the variances of their noise, from the definition, node by node.

    The own parts of m children with variance e are those of m independent ones, centred: m times a child less the sum
    of all has the variance m^3 e / (m - 1) where the noise of the others is left out.
    """
    core = cascade.tree.core.tree
    below = np.zeros((core.nodes, core.leaf_count), dtype=np.int64)
    below[core.leaves, np.arange(core.leaf_count)] = 1
    for node in range(core.nodes - 1, 0, -1):
        below[core.parent[node]] += below[node]
    rows, variances = [below[0]], [cascade.root]
    for node in np.flatnonzero(core.children).tolist():
        m, e = cascade.spreads[cascade.kind[node]]
        assert m == core.children[node]
        for child in np.flatnonzero(core.parent == node).tolist():
            rows.append(m * below[child] - below[node])
            variances.append(e * Fraction(m**3, m - 1))
    return np.array(rows), variances
