"""The local model: devices randomize their own records, a collector adds up the reports (docs/local.md)."""

from typing import TYPE_CHECKING

from leastnoise._lazy import export_lazily

if TYPE_CHECKING:
    from leastnoise.local.collector import Collector, LocalAnswers
    from leastnoise.local.device import Device, simulate
    from leastnoise.local.files import load_collector, load_plan, save_collector, save_plan
    from leastnoise.local.plan import LocalPlan
    from leastnoise.local.planner import local_plan

__all__ = [
    "Collector",
    "Device",
    "LocalAnswers",
    "LocalPlan",
    "load_collector",
    "load_plan",
    "local_plan",
    "save_collector",
    "save_plan",
    "simulate",
]

export_lazily(__name__)
