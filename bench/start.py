"""What a start costs: processor seconds and modules of an import and of short commands, beside `import numpy`."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.common import Column, Report
from leastnoise import Budget, Domain, Workload, plan

SPEC = """\
attributes: {age: {range: [0, 9]}, sex: {values: [F, M, X]}}
workload: [{queries: marginal, ways: [1, 2]}]
privacy: {mu: 1}
"""
COMMAND = "import sys; from leastnoise.cli import main; main(sys.argv[1:])"
COUNTED = """\
import atexit, json, sys
atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))
"""
STARTS: dict[str, tuple[str, ...]] = {
    "python": ("pass",),
    "import numpy": ("import numpy",),
    "import leastnoise": ("import leastnoise",),
    "leastnoise --help": (COMMAND, "--help"),
    "leastnoise plan": (COMMAND, "plan", "spec.yaml"),
    "leastnoise ask": (COMMAND, "ask", "release", "age < 5"),
}
MOST_RATIO, MOST_HELP = 2.0, 0.5
COLUMNS = (Column("start", "start".rjust(18)), Column("cpu", "s of CPU", ".3f"), Column("modules", "modules", ",d"))


def processor_seconds(code: str, *arguments: str) -> float:
    """User and system time of one process."""
    before = os.times()
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def modules(code: str, *arguments: str) -> list[str]:
    """The modules that a process has imported when it ends."""
    command = [sys.executable, "-c", COUNTED + code, *arguments]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    return list(json.loads(ended.stderr.splitlines()[-1]))


def figure(start: str, repeats: int) -> dict[str, Any]:
    """One row: the least processor time of some repeats, the first of which only warms the disk cache."""
    seconds = [processor_seconds(*STARTS[start]) for _ in range(repeats + 1)]
    return {"start": start, "cpu": min(seconds[1:]), "modules": len(modules(*STARTS[start]))}


def prepare(folder: Path) -> None:
    """A spec and a release to plan and to ask."""
    (folder / "spec.yaml").write_text(SPEC, encoding="utf-8")
    work = Workload(Domain.of(age=range(10), sex=["F", "M", "X"])).marginals(ways=2)
    plan(work, Budget(mu=1)).run(np.full((10, 3), 5), out=folder / "release")


def main(argv: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--repeats", type=int, default=5, help="processes per start; the fastest counts")
    options = p.parse_args(argv)
    report = Report("start", options, COLUMNS, "one process each")
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        here = Path.cwd()
        os.chdir(folder)
        try:
            for start in STARTS:
                report.add(figure(start, options.repeats))
        finally:
            os.chdir(here)
    cpu = {f["start"]: f["cpu"] for f in report.figures}
    ratio = cpu["import leastnoise"] / cpu["import numpy"]
    print(f"import leastnoise / import numpy: {ratio:.2f}")
    if options.repeats > 1:  # one process beside others is no measurement
        report.require(ratio <= MOST_RATIO, f"the import takes {ratio:.2f} times that of NumPy; at most {MOST_RATIO:g}")
        report.require(cpu["leastnoise --help"] <= MOST_HELP, f"--help takes more than {MOST_HELP:g} s")
    return report.finish()


if __name__ == "__main__":
    raise SystemExit(main())
