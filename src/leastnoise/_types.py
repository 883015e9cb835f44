"""Types used throughout."""

from collections.abc import Callable
from typing import Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Progress = Callable[[float, float, str], None]  # done, of how much, and what; of 0 where nobody knows

Nonnegative = Literal["each", "jointly", "grem-lnn"]  # tables without negative counts: each by itself, or all at once
