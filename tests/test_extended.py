"""WFF's extended marginals (Theorem 4.8) as a mechanism: stated in one line, planned, measured, answered."""

from dataclasses import replace
from itertools import combinations, product
from math import prod, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import norm

import leastnoise as ln
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.gate import Counts
from leastnoise.mechanisms.measurement import measure
from leastnoise.noise import SeededRandomSource
from leastnoise.planning.embedding import Doubling, Unfolded, embed, embedded_family, folded, unfolded
from leastnoise.planning.factorization import workload_matrix
from leastnoise.planning.integer_plan import ROUNDED
from leastnoise.sources import Table
from leastnoise.workload import Workload
from leastnoise.workload.families import FAMILIES, Marginal, Prefix, Suffix, Threshold
from leastnoise.workload.spec import parse_spec
from tests.catalogue import extended_marginals
from tests.covering import examples
from tests.neighbours.tape import replaced

BUDGET = ln.Budget(mu=1)
ALARM = 1e-6  # chance of a false alarm of each statistical test, if noise were drawn anew
DOMAIN = ln.Domain.of(age=range(5), sex=["F", "M", "X"], stay=range(4))


def eta(m):
    """WFF Theorem 4.8."""
    return sum(1 / abs(np.sin(np.pi * (2 * k + 1) / (2 * m))) for k in range(m)) / m


# --- one line ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ways", [1, 2, 3])
def test_one_line_stands_for_all_signs(ways):
    """The same queries as one block for each choice of prefix or suffix on the ordered attributes."""
    one = Workload(DOMAIN).extended(ways=ways)
    choices = {"age": ("prefix", "suffix"), "sex": ("marginal",), "stay": ("prefix", "suffix")}
    many = Workload(DOMAIN)
    for names in combinations(DOMAIN.names, ways):
        for families in product(*(choices[n] for n in names)):
            many = many.add(dict(zip(names, families, strict=True)))
    assert sorted(workload_matrix(one).tolist()) == sorted(workload_matrix(many).tolist())


def test_a_spec_states_them_in_one_line():
    text = (
        "attributes: {age: {range: [0, 4]}, sex: {values: [F, M, X]}, stay: {range: [0, 3]}}\n"
        "workload: [{queries: extended, ways: 2}, {queries: {age: threshold, sex: marginal}}]\n"
        "privacy: {mu: 1}\nsolver: embedding\n"
    )
    spec = parse_spec(text)
    work = spec.workload
    expected = Workload(work.domain).extended(ways=2).add({"age": "threshold", "sex": "marginal"})
    assert_allclose(workload_matrix(work), workload_matrix(expected))
    data = Table(work.domain, np.ones((5, 3, 4), dtype=int))
    assert len(ln.plan_spec(spec).run(data, random_source=SeededRandomSource(1)).answer()) == expected.queries


# --- the doubled cycle ------------------------------------------------------------------------------------------------


@settings(max_examples=examples(60))
@given(shape=st.lists(st.integers(1, 5), min_size=1, max_size=3), axis=st.integers(0, 2), seed=st.integers(0, 99))
def test_unfolded_queries_are_the_same_on_data(shape, axis, seed):
    """Data lives on the first half, where queries stay what they are; folding is the transpose."""
    axis, rng = axis % len(shape), np.random.default_rng(seed)
    wide = tuple(2 * n if a == axis else n for a, n in enumerate(shape))
    query, table = rng.normal(size=shape), rng.normal(size=wide)
    both = unfolded(query, axis)
    assert both.shape == wide
    assert_allclose(np.take(both, range(shape[axis]), axis=axis), query)
    assert np.vdot(both, table) == pytest.approx(np.vdot(query, folded(table, axis)))


