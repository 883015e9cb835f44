"""Private choices are Gaussian-private: the proof of docs/privacy.md step by step, against dense twins."""

import math
import re
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import trapezoid
from scipy.optimize import brentq, minimize_scalar
from scipy.special import log_ndtr, ndtr, ndtri
from scipy.stats import binom

from leastnoise.errors import LeastnoiseError
from leastnoise.privacy import Budget
from leastnoise.privacy.exponential_mechanism import (
    GRAIN,
    epsilon_for_cost,
    exponential_mechanism_cost,
    exponential_mechanism_rho,
)

EPSILONS = [0.001, 0.1, 0.5, 1, 3, 8]
SHARES = np.linspace(0.02, 0.98, 25)  # where the window [t - epsilon, t] lies: t / epsilon
POSITIVE = st.fractions(Fraction(1, 10**9), 10**6)


def least_mu(epsilon):
    """2 Phi^-1(sigmoid(epsilon / 2))."""
    return 2 * ndtri(1 / (1 + math.exp(-epsilon / 2)))


def cost_of(epsilon):
    return float(exponential_mechanism_cost(Fraction(epsilon)))


def two_points(epsilon, t):
    """Probabilities (p, q) of the first of two outcomes, whose log-ratios ln(q/p) are t and t - epsilon."""
    p = -math.expm1(t - epsilon) / (math.exp(t) - math.exp(t - epsilon))
    return p, p * math.exp(t)


def trade_off(p, q, level):
    """Least error of the second kind of a test of (p, 1 - p) against (q, 1 - q) at a level (Neyman-Pearson), p <= q."""
    return np.where(level <= p, 1 - q * level / p, (1 - q) * (1 - level) / (1 - p))


def gaussian_trade_off(mu, level):
    return ndtr(-ndtri(level) - mu)


def hockey_stick(mu, epsilon):
    """delta of Gaussian privacy at any real epsilon, negative ones included."""
    return ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))


# --- the cost ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 0.01, 0.1, 0.3, 1, 2, 5, 10, 20])
def test_cost_is_never_below_the_exact_one(epsilon):
    with mpmath.workdps(50):
        x = mpmath.mpf(epsilon)
        share = 1 / (1 + mpmath.exp(-x / 2))
        exact = (2 * mpmath.sqrt(2) * mpmath.erfinv(2 * share - 1)) ** 2
        cost = exponential_mechanism_cost(Fraction(epsilon))
        message = mpmath.mpf(cost.numerator) / cost.denominator
        assert exact <= mpmath.pi / 8 * x**2 < message
        if epsilon <= 1:
            assert message < exact * mpmath.mpf("1.01")
        if epsilon <= 1e-3:
            assert message < exact * (1 + mpmath.mpf("2e-7"))


@given(POSITIVE, POSITIVE)
def test_cost_is_exact_and_grows(one, other):
    assert exponential_mechanism_cost(one) == one**2 * Fraction(355, 904)
    assert exponential_mechanism_cost(one) < exponential_mechanism_cost(one + other)
    assert exponential_mechanism_rho(one) == one**2 / 8 < exponential_mechanism_cost(one) / 2


@given(POSITIVE, st.integers(1, 2**40))
def test_epsilon_is_the_largest_within_the_cost(mu_squared, grain):
    if exponential_mechanism_cost(Fraction(1, grain)) > mu_squared:
        with pytest.raises(LeastnoiseError, match="too small to choose with"):
            epsilon_for_cost(mu_squared, grain)
        return
    epsilon = epsilon_for_cost(mu_squared, grain)
    assert grain % epsilon.denominator == 0
    assert exponential_mechanism_cost(epsilon) <= mu_squared < exponential_mechanism_cost(epsilon + Fraction(1, grain))


@given(st.integers(1, 2**40))
def test_round_trip(steps):
    assert epsilon_for_cost(exponential_mechanism_cost(Fraction(steps, GRAIN))) == Fraction(steps, GRAIN)


# --- the proof --------------------------------------------------------------------------------------------------------


