"""What a ledger promises covers all releases that are debited from it, together."""

from fractions import Fraction

import pytest

import leastnoise as ln
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.tree import Tree
from leastnoise.privacy.ledger import BudgetError
from tests.neighbours import mechanisms as kinds
from tests.neighbours.crosses import ADDED, DROPPED, PEOPLE, REPLACED, SUBJECTS, unit
from tests.neighbours.data import people_of, rows_of
from tests.neighbours.mechanisms import silent
from tests.neighbours.shifts import Output, worst
from tests.neighbours.suite import planned

ITEMS = ln.Domain.of(item=range(4))
TREE = Tree.regular([2, 2])
KINDS = [
    kinds.tables("plan", ln.Workload(ITEMS).marginals(ways=1).prefix("item")),
    kinds.matrix("matrix", ln.running_totals(4), items={"item": range(4)}),
    kinds.cascade("cascade", {"item": TREE}),
]
EXACT = kinds.cascade("exact counts", {"item": TREE}, exact_level=1)
KEEPING = {"rules": {"item": {"outside": "clamp", "missing": 1}}}
DROPPING = {"rules": {"item": {"outside": "drop", "missing": "drop"}}}
UNITS = {"rules": DROPPING["rules"], "unit": unit(3, "drop")}
LEDGERS = {"mu": 1.8}  # enough for three releases of mu 1


def spent_and_shift(folder, mechanisms, budget, universe, options):
    """What the ledger of each data set has spent, and how far two neighbours are apart in all that was published."""
    outputs, neighbours = [], ln.Budget(**budget).neighbours
    for place, numbers in enumerate(universe.sets):
        ledger = ln.Ledger.create(folder / f"{place}", ln.Budget(**{**budget, **LEDGERS}), dataset="people")
        values: list[int] = []
        variances: list[Fraction] = []
        for mechanism in mechanisms:
            plan = planned(mechanism, tuple(budget.items()))
            with silent(None):
                publish = mechanism.publish(plan, universe.data(numbers), {**options, "ledger": ledger}, None)
            values += publish.values
            variances += publish.variances
        assert ledger.total.neighbours == neighbours
        outputs.append(Output(ledger.spent, tuple(values), tuple(variances)))
    return outputs[0].cost.mu_squared, worst(outputs, universe.pairs(neighbours)).shift


@pytest.mark.long
@pytest.mark.parametrize(
    ("budget", "options"), [(ADDED, DROPPING), (REPLACED, KEEPING), (DROPPED, DROPPING), (PEOPLE[-1], UNITS)]
)
def test_releases_of_one_ledger_stay_within_what_it_spent(tmp_path, budget, options):
    rows = [(0,), (3,), (9,)]
    if "unit" in options:
        universe = people_of(["item"], rows, {"p": 2, "r": 1, None: 1}, ((),))
    else:
        universe = rows_of({"item": (0, 1, 3, 9, None)}, 1)
    spent, shift = spent_and_shift(tmp_path, KINDS, budget, universe, options)
    assert 0 < shift <= spent <= Fraction(18, 10) ** 2


@pytest.mark.long
@pytest.mark.parametrize("change", ["add-remove", "replace"])
def test_releases_with_different_bounds_share_a_ledger(tmp_path, change):
    """Each release counts another number of rows of a person, and the person has more than some of them count."""
    universe = people_of(["item"], [(0,), (3,), (9,)], {"p": 2, "r": 1, None: 1}, ((),))
    total = ln.Budget(**LEDGERS, neighbours=change, rows_per_person=1)
    outputs = []
    for place, numbers in enumerate(universe.sets):
        ledger = ln.Ledger.create(tmp_path / f"{place}", total, dataset="people")
        values: list[int] = []
        variances: list[Fraction] = []
        for mechanism, rows in zip(KINDS, (1, 3, 2), strict=True):
            plan = planned(mechanism, (("mu", 1), ("neighbours", change), ("rows_per_person", rows)))
            options = {"rules": DROPPING["rules"], "unit": unit(rows, "drop"), "ledger": ledger}
            with silent(None):
                published = mechanism.publish(plan, universe.data(numbers), options, None)
            values += published.values
            variances += published.variances
        outputs.append(Output(ledger.spent, tuple(values), tuple(variances)))
    shift = worst(outputs, universe.pairs(total.neighbours)).shift
    assert 0 < shift <= outputs[0].cost.mu_squared <= Fraction(18, 10) ** 2


@pytest.mark.parametrize("budget", [ADDED, REPLACED, DROPPED])
def test_exact_counts_are_not_added_to_other_promises(tmp_path, budget):
    """A row that replaces another changes an exact count: no cost covers that."""
    ledger = ln.Ledger.create(tmp_path / "ledger", ln.Budget(**{**budget, **LEDGERS}), dataset="people")
    plan = planned(EXACT, tuple(budget.items()))
    with pytest.raises(BudgetError, match="these counts stay as they are") as refusal:
        plan.run({"item": [0, 1]}, ledger=ledger)
    assert "\n" not in str(refusal.value)
    assert not ledger.entries()
    assert ledger.spent.mu_squared == 0


def test_exact_counts_of_different_places_are_not_added_up():
    other = kinds.cascade("other exact counts", {"item": TREE}, exact_level=0)
    costs = [planned(kind, tuple(REPLACED.items())).cost for kind in (EXACT, other)]
    costs.append(planned(KINDS[0], tuple(REPLACED.items())).integer_plan.cost)
    for k, cost in enumerate(costs):
        assert (cost + cost).mu_squared == 2 * cost.mu_squared
        for another in costs[:k]:
            with pytest.raises(LeastnoiseError, match="cannot be added"):
                cost + another
            with pytest.raises(LeastnoiseError, match="cannot be added"):
                cost < another  # noqa: B015


def test_exact_counts_say_what_they_protect():
    subject = SUBJECTS["exact counts"]
    release = planned(subject.mechanism, tuple(REPLACED.items())).run({"leaf": ["n1", "s1"]})
    assert release.cost.neighbours.exact is not None
    text = release.privacy.statement
    assert "exact and not protected" in text
    assert "such that these counts stay as they are" in text
