"""Files that a spec names stay inside its folder, unless the caller allows more."""

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.cli import main
from leastnoise.errors import LeastnoiseError
from leastnoise.workload.spec import parse_spec

SECRET = "Winterbottom"
ATTRIBUTE = {"hierarchy": "{hierarchy: %s}", "matrix": "{size: 2}"}
QUERIES = {"hierarchy": "marginal", "matrix": "{matrix: %s}"}
SUFFIX = {"hierarchy": "csv", "matrix": "npy"}


def spec(kind: str, file: str) -> str:
    attribute, queries = (form[kind].replace("%s", file) for form in (ATTRIBUTE, QUERIES))
    return f"attributes:\n  a: {attribute}\nworkload:\n  - {{queries: {queries}, on: a}}\nprivacy: {{mu: 1}}\n"


@pytest.fixture(params=ATTRIBUTE)
def kind(request):
    return request.param


@pytest.fixture
def folder(tmp_path, kind):
    """A folder for specs, with a file of the kind in it and one beside it."""
    (tmp_path / "specs" / "deep").mkdir(parents=True)
    for place in ("", "specs/", "specs/deep/"):
        path = tmp_path / f"{place}f.{SUFFIX[kind]}"
        if kind == "hierarchy":
            path.write_text(f"state,town\nnorth,{SECRET}\nsouth,b\n")
        else:
            np.save(path, np.eye(2))
    return tmp_path / "specs"


def written(folder, kind: str, file: str):
    path = folder / "s.yaml"
    path.write_text(spec(kind, f"'{file}'"))
    return path


@pytest.mark.parametrize("name", ["f.{}", "deep/f.{}", "./f.{}", "deep/../f.{}", "../specs/f.{}"])
def test_files_inside_are_read(folder, kind, name):
    assert ln.load_spec(written(folder, kind, name.format(SUFFIX[kind]))).workload.queries == 2


@pytest.mark.parametrize("name", ["../f.{}", "deep/../../f.{}", "{root}/f.{}", "link.{}", "out/f.{}", "/etc/passwd"])
def test_files_outside_are_refused(folder, kind, name):
    suffix = SUFFIX[kind]
    (folder / f"link.{suffix}").symlink_to(folder.parent / f"f.{suffix}")
    (folder / "out").symlink_to(folder.parent)
    file = name.format(suffix, root=folder.parent)
    with pytest.raises(LeastnoiseError) as error:
        ln.load_spec(written(folder, kind, file))
    line = 2 if kind == "hierarchy" else 4
    assert str(error.value).startswith(f"s.yaml line {line}: ")
    assert f"the file {file[:40]!r} is outside the folder of the spec; move it there" in str(error.value)
    assert "--files-from DIR (in Python: files_from=DIR)" in str(error.value)
    assert SECRET not in str(error.value)


def test_more_is_allowed_by_the_caller(folder, kind, capsys):
    path = written(folder, kind, f"../f.{SUFFIX[kind]}")
    assert ln.load_spec(path, files_from=folder.parent).workload.queries == 2
    with pytest.raises(LeastnoiseError, match="is outside the folder"):
        ln.load_spec(path, files_from=folder / "deep")
    for arguments, code in (([], 2), (["--files-from", str(folder.parent)], 0)):
        with pytest.raises(SystemExit) as stopped:
            main(["plan", str(path), "--json", *arguments])
        assert (stopped.value.code or 0) == code
        assert ("--files-from" in capsys.readouterr().err) == bool(code)


def test_names_that_no_file_has_are_refused(folder, kind):
    for name in ("loop", '"\\0"'):
        (folder / "loop").unlink(missing_ok=True)
        (folder / "loop").symlink_to("loop")
        with pytest.raises(LeastnoiseError, match="cannot"):
            parse_spec(spec(kind, name), folder=folder)


def test_a_spec_as_text_has_the_folder_of_the_process(folder, kind, monkeypatch):
    monkeypatch.chdir(folder)
    assert parse_spec(spec(kind, f"f.{SUFFIX[kind]}")).workload.queries == 2
    with pytest.raises(LeastnoiseError, match="is outside the folder of the spec"):
        parse_spec(spec(kind, f"../f.{SUFFIX[kind]}"))


@pytest.mark.parametrize(
    "command", [["plan"], ["release"], ["check"], ["bounds"], ["audit"], ["local", "plan"]], ids=" ".join
)
def test_every_command_that_reads_a_spec_has_the_option(command, capsys):
    with pytest.raises(SystemExit):
        main([*command, "--help"])
    assert "--files-from" in capsys.readouterr().out
