"""Mechanisms: what measures private counts once and leaves a release."""

from typing import TYPE_CHECKING

from leastnoise._lazy import export_lazily

if TYPE_CHECKING:
    from leastnoise.mechanisms.adaptive.plan import AdaptivePlan
    from leastnoise.mechanisms.discover.plan import DiscoverPlan
    from leastnoise.mechanisms.discover.release import KeysRelease
    from leastnoise.mechanisms.matrix.plan import MatrixPlan
    from leastnoise.mechanisms.matrix.release import MatrixRelease
    from leastnoise.mechanisms.mechanism import Mechanism
    from leastnoise.mechanisms.stream.plan import StreamPlan
    from leastnoise.mechanisms.stream.stream import Stream
    from leastnoise.mechanisms.tables.plan import Plan
    from leastnoise.mechanisms.tree.plan import TreePlan
    from leastnoise.mechanisms.tree.release import TreeRelease

__all__ = [
    "AdaptivePlan",
    "DiscoverPlan",
    "KeysRelease",
    "MatrixPlan",
    "MatrixRelease",
    "Mechanism",
    "Plan",
    "Stream",
    "StreamPlan",
    "TreePlan",
    "TreeRelease",
]

export_lazily(__name__)
