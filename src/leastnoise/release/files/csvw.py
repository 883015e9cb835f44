"""CSV files with metadata beside them, as "CSV on the Web" has it (W3C): https://www.w3.org/TR/tabular-metadata/."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leastnoise.release.files.one_table import about, cell, put_script, put_table
from leastnoise.release.files.publication import Publication, Sheet, unique
from leastnoise.release.frames import labels_of
from leastnoise.storage.files import put_file

if TYPE_CHECKING:
    import pandas as pd

METADATA = "csv-metadata.json"
TERMS = {  # by the fields of a publication
    "publisher": "dc:publisher",
    "contact": "dcat:contactPoint",
    "licence": "dc:license",
    "citation": "dc:bibliographicCitation",
}
CONTEXT = ["http://www.w3.org/ns/csvw", {"@language": "en"}]
ESCAPED = "texts that start with = + - @ have an apostrophe in front, so that no spreadsheet takes them for formulas"
DATATYPES = {"b": "boolean", "i": "integer", "u": "integer", "f": "double"}


def write(publication: Publication, folder: Path) -> Iterator[tuple[str, str]]:
    """One CSV file per table, and the metadata of all of them.

    Guarantees: csvw_is_read_back_by_another_library.
    """
    tables = []
    for sheet in publication.sheets():
        file = f"{sheet.name}.csv"
        put_table(_plain(sheet.frame), folder / file, "csv", about(publication.source))
        tables.append(_table(publication, sheet, file))
        yield file, sheet.title
    group = {
        "@context": CONTEXT,
        "dc:title": publication.title,
        "dc:description": " ".join(publication.notes),
        **{name: text for key, name in TERMS.items() if (text := getattr(publication.words, key))},
        "dialect": {"header": True, "encoding": "utf-8", "trim": False},
        "tables": tables,
    }
    put_file(folder, METADATA, json.dumps(group, indent=1, ensure_ascii=False).encode())
    yield METADATA, "columns, titles and notes of the CSV files (CSV on the Web)"
    yield put_script(folder)


def _plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Truth values as the standard spells them."""
    import pandas as pd

    flags = [name for name in frame if pd.api.types.is_bool_dtype(frame[name])]
    return frame.assign(**{str(name): frame[name].map({True: "true", False: "false"}) for name in flags})


def _table(publication: Publication, sheet: Sheet, file: str) -> dict[str, Any]:
    words = ["_".join(re.findall("[A-Za-z0-9]+", str(name))) or "x" for name in sheet.frame.columns]
    columns = [
        _column(publication, sheet, str(title), name)
        for title, name in zip(sheet.frame.columns, unique(words, joint="_"), strict=True)
    ]
    keys = [column["name"] for column in columns[: len(sheet.names)]]
    labels = [labels_of(publication.source.domain[name]) for name in sheet.names]
    differ = all(len(set(texts)) == len(texts) for texts in labels)  # 1 and "1" are the same in a CSV file
    schema = {"columns": columns} | ({"primaryKey": keys} if keys and differ else {})
    return {"url": file, "dc:title": sheet.title, "tableSchema": schema}


def _column(publication: Publication, sheet: Sheet, title: str, name: str) -> dict[str, Any]:
    column = {"name": name, "titles": cell(title), "datatype": _datatype(sheet.frame[title])}
    if title in sheet.names:
        told = {"dc:description": ESCAPED} if column["datatype"] == "string" else {}
        blank = {"null": "\u0000"} if (sheet.frame[title] == "").any() else {}  # an empty text is a value here
        return column | {"required": True} | told | blank
    unit = {} if title in ("note", "insecure") else {"schema:unitText": publication.unit}
    return column | {"dc:description": publication.columns[title]} | unit


def _datatype(values: pd.Series[Any]) -> str:
    return DATATYPES.get(values.dtype.kind, "string")
