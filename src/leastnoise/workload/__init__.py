"""Query families, blocks, workloads and the spec language."""

from leastnoise.workload.blocks import Block
from leastnoise.workload.families import Family
from leastnoise.workload.tensors import TensorFamily
from leastnoise.workload.workload import Workload

__all__ = ["Block", "Family", "TensorFamily", "Workload"]