@pytest.mark.parametrize("n", [1, 2, 3, 6])
@pytest.mark.parametrize("base", [Prefix(), Suffix(), Threshold(), Marginal()], ids=lambda f: f.name)
def test_unfolded_families_are_half_circles(base, n):
    """Half circles, or differences of two, and everybody; values are shifts of the rows they are said to be ones of."""
    family = Unfolded(base)
    rows, few = family.rows(2 * n), family.up_to_shifts(2 * n)
    assert_allclose(rows[:, :n], base.rows(n))
    if not isinstance(base, Marginal):
        proper = rows[rows[:, :n].min(axis=1) == 0]
        assert_allclose(proper, embedded_family(base, n).rows(2 * n)[base.rows(n).min(axis=1) == 0])
    if few is not None:
        for row, which in zip(rows, few[1], strict=True):
            assert any(np.array_equal(np.roll(few[0][which], t), row) for t in range(2 * n))
    gram = rows.T @ rows
    means = [np.mean([gram[x, (x + k) % (2 * n)] for x in range(2 * n)]) for k in range(2 * n)]
    assert_allclose(family.wrapped_diagonal(2 * n), means, atol=1e-12)


# --- the mechanism ----------------------------------------------------------------------------------------------------

WORKS = {
    "one attribute": Workload(ln.Domain.of(a=range(7))).thresholds("a"),
    "prefixes alone": Workload(ln.Domain.of(a=range(6))).prefix("a"),
    "pairs": Workload(DOMAIN).extended(ways=2),
    "three": Workload(DOMAIN).extended(),
    "with tables": Workload(DOMAIN).extended("age", "sex").marginals("age", "stay").total(weight=2),
    "no order": Workload(ln.Domain.of(a=3, b=["x", "y"])).extended(ways=2),
    "one value": Workload(ln.Domain.of(a=range(1), b=range(3))).extended(ways=2),
}


def run(work, seed=3, **options):
    counts = np.random.default_rng(8).integers(0, 60, work.domain.shape)
    plan = ln.plan(work, BUDGET, solver="embedding", **options)
    return plan, plan.run(Table(work.domain, counts), random_source=SeededRandomSource(seed)), counts


@pytest.mark.parametrize("name", WORKS)
def test_answers_are_unbiased_with_the_stated_errors(name):
    """Answers without noise are exact; those with noise are off by what their coordinates say."""
    plan, release, counts = run(WORKS[name])
    frame, truth = release.answer(), workload_matrix(WORKS[name]) @ counts.ravel()
    scores = (frame["answer"] - truth) / frame["std_error"]
    assert np.abs(scores).max() < norm.isf(ALARM / 2 / len(truth))
    silent = without_noise(release, counts)
    assert_allclose(silent.answer()["answer"], truth, atol=1e-6 * counts.sum())
    assert_allclose(silent.answer()["std_error"], frame["std_error"])
    planned = np.concatenate([v for g in range(len(plan.workload.blocks)) for v in plan.group_variances(g).values()])
    assert_allclose(frame["std_error"], np.sqrt(planned), rtol=1e-4)


def without_noise(release, counts):
    """The same release as if no noise had been drawn."""
    (part,) = release.parts
    with replaced():
        again = measure(part.integer_plan, Counts(Table(release.domain, counts)), SeededRandomSource(1))
    return replace(release, parts=(again,))


def stacked_rows(integer_plan, shape):
    """All that is measured, as rows over the doubled domain, over the noise of each."""
    out = []
    for orbit, queries in zip(integer_plan.structure.orbits, integer_plan.noisy_queries, strict=True):
        for members in integer_plan.structure.sets(orbit).tolist():
            for q in queries:
                rows = q.strategy.matrix() / sqrt(q.variance + ROUNDED)
                wide = rows.reshape(len(rows), *(shape[a] for a in members))
                wide = wide.transpose([0, *(1 + members.index(a) for a in sorted(members))])
                wide = wide.reshape(len(rows), *(n if a in members else 1 for a, n in enumerate(shape)))
                out.append(np.broadcast_to(wide, (len(rows), *shape)).reshape(len(rows), -1))
    return np.concatenate(out)


