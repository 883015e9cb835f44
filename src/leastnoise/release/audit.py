"""A statistical audit: run the mechanism many times on two neighbouring datasets, and see how well they are told apart.

The datasets are made up, so an audit costs no privacy. It can refute a claim with a known confidence and never prove
one (docs/audit.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from itertools import groupby
from math import log, pi, prod, sqrt
from typing import Any

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.errors import LeastnoiseError
from leastnoise.gate import Counts
from leastnoise.measure import Answers, Measurements, Progress, measure
from leastnoise.noise import Bits, SecureBits, SeededBits
from leastnoise.plan.plan import Plan
from leastnoise.plan.recipe import Recipe
from leastnoise.plan.structure import Orbit, Structure
from leastnoise.privacy.budget import Budget
from leastnoise.release.audit_bounds import LOOKS, bounds, noticed
from leastnoise.release.audit_pair import neighbours
from leastnoise.sources import Source
from leastnoise.sources.source import Axes

LEAST_RUNS = 100
DELTA = 1e-6  # where the budget does not state one
CHUNK_ANSWERS = 2**22  # answers held at a time, unless one run has more
MOST_SCORES = 64  # per run; beyond, the attribute sets of an orbit share one
CONSISTENT = "consistent with the claim"
REPEAT_ALARM = 1e-9  # chance that honest noise repeats itself, above which repetitions are not looked for


@dataclass(frozen=True)
class Audit:
    """What an audit found: `mu` and `epsilon` are lower bounds that hold together with the stated confidence."""

    runs: int  # on each of the two datasets
    confidence: float
    delta: float
    claimed_mu: float
    claimed_epsilon: float
    pair_mu: float  # of the two datasets by the recipe; at most what is claimed
    mu: float
    epsilon: float
    noticed_mu: float | None  # one this bad is found out with the probability `confidence`; None: no mu is
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
        lines = (
            f"claimed: mu {self.claimed_mu:.4g}, epsilon {self.claimed_epsilon:.4g} at delta {self.delta:g}",
            f"found: mu at least {self.mu:.4g}, epsilon at least {self.epsilon:.4g} (confidence {self.confidence:g})",
            f"{self.runs:,} runs on each of two datasets that differ by mu {self.pair_mu:.4g}",
            f"{power} between them would have been noticed with probability {self.confidence:g}",
            self.verdict,
        )
        return "\n".join(lines)


@dataclass(frozen=True)
class Wish:
    """What is asked of an audit; one that would say nothing is refused."""

    runs: int
    confidence: float
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

    def tell(self, done: int) -> None:
        """Report progress."""
        if self.progress is not None:
            self.progress(min(done, self.runs), self.runs, "auditing")


def audit(
    plan: Plan,
    runs: int = 10_000,
    confidence: float = 0.95,
    *,
    delta: float | None = None,
    seed: int | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Try to refute what a plan claims, by running it on made-up neighbours and telling them apart.

    Noise comes from secure bits as in a release; a seed makes the audit repeatable instead.

    >>> from leastnoise.privacy.budget import Budget
    >>> from leastnoise.plan import plan
    >>> from leastnoise.workload import Workload
    >>> work = Workload(Domain.of(age=5, sex=2)).marginals(ways=2)
    >>> audit(plan(work, Budget(mu=1)), runs=200, confidence=0.999, seed=1).verdict
    'consistent with the claim'

    Guarantees: false_alarms_are_rare; halved_noise_is_flagged; forgotten_rows_are_flagged; reused_seed_is_flagged.
    """
    wish, recipe = Wish(runs, confidence, delta, seed, progress), plan.recipe
    sources = neighbours(recipe)
    looks = looks_at(recipe, sources)
    scores, prints = _run(recipe, sources, looks, runs, bits_of(seed), progress)
    gaps = np.concatenate([look.gaps for look in looks])
    return judged(wish, plan.budget, scores, gaps, sqrt(gaps.sum()), _repeats(recipe, prints))


