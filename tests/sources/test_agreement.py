"""Engines and memory agree on every value, with every rule, and on which rows of a person are kept."""

import datetime
import math
from collections import defaultdict
from decimal import Decimal
from hashlib import sha256
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leastnoise.domain.attributes import (
    UNKNOWN,
    Attribute,
    Bins,
    Domain,
    Labelled,
    Values,
    bins,
    hierarchy,
    or_unknown,
    sized,
)
from leastnoise.errors import LeastnoiseError
from leastnoise.sources import Database, PrivacyUnit, Rules, source_of
from leastnoise.sources.duck import DuckDB
from leastnoise.sources.side_counts import touching
from leastnoise.workload.rules import codings
from tests.covering import examples
from tests.engines import postgres, spark
from tests.sources.beside import plain_side_counts, side_counts
from tests.sources.registry import MARKS, brute_force, postgres_table

SECRET = b"a secret"
WAYS = {
    "rows": (True, 1 << 30),
    "distinct rows": (False, 1 << 30),
    "streamed": (True, 0),
    "counted over there": (False, 0),
}


class SharedDuckDB(DuckDB):
    """One connection for all examples, which counts in one of three ways."""

    def of(self, table: pa.Table, way: str) -> "SharedDuckDB":
        self.__dict__.pop("fields", None)
        self.embedded, self.most_bytes = WAYS[way]
        self._connection.register("leastnoise_data", table)
        return self

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def shared():
    engine = SharedDuckDB()
    yield engine
    DuckDB.close(engine)


# --- a plain reading of the rules, value by value ---------------------------------------------------------------------


def plain_code(attribute: Attribute, rules: Rules, value: object) -> int | str:
    """The code, 'drop' or 'error'."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        words = {"error": "error", "drop": "drop"}
        return words.get(rules.missing) or attribute.code(rules.missing)  # type: ignore[arg-type]
    values = attribute.values.base
    code = _listed(values, value) if isinstance(values, Values) else _numbered(Attribute("a", values), value)
    if code is None and rules.outside == "clamp" and not isinstance(value, str):
        low, high = values.value(0), values.value(values.size - 1)
        high = values.high if isinstance(values, Bins) else high
        code = 0 if value < low else values.size - 1 if value > high else None
    if code is None and rules.outside == "other":
        return attribute.code("other")
    return (rules.outside or "error").replace("clamp", "error") if code is None else code


def _listed(values: Values, value: object) -> int | None:
    if isinstance(value, datetime.date):
        value = value.isoformat()
    if isinstance(value, Decimal):
        value = float(value)
    expected = [value] if not isinstance(value, bool) else [value, str(value).lower()]
    listed = [[item] for item in values.items] if not isinstance(values, Labelled) else values.keys
    for one in expected:
        for k, items in enumerate(listed):
            if any(isinstance(item, str) == isinstance(one, str) and item == one for item in items):
                return k
    return None


def _numbered(attribute: Attribute, value: float | Decimal) -> int | None:
    x = float(value)
    if isinstance(attribute.values, Bins):
        edges = attribute.values.edges.tolist()
        inside = [k for k in range(attribute.size) if edges[k] <= x < edges[k + 1]]
        return inside[0] if inside else attribute.size - 1 if x == edges[-1] else None
    return next((k for k in range(attribute.size) if attribute.value(k) == x), None)


def plain_rows(
    domain: Domain, rules: dict[str, Rules], table: pa.Table, unit: PrivacyUnit | None
) -> list[tuple[int, ...]] | None:
    """Rows of codes that are counted; None for an error."""
    columns = table.to_pydict()
    ids = columns.get("person", [0] * table.num_rows)
    coded = [[plain_code(a, rules[a.name], value) for value in columns[a.name]] for a in domain]
    if any(code == "error" for column in coded for code in column):
        return None
    people = defaultdict(list)
    for person, *row in zip(ids, *coded, strict=True):
        if person is None and unit is not None and unit.missing == "error":
            return None
        if "drop" not in row and (unit is None or person is not None):
            people[person].append(tuple(row))
    if unit is None:
        return [row for rows in people.values() for row in rows]
    kept = []
    for person, rows in people.items():
        digest = lambda row, who=person: sha256(f"{unit.key}:{who}:{','.join(map(str, row))}".encode()).hexdigest()  # noqa: E731
        kept += first_in_groups(sorted(rows, key=digest), unit.groups(codings(domain, rules)))[: unit.max_rows]
    return kept


def first_in_groups(rows: list[tuple[int, ...]], groups: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The first row of each group; without groups all of them."""
    first: dict[object, tuple[int, ...]] = {}
    for place, row in enumerate(rows):
        first.setdefault(tuple(row[k] for k in groups) if groups else place, row)
    return [*first.values()]


