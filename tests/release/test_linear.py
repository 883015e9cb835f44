import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from leastnoise.domain.attributes import Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.release.queries.linear import MAX_CELLS, Condition, LinearQuery, Term

DOMAIN = Domain.of(age=range(3), sex=["F", "M"], region=list("NESW"), one=1)
# Few weights, so that constant axes and terms that cancel are common; halves add up without rounding.
TERMS = st.lists(
    st.tuples(st.sets(st.integers(0, 3)), st.integers(0, 2**32 - 1), st.integers(1, 3)).map(
        lambda drawn: Term(tuple(sorted(drawn[0])), weights_on(sorted(drawn[0]), *drawn[1:]))
    ),
    max_size=5,
)
QUERIES = TERMS.map(lambda terms: LinearQuery(DOMAIN, tuple(terms)))


def weights_on(attributes, seed, spread):
    return np.random.default_rng(seed).integers(-1, spread, [DOMAIN.shape[a] for a in attributes]) / 2


def dense(terms):
    """The weights over all cells, by broadcasting each term."""
    out = np.zeros(DOMAIN.shape)
    for attributes, weights in terms:
        out += weights.reshape([DOMAIN.shape[a] if a in attributes else 1 for a in range(len(DOMAIN))])
    return out


@pytest.fixture
def table(rng):
    return rng.integers(0, 9, DOMAIN.shape)


@given(TERMS)
def test_same_number_as_dense_weights(terms):
    query = LinearQuery(DOMAIN, tuple(terms))
    table = np.random.default_rng(1).integers(0, 9, DOMAIN.shape)
    assert np.array_equal(dense(query.terms), dense(terms))
    assert query.evaluate(table) == np.sum(dense(terms) * table)


@given(QUERIES)
def test_terms_are_small(query):
    sets = [set(term.attributes) for term in query.terms]
    assert all(not a <= b for k, a in enumerate(sets) for j, b in enumerate(sets) if j != k)
    assert [t.attributes for t in query.terms] == sorted(tuple(sorted(s)) for s in sets)
    for _, weights in query.terms:
        assert weights.any()
        assert all(np.ptp(weights, axis=axis).any() for axis in range(weights.ndim))


@pytest.mark.long
@given(QUERIES, QUERIES, st.sampled_from([-2, 0, 0.5, np.float64(3), np.int64(2)]))
def test_arithmetic_is_that_of_the_weights(a, b, number):
    assert np.array_equal(dense((a + b).terms), dense(a.terms) + dense(b.terms))
    assert np.array_equal(dense((a - b).terms), dense(a.terms) - dense(b.terms))
    assert np.array_equal(dense((-a).terms), -dense(a.terms))
    assert np.array_equal(dense((number * a).terms), number * dense(a.terms))
    assert number * a == a * number
    assert (a - a).terms == ()


@pytest.mark.long
@given(QUERIES, QUERIES)
def test_equal_queries_are_equal_functions(a, b):
    assert a == LinearQuery(DOMAIN, a.terms[::-1])
    assert hash(a) == hash(LinearQuery(DOMAIN, a.terms[::-1]))
    assert a == 2 * (0.5 * a)
    if a == b:
        assert np.array_equal(dense(a.terms), dense(b.terms))
        assert hash(a) == hash(b)
    if not np.array_equal(dense(a.terms), dense(b.terms)):
        assert a != b


def test_complements_are_recognized():
    female, male = (LinearQuery.of(DOMAIN, "sex", row) for row in np.eye(2))
    assert female + male == LinearQuery.total(DOMAIN)
    assert LinearQuery.total(DOMAIN) - male == female
    assert female != male
    assert female != "female"


def test_negative_zeros_do_not_tell_queries_apart():
    a, b = LinearQuery.of(DOMAIN, "sex", [0.0, 1]), LinearQuery.of(DOMAIN, "sex", [-0.0, 1])
    assert a == b
    assert hash(a) == hash(b)


def test_product_is_the_outer_product(table):
    query = LinearQuery.product(DOMAIN, {"region": [1, 2, 3, 4], "age": [0, 1, -1], "sex": [2, 2], "one": [3]})
    assert query.attributes == (0, 2)
    assert_allclose(query.terms[0].weights, 6 * np.outer([0, 1, -1], [1, 2, 3, 4]))
    assert query.evaluate(table) == np.einsum("asro,a,r->", table, [0, 1, -1], [6, 12, 18, 24])
    assert LinearQuery.product(DOMAIN, {}) == LinearQuery.total(DOMAIN)


def test_of_takes_names_in_any_order(table):
    weights = np.arange(12.0).reshape(4, 3)
    query = LinearQuery.of(DOMAIN, ["region", "age"], weights)
    assert np.array_equal(query.terms[0].weights, weights.T)
    assert LinearQuery.of(DOMAIN, ["region", "age"], weights.ravel()) == query
    assert query.evaluate(table) == np.sum(table.sum(axis=(1, 3)).T * weights)
    assert LinearQuery.of(DOMAIN, [], 1) == LinearQuery.total(DOMAIN)


def test_total_counts_everybody(table):
    assert LinearQuery.total(DOMAIN).evaluate(table) == table.sum()
    assert LinearQuery.total(DOMAIN).attributes == ()


def test_weights_cannot_be_changed_and_are_not_shared():
    mine = np.array([1.0, 2.0])
    query = LinearQuery.of(DOMAIN, "sex", mine)
    mine[0] = 7
    assert query.terms[0].weights.tolist() == [1, 2]
    with pytest.raises(ValueError, match="read-only"):
        query.terms[0].weights[0] = 3


