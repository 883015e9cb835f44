"""What adaptive releases read, keep and give away: call sites, replays without data, privacy loss over all neighbours.

All seeds are fixed, so nothing here fails by chance; the rates in comments are those over seeds.
"""

import gc
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, combinations, product
from math import log, sqrt
from pathlib import Path
from types import FunctionType, ModuleType

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.audit.adaptive import of_adaptive
from leastnoise.audit.bounds import LOOKS, bounds
from leastnoise.audit.judge import examine
from leastnoise.mechanisms import gate
from leastnoise.mechanisms import measurement as measuring
from leastnoise.mechanisms.adaptive import aim, survey, surveyed
from leastnoise.mechanisms.adaptive.plan import adaptive_plan
from leastnoise.mechanisms.adaptive.select import Distances, Selection, distance
from leastnoise.mechanisms.adaptive.survey import Survey
from leastnoise.noise import SeededRandomSource
from leastnoise.planning.integer_plan_store import fingerprint
from leastnoise.privacy.exponential_mechanism import exponential_mechanism_cost
from leastnoise.sources import Table
from leastnoise.workload import Workload
from tests.catalogue import ordered
from tests.mechanisms.adaptive.test_select import exact as probabilities_of
from tests.release.dense import skewed_table

ROOT = Path(__file__).parents[3]
METHODS = ["survey", "aim"]
DOMAIN = ordered(3, 4, 2, 3)
COUNTS = skewed_table(DOMAIN)
WORKS = {
    "marginals": Workload(DOMAIN).marginals(ways=2),
    "three ways": Workload(DOMAIN).marginals(ways=3).prefix("b", weight=2),
    "mixed": Workload(DOMAIN).add({"a": "prefix", "b": "range"}).ranges("b", by="c").affine("a", "d").marginals(ways=1),
}
BUDGETS = [
    ln.Budget(mu=1),
    ln.Budget(rho=0.1, neighbours="replace"),
    ln.Budget(epsilon=1, delta=1e-9, rows_per_person=3),
    ln.Budget(mu=2, neighbours="replace", rows_per_person=2),
]


# --- who reads data ---------------------------------------------------------------------------------------------------


class Private(np.ndarray):
    """Counts that refuse to become floating-point numbers."""

    def __array_finalize__(self, obj):
        assert self.dtype.kind in "iubO", "private counts became floating-point numbers"

    def __float__(self):
        raise AssertionError("a private count became a floating-point number")


class Watched:
    """A source that remembers which functions of the package asked the gate for counts."""

    name = None

    def __init__(self, domain, counts):
        self.domain, self._table, self.sites = domain, Table(domain, counts), set()

    def count(self, sets):
        frame, results = sys._getframe(1), []
        while frame is not None:
            if f"{ROOT}/src/leastnoise" in frame.f_code.co_filename and "gate.py" not in frame.f_code.co_filename:
                results.append(frame.f_code.co_qualname)
            frame = frame.f_back
        self.sites.add(results[0] if results[0] in {"run_once", "_batches"} else tuple(results[:2]))
        return self._table.count(sets)


READERS = {  # of measurements the innermost function, elsewhere the innermost two
    "survey": {("Mechanism.look", "run_once"), "_batches", ("_distances", "Survey.take")},
    "aim": {
        ("Mechanism.look", "run_once"),
        "_batches",
        ("Distances.refresh", "Distances.__init__"),
        ("Distances.refresh", "AimRounds._round"),
    },
}


@pytest.mark.parametrize("method", METHODS)
def test_only_surveys_choices_and_measurements_read_data(method, monkeypatch):
    seen, checked = set(), gate._checked
    monkeypatch.setattr(gate, "_checked", lambda *given: checked(*given).view(Private))
    few = None if method == "survey" else 5  # rounds, so that something is left to look at in the end
    for work, rounds in product(WORKS.values(), [None, few]):
        source = Watched(DOMAIN, COUNTS)
        adaptive_plan(work, ln.Budget(mu=0.3), select=method, rounds=rounds).run(
            source, random_source=SeededRandomSource(1)
        )
        seen |= source.sites
    assert seen == READERS[method]


def reachable(start) -> Iterator[object]:
    """Everything that an object holds on to; of functions what they enclose, not the module they are in."""
    seen, todo = set(), [start]
    while todo:
        item = todo.pop()
        if id(item) in seen or isinstance(item, type | ModuleType):
            continue
        seen.add(id(item))
        yield item
        if isinstance(item, FunctionType):
            todo.extend([item.__closure__, item.__defaults__])
        else:
            todo.extend(gc.get_referents(item))
            if isinstance(item, np.ndarray):
                todo.append(item.base)


