"""Sample complexity: enough is enough, too few are too few, and nothing contradicts."""

import json
from itertools import pairwise, product
from math import exp, sinh
from xml.etree import ElementTree

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import brentq
from scipy.stats import binom, norm

import leastnoise as ln
from leastnoise.privacy.gaussian import mu_for
from leastnoise.strategies.differences import largest_difference
from leastnoise.strategies.norms import gamma_2
from leastnoise.theory import ANY, EXACT, Question, sample_complexity, sample_complexity_curves
from leastnoise.theory.floors import _misleads, overlap, two_datasets, two_populations, unbiased_reports
from leastnoise.theory.tails import Error, Reports, people
from tests.local.cases import KINDS as RANDOMIZERS
from tests.local.cases import PREFIX, randomizers
from tests.refusals import refusal
from tests.shell import call

EPSILON, DELTA = 1.0, 1e-9
MU = mu_for(EPSILON, DELTA)
WORKLOADS = {
    "one query": np.array([[1.0, 0.0]]),
    "histogram": np.eye(6),
    "cdf": np.tri(12),
    "parities": np.array([[(-1.0) ** bin(s & x).count("1") for x in range(8)] for s in range(1, 8)]),
    "marginals": [np.array([[1.0, 1.0], [1.0, 0.0]])] * 3,
    "unlike ranges": np.array([[1.0, 5.0, 2.0], [0.1, 0.0, 0.2]]),
}
KINDS = ["max", "worst", "rms"]


def dense(W):
    if isinstance(W, list):
        K = np.ones((1, 1))
        for factor in W:
            K = np.kron(K, factor)
        return K
    return W


@pytest.mark.covering("name kind", "epsilon")
@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 4.0])
def test_floors_are_below_every_mechanism(name, kind, epsilon):
    for alpha in (0.3, 0.05, 0.002):
        result = sample_complexity(WORKLOADS[name], alpha, epsilon=epsilon, delta=DELTA, error=kind)
        for model in ("central", "local"):
            of_model = [b for b in result.all if b.model == model]
            assert result.lower(model).people <= result.upper(model).people
            # a class of mechanisms is compared with its members: exact factorizations, unbiased reports
            for privacy in ("epsilon and delta", "epsilon"):
                members = [b.people for b in of_model if b.privacy == privacy and b.who.startswith((EXACT, "Gaussian"))]
                classes = [b.people for b in of_model if b.privacy == privacy and b.side == "too few"]
                assert max(classes, default=0) <= min(members, default=np.inf)


@pytest.mark.covering
@pytest.mark.long
@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("kind", KINDS)
def test_bounds_fall_in_alpha(name, kind):
    frame = sample_complexity_curves(WORKLOADS[name], [0.02, 0.05, 0.1, 0.2], epsilon=EPSILON, delta=DELTA, error=kind)
    for _, rows in frame.groupby(["model", "side", "who", "privacy"]):
        assert (np.diff(rows["people"].to_numpy()) <= 0).all()


@pytest.mark.long
def test_bounds_fall_in_epsilon():
    results = [sample_complexity(WORKLOADS["cdf"], 0.05, epsilon=e, delta=DELTA) for e in (0.3, 1.0, 3.0)]
    for one, other in pairwise(results):
        assert all(a.people >= b.people for a, b in zip(one.all, other.all, strict=True) if "subsets" not in a.who)


@pytest.mark.parametrize("name", ["histogram", "cdf", "unlike ranges"])
def test_enough_is_enough(name):
    """Simulated central mechanisms keep all errors within alpha as often as stated."""
    # 4,000 draws: five standard errors of a share of 0.95 are 0.0172; false alarms below 1e-6 per case.
    W, alpha, rng = WORKLOADS[name], 0.05, np.random.default_rng(1)
    entries = {
        b.who: b.people for b in sample_complexity(W, alpha, epsilon=EPSILON, delta=DELTA).all if b.model == "central"
    }
    noise = rng.normal(size=(4000, len(W))) * largest_difference([W]) / MU / entries["Gaussian mechanism"]
    inside = np.mean(np.abs(noise).max(axis=1) <= alpha)
    assert abs(inside - 0.95) < 0.0172 + 0.003  # independent errors: Sidak's bound is exact, up to whole people
    question = Question.of(W, EPSILON, DELTA)
    part = question.solved[int(np.argmin(question._sizes))][1].parts[0]
    noise = rng.normal(size=(4000, len(part.A))) @ part.R.T * largest_difference([part.A]) / MU / entries[EXACT]
    assert np.mean(np.abs(noise).max(axis=1) <= alpha) > 0.95 - 0.0172


