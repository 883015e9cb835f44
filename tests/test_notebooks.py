"""What plans, releases and answers show of themselves in notebooks, and progress there."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

import leastnoise as ln
from leastnoise import _progress
from leastnoise._progress import TextProgress, in_notebook, shown
from leastnoise.noise import SeededRandomSource
from tests.contract.kinds import KINDS, released
from tests.shell import call, fail

ODD = "<script>alert('x')</script>"
MOST = 2_500  # characters that a notebook shows of anything here


@pytest.mark.parametrize("name", KINDS)
def test_everything_is_short_and_escaped(name):
    mechanism, release = KINDS[name].mechanism(), released(name)
    for text in (repr(mechanism), str(mechanism), mechanism._repr_html_(), repr(release)):
        assert len(text) <= MOST
    assert len(release._repr_html_()) <= 2 * MOST
    assert "\n" not in repr(mechanism)


def many() -> ln.Plan:
    """A plan of 200 statements on attributes whose names are markup."""
    domain = ln.Domain.of({f"{ODD} {k}": 2 for k in range(12)})
    work = ln.Workload(domain)
    for k in range(200):
        work = work.marginals(domain.names[k % 12], ways=1, weight=1 + k)
    return ln.plan(work, ln.Budget(mu=1), baseline="uniform")


@pytest.mark.long
def test_a_plan_of_many_groups_is_short():
    plan = many()
    assert len(plan.details()) > 10_000
    assert plan.details().count("\n") > 200
    for text in (str(plan), repr(plan), plan._repr_html_()):
        assert len(text) <= MOST
    assert "and 188 more groups" in str(plan)
    assert ODD not in plan._repr_html_()
    release = plan.run(np.zeros(plan.domain.shape, dtype=int), random_source=SeededRandomSource(1))
    answers = release.ask_all([f"top(1, `{ODD} 0`)", ODD], by=f"{ODD} 1")
    for text in (release._repr_html_(), answers._repr_html_()):
        assert "<script" not in text
        assert len(text) <= 4 * MOST


def test_progress_is_a_line_of_text(capsys):
    report = TextProgress(delay=0, every=0)
    for done, total, what in ((1, 4, "counting rows"), (2, 4, "noise"), (3, 0, "noise")):
        report(done, total, what)
    assert capsys.readouterr().err == "\rcounting rows 25%\rnoise 50%        \rnoise    "
    TextProgress()(1, 2, "too soon")
    assert capsys.readouterr().err == ""


def test_only_notebooks_show_progress_by_themselves(monkeypatch):
    given = TextProgress()
    assert shown(given) is given
    assert shown(None) is None
    kernel = type("ZMQInteractiveShell", (), {})()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: kernel))
    assert in_notebook()
    assert isinstance(shown(None), TextProgress)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert not in_notebook()


def test_a_run_in_a_notebook_reports(monkeypatch, capsys):
    kernel = type("ZMQInteractiveShell", (), {})()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: kernel))
    monkeypatch.setattr(_progress.TextProgress.__init__, "__defaults__", (0.0, 0.0))
    kind = KINDS["plan"]
    release = kind.run()
    assert "\r" in capsys.readouterr().err
    release.ask_all("count()", by="age")
    assert "asking 100%" in capsys.readouterr().err


SPEC = "attributes: {age: {range: [0, 4]}, sex: {values: [F, M]}}\nworkload: [{queries: marginal, ways: 2}]\n"


def test_another_budget_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_text(SPEC + "privacy: {epsilon: 1, delta: 1e-9, neighbours: replace}\n")
    (tmp_path / "none.yaml").write_text(SPEC)
    for arguments, said in {
        ("a.yaml", "--epsilon", "2"): "epsilon 2 and delta 1e-09",
        ("a.yaml", "--epsilon", "2", "--delta", "1e-6"): "epsilon 2 and delta 1e-06",
        ("a.yaml", "--delta", "1e-6"): "epsilon 1 and delta 1e-06",
        ("a.yaml", "--mu", "0.5"): "(mu 0.5)",
        ("none.yaml", "--rho", "0.5"): "(mu 1)",
        ("none.yaml", "--epsilon", "2", "--delta", "1e-6"): "epsilon 2 and delta 1e-06",
    }.items():
        code, out, err = call(capsys, "plan", *arguments)
        assert code == 0, err
        assert said in out
        assert ("replacing" in out) == (arguments[0] == "a.yaml")
    assert fail(capsys, "plan", "a.yaml", "--epsilon", "1", "--mu", "1").startswith(
        "--epsilon and --mu state the budget"
    )
    assert "add --delta" in fail(capsys, "plan", "none.yaml", "--epsilon", "1")
    assert "needs 'privacy'" in fail(capsys, "plan", "none.yaml")
    assert "epsilon" in fail(capsys, "plan", "a.yaml", "--epsilon", "-1")


def test_a_plan_of_many_groups_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = ["age", "sex"] * 15
    lines = "".join(f"  - {{queries: marginal, on: [{n}], weight: {k + 1}}}\n" for k, n in enumerate(names))
    (tmp_path / "a.yaml").write_text(SPEC.partition("workload")[0] + f"workload:\n{lines}privacy: {{mu: 1}}\n")
    out = call(capsys, "plan", "a.yaml")[1]
    assert "and 10 more groups; --groups shows all" in out
    every = call(capsys, "plan", "a.yaml", "--groups")[1]
    assert every.count("marginal") == 30
    assert "more groups" not in every
