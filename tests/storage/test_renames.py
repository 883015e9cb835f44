"""Renames in one step, and what callers see where the system has none."""

import ctypes
import errno
import sys

import pytest

import leastnoise as ln
from leastnoise.errors import LeastnoiseError
from leastnoise.storage import renames
from leastnoise.storage.renames import exchange, rename_to_free

linux = pytest.mark.skipif(sys.platform != "linux", reason="other systems take two steps")


@pytest.fixture
def two(tmp_path):
    """Two folders, each with a file that has its name."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    return tmp_path / "a", tmp_path / "b"


@linux
def test_folders_trade_names(two):
    assert exchange(*two)
    assert [[p.name for p in folder.iterdir()] for folder in two] == [["b"], ["a"]]


@linux
def test_a_name_that_is_taken_is_refused(two, tmp_path):
    with pytest.raises(FileExistsError):
        rename_to_free(*two)
    assert rename_to_free(two[0], tmp_path / "c")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["b", "c"]


@linux
def test_what_is_not_there_is_an_error(two, tmp_path):
    with pytest.raises(FileNotFoundError):
        exchange(two[0], tmp_path / "nowhere")


@pytest.mark.parametrize("number", renames.LACKING)
def test_a_system_without_it_changes_nothing(number, two, monkeypatch):
    def lacking(*_):
        ctypes.set_errno(number)
        return -1

    monkeypatch.setattr(renames, "_renameat2", lambda: lacking)
    assert not exchange(*two)
    assert [[p.name for p in folder.iterdir()] for folder in two] == [["a"], ["b"]]


def test_another_error_is_raised(two, monkeypatch):
    def failing(*_):
        ctypes.set_errno(errno.EIO)
        return -1

    monkeypatch.setattr(renames, "_renameat2", lambda: failing)
    with pytest.raises(OSError, match="Input/output error"):
        exchange(*two)


def test_ledgers_are_made_without_it(tmp_path, monkeypatch):
    monkeypatch.setattr(renames, "_renameat2", lambda: None)
    path = tmp_path / "people.ledger"
    ledger = ln.Ledger.create(path, ln.Budget(mu=1), "people")
    assert ln.Ledger.open(path) == ledger
    with pytest.raises(LeastnoiseError, match="exists already"):
        ln.Ledger.create(path, ln.Budget(mu=1), "people")
    assert [p.name for p in tmp_path.iterdir()] == ["people.ledger"]
