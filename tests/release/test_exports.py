"""Every format of an export, read back by a library of its own field, and tables in R."""

import csv
import io
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, get_args

import numpy as np
import openpyxl
import pandas as pd
import pytest
import sdmx
from csvw import CSVW, TableGroup
from pyjstat import pyjstat

import leastnoise as ln
from leastnoise.errors import LeastnoiseError
from leastnoise.noise import SecureRandomSource, SeededRandomSource
from leastnoise.release.files import excel, export
from leastnoise.release.files.level_tables import WithLevels
from leastnoise.release.files.one_table import cell
from leastnoise.release.files.publication import Publication, file_names
from leastnoise.release.postprocessing.readers import AdjustedTables
from leastnoise.sources import Codes
from leastnoise.workload.publication import Publication as Words
from tests.shell import call, fail

FORMATS = get_args(export.ExportFormat)
TEXTS = ["=1+1", "@x", "+y", "-5", "", " pad ", "年", "NA", "a\nb", 'it\'s "q", <b>&', "'=x", "\x01", "_x0041_"]
DOMAIN = ln.Domain.of(
    {
        "age": range(4),
        "sex": ["F", "M"],
        "=odd, name": TEXTS,
        "mixed": [1, "1", "a"],
        "pay": ln.bins(0, 30, width=10),
        "measure": 2,
        "AGE": 2,
    }
)
NUMBERS = ["count", "std_error", "low", "high"]
TABLES = [(), ("age",), ("=odd, name",), ("=odd, name", "sex"), ("age", "AGE"), ("pay", "mixed"), ("measure", "age")]
R = shutil.which("Rscript")


@pytest.fixture(scope="module")
def release() -> ln.Release:
    work = ln.Workload(DOMAIN).marginals(ways=[0, 1, 2])
    rows = np.random.default_rng(4).integers(DOMAIN.shape, size=(900, len(DOMAIN)))
    return ln.plan(work, ln.Budget(rho=0.1)).run(rows, dataset="people", random_source=SecureRandomSource())


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def names_of(tables: Any) -> dict[tuple[str, ...], str]:
    return dict(zip(tables, file_names(tables), strict=True))


@pytest.mark.long
def test_csvw_is_read_back_by_another_library(release, out):
    release.export(out, TABLES, format="csvw")
    assert CSVW(str(out / "csv-metadata.json"), validate=True).is_valid
    group = TableGroup.from_file(out / "csv-metadata.json")
    assert group.common_props["dc:title"] == "people"
    assert release.privacy.statement in group.common_props["dc:description"]
    for names, name in names_of(TABLES).items():
        table = group.tabledict[f"{name}.csv"]
        assert table.common_props["dc:title"].startswith("Number of rows")
        rows = list(table.iterdicts(strict=True))
        heads = [column.header for column in table.tableSchema.columns]
        assert [column.titles.getfirst() for column in table.tableSchema.columns] == [*map(cell, names), *NUMBERS]
        for row, (key, numbers) in zip(rows, zip_cells(release, names), strict=True):
            assert [str(row[head]) for head in heads[: len(names)]] == [cell(text) for text in key]
            assert [row[head] for head in heads[len(names) :]] == numbers


WORDS = {
    "title": "Labour survey",
    "publisher": "Statistics Office",
    "contact": "info@example.org",
    "licence": "CC BY 4.0",
    "citation": "Statistics Office (2026).\n  release.json: Labour survey",
    "counted": "people",
}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.long
def test_exports_have_the_words_of_the_publication(release, out, format):
    worded = release.published(Words.of(WORDS))
    worded.export(out, [("age",), ("age", "sex")], format=format)
    text = (out / "README.txt").read_text("utf-8")
    assert text.startswith("Labour survey\nPublished by: Statistics Office\nContact: info@example.org\n")
    assert "Cite as: Statistics Office (2026). release.json: Labour survey\n" in text
    assert "and counts people:" in text
    assert check_words(out, format)
    adjusted = worded.adjust(nonnegative=True).finish(base=5, tables=[("age", "sex")])
    adjusted.save(out.with_name("adjusted"))
    loaded = AdjustedTables.load(out.with_name("adjusted"))
    assert loaded.publication == worded.publication
    loaded.export(out, format=format, overwrite=True)
    assert check_words(out, format)


