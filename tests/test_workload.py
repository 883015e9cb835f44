"""Workloads against predicates spelled out cell by cell; mistakes in one line; plain data and back."""

import json
from collections.abc import Callable
from itertools import combinations, product
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import leastnoise as ln
from leastnoise._types import Array
from leastnoise.errors import LeastnoiseError
from leastnoise.planning.factorization import workload_matrix
from leastnoise.workload import Workload
from leastnoise.workload.store import workload_from_json, workload_to_json
from tests.catalogue import WORKLOADS, generator, ordered
from tests.oracles import cells, row_weights

DOMAIN = ln.Domain.of(a=range(3), b=range(4), c=["x", "y"], d=range(3))
WORK = Workload(DOMAIN)

Predicate = Callable[[int], bool]


def predicates(family: str, n: int) -> list[Predicate]:
    """The queries of a family on one attribute, as conditions on its code."""
    match family:
        case "total":
            return [lambda x: True]
        case "marginal":
            return [lambda x, c=c: x == c for c in range(n)]
        case "prefix":
            return [lambda x, c=c: x <= c for c in range(n)]
        case "suffix":
            return [lambda x, c=c: x >= c for c in range(n)]
        case "threshold":
            return predicates("prefix", n) + predicates("suffix", n)
        case "range":
            return [lambda x, a=a, b=b: a <= x <= b for a in range(n) for b in range(a, n)]
        case "circular":
            return [lambda x, s=s, k=k: (x - s) % n < k for s in range(n) for k in range(1, n + 1)]
    raise AssertionError(family)


def explicit(shape: tuple[int, ...], families: dict[int, str]) -> Array:
    """Every product of one predicate per attribute, over all cells of the domain."""
    lists = [predicates(f, shape[i]) for i, f in families.items()]
    return np.array(
        [
            [float(all(p(cell[i]) for p, i in zip(chosen, families, strict=True))) for cell in cells(shape)]
            for chosen in product(*lists)
        ]
    )


@pytest.mark.parametrize("family", ["marginal", "prefix", "suffix", "threshold", "range", "circular"])
@pytest.mark.parametrize("ways", [0, 1, 2, 3])
def test_every_subset_of_a_size(family, ways):
    shape = (2, 3, 2)
    work = Workload(ordered(*shape)).add(family, ways=ways)
    expected = np.concatenate([explicit(shape, dict.fromkeys(s, family)) for s in combinations(range(3), ways)])
    assert_allclose(workload_matrix(work), expected)
    assert work.queries == len(expected)


def test_named_attributes_and_mixed_products():
    shape = (3, 4, 2, 3)
    cases = [
        (WORK.prefix("b"), {1: "prefix"}),
        (WORK.prefix("d", "a"), {0: "prefix", 3: "prefix"}),
        (WORK.ranges("b", by="c"), {1: "range", 2: "marginal"}),
        (WORK.prefix("b", by="c"), {1: "prefix", 2: "marginal"}),
        (WORK.suffix("b", "a", by="c"), {0: "suffix", 1: "suffix", 2: "marginal"}),
        (WORK.thresholds("d", by=["c", "a"]), {0: "marginal", 2: "marginal", 3: "threshold"}),
        (WORK.circular("b", by="c"), {1: "circular", 2: "marginal"}),
        (WORK.ranges("d", "a", by=["c"]), {0: "range", 2: "marginal", 3: "range"}),
        (WORK.add({"d": "suffix", "a": "circular"}), {0: "circular", 3: "suffix"}),
        (WORK.add({"a": "prefix", "b": "total"}), {0: "prefix", 1: "total"}),
        (WORK.hybrid("a", "c"), {0: "prefix", 2: "marginal"}),
        (WORK.extended("a", "c"), {0: "threshold", 2: "marginal"}),
        (WORK.marginals(on=["c", "a"]), {0: "marginal", 2: "marginal"}),
        (WORK.total(), {}),
    ]
    for work, families in cases:
        assert_allclose(workload_matrix(work), explicit(shape, families))
        assert work.queries == len(explicit(shape, families))


def test_mixed_products_on_every_subset():
    families = {0: "prefix", 1: "range", 2: "marginal"}
    work = WORK.add({"a": "prefix", "b": "range", "c": "marginal"}, ways=2)
    expected = [explicit((3, 4, 2, 3), {i: families[i] for i in s}) for s in combinations(range(3), 2)]
    assert_allclose(workload_matrix(work), np.concatenate(expected))


