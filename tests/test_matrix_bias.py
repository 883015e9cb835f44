"""Matrix plans with a bias: within it whatever the data are, counted in every interval, and said everywhere."""

from functools import cache
from math import sqrt

import cvxpy
import numpy as np
import pytest
from numpy.testing import assert_allclose

import leastnoise as ln
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.mechanism import Mechanism
from leastnoise.mechanisms.stream.stream import Stream
from leastnoise.noise import SeededRandomSource
from leastnoise.planning.variance import expected_largest_of
from leastnoise.release.answers import Answer, Bias, Joint, quantile
from leastnoise.report.matrix import document, render
from leastnoise.strategies.integer import Rows
from leastnoise.strategies.nearest import NORM_GAP, Near, nearest
from leastnoise.strategies.norms import gamma_2_approximate, gamma_r
from leastnoise.theory import EXACT, Question
from leastnoise.theory.complexity import NEAR
from leastnoise.theory.question import BIASES
from leastnoise.theory.tails import Error
from leastnoise.workload.spec import parse_spec
from tests.contract.kinds import KINDS

BIAS = 0.05


def irregular(queries=12, items=16, rule=0.4, size=BIAS):
    """A rule of two classes, and small exceptions from it."""
    rng = np.random.default_rng(0)
    left, right = (np.where(np.arange(n) % 3 == 0, -1, 1) for n in (queries, items))
    return 0.5 + rule * np.outer(left, right) + size * np.sign(rng.standard_normal((queries, items)))


NEIGHBOURS = ("add-remove", "replace")
WEIGHTS = np.arange(1.0, 13.0)


@cache
def planned(neighbours, objective="max", bias=BIAS, mu=0.5, weighted=False):
    budget, weights = ln.Budget(mu=mu, neighbours=neighbours), WEIGHTS if weighted else None
    return ln.matrix_plan(irregular(), budget, objective=objective, bias=bias, weights=weights)


def worst_data(plan, query, rows):
    """All rows where an answer is furthest above its query."""
    counts = np.zeros(plan.items, dtype=np.int64)
    counts[int(np.argmax(plan.answered(query) - plan.row(query)))] = rows
    return counts


CASES = pytest.mark.parametrize("neighbours", NEIGHBOURS)
OBJECTIVES = pytest.mark.parametrize("objective", ["sum", "max"])

# --- what is answered -------------------------------------------------------------------------------------------------


@CASES
@OBJECTIVES
def test_biased_answers_are_within_the_bias(neighbours, objective):
    """Means of the answers by dense products, on data that attain the bound and on others."""
    plan = planned(neighbours, objective)
    W, rng = irregular(), np.random.default_rng(1)
    assert plan.requested is not None
    assert 0 < plan.bias <= BIAS
    means = plan.system.reading @ plan.system.strategy.astype(np.float64)
    for x in [*np.eye(16), *rng.multinomial(10_000, np.ones(16) / 16, size=20)]:
        assert (np.abs(means @ x - W @ x) <= plan.biases * x.sum()).all()
    assert np.abs(means - W).max() > 0.99 * plan.bias


@CASES
@OBJECTIVES
@pytest.mark.parametrize("weighted", [False, True])
def test_a_bias_never_adds_error(neighbours, objective, weighted):
    exact = planned(neighbours, objective, 0.0, weighted=weighted)
    weights = WEIGHTS if weighted else np.ones(12)
    power = 1 if objective == "sum" else np.inf
    before = np.linalg.norm(weights * exact.std_errors**2, power)
    for bias in (1e-9, 0.01, 0.05, 0.2):
        plan = planned(neighbours, objective, bias, weighted=weighted)
        assert np.linalg.norm(weights * plan.std_errors**2, power) <= before
        assert plan.cost.mu_squared <= plan.budget.exact_cost
    assert weighted or plan.requested is not None


def test_where_a_bias_does_not_help_there_is_none():
    plan = ln.matrix_plan(np.eye(4), ln.Budget(mu=1), bias=1e-3)
    assert plan.requested is None
    assert plan.bias == 0
    assert "off by" not in str(plan)


def near(W, bias, r, free=False):
    weights = np.ones(len(W))
    return nearest(W, bias, Near.of(W, gamma_r(W, r=r, gap=1e-4), free), r, weights, 1e-4)


@pytest.mark.parametrize("bias", [0.02, 0.1, 0.3])
def test_nearest_is_close_to_gamma_2_within_the_bias(bias):
    """For the largest variance against the certified floor of gamma_2(W, alpha)."""
    W = np.random.default_rng(3).random((6, 8))
    result = near(W, bias, np.inf)
    low = gamma_2_approximate(W, bias, 1e-3).lower
    assert low <= result.norm <= 1.03 * low
    assert result.lower <= low * (1 + 1e-2)


