import numpy as np
import pytest

from leastnoise.mechanisms.tree import Tree
from tests.mechanisms.tree.trees import children_of, leaf_order, node_matrix, random_parents, random_tree
from tests.refusals import refusal


def test_equals_a_plain_traversal(rng):
    for _ in range(200):
        parents = random_parents(rng, int(rng.integers(1, 60)), narrow=0.4)
        tree = Tree.from_parents(parents)
        queue = [int(np.flatnonzero(parents < 0)[0])]
        for node in queue:
            queue += np.flatnonzero(parents == node).tolist()
        place = {node: i for i, node in enumerate(queue)}
        assert tree.parent.tolist() == [-1 if parents[node] < 0 else place[int(parents[node])] for node in queue]
        assert tree.leaves.tolist() == leaf_order(tree)
        covered = node_matrix(tree)
        for node in range(tree.nodes):
            low, high = tree.range_of(node)
            assert covered[node].tolist() == [low <= i < high for i in range(tree.leaf_count)]
        depth = [0] * tree.nodes
        for node in range(1, tree.nodes):
            depth[node] = depth[int(tree.parent[node])] + 1
        assert tree.level_of(np.arange(tree.nodes)).tolist() == depth
        assert tree.depth == max(depth)


def test_core_leaves_out_single_children(rng):
    for _ in range(200):
        tree = random_tree(rng)
        core = tree.core
        assert not (core.tree.children == 1).any()
        below = children_of(tree)
        for node in range(1, tree.nodes):
            parent = int(tree.parent[node])
            here, above = int(core.of(node)), int(core.of(parent))
            if len(below[parent]) == 1:
                assert here == above
            else:
                assert int(core.tree.parent[here]) == above
        assert core.tree.leaf_count == tree.leaf_count
        assert core.of(tree.leaves).tolist() == core.tree.leaves.tolist()