def test_affine_and_abs_diff_on_every_pair():
    work = Workload(ordered(2, 3, 2))
    where = cells((2, 3, 2))
    affine = [
        [float(x[i] + x[j] <= c) for x in where]
        for i, j in combinations(range(3), 2)
        for c in range(sum((2, 3, 2)[k] for k in (i, j)) - 1)
    ]
    distance = [
        [float(abs(x[i] - x[j]) <= c) for x in where]
        for i, j in combinations(range(3), 2)
        for c in range(max((2, 3, 2)[k] for k in (i, j)))
    ]
    assert workload_matrix(work.affine(ways=2)).tolist() == affine
    assert workload_matrix(work.abs_diff(ways=2)).tolist() == distance


def test_phi_may_depend_on_the_set():
    """WFF product queries: sum over t of phi_j(t_j - x_j), with other functions on other sets."""
    one, two = [1.0, 2.0, 0.0], [0.0, 1.0, -1.0]
    work = WORK.add({"phi": one}, on="a").add({"a": {"phi": two}, "d": {"phi": one}})
    where = cells(DOMAIN.shape)
    first = [[one[(t - x[0]) % 3] for x in where] for t in range(3)]
    second = [[two[(t - x[0]) % 3] * one[(s - x[3]) % 3] for x in where] for t in range(3) for s in range(3)]
    assert_allclose(workload_matrix(work), first + second)


def test_matrices_are_rows_over_the_cells_of_their_attributes():
    rows = generator(1).normal(size=(2, 3, 4))
    expected = np.broadcast_to(rows[:, :, :, None, None], (2, 3, 4, 2, 3)).reshape(2, -1)
    assert_allclose(workload_matrix(WORK.matrix(rows, "a", "b")), expected)
    assert_allclose(workload_matrix(WORK.matrix(rows.reshape(2, 12), "a", "b")), expected)


def test_weights():
    work = (
        WORK.prefix("a", weight=2)
        .add("prefix", on="a", weights=[1, 2, 3])
        .add("marginal", on=["a", "c"], weights=np.arange(1, 7).reshape(3, 2), weight=10)
        .add("affine", on=["a", "d"], weights=[1, 1, 2, 3, 5])
        .add({"of": "prefix", "weights": [3, 2, 1]}, on="a")
        .total(weight=0.5)
    )
    assert row_weights(work).tolist() == [2, 2, 2, 1, 2, 3, 10, 20, 30, 40, 50, 60, 1, 1, 2, 3, 5, 3, 2, 1, 0.5]
    assert work.queries == len(workload_matrix(work)) == 21


def test_workloads_are_values():
    one = WORK.prefix("a")
    two = one.marginals("b")
    assert (len(WORK.blocks), len(one.blocks), len(two.blocks)) == (0, 1, 2)
    assert WORK.prefix("a") == WORK.prefix("a") != WORK.prefix("b")


def test_counting_needs_no_listing():
    wide = Workload(ln.Domain.of({f"x{i}": range(50) for i in range(200)}))
    assert wide.ranges(ways=3).queries == 1313400 * 1275**3
    assert wide.affine(ways=2).queries == 19900 * 99
    assert wide.marginals(ways=[0, 1, 9]).queries == 1 + 200 * 50 + comb(200, 9) * 50**9


# Mistakes

