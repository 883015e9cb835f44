"""Texts of spec files, put together from parts, and the one line that is said of a bad one."""

import pytest

from leastnoise.errors import LeastnoiseError
from leastnoise.workload.spec import parse_spec

ATTRIBUTES = "attributes:\n  age: {range: [0, 9]}\n  sex: {values: [F, M]}\n"
WORKLOAD = "workload:\n  - {queries: marginal, ways: 2}\n"
PRIVACY = "privacy: {epsilon: 1, delta: 1e-9}\n"


def spec(attributes: str = ATTRIBUTES, workload: str = WORKLOAD, privacy: str = PRIVACY, more: str = "") -> str:
    return attributes + workload + privacy + more


def one_attribute(text: str) -> str:
    return spec(f"attributes:\n  a: {text}\n", "workload: [{queries: marginal, ways: 1}]\n")


def second_line(text: str) -> str:
    """A spec whose second workload line, on line 6, is `text`."""
    return spec(workload=f"workload:\n  - {{queries: marginal, ways: 1}}\n  - {text}\n")


def message(text: str) -> str:
    with pytest.raises(LeastnoiseError) as error:
        parse_spec(text, "s.yaml")
    assert "\n" not in str(error.value)
    return str(error.value)
