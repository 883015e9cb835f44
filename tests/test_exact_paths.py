"""Whatever stands between counts and publication: integers only, and no sum too large, for every kind of release."""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.mechanisms import side_counts as side
from leastnoise.mechanisms.adaptive import select, survey
from leastnoise.mechanisms.discover.plan import DiscoverPlan
from leastnoise.mechanisms.discover.release import found_keys
from leastnoise.mechanisms.matrix.plan import MatrixPlan
from leastnoise.mechanisms.stream.stream import Stream
from leastnoise.mechanisms.tree import Tree, TreePlan, tree_plan
from leastnoise.mechanisms.tree import integer as cascade_integer
from leastnoise.mechanisms.tree.integer import integer_noise
from leastnoise.noise import SeededRandomSource, rounded_gaussian
from leastnoise.sources import Codes, Marginals, Table, codes, source
from leastnoise.sources import side_counts as source_side
from leastnoise.sources.keys import KeySource
from leastnoise.strategies.circulant import LISTED, Circulant
from leastnoise.strategies.contrasts import Contrasts
from leastnoise.strategies.integer import Centring, IntegerStrategy, Rows
from leastnoise.strategies.system import Measured
from leastnoise.strategies.toeplitz import Toeplitz
from tests.integers import OnlyIntegers, whole
from tests.test_layers import MODULES, parsed

MOST = 2**62 - 1  # rows that sources take

convolution, exact, gate, measure = (
    import_module(f"leastnoise.{name}")
    for name in ("strategies.convolution", "algebra.exact", "mechanisms.gate", "mechanisms.measurement")
)

# All code that touches counts, or integers with noise before they are published. Functions, or all of a module.
WATCHED = [
    *[gate, measure, exact, convolution],
    *[Centring.apply, Rows.apply, IntegerStrategy.apply, Contrasts.apply, Circulant.apply],
    *[Toeplitz.apply, Toeplitz.row, Toeplitz.row_answer, Measured.apply, Measured.row, Measured.row_answer],
    *[MatrixPlan.measure, Stream.add, Stream._exact, Stream._noise],
    *[TreePlan.measure, cascade_integer.integer_noise, cascade_integer.assemble],
    *[cascade_integer._answer_kinds, cascade_integer._blocks, cascade_integer._runs, cascade_integer._per_axis],
    *[cascade_integer._tree_leaves],
    *[cascade_integer._integer_children, cascade_integer._halves, cascade_integer._shares, cascade_integer._below],
    *[select.Selection.choose, select.Distances.refresh, select.distance, select.difference, select.draw],
    *[select._decide, select._weights, select._product, select._exponential],
    *[survey.Gauge.distance, survey._distances],
    *[side.measured, side.WithSideCounts.measure, side.WithSideCounts._exact, source_side],
    *[Codes.side_counts, codes._Values.side_counts],
    *[found_keys, DiscoverPlan.measure, KeySource],
    *[Table.count, Marginals.count, source.project, Codes._stream, Codes._table, Codes._cells],
]
# Read the counts of made-up data, or draw them: none is published.
ELSEWHERE = {
    "leastnoise.audit.tables",
    "leastnoise.audit.matrix",
    "leastnoise.audit.tree",
    "leastnoise.cli.commands.demo",
    "leastnoise.mechanisms.adaptive.select.Choice.compared",  # audits
    "leastnoise.mechanisms.adaptive.survey.Taken.compared",
}
FLOATS = set(
    "float float16 float32 float64 longdouble double half complex complex64 complex128 true_divide divide mean average "
    "median std var sqrt exp log log1p log2 rint fft rfft irfft ifft fftconvolve linalg einsum".split()
)


def label(item) -> str:
    return item.__name__ if isinstance(item, ModuleType) else f"{item.__module__}.{item.__qualname__}"


def floats_in(text: str) -> Iterator[str]:
    """Divisions, float constants and names of floats in what is executed; annotations and defaults are not."""
    for function in ast.walk(ast.parse(textwrap.dedent(text))):
        if not isinstance(function, ast.FunctionDef):
            continue
        for statement in function.body:
            hints = {id(n) for a in ast.walk(statement) for n in _hints(a)}
            for node in (n for n in ast.walk(statement) if id(n) not in hints):
                if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div):
                    yield "/"
                if isinstance(node, ast.Constant) and isinstance(node.value, float | complex):
                    yield repr(node.value)
                yield from FLOATS & {getattr(node, "id", ""), getattr(node, "attr", "")}


def _hints(node: ast.AST) -> Iterator[ast.AST]:
    given = [getattr(node, "annotation", None), getattr(node, "returns", None)]
    for hint in filter(None, given):
        yield from ast.walk(hint)


def test_the_source_text_has_no_division_and_no_float():
    floats = {label(item): list(floats_in(inspect.getsource(item))) for item in WATCHED}
    assert not {name: seen for name, seen in floats.items() if seen}


@pytest.mark.parametrize(
    ("line", "result"),
    [
        ("return x / 2", ["/"]),
        ("x /= 2", ["/"]),
        ("return x * 0.5", ["0.5"]),
        ("return x.astype(float)", ["float"]),
        ("return np.fft.rfft(x)", ["rfft", "fft"]),
        ("return x // 2", []),
        ("y: float = x", []),
    ],
)
def test_floats_are_seen(line, result):
    assert list(floats_in(f"def f(x: float) -> float:\n    {line}")) == result


@pytest.mark.long
def test_everything_that_reads_counts_is_watched():
    """A function that asks the gate for tables is in the list, or what it does with them is not published."""
    watched = {label(item) for item in WATCHED}
    for module, path in MODULES.items():
        for name in functions_that_read(parsed(path)):
            assert {module, f"{module}.{name}"} & (watched | ELSEWHERE), f"{module}.{name}"


