"""Plan, devices and collectors together: privacy of whole reports, unbiased answers, weights, bad input."""

from collections import Counter
from fractions import Fraction
from itertools import combinations, product

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose

from leastnoise import Domain, LeastnoiseError, LinearQuery, Workload
from leastnoise.local import (
    Device,
    local_plan,
    simulate,
)
from leastnoise.local.ball import Ball
from leastnoise.local.gauss import GaussianVectors
from leastnoise.local.plan import SHARES, targets
from leastnoise.local.subsets import Subsets
from leastnoise.local.tables import Queries, cells_of, lifted
from leastnoise.noise import SeededRandomSource
from tests.local.cases import ODDS, collected, pairs_plan, prefix_plan, records, truth

LAYOUTS = ["whole", "tables", "residuals"]
ALL_LAYOUTS = [*LAYOUTS, "split"]


# --- privacy ----------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("layout", LAYOUTS)
def test_likelihood_ratio_of_reports_is_at_most_e_to_the_epsilon(layout):
    """All reports, all records of the domain, exact fractions: share of the part times odds within it."""
    plan = pairs_plan(layout)
    codes = np.array(list(product(*(range(n) for n in plan.domain.shape))))
    for part in plan.parts:
        assert isinstance(part.randomizer, Subsets)
        choice = part.randomizer.choice
        cells = np.unique(cells_of(codes, part.attributes, part.shape))
        member = part.randomizer.members[:, cells]
        weights = np.where(member, choice.probability(True), choice.probability(False)) * Fraction(part.share, SHARES)
        assert (weights.sum(axis=0) == Fraction(part.share, SHARES)).all()  # the part tells nothing of the record
        assert max(max(row) / min(row) for row in weights.tolist()) <= ODDS.ratio
    assert ODDS.ratio <= Fraction(2718281828459045, 10**15)


def test_reports_have_the_stated_distribution():
    plan = prefix_plan()
    sent = simulate(plan, np.full((60_000, 1), 3), SeededRandomSource(2))
    size = plan.report_bytes
    counts = Counter(sent[i : i + size] for i in range(0, len(sent), size))
    subsets = plan.parts[0].randomizer
    p = subsets.probabilities()[:, 3]
    prefix = sent[: len(plan.prefix)]  # whose first byte says that the noise is seeded
    numbers = np.array([counts[prefix + bytes([y])] for y in range(len(p))])
    assert numbers.sum() == 60_000
    chi_square = float(((numbers - 60_000 * p) ** 2 / (60_000 * p)).sum())
    assert chi_square < len(p) + 5 * np.sqrt(2 * len(p))  # one false alarm in a million


def test_errors_do_not_reveal_the_record():
    device = Device(pairs_plan(), SeededRandomSource(1))
    with pytest.raises(LeastnoiseError) as error:
        device.report({"a": 1, "b": "secret-7", "c": 0, "d": "y"})
    assert str(error.value) == (
        "the value of 'b' is none of the plan's; map such values to one of them before reporting"
    )
    assert error.value.__cause__ is None
    assert error.value.__context__ is None
    with pytest.raises(LeastnoiseError, match="the record has no attribute 'd'; the plan needs it"):
        device.report({"a": 1, "b": "u", "c": 0})


def test_shares_are_exact_and_do_not_see_records():
    plan = pairs_plan()
    drawn = np.bincount(plan.draw_parts(SeededRandomSource(1), 100_000), minlength=len(plan.parts))
    expected = np.array([p.share for p in plan.parts]) / SHARES * 100_000
    assert float(((drawn - expected) ** 2 / expected).sum()) < 30  # 5 degrees of freedom: one false alarm in 60,000
    assert sum(p.share for p in plan.parts) == SHARES


# --- answers ----------------------------------------------------------------------------------------------------------


def test_pieces_sum_to_the_queries():
    rows = np.random.default_rng(0).standard_normal((3, 24))
    queries = Queries((0, 1, 3), (2, 3, 4), rows)
    parts = [lifted(piece, a, (0, 1, 3), (2, 3, 4)) for a, piece in queries.pieces.items() if a]
    assert len(parts) == 7
    assert_allclose(np.sum(parts, axis=0) + queries.pieces[()][:, None], rows, atol=1e-12)


@pytest.mark.parametrize("layout", ALL_LAYOUTS)
def test_targets_sum_to_the_queries(layout):
    plan = pairs_plan(layout)
    shape = plan.domain.shape
    for queries in plan.queries:
        rows = [
            lifted(r, plan.parts[i].attributes, (0, 1, 2, 3), shape) for i, r in targets(plan.parts, queries).items()
        ]
        whole = lifted(queries.rows, queries.attributes, (0, 1, 2, 3), shape)
        assert_allclose(np.sum(rows, axis=0) + queries.pieces[()][:, None], whole, atol=1e-12)


