"""`leastnoise ask`."""

import json
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from leastnoise.cli.options import Confidence, Json, ReleaseArgument, Simultaneous
from leastnoise.cli.progress import ProgressBar
from leastnoise.cli.words import in_shell_words
from leastnoise.errors import LeastnoiseError
from leastnoise.release import Release, TableRelease
from leastnoise.release.asking import Answered, Answers, question_of
from leastnoise.release.files.one_table import about, write_table
from leastnoise.release.kinds import load
from leastnoise.release.queries.linear import Condition
from leastnoise.release.queries.reach import MANY
from leastnoise.release.statement import INSECURE
from leastnoise.storage.files import check_target


def opened(path: Path) -> Release:
    """A release of any kind from its folder; seeded noise is reported on stderr."""
    release = load(path)
    if release.insecure:
        typer.echo(INSECURE, err=True)
    return release


def opened_tables(path: Path) -> TableRelease:
    """The same for commands that need a release of tables."""
    release = opened(path)
    if not isinstance(release, TableRelease):
        raise LeastnoiseError(f"{path} is a {release.kind}; ask, table, show and report take it")
    return release


@contextmanager
def completing(release: Release, path: Path, tables: Iterable[Sequence[str]]) -> Iterator[None]:
    """Where an adaptive release did not measure a table, say how to get a completed one."""
    try:
        yield
    except LeastnoiseError as error:
        for names in tables if any(o.adaptive for o in release.origins) else ():
            attributes = [release.domain.index(n) for n in names]
            if len(set(attributes)) == len(attributes) <= MANY and not release.has_table(attributes):
                how = shlex.join(["leastnoise", "table", str(path), *names, "--complete"])
                raise LeastnoiseError(f"{error}; for a biased guess: {how}") from None
        raise


def ask(
    path: ReleaseArgument,
    questions: Annotated[list[str], typer.Argument(metavar="QUESTION...", help="Questions, each in quotes.")],
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ATTRIBUTE", help="An answer for each value of an attribute, or of a level such as geo.state."
        ),
    ] = None,
    minus: Annotated[
        Path | None, typer.Option(metavar="RELEASE", help="Less the answers of this release.", show_default=False)
    ] = None,
    confidence: Confidence = 0.95,
    simultaneous: Simultaneous = False,
    csv: Annotated[Path | None, typer.Option(help="Write the answers to this CSV file.", show_default=False)] = None,
    as_json: Json = False,
) -> None:
    """Ask a release any questions: counts, sums, means, medians, percentages, ratios, differences, the largest counts.

    Each has its standard error and interval. A question that cannot be answered has its error in its place, and the
    exit code is 2. Costs no privacy, needs no data.
    """
    if csv is not None:
        check_target(csv, overwrite=True)
    release, other = opened(path), None if minus is None else opened(minus)
    with ProgressBar() as bar:
        answers = release.ask_all(
            questions, by or (), minus=other, confidence=confidence, simultaneous=simultaneous, progress=bar
        )
    answers = replace(answers, items=tuple(_hinted(release, path, item) for item in answers))
    if len(questions) == 1 and answers.errors and not as_json:
        _check(answers)
    if csv is not None:
        write_table(answers.to_pandas(), csv, "csv", about(release))
    if as_json:
        typer.echo(json.dumps(answers.to_json(), indent=2))
    elif csv is None:
        typer.echo(str(answers))
    _check(answers)


def _check(answers: Answers) -> None:
    """Fail after all answers are shown, where some question has none."""
    bad = [item for item in answers if item.error]
    if len(bad) == 1:
        raise LeastnoiseError(f"{bad[0].question!r}: {bad[0].error}")
    if bad:
        raise LeastnoiseError(f"{len(bad):,} of {len(answers):,} questions have no answer; see their errors")


def _hinted(release: Release, path: Path, item: Answered) -> Answered:
    """An error in the words of the shell; of an adaptive release it says how to get a completed table."""
    item = replace(item, error=in_shell_words(item.error))
    if not item.error or not any(o.adaptive for o in release.origins):
        return item
    try:
        reading = question_of(release, item.question)(Condition(release.domain))
        tables = {tuple(release.domain.names[a] for a in term.attributes) for q in reading.queries for term in q.terms}
        with completing(release, path, tables):
            raise LeastnoiseError(item.error)
    except LeastnoiseError as error:
        return replace(item, error=str(error))
