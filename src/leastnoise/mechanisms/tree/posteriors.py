"""What a table of leaves and other measurements of the same counts say together.

Noise is Gaussian, so with nothing known beforehand the best linear estimate is also the posterior. With y the table of
leaves, C its covariance, and z = H x + noise of covariance R measured elsewhere,

    x | y, z  =  y + C H' K (z - H y),    covariance  C - C H' K H C,    K = (H C H' + R)^-1

For boxes all of it comes from covariances in closed form, O(depth) each; exact counts are no special case. Several
whole tables are pooled by conjugate gradients on the sum of their inverse covariances, each applied in linear time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod, sqrt
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array, IntArray
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.tree.closed import Law, table_steps
from leastnoise.mechanisms.tree.integer import answer_variances
from leastnoise.mechanisms.tree.release import Node, TreeRelease
from leastnoise.release.answers import Answer

MOST = 4_000  # further measurements at once: their covariance is a dense matrix
EXACT = 1e-12  # of the variance without further measurements: less is none
CLOSE = 1e-11  # relative residual at which conjugate gradients stop


class Known(Protocol):
    """Estimates of boxes with their covariance: a release, several of them pooled, or a posterior."""

    @property
    def law(self) -> Law:
        """The law that knows trees and boxes."""

    def totals(self, boxes: npt.ArrayLike) -> Any:
        """Estimates of boxes."""

    def covariances(self, first: IntArray, second: IntArray) -> Array:
        """Covariance of the errors of boxes, all with all."""

    @property
    def inflation(self) -> float:
        """What rounding of Gaussians adds to variances, at most, as a share of them."""

    def steps(self, boxes: IntArray, weights: Array) -> float:
        """The standard deviation of turning a weighted sum of boxes into whole numbers, at most."""


@dataclass(frozen=True, eq=False)
class Posterior:
    """Counts given a tree release and further measurements of boxes.

    >>> from leastnoise.mechanisms.tree import Tree, tree_release
    >>> from leastnoise.noise import SeededRandomSource
    >>> tree = Tree.from_paths([("north", "a"), ("north", "b"), ("south", "c"), ("south", "d")])
    >>> release = tree_release(np.array([120, 80, 60, 95]), tree, targets=[3, 4, 5],
    ...     random_source=SeededRandomSource(1))
    >>> print(posterior(release, ["north"], [199], [1]).node("north"))
    198.8 (s.e. 1.0; 95%: 196.9 to 200.7)

    Guarantees: equals_dense_least_squares; never_worse_than_the_release.
    """

    base: Known
    boxes: IntArray  # (k, trees, 2)
    values: Array
    noise: Array  # covariance of the further measurements

    @property
    def law(self) -> Law:
        """The law of the table of leaves."""
        return self.base.law

    def node(self, *nodes: Node, confidence: float = 0.95) -> Answer:
        """The count of a node, or of one node per tree."""
        return self.answer(self.law.box(*nodes), confidence)

    def answer(self, box: npt.ArrayLike, confidence: float = 0.95) -> Answer:
        """The count of a box (as in `Law`)."""
        return Answer(float(self.totals(box)), float(self.std_errors(box)), confidence)

    def totals(self, boxes: npt.ArrayLike) -> Any:
        """Estimates of many boxes."""
        requested = _flat(self.law, boxes)
        values = np.asarray(self.base.totals(_shaped(self.law, requested))) + self._weights(requested) @ self._surprise
        return values.reshape(_outside(self.law, boxes))[()]

    def std_errors(self, boxes: npt.ArrayLike) -> Any:
        """Standard errors of many boxes, rounding included."""
        requested = _flat(self.law, boxes)
        values = np.array([_std_error(self, box[None]) for box in requested])
        return values.reshape(_outside(self.law, boxes))[()]

    def covariances(self, first: IntArray, second: IntArray) -> Array:
        """Covariance of the errors of boxes, all with all; without rounding."""
        return self.base.covariances(first, second) - self._weights(first) @ self.base.covariances(self.boxes, second)

    @property
    def inflation(self) -> float:
        """That of the table: the estimate has a part of its noise."""
        return self.base.inflation

    def steps(self, boxes: IntArray, weights: Array) -> float:
        """Of what the estimate takes of the table."""
        taken = -weights @ self._weights(boxes)
        return self.base.steps(np.concatenate([boxes, self.boxes]), np.concatenate([weights, taken]))

    @cached_property
    def _gain(self) -> Array:
        together = self.base.covariances(self.boxes, self.boxes) + self.noise
        # exact measurements may say the same twice
        return np.asarray(np.linalg.pinv(together, hermitian=True), dtype=np.float64)

    @cached_property
    def _surprise(self) -> Array:
        return self.values - np.asarray(self.base.totals(_shaped(self.law, self.boxes)), dtype=np.float64)

    def _weights(self, boxes: IntArray) -> Array:
        """What each box takes of each surprise."""
        return self.base.covariances(boxes, self.boxes) @ self._gain


@dataclass(frozen=True, eq=False)
class Pooled:
    """Several tables of the same leaves, with independent noise, as one: weighted by their inverse covariances.

    Guarantees: pooled_tables_equal_dense_least_squares.
    """

    releases: tuple[TreeRelease, ...]

    @property
    def law(self) -> Law:
        """The law of the first release; boxes are the same in all."""
        return self.releases[0].law

    @cached_property
    def table(self) -> Array:
        """The estimate of the leaves; not integers any more."""
        weighted = sum((r.law.precision(r.leaves) for r in self.releases), start=np.zeros(self.law.shape))
        return self._solve(weighted)

    def node(self, *nodes: Node, confidence: float = 0.95) -> Answer:
        """The count of a node, or of one node per tree."""
        box = _flat(self.law, self.law.box(*nodes))
        value = float(np.ravel(self.totals(_shaped(self.law, box)))[0])
        return Answer(value, _std_error(self, box), confidence)

    def totals(self, boxes: npt.ArrayLike) -> Any:
        """Estimates of boxes."""
        return self.law.totals(self.table, boxes)

    def covariances(self, first: IntArray, second: IntArray) -> Array:
        """Covariance of the errors of boxes: one system per box of the second list."""
        columns = [self.law.totals(self._solve(self._inside(b)), _shaped(self.law, first)) for b in second]
        return np.stack(columns, axis=1) if columns else np.zeros((len(first), 0))

    @property
    def inflation(self) -> float:
        """The largest of the tables'."""
        return max(_inflation(r.law) for r in self.releases)

    def steps(self, boxes: IntArray, weights: Array) -> float:
        """Of what the estimate takes of each table."""
        total = sum((w * self._inside(box) for w, box in zip(weights, boxes, strict=True)), np.zeros(self.law.shape))
        solved = self._solve(total)
        return float(np.linalg.norm([table_steps(r.law.precision(solved)) for r in self.releases]))

    def _inside(self, box: IntArray) -> Array:
        values = np.zeros(self.law.shape)
        values[tuple(slice(int(a), int(b)) for a, b in box)] = 1.0
        return values

    def _solve(self, right: Array) -> Array:
        from scipy.sparse.linalg import LinearOperator, cg

        shape = self.law.shape
        size = right.size

        def times(x: Array) -> Array:
            table = x.reshape(shape)
            return sum((r.law.precision(table) for r in self.releases), start=np.zeros(shape)).ravel()

        def roughly(x: Array) -> Array:
            return self.law.covariance_times(x.reshape(shape)).ravel()

        system = LinearOperator((size, size), matvec=times, dtype=np.float64)
        first = LinearOperator((size, size), matvec=roughly, dtype=np.float64)
        values, stopped = cg(system, right.ravel(), rtol=CLOSE, M=first, maxiter=10 * size + 100)
        if stopped:
            raise LeastnoiseError("the tables cannot be pooled: their targets are too different; pool similar ones")
        return np.asarray(values).reshape(shape)


