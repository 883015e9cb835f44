"""The shape of a spec file: one model per part, and the JSON schema made from them."""

import difflib
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from leastnoise.domain.encoding import Encoding, Integers, Values, bins, sized
from leastnoise.domain.hierarchies import hierarchy
from leastnoise.errors import LeastnoiseError
from leastnoise.workload.families import FAMILIES
from leastnoise.workload.fields import (
    AboveZero,
    Delta,
    Missing,
    Names,
    NonEmpty,
    Norm,
    Number,
    Repeat,
    RowsPerPerson,
    Seed,
    Spent,
    Text,
    TreeForm,
    UnknownKeyError,
    Value,
    Ways,
    Whole,
    hint,
    schema,
    shown,
    word,
)
from leastnoise.workload.hierarchy import Nodes
from leastnoise.workload.named_files import NamedFiles
from leastnoise.workload.tensors import TENSORS

ONE_NAMES = (*FAMILIES, Nodes.name)
NAMES = (*ONE_NAMES, "hybrid", "extended", *TENSORS)
EXAMPLES = {
    "attributes": "age: {range: [0, 99]}",
    "workload": "- {queries: marginal, ways: 2}",
    "privacy": "privacy: {epsilon: 1, delta: 1e-9}",
    "range": "[0, 99]",
    "values": "[F, M]",
    "on": "[age, sex]",
    "ways": "2 or [1, 2]",
    "queries": "marginal or {age: prefix, sex: marginal}",
    "matrix": "[[1, 0], [1, 1]]",
    "phi": "[1, 0.5, 0]",
    "weights": "[1, 2] or, with nodes, {state: 10}",
    "hierarchy": "places.csv or {north: [a, b], south: [c]}",
    "digits": "[2, 3, 5]",
    "levels": "[state, county]",
    "ordered": "ordered: true",
    "size": "{size: 10} or {range: [0, 99]}",
    "low": "{low: 0, high: 200000, width: 4000}",
    "high": "{low: 0, high: 200000, width: 4000}",
    "count": "{count: 30, density: 0.3}",
    "epsilon": "{epsilon: 1, delta: 1e-9}",
    "delta": "{epsilon: 1, delta: 1e-9}",
    "lr": "{lr: 4}",
    "column": "column: AGE",
    "unit": "unit: {id: person, max_rows: 3}",
    "id": "{id: person, max_rows: 3}",
    "max_rows": "{id: person, max_rows: 3}",
    "secret": "secret: env:NAME or secret: file:PATH",
    "adaptive": "adaptive: {select: aim}",
    "bias": "bias: 0.01",
    "tree": "tree: {targets: [10, 20, 50]}",
    "targets": "[10, 20, 50] or, with several trees, {geo: [10, 20, 50]}",
    "names": "[all, sales]",
}
FORMS = {"random": "{random: {count: 30}}", "matrix": "{matrix: rows.npy}", "phi": "{phi: [1, 0.5, 0]}"}


