"""The language of questions: from text to a linear query over a domain.

    query     := [sign] term { sign term }                    sign is + or -
    term      := [number *] condition
    condition := all { or all }
    all       := single { and single }
    single    := { not } ( "(" query ")" | true | false | comparison )
    comparison:= name [. level] compare value                 date.year = 2016
               | value compare name [compare value]           such as 18 <= age < 30
               | name [not] between value and value           both ends included
               | name [not] in "(" value { , value } ")"
               | name [not] under value                       every leaf below a node of a hierarchy
    compare   := = | == | != | <> | < | <= | > | >=
    value     := [sign] number | 'text' | "text" | true | false
    name      := letters, digits and underscores, or anything `in backticks`

Keywords may be written in capitals. A quote inside a quoted text is doubled. A query in parentheses may stand where a
condition does; joined by `and`, `or` or `not` it must be one. The empty text and * mean everybody, as `true` does.
Nothing here looks at data. docs/ask.md says the same with examples.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from leastnoise.domain.attributes import UNKNOWN, Attribute, Domain, Hierarchy, Scalar
from leastnoise.errors import LeastnoiseError
from leastnoise.release.queries.linear import (
    Condition,
    LinearQuery,
    Part,
    below,
    codes_of,
    fits,
    on_level,
    quoted,
    quoted_name,
    through,
)
from leastnoise.release.queries.tokens import Token, at, error_at, number_of, tokens, unquoted

MAX_TEXT = 100_000  # characters
MAX_DEPTH = 50  # parentheses inside each other

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
COMPARE = frozenset({"=", "==", "!=", "<>", *_MIRRORED})
_SIGNS = {"+": 1, "-": -1}

Parsed: TypeAlias = Condition | LinearQuery


def parse(domain: Domain, text: str) -> LinearQuery:
    """The linear query that a text asks for.

    >>> domain = Domain.of(age=range(100), sex=["F", "M"])
    >>> parse(domain, "age between 18 and 30 and sex = 'F'")
    <LinearQuery: age x sex, cells: 200>
    >>> parse(domain, "2 * (age < 18) - (sex in ('F', 'M'))")
    <LinearQuery: age, cells: 100>
    >>> parse(domain, "agee < 18")
    Traceback (most recent call last):
    leastnoise.errors.LeastnoiseError: position 1: no attribute 'agee' in this domain (age, sex); did you mean 'age'?

    Guarantees: counts_the_rows_that_match; fails_only_with_a_message_in_one_line.
    """
    return Parser(domain, text).linear()


def query_of(domain: Domain, query: object) -> LinearQuery:
    """A linear query over a domain, from its text or as it is."""
    if isinstance(query, str):
        return parse(domain, query)
    if not isinstance(query, LinearQuery):
        raise LeastnoiseError(f"{query!r} is no query; write it in quotes, such as \"age < 30 and sex = 'F'\"")
    if query.domain != domain:
        raise LeastnoiseError("the query is over another domain; build it from the same domain")
    return query


def predicate(domain: Domain, text: str) -> Part[np.bool_]:
    """A condition as the attributes it depends on and, for each of their cells, whether it holds.

    >>> predicate(Domain.of(age=range(3), sex=["F", "M"]), "sex = 'F' and age < 1000")
    ((1,), array([ True, False]))
    """
    return Parser(domain, text).predicate()


class _Value(NamedTuple):
    value: Scalar
    token: Token


class _Name(NamedTuple):
    position: int
    attribute: Attribute
    token: Token
    level: str | None = None  # of its hierarchy


class Parser:
    """Recursive descent, a few tokens ahead and never back, so time is linear in the text."""

    def __init__(self, domain: Domain, text: str) -> None:
        if not isinstance(text, str):
            raise LeastnoiseError(f"a question is text, got {text!r}")
        if len(text) > MAX_TEXT:
            raise LeastnoiseError(f"this question has {len(text):,} characters; at most {MAX_TEXT:,} are read")
        self.domain = domain
        self.tokens = tokens(text)
        self.here = 0
        self.depth = 0

    def _ahead(self, steps: int = 0) -> Token:
        return self.tokens[min(self.here + steps, len(self.tokens) - 1)]

    def _take(self, *expected: str) -> Token | None:
        """The next token, if it is one of these words and signs."""
        token = self._ahead()
        if token.text not in expected or token.kind == "end":
            return None
        self.here += 1
        return token

    def _need(self, expected: str) -> Token:
        token = self._take(expected)
        if token is None:
            raise self._expected(repr(expected))
        return token

    def _expected(self, what: str) -> LeastnoiseError:
        token = self._ahead()
        same = [name for name in self.domain.names if token.kind == "keyword" and name.lower() == token.text]
        hint = f"; write {quoted_name(same[0])} if the attribute is meant" if same else ""
        if token.text == "*":
            hint = "; a number before it multiplies a whole term, as in 2 * (age < 30)"
        if token.kind == "word" and token.text.lower() in ("by", "group"):
            name = self.domain.names[0]
            hint = f"; for an answer for each value, write --by {name} beside the question (in Python: by=[{name!r}])"
        return error_at(token, f"expected {what}, found {token}{hint}")

    def linear(self) -> LinearQuery:
        return self._linear(self._whole(), self.tokens[0])

    def predicate(self) -> Part[np.bool_]:
        condition = self.condition()
        with at(self.tokens[0]):
            return condition.cells()

    def condition(self) -> Condition:
        whole = self._whole()
        if isinstance(whole, LinearQuery):
            raise error_at(self.tokens[0], "expected a condition, found a sum")
        return whole

    def _whole(self) -> Parsed:
        if self._ahead().kind == "end" or (self._ahead(1).kind == "end" and self._take("*")):
            return Condition(self.domain)
        result = self._query()
        if self._ahead().kind != "end":
            raise self._expected("and, or, +, - or the end")
        return result

    def _query(self) -> Parsed:
        signed_value = self._ahead(1).kind == "number" and self._ahead(2).text in COMPARE  # -5 < x is a condition
        sign = None if signed_value else self._take("+", "-")
        start = self._ahead()
        term = self._term()
        if sign is None and self._ahead().text not in _SIGNS:
            return term
        total = self._linear(term, start) * _SIGNS[sign.text if sign else "+"]
        while sign := self._take(*_SIGNS):
            start = self._ahead()
            more = self._linear(self._term(), start) * _SIGNS[sign.text]
            with at(sign):
                total = total + more
        return total

    def _term(self) -> Parsed:
        token = self._ahead()
        if token.kind != "number" or self._ahead(1).text != "*":
            return self._any()
        self.here += 2
        linear = self._linear(self._any(), token)
        with at(token):
            return linear * number_of(token.text)

    def _linear(self, result: Parsed, token: Token) -> LinearQuery:
        if isinstance(result, LinearQuery):
            return result
        with at(token):
            return result.linear()

    def _condition(self, result: Parsed, operator: Token) -> Condition:
        if isinstance(result, LinearQuery):
            raise error_at(operator, f"{operator} needs conditions, but a sum stands beside it")
        return result

    def _several(self, word: str, part: Callable[[], Parsed]) -> tuple[Token, list[Parsed]]:
        first, operator = part(), self._ahead()
        rest: list[Parsed] = []
        while self._take(word):
            rest.append(part())
        return operator, [first, *rest]

    def _any(self) -> Parsed:
        operator, result = self._several("or", self._all)
        if len(result) == 1:
            return result[0]
        parts = [self._condition(part, operator) for part in result]
        with at(operator):
            return Condition.every(self.domain, [part.negated() for part in parts]).negated()

    def _all(self) -> Parsed:
        operator, result = self._several("and", self._single)
        if len(result) == 1:
            return result[0]
        parts = [self._condition(part, operator) for part in result]
        with at(operator):
            return Condition.every(self.domain, parts)

    def _single(self) -> Parsed:
        operator, odd = self._ahead(), False
        while self._take("not"):
            odd = not odd
        atom = self._atom()
        if operator.text != "not":
            return atom
        condition = self._condition(atom, operator)
        with at(operator):
            return condition.negated() if odd else condition

    def _atom(self) -> Parsed:
        token = self._ahead()
        if self._take("("):
            return self._inside(token)
        if token.kind in ("word", "name"):
            return self._after(self._levelled())
        if self._ahead(1).text not in COMPARE and self._take("true", "false"):
            always = Condition(self.domain)
            return always if token.text == "true" else always.negated()
        if token.kind in ("number", "text") or token.text in ("true", "false", *_SIGNS):
            return self._chain()
        raise self._expected("a condition")

    def _deeper(self, token: Token) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise error_at(token, f"more than {MAX_DEPTH} parentheses inside each other; leave some out")

    def _inside(self, token: Token) -> Parsed:
        self._deeper(token)
        result = self._query()
        self._need(")")
        self.depth -= 1
        return result

    def _name(self) -> _Name:
        token = self._ahead()
        if token.kind not in ("word", "name"):
            raise self._expected("the name of an attribute")
        self.here += 1
        with at(token):
            position = self.domain.index(token.text if token.kind == "word" else unquoted(token.text))
            fits(self.domain, [position])
        return _Name(position, self.domain.attributes[position], token)

    def _levelled(self) -> _Name:
        """An attribute, maybe with a level of its hierarchy behind a dot, such as date.year."""
        name = self._name()
        if name.attribute.amount is not None:
            what = quoted_name(name.attribute.name)
            raise error_at(
                name.token,
                f"{name.attribute.name!r} is an amount, which is summed, not compared; ask sum({what}) or mean({what})",
            )
        if not self._take("."):
            return name
        token, values = self._ahead(), name.attribute.values
        self.here += 1
        if not isinstance(values, Hierarchy):
            raise error_at(
                name.token, f"{name.attribute.name!r} has no hierarchy, so it has no levels; leave the dot out"
            )
        with at(token):
            values.level(token.text if token.kind != "name" else unquoted(token.text))
        return name._replace(level=token.text if token.kind != "name" else unquoted(token.text))

    def _value(self) -> _Value:
        token = self._ahead()
        minus = self._take(*_SIGNS)
        number = self._ahead()
        if number.kind == "number":
            self.here += 1
            with at(token):
                return _Value(number_of(number.text) * _SIGNS[minus.text if minus else "+"], token)
        if minus is None and token.kind == "text":
            self.here += 1
            return _Value(unquoted(token.text), token)
        if minus is None and self._take("true", "false"):
            return _Value(token.text == "true", token)
        raise self._expected("a number") if minus else self._no_value(token)

    def _no_value(self, token: Token) -> LeastnoiseError:
        if token.kind not in ("word", "name"):
            return self._expected("a value")
        if token.text in self.domain:
            return self._expected("a value (not a second attribute)")
        return error_at(token, f"a text needs quotes; write {quoted(token.text)}")

    def _after(self, name: _Name) -> Condition:
        if sign := self._take(*COMPARE):
            return self._compare(name, sign.text, self._value())
        negated = self._take("not")
        if self._take("between"):
            condition = self._between(name)
        elif self._take("in"):
            condition = self._in(name)
        elif self._ahead().text.lower() == "under":
            condition = self._under(name)
        else:
            raise self._unfinished(name, negated)
        return condition.negated() if negated else condition

    def _unfinished(self, name: _Name, negated: Token | None) -> LeastnoiseError:
        attribute, token = name.attribute, self._ahead()
        if token.text.lower() == "is" and attribute.known < attribute.size:
            return error_at(token, f"missing values are asked for by {quoted_name(attribute.name)} = '{UNKNOWN}'")
        return self._expected("between or in" if negated else f"=, <, between or in after {name.token}")

    def _chain(self) -> Condition:
        value = self._value()
        first = self._take(*COMPARE)
        if first is None:
            factor = self._ahead(-1).kind == "number" and self._ahead().text != "*"
            raise self._expected("a comparison or *" if factor else "a comparison")
        name = self._levelled()
        compare = self._compare(name, _MIRRORED.get(first.text, first.text), value)
        second = self._take(*COMPARE)
        if second is None:
            return compare
        if {first.text, second.text} - {"<", "<="} and {first.text, second.text} - {">", ">="}:
            raise error_at(second, f"{first} and {second} make no range; write for example 18 <= age < 30")
        return Condition.every(self.domain, [compare, self._compare(name, second.text, self._value())])

    def _compare(self, name: _Name, sign: str, value: _Value) -> Condition:
        if sign in _MIRRORED:
            self._check_order(name, sign)
            with at(value.token):
                holds = _beyond(name.attribute, sign, on_level(name.attribute, name.level, value.value))
        else:
            holds = _members(name, [value]) == (sign in ("=", "=="))
        return Condition.of(self.domain, name.position, holds)

    def _between(self, name: _Name) -> Condition:
        low = self._value()
        self._need("and")
        high = self._value()
        self._check_order(name, "between")
        with at(low.token):
            first = on_level(name.attribute, name.level, low.value)
            start = below(name.attribute, ">=", first)
        with at(high.token):
            codes = np.arange(name.attribute.size)
            stop = through(name.attribute, first, on_level(name.attribute, name.level, high.value), start)
        return Condition.of(self.domain, name.position, (codes >= start) & (codes < stop))

    def _in(self, name: _Name) -> Condition:
        self._need("(")
        values = [self._value()]
        while self._take(","):
            values.append(self._value())
        if not self._take(")"):
            raise self._expected("',' or ')'")
        return Condition.of(self.domain, name.position, _members(name, values))

    def _under(self, name: _Name) -> Condition:
        self.here += 1
        node, values = self._value(), name.attribute.values
        if not isinstance(values, Hierarchy):
            raise error_at(name.token, f"{name.attribute.name!r} has no hierarchy, so under means nothing; use = or in")
        with at(node.token):
            start, stop = values.under(node.value)
        codes = np.arange(name.attribute.size)
        return Condition.of(self.domain, name.position, (codes >= start) & (codes < stop))

    def _check_order(self, name: _Name, sign: str) -> None:
        if not name.attribute.comparable:
            raise error_at(name.token, f"{name.attribute.name!r} has no order, so {sign} means nothing; use = or in")


def _beyond(attribute: Attribute, sign: str, value: Scalar) -> npt.NDArray[np.bool_]:
    """Which codes lie on one side of a value; an unknown one lies on none."""
    codes, cut = np.arange(attribute.size), below(attribute, sign, value)
    return codes < cut if sign in ("<", "<=") else (codes >= cut) & (codes < attribute.known)


def _members(name: _Name, values: Sequence[_Value]) -> npt.NDArray[np.bool_]:
    holds = np.zeros(name.attribute.size, dtype=np.bool_)
    for value, token in values:
        with at(token):
            holds[codes_of(name.attribute, value, name.level)] = True
    return holds
