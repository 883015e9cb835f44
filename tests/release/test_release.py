import re
from functools import cache
from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

import leastnoise as ln
from leastnoise.noise import SeededRandomSource
from leastnoise.planning.request import clear_cache
from leastnoise.release import LinearQuery
from leastnoise.release import state as state_module
from leastnoise.release.answers import quantile
from leastnoise.sources import Codes, Table
from leastnoise.strategies import solvers
from leastnoise.workload import Workload
from tests.catalogue import WORKLOADS, ordered, skewed
from tests.oracles import downward, gamma_2
from tests.release.dense import Dense, query_row, skewed_table, subsets, table_rows, workload_rows

FURTHER = {
    "random on three attributes": Workload(ordered(2, 4, 3)).random("a", "b", "c", count=5, seed=3),
    "matrix on three attributes": Workload(ordered(3, 2, 3)).matrix(np.arange(36).reshape(2, 18) % 5, "a", "b", "c"),
    "tensors and singles": Workload(ordered(1, 3, 1, 3)).affine("b", "d").marginals(ways=2),
    "classes of several": Workload(ordered(3, 2, 3, 2, 3)).marginals(ways=2).prefix("a", "c", "e", ways=1),
    "classes out of order": Workload(ordered(2, 3, 2, 3)).add({"a": "prefix", "d": "range"}).marginals(ways=2),
    "circular and marginals": Workload(ordered(4, 4)).circular(ways=2).marginals(ways=2),
    "suffix 2-way": Workload(ordered(3, 4)).suffix(ways=2),
}
ALL = WORKLOADS | FURTHER
# (workload, baseline, further options of the plan)
CASES = [
    *((name, "search", ()) for name in ALL),
    *((name, "uniform", ()) for name in ("prefix of 3", "affine of 3", "phi", "random of 3", "classes out of order")),
    *((name, "given", ()) for name in ("prefix of 3", "affine of 3", "phi", "matrix", "size one", "low rank only")),
    *((name, "search", (("solver", "kronecker"),)) for name in ("sum of products", "two contrasts", "affine of 3")),
    *((name, "uniform", (("solver", "fourier"),)) for name in ("prefix of 3", "hybrid", "circular and marginals")),
    ("range of 3", "search", (("objective", "max"),)),
]
REPLACE = ["prefix of 3", "affine of 3", "marginals 2-way", "size one", "phi", "total"]
CLOSE = 1e-9  # relative to all rows: least squares with noise 300 times apart loses some digits


@cache
def released(name, baseline="search", options=(), neighbours="add-remove", rows_per_person=None):
    workload = ALL[name]
    domain = workload.domain
    if baseline == "given":
        baseline = {n: skewed(k) for n, k in zip(domain.names, domain.shape, strict=True)}
    budget = ln.Budget(mu=0.7, neighbours=neighbours, rows_per_person=rows_per_person)
    plan = ln.plan(workload, budget, baseline=baseline, **dict(options))
    release = plan.run(Table(domain, skewed_table(domain)), random_source=SeededRandomSource(3))
    return release, Dense(release.parts)


def names_of(domain, attributes):
    return [domain.names[a] for a in attributes]


def check_everything(release, dense):
    """Every table and every query of the workload against least squares; refusals where nothing is determined."""
    domain, total = release.domain, skewed_table(release.domain).sum()
    for attributes in subsets(len(domain)):
        rows, names = table_rows(domain, attributes), names_of(domain, attributes)
        if not dense.reaches(rows):
            with pytest.raises(ln.LeastnoiseError, match="was not measured"):
                release.counts(*names)
            continue
        counts, errors = release.counts(*names), release.std_errors(*names)
        assert counts.shape == errors.shape == tuple(domain.shape[a] for a in attributes)
        assert_allclose(counts.ravel(), dense.answers(rows), rtol=0, atol=CLOSE * total)
        assert_allclose(errors.ravel(), dense.std_errors(rows), rtol=1e-8, atol=1e-8)
    rows, frame = workload_rows(release.workload), release.answer(release.workload)
    assert_allclose(frame["answer"], dense.answers(rows), rtol=0, atol=CLOSE * total)
    assert_allclose(frame["std_error"], dense.std_errors(rows), rtol=1e-8, atol=1e-8)


