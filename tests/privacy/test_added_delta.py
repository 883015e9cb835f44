"""Costs and ledgers with an added delta: both parts add up exactly, and totals cover both."""

from dataclasses import replace
from fractions import Fraction

import pytest

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
    book = Ledger.create(tmp_path / "l", Budget(epsilon=1, delta=1e-9, neighbours=PEOPLE), "people")
    for share in range(3):
        book.debit(cost(0.01, 3 * TENTH), f"keys {share}")
    with pytest.raises(BudgetError, match=r"brings the deltas that are added to 1\.2e-09"):
        book.debit(cost(0.01, 3 * TENTH), "more keys")
    assert len(book.entries()) == 3


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