def functions_that_read(tree: ast.Module) -> Iterator[str]:
    """Functions and methods that call `.tables(...)` or `.keys(...)` of counts."""
    classes = [(f"{c.name}.", c.body) for c in tree.body if isinstance(c, ast.ClassDef)]
    for prefix, body in [("", tree.body), *classes]:
        for f in body:
            calls = (n.func for n in ast.walk(f) if isinstance(f, ast.FunctionDef) and isinstance(n, ast.Call))
            if any(
                isinstance(c, ast.Attribute) and c.attr in ("tables", "keys") and "ount" in ast.unparse(c.value)
                for c in calls
            ):
                yield prefix + f.name


def test_readers_of_counts_are_seen():
    code = (
        "class A:\n    def f(self):\n        return self._counts.tables([()])\ndef g(counts):\n    return counts.total"
    )
    assert list(functions_that_read(ast.parse(code))) == ["A.f"]
    assert any(functions_that_read(parsed(path)) for path in MODULES.values())


SYSTEMS = {
    "any matrix": Measured.rounded(np.tri(3), np.eye(3)),
    "short totals": Toeplitz(np.array([5, 2, 2])),
    "weighted totals": Toeplitz(np.array([5, 2, 2]), np.array([2, 3, 7])),
    "contrasts": Contrasts(Tree.binary(2), np.array([3, 2, 2, 0, 0, 0, 0])),
    "cycle": Circulant(np.array([3, -1, -4, 2])),
    "long cycle": Circulant(np.array([2**29, -(2**29), *[0] * LISTED])),
}


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("most", [50, MOST // 4])
def test_systems_use_integers_only(name, most, rng):
    system = SYSTEMS[name]
    if isinstance(system, Contrasts | Circulant):
        counts = rng.integers(0, max(4 * most // system.shape[0], 2), system.shape)
        strategy = IntegerStrategy((system,))
        result = strategy.apply(counts.view(OnlyIntegers)[None], sum(counts.tolist()))[0]
        rows = system.matrix()
    else:
        counts = rng.integers(0, most, 3)
        result = system.apply(counts.view(OnlyIntegers))
        rows = [[*system.row(t), *[0] * (2 - t)] for t in range(3)]
    assert np.asarray(result).tolist() == (whole(rows) @ whole(counts)).tolist()


def test_distances_use_integers_only(rng):
    for rows in (30, 2**58):
        counts = rng.integers(0, rows, 6)
        difference = select.difference(counts.view(OnlyIntegers), select.rounded(rng.normal(size=6) * rows))
        assert np.asarray(difference).dtype == (np.int64 if rows == 30 else object)


# --- as many rows as sources take -------------------------------------------------------------------------------------


def huge(cells: int) -> np.ndarray:
    """Counts that add up to the most there can be, nearly all in one cell."""
    counts = np.arange(cells, dtype=np.int64)
    counts[cells // 2] += MOST - counts.sum()
    return counts


def test_sources_take_no_more():
    assert Table(ln.Domain.of(a=2), np.array([MOST, 0])) is not None
    with pytest.raises(ln.LeastnoiseError, match="2\\*\\*62 rows or more"):
        Table(ln.Domain.of(a=2), np.array([MOST, 1]))


@pytest.mark.parametrize("items", [5, 1_500])  # any matrix, and long running totals
def test_huge_counts_in_matrices(items):
    plan = ln.matrix_plan(ln.running_totals(items), ln.Budget(mu=1))
    counts, system = huge(items), plan.system
    measured = plan.run(counts, random_source=SeededRandomSource(1)).measured
    noise = rounded_gaussian(SeededRandomSource(1), plan.variance, items).tolist()
    for t in (0, items // 2 - 1, items // 2, items - 1):
        exact_answer = sum(a * x for a, x in zip(system.row(t).tolist(), counts.tolist(), strict=False))
        assert measured[t] == exact_answer + noise[t]
    assert measured.dtype == object


def test_huge_counts_in_streams():
    plan = ln.matrix_plan(ln.running_totals(4), ln.Budget(mu=1))
    stream = ln.mechanisms.Stream(plan, random_source=SeededRandomSource(1))
    counts = [MOST, MOST, 0, MOST]  # they come one by one, and together are more
    for t, count in enumerate(counts):
        stream.add(count)
        assert stream._exact(t, count) == sum(a * x for a, x in zip(plan.system.row(t).tolist(), counts, strict=False))


@pytest.mark.parametrize("mu", [1e-4, 1, 100])
def test_huge_counts_in_cascades(mu):
    tree = Tree.regular([3, 4])
    plan = tree_plan(tree, budget=ln.Budget(mu=mu))
    counts = huge(12)
    leaves = plan.run(counts, random_source=SeededRandomSource(1)).leaves
    noise = integer_noise(SeededRandomSource(1), *plan.noise_cascades)
    assert leaves.tolist() == [x + e for x, e in zip(counts.tolist(), noise.tolist(), strict=True)]


@pytest.mark.parametrize("method", ["survey", "aim"])
def test_huge_counts_in_adaptive_releases(method):
    domain = ln.Domain.of(a=3, b=2, c=4)
    counts = huge(24).reshape(3, 2, 4)
    plan = ln.adaptive_plan(ln.Workload(domain).marginals(ways=2), ln.Budget(mu=1), select=method)
    release = plan.run(Table(domain, counts), random_source=SeededRandomSource(1))
    assert float(release.table("a")["count"].sum()) == pytest.approx(MOST, rel=1e-12)