def test_slope_of_the_probit_of_a_logistic_falls():
    # Step 3: h, k and the bracket m have the signs that the proof claims.
    z = np.linspace(1e-3, 8, 20_000)
    density, below, above = np.exp(-z * z / 2) / math.sqrt(2 * math.pi), ndtr(z), ndtr(-z)
    h = (below - above) * density - z * below * above
    k = 2 * density**2 - below * above
    m = below - above - 4 * z * density
    assert (h > 0).all()
    assert (np.diff(np.sign(k)) != 0).sum() == 1
    assert (np.diff(np.sign(m)) != 0).sum() == 1
    assert z[np.argmin(m)] == pytest.approx(math.sqrt(0.5), abs=1e-3)
    np.testing.assert_allclose(np.gradient(h, z)[1:-1], k[1:-1], atol=1e-6)
    np.testing.assert_allclose(np.gradient(k, z)[1:-1], (density * m)[1:-1], atol=1e-6)
    np.testing.assert_allclose(np.gradient(below * above / density, z)[1:-1], (-h / density)[1:-1], atol=1e-5)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_trade_off_lies_above_the_gaussian_one(epsilon):
    mu = least_mu(epsilon)
    assert mu**2 <= cost_of(epsilon)
    level = ndtr(np.linspace(-8, 8, 4001))
    for share in SHARES:
        p, q = two_points(epsilon, share * epsilon)
        assert math.log(q / (1 - q)) - math.log(p / (1 - p)) == pytest.approx(epsilon, rel=1e-9)
        assert (trade_off(p, q, level) >= gaussian_trade_off(mu, level) - 1e-13).all()


@pytest.mark.parametrize("epsilon", [0.001, 0.05])
def test_a_thousandth_less_would_be_wrong(epsilon):
    # The vertex of the centred two-point mechanism lies on the curve for mu: any smaller mu fails there. So does one
    # thousandth less than the fraction that is charged.
    p, q = two_points(epsilon, epsilon / 2)
    for mu in (least_mu(epsilon), math.sqrt(cost_of(epsilon))):
        assert trade_off(p, q, p) >= gaussian_trade_off(mu, p) - 1e-15
        assert trade_off(p, q, p) < gaussian_trade_off(0.999 * mu, p) - 1e-5 * epsilon


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_all_windows_together_are_a_shifted_logistic(epsilon):
    def logistic(level):
        return (1 - level) / (1 + math.expm1(epsilon) * level)

    level = ndtr(np.linspace(-6, 6, 500))
    for share in SHARES:
        p, q = two_points(epsilon, share * epsilon)
        assert (trade_off(p, q, level) >= logistic(level) - 1e-14).all()
        assert trade_off(p, q, p) == pytest.approx(logistic(p), rel=1e-12)  # they touch at the vertex


def random_neighbours(rng, epsilon):
    """Log-probabilities of an exponential mechanism on two neighbours; scores of any size, each moved by at most 1."""
    scores = rng.normal(0, rng.choice([0.1, 1, 10]) / epsilon, rng.integers(2, 9))
    moved = scores + rng.choice([rng.uniform(-1, 1, scores.size), rng.choice([-1.0, 1.0], scores.size)])
    logs = epsilon / 2 * np.array([scores, moved])
    return logs - np.logaddexp.reduce(logs, axis=1, keepdims=True)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_random_choices_are_gaussian_private(epsilon, rng):
    mu = math.sqrt(cost_of(epsilon))
    at = np.linspace(-epsilon, epsilon, 101)
    delta, tightest = hockey_stick(mu, at), np.inf
    for _ in range(300):
        p, q = random_neighbours(rng, epsilon)
        assert np.ptp(q - p) <= epsilon + 1e-13
        exact = np.maximum(np.exp(q) - np.exp(at[:, None] + p), 0).sum(axis=1)
        assert (exact <= delta + 1e-14).all()
        tightest = min(tightest, ((delta - exact) / delta).min())
    assert tightest < 0.1  # the draws come close to the bound, so the test is one


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_rho_bounds_renyi_divergences(epsilon, rng):
    rho = float(exponential_mechanism_rho(Fraction(epsilon)))
    for _ in range(100):
        p, q = random_neighbours(rng, epsilon)
        for order in (1.01, 1.5, 2, 5, 30):
            divergence = np.logaddexp.reduce(order * q + (1 - order) * p) / (order - 1)
            assert divergence <= rho * order + 1e-13


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_two_rho_is_no_gaussian_cost(epsilon):
    # At epsilon 0, delta is the total variation: tanh(epsilon/4) for a centred choice, less for a Gaussian of 2 rho.
    p, q = two_points(epsilon, epsilon / 2)
    assert q - p == pytest.approx(math.tanh(epsilon / 4))
    wrong = hockey_stick(math.sqrt(2 * exponential_mechanism_rho(Fraction(epsilon))), 0.0)
    right = hockey_stick(math.sqrt(cost_of(epsilon)), 0.0)
    assert wrong < q - p <= right


# --- choices and measurements together --------------------------------------------------------------------------------


def constant_windows(epsilon, t, choices, mu, at):
    """Exact delta of several choices with one window, and Gaussian noise."""
    _, q = two_points(epsilon, t)
    k = np.arange(choices + 1)
    return binom.pmf(k, choices, q) @ hockey_stick(mu, at - (k * t + (choices - k) * (t - epsilon)))


