"""What is handed out: packages that install and run outside the checkout, the image, and the files beside them."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

import leastnoise as ln

ROOT = Path(__file__).parents[1]
MOST_MB = 700  # of an environment that runs leastnoise


class Step(NamedTuple):
    """One instruction of a Dockerfile."""

    word: str
    rest: str


def steps() -> list[Step]:
    lines = (ROOT / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    return [Step(*line.split(maxsplit=1)) for line in lines if line.strip() and not line.startswith("#")]


def outside(folder: Path) -> dict[str, str]:
    """Variables of a process that has a new environment first in its path, and nothing of the checkout."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return kept | {"PATH": f"{folder / 'python' / 'bin'}{os.pathsep}{os.environ['PATH']}"}


class Container:
    """The steps of a Dockerfile in a folder that stands for the root of the image, and a new Python environment."""

    def __init__(self, folder: Path) -> None:
        self.root, self.here = folder, folder
        self.variables = outside(folder)
        subprocess.run([sys.executable, "-m", "venv", folder / "python"], check=True)

    def build(self) -> None:
        for step in steps():
            getattr(self, f"_{step.word.lower()}")(step.rest)

    def run(self, *command: str) -> str:
        ended = subprocess.run(command, cwd=self.here, env=self.variables, check=True, capture_output=True, text=True)
        return ended.stdout

    def _from(self, image: str) -> None:
        assert re.fullmatch(r"python:3\.\d+-slim", image)

    def _workdir(self, path: str) -> None:
        self.here = self.root / path.lstrip("/")
        self.here.mkdir(parents=True, exist_ok=True)

    def _copy(self, paths: str) -> None:
        *sources, target = shlex.split(paths)
        for source in sources:
            if (ROOT / source).is_dir():
                skipped = shutil.ignore_patterns("__pycache__", "*.egg-info")
                shutil.copytree(ROOT / source, self.here / target, ignore=skipped)
            else:
                shutil.copy(ROOT / source, self.here / target)

    def _run(self, command: str) -> None:
        self.run("sh", "-ec", command)

    def _user(self, number: str) -> None:
        assert re.fullmatch(r"\d+:\d+", number), "a number: the image has no other users"

    def _entrypoint(self, command: str) -> None:
        self.entry = json.loads(command)

    def _cmd(self, arguments: str) -> None:
        self.arguments = json.loads(arguments)


@pytest.mark.slow
def test_the_steps_of_the_image_give_a_command_that_runs(tmp_path):
    container = Container(tmp_path)
    container.build()
    assert "COMMAND [ARGS]" in container.run(*container.entry, *container.arguments)
    message = json.loads(container.run(*container.entry, "demo", "demo", "--json"))
    assert Path(container.here, message["files"]["report"]).is_file()
    size = sum(file.lstat().st_size for file in (tmp_path / "python").rglob("*"))
    assert size < MOST_MB * 2**20, f"{size / 2**20:,.0f} MB"


@pytest.mark.slow
def test_a_wheel_and_an_sdist_install_and_run_outside_the_checkout(tmp_path):
    command = ["sh", str(ROOT / "tools" / "packages.sh"), sys.executable, str(tmp_path / "dist")]
    ended = subprocess.run(command, cwd=tmp_path, env=outside(tmp_path), capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    names = sorted(path.name for path in (tmp_path / "dist").iterdir())
    assert names == [f"leastnoise-{ln.__version__}-py3-none-any.whl", f"leastnoise-{ln.__version__}.tar.gz"]
    assert ended.stdout.count("report.html") == 2
    (size,) = re.findall(r"environment: (\d+) MB", ended.stdout)
    assert int(size) < MOST_MB


def test_what_the_image_copies_is_there_and_not_ignored():
    copied = {source for step in steps() if step.word == "COPY" for source in shlex.split(step.rest)[:-1]}
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert copied == kept
    assert all((ROOT / source).exists() for source in copied)


def test_versions_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert project["version"] == ln.__version__ == cited["version"]
    assert project["license"] == cited["license"]
    assert f"leastnoise-{ln.__version__}-py3-none-any.whl" in (ROOT / "README.md").read_text()


def test_extras_that_messages_name_are_in_the_readme():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {
        extra for path in (ROOT / "src").rglob("*.py") for extra in re.findall(r"extra=\"(\w+)\"\)", path.read_text())
    }
    listed = set(
        re.findall(r"`(\w+)`", (ROOT / "README.md").read_text().split("| extra | brings |")[1].split("\n\n")[0])
    )
    assert named == listed
    assert named <= extras.keys()