def test_representation():
    assert repr(LinearQuery.of(DOMAIN, "sex", [1, 2]) - 1 * LinearQuery.of(DOMAIN, "age", [0, 0, 1])) == (
        "<LinearQuery: age, cells: 3; sex, cells: 2>"
    )
    assert repr(0 * LinearQuery.total(DOMAIN)) == "<LinearQuery: zero>"


WIDE = Domain.of(a=range(5000), b=range(5000))
BIG = {"a": np.arange(5000), "b": np.arange(5000)}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LinearQuery.of(DOMAIN, "sex", [1, 2, 3]), "query has 3 entries but sex has 2 cells; give one each"),
        (
            lambda: LinearQuery.of(DOMAIN, ["sex", "age"], np.ones(5)),
            "query has 5 entries but sex x age has 6 cells; give one each",
        ),
        (lambda: LinearQuery.of(DOMAIN, [], [1, 2]), "query has 2 entries but the total has 1 cells; give one each"),
        (
            lambda: LinearQuery.of(DOMAIN, "sex", [1, np.nan]),
            "query holds nan at [1]; every entry must be a finite number",
        ),
        (
            lambda: LinearQuery.of(DOMAIN, "sxe", [1, 2]),
            "no attribute 'sxe' in this domain (age, sex, region, one); did you mean 'sex'?",
        ),
        (
            lambda: LinearQuery.of(DOMAIN, ["sex", "sex"], np.eye(2)),
            "the attribute 'sex' is named twice; name each once",
        ),
        (
            lambda: LinearQuery(DOMAIN, (Term((1, 0), np.ones((2, 3))),)),
            "weights of shape (2, 3) do not fit the attributes (1, 0); use LinearQuery.of",
        ),
        (
            lambda: LinearQuery(DOMAIN, (Term((0,), np.ones(2)),)),
            "weights of shape (2,) do not fit the attributes (0,); use LinearQuery.of",
        ),
        (
            lambda: LinearQuery(DOMAIN, (Term((4,), np.ones(2)),)),
            "weights of shape (2,) do not fit the attributes (4,); use LinearQuery.of",
        ),
        (lambda: LinearQuery.product(DOMAIN, {"sex": [1]}), "query has 1 entries but sex has 2 cells; give one each"),
        (
            lambda: LinearQuery.product(WIDE, BIG),
            "this needs a x b in one piece, 25,000,000 cells; at most 16,777,216 fit, use fewer attributes or coarser "
            "ones",
        ),
        (
            lambda: LinearQuery.product(DOMAIN, {"sex": [1e200, 0], "age": [1e200, 0, 0]}),
            "the weights of this query are too large for floats; use smaller numbers",
        ),
        (
            lambda: LinearQuery.of(DOMAIN, "sex", [1e308, 0]) + LinearQuery.of(DOMAIN, "sex", [1e308, 0]),
            "the weights of this query are too large for floats; use smaller numbers",
        ),
        (lambda: LinearQuery.total(DOMAIN) * np.inf, "a query is multiplied by a finite number, got inf"),
        (lambda: "2" * LinearQuery.total(DOMAIN), "a query is multiplied by a finite number, got '2'"),
        (lambda: LinearQuery.total(DOMAIN) * True, "a query is multiplied by a finite number, got True"),
        (
            lambda: LinearQuery.total(DOMAIN) + LinearQuery.total(WIDE),
            "these queries are over different domains (age, sex, region, one) and (a, b); use one domain",
        ),
        (
            lambda: LinearQuery.total(WIDE).evaluate([1, 2]),
            "table has shape (2,) but the domain has (5000, 5000); give every cell",
        ),
    ],
)
def test_bad_input_is_told_in_one_line(make, message):
    with pytest.raises(LeastnoiseError) as caught:
        make()
    assert str(caught.value) == message


def test_only_queries_are_added():
    with pytest.raises(TypeError):
        LinearQuery.total(DOMAIN) + 1
    with pytest.raises(TypeError):
        LinearQuery.total(DOMAIN) - 1


def test_constant_vectors_take_no_cells():
    assert LinearQuery.product(WIDE, {**BIG, "a": np.ones(5000)}).attributes == (1,)


FACTORS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2**32 - 1)), max_size=4)


@pytest.mark.long
@given(st.lists(FACTORS, max_size=3))
def test_conditions_match_dense_logic(groups):
    """An `or` of `and`s, through negation, against boolean arrays over all cells."""
    negated, expected = [], np.zeros(DOMAIN.shape, dtype=bool)
    for factors in groups:
        rows = [(a, np.random.default_rng(seed).random(DOMAIN.shape[a]) < 0.7) for a, seed in factors]
        negated.append(Condition.every(DOMAIN, [Condition.of(DOMAIN, a, row) for a, row in rows]).negated())
        cells = np.ones(DOMAIN.shape, dtype=bool)
        for a, row in rows:
            cells &= row.reshape([-1 if k == a else 1 for k in range(len(DOMAIN))])
        expected |= cells
    result = Condition.every(DOMAIN, negated).negated()
    assert np.array_equal(dense([Term(*result.cells())]), expected)
    assert np.array_equal(dense(result.linear().terms), expected)
    attributes, cells = result.cells()
    assert cells.dtype == bool
    assert cells.ndim == len(attributes)
    assert attributes == result.linear().attributes


def test_conjunctions_stay_apart_until_their_cells_are_asked_for():
    half = np.arange(5000) < 2500
    a, b = Condition.of(WIDE, 0, half), Condition.of(WIDE, 1, half)
    both = Condition.every(WIDE, [a, b])
    assert sum(cells.size for _, cells in both.factors) == 10_000 < MAX_CELLS
    assert Condition.every(WIDE, [both, a.negated()]).linear().terms == ()
    with pytest.raises(LeastnoiseError, match="a x b in one piece"):
        both.cells()
