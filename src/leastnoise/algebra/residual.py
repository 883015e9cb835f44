"""Split queries into residual pieces and join measured residuals, with a baseline per attribute.

Everything works in-axis on arrays: the last `len(baselines)` axes are the attributes, numbered from 0, and whatever
stands before them is a batch. `keep` names the attribute axes A of a piece; results keep their order. A baseline is a
vector that sums to 1. On the query side a row w becomes w.pi where its axis is dropped and w - (w.pi) 1 where it is
kept; on the data side a vector x becomes sum(x) and x - pi sum(x). Both sides agree: q.x = sum over A of q[A].x_A.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array
from leastnoise.errors import LeastnoiseError

Axes = tuple[int, ...]
T = TypeVar("T")


def uniform_baselines(shape: Iterable[int]) -> tuple[Array, ...]:
    """One uniform baseline per attribute size."""
    return tuple(np.full(n, 1.0 / n) for n in shape)


def powerset(items: Sequence[T]) -> tuple[tuple[T, ...], ...]:
    """All subsets, small ones first, each in the order of the items.

    >>> powerset("ab")
    ((), ('a',), ('b',), ('a', 'b'))
    """
    return tuple(some for size in range(len(items) + 1) for some in combinations(items, size))


def subsets(count: int) -> tuple[Axes, ...]:
    """All sets of attribute axes, small ones first."""
    return powerset(range(count))


# --- query side -------------------------------------------------------------------------------------------------------


def split(query: npt.ArrayLike, baselines: Sequence[Array], keep: Iterable[int]) -> Array:
    """The piece q[A] of a query, A = `keep`.

    >>> q = np.array([[0, 1, 1], [0, 0, 1]])
    >>> split(q, uniform_baselines((2, 3)), keep=[1]).round(12).tolist()
    [-0.5, 0.0, 0.5]
    """
    return _split_steps(query, baselines, keep)[-1][1]


def pieces(query: npt.ArrayLike, baselines: Sequence[Array]) -> dict[Axes, Array]:
    """All pieces of a query by their kept axes; they sum (broadcast) back to the query."""
    k = len(baselines)
    parts: dict[Axes, Array] = {(): _checked(query, baselines)}
    for axis, baseline in enumerate(baselines):
        at = axis - k  # axes still to come are all in place, so count from the end
        means = {key: _contract(part, baseline, at) for key, part in parts.items()}
        rests = {(*key, axis): part - np.expand_dims(means[key], at) for key, part in parts.items()}
        parts = means | rests
    return {key: parts[key] for key in subsets(k)}


def split_gradient(
    query: npt.ArrayLike, baselines: Sequence[Array], keep: Iterable[int], upstream: npt.ArrayLike
) -> tuple[Array, ...]:
    """Gradient of sum(upstream * split(query, baselines, keep)) with respect to each baseline, every entry taken as
    free.
    """
    keep = tuple(keep)
    (*steps, (_, piece)) = _split_steps(query, baselines, keep)
    adjoint = np.broadcast_to(np.asarray(upstream, dtype=np.float64), piece.shape)
    gradients = [np.zeros(len(baseline)) for baseline in baselines]
    for (axis, at), before in reversed(steps):
        if axis in keep:  # w - (w.pi) 1
            total = adjoint.sum(axis=at, keepdims=True)
            gradients[axis] = -_contract_rest(before, total, at)
            adjoint = adjoint - total * _along(baselines[axis], at)
        else:  # w.pi
            wide = np.expand_dims(adjoint, at)
            gradients[axis] = _contract_rest(before, wide, at)
            adjoint = wide * _along(baselines[axis], at)
    return tuple(gradients)


def _split_steps(
    query: npt.ArrayLike, baselines: Sequence[Array], keep: Iterable[int]
) -> list[tuple[tuple[int, int], Array]]:
    """Arrays before each step with its (attribute axis, array axis), and last of all the piece."""
    current = _checked(query, baselines)
    kept = _axes(keep, len(baselines))
    k = len(baselines)
    # Dropped axes go first because that shrinks the array. Every axis before a dropped one is in place, but the
    # batch is not counted, so positions are counted from the end: axes after it that are still there.
    steps: list[tuple[tuple[int, int], Array]] = []
    for axis in [axis for axis in reversed(range(k)) if axis not in kept]:
        at = -1 - sum(later in kept for later in range(axis + 1, k))
        steps.append(((axis, at), current))
        current = _contract(current, baselines[axis], at)
    for position, axis in enumerate(kept):
        at = position - len(kept)
        steps.append(((axis, at), current))
        current = current - np.expand_dims(_contract(current, baselines[axis], at), at)
    return [*steps, ((-1, 0), current)]


# --- data side --------------------------------------------------------------------------------------------------------


def residual(marginal: npt.ArrayLike, baselines: Sequence[Array], keep: Iterable[int]) -> Array:
    """The centred part of a marginal on A = `keep`: sum out the other axes, then x - pi sum(x) along each kept one."""
    array = _checked(marginal, baselines)
    kept = _axes(keep, len(baselines))
    dropped = tuple(axis - len(baselines) for axis in range(len(baselines)) if axis not in kept)
    array = array.sum(axis=dropped)
    for position, axis in enumerate(kept):
        array = _centre(array, baselines[axis], position - len(kept))
    return array


def join(parts: Mapping[Axes, npt.ArrayLike], baselines: Sequence[Array], shape: Sequence[int]) -> Array:
    """Rebuild the marginal of `shape` from its parts: each centred on its axes, smeared along the others, and summed.

    Parts that are missing count as zero, that is, the baseline fills them. Centring twice changes nothing, so a part
    may be a residual or a noisy marginal.

    >>> x = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> baselines = uniform_baselines(x.shape)
    >>> bool(np.allclose(join({A: residual(x, baselines, A) for A in subsets(2)}, baselines, x.shape), x))
    True
    """
    k = len(baselines)
    if tuple(shape) != tuple(len(baseline) for baseline in baselines):
        raise LeastnoiseError(
            f"shape {tuple(shape)} does not fit baselines of sizes {[len(baseline) for baseline in baselines]}"
        )
    for key in parts:
        if tuple(key) != _axes(key, k):
            raise LeastnoiseError(f"the axes {key} of a part must be a tuple in ascending order")
    current = {key: _checked(part, [baselines[axis] for axis in key]) for key, part in parts.items()}
    for axis in reversed(range(k)):
        # Later axes are all in place by now, so this one stands at axis - k; a key ends with it or lacks it.
        joined: dict[Axes, Array] = {}
        for key, part in current.items():
            if axis in key:
                value = _centre(part, baselines[axis], axis - k)
            else:
                value = np.expand_dims(part, axis - k) * _along(baselines[axis], axis - k)
            rest = key[:-1] if axis in key else key
            joined[rest] = joined[rest] + value if rest in joined else value
        current = joined
    return current.get((), np.zeros(tuple(shape)))


# --- steps along one axis; `at` is always counted from the end --------------------------------------------------------


def _contract(array: Array, baseline: Array, at: int) -> Array:
    return np.asarray(np.moveaxis(array, at, -1) @ baseline)


def _contract_rest(array: Array, weights: Array, at: int) -> Array:
    """Sum of array * weights over every axis but one."""
    return np.asarray(np.moveaxis(array * weights, at, -1).reshape(-1, array.shape[at]).sum(axis=0))


def _centre(array: Array, baseline: Array, at: int) -> Array:
    total: Array = array.sum(axis=at, keepdims=True)
    return array - total * _along(baseline, at)


def _along(baseline: Array, at: int) -> Array:
    return baseline.reshape(-1, *[1] * (-at - 1))


def _axes(keep: Iterable[int], count: int) -> Axes:
    axes = tuple(sorted(keep))
    if len(set(axes)) < len(axes) or any(not 0 <= axis < count for axis in axes):
        raise LeastnoiseError(f"axes {axes} must differ and lie between 0 and {count - 1}")
    return axes


def _checked(array: npt.ArrayLike, baselines: Sequence[Array]) -> Array:
    array = np.asarray(array, dtype=np.float64)
    sizes = tuple(len(baseline) for baseline in baselines)
    if array.shape[array.ndim - len(sizes) :] != sizes or array.ndim < len(sizes):
        raise LeastnoiseError(f"an array of shape {array.shape} does not end with the baseline sizes {sizes}")
    return array
