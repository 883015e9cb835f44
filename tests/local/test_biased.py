"""Plans with a bias: the bound holds exactly, noise is what is computed, intervals cover whatever the data are."""

from dataclasses import replace

import cvxpy
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtr

from leastnoise import Domain, LeastnoiseError, Workload
from leastnoise.local import Collector, files, load_plan, local_plan, save_plan, simulate
from leastnoise.local.biased import MOST_CELLS, half_range, noise_form, query_form
from leastnoise.local.gauss import GaussianVectors
from leastnoise.local.plan import targets
from leastnoise.local.subsets import Subsets
from leastnoise.noise import SeededRandomSource
from leastnoise.release.answers import half_widths
from leastnoise.storage.archive import Archive
from leastnoise.strategies.nearest import cheapest
from leastnoise.theory import examples_needed, learn, learning_plan, parities
from tests.local.cases import records

T = 16
SCORES = np.random.default_rng(0).random((12, T))


def scores_work(rows=SCORES):
    return Workload(Domain.of(x=range(rows.shape[1]))).add({"matrix": rows}, on=["x"])


def irregular(values=64, queries=32, size=0.05):
    """Something simple, and a small irregular part."""
    left, right = (np.where(np.arange(n) % 3 == 0, -1, 1) for n in (queries, values))
    return (
        0.5 + 0.4 * np.outer(left, right) + size * np.sign(np.random.default_rng(0).standard_normal((queries, values)))
    )


def work_of(kind):
    if kind == "pairs":
        return Workload(Domain.of(a=range(3), b=["u", "v"], c=range(4))).marginals(ways=2)
    return scores_work()


@pytest.fixture(scope="module", params=["scores", "half space", "cap", "gaussian", "tables", "residuals", "split"])
def plan(request):
    name = request.param
    if name in ("tables", "residuals", "split"):
        return local_plan(work_of("pairs"), 6 if name == "split" else 1, layout=name, bias=0.04)
    kind = "subsets" if name == "scores" else name
    return local_plan(work_of("scores"), 1, 1e-5, randomizer=kind, bias=0.04)


# --- rows of least variance -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [0.02, 0.1, 0.4])
def test_cheapest_rows_match_a_cone_solver(bias):
    plan = local_plan(scores_work(), 1)
    H = query_form(plan, plan.queries[0])
    root = np.linalg.cholesky(H + 1e-9 * np.eye(T) * np.trace(H)).T
    values = cheapest(SCORES, bias + 8e-6, H, gap=1e-6)  # it keeps some room
    for w, x in zip(SCORES, values, strict=True):
        v = cvxpy.Variable(T)
        best = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(root @ v)), [cvxpy.abs(v - w) <= bias]).solve()
        assert x @ H @ x == pytest.approx(best, rel=1e-4, abs=1e-5)


def test_bias_is_never_exceeded():
    rng = np.random.default_rng(1)
    for bias in (1e-9, 1e-4, 0.003, 0.3):
        rows, root = rng.standard_normal((20, 9)) * 10, rng.standard_normal((9, 9))
        assert np.abs(cheapest(rows, bias, root.T @ root) - rows).max() <= bias


@pytest.mark.parametrize("kind", ["subsets", "cap", "gaussian"])
def test_forms_are_variances_at_equal_frequencies(kind):
    randomizer = local_plan(scores_work(np.eye(T)), 1, 1e-5, randomizer=kind).parts[0].randomizer
    rows = SCORES - SCORES.mean(axis=1, keepdims=True)
    moments = randomizer.moments(rows).mean(axis=1)
    if kind == "gaussian":
        moments = moments - (rows**2).mean(axis=1)  # of the value itself
    # caps: what noise along the vector has more than across it, some percent
    assert_allclose(
        np.einsum("qx,xy,qy->q", rows, noise_form(randomizer), rows), moments, rtol=0.05 if kind == "cap" else 1e-6
    )


def test_forms_of_several_tables_add_up():
    plan = local_plan(work_of("pairs"), 1, layout="tables")
    queries = plan.queries[1]
    expected = np.zeros(len(queries.rows))
    for i, rows in targets(plan.parts, queries).items():
        expected += plan.parts[i].randomizer.moments(rows).mean(axis=1) / plan.parts[i].fraction
    H = query_form(plan, queries)
    assert_allclose(np.einsum("qx,xy,qy->q", queries.rows, H, queries.rows), expected, rtol=1e-6)


# --- plans ------------------------------------------------------------------------------------------------------------


