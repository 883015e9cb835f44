"""Only `leastnoise.storage` opens files for writing, renames or syncs; everything else gives it content."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "leastnoise"
ELSEWHERE = [path for path in sorted(SOURCE.rglob("*.py")) if "storage" not in path.relative_to(SOURCE).parts]
OF_OS = set("open write pwrite rename renames replace fsync fdatasync truncate ftruncate link symlink".split())
OF_TEMPFILE = {"NamedTemporaryFile", "TemporaryFile", "SpooledTemporaryFile", "mkstemp", "TemporaryDirectory"}
OF_PATHS = {"write_text", "write_bytes", "touch", "symlink_to", "hardlink_to"}
OF_NUMPY = {"save", "savez", "savez_compressed", "savetxt", "tofile", "memmap"}
OF_TABLES = {"to_csv", "to_parquet", "to_json", "to_excel", "to_feather", "to_pickle", "write_table", "write_csv"}
DRAFTS = {"draft", "data"}  # what functions that fill the file of `new_file` call it


def writes(code: str) -> list[str]:
    """All calls that write, as they stand in the code."""
    return [ast.unparse(call) for call in _calls(ast.parse(code)) if _writes(call)]


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _writes(call: ast.Call) -> bool:
    match call.func:
        case ast.Name(id="open" | "ZipFile"):
            return _mode(call, 1)
        case ast.Name(id=name):
            return name in OF_TEMPFILE | {"fsync"}
        case ast.Attribute(value=ast.Name(id="os"), attr=name):
            return name in OF_OS
        case ast.Attribute(value=ast.Name(id="shutil"), attr=name):
            return name in ("move", "copy", "copyfile", "copytree", "copy2")
        case ast.Attribute(value=ast.Name(id="np" | "numpy"), attr=name) if name in OF_NUMPY:
            return True
        case ast.Attribute(value=ast.Name(id="io"), attr="open") | ast.Attribute(attr="ZipFile"):
            return _mode(call, 1)
        case ast.Attribute(attr="open"):
            return _mode(call, 0)
        case ast.Attribute(attr="replace" | "rename"):  # of paths; of texts and tables it has other arguments
            return len(call.args) == 1 and not call.keywords
        case ast.Attribute(attr=name):
            return name in OF_PATHS | OF_TEMPFILE or (name in OF_TABLES and _to_file(call))
    return False


def _mode(call: ast.Call, place: int) -> bool:
    given = [k.value for k in call.keywords if k.arg == "mode"] + call.args[place : place + 1]
    modes = [mode.value for mode in given if isinstance(mode, ast.Constant) and isinstance(mode.value, str)]
    return any(set(mode) & set("wax+") and set(mode) <= set("rwaxbt+") for mode in modes)


def _to_file(call: ast.Call) -> bool:
    """Whether a table goes to a file that is not the draft of a new one."""
    places = [a for a in call.args if isinstance(a, ast.Name | ast.Attribute | ast.Subscript)]
    return bool(call.args) and not any(isinstance(place, ast.Name) and place.id in DRAFTS for place in places)


@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("open(path)", 0),
        ("open(path, 'rb')", 0),
        ("open(path, 'wb')", 1),
        ("open(path, mode='a')", 1),
        ("path.open('xb')", 1),
        ("path.open('rb')", 0),
        ("path.open(encoding='utf-8')", 0),
        ("path.open('r+b')", 1),
        ("zipfile.ZipFile(path)", 0),
        ("zipfile.ZipFile(path, 'w')", 1),
        ("os.replace(a, b)", 1),
        ("os.fsync(handle)", 1),
        ("os.getpid()", 0),
        ("draft.replace(path)", 1),
        ("text.replace('a', 'b')", 0),
        ("replace(plan, budget=budget)", 0),
        ("frame.rename(columns=names)", 0),
        ("aside.rename(path)", 1),
        ("path.write_text(text)", 1),
        ("np.savez(file, a=a)", 1),
        ("plan.save(path)", 0),
        ("frame.to_csv(path)", 1),
        ("frame.to_csv()", 0),
        ("frame.to_csv(draft, index=False)", 0),
        ("tempfile.NamedTemporaryFile()", 1),
    ],
)
def test_writes_are_seen(code, result):
    assert len(writes(code)) == result


@pytest.mark.long
def test_nothing_else_writes_renames_or_syncs():
    entries = {str(path.relative_to(SOURCE)): calls for path in ELSEWHERE if (calls := writes(path.read_text()))}
    assert entries == {}, "write it with leastnoise.storage.files"