@dataclass(frozen=True, eq=False)
class _Released:
    """A release as a start of posteriors."""

    release: TreeRelease

    @property
    def law(self) -> Law:
        return self.release.law

    def totals(self, boxes: npt.ArrayLike) -> Any:
        return self.release.totals(boxes)

    def covariances(self, first: IntArray, second: IntArray) -> Array:
        a, b = _shaped(self.law, first), _shaped(self.law, second)
        return np.asarray(self.law.covariance(a[:, None], b[None]))

    @property
    def inflation(self) -> float:
        return _inflation(self.law)

    def steps(self, boxes: IntArray, weights: Array) -> float:
        return _corner_steps(boxes, weights)


def posterior(
    known: TreeRelease | Pooled | Posterior,
    boxes: Sequence[Node] | npt.ArrayLike,
    values: npt.ArrayLike,
    std_errors: npt.ArrayLike | None = None,
    *,
    covariance: npt.ArrayLike | None = None,
) -> Posterior:
    """Counts given what is known and further measurements of nodes (by name) or boxes, with independent noise.

    Of the measurements give either standard errors (0: exact) or a joint covariance.
    """
    base: Known = _Released(known) if isinstance(known, TreeRelease) else known
    result = _flat(base.law, _as_boxes(base.law, boxes))
    z = np.asarray(values, dtype=np.float64).ravel()
    if len(z) != len(result) or not len(z) or not np.isfinite(z).all():
        raise LeastnoiseError(f"give one finite value for each of the {len(result)} measurements, got {len(z)}")
    if len(z) > MOST:
        raise LeastnoiseError(f"{len(z):,} measurements at once are too many; up to {MOST:,}, or pool whole tables")
    return Posterior(base, result, z, _noise(len(z), std_errors, covariance))


