"""What the names in a query stand for: attributes, levels of hierarchies, and the columns of counts."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from leastnoise.domain.attributes import Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.release.queries.breakdown import axis

COUNT, ERROR = "count", "std_error"


@dataclass(frozen=True)
class Names:
    """The names that one query may use: `release`, or the name of the dataset, and those that it gives itself."""

    domain: Domain
    tables: frozenset[str]
    own: frozenset[str] = field(default_factory=frozenset)  # aliases and named subqueries

    @classmethod
    def of(cls, domain: Domain, dataset: str | None, tree: exp.Expr) -> Names:
        """The names of a query; a table that is not the release is refused."""
        known = frozenset(name.lower() for name in ("release", dataset) if name)
        made = {node.alias_or_name.lower() for node in tree.find_all(exp.CTE, exp.Subquery) if node.alias_or_name}
        aliases = {node.alias.lower() for node in tree.find_all(exp.Alias)}
        aliases |= {c.name.lower() for node in tree.find_all(exp.TableAlias) for c in node.args.get("columns") or ()}
        for table in tree.find_all(exp.Table):
            if table.name.lower() not in known | made:
                raise LeastnoiseError(f"there is no table {table.name or table.sql()!r} here; write: from release")
            if table.alias:
                (aliases if table.name.lower() in made else made).add(table.alias.lower())
        return cls(domain, known | frozenset(made), frozenset(aliases))

    def is_count(self, column: exp.Column) -> bool:
        """Whether it is the column of counts."""
        return column.name.lower() == COUNT and COUNT not in self.domain and column.table.lower() in ("", *self.tables)

    def axis(self, column: exp.Column) -> str | None:
        """An attribute, or attribute.level; None for a name that the query gave itself, or a column of counts."""
        table, name = column.table, column.name
        if table and table.lower() not in self.tables:
            attribute = self._attribute(table)
            if attribute is None:
                raise LeastnoiseError(f"there is no {table}.{name} here; attributes are {', '.join(self.domain.names)}")
            return axis(self.domain, f"{attribute}.{name}").name
        attribute = self._attribute(name)
        if attribute is None and name.lower() not in {COUNT, ERROR, *self.own}:
            self.domain.index(name)  # says which there are
        return attribute

    def _attribute(self, name: str) -> str | None:
        """By its name, in whatever case where that is clear, as SQL has it."""
        if name in self.domain:
            return name
        same = [other for other in self.domain.names if other.lower() == name.lower()]
        return same[0] if len(same) == 1 else None