def test_enough_reports_are_enough():
    """Simulated subsets, on data that are hard for them, keep all errors within alpha."""
    # 400 runs at a confidence of at least 0.95: fewer than 0.95 - 0.054 inside has a chance below 1e-6.
    W, alpha, rng = np.tri(4), 0.2, np.random.default_rng(2)
    question = Question.of(W, EPSILON)
    n = next(b.people for b in question.at(alpha).all if "subsets" in b.who)
    Q, h = question.subsets.probabilities(), question.subsets.estimators(question.dense)
    held = rng.integers(0, 4, n)
    truth = question.dense[:, held].mean(axis=1)
    counts = sum(rng.multinomial(c, Q[:, x] / Q[:, x].sum(), size=400) for x, c in enumerate(np.bincount(held)))
    assert np.mean(np.abs(counts @ h.T / n - truth).max(axis=1) <= alpha) > 0.95 - 0.054


@pytest.mark.parametrize("name", RANDOMIZERS)
def test_chernoff_is_below_bernstein(name):
    """With the moments of a report no more people are needed than with its variance and its reach."""
    randomizer, confidence = randomizers()[name], 0.95
    variances = np.maximum(randomizer.moments(PREFIX) - PREFIX**2, 0.0)
    reach = randomizer.influence(PREFIX) + np.abs(PREFIX).max(axis=1)
    reports = Reports(variances, lambda t: randomizer.log_moments(PREFIX, t))
    for alpha in (0.001, 0.05, 0.3, 2.0):
        rates = alpha**2 / (2 * (variances.max(axis=1) + reach * alpha / 3))
        bernstein = brentq(lambda n, r=rates: 2 * np.exp(-n * r).sum() - 1 + confidence, 0, 1e3 / rates.min())
        assert reports.people(alpha, Error("max", confidence)) <= np.ceil(bernstein * (1 + 1e-5))


# --- small cases by hand ----------------------------------------------------------------------------------------------


def test_one_query_by_hand():
    entries = {(b.model, b.who): b.people for b in sample_complexity([[1, 0]], 0.05, epsilon=1, delta=DELTA).all}
    assert entries["central", "Gaussian mechanism"] == int(np.ceil(norm.isf(0.025) / MU / 0.05))
    assert entries["local", "Gaussian mechanism"] == int(np.ceil((norm.isf(0.025) / MU / 0.05) ** 2))
    # ln(2 * 0.95 / 0.05) = 3.64: three changes up or down leave datasets confused, 3 / n > 2 alpha for n < 30
    assert entries["central", ANY] == 30


def test_one_query_is_nearly_tight():
    """Randomized response has variance 1 / 4 sinh(epsilon/2)^2; one-sided and two-sided tails differ by 42%."""
    for epsilon, alpha in product((0.1, 1.0), (0.05, 0.01)):
        gaussian = (norm.isf(0.025) / (2 * alpha * sinh(epsilon / 2))) ** 2
        assert 0.6 < two_populations(1.0, alpha, epsilon, Error("max")) / gaussian < 1


def test_unbiased_floor_of_one_query():
    entries = {b.who: b.people for b in sample_complexity([[1, 0]], 0.01, epsilon=1, error="worst").all}
    floor, response = entries["unbiased reports that do not wait for others"], 1 / (4 * sinh(0.5) ** 2) / 0.01**2
    assert floor == pytest.approx(response - 0.25 / 0.01**2, rel=1e-3)  # the sampling of people is not their fault
    assert entries[f"{EXACT}, subsets"] == pytest.approx(response, rel=1e-3)