def pool(*releases: TreeRelease) -> Pooled:
    """Several releases of the same leaves as one."""
    if len(releases) < 2:
        raise LeastnoiseError(f"pooling needs two releases or more, got {len(releases)}")
    for other in releases:
        if other.plan.exact is not None:
            raise LeastnoiseError("a release with exact counts cannot be pooled; use posterior(release, boxes, ...)")
        if other.leaves.shape != releases[0].leaves.shape or other.domain != releases[0].domain:
            raise LeastnoiseError("the releases have different leaves; pool releases of the same attributes")
    return Pooled(releases)


def _noise(count: int, std_errors: npt.ArrayLike | None, covariance: npt.ArrayLike | None) -> Array:
    if (std_errors is None) == (covariance is None):
        raise LeastnoiseError("give the standard errors of the measurements, or their covariance")
    if covariance is None:
        errors = np.broadcast_to(np.asarray(std_errors, dtype=np.float64).ravel(), (count,))
        if not (np.isfinite(errors).all() and (errors >= 0).all()):
            raise LeastnoiseError("standard errors of measurements must be finite and not negative")
        return np.diag(errors**2)
    given = np.asarray(covariance, dtype=np.float64)
    if given.shape != (count, count) or not np.isfinite(given).all() or not np.allclose(given, given.T):
        raise LeastnoiseError(f"the covariance of {count} measurements must be a symmetric {count} x {count} matrix")
    if np.linalg.eigvalsh(given).min() < -1e-9 * np.abs(given).max():
        raise LeastnoiseError("the covariance of the measurements is not one: it has a negative eigenvalue")
    return given


def _as_boxes(law: Law, boxes: Any) -> npt.ArrayLike:
    """Boxes, where nodes may be given by name, or as tuples of names."""
    if isinstance(boxes, Sequence) and len(boxes) and isinstance(boxes[0], str):
        return np.stack([law.box(node) for node in boxes])
    if isinstance(boxes, Sequence) and len(boxes) and isinstance(boxes[0], tuple) and isinstance(boxes[0][0], str):
        return np.stack([law.box(*nodes) for nodes in boxes])
    result: npt.ArrayLike = boxes
    return result


def _flat(law: Law, boxes: npt.ArrayLike) -> IntArray:
    """Boxes as (k, trees, 2)."""
    return np.asarray(law.checked(boxes)).reshape(-1, len(law.shape), 2)


def _shaped(law: Law, boxes: IntArray) -> IntArray:
    """Boxes as `Law` takes them."""
    return boxes[:, 0] if len(law.shape) == 1 else boxes


def _outside(law: Law, boxes: npt.ArrayLike) -> tuple[int, ...]:
    return np.shape(boxes)[: -1 if len(law.shape) == 1 else -2]


def _std_error(known: Known, box: IntArray) -> float:
    """Rounding included; nothing is rounded in what is known exactly."""
    variance = float(known.covariances(box, box)[0, 0])
    if variance <= EXACT * float(known.law.variance(_shaped(known.law, box))[0]):
        return sqrt(max(variance, 0.0))
    return sqrt(variance * (1 + known.inflation) + known.steps(box, np.ones(1)) ** 2)


def _inflation(law: Law) -> float:
    """Rounded answers have a variance that is larger by 1/12 at most; of the answer with the least noise."""
    return 1 / 12 / prod(float(min(v for v in answer_variances(c) if v)) for c in law.cascades)


def _corner_steps(boxes: IntArray, weights: Array) -> float:
    """A quarter of the sum of all steps of a weighted sum of boxes (docs/proofs.md): they are at corners of boxes."""
    d = boxes.shape[1]
    sides = np.indices((2,) * d).reshape(d, -1)  # (d, corners)
    corners = np.stack([boxes[:, i, sides[i]] for i in range(d)], axis=-1).reshape(-1, d)
    signs = np.where(sides.sum(axis=0) % 2, -1.0, 1.0)
    _, place = np.unique(corners, axis=0, return_inverse=True)
    return float(np.abs(np.bincount(place.ravel(), (weights[:, None] * signs).ravel())).sum()) / 4
