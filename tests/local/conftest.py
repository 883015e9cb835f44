import pytest
from typer.testing import CliRunner

from leastnoise.cli import app
from tests.local.commands import SPEC


@pytest.fixture(scope="package")
def made_plan(tmp_path_factory):
    """A spec with its plan, made once."""
    folder = tmp_path_factory.mktemp("local")
    (folder / "s.yaml").write_text(SPEC)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        result = CliRunner().invoke(app, ["local", "plan", "s.yaml", "-o", "s.plan", "--devices", "10000"])
    assert result.exit_code == 0, result.output
    return folder, result.stdout


@pytest.fixture
def planned(tmp_path, monkeypatch, made_plan):
    """The spec and its plan, in the folder where commands run."""
    for name in ("s.yaml", "s.plan"):
        (tmp_path / name).write_bytes((made_plan[0] / name).read_bytes())
    monkeypatch.chdir(tmp_path)
