"""Noise from a seed protects nobody: every output of every kind of release says so, and none of a secure one does."""

import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import leastnoise as ln
from leastnoise.cli import app
from leastnoise.errors import LeastnoiseError
from leastnoise.estimate import Estimate
from leastnoise.local import Collector, local_plan, save_plan, simulate
from leastnoise.mechanisms.tree import tree_plan
from leastnoise.noise import RandomSource, SecureRandomSource, SeededRandomSource
from leastnoise.release.files.one_table import cell, harmless, write_table

PLACES: dict[str, Any] = {}  # what commands ask of the kind of release at hand
BUDGET = ln.Budget(mu=1)
WORK = ln.Workload(ln.Domain.of(a=3, b=["x", "y"])).marginals(ways=[1, 2])
ROWS = pd.DataFrame({"a": [0, 1, 2, 2], "b": ["x", "y", "x", "y"]})
TREE = ln.hierarchy({"north": ["u", "v"], "south": ["w"]})


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def told(*arguments: object) -> bool:
    """What the JSON of a command says."""
    result = json.loads(run(*arguments, "--json"))
    return bool(result["insecure"] if "insecure" in result else result["all"]["insecure"])


def in_csv(path: Path) -> bool:
    frame = pd.read_csv(path)
    assert "insecure" not in frame or frame["insecure"].all()
    return "insecure" in frame


def in_parquet(path: Path) -> bool:
    """A column, and the metadata of the schema."""
    table = pq.read_table(path)
    metadata = json.loads(table.schema.metadata[b"leastnoise"])
    column = "insecure" in table.column_names and all(table["insecure"].to_pylist())
    assert metadata["insecure"] == column == ("insecure" in table.column_names)
    assert pd.read_parquet(path).attrs["insecure"] == column
    return column


def in_page(path: Path) -> bool:
    return 'class="banner" role="alert"' in path.read_text("utf-8")


def _tables(folder: Path, random_source: RandomSource) -> Any:
    return ln.plan(WORK, BUDGET).run(ROWS, random_source=random_source, out=folder / "out")


def _adaptive(folder: Path, random_source: RandomSource) -> Any:
    return ln.adaptive_plan(WORK, BUDGET).run(ROWS, random_source=random_source, out=folder / "out")


def _matrix(folder: Path, random_source: RandomSource) -> Any:
    return ln.matrix_plan(np.tri(3), BUDGET).run(np.arange(3), random_source=random_source, out=folder / "out")


def _cascade(folder: Path, random_source: RandomSource) -> Any:
    return tree_plan(TREE, budget=BUDGET).run(np.arange(3), random_source=random_source, out=folder / "out")


def _stream(folder: Path, random_source: RandomSource) -> Any:
    with ln.mechanisms.Stream(
        ln.matrix_plan(ln.running_totals(3), BUDGET), folder=folder / "days", random_source=random_source
    ) as stream:
        stream.add(4)
        return stream


def _local(folder: Path, random_source: RandomSource) -> Any:
    plan = local_plan(ln.Workload(ln.Domain.of(a=3)).marginals(ways=1), 1)
    save_plan(plan, folder / "plan")
    (folder / "reports.bin").write_bytes(simulate(plan, np.arange(300)[:, None] % 3, random_source))
    run("local", "collect", folder / "plan", folder / "reports.bin", "-o", folder / "state")
    return plan


def written(check: Callable[[Path], bool], name: str, *command: object) -> Callable[[Path, Any], bool]:
    """An output that a command writes to a file."""

    def output(folder: Path, release: Any) -> bool:
        (folder / name).unlink(missing_ok=True)
        run(*_filled(command, folder), folder / name)
        return check(folder / name)

    return output


def shown(*command: object) -> Callable[[Path, Any], bool]:
    return lambda folder, release: told(*_filled(command, folder))


def _filled(command: Sequence[object], folder: Path) -> list[str]:
    """Words of a command; {names} and {question} are those of the kind of release."""
    words: list[str] = []
    for part in command:
        words += PLACES["names"] if part == "{names}" else [str(part).format(f=folder, **PLACES)]
    return words


def _saved(folder: Path, release: Any) -> bool:
    header = json.loads((folder / "out" / "release.json").read_text())
    assert header["insecure"] == (header["warning"] is not None) == ("INSECURE" in header["privacy"]["statement"])
    return bool(header["insecure"])


def _exported(format: str, check: Callable[[Path], bool]) -> Callable[[Path, Any], bool]:
    def output(folder: Path, release: Any) -> bool:
        release.export(folder / "tables", format=format, overwrite=True)
        files = list((folder / "tables").glob(f"*.{format}"))
        marks = {check(file) for file in files} | {"INSECURE" in (folder / "tables" / "README.txt").read_text()}
        assert len(files) >= 3
        assert len(marks) == 1
        return marks.pop()

    return output


