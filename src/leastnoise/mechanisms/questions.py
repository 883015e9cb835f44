"""Questions that a spec asks for: whether a mechanism will answer them, before anything is spent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from leastnoise._types import IntArray
from leastnoise.domain.attributes import Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.gate import Counts
from leastnoise.noise import SeededRandomSource
from leastnoise.release.asking import check_answers, readings_of
from leastnoise.release.queries.breakdown import breakdown
from leastnoise.release.queries.questions import read_question
from leastnoise.sources.source import Axes
from leastnoise.workload.publication import Publication

if TYPE_CHECKING:
    from leastnoise.mechanisms.mechanism import Mechanism
    from leastnoise.release.release import Release

OWN_LANGUAGE = ("matrix", "stream", "tree")  # methods whose releases know names beside those of attributes


@dataclass(frozen=True)
class Nobody:
    """A source without rows."""

    domain: Domain
    name: str | None = None

    def count(self, sets: Sequence[Axes]) -> Iterator[IntArray]:
        """Zeros."""
        return (np.zeros([self.domain.shape[k] for k in axes], dtype=np.int64) for axes in sets)


def read_questions(domain: Domain, method: str, words: Publication | None) -> None:
    """Refuse questions that no release of a domain could answer, whatever was measured.

    Guarantees: questions_are_refused_before_any_spending.
    """
    for text, by in words.asked if words and method not in OWN_LANGUAGE else []:
        with _naming(text):
            list(readings_of(read_question(domain, text), breakdown(domain, by), by))


def check_questions(mechanism: Mechanism[Release], words: Publication | None) -> None:
    """Refuse questions that are out of reach of what will be measured: those that a release of no rows cannot answer.

    What an adaptive plan measures depends on the data; its questions are only read.

    Guarantees: questions_are_refused_before_any_spending.
    """
    if words is None or not words.asked:
        return
    read_questions(mechanism.domain, mechanism.method, words)
    mechanism = getattr(mechanism, "inner", mechanism)  # without what is measured beside it
    if mechanism.method == "adaptive":
        return
    release = mechanism.measure(Counts(Nobody(mechanism.domain)), SeededRandomSource(0))
    for text, by in words.asked:
        with _naming(text, "; add that table to the workload, or leave the question out"):
            check_answers(release, text, by)


@contextmanager
def _naming(text: str, fix: str = "") -> Iterator[None]:
    try:
        yield
    except LeastnoiseError as error:
        raise LeastnoiseError(f"the question {text!r}: {error}{fix}") from None
