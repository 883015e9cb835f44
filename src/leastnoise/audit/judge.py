"""What every audit shares: what is asked for, the runs, the bounds that follow from them, and the verdict.

A kind of release brings a `Subject`: what it claims, and trials. A trial is the mechanism on two made-up neighbours.
Whatever is judged is judged here, the same for all kinds (docs/audit.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import log, pi
from typing import Any, Protocol

import numpy as np

from leastnoise._types import Array, IntArray, Progress
from leastnoise.audit.bounds import LOOKS, bounds, noticed
from leastnoise.errors import LeastnoiseError
from leastnoise.noise import RandomSource, SecureRandomSource, SeededRandomSource

LEAST_RUNS = 100
MANY_RUNS, FEW_RUNS = 10_000, 1_000  # where many runs share one call, and where each is carried out on its own
DELTA = 1e-6  # where nothing states one
CHUNK_NUMBERS = 2**22  # published numbers held at a time, unless one run has more
MOST_NUMBERS = 2**30  # of all runs together
CONSISTENT = "consistent with the claim"
REPEAT_ALARM = 1e-9  # chance that honest noise repeats itself, above which repetitions are not looked for

NewRandomSource = Callable[[], RandomSource]


@dataclass(frozen=True)
class Audit:
    """What an audit measured: `mu` and `epsilon` are lower bounds that hold together with the stated confidence."""

    kind: str  # of release, in words
    runs: int  # on each of the two datasets of a pair
    confidence: float
    delta: float
    claimed_mu: float
    claimed_epsilon: float
    pairs: int  # of neighbouring datasets, one for each way in which data may change
    pair_mu: float  # of the datasets of a pair by the planned noise, at most; no more than what is claimed
    mu: float
    epsilon: float
    noticed_mu: float | None  # one this bad is noticed with the probability `confidence`; None: no mu is
    repeats: int  # runs whose noise was that of an earlier run
    insecure: bool

    @property
    def ok(self) -> bool:
        """Whether nothing speaks against the claim."""
        return self.verdict == CONSISTENT

    @property
    def verdict(self) -> str:
        """The result in words."""
        if self.repeats:
            return f"VIOLATION: {self.repeats:,} runs repeat the noise of another run; a seed or a key is used again"
        sure = f"(confidence {self.confidence:g})"
        if self.mu > self.claimed_mu:
            return f"VIOLATION: mu is at least {self.mu:.4g}, claimed is {self.claimed_mu:.4g} {sure}"
        if self.epsilon > self.claimed_epsilon:
            return f"VIOLATION: epsilon is at least {self.epsilon:.4g}, claimed is {self.claimed_epsilon:.4g} {sure}"
        return CONSISTENT

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self) | {"ok": self.ok, "verdict": self.verdict}

    def __str__(self) -> str:
        power = "no mu" if self.noticed_mu is None else f"a mu of {self.noticed_mu:.4g}"
        each = (
            "two datasets that differ by" if self.pairs == 1 else f"{self.pairs} pairs of datasets that differ by up to"
        )
        lines = (
            f"claimed by this {self.kind}: mu {self.claimed_mu:.4g}, epsilon {self.claimed_epsilon:.4g} "
            f"at delta {self.delta:g}",
            f"measured: mu at least {self.mu:.4g}, epsilon at least {self.epsilon:.4g} "
            f"(confidence {self.confidence:g})",
            f"{self.runs:,} runs on each of {each} mu {self.pair_mu:.4g}",
            f"{power} between them would have been noticed with probability {self.confidence:g}",
            self.verdict,
        )
        return "\n".join(lines)


@dataclass(frozen=True)
class Request:
    """What is asked of an audit; one that would say nothing is refused."""

    runs: int
    confidence: float = 0.95
    delta: float | None = None
    seed: int | None = None
    progress: Progress | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.runs, int) or self.runs < LEAST_RUNS:
            raise LeastnoiseError(
                f"an audit of {self.runs!r} runs says nothing; use at least {LEAST_RUNS}, better 10,000"
            )
        if not 0.5 <= self.confidence < 1:
            raise LeastnoiseError(
                f"confidence must be from 0.5 to below 1, got {self.confidence!r}; usual values are 0.95, 0.99"
            )
        if self.delta is not None and not 0 < self.delta < 1:
            raise LeastnoiseError(
                f"delta must be between 0 and 1, got {self.delta!r}; usual values are 1e-6 or smaller"
            )

    def new_random_source(self) -> NewRandomSource:
        """New secure bits for every call, as every release has its own; or one stream of seeded bits."""
        if self.seed is None:
            return SecureRandomSource
        stream = SeededRandomSource(self.seed)
        return lambda: stream


# --- what a kind of release brings ------------------------------------------------------------------------------------


class Claim(Protocol):
    """What a mechanism promises. Budgets and costs are such claims."""

    @property
    def mu(self) -> float:
        """Gaussian privacy."""

    def epsilon_at(self, delta: float) -> float:
        """The epsilon that holds with this delta."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Runs of a trial on one of its datasets."""

    scores: Array  # (runs, scores): a run's log-likelihood ratio in one or more parts, up to a constant
    prints: IntArray  # (runs, 2): fingerprints of the noise
    mu: float  # between the two datasets by the planned noise, in these runs at most
    surprise: float  # no noise of a run is likelier than e^-surprise


