"""Best estimates: a distribution fitted to a release, at no privacy cost."""

from leastnoise.estimate.estimate import Estimate, Guess
from leastnoise.estimate.run import fit

__all__ = ["Estimate", "Guess", "fit"]
