"""Spec files: valid ones with changed keys, numbers, nesting, aliases and letters; read, and planned if small."""

from __future__ import annotations

import copy
import json
from functools import cache
from math import prod
from pathlib import Path
from random import Random
from typing import Any

import yaml

from leastnoise.mechanisms.from_spec import plan_spec
from leastnoise.mechanisms.tables.plan import Plan
from leastnoise.workload.spec import Spec, load_spec, parse_spec
from tests.fuzz import mutate
from tests.fuzz.law import Kind, Trial, command

SMALL_CELLS, SMALL_TABLES = 64, 20  # of tables, and how many, that are planned in milliseconds
COMMAND = 0.005  # of the inputs go through the command line
PLANNED = 0.03
BESIDE = {
    "codes.csv": b"code,label\n1,Male\n2,Female\n007,Male\n",
    "places.csv": b"state,county\nnorth,a\nnorth,b\nsouth,c\n",
    "parents.csv": b"node,parent\nall,\nx,all\ny,all\n",
    "rows.csv": b"1,0,1\n0,1,1\n",
}

# --- valid specs ------------------------------------------------------------------------------------------------------


def _attribute(rng: Random) -> dict[str, Any]:
    fields: dict[str, Any] = rng.choice(
        [
            {"range": [0, rng.randrange(1, 6)]},
            {"values": ["F", "M", "other"][: rng.randrange(1, 4)]},
            {"values": [1, 2, 3], "ordered": True},
            {"size": rng.randrange(1, 6)},
            {"size": 2, "repeat": rng.randrange(1, 4)},
            {"bins": {"low": 0, "high": 10, "width": 2.5}},
            {"bins": {"low": -1.5, "high": 2, "count": 3}},
            {"bins": {"edges": [0, 18, 25.5, 120], "labels": ["child", "young", "old"]}},
            {"bins": {"edges": [0, rng.choice([1, -1, 1e-300, 1e300])]}, "outside": "clamp"},
            {
                "amount": {
                    "low": 0,
                    "high": rng.choice([10, 1e9, -1, 1e300]),
                    "unit": rng.choice([1, 0.5, 3, 0, 1e-300]),
                }
            },
            {"discover": {"at_least": rng.choice([3, 500, 10**20]), "delta": rng.choice([1e-12, 1e-9, 2])}},
            {"discover": {"max_keys": rng.choice([1, 3, 0]), "share": rng.choice([0.1, 0.9, 1])}, "fold": True},
            {"amount": {"low": -2, "high": 8, "squares": True}, "missing": rng.choice([0, 9, "drop"])},
            {"values": {"1": "Male", "2": rng.choice(["Female", "Male"])}, "ordered": rng.random() < 0.5},
            {"dates": {"from": "2015-01-01", "to": rng.choice(["2015-01-20", "2014-01-01", "9999-12-31", "x"])}},
            {"dates": {"from": "2015-01-01", "to": "2016-01-20", "by": rng.choice(["week", "month", "year"])}},
            {"dates": {"by": rng.choice(["hour of day", "day of week", "day"])}, "zone": rng.choice(["UTC", "Mars"])},
            {"values": ["F", " f", "m"], "trim": rng.random() < 0.5, "fold": True, "missing_values": ["", -99]},
            {"labels": rng.choice(["codes.csv", "places.csv", "none.csv"])},
            {"hierarchy": {"north": ["a", "b"], "south": ["c"]}, "levels": ["state", "county"]},
            {"hierarchy": ["0101", "0102", "0201"], "digits": [2, 4]},
            {"hierarchy": rng.choice(["places.csv", "parents.csv", "none.csv", "../places.csv"])},
        ]
    )
    if rng.random() < 0.2:
        fields |= {"missing": "unknown"}
    if rng.random() < 0.3:
        fields |= {"column": "COL", "outside": rng.choice(["error", "drop", "clamp", "other"]), "missing": "drop"}
    return fields


def _line(rng: Random, names: list[str]) -> dict[str, Any]:
    family = rng.choice(
        "total marginal prefix suffix threshold range circular nodes hybrid extended affine abs_diff".split()
    )
    forms = [{"random": {"count": 3, "density": 0.4, "seed": 1}}, {"phi": [1, 0.5, 0]}, {"matrix": [[1, 0], [0, 1]]}]
    own = {"matrix": rng.choice(["rows.csv", "rows.npy", "no.csv"])}
    queries = rng.choice([family, family, family, rng.choice(forms), own, dict.fromkeys(names[:2], "marginal")])
    fields: dict[str, Any] = {"queries": queries}
    if rng.random() < 0.2:
        fields = {"queries": rng.choice(["sum", "moments"]), "of": rng.choice([names[0], names[:2]])}
        fields |= {"by": names[-1]} if rng.random() < 0.5 else {}
    if rng.random() < 0.6:
        fields["on"] = rng.choice([names[0], names[:2], names])
    if rng.random() < 0.4:
        fields["ways"] = rng.choice([0, 1, 2, [1, 2]])
    if rng.random() < 0.2:
        fields |= {"weight": 2.5} if rng.random() < 0.5 else {"weights": [1, 2, 3]}
    if rng.random() < 0.1:
        fields |= {"within": 20, "confidence": 0.9}
    return fields


