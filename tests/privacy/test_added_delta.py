"""Costs and ledgers with an added delta: both parts add up exactly, and totals cover both."""

from dataclasses import replace
from fractions import Fraction
from math import exp, sqrt

import pytest
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import norm

from leastnoise.errors import LeastnoiseError
from leastnoise.privacy import Budget, BudgetError, Cost, Ledger
from leastnoise.privacy.accounting import dp_event
from leastnoise.privacy.neighbours import Neighbours
from tests.shell import call

PEOPLE = Neighbours(rows_per_person=1)
TENTH = Fraction(1, 10**10)


def cost(share: float, delta: Fraction = TENTH) -> Cost:
    """So much of the mu^2 that fits epsilon 1 beside nine tenths of delta 1e-9."""
    whole = Budget(epsilon=1, delta=9e-10).exact_cost
    return Cost(whole * Fraction(str(share)), PEOPLE, delta)


def test_adds_up_exactly():
    total = cost(0.2) + cost(0.3, TENTH / 3)
    assert (total.mu_squared, total.added_delta) == (cost(0.5).mu_squared, TENTH * 4 / 3)
    assert Cost.from_json(total.to_json()) == total
    assert "added_delta" not in cost(0.5, Fraction(0)).to_json()


def test_delta_is_never_optimistic():
    plain, more = cost(0.5, Fraction(0)), cost(0.5)
    for epsilon in (0.0, 0.3, 1.0):
        assert Fraction(more.delta_at(epsilon)) >= Fraction(plain.delta_at(epsilon)) + TENTH
    assert more.epsilon_at(1e-9) > plain.epsilon_at(1e-9)
    assert more.epsilon_at(1e-9) >= plain.epsilon_at(9.0000001e-10)
    with pytest.raises(LeastnoiseError, match="no epsilon holds at delta 1e-11"):
        more.epsilon_at(1e-11)


@pytest.mark.parametrize("delta", [Fraction(-1, 9), Fraction(1), 0.5])
def test_bad_deltas_are_refused(delta):
    with pytest.raises(LeastnoiseError, match="added delta"):
        Cost(Fraction(1), PEOPLE, delta)


def test_costs_with_different_deltas_have_no_order():
    with pytest.raises(LeastnoiseError, match="have no order"):
        _ = cost(0.1) < cost(0.2, Fraction(0))


def test_added_deltas_count_in_ledgers(tmp_path):
    """What fits beside an added delta is what epsilon allows at the rest of delta, and no more."""
    book = Ledger.create(tmp_path / "l", Budget(epsilon=1, delta=1e-9, neighbours=PEOPLE), "people")
    book.debit(cost(0.2), "keys")
    again = Ledger.open(tmp_path / "l")
    assert again.spent == cost(0.2)
    assert again.entries()[0].cost == cost(0.2)
    with pytest.raises(BudgetError, match="this release costs"):
        again.debit(cost(0.8001, Fraction(0)), "tables")
    again.debit(cost(0.7999, Fraction(0)), "tables")
    assert again.spent.delta_at(1) <= 1e-9
    assert again.spent.epsilon_at(1e-9) <= 1
    assert 0 <= again.left.mu_squared < cost(0.001).mu_squared


def test_deltas_beyond_the_total_are_refused(tmp_path):
    total = Budget(epsilon=1, delta=1e-9, neighbours=PEOPLE)
    book = Ledger.create(tmp_path / "l", total, "people", keys_delta=9.5e-10)
    for share in range(3):
        book.debit(cost(0.01, 3 * TENTH), f"keys {share}")
    with pytest.raises(BudgetError, match=r"brings the deltas that are added to 1\.2e-09"):
        book.debit(cost(0.01, 3 * TENTH), "more keys")
    assert len(book.entries()) == 3


def chosen_after_a_look(epsilon: float, delta: float, added: float) -> float:
    """The delta of an analyst who releases all that fits beside `added`, and only then, by what was published, either
    finds keys for `added` or spends the rest of mu^2: one that fits delta in both cases.
    """
    first = Budget(epsilon=epsilon, delta=delta - added).mu
    rest = sqrt(Budget(epsilon=epsilon, delta=delta).cost - first**2)

    def best(x: float) -> float:
        left = epsilon - (first * x - first**2 / 2)  # of epsilon, after so much is known
        keys = added + (1 - added) * max(0.0, 1 - exp(left))
        tables = ndtr(rest / 2 - left / rest) - exp(left) * ndtr(-rest / 2 - left / rest)
        return float(max(keys, tables) * norm.pdf(x - first))

    middle = (epsilon + first**2 / 2) / first
    return float(quad(best, first - 12, first + 12, points=[middle - 1, middle, middle + 1], limit=500)[0])