def _saved_with(format: str, check: Callable[[Path], bool]) -> Callable[[Path, Any], bool]:
    def output(folder: Path, release: Any) -> bool:
        release.save(folder / "again", tables=format, overwrite=True)
        return check(next((folder / "again" / "tables").glob(f"1-*.{format}")))

    return output


def _arrow(folder: Path, release: Any) -> bool:
    table = release.to_arrow("a")
    assert json.loads(table.schema.metadata[b"leastnoise"])["insecure"] == ("insecure" in table.column_names)
    return "insecure" in table.column_names


def _estimate(folder: Path, release: Any) -> bool:
    release.fit().save(folder / "fit")
    return bool(Estimate.load(folder / "fit").source.insecure)


def _answers(folder: Path, release: Any) -> bool:
    in_file = written(in_csv, "t.csv", "local", "answers", "{f}/state", "--csv")(folder, release)
    assert in_file == ("seed" in CliRunner().invoke(app, ["local", "answers", str(folder / "state")]).stderr)
    return in_file


EVERY: dict[str, Callable[[Path, Any], bool]] = {
    "folder": _saved,
    "table --csv": written(in_csv, "t.csv", "table", "{f}/out", "{names}", "--csv"),
    "table --parquet": written(in_parquet, "t.parquet", "table", "{f}/out", "{names}", "--parquet"),
    "table --json": shown("table", "{f}/out", "{names}"),
    "show --json": shown("show", "{f}/out"),
    "ask --json": shown("ask", "{f}/out", "{question}"),
    "report": written(in_page, "page.html", "report", "{f}/out", "--out"),
    "report --json": shown("report", "{f}/out", "--out", "{f}/page.html"),
    "repr": lambda folder, release: "INSECURE" in repr(release) + str(release),
}
OF_TABLES = {
    "export csv": _exported("csv", in_csv),
    "export parquet": _exported("parquet", in_parquet),
    "save csv": _saved_with("csv", in_csv),
    "save parquet": _saved_with("parquet", in_parquet),
    "arrow": _arrow,
    "estimate": _estimate,
    "synth csv": written(in_csv, "s.csv", "synth", "{f}/out", "--rows", 5, "--out"),
    "synth parquet": written(in_parquet, "s.parquet", "synth", "{f}/out", "--rows", 5, "--out"),
    "synth --json": shown("synth", "{f}/out", "--rows", 5, "--out", "{f}/s.csv"),
}
LOCAL = {
    "simulate": lambda folder, plan: (folder / "reports.bin").read_bytes()[0] != plan.prefix[0],
    "collect --json": shown("local", "collect", "{f}/plan", "{f}/reports.bin", "-o", "{f}/second"),
    "merge --json": shown("local", "merge", "{f}/state", "-o", "{f}/merged"),
    "answers --json": shown("local", "answers", "{f}/state"),
    "answers --csv": _answers,
    "answers table --csv": written(in_csv, "t.csv", "local", "answers", "{f}/state", "a", "--csv"),
    "answers --html": written(in_page, "t.html", "local", "answers", "{f}/state", "--html"),
}
KINDS: dict[str, tuple[Callable[[Path, RandomSource], Any], list[str], str, dict[str, Any]]] = {
    "tables": (_tables, ["a"], "a = 1", EVERY | OF_TABLES),
    "adaptive": (_adaptive, ["a"], "a = 1", EVERY | OF_TABLES),
    "matrix": (_matrix, ["item"], "1", EVERY),
    "cascade": (_cascade, ["leaf"], "north", EVERY),
    "stream": (_stream, [], "", {"stream --json": shown("stream", "{f}/days")}),
    "local": (_local, [], "", LOCAL),
}
OUTPUTS = [(kind, output) for kind, (*_, outputs) in KINDS.items() for output in outputs]


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Callable[[str, bool], tuple[Path, Any]]:
    """Each kind of release with and without a seed, made once."""
    known: dict[tuple[str, bool], tuple[Path, Any]] = {}

    def make(kind: str, seeded: bool) -> tuple[Path, Any]:
        if (kind, seeded) not in known:
            folder = tmp_path_factory.mktemp("marks")
            known[kind, seeded] = (
                folder,
                KINDS[kind][0](folder, SeededRandomSource(1) if seeded else SecureRandomSource()),
            )
        return known[kind, seeded]

    return make


