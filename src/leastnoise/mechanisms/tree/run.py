"""Plan and run in one call."""

from __future__ import annotations

from inspect import signature
from typing import Any

from leastnoise.mechanisms.tree.plan import Trees, tree_plan
from leastnoise.mechanisms.tree.release import TreeRelease
from leastnoise.noise import RandomSource


def tree_release(data: Any, trees: Trees, *, random_source: RandomSource | None = None, **options: Any) -> TreeRelease:
    """Plan and run at once: the options are those of `tree_plan` and of `TreePlan.run`.

    >>> import numpy as np
    >>> from leastnoise.noise import SeededRandomSource
    >>> from leastnoise.domain.tree import Tree
    >>> tree = Tree.from_paths([("north", "a"), ("north", "b"), ("south", "c"), ("south", "d")])
    >>> release = tree_release(np.array([120, 80, 60, 95]), tree, targets=[3, 4, 5],
    ...     random_source=SeededRandomSource(1))
    >>> print(release.node("north"))
    196.0 (s.e. 4.0; 95%: 188.0 to 204.0)
    """
    planning = {name: options.pop(name) for name in list(options) if name in PLANNING}
    return tree_plan(trees, **planning).run(data, random_source=random_source, **options)


PLANNING = frozenset(signature(tree_plan).parameters) - {"trees"}
