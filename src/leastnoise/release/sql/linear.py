"""Sums of counts in SQL as linear queries.

A row of the table `release` is a cell of the domain, with its count. sum(E) is linear where E is `count` times a
function of the attributes: numbers, numeric attributes, CASE WHEN and their sums and products. An amount is a column
beside `count`: the sum over the rows of a cell. Conditions are put into the language of questions, so that they mean
the same here and there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from sqlglot import exp

from leastnoise.domain.attributes import Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.release.queries.language import Parser
from leastnoise.release.queries.linear import Condition, LinearQuery, Term, joined, quoted, quoted_name
from leastnoise.release.queries.questions import restricted
from leastnoise.release.sql.names import Names
from leastnoise.release.statistics.groups import Group, numbers_of

COMPARE: dict[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip
CELLS = "a row of the table is a cell, not a person; write sum({} * count)"


class NotLinearError(Exception):
    """A query that is not made of sums of counts; it is computed from the noisy numbers instead."""


class _Function(NamedTuple):
    """A function of the cells, and whether the count of each is multiplied by it."""

    weights: LinearQuery
    counted: bool


def condition(names: Names, node: exp.Expr) -> Condition:
    """The cells for which a condition of SQL holds."""
    return Parser(names.domain, _text(names, node)).condition()


def _text(names: Names, node: exp.Expr) -> str:
    """A condition in the language of questions."""
    if isinstance(node, exp.Paren | exp.Where):
        return f"({_text(names, node.this)})"
    if isinstance(node, exp.And | exp.Or):
        word = "and" if isinstance(node, exp.And) else "or"
        return f"({_text(names, node.this)}) {word} ({_text(names, node.expression)})"
    if isinstance(node, exp.Not):
        return f"not ({_text(names, node.this)})"
    if isinstance(node, exp.Boolean):
        return "true" if node.this else "false"
    if isinstance(node, exp.In) and node.expressions:
        return " or ".join(_equal(names, node.this, value) for value in node.expressions)
    if isinstance(node, exp.Between):
        return f"{_name(names, node.this)} between {_value(node.args['low'])} and {_value(node.args['high'])}"
    if type(node) in COMPARE:
        return _compared(names, node)
    raise NotLinearError


def _compared(names: Names, node: exp.Expr) -> str:
    left, right, sign = node.this, node.expression, COMPARE[type(node)]
    if isinstance(left, exp.Column) and sign in ("=", "!="):
        text = _equal(names, left, right)
        return text if sign == "=" else f"not ({text})"
    if isinstance(left, exp.Column):
        return f"{_name(names, left)} {sign} {_value(right)}"
    return f"{_value(left)} {sign} {_name(names, right)}"


def _equal(names: Names, column: exp.Expr, value: exp.Expr) -> str:
    place = names.axis(column) if isinstance(column, exp.Column) else None
    if place is not None and place not in names.domain:  # a level of a hierarchy
        return f"{quoted_name(place.rpartition('.')[0])} under {quoted(str(value.name))}"
    return f"{_name(names, column)} = {_value(value)}"


def _name(names: Names, node: exp.Expr) -> str:
    place = names.axis(node) if isinstance(node, exp.Column) else None
    if place is None or place not in names.domain:
        raise NotLinearError
    return quoted_name(place)


def _value(node: exp.Expr) -> str:
    if isinstance(node, exp.Neg):
        return f"-{_value(node.this)}"
    if isinstance(node, exp.Boolean):
        return "true" if node.this else "false"
    if isinstance(node, exp.Literal):
        return quoted(node.this) if node.is_string else str(node.this)
    raise NotLinearError


@dataclass(frozen=True)
class Sums:
    """Sums of counts over the cells that satisfy a condition."""

    names: Names
    where: Condition

    @property
    def domain(self) -> Domain:
        """The attributes."""
        return self.names.domain

    def linear(self, node: exp.Expr) -> LinearQuery | None:
        """A linear query: sums, their differences, and their multiples by numbers; None for anything else."""
        if isinstance(node, exp.Paren):
            return self.linear(node.this)
        if isinstance(node, exp.Sum | exp.Filter):
            return self._sum(node)
        if isinstance(node, exp.Neg):
            inside = self.linear(node.this)
            return None if inside is None else -inside
        if isinstance(node, exp.Add | exp.Sub):
            one, other = self.linear(node.this), self.linear(node.expression)
            return None if one is None or other is None else one + (other if isinstance(node, exp.Add) else -other)
        if isinstance(node, exp.Mul | exp.Div):
            return self._multiple(node)
        return None

    def _multiple(self, node: exp.Mul | exp.Div) -> LinearQuery | None:
        left, right = number(node.this), number(node.expression)
        if right is not None and (isinstance(node, exp.Mul) or right):
            inside = self.linear(node.this)
            return None if inside is None else inside * (right if isinstance(node, exp.Mul) else 1 / right)
        if left is not None and isinstance(node, exp.Mul):
            inside = self.linear(node.expression)
            return None if inside is None else inside * left
        return None

    def _sum(self, node: exp.Sum | exp.Filter) -> LinearQuery:
        cells = self.where
        if isinstance(node, exp.Filter):
            cells = Condition.every(self.domain, [cells, condition(self.names, node.expression)])
            node = node.this
        if not isinstance(node, exp.Sum):
            raise NotLinearError
        inside = self._function(node.this)
        if not inside.counted:
            raise LeastnoiseError(CELLS.format(node.this.sql(dialect="duckdb")))
        return restricted(inside.weights, cells)

    def _function(self, node: exp.Expr) -> _Function:
        if isinstance(node, exp.Paren):
            return self._function(node.this)
        if isinstance(node, exp.Column):
            return self._column(node)
        if (x := number(node)) is not None:
            return _Function(LinearQuery.total(self.domain) * x, False)
        if isinstance(node, exp.Neg):
            inside = self._function(node.this)
            return _Function(-inside.weights, inside.counted)
        if isinstance(node, exp.Mul):
            return _product(self._function(node.this), self._function(node.expression))
        if isinstance(node, exp.Add | exp.Sub):
            one, other = self._function(node.this), self._function(node.expression)
            return _added(one, other if isinstance(node, exp.Add) else _Function(-other.weights, other.counted))
        if isinstance(node, exp.Case) and node.this is None:
            return self._case(node)
        raise NotLinearError

    def _column(self, node: exp.Column) -> _Function:
        if self.names.is_count(node):
            return _Function(LinearQuery.total(self.domain), True)
        place = self.names.axis(node)
        if place is None or place not in self.domain:
            raise NotLinearError
        group = Group(self.domain, place)
        summed = group.attribute.amount is not None  # over the rows of a cell
        return _Function(group.weighted(numbers_of(group.attribute)[0]), summed)

    def _case(self, node: exp.Case) -> _Function:
        """The first branch whose condition holds; without ELSE, NULL adds nothing to a sum."""
        total, left = _Function(LinearQuery(self.domain, ()), False), Condition(self.domain)
        for branch in node.args["ifs"]:
            holds = condition(self.names, branch.this)
            here = Condition.every(self.domain, [left, holds])
            value = self._function(branch.args["true"])
            total = _added(total, _Function(restricted(value.weights, here), value.counted))
            left = Condition.every(self.domain, [left, holds.negated()])
        if (default := node.args.get("default")) is not None and not isinstance(default, exp.Null):
            value = self._function(default)
            total = _added(total, _Function(restricted(value.weights, left), value.counted))
        return total


def number(node: exp.Expr) -> float | None:
    """A number that stands in the query itself."""
    if isinstance(node, exp.Paren):
        return number(node.this)
    if isinstance(node, exp.Neg):
        inside = number(node.this)
        return None if inside is None else -inside
    return float(node.this) if isinstance(node, exp.Literal) and not node.is_string else None


def _added(one: _Function, other: _Function) -> _Function:
    if not one.weights.terms or not other.weights.terms:  # zero is a count as well as a number
        return other if not one.weights.terms else one
    if one.counted != other.counted:
        raise NotLinearError
    return _Function(one.weights + other.weights, one.counted)


def _product(one: _Function, other: _Function) -> _Function:
    if one.counted and other.counted:
        raise NotLinearError  # a square of counts
    domain = one.weights.domain
    terms = tuple(
        Term(*joined(domain, [(s.attributes, s.weights), (t.attributes, t.weights)]))
        for s in one.weights.terms
        for t in other.weights.terms
    )
    return _Function(LinearQuery(domain, terms), one.counted or other.counted)
