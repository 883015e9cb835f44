"""Which subsets say most about given queries: a search that starts from half spaces of the optimal strategy.

For queries W of mean 0 the variances of the estimators are the diagonal of W V^-1 W^T, with V the information of the
subsets (docs/local.md). The search makes their p-norm small, which for large p is about the largest of them.
Memberships of low score, the derivative by them, are exchanged for others of the same value that have a high one; a
step that does not help is taken back and made smaller. Designs that are known to be good for some queries (the cells
of small tables, the two sides of a query) join them in a mixture, whose information is linear in its shares. Designs in
which every two values meet equally often are tried, too; for plain histograms they are best.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.algebra.gram import Dense
from leastnoise.algebra.residual import subsets as axis_sets
from leastnoise.local.randomized_response import MOST_CANDIDATES, Odds
from leastnoise.local.subsets import Members, Subsets
from leastnoise.strategies.optimal import solve_optimal

SPREAD = "spread"
POPULATIONS = ("any", SPREAD)  # what a plan is best for: the worst data, or all values equally frequent
POWER = 8  # of the norm that stands for the largest variance
SMALL = 300  # values up to which several designs are made and mixed
SEARCHED = 1100  # values up to which memberships are searched, if only for a minute
SAMPLED = 512  # queries that guide a search, or twice the values; all of them decide
STEPS = 100
LARGE_STEPS = 60  # beyond SMALL
GAP = 1e-2  # of the strategy to start from
TIE = 1.002  # a simpler design may be so much worse
ROUGH = 1.05  # shares of a balanced design are met roughly
RIDGE = 1e-10
FEW = 64  # values up to which many subsets are searched fast
MANY = 2**14  # subsets where memberships are not searched
MIXED = 64  # designs in a mixture
MIXTURE = 2**13  # subsets of a mixture, so that shares are met to a percent or better
SHARE = 1e-3  # least share of a design in a mixture


def design(
    queries: Array, shape: Sequence[int], odds: Odds, seed: int = 0, population: str = POPULATIONS[0]
) -> Subsets:
    """Subsets that answer the queries (rows over the cells of a table) with little variance for the worst of them.

    The worst data count, or with population "spread" data where all values are equally frequent.

    Guarantees: no_worse_than_reporting_the_value; prefixes_are_better_than_half_spaces.
    """
    T = queries.shape[1]
    if T == 1:
        return Subsets(np.array([[True], [False]]), odds)
    rows = centred(queries)
    results = [Subsets(members, odds) for members in _known(rows, shape)]
    if T > 2 and np.abs(rows).max() > 0:
        results += [_searched(rows, odds, share, seed) for share in _shares(odds, T)]
        if T <= SMALL:
            results.append(mixture(results, rows))
    # where tables are large, the worst data take too long to find
    value = worst if T <= SMALL and population != SPREAD else usual
    able = [(value(s, queries), s) for s in results if tells(s, rows)]
    least = min(value for value, _ in able)
    even = [Subsets(balanced(T, share), odds) for share in _even_shares(rows, odds, least)]
    able += [(value(s, queries), s) for s in even]
    least = min(value for value, _ in able)
    return next(s for value, s in able if value <= TIE * least)  # simple ones come first


def usual(subsets: Subsets, queries: Array) -> float:
    """Largest variance of a query where all values are equally frequent and devices are drawn from them."""
    rows = centred(queries)
    return float(np.einsum("qx,qx->q", rows @ subsets.inverse, rows).max())


def worst(subsets: Subsets, queries: Array) -> float:
    """Largest variance of a query per device, whatever the data are."""
    return float((subsets.moments(queries) - queries**2).max())


def tells(subsets: Subsets, rows: Array) -> bool:
    """Whether the reports determine all queries."""
    missed = rows @ subsets.inverse @ subsets.information - rows
    return bool(np.abs(missed).max(initial=0.0) <= 1e-7 * np.abs(rows).max(initial=0.0))


def centred(queries: Array) -> Array:
    """The queries less their means: the number of reports gives the rest."""
    return queries - queries.mean(axis=1, keepdims=True)


def _known(rows: Array, shape: Sequence[int]) -> Iterator[Members]:
    """Designs that need no search: cells of the table and of smaller ones, and the two sides of each query."""
    axes = [kept for kept in axis_sets(len(shape)) if prod(shape[a] for a in kept) > 1]
    index = np.indices(shape).reshape(len(shape), -1)
    for kept in dict.fromkeys([axes[-1], *axes[:MIXED]]):
        cell = np.ravel_multi_index([index[a] for a in kept], [shape[a] for a in kept])
        yield cell == np.arange(prod(shape[a] for a in kept))[:, None]
    if len(rows) <= MIXED:
        for row in rows:
            if 0 < (row > 0).sum() < len(row):
                yield np.stack([row > 0, row <= 0])


def balanced(cells: int, share: float) -> Members:
    """Subsets in which every two values meet equally often, so that none is reported worse than another.

    They are the images a S + b of one set S of about this share of the numbers modulo a prime p >= cells. For every two
    numbers there is exactly one image of one pair of S per a and b, so that all pairs meet |S| (|S| - 1) times. Where S
    is a union of cosets of a group of d multipliers, only one a per coset is needed, which makes p (p - 1) / d subsets.

    >>> members = balanced(5, 0.4).astype(int)
    >>> (members.T @ members).tolist()[0]
    [8, 2, 2, 2, 2]
    """
    p = next(n for n in range(max(cells, 3), 4 * cells + 4) if _is_prime(n))
    d = next(d for d in range(1, p) if (p - 1) % d == 0 and (p * (p - 1) // d <= max(MIXTURE, 16 * p) or d == p - 1))
    root = next(g for g in range(2, p) if len({pow(g, i, p) for i in range(p - 1)}) == p - 1)
    powers = np.array([pow(root, i, p) for i in range(p - 1)])
    cosets = (p - 1) // d
    taken = min(max(round(share * p / d), 1), cosets - 1) if cosets > 1 else 1
    S = powers[np.arange(p - 1) % cosets < taken]
    members = np.zeros((cosets, p, p), dtype=bool)
    for a in range(cosets):
        places = (powers[a] * S[None] + np.arange(p)[:, None]) % p
        np.put_along_axis(members[a], places, True, axis=1)
    return members.reshape(-1, p)[:, :cells]


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % k for k in range(2, int(n**0.5) + 1))


def _shares(odds: Odds, cells: int) -> list[float]:
    """Shares of favoured subsets to try: best for distinguishing values is 1 / (1 + odds), for half spaces 1/2."""
    least = 1 / (1 + float(odds.ratio))
    return [least, (2 * least + 0.5) / 3] if cells <= SMALL // 2 else [(2 * least + 0.5) / 3]


def _even_shares(rows: Array, odds: Odds, least: float) -> list[float]:
    """Shares for balanced designs that may beat the least variance so far: best for spread data to best for the worst.

    Their information is that of q (1 - q) c^2 times the identity, so that their usual variance is known beforehand.
    """
    T, r = rows.shape[1], float(odds.ratio)
    first = 1 / (1 + r)
    count = 4 if T <= SMALL else 2 if T <= SEARCHED else 0
    shares = [first + (0.5 - first) * step / count / 2 for step in range(count)] if T > 2 else []
    longest = float(np.sum(rows**2, axis=1).max()) * (1 - 1 / T)
    return [q for q in shares if longest * (q * r + 1 - q) ** 2 < ROUGH * least * (r - 1) ** 2 * q * (1 - q)]


def mixture(designs: Sequence[Subsets], rows: Array) -> Subsets:
    """The best mixture of designs: V is linear in the shares, which climb by the usual rule of optimal designs."""
    rows = sampled(rows)
    shares = np.full(len(designs), 1 / len(designs))
    for _ in range(STEPS):
        V = sum(p * s.information for p, s in zip(shares, designs, strict=True))
        slope = _norm(V, rows)[1]
        # the power 1/2 of optimal designs for sums; moments go as 1 / share, and their p-norm is that much steeper
        shares *= np.array([max(float(np.sum(s.information * slope)), 0.0) for s in designs]) ** (1 / (POWER + 1))
        shares /= shares.sum()
    shares[shares < SHARE] = 0
    weights = shares / [s.choice.total for s in designs]
    sizes = np.array([s.tallies for s in designs])
    copies = np.maximum(np.rint(weights * MIXTURE / (weights @ sizes)), shares > 0).astype(int)
    while copies @ sizes > MOST_CANDIDATES:
        copies = np.maximum(copies // 2, copies > 0)
        if copies.max() <= 1:
            return designs[int(np.argmax(shares))]
    members = np.concatenate([np.tile(s.members, (n, 1)) for s, n in zip(designs, copies, strict=True)])
    return Subsets(members, designs[0].odds)


def sampled(rows: Array) -> Array:
    """Rows that guide a search: all of them, or many more than there are values, or others would be neglected."""
    most_rows = max(SAMPLED, 2 * rows.shape[1])
    if len(rows) <= most_rows:
        return rows
    return rows[np.random.default_rng(0).choice(len(rows), most_rows, replace=False)]


def _norm(V: Array, rows: Array) -> tuple[float, Array]:
    """The p-norm (mean) of the variances of the estimators, and minus its derivative by V up to a factor."""
    T = len(V)
    back = np.linalg.solve(V + np.trace(V) * (RIDGE * np.eye(T) + 1 / T**2), rows.T).T  # constants are in no row
    moments = np.einsum("qx,qx->q", back, rows)
    largest = float(moments.max())
    relative = moments / largest
    return largest * float(np.mean(relative**POWER)) ** (1 / POWER), (back.T * relative ** (POWER - 1)) @ back


def _searched(rows: Array, odds: Odds, share: float, seed: int) -> Subsets:
    T = rows.shape[1]
    count = 8 * T if FEW < T <= SEARCHED else max(min(16 * T, MANY), 4 * T, 256)
    favoured = min(max(round(count * share), 1), count - 1)
    directions = np.random.default_rng(seed).standard_normal((count, T))
    members = most(_strategy(rows) @ directions.T, favoured)
    if T <= SEARCHED:
        members = _search(sampled(rows), members, odds)
    return Subsets(np.ascontiguousarray(members.T), odds)


def _strategy(rows: Array) -> Array:
    """The symmetric root of the optimal strategy's V."""
    gram = Dense((rows.shape[1],), ("local", rows.tobytes()), lambda: rows.T @ rows)
    B = solve_optimal(gram, GAP).strategy.matrix()
    w, u = np.linalg.eigh(B.T @ B)
    return (u * np.sqrt(np.maximum(w, 0))) @ u.T


