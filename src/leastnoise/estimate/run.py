"""`release.fit()`: from a release to its best estimate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leastnoise._types import Array, Progress
from leastnoise.errors import LeastnoiseError
from leastnoise.estimate.bounded import draw, within_bounds
from leastnoise.estimate.descent import continued, fitted, quiet
from leastnoise.estimate.estimate import Estimate, Source, checked_seed
from leastnoise.estimate.loss import Logits, probabilities
from leastnoise.estimate.mixture import Mixture
from leastnoise.estimate.replicates import Inflation, Replicate, simulated
from leastnoise.estimate.structure import Pairs, found, kept, trees_of
from leastnoise.estimate.targets import Targets, targets_of
from leastnoise.estimate.variables import Variable, determined, forest, variables_of
from leastnoise.release import TableRelease
from leastnoise.strategies.threads import one_blas_thread

PILOT = 32  # components of the mixture by which structure is judged
LEAST_CHANCE = 1e-9  # of a value in a component, where an earlier estimate is taken up
MOST_CODES = 2**31  # of the rows of all replicates
LEAST_SHARE = 0.01  # of a value, relative to the even one, where fits start


def fit(
    release: TableRelease,
    *,
    mixtures: int = 6,
    components: int | None = None,
    replicates: int = 0,
    structure: bool = True,
    start: Estimate | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Estimate:
    """The distribution closest to a release: the mean of a few mixtures of products. Costs no privacy.

    Mixtures get more components until they meet the measurements to their noise, unless `components` says how many.
    Attributes that nearly follow from others are found and attached to them, unless `structure` is False.
    `replicates` are fits to simulated releases of rows drawn from the estimate, which give approximate errors and
    intervals; 10 is a usual number, and each takes about as long as the fit itself.
    `start` is an earlier estimate of the same attributes, whose structure is kept and whose mixtures are moved to this
    release: quicker than a new fit.

    Guarantees: a_warm_start_is_quicker_and_as_close.
    """
    _check_counts(mixtures, components, replicates)
    if start is not None:
        _check_start(start, release, mixtures, components)
    rows = max(release.total().value, 1.0)
    if replicates * rows * len(release.domain) > MOST_CODES:
        raise LeastnoiseError(f"{replicates} replicates of {rows:,.0f} rows are too many to keep; use fewer replicates")
    seeds = np.random.SeedSequence(checked_seed(seed)).spawn(mixtures + replicates)
    rngs = [np.random.default_rng(s) for s in seeds]
    with one_blas_thread(), quiet():
        if start is not None:
            variables = start.mixture.variables
        else:
            variables = _variables(release, rows, checked_seed(seed) if structure else None, progress)
        targets = targets_of(release.state, rows, variables=variables)
        if start is not None:
            result = continued(targets, _logits(targets, start.mixture, mixtures), components, progress)
        else:
            result = fitted(targets, _starts(release, targets.total, variables), components, rngs[:mixtures], progress)
        mixture = _mixture(targets, result.logits, variables)
        first, total = within_bounds(release.domain, mixture, targets.total)
        each = _Each(release, mixture, targets.total, variables, mixtures, components)
        others = []
        for k, rng in enumerate(rngs[mixtures:]):
            if progress is not None:
                progress(k, replicates, f"fitting replicate {k + 1} of {replicates}")
            others.append(each.replicate(k, rng))
    inflation = Inflation.of(release, lambda s: total * first.marginal(s), others)
    return Estimate(Source.of(release), release.domain, first, total, result.misfits, tuple(others), inflation)


@dataclass(frozen=True, eq=False)
class _Each:
    """What replicates start from."""

    release: TableRelease
    mixture: Mixture
    total: float
    variables: tuple[Variable, ...] | None
    mixtures: int
    components: int | None  # as they were asked for

    def replicate(self, k: int, rng: np.random.Generator) -> Replicate:
        """A fit of the same kind to a simulated release of rows from one of the mixtures, each in its turn."""
        domain = self.release.domain
        truth, total = within_bounds(domain, self._one(k % self.mixtures), self.total)
        small = np.min_scalar_type(max(domain.shape) - 1)
        rows = draw(domain, truth, total, max(round(total), 1), rng).astype(small)
        release = simulated(self.release, rows, rng)
        targets = targets_of(release.state, max(release.total().value, 1.0), variables=self.variables)
        starts, count = _starts(release, targets.total, self.variables), len(self.mixture.weights) // self.mixtures
        result = fitted(targets, starts, self.components, rng.spawn(self.mixtures), most=count, least=count)
        found = within_bounds(domain, _mixture(targets, result.logits, self.variables), targets.total)
        return Replicate(*found, rows, release)

    def _one(self, k: int) -> Mixture:
        """One of the mixtures that the estimate is the mean of."""
        count = len(self.mixture.weights) // self.mixtures
        part = slice(k * count, (k + 1) * count)
        factors = tuple(f[part] for f in self.mixture.factors)
        return Mixture(self.mixture.weights[part] * self.mixtures, factors, self.variables)


def _variables(
    release: TableRelease, rows: float, seed: int | None, progress: Progress | None
) -> tuple[Variable, ...] | None:
    """What the factors are about where it is not one attribute each: restricted attributes, or trees that are found."""
    if release.domain.restrictions:
        return variables_of(release.domain)
    if declared := determined(release):
        return forest(release.domain.shape, declared)
    if seed is None:
        return None
    state, shape, ones = release.state, release.domain.shape, _one_way(release, rows)

    def pilot(variables: tuple[Variable, ...] | None, components: int | None = None) -> tuple[Pairs, int]:
        targets, rng = targets_of(state, rows, variables=variables), np.random.default_rng([seed, PILOT])
        logits = fitted(targets, _starts(release, rows, variables), components, [rng], progress, most=PILOT).logits
        return Pairs.of(state, rows, _mixture(targets, logits, variables), len(shape)), len(logits[0][0])

    first, reached = pilot(None)
    if reached < PILOT and first.unexplained():  # few sufficed for all pairs together; more may explain these
        first, _ = pilot(None, PILOT)
    links = found(first, len(shape))
    if links:
        trees = trees_of(first, shape, ones, links)
        links = kept(first, pilot(trees)[0], trees)
    return forest(shape, links) if links else None


def _starts(release: TableRelease, total: float, variables: Sequence[Variable] | None) -> list[Array]:
    """Distributions of the variables to start from."""
    ones = _one_way(release, total)
    return ones if variables is None else [v.product([ones[a] for a in v.attributes]) for v in variables]


def _check_counts(mixtures: object, components: object, replicates: object) -> None:
    least = {"mixtures": 1, "components": 1, "replicates": 0}
    for name, value in {"mixtures": mixtures, "components": components, "replicates": replicates}.items():
        whole = isinstance(value, int) and not isinstance(value, bool) and value >= least[name]
        if not whole and not (name == "components" and value is None):
            raise LeastnoiseError(f"{name} is {value!r}; use a whole number from {least[name]} on")


def _check_start(start: Estimate, release: TableRelease, mixtures: int, components: int | None) -> None:
    if start.domain != release.domain:
        raise LeastnoiseError("the estimate to start from has other attributes than this release; fit without `start`")
    each, rest = divmod(len(start.mixture.weights), mixtures)
    if rest or components not in (None, each):
        raise LeastnoiseError(
            f"the estimate to start from has {len(start.mixture.weights)} products in all, which is not {mixtures} "
            f"mixtures of {components or 'as many each'}; use the `mixtures` and `components` that it was fitted with"
        )


def _one_way(release: TableRelease, total: float) -> list[Array]:
    """Distributions of single attributes to start from."""
    counts = [release.state.marginal([a]) for a in range(len(release.domain))]
    positive = [np.maximum(c, LEAST_SHARE * total / len(c)) for c in counts]
    return [c / c.sum() for c in positive]


def _mixture(targets: Targets, logits: Sequence[Logits], variables: tuple[Variable, ...] | None) -> Mixture:
    """All mixtures as one: their mean."""
    pairs = [probabilities(targets.layout, (w.astype(np.float64), x.astype(np.float64))) for w, x in logits]
    weights, theta = (np.concatenate(each) for each in zip(*pairs, strict=True))
    columns = map(targets.layout.columns, range(len(targets.layout.sizes)))
    return Mixture(weights / len(logits), tuple(np.ascontiguousarray(theta[:, c]) for c in columns), variables)


def _logits(targets: Targets, mixture: Mixture, mixtures: int) -> list[Logits]:
    """The mixtures that one is the mean of."""
    theta = np.concatenate([mixture.factors[k] for k in targets.layout.order], axis=1)
    logs = [np.log(np.maximum(x, LEAST_CHANCE)).astype(targets.dtype) for x in (mixture.weights, theta)]
    weights, factors = (np.split(x, mixtures) for x in logs)
    return list(zip(weights, factors, strict=True))
