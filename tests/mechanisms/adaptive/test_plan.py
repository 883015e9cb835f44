"""Adaptive releases from end to end: budgets, ledgers, failures, files, merges, and what they are good for."""

import threading
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import leastnoise as ln
from leastnoise.errors import DataError, LeastnoiseError
from leastnoise.mechanisms.adaptive import AdaptivePlan, adaptive_plan
from leastnoise.mechanisms.adaptive.candidates import Candidates
from leastnoise.noise import SecureRandomSource, SeededRandomSource
from leastnoise.planning.integer_plan_store import fingerprint
from leastnoise.privacy.ledger import BudgetError
from leastnoise.release import merge
from leastnoise.sources import Codes, Table
from leastnoise.workload import Workload
from tests.catalogue import WORKLOADS, generator, ordered
from tests.covering import examples
from tests.release.dense import Dense, skewed_table, subsets, table_rows
from tests.release.test_files import same_numbers

METHODS = ["survey", "aim"]
DOMAIN = ordered(3, 4, 2, 3)
WORK = Workload(DOMAIN).marginals(ways=2).prefix("b", weight=2)
COUNTS = skewed_table(DOMAIN)
BUDGET = ln.Budget(epsilon=1, delta=1e-9)


def released(select="survey", work=WORK, budget=BUDGET, seed=1, **options):
    return adaptive_plan(work, budget, select=select).run(
        Table(work.domain, skewed_table(work.domain)), random_source=SeededRandomSource(seed), **options
    )


# --- budgets ----------------------------------------------------------------------------------------------------------