def test_reports_tell_no_more_than_stated():
    """Fisher's information of any report: brute force over channels with two outcomes, and random ones."""
    rng = np.random.default_rng(0)
    for epsilon in (0.3, 1.0, 3.0):
        largest = 0.0
        for _ in range(2000):
            s = rng.dirichlet(np.ones(4))
            b = rng.integers(0, 2, (6, 4)) if rng.random() < 0.5 else rng.random((6, 4))
            q = 1 + (exp(epsilon) - 1) * b
            mean = q @ s
            largest = max(largest, float((((q - mean[:, None]) ** 2) @ s / mean**2).max()))
        assert largest <= sinh(epsilon / 2) ** 2 * (1 + 1e-9)
        assert largest >= 0.8 * sinh(epsilon / 2) ** 2


def test_sums_mislead_as_often_as_computed():
    for n, a, epsilon in [(5, 0.1, 1.0), (8, 0.2, 0.5), (40, 0.05, 2.0)]:
        many, p = int(n * (0.5 + a)) + 1, 1 / (1 + exp(-epsilon))
        chance = np.convolve(binom.pmf(range(many + 1), many, p), binom.pmf(range(n - many + 1), n - many, 1 - p))
        sums = np.arange(n + 1)
        expected = chance[sums < n / 2].sum() + chance[sums == n / 2].sum() / 2
        assert_allclose(_misleads(n, a, epsilon), expected, rtol=1e-9)
    for a in (0.001, 0.01):  # the bound for many people is below what it bounds, and close
        assert _misleads(5001, a, 1.0) < _misleads(4999, a, 1.0) < _misleads(5001, a, 1.0) + 0.02


def test_overlap_is_that_of_randomized_response():
    p = exp(1.0) / (1 + exp(1.0))
    assert_allclose(overlap(1, 1.0, 0.0), 2 * (1 - p))
    assert overlap(10**6, 1.0, 1e-9) == 0
    assert two_datasets(1.0, 1.0, 0.6, 1.0, 0.0, Error("max")) == 1  # constants are accurate enough


def test_sizes_of_errors_by_hand():
    assert_allclose(Error("max").size(np.ones(3)), norm.isf((1 - 0.95 ** (1 / 3)) / 2))
    assert_allclose(Error("max").size(np.ones(1), 3), Error("max").size(np.ones(3)))
    mixed = Error("max", 0.9).size(np.array([1.0, 2.0, 0.0]))
    assert_allclose((1 - 2 * norm.sf(mixed)) * (1 - 2 * norm.sf(mixed / 2)), 0.9)
    assert people(10.1, 0.5) == 21
    assert people(10.1, 0.5, power=0.5) == 409
    n = Reports(np.array([[4.0]]), lambda t: 2 * t[:, None] ** 2).people(0.1, Error("max"))  # Gaussian reports
    assert_allclose(2 * np.exp(-n * 0.01 / (2 * 4)), 0.05, rtol=1e-2)
    assert Reports(np.zeros((2, 1)), lambda t: 0 * t[:, None]).people(0.1, Error("max")) == 1
    assert unbiased_reports(0.0, 1.0, 0.1, 1.0) == 1


def test_accuracy_that_needs_no_data():
    result = sample_complexity([[1, 0]], 0.5, epsilon=1, delta=DELTA)
    assert result.upper("central").people == result.upper("local").people == 1
    assert result.upper("local").who == "constants, without data"
    same = sample_complexity([[1, 1]], 0.1, epsilon=1, delta=DELTA)  # everybody adds the same
    assert all(b.people == 1 for b in same.all)


@pytest.mark.long
def test_kronecker_products_are_kept():
    factors = WORKLOADS["marginals"]
    kept, whole = (Question.of(W, EPSILON, DELTA, "worst") for W in (factors, dense(factors)))
    assert_allclose(kept.solved[0][1].value, gamma_2(dense(factors)).value, rtol=1e-3)
    assert kept.at(0.05).queries == 8
    assert abs(kept.factorized / whole.factorized - 1) < 1e-3
    wide = sample_complexity(
        [np.tri(64)] * 4, 0.05, epsilon=1, delta=DELTA
    )  # nothing of the size of the product is formed
    assert wide.queries == 64**4
    assert wide.upper("central").who == EXACT