# --- random specs -----------------------------------------------------------------------------------------------------

TEXTS = [
    "F",
    "M",
    "f",
    "",
    " F",
    "it's",
    'say "no"',
    "back\\slash",
    "é",
    "e\u0301",
    "ß",
    "😀",
    "${x}",
    "a\nb",
    "%s",
    "other",
]
NUMBERS = [0.1, 0.2, 0.30000000000000004, 1 / 3, 1, 2, -1, 0, 2.5, 7, 1e300, -0.0, 2**53, 123456789]
DAYS = [datetime.date(2024, 1, 31), datetime.date(1999, 12, 31), datetime.date(2024, 2, 29)]


@st.composite
def listed(draw, pool):
    items = draw(st.lists(st.sampled_from(pool), min_size=1, max_size=6, unique=True))
    return [*items, "other"] if "other" not in items and draw(st.booleans()) else items


@st.composite
def with_labels(draw, pool):
    """Some values of a pool under labels, some of which are values of the pool, too."""
    items = draw(st.lists(st.sampled_from(pool), min_size=1, max_size=6, unique=True))
    return {item: draw(st.sampled_from(["A", "B", "other", *pool[:2]])) for item in items}


numeric = st.one_of(
    st.builds(lambda low, n: range(low, low + n), st.integers(-3, 3), st.integers(1, 8)),
    st.builds(
        lambda low, n, w: bins(low, round(low + n * w, 3), count=n),
        st.sampled_from([0, -0.3, 0.1, 18]),
        st.integers(1, 9),
        st.sampled_from([0.1, 1, 0.7]),
    ),
    st.builds(
        lambda cuts, open_ended: bins(edges=sorted(cuts), open_ended=open_ended),
        st.lists(st.sampled_from([-2, 0, 0.1, 0.3, 1, 1 / 3, 2.5, 18, 25.5]), min_size=2, max_size=6, unique=True),
        st.booleans(),
    ),
    st.builds(sized, st.integers(1, 6), st.booleans()),
    listed(NUMBERS),
    with_labels(NUMBERS),
)


def near(spec):
    """Numbers at and right beside the places where codes change."""
    edges = (
        Attribute.of("a", spec).values.edges.tolist() if isinstance(spec, Bins) else [0.0, 1.0, 2.0, 3.0, 0.1, 1 / 3]
    )
    close = [y for x in edges for y in (x, math.nextafter(x, math.inf), math.nextafter(x, -math.inf))]
    return st.sampled_from([*close, *map(float, NUMBERS), math.inf, -math.inf, math.nan, -0.0, 0.5]) | st.floats(-5, 30)


@st.composite
def columns(draw):
    """A specification of values, and a column to read."""
    kind = draw(st.sampled_from(["integer", "float", "decimal", "boolean", "text", "date"]))
    if kind == "integer":
        type_, spec = draw(st.sampled_from([pa.int64(), pa.int8(), pa.uint64(), pa.int32()])), draw(numeric)
        values = st.integers(0, 12) if type_ == pa.uint64() else st.integers(-5, 30)
        values = values | st.sampled_from([2**53 + 1, 2**63 - 1]) if type_ in (pa.int64(), pa.uint64()) else values
    elif kind == "float":
        type_, spec = draw(st.sampled_from([pa.float64(), pa.float32()])), draw(numeric)
        values = (
            near(spec)
            if type_ == pa.float64()
            else near(spec).map(lambda x: float(np.float32(min(max(x, -1e30), 1e30))))
        )
    elif kind == "decimal":
        type_, spec = pa.decimal128(38, 3), draw(numeric)
        values = st.integers(-5000, 30_000).map(lambda k: Decimal(k) / 1000) | st.sampled_from(
            [Decimal(10**30), Decimal("0.3")]
        )
    elif kind == "boolean":
        type_, values = pa.bool_(), st.booleans()
        spec = draw(
            st.sampled_from(
                [[True, False], ["true", "false"], ["false"], [1, 0], range(2), 2, range(1, 3), bins(0, 1, count=3)]
            )
        )
    elif kind == "text":
        type_ = draw(st.sampled_from([pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]))
        spec, values = draw(listed(TEXTS) | with_labels(TEXTS)), st.sampled_from(TEXTS)
    else:
        type_, spec, values = pa.date32(), draw(listed([day.isoformat() for day in DAYS])), st.sampled_from(DAYS)
    return type_, spec, values | st.sampled_from(inside(type_, spec)) if inside(type_, spec) else values


