"""The shape of a spec file: one model per part, and the JSON schema made from them."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Discriminator, Field, Tag

from leastnoise.errors import LeastnoiseError
from leastnoise.workload.attribute_parts import AnyAttribute
from leastnoise.workload.families import FAMILIES
from leastnoise.workload.fields import (
    USUAL_SHARE,
    AboveZero,
    Delta,
    Names,
    NonEmpty,
    Norm,
    Number,
    RowsPerPerson,
    Seed,
    Share,
    ShareOrTrue,
    Spent,
    Text,
    Value,
    Ways,
    Whole,
    schema,
    word,
)
from leastnoise.workload.hierarchy import Nodes
from leastnoise.workload.parts import Part, key_kind
from leastnoise.workload.publication import Publication, QuestionPart, Questions
from leastnoise.workload.sums import MOMENTS, Sum
from leastnoise.workload.tensors import TENSORS

ONE_NAMES = (*FAMILIES, Nodes.name, Sum.name)
NAMES = (*ONE_NAMES, "hybrid", "extended", *TENSORS, MOMENTS)
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
    "edges": "[0, 18, 65, 120]",
    "labels": "codes.csv",
    "dates": "{from: 2015-01-01, to: 2025-12-31, by: month}",
    "missing_values": "['', NA, -99]",
    "trim": "trim: true",
    "fold": "fold: true",
    "digits": "[2, 3, 5]",
    "levels": "[state, county]",
    "ordered": "ordered: true",
    "size": "{size: 10} or {range: [0, 99]}",
    "amount": "{low: 0, high: 200000, unit: 1}",
    "of": "of: income, or of: [district, area]",
    "low": "{low: 0, high: 200000, unit: 1}",
    "high": "{low: 0, high: 200000, unit: 1}",
    "count": "{count: 30, density: 0.3}",
    "epsilon": "{epsilon: 1, delta: 1e-9}",
    "delta": "{epsilon: 1, delta: 1e-9}",
    "lr": "{lr: 4}",
    "column": "column: AGE",
    "unit": "unit: {id: person, max_rows: 3}",
    "id": "{id: person, max_rows: 3}",
    "max_rows": "{id: person, max_rows: 3}",
    "one_per": "{id: person, max_rows: 10, one_per: [page]}",
    "secret": "secret: env:NAME or secret: file:PATH",
    "adaptive": "adaptive: {select: aim}",
    "bias": "bias: 0.01",
    "tree": "tree: {targets: [10, 20, 50]}",
    "targets": "[10, 20, 50] or, with several trees, {geo: [10, 20, 50]}",
    "names": "[all, sales]",
    "publication": f"publication: {Publication.example}",
    "questions": f"questions: [mean(age), {QuestionPart.example}]",
    "ask": QuestionPart.example,
    "quality": "quality: 0.02",
    "people": "people: {share: 0.02, by: [sex]}",
    "share": "{share: 0.02}",
    "by": "[sex, [region, sex]]",
    "impossible": "impossible: [\"age < 15 and marital = 'married'\"]",
    "cells": "{cells: [\"age < 15 and marital = 'married'\"], rows: drop}",
    "allowed": "allowed: {of: [district, area], file: pairs.csv}",
    "determines": "determines: {zip: district}",
    "bounds": "bounds: [{where: \"prison = 'A'\", at_most: 120}]",
    "where": "{where: \"prison = 'A'\", at_most: 120}",
    "at_least": "{where: \"prison = 'A'\", at_least: 1}",
    "at_most": "{where: \"prison = 'A'\", at_most: 120}",
}
FORMS = {"random": "{random: {count: 30}}", "matrix": "{matrix: rows.npy}", "phi": "{phi: [1, 0.5, 0]}"}


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
    of: Names | None = None  # amounts that are summed
    by: Names | None = None  # for each value of these
    ways: Ways | None = None
    weight: AboveZero = 1.0
    weights: Weights | None = None
    within: AboveZero | None = None
    confidence: Number | None = None


NeighbourNames = Literal["add-remove", "replace"]
Neighbours = Annotated[NeighbourNames, word(*get_args(NeighbourNames))]
SizeNames = Literal["known", "private"]
Size = Annotated[SizeNames, word(*get_args(SizeNames))]


class Hiding(Part):
    """What one change of the data is."""

    called = "privacy"
    neighbours: Neighbours = "add-remove"
    rows_per_person: RowsPerPerson | None = None
    size: Size | None = None
    one_per: Names | None = None
    min_separation: RowsPerPerson | None = None


class EpsilonPrivacy(Hiding):
    """Approximate differential privacy."""

    called = "privacy"
    kind = "epsilon"
    example = "{epsilon: 1, delta: 1e-9}"
    epsilon: Spent
    delta: Delta | None = None  # only devices and bounds do without


class MuPrivacy(Hiding):
    """Gaussian differential privacy."""

    called = "privacy"
    kind = "mu"
    example = "{mu: 1}"
    mu: Spent


class RhoPrivacy(Hiding):
    """Zero-concentrated differential privacy."""

    called = "privacy"
    kind = "rho"
    example = "{rho: 0.5}"
    rho: Spent


Privacy = Annotated[
    Annotated[MuPrivacy, Tag("#mu")] | Annotated[RhoPrivacy, Tag("#rho")] | Annotated[EpsilonPrivacy, Tag("#epsilon")],
    key_kind("mu", "rho", "epsilon"),
]


UnitMissingName = Literal["error", "drop"]
UnitMissing = Annotated[UnitMissingName, word(*get_args(UnitMissingName))]


class UnitPart(Part):
    """People with several rows: the column that distinguishes them, and the most rows that are counted of each; with
    `one_per`, at most one for each combination of values of some attributes.
    """

    called = "unit"
    example = "{id: person, max_rows: 3}"
    id: NonEmpty
    max_rows: RowsPerPerson
    one_per: Names | None = None
    missing: UnitMissing = "error"
    secret: NonEmpty | None = None


class FilePart(Part):
    """How a file of rows is written, where its name and its line of names do not tell."""

    called = "file"
    example = '{delimiter: ";", encoding: windows-1252, decimal: ","}'
    delimiter: Text | None = None
    encoding: Text | None = None
    decimal: Text = "."
    thousands: Text | None = None
    sheet: NonEmpty | None = None
    skip: Annotated[int, Field(ge=0, le=1000)] = 0
    names: Annotated[list[NonEmpty], Field(min_length=1)] | None = None


class LrObjective(Part):
    """A norm between the sum and the largest standard error."""

    called = "objective"
    example = "sum, max or {lr: 4}"
    lr: Norm


PriorName = Literal["search", "product", "uniform"]
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
    """How an adaptive release finds what to measure, and with `aim` how many rounds are meant at first.

    With `for_fit` it is chosen for tables that are read from `best_estimate()`.
    """

    called = "adaptive"
    example = "{select: aim, rounds: 40}"
    select: Select = "survey"
    rounds: Count | None = None
    for_fit: bool = False


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


class QualityPart(Part):
    """What each rule touched is measured, for a share of the budget."""

    called = "quality"
    example = "{share: 0.02}"
    share: Share


class PeoplePart(Part):
    """Distinct people are counted: in all, and by some attributes, for a share of the budget."""

    called = "people"
    example = "{share: 0.02, by: [sex, [region, sex]]}"
    share: Share = USUAL_SHARE
    by: list[Names] = Field(default_factory=list)


def _share_or(part: type[Part], scalar: Any) -> Any:
    """A share alone, or a part with more."""
    return Annotated[
        Annotated[scalar, Tag("#share")] | Annotated[part, Tag("#part")],
        Discriminator(lambda data: "#part" if isinstance(data, Mapping | Part) else "#share"),
    ]


ImpossibleRuleName = Literal["drop", "error", "keep"]


class ImpossiblePart(Part):
    """Cells that cannot occur, as conditions, and what becomes of rows in them."""

    called = "impossible"
    example = EXAMPLES["cells"]
    cells: list[Text] = Field(default_factory=list)
    rows: Annotated[ImpossibleRuleName, word(*get_args(ImpossibleRuleName))] = "drop"


class AllowedPart(Part):
    """The only combinations of some attributes that exist: inline, or the columns of a CSV file beside the spec."""

    called = "allowed"
    example = EXAMPLES["allowed"]
    of: Annotated[list[NonEmpty], Field(min_length=1)]
    file: NonEmpty | None = None
    rows: Annotated[list[list[Value]], Field(min_length=1)] | None = None


class BoundPart(Part):
    """A bound on a count that is public."""

    called = "a bound"
    example = EXAMPLES["where"]
    where: Text
    at_least: Whole | None = None
    at_most: Whole | None = None


def _list_or(part: type[Part], items: Any) -> Any:
    """A list, or a part with more."""
    return Annotated[
        Annotated[items, Tag("#list")] | Annotated[part, Tag("#part")],
        Discriminator(lambda data: "#part" if isinstance(data, Mapping | Part) else "#list"),
    ]


class SpecPart(Part):
    """What a leastnoise spec file says: the attributes, the statistics that matter, and the privacy to spend."""

    called = "the spec"
    attributes: Annotated[dict[str, AnyAttribute], Field(min_length=1)]
    workload: Annotated[list[Line], Field(min_length=1)] | None = None  # None: all nodes of trees
    unit: UnitPart | None = None
    file: FilePart | None = None
    privacy: Privacy | None = None  # None: the least that meets every `within`
    objective: Objective = "sum"
    baseline: Baseline = "search"
    solver: Text = "optimal"
    method: Method = "plan"
    bias: AboveZero | None = None  # of the answers to a matrix, as a share of the rows
    adaptive: AdaptivePart | None = None
    tree: TreePart | None = None
    rows_about: Count | None = None
    publication: Publication | None = None
    questions: Questions | None = None
    quality: _share_or(QualityPart, Share) | None = None  # type: ignore[valid-type]
    people: _share_or(PeoplePart, ShareOrTrue) | None = None  # type: ignore[valid-type]
    impossible: _list_or(ImpossiblePart, list[Text]) | None = None  # type: ignore[valid-type]
    allowed: _list_or(AllowedPart, list[AllowedPart]) | None = None  # type: ignore[valid-type]
    bounds: list[BoundPart] | None = None
    determines: Annotated[dict[str, NonEmpty | list[NonEmpty]], Field(min_length=1)] | None = None


def json_schema() -> dict[str, Any]:
    """The JSON schema of a spec file, for editors and other programs."""
    fields = SpecPart.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **fields, "title": "leastnoise spec"}