def check_words(out: Path, format: str) -> bool:
    """What each format has a place for, by its own reader."""
    if format == "csvw":
        group = TableGroup.from_file(out / "csv-metadata.json")
        assert CSVW(str(out / "csv-metadata.json"), validate=True).is_valid
        told = [group.common_props[key] for key in ("dc:title", "dc:publisher", "dc:license", "dcat:contactPoint")]
        assert told == [WORDS[key] for key in ("title", "publisher", "licence", "contact")]
        return group.tables[0].common_props["dc:title"].startswith("Number of people")
    if format == "json-stat":
        fields = json.loads((out / "2-age_sex.json").read_text("utf-8"))
        return fields["source"] == "Statistics Office, Labour survey" and "Licence: CC BY 4.0" in fields["note"]
    if format == "excel":
        book = openpyxl.load_workbook(out / "tables.xlsx")
        assert (book.properties.title, book.properties.creator) == ("Labour survey", "Statistics Office")
        return "Contact: info@example.org" in [row[0].value for row in book["Contents"].iter_rows()]
    if format == "sdmx-csv":
        message = sdmx.read_sdmx(io.BytesIO((out / "structure.xml").read_bytes()))
        return all("Labour survey: Number of people" in str(flow.name) for flow in message.dataflow.values())
    return (out / f"2-age_sex.{format}").is_file()


@pytest.fixture(scope="module")
def placed() -> ln.Release:
    town = ln.hierarchy(
        {"north": {"x": ["a", "b"], "y": ["c"]}, "south": {"x": ["d", "e"]}}, levels=["area", "county", "town"]
    )
    domain = ln.Domain.of(place=town, sex=["F", "M"])
    rows = np.random.default_rng(1).integers(domain.shape, size=(900, 2))
    return ln.plan(ln.Workload(domain).marginals(ways=[0, 1, 2]), ln.Budget(rho=0.1)).run(Codes(domain, rows))


LEVELS = [("place.area",), ("place.county",), ("place.area", "sex"), ("place.county", "sex")]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.long
def test_levels_are_exported_as_tables_of_their_own(placed, out, format):
    files = placed.export(out, format=format)
    names = dict(zip([*placed.tables(), *LEVELS], file_names([*placed.tables(), *LEVELS]), strict=True))
    if format == "excel":
        book = openpyxl.load_workbook(out / "tables.xlsx")
        assert {names[level] for level in LEVELS} <= set(book.sheetnames)
        rows = list(book[names["place.area",]].iter_rows(min_row=excel.HEAD + 1, values_only=True))
        assert [row[0] for row in rows] == ["north", "south"]
        expected = placed.table("place", levels={"place": "area"})["count"]
        np.testing.assert_allclose([row[1] for row in rows], expected, rtol=1e-12)
        return
    ending = {"json-stat": "json", "csvw": "csv", "sdmx-csv": "csv"}.get(format, format)
    assert {f"{name}.{ending}" for name in names.values()} <= set(files)
    if format == "csv":
        frame = pd.read_csv(out / f"{names['place.county', 'sex']}.csv")
        assert list(frame) == ["place.county", "sex", *NUMBERS]
        expected = placed.table("place", "sex", levels={"place": "county"})
        assert frame["place.county"].tolist() == expected["place"].tolist()
        np.testing.assert_allclose(frame[NUMBERS], expected[NUMBERS], rtol=1e-12)
    if format == "csvw":
        assert CSVW(str(out / "csv-metadata.json"), validate=True).is_valid


def test_many_tables_at_levels_are_not_written(placed, out, monkeypatch):
    assert [t for t in WithLevels(placed).tables() if "." in str(t)] == LEVELS
    monkeypatch.setattr("leastnoise.release.files.level_tables.MOST_CELLS", 4)
    assert [t for t in WithLevels(placed).tables() if "." in str(t)] == LEVELS[:3]
    monkeypatch.setattr("leastnoise.release.files.level_tables.MOST_TABLES", 0)
    assert [t for t in WithLevels(placed).tables() if "." in str(t)] == LEVELS[:2]
    assert placed.export(out, [["place.area"]], format="csv")[0] == "1-place-area.csv"


