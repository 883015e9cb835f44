"""`release.fit()`: from a release to its best estimate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from leastnoise._types import Array, Progress
from leastnoise.errors import LeastnoiseError
from leastnoise.estimate.bounded import within_bounds
from leastnoise.estimate.descent import continued, each, fitted, quiet, refitted
from leastnoise.estimate.estimate import Estimate, Replicate, Source, checked_seed
from leastnoise.estimate.loss import Logits, probabilities, simulated
from leastnoise.estimate.mixture import Mixture
from leastnoise.estimate.structure import Pairs, found, kept, trees_of
from leastnoise.estimate.targets import Targets, targets_of
from leastnoise.estimate.variables import Variable, determined, forest, variables_of
from leastnoise.release import TableRelease
from leastnoise.strategies.threads import one_blas_thread

PILOT = 32  # components of the mixture by which structure is judged
LEAST_CHANCE = 1e-9  # of a value in a component, where an earlier estimate is taken up
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
    `replicates` are refits to simulated measurements, which give approximate errors; 10 is a usual number.
    `start` is an earlier estimate of the same attributes, whose structure is kept and whose mixtures are moved to this
    release: quicker than a new fit.

    Guarantees: a_warm_start_is_quicker_and_as_close.
    """
    _check_counts(mixtures, components, replicates)
    if start is not None:
        _check_start(start, release, mixtures, components)
    seeds = np.random.SeedSequence(checked_seed(seed)).spawn(mixtures + replicates)
    rngs = [np.random.default_rng(s) for s in seeds]
    answer = release.total()
    rows = max(answer.value, 1.0)
    with one_blas_thread(), quiet():
        if start is not None:
            variables = start.mixture.variables
        else:
            variables = _variables(release, rows, checked_seed(seed) if structure else None, progress)
        targets = targets_of(release.state, rows, answer.std_error, variables=variables)
        if start is not None:
            result = continued(targets, _logits(targets, start.mixture, mixtures), components, progress)
        else:
            result = fitted(targets, _starts(release, targets.total, variables), components, rngs[:mixtures], progress)
        others = _replicates(targets, result.logits, rngs[mixtures:], variables)
        mixture = _mixture(targets, result.logits, variables)
    bounded = [within_bounds(release.domain, r.mixture, r.total) for r in (Replicate(mixture, targets.total), *others)]
    (first, total), *rest = bounded
    refits = tuple(Replicate(*each) for each in rest)
    return Estimate(Source.of(release), release.domain, first, total, result.misfits, refits)


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

    def pilot(variables: tuple[Variable, ...] | None, components: int | None = None) -> Pairs:
        targets, rng = targets_of(state, rows, 0.0, variables=variables), np.random.default_rng([seed, PILOT])
        logits = fitted(targets, _starts(release, rows, variables), components, [rng], progress, most=PILOT).logits
        return Pairs.of(state, rows, _mixture(targets, logits, variables), len(shape))

    first = pilot(None)
    if first.unexplained():  # where few components sufficed for all pairs together, more may explain these
        first = pilot(None, PILOT)
    links = found(first, len(shape))
    if links:
        trees = trees_of(first, shape, ones, links)
        links = kept(first, pilot(trees), trees)
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


def _replicates(
    targets: Targets,
    logits: list[Logits],
    rngs: Sequence[np.random.Generator],
    variables: tuple[Variable, ...] | None,
) -> tuple[Replicate, ...]:
    """Fits to what would have been measured if the estimate were the truth, started from the estimate."""
    result: list[Replicate | None] = [None] * len(rngs)

    def work(k: int) -> None:
        total = max(targets.total + targets.total_error * rngs[k].standard_normal(), 1.0)
        drawn = simulated(targets, logits, rngs[k])
        result[k] = Replicate(_mixture(targets, [refitted(drawn, x) for x in logits], variables), total)

    each(targets, len(logits[0][0]), work, range(len(rngs)))
    return tuple(r for r in result if r is not None)
