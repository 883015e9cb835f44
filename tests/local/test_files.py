"""Plans and collectors as files: round trips, damage, plans that spend more than they say."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from leastnoise import Domain, LeastnoiseError, Workload
from leastnoise.local import (
    Collector,
    files,
    load_collector,
    load_plan,
    local_plan,
    save_collector,
    save_plan,
    simulate,
)
from leastnoise.local.randomized_response import Odds
from leastnoise.noise import SeededRandomSource
from leastnoise.storage.archive import Archive
from tests.local.cases import collected, pairs_plan, prefix_plan, records, same


@pytest.mark.parametrize("randomizer", ["subsets", "cap", "gaussian"])
def test_saved_plans_come_back_the_same(tmp_path, randomizer):
    domain = Domain.of(a=range(3), b=["u", "v"], c=range(4))
    plan = local_plan(Workload(domain).marginals(ways=2), 0.5, 1e-6, randomizer=randomizer, layout="residuals")
    save_plan(plan, tmp_path / "plan")
    back = load_plan(tmp_path / "plan")
    assert back.fingerprint == plan.fingerprint
    codes = records(plan, 200)
    assert simulate(back, codes, SeededRandomSource(1)) == simulate(plan, codes, SeededRandomSource(1))
    assert back.epsilon == Fraction(1, 2)
    assert [p.share for p in back.parts] == [p.share for p in plan.parts]


def test_fingerprints_differ():
    work = Workload(Domain.of(x=range(6))).prefix("x")
    assert len({local_plan(work, e, seed=s).fingerprint for e, s in ((1, 0), (1, 1), (0.5, 0))}) == 3
    assert local_plan(work, 1).fingerprint == local_plan(work, 1.0).fingerprint


def test_saved_collectors_come_back_the_same(tmp_path):
    plan = pairs_plan()
    collector = collected(plan, records(plan, 1_000))
    collector.add(b"junk")
    save_collector(collector, tmp_path / "counts")
    back = load_collector(tmp_path / "counts", plan)
    assert same(back, collector)
    back.merge(collector)
    assert back.reports == 2_000
    with pytest.raises(LeastnoiseError, match="belongs to another plan"):
        load_collector(tmp_path / "counts", prefix_plan())


def test_damaged_files(tmp_path):
    plan = prefix_plan()
    path = tmp_path / "plan"
    with pytest.raises(LeastnoiseError, match="there is no local plan"):
        load_plan(path)
    path.write_bytes(b"not a plan")
    with pytest.raises(LeastnoiseError, match="is not a local plan"):
        load_plan(path)
    save_collector(Collector(plan), path)
    with pytest.raises(LeastnoiseError, match="holds a local collector, not a local plan"):
        load_plan(path)


@pytest.mark.long
def test_flipped_bytes_are_noticed(tmp_path):
    plan = prefix_plan()
    save_plan(plan, tmp_path / "plan")
    save_collector(collected(plan, records(plan, 100)), tmp_path / "counts")
    rng = np.random.default_rng(0)
    for name, load in (("plan", load_plan), ("counts", lambda path: load_collector(path, plan))):
        whole = (tmp_path / name).read_bytes()
        for _ in range(60):
            changed = bytearray(whole)
            changed[rng.integers(len(whole))] ^= 1 << int(rng.integers(8))
            (tmp_path / "changed").write_bytes(bytes(changed))
            try:
                back = load(tmp_path / "changed")
            except LeastnoiseError:
                continue
            assert (back if name == "plan" else back.plan).fingerprint == plan.fingerprint


@pytest.mark.parametrize("name", ["plan", "counts"])
def test_truncated_files_are_refused_in_one_line(tmp_path, name):
    plan = prefix_plan()
    save_plan(plan, tmp_path / "plan")
    save_collector(collected(plan, records(plan, 100)), tmp_path / "counts")
    whole = (tmp_path / name).read_bytes()
    for length in {0, 1, 30, len(whole) - 1, *range(0, len(whole), max(len(whole) // 40, 1))}:
        (tmp_path / "cut").write_bytes(whole[:length])
        with pytest.raises(LeastnoiseError) as error:
            load_plan(tmp_path / "cut") if name == "plan" else load_collector(tmp_path / "cut", plan)
        assert "\n" not in str(error.value)
        assert "get it anew" in str(error.value)


def test_saving_is_all_or_nothing(tmp_path, monkeypatch):
    plan = prefix_plan()
    save_collector(collected(plan, records(plan, 100)), tmp_path / "counts")
    before = (tmp_path / "counts").read_bytes()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", full)
    with pytest.raises(LeastnoiseError, match=r"counts cannot be written \(No space left on device\)"):
        save_collector(collected(plan, records(plan, 200)), tmp_path / "counts")
    monkeypatch.undo()
    assert (tmp_path / "counts").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["counts"]
    with pytest.raises(LeastnoiseError, match=r"there is no folder '.*nowhere' to write in; create it first"):
        save_plan(plan, tmp_path / "nowhere" / "plan")


def test_files_without_a_fingerprint(tmp_path):
    header, arrays = prefix_plan().data()
    Archive(header, arrays).save(tmp_path / "plan", files.PLAN)
    with pytest.raises(LeastnoiseError, match="its fingerprint does not fit"):
        load_plan(tmp_path / "plan")


def test_changed_plans_are_refused(tmp_path):
    plan = prefix_plan()
    header, arrays = plan.data()
    changed = {"fingerprint": plan.fingerprint, **header}
    arrays = {name: array.copy() for name, array in arrays.items()}
    Archive(changed | {"epsilon": "2/1"}, arrays).save(tmp_path / "plan", files.PLAN)
    with pytest.raises(LeastnoiseError, match="was changed after it was saved"):
        load_plan(tmp_path / "plan")
    Archive(changed, arrays).save(tmp_path / "plan", replace(files.PLAN, version=99))
    with pytest.raises(LeastnoiseError, match="has local plan format 99, this version reads 1; update leastnoise"):
        load_plan(tmp_path / "plan")
    Archive(changed, {}).save(tmp_path / "plan", files.PLAN)
    with pytest.raises(LeastnoiseError, match="is damaged"):
        load_plan(tmp_path / "plan")


@pytest.mark.parametrize("delta", [1.0, 7.0, 1e308, True, "0.5", -1e-9, float("nan"), None])
def test_plans_whose_delta_hides_nothing_are_refused(tmp_path, delta):
    """From a delta of 1 on, any odds keep any epsilon: devices would report their values as they are."""
    plan = local_plan(Workload(Domain.of(x=["yes", "no"])).marginals(ways=1), 1, 0.9)
    bare = replace(plan.parts[0].randomizer, odds=Odds(2**40 - 1, 1))
    with pytest.raises(LeastnoiseError, match="is not a number from 0 to below 1; do not use it"):
        replace(plan, delta=delta, parts=(replace(plan.parts[0], randomizer=bare),))
    header, arrays = plan.data()
    Archive({"fingerprint": plan.fingerprint, **header, "delta": delta}, arrays).save(tmp_path / "plan", files.PLAN)
    with pytest.raises(LeastnoiseError, match="do not use it"):
        load_plan(tmp_path / "plan")


@pytest.mark.parametrize("randomizer", ["subsets", "cap", "gaussian"])
def test_plans_that_spend_more_are_refused(tmp_path, randomizer):
    plan = local_plan(Workload(Domain.of(x=range(5))).prefix("x"), 1, 1e-6, randomizer=randomizer)
    with pytest.raises(LeastnoiseError, match=r"spends more than its epsilon of 0\.999; do not use it"):
        replace(plan, epsilon=Fraction(999, 1000))
    header, arrays = plan.data()
    forged = {"fingerprint": plan.fingerprint, **header, "epsilon": "999/1000"}
    Archive(forged, arrays).save(tmp_path / "plan", files.PLAN)
    with pytest.raises(LeastnoiseError, match="do not use it"):
        load_plan(tmp_path / "plan")
    with pytest.raises(LeastnoiseError, match="a randomizer does not fit the cells of its table"):
        replace(plan, parts=(replace(plan.parts[0], shape=(4,)),))
    with pytest.raises(LeastnoiseError, match="shares of the parts must be positive and add up to one"):
        replace(plan, parts=(replace(plan.parts[0], share=5),))
