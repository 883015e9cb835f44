"""What a device does must not depend on its record: the length of reports, the random words drawn, the choice made."""

import numpy as np
import pytest

from leastnoise.local import Device
from leastnoise.noise import SeededRandomSource
from tests.local.cases import KINDS, pairs_plan, prefix_plan, randomizers


class Counted:
    """Seeded words, and how many were asked for at a time."""

    insecure = True

    def __init__(self, seed: int) -> None:
        self.random_source, self.requested = SeededRandomSource(seed), []

    def words(self, count: int):
        self.requested.append(count)
        return self.random_source.words(count)


@pytest.mark.parametrize("kind", KINDS)
def test_random_words_do_not_depend_on_the_value(kind):
    randomizer = randomizers()[kind]
    for seed in range(20):
        members = set()
        for cell in range(randomizer.cells):
            random_source = Counted(seed)
            payload = randomizer.encode(np.array([cell]), random_source)
            members.add((payload.shape, tuple(random_source.requested)))
        assert len(members) == 1


@pytest.mark.parametrize("layout", ["tables", "residuals", "split"])
def test_reports_have_one_length_and_one_table_whatever_the_record(layout):
    """With the same words, all records report on the same table."""
    plan = pairs_plan(layout)
    records = [{"a": a, "b": b, "c": c, "d": d} for a in range(3) for b in "uv" for c in (0, 3) for d in "yn"]
    prefix = len(plan.prefix) + plan.part_bytes
    for seed in range(10):
        sent = [Device(plan, SeededRandomSource(seed)).report(record) for record in records]
        assert {len(report) for report in sent} == {plan.report_bytes}
        assert len({report[:prefix] for report in sent}) == 1


def test_codes_are_what_simulations_take():
    assert Device(prefix_plan()).codes({"x": 5, "other": "unused"}) == [5]
