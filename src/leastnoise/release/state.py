"""What is known about every residual after measuring: estimates, and the strategy and noise behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import prod, sqrt

import numpy as np

from leastnoise._types import Array
from leastnoise.algebra.predictor import Predictor, predicted_join, predicted_residual
from leastnoise.algebra.residual import subsets
from leastnoise.errors import LeastnoiseError
from leastnoise.planning.covariance import in_class_order
from leastnoise.planning.integer_plan import IntegerPlan, NoisyQuery, decode, measured_errors
from leastnoise.planning.residual_workload import Baseline, Baselines, Predictors, predictors_at, predictors_of
from leastnoise.planning.structure import Orbit, Structure, build_structure
from leastnoise.planning.variance import Variances
from leastnoise.release.measurements import Answers, Measurements
from leastnoise.strategies import CirculantStrategy, KronStrategy, MatrixStrategy, Strategy, TreeStrategy
from leastnoise.strategies.combined import CirculantSum, Combined
from leastnoise.strategies.tree import same_shares, same_tree
from leastnoise.workload import Workload

Members = tuple[int, ...]  # attributes in class order
BATCH_CELLS = 2**20  # cells of tables made at a time, unless a single one is larger
MERGE_CELLS = 4_096  # cells up to which unlike strategies are merged


@dataclass(frozen=True, eq=False)
class Known:
    """One residual orbit: tables (members, *shape) known up to what the baselines fill, with noise and strategy."""

    tables: Array
    noise: float
    strategy: Strategy


@dataclass(frozen=True, eq=False)
class State:
    """Everything a release knows, by residual orbit."""

    structure: Structure
    baselines: tuple[Baseline, ...]
    known: tuple[Known | None, ...]
    errors: Variances
    _rows: dict[Orbit, dict[Members, int]] = field(default_factory=dict)

    @staticmethod
    def of(parts: Sequence[Measurements]) -> State:
        """The state after one or several releases of the same domain."""
        states = [_single(part) for part in parts]
        return states[0] if len(states) == 1 else _merged(states, [p.integer_plan for p in parts])

    def order(self, attributes: Sequence[int]) -> Members:
        """Attributes in the order in which residuals list them."""
        return tuple(in_class_order(self.structure, attributes))

    def orbit(self, members: Sequence[int]) -> Orbit:
        """The orbit of attributes in class order."""
        return tuple(self.structure.class_of[a] for a in members)

    def find(self, members: Members) -> Known | None:
        """What is known about the orbit of these attributes."""
        i = self.errors.orbit_of.get(self.orbit(members))
        return None if i is None else self.known[i]

    def table(self, members: Members) -> Array | None:
        """The estimate for one attribute set (class order), up to what the baselines fill."""
        known = self.find(members)
        return None if known is None else known.tables[self.row(members)]

    def alone(self, attributes: Sequence[int]) -> Known | None:
        """What is known about one attribute set by itself, axes in the order given."""
        order = self.order(attributes)
        known = self.find(order)
        if known is None:
            return None
        axes = [order.index(a) for a in attributes]
        return Known(known.tables[self.row(order)].transpose(axes)[None], known.noise, permuted(known.strategy, axes))

    def regrouped(self, structure: Structure, known: Sequence[Known | None], others: Sequence[State] = ()) -> State:
        """The state with the same baselines that knows this about the residuals of another structure.

        Its predictors are its own and those of `others`, which may know more residuals.
        """
        plain = tuple(self.baselines[self.structure.class_of[c.members[0]]] for c in structure.classes)
        predictors = predictors_among([self, *others], structure)
        baselines = Baselines(plain, predictors) if predictors else plain
        measured = [None if k is None else (k.noise, k.strategy) for k in known]
        return State(structure, baselines, tuple(known), measured_errors(structure, baselines, measured))

    def predictor(self, attributes: Sequence[int]) -> Predictor | None:
        """The predictor of one attribute set, axes in the order given."""
        order = self.order(attributes)
        found = predictors_of(self.baselines).get(self.orbit(order))
        return None if found is None else found.permuted([order.index(a) for a in attributes])

    def simulated(self, count: Callable[[Members], Array], rng: np.random.Generator) -> State:
        """The state that other data would have led to, with noise of the same covariances, which is not rounded.

        `count` gives the exact table of some attributes, in class order.

        Guarantees: simulated_noise_has_the_covariance_of_the_release.
        """
        known = [
            None if k is None else self._like(o, k, count, rng)
            for o, k in zip(self.structure.orbits, self.known, strict=True)
        ]
        return replace(self, known=tuple(known), _rows={})

    def _like(self, orbit: Orbit, known: Known, count: Callable[[Members], Array], rng: np.random.Generator) -> Known:
        exact = np.stack([self.residual(tuple(s), count(tuple(s))) for s in self.structure.sets(orbit).tolist()])
        noise = rng.standard_normal((len(exact), known.strategy.measurements))
        moved = sqrt(known.noise) * known.strategy.back(noise)  # covariance: noise V^+
        return Known(exact.reshape(known.tables.shape) + moved.reshape(known.tables.shape), known.noise, known.strategy)

    def residual(self, members: Members, table: Array) -> Array:
        """The residual in a table of some attributes (class order)."""
        return predicted_residual(table, [self.baseline(a) for a in members], self.predictor(members))

    def row(self, members: Members) -> int:
        """Where an attribute set stands in its orbit."""
        orbit = self.orbit(members)
        if orbit not in self._rows:
            sets = self.structure.sets(orbit)
            self._rows[orbit] = {tuple(s): i for i, s in enumerate(sets.tolist())}
        return self._rows[orbit][members]

    def baseline(self, attribute: int) -> Array:
        """The baseline of an attribute."""
        return self.baselines[self.structure.class_of[attribute]].values

    def marginal(self, attributes: Sequence[int]) -> Array:
        """The unbiased table over some attributes, axes in the order given; residuals not measured are filled in."""
        order = self.order(attributes)
        ((_, tables),) = self.marginals(self.orbit(order), [order])
        return tables[0].transpose([order.index(a) for a in attributes])

    def marginals(
        self, orbit: Orbit, sets: Sequence[Members] | None = None, cells: int = BATCH_CELLS
    ) -> Iterator[tuple[list[Members], Array]]:
        """(attribute sets, tables (sets, *shape)) of an orbit, some at a time; axes in class order."""
        members = [tuple(s) for s in self.structure.sets(orbit).tolist()] if sets is None else list(sets)
        baselines = [self.baselines[c].values for c in orbit]
        shape = [len(p) for p in baselines]
        step = max(1, cells // prod(shape))
        for low in range(0, len(members), step):
            batch = members[low : low + step]
            parts = {kept: t for kept in subsets(len(orbit)) if (t := self._tables(batch, kept)) is not None}
            joined = predicted_join(parts, baselines, shape, predictors_at(self.baselines, orbit))
            yield batch, np.broadcast_to(joined, (len(batch), *shape))

    def _tables(self, batch: Sequence[Members], kept: tuple[int, ...]) -> Array | None:
        """What is known about the same axes of some attribute sets."""
        subsets = [tuple(members[p] for p in kept) for members in batch]
        known = self.find(subsets[0])
        return None if known is None else known.tables[[self.row(s) for s in subsets]]


def _single(part: Measurements) -> State:
    integer_plan = part.integer_plan
    known = [
        None if m is None else Known(_decoded(noisy_queries, answers), *m)
        for noisy_queries, answers, m in zip(
            integer_plan.noisy_queries, part.answers, integer_plan.measured, strict=True
        )
    ]
    return State(integer_plan.structure, integer_plan.baselines, tuple(known), integer_plan.errors)


def _decoded(noisy_queries: Sequence[NoisyQuery], answers: Sequence[Answers]) -> Array:
    """Tables behind the answers, some attribute sets at a time: least squares take several times the memory of a table.

    Guarantees: decoding_some_at_a_time_changes_nothing.
    """
    step = max(1, BATCH_CELLS // max(1, sum(a.shape[1] for a in answers)))
    first = decode(noisy_queries, [a[:step] for a in answers])
    if len(answers[0]) <= step:
        return first
    tables = np.empty((len(answers[0]), *first.shape[1:]))
    tables[:step] = first
    for low in range(step, len(tables), step):
        tables[low : low + step] = decode(noisy_queries, [a[low : low + step] for a in answers])
    return tables


def _merged(states: Sequence[State], integer_plans: Sequence[IntegerPlan]) -> State:
    """Several releases as one: the precisions of each residual add up."""
    if any(r.workload.domain != integer_plans[0].workload.domain for r in integer_plans):
        raise LeastnoiseError("the releases are on different domains; merge releases of the same attributes and values")
    first = integer_plans[0].structure.workload
    if any(r.structure.workload.domain != first.domain for r in integer_plans):
        raise LeastnoiseError(
            "the releases measure different attributes on doubled cycles; plan with solver 'embedding' for none of "
            "them, or for all and with prefixes or suffixes on the same attributes"
        )
    for a, name in enumerate(first.domain.names):
        if any(not np.allclose(s.baseline(a), states[0].baseline(a), rtol=0, atol=1e-12) for s in states):
            raise LeastnoiseError(
                f"the releases have different baselines on {name!r}; plan both with the same one, such as "
                "baseline='uniform'"
            )
    _check_predictors(states)
    blocks = tuple(b for r in integer_plans for b in r.structure.workload.blocks)
    alike = all(
        [c.members for c in s.structure.classes] == [c.members for c in states[0].structure.classes] for s in states
    )
    # where the classes differ, every attribute is a class of its own, so that axes have one order
    classes = states[0].structure.class_of
    structure = build_structure(Workload(first.domain, blocks), classes.__getitem__ if alike else lambda a: a)
    known = [_fused([k for s in states if (k := _seen(s, structure, o)) is not None]) for o in structure.orbits]
    return states[0].regrouped(structure, known, states[1:])


def predictors_among(states: Sequence[State], structure: Structure) -> Predictors:
    """The predictors of the residuals of a structure, where some state has one."""
    found: dict[Orbit, Predictor] = {}
    if any(predictors_of(s.baselines) for s in states):
        for orbit in structure.orbits:
            members = structure.sets(orbit)[0].tolist()
            known = [p for s in states if (p := s.predictor(members)) is not None]
            found |= {orbit: known[0]} if known else {}
    return found


def _check_predictors(states: Sequence[State]) -> None:
    """Releases that measure the same residual must divide tables alike: with the same predictor, or without."""
    pairs: dict[tuple[int, ...], tuple[Predictor, Predictor | None, str]] = {}
    for state in states:
        for orbit in predictors_of(state.baselines):
            for members in state.structure.sets(orbit).tolist():
                own, name = state.predictor(members), _named(state, members)
                assert own is not None
                others = [s.predictor(members) for s in states if s.find(s.order(members)) is not None]
                pairs |= {(id(own), id(other)): (own, other, name) for other in others}
    for own, other, name in pairs.values():
        if not _same_predictor(own, other):
            raise LeastnoiseError(
                f"the releases divide {name} in different ways; plan both with the same baseline, such as "
                "baseline='uniform'"
            )


def _named(state: State, members: Sequence[int]) -> str:
    return " x ".join(state.structure.workload.domain.names[a] for a in sorted(members))


def _same_predictor(one: Predictor, other: Predictor | None) -> bool:
    """Whether two predictors define the same residual."""
    if one is other or other is None:
        return one is other
    cells = np.eye(prod(one.shape)).reshape(-1, *one.shape)
    return bool(np.allclose(one.moved(cells), other.moved(cells), rtol=0, atol=1e-9))


def _seen(state: State, structure: Structure, orbit: Orbit) -> Known | None:
    """What one release knows about an orbit of the common structure, axes in the common order."""
    sets = structure.sets(orbit)
    if state.structure.classes == structure.classes:
        return state.find(state.order(sets[0].tolist()))
    (members,) = sets.tolist()  # classes differ, so there is one set per orbit
    return state.alone(members)


def permuted(strategy: Strategy, axes: Sequence[int]) -> Strategy:
    """The same measurements with the axes in another order."""
    if list(axes) == sorted(axes):
        return strategy
    if isinstance(strategy, CirculantStrategy):
        return CirculantStrategy(strategy.theta.transpose(axes))
    if strategy.factors is not None:
        return KronStrategy(tuple(strategy.factors[a] for a in axes))
    if isinstance(strategy, Combined):
        base, rows = permuted(strategy.base, axes), strategy.rows.reshape(-1, *strategy.shape)
        return Combined(base, strategy.weight, rows.transpose([0, *(a + 1 for a in axes)]))
    rows = strategy.matrix().reshape(-1, *strategy.shape).transpose([0, *(a + 1 for a in axes)])
    return MatrixStrategy(rows, rows.shape[1:])


def _fused(known: list[Known]) -> Known | None:
    """Independent knowledge of one orbit as one: least squares."""
    if len(known) < 2:
        return known[0] if known else None
    if exact := [k for k in known if not k.noise]:
        return exact[0]
    first, *rest = known
    if all(same(k.strategy, first.strategy) for k in rest):
        precisions = [1 / k.noise for k in known]
        tables = np.sum([p * k.tables for p, k in zip(precisions, known, strict=True)], axis=0)
        return Known(tables / sum(precisions), 1 / sum(precisions), first.strategy)
    cyclic = CirculantSum.of([k.strategy for k in known], [k.noise for k in known])
    if cyclic is not None:
        return Known(cyclic.mean([k.tables for k in known]), cyclic.noise, cyclic.strategy)
    if first.strategy.cells > MERGE_CELLS:
        raise LeastnoiseError(
            f"the releases measure {first.strategy.cells:,} cells in different ways, too many to merge; "
            "use the same plan for both"
        )
    fused, *others = sorted(known, key=lambda k: not k.strategy.full_rank)
    for more in others:
        fused = _update(fused, more)
    return fused


def _update(base: Known, more: Known) -> Known:
    """Further measurements: precisions add up, and tables move by what the new ones say beyond the old."""
    rows = more.strategy.matrix() / sqrt(more.noise)
    strategy = Combined(base.strategy, 1 / base.noise, rows)
    flat, other = (k.tables.reshape(len(k.tables), -1) for k in (base, more))
    surprise = (other - flat) @ rows.T
    moved = flat + strategy.back(strategy.half(surprise @ rows))
    return Known(moved.reshape(base.tables.shape), 1.0, strategy)


def same(a: Strategy, b: Strategy) -> bool:
    """Whether two strategies are the same matrix."""
    if a is b:
        return True
    if isinstance(a, KronStrategy) and isinstance(b, KronStrategy):
        return all(same(x, y) for x, y in zip(a.parts, b.parts, strict=True))
    if isinstance(a, Combined) and isinstance(b, Combined):
        return a.weight == b.weight and same(a.base, b.base) and bool(np.array_equal(a.rows, b.rows))
    if isinstance(a, TreeStrategy) and isinstance(b, TreeStrategy):
        alike = same_tree(a.tree, b.tree) and same_shares(a.shares, b.shares)
        return alike and bool(np.array_equal(a.scales, b.scales))
    if isinstance(a, CirculantStrategy) and isinstance(b, CirculantStrategy):
        return bool(np.array_equal(a.theta, b.theta))
    return isinstance(a, MatrixStrategy) and isinstance(b, MatrixStrategy) and bool(np.array_equal(a.rows, b.rows))
