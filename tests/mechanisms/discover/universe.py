"""Exact laws of what is published of tiny data, in multiprecision, and how well they are told apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import cache
from hashlib import sha256
from itertools import product
from typing import Any

import mpmath

from leastnoise.mechanisms.discover.plan import DiscoverPlan
from leastnoise.sources import PrivacyUnit

People = Mapping[str, int]  # of each key that came out of the engine
REACH = 12  # standard deviations, beyond which one outcome stands for all


@cache
def law(variance: Fraction, at_least: int, people: int | None) -> dict[int | None, mpmath.mpf]:
    """Of one key: its noisy count, or None where it is not published."""
    if people is None:
        return {None: mpmath.mpf(1)}
    sigma = mpmath.sqrt(mpmath.mpf(variance.numerator) / variance.denominator)

    def above(count: int) -> mpmath.mpf:  # P[people + noise >= count]
        return mpmath.erfc((count - people - mpmath.mpf(1) / 2) / sigma / mpmath.sqrt(2)) / 2

    last = at_least + int(REACH * float(sigma)) + 2
    entries: dict[int | None, mpmath.mpf] = {None: 1 - above(at_least)}
    entries |= {count: above(count) - above(count + 1) for count in range(at_least, last)}
    return entries | {last: above(last)}


def people_of_keys(visits: Iterable[tuple[str, Any]], most: int, secret: bytes) -> dict[Any, int]:
    """Distinct people of each key in plain Python: the twin of what engines do in SQL."""
    own: dict[str, set[Any]] = {}
    for person, key in visits:
        own.setdefault(person, set()).add(key)
    digest = PrivacyUnit("p", max_rows=1, secret=secret).key
    people: Counter[Any] = Counter()
    for person, keys in own.items():
        people.update(sorted(keys, key=lambda key: sha256(f"{digest}:{person}:{key}".encode()).hexdigest())[:most])
    return dict(people)


def told_apart(plan: DiscoverPlan, one: People, other: People, epsilon: float) -> mpmath.mpf:
    """max over events S of P[S] - e^epsilon Q[S]: the least delta at epsilon."""
    laws = [
        (law(plan.variance, plan.at_least, one.get(key)), law(plan.variance, plan.at_least, other.get(key)))
        for key in sorted({*one, *other})
        if one.get(key) != other.get(key)  # the same law in both tells nothing
    ]
    factor, total = mpmath.exp(epsilon), mpmath.mpf(0)
    for outcome in product(*({*p, *q} for p, q in laws)):
        a = mpmath.fprod(p.get(x, 0) for (p, _), x in zip(laws, outcome, strict=True))
        b = mpmath.fprod(q.get(x, 0) for (_, q), x in zip(laws, outcome, strict=True))
        total += max(a - factor * b, 0)
    return total
