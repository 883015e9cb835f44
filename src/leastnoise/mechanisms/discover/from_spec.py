"""How specs with unknown keys share their budget: so much to find the keys, the rest for the tables over them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.discover.plan import DiscoverPlan, checked_delta, mu_squared_beside, within
from leastnoise.privacy.budget import DELTA_SHARE, Budget, set_aside
from leastnoise.privacy.cost import float_down
from leastnoise.release.statement import common_delta
from leastnoise.workload.spec import Spec


def discover_plans(spec: Spec) -> dict[str, DiscoverPlan]:
    """A plan for each attribute whose keys are to be found, by name.

    Guarantees: keys_and_tables_cost_no_more_than_the_budget; uses_no_data.
    """
    budget, deltas = Budget(**spec.budget_fields), _deltas(spec)
    whole = mu_squared_beside(budget, sum(deltas.values(), Fraction(0)))
    return {
        name: within(
            name,
            whole * Fraction(str(part.share)),
            deltas[name],
            budget.neighbours,
            at_least=part.at_least,
            max_keys=part.max_keys,
            stated_delta=common_delta([budget]),
        )
        for name, part in spec.discover.items()
    }


def rest_of(spec: Spec) -> dict[str, Any]:
    """The fields of the budget that is left for tables."""
    fields, added = spec.budget_fields, sum(_deltas(spec).values(), Fraction(0))
    if "delta" in fields:
        rest = Fraction(str(fields["delta"])) - set_aside(fields["delta"], added)
        fields = fields | {"delta": float_down(rest)}
    shares = sum((Fraction(str(part.share)) for part in spec.discover.values()), Fraction(0))
    left = Budget(**fields).part(1 - shares)
    return dict(left.stated) | left.neighbours.arguments


def _deltas(spec: Spec) -> dict[str, Fraction]:
    """The delta of each attribute: the one that is stated, or its part of a tenth of that of the budget."""
    stated = common_delta([Budget(**spec.budget_fields)])
    usual = Fraction(str(stated)) / (DELTA_SHARE * len(spec.discover))
    deltas = {
        name: usual if part.delta is None else checked_delta(part.delta, stated) for name, part in spec.discover.items()
    }
    if sum(deltas.values()) >= Fraction(str(stated)):
        raise LeastnoiseError(
            f"the deltas of discover add up to {stated:g} or more, that of the whole; use smaller ones"
        )
    return deltas
