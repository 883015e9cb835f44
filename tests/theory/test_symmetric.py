"""Queries with symmetry against the same queries written out: norms, approximate norms and witnesses."""

from dataclasses import replace
from itertools import product
from math import comb, sqrt

import numpy as np
import pytest
from numpy.testing import assert_allclose

from leastnoise.theory import (
    SymmetricQueries,
    conjunction_queries,
    gamma_2,
    gamma_2_approximate,
    gamma_F,
    marginal_queries,
    parity_queries,
)
from leastnoise.theory.levels import Level
from leastnoise.theory.profiles import levels_witness, nearest_profile
from leastnoise.theory.witness import SCALES, Witness
from tests.every import for_every
from tests.refusals import refusal

FAMILIES = {
    "parities": parity_queries(4, ways=2),
    "parities of several sizes": parity_queries(4, ways=(0, 1, 3)),
    "pairs": marginal_queries(4, ways=2),
    "triples": marginal_queries(4, ways=3),
    "up to pairs": marginal_queries(4, ways=(0, 1, 2)),
    "three values": marginal_queries(3, ways=2, values=3),
    "three values, up to pairs": marginal_queries(3, ways=(1, 2), values=3),
    "most of three bits": SymmetricQueries((Level(4, 2, (1.0, 1.0, 0.0, 0.0), 8),)),
}
CONJUNCTIONS = [conjunction_queries(d, ways) for d, ways in ((4, 2), (5, (0, 1, 2)), (5, 3), (5, (1, 4)), (3, (3,)))]


@for_every(name=FAMILIES)
def test_norms_of_symmetric_queries_match_dense_ones(name):
    queries = FAMILIES[name]
    W = queries.rows()
    assert W.shape == (queries.count, queries.cells)
    for ours, dense in ((queries.gamma_2(), gamma_2(W)), (queries.gamma_F(), gamma_F(W))):
        assert_allclose([ours.lower, ours.upper], dense.value, rtol=3e-6)
    centred = W - W.mean(axis=1, keepdims=True)
    assert_allclose(queries.gamma_2(centred=True).value, gamma_2(centred).value, rtol=3e-6)


@for_every(queries=CONJUNCTIONS)
def test_norms_of_conjunctions_match_dense_ones(queries):
    W = queries.rows()
    assert len(W) == queries.count
    for ours, dense in ((queries.gamma_2(), gamma_2(W)), (queries.gamma_F(), gamma_F(W))):
        assert ours.gap < 2e-6
        assert_allclose(ours.value, dense.value, rtol=3e-6)


@for_every(name=FAMILIES)
def test_singular_values_match_dense_ones(name):
    """At any weights of the levels, with the times that each occurs."""
    queries = FAMILIES[name]
    p = np.random.default_rng(0).random(len(queries.levels))
    each = np.repeat(p / queries.counts, queries.counts.astype(int))
    dense = np.linalg.svd(np.sqrt(each / queries.cells)[:, None] * queries.rows(), compute_uv=False)
    ours = np.repeat(queries.singular_values(p), queries.times.astype(int))
    assert_allclose(np.sort(ours)[::-1], np.append(dense, np.zeros(len(ours)))[: len(ours)], atol=1e-12)


def test_parities_have_the_root_of_their_number():
    """The closed form, for any number of bits."""
    for d, ways in ((10, 3), (64, (1, 2)), (200, 4), (900, 2)):
        queries = parity_queries(d, ways)
        k = sum(comb(d, w) for w in ([ways] if isinstance(ways, int) else ways))
        assert queries.count == k
        assert_allclose([queries.gamma_2().lower, queries.gamma_2().upper], sqrt(k), rtol=1e-8)
        assert_allclose(queries.gamma_F().value, k, rtol=1e-8)


def test_parities_shrink_with_alpha():
    for d, w, alpha in ((30, 3, 0.5), (200, 4, 0.1), (8, 8, 0.9), (12, 5, 0.0)):
        norm = parity_queries(d, w).gamma_2_approximate(alpha)
        assert_allclose([norm.lower, norm.upper], (1 - alpha) * sqrt(comb(d, w)), rtol=1e-7)
    assert parity_queries(5, 2).gamma_2_approximate(1).value == 0


def test_marginals_of_exactly_so_many_attributes_have_a_closed_form():
    """2^-w sum of (C(w, t) C(d, t))^1/2, as WFF has it."""
    for d, w in ((12, 2), (20, 3), (100, 2)):
        expected = sum(sqrt(comb(w, t) * comb(d, t)) for t in range(w + 1)) / 2**w
        norm = marginal_queries(d, w).gamma_2()
        assert_allclose([norm.lower, norm.upper], expected, rtol=1e-8)


