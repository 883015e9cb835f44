"""Comparisons with the data itself, for whoever has it: exact, not protected, and never to be published."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from leastnoise._types import IntArray
from leastnoise.domain.attributes import UNKNOWN, Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.estimate.evaluation import codes_of
from leastnoise.estimate.truth import TruthEvaluation, beside_truth
from leastnoise.mechanisms.gate import records
from leastnoise.release.release import Release
from leastnoise.sources.rules import PrivacyUnit
from leastnoise.workload.file_format import FileFormat
from leastnoise.workload.rules import AnyRules

if TYPE_CHECKING:
    import pandas as pd


def evaluate_on_data(
    release: Release,
    rows: IntArray | pd.DataFrame,
    data: Any,
    *,
    rules: AnyRules | None = None,
    unit: PrivacyUnit | Mapping[str, Any] | None = None,
    table: str | None = None,
    file: FileFormat | None = None,
    target: str | None = None,
    seed: int = 0,
) -> TruthEvaluation:
    """Compare synthetic rows (codes, or a frame of values) with the private data. Not protected: never publish it.

    Rows of the data are counted by the rules of the release, unless others are given. `target` is what a classifier
    guesses, by default the last attribute.
    """
    release.domain.check_counted("evaluate_on_data()")
    synthetic = codes_of(release.domain, rows)
    known = None if isinstance(data, np.ndarray) else rules_of_release(release)  # codes have no rules
    real = [*records(data, release.domain, rules or known, table, file, unit)]
    whole = np.concatenate(real) if real else np.empty((0, len(release.domain)), dtype=np.int64)
    return beside_truth(release.domain, synthetic, whole, target, seed)


def synthetic_rows(path: str, domain: Domain) -> IntArray:
    """Rows of a file of synthetic rows, also those in impossible cells."""
    unknown = {attribute.name: {"missing": UNKNOWN} for attribute in domain if attribute.known < attribute.size}
    some = [*records(path, domain.unrestricted, unknown)]
    if not some:
        raise LeastnoiseError(f"{path} has no rows to compare; name a file of synthetic rows")
    return np.concatenate(some)


def rules_of_release(release: Release) -> dict[str, dict[str, str]] | None:
    """The rules by which rows of a release were counted, where it was made from columns of values."""
    runs = [origin.run.counting for origin in release.origins if origin.run.counting is not None]
    if not runs:
        return None
    return {r.attribute: {"column": r.column, "outside": r.outside, "missing": r.missing} for r in runs[0].rules}