@pytest.mark.parametrize("bias", [0.02, 0.1, 0.3])
def test_nearest_is_between_the_best_and_the_queries(bias):
    """For the sum of variances, gamma_F of the best matrix within the bias is a semidefinite program."""
    W = np.random.default_rng(4).random((4, 6))
    X, V = cvxpy.Variable((10, 10), PSD=True), cvxpy.Variable((4, 6))
    limits = [X[:4, 4:] == V, cvxpy.diag(X)[4:] <= 1, cvxpy.abs(V - W) <= bias]
    best = sqrt(cvxpy.Problem(cvxpy.Minimize(cvxpy.trace(X[:4, :4])), limits).solve(solver="CLARABEL"))
    result = near(W, bias, 1.0)
    assert best * (1 - 1e-4) <= result.norm < gamma_r(W, r=1.0).value


@pytest.mark.parametrize("r", [1.0, np.inf])
@pytest.mark.parametrize("bias", [0.02, 0.3, 0.7])
def test_nearest_queries_are_within_the_bias(r, bias):
    W = np.random.default_rng(5).standard_normal((7, 5))
    result = near(W, bias, r)
    assert np.abs(result.queries - W).max() <= bias
    reading = result.queries @ np.linalg.pinv(result.strategy)
    assert_allclose(reading @ result.strategy, result.queries, atol=1e-8)
    power = 1 if r == 1 else np.inf
    assert np.linalg.norm(np.sum(reading**2, axis=1), power) <= result.norm**2 * (1 + 1e-6)


def test_constants_cost_nothing_where_a_row_replaces_another():
    """Queries with constants are no noisier than without, but for 0.2% by integers and the gap of the search for W~.

    A histogram attains its floor.
    """
    W, budget = irregular(), ln.Budget(mu=1, neighbours="replace")
    for bias in (0.0, BIAS):
        centred, other = (
            ln.matrix_plan(M, budget, objective="max", bias=bias) for M in (W - W.mean(axis=1, keepdims=True), W + 1)
        )
        assert other.max_std_error <= (1.002 + (NORM_GAP if bias else 0)) * centred.max_std_error
    identity = ln.matrix_plan(np.eye(4) + 1, budget, objective="max")
    assert identity.max_std_error == pytest.approx(identity.floor, rel=1e-3)


def test_rows_that_count_all_alike_make_no_difference():
    """Differences of columns by brute force in whole numbers, with a row that is too long for floats."""
    rows = np.random.default_rng(9).integers(-1_000, 1_000, (4, 6))
    heavy = Rows(np.concatenate([rows, np.full((1, 6), 2**29)]), (6,))
    columns = [[int(x) for x in column] for column in heavy.rows.T]
    brute = max(sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) for x in columns for y in columns)
    assert heavy.largest_difference == brute
    assert Rows(np.full((2, 3), 7), (3,)).largest_difference == 0


# --- intervals --------------------------------------------------------------------------------------------------------


@CASES
@pytest.mark.long
def test_intervals_cover_the_bias(neighbours):
    """400 runs on data that attain the bound: of 95% intervals fewer than 352 cover with a chance below 1e-8.

    The same intervals without the bias cover less than half of the time, so that the test would notice.
    """
    plan = planned(neighbours)
    counts = worst_data(plan, 3, 400)
    truth, covered, plain = float(plan.row(3) @ counts), 0, 0
    for seed in range(400):
        release = plan.run(counts, random_source=SeededRandomSource(seed))
        answer = release.ask(3)
        covered += answer.low <= truth <= answer.high
        plain += abs(answer.value - truth) <= 1.96 * answer.std_error
    assert covered >= 352
    assert plain < 200


@CASES
@pytest.mark.long
@pytest.mark.covering
@pytest.mark.parametrize("simultaneous", [True, "joint"])
def test_simultaneous_intervals_cover_the_bias(neighbours, simultaneous):
    """300 runs; fewer than 258 of 300 at once have a chance below 1e-8 at 95%."""
    plan = planned(neighbours)
    counts = worst_data(plan, 3, 400)
    truth, covered = irregular() @ counts, 0
    for seed in range(300):
        joint = plan.run(counts, random_source=SeededRandomSource(seed)).ask_many(range(12), simultaneous=simultaneous)
        covered += all(a.low <= t <= a.high for a, t in zip(joint, truth, strict=True))
    assert covered >= 258


