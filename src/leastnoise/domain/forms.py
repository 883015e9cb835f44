"""Encodings from what a user gives, and from what a file holds."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from leastnoise.domain.amounts import Amount, Square
from leastnoise.domain.binned import Bins, UnequalBins
from leastnoise.domain.encoding import Encoding, Scalar
from leastnoise.domain.hierarchies import Hierarchy, with_leaf
from leastnoise.domain.listed import Labelled, Values, labelled
from leastnoise.domain.numeric import Integers, Sized
from leastnoise.domain.periods import dates
from leastnoise.domain.tree import Tree
from leastnoise.domain.unknown import UNKNOWN, OrUnknown
from leastnoise.errors import LeastnoiseError

Spec = int | range | Sequence[Scalar] | Mapping[Any, Any] | Encoding


def encoding_of(spec: object) -> Encoding:
    """The encoding meant by a size, a range, a list of values, labels by value, or an encoding."""
    if isinstance(spec, Encoding):
        return spec
    if isinstance(spec, range):
        # Steps other than 1 leave gaps, so the values must be listed.
        return Integers(spec[0], spec[-1]) if len(spec) and spec.step == 1 else Values(tuple(spec), ordered=True)
    if isinstance(spec, int | np.integer) and not isinstance(spec, bool):
        return Sized(int(spec))
    if isinstance(spec, Mapping):
        return labelled(spec)
    if isinstance(spec, list | tuple | np.ndarray):
        return Values(tuple(spec))
    raise LeastnoiseError(f"cannot read {spec!r} as values; use a size, a range, a list of values or bins(...)")


def or_unknown(values: Any) -> Encoding:
    """The same values and `unknown`, the last one, for those that are missing; a hierarchy gets a leaf of that name.

    >>> or_unknown(["F", "M"]).size
    3
    """
    encoding = encoding_of(values)
    if isinstance(encoding, Amount):
        raise LeastnoiseError("an unknown amount has no place in a sum; use 'missing: drop', or a number for it")
    if int(encoding.find(np.array([UNKNOWN], dtype=object))[0]) >= 0:
        raise LeastnoiseError("these values have 'unknown' among them already; use them as they are")
    return with_leaf(encoding, UNKNOWN) if isinstance(encoding, Hierarchy) else OrUnknown(encoding)


def read_values(data: Mapping[str, Any]) -> Encoding:
    """Read what `to_json` of an encoding wrote."""
    match data["kind"]:
        case "values":
            return Values(tuple(data["values"]), bool(data["ordered"]))
        case "integers":
            return Integers(data["low"], data["high"])
        case "bins":
            return Bins(data["low"], data["high"], data["count"], data.get("open_ended") is True)
        case "hierarchy":
            return _stored_hierarchy(data)
        case "edges":
            open_ended = bool(data["open_ended"])
            return UnequalBins(cuts=tuple(data["edges"]), labels=tuple(data["labels"]), open_ended=open_ended)
        case "labelled":
            return Labelled(tuple(data["labels"]), bool(data["ordered"]), tuple(map(tuple, data["keys"])))
        case "dates":
            result = dates(data["from"], data["to"], data["by"])
            return or_unknown(result) if data.get("unknown") is True else result
        case "cycle":
            return dates(by=data["by"])
        case "or_unknown":
            return or_unknown(read_values(data["base"]))
        case "amount":
            return Amount(data["low"], data["high"], data["unit"], data["squares"])
        case "square":
            return Square(data["low"], data["high"], data["unit"], True, data["of"])
        case "sized":
            return Sized(data["size"], bool(data["ordered"]))
    raise LeastnoiseError(f"unknown kind of values {data['kind']!r}; use a newer version, or make the file anew")


def _stored_hierarchy(data: Mapping[str, Any]) -> Hierarchy:
    tree = Tree(np.array(data["children"], dtype=np.int64))
    return Hierarchy.of(tree, data["labels"], data["levels"], data.get("unknown", False) is True)
