"""Archives of arrays from anywhere: small files stay small in memory, whatever they say about themselves."""

import io
import json
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.errors import LeastnoiseError
from leastnoise.local import load_plan, local_plan, save_plan
from leastnoise.noise import SeededRandomSource
from leastnoise.storage.archive import (
    MOST_UNPACKED,
    Archive,
    ArchiveError,
    array_from,
    digest_of,
    read_array,
    read_arrays,
)
from leastnoise.storage.formats import Format
from leastnoise.storage.records import File
from leastnoise.workload.matrix_file import read_matrix
from leastnoise.workload.spec import parse_spec
from tests.release.test_files import header, sealed

BOMB = 2**29  # bytes that a few million compressed ones unpack to
LITTLE = 2**27  # bytes that refusing may take


@pytest.fixture
def little():
    """No more memory than a small file may take."""
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < LITTLE


@pytest.fixture(scope="module")
def bomb(tmp_path_factory) -> bytes:
    """An array of zeros as a compressed member."""
    path = tmp_path_factory.mktemp("bomb") / "bomb.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("x.npy", "w", force_zip64=True) as f,
    ):
        head = io.BytesIO()
        np.lib.format.write_array_header_1_0(head, {"descr": "<i8", "fortran_order": False, "shape": (BOMB // 8,)})
        f.write(head.getvalue())
        for _ in range(BOMB // 2**24):
            f.write(bytes(2**24))
    assert path.stat().st_size < 5 * 10**6
    return path.read_bytes()


def shared(times: int) -> bytes:
    """An archive whose many members are the same bytes."""
    buffer = io.BytesIO()
    np.savez(buffer, x=np.zeros(2**16))
    with zipfile.ZipFile(buffer, "a") as archive:
        (first,) = archive.infolist()
        for k in range(times):
            other = zipfile.ZipInfo(f"x{k}.npy")
            for field in ("header_offset", "CRC", "compress_size", "file_size", "compress_type"):
                setattr(other, field, getattr(first, field))
            archive.filelist.append(other)
            archive.NameToInfo[other.filename] = other
        archive._didModify = True
    return buffer.getvalue()


@pytest.mark.long
def test_compressed_members_are_refused(bomb, little):
    with pytest.raises(ArchiveError, match="it holds compressed arrays"):
        read_arrays(io.BytesIO(bomb))
    with pytest.raises(ArchiveError, match=r"it unpacks to 536,87\d,\d+ bytes, more than 268,435,456"):
        read_arrays(io.BytesIO(bomb), packed=True)


def test_members_that_share_bytes_are_refused(little):
    with pytest.raises(ArchiveError, match="its arrays share their bytes"):
        read_arrays(io.BytesIO(shared(2_000)))


def test_arrays_are_as_large_as_they_say(little, tmp_path):
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": (10**7,)})
    with pytest.raises(ArchiveError, match="an array of it does not have the size that it says"):
        array_from(head.getvalue())
    (tmp_path / "x.npy").write_bytes(head.getvalue())
    with pytest.raises(ArchiveError, match="it does not have the size that it says"):
        read_array(tmp_path / "x.npy", 10**8)
    with pytest.raises(ArchiveError, match="it has 10,000,000 entries, more than 1,000"):
        read_array(tmp_path / "x.npy", 1000)


@pytest.mark.parametrize("most", [MOST_UNPACKED, 100], ids=["compressed", "stored"])
def test_what_is_written_is_read(most, monkeypatch, tmp_path):
    monkeypatch.setattr("leastnoise.storage.archive.MOST_UNPACKED", most)
    arrays = {
        "whole": np.arange(6, dtype=np.int16).reshape(2, 3), "columns": np.asfortranarray(np.eye(3)[:2]),
        "none": np.zeros((0, 4)), "one": np.array(2.5), "bytes": np.arange(3, dtype=np.uint8), "text": np.array(["ab"]),
        "bools": np.array([True, False]),
    }  # fmt: skip
    kind = Format("leastnoise_thing", "thing", "save it again")
    Archive({"about": "it"}, arrays, {"more.txt": b"text"}).save(tmp_path / "x", kind)
    back = Archive.load(tmp_path / "x", kind)
    assert back.header == {"leastnoise_thing": 1, "about": "it"}
    assert back.others == {"more.txt": b"text"}
    result = back.arrays
    assert list(result) == list(arrays)
    for name, array in arrays.items():
        assert result[name].dtype == array.dtype
        np.testing.assert_array_equal(result[name], array)


# Every reader


def _release(folder: Path) -> None:
    work = ln.Workload(ln.Domain.of(a=4, b=3)).marginals(ways=1)
    ln.plan(work, ln.Budget(mu=1)).run(np.arange(12).reshape(4, 3), random_source=SeededRandomSource(1)).save(folder)


def _matrix(folder: Path) -> None:
    ln.matrix_plan(np.tri(4), ln.Budget(mu=1)).run(np.arange(4), random_source=SeededRandomSource(1)).save(folder)


def _put(folder: Path, content: bytes) -> None:
    """Other measurements, with all checksums right."""
    (folder / "measurements.npz").write_bytes(content)
    fields = header(folder)
    fields["files"]["measurements.npz"] = File.of(folder / "measurements.npz").model_dump()
    sealed(folder, fields | {"id": fields["files"]["measurements.npz"]["sha256"][:16]})


@pytest.mark.long
@pytest.mark.parametrize("make", [_release, _matrix])
def test_folders_that_unpack_to_gigabytes_are_refused(make, bomb, tmp_path, little):
    make(tmp_path / "out")
    _put(tmp_path / "out", bomb)
    with pytest.raises(LeastnoiseError, match="it holds compressed arrays"):
        ln.load(tmp_path / "out")


@pytest.mark.parametrize("size", [10**27, 10**9, 10**7])
def test_headers_that_declare_much_are_refused(size, tmp_path, little):
    _release(tmp_path / "out")
    fields = header(tmp_path / "out")
    integer_plan = fields["parts"][0]["recipe"]
    integer_plan["workload"]["domain"]["attributes"][0]["size"] = size
    for part in integer_plan["parts"]:
        part["shape"] = [size if n == 4 else n for n in part["shape"]]
    arrays = {n: a for n, a in read_arrays(tmp_path / "out" / "measurements.npz").items() if "answers" not in n}
    own = {n.removeprefix("part0_"): a for n, a in arrays.items()}
    fields["parts"][0]["fingerprint"] = digest_of(integer_plan, own)
    sealed(tmp_path / "out", fields)
    with pytest.raises(LeastnoiseError, match="is damaged"):
        ln.load(tmp_path / "out")


def test_matrices_that_need_a_square_of_their_items_are_refused(tmp_path, little):
    from leastnoise.mechanisms.matrix.plan import plan_digest

    _matrix(tmp_path / "out")
    wide, buffer = np.ones((1, 200_000)), io.BytesIO()
    arrays = {"queries": wide, "strategy": wide.astype("<i2")}
    np.savez(buffer, **arrays, measured=np.ones(1, "<i2"))
    fields, names = header(tmp_path / "out"), tmp_path / "out" / "names.json"
    called = json.loads(names.read_text())
    called["counted"]["size"] = wide.shape[1]
    called["queries"] = None
    names.write_text(json.dumps(called))
    fields["files"]["names.json"] = File.of(names).model_dump()
    sealed(tmp_path / "out", fields | {"fingerprint": plan_digest(fields["variance"], called["counted"], arrays)})
    _put(tmp_path / "out", buffer.getvalue())
    with pytest.raises(LeastnoiseError, match="its matrices are larger than any that can be planned"):
        ln.load(tmp_path / "out")


def test_plans_that_unpack_to_gigabytes_are_refused(bomb, tmp_path, little):
    (tmp_path / "plan.npz").write_bytes(bomb)
    with pytest.raises(LeastnoiseError, match=r"is not a plan .it unpacks to"):
        ln.Plan.load(tmp_path / "plan.npz")
    with pytest.raises(LeastnoiseError, match=r"is not a local plan .it unpacks to"):
        load_plan(tmp_path / "plan.npz")
    with pytest.raises(LeastnoiseError, match=r"does not hold a matrix of numbers .it unpacks to"):
        read_matrix(tmp_path / "plan.npz")


def test_local_plans_have_as_many_subsets_as_they_say(tmp_path, little):
    path = tmp_path / "plan"
    save_plan(local_plan(ln.Workload(ln.Domain.of(a=4)).marginals(ways=1), 1), path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    message = json.loads(members["header.json"])
    assert message["randomizers"][0]["kind"] == "subsets"
    message["randomizers"][0]["count"] = 10**11
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (members | {"header.json": json.dumps(message).encode()}).items():
            archive.writestr(name, content)
    with pytest.raises(LeastnoiseError, match="its subsets are not as many as it says"):
        load_plan(path)


@pytest.mark.parametrize("kind", ["array real", "coordinate real"])
def test_matrix_market_files_are_bounded(kind, tmp_path, little):
    rest = "" if kind.startswith("array") else " 1\n1 1 1"
    (tmp_path / "a.mtx").write_text(f"%%MatrixMarket matrix {kind} general\n100000 100000{rest}\n")
    with pytest.raises(LeastnoiseError, match="a 100,000 x 100,000 matrix is too large"):
        read_matrix(tmp_path / "a.mtx")


def test_matrices_of_specs_are_bounded(tmp_path, little):
    text = "attributes: {a: {size: 2}}\nworkload: [{queries: {matrix: x.npy}, on: a}]\nprivacy: {mu: 1}\n"
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": (10**9, 2)})
    (tmp_path / "x.npy").write_bytes(head.getvalue())
    with pytest.raises(
        LeastnoiseError, match=r"line 2: 'x.npy' does not hold a matrix of numbers .it has 2,000,000,000"
    ):
        parse_spec(text, folder=tmp_path)
