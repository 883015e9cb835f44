"""GReM-LNN: against a quadratic program over the whole domain, and what its certificate and its tables promise."""

import tracemalloc
from functools import cache
from itertools import combinations
from math import prod

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import nnls

import leastnoise as ln
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.adaptive.candidates import cell_noise
from leastnoise.mechanisms.adaptive.completed import Completed
from leastnoise.mechanisms.adaptive.grem_lnn import EACH, _centred_cells
from leastnoise.noise import SeededRandomSource
from leastnoise.release.postprocessing import nonnegative as solver
from leastnoise.release.postprocessing.postprocess import HOLD
from leastnoise.sources import Table
from leastnoise.workload import Workload
from tests.catalogue import ordered
from tests.dense import dense_marginal_matrix, dense_residual_matrix

SHAPE = (3, 4, 2, 3)
DOMAIN = ordered(*SHAPE)
SHARES = np.random.default_rng(3).dirichlet(np.full(prod(SHAPE), 0.1))
COUNTS = np.random.default_rng(3).multinomial(300, SHARES).reshape(SHAPE)  # most cells are empty
PAIRS = list(combinations(range(4), 2))
TRIPLES = list(combinations(range(4), 3))
TIGHT = 1e-6


def uniform(shape):
    return [np.full(n, 1 / n) for n in shape]


def closure(tables):
    return sorted({s for t in tables for k in range(len(t) + 1) for s in combinations(t, k)}, key=lambda s: (len(s), s))


@cache
def released(select="aim", ways=3, mu=0.3, seed=1):
    work = Workload(DOMAIN).marginals(ways=ways)
    return ln.adaptive_plan(work, ln.Budget(mu=mu), select=select).run(
        Table(DOMAIN, COUNTS), random_source=SeededRandomSource(seed)
    )


def measured_variances(release):
    """Variance of each cell of the centred residuals that were measured evenly."""
    state, entries = release.state, {}
    for orbit, known in zip(state.structure.orbits, state.known, strict=True):
        if known is not None:
            for members in state.structure.sets(orbit).tolist():
                freedom = prod(state.structure.workload.domain.shape[a] - 1 for a in members)
                entries[tuple(sorted(members))] = known.noise * cell_noise(known.strategy) / freedom
    return entries


def variances(release, tables, how):
    """How firmly each residual is held, by the rules of the module written out again."""
    measured, sets = measured_variances(release), closure(tables)
    if how == "grem-lnn":
        return {s: 4.0 ** len(s) if s in measured else 0.5 for s in sets}
    most = max(map(len, tables))
    return {s: measured.get(s, max(measured.values())) * HOLD ** (len(s) - most) for s in sets}


def least_distance(G, h):
    """argmin ||w|| subject to G w >= h, by non-negative least squares (Lawson and Hanson 1974, chapter 23)."""
    E, f = np.vstack([G.T, h]), np.append(np.zeros(G.shape[1]), 1.0)
    u, _ = nnls(E, f, maxiter=100 * len(h))
    r = E @ u - f
    return -r[:-1] / r[-1]


def dense_program(release, tables, how):
    """Cells of the tables, and the objective, where signed counts of the whole domain are moved."""
    shape, completed = release.domain.shape, release.complete()
    held = variances(release, tables, how)
    centred = {s: dense_residual_matrix(uniform([shape[a] for a in s]), range(len(s))) for s in held}
    F = np.vstack([dense_residual_matrix(uniform(shape), s) / np.sqrt(v) for s, v in held.items()])
    start = [centred[s] @ completed.counts(*names(s)).ravel() / np.sqrt(v) for s, v in held.items()]
    G = np.vstack([dense_marginal_matrix(shape, t) for t in tables]) @ np.linalg.pinv(F)
    w = least_distance(G, -G @ np.concatenate(start))
    return G @ (np.concatenate(start) + w), float(w @ w) / 2


def names(members):
    return [DOMAIN.names[a] for a in members]


def cells(completion, tables):
    return np.concatenate([completion.counts(*names(t)).ravel() for t in tables])


@pytest.mark.long
@pytest.mark.parametrize("how", ["jointly", "grem-lnn"])
@pytest.mark.parametrize(
    ("select", "ways", "mu"), [("aim", 2, 0.3), ("aim", 3, 0.3), ("survey", 3, 0.3), ("survey", 3, 0.1)]
)
def test_equals_the_quadratic_program_in_the_whole_domain(select, ways, mu, how):
    release, tables = released(select, ways, mu), PAIRS if ways == 2 else TRIPLES
    joint = release.complete(nonnegative=how, tolerance=TIGHT)
    exact, value = dense_program(release, tables, how)
    assert cells(release.complete(), tables).min() < -1  # there was something to do
    assert_allclose(cells(joint, tables), exact, atol=1e-4)
    assert joint.certificate.dual <= value * (1 + 1e-9)
    assert value <= joint.certificate.primal * (1 + 1e-9)
    assert joint.certificate.gap <= 1e-6 * value


def test_something_was_left_unmeasured():
    """So that the program above has residuals of both kinds."""
    for select, mu in (("aim", 0.3), ("survey", 0.1)):
        assert not set(TRIPLES) <= set(measured_variances(released(select, 3, mu)))


