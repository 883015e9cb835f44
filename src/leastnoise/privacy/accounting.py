"""Costs as events of the dp_accounting library, for whoever composes them with other mechanisms."""

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from leastnoise._lazy import optional
from leastnoise.errors import LeastnoiseError
from leastnoise.privacy.cost import Cost, float_up

if TYPE_CHECKING:
    import dp_accounting


def dp_event(costs: Cost | Iterable[Cost]) -> "dp_accounting.DpEvent":
    """A cost as a Gaussian event with noise multiplier 1 / mu; several as one composed event.

    Interpret it with an accountant for `neighboring_relation(cost)`.

    Guarantees: agrees_with_other_accountants; noise_is_never_overstated.
    """
    library = _library()
    if isinstance(costs, Cost):
        return _event(library, costs)
    terms = list(costs)
    Cost.total(terms)  # refuses costs that do not mix
    return library.ComposedDpEvent([_event(library, cost) for cost in terms])


def neighboring_relation(cost: Cost) -> "dp_accounting.NeighboringRelation":
    """The relation for an accountant of `dp_event(cost)`; its records are the rows, or the persons, of the cost.

    Under replacement this is REPLACE_SPECIAL: mu is already the distance between neighbours. REPLACE_ONE takes a noise
    multiplier for the distance of a record from nothing, and dp_accounting's accountants differ in whether they double
    it: the one for privacy loss distributions does, the one for Renyi privacy does not.
    """
    relations = _library().NeighboringRelation
    return relations.ADD_OR_REMOVE_ONE if cost.neighbours.change == "add-remove" else relations.REPLACE_SPECIAL


def _event(library: Any, cost: Cost) -> Any:
    if cost.added_delta:
        raise LeastnoiseError(
            "dp_accounting has no event for what holds up to a probability; give it replace(cost, added_delta=0), and "
            f"add {float_up(cost.added_delta):.4g} to the delta that its accountant states"
        )
    if not cost.mu_squared:
        return library.NoOpDpEvent()
    return library.GaussianDpEvent(_inverse_down(cost.mu))


def _inverse_down(mu: float) -> float:
    """The largest float that is not above 1 / mu: claiming less noise is the safe side."""
    inverse = 1 / mu
    return inverse if Fraction(inverse) * Fraction(mu) <= 1 else math.nextafter(inverse, 0)


def _library() -> Any:
    return optional("an event", "dp_accounting", extra="accounting")
