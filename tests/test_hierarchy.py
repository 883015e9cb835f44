"""Hierarchies: reading them, naming their nodes, and mistakes in one line."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import leastnoise as ln
from leastnoise.domain.attributes import Attribute, Domain, Hierarchy
from leastnoise.errors import LeastnoiseError
from leastnoise.release.queries.language import parse

GEO = {"north": ["a", "b"], "south": {"coast": ["c"], "hills": ["d", "e"]}}
PATHS = [("north", "a"), ("north", "b"), ("south", "coast", "c"), ("south", "hills", "d"), ("south", "hills", "e")]


def paths_of(values: Hierarchy) -> list[tuple[str, ...]]:
    """Labels from below the root to each leaf, by climbing."""
    tree = values.tree
    results = []
    for leaf in tree.leaves.tolist():
        path: list[str] = []
        while leaf > 0:
            path.insert(0, str(values.labels[leaf]))
            leaf = int(tree.parent[leaf])
        results.append(tuple(path))
    return results


def test_leaves_are_the_values():
    values = ln.hierarchy(GEO)
    assert values.items == ("a", "b", "c", "d", "e")
    assert values.find(["e", "north", "a"]).tolist() == [4, -1, 0]
    assert paths_of(values) == PATHS


@pytest.mark.parametrize(
    "text",
    [
        "region,district,place\nnorth,a,\nnorth,b,\nsouth,coast,c\nsouth,hills,d\nsouth,hills,e\n",
        "\ufeffregion,district,place\n\nsouth,coast,c\nsouth,hills,d\nnorth,a,\nsouth,hills,e\nnorth, b,\n",
        "node,parent\nall,\nnorth,all\nsouth,all\na,north\nb,north\ncoast,south\nhills,south\nc,coast\nd,hills\ne,hills\n",
        "Parent,place\nhills,e\nhills,d\nsouth,hills\nnorth,a\nsouth,coast\ncoast,c\nall,north\nall,south\n,all\nnorth,b\n",
    ],
)
def test_files_of_paths_and_of_parents_are_the_same_tree(tmp_path, text):
    (tmp_path / "geo.csv").write_text(text, encoding="utf-8")
    values = ln.hierarchy(tmp_path / "geo.csv")
    assert sorted(paths_of(values)) == sorted(PATHS)
    for name in ("all", "north", "south", "coast", "hills"):
        low, high = values.under(name)
        below = [path[-1] for path in PATHS if name == "all" or name in path]
        assert sorted(values.items[low:high]) == below


def test_a_file_of_codes(tmp_path):
    (tmp_path / "codes.csv").write_text("code\n0112\n0111\n0121\n0211\n")
    values = ln.hierarchy(tmp_path / "codes.csv", digits=[2, 3, 4], levels=["chapter", "group", "code"])
    assert values.items == ("0111", "0112", "0121", "0211")
    assert values.level_names == ("all", "chapter", "group", "code")
    assert [values.names[i] for i in values.across("group")] == ["011", "012", "021"]
    assert values.under("01") == (0, 3)


def test_columns_name_the_levels(tmp_path):
    (tmp_path / "geo.csv").write_text("state,county\nnorth,a\nsouth,c\n")
    values = ln.hierarchy(tmp_path / "geo.csv")
    assert values.level_names == ("all", "state", "county")
    assert values.level("county") == values.level(2) == 2


def test_a_level_holds_every_leaf_once():
    values = ln.hierarchy(GEO)
    for level in range(values.tree.depth + 1):
        covered = [leaf for i in values.across(level) for leaf in range(*values.tree.range_of(int(i)))]
        assert covered == list(range(values.size))


def test_every_node_is_found_by_its_name():
    values = ln.hierarchy([("x", "1"), ("x", "2"), ("y", "x", "3"), ("y", "z", "4")])
    assert values.names == ("all", "x", "y", "1", "2", "y/x", "z", "3", "4")
    for node, name in enumerate(values.names):
        assert values.tree.range_of(values.node(name)) == values.tree.range_of(node)
    assert values.under("x") == (0, 2)  # the path of the one is the label of both
    assert values.under("y/x") == (2, 3)


def test_a_single_child_may_have_the_name_of_its_parent():
    values = ln.hierarchy({"Berlin": ["Berlin"], "Hesse": ["Fulda", "Kassel"]})
    assert values.under("Berlin") == (0, 1)
    assert values.items == ("Berlin", "Fulda", "Kassel")


def test_plain_data_comes_back():
    domain = Domain.of(geo=ln.hierarchy(GEO), sex=["F", "M"])
    assert Domain.from_json(domain.to_json()) == domain
    assert Domain.of(geo=ln.hierarchy(PATHS), sex=["F", "M"]) == domain
    other = Domain.of(geo=ln.hierarchy({"all of it": ["a", "b", "c", "d", "e"]}), sex=["F", "M"])
    assert other != domain


@pytest.mark.long
@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4), min_size=1, max_size=12))
def test_any_paths_either_work_or_fail_in_one_line(found):
    paths = [(*map(str, path), f"leaf {k}") for k, path in enumerate(found)]
    values = ln.hierarchy(paths)
    assert sorted(paths_of(values)) == sorted(paths)
    with pytest.raises(LeastnoiseError) as error:
        ln.hierarchy([*paths, paths[0]])
    assert "\n" not in str(error.value)


MISTAKES = {
    "no file": (lambda: ln.hierarchy("gone.csv"), "cannot read the hierarchy 'gone.csv': No such file or directory"),
    "a leaf that is a parent": (
        lambda: ln.hierarchy([("north",), ("north", "a")]),
        "'north' is a leaf and also the parent of 'north/a'; give the rest of it a leaf of its own",
    ),
    "a leaf twice": (
        lambda: ln.hierarchy([("north", "a"), ("north", "a")]),
        "path 'north/a' appears twice; list every leaf once",
    ),
    "a leaf in two places": (
        lambda: ln.hierarchy([("north", "a"), ("south", "a")]),
        "the leaf 'a' is below 'north' and below 'south'; leaves need names of their own, and "
        "levels go from the largest groups to the leaves",
    ),
    "a code twice": (
        lambda: ln.hierarchy(["11", "12", "11"], digits=[1, 2]),
        "code '11' appears twice; list every leaf once",
    ),
    "codes that are numbers": (
        lambda: ln.hierarchy([11, 12], digits=[1, 2]),
        "the code 11 is no text; write it in quotes, zeros at the front count",
    ),
    "no path": (
        lambda: ln.hierarchy(["a", "b"]),
        "'a' is no path; write labels from the top down to a leaf, such as [north, a]",
    ),
    "an odd label": (
        lambda: ln.hierarchy([("a", None)]),
        "None cannot be a label in a path; use text or a number",
    ),
    "no list of leaves": (
        lambda: ln.hierarchy({"north": "a"}),
        "below 'north' stands 'a'; write a list of leaves, such as [a, b]",
    ),
    "levels": (
        lambda: ln.hierarchy(GEO, levels=["region"]),
        "the hierarchy has 4 levels with the root; got 2 names",
    ),
    "equal levels": (
        lambda: ln.hierarchy([("a", "b")], levels=["region", "region"]),
        "two levels are called 'region'; names of levels must differ",
    ),
    "no level": (
        lambda: ln.hierarchy([("a", "b")], levels=["region", "place"]).across("town"),
        "no level 'town' in this hierarchy; its levels are all, region, place",
    ),
    "no node": (lambda: ln.hierarchy(GEO).under("coat"), "no node 'coat' in this hierarchy; nearest is 'coast'"),
    "several nodes": (
        lambda: ln.hierarchy([("x", "n", "1"), ("y", "n", "2")]).under("n"),
        "2 nodes are called 'n'; write the whole path, such as 'x/n' or 'y/n'",
    ),
    "no value": (
        lambda: Attribute.of("geo", ln.hierarchy(GEO)).code("aa"),
        "'aa' is not a value of 'geo' (a, b, c, d, e); nearest is 'a'",
    ),
    "under without a hierarchy": (
        lambda: parse(Domain.of(sex=["F", "M"]), "sex under 'F'"),
        "position 1: 'sex' has no hierarchy, so under means nothing; use = or in",
    ),
    "under nothing": (
        lambda: parse(Domain.of(geo=ln.hierarchy(GEO)), "geo under 'coat'"),
        "position 11: no node 'coat' in this hierarchy; nearest is 'coast'",
    ),
}


@pytest.mark.parametrize(("make", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes_are_one_line(make, message):
    with pytest.raises(LeastnoiseError) as error:
        make()
    assert str(error.value) == message


FILES = {
    "two roots": ("node,parent\na,\nb,\n", "two roots, 'a' and 'b'; put one node above them"),
    "a cycle": (
        "node,parent\nall,\na,b\nb,a\n",
        "'a' is its own ancestor (-> 'b' -> 'a'); every node must lead up to one root",
    ),
    "an orphan": (
        "node,parent\nall,\na,b\n",
        "node 'a' has parent 'b', which is not a node; add it, or mark the root with None (-1 for places)",
    ),
    "a node twice": ("node,parent\nall,\na,all\na,all\n", "node 'a' is listed twice; a node has one parent"),
    "too many columns": (
        "node,parent,x\na,,1\n",
        "a file with a column 'parent' needs one other column, the nodes; got 2",
    ),
    "a hole": ("x,y,z\na,,c\n", "the path 'a//c' has an empty level; fill it in"),
}


@pytest.mark.parametrize(("text", "message"), FILES.values(), ids=FILES.keys())
def test_mistakes_in_files_are_one_line(tmp_path, text, message):
    (tmp_path / "geo.csv").write_text(text)
    with pytest.raises(LeastnoiseError) as error:
        ln.hierarchy(tmp_path / "geo.csv")
    assert str(error.value) == f"geo.csv: {message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x,y\n", "geo.csv needs a header and at least one row below it"),
        ("x,y\na\n", "geo.csv row 2 has 1 cell, the header has 2"),
    ],
)
def test_files_that_are_no_tables(tmp_path, text, message):
    (tmp_path / "geo.csv").write_text(text)
    with pytest.raises(LeastnoiseError) as error:
        ln.hierarchy(tmp_path / "geo.csv")
    assert str(error.value) == message


def test_under_is_the_leaves_of_a_node():
    domain = Domain.of(geo=ln.hierarchy(GEO), sex=["F", "M"])
    x = np.arange(10).reshape(5, 2)
    assert parse(domain, "geo under 'south'").evaluate(x) == x[2:].sum()
    assert parse(domain, "geo not under 'south/hills' and sex = 'M'").evaluate(x) == x[:3, 1].sum()
    assert parse(domain, "geo UNDER 'all' or sex = 'F'").evaluate(x) == x.sum()
    assert parse(domain, "geo under 'a'") == parse(domain, "geo = 'a'")
