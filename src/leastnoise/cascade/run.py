"""Add noise to the leaves, once: check, debit, draw, save. The table may then leave the machine that has the data."""

from __future__ import annotations

from inspect import signature
from math import prod
from typing import Any, Unpack

from leastnoise.cascade import files
from leastnoise.cascade.integer import check_fits, integer_noise
from leastnoise.cascade.plan import CascadePlan, Trees, cascade_plan
from leastnoise.cascade.release import CascadeRelease
from leastnoise.errors import LeastnoiseError
from leastnoise.gate import Counts
from leastnoise.noise import Bits
from leastnoise.plan.options import Options
from leastnoise.release.run import FILE_BYTES, Debit, Task, spend
from leastnoise.sources.source import MOST_CELLS


def run(plan: CascadePlan, data: Any, **options: Unpack[Options]) -> CascadeRelease:
    """The noisy table of leaves of some data. With a ledger, the exact cost is debited before the noise is drawn.

    Data is what `source_of` takes: attributes are named as the trees, values are leaves.

    Guarantees: nothing_is_spent_on_bad_input; debit_comes_first; noise_never_sees_the_data.
    """
    progress = options.get("progress")
    cells = prod(t.leaf_count for t in plan.trees)
    if cells > MOST_CELLS:
        raise LeastnoiseError(f"the table has {cells:,} leaves, too many to count; use smaller trees")
    check_fits(*plan.noise)  # then counts and noise fit 64 bits together: each is below 2^62

    def carry_out(counts: Counts, bits: Bits, name: str | None, debit: Debit) -> CascadeRelease:
        (table,) = counts.tables([tuple(range(len(plan.names)))])
        if progress is not None:
            progress(0, 0, "drawing noise")
        published = table + integer_noise(bits, *plan.noise)
        published.flags.writeable = False
        return CascadeRelease(plan, published, name, bits.insecure, *debit)

    def room() -> int:
        names = sum(len(n) for t in plan.trees for n in t.names or ())
        return 8 * cells + 16 * sum(t.nodes for t in plan.trees) + 8 * names + FILE_BYTES

    kept = plan.exact is not None
    task = Task(plan.domain, plan.cost, files.fingerprint(plan), room, carry_out, files.write, keeps_size=kept)
    return spend(task, data, **options)


def cascade_release(data: Any, trees: Trees, *, bits: Bits | None = None, **options: Any) -> CascadeRelease:
    """Plan and run at once: the options are those of `cascade_plan` and of `CascadePlan.run`.

    >>> import numpy as np
    >>> from leastnoise.noise import SeededBits
    >>> from leastnoise.tree import Tree
    >>> tree = Tree.from_paths([("north", "a"), ("north", "b"), ("south", "c"), ("south", "d")])
    >>> release = cascade_release(np.array([120, 80, 60, 95]), tree, targets=[3, 4, 5], bits=SeededBits(1))
    >>> print(release.node("north"))
    196.0 (s.e. 4.0; 95%: 188.2 to 203.8)
    """
    asked = {name: options.pop(name) for name in list(options) if name in PLANNING}
    return run(cascade_plan(trees, **asked), data, bits=bits, **options)


PLANNING = frozenset(signature(cascade_plan).parameters) - {"trees"}
