"""Tables for other programs: the same numbers, with the privacy statement wherever there is a place for it."""

import json
import re
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import combinations
from multiprocessing import get_context
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest

import leastnoise as ln
from leastnoise.domain.attributes import bins
from leastnoise.errors import LeastnoiseError
from leastnoise.noise import SeededRandomSource
from leastnoise.release.html import release_html
from leastnoise.release.statement import INSECURE, Privacy

DOMAIN = ln.Domain.of(age=range(4), sex=["F", "M"], mixed=[1, "a", 2.5], pay=bins(0, 30, width=10))
COUNTS = np.random.default_rng(4).poisson(60, DOMAIN.shape)


def release_of(workload: ln.Workload) -> ln.Release:
    plan = ln.plan(workload, ln.Budget(rho=0.1))
    return plan.run(COUNTS, dataset="people", random_source=SeededRandomSource(3))


@pytest.fixture(scope="module")
def release() -> ln.Release:
    return release_of(ln.Workload(DOMAIN).marginals(ways=2))


def about(release: ln.Release, names: list[str], confidence: float) -> dict[str, Any]:
    fields = {"dataset": "people", "attributes": names, "confidence": confidence}
    return fields | {"privacy": Privacy.of_parts(release.parts).model_dump(), "insecure": True}


def test_pandas(release):
    frame = release.to_pandas("sex", "age", confidence=0.9)
    pd.testing.assert_frame_equal(frame, release.table("sex", "age", confidence=0.9))
    assert frame.attrs == about(release, ["sex", "age"], 0.9)


def test_arrow(release):
    table = release.to_arrow("sex", "pay")
    assert isinstance(table, pa.Table)
    assert json.loads(table.schema.metadata[b"leastnoise"]) == about(release, ["sex", "pay"], 0.95)
    marked = release.table("sex", "pay").assign(insecure=True)  # the noise of tests is seeded
    pd.testing.assert_frame_equal(table.to_pandas(), marked, check_dtype=False)
    again = pa.ipc.open_stream(_sent(table)).read_all()
    assert again.equals(table, check_metadata=True)


def _sent(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def test_values_of_several_types_become_text(release):
    assert release.to_arrow("mixed").column("mixed").to_pylist() == ["1", "a", "2.5"]
    assert release.to_pandas("mixed")["mixed"].tolist() == [1, "a", 2.5]


def test_polars(release):
    frame = release.to_polars("sex", "age")
    assert isinstance(frame, polars.DataFrame)
    assert frame.columns == ["sex", "age", "count", "std_error", "low", "high", "insecure"]
    assert frame["count"].to_list() == release.table("sex", "age")["count"].tolist()
    assert frame["sex"].to_list() == ["F"] * 4 + ["M"] * 4


def test_the_total(release):
    assert release.to_arrow().num_rows == 1
    assert release.to_pandas()["count"][0] == release.total().value


@pytest.mark.parametrize("name", ["to_pandas", "to_arrow", "to_polars"])
def test_bad_names(release, name):
    with pytest.raises(LeastnoiseError, match="did you mean 'age'"):
        getattr(release, name)("aeg")


@pytest.mark.parametrize(
    ("name", "module", "text"),
    [
        ("to_polars", "polars", "to_polars needs the package 'polars', which is not installed; pip install polars"),
        (
            "to_mbi",
            "mbi",
            "to_mbi needs the package 'mbi', which is not installed; install leastnoise with",
        ),
    ],
)
def test_packages_that_are_missing(release, monkeypatch, name, module, text):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(LeastnoiseError, match=f"^{re.escape(text)}"):
        getattr(release, name)()


def test_notebooks_show_a_release(release):
    assert release._repr_html_() == release_html(release)
    assert INSECURE in release._repr_html_()


# --- Private-PGM ------------------------------------------------------------------------------------------------------


class LinearMeasurement(SimpleNamespace):
    """The fields of the class in mbi, in their order."""

    def __init__(self, noisy_measurement: Any, clique: Any, stddev: float = 1.0) -> None:
        super().__init__(noisy_measurement=np.array(noisy_measurement), clique=tuple(clique), stddev=stddev)


@pytest.fixture
def mbi(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "mbi", SimpleNamespace(LinearMeasurement=LinearMeasurement))


def fitted(domain: ln.Domain, measurements: list[Any]) -> Any:
    """The weighted least-squares fit of the whole table, by an explicit matrix."""
    rows, answers = [], []
    cells = np.indices(domain.shape).reshape(len(domain), -1)
    for measured in measurements:
        axes = [domain.index(name) for name in measured.clique]
        code = np.ravel_multi_index(cells[axes], [domain.shape[a] for a in axes])
        rows.append((np.arange(len(measured.noisy_measurement))[:, None] == code) / measured.stddev)
        answers.append(measured.noisy_measurement / measured.stddev)
    result, *_ = np.linalg.lstsq(np.concatenate(rows), np.concatenate(answers), rcond=None)
    return result.reshape(domain.shape)


@pytest.mark.usefixtures("mbi")
def test_std_errors_are_those_of_the_release(release):
    measured = release.to_mbi()
    assert sorted(m.clique for m in measured) == sorted(combinations(DOMAIN.names, 2))
    for m in measured:
        assert m.noisy_measurement.tolist() == release.counts(*m.clique).ravel().tolist()
        assert m.stddev == pytest.approx(release.std_errors(*m.clique).mean(), rel=1e-9)  # all cells alike


@pytest.mark.usefixtures("mbi")
@pytest.mark.parametrize(
    "workload",
    [ln.Workload(DOMAIN).marginals(ways=2), ln.Workload(DOMAIN).prefix("age").marginals("sex", "pay", ways=2)],
    ids=["pairs", "uneven errors"],
)
def test_covers_every_table_in_reach(workload):
    release = release_of(workload)
    model = fitted(DOMAIN, release.to_mbi())
    tables = [names for names in release.tables() if names]
    assert tables
    for names in tables:
        others = tuple(k for k, name in enumerate(DOMAIN.names) if name not in names)
        off = np.abs(model.sum(axis=others) - release.counts(*names)) / release.std_errors(*names)
        assert off.max() < 1e-6  # released tables agree with each other, so a fit has no reason to move them


def off_by() -> float:
    """Largest distance of Private-PGM's fit from a released table, in standard errors of that table."""
    import mbi

    release = release_of(ln.Workload(DOMAIN).marginals(ways=2))
    domain = mbi.Domain(DOMAIN.names, DOMAIN.shape)
    model = mbi.estimation.MirrorDescent().estimate(domain, release.to_mbi(), iters=2000)
    fits = {names: np.asarray(model.project(names).datavector()) for names in combinations(DOMAIN.names, 2)}
    return max(
        float(np.abs(fit - release.counts(*names).ravel()).max() / release.std_errors(*names).max())
        for names, fit in fits.items()
    )


@pytest.mark.long
def test_private_pgm_fits_the_released_tables():
    # in a process of its own: its library starts threads, after which nothing in this process could fork
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(off_by).result() < 6  # false alarms: 40 cells at 6 sigma, 1e-7
