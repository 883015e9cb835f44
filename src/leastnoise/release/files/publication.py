"""Tables on their way to files: their names, titles, columns in words and footnotes, the same for every format."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from leastnoise._types import Progress
from leastnoise.domain.attributes import Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.release.files.one_table import Stated, marked
from leastnoise.release.statement import INSECURE
from leastnoise.workload.publication import Publication as Words

if TYPE_CHECKING:
    import pandas as pd

LONGEST_NAME = 80  # characters of a file name, without its ending
UNIT = "rows"  # what is counted, where nobody has said what rows stand for
FACTS = {"publisher": "Published by", "contact": "Contact", "licence": "Licence", "citation": "Cite as"}


class Source(Stated, Protocol):
    """What has tables: a release, or adjusted ones."""

    @property
    def dataset(self) -> str | None:
        """Name of the data."""

    @property
    def domain(self) -> Domain:
        """The attributes."""

    @property
    def publication(self) -> Words | None:
        """What readers are told beside the numbers."""

    @property
    def count_means(self) -> str:
        """What the column `count` is."""

    @property
    def footnotes(self) -> tuple[str, ...]:
        """What readers of any table must know, in sentences."""

    def tables(self) -> Iterator[tuple[str, ...]]:
        """The names of all tables in reach."""

    def sums(self) -> Iterator[tuple[str, ...]]:
        """The names of all tables of sums in reach, amounts last."""

    def table(self, *names: str, confidence: float = 0.95) -> pd.DataFrame:
        """The table of some attributes."""


@dataclass(frozen=True, eq=False)
class Sheet:
    """One table, with the name of its file (without an ending) and its title; amounts are not among its names."""

    names: tuple[str, ...]
    name: str
    title: str
    frame: pd.DataFrame  # the attributes, the numbers, and a mark where noise was seeded

    @property
    def numbers(self) -> list[str]:
        """The columns after the attributes."""
        return [str(name) for name in self.frame.columns[len(self.names) :]]


@dataclass(frozen=True, eq=False)
class Publication:
    """Some tables of a source. Each is made when it is written, so that one is in memory at a time."""

    source: Source
    sets: tuple[tuple[str, ...], ...]
    confidence: float = 0.95
    progress: Progress | None = None
    seen: set[str] = field(default_factory=set)  # columns of the tables made so far

    @classmethod
    def of(
        cls,
        source: Source,
        tables: Iterable[Sequence[str]] | None,
        confidence: float,
        progress: Progress | None = None,
    ) -> Publication:
        """Some tables, or all in reach."""
        given = None if tables is None else list(tables)
        if given is not None and any(isinstance(names, str) for names in given):
            raise LeastnoiseError('tables are lists of attribute names; write [["age"], ["age", "sex"]]')
        sets = tuple(tuple(names) for names in ([*source.tables(), *source.sums()] if given is None else given))
        return cls(source, sets, confidence, progress)

    @property
    def title(self) -> str:
        """Of all tables together."""
        return " ".join((self.words.title or self.source.dataset or "Tables").split())

    @cached_property
    def words(self) -> Words:
        """What the office says."""
        return self.source.publication or Words()

    @property
    def unit(self) -> str:
        """What is counted."""
        return self.words.counted or UNIT

    @property
    def facts(self) -> tuple[str, ...]:
        """Who published it, on which terms, and how to cite it."""
        told = {said: getattr(self.words, key) for key, said in FACTS.items()}
        return tuple(f"{said}: {' '.join(text.split())}" for said, text in told.items() if text)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """A name for each table, without an ending."""
        return tuple(file_names([(*self.counted(names), *self.amounts(names)) for names in self.sets]))

    def amounts(self, names: Sequence[str]) -> tuple[str, ...]:
        """Those among some attributes that are summed."""
        return tuple(name for name in names if self.source.domain[name].amount is not None)

    def counted(self, names: Sequence[str]) -> tuple[str, ...]:
        """The others."""
        return tuple(name for name in names if self.source.domain[name].amount is None)

    @property
    def only_counts(self) -> Publication:
        """The tables of counts, for formats that have no others."""
        return replace(self, sets=tuple(names for names in self.sets if not self.amounts(names)))

    @cached_property
    def entries(self) -> tuple[tuple[str, str], ...]:
        """Name and title of each table."""
        titles = (title_of(self.counted(names), self.unit, self.amounts(names)) for names in self.sets)
        return tuple(zip(self.names, titles, strict=True))

    def sheets(self) -> Iterator[Sheet]:
        """The tables, one after the other."""
        for done, (names, (name, title)) in enumerate(zip(self.sets, self.entries, strict=True)):
            if self.progress is not None:
                self.progress(done, len(self.sets), "writing tables")
            frame = self.source.table(*names, confidence=self.confidence)
            sheet = Sheet(self.counted(names), name, title, marked(frame, self.source.insecure))
            self.seen.update(sheet.numbers)
            yield sheet

    @cached_property
    def columns(self) -> dict[str, str]:
        """The columns after the attributes, in words."""
        percent = f"{100 * self.confidence:.4g}%"
        return {
            "count": self.source.count_means,
            "sum": "an unbiased estimate of the sum, of values that are clamped to the bounds of the amount",
            "unbiased": "the unbiased estimate, which may be negative or a fraction",
            "std_error": "the exact standard error of the unbiased estimate",
            "low": f"the lower end of its {percent} interval",
            "high": f"the upper end of its {percent} interval",
            "note": "why a number is missing",
            "insecure": INSECURE,
        }

    @property
    def statement(self) -> str:
        """The privacy statement, in one line."""
        return self.source.privacy.statement

    @property
    def notes(self) -> tuple[str, ...]:
        """The footnotes of every table; the privacy statement comes first."""
        interval = f"{100 * self.confidence:.4g}% intervals take the noise into account, each cell on its own."
        return (self.statement, *self.source.footnotes, *self.facts, interval)


def title_of(names: Sequence[str], unit: str = UNIT, amounts: Sequence[str] = ()) -> str:
    """A table in words, of numbers of rows or of sums of amounts.

    >>> [title_of(names) for names in [(), ("age",), ("age", "sex", "income")]]
    ['Number of rows', 'Number of rows by age', 'Number of rows by age, sex and income']
    """
    *most, last = names or ("",)
    by = f"{', '.join(most)} and {last}" if most else last
    what = f"Sum of {' x '.join(amounts)}" if amounts else f"Number of {unit}"
    return f"{what} by {by}" if names else what


def file_names(tables: Sequence[Sequence[str]]) -> Iterator[str]:
    """A name for each table that every file system takes, whatever its attributes are called.

    >>> list(file_names([(), ("age",), ("age", "sex"), ("AGE",), ("../x y",)]))
    ['0-total', '1-age', '2-age_sex', '1-AGE-2', '1-x-y']
    """
    words = (["-".join(re.findall("[A-Za-z0-9]+", name)) or "x" for name in names] for names in tables)
    bases = [
        f"{len(names)}-{'_'.join(parts) or 'total'}"[:LONGEST_NAME] for names, parts in zip(tables, words, strict=True)
    ]
    return unique(bases)


def unique(bases: Iterable[str], longest: int = LONGEST_NAME + 10, joint: str = "-") -> Iterator[str]:
    """Names that differ in more than upper and lower case: copies are numbered.

    >>> list(unique(["age", "AGE", "sheet", "sheets"], longest=5))
    ['age', 'AGE-2', 'sheet', 'she-2']
    """
    taken: set[str] = set()
    for base in bases:
        name, copy = base[:longest], 1
        while name.lower() in taken:
            copy += 1
            ending = f"{joint}{copy}"
            name = f"{base[: longest - len(ending)]}{ending}"
        taken.add(name.lower())
        yield name


def identifiers(texts: Sequence[str], pattern: str, prefix: str) -> list[str]:
    """An identifier for each text: the texts where all fit the pattern and differ, otherwise numbers after a prefix.

    >>> identifiers(["F", "M"], "[A-Z]+", "C"), identifiers(["F", "f", "x y"], "[A-Z]+", "C")
    (['F', 'M'], ['C0', 'C1', 'C2'])
    """
    if len(set(texts)) == len(texts) and all(re.fullmatch(pattern, text) for text in texts):
        return list(texts)
    return [f"{prefix}{k}" for k in range(len(texts))]
