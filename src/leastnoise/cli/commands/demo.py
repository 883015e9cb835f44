"""`leastnoise demo`."""

import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from pyarrow import parquet
from rich.console import Console
from rich.table import Table
from rich.text import Text

from leastnoise.cli.commands.release import summary, text
from leastnoise.cli.options import Json, Shown
from leastnoise.cli.progress import ProgressBar
from leastnoise.cli.show import PIPE_WIDTH, figure
from leastnoise.cli.survey import SPEC, survey
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.from_spec import plan_spec
from leastnoise.mechanisms.gate import Counts
from leastnoise.privacy import Budget
from leastnoise.privacy.ledger import Ledger
from leastnoise.release import LinearQuery, Release
from leastnoise.report.pages import write
from leastnoise.sources import Source, source_of
from leastnoise.storage.files import new_file, write_file
from leastnoise.workload.spec import load_spec

DATASET = "survey"
TOTAL = Budget(epsilon=2, delta=1e-9)  # of the ledger; the release spends 1 of it
QUESTIONS = [
    "*",
    "age between 18 and 30 and sex = 'F'",
    "region = 'capital' and income >= 50000",
    "education in ('bachelor', 'master') and hours < 20",
    "sex = 'F' and age < 35 and income < 20000",
]


def demo(
    folder: Annotated[
        Path | None, typer.Argument(metavar="[FOLDER]", help="A new folder for all files; by default a temporary one.")
    ] = None,
    as_json: Json = False,
    progress: Shown = None,
) -> None:
    """See all of it in a minute: a made-up survey of 50,000 people, a plan, a release, questions and a report."""
    started = time.perf_counter()
    paths = _paths(folder)
    with ProgressBar(progress) as bar:
        bar(0, 0, "making up a survey")
        with new_file(paths["data"]) as data:
            parquet.write_table(survey(), data)
        write_file(paths["spec"], SPEC.encode())
        spec = load_spec(paths["spec"])
        ledger = Ledger.create(paths["ledger"], TOTAL, DATASET, another=True)  # made-up data
        plan = plan_spec(spec, progress=bar)
        release = plan.run(str(paths["data"]), ledger=ledger, dataset=DATASET, out=paths["release"], progress=bar)
        bar(0, 0, "writing the report")
        write(release, paths["report"])
        answers = beside_the_truth(release, source_of(paths["data"], release.domain), QUESTIONS)
    fields = summary(release, paths["release"], ledger, plan) | {"answers": answers}
    fields |= {"files": {name: str(path) for name, path in paths.items()}, "seconds": time.perf_counter() - started}
    if as_json:
        typer.echo(json.dumps(fields, indent=2))
    else:
        show(fields)


def _paths(folder: Path | None) -> dict[str, Path]:
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="leastnoise-demo-"))
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise LeastnoiseError(f"{folder} exists already; choose a new folder")
    else:
        folder.mkdir(parents=True, exist_ok=True)
    names = {"data": "survey.parquet", "spec": "survey.yaml", "ledger": "survey.ledger"}
    names |= {"release": "release", "report": "report.html"}
    return {what: folder / name for what, name in names.items()}


def beside_the_truth(release: Release, source: Source, questions: Sequence[str]) -> list[dict[str, Any]]:
    """Answers beside exact counts: only for data that protects nobody."""
    pairs = zip(questions, release.ask_many(questions), strict=True)
    return [{"question": q, "truth": truth(source, release.query(q)), **answer.to_json()} for q, answer in pairs]


def truth(source: Source, query: LinearQuery) -> float:
    """The exact answer."""
    tables = Counts(source).tables([term.attributes for term in query.terms])
    return float(sum(np.vdot(term.weights, table) for term, table in zip(query.terms, tables, strict=True)))


def show(fields: dict[str, Any]) -> None:
    """Print what the demo did."""
    console = Console()
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    lines = ["A survey of 50,000 people who do not exist, so its true counts may be shown. Yours never should be.", ""]
    table = Table()
    table.add_column("question")
    for title in ("truth", "released", "std error", "95% interval"):
        table.add_column(title, justify="right")
    for answer in fields["answers"]:
        numbers = [f"{answer[key]:,.0f}" for key in ("truth", "value")]
        interval = f"{answer['low']:,.0f} to {answer['high']:,.0f}"
        table.add_row(Text(answer["question"]), *numbers, figure(answer["std_error"]), interval)
    for line in [*lines, text(fields), ""]:
        console.print(Text(line), soft_wrap=True)
    console.print(table)
    for name, path in fields["files"].items():
        console.print(Text(f"{name:8}{path}"), soft_wrap=True)
    console.print(Text(f"{fields['seconds']:.0f} seconds"))
