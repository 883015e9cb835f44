"""New files and folders: whole under their name, synced before they get it, or not there at all."""

import sys
from pathlib import Path

import pytest

from leastnoise.errors import LeastnoiseError
from leastnoise.storage import files
from leastnoise.storage.files import DRAFT, new_file, new_folder, put_file, reserve, write_file


@pytest.fixture
def steps(monkeypatch) -> list[str]:
    """Syncs, renames and removals of names, in their order."""
    seen: list[str] = []
    sync, replace, rename = files._sync, Path.replace, Path.rename

    def named(path: Path) -> str:
        return "draft" if path.name.endswith(DRAFT) else path.name

    monkeypatch.setattr(files, "_sync", lambda path: (seen.append(f"sync {named(path)}"), sync(path)))
    monkeypatch.setattr(Path, "replace", lambda a, b: (seen.append(f"rename {named(a)}"), replace(a, b))[1])
    monkeypatch.setattr(Path, "rename", lambda a, b: (seen.append(f"rename {named(a)}"), rename(a, b))[1])
    return seen


def test_a_file_is_synced_before_it_gets_its_name_and_its_folder_after(tmp_path, steps):
    write_file(tmp_path / "a", b"new")
    assert steps == ["sync draft", "rename draft", f"sync {tmp_path.name}"]
    assert (tmp_path / "a").read_bytes() == b"new"


def test_a_folder_is_synced_with_all_its_files(tmp_path, steps):
    with new_folder(tmp_path / "a", overwrite=False, ours=Path.is_dir, what="folder") as draft:
        (draft / "inner").mkdir()
        put_file(draft, "one", b"1")
        put_file(draft / "inner", "two", [b"2", b"3"])
    assert steps == ["sync inner", "sync two", "sync one", "sync draft", "rename draft", f"sync {tmp_path.name}"]
    assert (tmp_path / "a" / "inner" / "two").read_bytes() == b"23"


def half(path: Path, error: BaseException) -> None:
    with new_file(path) as draft:
        draft.write_text("half")
        raise error


@pytest.mark.parametrize("error", [RuntimeError("ours"), KeyboardInterrupt("ours")], ids=repr)
def test_appears_whole_or_not_at_all(tmp_path, error):
    (tmp_path / "a").write_text("old")
    with pytest.raises(type(error), match="ours"):
        half(tmp_path / "a", error)
    with pytest.raises(LeastnoiseError, match=r"a cannot be written \(No space left on device\)"):
        half(tmp_path / "a", OSError(28, "No space left on device"))
    assert [p.read_text() for p in tmp_path.iterdir()] == ["old"]


def test_names_that_are_taken_are_refused(tmp_path):
    write_file(tmp_path / "a", b"one", overwrite=False)
    with pytest.raises(LeastnoiseError, match=r"a exists already; choose another name$"):
        write_file(tmp_path / "a", b"two", overwrite=False)
    with pytest.raises(LeastnoiseError, match=r"there is no folder '.*none' to write in; create it first"):
        write_file(tmp_path / "none" / "a", b"two")
    assert (tmp_path / "a").read_bytes() == b"one"


@pytest.mark.parametrize("free", [True, False], ids=["one step", "two steps"])
def test_somebody_may_be_faster(tmp_path, monkeypatch, free):
    if not free:
        monkeypatch.setattr(files, "rename_to_free", lambda old, new: False)
    monkeypatch.setattr(files, "check_target", lambda *target: None)
    (tmp_path / "a").write_text("theirs")
    with pytest.raises(LeastnoiseError, match="exists already"):
        write_file(tmp_path / "a", b"ours", overwrite=False)
    assert [p.read_text() for p in tmp_path.iterdir()] == ["theirs"]


def test_two_writers_do_not_share_a_draft(tmp_path):
    with new_file(tmp_path / "a") as one, new_file(tmp_path / "a") as other:
        assert one != other
        one.write_text("one")
        other.write_text("other")
    assert (tmp_path / "a").read_text() == "one"  # the last to end


def test_a_forked_process_leaves_the_draft(tmp_path, monkeypatch):
    def forked(*_: object) -> tuple[int, int]:
        return -1, 1

    def fork(path: Path, content: bytes) -> None:
        path.write_bytes(content)
        monkeypatch.setattr(files, "process", forked)
        raise KeyboardInterrupt

    monkeypatch.setattr(files, "_put", fork)
    with pytest.raises(KeyboardInterrupt):
        write_file(tmp_path / "a", b"x")
    assert [p.name.endswith(DRAFT) for p in tmp_path.iterdir()] == [True]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not reserve")
def test_room_is_reserved_or_refused(tmp_path):
    reserve(tmp_path, 10**4)
    with pytest.raises(OSError, match=r"No space left|File too large"):
        reserve(tmp_path, 2**62)
    assert list(tmp_path.iterdir()) == []