@pytest.mark.long
def test_workloads_are_matrices():
    domain = ln.Domain.of(age=range(8), sex=range(2))
    one = sample_complexity(ln.Workload(domain).prefix("age"), 0.1, epsilon=1, delta=DELTA)
    assert one.all == sample_complexity(np.tri(8), 0.1, epsilon=1, delta=DELTA).all
    both = sample_complexity(ln.Workload(domain).prefix("age").marginals("sex", ways=1), 0.1, epsilon=1, delta=DELTA)
    assert (both.queries, both.cells) == (10, 16)
    product = Question.of(ln.Workload(domain).prefix("age", "sex", ways=2), 1.0)
    assert len(product.factors) == 2


AGES = ln.Workload(ln.Domain.of(age=range(6), sex=range(2)))
WEIGHTS = [1.0, 4.0, 9.0, 1.0, 0.25, 2.0]
WEIGHTED = {  # a workload, and its rows times the roots of their weights, over ages or ages and sexes
    "block": (AGES.prefix("age", weight=4), 2 * np.tri(6)),
    "rows": (AGES.add("prefix", on=["age"], weights=WEIGHTS), np.sqrt(WEIGHTS)[:, None] * np.tri(6)),
    "product": (AGES.prefix("age", "sex", ways=2, weight=9), 3 * np.kron(np.tri(6), np.tri(2))),
    "blocks": (
        AGES.prefix("age", weight=4).marginals("sex", ways=1),
        np.vstack([2 * np.kron(np.tri(6), [1, 1]), np.kron(np.ones((1, 6)), np.eye(2))]),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", WEIGHTED)
def test_weights_of_a_workload_count(name, kind):
    """An error counts times the root of its query's weight, in both models; and the output says so."""
    workload, rows = WEIGHTED[name]
    question = Question.of(workload, EPSILON, DELTA, kind)
    assert_allclose(dense(list(question.factors)), rows)
    result = question.at(0.2)
    if name != "product":  # whose factors are kept
        assert result.all == sample_complexity(rows, 0.2, epsilon=EPSILON, delta=DELTA, error=kind).all
    assert "an error counts times the root of its query's weight" in str(result)
    assert result.to_json()["errors"] == "times the root of their weight"


def test_four_times_the_weight_is_half_the_error():
    plain, heavy = (Question.of(AGES.prefix("age", weight=w), EPSILON, DELTA, "worst") for w in (1, 4))
    for one, other in zip(plain.at(0.05).all, heavy.at(0.1).all, strict=True):
        assert one.people == pytest.approx(other.people, rel=1e-6, abs=1)
    assert "weight" not in str(plain.at(0.1))
    assert plain.at(0.1).to_json()["errors"] == "as they are"


@pytest.mark.parametrize("kind", KINDS)
def test_epsilon_alone_has_central_bounds(kind):
    """The floors of a vanishing delta; the reports of the local model are enough for a curator."""
    result = sample_complexity(np.tri(6), 0.05, epsilon=EPSILON, error=kind)
    tiny = sample_complexity(np.tri(6), 0.05, epsilon=EPSILON, delta=1e-30, error=kind)
    assert result.lower("central").people == tiny.lower("central").people > 1
    assert result.upper("central").people == result.upper("local").people
    assert not [b for b in result.all if b.model == "central" and b.privacy not in ("epsilon", "nothing is published")]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: sample_complexity([[np.nan]], 0.1, epsilon=1),
            "row 0, column 0 of the matrix is nan; give finite numbers",
        ),
        (
            lambda: sample_complexity(np.zeros((2, 2)), 0.1, epsilon=1),
            "all entries of a 2 x 2 matrix are 0; give a query that is not 0",
        ),
        (
            lambda: sample_complexity(np.eye(2), 0, epsilon=1),
            "alpha must be a positive number, got 0; it is the error of answers over n",
        ),
        (
            lambda: sample_complexity(np.eye(2), 0.1, epsilon=1, delta=2),
            "delta must be between 0 and 1, got 2; usual values are 1e-6 or smaller",
        ),
        (
            lambda: sample_complexity(np.eye(2), 0.1, epsilon=1, error="l1"),
            "unknown error 'l1'; use 'max', 'worst' or 'rms'",
        ),
        (
            lambda: sample_complexity(np.eye(2), 0.1, epsilon=1, confidence=0.2),
            "confidence 0.2 is not between 0.5 and 1; a usual one is 0.95",
        ),
        (
            lambda: sample_complexity(np.eye(2), 1e-18, epsilon=1),
            "so small an alpha needs more than 1e18 people; use a larger one",
        ),
        (
            lambda: sample_complexity(ln.Workload(ln.Domain.of(a=2)), 0.1, epsilon=1),
            "the workload is empty; add queries, for example workload.marginals(ways=1)",
        ),
        (
            lambda: sample_complexity(np.ones((1, 3000)), 0.1, epsilon=1),
            "a 1 x 3,000 matrix is too large for bounds; use at most 2,048 values and 16,777,216 entries",
        ),
        (
            lambda: sample_complexity(ln.Workload(ln.Domain.of(a=range(10_000))).prefix("a"), 0.1, epsilon=1),
            "a 10,000 x 10,000 matrix is too large for bounds; use at most 2,048 values and 16,777,216 entries",
        ),
        (
            lambda: sample_complexity(
                ln.Workload(ln.Domain.of(a=range(2_000), b=2)).add({"a": "range", "b": "marginal"}), 0.1, epsilon=1
            ),
            "a 2,001,000 x 2,000 matrix is too large for bounds; use at most 2,048 values and 16,777,216 entries",
        ),
    ],
)
def test_bad_input_is_told(call, message):
    assert refusal(call) == message


