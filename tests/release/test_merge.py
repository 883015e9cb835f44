import re
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import leastnoise as ln
from leastnoise.domain.binned import bins
from leastnoise.noise import SeededRandomSource
from leastnoise.release import TableRelease, merge, state
from leastnoise.sources import Table
from leastnoise.workload import Workload
from tests.catalogue import ordered, skewed
from tests.release.dense import Dense, skewed_table, subsets, table_rows, workload_rows

DOMAIN = ordered(3, 4, 3)
TABLE = skewed_table(DOMAIN)
GIVEN = {"a": skewed(3), "b": skewed(4), "c": skewed(3)}
MU = (1, 0.5, 2)


def work() -> Workload:
    return Workload(DOMAIN)


SAME = work().marginals(ways=2).prefix("b")
LOW = work().affine("a", "c").marginals(ways=1)

# name: (baselines of all plans, one workload per part)
CASES = {
    "same plan": ("uniform", [SAME, SAME]),
    "same plan, searched": ("search", [work().prefix(ways=2)] * 3),
    "same classes": ("uniform", [work().marginals(ways=2), work().prefix(ways=1)]),
    "other classes": (
        "uniform",
        [work().marginals("a", "b").prefix("c"), work().ranges("c", "b").marginals("a", "c"), work().marginals(ways=3)],
    ),
    "nothing in common": ("uniform", [work().prefix("a"), work().ranges("b", "c")]),
    "low rank thrice": ("uniform", [LOW, work().affine("c", "a").marginals("b"), work().abs_diff("b", "c")]),
    "low rank, same plan": ("uniform", [LOW, LOW]),
    "low rank, then full": ("uniform", [LOW, work().marginals("a", "c").prefix("b")]),
    "full, then low rank": ("uniform", [work().prefix("c", "a"), LOW]),
    "axes in another order": (
        "uniform",
        [work().prefix("a", "b").ranges("c"), work().affine("a", "c").random("b", count=3, seed=2), SAME],
    ),
    "sum of products": (
        "uniform",
        [work().prefix("a", "b", "c").marginals("a", "b", "c").ranges("a", "b", "c"), work().marginals("c", "a", "b")],
    ),
    "given baselines": (GIVEN, [work().prefix("a", "b"), work().marginals("a", "c").marginals("b")]),
    "given baselines, low rank": (GIVEN, [LOW, work().ranges("a", "c").prefix("b")]),
}


def releases(baselines, works, **options):
    results = []
    for k, w in enumerate(works):
        plan = ln.plan(w, ln.Budget(mu=MU[k], **options), baseline=baselines)
        results.append(plan.run(Table(DOMAIN, TABLE), random_source=SeededRandomSource(100 + k)))
    return results


