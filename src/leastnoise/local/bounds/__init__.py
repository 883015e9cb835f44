"""How many people it takes: enough for our mechanisms, too few for any, in the central and the local model."""

from typing import TYPE_CHECKING

from leastnoise._lazy import export_lazily

if TYPE_CHECKING:
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

export_lazily(__name__)
