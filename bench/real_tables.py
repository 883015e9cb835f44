"""From tables as they come to a page: drafted, checked, planned, released, asked, printed and exported in the shell.

`--data FOLDER` names a folder of tables, which are not part of the project; without it two small ones are made up.
Edits are lines of the drafted spec that are changed by hand, three at most. Every exported interval of a table of
one attribute is compared with what pandas counts in the file (bench/real_truth.py); a run in which all is right fails
once in a million.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shlex
import tempfile
import time
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

from bench.common import Column, Report, reached
from bench.real_truth import Agreement, agreement, unusual
from leastnoise import Domain, load
from leastnoise.cli import main as command
from leastnoise.domain.binned import Bins
from leastnoise.domain.listed import Values
from leastnoise.domain.numeric import Integers
from leastnoise.privacy.known_ledgers import VARIABLE
from leastnoise.workload.spec import load_spec

MOST_EDITS, MOST_SECONDS = 3, 60.0
FALSE_ALARMS, MOST_DEVIATIONS = 5e-7, 5.03  # of all sums of squares together, and of coverage: both 5e-7
PEOPLE = ("privacy:", "unit: {id: customer, max_rows: 5}\nprivacy:")
# What a user adds: to the name of the file, to the draft, and to the command that makes the ledger.
OPTIONS = {"CDNOW_master": "?names=customer,day,items,amount", "purchases": "?names=customer,day,items,amount"}
EDITS: dict[str, Sequence[tuple[str, str]]] = {"CDNOW_master": [PEOPLE], "purchases": [PEOPLE]}
COLUMNS = (
    Column("table", "table".rjust(20)),
    Column("rows", "rows", ",d"),
    Column("attributes", "attributes", "d"),
    Column("edits", "edits", "d"),
    Column("commands", "commands", "d"),
    Column("intervals", "intervals", ",d"),
    Column("coverage", "coverage", ".1%"),
    Column("look_cpu", "look, s", ".1f"),
    Column("plan_cpu", "plan, s", ".1f"),
    Column("cpu", "all, s", ".1f"),
    Column("result", "result"),
)


def run(line: str) -> tuple[str, float]:
    """What a command prints, and its processor seconds; refuses one that fails."""
    out, err, started = io.StringIO(), io.StringIO(), time.process_time()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            command(shlex.split(line))
        except SystemExit as end:
            code = end.code
    if code:
        raise RuntimeError(f"{line}: {err.getvalue().strip() or out.getvalue().strip()}")
    return out.getvalue(), time.process_time() - started


def edited(path: Path, changes: Sequence[tuple[str, str]]) -> int:
    """Change a draft, and say how many changes that took."""
    text = path.read_text(encoding="utf-8")
    for old, new in changes:
        before, found, after = text.rpartition(old)
        assert found, f"{old!r} is not in the draft"
        text = before + new + after
    path.write_text(text, encoding="utf-8")
    return len(changes)


def questions(domain: Domain) -> list[str]:
    """A mean, a percentage and the most frequent value, of attributes that have them."""
    numbers = [a.name for a in domain if isinstance(a.values.base, Bins | Integers)]
    listed = [a for a in domain if type(a.values.base) is Values and a.size > 1]
    listed = listed or [a for a in domain if a.name in numbers]
    first = listed[0].values.shown(0) if isinstance(listed[0].values.base, Bins) else listed[0].value(0)
    value = f"""'{first.replace("'", "''")}'""" if isinstance(first, str) else str(first)
    wanted = [f"mean(`{numbers[0]}`)", f"median(`{numbers[-1]}`)"] if numbers else []
    return [*wanted, f"percent(`{listed[0].name}` = {value})", f"top(1, `{listed[-1].name}`)"][-3:]


