"""At most so many rows of each person, in an engine that runs in this process: found once, and beyond its memory.

The data is coded in one pass into a temporary table. An aggregate finds the people who have more rows than are counted;
only their rows are hashed and sorted, everybody else's are kept as they are. What is kept is another table of codes,
and all further passes read that. Aggregates, joins and sorts write aside what does not fit the memory. A window over
all rows, as engines elsewhere run it, says the same in one query, but needs several times the memory and the time.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from sqlglot import exp

from leastnoise.sources.contribution_bounding import first_rows
from leastnoise.sources.engine import Columns, Embedded
from leastnoise.sources.sql import Query

CODED, BUSY, KEPT = "leastnoise_coded", "leastnoise_busy", "leastnoise_kept"
_CODE_BYTES = 8  # of one code, at most


class Staged(Query):
    """A query whose data was coded, and whose rows per person were bounded, in temporary tables of DuckDB.

    Rows are ordered by the first 64 bits of their digests. Should two different rows of one person agree in them, which
    has odds of 2^-64 for each such pair, either may be kept: bound and privacy are the same.

    Guarantees: engines_code_alike; nobody_has_more_rows.
    """

    def coding(self) -> str:
        """All rows as codes, with whose they are."""
        return self._sql(exp.Select(expressions=[exp.Star()]).from_(super()._coded(range(len(self.codings)))))

    def busy(self) -> str:
        """Everybody who has more rows than are counted, in all or in a group."""
        most = self.unit.max_rows if self.unit is not None else 0
        if not self.groups:
            return f"SELECT person FROM {CODED} WHERE {self._counted} GROUP BY person HAVING COUNT(*) > {most}"
        group = ", ".join(f"c{k}" for k in self.groups)
        each = f"SELECT person, COUNT(*) AS n FROM {CODED} WHERE {self._counted} GROUP BY person, {group}"
        return f"SELECT person FROM ({each}) GROUP BY person HAVING SUM(n) > {most} OR MAX(n) > 1"

    def rest(self) -> str:
        """The rows of all others."""
        return f"SELECT {self._codes} FROM {CODED} ANTI JOIN {BUSY} USING (person) WHERE {self._counted}"

    def ranked(self, first: int, last: int) -> str:
        """Numbers of some who are busy and the codes of their rows, by person and digest."""
        assert self.unit is not None, "only queries of people are staged"
        rows = f"{CODED} JOIN {BUSY} USING (person) WHERE {self._counted} AND {BUSY}.rowid BETWEEN {first} AND {last}"
        digest = f"CAST('0x' || LEFT({self._digest(self.unit).sql(dialect=self.dialect)}, 16) AS UBIGINT)"
        return f"SELECT {BUSY}.rowid, {self._codes} FROM {rows} ORDER BY {BUSY}.rowid, {digest}"

    @property
    def _codes(self) -> str:
        return ", ".join(f"c{k}" for k in range(len(self.codings))) or "0 AS nothing"

    @property
    def _counted(self) -> str:
        drops = (f" AND c{k} >= 0" for k, coding in enumerate(self.codings) if coding.drops)
        possible = (
            f" AND NOT ({self.impossible.holds().sql(dialect=self.dialect)})" if self.impossible.rule.drops else ""
        )
        return f"person IS NOT NULL{''.join(drops)}{possible}"

    def _coded(self, items: Iterable[int]) -> exp.Table:
        return exp.to_table(CODED)

    def _kept(self, items: Iterable[int], people: bool = False) -> exp.Table:
        assert not people, "the ids of what is kept are gone"
        return exp.to_table(KEPT)


def bound_rows(engine: Embedded, query: Staged) -> None:
    """Make the table of what is kept, from the one that is coded; those who are busy come in parts that fit memory."""
    assert query.unit is not None, "only queries of people are staged"
    most = query.unit.max_rows
    engine.store(BUSY, query.busy())
    engine.store(KEPT, query.rest())
    ((people,),) = next(engine.run(f"SELECT COUNT(*) FROM {BUSY}"))
    step = max(1, engine.most_bytes // (_CODE_BYTES * most * max(1, len(query.codings))))
    for first in range(0, int(people), step):
        rows = engine.run(query.ranked(first, first + step - 1))
        engine.append(KEPT, list(_first_rows(rows, query.groups, most)))
    engine.forget(CODED, BUSY)


def _first_rows(batches: Iterable[Columns], groups: Sequence[int], most: int) -> Iterator[Columns]:
    """Codes of the rows of each person that are counted; rows come by person, in order, and a person may be in several
    batches: what is kept of the last one comes again before the next.
    """
    last: Columns = []
    for batch in batches:
        again = last if last and len(last[0]) and last[0][0] == batch[0][0] else [column[:0] for column in batch]
        person, *codes = (np.concatenate(pair) for pair in zip(again, batch, strict=True))
        keep = first_rows(person, [codes[k] for k in groups], most)
        last = [column[keep & (person == person[-1])] for column in (person, *codes)]
        keep[: len(again[0])] = False
        yield [column[keep] for column in codes]