@pytest.mark.parametrize("method", METHODS)
def test_nothing_private_is_kept(method):
    """No source, no marginal of the data and no exact distance is left anywhere behind a release or what made it."""
    source = Watched(DOMAIN, COUNTS)
    plan = adaptive_plan(WORKS["three ways"], ln.Budget(mu=0.3), select=method)
    release = plan.run(source, random_source=SeededRandomSource(1))
    release.complete().counts("a", "b")
    sets = [s for k in range(1, 5) for s in combinations(range(4), k)]
    tables = {t.astype(float).tobytes() for t in Table(DOMAIN, COUNTS).count(sets)}
    arrays = 0
    for item in chain(reachable(release), reachable(plan)):
        assert not isinstance(item, Watched | Table | Private | Distances)
        if isinstance(item, np.ndarray) and item.dtype.kind in "iuf" and item.size > 1:
            arrays += 1
            pieces = item if item.ndim == 2 else [item]
            assert not any(np.ascontiguousarray(p, dtype=float).tobytes() in tables for p in pieces)
    assert arrays > 20


# --- what is published ------------------------------------------------------------------------------------------------


class Transcript:
    """Everything that a run publishes, in order: measurements, surveys and choices, each with what they depend on."""

    def __init__(self, patch: pytest.MonkeyPatch):
        self.events, self._distances = [], None
        for module in (surveyed, aim):
            patch.setattr(module, "measure", self._measure)
        take, choose, start = Survey.take, Selection.choose, Distances.__init__

        def taken(result, source, estimate, random_source):
            estimates = {g.view.members: estimate(g.view.members) for g in result.gauges}
            seen = take(result, source, estimates.__getitem__, random_source)
            self.events.append(("survey", result, estimates, seen))
            return seen

        def begun(result, source, estimates):
            start(result, source, estimates)
            self._distances = result

        def drawn(result, distances, allowances, random_source):
            estimates = {c: self._distances._estimates.table(c) for c in result.candidates}
            results = choose(result, distances, allowances, random_source)
            self.events.append(("choice", result, (estimates, allowances), results))
            return results

        patch.setattr(Survey, "take", taken)
        patch.setattr(Distances, "__init__", begun)
        patch.setattr(Selection, "choose", drawn)

    def _measure(self, integer_plan, source, random_source):
        measurements = measuring.measure(integer_plan, source, random_source)
        self.events.append(("measure", integer_plan, None, measurements))
        return measurements


def means(event, source):
    """Exact numbers behind the noise of a measurement or a survey, with the variances: (number, variance) each."""
    kind, result, estimates, _ = event
    if kind == "survey":
        for gauge, variance in zip(result.gauges, result.variances, strict=True):
            (counts,) = source.count([gauge.view.members])
            yield np.array([gauge.distance(counts, estimates[gauge.view.members])], dtype=float), float(variance)
        return
    total = gate.Counts(source).total
    for orbit, noisy_queries in zip(result.structure.orbits, result.noisy_queries, strict=True):
        sets = [tuple(s) for s in result.structure.sets(orbit).tolist()]
        for noisy_query in noisy_queries:
            exact = noisy_query.strategy.apply(np.stack(list(source.count(sets))), total)
            yield exact.astype(float).ravel(), float(noisy_query.variance)


def published(event):
    """The noisy numbers, in the order of `means`."""
    kind, _, _, result = event
    if kind == "survey":
        return [np.array([x * survey.GRID]) for x in result]
    return [np.asarray(answers, dtype=float).ravel() for noisy_queries in result.answers for answers in noisy_queries]


def choice_logs(event, source):
    """Logarithms of the probabilities of all candidates."""
    _, result, (estimates, allowances), _ = event
    distances = {c: distance(next(iter(source.count([c]))), estimates[c]) for c in result.candidates}
    scores = [w * (distances[c] - allowances[c]) for c, w in zip(result.candidates, result.weights, strict=True)]
    steps = [result.epsilon.numerator * (max(scores) - s) for s in scores]
    weights = probabilities_of(steps, result.epsilon.denominator * 2 * result.sensitivity * survey.GRID)
    return np.array([log(w) for w in weights])


def loss(events, one, other):
    """mu^2 that distinguishes two datasets at most, given what was published: shifts over noise, and choices."""
    value = 0.0
    for event in events:
        if event[0] == "choice":
            moved = choice_logs(event, one) - choice_logs(event, other)
            assert moved.max() - moved.min() <= float(event[1].epsilon) * (1 + 1e-9)
            value += float(exponential_mechanism_cost(event[1].epsilon))
            continue
        for (x, variance), (y, _) in zip(means(event, one), means(event, other), strict=True):
            if variance:
                value += float(((x - y) ** 2).sum()) / variance
            else:
                assert (x == y).all()  # without noise only what nobody changes
    return value


