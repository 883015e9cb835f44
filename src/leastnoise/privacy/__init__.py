"""Privacy budgets, what releases cost, and the ledger of what was spent."""

from typing import TYPE_CHECKING

from leastnoise._lazy import export_lazily

if TYPE_CHECKING:
    from leastnoise.privacy.budget import Budget
    from leastnoise.privacy.cost import Cost
    from leastnoise.privacy.ledger import BudgetError, Ledger
    from leastnoise.privacy.ledger_entries import Entry
    from leastnoise.privacy.neighbours import Neighbours

__all__ = ["Budget", "BudgetError", "Cost", "Entry", "Ledger", "Neighbours"]

export_lazily(__name__)
