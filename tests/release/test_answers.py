"""Intervals around whole numbers: exact coverage, by enumerating the noise."""

from math import ceil, sqrt

import numpy as np
import pytest
from scipy.special import ndtr

from leastnoise.mechanisms.tree import Tree, tree_plan
from leastnoise.mechanisms.tree.integer import answer_variances
from leastnoise.noise import SeededRandomSource
from leastnoise.release.answers import Answer, interval_reach, quantile
from leastnoise.release.frames import with_errors

SIGMAS = np.geomspace(0.3, 50, 400)
LEVELS = (0.5, 0.9, 0.95, 0.99)


def rounded(sigma):
    """Probabilities of round(N(0, sigma^2)) from -K to K, beyond which nothing is left in float64."""
    ends = np.arange(ceil(9 * sigma) + 2) + 0.5
    tail = ndtr(-ends / sigma)
    upper = np.concatenate([[1 - 2 * tail[0]], tail[:-1] - tail[1:]])
    return np.concatenate([upper[:0:-1], upper])


def covered(law, half_width):
    """The chance that |N| is at most the half width, for a symmetric law on whole numbers."""
    middle = len(law) // 2
    k = min(int(np.floor(half_width)), middle)
    return law[middle - k : middle + k + 1].sum()


@pytest.mark.parametrize("confidence", LEVELS)
def test_whole_numbers_are_covered(confidence):
    """Also at the deviation without what rounding adds; without the correction all these sigmas together fail."""
    plain = []
    for sigma in SIGMAS:
        law = rounded(sigma)
        for error in (sigma, sqrt(sigma**2 + 1 / 12)):
            answer = Answer(7.0, error, confidence)
            assert covered(law, answer.high - 7) >= confidence - 1e-12
        plain.append(covered(law, quantile(confidence) * sigma))
    assert min(plain) < confidence - 0.01


def test_no_whole_number_is_taken_in_that_is_not_needed():
    """Where an interval is widened, it covered too little."""
    for sigma in SIGMAS:
        before = quantile(0.95) * sigma
        after = float(interval_reach(7, before))
        assert before <= after <= before + 0.5
        if after > before:
            assert covered(rounded(sigma), before) < 0.95 <= covered(rounded(sigma), after)


@pytest.mark.parametrize("terms", [2, 3, 10])
def test_sums_of_whole_numbers_are_covered(terms):
    """Not proven, but computed: sums of rounded Gaussians, with the standard error that they state."""
    for sigma in SIGMAS[::8]:
        law, one = np.ones(1), rounded(sigma)
        for _ in range(terms):
            law = np.convolve(law, one)
        half = float(interval_reach(0, quantile(0.95) * sqrt(terms * (sigma**2 + 1 / 12))))
        assert covered(law, half) >= 0.95 - 2e-4


def test_other_answers_are_as_wide_as_before():
    error, width = 3.0, quantile(0.95)
    assert Answer(7.25, error).high == pytest.approx(7.25 + width * error)
    assert Answer(7.0, error).high == 13  # 5.88 is rounded up
    assert Answer(7.0, 0.0).high == 7
    frame = with_errors({}, "count", np.array([7.0, 7.25]), np.array([error] * 2), width)
    assert frame["high"].tolist() == pytest.approx([13, 7.25 + width * error])
    assert frame["low"].tolist() == pytest.approx([1, 7.25 - width * error])


# --- trees ------------------------------------------------------------------------------------------------------------


def child_law(above, sigma, halves):
    """The law of a child in units of 2^-(halves + 1): half of its parent, in units of 2^-halves, and of a contrast."""
    contrast = np.zeros((len(rounded(sigma)) - 1) * 2**halves + 1)
    contrast[:: 2**halves] = rounded(sigma)
    return np.convolve(above, contrast)


def node_covered(law, halves, half_width):
    """The chance that a node is covered: its estimate, of this law in units of 2^-halves, plus a uniform number."""
    estimates = np.abs(np.arange(len(law)) - len(law) // 2) / 2**halves
    return float(law @ np.clip(np.floor(half_width) + 1 - estimates, 0, 1))


@pytest.mark.parametrize("target", np.geomspace(0.7, 40, 25))
def test_nodes_of_trees_are_covered(target):
    """The law of the noise of a root, its children and theirs, by convolution of rounded Gaussians."""
    plan = tree_plan(Tree.binary(2), targets=float(target))
    root, *spreads = (float(v) for v in answer_variances(plan.cascades[0]))
    release = plan.run(np.array([10, 20, 30, 40]), random_source=SeededRandomSource(1))
    law = rounded(sqrt(root))
    for level, (low, high) in enumerate([(0, 4), (0, 2), (0, 1)]):
        if level:
            law = child_law(law, sqrt(spreads[min(level, len(spreads)) - 1]), level - 1)
        answer = release.range(low, high)
        assert node_covered(law, level, answer.high - answer.value) >= 0.95
