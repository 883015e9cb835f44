"""Measures of the source: functions are short, all of them have types, and users see types that say something."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median, quantiles

import pytest

from tests.test_layers import FILES, SOURCE, parsed

MEDIAN, TENTH = 8, 25  # lines of code of a function: at most, for half of them and for nine of ten
TYPED = 0.98  # share of functions with a type for every argument and result

# Where no type exists. Arguments by their names, results by the names of their functions.
NO_TYPE = {
    "data": "whatever a source is made of: frames and arrays of several libraries, files, connections",
    "plot, session": "objects of libraries that are extras",
    "parent, extra, make_context": "Click's own arguments, which have no public types",
    "options": "the keywords of another function, which are checked there",
    "totals, std_errors, variances, intervals, covariance, variance, rounding, interval": (
        "a number for one box, an array for many: NumPy has no type for that"
    ),
    "given_values, values, parents": "values of users, which may be of any type",
}
ALLOWED = {name.strip() for names in NO_TYPE for name in names.split(",")}


@dataclass(frozen=True)
class Function:
    """A function of the source, and whether users may call it."""

    place: str
    node: ast.FunctionDef
    public: bool
    lines: int

    @property
    def hints(self) -> Iterator[tuple[str, ast.expr | None]]:
        """Names and types of the arguments, then of the result under the name of the function."""
        a = self.node.args
        for argument in [*a.posonlyargs, *a.args, a.vararg, *a.kwonlyargs, a.kwarg]:
            if argument is not None and argument.arg not in ("self", "cls"):
                yield argument.arg, argument.annotation
        yield self.node.name, self.node.returns


def code_lines(node: ast.FunctionDef, text: list[str]) -> int:
    """Lines of the body without its docstring, comments and blank lines."""
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    lines = text[body[0].lineno - 1 : node.end_lineno] if body else []
    return sum(not line.strip().startswith("#") for line in lines if line.strip())


def functions_in(path: Path) -> Iterator[Function]:
    text = path.read_text().splitlines()

    def below(node: ast.AST, name: str, public: bool) -> Iterator[Function]:
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.FunctionDef | ast.ClassDef):
                yield from below(child, name, public)
                continue
            inner, method = f"{name}.{child.name}", isinstance(node, ast.ClassDef)
            seen = public and not child.name.startswith("_")
            if isinstance(child, ast.FunctionDef):
                yield Function(inner, child, seen and (method or child.name in exported()), code_lines(child, text))
            yield from below(child, inner, seen and isinstance(child, ast.ClassDef))

    yield from below(parsed(path), path.relative_to(SOURCE).as_posix(), public=True)


@cache
def exported() -> frozenset[str]:
    """Names that a package lists for users."""
    texts = (parsed(path) for path in FILES if path.name == "__init__.py")
    assigned = (s for tree in texts for s in tree.body if isinstance(s, ast.Assign))
    lists = (s.value for s in assigned if ast.unparse(s.targets[0]) == "__all__")
    return frozenset(c.value for value in lists for c in ast.walk(value) if isinstance(c, ast.Constant))


@cache
def functions() -> tuple[Function, ...]:
    return tuple(function for path in FILES for function in functions_in(path))


def says_nothing(hint: ast.AST) -> bool:
    """Whether a type is, or is made of, Any; values of mappings (JSON) and entries of arrays may be of any type."""
    match hint:
        case ast.Name(id=name):
            return name == "Any"
        case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name), slice=inner):
            return name not in ("dict", "Mapping", "NDArray", "integer") and says_nothing(inner)
    return any(says_nothing(child) for child in ast.iter_child_nodes(hint))


@pytest.mark.long
def test_functions_are_short():
    lines = [function.lines for function in functions()]
    assert len(lines) > 1_000  # they are found
    assert median(lines) <= MEDIAN
    assert quantiles(lines, n=10)[-1] <= TENTH


def test_functions_are_typed():
    untyped = [f.place for f in functions() if not all(hint is not None for _, hint in f.hints)]
    assert len(untyped) <= (1 - TYPED) * len(functions()), untyped


@pytest.mark.long
def test_users_see_types():
    """No `Any` in what users call, but where no type exists (see `NO_TYPE`)."""
    hints = [(f.place, name, hint) for f in functions() if f.public for name, hint in f.hints if hint is not None]
    loose = [(place, name) for place, name, hint in hints if says_nothing(hint)]
    assert not [f"{place}: {name}" for place, name in loose if name not in ALLOWED]


@pytest.mark.parametrize(
    ("hint", "loose"),
    [
        ("Any", True),
        ("int | Any", True),
        ("tuple[Any, int]", True),
        ("Callable[[Any], int]", True),
        ("dict[str, Any]", False),
        ("npt.NDArray[Any] | None", False),
        ("Sequence[Mapping[str, Any]]", False),
        ("int", False),
    ],
)
def test_any_is_seen(hint, loose):
    assert says_nothing(ast.parse(hint, mode="eval").body) == loose