def inside(type_, spec):
    """Values of the domain that a column of this type can hold."""
    attribute = Attribute.of("a", spec)
    results = []
    for value in map(attribute.value, range(attribute.size)):
        if type_ == pa.date32() and value in [day.isoformat() for day in DAYS]:
            results.append(datetime.date.fromisoformat(value))
        elif pa.types.is_decimal(type_) and not isinstance(value, str) and abs(value) < 1000:
            results.append(round(Decimal(value), 3))
        elif pa.types.is_integer(type_) and not isinstance(value, str) and value == int(value) and 0 <= value < 100:
            results.append(int(value))
        elif pa.types.is_floating(type_) and not isinstance(value, str):
            results.append(
                float(np.float32(value)) if type_ == pa.float32() and abs(value) < 1e30 else min(float(value), 1e30)
            )
        elif isinstance(value, str) and (pa.types.is_dictionary(type_) or type_ in (pa.string(), pa.large_string())):
            results.append(value)
    return results


@st.composite
def rules_for(draw, attribute):
    values = attribute.values.base
    clampable = not isinstance(values, Values) and attribute.ordered
    has_other = isinstance(values, Values) and "other" in values.items
    outside = draw(st.sampled_from(["drop"] * 4 + ["error"] + ["clamp"] * 4 * clampable + ["other"] * 4 * has_other))
    value = attribute.value(draw(st.integers(0, attribute.known - 1)))
    if attribute.known < attribute.size:
        value = UNKNOWN
    return Rules(outside=outside, missing=draw(st.sampled_from(["drop", "drop", value, value, "error"])))


@st.composite
def problems(draw):
    result = draw(st.lists(columns(), min_size=1, max_size=3))
    size = draw(st.sampled_from([10, 25, 5, 1, 0]))
    unknown = draw(st.booleans())
    domain = Domain.of({f"a{k}": or_unknown(spec) if unknown else spec for k, (_, spec, _) in enumerate(result)})
    nothing = draw(st.booleans())
    data = {}
    for k, (type_, _, values) in enumerate(result):
        values = values | st.none() if nothing else values
        data[f"a{k}"] = pa.array(draw(st.lists(values, min_size=size, max_size=size)), type_)
    unit = None
    if draw(st.booleans()):
        ids = draw(st.sampled_from([st.integers(0, 4), st.sampled_from(["ann", "bob", "it's", "%", "x:1"])]))
        ids = ids | st.none() if draw(st.booleans()) else ids
        data["person"] = pa.array(draw(st.lists(ids, min_size=size, max_size=size)))
        most = draw(st.integers(1, 3))
        groups = draw(st.lists(st.sampled_from(domain.names), max_size=2, unique=True)) if most > 1 else []
        unit = PrivacyUnit("person", most, draw(st.sampled_from(["drop", "error"])), SECRET, groups)
    rules = {a.name: draw(rules_for(a)) for a in domain}
    return domain, rules, pa.table(data), unit, draw(st.sampled_from([*WAYS]))


def answers(source, sets):
    return [table.tolist() for table in source.count(sets)]


def outcome(make, sets):
    """Tables or the message."""
    try:
        return answers(make(), sets)
    except LeastnoiseError as error:
        return str(error)


def all_sets(domain):
    return [axes for size in range(len(domain) + 1) for axes in combinations(range(len(domain)), size)]


def check(shared, domain, rules, table, unit, way):
    sets = all_sets(domain)
    memory = outcome(lambda: source_of(table, domain, rules=rules, unit=unit), sets)
    engine = outcome(lambda: Database(domain, shared.of(table, way), None, rules, unit), sets)
    assert engine == memory
    if isinstance(memory, list):
        rows = plain_rows(domain, rules, table, unit)
        assert rows is not None
        assert memory == [brute_force(domain, rows, axes).tolist() for axes in sets]
        if touching(codings(domain, rules)) or unit is not None:
            plain = plain_side_counts(domain, rules, table, unit, sets)
            assert side_counts(source_of(table, domain, rules=rules, unit=unit), unit, sets) == plain
            assert side_counts(Database(domain, shared.of(table, way), None, rules, unit), unit, sets) == plain
    elif "holds missing" in memory or "holds values" in memory or "lacks some ids" in memory:
        assert plain_rows(domain, rules, table, unit) is None


