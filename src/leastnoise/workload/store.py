"""Workloads as plain data: what a saved plan or release keeps of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leastnoise.domain import Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.workload.blocks import Block
from leastnoise.workload.tensors import (
    TENSORS,
    MatrixTensor,
    ProductTensor,
    RandomTensor,
    TensorFamily,
    WeightedTensor,
)
from leastnoise.workload.workload import Workload, family_of, finite, positive_weights


def tensor_of(form: Any) -> TensorFamily:
    """A non-product family from its stored form."""
    if isinstance(form, str) and form in TENSORS:
        return TENSORS[form]
    if isinstance(form, Mapping) and "of" in form:
        return WeightedTensor(tensor_of(form["of"]), positive_weights(form["weights"]))
    if isinstance(form, Mapping) and "product" in form:
        return ProductTensor(tuple(family_of(f) for f in form["product"]))
    if isinstance(form, Mapping) and "matrix" in form:
        return MatrixTensor(finite(form["matrix"], "matrix"))
    if isinstance(form, Mapping) and "random" in form:
        r = form["random"]
        return RandomTensor(r["count"], r["density"], r["seed"])
    raise LeastnoiseError(f"unknown stored queries {form!r}; the file is damaged or from a newer version")


def workload_to_json(workload: Workload) -> dict[str, Any]:
    """Domain and blocks as plain data."""
    return {"domain": workload.domain.to_json(), "blocks": [_block_to_json(b) for b in workload.blocks]}


def _block_to_json(b: Block) -> dict[str, Any]:
    out: dict[str, Any] = {"on": list(b.on), "ways": b.ways, "weight": b.weight, "label": b.label, "target": b.target}
    if isinstance(b.families, TensorFamily):
        return out | {"tensor": b.families.to_json()}
    return out | {"families": [f.to_json() for f in b.families]}


def workload_from_json(data: Mapping[str, Any]) -> Workload:
    """The workload back from plain data."""
    domain = Domain.from_json(data["domain"])
    return Workload(domain, tuple(_block_from_json(b) for b in data["blocks"]))


def _block_from_json(b: Mapping[str, Any]) -> Block:
    families = tensor_of(b["tensor"]) if "tensor" in b else tuple(family_of(f) for f in b["families"])
    return Block(tuple(b["on"]), b["ways"], families, b["weight"], b["label"], b["target"])
