"""Adjusted tables: against dense Gaussian conditioning and a quadratic program, and what the steps promise."""

from functools import cache
from itertools import product

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose

import leastnoise as ln
from leastnoise import sources
from leastnoise.mechanisms.tables.plan import Plan
from leastnoise.noise import SeededRandomSource
from leastnoise.planning.covariance import pieces
from leastnoise.release import LinearQuery, Release, TableRelease
from leastnoise.release.postprocessing import cells
from leastnoise.release.postprocessing import nonnegative as solver
from leastnoise.release.postprocessing.postprocess import HOLD, rounded

ALIKE = ln.Domain.of(a=3, b=3, c=4)
ORDERED = ln.Domain.of(age=range(5), sex=["F", "M"], one=["x"], kind=3)

CASES = {
    "pairs": (ln.Workload(ALIKE).marginals(ways=2), {}),
    "given baseline": (ln.Workload(ALIKE).marginals(ways=2), {"baseline": {"c": [0.7, 0.1, 0.1, 0.1]}}),
    "prefix": (ln.Workload(ORDERED).ranges("age", by="sex").marginals(ways=2), {"baseline": "search"}),
    "all three": (ln.Workload(ALIKE).marginals(ways=3), {}),
    "not products": (ln.Workload(ln.Domain.of(u=range(4), v=range(4))).affine(ways=2).marginals(ways=1), {}),
}


@cache
def planned(case: str, budget: ln.Budget) -> Plan:
    workload, options = CASES[case]
    return ln.plan(workload, budget, **options)


def released(case: str, rows: int = 60, seed: int = 1, mu: float = 0.3, **budget) -> tuple[Release, np.ndarray]:
    domain = CASES[case][0].domain
    shares = np.random.default_rng(seed).dirichlet(np.full(domain.size, 0.1))
    table = np.random.default_rng(seed).multinomial(rows, shares).reshape(domain.shape)
    return planned(case, ln.Budget(mu=mu, **budget)).run(
        sources.Table(domain, table), random_source=SeededRandomSource(seed)
    ), table


def widest(release: Release) -> list[tuple[str, ...]]:
    tables = list(release.tables())
    return [t for t in tables if not any(set(t) < set(other) for other in tables)]


def cell_queries(release: Release, names: tuple[str, ...]) -> list[LinearQuery]:
    size = int(np.prod(release.domain.project(*names).shape))
    return [LinearQuery.of(release.domain, names, row) for row in np.eye(size)] if names else [release.query("")]


def margin(table: np.ndarray, domain: ln.Domain, names: tuple[str, ...]) -> np.ndarray:
    """A table of the full data; axes in the order of the names, which is that of the domain."""
    return table.sum(axis=tuple(a for a, name in enumerate(domain.names) if name not in names))


# --- known totals -----------------------------------------------------------------------------------------------------


def dense_conditional(release: Release, names: tuple[str, ...], facts: dict) -> tuple[np.ndarray, np.ndarray]:
    """Counts and standard errors of a table given exact facts, from the joint covariance of all cells."""
    queries = cell_queries(release, names)
    reported = [
        q for key in facts for q in cell_queries(release, (key,) if isinstance(key, str) and key else tuple(key))
    ]
    joint = release.ask_many([*queries, *reported])
    values = np.concatenate([np.ravel(v) for v in facts.values()]).astype(float)
    n, S = len(queries), joint.covariance
    gain = S[:n, n:] @ np.linalg.pinv(S[n:, n:], rcond=1e-9, hermitian=True)
    left = S[:n, :n] - gain @ S[n:, :n]
    return joint.values[:n] + gain @ (values - joint.values[n:]), np.sqrt(np.maximum(np.diag(left), 0))