@pytest.mark.long
@settings(max_examples=examples(150))
@given(problem=problems())
def test_engines_code_alike(shared, problem):
    """And agree on what each rule touches and on distinct people."""
    check(shared, *problem)


@pytest.mark.slow
@settings(max_examples=examples(1000))
@given(problem=problems())
def test_engines_code_alike_on_many_specs(shared, problem):
    check(shared, *problem)


# --- one table of all kinds, in every engine --------------------------------------------------------------------------

MIXED = Domain.of(
    age=range(18, 30),
    income=bins(0, 1, width=0.1),
    score=bins(-0.3, 0.6, count=9),
    share=[0.1, 0.25, 1, "other"],
    sex=["F", "M", "it's", "${x}", "back\\slash", "é", "other"],
    day=[day.isoformat() for day in DAYS],
    flag=["true", "false"],
    code=sized(5, ordered=True),
    group=bins(edges=[0, 18, 25.5, 65], open_ended=True),
    region={"N1": "north", "S1": "south", "N2": "north", "other": "other"},
    grade={1: "low", 2: "low", 3: "high"},
    weight=or_unknown(bins(0, 10, count=4)),
    floor=or_unknown(range(-1, 3)),
    place=or_unknown(hierarchy({"north": ["a", "b"], "south": ["c"]})),
)
MIXED_RULES = {
    "age": Rules(outside="clamp", missing=18),
    "income": Rules(outside="clamp", missing="drop"),
    "score": Rules(outside="drop", missing=0),
    "share": Rules(outside="other", missing="other"),
    "sex": Rules(column='SEX $ "x`', outside="other", missing="other"),
    "day": Rules(outside="drop", missing="2024-01-31"),
    "flag": Rules(missing="false"),
    "code": Rules(outside="clamp", missing=4),
    "group": Rules(outside="clamp", missing="drop"),
    "region": Rules(outside="other", missing="south"),
    "grade": Rules(outside="drop", missing="low"),
    "weight": Rules(outside="clamp", missing="unknown"),
    "floor": Rules(outside="clamp", missing="unknown"),
    "place": Rules(missing="unknown"),
}


def mixed(rng: np.random.Generator, size: int = 400) -> pa.Table:
    def pick(values, type_, nothing=0.05):
        results = [values[k] for k in rng.integers(0, len(values), size)]
        return pa.array(
            [None if gone else value for value, gone in zip(results, rng.random(size) < nothing, strict=True)], type_
        )

    edges = [y for x in MIXED["income"].values.edges for y in (x, math.nextafter(x, 9), math.nextafter(x, -9))]
    return pa.table(
        {
            "age": pick([*range(15, 33)], pa.int32()),
            "income": pick([*edges, math.nan, math.inf, -math.inf, -0.0], pa.float64()),
            "score": pick([Decimal(k) / 10 for k in range(-4, 8)], pa.decimal128(12, 2)),
            "share": pick([0.1, 0.25, 1.0, 7.0, math.nan], pa.float32()),
            'SEX $ "x`': pick(TEXTS, pa.string()),
            "day": pick([*DAYS, datetime.date(2020, 1, 1)], pa.date32()),
            "flag": pick([True, False], pa.bool_()),
            "code": pick([*range(-2, 8)], pa.int16()),
            "group": pick([-1.0, 0.0, 17.9, 18.0, 25.5, 65.0, 66.0, math.nan], pa.float64(), 0.02),
            "region": pick(["N1", "N2", "S1", "north", "n1", ""], pa.string()),
            "grade": pick([1, 2, 3, 4], pa.int16(), 0.02),
            "weight": pick([-1.0, 0.0, 2.5, 10.0, 11.0, math.nan], pa.float64()),
            "floor": pick([*range(-3, 5)], pa.int32(), 0.2),
            "place": pick(["a", "b", "c"], pa.string(), 0.2),
            "person": pick([*range(60)], pa.int64()),
        }
    )


