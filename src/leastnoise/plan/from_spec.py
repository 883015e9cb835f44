"""From a spec file to a plan."""

from __future__ import annotations

from leastnoise.plan.design import Progress
from leastnoise.plan.plan import Plan, plan
from leastnoise.privacy import Budget
from leastnoise.workload.spec import Objective, Spec


def plan_spec(
    spec: Spec,
    *,
    solver: str | None = None,
    prior: str | None = None,
    objective: Objective | None = None,
    progress: Progress | None = None,
) -> Plan:
    """Plan what a spec states; what is given here takes the place of what it says."""
    return plan(
        spec.workload,
        Budget(**spec.budget_fields) if spec.budget_fields else None,
        solver=solver or spec.solver,
        prior=prior or spec.prior,
        objective=spec.objective if objective is None else objective,
        progress=progress,
    )
