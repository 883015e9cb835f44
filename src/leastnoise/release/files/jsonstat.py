"""Tables in JSON-stat 2.0 (https://json-stat.org/full/): one dataset each, and a collection that lists them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from leastnoise._types import Array
from leastnoise.release.files.publication import Publication, Sheet, identifiers
from leastnoise.release.frames import labels_of
from leastnoise.storage.files import put_file

COLLECTION = "collection.json"
VERSION = {"version": "2.0"}
CHUNK = 100_000  # numbers that are written at once
MEASURES = ("count", "unbiased", "std_error", "low", "high")


def write(publication: Publication, folder: Path) -> Iterator[tuple[str, str]]:
    """One dataset per table, with the numbers of a cell along a dimension of their own.

    Guarantees: json_stat_is_read_back_by_another_library.
    """
    items = []
    for sheet in publication.sheets():
        file = f"{sheet.name}.json"
        put_file(folder, file, _dataset(publication, sheet))
        items.append({"class": "dataset", "href": file, "label": sheet.title})
        yield file, sheet.title
    collection = {**VERSION, "class": "collection", "label": publication.title, "note": list(publication.notes)}
    put_file(folder, COLLECTION, _text(collection | {"link": {"item": items}}).encode())
    yield COLLECTION, "the list of all datasets (JSON-stat)"


def _dataset(publication: Publication, sheet: Sheet) -> Iterator[bytes]:
    """The text of a dataset, its many numbers in pieces."""
    measures = [name for name in sheet.numbers if name in MEASURES]
    metric = next(n for n in ("measure", "measure_", "measure__", "statistic") if n not in sheet.names)
    dimensions = {name: _dimension(publication, name) for name in sheet.names}
    head: dict[str, Any] = {
        **VERSION,
        "class": "dataset",
        "label": sheet.title,
        "source": ", ".join(filter(None, [publication.words.publisher, publication.title])),
        "note": list(publication.notes),
        "extension": {"insecure": publication.source.insecure, "confidence": publication.confidence},
        "id": [*sheet.names, metric],
        "size": [*(len(d["category"]["index"]) for d in dimensions.values()), len(measures)],
        "role": {"metric": [metric]},
        "dimension": dimensions | {metric: _metric(publication, measures)},
    }
    yield _text(head).removesuffix("}").encode() + b', "value": ['
    yield from _numbers(sheet.frame[measures].to_numpy(dtype=np.float64).ravel())
    yield b"]}"


def _dimension(publication: Publication, name: str) -> dict[str, Any]:
    labels = labels_of(publication.source.domain[name])
    codes = identifiers(labels, r"(?s).*", "")
    return {"label": name, "category": {"index": codes, "label": dict(zip(codes, labels, strict=True))}}


def _metric(publication: Publication, measures: Sequence[str]) -> dict[str, Any]:
    labels = {name: name for name in measures}
    notes = {name: [publication.columns[name]] for name in measures}
    units = {name: {"label": publication.unit, "decimals": 1} for name in measures}
    return {"label": "statistic", "category": {"index": list(measures), "label": labels, "note": notes, "unit": units}}


def _numbers(values: Array) -> Iterator[bytes]:
    for start in range(0, len(values), CHUNK):
        some = values[start : start + CHUNK].tolist()
        yield (", " * bool(start) + ", ".join("null" if x != x else repr(x) for x in some)).encode()


def _text(data: dict[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False)
