"""From a workload and a budget to a certified plan."""

from typing import TYPE_CHECKING

from leastnoise._lazy import export_lazily

if TYPE_CHECKING:
    from leastnoise.plan.plan import Plan, clear_cache, plan

__all__ = ["Plan", "clear_cache", "plan"]

export_lazily(__name__)
