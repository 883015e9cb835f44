"""The rule for traces of roots: a lower bound, as close as stated, also where rounding decides."""

from math import cosh, pi, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leastnoise.planning.trace_floor import CLOSE_STEP, FINAL_STEP
from leastnoise.planning.weight_ascent import SEARCH_STEP
from leastnoise.strategies.quadrature import determinants, step_error
from tests.covering import examples


@given(logs=st.lists(st.floats(-11, 11), min_size=1, max_size=6), h=st.sampled_from([0.8, 1.0, 1.5, 2.0, 2.5]))
@settings(max_examples=examples(200))
def test_rule_is_a_lower_bound_and_as_close_as_stated(logs, h):
    m = np.exp(np.array(logs))
    exact = float(np.sqrt(m).sum())
    value = determinants(lambda t: float(np.log1p(m / t).sum()), float(m.max()), h).trace
    assert exact * (1 - 2 * step_error(h) - 1e-7) <= value <= exact * (1 + 1e-13)


def test_error_of_the_rule_is_the_one_of_the_worst_eigenvalue():
    """On the whole line the sum for one eigenvalue differs from its root by a wave; its height is the stated error."""
    h = 2.5
    y = h * np.arange(-400, 400)
    worst = 0.0
    for shift in np.linspace(0, h, 200):
        terms = np.logaddexp(0, -(y + shift)) * np.exp((y + shift) / 2)
        worst = max(worst, abs(h * float(terms.sum()) / (2 * pi) - 1))
    assert worst == pytest.approx(step_error(h), rel=1e-3)
    assert step_error(h) == pytest.approx(1 / (sqrt(0.25 + (2 * pi / h) ** 2) * cosh(2 * pi**2 / h)), rel=1e-3)
    assert step_error(1.0) < 1e-9 < step_error(1.5) < 1e-6


def test_lower_bounds_at_all_nodes_give_one_on_the_trace():
    """Bounds on determinants are summed with the weights of the nodes: none is negative at the steps in use."""
    for step in (FINAL_STEP, CLOSE_STEP, SEARCH_STEP):
        assert determinants(lambda t: float(np.log1p(1 / t)), 1.0, step).weights.min() > 0


def test_rule_knows_zero_eigenvalues():
    m = np.array([0.0, 0.0, 4.0])
    assert determinants(lambda t: float(np.log1p(m / t).sum()), 4.0, 1.0).trace == pytest.approx(2, rel=1e-8)
    assert determinants(lambda t: 0.0, 1.0, 1.0).trace == 0


def test_many_eigenvalues_far_below_the_scale_have_their_share():
    """As three-way tables of fifty attributes have them: nodes go down to where the trace is."""
    m, count = np.array([1.0, np.exp(-40.0), np.exp(-75.0)]), np.array([1.0, np.exp(21.0), np.exp(36.0)])
    nodes = determinants(lambda t: float(count @ np.log1p(m / t)), 1.0, 1.5)
    exact = float(count @ np.sqrt(m))
    assert exact * (1 - 1e-5) < nodes.trace <= exact


def test_nodes_end_where_a_matrix_is_singular_to_rounding():
    m = np.geomspace(1e-6, 1, 400)

    def factored(t: float) -> float:
        if t < 1e-14:
            raise np.linalg.LinAlgError
        return float(np.log1p(m / t).sum())

    exact = float(np.sqrt(m).sum())
    assert exact * (1 - 1e-5) < determinants(factored, 1.0, 1.5).trace <= exact


def test_rounding_far_below_the_eigenvalues_costs_little():
    """Of a singular matrix f is rounding alone there, with room in proportion to 1 / t: any may be the first node."""
    m = np.concatenate([np.zeros(100), np.geomspace(1e-3, 1, 400)])
    nodes = determinants(lambda t: float(np.log1p(m / t).sum()), 1.0, 1.5)
    exact = float(np.sqrt(m).sum())
    assert exact * (1 - 1e-4) < nodes.least_trace(1e-10 / nodes.t) <= exact


def test_rounding_costs_little_where_weights_are_large():
    """Nodes far above all eigenvalues, where f is rounding alone, are not taken: their room would eat the trace."""
    m, off = np.geomspace(1e-6, 1, 400), 1e-9
    nodes = determinants(lambda t: float(np.log1p(m / t).sum()) + off, 1.0, 2.0)
    exact, room = float(np.sqrt(m).sum()), np.full(len(nodes.t), 10 * off)
    assert exact * (1 - 1e-4) < nodes.least_trace(room) <= exact
    assert nodes.least_trace(1e5 * room) > 0.9 * exact  # fewer nodes where room is dear
