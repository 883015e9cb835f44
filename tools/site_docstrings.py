"""Griffe extension: examples in docstrings become code blocks."""

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^>>> .*?(?=\n\s*\n|\Z)", re.DOTALL | re.MULTILINE)


class Examples(griffe.Extension):
    """Fences the doctests, which Markdown would take for quotations."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite one docstring."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    r"""A docstring with its examples in fences.

    >>> fenced("One.\n\n>>> 1 + 1\n2\n\nTwo.")
    'One.\n\n```pycon\n>>> 1 + 1\n2\n```\n\nTwo.'
    """
    return EXAMPLE.sub(lambda example: f"```pycon\n{example[0].rstrip()}\n```", text)