@pytest.mark.long
@pytest.mark.covering("kind output", "seeded")
@pytest.mark.parametrize("seeded", [True, False], ids=["seeded", "secure"])
@pytest.mark.parametrize(("kind", "output"), OUTPUTS, ids=lambda name: name)
def test_outputs_say_whether_noise_was_seeded(kind, output, seeded, made, monkeypatch):
    folder, release = made(kind, seeded)
    _, names, question, outputs = KINDS[kind]
    monkeypatch.setitem(PLACES, "names", names)
    monkeypatch.setitem(PLACES, "question", question)
    assert outputs[output](folder, release) == seeded


def test_reports_from_a_seed_are_counted(made):
    _, plan = made("local", True)
    records = np.zeros((5, 1), dtype=np.int64)
    secure, seeded = (
        simulate(plan, records, random_source) for random_source in (SecureRandomSource(), SeededRandomSource(2))
    )
    collector, other = Collector(plan), Collector(plan)
    collector.add_block(secure)
    assert (collector.reports, collector.seeded, collector.insecure) == (5, 0, False)
    other.add_block(seeded + secure + seeded[: plan.report_bytes])
    collector.merge(other)
    assert (collector.reports, collector.seeded, collector.insecure) == (16, 6, True)
    assert not any(collector.rejected.values())
    wrong = bytearray(seeded[: plan.report_bytes])
    wrong[1] ^= 1  # of another plan
    collector.add(bytes(wrong))
    assert (collector.seeded, collector.rejected["plan"]) == (6, 1)


def test_reports_from_a_seed_differ_in_their_first_byte_alone(made):
    """The mark changes nothing in what is answered."""
    _, plan = made("local", True)
    seeded = simulate(plan, np.arange(60)[:, None] % 3, SeededRandomSource(3))
    rows = np.frombuffer(seeded, np.uint8).reshape(60, -1).copy()
    rows[:, 0] = plan.prefix[0]
    marked, unmarked = Collector(plan), Collector(plan)
    marked.add_block(seeded)
    unmarked.add_block(rows.tobytes())
    for one, other in zip(marked.answers(), unmarked.answers(), strict=True):
        np.testing.assert_array_equal(one.values, other.values)


def test_an_attribute_cannot_pass_for_the_mark(tmp_path):
    frame = pd.DataFrame({"insecure": ["no"], "count": [1.0]})
    with pytest.raises(LeastnoiseError, match="the attribute 'insecure' has the name of the mark of seeded noise"):
        write_table(frame, tmp_path / "t.csv", "csv", {"insecure": True})
    write_table(frame, tmp_path / "t.csv", "csv", {"insecure": False})


# Spreadsheets

STARTS = ("=", "+", "-", "@", "\t", "\r")


def test_cells_that_spreadsheets_run_are_made_harmless():
    texts = [f"{quotes}{start}1+1" for quotes in ("", "'", "''") for start in (*STARTS, "x", "1", " ", "")]
    results = [cell(text) for text in texts]
    assert not any(text.startswith(STARTS) for text in results)
    assert len(set(results)) == len(set(texts)), "different texts stay different"
    assert all(one == other or one == f"'{other}" for one, other in zip(results, texts, strict=True))
    assert [cell(value) for value in (-5, -0.5, None, True)] == [-5, -0.5, None, True]


def test_csv_files_are_harmless_in_cells_and_heads(tmp_path):
    domain = ln.Domain.of({"=cmd": ["@x", "+y", "-5", "plain"], "n": range(-2, 1)})
    release = ln.plan(ln.Workload(domain).marginals(ways=[1, 2]), BUDGET).run(
        np.zeros((4, 3), dtype=int), random_source=SeededRandomSource(1)
    )
    release.export(tmp_path / "t", format="csv")
    for file in (tmp_path / "t").glob("*.csv"):
        raw = pd.read_csv(io.StringIO(file.read_text()), dtype=str)
        numbers = {"count", "std_error", "low", "high", "n"}
        for name in raw:
            assert not name.startswith(STARTS)
            if name not in numbers:
                assert not raw[name].str.startswith(STARTS).any()
    whole = pd.read_csv(next((tmp_path / "t").glob("2-*.csv")))
    assert (whole["count"] < 0).any(), "negative counts are numbers"
    assert sorted(set(whole["n"])) == [-2, -1, 0]
    assert set(whole["'=cmd"]) == {"'@x", "'+y", "'-5", "plain"}


def test_frames_without_text_stay_as_they_are():
    frame = pd.DataFrame({"a": [-1, 2], "b": [0.5, -0.5], "c": [True, False]})
    pd.testing.assert_frame_equal(harmless(frame), frame)
