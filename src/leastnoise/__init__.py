"""leastnoise: differentially private answers to linear queries with the least noise provably possible."""

from typing import TYPE_CHECKING

from leastnoise._lazy import export_lazily

if TYPE_CHECKING:
    from leastnoise import estimate, report
    from leastnoise.domain.attributes import Domain, bins, hierarchy, sized
    from leastnoise.errors import LeastnoiseError
    from leastnoise.mechanisms import tree as cascade
    from leastnoise.mechanisms.adaptive import Adaptive, Completion, adapt
    from leastnoise.mechanisms.from_spec import plan_spec
    from leastnoise.mechanisms.matrix.plan import MatrixPlan, factorize, running_totals
    from leastnoise.mechanisms.matrix.release import MatrixRelease
    from leastnoise.mechanisms.stream.plan import StreamPlan, stream_plan
    from leastnoise.mechanisms.stream.stream import Stream
    from leastnoise.mechanisms.tables.plan import Plan, plan
    from leastnoise.privacy import Budget, BudgetError, Cost, Ledger
    from leastnoise.release import Answer, Linear, Release, merge
    from leastnoise.release.kinds import load
    from leastnoise.sources import Rules, Unit, source_of
    from leastnoise.sources.check import Check, check
    from leastnoise.theory import Bounds, bounds, curves
    from leastnoise.workload import Workload
    from leastnoise.workload.spec import load_spec

__version__ = "0.1.0"

__all__ = [
    "Adaptive",
    "Answer",
    "Bounds",
    "Budget",
    "BudgetError",
    "Check",
    "Completion",
    "Cost",
    "Domain",
    "LeastnoiseError",
    "Ledger",
    "Linear",
    "MatrixPlan",
    "MatrixRelease",
    "Plan",
    "Release",
    "Rules",
    "Stream",
    "StreamPlan",
    "Unit",
    "Workload",
    "__version__",
    "adapt",
    "bins",
    "bounds",
    "cascade",
    "check",
    "curves",
    "estimate",
    "factorize",
    "hierarchy",
    "load",
    "load_spec",
    "merge",
    "plan",
    "plan_spec",
    "report",
    "running_totals",
    "sized",
    "source_of",
    "stream_plan",
]

export_lazily(__name__)