def audit_runs(
    carry_out: Callable[[Counts, Bits], Measurements],
    recipe: Recipe,
    runs: int = 1_000,
    confidence: float = 0.95,
    *,
    delta: float | None = None,
    seed: int | None = None,
    progress: Progress | None = None,
) -> Audit:
    """The same for a mechanism that decides on the way what it measures: every run is carried out on its own.

    A recipe of the same tables tells the claim and the neighbours. What is told apart is what was measured, given what
    the run decided to measure; the decisions themselves are not looked at.

    Guarantees: false_alarms_are_rare; halved_noise_is_flagged; reused_seed_is_flagged.
    """
    wish = Wish(runs, confidence, delta, seed, progress)
    claim, bits, sources = recipe.budget, bits_of(seed), neighbours(recipe)
    scores: list[list[float]] = [[], []]
    prints, largest, last = [], 0.0, recipe
    for run in range(runs):
        for dataset, source in enumerate(sources):
            made = carry_out(Counts(source), bits())
            looks = looks_at(made.recipe, sources)
            parts, marks = zip(*(k.score(made.answers[k.orbit][k.probe], dataset) for k in looks), strict=True)
            gap = float(sum(k.gaps.sum() for k in looks))
            scores[dataset].append(float(sum(p.sum() for p in parts)) - gap / 2)
            prints.append(np.sum(marks, axis=0))
            largest, last = max(largest, gap), made.recipe
        wish.tell(run + 1)
    columns = [np.array(s)[:, None] for s in scores]
    repeats = _repeats(last, np.concatenate(prints))
    return judged(wish, claim, columns, np.array([claim.cost]), sqrt(largest), repeats)


