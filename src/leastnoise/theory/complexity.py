"""Numbers of people that are enough or too few, and how they are told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from leastnoise.theory.tails import Error

Model = Literal["central", "local"]
Side = Literal["enough", "too few"]
ANY, GAUSSIAN = "any mechanism", "any mechanism with Gaussian privacy"
SEPARATE = "reports that do not wait for others"
UNBIASED = f"unbiased {SEPARATE}"
EXACT, NEAR = "factorization mechanism", "approximate factorization mechanism"


@dataclass(frozen=True)
class Bound:
    """So many people are enough for a mechanism, or fewer than so many are not enough for a class of them."""

    model: Model
    side: Side
    who: str
    privacy: str
    people: int

    def __str__(self) -> str:
        text = "enough for" if self.side == "enough" else "at least, with"
        return f"{self.people:>15,}  {text} {self.who} ({self.model}, {self.privacy})"


@dataclass(frozen=True)
class SampleComplexity:
    """All bounds at one accuracy."""

    alpha: float
    epsilon: float
    delta: float | None
    error: Error
    queries: int
    cells: int
    all: tuple[Bound, ...]
    weighted: bool = False  # errors count times the root of their query's weight
    population: bool = False  # answers are about the population that people are drawn from

    def upper(self, model: Model) -> Bound:
        """The fewest people that are known to be enough."""
        return min((b for b in self.all if b.model == model and b.side == "enough"), key=lambda b: b.people)

    def lower(self, model: Model) -> Bound:
        """The best bound that holds for every mechanism."""
        return max((b for b in self.all if b.model == model and b.who == ANY), key=lambda b: b.people)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "alpha": self.alpha,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "error": self.error.kind,
            "confidence": self.error.confidence if self.error.kind == "max" else None,
            "neighbours": "replace",
            "answers": "divided by the number of people",
            "about": "the population" if self.population else "the people in the data",
            "queries": self.queries,
            "cells": self.cells,
            "errors": "times the root of their weight" if self.weighted else "as they are",
            "bounds": [vars(b) for b in self.all],
        }

    def __str__(self) -> str:
        what = {
            "max": f"all errors at most {self.alpha:g}, with confidence {self.error.confidence:g}",
            "worst": f"every root mean squared error at most {self.alpha:g}",
            "rms": f"root mean squared error over all queries at most {self.alpha:g}",
        }[self.error.kind]
        queries, cells = (f"{n:,}" if n < 10**15 else f"{n:.3g}" for n in (self.queries, self.cells))
        head = f"people for {queries} queries on {cells} values: {what}"
        head += "; an error counts times the root of its query's weight" if self.weighted else ""
        text = f"answers are divided by the number of people; epsilon {self.epsilon:g}"
        head += "; people are drawn from a population that answers are about" if self.population else ""
        text += "" if self.delta is None else f", delta {self.delta:g}"
        return "\n".join([head, f"{text}, neighbours replace one person", *map(str, self.all)])