@pytest.mark.parametrize("name", WORKS)
def test_covariances_are_those_of_dense_matrices(name):
    """Any queries in reach, by the pseudo-inverse of all integer rows on the doubled domain; cost by dense columns."""
    work = WORKS[name]
    plan, release, _ = run(work)
    doubling, names = release.doubling, [n for n in release.tables() if n][-1]
    attributes = [work.domain.index(n) for n in names]
    wide = embed(work).domain.shape
    rows = stacked_rows(plan.integer_plan, wide)
    assert (rows**2).sum(axis=0).max() == pytest.approx(float(plan.cost.mu_squared), rel=1e-3)
    assert plan.cost.mu_squared <= 1
    cells = prod(work.domain.shape[a] for a in attributes)
    weights = np.random.default_rng(2).normal(size=(4, *(work.domain.shape[a] for a in attributes)))
    values, variances = release.row_answers(attributes, weights)
    joint = release.ask_many([ln.release.LinearQuery.of(work.domain, names, w) for w in weights])
    assert_allclose(joint.values, values, rtol=1e-9)
    assert_allclose(np.diagonal(joint.covariance), variances, rtol=1e-6)
    assert_allclose(joint.values, weights.reshape(4, cells) @ release.counts(*names).ravel(), rtol=1e-6)
    full = np.stack([spread(doubling.queries(attributes, w), attributes, wide) for w in weights])
    coordinates = full @ np.linalg.pinv(rows, rcond=1e-9)
    assert_allclose(joint.covariance, coordinates @ coordinates.T, rtol=1e-6, atol=1e-8)
    assert_allclose(plan.covariance([(names, w) for w in weights]), joint.covariance, rtol=1e-3, atol=1e-6)


def spread(weights, attributes, shape):
    """Weights on some attributes as a query over all cells."""
    order = np.argsort(attributes)
    wide = weights.transpose(order).reshape([n if a in attributes else 1 for a, n in enumerate(shape)])
    return np.broadcast_to(wide, shape).ravel()


@pytest.mark.parametrize("m", [2, 5, 16])
def test_measured_errors_are_those_of_the_theorem(m):
    """WFF Theorem 4.8 at d = 1: (1 + eta) / 2 for every prefix and suffix, as measured and answered."""
    work = Workload(ln.Domain.of(a=range(m))).thresholds("a")
    plan, release, _ = run(work)
    assert_allclose(release.answer()["std_error"], (1 + eta(m)) / 2, rtol=1e-4)
    assert plan.rmse == pytest.approx((1 + eta(m)) / 2, rel=1e-6)


def test_releases_of_extended_marginals_are_merged():
    """Two releases have the precision of both; one on plain residuals is refused in one line."""
    work = WORKS["pairs"]
    _, first, _ = run(work, seed=1)
    _, second, _ = run(work, seed=2)
    both = ln.merge(first, second)
    assert_allclose(both.answer(work)["std_error"] * sqrt(2), first.answer()["std_error"], rtol=1e-9)
    plain = ln.plan(work, BUDGET, solver="fourier").run(
        Table(DOMAIN, np.ones(DOMAIN.shape, dtype=int)), random_source=SeededRandomSource(3)
    )
    with pytest.raises(LeastnoiseError, match="different attributes on doubled cycles"):
        ln.merge(first, plain)


@pytest.mark.parametrize("call", ["fit", "complete", "best_estimate", "adjust", "baselines"])
def test_what_needs_residuals_of_tables_says_so(call):
    _, release, _ = run(WORKS["pairs"])
    with pytest.raises(LeastnoiseError, match=rf"^{call}\(\) works on residuals of tables, which solver 'embedding'"):
        getattr(release, call)()


def test_doubling_is_seen_from_the_domains():
    wide = embed(WORKS["pairs"]).domain
    assert Doubling.between(DOMAIN, wide).sizes == {0: 5, 2: 4}
    assert not Doubling.between(DOMAIN, DOMAIN)


@pytest.mark.long
def test_extended_marginals_on_many_values():
    """Cycles of 26,000 values, too many for dense rows: everything by FFT."""
    n = 13_000
    work = Workload(ln.Domain.of(a=range(n), b=2)).extended()
    plan, release, counts = run(work)
    truth = np.concatenate([np.cumsum(counts, axis=0), counts.sum(axis=0) - np.cumsum(counts, axis=0) + counts])
    frame = release.answer()
    scores = (frame["answer"].to_numpy() - truth.ravel()) / frame["std_error"].to_numpy()
    assert np.abs(scores).max() < norm.isf(ALARM / 2 / truth.size)
    assert plan.integer_plan.rmse == pytest.approx(plan.rmse, rel=1e-4)
    cells = (release.counts("a") - counts.sum(axis=1)) / release.std_errors("a")
    assert np.abs(cells).max() < norm.isf(ALARM / 2 / n)


