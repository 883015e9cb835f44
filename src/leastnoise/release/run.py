"""Run a plan: check, debit, measure, and only then publish."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

from leastnoise.measure import Progress, measure, rows_of
from leastnoise.noise import Bits, SecureBits
from leastnoise.plan.plan import Plan
from leastnoise.plan.recipe_store import fingerprint
from leastnoise.privacy.ledger import Ledger
from leastnoise.release import files
from leastnoise.release.release import Release
from leastnoise.release.statement import Origin, Summary
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
    out: str | Path | None = None,
) -> Release:
    """Measure data once by a plan. With a ledger, the exact cost is debited before the first number is drawn.

    With `out`, the release is also saved to that new folder, and only then marked as finished in the ledger.

    Guarantees: nothing_is_spent_on_bad_input; debit_comes_first.
    """
    recipe, bits = plan.recipe, bits or SecureBits()
    source = as_source(plan.workload.domain, data, dataset)
    rows_of(source)  # a source that cannot count fails here, before anything is spent
    name = dataset or source.name
    planned = plan if out is None else Summary.of(plan)  # summed up before anything is spent
    book = ledger if isinstance(ledger, Ledger) or ledger is None else Ledger.open(ledger)
    entry = identity = None
    with nullcontext() if out is None else files.drafted(Path(out)) as folder:  # a bad folder fails before the debit
        if book is not None:
            entry = book.debit(recipe.cost, fingerprint(recipe), note=note, dataset=name, insecure=bits.insecure)
        origin = Origin(ledger_entry=None if entry is None else entry.id, plan=planned)
        release = Release((measure(recipe, source, bits, progress),), name, (origin,))
        if folder is not None:
            identity = files.write(release, folder)
    if book is not None and entry is not None and identity is not None:
        book.finish(entry, identity)
    return release


Plan.runner = staticmethod(run)