# --- command line -----------------------------------------------------------------------------------------------------

SPEC = """
attributes: {age: {range: [0, 7]}, sex: {values: [F, M]}}
workload: [{queries: prefix, on: [age]}]
privacy: {epsilon: 1, delta: 1.0e-9}
"""


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "spec.yaml"
    path.write_text(SPEC)
    return path


@pytest.mark.long
def test_the_command_tells_bounds(spec, capsys):
    code, out, _ = call(capsys, "bounds", spec, "--alpha", 0.1, "--json")
    result = json.loads(out)
    assert code == 0
    assert result["neighbours"] == "replace"
    expected = sample_complexity(np.tri(8), 0.1, epsilon=1, delta=1e-9)
    assert [b["people"] for b in result["bounds"]] == [b.people for b in expected.all]
    code, out, _ = call(capsys, "bounds", spec, "--alpha", 0.1)
    assert out.strip() == str(expected)


@pytest.mark.long
@pytest.mark.parametrize("end", ["svg", "html"])
def test_the_command_draws_curves(spec, end, tmp_path, capsys):
    file = tmp_path / f"curves.{end}"
    code, _, _ = call(capsys, "bounds", spec, "--error", "rms", "--plot", file)
    assert code == 0
    text = file.read_text()
    drawn = ElementTree.fromstring(text if end == "svg" else text[text.index("<svg") : text.index("</svg>") + 6])
    lines = drawn.findall("{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == len(sample_complexity(np.tri(8), 0.05, epsilon=1, delta=1e-9, error="rms").all)
    points = [tuple(map(float, p.split(","))) for line in lines for p in line.get("points").split()]
    assert all(0 <= x <= 960 and 0 <= y <= 440 for x, y in points)


def test_mistakes_on_the_command_line(spec, tmp_path, capsys):
    code, _, err = call(capsys, "bounds", spec, "--plot", tmp_path / "a.png")
    assert (code, err) == (2, "leastnoise: a plot is an .svg or .html file, got 'a.png'; name it curves.svg\n")
    spec.write_text(SPEC.replace("{epsilon: 1, delta: 1.0e-9}", "{mu: 1}"))
    code, _, err = call(capsys, "bounds", spec)
    assert (code, err) == (2, "leastnoise: the spec states no epsilon; give --epsilon 1 and --delta 1e-9\n")
    assert call(capsys, "bounds", spec, "--epsilon", 1)[0] == 0