def test_biased_answers_are_within_the_bias(plan):
    """What answers are on average, record by record, against what was asked: enumerated from all possible reports."""
    for queries in plan.queries:
        assert queries.bias.max() <= plan.bias == 0.04
        assert_allclose(queries.bias, np.abs(queries.effective_rows - queries.rows).max(axis=1), atol=4e-6)
        codes = np.array(list(np.ndindex(*plan.domain.shape)))
        mean = np.repeat(queries.pieces[()][:, None], len(codes), axis=1)
        for i, rows in targets(plan.parts, queries).items():
            part = plan.parts[i]
            cells = np.ravel_multi_index([codes[:, a] for a in part.attributes], part.shape)
            mean += _means(part.randomizer, rows)[:, cells]
        cells = np.ravel_multi_index([codes[:, a] for a in queries.attributes], queries.shape)
        assert (np.abs(mean - queries.rows[:, cells]).max(axis=1) <= queries.bias).all()


def _means(randomizer, rows):
    """Exact mean of the estimates under every value."""
    if isinstance(randomizer, Subsets):
        return randomizer.estimators(rows) @ randomizer.probabilities()
    vectors = randomizer.columns * (4096 * randomizer.gain if hasattr(randomizer, "gain") else 1)
    h = randomizer.estimators(rows)
    return h[:, :-1] @ vectors + h[:, -1:]


def test_a_bias_never_adds_variance(plan):
    kinds = {Subsets: "subsets", GaussianVectors: "gaussian"}
    kind = kinds.get(type(plan.parts[0].randomizer)) or (
        "half space" if plan.parts[0].randomizer.choice.candidates == 2 else "cap"
    )
    plain = local_plan(plan.workload, plan.epsilon, 1e-5, layout=plan.layout, randomizer=kind)
    assert plan.weighted_std_error < 0.95 * plain.weighted_std_error


def test_vectors_that_do_not_tell_every_query_have_no_form():
    randomizer = local_plan(scores_work(), 1, randomizer="cap").parts[0].randomizer
    assert noise_form(randomizer) is None


def test_simulated_answers_have_the_stated_mean_and_variance(plan):
    codes, n, runs = records(plan, 1_000), 1_000, 200
    queries = plan.queries[0]
    results = []
    for seed in range(runs):
        collector = Collector(plan)
        collector.add_block(simulate(plan, codes, SeededRandomSource(seed)))
        results.append(collector.answers()[0])
    values = np.array([f.values for f in results])
    cells = np.ravel_multi_index([codes[:, a] for a in queries.attributes], queries.shape)
    variances = plan.variances(queries, codes)
    message, query = (r[:, cells].sum(axis=1) for r in (queries.effective_rows, queries.rows))
    assert (np.abs(values.mean(axis=0) - message) < 4.5 * np.sqrt(variances / runs)).all()  # 12 at most: one in 10,000
    assert np.abs(message - query).max() <= 0.04 * n
    # a mean over queries that depend on each other: its standard error is 10% at most
    assert_allclose((values.var(axis=0, ddof=1) / variances).mean(), 1, atol=0.4)
    assert_allclose(results[0].biases, n * queries.bias)


def test_biased_plans_come_back_the_same(plan, tmp_path):
    save_plan(plan, tmp_path / "plan")
    back = load_plan(tmp_path / "plan")
    assert back.fingerprint == plan.fingerprint
    assert back.bias == 0.04
    assert all((a.effective_rows == b.effective_rows).all() for a, b in zip(plan.queries, back.queries, strict=True))
    other = replace(plan, bias=0.05)
    assert other.fingerprint != plan.fingerprint


def test_like_tables_share_their_rows():
    work = Workload(Domain.of({f"q{i}": range(4) for i in range(5)})).marginals(ways=2)
    plan = local_plan(work, 1, layout="residuals", bias=0.05)
    header, arrays = plan.data()
    assert len(plan.queries) == 10
    assert sum(name.startswith("answered") for name in arrays) == len({*header["approximations"]}) < 10


def test_totals_beside_tables_stay_as_they_are():
    work = Workload(Domain.of(x=range(8))).total().add({"matrix": SCORES[:4, :8]}, on=["x"])
    plan = local_plan(work, 1, bias=0.04)
    assert plan.approximations[0] is None
    assert plan.approximations[1].shape == (4, 8)
    collector = Collector(plan)
    collector.add_block(simulate(plan, records(plan, 700), SeededRandomSource(1)))
    total, scores = collector.answers()
    assert (total.values[0], total.std_errors[0], total.biases[0]) == (700, 0, 0)
    assert (scores.biases <= 28).all()


