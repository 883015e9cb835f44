"""Questions about statistics: the language of conditions, and functions of them.

    question  := part { sign part }
    part      := side [where condition]
    side      := a query of the language of conditions, in which count and sum may stand
               | statistic | "(" question ")"
    statistic := mean(name) | median(name) | quantile(name, number) | share(condition) | percent(condition)
               | ratio(query, query) | difference(question, question) | top(number, name {, name})
               | variance(name) | covariance(name, name) | correlation(name, name) | regression(name, name {, name})
    count     := count() | count(*) | count(condition)
    sum       := sum(name { * name })

`where` holds for the part before it, as in mean(a) where b - mean(a) where c. After several parts, if the one before
has none, it is refused, as it may mean the last or all of them: a - b where c. avg and average are words for mean, too.
A function is a word before a parenthesis, so attributes may have the same names. docs/ask.md has examples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import partial
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from leastnoise.domain.amounts import SQUARED
from leastnoise.domain.attributes import UNKNOWN, Bins, Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.release.queries.breakdown import Slice, breakdown
from leastnoise.release.queries.language import COMPARE, Parsed, Parser, query_of
from leastnoise.release.queries.linear import Condition, EmptyGroupError, LinearQuery, Term, joined
from leastnoise.release.queries.tokens import Token, at, error_at, number_of
from leastnoise.release.statistics.differences import Count, Difference, Reading
from leastnoise.release.statistics.groups import numbers_of
from leastnoise.release.statistics.moments import Correlation, Covariance, Regression
from leastnoise.release.statistics.statistics import mean_of, quantile_in, share_of
from leastnoise.release.statistics.top import Top

Several: TypeAlias = Top | Regression  # answers with several rows
Question: TypeAlias = Callable[[Condition], Reading | Several]  # for the rows that satisfy a condition

AMBIGUOUS = "where may mean the last part or all of them; write (a - b) where c, or a - (b where c)"
MIDPOINTS = "bins count as their midpoints"
SIMILAR = 0.7  # of a word to the name of a function, as percentage to percent (0.82)
EXAMPLES = "mean(age), percent(age < 35) or top(3, region)"
LINEAR = ("count", "sum")
OTHERS = (
    *("mean", "avg", "average", "median", "quantile", "share", "percent", "ratio", "difference", "top"),
    *("variance", "covariance", "correlation", "regression"),
)


def read_question(domain: Domain, text: str) -> Question:
    """What a text asks for, as a function of the rows that are looked at.

    >>> domain = Domain.of(age=range(100), sex=["F", "M"])
    >>> mean = read_question(domain, "mean(age) where sex = 'F'")
    >>> mean(Condition(domain)).queries
    (<LinearQuery: age x sex, cells: 200>, <LinearQuery: sex, cells: 2>)

    Guarantees: questions_are_those_of_python; fails_only_with_a_message_in_one_line.
    """
    return _Questions(domain, text).whole()


def is_plain(text: str) -> bool:
    """Whether a text has no function and no `where`, so that it may be in a language of its own kind of release."""
    words = Parser(Domain(()), text).tokens
    calls = any(a.kind == "word" and (b.text == "(" or _meant(a, b)) for a, b in pairwise(words))
    return not calls and not any(_is_where(word) for word in words)


def _meant(word: Token, after: Token) -> str | None:
    """The function that a word without parentheses reads like, as in median age or top 3 region."""
    if after.kind not in ("word", "number"):
        return None
    return next(iter(get_close_matches(word.text.lower(), [*LINEAR, *OTHERS], 1, SIMILAR)), None)


def restricted(query: LinearQuery, condition: Condition) -> LinearQuery:
    """The same query, of the rows that satisfy a condition."""
    if not condition.factors:
        return query
    attributes, cells = condition.cells()
    parts = [joined(query.domain, [(t.attributes, t.weights), (attributes, cells.astype(float))]) for t in query.terms]
    return LinearQuery(query.domain, tuple(Term(*part) for part in parts))


def linear_query(domain: Domain, query: object) -> LinearQuery:
    """A linear query over a domain: as it is, or from a text in which counts and sums may stand."""
    if not isinstance(query, str) or is_plain(query):
        return query_of(domain, query)
    reading = read_question(domain, query)(Condition(domain))
    if not isinstance(reading, Count):
        raise LeastnoiseError(f"{query!r} is no count or sum, which this needs; ask_all() answers statistics")
    return reading.query


def counted(query: LinearQuery, note: str = "") -> Question:
    """A linear query as a question."""
    return lambda condition: Count(restricted(query, condition), note)


def summed(domain: Domain, names: Sequence[str], condition: Condition) -> Count:
    """The sum of a numeric attribute, or of the product of several amounts, over the rows that satisfy a condition."""
    if not names:
        raise LeastnoiseError("a sum needs an amount; name it, as in sum('income')")
    if twice := [name for k, name in enumerate(names) if name in names[:k]]:
        raise LeastnoiseError(
            f"the sum has {twice[0]!r} twice; squares are in {twice[0] + SQUARED!r}, where they are declared"
        )
    if len(names) > 1 and (counted_by := [name for name in names if domain[name].amount is None]):
        raise LeastnoiseError(f"{counted_by[0]!r} is no amount; products are of amounts")
    notes, parts = [], []
    for name in names:
        attribute = domain[name]
        numbers, note = numbers_of(attribute)
        notes.append(MIDPOINTS if isinstance(attribute.values.base, Bins) else note)
        unknown = np.zeros(attribute.size - len(numbers))
        parts.append(((domain.index(name),), np.append(numbers, unknown)))
    attributes, cells = condition.cells()
    term = Term(*joined(domain, [(attributes, cells.astype(float)), *parts]))
    return Count(LinearQuery(domain, (term,)), "; ".join(dict.fromkeys(filter(None, notes))))


def _is_where(token: Token) -> bool:
    return token.kind == "word" and token.text.lower() == "where"


class _Questions(Parser):
    """The language of conditions, with functions."""

    def __init__(self, domain: Domain, text: str) -> None:
        super().__init__(domain, text)
        self.notes: dict[str, None] = {}

    def whole(self) -> Question:
        if self._ahead().kind == "end":
            return counted(LinearQuery.total(self.domain))
        result = self._question()
        if self._ahead().kind != "end":
            raise self._expected("+, -, where or the end")
        return result

    def _question(self) -> Question:
        """Parts with signs in between."""
        start = self._ahead()
        question, linear, own = self._part(True, self._query)
        while sign := self._take("+", "-"):
            second, both, own = self._part(own, self._term)  # one term, as a - b - c is (a - b) - c
            linear = linear and both
            question = self._joined(question, second, sign, linear)
        with at(start):
            question(Condition(self.domain))  # refuses what no group can answer
        return question

    def _part(self, single: bool, query: Callable[[], Parsed]) -> tuple[Question, bool, bool]:
        """A side, and of which rows; whether it is a count or a sum, and whether it says of which rows.

        A `where` is that of the part alone if there is none before it, or if the one before it has its own.
        """
        begin = self.here
        question, linear = self._side(query)
        if not _is_where(self._ahead()):
            return question, linear, False
        if not single or self._added_since(begin):
            raise error_at(self._ahead(), AMBIGUOUS)
        condition = self._where()
        return (question if condition is None else _where(question, condition)), linear, True

    def _added_since(self, begin: int) -> bool:
        """Whether a sign stands between two parts, outside of parentheses."""
        depth, before = 0, "("
        for token in self.tokens[begin : self.here]:
            if depth == 0 and token.text in ("+", "-") and before not in ("(", *COMPARE, "and", "between", "not", "or"):
                return True
            depth += {"(": 1, ")": -1}.get(token.text, 0) if token.kind == "sign" else 0
            before = token.text
        return False

    def _joined(self, one: Question, other: Question, sign: Token, linear: bool) -> Question:
        if sign.text == "+" and not linear:
            raise error_at(
                sign, "only counts and sums are added; statistics can be subtracted, as in mean(a) - mean(b)"
            )
        return _added(one, other) if sign.text == "+" else _less(one, other)

    def _side(self, query: Callable[[], Parsed]) -> tuple[Question, bool]:
        token = self._ahead()
        if self._called(OTHERS):
            self._deeper(token)
            question = self._statistic()
            self.depth -= 1
            return question, False
        if token.text == "(" and self._holds_a_statistic():
            self._deeper(token)
            self._need("(")
            question = self._question()
            self._need(")")
            self.depth -= 1
            return question, False
        if self._ahead(1).kind == "end" and self._take("*"):
            return counted(LinearQuery.total(self.domain)), True
        return counted(self._linear(query(), token), "; ".join(self.notes)), True

    def _holds_a_statistic(self) -> bool:
        """Whether one of the functions stands before the parenthesis that is open here closes."""
        depth, step = 0, 0
        while (token := self._ahead(step)).kind != "end":
            depth += {"(": 1, ")": -1}.get(token.text, 0) if token.kind == "sign" else 0
            if self._is_call(step, OTHERS):
                return True
            if depth == 0:
                return False
            step += 1
        return False

    def _is_call(self, step: int, names: tuple[str, ...]) -> bool:
        token, after = self._ahead(step), self._ahead(step + 1)
        return token.kind == "word" and token.text.lower() in names and after.text == "(" and after.kind == "sign"

    def _called(self, names: tuple[str, ...]) -> bool:
        return self._is_call(0, names)

    def _where(self) -> Condition | None:
        if not _is_where(self._ahead()):
            return None
        operator = self._ahead()
        self.here += 1
        return self._condition(self._any(), operator)

    # --- functions ----------------------------------------------------------------------------------------------------

    def _atom(self) -> Parsed:
        token = self._ahead()
        if self._called(LINEAR):
            self.here += 2
            result = self._count() if token.text.lower() == "count" else self._sum()
            self._need(")")
            return result
        if self._called(OTHERS):
            raise error_at(token, f"{token} is no count, so it stands alone, or on one side of a difference")
        if token.kind == "word" and token.text not in self.domain:
            self._check_function(token, self._ahead(1))
        return super()._atom()

    def _check_function(self, token: Token, after: Token) -> None:
        """Refuse functions that there are not, and words that read like one without its parentheses."""
        if after.text == "(":
            known = ", ".join([*LINEAR, *OTHERS])
            raise error_at(token, f"there is no function {token}; the functions are {known}")
        if meant := _meant(token, after):
            raise error_at(token, f"write {meant}(...); functions have parentheses, as in {EXAMPLES}")

    def _inside(self, token: Token) -> Parsed:
        """A query in parentheses, which may have a `where` of its own."""
        self._deeper(token)
        result = self._query()
        condition = self._where()
        self._need(")")
        self.depth -= 1
        return result if condition is None else restricted(self._linear(result, token), condition)

    def _count(self) -> Parsed:
        if self._ahead().text == ")" or (self._ahead(1).text == ")" and self._take("*")):
            return LinearQuery.total(self.domain)
        token = self._ahead()
        return self._linear(self._any(), token)

    def _sum(self) -> LinearQuery:
        token, names = self._ahead(), [self._name().attribute.name]
        while self._take("*"):
            names.append(self._name().attribute.name)
        with at(token):
            count = summed(self.domain, names, Condition(self.domain))
            self.notes |= {count.note: None} if count.note else {}
            return count.query

    def _statistic(self) -> Question:
        name = self._ahead().text.lower()
        self.here += 2
        question = {
            "median": self._quantile,
            "quantile": self._quantile,
            "share": self._share,
            "percent": self._share,
            "ratio": self._ratio,
            "difference": self._difference,
            "top": self._top,
            "variance": self._spread,
            "covariance": self._spread,
            "correlation": self._spread,
            "regression": self._regression,
        }.get(name, self._mean)(name)
        self._need(")")
        return question

    def _mean(self, function: str) -> Question:
        return partial(mean_of, self.domain, self._name().attribute.name)

    def _quantile(self, function: str) -> Question:
        if function == "quantile" and self._ahead().kind == "number":
            raise error_at(self._ahead(), "the attribute comes first, as in quantile(age, 0.9)")
        name, q = self._name().attribute.name, 0.5
        if function == "quantile":
            self._need(",")
            q = self._number()
        return lambda condition: quantile_in(self.domain, name, q, condition)

    def _amounts(self) -> list[str]:
        """Names with commas in between."""
        names = [self._name().attribute.name]
        while self._take(","):
            names.append(self._name().attribute.name)
        return names

    def _spread(self, function: str) -> Question:
        token, names = self._ahead(), self._amounts()
        needed = 1 if function == "variance" else 2
        if len(names) != needed:
            raise error_at(
                token, f"{function} is of {needed} {'amount' if needed == 1 else 'amounts'}, not {len(names)}"
            )
        kind = Correlation if function == "correlation" else Covariance
        return lambda condition: kind(self.domain, names[0], names[-1], condition)

    def _regression(self, function: str) -> Question:
        outcome, *regressors = self._amounts()
        return lambda condition: Regression(self.domain, outcome, tuple(regressors), condition)

    def _number(self) -> float:
        token = self._ahead()
        if token.kind != "number":
            raise self._expected("a number")
        self.here += 1
        with at(token):
            return number_of(token.text)

    def _share(self, function: str) -> Question:
        token = self._ahead()
        part, scale = self._linear(self._query(), token), 100.0 if function == "percent" else 1.0

        def share(condition: Condition) -> Reading:
            return share_of(restricted(part, condition), condition.linear(), scale=scale)

        return share

    def _ratio(self, function: str) -> Question:
        top = self._argument()
        self._need(",")
        bottom = self._argument()
        return lambda condition: share_of(restricted(top, condition), restricted(bottom, condition))

    def _argument(self) -> LinearQuery:
        """A count or a sum, maybe with a `where` of its own."""
        token = self._ahead()
        query, condition = self._linear(self._query(), token), self._where()
        return query if condition is None else restricted(query, condition)

    def _difference(self, function: str) -> Question:
        one = self._question()
        self._need(",")
        return _less(one, self._question())

    def _top(self, function: str) -> Question:
        token = self._ahead()
        k = self._number()
        if k != int(k):
            raise error_at(token, f"top needs a whole number, not {k:g}")
        names = []
        while self._take(","):
            names.append(self._axis())
        if not names:
            raise self._expected("',' and an attribute")
        slices = [each for each in breakdown(self.domain, names) if _is_known(self.domain, each)]
        return lambda condition: _largest(int(k), slices, condition)

    def _axis(self) -> str:
        """An attribute, maybe with a level behind a dot."""
        name = self._name().attribute.name
        if not self._take("."):
            return name
        level = self._ahead()
        self.here += 1
        return f"{name}.{level.text}"


def _where(question: Question, condition: Condition) -> Question:
    return lambda more: question(Condition.every(condition.domain, [condition, more]))


def _is_known(domain: Domain, group: Slice) -> bool:
    """Whether a group has a known value of every attribute: missing values are no place in a ranking."""
    for name, label in group.labels.items():
        attribute = domain[name if name in domain else name.rpartition(".")[0]]
        if label == UNKNOWN and attribute.known < attribute.size:
            return False
    return True


def _largest(k: int, slices: list[Slice], condition: Condition) -> Top:
    narrowed = (Slice(s.labels, Condition.every(condition.domain, [s.condition, condition])) for s in slices)
    possible = tuple(s for s in narrowed if not s.condition.never)
    if not possible:
        raise EmptyGroupError
    return Top(k, possible)


def _added(one: Question, other: Question) -> Question:
    """The sum of two counts."""

    def total(condition: Condition) -> Reading:
        a, b = one(condition), other(condition)
        assert isinstance(a, Count)  # as nothing else is linear
        assert isinstance(b, Count)
        return Count(a.query + b.query, a.note or b.note)

    return total


def _less(one: Question, other: Question) -> Question:
    """The difference of two questions; of counts it is a count."""

    def difference(condition: Condition) -> Reading:
        a, b = one(condition), other(condition)
        if isinstance(a, Several) or isinstance(b, Several):
            raise LeastnoiseError("several numbers at once have no difference; ask for each side by itself")
        if isinstance(a, Count) and isinstance(b, Count):
            return Count(a.query - b.query, a.note or b.note)
        return Difference(a, b)

    return difference
