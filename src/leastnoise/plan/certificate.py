"""Certificates: how far a plan can be from the best factorization mechanism there is."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from leastnoise._types import Array
from leastnoise.factorize.bounds import RootTrace, fourier_trace, root_trace, tensor_traces, trace_on
from leastnoise.factorize.optimal import solve_optimal
from leastnoise.gram import Dense, kron_all
from leastnoise.plan.design import Design, Question
from leastnoise.plan.structure import Structure

SMALL_DOMAIN = 400  # cells up to which the optimum over all mechanisms is computed outright
POLAR_VALUES = 2_000  # values of one attribute up to which numeric traces are taken


@dataclass(frozen=True)
class Floor:
    """A lower bound on the weighted error (sum of weight * variance) at privacy cost 1, and where it comes from."""

    value: float
    kind: str


def best_floor(design: Design) -> Floor:
    """The best bound known over all factorization mechanisms for the design's question."""
    question = design.question
    candidates = [_fourier_floor(question), *_polar_floors(design)]
    exact = exact_floor(question)
    if exact is not None:
        candidates.append(exact)
    return max(candidates, key=lambda f: f.value)


def exact_floor(question: Question) -> Floor | None:
    """The optimum itself, by the certified fixed point on the whole domain, where that is small."""
    domain = question.structure.workload.domain
    if domain.size > SMALL_DOMAIN:
        return None
    gram = full_gram(question)
    solved = solve_optimal(Dense((domain.size,), None, lambda: gram), gap=1e-5)
    return Floor(solved.floor, "optimum over all factorization mechanisms, computed on the full domain")


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
        if tuple(sorted(structure.class_of(a) for a in subset)) == axes:
            yield subset


def _table_gram(question: Question, index: int, members: tuple[int, ...]) -> Array:
    structure, domain = question.structure, question.structure.workload.domain
    table = structure.tables[index]
    if table.slots is not None:
        slot_of = {structure.slots[s].cls: s for s in table.slots}
        mats = [
            question.families[slot_of[structure.class_of(a)]].gram(n) if a in members else np.ones((n, n))
            for a, n in enumerate(domain.shape)
        ]
        return kron_all(mats)
    ordered = sorted(members, key=lambda a: (structure.class_of(a), a))
    rows = structure.block_of(table).tensor.root(tuple(domain.shape[a] for a in ordered))
    rows = rows.transpose([0, *(1 + ordered.index(a) for a in members)])
    wide = rows.reshape(len(rows), *(n if a in members else 1 for a, n in enumerate(domain.shape)))
    flat = np.broadcast_to(wide, (len(rows), *domain.shape)).reshape(len(rows), -1)
    return flat.T @ flat


def _assemble(question: Question, traces: list[RootTrace | None], tensors: dict[int, _TensorRoots]) -> float:
    structure, pairs = question.structure, question.structure.pairs
    constants = np.array([0.0 if t is None else t.constant**2 for t in traces] + [1.0])
    per_pair = question.table_weights[pairs.table] * pairs.extensions * constants[pairs.outside].prod(axis=1)
    squares = np.zeros(len(structure.orbits))
    for p, (o, t, inside, kept) in enumerate(
        zip(pairs.orbit.tolist(), pairs.table.tolist(), pairs.inside, pairs.kept, strict=True)
    ):
        if inside is None:
            trace = tensors[t].on(kept) if t in tensors else 0.0
        else:
            found = [traces[s] for s in inside]
            trace = 0.0 if any(f is None for f in found) else prod(f.rest for f in found if f is not None)
        squares[o] += per_pair[p] * trace**2
    return float(np.array(structure.members, dtype=float) @ np.sqrt(squares)) ** 2


class _TensorRoots:
    """Traces of one non-product table, by residual."""

    def __init__(self, rows: Array, weights: list[Array]):
        self.parts = tensor_traces(rows, weights)
        self.found: dict[tuple[int, ...], float] = {}

    def on(self, kept: tuple[int, ...]) -> float:
        if kept not in self.found:
            self.found[kept] = trace_on(*self.parts, kept)
        return self.found[kept]


def _fourier_floor(question: Question) -> Floor:
    structure = question.structure
    traces = [
        fourier_trace(f, structure.classes[s.cls].size) for f, s in zip(question.families, structure.slots, strict=True)
    ]
    return Floor(_assemble(question, traces, {}), "WFF Theorems 5.8, 5.14 and 5.15 (closed form)")


def _polar_floors(design: Design) -> Iterator[Floor]:
    question, structure = design.question, design.structure
    uniform = [np.full(c.size, 1 / c.size) for c in structure.classes]
    yield _polar(question, uniform)
    dual = [_dual_weights(design, c) for c in range(len(structure.classes))]
    if any(d is not None for d in dual):
        tilted = [u if d is None else d for u, d in zip(uniform, dual, strict=True)]
        yield _polar(question, tilted)
        yield _polar(question, [(u + t) / 2 for u, t in zip(uniform, tilted, strict=True)])


def _dual_weights(design: Design, cls: int) -> Array | None:
    if (cls,) not in design.structure.orbits:
        return None
    solution = design.solutions[design.structure.orbits.index((cls,))]
    return None if solution is None else solution.dual


def _polar(question: Question, weights: list[Array]) -> Floor:
    structure = question.structure
    traces: list[RootTrace | None] = []
    for f, s in zip(question.families, structure.slots, strict=True):
        n = structure.classes[s.cls].size
        traces.append(root_trace(f.gram(n), weights[s.cls]) if n <= POLAR_VALUES else None)
    tensors: dict[int, _TensorRoots] = {}
    shared: dict[Hashable, _TensorRoots] = {}
    for t, table in enumerate(structure.tables):
        if table.slots is None:
            family = structure.block_of(table).tensor
            key = (family.key, table.axes)
            if key not in shared:
                shared[key] = _TensorRoots(family.root(structure.shape(table.axes)), [weights[c] for c in table.axes])
            tensors[t] = shared[key]
    return Floor(_assemble(question, traces, tensors), "trace-norm bound with polar test matrices (docs/theory.md)")
