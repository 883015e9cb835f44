"""Impossible cells and public bounds in what is published: answers, adjusted tables, estimates, synthetic rows."""

from functools import cache

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import leastnoise as ln
from leastnoise.estimate.estimate import Estimate
from leastnoise.noise import SeededRandomSource
from leastnoise.planning.covariance import pieces
from leastnoise.release import LinearQuery, TableRelease
from leastnoise.release.postprocessing.postprocess import HOLD
from leastnoise.report.documents import document
from tests.refusals import refusal

PLAIN = ln.Domain.of(age=range(6), marital=["single", "married", "divorced"], sex=["F", "M"], prison=["A", "B", "C"])
CLAUSES = ["age < 3 and marital != 'single'", "prison = 'C' and sex = 'F'"]
BOUNDS = [
    {"where": "prison = 'A'", "at_most": 60},
    {"where": "prison = 'B' and sex = 'F'", "at_least": 95, "at_most": 130},
    {"where": "age = 5", "at_least": 40},
]
DOMAIN = PLAIN.restricted(CLAUSES, bounds=BOUNDS)
ROWS = 300


def data() -> dict[str, list[object]]:
    rng = np.random.default_rng(5)
    age, sex = rng.integers(0, 6, ROWS), rng.choice(["F", "M"], ROWS)
    marital = np.where(age < 3, "single", rng.choice(["single", "married", "divorced"], ROWS))
    prison = np.where((sex == "M") & (rng.random(ROWS) < 0.1), "C", np.where(rng.random(ROWS) < 0.2, "A", "B"))
    return {"age": age.tolist(), "marital": marital.tolist(), "sex": sex.tolist(), "prison": prison.tolist()}


@cache
def released(seed: int = 0, domain: ln.Domain = DOMAIN, mu: float = 0.4) -> TableRelease:
    plan = ln.plan(ln.Workload(domain).marginals(ways=2), ln.Budget(mu=mu))
    return plan.run(data(), random_source=SeededRandomSource(seed))


def within(table, names, where, low, high):
    """Whether the count of a condition lies within its bounds."""
    query = released().query(where)
    (term,) = query.terms
    order = [names.index(DOMAIN.names[a]) for a in term.attributes]
    away = tuple(axis for axis in range(len(names)) if axis not in order)
    margin = table.sum(axis=away).transpose(np.argsort(np.argsort(order)))
    count = float((margin * term.weights).sum())
    return low - 1e-9 <= count <= high + 1e-9


def keeps_bounds(counts) -> bool:
    return all(
        within(counts(*names), names, b["where"], b.get("at_least", 0), b.get("at_most", np.inf))
        for b in BOUNDS
        for names in released().tables()
        if {DOMAIN.names[a] for a in released().query(b["where"]).attributes} <= set(names)
    )


# --- the release itself -----------------------------------------------------------------------------------------------


def test_impossible_cells_are_zero_without_error(tmp_path):
    release = released()
    table = release.table("age", "marital")
    zero = ~DOMAIN.possible(["age", "marital"]).ravel()
    assert (table.loc[zero, ["count", "std_error", "low", "high"]] == 0).all(axis=None)
    assert (table.loc[~zero, "std_error"] > 0).all()
    assert (table["note"] == "impossible").tolist() == zero.tolist()
    answer = release.ask("age < 3 and marital = 'married'")
    assert (answer.value, answer.std_error) == (0.0, 0.0)
    assert release.ask("age < 4 and marital = 'married'").value == pytest.approx(release.counts("age", "marital")[3, 1])
    release.save(tmp_path / "out")
    again = ln.load(tmp_path / "out")
    assert again.domain == DOMAIN
    assert again.cost == release.cost
    assert "impossible cells" in release.privacy.statement
    assert any("cannot have rows" in note for note in release.footnotes)


@pytest.mark.long
def test_answers_without_impossible_cells_are_unbiased_and_no_worse():
    """5 deviations of a mean over 100 seeds: false alarms below 1e-6."""
    plan = ln.plan(ln.Workload(DOMAIN).marginals(ways=2), ln.Budget(mu=1))
    question, truth = "age <= 4 and marital = 'married'", None
    values, error = [], 0.0
    for seed in range(100):
        release = plan.run(data(), random_source=SeededRandomSource(seed))
        answer = release.ask(question)
        values.append(answer.value)
        error = answer.std_error
    given = data()
    truth = sum(a <= 4 and m == "married" for a, m in zip(given["age"], given["marital"], strict=True))
    assert abs(np.mean(values) - truth) < 5 * error / 10
    assert np.std(values) == pytest.approx(error, rel=0.4)