def test_plans_beyond_their_bias_are_refused(tmp_path):
    plan = local_plan(scores_work(), 1, bias=0.04)
    header, arrays = replace(plan, bias=0.01).data()
    with pytest.raises(LeastnoiseError, match=r"answers queries beyond its bias of 0\.01; make it again"):
        assert replace(plan, bias=0.01).queries
    forged = {"fingerprint": plan.fingerprint, **header}
    Archive(forged, arrays).save(tmp_path / "plan", files.PLAN)
    with pytest.raises(LeastnoiseError, match="was changed after it was saved"):
        load_plan(tmp_path / "plan")
    fewer = {k: a for k, a in arrays.items() if k != "answered0"}
    Archive(forged, fewer).save(tmp_path / "plan", files.PLAN)
    with pytest.raises(LeastnoiseError, match="is damaged"):
        load_plan(tmp_path / "plan")


# --- intervals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("confidence", [0.3, 0.95, 0.999])
def test_half_widths_cover_exactly_at_the_bias(confidence):
    b = np.array([0, 0.01, 0.5, 1, 3, 50])
    c = half_widths(2.0, b, confidence)
    assert_allclose(ndtr((c - b) / 2) - ndtr(-(c + b) / 2), confidence, atol=1e-12)
    smaller = ndtr((c - b / 2) / 2) - ndtr(-(c + b / 2) / 2)
    assert (smaller >= confidence - 1e-12).all()
    assert half_widths(0.0, 3.0, confidence) == 3


@pytest.mark.long
@pytest.mark.parametrize("record", ["worst", "mixed"])
def test_intervals_cover_whatever_the_bias(record):
    """Data on which the answer of a query is as far off as allowed, and data on which it is not."""
    rows = irregular(32, 8)
    plan, n, runs = local_plan(scores_work(rows), 1, bias=0.05), 400, 500
    queries = plan.queries[0]
    assert queries.bias.max() > 0.049
    at = np.abs(queries.effective_rows - queries.rows).argmax(axis=1)
    inside = []
    for seed in range(runs):
        q = seed % len(rows)
        codes = np.full((n, 1), at[q]) if record == "worst" else np.random.default_rng(seed).integers(0, 32, (n, 1))
        collector = Collector(plan)
        collector.add_block(simulate(plan, codes, SeededRandomSource(seed)))
        local_answers, truth = collector.answers()[0], rows[q, codes[:, 0]].sum()
        inside.append(local_answers.low[q] <= truth <= local_answers.high[q])
    # a standard error of 1%: one false alarm in 30,000; elsewhere intervals cover more
    assert np.mean(inside) > 0.91
    assert np.mean(inside) < 0.99 or record == "mixed"


def test_answers_show_their_bias():
    plan = local_plan(scores_work(), 1, bias=0.04)
    collector = Collector(plan)
    collector.add_block(simulate(plan, records(plan, 500), SeededRandomSource(1)))
    local_answers = collector.answers()[0]
    one = local_answers[3]
    assert (one.low, one.high) == pytest.approx((local_answers.low[3], local_answers.high[3]))
    assert one.to_json()["bias"] == local_answers.biases[3] <= 20
    assert str(one).endswith(f" with a bias of {one.bias:,.1f} at most")
    assert one.high - one.value > 1.645 * one.std_error + one.bias
    others = collector.rows(["x"], SCORES[:2])
    assert (others.biases == 0).all()  # other questions are answered without bias
    assert "bias" not in str(others[0])


def test_half_widths_are_those_of_intervals():
    plan = local_plan(scores_work(), 1, bias=0.04)
    (queries,) = plan.queries
    expected = half_widths(np.sqrt(plan.worst_variances(queries) / 900), queries.bias, 0.9).max()
    assert plan.half_width(900, 0.9) == pytest.approx(expected)
    with pytest.raises(LeastnoiseError, match="0 devices report nothing"):
        plan.half_width(0)


# --- where it pays ----------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_it_pays_for_small_irregular_parts():
    """Half of the error is spent on a part that is a twentieth of the answers."""
    plain, biased = (local_plan(scores_work(irregular()), 1, bias=b) for b in (0, 0.05))
    assert biased.worst_std_error < 0.65 * plain.worst_std_error
    assert biased.half_width(300) < 0.9 * plain.half_width(300)


