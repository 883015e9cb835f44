"""Kills processes in the middle of debits: `python -m tests.privacy.crash LEDGER TRIALS SEED`, one JSON line per trial.

A program of its own, because it forks: a fresh interpreter per trial would take most of the time.
"""

import json
import os
import random
import signal
import sys
import time
from fractions import Fraction

from leastnoise.privacy import Cost, Ledger

COST = Cost(Fraction(1, 10**9))
LENGTH = 16  # of the longest trial, in debits


def spend(ledger: Ledger, acknowledge: int) -> None:
    """Debit until killed; a byte for every debit that returned."""
    while True:
        ledger.debit(COST, "plan")
        os.write(acknowledge, b".")


def trial(ledger: Ledger, seconds: float) -> int:
    """Number of debits that a process saw returning before it was killed."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        spend(ledger, writer)
    os.close(writer)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "the process ended by itself"
    acknowledged = 0
    while chunk := os.read(reader, 4096):
        acknowledged += len(chunk)
    os.close(reader)
    return acknowledged


def main(path: str, trials: int, seed: int) -> None:
    """Run the trials, each on what the one before left behind."""
    rng = random.Random(seed)
    ledger = Ledger.open(path)
    started = time.perf_counter()
    for _ in range(10):
        ledger.debit(COST, "plan")
    one = (time.perf_counter() - started) / 10
    for _ in range(trials):
        before = len(ledger.entries())
        acknowledged = trial(ledger, rng.uniform(0, LENGTH * one))
        journal = os.path.exists(f"{path}-journal")  # a debit that was cut off and must be undone
        after = len(Ledger.open(path).entries())
        print(json.dumps({"acknowledged": acknowledged, "counted": after - before, "journal": journal}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
