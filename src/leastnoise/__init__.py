"""leastnoise: differentially private answers to linear queries with the least noise provably possible."""

from typing import TYPE_CHECKING

from leastnoise._lazy import export_lazily

if TYPE_CHECKING:
    from leastnoise.domain.attributes import Domain, amount, bins, dates, hierarchy, labelled, or_unknown, sized
    from leastnoise.errors import LeastnoiseError
    from leastnoise.mechanisms.adaptive import adaptive_plan
    from leastnoise.mechanisms.curator import evaluate_on_data
    from leastnoise.mechanisms.discover.plan import discover
    from leastnoise.mechanisms.from_spec import plan_spec
    from leastnoise.mechanisms.matrix.plan import matrix_plan, running_totals
    from leastnoise.mechanisms.stream.plan import stream_plan
    from leastnoise.mechanisms.tables.plan import Plan, plan
    from leastnoise.mechanisms.tree import tree_plan
    from leastnoise.privacy import Budget, BudgetError, Ledger
    from leastnoise.release import LinearQuery, Release, merge
    from leastnoise.release.kinds import load
    from leastnoise.sources import PrivacyUnit, Rules
    from leastnoise.sources.check import check
    from leastnoise.workload import Workload
    from leastnoise.workload.spec import load_spec

__version__ = "0.1.0"

__all__ = [
    "Budget",
    "BudgetError",
    "Domain",
    "LeastnoiseError",
    "Ledger",
    "LinearQuery",
    "Plan",
    "PrivacyUnit",
    "Release",
    "Rules",
    "Workload",
    "__version__",
    "adaptive_plan",
    "amount",
    "bins",
    "check",
    "dates",
    "discover",
    "evaluate_on_data",
    "hierarchy",
    "labelled",
    "load",
    "load_spec",
    "matrix_plan",
    "merge",
    "or_unknown",
    "plan",
    "plan_spec",
    "running_totals",
    "sized",
    "stream_plan",
    "tree_plan",
]

export_lazily(__name__)
