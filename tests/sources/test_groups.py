"""One row of a person for each group, whatever the rows are."""

import pyarrow as pa
import pytest

from leastnoise.domain.attributes import Domain
from leastnoise.sources import PrivacyUnit, Rules, source_of


@pytest.mark.parametrize("groups", [["a"], ["a", "b"]])
def test_nobody_has_two_rows_in_a_group(rng, groups):
    """One person alone: every group once, whatever the secret."""
    table = pa.table({"person": [1] * 60, "a": rng.integers(0, 4, 60), "b": rng.integers(0, 3, 60)})
    domain = Domain.of(a=4, b=3)
    there = len({*zip(*(table[name].to_pylist() for name in groups), strict=True)})
    for secret, most in ((b"1", 3), (b"2", 50), (None, 50)):
        source = source_of(table, domain, unit=PrivacyUnit("person", most, secret=secret, one_per=groups))
        (counts,) = source.count([(0, 1)])
        each = counts if len(groups) == 2 else counts.sum(axis=1)
        assert each.max() == 1
        assert each.sum() == min(most, there)


def test_codes_decide_groups():
    """Values that count as one value are one group."""
    table = pa.table({"person": [1, 1, 1, 2], "page": ["x", "y", "a", "z"]})
    domain = Domain.of(page=["a", "other"])
    rules = {"page": Rules(outside="other")}
    source = source_of(table, domain, rules=rules, unit=PrivacyUnit("person", 9, one_per=["page"]))
    assert next(source.count([(0,)])).tolist() == [1, 2]
