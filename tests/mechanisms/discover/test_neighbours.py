"""What comes out of the engine for all pairs of neighbouring small data: at most so many counts move, by one each."""

import pytest

from tests.neighbours.crosses import FEW_RULES, SUBJECTS, Subject, people_cases
from tests.neighbours.mechanisms import keys
from tests.neighbours.suite import examine

PAGES = ("home", "shop", "help", "other", "?")


@pytest.mark.slow
def test_all_pairs_of_neighbours():
    """As SUBJECTS, and with keys of one person left out."""
    twice = Subject(keys("keys of two", PAGES, 2), {}, {"page": PAGES[:3]}, slow=True, people_only=True)
    for subject in (SUBJECTS["keys"], twice):
        verdicts = [examine(case) for case in people_cases(subject, FEW_RULES[1:2])]
        for verdict in verdicts:
            assert verdict.holds, str(verdict)
            assert verdict.shift > 0, str(verdict)
        assert sum(v.pairs for v in verdicts) > 500
        if subject is not twice:  # someone alone has all keys, and the cost is reached but for the grain of the noise
            assert max(v.shift / v.claimed for v in verdicts) >= 0.99
