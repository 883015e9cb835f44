"""Noisy integers, as they were measured by an integer plan: all that is kept of the data."""

from __future__ import annotations

from collections.abc import Sequence
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

    @property
    def arrays(self) -> list[Answers]:
        """All noisy integers; none where nothing was spent, as then there is no noise."""
        noisy = self.integer_plan.cost.mu_squared > 0
        return [x for orbit in self.answers for x in orbit] if noisy else []


def same_numbers(one: Sequence[Answers], other: Sequence[Answers]) -> bool:
    """Whether two measurements are one and the same: independent noise does not repeat."""
    return len(one) == len(other) > 0 and all(map(np.array_equal, one, other))
