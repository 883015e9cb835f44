"""All refusals that the package can raise, as they stand in its source, and the words that tests hold them by."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import leastnoise
from leastnoise.errors import LeastnoiseError

ROOT = Path(leastnoise.__file__).parent
TESTS = Path(__file__).parent
RUN = 12  # letters of a run of words by which a message is known


@dataclass(frozen=True)
class Refusal:
    """A place where an error is made, and its texts, with X for whatever they are filled with."""

    file: str
    line: int
    texts: tuple[str, ...]

    @property
    def runs(self) -> set[str]:
        return {run for text in self.texts for part in text.split("X") for run in runs(part)}

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {' / '.join(self.texts)}"


def runs(text: str, least: int = RUN) -> set[str]:
    """The shortest runs of words of this length, from each word on; signs between words do not matter.

    >>> sorted(runs("only bins with edges have labels"))
    ['bins with edges', 'edges have labels', 'only bins with', 'with edges have']
    """
    words, result = re.findall(r"\w+", text), set()
    for first in range(len(words)):
        run = ""
        for word in words[first : first + least]:
            run = f"{run} {word}" if run else word
            if len(run) >= least:
                result.add(run)
                break
    return result


def texts_in(node: ast.AST) -> Iterator[str]:
    """Texts that stand in a piece of source."""
    if isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        fields = [part for part in node.values if not isinstance(part, ast.Constant)]
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
        return
    else:
        fields = list(ast.iter_child_nodes(node))
    for child in fields:
        yield from texts_in(child)


class Module:
    """The source of one file: what functions return, and what names stand for."""

    def __init__(self, file: Path) -> None:
        self.name = file.relative_to(ROOT).as_posix()
        self.tree = ast.parse(file.read_text())
        self.functions: dict[str, list[str]] = defaultdict(list)
        self.names: dict[str, list[str]] = defaultdict(list)
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef):
                body = node.body[ast.get_docstring(node) is not None :]
                self.functions[node.name] += [text for line in body for text in texts_in(line)]
                places = [*node.args.posonlyargs, *node.args.args]
                given = places[len(places) - len(node.args.defaults) :]
                for argument, default in zip(given, node.args.defaults, strict=True):
                    self.names[argument.arg] += texts_in(default)
            elif isinstance(node, ast.Assign):
                for name in [n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name)]:
                    self.names[name] += texts_in(node.value)

    def refusals(self, errors: set[str]) -> Iterator[Refusal]:
        for call in ast.walk(self.tree):
            if isinstance(call, ast.Call) and called(call) in errors:
                yield Refusal(self.name, call.lineno, tuple(dict.fromkeys(self._texts(call))))

    def _texts(self, call: ast.Call) -> Iterator[str]:
        """Of the error itself, of functions of this file that write it, and of names it is filled with."""
        yield from texts_in(call)
        for node in ast.walk(call):
            if isinstance(node, ast.Call) and node is not call:
                yield from self.functions.get(called(node), ())
            elif isinstance(node, ast.Name):
                yield from self.names.get(node.id, ())


def called(call: ast.Call) -> str:
    return str(getattr(call.func, "id", getattr(call.func, "attr", "")))


def errors_in(modules: list[Module]) -> set[str]:
    """Names of all kinds of errors, as the source declares them: which modules are loaded does not matter."""
    kinds = [node for module in modules for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)]
    found, before = {LeastnoiseError.__name__}, 0
    while len(found) > before:
        before = len(found)
        found |= {kind.name for kind in kinds if found & {ast.unparse(base) for base in kind.bases}}
    return found


def all_refusals() -> list[Refusal]:
    """Every place in the package where an error for users is made."""
    modules = [Module(file) for file in sorted(ROOT.rglob("*.py"))]
    errors = errors_in(modules)
    return [refusal for module in modules for refusal in module.refusals(errors)]


def runs_of_tests(but: str) -> set[str]:
    """Runs of words in all tests but one, in examples of docstrings and on pages, all of which run."""
    tests = [file.read_text() for file in TESTS.rglob("*.py") if file != Path(but)]
    docstrings = [text for file in ROOT.rglob("*.py") for text in re.findall('"""(.*?)"""', file.read_text(), re.S)]
    pages = [page.read_text() for page in [*(TESTS.parent / "docs").rglob("*.md"), TESTS.parent / "README.md"]]
    return set().union(*map(runs, [*tests, *(text for text in docstrings if ">>>" in text), *pages]))


def untested(refusals: list[Refusal], tested: set[str]) -> list[Refusal]:
    """Those of which no run of words that is theirs alone occurs in a test."""
    texts_of: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for refusal in refusals:
        for run in refusal.runs:
            texts_of[run].add(refusal.texts)
    result = []
    for refusal in refusals:
        own = {run for run in refusal.runs if len(texts_of[run]) == 1} or refusal.runs
        if refusal.runs and not own & tested:
            result.append(refusal)
    return result
