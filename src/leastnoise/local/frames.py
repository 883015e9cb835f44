"""Answers of a collector as data frames, every query in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from leastnoise.local.collector import Collector
from leastnoise.release.frames import row_labels, table_frame
from leastnoise.release.statistics.simultaneous import Together

if TYPE_CHECKING:
    import pandas as pd


def answers_frame(collector: Collector, confidence: float = 0.95, simultaneous: Together = False) -> pd.DataFrame:
    """All queries of the plan's workload: what is asked, the answer, its errors, and what a forged report can do.

    `influence` is how far one forged report moves the answer at most; `bias` is there where the plan allows one.

    Guarantees: frames_are_the_answers_of_the_collector.
    """
    import pandas as pd

    plan = collector.plan
    requests = [(block, subset) for block in plan.workload.blocks for subset in block.subsets()]
    frames = []
    for (block, subset), queries, local_answers in zip(
        requests, plan.queries, collector.answers(confidence, simultaneous), strict=True
    ):
        columns = {
            "family": local_answers.label,
            "attributes": ", ".join(local_answers.names),
            "query": row_labels(plan.domain, block, subset),
            "answer": local_answers.values,
            "std_error": local_answers.std_errors,
            "low": local_answers.low,
            "high": local_answers.high,
            "influence": plan.influence(queries),
        }
        frames.append(pd.DataFrame(columns | ({"bias": local_answers.biases} if plan.bias else {})))
    return pd.concat(frames, ignore_index=True)


def counts_frame(
    collector: Collector, names: Sequence[str], confidence: float = 0.95, simultaneous: bool = False
) -> pd.DataFrame:
    """The counts of a table, one row per cell; the last attribute varies fastest."""
    domain = collector.plan.domain
    local_answers = collector.table(*names, confidence=confidence)
    attributes = [domain.index(name) for name in names]
    shape = [domain.shape[a] for a in attributes]
    counts, errors = (np.reshape(a, shape) for a in (local_answers.values, local_answers.std_errors))
    return table_frame(domain, attributes, counts, errors, confidence, simultaneous)
