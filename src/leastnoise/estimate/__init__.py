"""Best estimates: a distribution fitted to a release, at no privacy cost."""

from typing import TYPE_CHECKING

from leastnoise._lazy import export_lazily

if TYPE_CHECKING:
    from leastnoise.estimate.closest import Closest
    from leastnoise.estimate.estimate import Estimate, Guess
    from leastnoise.estimate.run import fit

__all__ = ["Closest", "Estimate", "Guess", "fit"]

export_lazily(__name__)