@pytest.mark.parametrize("how", ["jointly", "grem-lnn"])
@pytest.mark.parametrize("select", ["aim", "survey"])
def test_joint_tables_agree_and_nothing_is_negative(select, how):
    joint = released(select).complete(nonnegative=how)
    for members in closure(TRIPLES):
        table = joint.counts(*names(members))
        assert table.min() >= 0
        assert table.sum() == pytest.approx(joint.total, abs=1e-6)
        for axis in range(len(members)):
            rest = names(members[:axis] + members[axis + 1 :])
            assert_allclose(table.sum(axis=axis), joint.counts(*rest), atol=1e-6)


def test_each_table_by_itself_does_not_agree():
    """What is gained by solving for all tables at once."""
    each = released().complete(nonnegative=True)
    first, second = (each.counts(*names(t)).sum(axis=(1, 2)) for t in [(0, 1, 2), (0, 2, 3)])
    assert np.abs(first - second).max() > 1
    assert_allclose(each.counts("a", "b"), released().complete(nonnegative="each").counts("a", "b"))


def test_tables_without_negative_counts_stay():
    release = released(ways=2, mu=1e3)
    joint = release.complete(nonnegative="jointly", tables=["a", ("b", "c")])
    assert_allclose(joint.counts("c", "b"), release.complete().counts("c", "b"), atol=1e-6)
    assert joint.certificate.moved == pytest.approx(0, abs=1e-6)
    assert release.complete().certificate is None


@pytest.mark.long
def test_plans_and_their_own_baselines():
    """Of a plan all tables are measured: the program is that of `adjust`, but for where it starts."""
    work = Workload(DOMAIN).ranges("b", by="a").marginals(ways=2)
    release = ln.plan(work, ln.Budget(mu=0.3), baseline="search").run(
        Table(DOMAIN, COUNTS), random_source=SeededRandomSource(2)
    )
    tables = [("a", "b"), ("a", "b", "c"), "d"]
    joint = release.complete(nonnegative="jointly", tables=tables, tolerance=1e-3)
    assert joint.certificate.distance <= 1e-3 * max(1.0, joint.certificate.moved)
    assert joint.counts("a", "b", "c").min() >= 0
    assert_allclose(joint.counts("a", "b", "c").sum(axis=2), joint.counts("a", "b"), atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nonnegative": "both"}, "nonnegative is 'both'; use 'each', 'jointly' or 'grem-lnn'"),
        ({"tables": ["a"]}, "tables goes with nonnegative='jointly' or 'grem-lnn' only; leave it out"),
        (
            {"nonnegative": "jointly", "tables": []},
            "tables is empty; name the tables that must not be negative, or leave it out for all",
        ),
        ({"nonnegative": "jointly", "tables": [("a", "a")]}, "a x a has an attribute twice; name each once"),
        ({"nonnegative": "grem-lnn", "tolerance": 0}, "tolerance is 0; use a number from 1e-06 on"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(LeastnoiseError) as error:
        released().complete(**options)
    assert str(error.value) == message


def test_tables_beyond_those_that_were_solved_for_are_refused():
    joint = released().complete(nonnegative="jointly", tables=[("a", "b")])
    with pytest.raises(LeastnoiseError) as error:
        joint.counts("c", "a")
    assert str(error.value) == f"c x a was not made non-negative jointly with other tables; {EACH}"


def test_too_many_cells_are_refused_before_any_table_is_completed(monkeypatch):
    monkeypatch.setattr(solver, "MAX_CELLS", 101)  # 24 + 36 + 18 + 24 of the tables of three attributes
    monkeypatch.setattr(Completed, "counts", None)
    with pytest.raises(LeastnoiseError, match="the tables have 102 cells, more than the 101 that can be made non-neg"):
        released().complete(nonnegative="jointly")


def test_even_baselines_need_no_square_matrix():
    """A matrix over 20,000 values would have 3.2 GB."""
    tracemalloc.start()
    _centred_cells(np.full(20_000, 1 / 20_000))
    assert tracemalloc.get_traced_memory()[1] < 10e6
    tracemalloc.stop()


@pytest.mark.parametrize("baseline", [np.full(5, 0.2), np.array([0.4, 0.3, 0.2, 0.1, 0.0])], ids=["even", "other"])
def test_centred_cells_are_measured_with_unit_noise(baseline):
    """The variance of q in the residual space is |w|^2 of the least w with q = w (I - pi 1^T)."""
    scale, strategy = _centred_cells(baseline)
    queries = np.eye(5) - baseline[:, None]
    half = queries @ np.linalg.pinv(np.eye(5) - np.outer(baseline, np.ones(5)))
    assert_allclose(strategy.variances(queries) / scale, (half**2).sum(axis=1), rtol=1e-9)


@pytest.mark.long
@pytest.mark.parametrize("number", [0, 1, 500])
def test_data_without_variety(number):
    counts = np.zeros(SHAPE, dtype=np.int64)
    counts[0, 0, 0, 0] = number
    for neighbours in ("add-remove", "replace"):
        plan = ln.adaptive_plan(
            Workload(DOMAIN).marginals(ways=2), ln.Budget(mu=0.3, neighbours=neighbours), select="aim"
        )
        joint = plan.run(Table(DOMAIN, counts), random_source=SeededRandomSource(1)).complete(nonnegative="jointly")
        assert min(joint.counts(*names(t)).min() for t in PAIRS) >= 0
        assert joint.counts("a", "b").sum() == pytest.approx(joint.total, abs=0.05)
