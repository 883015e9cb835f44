"""`leastnoise ask`."""

import json
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from leastnoise.cli.options import Confidence, Json, ReleaseArgument, Simultaneous
from leastnoise.errors import LeastnoiseError
from leastnoise.release import Answer, LinearQuery, Release, TableRelease
from leastnoise.release.kinds import load
from leastnoise.release.queries.reach import MANY
from leastnoise.release.statement import INSECURE


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
    confidence: Confidence = 0.95,
    simultaneous: Simultaneous = False,
    as_json: Json = False,
) -> None:
    """Ask a release any questions: counts with their standard errors and intervals. Costs no privacy, needs no data."""
    release = opened(path)
    queries = [_query(release, question) for question in questions]
    tables = {tuple(release.domain.names[a] for a in term.attributes) for q in queries for term in q.terms}
    with completing(release, path, tables):
        answers = list(release.ask_many(questions, confidence, simultaneous))
    _print(questions, answers, release.insecure, simultaneous, as_json)


def _print(
    questions: Sequence[str], items: Sequence[Answer], insecure: bool, simultaneous: bool, as_json: bool
) -> None:
    answers = [{"question": question, **answer.to_json()} for question, answer in zip(questions, items, strict=True)]
    lines = [f"{question}: {answer}" for question, answer in zip(questions, items, strict=True)]
    if as_json:
        fields = {"insecure": insecure, "simultaneous": simultaneous, "answers": answers}
        typer.echo(json.dumps(fields, indent=2))
    else:
        typer.echo("\n".join(lines))


def _query(release: Release, question: str) -> LinearQuery:
    with _naming(question):
        return release.query(question)


@contextmanager
def _naming(question: str) -> Iterator[None]:
    """There may be several questions: say which one is meant."""
    try:
        yield
    except LeastnoiseError as error:
        raise LeastnoiseError(f"{question!r}: {error}") from None
