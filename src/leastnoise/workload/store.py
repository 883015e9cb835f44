"""Workloads as plain data: what a saved plan or release keeps of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leastnoise.domain.attributes import Attribute, Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.workload.blocks import Block
from leastnoise.workload.families import Family
from leastnoise.workload.hierarchy import Nodes, nodes_from_json
from leastnoise.workload.known import on_known
from leastnoise.workload.sums import Sum, sum_of
from leastnoise.workload.tensors import (
    TENSORS,
    MatrixTensor,
    ProductTensor,
    RandomTensor,
    TensorFamily,
    WeightedTensor,
)
from leastnoise.workload.weighted import Weighted
from leastnoise.workload.workload import Workload, family_of, finite, positive_weights, random_options


def stored_family(form: Any, attribute: Attribute) -> Family:
    """A family from its stored form, on the attribute it is about."""
    if form == Nodes.name or (isinstance(form, Mapping) and Nodes.name in form):
        return nodes_from_json(attribute, form)
    if isinstance(form, Mapping) and "of" in form:
        return Weighted(stored_family(form["of"], attribute), positive_weights(form["weights"]))
    if form == Sum.name:
        return sum_of(attribute)
    return on_known(family_of(form), attribute)


def tensor_of(form: Any, attributes: Sequence[Attribute]) -> TensorFamily:
    """A non-product family from its stored form, on the attributes it is about."""
    if isinstance(form, str) and form in TENSORS:
        return TENSORS[form]
    if isinstance(form, Mapping) and "of" in form:
        return WeightedTensor(tensor_of(form["of"], attributes), positive_weights(form["weights"]))
    if isinstance(form, Mapping) and "product" in form:
        families = form["product"]  # of some of the attributes where all are alike
        return ProductTensor(tuple(stored_family(f, a) for f, a in zip(families, attributes, strict=False)))
    if isinstance(form, Mapping) and "matrix" in form:
        return MatrixTensor(finite(form["matrix"], "matrix"))
    if isinstance(form, Mapping) and "random" in form:
        r = form["random"]
        return RandomTensor(*random_options(r))
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
    blocks = tuple(_block_from_json(b, domain) for b in data["blocks"])
    for block in blocks:
        block.check(domain)  # what no workload can ask for is refused before anything is built from it
    return Workload(domain, blocks)


def _block_from_json(b: Mapping[str, Any], domain: Domain) -> Block:
    on = [domain.attributes[i] for i in b["on"]]
    families: TensorFamily | tuple[Family, ...]
    if "tensor" in b:
        families = tensor_of(b["tensor"], on)
    else:
        families = tuple(stored_family(f, a) for f, a in zip(b["families"], on, strict=True))
    return Block(tuple(b["on"]), b["ways"], families, b["weight"], b["label"], b["target"])
