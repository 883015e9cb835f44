"""Dual multipliers in product form: one per table, one per row of each family, one per query of other tables.

Multiplier c_q of a query is its table's times those of its rows, so Grams stay Kronecker products. Everything is
expressed through logarithms x; the dual bound and its gradient are exact for any x.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from math import inf, prod

import numpy as np

from leastnoise._types import Array
from leastnoise.planning.design import Design, Question
from leastnoise.planning.structure import RequestedQueries, Table
from leastnoise.planning.variance import AxisRows, Variances
from leastnoise.workload import TensorFamily
from leastnoise.workload.families import Circular, Family
from leastnoise.workload.tensors import WeightedTensor
from leastnoise.workload.weighted import Weighted, WeightedArcs

REACH = 1e-8  # share of weight for tables that have no say: far above the rank threshold of the solvers
EVEN = ("marginal", "total", "phi", "shifts")  # families whose rows all have the same variance by themselves


@dataclass(frozen=True)
class Lever:
    """Row multipliers of one slot (of a product) or of one table (of other queries), with the rows' own weights.

    Arcs have one multiplier for each length, with the number of starts for a weight: arcs of a length are alike.
    """

    slot: int | None
    table: int | None
    base: Array
    by_length: bool = False

    def weighted(self, family: Family, multipliers: Array) -> Family:
        """The family with its rows' weights times their multipliers."""
        if self.by_length:
            return WeightedArcs(family.plain, multipliers)
        return Weighted(family.plain, self.base * multipliers)

    def gathered(self, rows: Array) -> Array:
        """Sums over the rows behind each multiplier; all lengths of arcs follow each start."""
        return np.asarray(rows.reshape(-1, len(self.base)).sum(axis=0)) if self.by_length else rows