class Part(BaseModel):
    """A mapping of the spec; unknown keys are reported with a hint."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    called: ClassVar[str] = ""
    kind: ClassVar[str] = ""  # the key that tells this part from its siblings
    example: ClassVar[str] = ""

    @model_validator(mode="before")
    @classmethod
    def check_keys(cls, data: object) -> object:
        """Refuse what is no mapping, and unknown keys."""
        if not isinstance(data, Mapping):
            raise LeastnoiseError(f"{cls.called} is {shown(data)}; write for example {cls.example}")
        where = f"{cls.called} with {cls.kind!r}" if cls.kind in data else cls.called
        for key in data:
            if key not in cls.model_fields:
                raise UnknownKeyError(key, f"unknown key {shown(key)} in {where}; {hint(key, cls.model_fields)}")
        return data


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


def _key_kind(*keys: str) -> Discriminator:
    """Tell models apart by the key they need; a misspelt key counts, so that the model can give its hint."""

    def kind(data: object) -> str:
        if isinstance(data, Mapping):
            close = [m for key in data for m in difflib.get_close_matches(str(key), keys, n=1)]
            for key in (*(k for k in keys if k in data), *close):
                return f"#{key}"
        return f"#{keys[-1]}"

    return Discriminator(kind)


AttributePart = RangeAttribute | BinsAttribute | ValuesAttribute | HierarchyAttribute | SizeAttribute
_TaggedAttribute = Annotated[
    Annotated[RangeAttribute, Tag("#range")]
    | Annotated[BinsAttribute, Tag("#bins")]
    | Annotated[ValuesAttribute, Tag("#values")]
    | Annotated[HierarchyAttribute, Tag("#hierarchy")]
    | Annotated[SizeAttribute, Tag("#size")],
    _key_kind("range", "bins", "values", "hierarchy", "size"),
]


class RandomOptions(Part):
    """How many random rows, how dense, from which seed."""

    called = "random"
    example = "{count: 30, density: 0.3, seed: 1}"
    count: Whole
    density: Number = 0.3
    seed: Seed = 0


class RandomQueries(Part):
    """Random rows of zeros and ones."""

    called = "queries"
    example = FORMS["random"]
    random: RandomOptions


Rows = list[list[Number]]
RowsOrFile = Annotated[
    Annotated[Rows, Tag("#rows")] | Annotated[Text, Tag("#file")],
    Discriminator(lambda data: "#file" if isinstance(data, str) else "#rows"),
]


class MatrixQueries(Part):
    """Rows of your own, one entry per cell; inline, or a .npy or .csv file beside the spec."""

    called = "queries"
    example = FORMS["matrix"]
    matrix: RowsOrFile
    names: Names | None = None  # of the rows; a file may bring its own


class PhiQueries(Part):
    """Every shift of one row, around the circle."""

    called = "queries"
    example = FORMS["phi"]
    phi: list[Number]


def _queries_kind(others: str) -> Discriminator:
    def kind(data: object) -> str:
        if not isinstance(data, Mapping):
            return "#name"
        if set(data) == {"matrix", "names"}:
            return "#matrix"
        only = next(iter(data)) if len(data) == 1 else None
        return f"#{only}" if only in FORMS else others

    return Discriminator(kind)


def _bare_form(value: object) -> object:
    if isinstance(value, str) and value in FORMS:
        raise LeastnoiseError(f"queries {str(value)!r} need their numbers; write for example {FORMS[value]}")
    return value


# Validators run from the last to the first.
Name = Annotated[str, word(*NAMES, more=FORMS), BeforeValidator(_bare_form), schema(type="string", enum=list(NAMES))]
OneName = Annotated[
    str, word(*ONE_NAMES, more=FORMS), BeforeValidator(_bare_form), schema(type="string", enum=list(ONE_NAMES))
]
_Forms = (
    Annotated[RandomQueries, Tag("#random")]
    | Annotated[MatrixQueries, Tag("#matrix")]
    | Annotated[PhiQueries, Tag("#phi")]
)
OneQueries = Annotated[Annotated[OneName, Tag("#name")] | _Forms, _queries_kind("#name")]
Queries = Annotated[
    Annotated[Name, Tag("#name")] | _Forms | Annotated[dict[str, OneQueries], Tag("#each"), Field(min_length=1)],
    _queries_kind("#each"),
]


AnyQueries = str | RandomQueries | MatrixQueries | PhiQueries


# one per query, or by the names of levels and nodes
Weights = Annotated[
    Annotated[list[Number], Tag("#list")] | Annotated[dict[str, Number], Tag("#names"), Field(min_length=1)],
    Discriminator(lambda data: "#names" if isinstance(data, Mapping) else "#list"),
]


class Line(Part):
    """One line of the workload: queries on exactly the attributes `on`, or on every subset of `ways` of them."""

    called = "a workload line"
    example = "{queries: marginal, ways: 2}"
    queries: Queries
    on: Names | None = None
    ways: Ways | None = None
    weight: AboveZero = 1.0
    weights: Weights | None = None
    within: AboveZero | None = None
    confidence: Number | None = None


class EpsilonPrivacy(Part):
    """Approximate differential privacy."""

    called = "privacy"
    kind = "epsilon"
    example = "{epsilon: 1, delta: 1e-9}"
    epsilon: Spent
    delta: Delta | None = None  # only devices and bounds do without
    neighbours: "Neighbours" = "add-remove"
    rows_per_person: RowsPerPerson | None = None
    size: "Size | None" = None


class MuPrivacy(Part):
    """Gaussian differential privacy."""

    called = "privacy"
    kind = "mu"
    example = "{mu: 1}"
    mu: Spent
    neighbours: "Neighbours" = "add-remove"
    rows_per_person: RowsPerPerson | None = None
    size: "Size | None" = None


class RhoPrivacy(Part):
    """Zero-concentrated differential privacy."""

    called = "privacy"
    kind = "rho"
    example = "{rho: 0.5}"
    rho: Spent
    neighbours: "Neighbours" = "add-remove"
    rows_per_person: RowsPerPerson | None = None
    size: "Size | None" = None


NeighbourNames = Literal["add-remove", "replace"]
Neighbours = Annotated[NeighbourNames, word(*get_args(NeighbourNames))]
SizeNames = Literal["known", "private"]
Size = Annotated[SizeNames, word(*get_args(SizeNames))]
Privacy = Annotated[
    Annotated[MuPrivacy, Tag("#mu")] | Annotated[RhoPrivacy, Tag("#rho")] | Annotated[EpsilonPrivacy, Tag("#epsilon")],
    _key_kind("mu", "rho", "epsilon"),
]


UnitMissingName = Literal["error", "drop"]
UnitMissing = Annotated[UnitMissingName, word(*get_args(UnitMissingName))]


class UnitPart(Part):
    """People with several rows: the column that distinguishes them, and the most rows that are counted of each."""

    called = "unit"
    example = "{id: person, max_rows: 3}"
    id: NonEmpty
    max_rows: RowsPerPerson
    missing: UnitMissing = "error"
    secret: NonEmpty | None = None


class LrObjective(Part):
    """A norm between the sum and the largest standard error."""

    called = "objective"
    example = "sum, max or {lr: 4}"
    lr: Norm


PriorName = Literal["search", "uniform"]
ObjectiveName = Literal["sum", "max"]
Baseline = Annotated[PriorName, word(*get_args(PriorName))]
Objective = Annotated[
    Annotated[ObjectiveName, word(*get_args(ObjectiveName), more=["{lr: 4}"]), Tag("#name")]
    | Annotated[LrObjective, Tag("#lr")],
    Discriminator(lambda data: "#name" if isinstance(data, str) else "#lr"),
]


MethodName = Literal["plan", "adaptive", "auto", "matrix", "tree", "stream"]
SelectName = Literal["survey", "aim"]
Method = Annotated[MethodName, word(*get_args(MethodName))]
Select = Annotated[SelectName, word(*get_args(SelectName))]
Count = RowsPerPerson  # a whole number from 1 to a billion


class AdaptivePart(Part):
    """How an adaptive release finds what to measure, and with `aim` how many rounds are meant at first."""

    called = "adaptive"
    example = "{select: aim, rounds: 40}"
    select: Select = "survey"
    rounds: Count | None = None


PerLevel = Annotated[list[AboveZero], Field(min_length=1)]
TargetName = Literal["std_error", "variance", "within"]


class TreePart(Part):
    """The accuracy of a tree: targets or weights per level from the root down, by attribute where there are several.

    Targets of a single tree may have the names of levels and nodes; `queries` gives some to questions about its leaves.
    Exact counts are published without noise, and are not protected.
    """

    called = "tree"
    example = "{targets: [10, 20, 50]}"
    targets: AboveZero | PerLevel | dict[str, AboveZero | PerLevel] | None = None
    queries: Annotated[dict[str, AboveZero], Field(min_length=1)] | None = None
    target_kind: Annotated[TargetName, word(*get_args(TargetName))] = "std_error"
    confidence: Number = 0.95
    weights: list[Number] | dict[str, list[Number]] | None = None
    exact_level: Whole | None = None
    exact_nodes: Names | None = None


class SpecPart(Part):
    """What a leastnoise spec file says: the attributes, the statistics that matter, and the privacy to spend."""

    called = "the spec"
    attributes: Annotated[dict[str, _TaggedAttribute], Field(min_length=1)]
    workload: Annotated[list[Line], Field(min_length=1)] | None = None  # None: all nodes of trees
    unit: UnitPart | None = None
    privacy: Privacy | None = None  # None: the least that meets every `within`
    objective: Objective = "sum"
    baseline: Baseline = "search"
    solver: Text = "optimal"
    method: Method = "plan"
    bias: AboveZero | None = None  # of the answers to a matrix, as a share of the rows
    adaptive: AdaptivePart | None = None
    tree: TreePart | None = None
    rows_about: Count | None = None


def json_schema() -> dict[str, Any]:
    """The JSON schema of a spec file, for editors and other programs."""
    fields = SpecPart.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **fields, "title": "leastnoise spec"}
