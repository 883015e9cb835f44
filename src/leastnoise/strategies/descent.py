"""One smooth descent for all searches: L-BFGS that can be stopped from inside."""

from __future__ import annotations

from collections.abc import Callable

from leastnoise._types import Array


class Stop(Exception):
    """Raised by an objective that has seen enough."""


def descend(
    objective: Callable[[Array], tuple[float, Array]], start: Array, steps: int, ftol: float = 0.0, memory: int = 20
) -> None:
    """Minimize a function with gradient; the objective records what it needs and may raise `Stop`."""
    from scipy.optimize import minimize

    options = {"maxiter": steps, "maxfun": steps, "maxcor": memory, "ftol": ftol, "gtol": 0.0}
    try:
        minimize(objective, start, jac=True, method="L-BFGS-B", options=options)  # type: ignore[call-overload]
    except Stop:
        return
