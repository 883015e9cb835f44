"""`leastnoise release`."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer

from leastnoise.cli.keys import check_known, keys_in
from leastnoise.cli.options import (
    DATA,
    Anonymous,
    Dataset,
    FilesFrom,
    Json,
    KeyFolders,
    LedgerFile,
    Memory,
    Note,
    Overwrite,
    Shown,
    SpecArgument,
    Table,
    user_name,
)
from leastnoise.cli.progress import ProgressBar
from leastnoise.cli.show import figure, privacy
from leastnoise.errors import LeastnoiseError, StoppedError
from leastnoise.mechanisms.from_spec import plan_spec
from leastnoise.mechanisms.mechanism import Mechanism
from leastnoise.mechanisms.stream.plan import StreamPlan
from leastnoise.mechanisms.stream.stream import Stream
from leastnoise.privacy.known_ledgers import spent_from
from leastnoise.privacy.ledger import BudgetError, Ledger
from leastnoise.privacy.units import percent, say
from leastnoise.release import Release, TableRelease
from leastnoise.release.files.folders import HEADER
from leastnoise.release.frames import check_showable
from leastnoise.release.rounds import Adaptivity
from leastnoise.release.statement import Origin
from leastnoise.sources.convert import places_of
from leastnoise.sources.files import files_of
from leastnoise.workload.publication import Publication
from leastnoise.workload.spec import Spec, load_spec

AnyRelease = TypeVar("AnyRelease", bound=Release)
NO_LEDGER = (
    "no ledger: nothing adds up what is spent on this dataset. Start one with: "
    "leastnoise ledger init FILE --dataset NAME --epsilon 2 --delta 1e-9, then use --ledger FILE"
)

OTHER_LEDGER = "this data spent from the ledger {0} before, which will not know of this; add --ledger {0}"


def release(
    spec: SpecArgument,
    out: Annotated[Path, typer.Option(help="The new folder of the release, or of the stream.", show_default=False)],
    data: Annotated[
        str | None, typer.Option(help=f"The data: {DATA} Without it, a stream is opened.", show_default=False)
    ] = None,
    ledger: LedgerFile = None,
    dataset: Dataset = None,
    table: Table = None,
    note: Note = "",
    tables: Annotated[Literal["parquet", "csv"] | None, typer.Option(help="Save all tables in reach as well.")] = None,
    overwrite: Overwrite = False,
    again: Annotated[
        bool, typer.Option("--again", help="Measure a plan once more that the ledger has a release of; it costs again.")
    ] = False,
    anonymous: Anonymous = False,
    memory: Memory = None,
    as_json: Json = False,
    progress: Shown = None,
    files_from: FilesFrom = None,
    keys: KeyFolders = None,
) -> None:
    """Measure data once by a spec, and save what may be published. This spends privacy.

    With `method: stream` and without data, a stream is opened: add counts with leastnoise stream.
    """
    stated = load_spec(spec, files_from=files_from, keys=keys_in(keys))
    check_known(stated, spec)
    check_showable(stated.workload.domain.names, stated.method)
    if data is None and stated.method != "stream":
        raise LeastnoiseError("say where the data is, with --data; only 'method: stream' does without")
    files = None if data is None else files_of(data, stated.file)
    book = ledger_at(ledger, None if data is None or ledger else spent_from(places_of(data, table, files)))
    name = dataset or (book.dataset if book else None)
    if files is not None and not files.plain:
        typer.echo(str(files), err=True)
    with ProgressBar(progress) as bar, stopping(book):
        mechanism = plan_spec(stated, progress=bar)
        if book is not None and not again:
            check_new(book, mechanism)
        if data is None:
            _open(mechanism, out, book, name, note, as_json, stated.publication)
            return
        published = run_stated(
            mechanism,
            data,
            stated,
            ledger=book,
            dataset=name,
            note=note,
            who=user_name(anonymous),
            out=out,
            tables=tables,
            overwrite=overwrite,
            table=table,
            memory=memory,
            progress=bar,
            publication=stated.publication,
        )
    fields = summary(published, out, book, mechanism)
    fields["file"] = None if files is None else files.to_json()
    answers = published.published_answers()
    fields["answers"] = answers.to_json()["answers"]
    typer.echo(json.dumps(fields, indent=2) if as_json else text(fields, mechanism))
    if len(answers) and not as_json:
        typer.echo(str(answers))


def check_new(book: Ledger, mechanism: Mechanism[Release]) -> None:
    """Refuse to pay twice for the same plan: its release answers the same questions, at no further cost."""
    known = book.measured(mechanism.fingerprint)
    if known:
        last = known[-1]
        note = f", {last.note!r}" if last.note else ""
        raise BudgetError(
            f"this plan was measured on {book.dataset!r} before (entry {last.id} of {last.time[:10]}{note}: release "
            f"{last.release}); use that release, which costs nothing more, or pay for another one with --again"
        )


def _open(
    mechanism: Mechanism[Release],
    folder: Path,
    book: Ledger | None,
    name: str | None,
    note: str,
    as_json: bool,
    words: Publication | None,
) -> None:
    assert isinstance(mechanism, StreamPlan), "the spec says so"
    with Stream(mechanism, folder=folder, ledger=book, dataset=name, note=note, publication=words) as stream:
        fields = {"method": "stream", "stream": str(folder), "ledger_entry": stream.ledger_entry, **mechanism.to_json()}
    lines = f"{mechanism}\nopened the stream {folder}; add counts with: leastnoise stream {folder} COUNT"
    typer.echo(json.dumps(fields, indent=2) if as_json else lines)


def ledger_at(path: Path | None, known: Path | None = None) -> Ledger | None:
    """The ledger, if there is one; otherwise a line on stderr names that of the data, or how to start one."""
    if path is None:
        typer.echo(NO_LEDGER if known is None else OTHER_LEDGER.format(known), err=True)
        return None
    return Ledger.open(path)


@contextmanager
def stopping(ledger: Ledger | None) -> Iterator[None]:
    """Say whether an interrupted release was paid for."""
    before = 0 if ledger is None else len(ledger.entries())
    try:
        yield
    except KeyboardInterrupt:
        entries = [] if ledger is None else ledger.entries()[before:]
        if entries:
            raise StoppedError(f"stopped after the debit; the ledger keeps its cost (entry {entries[-1].id})") from None
        raise


def run_stated(mechanism: Mechanism[AnyRelease], data: str, spec: Spec, **options: Any) -> AnyRelease:
    """Measure data by the rules, the unit and the form of the files that a spec states."""
    return mechanism.run(data, rules=spec.rules or None, unit=spec.unit_fields, file=spec.file, **options)


def summary(
    release: Release, out: Path, ledger: Ledger | None, mechanism: Mechanism[Release] | None = None
) -> dict[str, Any]:
    """What was released, at which cost, and where it is; with what the mechanism says of itself."""
    (origin,) = release.origins
    header = json.loads((out / HEADER).read_text())
    fields = {
        "release": str(out),
        "id": header["id"],
        "dataset": release.dataset,
        **_about(release, origin, mechanism),
        "privacy": header["privacy"],
        "insecure": release.insecure,
        "ledger": None,
    }
    if ledger is not None:
        rest = ledger.left
        left, share = say(rest, ledger.total, up=False), percent(rest, ledger.total_cost, up=False)
        fields["ledger"] = {"path": str(ledger.path), "entry": origin.ledger_entry, "left": left, "left_percent": share}
    return fields


def _about(release: Release, origin: Origin, mechanism: Mechanism[Release] | None) -> dict[str, Any]:
    if origin.adaptive is not None and isinstance(release, TableRelease):
        return _adaptive(release, origin.adaptive)
    if origin.summary is not None:
        return _planned(origin)
    return {} if mechanism is None else {"method": mechanism.method, **mechanism.to_json()}


def _planned(origin: Origin) -> dict[str, Any]:
    assert origin.summary is not None, "what is not adaptive was planned"
    fields = ("queries", "rmse", "max_std_error")
    return {"method": "plan"} | {name: getattr(origin.summary, name) for name in fields}


def _adaptive(release: TableRelease, adaptivity: Adaptivity) -> dict[str, Any]:
    """What became of the tables of the workload; errors are in rows, summed over the queries of a table (L1)."""
    errors = release.complete().errors()
    expected = errors["expected_l1"].dropna()  # nothing tells the others
    return {
        "method": "adaptive",
        "select": adaptivity.method,
        "queries": adaptivity.workload.queries,
        "tables": len(errors),
        "tables_measured": int(errors["measured"].sum()),
        "rounds": len(adaptivity.rounds),
        "expected_l1": float(expected.mean()) if len(expected) else None,
    }


def text(fields: dict[str, Any], mechanism: Mechanism[Release] | None = None) -> str:
    """The same for people to read."""
    first = WORDS.get(fields["method"])
    if first is None:
        return "\n".join([str(mechanism), f"released to {fields['release']}", *closing_text(fields)])
    return "\n".join([*first(fields), f"spent {privacy(fields['privacy'])}", *closing_text(fields)])


def closing_text(fields: dict[str, Any]) -> Iterator[str]:
    """What is left, and what to do next."""
    if fields["ledger"]:
        book = fields["ledger"]
        yield f"left in the ledger: {book['left']}, {book['left_percent']} of the total (entry {book['entry']})"
    yield f"look at it with: leastnoise report {fields['release']}"


def _planned_text(fields: dict[str, Any]) -> Iterator[str]:
    yield f"released {fields['queries']:,} statistics{_whose(fields)} to {fields['release']}"
    yield f"RMSE {figure(fields['rmse'])}, largest standard error {figure(fields['max_std_error'])}"


def _adaptive_text(fields: dict[str, Any]) -> Iterator[str]:
    tables, measured = fields["tables"], fields["tables_measured"]
    released = f"released {tables:,} tables{_whose(fields)} to {fields['release']}"
    yield f"{released}, adaptively in {fields['rounds']:,} rounds"
    which = "a measured table" if fields["select"] == "aim" and measured < tables else "a table"
    errors = f"; the errors in {which} are expected to add up to {figure(fields['expected_l1'])} on average"
    known = errors if fields["expected_l1"] is not None else ""
    yield f"{measured:,} measured, {tables - measured:,} to be completed from what was measured{known}"


def _whose(fields: dict[str, Any]) -> str:
    return f" of {fields['dataset']}" if fields["dataset"] else ""


WORDS = {"plan": _planned_text, "adaptive": _adaptive_text}  # other mechanisms print themselves
