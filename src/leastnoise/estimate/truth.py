"""Synthetic rows beside the real ones: exact numbers, for whoever has the data, and never to be published."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from math import comb, prod
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

from leastnoise._types import Array, IntArray
from leastnoise.domain.attributes import Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.estimate.associations import Association, between, table_of
from leastnoise.estimate.estimate import checked_seed
from leastnoise.estimate.evaluation import association_lines, listed

NOTICE = (
    "what follows reads the private data without protection: exact numbers, for the eyes of whoever has the data; "
    "it must not be published"
)
WAYS = (1, 2, 3)
SAMPLED = 300  # tables of as many attributes, at most
MOST_CELLS = 2**22
TRAINING = 0.7  # of the real rows; the others test
MOST_TRAINING = 50_000  # rows
MOST_TARGET = 50  # values of what is guessed
RIDGE = 1.0
STEPS = 100
SHOWN = 5


@dataclass(frozen=True)
class Distances:
    """Mean total variation over tables of as many attributes, from the real rows.

    `resampled` is that of as many rows drawn from the real ones with replacement: another sample of the same people.
    """

    ways: int
    tables: int
    distance: float
    resampled: float


@dataclass(frozen=True)
class Classifier:
    """Shares of real rows, kept apart, whose target is guessed by a logistic regression on all other attributes.

    `trained_on_rows` learned from synthetic rows, `trained_on_data` from other real ones; `commonest` always says the
    commonest value.
    """

    target: str
    trained_on_rows: float
    trained_on_data: float
    commonest: float


@dataclass(frozen=True)
class RealValue:
    """A value that only the real rows have, or only the synthetic ones, and how many of them."""

    attribute: str
    value: str
    rows: int

    def __str__(self) -> str:
        return f"{self.attribute} = {self.value} ({self.rows:,})"


@dataclass(frozen=True)
class TruthEvaluation:
    """Synthetic rows beside the real ones. Exact, not protected, and for the curator alone.

    `missing` are values of real rows that no synthetic one has, `invented` those of synthetic ones that none has.
    """

    rows: int
    data_rows: int
    distances: tuple[Distances, ...]
    associations: tuple[Association, ...]
    classifier: Classifier | None
    missing: tuple[RealValue, ...]
    invented: tuple[RealValue, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data that says first what it is."""
        return {"protected": False, "publish": False, "notice": NOTICE} | asdict(self)

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def beside_truth(
    domain: Domain, rows: IntArray, real: IntArray, target: str | None = None, seed: int = 0
) -> TruthEvaluation:
    """Compare rows of codes with the real ones; `target` is what a classifier guesses, the last attribute by default.

    Guarantees: distances_are_those_of_dense_tables; rows_of_the_data_itself_are_as_good.
    """
    if not len(real):
        raise LeastnoiseError("the data has no rows that are counted; give the data that the release was made from")
    rng = np.random.default_rng(checked_seed(seed))
    place = _target(domain, target)
    distances = [_distances(domain, rows, real, ways, rng) for ways in WAYS if ways <= len(domain)]
    pairs = [_pair(domain, pair, rows, real) for pair in _sets(domain, 2, rng)]
    missing, invented = _values(domain, real, rows), _values(domain, rows, real)
    classifier = None if place is None or len(real) < 2 else _classifier(domain, rows, real, place, rng)
    found = tuple(sorted((p for p in pairs if p is not None), key=lambda a: -abs(a.difference)))
    return TruthEvaluation(len(rows), len(real), tuple(distances), found, classifier, missing, invented)


def _target(domain: Domain, name: str | None) -> int | None:
    """The attribute to guess; None where nothing was named and the last one has too many values."""
    place = len(domain) - 1 if name is None else domain.index(name)
    if name is None and (len(domain) < 2 or domain.shape[place] > MOST_TARGET):
        return None
    if len(domain) < 2 or domain.shape[place] > MOST_TARGET:
        raise LeastnoiseError(
            f"a classifier of {name!r} needs another attribute and at most {MOST_TARGET} values; name another target"
        )
    return place