def test_ends_of_a_bias_match_brute_force():
    """Errors of both ends, from the joint covariance of answers and rows; combinations add their shares."""
    rng = np.random.default_rng(6)
    C, t, shares = rng.standard_normal((3, 5)), rng.standard_normal(5), np.array([0.0, 0.1, 2.0])
    bias = Bias(shares, 40.0, t)
    joint = np.vstack([C, t]) @ np.vstack([C, t]).T
    for q, share in enumerate(shares):
        both = [joint[q, q] + 2 * sign * share * joint[q, 3] + share**2 * joint[3, 3] for sign in (1, -1)]
        assert bias.std_errors(C)[q] == pytest.approx(sqrt(max(both)))
    assert_allclose(bias.sizes, [0, 4, 80])
    total = Joint(np.arange(3.0), C, bias=bias).combine([1, -1, 0.5])
    assert total.bias == pytest.approx(44)
    assert total.std_error >= np.linalg.norm([1, -1, 0.5] @ C)
    assert total.high - total.value == pytest.approx(44 + quantile(0.95) * total.std_error)


def test_fewer_than_no_rows_have_no_bias():
    """The estimated number of rows may be negative; the bias is not."""
    assert Bias(np.ones(2), -3.0, np.ones(1)).sizes.tolist() == [0, 0]


def test_half_widths_of_a_plan_are_those_of_its_releases():
    plan = planned("replace")  # where the number of rows is known but for a little noise
    release = plan.run(worst_data(plan, 3, 2_000), random_source=SeededRandomSource(1))
    for simultaneous in (False, True):
        joint = release.ask_many(range(12), simultaneous=simultaneous)
        widest = max(answer.high - answer.value for answer in joint)
        assert plan.half_width(2_000, simultaneous=simultaneous) == pytest.approx(widest, rel=2e-3)


def test_other_questions_have_no_bias():
    """Conditions, statistics and linear queries are read from the integers without it."""
    plan = planned("add-remove")
    release = plan.run(worst_data(plan, 3, 400), random_source=SeededRandomSource(1))
    for question in ("item = 2", release.query(3)):
        assert release.ask(question).bias == 0
    assert release.ask("3").bias == pytest.approx(plan.biases[3] * release.total().value)
    assert release.ask(3).std_error < release.ask(release.query(3)).std_error
    W, V = irregular(), plan.system.queries
    share = np.abs(V[3] - V[4] - W[3] + W[4]).max()
    assert release.ask("3 - 4").bias == pytest.approx(share * release.total().value, rel=1e-3)
    mixed = release.ask_many(["3", "item = 2"])
    assert mixed.biases[0] > mixed.biases[1] == 0


# --- the largest error ------------------------------------------------------------------------------------------------


def test_expected_largest_bounds_a_simulation():
    """4,000 draws: their mean exceeds the bound by five standard errors in fewer than 1 of 10^6 runs."""
    for plan, rows in ((planned("add-remove", bias=0.0), 0), (planned("add-remove"), 400)):
        C = plan.noise_std * plan.system.reading
        off = 0 if plan.requested is None else (plan.system.queries - plan.requested) @ worst_data(plan, 3, rows)
        noise = np.random.default_rng(7).standard_normal((4_000, C.shape[1])) @ C.T
        largest = np.abs(noise + off).max(axis=1)
        assert largest.mean() <= plan.expected_largest(rows) + 5 * largest.std() / sqrt(4_000)
        assert plan.expected_largest(rows) <= 1.5 * largest.mean()


@pytest.mark.parametrize("sizes", [[1.0], [1.0, 1.0], [3.0, 0.0, 1.0, 1.0], list(np.geomspace(0.01, 2, 60))])
def test_expected_largest_of_independent_errors(sizes):
    """200,000 draws within five standard errors: a false alarm in fewer than 1 of 10^6 runs."""
    s = np.array(sizes)
    largest = np.abs(np.random.default_rng(8).standard_normal((200_000, len(s))) * s).max(axis=1)
    assert abs(expected_largest_of(s) - largest.mean()) <= 5 * largest.std() / sqrt(200_000)
    assert expected_largest_of(0 * s) == 0


# --- what the bounds promise ------------------------------------------------------------------------------------------


