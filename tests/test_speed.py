"""What should be fast, by the clock: for an idle machine. `make test` counts the work instead (see tests/work.py)."""

import json
from time import process_time

import pytest

import leastnoise as ln
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.from_spec import plan_spec
from leastnoise.planning.request import clear_cache
from leastnoise.release.queries.language import MAX_TEXT
from leastnoise.workload.spec import parse_spec
from tests.release.test_language import outcome
from tests.test_cli import EXAMPLES, run
from tests.test_large import BUDGET, MILLION, one
from tests.test_limits import REFUSED

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("text", ["(", "age<3 and ", "age=3+", "(((age=1)))or", "age in (1,"])
def test_long_texts_end_quickly(text):
    start = process_time()
    outcome(text * (MAX_TEXT // len(text)))
    assert process_time() - start < 15  # measured: at most 2 s; quadratic work would take minutes


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_take_little_time(name):
    start = process_time()
    with pytest.raises(LeastnoiseError):
        plan_spec(parse_spec(REFUSED[name][0], "s.yaml"))
    assert process_time() - start < 4


@pytest.mark.parametrize("family", ["prefix", "suffix", "range", "circular", "marginal"])
def test_a_million_values_plan_in_seconds(family):
    start = process_time()
    plan = ln.plan(one(MILLION, family), BUDGET, solver="fourier")
    assert plan.floor_value <= plan.rmse <= plan.max_std_error
    assert process_time() - start < 20


def test_replanning_is_free():
    work = ln.Workload(ln.Domain.of({f"x{i}": range(10) for i in range(20)})).prefix(ways=[1, 2, 3])
    clear_cache()
    ln.plan(work, BUDGET)
    start = process_time()
    ln.plan(work, ln.Budget(mu=0.1))
    assert process_time() - start < 0.1


def test_the_survey_plans_in_seconds():
    plan = json.loads(run("plan", EXAMPLES / "survey.yaml", "--json").stdout)
    assert plan["seconds"] < 30  # two on an idle machine