UNITS = [
    None,
    PrivacyUnit("person", 2, "drop", SECRET),
    PrivacyUnit("person", 3, "drop", SECRET, [MIXED.names[0]]),
    PrivacyUnit("person", 4, "drop", SECRET, [MIXED.names[1], MIXED.names[6]]),
]
SETS = [(), (0,), (1,), (3, 4), (4, 3), (5, 6, 7), (1, 2), (4,), (0, 7, 2), (8,), (9, 10), (10, 8), (11, 12), (13, 12)]


def check_mixed(make, table, ways):
    for unit in UNITS:
        expected = answers(source_of(table, MIXED, rules=MIXED_RULES, unit=unit), SETS)
        renamed = table.rename_columns([MIXED.names[4] if "$" in n else n for n in table.column_names])
        rows = plain_rows(MIXED, MIXED_RULES, renamed, unit)
        beside = side_counts(source_of(table, MIXED, rules=MIXED_RULES, unit=unit), unit, SETS)
        assert beside == plain_side_counts(MIXED, MIXED_RULES, renamed, unit, SETS)
        assert expected == [brute_force(MIXED, rows, axes).tolist() for axes in SETS]
        assert expected[0] > 50
        for way in ways:
            source = make(unit)
            source._engine.embedded, source._engine.most_bytes = WAYS[way]
            assert side_counts(source, unit, SETS) == beside
            assert answers(source, SETS) == expected
            source.close()


@pytest.mark.long
def test_duckdb_agrees_on_all_kinds(rng, tmp_path):
    table = mixed(rng)
    pa.parquet.write_table(table, tmp_path / "mixed.parquet")
    check_mixed(lambda unit: source_of(tmp_path / "mixed.parquet", MIXED, rules=MIXED_RULES, unit=unit), table, WAYS)


@pytest.mark.postgres
@MARKS["PostgreSQL"][1]
def test_postgresql_agrees_on_all_kinds(rng):
    table = mixed(rng)
    uri = postgres.server().uri(postgres_table(table))
    check_mixed(lambda unit: source_of(uri, MIXED, rules=MIXED_RULES, unit=unit), table, WAYS)


@pytest.mark.spark
@MARKS["Spark"][1]
@MARKS["Spark"][2]
def test_spark_agrees_on_all_kinds(rng):
    table = mixed(rng)
    frame = spark.session().createDataFrame(table)
    check_mixed(lambda unit: source_of(frame, MIXED, rules=MIXED_RULES, unit=unit), table, ["counted over there"])


# --- people -----------------------------------------------------------------------------------------------------------


@pytest.mark.long
@given(problem=problems(), seed=st.integers(0, 100))
@settings(max_examples=examples(30))
def test_the_order_of_rows_changes_nothing(problem, seed):
    domain, rules, table, unit, _ = problem
    order = np.random.default_rng(seed).permutation(table.num_rows)
    first, second = (
        outcome(lambda t=t: source_of(t, domain, rules=rules, unit=unit), all_sets(domain))
        for t in (table, table.take(order))
    )
    assert first == second


def test_nobody_has_more_rows(rng):
    """One person alone: what is left of them, whatever the secret."""
    for secret in (b"1", b"2", None):
        for rows in range(6):
            table = pa.table({"a": rng.integers(0, 3, rows), "person": ["x"] * rows})
            source = source_of(table, Domain.of(a=3), unit=PrivacyUnit("person", 2, secret=secret))
            assert next(source.count([()])) == min(rows, 2)
            assert source.rows_per_person == 2


def test_secrets_decide_which_rows_are_kept():
    table = pa.table({"a": list(range(40)), "person": [k // 20 for k in range(40)]})
    members = {
        str(answers(source_of(table, Domain.of(a=40), unit=PrivacyUnit("person", 5, secret=s)), [(0,)]))
        for s in (b"1", b"2")
    }
    assert len(members) == 2  # equal with probability 1 / C(20, 5)^2, below 1e-8, and the secrets are fixed


def test_people_differ_in_what_is_kept():
    """The same rows for everybody: a digest without the id would keep the same values of all, and lose the rest."""
    table = pa.table({"a": [*range(10)] * 200, "person": [k // 10 for k in range(2000)]})
    (counts,) = answers(source_of(table, Domain.of(a=10), unit=PrivacyUnit("person", 1, secret=SECRET)), [(0,)])
    assert sum(counts) == 200
    assert min(counts) > 3  # 20 expected of each; the secret is fixed