@pytest.mark.parametrize("format", ["csv", "excel", "sdmx-csv", "csvw", "json-stat", "parquet"])
def test_exports_carry_structural_zeros(format, tmp_path):
    files = released().export(tmp_path / "out", format=format)
    assert "0 by definition: age < 3" in (tmp_path / "out" / "README.txt").read_text()
    if format == "csv":
        (name,) = (f for f in files if "age_marital" in f)
        assert ",0.0,0.0,0.0,0.0,impossible" in (tmp_path / "out" / name).read_text()


def test_pages_mark_impossible_cells():
    release = released()
    fields = document(release)
    table = next(t for t in fields["tables"] if t["attributes"] == [0, 1])
    assert table["impossible"] == np.flatnonzero(~DOMAIN.possible(["age", "marital"]).ravel()).tolist()
    assert fields["public"] == list(release.footnotes[1:])
    finished = release.adjust(nonnegative=True).finish(base=1)
    adjusted = document(release, adjusted=finished)
    assert [t.get("impossible") for t in adjusted["tables"]] == [t.get("impossible") for t in fields["tables"]]


# --- adjusted tables --------------------------------------------------------------------------------------------------


def dense(release: TableRelease, tables, nonnegative: bool) -> np.ndarray:
    """All cells of the widest tables by a quadratic program with the same constraints."""
    queries, zero = [], []
    for names in tables:
        shape = [DOMAIN[n].size for n in names]
        zero += (~DOMAIN.possible(names)).ravel().tolist()
        queries += [LinearQuery.of(release.domain, list(names), row.reshape(shape)) for row in np.eye(np.prod(shape))]
    state, columns, start = release.state, {}, []
    for i, query in enumerate(queries):
        value = 0.0
        for term in query.terms:
            for members, piece in pieces(state.structure, state.baselines, term.attributes, term.weights).items():
                known = state.find(members)
                value += float(np.vdot(piece, state.table(members)))
                half = np.sqrt(known.noise * HOLD ** (len(members) - 2)) * known.strategy.half(piece[None])[0]
                columns.setdefault(members, np.zeros((len(queries), len(half))))[i] += half
        start.append(value)
    K = np.concatenate(list(columns.values()), axis=1)
    w, zeros = cp.Variable(K.shape[1]), np.array(zero)
    x = np.array(start) + K @ w
    rules = [x[zeros] == 0, *([x[~zeros] >= 0] if nonnegative else [])]
    for bound in BOUNDS:
        (term,) = release.query(bound["where"]).terms
        needed = {DOMAIN.names[a] for a in term.attributes}
        names = next(t for t in tables if needed <= set(t))
        inside = [DOMAIN.index(n) for n in names]
        mask = term.weights.reshape([DOMAIN.shape[a] if a in term.attributes else 1 for a in inside])
        low = sum(np.prod([DOMAIN[n].size for n in t]) for t in tables[: tables.index(names)])
        row = np.zeros(len(zeros))
        wide = np.broadcast_to(mask, [DOMAIN.shape[a] for a in inside]).ravel()
        row[low : low + len(wide)] = wide
        rules += [row @ x >= bound.get("at_least", 0)] if "at_least" in bound else []
        rules += [row @ x <= bound["at_most"]] if "at_most" in bound else []
    options = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}
    cp.Problem(cp.Minimize(cp.sum_squares(w)), rules).solve(solver="CLARABEL", **options)
    return np.asarray(x.value)


@pytest.mark.long
@pytest.mark.parametrize("nonnegative", [True, False])
@pytest.mark.parametrize("seed", [0, 1])
def test_restricted_tables_equal_the_quadratic_program(nonnegative, seed):
    release = released(seed)
    tables = [names for names in release.tables() if len(names) == 2]
    adjusted = release.adjust(nonnegative=nonnegative, tolerance=1e-5)
    values = np.concatenate([adjusted.counts(*names).ravel() for names in tables])
    assert_allclose(values, dense(release, tables, nonnegative), atol=2e-3)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_impossible_cells_are_zero_and_bounds_are_kept(seed):
    adjusted = released(seed).adjust(nonnegative=True)
    for names in released(seed).tables():
        counts = adjusted.counts(*names)
        assert (counts[~DOMAIN.possible(names)] == 0).all()
        assert counts.min() >= 0
        for axis in range(len(names)):
            assert_allclose(counts.sum(axis=axis), adjusted.counts(*names[:axis], *names[axis + 1 :]), atol=1e-7)
    assert keeps_bounds(adjusted.counts)
    assert adjusted.certificate.shortfall == 0
    assert "impossible cells are 0" in str(adjusted)