def neighbours(counts, budget, rng, number):
    """Some of the datasets that differ by one person, the extreme ones of a person with equal rows among them."""
    cells = list(np.ndindex(counts.shape))
    for _ in range(number):
        changed, rows = counts.copy(), budget.neighbours.rows
        if budget.neighbours.change == "replace":
            present = [c for c in cells if counts[c] >= rows]
            changed[present[rng.integers(len(present))]] -= rows
        changed[cells[rng.integers(len(cells))]] += rows
        yield changed


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("work", WORKS)
def test_whatever_is_published_stays_within_the_budget(work, method, budget, monkeypatch, rng):
    """The condition of adaptive composition, term by term: given the past, each step moves by no more than it pays."""
    transcript = Transcript(monkeypatch)
    release = adaptive_plan(WORKS[work], budget, select=method).run(
        Table(DOMAIN, COUNTS), random_source=SeededRandomSource(2)
    )
    paid, here = float(release.cost.mu_squared), Table(DOMAIN, COUNTS)
    losses = [loss(transcript.events, here, Table(DOMAIN, t)) for t in neighbours(COUNTS, budget, rng, 6)]
    assert max(losses) <= paid * (1 + 1e-9) <= float(budget.exact_cost) * (1 + 2e-9)
    floor = 0.3 if budget.neighbours.change == "add-remove" else 0.1  # random cells are not the worst ones
    assert max(losses) >= floor * paid


def replayed(events, patch):
    """Answer the same questions from a transcript; any other question fails."""
    rest = list(events)

    def answer(kind, check):
        name, recorded, details, result = rest.pop(0)
        assert name == kind
        check(recorded, details)
        return result

    def measure(integer_plan, source, random_source):
        def check(recorded, _):
            assert fingerprint(integer_plan) == fingerprint(recorded)

        return answer("measure", check)

    def take(own, source, estimate, random_source):
        def check(recorded, estimates):
            assert [g.view.members for g in own.gauges] == [g.view.members for g in recorded.gauges]
            assert own.variances == recorded.variances
            assert all(estimate(m).tobytes() == e.tobytes() for m, e in estimates.items())

        return answer("survey", check)

    def choose(own, distances, allowances, random_source):
        def check(recorded, details):
            assert own == recorded
            assert allowances == details[1]

        return answer("choice", check)

    for module in (surveyed, aim):
        patch.setattr(module, "measure", measure)
    patch.setattr(Survey, "take", take)
    patch.setattr(Selection, "choose", choose)
    patch.setattr(Distances, "refresh", lambda self, changed: None)
    return rest


class Nothing:
    """Neither data nor random bits."""

    domain, name, insecure = DOMAIN, None, True

    def count(self, sets):
        raise AssertionError("data was read")

    def words(self, count):
        raise AssertionError("noise was drawn")


@pytest.mark.parametrize("budget", [BUDGETS[0], BUDGETS[1]], ids=str)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("work", WORKS)
def test_decisions_follow_from_what_is_published(work, method, budget, monkeypatch):
    """The same loop without data or noise, from the published numbers alone: the same release, bit for bit."""
    plan = adaptive_plan(WORKS[work], budget, select=method)
    with monkeypatch.context() as patch:
        transcript = Transcript(patch)
        first = plan.measure(gate.Counts(Table(DOMAIN, COUNTS)), SeededRandomSource(3))
    with monkeypatch.context() as patch:
        rest = replayed(transcript.events, patch)
        second = plan.measure(Nothing(), Nothing())
    assert not rest
    assert second.origins[0].adaptive == first.origins[0].adaptive
    (measured,), (again,) = first.parts, second.parts
    assert fingerprint(again.integer_plan) == fingerprint(measured.integer_plan)
    for one, other in zip(chain(*again.answers), chain(*measured.answers), strict=True):
        assert one.tobytes() == other.tobytes()


# --- audit ------------------------------------------------------------------------------------------------------------

TINY = ordered(2, 2)
TINY_WORK = Workload(TINY).marginals(ways=2)
CONFIDENCE = 0.999


def scores(method, budget, runs, patch):
    """Log-likelihood ratios of whole transcripts, for runs on each of two neighbours that differ in one cell."""
    one = np.array([[5, 3], [2, 4]])
    other = one + np.array([[budget.neighbours.rows, 0], [0, 0]])
    tables = Table(TINY, one), Table(TINY, other)
    plan = adaptive_plan(TINY_WORK, budget, select=method, rounds=3 if method == "aim" else None)
    transcript, random_source, results = Transcript(patch), SeededRandomSource(9), ([], [])
    for dataset in (0, 1):
        for _ in range(runs):
            transcript.events.clear()
            plan.measure(gate.Counts(tables[dataset]), random_source)
            results[dataset].append(sum(ratio(e, tables) for e in transcript.events))
    return [np.array(f)[:, None] for f in results]


