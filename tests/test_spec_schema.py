"""The published schema of spec files accepts and refuses what the reader does."""

import json
from pathlib import Path
from typing import ClassVar

import jsonschema
import pytest
import yaml

from leastnoise.workload import schema
from leastnoise.workload.spec import load_spec
from tests.specs import spec

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.yaml"))


class Yaml12(yaml.SafeLoader):
    """What editors read: `on` is a word, not a truth value."""

    yaml_implicit_resolvers: ClassVar = {
        first: rules for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items() if first not in "yYnNoO"
    }


def plain(text: str):
    return yaml.load(text, Loader=Yaml12)


def test_packaged_schema_is_current():
    packaged = Path(schema.__file__).with_name("spec.schema.json").read_text()
    assert json.loads(packaged) == schema.json_schema(), "write it anew: leastnoise schema > .../spec.schema.json"


def test_schema_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(schema.json_schema())


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_schema_accepts_the_examples(path):
    jsonschema.validate(plain(path.read_text()), schema.json_schema())
    assert load_spec(path).workload.queries > 0


@pytest.mark.parametrize(
    "line",
    [
        "{queries: marginal, ways: [1, 2]}",
        "{queries: {age: prefix, sex: {matrix: [[1, 0]]}}, on: [age, sex], weights: [1, 2]}",
        "{queries: {random: {count: 30, density: 0.3, seed: 1}}, within: 3, confidence: 0.9}",
        "{queries: {matrix: rows.npy}, on: age}",
        "{queries: {phi: [1, 0]}, on: age}",
    ],
)
def test_schema_accepts_every_form(line):
    data = plain(spec()) | {"workload": [plain(line)], "objective": {"lr": 4}, "privacy": {"mu": 1}}
    jsonschema.validate(data, schema.json_schema())


@pytest.mark.parametrize(
    "line", ["{queries: prefixes}", "{queries: marginal, wieght: 1}", "{ways: 2}", "{queries: marginal, weight: 0}"]
)
def test_schema_refuses_what_the_reader_refuses(line):
    data = plain(spec()) | {"workload": [plain(line)], "privacy": {"mu": 1}}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, schema.json_schema())
