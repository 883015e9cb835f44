"""YAML text as plain data that remembers its lines."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import yaml

from leastnoise.errors import LeastnoiseError
from leastnoise.workload.fields import Written, shown

Path = tuple[str | int, ...]  # keys and positions from the root down to a part of the document
_TAGS = {f"tag:yaml.org,2002:{kind}" for kind in "null bool int float str timestamp merge value map seq".split()}
_NULLS = {"", "~", "null", "Null", "NULL"}
_MERGE = "tag:yaml.org,2002:merge"
MOST_CHARACTERS = 1_000_000  # of a file
MOST_ENTRIES = 50_000  # keys, scalars, lists and mappings, where each alias counts as what it stands for
MOST_LEVELS = 100  # of lists and mappings within each other


@dataclass(frozen=True)
class Document:
    """A YAML file as dicts, lists, `Written` scalars and None, with the line of every part.

    >>> document = Document.parse("age:\\n  size: 10\\n", "a.yaml")
    >>> document.data, document.line(("age", "size"))
    ({'age': {'size': '10'}}, 2)
    """

    name: str
    root: yaml.Node
    data: Any

    @classmethod
    def parse(cls, text: str, name: str) -> "Document":
        """Read YAML; syntax errors, repeated keys, foreign tags and what is too large are reported with their line.

        Guarantees: refusals_are_short_in_every_way; long_files_are_not_read_to_their_end.
        """
        if len(text) > MOST_CHARACTERS:
            raise LeastnoiseError(
                f"{name} has more than {MOST_CHARACTERS:,} characters; put long lists into files and name these"
            )
        root = _compose(text, name)
        if not isinstance(root, yaml.MappingNode):
            raise LeastnoiseError(f"{name} line {_line(root)}: not a mapping; begin with attributes:")
        try:
            return cls(name, root, _Plain(name).data(root))
        except RecursionError:
            raise LeastnoiseError(f"{name}: nested too deeply, or within itself; write it out flat") from None

    def line(self, path: Path) -> int:
        """The line of a part; of what holds it where the path leads nowhere."""
        node, line = self.root, _line(self.root)
        for step in path:
            if isinstance(node, yaml.MappingNode):
                for key, value in node.value:
                    if key.value == step:
                        node, line = value, _line(key)
            elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
                node = node.value[step]
                line = _line(node)
        return line

    def error(self, path: Path, message: object) -> LeastnoiseError:
        """An error that names the file and the line."""
        return LeastnoiseError(f"{self.name} line {self.line(path)}: {message}")

    @contextmanager
    def at(self, *path: str | int) -> Iterator[None]:
        """Put the line of a part before every error raised inside."""
        try:
            yield
        except LeastnoiseError as error:
            raise self.error(path, error) from None


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _compose(text: str, name: str) -> yaml.Node:
    try:
        root: yaml.Node | None = yaml.compose(text, Loader=_loader(name))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise LeastnoiseError(f"{name} line {mark.line + 1 if mark else 1}: {_syntax(error)}") from None
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise LeastnoiseError(f"{name} line {line}: the character {chr(error.character)!r} is not allowed") from None
    if root is None:
        raise LeastnoiseError(f"{name} is empty; begin with attributes:")
    return root


def _loader(name: str) -> type[yaml.SafeLoader]:
    """A loader that stops where a file has too many entries or levels, before they take time and memory."""

    class Bounded(yaml.SafeLoader):
        entries = levels = 0

        def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
            self.entries += 1
            self.levels += 1
            line = self.peek_event().start_mark.line + 1  # type: ignore[no-untyped-call]
            if self.entries > MOST_ENTRIES:
                raise LeastnoiseError(_too_many(name, line))
            if self.levels > MOST_LEVELS:
                raise LeastnoiseError(f"{name} line {line}: more than {MOST_LEVELS} levels; write it out flat")
            node: yaml.Node | None = super().compose_node(parent, index)
            self.levels -= 1
            return node

    return Bounded


def _too_many(name: str, line: int) -> str:
    return (
        f"{name} line {line}: more than {MOST_ENTRIES:,} entries, aliases written out; "
        "put long lists into files and name these"
    )


def _syntax(error: yaml.MarkedYAMLError) -> str:
    problem = " ".join(str(error.problem).split())
    if "'\\t'" in problem:
        return "a tab in the indentation; use spaces"
    if "another document" in problem:
        return "a second document begins here; keep one per file"
    return f"not valid YAML: {problem}"


class _Plain:
    """Nodes to plain data; shared nodes (aliases) are converted once, but count each time."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.done: dict[int, Any] = {}
        self.entries: dict[int, int] = {}  # of a node with all that is inside, aliases written out

    def data(self, node: yaml.Node) -> Any:
        if id(node) not in self.done:
            self.done[id(node)] = self._convert(node)
            self.entries[id(node)] = 1 + sum(self.entries[id(inside)] for inside in _inside(node))
            if self.entries[id(node)] > MOST_ENTRIES:
                raise LeastnoiseError(_too_many(self.name, _line(node)))
        return self.done[id(node)]

    def _convert(self, node: yaml.Node) -> Any:
        if node.tag not in _TAGS:
            raise self._error(node, f"the tag {shown(node.tag)} means nothing here; remove it")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node)
        if isinstance(node, yaml.SequenceNode):
            return [self.data(item) for item in node.value]
        quoted = getattr(node, "style", None) is not None
        return None if node.value in _NULLS and not quoted else Written(node.value, quoted)

    def _mapping(self, node: yaml.MappingNode) -> Mapping[str, Any]:
        lines: dict[str, int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._error(key, "a key must be a word, not a list or a mapping")
            if key.tag == _MERGE:
                raise self._error(key, "merge keys (<<) are not read; write the keys out, or quote '<<' as a name")
            if key.value in lines:
                first = lines[key.value]
                raise self._error(key, f"{shown(key.value)} is given twice, first on line {first}; keep one")
            lines[key.value] = _line(key)
        return {Written(key.value, key.style is not None): self.data(value) for key, value in node.value}

    def _error(self, node: yaml.Node, message: str) -> LeastnoiseError:
        return LeastnoiseError(f"{self.name} line {_line(node)}: {message}")


def _inside(node: yaml.Node) -> Iterator[yaml.Node]:
    """The values of a mapping, the items of a list."""
    if isinstance(node, yaml.MappingNode):
        yield from (value for _, value in node.value)
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value