@pytest.mark.long
@pytest.mark.parametrize("name", ["prefixes", "parities"])
def test_it_hardly_pays_for_yes_or_no_queries(name):
    """There the best replacement is about the query itself, nearer to the middle of its range."""
    rows = np.tril(np.ones((T, T))) if name == "prefixes" else (1 + parities(4, 2)) / 2
    plain, biased = (local_plan(scores_work(rows), 1, bias=b) for b in (0, 0.05))
    assert 0.85 * plain.worst_std_error < biased.worst_std_error < 0.91 * plain.worst_std_error
    assert plain.half_width(2000) < biased.half_width(2000)
    assert local_plan(scores_work(rows), 1, devices=2000).bias == 0


@pytest.mark.long
def test_devices_choose_the_bias():
    work = scores_work(irregular())
    plain, few, many = (local_plan(work, 1), local_plan(work, 1, devices=300), local_plan(work, 1, devices=10**8))
    assert 0 < few.bias < 0.1
    assert few.half_width(300) < 0.9 * plain.half_width(300)
    assert many.bias == 0
    assert many.fingerprint == plain.fingerprint


@pytest.mark.long
def test_the_middle_is_enough():
    work = scores_work()
    half = half_range(local_plan(work, 1))
    with pytest.raises(LeastnoiseError, match=r"at a bias of 0\.5 no device needs to report"):
        local_plan(work, 1, bias=0.5)
    assert half < 0.5
    with pytest.raises(LeastnoiseError, match="3 devices are too few: 95% intervals would be within"):
        local_plan(work, 1, devices=3)


def test_constant_rows_need_no_noise():
    """A query whose range is small is answered by its middle; the others are not."""
    rows = np.vstack([SCORES[:3], 0.3 + 0.05 * SCORES[3:4]])
    plan = local_plan(scores_work(rows), 1, bias=0.04)
    variances = plan.worst_variances(plan.queries[0])
    assert variances[3] < 1e-4 < 0.1 < variances[:3].min()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: local_plan(scores_work(), 1, bias=-0.1), r"bias -0\.1 is not a share of the devices"),
        (lambda: local_plan(scores_work(), 1, bias=np.nan), "bias nan is not a share of the devices"),
        (lambda: local_plan(scores_work(), 1, bias=0.1, devices=100), "give a bias or a number of devices"),
        (lambda: local_plan(scores_work(), 1, bias="much"), "bias 'much' is not a share of the devices"),
        (
            lambda: replace(local_plan(scores_work(), 1), bias=0.1, approximations=(None, None)),
            "does not say what is answered in every table; make it again",
        ),
        (
            lambda: replace(local_plan(scores_work(), 1), bias=-1.0),
            r"bias -1\.0 is not a share of the devices; use a number from 0 on",
        ),
        (
            lambda: replace(local_plan(scores_work(), 1), bias=0.1, approximations=(np.ones((2, 2)),)).queries,
            r"\(12, 16\) queries cannot be answered by \(2, 2\) others",
        ),
    ],
)
def test_what_cannot_be(make, message):
    with pytest.raises(LeastnoiseError, match=message):
        make()


def test_large_tables_have_no_bias():
    work = Workload(Domain.of(x=range(MOST_CELLS + 2))).add({"matrix": np.eye(2, MOST_CELLS + 2)}, on=["x"])
    with pytest.raises(LeastnoiseError, match="2,050 cells is too large for a bias; use at most 2,048"):
        local_plan(work, 1, bias=0.1)


# --- learning ---------------------------------------------------------------------------------------------------------


def test_learning_with_a_bias_counts_it():
    concepts = parities(3, 2)
    plain, biased = learning_plan(concepts, 1), learning_plan(concepts, 1, bias=0.1)
    assert biased.worst_std_error < plain.worst_std_error
    collector = Collector(biased)
    codes = np.stack([np.arange(4_000) % 8, (concepts[4, np.arange(4_000) % 8] > 0).astype(int)], axis=1)
    collector.add_block(simulate(biased, codes, SeededRandomSource(1)))
    learned = learn(collector)
    assert learned.concept == 4
    assert learned.loss <= learned.loss_error  # the true loss is 0
    assert learned.loss_error > 0.05
    assert examples_needed(biased, 0.3) > examples_needed(plain, 0.3)  # it does not pay here
    with pytest.raises(LeastnoiseError, match=r"no number of devices reaches an excess of 0\.09 with a bias of 0\.1"):
        examples_needed(biased, 0.09)
