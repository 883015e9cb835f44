"""From a workload and a budget to a certified plan."""

from leastnoise.plan.plan import Plan, clear_cache, plan

__all__ = ["Plan", "clear_cache", "plan"]
