"""Collectors: order, merges, bad and forged reports."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from leastnoise import Domain, LeastnoiseError, Workload
from leastnoise.local import Collector, Device, local_plan, simulate
from leastnoise.local.ball import Ball
from leastnoise.local.plan import targets
from leastnoise.local.subsets import Subsets
from leastnoise.noise import SeededRandomSource
from tests.local.cases import collected, pairs_plan, prefix_plan, records, report_of, same


def test_poisoned_batch_moves_answers_no_further_than_stated():
    plan = pairs_plan()
    codes = records(plan, 20_000)
    honest, attacked = collected(plan, codes), collected(plan, codes)
    forged = 200
    part = plan.parts[0]
    h = part.randomizer.estimators(targets(plan.parts, plan.queries[0])[0])
    attacked.add_block(report_of(plan, 0, int(np.argmax(np.abs(h[0])))) * forged)
    before, after = honest.answers()[0].values, attacked.answers()[0].values
    bound = forged * plan.influence(plan.queries[0])
    moved = np.abs(after - before)
    # beside what a forged report says, it adds one to the count and joins its part: a few percent
    assert (moved <= 1.1 * bound + forged).all()
    assert moved[0] > 0.5 * bound[0]


@pytest.mark.parametrize("kind", ["subsets", "cap", "gaussian"])
def test_influence_of_forged_reports_is_exact(kind):
    """Of a plan with one table: m forged reports add m times what one says; no report says more than stated."""
    plan = prefix_plan() if kind == "subsets" else local_plan(prefix_plan().workload, 1, 1e-5, randomizer=kind)
    (queries,), (part,) = plan.queries, plan.parts
    codes = records(plan, 2_000)
    before = collected(plan, codes).answers()[0].values
    rng, stated = np.random.default_rng(0), plan.influence(queries)
    moved = []
    for _ in range(40):
        forged = plan.prefix + _any_payload(part.randomizer, rng)
        attacked = collected(plan, codes)
        attacked.add_block(forged * 300)
        assert attacked.reports == 2_300
        tally = part.randomizer.tally(np.frombuffer(forged[5:], dtype=np.uint8)[None])
        says = part.randomizer.totals(queries.rows, tally)
        moved.append(attacked.answers()[0].values - before)
        assert_allclose(moved[-1], 300 * says, rtol=1e-9, atol=1e-6)
        # `influence` is about what is left when the constant is reported by the number of reports
        assert (np.abs(moved[-1] - 300 * queries.pieces[()]) <= 300 * stated * (1 + 1e-9)).all()
    if kind == "subsets":
        h = part.randomizer.estimators(queries.rows - queries.rows.mean(axis=1, keepdims=True))
        assert_allclose(np.abs(h).max(axis=1), stated)  # attained by some subset


def _any_payload(randomizer, rng):
    """A report that devices could have sent, of no record."""
    if isinstance(randomizer, Subsets):
        return int(rng.integers(randomizer.tallies)).to_bytes(randomizer.payload, "little")
    if isinstance(randomizer, Ball):
        return rng.bytes(8) + bytes([int(rng.integers(randomizer.choice.candidates))])
    signs = rng.choice([-1, 1], len(randomizer.columns))
    return (signs * randomizer.bound).astype("<i4").tobytes()


def test_forged_reports_on_prefixes_in_persons():
    """The figure of the guide."""
    plan = prefix_plan(32)
    assert 8 < plan.influence(plan.queries[0]).max() < 10


def test_split_reports_are_rejected_as_a_whole():
    plan = pairs_plan("split")
    block = simulate(plan, records(plan, 300), SeededRandomSource(1))
    collector = Collector(plan)
    collector.add_block(block)
    assert collector.reports == 300
    last = plan.parts[-1].randomizer
    bad = block[: plan.report_bytes - last.payload] + b"\xff" * last.payload
    assert last.tallies < 256**last.payload
    assert not collector.add(bad)
    assert (collector.counts == 300).all()
    assert collector.rejected["content"] == 1


@pytest.mark.parametrize("plan", [pairs_plan(), prefix_plan()], ids=["pairs", "prefix"])
def test_order_does_not_matter_and_merged_collectors_equal_one(plan):
    codes, size = records(plan, 3_000), plan.report_bytes
    block = simulate(plan, codes, SeededRandomSource(3))
    reports = [block[i : i + size] for i in range(0, len(block), size)]
    whole = Collector(plan)
    whole.add_block(block)
    single, shuffled, left, right = (Collector(plan) for _ in range(4))
    for report in reports:
        assert single.add(report)
    shuffled.add_all(reports[i] for i in np.random.default_rng(0).permutation(len(reports)))
    left.add_all(reports[:1000])
    right.add_all(reports[1000:])
    left.merge(right)
    assert whole.reports == 3_000
    assert all(same(whole, other) for other in (single, shuffled, left))


def test_block_equals_single_reports():
    plan = prefix_plan()
    block = simulate(plan, np.array([[5]]), SeededRandomSource(9))
    assert Device(plan, SeededRandomSource(9)).report({"x": 5}) == block
    assert len(block) == plan.report_bytes == 6


def test_bad_reports_are_counted_and_change_nothing():
    plan, other = pairs_plan(), prefix_plan()
    block, size = simulate(plan, records(plan, 500), SeededRandomSource(3)), plan.report_bytes
    good, bad = Collector(plan), Collector(plan)
    good.add_block(block)
    bad.add_block(block)
    first = block[:size]
    assert not bad.add(first[:-1])
    assert not bad.add(first + b"\0")
    assert not bad.add(b"")
    bad.add_block(block[:-1])
    assert not bad.add(bytes([99]) + first[1:])
    assert not bad.add(first[:2] + bytes([first[2] ^ 1]) + first[3:])
    assert not bad.add(plan.prefix + bytes([len(plan.parts)]) + first[6:])
    assert not bad.add(report_of(plan, 0, plan.parts[0].randomizer.tallies))
    foreign = Device(other).report({"x": 1}).ljust(size, b"\0")
    assert not bad.add(foreign)
    assert bad.rejected == {"length": 4, "version": 1, "plan": 2, "content": 2}
    assert bad.reports == good.reports == 500
    assert all((a == b).all() for a, b in zip(good.tallies, bad.tallies, strict=True))
    mixed = Collector(plan)
    mixed.add_block(b"\xff" * size + first + b"\x01" * size + block[size : 2 * size])
    assert (mixed.reports, mixed.rejected["version"], mixed.rejected["plan"]) == (2, 1, 1)


def test_padding_must_be_zero():
    domain = Domain.of(a=range(3), b=range(40))
    plan = local_plan(Workload(domain).marginals("a").marginals("b"), 1, layout="tables", randomizer="subsets")
    collector = Collector(plan)
    sizes = [p.randomizer.payload for p in plan.parts]
    short = int(np.argmin(sizes))
    if min(sizes) < max(sizes):
        assert not collector.add(plan.prefix + bytes([short]) + bytes([0] * min(sizes)) + b"\x07")
    collector.add_block(simulate(plan, records(plan, 100), SeededRandomSource(1)))
    assert collector.reports == 100


def test_merging_refuses_other_plans_and_itself():
    one, other = Collector(pairs_plan()), Collector(prefix_plan())
    with pytest.raises(LeastnoiseError, match="these collectors follow different plans"):
        one.merge(other)
    with pytest.raises(LeastnoiseError, match="cannot be merged with itself"):
        one.merge(one)


def test_too_few_reports():
    with pytest.raises(LeastnoiseError, match="only 0 reports are about these queries; collect more before asking"):
        Collector(prefix_plan()).answers()


def test_no_reports_at_all():
    collector = Collector(prefix_plan())
    collector.add_block(b"")
    collector.add_all([])
    assert collector.reports == 0
    assert simulate(prefix_plan(), np.empty((0, 1), dtype=int), SeededRandomSource(1)) == b""
