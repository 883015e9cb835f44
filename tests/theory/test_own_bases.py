"""Pairs of populations with their own bases: what reports tell about all of them, by brute force over reports."""

from itertools import product
from math import exp

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import binom

from leastnoise.theory import ANY, SEPARATE, Question, sample_complexity
from leastnoise.theory.own_bases import OwnBases, own_bases
from leastnoise.theory.tails import Error
from leastnoise.theory.witness import SCALES, all_errors, information
from tests.theory.workloads import WORKLOADS, witness

TWO_ANSWERS = ["one query", "histogram", "cdf", "parities"]
HEIGHTS = [0.45, 0.2]
MAX = Error("max")


@pytest.mark.parametrize("name", TWO_ANSWERS)
@pytest.mark.parametrize("height", HEIGHTS)
def test_own_bases_are_populations(name, height):
    result = own_bases(WORKLOADS[name], height)
    assert_allclose([result.s.sum(), result.p.sum()], 1)
    assert_allclose(result.own.sum(axis=1), 1)
    assert_allclose(result.M.sum(axis=1), 0, atol=1e-15)
    assert (result.own - np.abs(result.M) >= 0).all()
    assert_allclose(result.heights, height)
    assert result.one_way[0].all()
    moving = np.ptp(WORKLOADS[name], axis=1) > 0  # the last value of a distribution function has everybody
    assert len(result.p) == moving.sum()


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0])
@pytest.mark.parametrize("name", TWO_ANSWERS)
@pytest.mark.parametrize("height", HEIGHTS)
def test_reports_tell_no_more_about_all_queries(name, epsilon, height):
    """Every report that answers yes or no about the values, the likelihoods that matter most, and random ones."""
    result, rng = own_bases(WORKLOADS[name][:, :6], height), np.random.default_rng(1)
    n = len(result.s)
    f = np.concatenate([1 + (exp(epsilon) - 1) * np.array(list(product([0, 1], repeat=n))), rng.random((200, n)) + 0.6])
    f = f[f.max(axis=1) <= exp(epsilon) * f.min(axis=1)]
    own = f @ result.own.T  # (likelihood, query)
    assert_allclose(((f @ result.s)[:, None] / own).max(axis=0), result.ratios(epsilon), rtol=1e-9)
    tilt = (f @ result.M.T) / own
    assert_allclose(np.abs(tilt).max(), result.largest_tilt(epsilon), rtol=1e-9)
    each = own * tilt**2 @ result.p / (f @ result.s)  # a report is as likely as under s, and these add up
    bound = result.information_bound(result.p, epsilon)[-1]
    assert each.max() <= bound / result.kappa(epsilon)[-1]
    yes = np.stack([f[: 2**n], exp(epsilon) + 1 - f[: 2**n]]) / (1 + exp(epsilon))  # whole reports
    y = (yes @ result.M.T) / (yes @ result.own.T)
    told = np.einsum("ofv,ofv,v->f", yes @ result.own.T, -np.log1p(-(y**2)), result.p)
    assert 0.2 * bound < told.max() * (information(result.s, epsilon) / np.tanh(epsilon / 2) ** 2)
    assert told.max() <= bound


def test_chances_of_samples_use_the_own_base():
    result, n, alpha = own_bases(WORKLOADS["cdf"], 0.4), 30, 0.25
    bound = result.drawn_wrong(np.array([float(n)]), 1.0, alpha)[0]
    for v in range(len(result.p)):
        F = float(result.W[v] @ result.own[v])
        assert_allclose(bound[0, v], binom.cdf(np.floor(n * (F + alpha)), n, min(F + 0.4, 1)), rtol=1e-6, atol=1e-12)


def test_equal_bases_are_a_common_one():
    """The same floors as without bases of their own, where all are s."""
    for name in ("cdf", "parities", "random"):
        common = witness(WORKLOADS[name], 0.1)
        same = OwnBases(common.W, common.p, common.s, common.M, np.tile(common.s, (len(common.p), 1)))
        assert_allclose(same.ratios(0.7), 1, rtol=1e-12)
        assert_allclose(same.information_bound(same.p, 0.7), common.information_bound(common.p, 0.7))
        assert all_errors(same, 0.08, 0.7, MAX, False) == all_errors(common, 0.08, 0.7, MAX, False)
    assert len(SCALES) > 1


def test_large_errors_of_a_distribution_function():
    """ENU Theorems 22 and 23: with one base for all queries 3,491 people were known to be too few."""
    result = sample_complexity(np.tri(16), 0.3, epsilon=0.1)
    entries = {b.who: b.people for b in result.all if b.model == "local"}
    assert 6_993 < entries[SEPARATE] < result.upper("local").people
    assert entries[ANY] <= entries[SEPARATE]


@pytest.mark.long
def test_floors_with_own_bases_grow_with_the_queries_and_fall_in_alpha():
    question = {n: Question.of(np.tri(n), 0.1) for n in (4, 16)}
    table = [
        [next(b.people for b in q.at(a).all if b.who == SEPARATE) for a in (0.2, 0.3, 0.4)] for q in question.values()
    ]
    assert (np.diff(table, axis=0)[:, :2] > 0).all()
    assert (np.diff(table, axis=1) < 0).all()


def test_queries_that_cannot_move_have_no_base():
    assert own_bases(np.eye(3), 0.6) is None
    assert own_bases(np.random.default_rng(0).random((3, 3)), 0.1) is None  # more than two answers
    assert len(own_bases(np.vstack([np.eye(3), 0.1 * np.eye(3)]), 0.3).p) == 3