@pytest.mark.long
@pytest.mark.parametrize("base", [1, 5])
def test_rounded_tables_keep_zeros_and_bounds(base, tmp_path):
    finished = released().adjust(nonnegative=True).finish(base=base, suppress_below=2)
    for names in finished.tables():
        cells = finished.cells(*names)
        zero = ~DOMAIN.possible(names)
        assert (cells.count[zero] == 0).all()
        assert (cells.shown[zero] == 1).all()  # that they are 0 is public
        for axis in range(len(names)):
            rest = finished.cells(*names[:axis], *names[axis + 1 :]).count
            assert np.array_equal(cells.count.sum(axis=axis), rest)
    assert keeps_bounds(lambda *names: finished.cells(*names).count)
    finished.save(tmp_path / "adjusted")
    again = type(finished).load(tmp_path / "adjusted")
    assert again.domain == DOMAIN
    assert "impossible" in again.table("age", "marital")["note"].tolist()


@pytest.mark.long
def test_totals_and_bounds_that_contradict_each_other():
    release = released()
    bad = {"prison": [100, 150, 50]}
    assert "the totals count 100 where the bound is prison = 'A'" in refusal(lambda: release.adjust(totals=bad))
    zero = {("sex", "prison"): [[10, 120, 1], [20, 100, 49]]}
    assert "count rows in impossible cells" in refusal(lambda: release.adjust(totals=zero))
    assert "use finish(base=1)" in refusal(lambda: release.adjust(round=True))
    good = release.adjust(totals={"prison": [50, 220, 30]}, nonnegative=True)
    assert_allclose(good.counts("prison"), [50, 220, 30], atol=1e-6)
    assert (good.counts("age", "marital")[~DOMAIN.possible(["age", "marital"])] == 0).all()


# --- estimates --------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_estimates_and_synthetic_rows_keep_everything(tmp_path):
    estimate = released().fit(mixtures=2, replicates=2)
    for names in (("age", "marital"), ("marital", "sex", "age"), ("prison", "sex"), ("prison",), ()):
        counts = estimate.counts(*names)
        assert (counts[~DOMAIN.possible(names)] == 0).all()
        assert counts.sum() == pytest.approx(estimate.total)
    for bound in BOUNDS:
        value = estimate.ask(bound["where"]).value
        assert bound.get("at_least", 0) - 1e-6 <= value <= bound.get("at_most", np.inf) + 1e-6
    assert estimate.ask("age < 3 and marital = 'married'").value == 0
    rows = estimate.sample(100_000)
    assert DOMAIN.possible_rows(rows).all()
    scale = estimate.total / len(rows)
    own = estimate.sample()
    for bound in BOUNDS:
        query = released().query(bound["where"])
        for drawn, factor in ((rows, scale), (own, 1.0)):
            inside = query.weights()[tuple(drawn[:, a] for a in query.attributes)].sum() * factor
            assert bound.get("at_least", 0) - 1e-6 <= inside <= bound.get("at_most", np.inf) + 1e-6
    estimate.save(tmp_path / "e")
    again = Estimate.load(tmp_path / "e")
    assert np.array_equal(again.counts("age", "marital"), estimate.counts("age", "marital"))
    assert np.array_equal(again.sample(50), estimate.sample(50))


@pytest.mark.long
def test_a_fit_without_noise_is_the_data():
    """With hardly any noise the fit has the tables of the data, also those whose attributes are one variable."""
    domain = PLAIN.restricted(CLAUSES)
    release = released(0, domain, 200.0)
    estimate = release.fit(mixtures=1, components=32)
    given = data()
    codes = np.array([[domain[n].code(v) for v in given[n]] for n in domain.names]).T
    for names in (("age", "marital"), ("marital", "sex"), ("sex", "prison")):
        places = [domain.index(n) for n in names]
        truth = np.zeros([domain.shape[a] for a in places])
        np.add.at(truth, tuple(codes[:, a] for a in places), 1)
        assert np.abs(estimate.counts(*names) - truth).sum() < 0.05 * ROWS


def test_nothing_changes_where_bounds_are_kept():
    wide = PLAIN.restricted(bounds=[{"where": "age < 3", "at_most": 10**6}])
    estimate = released(0, wide).fit(mixtures=1, components=2)
    shares = estimate.mixture.marginal([0])
    assert shares.sum() == pytest.approx(1)
    assert estimate.total == released(0, wide).total().value


def test_completed_tables_have_zeros():
    release = released()
    completion = release.complete()
    assert (completion.counts("age", "marital", "sex")[~DOMAIN.possible(["age", "marital", "sex"])] == 0).all()
    each = release.complete(nonnegative="each").counts("age", "marital")
    assert each.min() >= 0
    assert (each[~DOMAIN.possible(["age", "marital"])] == 0).all()
    assert "use nonnegative='each'" in refusal(lambda: release.complete(nonnegative="jointly"))
