"""Noisy integers, as they were measured by an integer plan: all that is kept of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise.planning.integer_plan import IntegerPlan

Answers = npt.NDArray[Any]  # integers: of the smallest type that holds them, or Python's own where none does
WIDTHS = (np.int16, np.int32, np.int64)


@dataclass(frozen=True, eq=False)
class Measurements:
    """Noisy answers of an integer plan: per residual orbit and noisy query an array (attribute sets, answers)."""

    integer_plan: IntegerPlan
    answers: tuple[tuple[Answers, ...], ...]
    insecure: bool = False  # the noise came from a seed that somebody may know