def zip_cells(release: ln.Release, names: tuple[str, ...]) -> list[tuple[tuple[str, ...], list[float]]]:
    frame = release.table(*names)
    texts = frame[list(names)].astype(str).to_numpy().tolist() if names else [[]]
    return [(tuple(t), n) for t, n in zip(texts, frame[NUMBERS].to_numpy().tolist(), strict=True)]


@pytest.mark.filterwarnings("ignore:Shouldn't use this function")  # pyjstat calls its own
@pytest.mark.long
def test_json_stat_is_read_back_by_another_library(release, out):
    release.export(out, TABLES, format="json-stat")
    for names, name in names_of(TABLES).items():
        text = (out / f"{name}.json").read_text("utf-8")
        raw = json.loads(text)
        assert (raw["version"], raw["class"], raw["note"][0]) == ("2.0", "dataset", release.privacy.statement)
        assert np.prod(raw["size"]) == len(raw["value"])
        frame = pyjstat.Dataset.read(text).write("dataframe")
        numbers = frame["value"].to_numpy().reshape(-1, len(NUMBERS))
        np.testing.assert_array_equal(numbers, release.table(*names)[NUMBERS].to_numpy())
        assert frame["statistic"].tolist()[: len(NUMBERS)] == NUMBERS
        for attribute in names:
            shown = frame[attribute].tolist()[:: len(NUMBERS)]
            assert shown == release.table(*names)[attribute].astype(str).tolist()
    collection = json.loads((out / "collection.json").read_text("utf-8"))
    assert [item["href"] for item in collection["link"]["item"]] == [f"{name}.json" for name in file_names(TABLES)]
    assert (collection["class"], collection["label"]) == ("collection", "people")


@pytest.mark.long
def test_sdmx_is_read_back_by_another_library(release, out):
    release.export(out, TABLES, format="sdmx-csv")
    message = sdmx.read_sdmx(io.BytesIO((out / "structure.xml").read_bytes()))
    assert len(message.dataflow) == len(message.structure) == len(TABLES)
    for names, (flow, name) in zip(
        TABLES, zip(message.dataflow.values(), file_names(TABLES), strict=True), strict=True
    ):
        assert release.privacy.statement in str(flow.description)
        (data,) = sdmx.reader.csv.Reader().convert(io.BytesIO((out / f"{name}.csv").read_bytes()), flow).data
        cells = zip_cells(release, names)
        assert len(data.obs) == len(cells)
        lists = [d.local_representation.enumerated for d in flow.structure.dimensions.components]
        for observation, (key, numbers) in zip(data.obs, cells, strict=True):
            codes = [value.value for value in observation.dimension.values.values()]
            texts = [str(one[code].name) for one, code in zip(lists, codes, strict=True)]
            assert texts == [xml(text) for text in key] if names else codes == ["_T"]
            attributes = {k: v.value for k, v in observation.attached_attribute.items()}
            found = [observation.value, *(attributes[k] for k in ("STD_ERROR", "LOWER", "UPPER"))]
            assert [float(x) for x in found] == numbers
            assert (attributes["OBS_STATUS"], attributes["UNIT_MEASURE"]) == ("E", "ROWS")
    with (out / "2-age_AGE.csv").open() as file:
        head = next(csv.reader(file))
    assert head[:6] == ["STRUCTURE", "STRUCTURE_ID", "ACTION", "AGE", "AGE_2", "OBS_VALUE"]


def xml(text: str) -> str:
    return text.replace("\x01", "\ufffd") or "(empty)"


@pytest.mark.long
def test_workbooks_are_read_back_by_another_library(release, out):
    release.export(out, TABLES, format="excel")
    book = openpyxl.load_workbook(out / "tables.xlsx")
    assert book.sheetnames == ["Contents", *file_names(TABLES)]
    contents = [[c.value for c in row] for row in book["Contents"].iter_rows()]
    assert contents[:2] == [["people", None, None], [release.privacy.statement, None, None]]
    assert [row[0] for row in contents[-len(TABLES) :]] == book.sheetnames[1:]
    for names, name in names_of(TABLES).items():
        rows = list(book[name].iter_rows(values_only=True))
        assert rows[2][0] == release.privacy.statement
        assert rows[4] == (*names, *NUMBERS)
        frame = release.table(*names)
        shown = frame[list(names)].to_numpy(object).tolist()
        assert [list(row[: len(names)]) for row in rows[5:]] == [list(map(control, row)) for row in shown]
        np.testing.assert_allclose([row[len(names) :] for row in rows[5:]], frame[NUMBERS].to_numpy(), rtol=1e-14)