class Trial(Protocol):
    """A mechanism on two neighbouring datasets."""

    @property
    def gaps(self) -> Array:
        """By how much the mean of each score differs between the datasets."""

    def run(self, dataset: int, runs: int, random_source: NewRandomSource) -> Sample:
        """Carry out the mechanism so many times on the first (0) or second (1) dataset."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A release that can be audited: what it claims, and a trial for each way in which its data may change."""

    kind: str  # in words
    claim: Claim
    delta: float | None  # at which epsilon is claimed; None where nothing states one
    trials: Sequence[Trial]
    numbers: int  # that a run publishes
    runs: int = MANY_RUNS  # where nothing else is asked for


# --- the audit --------------------------------------------------------------------------------------------------------


def examine(subject: Subject, runs: int | None = None, confidence: float = 0.95, **options: Any) -> Audit:
    """Try to refute what a subject claims. Options are the other fields of `Request`: delta, seed, progress.

    Noise comes from secure bits as in a release; a seed makes the audit repeatable instead.

    Guarantees: false_alarms_are_rare; halved_noise_is_flagged; reused_seed_is_flagged.
    """
    request = Request(subject.runs if runs is None else runs, confidence, **options)
    if 2 * len(subject.trials) * request.runs * subject.numbers > MOST_NUMBERS:
        raise LeastnoiseError(
            f"{request.runs:,} runs that publish {subject.numbers:,} numbers each take too long; ask for fewer runs"
        )
    delta = next(d for d in (request.delta, subject.delta, DELTA) if d is not None)
    rate = (1 - confidence) / (2 * LOOKS * len(subject.trials))  # two error rates per test
    step, bits, seen = max(1, CHUNK_NUMBERS // subject.numbers), request.new_random_source(), []
    for number, trial in enumerate(subject.trials):
        scores, prints, mu, surprise = _carried_out(trial, step, bits, request, (number, len(subject.trials)))
        seen.append((*bounds(scores, trial.gaps, rate, delta), mu, repeats(surprise, prints)))
    mus, epsilons, apart, repeated = zip(*seen, strict=True)
    return Audit(
        kind=subject.kind,
        runs=request.runs,
        confidence=confidence,
        delta=delta,
        claimed_mu=subject.claim.mu,
        claimed_epsilon=subject.claim.epsilon_at(delta),
        pairs=len(subject.trials),
        pair_mu=max(apart),
        mu=max(mus),
        epsilon=max(epsilons),
        noticed_mu=noticed(subject.claim.mu, request.runs - request.runs // 2, rate, confidence),
        repeats=sum(repeated),
        insecure=request.seed is not None,
    )


def _carried_out(
    trial: Trial, step: int, random_source: NewRandomSource, request: Request, place: tuple[int, int]
) -> tuple[list[Array], IntArray, float, float]:
    """All runs of a trial, some at a time: scores on each dataset, fingerprints, the largest mu, the least surprise."""
    samples: list[list[Sample]] = [[], []]
    for done in range(0, request.runs, step):
        some = min(step, request.runs - done)
        for dataset, results in enumerate(samples):
            results.append(trial.run(dataset, some, random_source))
        if request.progress is not None:
            number, trials = place
            request.progress(number * request.runs + done + some, trials * request.runs, "auditing")
    everything = [*samples[0], *samples[1]]
    scores = [np.concatenate([s.scores for s in results]) for results in samples]
    prints = np.concatenate([s.prints for s in everything])
    return scores, prints, max(s.mu for s in everything), min(s.surprise for s in everything)


# --- fingerprints of noise --------------------------------------------------------------------------------------------


def keys(place: Sequence[int], *lengths: int) -> tuple[IntArray, ...]:
    """Words that turn noise into fingerprints, two for each index of each axis; others for each place."""
    rng = np.random.default_rng([0, *place])
    return tuple(rng.integers(-(2**63), 2**63 - 1, (n, 2)) for n in lengths)


def surprise_of(drawn: Sequence[tuple[int, float]]) -> float:
    """The surprise of noise made of so many Gaussians of such variances."""
    # no value of a Gaussian with its rounding is more likely than 1 / (sigma sqrt(2 pi))
    return sum(count * max(0.0, log(2 * pi * variance) / 2) for count, variance in drawn if variance)


def repeats(surprise: float, prints: IntArray) -> int:
    """Runs with the noise of an earlier one, where that cannot be chance."""
    decisive = 2 * log(len(prints)) - surprise < log(REPEAT_ALARM)
    return len(prints) - len(np.unique(prints, axis=0)) if decisive else 0


# --- mechanisms that publish integers with Gaussian noise -------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Published:
    """The integers that a mechanism publishes: exact on both datasets, and how the best test weighs them.

    The log-likelihood ratio of two Gaussians is linear in what is published. `weights` are its coefficients: the
    inverse covariance of the noise times the difference of the datasets.
    """

    exact: tuple[IntArray, IntArray]  # one axis each
    weights: Array
    surprise: float  # no noise is likelier than e^-surprise
    most_scores: int = 64  # numbers up to which each is a score of its own

    @property
    def _terms(self) -> Array:
        return self.weights * (self.exact[1] - self.exact[0]).astype(np.float64)

    @property
    def gaps(self) -> Array:
        """Squared distance of the datasets in units of the noise, per score."""
        return self._scores(self._terms)

    def _scores(self, terms: Array) -> Array:
        return terms if len(self.weights) <= self.most_scores else terms.sum(axis=-1, keepdims=True)

    def sample(self, rows: IntArray, dataset: int) -> Sample:
        """Runs (rows) of what was published on one of the datasets."""
        noise = (rows - self.exact[dataset]).astype(np.int64)
        scores = self._scores(noise.astype(np.float64) * self.weights) + dataset * self.gaps
        # integers wrap around: other noise has the same two words with a chance far below 2^-64
        (words,) = keys((), len(self.weights))
        return Sample(scores, noise @ words, float(self._terms.sum()) ** 0.5, self.surprise)


@dataclass(frozen=True, eq=False)
class OneByOne:
    """A trial whose runs are whole releases, one after the other."""

    published: Published
    release: Callable[[int, RandomSource], IntArray]  # what a release of one of the datasets publishes

    @property
    def gaps(self) -> Array:
        """By how much the mean of each score differs between the datasets."""
        return self.published.gaps

    def run(self, dataset: int, runs: int, random_source: NewRandomSource) -> Sample:
        """So many releases of one dataset."""
        rows = np.stack([self.release(dataset, random_source()).ravel() for _ in range(runs)])
        return self.published.sample(rows, dataset)
