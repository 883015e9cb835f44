"""How an adaptive release came about: its rounds, the tables asked for, and those completed from the measured ones."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np

from leastnoise.privacy.cost import read_fraction
from leastnoise.release import TableRelease
from leastnoise.release.files.publication import file_names
from leastnoise.release.rounds import Round
from leastnoise.report.selection import fitting, short

if TYPE_CHECKING:
    import pandas as pd

LISTED = 1_000  # tables whose expected error is in the page, the largest errors first
NAMED = 12  # tables of a round that are named


def adaptive(release: TableRelease, cells: int) -> dict[str, Any] | None:
    """Rounds with their shares of mu^2, expected errors and completed tables; None where nothing was adaptive.

    Guarantees: rounds_cost_what_the_release_costs; completed_tables_are_not_in_reach.
    """
    records = [o.adaptive for o in release.origins if o.adaptive is not None]
    if not records:
        return None
    total, errors = float(release.cost.mu_squared), release.complete().errors()
    return {
        "method": records[-1].method,
        "rounds": [_round(r, total) for adaptivity in records for r in adaptivity.rounds],
        **_requested(errors),
        **_completed(release, errors, cells),
    }


def _round(round_: Round, total: float) -> dict[str, Any]:
    return {
        "compared": round_.compared,
        "choosing": short(float(read_fraction(round_.selection)) / total),
        "tables": len(round_.measured),
        "named": round_.measured[:NAMED],
        "measuring": short(float(read_fraction(round_.measurement)) / total),
    }


def _requested(errors: pd.DataFrame) -> dict[str, Any]:
    """The tables asked for, those with the largest expected errors by name."""
    worst = errors.sort_values("expected_l1", ascending=False, kind="stable").head(LISTED)
    shown = [
        {"attributes": list(names), "measured": bool(measured), "expected": _known(expected)}
        for names, measured, expected in worst.itertuples(index=False)
    ]
    return {
        "tables": len(errors),
        "measured": int(errors["measured"].sum()),
        "expected": _known(float(errors["expected_l1"].mean())),
        "listed": shown,
    }


def _known(expected: float) -> float | None:
    """An expected error with few digits; None where nothing tells it."""
    return None if isnan(expected) else short(expected)


def _completed(release: TableRelease, errors: pd.DataFrame, cells: int) -> dict[str, Any]:
    """Tables that were asked for and not measured, small ones first, as far as the limits go."""
    completion = release.complete()
    listed = list(dict.fromkeys(errors["table"][~errors["measured"]]))
    shown = fitting(release.domain, listed, cells)
    files = file_names(shown)
    return {
        "completed": [
            {
                "attributes": [release.domain.index(n) for n in names],
                "file": f"{file}-completed.csv",
                "kind": "completed",
                "counts": np.round(completion.counts(*names).ravel(), 2).tolist(),
                "std_errors": None,
            }
            for names, file in zip(shown, files, strict=True)
        ],
        "completed_left_out": len(listed) - len(shown),
    }