def ratio(event, tables):
    """Log-likelihood ratio of one published step."""
    if event[0] == "choice":
        place = event[1].candidates.index(event[3])
        return choice_logs(event, tables[1])[place] - choice_logs(event, tables[0])[place]
    value = 0.0
    for y, (m0, variance), (m1, _) in zip(published(event), *(means(event, t) for t in tables), strict=True):
        value += float((m1 - m0) @ (y - (m0 + m1) / 2)) / variance
    return value


def audited(method, budget, runs, patch):
    """Lower bounds on mu and epsilon that hold with the stated confidence."""
    rate = (1 - CONFIDENCE) / (2 * LOOKS)
    return bounds(scores(method, budget, runs, patch), np.array([budget.cost]), rate, 1e-6)


@pytest.mark.long
@pytest.mark.parametrize("runs", [120, pytest.param(1500, marks=pytest.mark.slow)])
@pytest.mark.parametrize("method", METHODS)
def test_audits_find_nothing_against_the_claim(method, runs, monkeypatch):
    """The best test there is, on whole transcripts: a false alarm has probability 1e-3 at most over seeds."""
    budget = ln.Budget(mu=2)
    mu, epsilon = audited(method, budget, runs, monkeypatch)
    assert 0.2 < mu <= budget.mu
    assert epsilon <= budget.epsilon_at(1e-6)


@pytest.mark.long
@pytest.mark.parametrize("method", METHODS)
def test_audits_find_a_quarter_of_the_noise(method, monkeypatch):
    for module in (measuring, survey):
        full = module.rounded_gaussian
        monkeypatch.setattr(module, "rounded_gaussian", lambda b, v, size, full=full: full(b, v / 16, size))
    assert audited(method, ln.Budget(mu=1), 120, monkeypatch)[0] > 1


def test_the_cost_of_two_neighbours_is_that_of_the_worst_cell(monkeypatch):
    """On two attributes of two values every cell is alike: one row is worth all that measurements cost."""
    transcript = Transcript(monkeypatch)
    release = adaptive_plan(TINY_WORK, ln.Budget(mu=1)).run(
        Table(TINY, np.full((2, 2), 9)), random_source=SeededRandomSource(1)
    )
    more = np.full((2, 2), 9)
    more[0, 1] += 1
    result = loss(
        [e for e in transcript.events if e[0] == "measure"], Table(TINY, np.full((2, 2), 9)), Table(TINY, more)
    )
    measured = release.cost.mu_squared - release.parts[0].integer_plan.selection
    assert sqrt(result) == pytest.approx(sqrt(measured), rel=1e-9)


REPLACE = pytest.param(ln.Budget(mu=1.5, neighbours="replace"), marks=pytest.mark.slow)


@pytest.mark.long
@pytest.mark.parametrize("budget", [ln.Budget(mu=1.5), REPLACE], ids=str)
@pytest.mark.parametrize("method", METHODS)
def test_false_alarms_are_rare(method, budget):
    """The auditor on whole releases: a false alarm has probability 1e-3 at most over seeds."""
    audit = adaptive_plan(TINY_WORK, budget, select=method).audit(100, CONFIDENCE, seed=5)
    assert audit.ok, audit
    assert audit.mu <= audit.pair_mu <= audit.claimed_mu * (1 + 1e-9)
    assert audit.claimed_mu == budget.mu
    assert (audit.runs, audit.repeats, audit.insecure) == (100, 0, True)
    assert audit.pair_mu >= 0.8 * budget.mu  # most of the budget is spent on measurements


@pytest.mark.long
def test_too_little_noise_is_flagged(monkeypatch):
    full = measuring.rounded_gaussian
    monkeypatch.setattr(measuring, "rounded_gaussian", lambda b, v, size: full(b, v / 25, size))
    audit = adaptive_plan(TINY_WORK, ln.Budget(mu=1)).audit(120, CONFIDENCE, seed=5)
    assert not audit.ok
    assert audit.verdict.startswith("VIOLATION: mu is at least")


@pytest.mark.long
def test_a_reused_seed_is_flagged():
    subject = of_adaptive(adaptive_plan(TINY_WORK, ln.Budget(mu=1)))
    (trial,) = subject.trials
    again = replace(trial, release=lambda source, _: trial.release(source, SeededRandomSource(1)))
    audit = examine(replace(subject, trials=[again]), 100)
    assert audit.repeats >= 198
    assert audit.verdict.startswith("VIOLATION: ")
    assert "repeat the noise of another run" in audit.verdict


def test_audits_of_few_runs_are_refused():
    with pytest.raises(ln.LeastnoiseError) as error:
        adaptive_plan(TINY_WORK, ln.Budget(mu=1)).audit(10)
    assert str(error.value) == "an audit of 10 runs says nothing; use at least 100, better 10,000"
