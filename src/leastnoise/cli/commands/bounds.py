"""`leastnoise bounds`."""

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from leastnoise.cli.options import FilesFrom, Json, SpecArgument
from leastnoise.errors import LeastnoiseError
from leastnoise.report.curves import write_curves
from leastnoise.theory import Question, sample_complexity_curves_of
from leastnoise.theory.bounds import bounds_of
from leastnoise.theory.tails import Kind
from leastnoise.workload.spec import load_spec

RANGE, POINTS = 10.0, 13  # of the curves: alpha from a tenth to ten times, but below 1/2 of a range


def bounds(
    spec: SpecArgument,
    alpha: Annotated[float, typer.Option(help="Error of answers divided by the number of people.")] = 0.05,
    error: Annotated[Kind, typer.Option(help="All errors at once, the worst query's, or root mean square.")] = "max",
    confidence: Annotated[float, typer.Option(help="Probability that all errors are at most alpha.")] = 0.95,
    population: Annotated[
        bool, typer.Option(help="Answers are about the population that people are drawn from.")
    ] = False,
    epsilon: Annotated[float | None, typer.Option(help="Epsilon, instead of the spec's.", show_default=False)] = None,
    delta: Annotated[float | None, typer.Option(help="Delta, instead of the spec's.", show_default=False)] = None,
    as_json: Json = False,
    plot: Annotated[Path | None, typer.Option(help="Draw people against alpha: an .svg or .html file.")] = None,
    files_from: FilesFrom = None,
) -> None:
    """How many people a spec's queries need for an accuracy: upper bounds by mechanisms, lower bounds for any.

    Neighbours replace one person, and answers are divided by the number of people. Needs no data.
    """
    loaded = load_spec(spec, budgeted=False, files_from=files_from)
    stated = loaded.budget_fields
    epsilon = stated.get("epsilon") if epsilon is None else epsilon
    delta = stated.get("delta") if delta is None else delta
    if epsilon is None:
        raise LeastnoiseError("the spec states no epsilon; give --epsilon 1 and --delta 1e-9")
    if plot is not None and plot.suffix not in (".svg", ".html"):
        raise LeastnoiseError(f"a plot is an .svg or .html file, got {plot.name!r}; name it curves.svg")
    question = Question.of(loaded.workload, epsilon, delta, error, confidence)
    result = bounds_of(question, alpha, population)
    if plot is not None:
        alphas = [float(f"{a:.3g}") for a in np.geomspace(alpha / RANGE, alpha * RANGE, POINTS)]
        shown = [a for a in alphas if not question.trivial(a)] or [alpha]
        drawn = sample_complexity_curves_of(question, shown, population)
        write_curves(drawn, f"People for {result.queries:,} queries at epsilon {epsilon:g}", plot)
    typer.echo(json.dumps(result.to_json(), indent=2) if as_json else str(result))
