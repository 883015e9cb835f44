"""What fuzzing has found, as small tests: each failed before it was repaired."""

import io
import json
import sqlite3
import zipfile
from fractions import Fraction

import numpy as np
import pytest
from scipy.io import mmread, mmwrite
from scipy.sparse import coo_matrix, csc_matrix, csr_matrix, dia_matrix, save_npz

import leastnoise as ln
from leastnoise.errors import LeastnoiseError
from leastnoise.local import Device
from leastnoise.local.randomized_response import Odds
from leastnoise.release.files.folders import ARRAYS, HEADER
from leastnoise.workload.matrix_file import read_matrix
from leastnoise.workload.spec import parse_spec
from tests.fuzz import samples
from tests.fuzz.law import chain
from tests.fuzz.mutate import archived, members_of
from tests.fuzz.releases import put
from tests.work import counted_calls

ROWS = np.array([[1.0, 1, 0], [0, 1, 1]])


def refusal(action) -> str:
    with pytest.raises(LeastnoiseError) as error:
        action()
    assert len(str(error.value).splitlines()) == 1
    return str(error.value)


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


# --- specs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", ["", ", digits: [2]"])
def test_a_number_is_no_hierarchy(more):
    work = "workload: [{queries: marginal, ways: 1}]\nprivacy: {mu: 1}"
    text = f"attributes: {{place: {{hierarchy: 99{more}}}}}\n{work}"
    assert "99 is no hierarchy; give a CSV file" in refusal(lambda: parse_spec(text))


def test_a_null_character_names_no_file():
    work = "workload: [{queries: marginal, ways: 1}]\nprivacy: {mu: 1}"
    refusal(lambda: parse_spec(f'attributes: {{place: {{hierarchy: "a\\0.csv"}}}}\n{work}'))


# --- saved plans ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("plan") / "plan"
    work = ln.Workload(ln.Domain.of(a=range(3), b=["x", "y"])).marginals(ways=2).prefix("a")
    ln.plan(work, ln.Budget(mu=1), baseline="uniform").save(path)
    return path.read_bytes()


WRONG = {
    "value": None,
    "floor": "0.1",
    "any_floor": [{}, "x"],
    "seconds": [],
    "solver": 7,
    "prior": None,
    "solutions": [],
}


@pytest.mark.parametrize("field", WRONG)
def test_saved_plans_have_numbers_where_numbers_belong(plan_file, tmp_path, field):
    """They were loaded, and failed when they were read."""
    members = members_of(plan_file)
    header = json.loads(members["header.json"]) | {field: WRONG[field]}
    (tmp_path / "plan").write_bytes(archived(members | {"header.json": json.dumps(header).encode()}))
    assert "is damaged" in refusal(lambda: ln.Plan.load(tmp_path / "plan"))


@pytest.mark.parametrize("change", [lambda a: a[:-1], lambda a: a * np.nan, lambda a: a.astype(str), lambda a: a[None]])
def test_saved_plans_have_strategies_of_the_right_shape(plan_file, tmp_path, change):
    members = members_of(plan_file)
    for name in [n for n in members if n.startswith(("strategy", "table_weights"))]:
        array = np.load(io.BytesIO(members[name]))
        (tmp_path / "plan").write_bytes(archived(members | {name: npy(change(array))}))
        assert "is damaged" in refusal(lambda: ln.Plan.load(tmp_path / "plan"))


# --- matrices ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [csr_matrix, csc_matrix, coo_matrix])
def test_sparse_matrices_are_read(tmp_path, kind):
    save_npz(tmp_path / "rows.npz", kind(ROWS))
    np.testing.assert_array_equal(read_matrix(tmp_path / "rows.npz").queries, ROWS)


def test_other_sparse_formats_are_refused(tmp_path):
    save_npz(tmp_path / "rows.npz", dia_matrix(ROWS))
    assert "save it as csr, csc or coo" in refusal(lambda: read_matrix(tmp_path / "rows.npz"))


