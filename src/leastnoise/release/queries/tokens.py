"""Questions cut into words, numbers, names, texts and signs, with their places for messages."""

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple, cast

from leastnoise.errors import LeastnoiseError
from leastnoise.release.queries.linear import KEYWORDS, quoted

# Possessive repeats keep an unclosed quote from being cut into shorter texts.
_TOKEN = re.compile(
    r"""(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
      | (?P<word>[^\W\d]\w*)
      | (?P<name>`(?:[^`]|``)*+`)
      | (?P<text>'(?:[^']|'')*+'|"(?:[^"]|"")*+")
      | (?P<sign><=|>=|<>|!=|==|[-+*=<>(),.])""",
    re.VERBOSE,
)
_SPACE = re.compile(r"\s*")

_Kind = Literal["number", "word", "keyword", "name", "text", "sign", "end"]


class Token(NamedTuple):
    """A piece of a question."""

    kind: _Kind
    text: str  # as written; keywords in small letters
    start: int

    def __str__(self) -> str:
        if self.kind == "end":
            return "the end"
        return repr(self.text if len(self.text) <= 40 else self.text[:37] + "...")


@contextmanager
def at(token: Token) -> Iterator[None]:
    """Says where the mistake is."""
    try:
        yield
    except LeastnoiseError as error:
        raise error_at(token, str(error)) from None


def tokens(text: str) -> list[Token]:
    """All pieces of a question, and its end."""
    results: list[Token] = []
    start = 0
    while (start := _SPACE.match(text, start).end()) < len(text):  # type: ignore[union-attr]  # matches anything
        match = _TOKEN.match(text, start)
        if match is None:
            raise LeastnoiseError(f"position {start + 1}: {_unreadable(text[start])}")
        kind, written = match.lastgroup, match[0]
        if kind == "word" and written.lower() in KEYWORDS:
            kind, written = "keyword", written.lower()
        results.append(Token(cast(_Kind, kind), written, start))
        start = match.end()
    return [*results, Token("end", "", start)]


def _unreadable(character: str) -> str:
    if character in "'\"`":
        return f"the quote {character} is not closed; a quote inside is written twice"
    if character == "/":
        return "'/' has no meaning here; write ratio(a, b)"
    return f"{character!r} has no meaning here; text goes in quotes, odd names in backticks"


def number_of(text: str) -> float:
    """The number that a piece stands for."""
    if re.match("0[0-9]", text):
        raise LeastnoiseError(f"{text} has leading zeros; write {float(text):.15g}, or {quoted(text)} for text")
    if text.isdigit() and len(text) <= 300:
        return int(text)
    if not math.isfinite(number := float(text)):
        raise LeastnoiseError("the number is too large; use one below 1e308")
    return number


def unquoted(text: str) -> str:
    """What stands between quotes or backticks."""
    return text[1:-1].replace(text[0] * 2, text[0])


def error_at(token: Token, message: str) -> LeastnoiseError:
    """A mistake at a piece of the question."""
    return LeastnoiseError(f"position {token.start + 1}: {message}")
