"""The release of a plain matrix of queries: noisy integers, and every answer with its exact covariance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt
import pandas as pd

from leastnoise._types import Array, IntArray
from leastnoise.domain import Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.gate import Counts
from leastnoise.noise import Bits, rounded_gaussian
from leastnoise.plan.matrix import MatrixPlan
from leastnoise.plan.matrix_names import Place, parsed, place_of
from leastnoise.plan.options import Options
from leastnoise.plan.words import number
from leastnoise.privacy.cost import Cost
from leastnoise.release import folders, kinds
from leastnoise.release import matrix_files as files
from leastnoise.release.answers import Answer, Joint, quantile
from leastnoise.release.frames import with_errors
from leastnoise.release.html import described
from leastnoise.release.run import FILE_BYTES, Debit, Task, spend
from leastnoise.release.simultaneous import Together, half_width
from leastnoise.release.statement import Privacy, Run, common_delta, now, words

SHOWN = 8  # answers in a notebook
MOST_JOINT = 2**26  # entries of the covariances that are worked out together


@dataclass(frozen=True, eq=False)
class MatrixRelease:
    """Noisy integers that were measured once, and what follows from them. Reading it is free.

    Guarantees: intervals_cover; covariances_match_brute_force; save_and_load.
    """

    plan: MatrixPlan
    measured: IntArray
    dataset: str | None = None
    insecure: bool = False
    ledger_entry: int | None = None
    run: Run = field(default_factory=Run.plain)
    created: str = field(default_factory=now)

    @property
    def domain(self) -> Domain:
        """The column that was counted."""
        return self.plan.domain

    @property
    def cost(self) -> Cost:
        """Exact privacy cost."""
        return self.plan.cost

    @cached_property
    def privacy(self) -> Privacy:
        """The privacy statement, in words and numbers."""
        return privacy_of(self.plan, self.insecure, self.run)

    @cached_property
    def values(self) -> Array:
        """Unbiased answers to all queries."""
        found = self.plan.system.solve(self.measured)
        found.flags.writeable = False
        return found

    @property
    def std_errors(self) -> Array:
        """Their standard errors."""
        return self.plan.std_errors

    def answer(self, query: Place, confidence: float = 0.95) -> Answer:
        """The answer to one query, by its number or its name."""
        place = place_of(query, self.plan.queries, self.plan.numbers)
        return Answer(float(self.values[place]), float(self.std_errors[place]), confidence)

    def answers(self, queries: npt.ArrayLike, confidence: float = 0.95, *, simultaneous: Together = False) -> Joint:
        """Answers to some queries with their joint covariance; `combine` has weighted sums such as differences."""
        places = self.plan.places(queries)
        return self._joint(self.values[places], self._coordinates(places), confidence, simultaneous)

    def ask(self, question: str, confidence: float = 0.95) -> Answer:
        """A query by its name or number, or sums and differences of some: "north - south" (spaces around signs)."""
        return self.asks([question], confidence)[0]

    def asks(self, questions: Sequence[str], confidence: float = 0.95, simultaneous: Together = False) -> Joint:
        """Several such questions with their joint covariance."""
        asked = [self.check(question) for question in questions]
        places = sorted({place for weights in asked for place in weights})
        combined = np.array([[weights.get(place, 0.0) for place in places] for weights in asked])
        coordinates = self._coordinates(np.array(places, dtype=np.int64))
        return self._joint(combined @ self.values[places], combined @ coordinates, confidence, simultaneous)

    def check(self, question: str) -> dict[int, float]:
        """The weights of a question by number; refused where it names what is not there."""
        return parsed(question, self.plan.queries, self.plan.numbers)

    def _coordinates(self, places: IntArray) -> Array:
        if len(places) * self.plan.items > MOST_JOINT:
            raise LeastnoiseError(
                f"{len(places):,} queries on {self.plan.items:,} items are too many at once; ask fewer"
            )
        return self.plan.noise * self.plan.system.coordinates(places)

    @staticmethod
    def _joint(values: Array, coordinates: Array, confidence: float, simultaneous: Together) -> Joint:
        width = half_width(coordinates, confidence, simultaneous) if simultaneous else None
        return Joint(values, coordinates, confidence, width)

    def to_pandas(self, confidence: float = 0.95, *, simultaneous: bool = False) -> pd.DataFrame:
        """All queries: query, answer, std_error, low, high."""
        width = quantile(confidence, self.plan.queries if simultaneous else 1)
        names = self.plan.names
        start = {"query": np.arange(self.plan.queries) if names is None else list(names)}
        return with_errors(start, "answer", self.values, self.std_errors, width)

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the release to a new folder: complete, or not at all."""
        files.save(self, Path(path), overwrite)

    @staticmethod
    def load(path: str | Path) -> MatrixRelease:
        """Read a release back, without the data; a damaged or newer one is refused."""
        header, numbers = files.load(Path(path))
        return folders.restored(MatrixRelease, Path(path), header, **numbers)

    def _repr_html_(self) -> str:
        plan = self.plan
        rows = [
            ("dataset", self.dataset or "not named"),
            ("privacy", self.privacy.statement),
            ("queries", f"{plan.queries:,} on {plan.items:,} values of {plan.counted.name}"),
            ("typical error (RMSE)", number(plan.rmse)),
            ("largest standard error", number(plan.max_std_error)),
        ]
        for place in range(min(plan.queries, SHOWN)):
            rows.append((plan.label(place), str(self.answer(place))))
        return described("Matrix release", rows, self.insecure)

    def __repr__(self) -> str:
        mark = " (INSECURE: seeded noise)" if self.insecure else ""
        return f"<MatrixRelease of {self.plan.queries:,} queries on {self.plan.items:,} items; {self.cost}{mark}>"


def privacy_of(plan: MatrixPlan, insecure: bool, run: Run) -> Privacy:
    """The privacy statement of whatever is measured by a plan."""
    cost, delta = plan.cost, common_delta([plan.budget])
    said = words(cost, delta, insecure=insecure, run=run)
    return Privacy.model_validate(
        {"statement": said, "epsilon": cost.epsilon_at(delta), "delta": delta} | cost.to_json()
    )


def run(plan: MatrixPlan, data: Any, **options: Unpack[Options]) -> MatrixRelease:
    """Check, debit, measure, save, in this order.

    Guarantees: nothing_is_spent_on_bad_input; debit_comes_first; answers_minus_noise_are_exact.
    """

    def carry_out(counts: Counts, bits: Bits, name: str | None, debit: Debit) -> MatrixRelease:
        (table,) = counts.tables([(0,)])
        return MatrixRelease(plan, measured(plan, table, bits), name, bits.insecure, *debit)

    def room() -> int:
        return files.room(plan) + FILE_BYTES

    task = Task(plan.domain, plan.cost, files.fingerprint(plan), room, carry_out, files.write)
    return spend(task, data, **options)


def measured(plan: MatrixPlan, counts: IntArray, bits: Bits) -> IntArray:
    """Exact integer answers with their noise: the step that sees data."""
    exact = plan.system.apply(counts)
    published = exact + rounded_gaussian(bits, plan.variance, len(exact))
    published.flags.writeable = False
    return published


MatrixPlan.runner = staticmethod(run)
kinds.LOADERS[files.Header.mark] = MatrixRelease.load