@pytest.mark.parametrize(
    ("case", "keys"),
    [
        ("pairs", [""]),
        ("pairs", ["b"]),
        ("pairs", ["", "a", "b"]),
        ("pairs", [("a", "c"), "b"]),
        ("given baseline", [("a", "c"), ("b", "c")]),
        ("prefix", ["age", "sex"]),
        ("all three", [("a", "b"), ("b", "c"), ""]),
        ("not products", ["v"]),
    ],
)
def test_equals_dense_gaussian_conditioning(case, keys):
    release, table = released(case)
    keys = [(k,) if isinstance(k, str) and k else tuple(k) for k in keys]
    facts = {k: margin(table, release.domain, k) for k in keys}
    adjusted = release.adjust(totals=facts)
    for names in release.tables():
        counts, errors = dense_conditional(release, names, facts)
        assert_allclose(adjusted.counts(*names).ravel(), counts, atol=1e-6)
        assert_allclose(adjusted.release.std_errors(*names).ravel(), errors, atol=1e-5)
        assert (errors <= release.std_errors(*names).ravel() + 1e-9).all()


def test_known_tables_have_no_error():
    release, table = released("prefix")
    age = table.sum((1, 2, 3))
    adjusted = release.adjust(totals={"age": age})
    assert_allclose(adjusted.counts("age"), age, atol=1e-9)
    assert_allclose(adjusted.release.std_errors("age"), 0, atol=1e-9)
    assert adjusted.release.ask("age < 3").std_error == pytest.approx(0, abs=1e-9)
    assert list(adjusted.table("age").columns) == ["age", "count", "std_error", "low", "high"]


def test_totals_of_pairs_may_list_names_in_any_order():
    release, table = released("pairs")
    one = release.adjust(totals={("c", "a"): table.sum(1).T})
    assert_allclose(one.counts("a", "c"), table.sum(1), atol=1e-9)


@pytest.mark.long
def test_totals_stay_unbiased_with_honest_errors():
    # The mean of 300 standardised errors of one cell is within 5 / sqrt(300), its variance within 5 sqrt(2 / 300):
    # false-alarm rates 6e-7 each.
    workload, _ = CASES["pairs"]
    table = np.arange(36).reshape(ALIKE.shape)
    plan = ln.plan(workload, ln.Budget(mu=0.5))
    scores = []
    for seed in range(300):
        release = plan.run(sources.Table(ALIKE, table), random_source=SeededRandomSource(seed))
        adjusted = release.adjust(totals={"a": table.sum((1, 2))})
        error = adjusted.counts("a", "c")[1, 2] - table.sum(1)[1, 2]
        scores.append(error / adjusted.release.std_errors("a", "c")[1, 2])
    assert abs(np.mean(scores)) < 5 / np.sqrt(300)
    assert abs(np.mean(np.square(scores)) - 1) < 5 * np.sqrt(2 / 300)


def test_a_total_that_replacing_never_changes_is_compared():
    release, table = released("pairs", neighbours="replace")
    release.adjust(totals={"": table.sum()})
    with pytest.raises(ln.LeastnoiseError, match="the totals disagree with what the release knows exactly"):
        release.adjust(totals={"": table.sum() + 1})


@pytest.mark.parametrize(
    ("totals", "message"),
    [
        ({"": 60, "a": [20, 20, 21]}, "the totals of all rows and of a disagree on all rows; correct one of them"),
        (
            {("a", "b"): np.ones((3, 3)), ("b", "c"): np.full((3, 4), [[0.5], [0.75], [1.0]])},
            "the totals of a x b and of b x c disagree on b; correct one of them",
        ),
        ({"a": [1, 2]}, "the totals of a have 2 entries but 3 cells; give each"),
        ({"a": [1, -2, 3]}, "the totals of a have a negative entry; give counts"),
        ({("a", "b", "c"): np.ones(36)}, "the totals of a x b x c are of no use: that table was not measured"),
        ({"d": [1]}, "no attribute 'd' in this domain (a, b, c)"),
    ],
)
def test_totals_that_are_refused(totals, message):
    release, _ = released("pairs")
    with pytest.raises(ln.LeastnoiseError) as error:
        release.adjust(totals=totals)
    assert str(error.value) == message


# --- no negative counts -----------------------------------------------------------------------------------------------


