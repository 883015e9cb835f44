"""Privacy budgets and what they buy."""

from leastnoise.privacy.budget import Budget, Neighbours

__all__ = ["Budget", "Neighbours"]
