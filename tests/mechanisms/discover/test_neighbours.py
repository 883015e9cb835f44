"""What comes out of the engine for all pairs of neighbouring small data: at most so many counts move, by one each."""

from typing import Any

import pytest

import leastnoise as ln
from leastnoise.mechanisms.discover.plan import DiscoverPlan, discover
from leastnoise.mechanisms.gate import Counts
from tests.neighbours.crosses import FEW_RULES, Subject, people_cases
from tests.neighbours.mechanisms import Mechanism, Options
from tests.neighbours.shifts import Output
from tests.neighbours.suite import examine
from tests.neighbours.tape import Tape

PAGES = ("home", "shop", "help", "other", "?")


def keys(least: int) -> Mechanism:
    """Counts that are looked at; of others the largest that is not, which is as near to them as any."""

    def make(budget: ln.Budget) -> DiscoverPlan:
        return discover("page", budget)

    def publish(plan: DiscoverPlan, data: Any, given: Options, tape: Tape | None) -> Output:
        counts = Counts(plan.prepare(data, **given).open())
        plan.look(counts)
        found = {key: n for keys, people in counts.keys(least) for key, n in zip(keys, people.tolist(), strict=True)}
        assert set(found) <= set(PAGES)
        values = tuple(found.get(page, least - 1) for page in PAGES)
        return Output(plan.cost, values, (plan.variance,) * len(values))

    return Mechanism("keys", make, publish)


@pytest.mark.slow
def test_all_pairs_of_neighbours():
    for least in (1, 2):
        subject = Subject(keys(least), {}, {"page": ("home", "shop", "help")}, slow=True)
        verdicts = [examine(case) for case in people_cases(subject, FEW_RULES[1:2])]
        for verdict in verdicts:
            assert verdict.holds, str(verdict)
            assert verdict.shift > 0, str(verdict)
        assert sum(v.pairs for v in verdicts) > 500
        if least == 1:  # someone alone has all keys, and the cost is reached but for the grain of the noise
            assert max(v.shift / v.claimed for v in verdicts) >= 0.99