def travel(data: Path) -> tuple[dict[str, Any], Agreement]:
    """All the way from one table, in the current folder, and whether the answers are right."""
    name = data.stem
    place = shlex.quote(f"{data}{OPTIONS.get(name, '')}")
    _, look = run(f"init {place} --look --out spec.yaml")
    edits = edited(Path("spec.yaml"), EDITS.get(name, ()))
    checked, cpu = run(f"check spec.yaml --data {place} --json")
    _, planning = run("plan spec.yaml")
    asked = " ".join(map(shlex.quote, questions(load_spec(Path("spec.yaml")).workload.domain)))
    protects = "people" if edits else "rows"
    for line in (
        f"ledger init data.ledger --dataset {name} --epsilon 3 --delta 1e-9 --protects {protects}",
        f"release spec.yaml --data {place} --ledger data.ledger --out out",
        f"ask out {asked}",
        "report out --out page.html",
        "export out --out tables --format csvw",
    ):
        cpu += run(line)[1]
    result = json.loads(checked)
    right = agreement(data, Path("spec.yaml"), load("out"), Path("tables"))
    figure = {"table": name, "rows": result["rows"], "attributes": len(result["columns"]), "edits": edits}
    figure |= {"intervals": right.intervals, "coverage": right.covered / right.intervals}
    return figure | {"commands": 8, "look_cpu": look, "plan_cpu": planning, "cpu": look + planning + cpu}, right


def made_up(folder: Path) -> None:
    """Purchases without a line of names, and contacts with dates of 1900 and names of people."""
    rng = np.random.default_rng(1)
    days = [str(np.datetime64("2021-01-01") + int(k)) for k in rng.integers(0, 500, 2000)]
    lines = [
        f" {rng.integers(1, 400):05d} {day.replace('-', '')}  {rng.geometric(0.5)}   {rng.gamma(2, 20):.2f}"
        for day in days
    ]
    (folder / "purchases.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows = (
        f"Ann {k % 40},{'1900-01-01' if k % 9 == 0 else day},{rng.choice(['N', 'Y '])},{rng.integers(18, 90)}"
        for k, day in enumerate(days)
    )
    (folder / "contacts.csv").write_text("\n".join(["name,date,force,age", *rows]) + "\n", encoding="utf-8")


def journeys(report: Report, tables: Sequence[Path], scratch: Path) -> list[Agreement]:
    """One row for each table, in a folder of its own."""
    here, agreements = Path.cwd(), []
    for data in tables:
        os.chdir(tempfile.mkdtemp(dir=scratch))
        try:
            figure, right = travel(data)
            agreements.append(right)
            wrong = right.chance < FALSE_ALARMS / len(tables)
            report.require(not wrong, f"{data.stem}: errors this unusual have a probability of {right.chance:.1e}")
            report.add({**figure, "result": "wrong" if wrong else "ok"})
        except RuntimeError as error:
            report.require(False, f"{data.stem}: {error}")
            report.add({"table": data.stem, "result": "stopped"})
        finally:
            os.chdir(here)
    return agreements


def main(argv: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", type=Path, help="a folder of tables")
    p.add_argument("--only", nargs="*", help="names of tables, without endings")
    options = p.parse_args(argv)
    report = Report("real_tables", options, COLUMNS, "eight commands each, in one process; seconds of processor time")
    before = os.environ.get(VARIABLE)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "tables") if options.data is None else options.data.absolute()
        if options.data is None:
            folder.mkdir()
            made_up(folder)
        os.environ[VARIABLE] = scratch  # so that the tables stay without a ledger of this user
        tables = [path for path in sorted(folder.iterdir()) if path.is_file()]
        chosen = [path for path in tables if not options.only or path.stem in options.only]
        agreements = journeys(report, chosen, Path(scratch))
        os.environ.pop(VARIABLE) if before is None else os.environ.update({VARIABLE: before})
    done = [f for f in report.figures if f["result"] == "ok"]
    few = bool(done) and all(f["edits"] <= MOST_EDITS for f in done)
    report.require(reached(f"{MOST_EDITS} edits at most", few), "a table took more edits, or there is none")
    report.target("slowest plan of a draft", max((f["plan_cpu"] for f in done), default=0.0), MOST_SECONDS)
    if agreements:
        share = sum(a.covered for a in agreements) / sum(a.intervals for a in agreements)
        print(f"{share:.1%} of {sum(a.intervals for a in agreements):,} intervals hold the truth")
        report.target("distance of the coverage from 95%", unusual(agreements), MOST_DEVIATIONS, "deviations")
    return report.finish()


if __name__ == "__main__":
    raise SystemExit(main())