@pytest.mark.xdist_group("least squares")  # they have releases in common
@pytest.mark.parametrize(("name", "baseline", "options"), CASES, ids=str)
def test_answers_are_least_squares(name, baseline, options):
    check_everything(*released(name, baseline, options))


@pytest.mark.xdist_group("least squares")  # they have releases in common
@pytest.mark.parametrize("name", ["marginals 2-way", "classes of several", "circular and marginals"])
def test_decoding_some_at_a_time_changes_nothing(name, monkeypatch):
    release, _ = released(name)
    monkeypatch.setattr(state_module, "BATCH_CELLS", 7)  # one or two attribute sets
    for whole, parts in zip(release.state.known, state_module.State.of(release.parts).known, strict=True):
        assert (whole is None) == (parts is None)
        if whole is not None:
            assert_allclose(parts.tables, whole.tables, rtol=1e-12, atol=1e-12)


def probes_of(release):
    return [p for part in release.parts for noisy_queries in part.integer_plan.noisy_queries for p in noisy_queries]


@pytest.mark.long
@pytest.mark.xdist_group("least squares")  # they have releases in common
def test_cases_have_every_kind_of_strategy():
    noisy_queries = [p for case in CASES for p in probes_of(released(*case)[0])]
    assert any(p.strategy.multiplier > 1 for p in noisy_queries)
    assert any(len(part.shape) > 1 for p in noisy_queries for part in p.strategy.parts)
    kinds = {type(part).__name__ for p in noisy_queries for part in p.strategy.parts}
    assert kinds == {"Centring", "Rows", "Circulant"}


@pytest.fixture
def few_dense_cells(monkeypatch):
    """Residuals of a few cells are planned as those of thousands: products with a level per answer."""
    clear_cache()
    monkeypatch.setattr(solvers, "DENSE_CELLS", 4)
    yield
    clear_cache()


@pytest.mark.long
@pytest.mark.usefixtures("few_dense_cells")
@pytest.mark.parametrize("baseline", ["search", "uniform"])
def test_answers_are_least_squares_with_levels(baseline):
    domain = ordered(4, 4, 3)
    work = Workload(domain).add({"a": "marginal", "b": "range"}).add({"a": "range", "b": "marginal"})
    plan = ln.plan(work.marginals("c", "a").prefix("c", "a"), ln.Budget(mu=1), baseline=baseline)
    release = plan.run(Table(domain, skewed_table(domain)), random_source=SeededRandomSource(3))
    assert any(p.strategy.levels is not None for p in probes_of(release))
    check_everything(release, Dense(release.parts))


@pytest.mark.parametrize("name", REPLACE)
def test_answers_are_least_squares_where_one_row_replaces_another(name):
    release, dense = released(name, neighbours="replace")
    check_everything(release, dense)
    assert release.total().std_error == 0
    assert release.total().value == pytest.approx(skewed_table(release.domain).sum(), rel=1e-14)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_answers_are_least_squares_for_several_rows_per_person(neighbours):
    once, _ = released("prefix of 3", neighbours=neighbours)
    thrice, dense = released("prefix of 3", neighbours=neighbours, rows_per_person=3)
    check_everything(thrice, dense)
    if neighbours == "add-remove":
        assert_allclose(thrice.std_errors("a", "b"), 3 * once.std_errors("a", "b"), rtol=1e-3)


