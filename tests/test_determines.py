"""Attributes that others determine: declared in public, without the mapping; rows obey, and nothing else changes."""

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.errors import LeastnoiseError
from leastnoise.estimate import Estimate
from leastnoise.noise import SeededRandomSource
from leastnoise.sources import Codes
from leastnoise.workload.spec import parse_spec
from tests.every import for_every

PLAIN = ln.Domain.of(zip=20, district=5, region=2, age=6)
DOMAIN = PLAIN.restricted(determines={"zip": "district", "district": "region"})


def people(number=6_000):
    """Codes; zip 4k to 4k + 3 are in district k, districts 0 to 2 in region 0."""
    rng = np.random.default_rng(0)
    place = rng.choice(20, number, p=np.arange(1, 21) / 210)
    return np.stack([place, place // 4, place // 12, np.clip(place // 5 + rng.integers(0, 3, number), 0, 5)], axis=1)


def released(domain, ways=2, mu=0.5):
    plan = ln.plan(ln.Workload(domain).marginals(ways=ways), ln.Budget(mu=mu))
    return plan.run(Codes(domain, people()), random_source=SeededRandomSource(2))


def values_each(rows, parent, child):
    return [len(set(rows[rows[:, parent] == v, child])) for v in np.unique(rows[:, parent])]


@pytest.mark.long
def test_rows_obey_and_find_the_mapping():
    """Noise of deviation 12 or so: zips with 100 rows and more have their district."""
    release = released(DOMAIN)
    rows = release.fit(components=8, mixtures=1).sample(5_000)
    assert set(values_each(rows, 0, 1)) == set(values_each(rows, 1, 2)) == {1}
    for place in range(6, 20):
        assert set(rows[rows[:, 0] == place, 1]) == {place // 4}
    found = release.evaluate(rows).constraints
    assert [(c.kind, c.text, c.against) for c in found] == [
        ("determines", "district by zip", 0),
        ("determines", "region by district", 0),
    ]
    assert "determines district by zip: kept" in str(release.evaluate(rows))


def test_rows_against_it_are_counted():
    rows = people()
    rows[:7, 1] = (rows[:7, 1] + 1) % 5
    against = {c.text: c.against for c in released(DOMAIN).evaluate(rows).constraints}
    assert against["district by zip"] == 7


def test_nothing_else_changes():
    """Plans, costs and what is measured are those of the plain domain; no source is asked more."""
    with_it, without = released(DOMAIN), released(PLAIN)
    assert with_it.cost == without.cost
    np.testing.assert_array_equal(with_it.counts("zip", "district"), without.counts("zip", "district"))
    assert DOMAIN != PLAIN
    assert not DOMAIN.restrictions
    assert DOMAIN.possible_cells([0, 1]) is None


@pytest.mark.long
def test_it_is_saved_with_releases_and_estimates(tmp_path):
    assert ln.Domain.from_json(DOMAIN.to_json()) == DOMAIN
    assert "restrictions" not in PLAIN.to_json()
    assert DOMAIN.project("zip", "district", "age").restrictions.determines == (("zip", "district"),)
    release = released(DOMAIN)
    release.save(tmp_path / "out")
    loaded = ln.load(tmp_path / "out")
    assert loaded.domain == DOMAIN
    estimate = loaded.fit(components=4, mixtures=1)
    estimate.save(tmp_path / "fit")
    np.testing.assert_array_equal(Estimate.load(tmp_path / "fit").sample(300), estimate.sample(300))


@pytest.mark.long
def test_what_was_not_measured_is_left_out():
    """Without the table of both, nothing tells which district a zip has."""
    release = released(DOMAIN, ways=1)
    rows = release.fit(components=2, mixtures=1).sample(3_000)
    assert max(values_each(rows, 0, 1)) > 1
    assert not release.evaluate(rows).constraints[0].kept


@pytest.mark.long
def test_a_stated_mapping_is_that_of_impossible_cells():
    pairs = [{"of": ["zip", "district"], "rows": [[k, k // 4] for k in range(20)]}]
    domain = PLAIN.restricted(allowed=pairs, determines={"zip": "district"})
    assert domain.restrictions.impossible == PLAIN.restricted(allowed=pairs).restrictions.impossible
    rows = released(domain).fit(components=4, mixtures=1).sample(2_000)
    assert (rows[:, 1] == rows[:, 0] // 4).all()


# --- specs ------------------------------------------------------------------------------------------------------------

SPEC = """\
attributes: {zip: {range: [0, 19]}, district: {range: [0, 4]}, region: {range: [0, 1]}}
workload: [{queries: marginal, ways: 2}]
privacy: {mu: 1}
"""


def test_specs_declare_it():
    pairs = parse_spec(SPEC + "determines: {zip: [district, region]}\n").workload.domain.restrictions.determines
    assert pairs == (("zip", "district"), ("zip", "region"))


BAD = {
    "determines: {zip: distrct}": "did you mean 'district'?",
    "determines: {zip: region, district: region}": "'region' is determined by 'zip' and by 'district'; state the one",
    "determines: {zip: district, district: zip}": "'district' determines itself; list the pairs that exist",
    "determines: {zip: zip}": "'zip' determines itself",
    "determines: [zip]": "determines",
    "determines: {}": "determines",
    "determines: {zip: district}\nimpossible: ['region = 0 and district = 4']": "list the pairs in allowed: {of: [zip,",
    "determines: {zip: district}\nbounds: [{where: region = 0, at_most: 9}]": "cells or bounds it must be known how",
}


@for_every(text=list(BAD))
def test_bad_dependencies_are_refused_in_one_line(text):
    with pytest.raises(LeastnoiseError, match=r".*") as error:
        parse_spec(SPEC + text + "\n")
    assert BAD[text] in str(error.value)
    assert "\n" not in str(error.value)


def test_other_bad_dependencies():
    with pytest.raises(LeastnoiseError, match="'spend' is an amount"):
        ln.Domain.of(zip=3, spend=ln.amount(0, 10)).restricted(determines={"zip": "spend"})
    with pytest.raises(LeastnoiseError, match="determines is a mapping; write for example"):
        PLAIN.restricted(determines=["zip"])
    fields = DOMAIN.to_json()
    for bad in ([["zip"]], [["zip", "zap"]], [["zip", "district"], ["district", "zip"]], 3):
        fields["restrictions"]["determines"] = bad
        with pytest.raises(LeastnoiseError):
            ln.Domain.from_json(fields)
    circle = {"age": "zip", "zip": "district", "district": "zip"}
    with pytest.raises(LeastnoiseError, match="is determined by"):
        PLAIN.restricted(determines=circle)
