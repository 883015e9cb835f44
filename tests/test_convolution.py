"""Products of series: exact for whatever 64 bits hold, and no float on the way."""

import importlib

import numpy as np
import pytest

from leastnoise.algebra.exact import exact_sum
from leastnoise.errors import LeastnoiseError
from leastnoise.strategies.convolution import DIRECT, LONGEST, PRIMES, Transform, exact_convolution
from leastnoise.strategies.toeplitz import MOST_ITEMS, Toeplitz
from tests.every import for_every
from tests.integers import OnlyIntegers, whole

convolution = importlib.import_module("leastnoise.strategies.convolution")


def product(a, b) -> list[int]:
    """First terms of the product in Python's integers: both series packed into one number each, and multiplied."""
    width = 8 * (max(a.max(), b.max(), 1).item().bit_length() // 4 + 8)  # more than twice the bits, and 24 for the sum
    packed = [int.from_bytes(b"".join(int(x).to_bytes(width // 8, "little") for x in s), "little") for s in (a, b)]
    data = (packed[0] * packed[1]).to_bytes(2 * len(a) * width // 8, "little")
    return [int.from_bytes(data[i * width // 8 : (i + 1) * width // 8], "little") for i in range(len(a))]


def one(n, place, value):
    series = np.zeros(n, dtype=np.int64)
    series[place] = value
    return series


def check(a, b):
    values = exact_convolution(a, b)
    assert values.tolist() == product(a, b)
    most = int(a.max()) * sum(b.tolist())
    assert values.dtype == (np.int64 if most < 2**62 else object)
    if values.dtype == object:
        assert all(type(x) is int for x in values)


def test_the_twin_is_right():
    rng = np.random.default_rng(0)
    for n, largest in [(1, 5), (2, 2**62), (40, 2**63 - 1), (90, 3)]:
        a, b = rng.integers(0, largest, (2, n))
        assert product(a, b) == np.convolve(whole(a), whole(b))[:n].tolist()


@pytest.mark.parametrize(
    ("first", "second"),
    [(2, 2), (2**20, 2**7), (2**20, 2**30), (2**20, 2**45), (2**30, 2**62), (2**63 - 1, 2**63 - 1)],
)
@for_every(n=[1, 2, 3, DIRECT - 1, DIRECT, DIRECT + 1, 511, 512, 513, 3_000, 4_096])
def test_products_of_random_series_are_exact(n, first, second):
    rng = np.random.default_rng(n)
    check(rng.integers(0, first, n), rng.integers(0, second, n))


EXTREMES = {
    "all zeros": lambda n: one(n, 0, 0),
    "one huge count first": lambda n: one(n, 0, 2**62 - 1),
    "one huge count last": lambda n: one(n, -1, 2**62 - 1),
    "near 2^62": lambda n: np.full(n, 2**62 - 1),
    "the largest": lambda n: np.full(n, 2**63 - 1),
    "the largest without a sign": lambda n: np.full(n, 2**64 - 1, dtype=np.uint64),
    "just below a prime": lambda n: np.full(n, PRIMES[0].modulus - 1),
    "multiples of a prime": lambda n: np.full(n, PRIMES[1].modulus * PRIMES[0].modulus),
    "small types": lambda n: np.full(n, 127, dtype=np.int8),
}


@pytest.mark.parametrize("first", ["one huge count first", "near 2^62", "the largest", "the largest without a sign"])
@for_every(second=EXTREMES, n=[DIRECT // 2, 2 * DIRECT, 1_025])
def test_extreme_series_are_exact(n, first, second):
    check(EXTREMES[first](n), EXTREMES[second](n))


@pytest.mark.parametrize("primes", [1, 2, 3, 4])
@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_a_prime_more_is_taken_just_in_time(primes, beyond):
    """The last answer is as large as the bound, which lies next to the product of the first primes."""
    modulus = int(np.prod([p.modulus for p in PRIMES[:primes]], dtype=object))
    n, factor = 2 * DIRECT, 1 if primes < 3 else 2**62
    total = modulus // factor + beyond
    b = np.array([total // n] * (n - 1) + [total - total // n * (n - 1)])
    a = np.full(n, factor)
    assert exact_convolution(a, b)[-1] == factor * total
    check(a, b)
    assert len(convolution._primes_above(factor * total)) == primes + (factor * total >= modulus)


@pytest.mark.parametrize("n", [DIRECT, 2 * DIRECT])
@pytest.mark.parametrize("total", [2**62 - 1, 2**62, 2**63 - 1, 2**63])
def test_64_bits_leave_room_for_noise(n, total):
    """Answers below 2^62 are int64, so that noise below 2^62 can be added; larger ones are Python's integers."""
    half = total // 2
    check(np.ones(n, dtype=np.int64), one(n, 0, half) + one(n, 5, total - half))


@pytest.mark.parametrize("n", [300, 600])
def test_products_match_a_dense_matrix(n):
    rng = np.random.default_rng(n)
    column = np.sort(rng.integers(0, 2**30, n) + 1)[::-1].copy()
    dense = whole([[column[i - j] if i >= j else 0 for j in range(n)] for i in range(n)])
    for counts in (rng.integers(0, 100, n), rng.integers(0, 2**52, n), one(n, 7, 2**62 - 1)):
        assert Toeplitz(column).apply(counts).tolist() == (dense @ whole(counts)).tolist()


@pytest.mark.parametrize("prime", PRIMES)
def test_primes_are_prime_and_roots_have_their_order(prime):
    p, g = prime
    assert p < 2**31
    assert (p - 1) % (2 * LONGEST) == 0
    assert all(p % d for d in range(2, int(p**0.5) + 2))
    assert pow(g, (p - 1) // 2, p) == p - 1  # no square
    for k in range(24):
        w = prime.root(2**k)
        assert pow(w, 2**k, p) == 1
        assert k == 0 or pow(w, 2 ** (k - 1), p) == p - 1  # so that no smaller power is 1


def test_primes_hold_every_answer():
    assert len(set(PRIMES)) == len(PRIMES)
    assert int(np.prod([p.modulus for p in PRIMES], dtype=object)) > LONGEST * (2**64 - 1) ** 2
    assert MOST_ITEMS <= LONGEST


@pytest.mark.parametrize("size", [2, 4, 8, 128, 256])
def test_transforms_are_values_at_all_roots_of_unity(size):
    prime = PRIMES[2]
    p, w = prime.modulus, prime.root(size)
    values = np.random.default_rng(size).integers(0, 2**62, size // 2 + 1)
    forward = Transform(prime, size).forward(values)
    expected = [sum(x * pow(w, j * k, p) for j, x in enumerate(values.tolist())) % p for k in range(size)]
    assert sorted(forward.tolist()) == sorted(expected)
    back = Transform(prime, size).backward(forward)
    assert back[: len(values)].tolist() == [x * size % p for x in values.tolist()]
    assert not back[len(values) :].any()


class Watched:
    """NumPy, but arrays that are made raise as soon as a float is made of them."""

    def __getattr__(self, name):
        whole_thing = getattr(np, name)
        if name not in ("zeros", "ones", "empty", "zeros_like"):
            return whole_thing
        return lambda *args, **kwargs: whole_thing(*args, **kwargs).view(OnlyIntegers)


@pytest.mark.parametrize("largest", [2**5, 2**31, 2**62])
def test_uses_integers_only(largest, monkeypatch):
    monkeypatch.setattr(convolution, "np", Watched())
    a, b = np.random.default_rng(0).integers(0, largest, (2, 700))
    values = exact_convolution(a, b.view(OnlyIntegers))
    assert values.tolist() == product(a, b)
    with pytest.raises(AssertionError, match="floats"):
        Watched().zeros(3, dtype=np.uint64) * np.ones(3, dtype=np.int64)  # what NumPy makes floats of


@pytest.mark.parametrize(
    ("a", "b"),
    [([1, 2], [1]), ([], []), ([1, -1], [1, 1]), ([1, 1], [1, -1]), ([1.0, 2.0], [1, 2]), ([1, 2], [0.5, 2])],
)
def test_other_series_are_refused(a, b):
    with pytest.raises(LeastnoiseError, match=r"^products of series take whole numbers of 0 or more, equally many"):
        exact_convolution(np.array(a), np.array(b))


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.int64, np.uint64])
def test_sums_are_exact(kind):
    info = np.iinfo(kind)
    for values in ([info.max] * 9, [info.min] * 9, [info.min, info.max, 1], []):
        assert exact_sum(np.array(values, dtype=kind)) == sum(values)


@pytest.mark.slow
def test_the_longest_series_are_exact():
    n = LONGEST
    a, b = np.full(n, 2**30), np.full(n, 2**62 - 1)
    values = exact_convolution(a, b)
    for t in (0, 1, 2**20 + 7, n - 1):
        assert values[t] == 2**30 * (2**62 - 1) * (t + 1)
