"""Every floor against everything that is achieved: families x errors x models x epsilons x accuracies in one list.

What is achieved are numbers of people n with an accuracy alpha that some mechanism keeps from n people on: the best of
all mechanisms by linear programs, on two values; answers projected to the nearest shares; and all mechanisms that the
package counts as enough. A new family, floor or mechanism joins a list here.
"""

from functools import cache
from itertools import product
from math import sinh, sqrt

import numpy as np
import pytest

from leastnoise.theory import ANY, EXACT, GAUSSIAN, SEPARATE, UNBIASED, Question, marginal_queries, parity_queries
from leastnoise.theory.complexity import NEAR
from tests.theory.test_achieved import GRID, TWO_VALUES, least_from, projected_reports, reach, responses, squares
from tests.theory.test_pairs import least_cost, squared_errors
from tests.theory.workloads import WORKLOADS

DELTA, FEW = 1e-9, 7
ALPHAS = (0.45, 0.2, 0.05, 0.004)
FAMILIES = {
    **WORKLOADS,
    "two values": TWO_VALUES[0],
    "several queries on two values": TWO_VALUES[1],
    "product": [np.tri(3), np.eye(2), np.array([[1.0, 1.0], [1.0, -1.0]])],
    "parities of 4 bits": parity_queries(4, (1, 2, 3, 4)),
    "pairs of 12 bits": marginal_queries(12, 2),
    "pairs and singles of 24 bits": marginal_queries(24, (1, 2)),
    "tables of 6 of 40 bits": marginal_queries(40, 6),
    "parities of 30 bits": parity_queries(30, (2, 3)),
    "tables of 9 attributes": marginal_queries(9, 2, values=12),
}
DENSE = [name for name, W in FAMILIES.items() if isinstance(W, np.ndarray)]


@cache
def question(name, kind, epsilon, delta):
    return Question.of(FAMILIES[name], epsilon, delta, kind)


# Which mechanisms a floor is for: the beginnings of their names, and their privacy.
LINEAR = (EXACT, "Gaussian mechanism")
EVERYBODY = (*LINEAR, NEAR, "reports of the local model", "constants")
CLASSES = {
    ANY: EVERYBODY,
    GAUSSIAN: EVERYBODY,
    SEPARATE: EVERYBODY,
    UNBIASED: LINEAR,
    f"any {EXACT}": LINEAR,
    "noise that does not depend on the data": LINEAR,
}


def members(floor, bounds):
    """Bounds of mechanisms that the floor is for."""
    privacy = "epsilon" if floor.privacy == "epsilon" else "epsilon and delta"
    return [
        b
        for b in bounds
        if (b.side, b.model) == ("enough", floor.model)
        and b.who.startswith(CLASSES[floor.who])
        and b.privacy in (privacy, "nothing is published")
    ]


@pytest.mark.covering
@pytest.mark.long
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("kind", ["max", "worst", "rms"])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_no_floor_is_above_what_the_package_achieves(name, kind, epsilon):
    compared = 0
    for delta, alpha in product((None, DELTA), ALPHAS):
        bounds = question(name, kind, epsilon, delta).at(alpha).all
        for floor in (b for b in bounds if b.side == "too few"):
            for enough in members(floor, bounds):
                assert floor.people <= enough.people, f"alpha {alpha}: {floor} against {enough}"
                compared += 1
    assert compared > 10


# --- numbers of people and accuracies that are achieved from there on -------------------------------------------------


def best_local(W, kind, epsilon):
    """The best answers to n randomized responses, and beyond the last n responses drawn to 1/2."""
    if W.shape[1] > 2 or kind == "max":
        return []
    best = [sqrt(least_from(responses(n, epsilon), squares(n))) for n in range(1, 2 * FEW)]
    v = 1 / (2 * sinh(epsilon / 2)) ** 2 / (2 * FEW)
    later = sqrt(v / 4 / (v + 1 / 4))
    return [(n, max(later, *best[n - 1 :]) * reach(W, kind)) for n in range(1, FEW)]


def best_central(W, kind, epsilon):
    """The best of all private mechanisms, and beyond the last n geometric noise."""
    if W.shape[1] > 2 or kind == "max":
        return []
    one, outputs = TWO_VALUES[0], GRID[::4, None]
    best = [sqrt(least_cost(one, n, epsilon, 0.0, squared_errors(one, n, outputs))) for n in range(1, FEW)]
    later = min(1 / (sqrt(2) * sinh(epsilon / 2)) / FEW, 0.5)
    return [(n, max(later, *best[n - 1 :]) * reach(W, kind)) for n in range(1, FEW)]


def projected(W, kind, epsilon):
    """Subsets whose estimates are moved to the nearest shares."""
    if kind != "rms":
        return []
    Q = Question.of(W, epsilon, error=kind).subsets.probabilities()
    return [(n, projected_reports(W, Q / Q.sum(axis=0), n)) for n in (1, 10, 200, 5_000)]


ACHIEVED = {"local": [best_local, projected], "central": [best_central, best_local, projected]}


@pytest.mark.covering
@pytest.mark.long
@pytest.mark.parametrize("name", DENSE)
@pytest.mark.parametrize("kind", ["worst", "rms"])
@pytest.mark.parametrize("model", ACHIEVED)
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_no_floor_is_above_the_best_of_all_mechanisms(name, kind, model, epsilon):
    """What devices achieve a curator achieves, too; with epsilon alone also what is enough with a delta."""
    for achieve in ACHIEVED[model]:
        for n, alpha in achieve(FAMILIES[name], kind, epsilon):
            for delta in (None, DELTA):
                bounds = question(name, kind, epsilon, delta).at(alpha).all
                floors = [b for b in bounds if b.model == model and b.who == ANY]
                assert floors
                assert all(b.people <= n for b in floors), f"{achieve.__name__}: {n} people have {alpha:.4g}"