def test_places_outside_a_sparse_matrix_are_refused(tmp_path):
    save_npz(tmp_path / "rows.npz", csr_matrix(ROWS), compressed=False)
    members = members_of((tmp_path / "rows.npz").read_bytes())
    for name, wrong in {"indices.npy": [0, 1, 1, 9], "indptr.npy": [0, 9, 4], "shape.npy": [2, 1]}.items():
        (tmp_path / "rows.npz").write_bytes(archived(members | {name: npy(np.array(wrong))}))
        assert "does not hold a matrix of numbers" in refusal(lambda: read_matrix(tmp_path / "rows.npz"))


MARKET = {
    "sparse": csr_matrix(ROWS),
    "whole numbers": coo_matrix(ROWS.astype(int)),
    "dense": ROWS,
    "symmetric": np.array([[2.0, 1], [1, 3]]),
    "sparse and symmetric": csr_matrix(np.array([[2.0, 1], [1, 0]])),
    "skew": np.array([[0.0, -1], [1, 0]]),
}


@pytest.mark.parametrize("name", MARKET)
def test_matrix_market_files_are_read_as_scipy_reads_them(tmp_path, name):
    path = tmp_path / "rows.mtx"
    mmwrite(path, MARKET[name])
    expected = mmread(path)
    queries = read_matrix(path).queries
    np.testing.assert_array_equal(queries, expected.toarray() if hasattr(expected, "toarray") else expected)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "%%MatrixMarket matrix coordinate complex general\n1 1 0\n",
        "%%MatrixMarket matrix coordinate real general\n",
        "%%MatrixMarket matrix coordinate real general\n2 2 1\n3 1 1.0\n",
        "%%MatrixMarket matrix coordinate real general\n2 2 1\n0 1 1.0\n",
        "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1.0\n",
        "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 x\n",
        "%%MatrixMarket matrix coordinate real general\n99999999 99999999 1\n1 1 1.0\n",
        "%%MatrixMarket matrix coordinate real general\n-1 2 1\n1 1 1.0\n",
        "%%MatrixMarket matrix coordinate real symmetric\n1 2 1\n1 2 1.0\n",
        "%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n",
    ],
)
def test_damaged_matrix_market_files_are_refused(tmp_path, text):
    """SciPy's reader ends the process on some of them."""
    (tmp_path / "rows.mtx").write_text(text)
    refusal(lambda: read_matrix(tmp_path / "rows.mtx"))


@pytest.mark.parametrize(
    "head", [b"{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999,), }", b"{'descr': ('"]
)
def test_headers_of_arrays_are_not_believed(tmp_path, head):
    text = b"\x93NUMPY\x01\x00" + len(head + b"\n").to_bytes(2, "little") + head + b"\n" + bytes(16)
    (tmp_path / "rows.npy").write_bytes(text)
    assert "does not hold a matrix of numbers" in refusal(lambda: read_matrix(tmp_path / "rows.npy"))


def test_texts_that_are_none_are_refused(tmp_path):
    texts = np.frombuffer(np.full(3, 0x7FFFFFFF, dtype="<u4").tobytes(), dtype="<U1")
    with zipfile.ZipFile(tmp_path / "rows.npz", "w") as file:
        file.writestr("queries.npy", npy(ROWS))
        file.writestr("items.npy", npy(texts))
    refusal(lambda: read_matrix(tmp_path / "rows.npz"))


# --- plans, ledgers, streams, releases, devices ----------------------------------------------------------------------


def _follow_no_tree(header, arrays):
    header["trees"] = [0]


def _cost_nothing(header, arrays):
    header["solutions"][1]["error"] = 0