@pytest.mark.parametrize("added", [1e-4, 1e-3, 5e-3])
def test_delta_and_noise_must_not_be_chosen_after_a_look(added):
    """Which is why a ledger fixes what is for keys before the first release: otherwise the total is exceeded."""
    delta = chosen_after_a_look(1.0, 0.01, added)
    assert 0.01 + added / 2 < delta <= 0.01 + added


def test_deltas_are_set_aside_before_the_first_release(tmp_path):
    total = Budget(epsilon=1, delta=1e-9, neighbours=PEOPLE)
    book = Ledger.create(tmp_path / "tables first", total, "people")
    book.debit(cost(0.5, Fraction(0)), "tables")
    with pytest.raises(BudgetError, match="sets none of its delta aside for finding keys") as error:
        book.debit(cost(0.1), "keys")
    assert "\n" not in str(error.value)
    first = Ledger.create(tmp_path / "keys first", total, "people")
    first.debit(cost(0.1, TENTH / 3), "keys")
    first.debit(cost(0.1, Fraction(0)), "tables")
    first.debit(cost(0.1, TENTH / 3), "more keys")  # a tenth was set aside
    with pytest.raises(BudgetError, match="sets 1e-10 of its delta aside"):
        first.debit(cost(0.1, TENTH / 2), "too many")
    assert first.left.mu_squared == cost(0.7).mu_squared
    told = Ledger.create(tmp_path / "told", total, "people", keys_delta=5e-10)
    assert Ledger.open(tmp_path / "told") == told
    assert told.left.mu_squared == Budget(epsilon=1, delta=5e-10).exact_cost  # from the beginning
    told.debit(cost(0.1, Fraction(0)), "tables")
    told.debit(cost(0.1, 5 * TENTH), "keys")
    assert told.left.mu_squared == Budget(epsilon=1, delta=5e-10).exact_cost - cost(0.2).mu_squared


@pytest.mark.parametrize(
    ("budget", "delta", "message"),
    [
        ({"mu": 1}, 1e-10, "keys_delta is a part of delta"),
        ({"epsilon": 1, "delta": 1e-9}, 1e-9, "below delta 1e-09"),
        ({"epsilon": 1, "delta": 1e-9}, "x", "above 0"),
    ],
)
def test_bad_parts_of_delta_are_refused(tmp_path, budget, delta, message):
    with pytest.raises(LeastnoiseError, match=message):
        Ledger.create(tmp_path / "l", Budget(**budget, neighbours=PEOPLE), "people", keys_delta=delta)
    assert not (tmp_path / "l").exists()


def test_totals_without_a_delta_refuse(tmp_path):
    book = Ledger.create(tmp_path / "l", Budget(mu=3, neighbours=PEOPLE), "people")
    with pytest.raises(BudgetError, match="use a ledger with epsilon and delta") as error:
        book.debit(cost(0.1), "keys")
    assert "\n" not in str(error.value)
    assert not book.entries()


def test_raises_leave_room_for_deltas(tmp_path):
    book = Ledger.create(tmp_path / "l", Budget(epsilon=1, delta=1e-9, neighbours=PEOPLE), "people")
    book.debit(cost(0.5), "keys")
    with pytest.raises(LeastnoiseError, match="leaves no room for what was spent"):
        book.raise_total(Budget(mu=5, neighbours=PEOPLE), "more")
    before = book.left
    assert book.raise_total(Budget(epsilon=2, delta=1e-9, neighbours=PEOPLE), "more").left > before


def test_the_command_line_shows_them(tmp_path, capsys):
    book = Ledger.create(tmp_path / "l", Budget(epsilon=1, delta=1e-9, neighbours=PEOPLE), "people")
    book.debit(cost(0.1), "keys")
    code, out, _ = call(capsys, "ledger", "show", tmp_path / "l")
    assert code == 0
    assert "finding keys added 1e-10 to delta" in out
    assert "of them fit" in out
    assert call(capsys, "ledger", "show", tmp_path / "l", "--json")[0] == 0


def test_other_libraries_have_no_such_events():
    pytest.importorskip("dp_accounting")
    with pytest.raises(LeastnoiseError, match="add 1e-10 to the delta that its accountant states"):
        dp_event(cost(0.5))
    dp_event(replace(cost(0.5), added_delta=Fraction(0)))