def worst_windows(epsilon, choices, mu, at, steps=32):
    """Largest delta when every window may depend on all outcomes before: backward induction over the loss so far.

    The windows end on multiples of epsilon / steps, so losses stay on a grid and nothing is interpolated.
    """
    losses = np.arange(-choices * steps, choices * steps + 1) * (epsilon / steps)
    worst = hockey_stick(mu, at - losses)
    firsts = [two_points(epsilon, j * epsilon / steps)[1] for j in range(1, steps)]
    for _ in range(choices):
        windows = np.lib.stride_tricks.sliding_window_view(worst, 2 * steps + 1)
        mixed = [q * windows[:, steps + j] + (1 - q) * windows[:, j] for j, q in enumerate(firsts, 1)]
        worst = np.max([windows[:, steps], *mixed], axis=0)
    return worst.item()


def loss_distribution(epsilon, t, choices, mu, width):
    """The same in dp_accounting, which rounds losses up and takes the worse of both directions."""
    p, q = two_points(epsilon, t)
    lower, upper = ({"a": math.log(x), "b": math.log1p(-x)} for x in (p, q))
    one = pld.from_two_probability_mass_functions(
        lower, upper, pessimistic_estimate=True, value_discretization_interval=width, symmetric=False
    )
    noise = pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=width)
    return one.self_compose(choices).compose(noise)


def worst_after(value, epsilon, choices, losses, steps=16):
    """The same by plain recursion, from given losses and with a given value of the final loss."""
    if not choices:
        return value(losses)

    def after(moved):
        return worst_after(value, epsilon, choices - 1, moved, steps)

    ends = epsilon / steps * np.arange(1, steps)
    firsts = [two_points(epsilon, t)[1] for t in ends]
    mixed = [q * after(losses + t) + (1 - q) * after(losses + t - epsilon) for t, q in zip(ends, firsts, strict=True)]
    return np.max([after(losses), *mixed], axis=0)


def measured_first(epsilon, choices, mu, at):
    """Largest delta when the choices see the noisy measurement: an integral over its loss, which is N(mu^2/2, mu^2)."""
    z = np.linspace(-9, 9, 2001)
    worst = worst_after(lambda loss: np.maximum(-np.expm1(at - loss), 0), epsilon, choices, mu**2 / 2 + mu * z)
    return trapezoid(worst * np.exp(-z * z / 2) / math.sqrt(2 * math.pi), z)


@pytest.mark.parametrize("mu", [0.02, 0.3, 2])
@pytest.mark.parametrize("epsilon", [0.01, 0.3, 2])
def test_adaptive_choices_and_a_gaussian_stay_within_the_sum(epsilon, mu):
    together = math.sqrt(2 * cost_of(epsilon) + mu**2)
    for at in np.linspace(-1, 1, 5) * (2 * epsilon + 5 * mu):
        fixed = max(constant_windows(epsilon, s * epsilon, 2, mu, at) for s in (0.25, 0.5, 0.75))
        last, first = worst_windows(epsilon, 2, mu, at, steps=16), measured_first(epsilon, 2, mu, at)
        twin = worst_after(lambda loss, at=at: hockey_stick(mu, at - loss), epsilon, 2, 0.0)
        assert last == pytest.approx(twin, rel=1e-10)
        assert fixed - 1e-14 <= last <= hockey_stick(together, at) + 1e-14
        assert fixed - 1e-5 * epsilon <= first <= hockey_stick(together, at) + 1e-14


def both_directions(epsilon, t, choices, mu, at):
    return max(constant_windows(epsilon, end, choices, mu, at) for end in (t, epsilon - t))


@pytest.mark.parametrize("share", [0.2, 0.5])
@pytest.mark.parametrize(("epsilon", "mu"), [(0.3, 0.3), (1, 0.5)])
def test_loss_distributions_stay_within_the_sum(epsilon, mu, share):
    width, t = 1e-4, share * epsilon
    result = loss_distribution(epsilon, t, 2, mu, width)
    total = math.sqrt(2 * cost_of(epsilon) + mu**2)
    for at in np.linspace(0, 2 * epsilon + 3 * mu, 7):
        delta = result.get_delta_for_epsilon(at)
        # three mechanisms, each rounded up by at most a bucket
        low, high = (both_directions(epsilon, t, 2, mu, at - shift) for shift in (0, 3 * width))
        assert low * (1 - 1e-6) <= delta <= high * (1 + 1e-6)
        assert delta <= hockey_stick(total, at)


# --- what is left for measuring: the table of docs/privacy.md ---------------------------------------------------------