@st.composite
def asked(draw):
    """Random workloads, budgets from epsilon 0.01 to 20, neighbours and rows per person."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    work = Workload(ordered(*sizes)).marginals(ways=1)
    for _ in range(draw(st.integers(0, 2))):
        family = draw(st.sampled_from(["prefix", "range", "circular", "marginal", "suffix"]))
        ways = draw(st.integers(1, min(3, len(sizes))))
        work = work.add(family, ways=ways, weight=draw(st.sampled_from([0.1, 1.0, 7.0])))
    if len(sizes) > 1 and draw(st.booleans()):
        work = work.add(draw(st.sampled_from(["affine", "abs_diff"])), ways=2)
    budget = ln.Budget(
        epsilon=draw(st.floats(0.01, 20)),
        delta=draw(st.sampled_from([1e-12, 1e-9, 1e-5])),
        neighbours=draw(st.sampled_from(["add-remove", "replace"])),
        rows_per_person=draw(st.sampled_from([None, 1, 3])),
    )
    return adaptive_plan(work, budget, select=draw(st.sampled_from(METHODS))), draw(st.integers(0, 10**6))


@pytest.mark.long
@settings(max_examples=examples(60))
@given(asked())
def test_spends_the_whole_budget_and_never_more(case):
    result, seed = case
    source = Table(result.workload.domain, generator(seed).poisson(9, result.workload.domain.shape))
    release = result.run(source, random_source=SeededRandomSource(seed))
    (part,), (origin,) = release.parts, release.origins
    spent, budget = release.cost.mu_squared, result.budget.exact_cost
    assert spent <= budget
    if result.budget.neighbours.size == "private" or max(result.workload.domain.shape) > 1:
        assert spent >= budget * Fraction(999, 1000)
    else:
        assert spent == 0  # nobody changes the total
    assert release.cost.change == result.budget.cost_value.change
    assert sum(r.cost for r in origin.adaptive.rounds) == spent
    assert part.integer_plan.selection <= budget / 5
    assert len(origin.adaptive.expected) == sum(b.tables for b in result.workload.blocks)
    errors = release.complete().errors()
    told = np.isfinite(errors["expected_l1"])
    assert (told if result.select == "survey" else told == errors["measured"]).all()


@pytest.mark.covering
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", [n for n in WORKLOADS if n not in {"contrasts", "two contrasts"}])
def test_every_kind_of_workload_can_be_asked_for(name, method, tmp_path):
    work = WORKLOADS[name]
    release = released(method, work, out=tmp_path / "out")
    same_numbers(ln.Release.load(tmp_path / "out"), release)
    assert release.cost.mu_squared >= BUDGET.exact_cost * Fraction(999, 1000)
    frame = release.complete().errors()
    assert len(frame) == sum(b.tables for b in work.blocks)
    for names, measured in zip(frame["table"], frame["measured"], strict=True):
        counts = release.complete().counts(*names)
        assert counts.shape == tuple(work.domain.shape[work.domain.index(n)] for n in names)
        if measured:
            assert np.isfinite(release.std_errors(*names)).all()


# --- ledgers and failures ---------------------------------------------------------------------------------------------


def book(path, budget=BUDGET, times=1):
    return ln.Ledger.create(path / "people.ledger", ln.Budget(mu=budget.mu * (times + 0.5) ** 0.5), "people")


class Watching(SecureRandomSource):
    """Bits that look at the ledger when the first of them is drawn; ledgers take no seeded ones."""

    def __init__(self, ledger):
        super().__init__()
        self.ledger, self.seen = ledger, None

    def words(self, count):
        if self.seen is None:
            self.seen = [e.cost.mu_squared for e in self.ledger.entries()]
        return super().words(count)


@pytest.mark.parametrize("method", METHODS)
def test_debit_comes_first_and_is_the_whole_budget(method, tmp_path):
    ledger = book(tmp_path)
    random_source = Watching(ledger)
    release = adaptive_plan(WORK, BUDGET, select=method).run(
        Table(DOMAIN, COUNTS, "people"), ledger=ledger, random_source=random_source
    )
    assert random_source.seen == [BUDGET.exact_cost]
    (entry,) = ledger.entries()
    assert release.origins[0].ledger_entry == entry.id
    assert release.cost.mu_squared <= entry.cost.mu_squared == BUDGET.exact_cost


class Failing(Table):
    """A source that fails after a chosen number of tables."""

    left = 0

    def count(self, sets):
        for table in super().count(sets):
            if not self.left:
                raise OSError("the connection is lost")
            object.__setattr__(self, "left", self.left - 1)
            yield table


@pytest.mark.long
@pytest.mark.parametrize("method", METHODS)
def test_what_fails_after_the_debit_stays_debited(method, tmp_path):
    ledger = book(tmp_path, times=9)
    for tables in (2, 3, 5, 8):
        source = Failing(DOMAIN, COUNTS, "people")
        object.__setattr__(source, "left", tables)
        with pytest.raises(DataError, match="could not read the data"):
            adaptive_plan(WORK, BUDGET, select=method).run(source, ledger=ledger, out=tmp_path / "out")
    assert [e.cost.mu_squared for e in ledger.entries()] == [BUDGET.exact_cost] * 4
    assert all(e.release is None for e in ledger.entries())
    assert [p.name for p in tmp_path.iterdir() if p.name.endswith("out") or "draft" in p.name] == []


@pytest.mark.parametrize("method", METHODS)
def test_nothing_is_spent_on_bad_input(method, tmp_path):
    ledger = book(tmp_path)
    source = Failing(DOMAIN, COUNTS, "people")
    with pytest.raises(DataError, match="could not read the data"):
        adaptive_plan(WORK, BUDGET, select=method).run(source, ledger=ledger)
    assert ledger.entries() == []


def test_of_two_at_once_one_is_refused(tmp_path):
    """Both want more than half of what the ledger holds; the one that comes second draws no noise."""
    ledger, barrier, outcomes = book(tmp_path), threading.Barrier(2), []

    def run():
        random_source = Watching(ledger)
        barrier.wait()
        try:
            adaptive_plan(WORK, BUDGET).run(
                Table(DOMAIN, COUNTS, "people"), ledger=tmp_path / "people.ledger", random_source=random_source
            )
            outcomes.append("released")
        except BudgetError:
            outcomes.append("refused" if random_source.seen is None else "drawn")

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["refused", "released"]
    assert len(ledger.entries()) == 1


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("budget", [BUDGET, ln.Budget(mu=1, neighbours="replace", rows_per_person=2)], ids=str)
def test_save_and_load_give_the_same_release(method, budget, tmp_path):
    release = released(method, budget=budget)
    release.save(tmp_path / "out")
    again = ln.Release.load(tmp_path / "out")
    same_numbers(again, release)
    assert again.origins[0].adaptive == release.origins[0].adaptive
    assert again.parts[0].integer_plan.selection == release.parts[0].integer_plan.selection > 0
    assert again.complete().errors().equals(release.complete().errors())
    for names in release.tables():
        assert_allclose(again.counts(*names), release.counts(*names), rtol=1e-12, atol=1e-9)
        assert_allclose(again.complete().counts(*names), release.complete().counts(*names), rtol=1e-9, atol=1e-6)


def test_same_seed_same_release_and_other_questions_other_fingerprints():
    one, two, other = released(seed=4), released(seed=4), released(seed=5)
    same_numbers(one, two)
    assert (
        fingerprint(one.parts[0].integer_plan) != fingerprint(other.parts[0].integer_plan)
        or one.total() != other.total()
    )
    prints = {
        AdaptivePlan(WORK, BUDGET).fingerprint,
        AdaptivePlan(WORK, BUDGET, "aim").fingerprint,
        AdaptivePlan(WORK, BUDGET, "aim", 50).fingerprint,
        AdaptivePlan(WORK.total(), BUDGET).fingerprint,
        AdaptivePlan(WORK, BUDGET, for_fit=True).fingerprint,
        AdaptivePlan(WORK, ln.Budget(mu=1)).fingerprint,
    }
    assert len(prints) == 6


# --- merges -----------------------------------------------------------------------------------------------------------


def check_least_squares(merged):
    dense = Dense(merged.parts)
    for attributes in subsets(len(DOMAIN)):
        rows, names = table_rows(DOMAIN, attributes), [DOMAIN.names[a] for a in attributes]
        if not dense.reaches(rows):
            with pytest.raises(LeastnoiseError, match="was not measured"):
                merged.counts(*names)
            continue
        assert_allclose(merged.counts(*names).ravel(), dense.answers(rows), rtol=0, atol=1e-9 * COUNTS.sum())
        assert_allclose(merged.std_errors(*names).ravel(), dense.std_errors(rows), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("method", METHODS)
def test_one_release_from_all_rounds_is_least_squares(method):
    """Residuals that were measured several times are averaged: the same as least squares over all measurements."""
    release = released(method)
    repeats = [len(p) for p in release.parts[0].integer_plan.noisy_queries]
    assert max(repeats) > 1
    check_least_squares(release)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("method", METHODS)
def test_merging_with_a_plan_and_with_another_adaptive_release(method, neighbours):
    budget = ln.Budget(mu=0.4, neighbours=neighbours)
    first, second = (
        released(method, budget=budget, seed=2),
        released("survey", Workload(DOMAIN).marginals(ways=2), budget, 3),
    )
    plan = ln.plan(Workload(DOMAIN).prefix("a", "b").marginals("c"), budget, baseline="uniform")
    batch = plan.run(Table(DOMAIN, COUNTS), random_source=SeededRandomSource(7))
    for others in ([batch], [second], [batch, second]):
        merged = merge(first, *others)
        check_least_squares(merged)
        assert merged.cost.mu_squared == sum(r.cost.mu_squared for r in [first, *others])


# --- what it is good for ----------------------------------------------------------------------------------------------


@pytest.mark.long
def test_fits_like_any_release():
    release = released(budget=ln.Budget(mu=5))
    counts = release.fit(seed=1).counts("a", "b")
    truth = COUNTS.sum(axis=(2, 3))
    assert counts.min() >= 0
    assert np.abs(counts - truth).sum() < 0.1 * truth.sum()


@pytest.mark.parametrize("method", METHODS)
def test_measures_what_independence_does_not_explain(method):
    """Two attributes that are equal, beside ten independent ones: their table is measured, at a small budget."""
    domain, rng = ln.Domain.of({f"x{i}": 6 for i in range(12)}), np.random.default_rng(3)
    codes = rng.integers(0, 6, (20_000, 12))
    codes[:, 7] = codes[:, 2]
    source = Codes(domain, codes)
    work = Workload(domain).marginals(ways=2)
    release = adaptive_plan(work, ln.Budget(epsilon=0.2, delta=1e-9), select=method).run(
        source, random_source=SeededRandomSource(1)
    )
    errors = release.complete().errors()
    assert dict(zip(errors["table"], errors["measured"], strict=True))["x2", "x7"]
    counts, truth = release.complete().counts("x2", "x7"), next(iter(source.count([(2, 7)])))
    assert np.abs(counts - truth).sum() < 0.5 * np.abs(truth - 20_000 / 36).sum()


def test_cost_per_round_is_told():
    (origin,) = released("aim").origins
    names = set(DOMAIN.names)
    for result in origin.adaptive.rounds:
        assert result.cost > 0
        assert all(set(table) <= names for table in result.measured)
    assert origin.adaptive.workload.domain == DOMAIN


def test_aims_are_public_and_made_once():
    plan = adaptive_plan(WORK, BUDGET)
    assert isinstance(plan.candidates, Candidates)
    assert plan.candidates is plan.candidates