def test_deep_chains_work():
    n = 100_000
    chain = Tree.from_parents(np.arange(n - 1, -1, -1)[::-1] - 1)
    assert (chain.depth, chain.leaf_count, chain.core.tree.nodes) == (n - 1, 1, 1)
    assert chain.range_of(n // 2) == (0, 1)
    comb = Tree(np.append(np.append(2, np.tile([2, 0], 2_000)), [0, 0]))  # one leaf beside each node
    assert (comb.depth, comb.leaf_count) == (2_001, 2_002)
    assert comb.range_of(comb.nodes - 1) == (1, 2)
    assert comb.starts[2] == comb.leaf_count - 1


@pytest.mark.slow
def test_a_chain_of_ten_million_nodes(rng):
    n = 10**7
    order = rng.permutation(n)
    parents = np.empty(n, dtype=np.int64)
    parents[order[0]], parents[order[1:]] = -1, order[:-1]
    chain = Tree.from_parents(parents)
    assert (chain.depth, chain.leaf_count, chain.core.tree.nodes) == (n - 1, 1, 1)


def test_builders():
    assert Tree.binary(2).children.tolist() == [2, 2, 2, 0, 0, 0, 0]
    assert Tree.binary(0).children.tolist() == [0]
    assert Tree.regular([3, 1]).children.tolist() == [3, 1, 1, 1, 0, 0, 0]
    paths = Tree.from_paths([("b", "x"), ("a",), ("b", "y", "z")])
    assert paths.names == ("all", "b", "a", "b/x", "b/y", "b/y/z")
    assert [paths.names[i] for i in paths.leaves] == ["b/x", "b/y/z", "a"]
    named = Tree.from_parents(["r", "r", None, "p"], names=["p", "q", "r", "s"])
    assert named.names == ("r", "p", "q", "s")
    assert named.range_of("p") == (0, 1)
    codes = Tree.from_codes(["20177", "10111", "10112", "10211"], [1, 3, 5])
    assert codes.names == ("all", "1", "2", "101", "102", "201", "10111", "10112", "10211", "20177")
    assert codes.children.tolist() == [2, 2, 1, 2, 1, 1, 0, 0, 0, 0]


@pytest.mark.parametrize("arity", [2, 3, 7])
def test_balanced_trees_are_balanced(arity):
    for leaves in range(1, 60):
        tree = Tree.balanced(leaves, arity)
        assert tree.leaf_count == leaves
        assert tree.children.max() <= arity
        assert not (tree.children == 1).any()
        for below in children_of(tree):
            sizes = tree.sizes[below]
            assert not below or sizes.max() - sizes.min() <= 1
        assert tree.level_of(tree.leaves).max() - tree.level_of(tree.leaves).min() <= 1


def test_numbers_of_children_take_little_memory():
    assert Tree.binary(10).children.dtype == np.uint8
    assert Tree.regular([300]).children.dtype == np.uint16


BAD = {
    "no paths": (lambda: Tree.from_paths([]), "a tree needs at least one leaf, got no paths"),
    "a string": (
        lambda: Tree.from_paths(["abc"]),
        "path 'abc' must be a sequence of labels such as ('north', 'a')",
    ),
    "an empty path": (
        lambda: Tree.from_paths([("a",), ()]),
        "path () must be a sequence of labels such as ('north', 'a')",
    ),
    "a path twice": (
        lambda: Tree.from_paths([("a", "b"), ("c",), ("a", "b")]),
        "path 'a/b' appears twice; list every leaf once",
    ),
    "a leaf with children": (
        lambda: Tree.from_paths([("a", "b"), ("a",)]),
        "'a' is a leaf and also the parent of 'a/b'; give the rest of it a leaf of its own",
    ),
    "two roots": (lambda: Tree.from_parents([-1, 0, -1]), "two roots, node 0 and node 2; put one node above them"),
    "two named roots": (
        lambda: Tree.from_parents([None, None], names=["a", "b"]),
        "two roots, 'a' and 'b'; put one node above them",
    ),
    "a cycle": (
        lambda: Tree.from_parents([None, "c", "b", "a"], names=["a", "b", "c", "d"]),
        "'b' is its own ancestor (-> 'c' -> 'b'); every node must lead up to one root",
    ),
    "a cycle below which a node hangs": (
        lambda: Tree.from_parents([-1, 2, 3, 2]),
        "node 2 is its own ancestor (-> node 3 -> node 2); every node must lead up to one root",
    ),
    "no root": (
        lambda: Tree.from_parents([0]),
        "node 0 is its own ancestor (-> node 0); every node must lead up to one root",
    ),
    "a long cycle": (
        lambda: Tree.from_parents([-1, 2, 3, 4, 5, 6, 1]),
        "node 1 is its own ancestor (-> node 2 -> node 3 -> node 4 -> ...); every node must lead up to one root",
    ),
    "an orphan": (
        lambda: Tree.from_parents([None, "z"], names=["a", "b"]),
        "node 'b' has parent 'z', which is not a node; add it, or mark the root with None (-1 for places)",
    ),
    "an orphan by place": (
        lambda: Tree.from_parents([-1, 7]),
        "node 1 has parent 7, which is not a node; add it, or mark the root with None (-1 for places)",
    ),
    "a name twice": (
        lambda: Tree.from_parents([None, "a", "a"], names=["a", "b", "b"]),
        "node 'b' is listed twice; a node has one parent",
    ),
    "no nodes": (lambda: Tree.from_parents([]), "a tree needs at least one node, got no parents"),
    "names and parents": (
        lambda: Tree.from_parents([None], names=["a", "b"]),
        "2 names and 1 parents; give one parent per node",
    ),
    "parents that are no places": (
        lambda: Tree.from_parents(["a"]),
        "parents must be places in the list (-1 for the root), or names together with names=",
    ),
    "digits": (
        lambda: Tree.from_codes(["11"], [2, 2]),
        "digits [2, 2] must grow from 1 or more, such as [1, 3, 5]",
    ),
    "a short code": (
        lambda: Tree.from_codes(["111", "12"], [1, 3]),
        "code '12' must have 3 characters, the last of [1, 3]",
    ),
    "a code twice": (lambda: Tree.from_codes(["11", "11"], [1, 2]), "code '11' appears twice; list every leaf once"),
    "no codes": (lambda: Tree.from_codes([], [1]), "a tree needs at least one leaf, got no codes"),
    "arity": (
        lambda: Tree.balanced(4, 1),
        "a tree of 4 leaves and arity 1: use at least 1 leaf and arity 2",
    ),
    "arities": (lambda: Tree.regular([2, 0]), "arities [2, 0] must be at least 1; leave out levels that are not there"),
    "not integers": (
        lambda: Tree(np.array([0.0])),
        "a tree needs the number of children of each node, level by level; 0 for leaves",
    ),
    "too few nodes": (
        lambda: Tree(np.array([3, 0, 0])),
        "numbers of children must add up to the other nodes, 2, level by level",
    ),
    "too many nodes": (
        lambda: Tree(np.array([1, 0, 1, 0])),
        "numbers of children must add up to the other nodes, 3, level by level",
    ),
    "names": (lambda: Tree(np.array([0]), ("a", "b")), "a tree of 1 nodes cannot have 2 names"),
    "no such node": (
        lambda: Tree.binary(1).range_of(3),
        "no node 3 in this tree; there are 3, the root is 0",
    ),
    "no such name": (
        lambda: Tree.from_paths([("a",)]).range_of("b"),
        "no node 'b' in this tree; its leaves and nodes are in tree.names",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_refuses(case):
    call, message = BAD[case]
    assert refusal(call) == message