@pytest.mark.long
def test_enough_people_are_enough_for_the_mechanism():
    """With as many people as the bounds say, a plan with one of the biases that they try keeps all errors at alpha.

    The noise is measured in integers, which costs less than 0.2%. 200 runs on data that attain the bias: fewer than
    166 inside have a chance below 1e-8 at 95%.
    """
    W, alpha = irregular(64, 64, 0.3, 0.2), 0.4
    budget = ln.Budget(epsilon=1, delta=1e-6, neighbours="replace")
    bounds = Question.of(W, 1, 1e-6)._gaussian("central", "", alpha, 1.0)
    people = {b.who: b.people for b in bounds}
    n = people[NEAR]
    assert n < 0.8 * people[EXACT]
    plans = [ln.matrix_plan(W, budget, objective="max", bias=share * alpha) for share in BIASES]
    plan = min(plans, key=lambda p: p.half_width(n))
    assert plan.bias * n + Error("max").size(plan.std_errors) <= 1.002 * alpha * n
    counts = worst_data(plan, 3, n)
    errors = [
        np.abs(plan.run(counts, random_source=SeededRandomSource(seed)).values - W @ counts).max()
        for seed in range(200)
    ]
    assert np.sum(np.array(errors) <= alpha * n) >= 166


# --- said everywhere --------------------------------------------------------------------------------------------------


def test_the_bias_is_said(tmp_path):
    plan = planned("add-remove")
    release = plan.run(worst_data(plan, 3, 400), random_source=SeededRandomSource(1), out=tmp_path / "out")
    said = "may be off by 5% of the rows"
    assert said in str(plan)
    for one in (release, ln.load(tmp_path / "out")):
        assert said in one.privacy.statement
        assert said in one.describe()["holds"]
        assert one.describe()["bias"] == plan.bias
        assert "with a bias of" in one._repr_html_()
        assert str(one.ask(3)).endswith(f"with a bias of {one.ask(3).bias:.1f} at most")
        frame = one.answer()
        assert_allclose(frame["bias"], plan.biases * one.total().value)
        assert_allclose(frame["high"], frame["answer"] + frame["bias"] + quantile(0.95) * frame["std_error"])
        page = document(one)
        assert said in render(page)
        assert "unbiased" not in render(page)
        assert_allclose([row["bias"] for row in page["rows"]], frame["bias"])
    assert "bias" not in one.answer(ln.Workload(one.domain).total())


def test_saved_plans_have_what_is_answered(tmp_path):
    plan = planned("add-remove")
    plan.run(worst_data(plan, 3, 400), random_source=SeededRandomSource(1), out=tmp_path / "out")
    loaded = ln.load(tmp_path / "out").plan
    assert loaded.fingerprint == plan.fingerprint
    assert loaded.fingerprint != planned("add-remove", bias=0.04).fingerprint
    assert_allclose(loaded.requested, irregular())
    assert_allclose(loaded.system.queries, plan.system.queries)


@pytest.mark.parametrize("name", [name for name in KINDS if "bias" in name])
def test_kinds_of_the_contract_have_a_bias(name):
    mechanism: Mechanism = KINDS[name].mechanism()
    assert mechanism.bias > 0


def test_an_answer_without_bias_says_nothing():
    assert "bias" not in Answer(3.0, 1.0).to_json()
    assert "bias" not in str(Answer(3.0, 1.0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bias": -0.1}, "bias -0.1 is not a share of the rows"),
        ({"bias": "a"}, "bias 'a' is not a share of the rows"),
        ({"bias": float("nan")}, "bias nan is not a share of the rows"),
        ({"bias": 0.96}, "answers of 0 are within 0.95"),
    ],
)
def test_mistakes_are_one_line(options, message):
    with pytest.raises(LeastnoiseError, match=message) as error:
        ln.matrix_plan(irregular(), ln.Budget(mu=1), **options)
    assert "\n" not in str(error.value)


def test_more_mistakes_are_one_line():
    with pytest.raises(LeastnoiseError, match="constants are within"):
        ln.matrix_plan(irregular(), ln.Budget(mu=1, neighbours="replace"), bias=0.46)
    with pytest.raises(LeastnoiseError, match="have no bias; leave it out"):
        ln.matrix_plan(ln.running_totals(2_000), ln.Budget(mu=1), bias=0.1)
    with pytest.raises(LeastnoiseError):
        Stream(ln.matrix_plan(ln.running_totals(8), ln.Budget(mu=1), bias=0.3))


def test_specs_state_a_bias():
    text = KINDS["matrix with a bias"].text
    assert parse_spec(text).bias == 0.1
    with pytest.raises(LeastnoiseError, match="a bias needs 'method: matrix'") as error:
        parse_spec(text.replace("method: matrix", "method: plan"))
    assert str(error.value).startswith("spec line 5")
    for bad in ("0", "-1", ".nan"):
        with pytest.raises(LeastnoiseError, match=r"spec line 5: bias is .*0.01"):
            parse_spec(text.replace("bias: 0.1", f"bias: {bad}"))