@pytest.mark.parametrize("layout", ALL_LAYOUTS)
def test_answers_are_unbiased(layout):
    plan = pairs_plan(layout)
    codes = records(plan, 60_000)
    for queries, result in zip(plan.queries, collected(plan, codes).answers(), strict=True):
        error = np.sqrt(plan.variances(queries, codes))
        # 44 answers: one false alarm in 5,000
        assert (np.abs(result.values - truth(queries, codes)) < 4.6 * error).all()


def test_variances_over_who_draws_what():
    """Four devices, two of them on each table: all ways to draw them."""
    plan = local_plan(Workload(Domain.of(a=3, b=3)).marginals(ways=1), 1, layout="tables")
    codes = np.array([[0, 1], [0, 2], [1, 0], [2, 2]])
    queries, part = plan.queries[0], plan.parts[0]
    assert part.fraction == 0.5
    rows = targets(plan.parts, queries)[0]
    noise = part.randomizer.moments(rows) - rows**2
    chosen = [codes[list(devices), 0] for devices in combinations(range(4), 2)]
    answers = np.array([4 * rows[:, x].mean(axis=1) for x in chosen])
    expected = answers.var(axis=0) + np.mean([4**2 * noise[:, x].sum(axis=1) / 2**2 for x in chosen], axis=0)
    assert_allclose(plan.variances(queries, codes), expected)


@pytest.mark.long
@pytest.mark.parametrize("layout", ALL_LAYOUTS)
def test_variances_match_a_simulation(layout):
    """300 collections of the same records: chi-square of each cell, and computed against reported standard errors."""
    plan = pairs_plan(layout)
    codes = records(plan, 2_000)
    queries = plan.queries[1]
    runs = [collected(plan, codes, seed).answers()[1] for seed in range(300)]
    values, errors = (np.array([getattr(r, name) for r in runs]) for name in ("values", "std_errors"))
    expected = plan.variances(queries, codes)
    # the mean of 12 correlated variances from 300 runs: a standard error of 4% or less
    assert_allclose(values.var(axis=0, ddof=1).mean(), expected.mean(), rtol=0.16)
    # reported ones are larger by the spread of records: a few percent, and more where there is little noise
    reported = (errors**2).mean(axis=0) / expected
    assert 0.96 < reported.min() < reported.max() < (1.3 if layout == "split" else 1.06)
    inside = np.abs(values - truth(queries, codes)) < 1.96 * errors
    # intervals_cover; 3,600 correlated intervals, a standard error below 0.7%
    assert 0.93 < inside.mean() < (0.985 if layout == "split" else 0.97)
    assert_allclose(values.mean(axis=0), truth(queries, codes), atol=4.5 * np.sqrt(expected.max() / 300))


@pytest.mark.slow
@pytest.mark.parametrize("cells", [16, 64])
def test_measured_variance_is_the_computed_one_within_two_percent(cells):
    """The spread of a million reports, less that of the records, which are fixed."""
    plan, n = prefix_plan(cells), 10**6
    codes, queries = records(plan, n), plan.queries[0]
    result = collected(plan, codes).answers()[0]
    share = np.bincount(codes[:, 0], minlength=cells) / n
    spread = n * (queries.rows**2 @ share - (queries.rows @ share) ** 2)
    # the spread of a million bounded numbers is known to 0.2%
    assert_allclose((result.std_errors**2 - spread)[:-1], plan.variances(queries, codes)[:-1], rtol=0.02)
    z = (result.values - truth(queries, codes))[:-1] / np.sqrt(plan.variances(queries, codes)[:-1])
    assert np.abs(z).max() < 3  # fixed seed; neighbours are nearly equal, so that a false alarm is in 1 of 40 seeds


def test_worst_variances_hold_for_all_records():
    plan = pairs_plan("whole")
    for queries in plan.queries[:2]:
        worst = plan.worst_variances(queries)
        for record in ([0, 0, 0, 0], [2, 1, 3, 1], [1, 0, 2, 1]):
            assert (plan.variances(queries, np.array([record])) <= worst * (1 + 1e-9)).all()
    assert plan.worst_std_error**2 == pytest.approx(max(plan.worst_variances(q).max() for q in plan.queries))