NAMES = (
    "total, marginal, prefix, suffix, threshold, range, circular, nodes, sum, hybrid, extended, affine, abs_diff, "
    "random, matrix, phi"
)
MISTAKES: dict[str, tuple[Callable[[], Workload], str]] = {
    "unknown attribute": (
        lambda: WORK.prefix("bb"),
        "no attribute 'bb' in this domain (a, b, c, d); did you mean 'b'?",
    ),
    "unknown attribute of a product": (
        lambda: WORK.add({"bb": "prefix"}),
        "no attribute 'bb' in this domain (a, b, c, d); did you mean 'b'?",
    ),
    "attribute twice": (lambda: WORK.prefix("a", "a"), "attribute 'a' is named twice in ['a', 'a']; name it once"),
    "range by itself": (lambda: WORK.ranges("a", by="a"), "attribute 'a' is named twice in ['a', 'a']; name it once"),
    "range of nothing": (
        lambda: WORK.ranges(by="c"),
        "ranges by 'c' need an attribute; name it, as in ranges('age', by='sex')",
    ),
    "no order": (
        lambda: WORK.prefix("c"),
        "prefix needs an order but attribute 'c' has none; declare it ordered or use 'marginal' on it",
    ),
    "no order in one of many": (
        lambda: WORK.ranges(ways=1),
        "range needs an order but attribute 'c' has none; declare it ordered or use 'marginal' on it",
    ),
    "no order for a pair": (
        lambda: WORK.affine("a", "c"),
        "affine needs an order but attribute 'c' has none; declare it ordered or use 'marginal' on it",
    ),
    "unknown family": (lambda: WORK.add("prefx", on="a"), f"unknown queries 'prefx'; use one of {NAMES}"),
    "unknown family of the total": (lambda: WORK.add("prefx", ways=0), f"unknown queries 'prefx'; use one of {NAMES}"),
    "unknown family in a product": (lambda: WORK.add({"a": "prefx"}), f"unknown queries 'prefx'; use one of {NAMES}"),
    "family without attribute": (
        lambda: WORK.add({"a": "prefix"}, on=["a", "b"]),
        "attribute 'b' is not in both 'queries' and 'on'; give one family per attribute",
    ),
    "zero weight": (
        lambda: WORK.prefix("a", weight=0),
        "weight 0 of prefix is not positive; leave the queries out instead",
    ),
    "negative weight": (
        lambda: WORK.prefix("a", weight=-1.5),
        "weight -1.5 of prefix is not positive; leave the queries out instead",
    ),
    "nan weight": (
        lambda: WORK.prefix("a", weight=float("nan")),
        "weight nan of prefix is not positive; leave the queries out instead",
    ),
    "infinite weight": (
        lambda: WORK.prefix("a", weight=float("inf")),
        "weight inf of prefix is not positive; leave the queries out instead",
    ),
    "weight that is text": (
        lambda: WORK.prefix("a", weight="2"),
        "weight '2' of prefix is not positive; leave the queries out instead",
    ),
    "zero query weight": (
        lambda: WORK.add("prefix", on="a", weights=[1, 0, 2]),
        "weight 0.0 is not positive; leave the query out instead",
    ),
    "nan query weight": (
        lambda: WORK.add("prefix", on="a", weights=[1, np.nan, 2]),
        "weights holds nan at [1]; every entry must be a finite number",
    ),
    "too few query weights": (
        lambda: WORK.add("prefix", on="a", weights=[1, 2]),
        "2 weights for 3 prefix queries; give one per query",
    ),
    "too few product weights": (
        lambda: WORK.add("prefix", on=["a", "b"], weights=[1, 2]),
        "2 weights for 12 queries; give one per query",
    ),
    "weights twice": (
        lambda: WORK.add({"of": "prefix", "weights": [1, 2, 3]}, on="a", weights=[1, 1, 1]),
        "the weighted queries have weights already; give weights once",
    ),
    "weights in weights": (
        lambda: WORK.add({"of": {"of": "prefix", "weights": [1, 2, 3]}, "weights": [1, 1, 1]}, on="a"),
        "the weighted queries have weights already; give weights once",
    ),
    "weights on mixed subsets": (
        lambda: WORK.add({"a": "prefix", "b": "range", "d": "prefix"}, ways=2, weights=[1.0]),
        "per-query weights on mixed families need 'on' without 'ways'; name one subset at a time",
    ),
    "too many ways": (lambda: WORK.marginals(ways=5), "ways 5 is not between 0 and the 4 attributes"),
    "more ways than named": (lambda: WORK.marginals("a", "b", ways=3), "ways 3 is not between 0 and the 2 attributes"),
    "negative ways": (lambda: WORK.marginals(ways=[1, -1]), "ways -1 is not between 0 and the 4 attributes"),
    "half a way": (lambda: WORK.marginals(ways=1.5), "ways 1.5 is not between 0 and the 4 attributes"),
    "ways twice": (lambda: WORK.marginals(ways=[1, 1]), "ways [1, 1] names a size twice; name each once"),
    "matrix too wide": (
        lambda: WORK.matrix(np.eye(4), "a"),
        "matrix has 4 columns but the attribute has 3 values; give one column per value",
    ),
    "matrix too narrow": (
        lambda: WORK.matrix(np.eye(4), "a", "b"),
        "matrix has 4 columns but the attributes have 12 cells; give one column per cell",
    ),
    "matrix with a hole": (
        lambda: WORK.matrix([[1, np.nan, 0]], "a"),
        "matrix holds nan at [0, 1]; every entry must be a finite number",
    ),
    "ragged matrix": (
        lambda: WORK.matrix([[1, 2], [3]], "a"),
        "matrix is not an array of numbers; give rows of equal length",
    ),
    "empty matrix": (lambda: WORK.matrix(np.zeros((0, 3)), "a"), "matrix is empty; give at least one row"),
    "flat matrix": (lambda: WORK.add({"matrix": [1, 2, 3]}, on="a"), "matrix has 1 dimensions; give a list of rows"),
    "short phi": (
        lambda: WORK.add({"phi": [1, 2]}, on="a"),
        "phi has 2 values but the attribute has 3; give one per value",
    ),
    "affine of three": (
        lambda: WORK.affine("a", "b", "d"),
        "affine compares two attributes, not 3; use ways: 2 or name two attributes",
    ),
    "no random rows": (lambda: WORK.random("a", count=0), "random needs a positive count, not 0"),
    "impossible density": (lambda: WORK.random("a", count=2, density=1.5), "random density 1.5 is not between 0 and 1"),
    "impossible seed": (lambda: WORK.random("a", count=2, seed=-1), "random seed -1 is not a whole number from 0 on"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_one_line(name):
    make, text = MISTAKES[name]
    with pytest.raises(LeastnoiseError) as error:
        make()
    assert str(error.value) == text


def test_empty_workloads_cannot_be_planned():
    with pytest.raises(LeastnoiseError) as error:
        ln.plan(WORK, ln.Budget(mu=1))
    assert str(error.value) == "the workload is empty; add queries, for example workload.marginals(ways=2)"


# Plain data

FAMILY_FORMS = st.sampled_from(["marginal", "prefix", "suffix", "threshold", "range", "circular", "total"])


@st.composite
def statements(draw: st.DrawFn) -> Workload:
    """Statements of every form on a domain with every kind of values."""
    domain = ln.Domain.of(a=range(3), b=ln.bins(0, 1, width=0.5), c=ln.sized(3, ordered=True))
    work = Workload(domain)
    for _ in range(draw(st.integers(1, 4))):
        on = draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True))
        options = {"weight": draw(st.sampled_from([1.0, 0.1, 7.25]))}
        if draw(st.booleans()):
            options |= {"within": draw(st.floats(0.1, 100)), "confidence": 0.9}
        size = int(np.prod([domain[n].size for n in on]))
        match draw(st.integers(0, 7)):
            case 0:
                work = work.add(draw(FAMILY_FORMS), ways=draw(st.integers(0, 3)), **options)
            case 1:
                work = work.add({n: draw(FAMILY_FORMS) for n in on}, **options)
            case 2:
                work = work.random(*on, count=draw(st.integers(1, 4)), seed=draw(st.integers(0, 9)), **options)
            case 3:
                rows = draw(st.lists(st.lists(st.floats(-5, 5), min_size=size, max_size=size), min_size=1, max_size=2))
                work = work.matrix(rows, *on, **options)
            case 4:
                weights = draw(st.lists(st.floats(0.1, 9), min_size=size, max_size=size))
                work = work.add("marginal", on=on, weights=weights, **options)
            case 5:
                work = work.affine("a", "c", **options)
            case 6:
                work = work.add("abs_diff", on=["a", "b"], weights=[1.0, 2.5, 0.3], **options)
            case _:
                work = work.add(
                    {"a": {"phi": [0.1, 1.0, -2.0]}, "c": {"of": "prefix", "weights": [1, 2, 3]}}, **options
                )
    return work


def check_round_trip(work: Workload) -> None:
    back = workload_from_json(json.loads(json.dumps(workload_to_json(work))))
    assert back.domain == work.domain
    assert_allclose(workload_matrix(back), workload_matrix(work), atol=0)
    assert_allclose(row_weights(back), row_weights(work), atol=0)
    for one, other in zip(back.blocks, work.blocks, strict=True):
        assert (one.on, one.ways, one.weight, one.label, one.target, one.families_key) == (
            other.on,
            other.ways,
            other.weight,
            other.label,
            other.target,
            other.families_key,
        )


@pytest.mark.long
@given(work=statements())
def test_random_statements_come_back(work):
    check_round_trip(work)


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_catalogue_comes_back(name):
    check_round_trip(WORKLOADS[name])


def test_unknown_stored_forms_are_refused():
    data = workload_to_json(WORK.affine("a", "b"))
    data["blocks"][0]["tensor"] = "sums"
    with pytest.raises(LeastnoiseError) as error:
        workload_from_json(data)
    assert str(error.value) == "unknown stored queries 'sums'; the file is damaged or from a newer version"
