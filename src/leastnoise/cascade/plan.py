"""What noise a table of leaves will get, before any data is read: accuracy per level, and what it costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import prod, sqrt
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from leastnoise._types import Array
from leastnoise.cascade.aims import Kind, Targets, least_noise_cost, read_targets, without_rounding
from leastnoise.cascade.best import Demand, best_cascade
from leastnoise.cascade.closed import Law
from leastnoise.cascade.integer import extra_variance
from leastnoise.cascade.invariants import Invariants
from leastnoise.cascade.replace import replace_cost
from leastnoise.cascade.targets import Cascade, cost
from leastnoise.domain import Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.hierarchy import Hierarchy
from leastnoise.plan.options import Options
from leastnoise.plan.words import no_noise_needed, number
from leastnoise.privacy.budget import Budget
from leastnoise.privacy.cost import Cost
from leastnoise.privacy.neighbours import Neighbours, as_neighbours
from leastnoise.release.answers import quantile
from leastnoise.release.statement import USUAL_DELTA
from leastnoise.tree import Tree

if TYPE_CHECKING:
    import pandas as pd

    from leastnoise.cascade.release import CascadeRelease

AnyTree = Tree | Hierarchy
Trees = AnyTree | Mapping[str, AnyTree]
Weights = Sequence[float] | Array | Demand
LEAF = "leaf"  # what the attribute is called where nobody says
ROWS = 40  # of the table of levels that are printed
_UP = Fraction(1, 2**40)  # safety where a cost is rounded up by floats


@dataclass(frozen=True, eq=False)
class CascadePlan:
    """Noise for the leaves of trees, and the privacy it costs. It needs no data.

    >>> plan = cascade_plan(Tree.regular([4, 5]), targets=[3, 4, 5])
    >>> print(plan)
    cascade on 'leaf': 25 nodes on 3 levels, 20 leaves
    level      nodes  target s.e.      s.e.  within 95%   share of mu^2
        0          1            3         3        5.88             64%
        1          4            4         4        7.84             21%
        2         20            5         5         9.8             15%
    costs mu 0.4233 (rho 0.0896) for adding or removing one row

    Guarantees: targets_hold_after_rounding; spends_exactly_the_budget; uses_no_data.
    """

    names: tuple[str, ...]
    cascades: tuple[Cascade, ...]
    neighbours: Neighbours = field(default_factory=Neighbours)
    delta: float = USUAL_DELTA  # at which epsilon is told
    exact: Invariants | None = None
    targets: tuple[tuple[Fraction | None, ...], ...] | None = None  # variances asked for, per tree and level
    values: tuple[Sequence[Any] | None, ...] = ()  # what data calls the leaves, where that is not their name

    @property
    def trees(self) -> tuple[Tree, ...]:
        """One tree per attribute."""
        return tuple(c.tree for c in self.cascades)

    @cached_property
    def domain(self) -> Domain:
        """One attribute per tree; its values are the leaves from left to right."""
        parts = zip(self.names, self.trees, self.given_values, strict=True)
        return Domain.of({name: _leaf_values(tree, values) for name, tree, values in parts})

    @property
    def given_values(self) -> tuple[Sequence[Any] | None, ...]:
        """Per tree what data calls its leaves, where that is not their name."""
        return self.values or (None,) * len(self.names)

    @cached_property
    def cost(self) -> Cost:
        """The exact privacy cost. With exact counts: of replacing rows such that every exact count stays."""
        return Cost(self._mu_squared, self.hidden)

    @property
    def hidden(self) -> Neighbours:
        """The change that stays hidden: with exact counts, only one that keeps them."""
        if self.exact is None:
            return self.neighbours
        kept = f"{self.exact.extent()} of {self.names[0]!r} [{self.exact.digest(repr(self.domain))}]"
        return Neighbours("replace", self.neighbours.rows_per_person, exact=kept)

    @cached_property
    def _mu_squared(self) -> Fraction:
        if self.exact is not None:  # as many rows come as go in each exact node, and are paired off there
            return self.neighbours.rows**2 * self.exact.cost(self.cascades[0])
        moved = replace_cost(*self.cascades) if self.neighbours.change == "replace" else Fraction(0)
        return self.neighbours.squared_sensitivity(cost(*self.cascades), moved)

    @cached_property
    def noise(self) -> tuple[Cascade, ...]:
        """The cascades that are drawn: given that exact nodes have no noise."""
        return self.cascades if self.exact is None else (self.exact.noise(self.cascades[0]),)

    @cached_property
    def law(self) -> Law:
        """The law of the noise."""
        return Law.of(*self.noise)

    def spending(self, budget: Budget) -> CascadePlan:
        """The same noise times what makes it cost exactly a budget."""
        if not self._mu_squared:
            raise no_noise_needed()
        first, *others = self.cascades
        found = self
        for margin in (Fraction(0), _UP):
            factor = self._mu_squared / budget.exact_cost * (1 + margin)
            found = replace(self, cascades=(first.scaled(first.cost / factor), *others))
            if found._mu_squared <= budget.exact_cost:
                break
        return found

    def levels(self) -> pd.DataFrame:
        """Per level (one column per tree): nodes, target, largest standard error of what is published."""
        import pandas as pd

        variances = [[float(c.variances()[level].max()) for level in c.tree.levels()] for c in self.noise]
        widths = [np.diff(t.ends, prepend=0).tolist() for t in self.trees]
        rows = []
        for level in product(*(range(len(v)) for v in variances)):
            ideal = prod(v[k] for v, k in zip(variances, level, strict=True))
            row: dict[str, Any] = dict(zip(self.columns, level, strict=True))
            row["nodes"] = prod(w[k] for w, k in zip(widths, level, strict=True))
            row["target"] = self._target(level)
            row["std_error"] = sqrt(ideal + float(extra_variance(len(self.cascades)))) if ideal else 0.0
            rows.append(row)
        frame = pd.DataFrame(rows)
        return frame.assign(share=self.shares()) if len(self.cascades) == 1 else frame

    @property
    def columns(self) -> list[str]:
        """Of the table of levels: one per tree."""
        return ["level"] if len(self.names) == 1 else [f"level of {name}" for name in self.names]

    def _target(self, level: tuple[int, ...]) -> float | None:
        found = [] if self.targets is None else [t[k] for t, k in zip(self.targets, level, strict=True)]
        asked = [t for t in found if t is not None]
        return sqrt(prod(asked)) if asked and len(asked) == len(found) else None

    def shares(self) -> list[float]:
        """Of one tree: what each level takes of the cost of the leaf that pays most; only where it has noise."""
        (cascade,) = self.cascades
        core, tree = cascade.tree.core.tree, cascade.tree
        node = int(core.leaves[int(cascade.leaf_costs().argmax())])
        first = np.full(core.nodes, tree.nodes)
        np.minimum.at(first, tree.core.of(np.arange(tree.nodes)), np.arange(tree.nodes))
        found = np.zeros(tree.depth + 1)
        opened = np.zeros(core.nodes, dtype=bool) if self.exact is None else self.exact.opened
        while node:
            above = int(core.parent[node])
            if not opened[above]:
                found[tree.level_of(first[node])] = float(cascade.spreads[cascade.kind[above]].cost)
            node = above
        found[0] = float(1 / cascade.root) if self.exact is None else 0.0
        return (found / found.sum()).tolist() if found.any() else found.tolist()

    def __str__(self) -> str:
        return "\n".join(_words(self))

    def run(self, data: Any, **options: Unpack[Options]) -> CascadeRelease:
        """Add the noise to data, once: check, debit, draw, save."""
        from leastnoise.cascade.run import run

        return run(self, data, **options)


def cascade_plan(
    trees: Trees,
    *,
    targets: Targets | Mapping[str, Targets] | None = None,
    kind: Kind = "std_error",
    confidence: float = 0.95,
    exactly: bool = False,
    budget: Budget | None = None,
    weights: Weights | Mapping[str, Weights] | None = None,
    neighbours: Neighbours | str = "add-remove",
    rows_per_person: int | None = None,
    size: str | None = None,
    exact_level: int | None = None,
    exact_nodes: Iterable[int | str] = (),
    values: Mapping[str, Sequence[Any]] | Sequence[Any] | None = None,
) -> CascadePlan:
    """Noise for trees: with targets, the least that has to be spent for them; with a budget, the best for weights.

    A tree is a `Tree` or what `hierarchy(...)` makes of a file or lists; several are given by attribute.

    Targets are per level from the root down: the largest standard error, variance, or distance that holds `within` a
    confidence; published numbers keep them, rounding included. A budget beside targets is a limit. With `exactly`,
    levels have the variance of their targets, not less. Weights say how much the variance of a node of each level
    counts; by default all levels count the same. For several trees give targets and weights by name; they multiply.

    `exact_level` or `exact_nodes` are published without noise: what stays protected is told in the statement.
    """
    given = trees if isinstance(trees, Mapping) else {LEAF: trees}
    if not given:
        raise LeastnoiseError("a cascade needs at least one tree, by the name of its attribute")
    named = {name: _as_tree(tree) for name, tree in given.items()}
    nodes = list(exact_nodes)
    exact = None
    if exact_level is not None or nodes:
        if len(named) > 1:
            raise LeastnoiseError(f"exact counts need a single tree; there are {len(named)}")
        exact = Invariants.of(next(iter(named.values())), level=exact_level, nodes=nodes)
    hides = as_neighbours(neighbours, rows_per_person, size) if budget is None else budget.neighbours
    told = USUAL_DELTA if budget is None or budget.delta is None else budget.delta
    start = CascadePlan(tuple(named), (), hides, told, exact, None, _given_values(given, named, values))
    if targets is not None:
        if weights is not None:
            raise LeastnoiseError("targets and weights exclude each other; weights share out a budget")
        return _for_targets(start, named, targets, kind, confidence, exactly, budget)
    if budget is None:
        raise LeastnoiseError("a cascade needs targets, a budget, or both")
    asked = [_demand(t, exact, _one_of(weights, name, named)) for name, t in named.items()]
    return replace(start, cascades=tuple(best_cascade(a) for a in asked)).spending(budget)


def _for_targets(
    start: CascadePlan,
    named: Mapping[str, Tree],
    targets: Any,
    kind: Kind,
    confidence: float,
    exactly: bool,
    budget: Budget | None,
) -> CascadePlan:
    asked = [read_targets(t, _one_of(targets, name, named), kind, confidence) for name, t in named.items()]
    caps, made = without_rounding(asked), []
    for tree, each in zip(named.values(), caps, strict=True):
        if exactly:
            full = [t for t in each if t is not None]
            made.append(Cascade.by_level(tree, full))
        else:
            made.append(least_noise_cost(tree, each, -1 if start.exact is None else start.exact.whole_level))
    plan = replace(start, cascades=tuple(made), targets=tuple(tuple(a) for a in asked))
    if not plan.cost.mu_squared:
        raise no_noise_needed()
    if budget is not None and plan.cost.mu_squared > budget.exact_cost:
        raise LeastnoiseError(_too_dear(plan, budget))
    return plan


def _too_dear(plan: CascadePlan, budget: Budget) -> str:
    said = f"these targets cost {plan.cost}, more than the budget of {budget.cost_value}"
    if len(plan.cascades) > 1:
        return f"{said}; raise them"
    frame = plan.levels()
    most = frame.iloc[int(frame["share"].argmax())]
    return (
        f"{said}; level {most['level']:.0f} takes {most['share']:.0%} of it, raise its target, a standard error of "
        f"{number(most['target'] or most['std_error'])}"
    )


def _demand(tree: Tree, exact: Invariants | None, weights: Weights | None) -> Demand:
    if isinstance(weights, Demand):
        if weights.tree is not tree:
            raise LeastnoiseError("the demand is on another tree; build it from the tree of the cascade")
        asked = weights
    else:
        asked = Demand.nodes(tree, 1 / np.diff(tree.ends, prepend=0) if weights is None else weights)
    if exact is None:
        return asked
    own = np.where(exact.opened, 0.0, asked.own)  # exact nodes need none of the budget
    if not own.any():
        raise LeastnoiseError("all weight is on exact counts; give some to what has noise")
    return Demand(tree, 0.0, own)


def _one_of(given: Any, name: str, named: Mapping[str, Tree]) -> Any:
    """What is given for one tree: by its name, or as it is where there is one tree."""
    if given is None:
        return None
    if isinstance(given, Mapping) and set(given) == set(named):
        return given[name]
    if len(named) > 1:
        raise LeastnoiseError(f"give targets and weights by name, for each of {', '.join(map(repr, named))}")
    return given


def _as_tree(given: AnyTree) -> Tree:
    return given if isinstance(given, Tree) else Tree(given.tree.children, given.names)


def _given_values(given: Mapping[str, AnyTree], named: Mapping[str, Tree], values: Any) -> tuple[Any, ...]:
    found = [values.get(name) if isinstance(values, Mapping) else values for name in named]
    for i, tree in enumerate(given.values()):
        if found[i] is None and isinstance(tree, Hierarchy):
            found[i] = tree.items
    for (name, tree), each in zip(named.items(), found, strict=True):
        if each is not None and len(each) != tree.leaf_count:
            raise LeastnoiseError(f"{name!r} has {tree.leaf_count} leaves, got {len(each)} values for them")
    return tuple(found)


def _leaf_values(tree: Tree, given: Sequence[Any] | None) -> Any:
    if given is not None:
        return list(given)
    return range(tree.leaf_count) if tree.names is None else [tree.names[i] for i in tree.leaves.tolist()]


def _words(plan: CascadePlan) -> Iterable[str]:
    for name, tree in zip(plan.names, plan.trees, strict=True):
        levels = f"{tree.nodes:,} nodes on {tree.depth + 1} levels, {tree.leaf_count:,} leaves"
        yield f"cascade on {name!r}: {levels}"
    frame, width = plan.levels(), quantile(0.95)
    shared = "share" in frame
    heads = [f"{c:>5}" for c in plan.columns] + [
        f"{'nodes':>10}",
        f"{'target s.e.':>12}",
        f"{'s.e.':>9}",
        " within 95%",
    ]
    yield " ".join([*heads, "  share of mu^2"] if shared else heads)
    for row in frame.head(ROWS).to_dict("records"):
        cells = [f"{row[c]:>{max(len(c), 5)}}" for c in plan.columns]
        target = "-" if row["target"] is None or np.isnan(row["target"]) else number(row["target"])
        cells += [f"{row['nodes']:>10,}", f"{target:>12}", f"{number(row['std_error']):>9}"]
        cells.append(f"{number(width * row['std_error']):>11}")
        yield " ".join([*cells, f"{row['share']:>15.0%}"] if shared else cells)
    if len(frame) > ROWS:
        yield f"and {len(frame) - ROWS:,} more"
    if plan.exact is not None:
        yield f"exact, and not protected: {plan.exact.listed()}"
    yield f"costs {plan.cost} for {plan.cost.change}"
