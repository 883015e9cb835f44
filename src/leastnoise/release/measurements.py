"""Noisy integers, as they were measured by a recipe: all that is kept of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise.planning.integer_plan import Recipe

Answers = npt.NDArray[Any]  # integers: of the smallest type that holds them, or Python's own where none does
WIDTHS = (np.int16, np.int32, np.int64)


@dataclass(frozen=True, eq=False)
class Measurements:
    """Noisy answers of a recipe: per residual orbit and probe an array (attribute sets, answers)."""

    recipe: Recipe
    answers: tuple[tuple[Answers, ...], ...]
    insecure: bool = False  # the noise came from a seed that somebody may know