CHOICES, DELTA, SPENT = 100, 1e-9, 0.1  # a tenth of mu^2 on a hundred choices


def standard_rho(epsilon):
    """epsilon = rho + 2 (rho ln(1/delta))^1/2 (Bun and Steinke 2016)."""
    far = math.log(1 / DELTA)
    return (math.sqrt(far + epsilon) - math.sqrt(far)) ** 2


def sharper_rho(epsilon):
    """delta = min over a > 1 of e^((a - 1)(a rho - epsilon)) (1 - 1/a)^a / (a - 1) (Canonne, Kamath, Steinke 2020)."""

    def log_delta(log_order, rho):
        excess = math.exp(log_order)  # a - 1
        order = 1 + excess
        return excess * (order * rho - epsilon) - log_order + order * math.log(excess / order)

    def miss(rho):
        best = minimize_scalar(log_delta, args=(rho,), bounds=(-3, 15), method="bounded", options={"xatol": 1e-9})
        return best.fun - math.log(DELTA)

    return brentq(miss, standard_rho(epsilon), 3 * standard_rho(epsilon), rtol=1e-9)


def most_left(epsilon, each, total):
    """mu^2 of the measurements at which the worst choices reach delta exactly."""

    def miss(mu_squared):
        return math.log(worst_windows(each, CHOICES, math.sqrt(mu_squared), epsilon) / DELTA)

    return brentq(miss, 0.8 * total, total, rtol=1e-6)


def left_for_measuring(epsilon):
    """Shares of the budget's mu^2: by zCDP with both conversions, by Gaussian privacy, and at most."""
    total = Budget(epsilon=epsilon, delta=DELTA).mu ** 2
    each = epsilon_for_cost(Fraction(SPENT * total) / CHOICES)
    chosen = CHOICES * exponential_mechanism_rho(each)
    left = [
        2 * (standard_rho(epsilon) - chosen),
        2 * (sharper_rho(epsilon) - chosen),
        total - CHOICES * exponential_mechanism_cost(each),
        most_left(epsilon, float(each), total),
    ]
    return [100 * x / total for x in left]


def table_of_docs():
    text = (Path(__file__).parents[2] / "docs" / "privacy.md").read_text().split("## Choosing")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([\d.]+) \| ([\d.]+)% \| ([\d.]+)% \| ([\d.]+)% \| ([\d.]+)% \|$", text, re.MULTILINE)
    return {float(epsilon): [float(x) for x in shares] for epsilon, *shares in rows}


@pytest.mark.parametrize("epsilon", [0.1, 1, 10])
def test_table_of_the_docs(epsilon):
    result = left_for_measuring(epsilon)
    assert result == sorted(result)
    assert table_of_docs()[epsilon] == pytest.approx(result, abs=0.06)


@pytest.mark.long
def test_loss_distribution_agrees_on_a_hundred_choices():
    total = Budget(epsilon=1, delta=DELTA).mu ** 2
    each = float(epsilon_for_cost(Fraction(SPENT * total) / CHOICES))
    width, mu = 1e-5, math.sqrt((1 - SPENT) * total)
    delta = loss_distribution(each, each / 2, CHOICES, mu, width).get_delta_for_epsilon(1)
    low, high = (both_directions(each, each / 2, CHOICES, mu, 1 - shift) for shift in (0, (CHOICES + 1) * width))
    assert low * (1 - 1e-6) <= delta <= high * (1 + 1e-6)
    assert low <= worst_windows(each, CHOICES, mu, 1) < DELTA


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [0, Fraction(-1, 2), 0.5, True, "1/2", None])
@pytest.mark.parametrize(
    ("function", "name"),
    [(exponential_mechanism_cost, "epsilon"), (exponential_mechanism_rho, "epsilon"), (epsilon_for_cost, "mu_squared")],
)
def test_only_positive_fractions(function, name, bad):
    with pytest.raises(LeastnoiseError) as caught:
        function(bad)
    assert (
        str(caught.value) == f"{name} must be a positive Fraction, got {bad!r}; floats are not exact, use Fraction(...)"
    )


@pytest.mark.parametrize("grain", [0, -1, 2.0, True])
def test_bad_grains(grain):
    with pytest.raises(LeastnoiseError) as caught:
        epsilon_for_cost(Fraction(1), grain)
    assert str(caught.value) == f"grain must be a whole number from 1 on, got {grain!r}"


def test_too_little_to_choose_with():
    with pytest.raises(LeastnoiseError) as caught:
        epsilon_for_cost(Fraction(1, 10**20))
    assert str(caught.value) == "mu^2 1e-20 is too small to choose with; use fewer choices or more budget"