def _denormal(header, arrays):
    arrays["strategy0.npy"] = npy(np.array([1.4e-309, 2.0]))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (_follow_no_tree, "a strategy does not follow the tree of its attribute"),
        (_cost_nothing, "the error of a strategy is out of range"),
        (_denormal, "the array 'strategy0' has numbers that are out of range"),
    ],
)
def test_plans_whose_variances_have_no_value_are_refused(tmp_path, change, text):
    """They were loaded, and their use ended in a traceback."""
    domain = ln.Domain.of(place=ln.hierarchy({"north": ["n1", "n2"], "south": ["s1"]}), b=2)
    result = ln.plan(ln.Workload(domain).marginals(ways=2), ln.Budget(mu=1), baseline="uniform")
    path = tmp_path / "plan"
    result.save(path)
    members = members_of(path.read_bytes())
    header = json.loads(members["header.json"])
    change(header, members)
    path.write_bytes(archived(members | {"header.json": json.dumps(header).encode()}))
    assert text in refusal(lambda: ln.Plan.load(path))


def test_ledgers_with_foreign_text_are_refused(tmp_path):
    path = tmp_path / "people.ledger"
    ln.Ledger.create(path, ln.Budget(mu=1), "people")
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("UPDATE sqlite_master SET sql = CAST(X'43524541544520ff' AS TEXT) WHERE type = 'table'")
    connection.commit()
    connection.close()
    assert str(path) in refusal(lambda: ln.Ledger.open(path))


def test_counts_that_nobody_can_have_added_are_refused(tmp_path):
    """They did not fit the 64 bits of a count."""
    files = samples.sample("stream")
    start = json.loads(files["stream.json"])["sha256"]
    put(tmp_path, files | {"private.journal": samples.journal(start, ((2**63, 1),))})
    text = refusal(lambda: ln.mechanisms.Stream.load(tmp_path, moved=True))
    assert "step 0 counts more than anybody can have added" in text
    assert str(2**63) not in text


def test_queries_whose_errors_are_infinite_are_refused(tmp_path):
    files = samples.sample("matrix")
    members = members_of(files["measurements.npz"])
    queries = np.load(io.BytesIO(members["queries.npy"])).copy()
    queries[0, 0] = 1e300
    arrays = archived(members | {"queries.npy": npy(queries)})
    data = json.loads(files["release.json"])
    put(tmp_path, samples.resealed(files | {"measurements.npz": arrays}, data))
    assert "its queries are no numbers that can be answered" in refusal(lambda: ln.load(tmp_path))


@pytest.mark.parametrize("value", ["zebra-7731", ["zebra-7731"], float("nan"), 10**400])
def test_errors_of_devices_carry_no_value_along(value):
    plan = samples.local_plans()["prefix"]
    with pytest.raises(LeastnoiseError) as error:
        Device(plan).report({"x": value})
    assert "zebra" not in "".join(repr(e) for e in chain(error.value))


# --- matrices ---------------------------------------------------------------------------------------------------------


def test_queries_too_large_to_square_are_refused(tmp_path):
    """Their variances are finite and the sum of them is not: planned ones are refused, forged ones as well."""
    assert "too large for floats" in refusal(lambda: ln.matrix_plan(1e160 * ROWS, ln.Budget(mu=1)))
    data = dict(samples.sample("matrix"))
    members = members_of(data[ARRAYS])
    queries = np.load(io.BytesIO(members["queries.npy"]))
    data[ARRAYS] = archived(members | {"queries.npy": npy(1e160 * queries)})
    put(tmp_path, samples.resealed(data, json.loads(data[HEADER])))
    assert "its queries are no numbers that can be answered" in refusal(lambda: ln.load(tmp_path))


# --- devices and data -------------------------------------------------------------------------------------------------


def test_huge_epsilons_of_forged_plans_are_no_work():
    with counted_calls() as work:
        assert Odds(3, 1).keep(Fraction(10**12))
    assert work.calls < 100
    assert not Odds(3, 1).keep(Fraction(1))


def test_a_value_in_place_of_a_file_is_not_repeated():
    plan = ln.plan(ln.Workload(ln.Domain.of(a=2)).marginals(), ln.Budget(mu=1))
    message = refusal(lambda: plan.run("zebra-7731"))
    assert "zebra" not in message