class Multipliers:
    """Multipliers of a question for the norm r of its variances; `scale` is the weight per query of each table.

    Without `rows` there is one multiplier per table, as in WFF, whose weights p(S) are spread evenly over the table.
    """

    def __init__(self, question: Question, r: float, scale: Array, even: bool | None = None, rows: bool = True):
        """`even`: queries count alike, as for the largest variance, which some r may stand for."""
        self.question, self.structure, self.scale, self.r = question, question.structure, scale, r
        self.conjugate = 1.0 if r == inf else r / (r - 1)
        self.even_weights = r == inf if even is None else even
        self.requested = question.requested.plain if self.even_weights else question.requested
        self.tables = [i for i, w in enumerate(scale) if w > 0]
        self.norm_weights = np.ones(len(self.tables)) if self.even_weights else scale[self.tables]
        self.levers = [*self._slot_levers(), *self._table_levers()] if rows else []
        self.lever_of_slot = {lever.slot: i for i, lever in enumerate(self.levers) if lever.slot is not None}
        self.lever_of_table = {lever.table: i for i, lever in enumerate(self.levers) if lever.table is not None}
        uses = [self._uses(lever, t) for t in self.tables for lever in self.levers]
        self.uses = np.array(uses, dtype=np.float64).reshape(len(self.tables), len(self.levers))

    def _slot_levers(self) -> list[Lever]:
        used = {s for t in self.tables for s in (self.structure.tables[t].slots or ())}
        uneven = self._uneven_classes()
        out = []
        for s in sorted(used):
            family, cls = self.requested.families[s], self.structure.slots[s].cls
            n = self.structure.classes[cls].size
            if isinstance(family, Circular):
                out.append(Lever(s, None, np.full(n, float(n)), by_length=True))
            elif family.plain.name not in EVEN or (cls in uneven and family.plain.name != "total"):
                out.append(Lever(s, None, family.weights(n)))
        return out

    def _uneven_classes(self) -> set[int]:
        """Classes whose values differ for some query; there all rows of all families may differ in variance."""
        slots = zip(self.requested.families, self.structure.slots, strict=True)
        found = {slot.cls for f, slot in slots if f.plain.name not in (*EVEN, Circular.name)}
        return found | {c for t in self.structure.tables if t.slots is None for c in t.axes}

    def _table_levers(self) -> list[Lever]:
        return [
            Lever(None, t, family.weights(self.structure.shape(self.structure.tables[t].axes)))
            for t in self.tables
            if (family := self.requested.tensors[t]) is not None
        ]

    def start(self) -> Array:
        """All multipliers equal."""
        return np.zeros(len(self.tables) + sum(len(lever.base) for lever in self.levers))

    def split(self, x: Array) -> tuple[Array, list[Array]]:
        """Multipliers c per table, normalized so that the norm is 1, and u per lever."""
        cuts = np.cumsum([len(self.tables), *(len(lever.base) for lever in self.levers)])[:-1]
        log_c, *log_u = np.split(x, cuts)
        # what is taken from the rows against overflow goes to the tables that use them, so that products are as x says
        log_c = log_c + self.uses @ np.array([v.max() for v in log_u])
        c, u = np.exp(log_c - log_c.max(initial=-inf)), [np.exp(v - v.max()) for v in log_u]
        return c / float(self._norm_parts(c, u).sum()) ** (1 / self.conjugate), u

    def _norm_parts(self, c: Array, u: list[Array]) -> Array:
        """Per table: sum over its queries of w c^r'."""
        mass = [float(lever.base @ v**self.conjugate) for lever, v in zip(self.levers, u, strict=True)]
        per = [self._queries(t, mass) for t in self.tables]
        return self.norm_weights * np.array(per) * c**self.conjugate

    @property
    def table_mass(self) -> Array:
        """Per table: sum over its queries of w, with one multiplier per table."""
        return self._norm_parts(np.ones(len(self.tables)), [])

    def _queries(self, t: int, mass: list[float]) -> float:
        table, tensor = self.structure.tables[t], self.requested.tensors[t]
        if t in self.lever_of_table:
            return table.copies * mass[self.lever_of_table[t]]
        if tensor is not None:
            return table.copies * float(tensor.weights(self.structure.shape(table.axes)).sum())
        return table.copies * prod(self._slot_mass(s, mass) for s in table.slots or ())

    def _slot_mass(self, s: int, mass: list[float]) -> float:
        if s in self.lever_of_slot:
            return mass[self.lever_of_slot[s]]
        return float(self.requested.families[s].weights(self.structure.classes[self.structure.slots[s].cls].size).sum())

    @property
    def leaves_out(self) -> bool:
        """True when some tables have no say in the objective (no accuracy target where others have one)."""
        return len(self.tables) < len(self.scale)

    def question_at(self, x: Array, reach: bool = True) -> Question:
        """The weighted-sum question whose optimum is a lower bound.

        With `reach`, tables that have no say keep a little weight so that the design can answer them too; the bound
        itself is taken without.
        """
        c, u = self.split(x)
        weights = np.zeros(len(self.scale))
        weights[self.tables] = c * self.scale[self.tables]
        floor = REACH * weights.max() if reach else 0.0
        families, tensors = list(self.requested.families), list(self.requested.tensors)
        for lever, v in zip(self.levers, u, strict=True):
            if lever.slot is not None:
                families[lever.slot] = lever.weighted(self.requested.families[lever.slot], v)
            elif lever.table is not None:
                tensors[lever.table] = _weighted(self.requested.tensors[lever.table], lever.base * v)
        result = RequestedQueries(tuple(families), tuple(tensors))
        return replace(self.question, table_weights=np.maximum(weights, floor), requested=result)

    def shares(self, x: Array, design: Design) -> tuple[Array, Array]:
        """Shares of the weighted error and of the norm: their difference is d log(T^2 / norm) / dx.

        Their ratio is the mean variance behind a multiplier over the mean variance of all.
        """
        variances = Variances(design, design.noise(1.0))
        by_table = design.question.table_weights * variances.table_sums(design.residual_workload)
        total = by_table.sum()
        rows = self._row_errors(design, variances)
        return np.concatenate([by_table[self.tables], *rows]) / total, self._norm_shares(x)

    def _norm_shares(self, x: Array) -> Array:
        c, u = self.split(x)
        per = self._norm_parts(c, u)
        per = per / per.sum()
        out = [per]
        for lever, v, uses in zip(self.levers, u, self.uses.T, strict=True):
            powers = lever.base * v**self.conjugate
            out.append(float(per @ uses) * powers / powers.sum())
        return np.concatenate(out)

    def _uses(self, lever: Lever, t: int) -> int:
        if lever.table is not None:
            return int(lever.table == t)
        return (self.structure.tables[t].slots or ()).count(lever.slot)

    # --- weighted error by row ---------------------------------------------------------------------------------------

    def _row_errors(self, design: Design, variances: Variances) -> list[Array]:
        products = all(s is None or s.strategy.factors is not None for s in design.solutions)
        slots = self._fast(design, variances) if products else self._explicit(design, variances)
        out = []
        for lever in self.levers:
            if lever.table is not None:
                out.append(self._table_errors(design, variances, lever.table))
            elif lever.slot is not None:
                out.append(slots[lever.slot])
        return out

    def _table_errors(self, design: Design, variances: Variances, t: int) -> Array:
        table, family = self.structure.tables[t], design.question.requested.tensors[t]
        assert family is not None
        v = np.concatenate([part for part, _ in variances.blocks_of(table)])
        return design.question.table_weights[t] * table.copies * family.weights(self.structure.shape(table.axes)) * v

    def _explicit(self, design: Design, variances: Variances) -> dict[int, Array]:
        """From the variances of every query, where some strategies are not products."""
        out = {lever.slot: np.zeros(len(lever.base)) for lever in self.levers if lever.slot is not None}
        for t in self.tables:
            table = self.structure.tables[t]
            if table.slots is not None and any(s in out for s in table.slots):
                errors = self._weighted_tensor(design, variances, t, table)
                for axis, s in enumerate(table.slots):
                    if s in out:
                        rows = errors.sum(axis=tuple(a for a in range(errors.ndim) if a != axis))
                        out[s] += self.levers[self.lever_of_slot[s]].gathered(rows)
        return {s: v for s, v in out.items() if s is not None}

    def _weighted_tensor(self, design: Design, variances: Variances, t: int, table: Table) -> Array:
        assert table.slots is not None
        weights = [
            design.question.requested.families[s].weights(self.structure.classes[c].size)
            for s, c in zip(table.slots, table.axes, strict=True)
        ]
        v = np.concatenate([part for part, _ in variances.blocks_of(table)]).reshape([len(w) for w in weights])
        for axis, w in enumerate(weights):
            v = v * w.reshape([-1 if a == axis else 1 for a in range(len(weights))])
        return design.question.table_weights[t] * table.copies * v

    def _fast(self, design: Design, variances: Variances) -> dict[int, Array]:
        """Kept rows carry their own variance, contracted rows their squared mean: no query is listed."""
        out = {lever.slot: np.zeros(len(lever.base)) for lever in self.levers if lever.slot is not None}
        pairs, residual_workload = self.structure.pairs, design.residual_workload
        amounts = residual_workload.pair_weights(design.question.table_weights)
        noise = np.where(design.losses > 0, design.noise(1.0), 0.0)  # what is not measured has no noise to share
        amounts = amounts * (design.members * noise)[pairs.orbit]
        kept: dict[Hashable, float] = {}
        outside = np.zeros(len(self.structure.slots) + 1)
        for p, (o, amount) in enumerate(zip(pairs.orbit.tolist(), amounts.tolist(), strict=True)):
            solution, body, inside = design.solutions[o], residual_workload.bodies[p], pairs.inside[p]
            if solution is None or body is None or inside is None or amount == 0:
                continue
            error = amount * solution.strategy.error(body)
            np.add.at(outside, pairs.outside[p], error)
            for s, part in zip(inside, solution.strategy.factors or (), strict=True):
                kept[s, id(part)] = kept.get((s, id(part)), 0.0) + error
        parts = {id(f): f for sol in design.solutions if sol is not None for f in (sol.strategy.factors or ())}
        for s in out:
            assert s is not None
            rows = variances.slot_rows(s)
            u, lever = self._listed_weights(design, s, rows), self.levers[self.lever_of_slot[s]]
            candidates = [(outside[s], rows.means**2)]
            candidates += [(kept[s, i], variances.axis_variances(rows, f)) for i, f in parts.items() if (s, i) in kept]
            for amount, v in candidates:
                if amount > 0 and u @ v > 0:
                    out[s] += lever.gathered(amount * u * v / float(u @ v))
        return {s: v for s, v in out.items() if s is not None}

    @staticmethod
    def _listed_weights(design: Design, slot: int, rows: AxisRows) -> Array:
        """Weights of the rows as variances list them: arcs too many to list by length."""
        family = design.question.requested.families[slot]
        if rows.by_length is not None and isinstance(family, WeightedArcs):
            return family.row_weights * rows.counts
        return family.weights(rows.data.size)


def _weighted(family: TensorFamily | None, weights: Array) -> TensorFamily:
    assert family is not None
    return WeightedTensor(family.plain, weights)