def _sets(domain: Domain, ways: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
    """All sets of attributes whose tables are not too large, or some of them at random."""
    d = len(domain)
    if comb(d, ways) <= 20 * SAMPLED:
        every = list(combinations(range(d), ways))
    else:
        every = sorted({tuple(sorted(rng.choice(d, ways, replace=False).tolist())) for _ in range(20 * SAMPLED)})
    every = [some for some in every if prod(domain.shape[a] for a in some) <= MOST_CELLS]
    if len(every) <= SAMPLED:
        return every
    return [every[k] for k in sorted(rng.choice(len(every), SAMPLED, replace=False).tolist())]


def _distances(domain: Domain, rows: IntArray, real: IntArray, ways: int, rng: np.random.Generator) -> Distances:
    away, again = [], []
    for some in _sets(domain, ways, rng):
        shares = table_of(real, some, domain.shape).ravel() / len(real)
        away.append(_apart(table_of(rows, some, domain.shape).ravel() / len(rows), shares))
        there = np.flatnonzero(shares)
        drawn = rng.multinomial(len(rows), shares[there] / shares[there].sum())
        again.append(_apart(drawn / len(rows), shares[there]))
    return Distances(ways, len(away), *(float(np.mean(x)) if x else 0.0 for x in (away, again)))


def _apart(one: Array, other: Array) -> float:
    return 0.5 * float(np.abs(one - other).sum())


def _pair(domain: Domain, pair: Sequence[int], rows: IntArray, real: IntArray) -> Association | None:
    tables = (table_of(codes, pair, domain.shape) for codes in (rows, real))
    return between(domain, (pair[0], pair[1]), *tables)


def _values(domain: Domain, codes: IntArray, others: IntArray) -> tuple[RealValue, ...]:
    """Values that are in some rows and not in others, the commonest first."""
    found = []
    for a, attribute in enumerate(domain):
        counts = np.bincount(codes[:, a], minlength=attribute.size)
        absent = np.bincount(others[:, a], minlength=attribute.size) == 0
        only = np.flatnonzero(absent & (counts > 0))
        found += [RealValue(attribute.name, attribute.label(int(k)), int(counts[k])) for k in only]
    return tuple(sorted(found, key=lambda v: -v.rows))


# --- a classifier -----------------------------------------------------------------------------------------------------


def _classifier(domain: Domain, rows: IntArray, real: IntArray, place: int, rng: np.random.Generator) -> Classifier:
    order = rng.permutation(len(real))
    cut = min(max(round(TRAINING * len(real)), 1), len(real) - 1)
    train, test = real[order[:cut]][:MOST_TRAINING], real[order[cut:]]
    some = rows[rng.permutation(len(rows))[: len(train)]]
    by_rows, by_data = (_score(logistic(domain.shape, data, place), test, place) for data in (some, train))
    commonest = np.bincount(train[:, place], minlength=domain.shape[place]).argmax()
    return Classifier(domain.names[place], by_rows, by_data, float(np.mean(test[:, place] == commonest)))


def logistic(shape: Sequence[int], rows: IntArray, place: int) -> dict[int, Array]:
    """Weights of a multinomial logistic regression on indicators of all other attributes, by attribute.

    A ridge keeps them finite; the constant is shared by the attributes.
    """
    inputs = [a for a in range(len(shape)) if a != place]
    ends, k = np.cumsum([shape[a] for a in inputs]), shape[place]
    columns = rows[:, inputs] + np.concatenate([[0], ends[:-1]]).astype(np.int64)
    places, truth = np.arange(len(rows)), rows[:, place]

    def loss(flat: Array) -> tuple[float, Array]:
        weights = flat.reshape(-1, k)
        logs = log_softmax(weights[columns].sum(axis=1), axis=1)
        errors = np.exp(logs)
        errors[places, truth] -= 1.0
        slope = RIDGE * weights
        for column in columns.T:
            for j in range(k):
                slope[:, j] += np.bincount(column, errors[:, j], minlength=len(weights))
        return float(-logs[places, truth].sum() + 0.5 * RIDGE * (flat @ flat)), slope.ravel()

    result = minimize(loss, np.zeros(int(ends[-1]) * k), jac=True, method="L-BFGS-B", options={"maxiter": STEPS})
    return dict(zip(inputs, np.split(result.x.reshape(-1, k), ends[:-1]), strict=True))


def _score(weights: dict[int, Array], rows: IntArray, place: int) -> float:
    """The share of rows whose value is guessed right."""
    logits = np.sum([w[rows[:, a]] for a, w in weights.items()], axis=0)
    return float(np.mean(np.argmax(logits, axis=1) == rows[:, place]))


# --- text -------------------------------------------------------------------------------------------------------------


def _lines(found: TruthEvaluation) -> Iterator[str]:
    yield f"NOT FOR PUBLICATION: {NOTICE}"
    yield f"{found.rows:,} synthetic rows beside {found.data_rows:,} real ones"
    yield f"{'tables':<12}{'distance':>10}{'another sample':>16}"
    for each in found.distances:
        yield f"{f'{each.tables:,} {each.ways}-way':<12}{each.distance:>10.4f}{each.resampled:>16.4f}"
    yield from association_lines(found.associations, found.associations[:SHOWN], "data")
    if found.classifier is not None:
        c = found.classifier
        yield (
            f"logistic regression of {c.target}, right on real rows kept apart: {c.trained_on_rows:.1%} trained on "
            f"synthetic rows, {c.trained_on_data:.1%} trained on real ones, {c.commonest:.1%} by the commonest value"
        )
    yield f"values missing: {listed(map(str, found.missing[:SHOWN]), len(found.missing))}"
    yield f"values invented: {listed(map(str, found.invented[:SHOWN]), len(found.invented))}"
