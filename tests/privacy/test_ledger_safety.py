"""Several processes at once: the ledger is never overspent. Processes that are killed are in tests/kills."""

import multiprocessing
import os
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest

from leastnoise.privacy import Budget, BudgetError, Cost, Ledger

SPAWN = multiprocessing.get_context("spawn")  # as on a machine where the processes have nothing in common
TOTAL = Budget(mu=1)


def outcome(ledger: Ledger, cost: Cost) -> str:
    try:
        ledger.debit(cost, f"process {os.getpid()}")
    except BudgetError:
        return "refused"
    return "won"


def compete(paths, cost, barrier, results) -> None:
    """One debit per ledger, at the same moment as the others."""
    lines = []
    for path in paths:
        ledger = Ledger.open(path)
        barrier.wait(60)
        lines.append(outcome(ledger, cost))
    results.put(lines)


def race(paths: list[Path], cost: Cost, processes: int) -> list[tuple[str, ...]]:
    barrier, results = SPAWN.Barrier(processes), SPAWN.Queue()
    workers = [SPAWN.Process(target=compete, args=(paths, cost, barrier, results)) for _ in range(processes)]
    for worker in workers:
        worker.start()
    reported = [results.get(timeout=90) for _ in workers]
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    results.close()
    results.join_thread()
    return list(zip(*reported, strict=True))


@pytest.mark.long
def test_two_processes_cannot_overspend(tmp_path):
    paths = [tmp_path / f"{k}.ledger" for k in range(100)]
    for path in paths:
        Ledger.create(path, TOTAL, "people")
    rounds = race(paths, Cost(Fraction(3, 5)), 2)
    assert Counter(tuple(sorted(messages)) for messages in rounds) == {("refused", "won"): 100}
    for path in paths:
        assert [entry.cost.mu_squared for entry in Ledger.open(path).entries()] == [Fraction(3, 5)]


@pytest.mark.long
def test_many_debits_of_several_processes_fill_the_budget_exactly(tmp_path):
    path = tmp_path / "people.ledger"
    ledger = Ledger.create(path, TOTAL, "people")
    rounds = race([path] * 15, Cost(Fraction(1, 20)), 3)  # 45 tries for 20 places
    assert Counter(word for messages in rounds for word in messages) == {"won": 20, "refused": 25}
    assert ledger.left.mu_squared == 0
    assert [entry.id for entry in ledger.entries()] == list(range(1, 21))