@pytest.mark.parametrize("name", ["prefix of 3", "affine of 3", "matrix", "tensors and singles", "classes of several"])
def test_any_query_in_reach_is_least_squares(name, rng):
    release, dense = released(name)
    domain = release.domain
    queries = []
    for names in release.tables():
        shape = [domain.shape[domain.index(n)] for n in names]
        queries.append(LinearQuery.of(domain, list(reversed(names)), rng.normal(size=shape[::-1])))
        queries.append(queries[-1] - 0.5 * queries[len(queries) // 2] + LinearQuery.total(domain))
    rows = np.stack([query_row(q) for q in queries])
    joint = release.ask_many(queries)
    total = skewed_table(domain).sum()
    expected = dense.covariance(rows)
    assert_allclose(joint.values, dense.answers(rows), rtol=0, atol=100 * CLOSE * total)
    assert_allclose(joint.covariance, expected, rtol=1e-7, atol=1e-9 * np.abs(expected).max())
    assert_allclose(joint.std_errors, dense.std_errors(rows), rtol=1e-8)
    weights = rng.normal(size=len(queries))
    both = joint.combine(weights)
    assert both.std_error == pytest.approx(dense.std_errors(weights[None] @ rows)[0], rel=1e-7)
    assert both.value == pytest.approx(weights @ joint.values)
    for query, value, error in list(zip(queries, joint.values, joint.std_errors, strict=True))[:5]:
        one = release.ask(query)
        assert (one.value, one.std_error) == pytest.approx((value, error), rel=1e-9)


@pytest.mark.parametrize("name", ["prefix of 3", "affine of 3", "abs_diff", "size one", "classes out of order", "phi"])
def test_tables_are_consistent(name):
    release, _ = released(name)
    total = skewed_table(release.domain).sum()
    for names in release.tables():
        counts = release.counts(*names)
        for axis, left_out in enumerate(names):
            smaller = release.counts(*(n for n in names if n != left_out))
            assert_allclose(counts.sum(axis=axis), smaller, rtol=0, atol=1e-8 * total)
        assert counts.sum() == pytest.approx(release.total().value, abs=1e-8 * total)
        turned = release.counts(*reversed(names))
        assert_allclose(turned, counts.T, rtol=0, atol=1e-10 * total)
        assert_allclose(release.std_errors(*reversed(names)), release.std_errors(*names).T, rtol=1e-12)


@pytest.mark.parametrize(
    "name", ["prefix of 3", "size one", "classes of several", "tensors and singles", "marginals 2-way"]
)
def test_tables_are_the_closure(name):
    release, _ = released(name)
    queries = [s for b in release.workload.blocks for s in b.subsets()]
    expected = sorted(downward(queries), key=lambda s: (len(s), s))
    assert list(release.tables()) == [tuple(names_of(release.domain, s)) for s in expected]


def test_tables_leave_out_what_is_not_known():
    release, _ = released("two contrasts")
    assert list(release.tables()) == []
    release, _ = released("contrasts")  # the rows on a sum to 0, so only a and a x b are measured
    assert all("b" not in names or "a" in names for names in release.tables())


# --- frames -----------------------------------------------------------------------------------------------------------

PEOPLE = ln.Domain.of(age=range(18, 21), sex=["F", "M"], income=ln.bins(0, 30, width=10))


@pytest.fixture(scope="module")
def people():
    plan = ln.plan(Workload(PEOPLE).marginals(ways=2).prefix("age"), ln.Budget(mu=1))
    return plan.run(Table(PEOPLE, skewed_table(PEOPLE)), random_source=SeededRandomSource(5))


def test_table_frame(people):
    frame = people.table("income", "age")
    assert list(frame.columns) == ["income", "age", "count", "std_error", "low", "high"]
    assert frame["income"].tolist() == [
        label for label in ("0 to under 10", "10 to under 20", "20 to 30") for _ in range(3)
    ]
    assert frame["age"].tolist() == 3 * [18, 19, 20]
    assert_allclose(frame["count"], people.counts("income", "age").ravel())
    assert_allclose(frame["std_error"], people.std_errors("income", "age").ravel())
    assert_allclose(frame["high"] - frame["count"], norm.ppf(0.975) * frame["std_error"])
    assert_allclose(frame["count"] - frame["low"], norm.ppf(0.975) * frame["std_error"])
    assert people.table("sex")["sex"].tolist() == ["F", "M"]


def test_widths_follow_the_confidence(people):
    frame = people.table("sex", "age", confidence=0.8)
    assert_allclose(frame["high"] - frame["low"], 2 * norm.ppf(0.9) * frame["std_error"])
    together = people.table("sex", "age", confidence=0.8, simultaneous=True)
    each = 0.8 ** (1 / 6)  # six independent intervals hold at once with 0.8
    assert_allclose(together["high"] - together["low"], 2 * norm.ppf((1 + each) / 2) * frame["std_error"])
    first, *_ = people.ask_many(["sex = 'F'", "age = 18"], confidence=0.9, simultaneous=True)
    assert first.high - first.value == pytest.approx(norm.ppf((1 + 0.9**0.5) / 2) * first.std_error)
    alone = people.ask("sex = 'F'", confidence=0.9)
    assert alone.high - alone.low == pytest.approx(2 * norm.ppf(0.95) * alone.std_error)


def test_table_of_nothing_is_the_total(people):
    frame = people.table()
    assert list(frame.columns) == ["count", "std_error", "low", "high"]
    assert frame["count"].tolist() == [pytest.approx(people.total().value)]
    assert frame["std_error"].tolist() == [pytest.approx(people.total().std_error)]


def test_answers_in_words(people):
    workload = Workload(PEOPLE).prefix("age").marginals("sex").ranges("income", by="sex").suffix("income").total()
    frame = people.answer(workload)
    assert list(frame.columns) == ["group", "family", "attributes", "query", "answer", "std_error", "low", "high"]
    assert len(frame) == workload.queries
    assert frame["query"].tolist()[:5] == ["age up to 18", "age up to 19", "age up to 20", "sex = F", "sex = M"]
    assert frame["query"].tolist()[-4:] == [
        "income from 0",
        "income from 10",
        "income from 20",
        "everybody",
    ]
    ranges = frame[frame["attributes"] == "sex, income"]
    assert "sex = F and income from 0 to under 20" in ranges["query"].tolist()
    chosen = ranges[ranges["query"] == "sex = F and income from 0 to under 20"].iloc[0]
    query = people.ask("sex = 'F' and income < 20")
    assert (chosen["answer"], chosen["std_error"]) == pytest.approx((query.value, query.std_error))
    assert_allclose(frame["high"] - frame["low"], 2 * norm.ppf(0.975) * frame["std_error"])


def test_rows_of_a_mapping_and_codes_are_the_same(people):
    codes = np.repeat(np.indices(PEOPLE.shape).reshape(3, -1).T, skewed_table(PEOPLE).ravel(), axis=0)
    plan = ln.plan(people.workload, ln.Budget(mu=1))
    again = plan.run(Codes(PEOPLE, codes), random_source=SeededRandomSource(5))
    assert_allclose(again.counts("age", "sex"), people.counts("age", "sex"), rtol=0, atol=0)


# --- edges of the reach -----------------------------------------------------------------------------------------------


def test_nothing_is_zero_without_error(people):
    for question in (
        "false",
        LinearQuery(PEOPLE, ()),
        "(sex = 'F') - (sex = 'F')",
        "0 * (age = 18 and sex = 'F' and income < 20)",
    ):
        answer = people.ask(question)
        assert (answer.value, answer.std_error, answer.low, answer.high) == (0, 0, 0, 0)
    assert people.ask_many([]).values.tolist() == []
    assert people.ask_many(["false", "true"]).values[0] == 0


def test_pieces_out_of_reach_may_cancel(people):
    cube = "age = 18 and sex = 'F' and income < 20"
    answer = people.ask(f"({cube}) + (age = 18 and sex = 'F' and income >= 20)")
    expected = people.ask("age = 18 and sex = 'F'")
    assert (answer.value, answer.std_error) == pytest.approx((expected.value, expected.std_error), rel=1e-9)
    either = people.ask("(age = 18 or sex = 'F' and income < 20) + (age = 18 and sex = 'F' and income < 20)")
    apart = people.ask("(age = 18) + (sex = 'F' and income < 20)")
    assert (either.value, either.std_error) == pytest.approx((apart.value, apart.std_error), rel=1e-9)


def refused(call, message):
    with pytest.raises(ln.LeastnoiseError, match=f"^{re.escape(message)}$"):
        call()


def test_bad_input(people):
    refused(lambda: people.table("agee"), "no attribute 'agee' in this domain (age, sex, income); did you mean 'age'?")
    refused(lambda: people.counts("sex", "age", "sex"), "age x sex x sex has an attribute twice; name each once")
    for confidence in (0, 1, -0.5, 95, float("nan"), "high", None):
        message = f"confidence {confidence!r} is not between 0 and 1; a usual one is 0.95"
        refused(lambda c=confidence: people.table("sex", confidence=c), message)
        refused(lambda c=confidence: people.ask("sex = 'F'", confidence=c), message)
        refused(lambda c=confidence: people.ask_many(["sex = 'F'"], confidence=c), message)
        refused(lambda c=confidence: people.answer(people.workload, confidence=c), message)
    other = ln.Domain.of(age=range(18, 21), sex=["M", "F"], income=ln.bins(0, 30, width=10))
    refused(
        lambda: people.answer(Workload(other).marginals("sex")),
        "the workload is on another domain than the release; build it from release.domain",
    )
    refused(
        lambda: people.ask(LinearQuery.of(other, "sex", [1, 0])),
        "the query is over another domain; build it from the same domain",
    )
    refused(
        lambda: people.answer(Workload(PEOPLE)),
        "the workload is empty; add queries, for example workload.marginals(ways=2)",
    )


def test_columns_named_like_numbers():
    domain = ln.Domain.of(count=3, sex=2)
    plan = ln.plan(Workload(domain).marginals(ways=1), ln.Budget(mu=1))
    release = plan.run(Table(domain, np.ones((3, 2), dtype=int)), random_source=SeededRandomSource(1))
    message = "the attribute 'count' has the name of a column; use counts() and std_errors()"
    refused(lambda: release.table("count"), message)
    assert release.counts("count").shape == (3,)


def price(call):
    """The names and the two figures in a refusal."""
    with pytest.raises(ln.LeastnoiseError) as caught:
        call()
    match = re.fullmatch(
        r"this needs (.+), which was not measured; with a standard error of (\S+), as other answers have, "
        r"it would have cost a further mu of (up to )?(\S+); another release has it with "
        r"\{queries: (?:marginal, on: \[(.*)\]|total)\} in its workload",
        str(caught.value),
    )
    assert match is not None, str(caught.value)
    assert (match[5] or "the total").replace(", ", " x ") == match[1]
    return match[1], float(match[2]), float(match[4])


def outside(release, dense, rows):
    """What the measurements do not determine of some queries: uniform baselines make the parts orthogonal."""
    B = dense.stacked[0]
    B = B / np.linalg.norm(B, axis=1, keepdims=True)
    return rows - rows @ np.linalg.pinv(B, rcond=1e-11) @ B


SHORT = ordered(4, 2, 3)
PRICES = {
    "one way": (Workload(SHORT).marginals(ways=1), ("a", "b"), "a x b"),
    "total alone": (Workload(SHORT).total(), ("a", "b"), "a x b"),
    "two way": (Workload(SHORT).marginals(ways=2), ("c", "a", "b"), "a x b x c"),
    "one table": (Workload(SHORT).marginals("a", "b"), ("b", "c"), "b x c"),
}


@pytest.mark.parametrize("name", PRICES)
def test_price_is_that_of_an_independent_computation(name):
    """The least mu of the missing part over all mechanisms is gamma_2 of it over the standard error, by an SDP."""
    workload, table, missing = PRICES[name]
    release = ln.plan(workload, ln.Budget(mu=1), baseline="uniform").run(
        Table(SHORT, skewed_table(SHORT)), random_source=SeededRandomSource(1)
    )
    dense = Dense(release.parts)
    errors = dense.std_errors(workload_rows(workload))
    rows = table_rows(SHORT, [SHORT.index(n) for n in table])
    names, error, mu = price(lambda: release.table(*table))
    assert names == missing
    assert error == pytest.approx(np.sqrt(np.mean(errors**2)), rel=0.01)
    assert mu == pytest.approx(gamma_2(outside(release, dense, rows)) / error, rel=0.02)
    # one cell costs what the table costs
    cell = " and ".join(f"{n} = 0" for n in table)
    assert price(lambda: release.ask(cell))[2] == pytest.approx(mu, rel=0.02)


def test_price_of_a_workload_is_that_of_its_dearest_query():
    release = ln.plan(Workload(SHORT).marginals(ways=1), ln.Budget(mu=1)).run(
        Table(SHORT, skewed_table(SHORT)), random_source=SeededRandomSource(1)
    )
    dense = Dense(release.parts)
    for workload in (Workload(SHORT).prefix("a", "c"), Workload(SHORT).affine("a", "c")):
        rows = outside(release, dense, workload_rows(workload))
        names, error, mu = price(lambda w=workload: release.answer(w))
        assert names == "a x c"
        assert mu == pytest.approx(np.abs(rows).max() / error, rel=0.02)


def test_price_for_other_neighbours():
    workload, table, _ = PRICES["one way"]
    prices = {}
    for neighbours, rows in (("add-remove", 1), ("add-remove", 3), ("replace", 1)):
        budget = ln.Budget(mu=1, neighbours=neighbours, rows_per_person=rows)
        plan = ln.plan(workload, budget, baseline="uniform")
        release = plan.run(Table(SHORT, skewed_table(SHORT)), random_source=SeededRandomSource(1))
        _, error, mu = price(lambda r=release: r.table(*table))
        prices[neighbours, rows] = mu * error
    assert prices["add-remove", 3] == pytest.approx(3 * prices["add-remove", 1], rel=0.02)
    assert prices["replace", 1] == pytest.approx(2 * prices["add-remove", 1], rel=0.02)  # at most twice as far


def test_no_price_where_answers_are_exact():
    plan = ln.plan(Workload(SHORT).total(), ln.Budget(mu=1, neighbours="replace"))
    release = plan.run(Table(SHORT, skewed_table(SHORT)), random_source=SeededRandomSource(1))
    refused(lambda: release.table("a"), "this needs a, which was not measured; add it to the workload when planning")


def test_many_attributes_are_refused_at_once():
    domain = ln.Domain.of({f"x{k}": 2 for k in range(40)})
    plan = ln.plan(Workload(domain).marginals(ways=1), ln.Budget(mu=1))
    release = plan.run(Codes(domain, np.zeros((5, 40), dtype=int)), random_source=SeededRandomSource(1))
    message = f"this needs {' x '.join(domain.names)}, which was not measured; ask about fewer attributes"
    refused(lambda: release.counts(*domain.names), message)
    some = domain.names[:20]
    message = f"this needs {' x '.join(some)}, which was not measured; ask about fewer attributes"
    refused(lambda: release.ask(" and ".join(f"{n} = 1" for n in some)), message)


def test_noise_is_that_of_the_recipe():
    """No measurement is further from the truth than seven deviations: false alarms once in 10^8 runs, here never."""
    for name in ("prefix of 3", "affine of 3", "phi"):
        _, dense = released(name)
        rows, answers, variances = dense.stacked
        scores = (answers - rows @ skewed_table(dense.domain).ravel()) / np.sqrt(variances)
        assert np.abs(scores).max() < 7
        assert len(scores) < 100  # the union bound behind the rate: 100 * 2.6e-12


@pytest.mark.parametrize("together", [1, 2, 50])
def test_quantile_is_that_of_independent_intervals(together):
    wide = quantile(0.9, together)
    assert (2 * norm.cdf(wide) - 1) ** together == pytest.approx(0.9, rel=1e-12)


def test_pairs_of_questions_agree_with_the_frame(people):
    frame = people.table("age", "sex")
    questions = [f"age = {a} and sex = '{s}'" for a, s in zip(frame["age"], frame["sex"], strict=True)]
    joint = people.ask_many(questions)
    assert_allclose(joint.values, frame["count"], rtol=1e-9)
    assert_allclose(joint.std_errors, frame["std_error"], rtol=1e-9)
    for i, j in combinations(range(len(questions)), 2):
        difference = people.ask(f"({questions[i]}) - ({questions[j]})")
        variance = joint.covariance[i, i] + joint.covariance[j, j] - 2 * joint.covariance[i, j]
        assert difference.std_error == pytest.approx(np.sqrt(variance), rel=1e-9)
