"""A plain reading of what is counted beside tables: row by row, person by person."""

import math

import pyarrow as pa

from leastnoise.domain.attributes import Domain
from leastnoise.sources import PrivacyUnit, Rules
from tests.sources.registry import brute_force


def plain_side_counts(
    domain: Domain, rules: dict[str, Rules], table: pa.Table, unit: PrivacyUnit | None, sets: list[tuple[int, ...]]
) -> list[object]:
    """What each rule touches, rows or people, and distinct people in the cells of rows that are counted."""
    from tests.sources.test_agreement import plain_code, plain_rows  # which use this

    columns = table.to_pydict()
    ids, numbers = columns.get("person", [0] * table.num_rows), range(table.num_rows)
    who = [*numbers] if unit is None else ids  # without a unit, every row is somebody
    gone = {a.name: [v is None or (isinstance(v, float) and math.isnan(v)) for v in columns[a.name]] for a in domain}
    odd = {
        a.name: [
            plain_code(a, Rules(), v) == "error" and not g for v, g in zip(columns[a.name], gone[a.name], strict=True)
        ]
        for a in domain
    }
    touched, dropping = [], []
    for a in domain:
        for rule, flags in ((rules[a.name].missing, gone[a.name]), (rules[a.name].outside or "error", odd[a.name])):
            touched += [] if rule == "error" else [flags]
            dropping += [flags] if rule == "drop" else []
    if len(dropping) > 1:
        touched.append([any(flags[i] for flags in dropping) for i in numbers])
    each = [len({who[i] for i in numbers if flags[i] and who[i] is not None}) for flags in touched]
    if unit is None:
        return [each]
    good = [i for i in numbers if not any(flags[i] for flags in dropping) and who[i] is not None]
    people = {one: plain_rows(domain, rules, table.filter(pa.array([x == one for x in ids])), unit) for one in set(ids)}
    each.append(sum(sum(who[i] == one for i in good) > len(people[one]) for one in {who[i] for i in good}))
    rows = [{tuple(row[k] for k in axes) for row in people[one]} for axes in sets for one in people if one is not None]
    many = len(people) - (None in people)
    tables = [
        brute_force(
            domain.project(*(domain.names[k] for k in axes)),
            [cell for cells in rows[j * many : (j + 1) * many] for cell in cells],
            tuple(range(len(axes))),
        )
        for j, axes in enumerate(sets)
    ]
    return [each, *(t.tolist() for t in tables)]


def side_counts(source, unit, sets):
    return [table.tolist() for table in source.side_counts(True, sets if unit is not None else [])]
