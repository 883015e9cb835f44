"""Plan and run in one call."""

from __future__ import annotations

from inspect import signature
from typing import Any

from leastnoise.mechanisms.tree.plan import Trees, cascade_plan
from leastnoise.mechanisms.tree.release import CascadeRelease
from leastnoise.noise import Bits


def cascade_release(data: Any, trees: Trees, *, bits: Bits | None = None, **options: Any) -> CascadeRelease:
    """Plan and run at once: the options are those of `cascade_plan` and of `CascadePlan.run`.

    >>> import numpy as np
    >>> from leastnoise.noise import SeededBits
    >>> from leastnoise.domain.tree import Tree
    >>> tree = Tree.from_paths([("north", "a"), ("north", "b"), ("south", "c"), ("south", "d")])
    >>> release = cascade_release(np.array([120, 80, 60, 95]), tree, targets=[3, 4, 5], bits=SeededBits(1))
    >>> print(release.node("north"))
    196.0 (s.e. 4.0; 95%: 188.2 to 203.8)
    """
    planning = {name: options.pop(name) for name in list(options) if name in PLANNING}
    return cascade_plan(trees, **planning).run(data, bits=bits, **options)


PLANNING = frozenset(signature(cascade_plan).parameters) - {"trees"}
