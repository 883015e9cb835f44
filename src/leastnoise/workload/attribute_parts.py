"""The attributes of a spec file: one model per kind."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import Discriminator, Field, Tag, model_validator

from leastnoise.domain.attributes import (
    UNKNOWN,
    Attribute,
    Encoding,
    Integers,
    OrUnknown,
    Scalar,
    Values,
    amount,
    bins,
    dates,
    hierarchy,
    labelled,
    or_unknown,
    sized,
)
from leastnoise.domain.label_files import labels_from
from leastnoise.domain.periods import CYCLES
from leastnoise.errors import LeastnoiseError
from leastnoise.workload.fields import (
    Delta,
    Missing,
    Names,
    NonEmpty,
    Number,
    PeopleCount,
    Repeat,
    RowsPerPerson,
    Share,
    Text,
    TreeForm,
    Value,
    Whole,
    word,
)
from leastnoise.workload.named_files import NamedFiles
from leastnoise.workload.parts import Part, key_kind


class BinsPart(Part):
    """Bins of equal width, by their width or count; or bins between edges, which may have labels."""

    called = "bins"
    example = "{low: 0, high: 200000, width: 4000}"
    low: Number | None = None
    high: Number | None = None
    width: Number | None = None
    count: Whole | None = None
    edges: Annotated[list[Number], Field(min_length=2)] | None = None
    labels: Annotated[list[Text], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def check_form(self) -> "BinsPart":
        """Refuse what lacks an end, and what mixes both forms."""
        if self.edges is None:
            for key in ("low", "high"):
                if getattr(self, key) is None:
                    raise LeastnoiseError(f"bins needs {key!r}; write for example {self.example}")
            if self.labels is not None:
                raise LeastnoiseError("labels of bins need 'edges', such as {edges: [0, 18, 65, 120]}; add them")
        elif odd := self.model_fields_set - {"edges", "labels"}:
            raise LeastnoiseError(f"bins have edges or {min(odd)!r}, not both; leave one out")
        return self


ListOrLabels = Annotated[
    Annotated[list[Value], Field(min_length=1), Tag("#list")]
    | Annotated[dict[Value, Value], Field(min_length=1), Tag("#labels")],
    Discriminator(lambda data: "#labels" if isinstance(data, Mapping) else "#list"),
]
PeriodName = Literal["day", "week", "month", "quarter", "year", "hour of day", "day of week"]
OutsideName = Literal["error", "other", "clamp", "drop"]
Outside = Annotated[OutsideName, word(*get_args(OutsideName))]


RULES = {"column", "outside", "missing", "trim", "fold", "missing_values", "format", "zone"}


class AttributeBase(Part):
    """What all attributes have: where they are in the data, and what happens to other values."""

    called = "an attribute"
    repeat: Repeat | None = None
    column: NonEmpty | None = None
    outside: Outside = "error"
    missing: Missing = "error"
    trim: bool = False
    missing_values: Annotated[list[Value], Field(min_length=1)] | None = None

    def encoding(self, files: NamedFiles) -> Encoding:
        """The values meant."""
        raise NotImplementedError

    def values_of(self, files: NamedFiles) -> Encoding:
        """The values meant, with `unknown` where missing values are so called and nothing else is."""
        values = self.encoding(files)
        listed = Attribute("a", values).has(UNKNOWN)
        return or_unknown(values) if self.missing == UNKNOWN and not listed else values

    def rules(self) -> dict[str, Any]:
        """The rules that differ from the usual ones."""
        return self.model_dump(include=RULES, exclude_unset=True, exclude_none=True)


class RangeAttribute(AttributeBase):
    """Whole numbers from the first to the last, ordered."""

    kind = "range"
    example = "{range: [0, 99]}"
    range: Annotated[list[Whole], Field(min_length=2, max_length=2)]

    def encoding(self, files: NamedFiles) -> Encoding:
        """The values meant."""
        return Integers(*self.range)


class BinsAttribute(AttributeBase):
    """A number cut into bins, ordered."""

    kind = "bins"
    example = "{bins: {low: 0, high: 200000, width: 4000}}"
    bins: BinsPart

    def encoding(self, files: NamedFiles) -> Encoding:
        """The values meant."""
        open_ended = self.outside == "clamp"
        if self.bins.edges is not None:
            return bins(edges=self.bins.edges, labels=self.bins.labels or (), open_ended=open_ended)
        part = self.bins
        return bins(part.low, part.high, width=part.width, count=part.count, open_ended=open_ended)


class AmountPart(Part):
    """Bounds of a number that is summed, and the unit in which sums are whole."""

    called = "amount"
    example = "{low: 0, high: 200000, unit: 1}"
    low: Number
    high: Number
    unit: Number = 1
    squares: bool = False


class AmountAttribute(AttributeBase):
    """A number that is summed, not counted by value; clamped to its bounds. With `squares` for variances."""

    kind = "amount"
    example = "{amount: {low: 0, high: 200000, unit: 1}}"
    amount: AmountPart
    outside: Outside = "clamp"

    def encoding(self, files: NamedFiles) -> Encoding:
        """The values meant."""
        return amount(self.amount.low, self.amount.high, self.amount.unit, squares=self.amount.squares)


class ValuesAttribute(AttributeBase):
    """Listed values, or values of the data with labels; unordered unless `ordered: true`."""

    kind = "values"
    example = "{values: [F, M]} or {values: {1: Male, 2: Female}}"
    values: ListOrLabels
    ordered: bool = False
    fold: bool = False

    def encoding(self, files: NamedFiles) -> Encoding:
        """The values meant."""
        if isinstance(self.values, Mapping):
            return labelled(self.values, self.ordered)
        return Values(tuple(self.values), self.ordered)


class LabelsAttribute(AttributeBase):
    """Values of the data with labels from a CSV file beside the spec, with the columns `code` and `label`."""

    kind = "labels"
    example = "{labels: codes.csv}"
    labels: NonEmpty
    ordered: bool = False
    fold: bool = False

    def encoding(self, files: NamedFiles) -> Encoding:
        """The values meant."""
        return labels_from(files.path(self.labels), self.ordered)


class SizeAttribute(AttributeBase):
    """The codes 0 to size - 1, unordered unless `ordered: true`."""

    kind = "size"
    example = "{size: 10} or {range: [0, 99]}"
    size: Whole
    ordered: bool = False

    def encoding(self, files: NamedFiles) -> Encoding:
        """The values meant."""
        return sized(self.size, self.ordered)


class HierarchyAttribute(AttributeBase):
    """The leaves of a tree: a CSV file beside the spec, nested lists of leaves, paths, or codes with `digits`."""

    kind = "hierarchy"
    example = "{hierarchy: places.csv} or {hierarchy: {north: [a, b], south: [c]}}"
    hierarchy: TreeForm
    digits: Annotated[list[Whole], Field(min_length=1)] | None = None
    levels: Names | None = None
    fold: bool = False

    def encoding(self, files: NamedFiles) -> Encoding:
        """The values meant."""
        source = files.path(self.hierarchy) if isinstance(self.hierarchy, str) else self.hierarchy
        if self.digits is not None and isinstance(source, list):
            source = [str(code) for code in source]  # codes without zeros at the front look like numbers
        return hierarchy(source, digits=self.digits, levels=self.levels)


class DatesPart(Part):
    """The first and the last day, and the periods between them; or parts of every day or week, which need no days."""

    called = "dates"
    example = "{from: 2015-01-01, to: 2025-12-31, by: month}"
    first: Annotated[Text | None, Field(alias="from")] = None
    to: Text | None = None
    by: Annotated[PeriodName, word(*get_args(PeriodName))] = "day"

    @model_validator(mode="after")
    def check_days(self) -> "DatesPart":
        """Refuse periods without days."""
        for key, value in {"from": self.first, "to": self.to}.items():
            if value is None and self.by not in CYCLES:
                raise LeastnoiseError(f"dates needs {key!r}; write for example {self.example}")
        return self


class DatesAttribute(AttributeBase):
    """Dates by day, week, month, quarter or year, with the levels above; or hours of the day, days of the week."""

    kind = "dates"
    example = "{dates: {from: 2015-01-01, to: 2025-12-31, by: month}}"
    dates: DatesPart
    format: Text | None = None
    zone: Text | None = None

    def encoding(self, files: NamedFiles) -> Encoding:
        """The values meant."""
        return dates(self.dates.first, self.dates.to, self.dates.by)


OTHER = "other"  # what stands for all keys that were not found
KEY_SHARE = 0.2  # of the budget, to find keys


class DiscoverPart(Part):
    """How keys are found: from how many people on, for which share of the budget, and with which delta of their own.

    Of each person at most `max_keys` keys are counted, by default as many as rows.
    """

    called = "discover"
    example = "{at_least: 50}"
    at_least: PeopleCount | None = None
    share: Share = KEY_SHARE
    delta: Delta | None = None
    max_keys: RowsPerPerson | None = None


class DiscoverAttribute(AttributeBase):
    """Values that are not known: keys of many people are found first, everything else is `other`."""

    kind = "discover"
    example = "{discover: {at_least: 50}}"
    discover: DiscoverPart
    fold: bool = False

    @model_validator(mode="after")
    def check_rules(self) -> "DiscoverAttribute":
        """Refuse what makes no sense before the keys are known."""
        if "outside" in self.model_fields_set and self.outside != OTHER:
            raise LeastnoiseError(f"keys that are not found are 'other'; leave 'outside: {self.outside}' out")
        if self.repeat is not None:
            raise LeastnoiseError("keys are found for one attribute after the other; leave 'repeat' out")
        return self

    def encoding(self, files: NamedFiles) -> Encoding:
        """All that is known before keys are found."""
        return Values((OTHER,))

    def with_keys(self, files: NamedFiles, keys: Iterable[Scalar]) -> Encoding:
        """The values, when some keys were found; a key called unknown stands for what is missing, too."""
        values = Values((*(key for key in keys if key != OTHER), OTHER))
        more = isinstance(self.values_of(files), OrUnknown) and UNKNOWN not in values.items
        return or_unknown(values) if more else values

    def rules(self) -> dict[str, Any]:
        """The rules that differ from the usual ones."""
        return super().rules() | {"outside": OTHER}


AttributePart = (
    RangeAttribute
    | BinsAttribute
    | AmountAttribute
    | ValuesAttribute
    | LabelsAttribute
    | DatesAttribute
    | HierarchyAttribute
    | DiscoverAttribute
    | SizeAttribute
)
AnyAttribute = Annotated[
    Annotated[RangeAttribute, Tag("#range")]
    | Annotated[BinsAttribute, Tag("#bins")]
    | Annotated[AmountAttribute, Tag("#amount")]
    | Annotated[ValuesAttribute, Tag("#values")]
    | Annotated[LabelsAttribute, Tag("#labels")]
    | Annotated[DatesAttribute, Tag("#dates")]
    | Annotated[HierarchyAttribute, Tag("#hierarchy")]
    | Annotated[DiscoverAttribute, Tag("#discover")]
    | Annotated[SizeAttribute, Tag("#size")],
    key_kind("range", "bins", "amount", "values", "labels", "dates", "hierarchy", "discover", "size"),
]
