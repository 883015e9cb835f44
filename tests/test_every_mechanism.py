"""The theorem of docs/theory.md on every mechanism: its random data by enumeration, and the best mechanism there is."""

from itertools import product
from math import exp, inf, pi, sinh, sqrt, tan

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import lil_array

import leastnoise as ln
from leastnoise.privacy.gaussian import contrast


def least_worst_error(epsilon: float, most: int) -> float:
    """Of all epsilon-private mechanisms that count up to `most` rows: the least root mean squared error on all data.

    A linear program over all tables of probabilities; outputs are whole numbers in range, which is optimal for counts.
    """
    counts = outputs = most + 1
    table = np.arange(counts * outputs).reshape(counts, outputs)
    pairs = [(a, b) for j in range(most) for a, b in ((j, j + 1), (j + 1, j))]
    private = lil_array((len(pairs) * outputs, table.size + 1))
    for i, ((a, b), o) in enumerate(product(pairs, range(outputs))):
        private[i, table[a, o]], private[i, table[b, o]] = 1.0, -exp(epsilon)
    error = lil_array((counts, table.size + 1))
    for j in range(counts):
        error[j, table[j]] = (np.arange(outputs) - j) ** 2.0
        error[j, table.size] = -1.0
    whole = np.kron(np.eye(counts), np.ones(outputs))
    cost = np.zeros(table.size + 1)
    cost[-1] = 1.0
    optimize_result_highs = linprog(
        cost,
        A_ub=np.vstack([private.toarray(), error.toarray()]),
        b_ub=np.zeros(private.shape[0] + counts),
        A_eq=np.hstack([whole, np.zeros((counts, 1))]),
        b_eq=np.ones(counts),
    )
    return sqrt(optimize_result_highs.fun)


@pytest.mark.long
@pytest.mark.parametrize(("epsilon", "most"), [(0.3, 4), (0.3, 16), (1.0, 4), (1.0, 16), (2.0, 10)])
def test_floor_is_below_the_best_mechanism_there_is(epsilon: float, most: int) -> None:
    floor = 1 / (2 * sinh(epsilon / 2) + 2 * tan(pi / (most + 2)))
    best = least_worst_error(epsilon, most)
    assert floor <= best <= 3 * floor  # not tight with epsilon alone: of any size, geometric noise has 2^1/2 times it


def test_random_data_of_the_proof() -> None:
    """Changing places keeps the probabilities, d d^T has mean S given the data, and the drift is as small as stated."""
    most, s = 3, np.array([0.2, 0.5, 0.3])
    theta = pi / (most + 2)
    g = np.sin(theta * np.arange(0, most + 3))  # g[j + 1] belongs to count j
    data = list(product(range(most + 1), repeat=len(s)))
    weight = {h: float(np.prod([g[j + 1] ** 2 for j in h])) for h in data}
    total = sum(weight.values())
    joint: dict[tuple[tuple[int, ...], tuple[int, ...]], float] = {}
    drift_square = 0.0
    for h in data:
        drift = np.zeros(len(s))
        for x, j in enumerate(h):
            chances = {step: g[j + 1 + step] / (2 * np.cos(theta) * g[j + 1]) for step in (1, -1)}
            assert sum(chances.values()) == pytest.approx(1)
            for step, chance in chances.items():
                moved = (*h[:x], j + step, *h[x + 1 :])
                drift[x] -= step * s[x] * chance
                if chance > 1e-12:
                    joint[h, moved] = weight[h] / total * s[x] * chance
        drift_square += weight[h] / total * float(drift**2 @ (1 / s))
    assert sum(joint.values()) == pytest.approx(1)
    for (h, moved), chance in joint.items():
        assert joint[moved, h] == pytest.approx(chance)
    assert drift_square == pytest.approx(tan(theta) ** 2 * most / (most + 2))


@pytest.mark.parametrize("most", [3, 6])
def test_clipped_noise_obeys_the_theorem(most: int) -> None:
    """Noise that is clipped to the range of the counts is biased and depends on the data."""
    mu, W = 0.7, np.array([[1.0, 1.0], [1.0, 0.0]])
    normal, chance = np.polynomial.hermite_e.hermegauss(80)
    chance = chance / chance.sum()
    worst = 0.0
    for h in product(range(most + 1), repeat=2):  # measure both cells with noise 1 / mu, clip, sum up
        seen = [np.clip(j + normal / mu, 0, most) for j in h]
        first = seen[0][:, None] + seen[1]
        errors = [(first - sum(h)) ** 2, (seen[0][:, None] - h[0]) ** 2 + 0 * first]
        worst = max(worst, sum(float(chance @ e @ chance) for e in errors))
    s = np.array([0.6, 0.4])
    trace = float(np.linalg.norm(W * np.sqrt(s), "nuc"))
    assert sqrt(worst) >= trace / (contrast(mu) + 2 * tan(pi / (most + 2)))


def test_contrast_is_that_of_two_gaussians() -> None:
    x = np.linspace(-12, 13, 200_001)
    for mu in (0.05, 0.5, 1.0, 3.0):
        P, Q = np.exp(-(x**2) / 2), np.exp(-((x - mu) ** 2) / 2)
        H = float(np.sum(2 * P * Q / (P + Q)) / np.sum(P))
        assert contrast(mu) == pytest.approx(2 * sqrt(1 / H - 1), rel=1e-6)
        assert mu < contrast(mu) < sqrt(exp(mu * mu) - 1)  # the mean itself has mu; chi-square allows more
    assert contrast(40.0) == inf


def test_plans_state_it() -> None:
    domain = ln.Domain.of(a=ln.sized(4, ordered=True))
    work = ln.Workload(domain).prefix("a")
    plan = ln.plan(work, ln.Budget(mu=0.5))
    assert plan.worst_case_floor == pytest.approx(plan.floor_value * 0.5 / contrast(0.5))
    assert plan.worst_case_floor < plan.floor_value < inf
    assert f"below {plan.worst_case_floor:.4g} on all data" in plan.explain()
    several = ln.plan(work, ln.Budget(mu=0.5, rows_per_person=3))
    assert several.worst_case_floor == pytest.approx(3 * plan.worst_case_floor)
    replaced = ln.plan(work, ln.Budget(mu=0.5, neighbours="replace"))
    assert replaced.worst_case_floor == 0  # no floor is known there
    assert "on all data" not in replaced.explain()
    matrix = ln.matrix_plan(np.tri(4), ln.Budget(mu=0.5))
    assert matrix.worst_case_floor == pytest.approx(plan.worst_case_floor, rel=1e-3)  # the same queries
    assert matrix.to_json()["worst_case_floor"] == matrix.worst_case_floor