def check_least_squares(merged):
    dense = Dense(merged.parts)
    for attributes in subsets(len(DOMAIN)):
        rows, names = table_rows(DOMAIN, attributes), [DOMAIN.names[a] for a in attributes]
        if not dense.reaches(rows):
            with pytest.raises(ln.LeastnoiseError, match="was not measured"):
                merged.counts(*names)
            continue
        assert_allclose(merged.counts(*names).ravel(), dense.answers(rows), rtol=0, atol=1e-9 * TABLE.sum())
        # an exact total has no error at all, its dense twin a rounding error
        assert_allclose(merged.std_errors(*names).ravel(), dense.std_errors(rows), rtol=1e-8, atol=1e-8)
    rows, frame = workload_rows(merged.workload), merged.answer(merged.workload)
    assert_allclose(frame["answer"], dense.answers(rows), rtol=0, atol=1e-9 * TABLE.sum())
    assert_allclose(frame["std_error"], dense.std_errors(rows), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", CASES)
def test_merging_is_least_squares(name):
    baselines, works = CASES[name]
    check_least_squares(merge(*releases(baselines, works)))


@pytest.mark.parametrize("options", [{"neighbours": "replace"}, {"rows_per_person": 3}], ids=str)
@pytest.mark.parametrize("name", ["same plan", "other classes", "low rank, then full"])
def test_merging_is_least_squares_for_other_neighbours(name, options):
    baselines, works = CASES[name]
    check_least_squares(merge(*releases(baselines, works, **options)))


@pytest.mark.parametrize("name", ["same plan", "other classes", "low rank thrice"])
def test_merging_pairs_is_merging_all(name):
    baselines, works = CASES[name]
    first, *rest = releases(baselines, works)
    step = first
    for other in rest:
        step = merge(step, other)
    at_once = merge(first, *rest)
    rows = at_once.answer(at_once.workload)
    assert_allclose(step.answer(step.workload)["answer"], rows["answer"], rtol=1e-12)
    assert step.cost == at_once.cost


@pytest.mark.parametrize("name", ["same classes", "other classes", "low rank, then full"])
def test_order_of_releases_does_not_matter(name):
    result = releases(*CASES[name])
    one, other = merge(*result), merge(*reversed(result))
    for names in one.tables():
        assert_allclose(one.counts(*names), other.counts(*names), rtol=0, atol=1e-9 * TABLE.sum())
        assert_allclose(one.std_errors(*names), other.std_errors(*names), rtol=1e-8)


def test_joint_covariance_is_that_of_all_measurements():
    merged = merge(*releases(*CASES["low rank, then full"]))
    questions = ["a = 1 and c = 2", "a <= 1", "b = 0", "(a = 0 and c = 0) - (c = 0)", "true"]
    asks = merged.ask_many(questions)
    dense, rows = Dense(merged.parts), np.stack([dense_row(merged, q) for q in questions])
    assert_allclose(asks.covariance, dense.covariance(rows), rtol=1e-8, atol=1e-8 * asks.covariance.max())
    assert_allclose(asks.values, dense.answers(rows), rtol=0, atol=1e-9 * TABLE.sum())


def dense_row(release, question):
    query = release.query(question)
    return np.array([query.evaluate(cell.reshape(DOMAIN.shape)) for cell in np.eye(TABLE.size)])


def test_a_second_release_never_hurts():
    first, second = releases("uniform", [SAME, work().prefix(ways=1)])
    merged = merge(first, second)
    for release in (first, second):
        for names in release.tables():
            assert (merged.std_errors(*names) <= release.std_errors(*names) * (1 + 1e-12)).all()


def test_passed_on_priors_are_the_same_priors():
    plan = ln.plan(
        work().prefix("a", "b"), ln.Budget(mu=1), baseline={"a": [0.5, 0.3, 0.2], "b": [0.123, 0.3, 0.4, 0.177]}
    )
    first = plan.run(Table(DOMAIN, TABLE), random_source=SeededRandomSource(1))
    later = ln.plan(work().ranges("b", "c"), ln.Budget(mu=1), baseline=first.baselines())
    second = later.run(Table(DOMAIN, TABLE), random_source=SeededRandomSource(2))
    for name, baseline in first.baselines().items():
        assert_allclose(second.baselines()[name], baseline, rtol=0, atol=1e-15)
    check_least_squares(merge(first, second))


@pytest.mark.parametrize("size", [2, 3, 5, 6, 9, 40])
def test_passed_on_priors_stay_the_same_for_any_size(size):
    domain = ordered(size)
    for seed in range(5):
        baseline = np.random.default_rng(seed).dirichlet(np.ones(size))
        plan = ln.plan(Workload(domain).marginals("a"), ln.Budget(mu=1), baseline={"a": baseline})
        once = plan.integer_plan.baselines[0].values
        again = (
            ln.plan(Workload(domain).prefix("a"), ln.Budget(mu=1), baseline={"a": once})
            .integer_plan.baselines[0]
            .values
        )
        assert_allclose(again, once, rtol=0, atol=1e-15)


def test_cost_adds_up_exactly():
    result = releases("uniform", [SAME, LOW, work().prefix("a")])
    merged = merge(*result)
    assert merged.cost.mu_squared == sum((r.cost.mu_squared for r in result), Fraction(0))
    assert merged.insecure
    assert merge(result[0]).cost == result[0].cost


def test_same_plan_twice_halves_the_variance():
    plan = ln.plan(LOW, ln.Budget(mu=1), baseline="uniform")
    one, two = (plan.run(Table(DOMAIN, TABLE), random_source=SeededRandomSource(k)) for k in (1, 2))
    for names in one.tables():
        assert_allclose(merge(one, two).std_errors(*names), one.std_errors(*names) / np.sqrt(2), rtol=1e-9)


def test_a_release_without_a_name_goes_with_any():
    plan = ln.plan(SAME, ln.Budget(mu=1), baseline="uniform")
    named = plan.run(Table(DOMAIN, TABLE, "people"), random_source=SeededRandomSource(1))
    plain = plan.run(Table(DOMAIN, TABLE), random_source=SeededRandomSource(2))
    assert merge(plain, named).dataset == "people"


def refused(message, *results):
    with pytest.raises(ln.LeastnoiseError, match=f"^{re.escape(message)}$"):
        merge(*results)


def test_refuses_what_does_not_belong_together():
    (first,) = releases("uniform", [SAME])
    searched, given = releases("search", [work().prefix(ways=2)])[0], releases(GIVEN, [SAME])[0]
    same = "plan both with the same one, such as baseline='uniform'"
    refused(f"the releases have different baselines on 'a'; {same}", first, searched)
    refused(f"the releases have different baselines on 'a'; {same}", first, given)
    refused("there is nothing to merge; give at least one release")
    twice = "a release is given twice, or was made twice with one seed; give each release once"
    refused(twice, first, first)
    refused(twice, first, TableRelease(releases("uniform", [SAME])[0].parts))
    (replaced,) = releases("uniform", [SAME], neighbours="replace")
    refused(
        "one release hides adding or removing one row, another replacing one row, the number of rows "
        "being public; merge releases that hide the same",
        first,
        replaced,
    )
    (three,) = releases("uniform", [SAME], rows_per_person=3)
    refused(
        "one release hides adding or removing one row, another adding or removing one person with at most 3 rows; "
        "merge releases that hide the same",
        first,
        three,
    )


def test_refuses_other_data():
    plan = ln.plan(SAME, ln.Budget(mu=1), baseline="uniform")
    old, new = (
        plan.run(Table(DOMAIN, TABLE, name), random_source=SeededRandomSource(k))
        for k, name in enumerate(["2024", "2025"])
    )
    refused("the releases are of '2024' and '2025'; merge releases of the same data", old, new)
    other = ordered(3, 4, 2)
    there = ln.plan(Workload(other).marginals(ways=1), ln.Budget(mu=1)).run(
        Table(other, skewed_table(other)), random_source=SeededRandomSource(3)
    )
    refused(
        "the releases are on different domains; merge releases of the same attributes and values", merge(old), there
    )


def test_refuses_unlike_strategies_on_many_cells(monkeypatch):
    monkeypatch.setattr(state, "MERGE_CELLS", 5)
    result = releases("uniform", [work().marginals("a", "b"), work().prefix("a", "b")])
    refused("the releases measure 12 cells in different ways, too many to merge; use the same plan for both", *result)


def test_clamped_bins_from_before_and_after_their_ends_had_words(tmp_path):
    """Releases of clamped equal bins did not say that these are open-ended; they are of the same cells."""
    rows = pd.DataFrame({"pay": [1, 12, 25, 26] * 50})

    def released(open_ended, seed):
        domain = ln.Domain.of(pay=bins(0, 30, count=3, open_ended=open_ended))
        release = ln.plan(Workload(domain).marginals("pay"), ln.Budget(mu=1), baseline="uniform").run(
            rows, random_source=SeededRandomSource(seed)
        )
        release.save(tmp_path / str(seed))
        return ln.load(tmp_path / str(seed))

    before, after = released(False, 1), released(True, 2)
    assert "open_ended" not in (tmp_path / "1" / "release.json").read_text(encoding="utf-8")
    assert "open_ended" in (tmp_path / "2" / "release.json").read_text(encoding="utf-8")
    both = [merge(before, after), merge(after, before)]
    assert both[0].table("pay")["pay"].tolist() == ["0 to under 10", "10 to under 20", "20 to 30"]
    assert both[1].table("pay")["pay"].tolist() == ["under 10", "10 to under 20", "20 or more"]
    assert_allclose(both[0].counts("pay"), both[1].counts("pay"))
    assert_allclose(both[0].counts("pay"), (before.counts("pay") + after.counts("pay")) / 2)
    both[1].save(tmp_path / "both")
    again = ln.load(tmp_path / "both")
    questions = ["pay = '[20, 30]'", "pay = '20 or more'", "pay = '20 to 30'"]
    assert again.ask(questions[0]).value == again.ask(questions[1]).value == both[1].counts("pay")[2]
    assert merge(before, after).ask(questions[2]).value == pytest.approx(again.ask(questions[1]).value)
