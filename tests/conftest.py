import gc
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

from tests import covering, quick
from tests.engines import chromium

pytest.register_assert_rewrite("tests.laws")

# The same examples on every run, and no time limit per example: a busy machine is not a bug.
settings.register_profile("full", deadline=None, derandomize=True, max_examples=covering.FULL)
settings.register_profile("usual", deadline=None, derandomize=True, max_examples=40)
settings.register_profile("quick", deadline=None, derandomize=True, max_examples=10)
settings.load_profile("usual")

MEMORY = "/dev/shm"  # a file system in memory, on Linux
ROOM = 4 << 30  # bytes that must be free there


def _keep_files_in_memory() -> None:
    """Folders of tests in memory, where there is room: a sync to disk takes 10 ms, and ledgers sync at every step."""
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK | os.X_OK):
        return
    if shutil.disk_usage(MEMORY).free > ROOM and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC:
        os.environ["TMPDIR"] = tempfile.tempdir = MEMORY


_keep_files_in_memory()


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One headless browser for all tests of pages; they are skipped where there is none."""
    yield from chromium.started()


# Tests with these marks need a server, a cluster, a browser or R. One worker runs all of a kind: each starts once.
ENGINES = ("postgres", "spark", "browser", "r")


STATE = pytest.StashKey[Path]()  # of ledgers that were used, by test
LEFT = pytest.StashKey[Counter[str]]()  # what `--quick` leaves out, by reason


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="the first case of each test that is neither slow nor long")


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    covering.mark_others(items)
    if config.getoption("--quick"):
        items[:], left, config.stash[LEFT] = quick.split(items)
        config.hook.pytest_deselected(items=left)
    for item in items:
        for engine in ENGINES:
            if item.get_closest_marker(engine):
                item.add_marker(pytest.mark.xdist_group(engine))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Each test has a list of ledgers of its own, in a folder that is made when something is written."""
    os.environ["LEASTNOISE_STATE"] = str(item.config.stash[STATE] / sha256(item.nodeid.encode()).hexdigest()[:16])


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(config.stash[STATE], ignore_errors=True)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Thousands of tests are collected and stay: the garbage collector need not look at them again and again."""
    if getattr(session.config.option, "loadgroup", False):  # in a worker that shares tests by group
        _require_groups(session.items)
    gc.collect()
    gc.freeze()


def _require_groups(items: list[pytest.Item]) -> None:
    """Versions of pytest and xdist that do not fit lose the groups without a word: every engine would start twice."""
    if lost := [item.nodeid for item in items if item.get_closest_marker("xdist_group") and "@" not in item.nodeid]:
        raise pytest.UsageError(
            f"{len(lost)} tests, such as {lost[0]}, are not shared by group; install '.[dev]' again"
        )


def _engine_runs(reporter: pytest.TerminalReporter) -> dict[str, tuple[int, list[str]]]:
    """Per engine: tests that ran, and why others did not."""
    entries: dict[str, tuple[int, list[str]]] = {}
    for engine in ENGINES:
        ran = sum(engine in r.keywords for kind in ("passed", "failed") for r in reporter.stats.get(kind, []))
        skipped = [r for r in reporter.stats.get("skipped", []) if engine in r.keywords]
        entries[engine] = ran, sorted({str(r.longrepr[2]) for r in skipped if isinstance(r.longrepr, tuple)})
    return entries


def _fuzzed(reporter: pytest.TerminalReporter) -> dict[str, tuple[int, float]]:
    """Per kind of input: how many were read, and the seconds that took."""
    entries: dict[str, tuple[int, float]] = {}
    for report in (r for kind in ("passed", "failed") for r in reporter.stats.get(kind, [])):
        for kind, inputs, seconds in (value for name, value in report.user_properties if name == "fuzz"):
            before = entries.get(kind, (0, 0.0))
            entries[kind] = before[0] + inputs, before[1] + seconds
    return entries


class Workers:
    """What `--quick` left out in workers, which alone know it: told to the process that reports."""

    @pytest.hookimpl
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["left"] = dict(session.config.stash.get(LEFT, Counter()))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        node.config.stash[LEFT] = Counter(getattr(node, "workeroutput", {}).get("left", {}))


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Workers())
    config.stash[STATE] = Path(tempfile.mkdtemp(prefix="leastnoise-state-"))
    if config.getoption("--quick"):
        settings.load_profile("quick")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if left := terminalreporter.config.stash.get(LEFT, None):
        terminalreporter.section("quick")
        terminalreporter.line(quick.summary(left))
    if fuzzed := _fuzzed(terminalreporter):
        terminalreporter.section("fuzzed inputs")
        fuzzed["all"] = sum(n for n, _ in fuzzed.values()), sum(s for _, s in fuzzed.values())
        for kind, (inputs, seconds) in fuzzed.items():
            terminalreporter.line(f"{kind}: {inputs:,} inputs in {seconds:,.0f} s")
    runs = _engine_runs(terminalreporter)
    if any(ran or reasons for ran, reasons in runs.values()):
        terminalreporter.section("engines")
        for engine, (ran, reasons) in runs.items():
            missing = f"; NOT RUN: {'; '.join(reasons)}" if reasons else ""
            terminalreporter.line(f"{engine}: {ran} tests run{missing}" if ran or reasons else f"{engine}: NOT RUN")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Where LEASTNOISE_NEEDS names engines (as continuous integration does), leaving one out is a failure."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    needed = os.environ.get("LEASTNOISE_NEEDS", "").split()
    if not needed or reporter is None or hasattr(session.config, "workerinput") or session.exitstatus != 0:
        return
    runs = _engine_runs(reporter)
    if lacking := [engine for engine in needed if not runs[engine][0] or runs[engine][1]]:
        reporter.line(f"\nengines that must run did not, or not wholly: {', '.join(lacking)}", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
