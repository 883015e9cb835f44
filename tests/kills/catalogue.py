"""Every kind of release with a ledger, with its plan: what takes long is done here, once."""

from __future__ import annotations

from typing import Any

import numpy as np

import leastnoise as ln
from leastnoise.domain.tree import Tree
from leastnoise.mechanisms.side_counts import with_side_counts
from leastnoise.mechanisms.tree import tree_plan
from tests.kills.kinds import COUNTS, DOMAIN, SMALL, KeyRun, Kind, Merge, NewLedger, Overwrite, RaiseTotal, Run
from tests.kills.streams import Close, Open, Steps
from tests.kills.watch import Watched

RUNS = (
    *("plan", "plan with tables", "survey", "aim", "matrix", "cascade", "cascade with exact counts"),
    *("plan with side counts", "keys", "overwrite", "merge", "new ledger", "raise"),
)
STREAMS = ("stream", "stream steps", "stream close")


def kinds() -> dict[str, Kind]:
    """By name; those of `RUNS` and of `STREAMS`."""
    pairs = ln.Workload(DOMAIN).marginals(ways=2)
    plan, uniform = ln.plan(pairs.prefix("a"), SMALL), ln.plan(pairs, SMALL, baseline="uniform")
    totals = ln.matrix_plan(ln.running_totals(len(COUNTS)), SMALL)
    tree = {"place": Tree.binary(3)}
    return {
        "plan": Run(plan),
        "plan with tables": Run(plan, options={"tables": "csv"}),
        "survey": Run(ln.adaptive_plan(pairs, SMALL)),
        "aim": Run(ln.adaptive_plan(pairs, SMALL, select="aim")),
        "matrix": _places(ln.matrix_plan(np.tri(8), SMALL, items={"place": range(8)})),
        "cascade": _places(tree_plan(tree, budget=SMALL)),
        "cascade with exact counts": _places(tree_plan(tree, targets=[900, 1000, 1100, 1200], exact_level=1)),
        "plan with side counts": _beside(uniform),
        "keys": _keys(),
        "overwrite": Overwrite(plan),
        "merge": Merge(uniform),
        "new ledger": NewLedger(),
        "raise": RaiseTotal(),
        "stream": Open(totals),
        "stream steps": Steps(totals),
        "stream close": Close(totals),
    }


def _beside(plan: ln.Plan) -> Run:
    """Rows with a rule that drops some of them."""
    rules = {"a": {"missing": "drop"}}
    data = {"a": [0, None, 3], "b": ["x", "y", "y"], "c": [0, 1, 2]}
    return Run(with_side_counts(plan, quality=0.1, rules=rules), data, {"rules": rules, "dataset": "people"})


def _keys() -> Run:
    """Keys of a few people, none of which is found; its ledger needs a delta."""
    plan = ln.discover("a", ln.Budget(epsilon=0.05, delta=1e-12, rows_per_person=1))
    data = {"a": ["x", "y", "y"], "who": [1, 2, 3]}
    return KeyRun(plan, data, {"unit": {"id": "who", "max_rows": 1}, "dataset": "people"})


def _places(plan: Any) -> Run:
    return Run(plan, Watched(plan.domain, np.arange(8), "people"))
