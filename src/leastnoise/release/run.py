"""Run a plan: check, debit, measure, and only then publish."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from leastnoise.measure import Progress, measure, rows_of
from leastnoise.noise import Bits, SecureBits
from leastnoise.plan.plan import Plan
from leastnoise.plan.recipe_store import fingerprint
from leastnoise.privacy.ledger import Ledger
from leastnoise.release.release import Release
from leastnoise.sources import as_source


def run(
    plan: Plan,
    data: Any,
    *,
    ledger: Ledger | str | Path | None = None,
    dataset: str | None = None,
    note: str = "",
    bits: Bits | None = None,
    progress: Progress | None = None,
) -> Release:
    """Measure data once by a plan. With a ledger, the exact cost is debited before the first number is drawn.

    Guarantees: nothing_is_spent_on_bad_input; debit_comes_first.
    """
    recipe, bits = plan.recipe, bits or SecureBits()
    source = as_source(plan.workload.domain, data, dataset)
    rows_of(source)  # a source that cannot count fails here, before anything is spent
    name = dataset or source.name
    if ledger is not None:
        book = ledger if isinstance(ledger, Ledger) else Ledger.open(ledger)
        book.debit(recipe.cost, fingerprint(recipe), note=note, dataset=name, insecure=bits.insecure)
    return Release((measure(recipe, source, bits, progress),), name)


Plan.runner = staticmethod(run)
