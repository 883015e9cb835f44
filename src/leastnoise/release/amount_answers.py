"""Sums, variances, covariances, correlations and regressions of amounts, in all or by groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from leastnoise.errors import LeastnoiseError
from leastnoise.release.answers import Answer
from leastnoise.release.asking import Answered, Answers, read_all, readings_of, rows_of
from leastnoise.release.queries.breakdown import breakdown
from leastnoise.release.queries.language import Parser
from leastnoise.release.queries.linear import Condition
from leastnoise.release.queries.questions import Question, summed
from leastnoise.release.statistics.differences import Reading
from leastnoise.release.statistics.moments import Correlation, Covariance, Regression
from leastnoise.release.statistics.ratios import Statistic
from leastnoise.release.statistics.statistics import drawn

if TYPE_CHECKING:
    import pandas as pd

    from leastnoise.release.release import Release

By = str | Sequence[str]


def sum_of(
    release: Release, *of: str, by: By = (), where: str = "", confidence: float = 0.95
) -> Answer | Statistic | pd.DataFrame:
    """The sum of an amount, or of the product of several; with `by`, one row for each value of other attributes."""
    return _answers(release, lambda group: summed(release.domain, of, group), by, where, confidence)


def variance(
    release: Release, name: str, by: By = (), where: str = "", confidence: float = 0.95
) -> Answer | Statistic | pd.DataFrame:
    """The variance of an amount over the rows; with `by`, one row for each value of other attributes."""
    return covariance(release, name, name, by, where, confidence)


def covariance(
    release: Release, one: str, other: str, by: By = (), where: str = "", confidence: float = 0.95
) -> Answer | Statistic | pd.DataFrame:
    """The covariance of two amounts over the rows; with `by`, one row for each value of other attributes."""
    return _answers(release, lambda group: Covariance(release.domain, one, other, group), by, where, confidence)


def correlation(
    release: Release, one: str, other: str, by: By = (), where: str = "", confidence: float = 0.95
) -> Answer | Statistic | pd.DataFrame:
    """The correlation of two amounts; with `by`, one row for each value of other attributes."""
    return _answers(release, lambda group: Correlation(release.domain, one, other, group), by, where, confidence)


def regression(
    release: Release,
    outcome: str,
    regressors: By,
    by: By = (),
    where: str = "",
    confidence: float = 0.95,
    *,
    population: bool = False,
) -> pd.DataFrame:
    """A linear regression of an amount on others: one row per coefficient, and per value of the attributes `by`.

    With `population`, errors are those of the people from whom the rows were drawn, noise included.
    """
    names, sampled = _names(regressors), drawn(release, population)
    frame = _answers(
        release, lambda group: Regression(release.domain, outcome, names, group, sampled), by, where, confidence
    )
    assert not isinstance(frame, Answer | Statistic)
    return frame


def _names(names: By) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _answers(
    release: Release, question: Callable[[Condition], Reading | Regression], by: By, where: str, confidence: float
) -> Answer | Statistic | pd.DataFrame:
    domain, groups = release.domain, _names(by)
    condition = Parser(domain, where).condition()
    asked: Question = lambda group: question(Condition.every(domain, [condition, group]))  # noqa: E731
    slices = breakdown(domain, groups)
    parts = read_all(release, list(readings_of(asked, slices, groups)))
    rows = [row for one, part in zip(slices, parts, strict=True) for row in rows_of(one.labels, part, confidence)]
    if not groups and len(rows) == 1:
        if rows[0].answer is None:
            raise LeastnoiseError("nobody can be in this group; ask for one that can have members")
        return rows[0].answer
    frame = Answers((Answered("", tuple(rows)),), release.insecure, False, bool(groups)).to_pandas()
    return frame.drop(columns=["question"])
