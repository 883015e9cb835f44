"""What a ledger notes: debits, raised totals, and runs that are about to look at the data."""

from dataclasses import dataclass
from typing import Literal

from leastnoise.privacy.budget import Budget
from leastnoise.privacy.cost import Cost


@dataclass(frozen=True)
class Entry:
    """One debit. `release` names what was published with it, once that was written."""

    id: int
    time: str
    fingerprint: str
    cost: Cost
    note: str = ""
    release: str | None = None
    who: str = ""

    @property
    def status(self) -> Literal["debited", "finished"]:
        """Whether the release was written; the cost counts in both cases."""
        return "debited" if self.release is None else "finished"


@dataclass(frozen=True)
class Raise:
    """A total that took the place of a smaller one, and why."""

    id: int
    time: str
    total: Budget
    reason: str
    who: str = ""


@dataclass(frozen=True)
class Attempt:
    """A run that is about to look at the data; it counts as stopped until it is completed."""

    id: int
    fingerprint: str
    stopped: int  # runs before it that looked and did not come to their end
