"""Hierarchies in spec files: every form, and mistakes with their line."""

import pytest

from leastnoise.domain.hierarchies import Hierarchy
from leastnoise.errors import LeastnoiseError
from leastnoise.workload.spec import load_spec, parse_spec

REST = """
workload: [{queries: nodes, on: geo, weights: {state: 10, a: 3}}, {queries: {geo: nodes, sex: marginal}}]
privacy: {mu: 1}
"""


def spec(attribute: str, rest: str = REST) -> str:
    return f"attributes: {{geo: {attribute}, sex: {{values: [F, M]}}}}\n{rest.strip()}\n"


@pytest.mark.parametrize(
    "attribute",
    [
        "{hierarchy: {north: [a, b], south: [c]}, levels: [state, place]}",
        "{hierarchy: [[north, a], [north, b], [south, c]], levels: [state, place]}",
        "{hierarchy: geo.csv}",
        "{hierarchy: parents.csv, levels: [state, place]}",
    ],
)
def test_every_form_is_the_same_workload(tmp_path, attribute):
    (tmp_path / "geo.csv").write_text("state,place\nnorth,a\nnorth,b\nsouth,c\n")
    (tmp_path / "parents.csv").write_text("place,parent\nall,\nnorth,all\nsouth,all\na,north\nb,north\nc,south\n")
    (tmp_path / "spec.yaml").write_text(spec(attribute))
    work = load_spec(tmp_path / "spec.yaml").workload
    values = work.domain["geo"].values
    assert isinstance(values, Hierarchy)
    assert (values.items, values.level_names) == (("a", "b", "c"), ("all", "state", "place"))
    assert work.queries == 6 + 2 * 6
    assert work.blocks[0].families[0].weights(3).tolist() == [1, 10, 10, 3, 1, 1]


def test_codes(tmp_path):
    (tmp_path / "codes.csv").write_text("code\n0111\n0112\n0211\n")
    rest = "workload: [{queries: nodes, on: geo}]\nprivacy: {mu: 1}"
    for attribute in ("{hierarchy: codes.csv, digits: [2, 4]}", "{hierarchy: [0111, '0112', 0211], digits: [2, 4]}"):
        loaded = parse_spec(spec(attribute, rest), folder=tmp_path)
        assert loaded.workload.domain["geo"].values.items == ("0111", "0112", "0211")
        assert loaded.workload.queries == 6
    numbers = parse_spec(spec("{hierarchy: [111, 112, 211], digits: [1, 3]}", rest))
    assert numbers.workload.domain["geo"].values.items == ("111", "112", "211")


def test_numbers_are_numbers():
    rest = "workload: [{queries: nodes, on: geo}]\nprivacy: {mu: 1}"
    loaded = parse_spec(spec("{hierarchy: {old: [1, 2], new: ['3']}}", rest))
    assert loaded.workload.domain["geo"].values.items == (1, 2, "3")


MISTAKES = {
    "{hierarchy: gone.csv}": "spec line 1: attribute 'geo': cannot read the hierarchy 'gone.csv': "
    "No such file or directory",
    "{hierarchy: [[x, a], [y, a]]}": "spec line 1: attribute 'geo': the leaf 'a' is below 'x' and below 'y'; "
    "leaves need names of their own, and levels go from the largest groups to the leaves",
    "{hierarchy: {x: a}}": "spec line 1: attribute 'geo': below 'x' stands 'a'; write a list of leaves, such as [a, b]",
    "{hierarchy: {x: [a], y: [b]}, level: [state]}": "spec line 1: unknown key 'level' in an attribute "
    "with 'hierarchy'; "
    "did you mean 'levels'?",
    "{hierarchy: {x: [a], y: [b]}, levels: [state]}": "spec line 1: attribute 'geo': the hierarchy has 3 levels with "
    "the root; got 2 names",
    "{hierarchy: }": "spec line 1: values hold an empty or null entry; quote it ('null') if it is meant as text",
    "{values: [a, b, c]}": "spec line 2: nodes need a hierarchy but attribute 'geo' has none; "
    "declare it with hierarchy(...)",
    "{hierarchy: {north: [a, b], south: [c]}}": "spec line 2: no node 'state' in this hierarchy; nearest is 'south', "
    "and its levels are level 0, level 1, level 2",
}


@pytest.mark.parametrize(("attribute", "message"), MISTAKES.items(), ids=MISTAKES.keys())
def test_mistakes_are_told_with_their_line(tmp_path, monkeypatch, attribute, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LeastnoiseError) as error:
        parse_spec(spec(attribute))
    assert str(error.value) == message


def test_weights_by_name_are_for_nodes():
    rest = "workload: [{queries: marginal, on: sex, weights: {F: 1}}]\nprivacy: {mu: 1}"
    with pytest.raises(LeastnoiseError, match="spec line 2: weights by name are for nodes of a hierarchy"):
        parse_spec(spec("{values: [a]}", rest))