def dense_projection(release: Release, tables: list[tuple[str, ...]], hold: float) -> np.ndarray:
    """All cells of the chosen tables by a quadratic program: the least noise w with u = estimate - K w >= 0."""
    most = max(map(len, tables))
    queries = [q for names in tables for q in cell_queries(release, names)]
    state, columns = release.state, {}
    for i, query in enumerate(queries):
        for term in query.terms:
            for members, piece in pieces(state.structure, state.baselines, term.attributes, term.weights).items():
                result = state.find(members)
                if result is not None:
                    scale = np.sqrt(result.noise * hold ** (len(members) - most))
                    half = scale * result.strategy.half(piece[None])[0]
                    columns.setdefault(members, np.zeros((len(queries), len(half))))[i] += half
    K = np.concatenate(list(columns.values()), axis=1)
    start = release.ask_many(queries).values
    w = cp.Variable(K.shape[1])
    cp.Problem(cp.Minimize(cp.sum_squares(w)), [start + K @ w >= 0]).solve(
        solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12
    )
    return start + K @ w.value


@pytest.mark.parametrize("hold", [1.0, HOLD])
@pytest.mark.parametrize("case", [case for case in CASES if case != "not products"])
def test_equals_the_quadratic_program(case, hold):
    release, _ = released(case)
    tables = widest(release)
    adjusted = release.adjust(nonnegative=True, hold=hold, tolerance=1e-6)
    expected = dense_projection(release, tables, hold)
    values = np.concatenate([adjusted.counts(*names).ravel() for names in tables])
    assert np.concatenate([release.counts(*names).ravel() for names in tables]).min() < -1  # something was to be done
    assert_allclose(values, expected, atol=1e-5)


def test_chosen_tables_only():
    release, _ = released("pairs")
    adjusted = release.adjust(nonnegative=True, tables=[("a", "b"), "c", "b"], tolerance=1e-6)
    expected = dense_projection(release, [("a", "b"), ("c",)], HOLD)
    values = np.concatenate([adjusted.counts(*names).ravel() for names in (("a", "b"), ("c",))])
    assert_allclose(values, expected, atol=1e-5)


@pytest.mark.parametrize(("case", "hold"), [("prefix", 10.0), ("pairs", 1.0), ("not products", 10.0)])
def test_certificate_holds(case, hold, monkeypatch):
    monkeypatch.setattr(solver, "MAX_STEPS", 1_000)  # too few for "not products", some of whose cells are mostly noise
    release, _ = released(case)
    tables = widest(release)
    errors = np.concatenate([release.std_errors(*names).ravel() for names in tables])
    exact = dense_projection(release, tables, hold)
    for tolerance in (0.5, 0.1, 0.01):
        adjusted = release.adjust(nonnegative=True, tolerance=tolerance, hold=hold)
        values = np.concatenate([adjusted.counts(*names).ravel() for names in tables])
        assert (np.abs(values - exact) <= adjusted.certificate.distance * errors + 1e-5).all()
        assert case == "not products" or adjusted.certificate.distance <= tolerance * adjusted.certificate.moved


@pytest.mark.parametrize("case", CASES)
def test_tables_stay_consistent_and_nothing_negative(case, monkeypatch):
    monkeypatch.setattr(solver, "MAX_STEPS", 500)
    release, _ = released(case, seed=3)
    adjusted = release.adjust(nonnegative=True)
    for names in release.tables():
        table = adjusted.counts(*names)
        assert table.min() >= 0
        for axis, name in enumerate(names):
            rest = [n for n in names if n != name]
            assert_allclose(table.sum(axis=axis), adjusted.counts(*rest), atol=1e-6)


@pytest.mark.parametrize("ways", [2, 3])
def test_error_shrinks_where_many_cells_are_empty(ways):
    # Five seeds, each must improve: measured ratios are far below the bound, so there is no room for chance.
    domain = ln.Domain.of(dict.fromkeys("abcd", 6))
    plan = ln.plan(ln.Workload(domain).marginals(ways=ways), ln.Budget(epsilon=1, delta=1e-9))
    for seed in range(5):
        rng = np.random.default_rng(seed)
        codes = np.stack([rng.choice(6, 500, p=rng.dirichlet(np.full(6, 0.3))) for _ in "abcd"], axis=1)
        release = plan.run(sources.Codes(domain, codes), random_source=SeededRandomSource(seed))
        adjusted = release.adjust(nonnegative=True)
        plain, better = 0.0, 0.0
        for names in widest(release):
            true = np.zeros((6,) * ways)
            np.add.at(true, tuple(codes[:, domain.index(n)] for n in names), 1)
            plain += np.sum((release.counts(*names) - true) ** 2)
            better += np.sum((adjusted.counts(*names) - true) ** 2)
        assert better < 0.7 * plain