def control(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    return text.replace("\x01", "_x0001_").replace("_x0041_", "_x005F_x0041_") or None


def test_texts_in_workbooks_are_no_formulas(release, out):
    release.export(out, [("=odd, name",)], format="excel")
    for sheet in openpyxl.load_workbook(out / "tables.xlsx"):
        for entry in (c for row in sheet.iter_rows() for c in row if c.value is not None):
            assert entry.data_type in ("s", "n")
            if isinstance(entry.value, str) and entry.value[0] in "=+-@":
                assert entry.quotePrefix


@pytest.mark.parametrize("format", FORMATS)
def test_exports_say_what_they_are(release, out, format):
    files = release.export(out, [("age",)], format=format)
    assert sorted(files) == sorted(p.name for p in out.iterdir())
    notes = (out / "README.txt").read_text("utf-8")
    assert notes.splitlines()[0] == release.privacy.statement
    assert "Random noise was added" in notes
    assert "95% interval" in notes
    assert all(f"  {file}: " in notes for file in files if file != "README.txt")
    release.export(out, [("sex",)], format=format, overwrite=True)  # an export replaces an export
    (out / "mine.csv").write_text("mine")
    with pytest.raises(LeastnoiseError, match="is no release and is not replaced"):
        release.export(out, [("sex",)], format=format, overwrite=True)


def test_progress_is_told_and_one_table_is_made_at_a_time(release, out):
    seen: list[Any] = []
    release.export(out, TABLES, format="json-stat", progress=lambda *report: seen.append(report))
    assert seen == [(k, len(TABLES), "writing tables") for k in range(len(TABLES))]
    sheets = Publication.of(release, TABLES, 0.95).sheets()
    assert next(sheets).names == ()  # made when it is asked for


def test_what_no_workbook_holds_is_refused(release, out, monkeypatch):
    monkeypatch.setattr(excel, "MOST_ROWS", 10)
    with pytest.raises(LeastnoiseError) as error:
        release.export(out, [("age", "sex")], format="excel")
    assert str(error.value) == (
        "the table of age x sex has 8 cells, and a sheet has 5 rows for them; leave it out, or choose the format "
        "parquet or csv"
    )
    monkeypatch.undo()
    monkeypatch.setattr(excel, "LONGEST_TEXT", 5)
    with pytest.raises(LeastnoiseError, match="'=odd, name' has a value of more than 5 characters, which no cell of a"):
        release.export(out, [("=odd, name",)], format="excel")
    assert not out.exists()


def test_without_the_extra_workbooks_name_it(release, out, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    with pytest.raises(LeastnoiseError, match="install leastnoise with its extra 'excel'"):
        release.export(out, format="excel")


@pytest.mark.parametrize("format", FORMATS)
def test_seeded_noise_is_marked_in_every_format(out, format):
    domain = ln.Domain.of(age=3)
    plan = ln.plan(ln.Workload(domain).marginals(), ln.Budget(rho=0.1))
    plan.run(np.arange(3), random_source=SeededRandomSource(1)).export(out, format=format)
    assert (out / "README.txt").read_text().startswith("INSECURE")
    files = [p for p in out.iterdir() if p.name != "README.txt" and p.suffix not in (".R", ".parquet")]
    assert all(re.search("(?i)insecure", text_of(path)) for path in files)


def text_of(path: Path) -> str:
    if path.suffix == ".xlsx":
        book = openpyxl.load_workbook(path)
        return "".join(str([c.value for c in sheet["A"]]) + str([c.value for c in sheet[5]]) for sheet in book)
    return path.read_text("utf-8")


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(release, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "release"
    release.save(folder)
    return folder


def test_the_command_writes_named_tables(saved, out, capsys):
    code, text, err = call(capsys, "export", saved, "--out", out, "--table", "age,sex", "--table", "=odd, name")
    assert (code, err) == (0, "")
    assert re.fullmatch(r"wrote 4 files \([\d,]+ bytes\) to \S+; README.txt says what is in each\n", text)
    assert sorted(p.name for p in out.iterdir()) == ["1-odd-name.csv", "2-age_sex.csv", "README.txt", "read_release.R"]
    code, text, _ = call(capsys, "export", saved, "--out", out, "--format", "json-stat", "--overwrite", "--json")
    fields = json.loads(text)
    assert (fields["format"], len(fields["files"])) == ("json-stat", 1 + 7 + 21 + 2)


def test_the_command_says_what_is_wrong(saved, out, capsys):
    assert fail(capsys, "export", saved, "--out", out, "--table", "agee").startswith(
        "no attribute 'agee' in this domain"
    )
    out.mkdir()
    assert "exists already; choose another name" in fail(capsys, "export", saved, "--out", out)


# --- R ----------------------------------------------------------------------------------------------------------------

IN_R = """
source(commandArgs(TRUE)[2])
tables <- read_release(commandArgs(TRUE)[1])
writeLines(attr(tables, "privacy"))
for (name in names(tables)) {
  t <- tables[[name]]
  writeLines(paste(name, nrow(t), paste(vapply(t, function(x) class(x)[1], ""), collapse = " "), sep = "|"))
  writeLines(paste(sprintf("%.17g", t$count), collapse = " "))
}
odd <- tables[["1-odd-name"]]
cat(paste(as.character(charToRaw(paste(c(names(odd)[1], odd[[1]]), collapse = "\\x02"))), collapse = ""), "\\n")
"""


@pytest.mark.r
@pytest.mark.long
@pytest.mark.skipif(R is None, reason="NO R: run tests/engines/install.sh")
@pytest.mark.parametrize("how", ["export", "release"])
def test_r_reads_tables(release, out, tmp_path, how):
    if how == "export":
        release.export(out, format="csv")
        script = out / "read_release.R"
    else:
        release.save(out, tables="csv")
        script = out / "tables" / "read_release.R"
    (tmp_path / "look.R").write_text(IN_R)
    run = subprocess.run([R, tmp_path / "look.R", out, script], capture_output=True, text=True, check=True)
    statement, *lines, raw = run.stdout.splitlines()
    assert statement == release.privacy.statement
    names = names_of(list(release.tables()))
    read = {lines[k].split("|")[0]: (lines[k].split("|")[1:], lines[k + 1]) for k in range(0, len(lines), 2)}
    assert set(read) == set(names.values())
    for attributes, name in names.items():
        (rows, kinds), numbers = read[name]
        counts = [float(x) for x in numbers.split()]
        np.testing.assert_allclose(counts, release.counts(*attributes).ravel(), rtol=3e-16)  # R reads to one last bit
        assert kinds.split() == ["character"] * len(attributes) + ["numeric"] * 4
        assert int(rows) == release.counts(*attributes).size
    assert bytes.fromhex(raw).decode().split("\x02") == ["=odd, name", *TEXTS]


@pytest.mark.r
@pytest.mark.long
@pytest.mark.skipif(R is None, reason="NO R: run tests/engines/install.sh")
def test_r_says_what_to_do_without_tables(release, out):
    release.save(out)
    script = Path(export.__file__).parent / "read_release.R"
    run = subprocess.run(
        [R, "-e", f"source('{script}'); read_release('{out}')"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 1
    assert "leastnoise export RELEASE --out FOLDER --format csv" in run.stderr


def test_readme_explains_every_column(release, out):
    release.adjust(nonnegative=True).finish(base=5, suppress_below=10, tables=[("age", "sex")]).export(
        out, format="csv"
    )
    table, notes = pd.read_csv(out / "2-age_sex.csv"), (out / "README.txt").read_text("utf-8")
    assert [*table.columns[2:]] == ["count", "unbiased", "std_error", "low", "high", "note"]
    assert all(f"\n  {name:9}  " in notes for name in table.columns[2:])
    release.export(out, [("age",)], format="csv", overwrite=True)
    assert "unbiased  " not in (out / "README.txt").read_text("utf-8")
