"""Query families, blocks, workloads and the spec language."""

from typing import TYPE_CHECKING

from leastnoise._lazy import export_lazily

if TYPE_CHECKING:
    from leastnoise.workload.blocks import Block
    from leastnoise.workload.families import Family
    from leastnoise.workload.tensors import TensorFamily
    from leastnoise.workload.workload import Workload

__all__ = ["Block", "Family", "TensorFamily", "Workload"]

export_lazily(__name__)
