"""What noise a table of leaves will get, before any data is read: accuracy per level, and what it costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import prod, sqrt
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from leastnoise._types import Array, Progress
from leastnoise.domain.attributes import Attribute, Domain
from leastnoise.domain.encoding import Encoding
from leastnoise.domain.hierarchies import Hierarchy
from leastnoise.domain.tree import Tree
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.gate import Counts
from leastnoise.mechanisms.mechanism import CELL_BYTES, FILE_BYTES, Mechanism
from leastnoise.mechanisms.tree.accuracy import Queries, accurate_cascade, by_node, read_accuracy
from leastnoise.mechanisms.tree.accuracy_targets import Kind, Targets, least_noise_cost, read_targets, without_rounding
from leastnoise.mechanisms.tree.best import Demand, best_cascade
from leastnoise.mechanisms.tree.closed import Law
from leastnoise.mechanisms.tree.errors import TreeErrors, Which
from leastnoise.mechanisms.tree.integer import check_fits, extra_variance, integer_noise
from leastnoise.mechanisms.tree.invariants import Invariants
from leastnoise.mechanisms.tree.release import TreeRelease
from leastnoise.mechanisms.tree.replace import replace_cost
from leastnoise.mechanisms.tree.targets import Cascade, cost
from leastnoise.noise import RandomSource
from leastnoise.planning.summary import no_noise_needed, number
from leastnoise.privacy.budget import Budget
from leastnoise.privacy.cost import Cost, fraction_text
from leastnoise.privacy.neighbours import Neighbours, as_neighbours
from leastnoise.release.answers import interval_reach, quantile
from leastnoise.release.statement import USUAL_DELTA
from leastnoise.sources.source import MOST_CELLS
from leastnoise.storage.archive import Arrays, digest_of, narrow
from leastnoise.storage.records import Record, Text
from leastnoise.workload import Block, Family, Workload
from leastnoise.workload.families import Marginal
from leastnoise.workload.hierarchy import Nodes

if TYPE_CHECKING:
    import pandas as pd

AnyTree = Tree | Hierarchy
Trees = AnyTree | Mapping[str, AnyTree]
Weights = Sequence[float] | Array | Demand
LEAF = "leaf"  # what the attribute is called where nobody says
ROWS = 40  # of the table of levels that are printed
_UP = Fraction(1, 2**40)  # safety where a cost is rounded up by floats


class SavedSpread(Record):
    """A spread: how many children, and the variance of their own parts as a fraction."""

    children: Annotated[int, Field(ge=2)]
    variance: Text


class SavedTree(Record):
    """A tree with its noise; which nodes have which children and spreads is in the arrays."""

    attribute: Text
    named: bool
    root: Text
    spreads: list[SavedSpread]
    targets: list[Text | None] | None


@dataclass(frozen=True, eq=False, repr=False)
class TreePlan(Mechanism[TreeRelease]):
    """Noise for the leaves of trees, and the privacy it costs. It needs no data.

    >>> plan = tree_plan(Tree.regular([4, 5]), targets=[3, 4, 5])
    >>> print(plan)
    tree plan on 'leaf': 25 nodes on 3 levels, 20 leaves
    level      nodes  target s.e.      s.e.  within 95%   share of mu^2
        0          1            3         3           6             64%
        1          4            4         4           8             21%
        2         20            5         5          10             15%
    costs mu 0.4233 (rho 0.0896) for adding or removing one row

    Guarantees: targets_hold_after_rounding; spends_exactly_the_budget; uses_no_data.
    """

    method = "tree"

    names: tuple[str, ...]
    cascades: tuple[Cascade, ...]
    neighbours: Neighbours = field(default_factory=Neighbours)
    delta: float = USUAL_DELTA  # at which epsilon is reported
    exact: Invariants | None = None
    targets: tuple[tuple[Fraction | None, ...], ...] | None = None  # target variances, per tree and level
    encodings: tuple[Encoding | None, ...] = ()  # of the leaves, and of nodes that have names; None where none has

    @property
    def trees(self) -> tuple[Tree, ...]:
        """One tree per attribute."""
        return tuple(c.tree for c in self.cascades)

    @cached_property
    def domain(self) -> Domain:
        """One attribute per tree; its values are the leaves from left to right."""
        encodings = self.encodings or (None,) * len(self.names)
        parts = zip(self.names, self.trees, encodings, strict=True)
        return Domain(tuple(Attribute(name, each or leaf_encoding(tree)) for name, tree, each in parts))

    @cached_property
    def workload(self) -> Workload:
        """All combinations of nodes, one per tree; of trees without names the leaves."""
        families = tuple(_family(attribute) for attribute in self.domain)
        everything = tuple(range(len(families)))
        label = " x ".join(dict.fromkeys(family.name for family in families))
        return Workload(self.domain, (Block(everything, len(families), families, label=label),))

    @property
    def keeps_size(self) -> bool:
        """With exact counts, which hold the number of rows, whichever are dropped."""
        return self.exact is not None

    @cached_property
    def fingerprint(self) -> str:
        """sha256 of all that decides what is measured."""
        return plan_digest(self.saved_trees(), self.arrays())

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
    def noise_cascades(self) -> tuple[Cascade, ...]:
        """The cascades that are drawn: given that exact nodes have no noise."""
        return self.cascades if self.exact is None else (self.exact.noise(self.cascades[0]),)

    @cached_property
    def law(self) -> Law:
        """The law of the noise."""
        return Law.of(*self.noise_cascades)

    def errors(self, which: Which) -> TreeErrors:
        """Sum and largest of the errors of all "ranges" or "nodes"; `law.largest_rounding` is what integers add."""
        return self.law.errors(which)

    def spending(self, budget: Budget) -> TreePlan:
        """The same noise times what makes it cost exactly a budget."""
        if not self._mu_squared:
            raise no_noise_needed()
        first, *others = self.cascades
        plan = self
        for margin in (Fraction(0), _UP):
            factor = self._mu_squared / budget.exact_cost * (1 + margin)
            plan = replace(self, cascades=(first.scaled(first.cost / factor), *others))
            if plan._mu_squared <= budget.exact_cost:
                break
        return plan

    def levels(self) -> pd.DataFrame:
        """Per level (one column per tree): nodes, target, largest standard error of what is published."""
        import pandas as pd

        variances = [[float(c.variances()[level].max()) for level in c.tree.levels()] for c in self.noise_cascades]
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
        result = [] if self.targets is None else [t[k] for t, k in zip(self.targets, level, strict=True)]
        queries = [t for t in result if t is not None]
        return sqrt(prod(queries)) if queries and len(queries) == len(result) else None

    def shares(self) -> list[float]:
        """Of one tree: what each level takes of the cost of the leaf that pays most; only where it has noise."""
        (cascade,) = self.cascades
        core, tree = cascade.tree.core.tree, cascade.tree
        node = int(core.leaves[int(cascade.leaf_costs().argmax())])
        first = np.full(core.nodes, tree.nodes)
        np.minimum.at(first, tree.core.of(np.arange(tree.nodes)), np.arange(tree.nodes))
        values = np.zeros(tree.depth + 1)
        opened = np.zeros(core.nodes, dtype=bool) if self.exact is None else self.exact.opened
        while node:
            above = int(core.parent[node])
            if not opened[above]:
                values[tree.level_of(first[node])] = float(cascade.spreads[cascade.kind[above]].cost)
            node = above
        values[0] = float(1 / cascade.root) if self.exact is None else 0.0
        return (values / values.sum()).tolist() if values.any() else values.tolist()

    def __str__(self) -> str:
        return "\n".join(_text(self))

    def check(self) -> None:
        """Refuse tables that are too large, and noise that does not fit 64 bits together with counts below 2^62."""
        if self._cells > MOST_CELLS:
            raise LeastnoiseError(f"the table has {self._cells:,} leaves, too many to count; use smaller trees")
        check_fits(*self.noise_cascades)

    @property
    def _cells(self) -> int:
        return prod(tree.leaf_count for tree in self.trees)

    def measure(self, counts: Counts, random_source: RandomSource, progress: Progress | None = None) -> TreeRelease:
        """Add fresh noise to the counts of the leaves; `run` debits first.

        Guarantees: noise_never_sees_the_data.
        """
        (table,) = counts.tables([tuple(range(len(self.names)))])
        if progress is not None:
            progress(0, 0, "drawing noise")
        published = table + integer_noise(random_source, *self.noise_cascades)
        published.flags.writeable = False
        return TreeRelease(self, published, insecure=random_source.insecure)

    def room(self, tables: bool) -> int:
        """Bytes that a release needs on disk."""
        names = sum(len(n) for t in self.trees for n in t.names or ())
        need = 8 * self._cells + 16 * sum(t.nodes for t in self.trees) + 8 * names + FILE_BYTES
        return need + (2 ** len(self.trees) * (FILE_BYTES + CELL_BYTES * self._cells) if tables else 0)

    def arrays(self) -> Arrays:
        """Trees, which families have which spread, and which nodes are exact, as they are stored."""
        arrays: Arrays = {}
        for i, cascade in enumerate(self.cascades):
            arrays[f"children{i}"] = narrow(cascade.tree.children)
            arrays[f"kind{i}"] = narrow(cascade.kind)
        if self.exact is not None:
            arrays["exact"] = narrow(self.exact.nodes)
        return arrays

    def saved_trees(self) -> list[SavedTree]:
        """The noise as plain data, as it is stored."""
        targets = self.targets or (None,) * len(self.cascades)
        return [
            SavedTree(
                attribute=name,
                named=cascade.tree.names is not None,
                root=fraction_text(cascade.root),
                spreads=[SavedSpread(children=m, variance=fraction_text(e)) for m, e in cascade.spreads],
                targets=None if each is None else _texts(each),
            )
            for name, cascade, each in zip(self.names, self.cascades, targets, strict=True)
        ]

    def to_json(self) -> dict[str, Any]:
        """The plan in numbers, as `leastnoise plan --json` prints it."""
        frame = self.levels().astype(object)
        levels = frame.where(frame.notna(), None).to_dict("records")
        privacy = self.cost.to_json() | {"epsilon": self.cost.epsilon_at(self.delta), "delta": self.delta}
        exact = None if self.exact is None else self.exact.listed()
        return {"trees": list(self.names), "levels": levels, "privacy": privacy, "exact": exact}


def plan_digest(trees: Sequence[SavedTree], arrays: Arrays) -> str:
    """sha256 of what decides what is measured."""
    return digest_of({"trees": [t.model_dump() for t in trees]}, arrays)


def _texts(targets: Sequence[Fraction | None]) -> list[str | None]:
    known = {id(t): None if t is None else fraction_text(t) for t in {id(t): t for t in targets}.values()}
    return [known[id(t)] for t in targets]


def _family(attribute: Attribute) -> Family:
    if not isinstance(attribute.values, Hierarchy):
        return Marginal()
    return Nodes(attribute.values.tree, np.ones(attribute.values.tree.nodes))


def leaf_encoding(tree: Tree, values: Sequence[Any] | None = None, levels: Sequence[str] | None = None) -> Encoding:
    """The attribute of a tree: what data calls its leaves, and the names of its nodes and levels, if they have some."""
    if tree.names is None:
        return Attribute.of(LEAF, range(tree.leaf_count) if values is None else list(values)).values
    labels: list[Any] = list(tree.names)
    for node, value in zip(tree.leaves.tolist(), values or (), strict=False):
        labels[node] = value
    return Hierarchy.of(tree, labels, levels or ())


def tree_plan(
    trees: Trees,
    *,
    targets: Targets | Mapping[str, Targets] | None = None,
    queries: Queries = (),
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
) -> TreePlan:
    """Noise for trees: with targets, the least that has to be spent for them; with a budget, the best for weights.

    A tree is a `Tree` or what `hierarchy(...)` makes of a file or lists; several are given by attribute.

    Targets are per level from the root down: the largest standard error, variance, or distance that holds `within` a
    confidence; published numbers keep them, rounding included. A budget beside targets is a limit. With `exactly`,
    levels have the variance of their targets, not less. Weights say how much the variance of a node of each level
    counts; by default all levels count the same. For several trees give targets and weights by name; they multiply.

    Single nodes may have targets of their own: `targets={"place": 5, "Munich": 2}` by the names of levels and nodes, or
    one per node. `queries` gives targets to further counts, as questions or as weights of the leaves.

    `exact_level` or `exact_nodes` are published without noise: what stays protected is reported in the statement.
    """
    given = trees if isinstance(trees, Mapping) else {LEAF: trees}
    if not given:
        raise LeastnoiseError("a tree plan needs at least one tree, by the name of its attribute")
    named = {name: _as_tree(tree) for name, tree in given.items()}
    nodes = list(exact_nodes)
    exact = None
    if exact_level is not None or nodes:
        if len(named) > 1:
            raise LeastnoiseError(f"exact counts need a single tree; there are {len(named)}")
        exact = Invariants.of(next(iter(named.values())), level=exact_level, nodes=nodes)
    hides = as_neighbours(neighbours, rows_per_person, size) if budget is None else budget.neighbours
    hides.refuse_groups("a tree")
    value = USUAL_DELTA if budget is None or budget.delta is None else budget.delta
    start = TreePlan(tuple(named), (), hides, value, exact, None, _encodings(given, named, values))
    if targets is not None:
        if weights is not None:
            raise LeastnoiseError("targets and weights exclude each other; weights share out a budget")
        if queries or any(by_node(t, _one_of(targets, name, named)) for name, t in named.items()):
            return _for_accuracy(start, named, targets, queries, kind, confidence, exactly, budget)
        return _for_targets(start, named, targets, kind, confidence, exactly, budget)
    if queries:
        raise LeastnoiseError("queries with targets need targets of the levels, too; add targets")
    if budget is None:
        raise LeastnoiseError("a tree plan needs targets, a budget, or both")
    demands = [_demand(t, exact, _one_of(weights, name, named)) for name, t in named.items()]
    return replace(start, cascades=tuple(best_cascade(a) for a in demands)).spending(budget)


def _for_targets(
    start: TreePlan,
    named: Mapping[str, Tree],
    targets: Any,
    kind: Kind,
    confidence: float,
    exactly: bool,
    budget: Budget | None,
) -> TreePlan:
    variances = [read_targets(t, _one_of(targets, name, named), kind, confidence) for name, t in named.items()]
    caps, results = without_rounding(variances), []
    for tree, each in zip(named.values(), caps, strict=True):
        if exactly:
            full = [t for t in each if t is not None]
            results.append(Cascade.by_level(tree, full))
        else:
            results.append(least_noise_cost(tree, each, -1 if start.exact is None else start.exact.whole_level))
    return _within(replace(start, cascades=tuple(results), targets=tuple(tuple(a) for a in variances)), budget)


def _for_accuracy(
    start: TreePlan,
    named: Mapping[str, Tree],
    targets: Any,
    queries: Queries,
    kind: Kind,
    confidence: float,
    exactly: bool,
    budget: Budget | None,
) -> TreePlan:
    """Targets of single nodes and of queries."""
    if len(named) > 1 or start.exact is not None or exactly:
        what = "several trees" if len(named) > 1 else "exact counts" if start.exact is not None else "exactly"
        raise LeastnoiseError(f"targets of single nodes and queries do not go with {what}; give targets per level")
    ((name, tree),) = named.items()
    domain = Domain((Attribute(name, start.encodings[0] or leaf_encoding(tree)),))
    accuracy = read_accuracy(domain, tree, _one_of(targets, name, named), queries, kind, confidence)
    cascade = accurate_cascade(accuracy.without_rounding()).cascade
    return _within(replace(start, cascades=(cascade,), targets=(accuracy.level_targets(),)), budget)


def _within(plan: TreePlan, budget: Budget | None) -> TreePlan:
    """The plan, unless it costs nothing or more than a limit."""
    if not plan.cost.mu_squared:
        raise no_noise_needed()
    if budget is not None and plan.cost.mu_squared > budget.exact_cost:
        raise LeastnoiseError(_too_costly(plan, budget))
    return plan


def _too_costly(plan: TreePlan, budget: Budget) -> str:
    text = f"these targets cost {plan.cost}, more than the budget of {budget.cost_value}"
    if len(plan.cascades) > 1:
        return f"{text}; raise them"
    frame = plan.levels()
    most = frame.iloc[int(frame["share"].argmax())]
    return (
        f"{text}; level {most['level']:.0f} takes {most['share']:.0%} of it, raise its target, a standard error of "
        f"{number(most['target'] or most['std_error'])}"
    )


def _demand(tree: Tree, exact: Invariants | None, weights: Weights | None) -> Demand:
    if isinstance(weights, Demand):
        if weights.tree is not tree:
            raise LeastnoiseError("the demand is on another tree; build it from the tree of the plan")
        demand = weights
    else:
        demand = Demand.nodes(tree, 1 / np.diff(tree.ends, prepend=0) if weights is None else weights)
    if exact is None:
        return demand
    own = np.where(exact.opened, 0.0, demand.own)  # exact nodes need none of the budget
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


def _encodings(given: Mapping[str, AnyTree], named: Mapping[str, Tree], values: Any) -> tuple[Encoding, ...]:
    encodings: list[Encoding] = []
    for (name, tree), original in zip(named.items(), given.values(), strict=True):
        each = values.get(name) if isinstance(values, Mapping) else values
        if each is not None and len(each) != tree.leaf_count:
            raise LeastnoiseError(f"{name!r} has {tree.leaf_count} leaves, got {len(each)} values for them")
        own = each is None and isinstance(original, Hierarchy)
        encodings.append(original if own and isinstance(original, Hierarchy) else leaf_encoding(tree, each))
    return tuple(encodings)


def _text(plan: TreePlan) -> Iterable[str]:
    for name, tree in zip(plan.names, plan.trees, strict=True):
        levels = f"{tree.nodes:,} nodes on {tree.depth + 1} levels, {tree.leaf_count:,} leaves"
        yield f"tree plan on {name!r}: {levels}"
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
        cells.append(f"{number(float(interval_reach(0, width * row['std_error']))):>11}")
        yield " ".join([*cells, f"{row['share']:>15.0%}"] if shared else cells)
    if len(frame) > ROWS:
        yield f"and {len(frame) - ROWS:,} more"
    if plan.exact is not None:
        yield f"exact, and not protected: {plan.exact.listed()}"
    yield f"costs {plan.cost} for {plan.cost.change}"