def test_totals_and_no_negative_counts_together():
    release, table = released("pairs")
    totals = {"a": table.sum((1, 2)) + 1, "c": table.sum((0, 1)) + 0.75}
    adjusted = release.adjust(totals=totals, nonnegative=True)
    assert_allclose(adjusted.counts("a"), totals["a"], atol=1e-6)
    assert_allclose(adjusted.counts("c"), totals["c"], atol=1e-6)
    assert adjusted.counts("a", "c").min() >= 0
    assert_allclose(adjusted.counts("a", "c").sum(1), totals["a"], atol=1e-6)
    assert adjusted.certificate.shortfall == 0


def test_known_zeros_leave_a_small_shortfall_that_is_told():
    release, _ = released("pairs")
    totals = {"a": [0, 30, 30]}
    adjusted = release.adjust(totals=totals, nonnegative=True, tolerance=1e-4)
    assert 0 < adjusted.certificate.shortfall < 0.01
    assert_allclose(adjusted.counts("a", "b")[0], 0, atol=0.01)
    assert f"counts up to {adjusted.certificate.shortfall:.2g} below zero were set to it" in adjusted.steps[1].effect


def test_nothing_to_do_where_all_is_known():
    release, table = released("pairs")
    totals = {pair: margin(table, ALIKE, pair) for pair in (("a", "b"), ("a", "c"), ("b", "c"))}
    adjusted = release.adjust(totals=totals, nonnegative=True)
    assert_allclose(adjusted.counts("b", "c"), table.sum(0), atol=1e-9)
    assert adjusted.certificate.steps == 0


def test_counts_that_are_positive_stay():
    release, _ = released("pairs", rows=10**6)
    busy = release.adjust(tables=["a"], nonnegative=True)
    assert_allclose(busy.counts("a", "b"), release.counts("a", "b"))
    assert busy.certificate.distance == pytest.approx(0, abs=1e-6)


def test_merged_releases():
    (one, _), (two, _) = released("prefix", seed=1), released("prefix", seed=2)
    both = TableRelease(one.parts + two.parts)
    adjusted = both.adjust(nonnegative=True, tolerance=1e-6)
    tables = widest(both)
    values = np.concatenate([adjusted.counts(*names).ravel() for names in tables])
    assert_allclose(values, dense_projection(both, tables, HOLD), atol=1e-5)


def test_batches_change_nothing(monkeypatch):
    release, _ = released("pairs")
    whole = release.adjust(nonnegative=True, tolerance=1e-6).counts("a", "c")
    monkeypatch.setattr(cells, "BATCH_CELLS", 1)
    monkeypatch.setattr(cells, "SMALL", 1)
    assert_allclose(release.adjust(nonnegative=True, tolerance=1e-6).counts("a", "c"), whole, atol=1e-6)


def test_progress_is_told(monkeypatch):
    monkeypatch.setattr(solver, "PROGRESS_EVERY", 1)
    release, _ = released("prefix")
    reported = []
    adjusted = release.adjust(nonnegative=True, progress=lambda done, todo, what: reported.append((done, todo, what)))
    assert reported[0] == (0, solver.MAX_STEPS, "non-negative tables")
    assert len(reported) > 1
    assert reported[-1][0] <= adjusted.certificate.steps


def test_stopping_early_is_told_and_still_feasible(monkeypatch):
    monkeypatch.setattr(solver, "MAX_STEPS", 3)
    release, _ = released("prefix")
    adjusted = release.adjust(nonnegative=True)
    assert adjusted.certificate.distance > 0.01 * adjusted.certificate.moved
    assert adjusted.counts("age", "sex").min() >= 0
    assert f"within {adjusted.certificate.distance:.2g} of its standard errors" in str(adjusted)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tables": []}, "tables is empty; name the tables that must not be negative, or leave it out for all"),
        ({"hold": 0.5}, "hold is 0.5; use a number from 1 on"),
        ({"tolerance": 0}, "tolerance is 0; use a number from 1e-06 on"),
        ({"tables": [("a", "a")]}, "a x a has an attribute twice; name each once"),
    ],
)
def test_bad_options(options, message):
    release, _ = released("pairs")
    with pytest.raises(ln.LeastnoiseError) as error:
        release.adjust(nonnegative=True, **options)
    assert str(error.value) == message


