"""The attributes of a spec file: one model per kind."""

from typing import Annotated, Any, Literal, get_args

from pydantic import Field, Tag

from leastnoise.domain.attributes import Encoding, Integers, Values, bins, hierarchy, sized
from leastnoise.workload.fields import Missing, Names, NonEmpty, Number, Repeat, TreeForm, Value, Whole, word
from leastnoise.workload.named_files import NamedFiles
from leastnoise.workload.parts import Part, key_kind


class BinsPart(Part):
    """Bins of equal width: give the width or the count."""

    called = "bins"
    example = "{low: 0, high: 200000, width: 4000}"
    low: Number
    high: Number
    width: Number | None = None
    count: Whole | None = None


OutsideName = Literal["error", "other", "clamp", "drop"]
Outside = Annotated[OutsideName, word(*get_args(OutsideName))]


class AttributeBase(Part):
    """What all attributes have: where they are in the data, and what happens to other values."""

    called = "an attribute"
    repeat: Repeat | None = None
    column: NonEmpty | None = None
    outside: Outside = "error"
    missing: Missing = "error"

    def rules(self) -> dict[str, Any]:
        """The rules that differ from the usual ones."""
        return self.model_dump(include={"column", "outside", "missing"}, exclude_unset=True, exclude_none=True)


class RangeAttribute(AttributeBase):
    """Whole numbers from the first to the last, ordered."""

    kind = "range"
    example = "{range: [0, 99]}"
    range: Annotated[list[Whole], Field(min_length=2, max_length=2)]

    def encoding(self) -> Encoding:
        """The values meant."""
        return Integers(*self.range)


class BinsAttribute(AttributeBase):
    """A number cut into bins, ordered."""

    kind = "bins"
    example = "{bins: {low: 0, high: 200000, width: 4000}}"
    bins: BinsPart

    def encoding(self) -> Encoding:
        """The values meant."""
        return bins(**dict(self.bins))


class ValuesAttribute(AttributeBase):
    """Listed values, unordered unless `ordered: true`."""

    kind = "values"
    example = "{values: [F, M]}"
    values: Annotated[list[Value], Field(min_length=1)]
    ordered: bool = False

    def encoding(self) -> Encoding:
        """The values meant."""
        return Values(tuple(self.values), self.ordered)


class SizeAttribute(AttributeBase):
    """The codes 0 to size - 1, unordered unless `ordered: true`."""

    kind = "size"
    example = "{size: 10} or {range: [0, 99]}"
    size: Whole
    ordered: bool = False

    def encoding(self) -> Encoding:
        """The values meant."""
        return sized(self.size, self.ordered)


class HierarchyAttribute(AttributeBase):
    """The leaves of a tree: a CSV file beside the spec, nested lists of leaves, paths, or codes with `digits`."""

    kind = "hierarchy"
    example = "{hierarchy: places.csv} or {hierarchy: {north: [a, b], south: [c]}}"
    hierarchy: TreeForm
    digits: Annotated[list[Whole], Field(min_length=1)] | None = None
    levels: Names | None = None

    def encoding(self, files: NamedFiles) -> Encoding:
        """The values meant."""
        source = files.path(self.hierarchy) if isinstance(self.hierarchy, str) else self.hierarchy
        if self.digits is not None and isinstance(source, list):
            source = [str(code) for code in source]  # codes without zeros at the front look like numbers
        return hierarchy(source, digits=self.digits, levels=self.levels)


AttributePart = RangeAttribute | BinsAttribute | ValuesAttribute | HierarchyAttribute | SizeAttribute
AnyAttribute = Annotated[
    Annotated[RangeAttribute, Tag("#range")]
    | Annotated[BinsAttribute, Tag("#bins")]
    | Annotated[ValuesAttribute, Tag("#values")]
    | Annotated[HierarchyAttribute, Tag("#hierarchy")]
    | Annotated[SizeAttribute, Tag("#size")],
    key_kind("range", "bins", "values", "hierarchy", "size"),
]