@pytest.mark.long
def test_approximate_norms_of_symmetric_queries_match_dense_ones():
    singles = [q for q in FAMILIES.values() if len(q.levels) == 1]
    for queries, alpha in product(singles, (0.05, 0.2, 0.45)):
        ours, dense = queries.gamma_2_approximate(alpha), gamma_2_approximate(queries.rows(), alpha, gap=1e-3)
        assert ours.gap < 1e-6
        assert dense.lower * (1 - 1e-6) <= ours.value <= dense.upper * (1 + 1e-6)


def test_near_profiles_are_within_alpha_and_attain_the_norm():
    singles = [q.levels[0] for q in FAMILIES.values() if len(q.levels) == 1]
    for level, alpha, centred in product(singles, (0.03, 0.3), (False, True)):
        near = nearest_profile(level, alpha, centred)
        assert np.abs(np.subtract(near.profile, level.profile)).max() <= alpha * (1 + 1e-9)
        queries = SymmetricQueries((replace(level, profile=near.profile),))
        assert_allclose(queries.gamma_2(centred=centred).value, near.upper, rtol=1e-6)
        assert not centred or near.upper <= nearest_profile(level, alpha).upper * (1 + 1e-9)


def test_inner_products_of_columns_match_dense_ones():
    for queries in FAMILIES.values():
        W = queries.rows()
        cells = np.array(list(product(range(queries.values), repeat=queries.attributes)))
        differ = (cells[:, None] != cells).sum(axis=2)
        parts = queries.counts @ queries.lengths**2 / queries.times
        assert_allclose(queries.inner_products(parts)[differ], W.T @ W, atol=1e-9)


@for_every(name=FAMILIES)
def test_witnesses_of_levels_match_dense_ones(name):
    """All numbers of a witness are those of the moves written out for every query, parities with every sign."""
    levels = [replace(level, patterns=level.values**level.ways) for level in FAMILIES[name].levels if level.ways]
    for height in (0.02, 0.1):
        ours = levels_witness(levels, height)
        profiles = [row[: level.ways + 1] / level.shares for row, level in zip(ours.M, levels, strict=True)]
        moves = SymmetricQueries(tuple(replace(a, profile=tuple(g)) for a, g in zip(levels, profiles, strict=True)))
        queries = SymmetricQueries(tuple(levels))
        s, counts = np.full(queries.cells, 1 / queries.cells), queries.counts.astype(int)
        dense = Witness(queries.rows(), np.repeat(ours.p / counts, counts), s, moves.rows() * s)
        assert_allclose(dense.M.sum(axis=1), 0, atol=1e-12)
        assert (np.abs(dense.M) <= s * (1 + 1e-12)).all()
        for epsilon in (0.5, 2.0):
            bounds = (w.information_bound(w.p, epsilon) for w in (ours, dense))
            assert_allclose(*bounds, rtol=1e-6)
            assert_allclose(ours.largest_tilt(epsilon), dense.largest_tilt(epsilon), rtol=1e-9)
        assert_allclose(dense.heights, np.repeat(ours.heights, counts), rtol=1e-9)
        assert_allclose(dense.moments(SCALES[0]), np.repeat(ours.moments(SCALES[0]), counts, axis=1), rtol=1e-9)
        assert_allclose(dense.one_way[1], np.repeat(ours.one_way[1], counts), rtol=1e-9)
        assert (dense.one_way[0] == np.repeat(ours.one_way[0], counts)).all()


@for_every(name=[name for name in FAMILIES if name != "parities of several sizes"])
def test_fixed_attributes_leave_some_of_the_queries(name):
    """Rows of the smaller level are rows of the larger one on the values with a fixed first attribute."""
    queries = FAMILIES[name]
    level = queries.levels[-1]
    first = level.rows()[:, : queries.cells // queries.values]  # the first attribute has the value 0
    rows = {row.tobytes() for row in first}
    assert all(row.tobytes() in rows for row in level.fixed(1).rows())


def test_whole_numbers_of_any_type_are_ways():
    assert marginal_queries(4, np.int64(2)) == marginal_queries(4, 2.0) == marginal_queries(4, [2]) == FAMILIES["pairs"]


def test_levels_that_do_not_exist_are_refused():
    for call in (
        lambda: marginal_queries(0, 1),
        lambda: marginal_queries(4, 5),
        lambda: parity_queries(4, ()),
        lambda: parity_queries(4, 1.5),
        lambda: parity_queries(4, "2"),
        lambda: marginal_queries(4.0, 2),
        lambda: conjunction_queries(4, (1, 1)),
        lambda: parity_queries(5000, 2),
        lambda: marginal_queries(4, (1, 2)).gamma_2_approximate(0.1),
        lambda: marginal_queries(20, 3).rows(),
    ):
        assert refusal(call)