def test_too_many_cells(monkeypatch):
    monkeypatch.setattr(solver, "MAX_CELLS", 32)
    release, _ = released("pairs")
    with pytest.raises(ln.LeastnoiseError, match="the tables have 33 cells, more than the 32 that can be made"):
        release.adjust(nonnegative=True)


# --- whole numbers ----------------------------------------------------------------------------------------------------

TABLES = arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 5)), elements=st.floats(-50, 50, width=32))


@given(TABLES)
def test_rounding_keeps_the_total(table):
    whole = rounded(table)
    assert_allclose(whole, np.rint(whole))
    assert whole.sum() == np.rint(table.sum())
    assert np.abs(whole - table).max() <= 1
    rows = rounded(table, keep=(0,))
    assert_allclose(rows.sum(axis=1), np.rint(table.sum(axis=1)))
    assert (rounded(np.abs(table)) >= 0).all()


@given(TABLES)
def test_rounding_adds_at_most_a_quarter(table):
    assert np.sum((rounded(table) - table) ** 2) <= table.size / 4 + 0.5 + 1e-9
    whole = np.append(table.ravel(), np.ceil(table.sum()) - table.sum())
    assert np.mean((rounded(whole) - whole) ** 2) <= 0.25 + 1e-9


@given(arrays(np.float64, st.integers(1, 7), elements=st.floats(0, 1, width=32)))
def test_rounding_changes_as_little_as_possible(table):
    total = np.rint(table.sum())
    ways = (np.array(up) for up in product((0.0, 1.0), repeat=len(table)) if sum(up) == total)
    least = min(np.sum((way - table) ** 2) for way in ways)
    assert np.sum((rounded(table) - table) ** 2) == pytest.approx(least, abs=1e-9)


def test_rounding_keeps_the_largest_known_totals():
    release, table = released("all three")
    totals = {"": 60, ("a", "b"): table.sum(2), "c": table.sum((0, 1))}
    adjusted = release.adjust(totals=totals, nonnegative=True, round=True)
    whole = adjusted.counts("c", "a", "b")
    assert_allclose(whole, np.rint(whole))
    assert whole.min() >= 0
    assert_allclose(whole.sum(0), table.sum(2))


# --- words and frames -------------------------------------------------------------------------------------------------


def test_unbiased_counts_stay_beside():
    release, _ = released("pairs")
    frame = release.adjust(nonnegative=True, round=True).table("c", "a", confidence=0.9)
    plain = release.table("c", "a", confidence=0.9)
    assert list(frame.columns) == ["c", "a", "count", "unbiased", "std_error", "low", "high"]
    assert_allclose(frame["unbiased"], plain["count"])
    assert_allclose(frame[["std_error", "low", "high"]], plain[["std_error", "low", "high"]])
    assert_allclose(frame["count"], np.rint(frame["count"]))


def test_steps_say_what_they_do():
    release, table = released("pairs")
    adjusted = release.adjust(round=True, nonnegative=True, totals={"": table.sum()})
    labels = [step.label for step in adjusted.steps]
    assert labels == ["known totals", "no negative counts", "whole numbers"]
    assert "unbiased" in adjusted.steps[0].effect
    assert "intervals keep their confidence" in adjusted.steps[0].effect
    assert "biased: small counts upwards" in adjusted.steps[1].effect
    assert "intervals hold for the unbiased counts only" in adjusted.steps[1].effect
    assert "at most 1/4 per cell" in adjusted.steps[2].effect
    assert [step["label"] for step in adjusted.to_json()["steps"]] == labels
    assert str(release.adjust()) == "nothing was adjusted"
    assert_allclose(release.adjust().counts("a"), release.counts("a"))


def test_a_column_named_like_an_attribute():
    domain = ln.Domain.of(unbiased=3)
    plan = ln.plan(ln.Workload(domain).marginals(ways=1), ln.Budget(mu=1))
    release = plan.run(sources.Table(domain, np.array([1, 2, 3])), random_source=SeededRandomSource(1))
    with pytest.raises(ln.LeastnoiseError, match="the attribute 'unbiased' has the name of a column"):
        release.adjust(round=True).table("unbiased")
