"""Random probes of what links blocks: bounds compared with eigenvalues of the dense matrices."""

import numpy as np
import pytest
from scipy.stats import chi2

from leastnoise.planning import triple_probes
from leastnoise.planning.block_trace import inverted
from leastnoise.planning.design import Question
from leastnoise.planning.objective import Objective, query_weights
from leastnoise.planning.structure import build_structure
from leastnoise.planning.symmetric_trace import SymmetricTrace
from leastnoise.planning.triple_bound import TripleBound
from leastnoise.planning.triple_entries import Entries
from leastnoise.planning.triple_links import Columns, linked_columns
from leastnoise.planning.triple_probes import least_chi_squared, probed
from leastnoise.workload import Workload
from tests.catalogue import ordered


def model_of(*sizes: int, core: int) -> TripleBound:
    structure = build_structure(Workload(ordered(*sizes)).prefix(ways=[1, 2, 3]))
    question = Question(structure, query_weights(structure, Objective(1.0)), structure.stated)
    return TripleBound(question, [np.full(c.size, c.size**-0.5) for c in structure.classes], core=core)


def identity(like: Columns) -> Columns:
    rows = sum(v.shape[0] * v.shape[1] for v in like.two.values())
    ends = np.cumsum([0, *(v.shape[0] * v.shape[1] for v in like.two.values())])
    parts = zip(like.two.items(), ends[:-1], ends[1:], strict=True)
    unit = np.eye(rows)
    return Columns({pair: unit[a:b].reshape(*v.shape[:2], rows).copy() for (pair, v), a, b in parts}, rows)


def dense(columns: Columns) -> np.ndarray:
    return np.concatenate([v.reshape(-1, columns.many) for v in columns.two.values()])


@pytest.mark.long
@pytest.mark.parametrize("sizes", [(4, 5, 6), (6, 6, 6, 5), (5, 5, 5, 5)])
@pytest.mark.parametrize("core", [0, 12])
def test_probes_bound_what_links_blocks(sizes, core):
    model = model_of(*sizes, core=core)
    for share in (1e-1, 1e-3, 1e-5):
        entries = Entries(model.products, model.scale * share)
        blocks = list(model.layout.blocks(entries))
        unit = identity(triple_probes._start(model.layout))
        whole, part = dense(linked_columns(entries, model.layout, unit)), unit.copy()
        for block in blocks:
            block.solve(block.matrix(), part)
        a = dense(part)
        root = np.linalg.inv(np.linalg.cholesky(a))
        e = np.linalg.eigvalsh(root @ (whole - a) @ root.T)
        found = probed(entries, model.layout, [(b, inverted(b.matrix())) for b in blocks])
        assert np.abs(e).max() <= found.norm <= 2 * np.abs(e).max() + 1e-5
        assert (e**2).sum() <= found.square


@pytest.mark.long
def test_seeds_do_not_matter(monkeypatch):
    model = model_of(10, 10, 9, 9, core=10)
    values = []
    for seed in range(2):
        monkeypatch.setattr(triple_probes, "SEED", seed)
        values.append(model.trace(2.0))
    assert model.random
    assert max(values) <= min(values) * (1 + 1e-3)


@pytest.mark.long
def test_probes_come_close_where_blocks_are_strongly_linked():
    """0.9984 of the trace with sums of the rows of inverses alone."""
    model = model_of(16, 16, 16, 16, core=60)
    exact = SymmetricTrace(model.question, model.roots).nodes(2.0).trace
    assert 0.9985 * exact <= model.trace(2.0) <= exact * (1 + 1e-9)
    assert model.random


@pytest.mark.parametrize("failure", [1e-2, 1e-6, 1e-13])
@pytest.mark.parametrize("degrees", [1, 4, 16, 32])
def test_chi_squared_is_hardly_ever_below(degrees, failure):
    assert 1e-3 * failure < chi2.cdf(least_chi_squared(degrees, failure), degrees) <= failure


def test_lower_tail_of_weighted_squares():
    """E exp(-x (z^2 - 1)) <= exp(x^2) for x >= 0 is all that Laurent and Massart need for it."""
    x = np.geomspace(1e-3, 1e3, 200)
    assert np.all(x - np.log1p(2 * x) / 2 <= x**2)