def test_asking_for_more():
    plan = pairs_plan()
    codes = records(plan, 40_000)
    collector = collected(plan, codes)
    one = collector.table("c")
    assert_allclose(one.values.sum(), collector.reports)
    assert one.names == ("c",)
    pair = collector.table("c", "a").values.reshape(4, 3)
    assert_allclose(pair, collector.table("a", "c").values.reshape(3, 4).T)
    assert_allclose(pair.sum(axis=1), one.values)
    wide = collector.rows(["c"], [[1, 1, 0, 0]], confidence=0.99)
    assert_allclose(wide.values[0], one.values[:2].sum())
    assert wide.low[0] < wide.values[0] < wide.high[0]
    assert (wide[0].low, wide[0].high) == (wide.low[0], wide.high[0])
    assert len(wide) == 1
    assert collector.ask("c <= 1", confidence=0.99) == wide[0]
    both, weights = "2 * (a = 1 and c = 2) - (c = 0) + true", np.zeros((3, 4))
    weights[1, 2], weights[:, 0] = 2, -1
    assert collector.ask(both).value == pytest.approx(((weights + 1) * pair.T).sum())
    assert collector.ask("*").std_error == 0
    with pytest.raises(LeastnoiseError, match="over another domain"):
        collector.ask(LinearQuery.total(Domain.of(x=2)))


@pytest.mark.long
def test_auto_is_the_best_of_its_choices():
    domain = Domain.of(a=range(3), b=["u", "v"], c=range(4), d=["y", "n"])
    chosen = local_plan(Workload(domain).marginals(ways=2), 1)
    assert chosen.worst_std_error == pytest.approx(min(pairs_plan(name).worst_std_error for name in LAYOUTS))


@pytest.mark.parametrize(
    ("name", "kind", "size"), [("half space", Ball, 14), ("cap", Ball, 14), ("gaussian", GaussianVectors, None)]
)
def test_other_randomizers_end_to_end(name, kind, size):
    work = Workload(Domain.of(x=range(8))).prefix("x")
    plan = local_plan(work, 1, 1e-5, randomizer=name)
    assert isinstance(plan.parts[0].randomizer, kind)
    assert size is None or plan.report_bytes == size
    assert plan.delta == (1e-5 if kind is GaussianVectors else 0)
    codes = records(plan, 40_000)
    result = collected(plan, codes).answers()[0]
    error = np.sqrt(plan.variances(plan.queries[0], codes))
    assert (np.abs(result.values - truth(plan.queries[0], codes)) < 4.5 * error + 1e-6).all()  # one in 20,000
    assert (result.std_errors >= 0.99 * error).all()  # never too small
    assert plan.worst_std_error > prefix_plan().worst_std_error


def test_gaussian_noise_is_chosen_where_it_is_better():
    work = Workload(Domain.of(x=range(8))).prefix("x")
    assert isinstance(local_plan(work, 1, 1e-9).parts[0].randomizer, Subsets)
    assert local_plan(work, 1, 1e-9).delta == 0


def test_split_reports_keep_epsilon_in_all():
    """Exact likelihood ratios over all records and all six parts: they multiply."""
    plan = pairs_plan("split")
    assert all(p.share == SHARES for p in plan.parts)
    product_of_odds = np.prod([p.randomizer.odds.ratio for p in plan.parts])
    with mpmath.workdps(60):
        assert mpmath.mpf(product_of_odds.numerator) / product_of_odds.denominator <= mpmath.e**12
    assert plan.report_bytes == 5 + sum(p.randomizer.payload for p in plan.parts)


@pytest.mark.long
def test_split_is_chosen_where_epsilon_is_large():
    domain = Domain.of(a=range(30), b=range(30))
    work = Workload(domain).marginals("a").marginals("b")
    assert local_plan(work, 1).layout == "tables"
    large = local_plan(work, 6)
    assert large.layout == "split"
    assert large.worst_std_error < local_plan(work, 6, layout="tables").worst_std_error


def test_weights_move_accuracy():
    domain = Domain.of(a=range(4), b=range(4))
    plans = [local_plan(Workload(domain).marginals("a", weight=w).marginals("b"), 1, layout="tables") for w in (1, 25)]
    even, uneven = ([float(p.worst_variances(q).max()) for q in p.queries] for p in plans)
    assert uneven[0] < even[0]
    assert uneven[1] > even[1]


@pytest.mark.parametrize("kind", ["subsets", "cap"])
def test_weights_of_rows_are_honoured(kind):
    """The worst root of weight times variance is what counts: heavy rows get less noise, inside one table, too."""
    domain = Domain.of(x=range(12))
    heavy = np.where(np.arange(12) < 3, 16.0, 1.0)
    even = local_plan(Workload(domain).prefix("x"), 1, randomizer=kind)
    uneven = local_plan(Workload(domain).add("prefix", on=["x"], weights=heavy), 1, randomizer=kind)
    (queries,) = uneven.queries
    assert_allclose(queries.weights, heavy)
    before, after = (p.worst_variances(queries) for p in (even, uneven))
    assert after[:3].max() < 0.9 * before[:3].max()
    assert after[3:].max() > before[3:].max()
    assert uneven.weighted_std_error == pytest.approx((heavy * after).max() ** 0.5)
    assert uneven.weighted_std_error < 0.95 * (heavy * before).max() ** 0.5
    assert uneven.worst_std_error == pytest.approx(after.max() ** 0.5)


