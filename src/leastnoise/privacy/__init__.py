"""Privacy budgets, what releases cost, and the ledger of what was spent."""

from leastnoise.privacy.budget import Budget
from leastnoise.privacy.cost import Cost
from leastnoise.privacy.neighbours import Neighbours

__all__ = ["Budget", "Cost", "Neighbours"]