def valid(rng: Random) -> dict[str, Any]:
    """A spec that mostly makes sense."""
    names = ["age", "sex", "ward", "été"][: rng.choice([1, 2, 2, 3, 4])]
    fields: dict[str, Any] = {"attributes": {name: _attribute(rng) for name in names}}
    fields["workload"] = [_line(rng, names) for _ in range(rng.choice([1, 1, 2, 3]))]
    if rng.random() < 0.5:
        fields["workload"] = [
            {"queries": rng.choice(["marginal", "hybrid"]), "ways": rng.choice([1, [0, 1], min(2, len(names))])}
        ]
    fields["privacy"] = rng.choice([{"epsilon": 1, "delta": 1e-9}, {"mu": 1}, {"rho": 0.5, "neighbours": "replace"}])
    more = {"objective": ["sum", "max", {"lr": 4}], "baseline": ["search", "uniform"], "method": ["plan", "adaptive",
    "auto"],
            "publication": [{"title": "t", "contact": "a@b", "citation": "c"}, {"questions": ["sex = 'F'"]}],
            "questions": [["mean(age)", {"ask": "count()", "by": ["sex"]}], ["median(ward) where sex = 'F'"]],
            "unit": [{"id": "person", "max_rows": 3}, {"id": "p", "max_rows": 3, "one_per": ["age"]}],
            "impossible": [["age < 2 and sex = 'F'"], {"cells": ["age = 1"], "rows": "keep"}, ["age"]],
            "bounds": [[{"where": "age = 1", "at_most": 3}], [{"at_least": 5, "at_most": 3}]],
            "rows_about": [1000], "solver": ["optimal", "fixed"]}  # fmt: skip
    return fields | {key: rng.choice(result) for key, result in more.items() if rng.random() < 0.12}


# --- changes ----------------------------------------------------------------------------------------------------------

WAYS: tuple[Any, ...] = (-1, 3, 100, 10**9, [2] * 50, [1, 10**20], 2.5, "2")
SIZES: tuple[Any, ...] = (0, -3, 10**6, 10**9, 2**31, 2**63, 10**27, 10**400, 1e300, "1e9", 100_000)


def _huge(rng: Random, spec: dict[str, Any]) -> str:
    """Sizes, ways, repeats and budgets far from what anybody can mean."""
    name = rng.choice(list(spec["attributes"]))
    size = rng.choice(SIZES)
    action = rng.randrange(8)
    if action == 0:
        spec["attributes"][name] = {"size": size}
    elif action == 1:
        spec["attributes"][name] = {"range": [rng.choice(SIZES), size]}
    elif action == 2:
        spec["attributes"][name] = {
            "bins": {"low": 0, "high": size, rng.choice(["width", "count"]): rng.choice([1, 1e-300, 1e-9, size])}
        }
    elif action == 3:
        spec["attributes"][name] = {"size": 2, "repeat": rng.choice([50, 200, 5000, 10**6, 10**9, 10**20])}
        spec["workload"] = [{"queries": "marginal", "ways": rng.choice([2, 3, 20, 100, [1, 2, 3, 4]])}]
    elif action == 4:
        spec["workload"][0]["ways"] = rng.choice(WAYS)
    elif action == 5:
        spec["privacy"] = {rng.choice(["mu", "rho"]): rng.choice(mutate.NUMBERS)}
    elif action == 6:
        spec["privacy"] = {"epsilon": rng.choice(mutate.NUMBERS), "delta": rng.choice([1e-9, *mutate.NUMBERS])}
    else:
        spec["workload"][0]["queries"] = {"random": {"count": size, "density": rng.choice(mutate.NUMBERS)}}
    return f"huge {action}"