def most(scores: Array, count: int) -> Members:
    """The `count` largest scores of every row."""
    members = np.zeros(scores.shape, dtype=bool)
    np.put_along_axis(members, np.argpartition(-scores, count - 1, axis=1)[:, :count], True, axis=1)
    return members


def _search(rows: Array, members: Members, odds: Odds) -> Members:
    """Exchange memberships while it helps; one row per value."""
    swaps = max(int(members[0].sum()) // 8, 1)
    value, scores = _evaluate(rows, members, odds)
    for _ in range(STEPS if len(members) <= SMALL else LARGE_STEPS):
        tried = _exchanged(members, scores, swaps)
        result, new_scores = _evaluate(rows, tried, odds)
        if result < value:
            members, value, scores = tried, result, new_scores
        elif swaps == 1:
            break
        else:
            swaps = max(swaps // 2, 1)
    return members


def _evaluate(rows: Array, members: Members, odds: Odds) -> tuple[float, Array]:
    subsets = Subsets(members.T, odds)
    value, slope = _norm(subsets.information, rows)
    return value, slope @ subsets.deviations.T


def _exchanged(members: Members, scores: Array, swaps: int) -> Members:
    """Per value, give up the memberships of lowest score for those of highest, where that is a gain."""
    swaps = min(swaps, int(members[0].sum()), int((~members[0]).sum()))
    give = _ordered(np.where(members, scores, np.inf), swaps)
    take = _ordered(np.where(members, np.inf, -scores), swaps)
    gain = np.take_along_axis(scores, take, axis=1) > np.take_along_axis(scores, give, axis=1)
    new, at = members.copy(), np.broadcast_to(np.arange(len(members))[:, None], give.shape)
    new[at[gain], give[gain]] = False
    new[at[gain], take[gain]] = True
    return new


def _ordered(scores: Array, count: int) -> IntArray:
    """Places of the `count` smallest scores of every row, in order."""
    some = np.argpartition(scores, count - 1, axis=1)[:, :count]
    return np.take_along_axis(some, np.argsort(np.take_along_axis(scores, some, axis=1), axis=1), axis=1)
