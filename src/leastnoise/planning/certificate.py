"""Certificates: how far a plan can be from the best factorization mechanism there is."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from leastnoise._types import Array, Progress
from leastnoise.algebra.gram import Dense, kron_all
from leastnoise.planning.contributions import contributions, groups_of
from leastnoise.planning.design import Design, Question, class_load, no_progress
from leastnoise.planning.fourier_bound import best_bound
from leastnoise.planning.objective import Objective
from leastnoise.planning.structure import Structure
from leastnoise.planning.trace_floor import GLUED, GLUED_PROBED, dual_weights, exact_trace_floor
from leastnoise.privacy.neighbours import Neighbours
from leastnoise.strategies.bounds import (
    RootTrace,
    fourier_trace,
    root_trace,
    root_trace_slopes,
    tensor_traces,
    trace_on,
)
from leastnoise.strategies.descent import Stop, descend
from leastnoise.strategies.optimal import solve_optimal
from leastnoise.strategies.tree import Witness
from leastnoise.workload import TensorFamily

SMALL_DOMAIN = 400  # cells up to which the optimum over all factorization mechanisms is computed
FLOOR_STEPS = 60  # steps of the search for the weights behind the bound
TIGHT = 1 - 1e-9  # share of a design's error at which a bound proves it optimal, rounding aside
CERTIFY_WORK = 1e12  # multiplications on request, while weights are searched: some minutes
EVALUATE_WORK = 2e13  # and for one evaluation that takes longer than that
QUICK_WORK = 5e9  # multiplications for an exact trace norm beside the plan: about a second
OPTIMUM = "optimum over all factorization mechanisms, computed on the full domain"
POLAR_VALUES = 2_000  # values of one attribute up to which numeric traces are taken


@dataclass(frozen=True)
class Floor:
    """A lower bound on the weighted error (sum of weight * variance) at privacy cost 1, and where it comes from."""

    value: float
    kind: str


def best_floor(design: Design) -> Floor:
    """The best bound known over all factorization mechanisms for the design's question.

    Closed forms come first: once one of them proves the design optimal, nothing larger is computed. On small domains
    the optimum itself follows, which no other bound exceeds.
    """
    if design.question.hides is not None:
        return _floor_for_people(design, design.question.hides)
    best = _fourier_floor(design.question)
    for floors in (_tree_floors(design.question), _numeric_floors(design)):
        if best.value >= TIGHT * design.root_total**2:
            break
        best = max((best, *floors), key=lambda f: f.value)
    return best


def _floor_for_people(design: Design, hides: Neighbours) -> Floor:
    """Where people have several rows and no two in the same group: a person may have one row, or rows in random groups.

    The second: k groups at random and the other attributes alike make E[d d^T] = (1 / N) sum_A c_A Pi_A with
    c_A = k (n - k) / (n - 1) for residuals with grouped attributes, n groups in all, and k^2 for others. The trace norm
    at uniform weights is a sum over residuals, which c_A^1/2 multiplies (docs/privacy.md).

    Guarantees: floors_for_people_are_below_the_optimum.
    """
    question, structure, n = design.question, design.structure, groups_of(design.structure.workload.domain, hides)
    alone = best_floor(replace(design, question=replace(question, hides=None)))
    k = min(hides.rows, n)
    people = [contributions(structure, orbit, hides) for orbit in structure.orbits]
    grouped = np.array([person is not None and bool(person.grouped) for person in people])
    moved = np.where(grouped, k * (n - k) / max(n - 1, 1), k**2) / hides.moves**2
    uniform = [np.full(c.size, 1 / c.size) for c in structure.classes]
    together = _polar(question, uniform, [1.0] * len(structure.slots), np.sqrt(moved))
    together = replace(together, kind="trace-norm bound for people in random groups (docs/privacy.md)")
    one = Floor(alone.value / hides.moves**2, f"{alone.kind}, for people with one row")
    return max(together, one, key=lambda f: f.value)


def certified_floor(design: Design, progress: Progress = no_progress) -> Floor | None:
    """The trace norm with the best product weights, however long it takes (within minutes)."""
    if max(c.size for c in design.structure.classes) > POLAR_VALUES:
        return None
    exact = exact_trace_floor(design, CERTIFY_WORK, progress, EVALUATE_WORK)
    return None if exact is None else Floor(*exact)


def _numeric_floors(design: Design) -> Iterator[Floor]:
    """The optimum on small domains, the exact trace norm where it is quickly had, bounds on it elsewhere."""
    optimum = exact_floor(design.question)
    if optimum is not None:
        yield optimum
        return
    if max(c.size for c in design.structure.classes) <= POLAR_VALUES:
        exact = exact_trace_floor(design, QUICK_WORK)
        if exact is not None:
            yield Floor(*exact)
            if exact[1] not in (GLUED, GLUED_PROBED):
                return
    yield from _polar_floors(design)


def exact_floor(question: Question) -> Floor | None:
    """The optimum itself, by the certified fixed point on the whole domain, where that is small."""
    domain = question.structure.workload.domain
    if domain.size > SMALL_DOMAIN:
        return None
    gram = full_gram(question)
    solved = solve_optimal(Dense((domain.size,), None, lambda: gram), gap=1e-5)
    return Floor(solved.floor, OPTIMUM)


def full_gram(question: Question) -> Array:
    """Weighted Gram of the whole workload on the whole (small) domain."""
    structure, domain = question.structure, question.structure.workload.domain
    out = np.zeros((domain.size, domain.size))
    for i, table in enumerate(structure.tables):
        for members in _member_sets(structure, table.block, table.axes):
            out += question.table_weights[i] * _table_gram(question, i, members)
    return out


def _member_sets(structure: Structure, block: int, axes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for subset in structure.workload.blocks[block].subsets():
        if tuple(sorted(structure.class_of[a] for a in subset)) == axes:
            yield subset


def _tensor(question: Question, table: int) -> TensorFamily:
    family = question.requested.tensors[table]
    assert family is not None
    return family


def _table_gram(question: Question, index: int, members: tuple[int, ...]) -> Array:
    structure, domain = question.structure, question.structure.workload.domain
    table = structure.tables[index]
    if table.slots is not None:
        slot_of = {structure.slots[s].cls: s for s in table.slots}
        mats = [
            question.requested.families[slot_of[structure.class_of[a]]].gram(n) if a in members else np.ones((n, n))
            for a, n in enumerate(domain.shape)
        ]
        return kron_all(mats)
    ordered = sorted(members, key=lambda a: (structure.class_of[a], a))
    rows = _tensor(question, index).root(tuple(domain.shape[a] for a in ordered))
    rows = rows.transpose([0, *(1 + ordered.index(a) for a in members)])
    wide = rows.reshape(len(rows), *(n if a in members else 1 for a, n in enumerate(domain.shape)))
    flat = np.broadcast_to(wide, (len(rows), *domain.shape)).reshape(len(rows), -1)
    return flat.T @ flat


def _assemble(
    question: Question, traces: list[RootTrace | None], tensors: dict[int, _TensorRoots], roots: Array | float = 1.0
) -> float:
    members = np.array(question.structure.members, dtype=float)
    return float(members @ (roots * np.sqrt(_squares(question, traces, tensors)[0]))) ** 2


def _squares(
    question: Question, traces: list[RootTrace | None], tensors: dict[int, _TensorRoots]
) -> tuple[Array, Array]:
    """Per orbit: sum over tables of weight * (trace of the table's root on the residual)^2; and the same per pair."""
    structure, pairs = question.structure, question.structure.pairs
    constants = np.array([0.0 if t is None else t.constant**2 for t in traces] + [1.0])
    rests = np.array([0.0 if t is None else t.rest**2 for t in traces] + [1.0])
    per_pair = question.table_weights[pairs.table] * pairs.extensions * constants[pairs.outside].prod(axis=1)
    per_pair *= rests[pairs.inside_slots].prod(axis=1)
    for p in np.flatnonzero([i is None for i in pairs.inside]).tolist():
        table = int(pairs.table[p])
        per_pair[p] *= tensors[table].on(pairs.kept[p]) ** 2 if table in tensors else 0.0
    squares = np.zeros(len(structure.orbits))
    np.add.at(squares, pairs.orbit, per_pair)
    return squares, per_pair


class _TensorRoots:
    """Traces of one non-product table, by residual."""

    def __init__(self, rows: Array, weights: list[Array]):
        self.parts = tensor_traces(rows, weights)
        self.traces: dict[tuple[int, ...], float] = {}

    def on(self, kept: tuple[int, ...]) -> float:
        if kept not in self.traces:
            self.traces[kept] = trace_on(*self.parts, kept)
        return self.traces[kept]


def _fourier_floor(question: Question) -> Floor:
    return norm_floor(question, Objective(1.0))


def norm_floor(question: Question, objective: Objective) -> Floor:
    """WFF's bound; for norms of the variances other than the sum with the best weights of the tables (its p*)."""
    bound, weights = best_bound(question, objective)
    kind = "WFF Theorems 5.8, 5.14 and 5.15 (closed form)"
    return Floor(bound.root(weights) ** 2, kind if objective.r == 1 else f"{kind} with their best weights p*")


def _tree_floors(question: Question) -> Iterator[Floor]:
    """A bound in closed form where queries are on nodes of hierarchies (docs/proofs.md)."""
    structure = question.structure
    loads = [class_load(question, c) for c in range(len(structure.classes))]
    if not any(loads):
        return
    witnesses = [None if load is None else Witness.of(load) for load in loads]
    traces: list[RootTrace | None] = []
    for f, s in zip(question.requested.families, structure.slots, strict=True):
        witness, n = witnesses[s.cls], structure.classes[s.cls].size
        if witness is not None:
            traces.append(witness.trace_of(f))
        elif n <= POLAR_VALUES:
            traces.append(root_trace(f.gram(n), np.full(n, 1 / n)))
        else:
            traces.append(fourier_trace(f, n))
    yield Floor(_assemble(question, traces, {}), "trace-norm bound along trees, in closed form (docs/proofs.md)")


def _polar_floors(design: Design) -> Iterator[Floor]:
    question, structure = design.question, design.structure
    if any(p.tree is not None for p in design.baselines):
        return  # the closed form along the tree is as good, and needs no matrix
    uniform = [np.full(c.size, 1 / c.size) for c in structure.classes]
    yield _polar(question, uniform, [1.0] * len(structure.slots))
    if _searchable(design):
        yield _polar(question, *_searched(design, uniform))


def _searchable(design: Design) -> bool:
    """Whether weights are searched for: not on large attributes, nor along trees."""
    sizes = [c.size for c in design.structure.classes]
    along_trees = any(p.tree is not None for p in design.baselines)
    return bool(design.structure.slots) and max(sizes, default=1) <= POLAR_VALUES and not along_trees


def _searched(design: Design, uniform: list[Array]) -> tuple[list[Array], list[float]]:
    """Better weights and tilts than uniform ones."""
    dual = [dual_weights(design, c) for c in range(len(design.structure.classes))]
    start = [u if d is None else (u + d) / 2 for u, d in zip(uniform, dual, strict=True)]
    weights, alphas = _BoundSearch(design.question).run(start)
    return _shared(weights), alphas


def _shared(weights: list[Array]) -> list[Array]:
    """Nearly equal weights made equal, so that like tables are decomposed once; any product weights give a bound."""
    kept: list[Array] = []
    for i, w in enumerate(weights):
        alike = next((j for j, k in enumerate(kept) if len(k) == len(w) and np.allclose(k, w, rtol=1e-4)), i)
        kept.append(w if alike == i else kept[alike])
    return kept


class _BoundSearch:
    """Better product weights and tilts for the bound, by ascent on its product part; any of them give a valid bound."""

    def __init__(self, question: Question):
        self.question, self.structure = question, question.structure
        classes, slots = self.structure.classes, self.structure.slots
        self.grams = [f.gram(classes[s.cls].size) for f, s in zip(question.requested.families, slots, strict=True)]
        self.members = np.array(self.structure.members, dtype=float)
        self.best: tuple[list[Array], list[float]] = ([], [])
        self.value = -np.inf

    def run(self, start: list[Array]) -> tuple[list[Array], list[float]]:
        self.cuts = np.cumsum([len(s) for s in start])
        x = np.concatenate([np.sqrt(np.concatenate(start)), np.full(len(self.grams), np.log(0.5))])
        descend(self.objective, x, FLOOR_STEPS, ftol=1e-7)
        return self.best

    def objective(self, x: Array) -> tuple[float, Array]:
        *raw, logs = np.split(x, self.cuts)
        alphas = np.exp(np.clip(logs, -7.0, 3.0))
        norms = [float(np.linalg.norm(r)) for r in raw]
        sigmas = [r / n for r, n in zip(raw, norms, strict=True)]
        slots = self.structure.slots
        results = [root_trace_slopes(g, sigmas[s.cls], a) for g, s, a in zip(self.grams, slots, alphas, strict=True)]
        squares, per_pair = _squares(self.question, [f[0] for f in results], {})
        value = float(self.members @ np.sqrt(squares))
        if value == 0:  # only tables that are not products count: nothing to climb
            self.best = ([v**2 for v in sigmas], alphas.tolist())
            raise Stop
        if value > self.value:
            self.value, self.best = value, ([v**2 for v in sigmas], alphas.tolist())
        constant, rest = self._slot_shares(squares, per_pair)
        slopes, tilt = [np.zeros(len(v)) for v in sigmas], np.zeros(len(results))
        for i, (t, up) in enumerate(results):
            of_constant = constant[i] / max(t.constant, 1e-300)
            of_rest = rest[i] / t.rest if t.rest > 0 else 0.0
            slopes[slots[i].cls] += of_constant * up.constant + of_rest * up.rest
            tilt[i] = of_constant * up.constant_alpha + of_rest * up.rest_alpha
        flat = [(g - (g @ v) * v) / n for g, v, n in zip(slopes, sigmas, norms, strict=True)]
        return -float(np.log(value)), -np.concatenate([*flat, tilt]) / value

    def _slot_shares(self, squares: Array, per_pair: Array) -> tuple[Array, Array]:
        """How much of the bound scales with each slot's constant and rest."""
        pairs = self.structure.pairs
        roots = np.divide(self.members, np.sqrt(squares), out=np.zeros_like(squares), where=squares > 0)
        share = roots[pairs.orbit] * per_pair
        constant, rest = np.zeros(len(self.grams) + 1), np.zeros(len(self.grams) + 1)
        for column in pairs.outside.T:
            np.add.at(constant, column, share)
        for column in pairs.inside_slots.T:
            np.add.at(rest, column, share)
        return constant, rest


def _polar(question: Question, weights: list[Array], alphas: list[float], roots: Array | float = 1.0) -> Floor:
    """With `roots`, which go with uniform weights, residuals count more or less."""
    traces, tensors = _polar_traces(question, weights, alphas, everywhere=not isinstance(roots, float))
    value = _assemble(question, traces, tensors, roots)
    return Floor(value, "trace-norm bound with polar test matrices (docs/theory.md)")


def squared_traces(design: Design) -> Iterator[tuple[list[Array], Array]]:
    """Weights on the values of each class, and per orbit the square of its term in the trace-norm bound that they give.

    (docs/theory.md, equation 20). First come uniform weights, then better ones where they are searched for.
    """
    question, structure = design.question, design.structure
    uniform = [np.full(c.size, 1 / c.size) for c in structure.classes]
    traces, tensors = _polar_traces(question, uniform, [1.0] * len(structure.slots), everywhere=True)
    yield uniform, _squares(question, traces, tensors)[0]
    if _searchable(design):
        weights, alphas = _searched(design, uniform)
        yield weights, _squares(question, *_polar_traces(question, weights, alphas))[0]


def _polar_traces(
    question: Question, weights: list[Array], alphas: list[float], everywhere: bool = False
) -> tuple[list[RootTrace | None], dict[int, _TensorRoots]]:
    """Traces of roots; `everywhere`, with uniform weights, attributes too large for them have those of Fourier."""
    structure = question.structure
    traces: list[RootTrace | None] = []
    for f, s, a in zip(question.requested.families, structure.slots, alphas, strict=True):
        n = structure.classes[s.cls].size
        long = fourier_trace(f, n) if everywhere else None
        traces.append(root_trace(f.gram(n), weights[s.cls], a) if n <= POLAR_VALUES else long)
    tensors: dict[int, _TensorRoots] = {}
    rows: dict[Hashable, Array] = {}
    shared: dict[Hashable, _TensorRoots] = {}
    for t, table in enumerate(structure.tables):
        if table.slots is None:
            family, shape = _tensor(question, t), structure.shape(table.axes)
            here = [weights[c] for c in table.axes]
            same = (family.key, shape)
            key = (same, tuple(w.tobytes() for w in here))  # by content: classes may differ and weigh alike
            if key not in shared:
                if same not in rows:
                    rows[same] = family.root(shape)
                shared[key] = _TensorRoots(rows[same], here)
            tensors[t] = shared[key]
    return traces, tensors