def _bomb(rng: Random) -> str:
    """Aliases of aliases, mappings that hold themselves, and merges."""
    deep, wide = rng.choice([(4, 4), (9, 9), (20, 10), (30, 30)])
    lines = ["a0: &a0 [1, 2, 3]"]
    for level in range(1, deep):
        lines.append(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * wide)}]")
    body = rng.choice(
        [
            f"attributes: {{age: {{values: *a{deep - 1}}}}}",
            f"attributes: {{age: {{hierarchy: *a{deep - 1}}}}}",
            f"attributes: {{age: {{size: 2}}}}\nworkload: [{{queries: {{matrix: *a{deep - 1}}}}}]",
            "attributes: &r {age: *r}",
            "attributes: &r {age: {values: &v [1, *v]}}",
            "attributes: {age: &m {size: 3}, sex: {<<: *m, size: 2}, ward: *m}",
            f"attributes: *a{deep - 1}",
            f"workload: *a{deep - 1}",
        ]
    )
    spread = (
        "attributes: {x: &x {values: ["
        + ", ".join("abcdefgh")
        + "]}, "
        + ", ".join(f"y{k}: *x" for k in range(40))
        + "}"
    )
    return "\n".join(
        [*lines, rng.choice([body, body, body, spread]), "workload: [{queries: marginal, ways: 1}]", "privacy: {mu: 1}"]
    )


def _deep(rng: Random) -> str:
    letter = rng.choice(["[", "{a: ", "- ", "? ", "[[], "])
    return "attributes: " + letter * rng.choice([50, 300, 300, 900, 3000, 20000])


def text_of(trial: Trial) -> str | bytes:
    """The text of a spec."""
    rng = trial.rng
    what = rng.random()
    if what < 0.02:
        trial.note("aliases")
        return _bomb(rng)
    if what < 0.022:
        trial.note("deep")
        return _deep(rng)
    if what < 0.25:
        trial.note("bytes")
        return mutate.in_bytes(rng, rng.choice(_texts()))
    spec = valid(rng)
    if what < 0.35:
        trial.note(_huge(rng, spec))
    elif what < 0.9:
        trial.note(mutate.in_data(rng, spec))
    return written(rng, spec)


def written(rng: Random, spec: Any) -> str:
    """Plain data as YAML; JSON is YAML as well, and quicker to read and write."""
    if rng.random() < 0.5:
        return json.dumps(spec, ensure_ascii=rng.random() < 0.5)
    return _yaml(spec)


def _yaml(data: Any, indent: int = 0) -> str:
    """Blocks for the first levels, flow below; quicker than the writer of PyYAML, and texts are left as they are."""
    if indent < 4 and isinstance(data, dict) and data:
        return "".join(f"\n{' ' * indent}{k}: {_yaml(v, indent + 2)}" for k, v in data.items())
    if indent < 4 and isinstance(data, list) and data:
        return "".join(f"\n{' ' * indent}- {_yaml(v, indent + 4)}" for v in data)
    return _flow(data)


def _flow(data: Any) -> str:
    if isinstance(data, dict):
        return "{" + ", ".join(f"{k}: {_flow(v)}" for k, v in data.items()) + "}"
    if isinstance(data, list):
        return "[" + ", ".join(map(_flow, data)) + "]"
    return "~" if data is None else str(data)


@cache
def _texts() -> list[bytes]:
    """Specs of the examples, and some of our own, for changes of bytes."""
    examples = [path.read_bytes() for path in sorted(Path(__file__).parents[2].glob("examples/*.yaml"))]
    results = [yaml.safe_dump(copy.deepcopy(valid(Random(seed)))).encode() for seed in range(40)]
    return [*results, *(text for text in examples if len(text) < 600)]


# --- reading ----------------------------------------------------------------------------------------------------------


def attempt(trial: Trial) -> None:
    """Read a spec; plan it where it is small; now and then as `leastnoise plan`."""
    text = text_of(trial)
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    trial.note(data[:3000])
    how = trial.rng.random()
    path = trial.folder / "spec.yaml"
    path.write_bytes(data)
    if how < 0.2:
        for name, content in BESIDE.items():
            (trial.folder / name).write_bytes(content)
    if b".csv" not in data and isinstance(text, str) and how > 0.5:
        spec = parse_spec(text)
    else:
        spec = load_spec(path, budgeted=how < 0.9)
    if small(spec) and spec.budget_fields and trial.rng.random() < PLANNED:
        trial.note("planned")
        if trial.rng.random() < COMMAND / PLANNED:
            command("plan", path, *(["--json"] if how < 0.5 else []))
        else:
            mechanism = plan_spec(spec)
            str(mechanism), mechanism.to_json() if isinstance(mechanism, Plan) else None


def small(spec: Spec) -> bool:
    """Whether planning takes milliseconds."""
    domain, blocks = spec.workload.domain, spec.workload.blocks
    if len(domain) > 6 or prod(domain.shape) > 4096 or spec.workload.queries > 2000:
        return False
    return max(domain.shape) <= SMALL_CELLS and sum(block.tables for block in blocks) <= SMALL_TABLES


KIND = Kind("specs", attempt, _texts)