def test_weights_of_rows_multiply():
    domain = Domain.of(a=range(2), b=range(3))
    block = {"a": {"of": "marginal", "weights": [1, 4]}, "b": {"of": "marginal", "weights": [1, 2, 3]}}
    (queries,) = local_plan(Workload(domain).add(block, on=["a", "b"], weight=5), 1).queries
    assert_allclose(queries.weights, 5 * np.array([1, 2, 3, 4, 8, 12]))


@pytest.mark.long
def test_layouts_are_chosen_by_weight():
    domain = Domain.of(a=range(6), b=range(6))
    work = Workload(domain).marginals("a", weight=100).marginals("a", "b")
    plans = [local_plan(work, 1, layout=name) for name in ("whole", "tables", "residuals")]
    assert local_plan(work, 1).weighted_std_error == min(p.weighted_std_error for p in plans)


def test_spread_populations():
    work = Workload(Domain.of(x=range(32))).marginals("x")
    worst, spread = (local_plan(work, 1, population=name) for name in ("any", "spread"))
    assert spread.usual_std_error < 0.99 * worst.usual_std_error
    assert spread.worst_std_error > 1.02 * worst.worst_std_error
    codes = np.arange(32_000)[:, None] % 32
    variances = spread.variances(spread.queries[0], codes)
    assert (variances.max() / 32_000) ** 0.5 == pytest.approx(spread.usual_std_error)


@pytest.mark.long
def test_nothing_of_the_size_of_the_domain():
    domain = Domain.of({f"q{i}": range(5) for i in range(12)})  # 2 * 10^8 cells
    plan = local_plan(Workload(domain).marginals(ways=2), 1)
    assert len({id(p.randomizer) for p in plan.parts}) == 1  # 66 like pairs share one design
    codes = records(plan, 30_000)
    answers = collected(plan, codes).answers()
    z = [
        (f.values - truth(q, codes)) / np.sqrt(plan.variances(q, codes))
        for q, f in zip(plan.queries, answers, strict=True)
    ]
    assert 0.8 < np.mean(np.square(z)) < 1.2  # 66 tables of 25 dependent cells


# --- bad input --------------------------------------------------------------------------------------------------------

DOMAIN = Domain.of(x=range(6), y=range(4))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: local_plan(Workload(DOMAIN), 1), "asks for nothing but the number of devices"),
        (lambda: local_plan(Workload(DOMAIN).prefix("x"), 0), "epsilon 0 is not a number"),
        (lambda: local_plan(Workload(DOMAIN).prefix("x"), 1, randomizer="magic"), "unknown randomizer 'magic'; use"),
        (lambda: local_plan(Workload(DOMAIN).prefix("x"), 1, layout="magic"), "unknown layout 'magic'; use"),
        (
            lambda: local_plan(Workload(DOMAIN).prefix("x"), 1, population="magic"),
            "unknown population 'magic'; use one of 'any', 'spread'",
        ),
        (lambda: local_plan(Workload(DOMAIN).prefix("x"), 1, randomizer="gaussian"), "'gaussian' needs a delta"),
        (
            lambda: local_plan(Workload(Domain.of(x=range(20_000))).marginals("x"), 1),
            "20,000 marginal queries on 20000 values are too many to plan",
        ),
        (
            lambda: local_plan(Workload(Domain.of(x=range(3000))).marginals("x"), 1, randomizer="subsets"),
            "3,000 values are too many for subsets",
        ),
        (lambda: pairs_plan().rows_on(["a", "a"], np.eye(9)), "attributes a, a repeat; name each once"),
        (lambda: pairs_plan().rows_on(["a"], np.eye(4)), r"queries on a need rows of 3 numbers, got .* \(4, 4\)"),
        (lambda: Queries((0,), (2,), np.array([[np.nan, 1]])), "queries must be finite numbers"),
        (lambda: Queries((0,), (2,), np.ones((1, 3))), "queries on 2 values need rows of 2 numbers"),
        (
            lambda: simulate(prefix_plan(), [[8]], SeededRandomSource(1)),
            "a record has a code outside the plan's domain",
        ),
        (lambda: simulate(prefix_plan(), [[1, 2]], SeededRandomSource(1)), "records must be rows of 1 whole numbers"),
        (lambda: simulate(prefix_plan(), [[0.5]], SeededRandomSource(1)), "records must be rows of 1 whole numbers"),
        (
            lambda: collected(pairs_plan(), records(pairs_plan(), 50)).table("a", "b", "c"),
            "no device reports on these attributes together",
        ),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(LeastnoiseError, match=message):
        make()
