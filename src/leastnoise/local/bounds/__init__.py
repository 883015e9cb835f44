"""How many people it takes: enough for our mechanisms, too few for any, in the central and the local model."""

from leastnoise.local.bounds.question import (
    ANY,
    EXACT,
    GAUSSIAN,
    SEPARATE,
    UNBIASED,
    Bounds,
    Question,
    bounds,
    curves,
    curves_of,
)

__all__ = [
    "ANY",
    "EXACT",
    "GAUSSIAN",
    "SEPARATE",
    "UNBIASED",
    "Bounds",
    "Question",
    "bounds",
    "curves",
    "curves_of",
]