def judged(wish: Wish, claim: Budget, scores: Sequence[Array], gaps: Array, pair_mu: float, repeats: int) -> Audit:
    """Bounds from the scores of all runs, beside the claim."""
    confidence, delta = wish.confidence, wish.delta or claim.delta or DELTA
    runs, rate = len(scores[0]), (1 - confidence) / (2 * LOOKS)  # two error rates per test
    mu, epsilon = bounds(scores, gaps, rate, delta)
    return Audit(
        runs=runs,
        confidence=confidence,
        delta=delta,
        claimed_mu=claim.mu,
        claimed_epsilon=claim.epsilon_at(delta),
        pair_mu=pair_mu,
        mu=mu,
        epsilon=epsilon,
        noticed_mu=noticed(claim.mu, runs - runs // 2, rate, confidence),
        repeats=repeats,
        insecure=wish.seed is not None,
    )


def bits_of(seed: int | None) -> Callable[[], Bits]:
    """New secure bits for every call, as every release has its own; or one stream of seeded bits."""
    if seed is None:
        return SecureBits
    stream = SeededBits(seed)
    return lambda: stream


# --- many runs at once ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Repeated(Structure):
    """The same structure with every attribute set many times over: one call of `measure` is then many runs."""

    runs: int = 1

    @staticmethod
    def of(structure: Structure, runs: int) -> Repeated:
        """Repeat a structure."""
        return Repeated(**{f.name: getattr(structure, f.name) for f in fields(structure)}, runs=runs)

    def sets(self, orbit: Orbit) -> IntArray:
        """All attribute sets of an orbit, each of them `runs` times."""
        return np.repeat(super().sets(orbit), self.runs, axis=0)


class CountedOnce(Counts):
    """Counts that are read once for attribute sets that follow each other: many runs need the same."""

    def tables(self, sets: Sequence[Axes]) -> Iterator[IntArray]:
        """One array of exact counts per attribute set, in the order asked."""
        for axes, same in groupby(sets):
            (table,) = super().tables([axes])
            yield from (table.copy() for _ in same)


@dataclass(frozen=True, eq=False)
class Look:
    """One probe of one orbit: its exact answers (attribute sets, answers) on both datasets, and what weighs them."""

    orbit: int
    probe: int
    variance: float
    exact: tuple[Answers, Answers]
    keys: tuple[IntArray, IntArray]  # of attribute sets and of answers, for fingerprints
    merged: bool  # one score for all attribute sets

    @cached_property
    def weights(self) -> Array:
        """The log-likelihood ratio of two Gaussians is linear in the answers; these are its coefficients."""
        return (self.exact[1] - self.exact[0]).astype(np.float64) / self.variance

    @cached_property
    def gaps(self) -> Array:
        """Squared distance of the two datasets in units of the noise, per score: by that their mean scores differ."""
        return self._scores(np.square(self.weights).sum(axis=1)) * self.variance

    def _scores(self, by_set: Array) -> Array:
        return by_set.sum(axis=-1, keepdims=True) if self.merged else by_set

    def score(self, answers: Answers, dataset: int) -> tuple[Array, IntArray]:
        """Per run: its log-likelihood ratio in one or more parts, up to a constant, and a fingerprint of its noise."""
        sets, width = self.weights.shape
        noise = (answers.reshape(sets, -1, width) - self.exact[dataset][:, None]).astype(np.int64)
        ratios = np.matmul(noise.astype(np.float64), self.weights[:, :, None])[..., 0].T
        # integers wrap around: other noise has the same two words with a chance far below 2^-64
        prints = (np.matmul(noise, self.keys[1]) * self.keys[0][:, None]).sum(axis=0)
        return self._scores(ratios) + dataset * self.gaps, prints


def looks_at(recipe: Recipe, sources: Sequence[Source]) -> list[Look]:
    """All probes, with their exact answers."""
    rng = np.random.default_rng(0)
    both = [Counts(source) for source in sources]
    structure = recipe.structure
    many = sum(m * len(p) for m, p in zip(structure.members, recipe.probes, strict=True)) > MOST_SCORES
    found = []
    for o, (orbit, probes) in enumerate(zip(structure.orbits, recipe.probes, strict=True)):
        sets = [tuple(s) for s in structure.sets(orbit).tolist()]
        counts = [np.stack(list(c.tables(sets))) for c in both] if probes else []
        for i, probe in enumerate(probes):
            zero, one = (
                probe.strategy.apply(t, c.total).reshape(len(sets), -1) for t, c in zip(counts, both, strict=True)
            )
            of_sets, of_answers = (rng.integers(-(2**63), 2**63 - 1, (n, 2)) for n in zero.shape)
            found.append(Look(o, i, float(probe.variance) or 1.0, (zero, one), (of_sets, of_answers), many))
    return found


def _run(
    recipe: Recipe,
    sources: Sequence[Source],
    looks: Sequence[Look],
    runs: int,
    bits: Callable[[], Bits],
    progress: Progress | None,
) -> tuple[list[Array], IntArray]:
    """Scores (runs, scores) on each dataset, and the fingerprints of all noise."""
    step = max(1, CHUNK_ANSWERS // sum(look.weights.size for look in looks))
    scores: list[list[Array]] = [[], []]
    prints = []
    for done in range(0, runs, step):
        repeated = replace(recipe, structure=Repeated.of(recipe.structure, min(step, runs - done)))
        for dataset, source in enumerate(sources):
            found = measure(repeated, CountedOnce(source), bits()).answers
            parts, marks = zip(*(k.score(found[k.orbit][k.probe], dataset) for k in looks), strict=True)
            scores[dataset].append(np.concatenate(parts, axis=1))
            prints.append(np.sum(marks, axis=0))
        if progress is not None:
            progress(min(done + step, runs), runs, "auditing")
    return [np.concatenate(s) for s in scores], np.concatenate(prints)


def _repeats(recipe: Recipe, prints: IntArray) -> int:
    """Runs with the noise of an earlier one, where that cannot be chance."""
    structure = recipe.structure
    drawn = [
        (members * prod(p.strategy.answers), float(p.variance))
        for members, probes in zip(structure.members, recipe.probes, strict=True)
        for p in probes
        if p.variance
    ]
    return repeats(drawn, prints)


def repeats(drawn: Sequence[tuple[int, float]], prints: IntArray) -> int:
    """The same for runs that draw so many numbers of such variances each."""
    # no value of a Gaussian with its rounding is more likely than 1 / (sigma sqrt(2 pi))
    chance = log(len(prints)) * 2 - sum(n * max(0.0, log(2 * pi * variance) / 2) for n, variance in drawn)
    return len(prints) - len(np.unique(prints, axis=0)) if chance < log(REPEAT_ALARM) else 0