@pytest.mark.long
def test_audits_of_extended_marginals():
    """The claim stands (confidence 99.9%, fixed seed), under both kinds of change."""
    for neighbours in ("add-remove", "replace"):
        plan = ln.plan(WORKS["one attribute"], ln.Budget(mu=1, neighbours=neighbours), solver="embedding")
        assert plan.audit(400, 0.999, seed=1).verdict == "consistent with the claim"


# --- explicit matrices ------------------------------------------------------------------------------------------------

MIXES = {
    "one of each": ((3, 4), {0}, [(0,), (1,), (0, 1)]),
    "numbers alone": ((3, 4), {0, 1}, [(0, 1)]),
    "pairs of three": ((3, 2, 4), {0, 2}, [(0, 1), (0, 2), (1, 2)]),
    "with the total": ((4, 3), {0}, [(), (0, 1)]),
}


@pytest.mark.parametrize("name", MIXES)
@pytest.mark.parametrize("objective", ["sum", "max", {"lr": 2}, {"lr": 4.5}], ids=str)
def test_complex_matrices_attain_the_planned_error(name, objective):
    """W = L R with columns of R of norm 1, and row norms of L that are the errors of solver 'embedding' at mu = 1."""
    sizes, numerical, sets = MIXES[name]
    p = {S: 1.0 if objective == "max" else 1.0 + len(S) for S in sets}
    work = extended_marginals(sizes, numerical, p)
    plan = ln.plan(work, BUDGET, solver="embedding", objective=objective)
    L, R = plan.fourier_factorization()
    assert_allclose(L @ R, workload_matrix(work), atol=1e-9)
    assert_allclose(np.linalg.norm(R, axis=0), 1, rtol=1e-9)
    norms = np.linalg.norm(L, axis=1)
    weights = np.concatenate([np.full(b.count(work.domain), b.weight) for b in work.blocks])
    if objective == "max":
        assert norms.max() == pytest.approx(plan.max_std_error, rel=1e-4)
    elif objective == "sum":
        assert sqrt(weights @ norms**2 / plan.queries) == pytest.approx(plan.value, rel=1e-6)
    else:
        r = objective["lr"]
        assert (weights @ norms ** (2 * r)) ** (1 / (2 * r)) == pytest.approx(plan.value, rel=1e-4)
    if not isinstance(objective, dict):
        assert sum(t.p for t in plan.fourier_weights()) == pytest.approx(1)


def test_complex_matrices_for_any_monotone_norm():
    """A norm of one variance per table: the largest, as a function, is `max`; shares of shifts do not enter."""
    sizes, numerical, sets = MIXES["pairs of three"]
    work = extended_marginals(sizes, numerical, dict.fromkeys(sets, 1.0))

    def largest(variances):
        slope = np.zeros(len(variances))
        slope[int(np.argmax(variances))] = 1.0
        return float(variances.max()), slope

    L, R = ln.theory.fourier_factorization(work, largest)
    assert_allclose(L @ R, workload_matrix(work), atol=1e-9)
    best = np.linalg.norm(ln.theory.fourier_factorization(work, "max")[0], axis=1).max()
    assert np.linalg.norm(L, axis=1).max() == pytest.approx(best, rel=0.02)


def test_complex_matrices_refuse_what_they_do_not_know():
    work = Workload(DOMAIN)
    ages = work.prefix("age")
    for bad in (ages.ranges("age"), ages.marginals("age"), ages.affine("age", "stay")):
        with pytest.raises(LeastnoiseError, match=r"^WFF's factorization is for marginal and cyclic"):
            ln.plan(bad, BUDGET).fourier_factorization()


def test_the_new_family_is_known_everywhere():
    assert "threshold" in FAMILIES
    work = WORKS["one attribute"]
    release = ln.plan(work, BUDGET).run(Table(work.domain, np.arange(7)), random_source=SeededRandomSource(1))
    assert list(release.answer()["query"])[6:8] == ["a up to 6", "a from 0"]
