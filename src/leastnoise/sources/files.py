"""Files of rows: which ones a path means, and how they are written.

Nothing here looks at a row. How a file is written is told by whoever asks, by the ending of its name or by its line of
names: if it followed from the rows, a single one of them could change how all others are read.
"""

import glob
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path, PurePath
from typing import Any, Literal
from urllib.parse import parse_qsl

from leastnoise.errors import DataError, LeastnoiseError
from leastnoise.sources.barrier import barrier, title_of
from leastnoise.sources.text_files import Head, read_head
from leastnoise.workload.file_format import DELIMITERS, FileFormat
from leastnoise.workload.rules import as_part

Kind = Literal["text", "Parquet", "Excel"]
TEXTS, PACKED = (".csv", ".tsv", ".txt"), ("", ".gz", ".zst", ".zip")
ENDINGS: dict[str, Kind] = {
    **{text + packed: "text" for text in TEXTS for packed in PACKED},
    ".zip": "text",  # of one file
    ".parquet": "Parquet",
    ".pq": "Parquet",
    ".xlsx": "Excel",
}
LISTED = ", ".join((*TEXTS, "these with .gz, .zst or .zip", ".zip", ".parquet", ".pq", ".xlsx"))
AnyFormat = FileFormat | dict[str, Any] | None


@dataclass(frozen=True)
class Files:
    """Some files of the same columns, and how they are written. `place` is what was asked for.

    `names` are those of the columns of text and of workbooks; those in `by_position` (from 1) got theirs from where
    they stand, because it was empty or another column had it.

    Guarantees: what_is_found_does_not_depend_on_rows.
    """

    place: str
    kind: Kind
    paths: tuple[str, ...]
    format: FileFormat = field(default_factory=FileFormat)
    names: tuple[str, ...] = ()
    by_position: tuple[int, ...] = ()
    encodings: tuple[str, ...] = ()  # by file
    header: bool = True
    orders: tuple[tuple[int, ...], ...] = ()  # by file, which of the columns each of its own is; empty: all alike

    @property
    def plain(self) -> bool:
        """Whether nothing needs to be said: commas, UTF-8, points, names that differ."""
        usual = self.format.delimiter in (None, ",") and set(self.encodings) <= {"utf-8"}
        usual = usual and self.format.decimal == "." and self.format.thousands is None
        usual = usual and not self.by_position and not self.format.skip
        return usual and self.kind != "Excel" and self.header and len(self.paths) == 1

    def stopping(self, columns: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
        """Columns whose values can stop a run, as a ledger knows them, with how they are read in the digests.

        Names that were given to a file without any are those of whoever gave them, so that places take their place.
        """
        usual = self.format == FileFormat(delimiter=self.format.delimiter)
        written = repr(self.format) + (self.format.thousands or "")
        how = "" if usual else sha256(written.encode(errors="surrogatepass")).hexdigest()
        places = {} if self.header else {name: f"column {k}" for k, name in enumerate(self.names, 1)}
        return tuple((places.get(name, name), digest + how) for name, digest in columns)

    def to_json(self) -> dict[str, Any]:
        """How the files are read, in plain data: nothing of what is in them."""
        fields: dict[str, Any] = {"kind": self.kind, "files": len(self.paths)}
        if self.kind == "text":
            fields |= {"delimiter": word_of(self.format.delimiter), "encoding": _one(self.encodings)}
        if self.kind == "Excel":
            fields |= {"sheet": self.format.sheet}
        if self.format.skip:
            fields |= {"skip": self.format.skip}
        if self.kind != "Parquet":
            fields |= {"thousands": self.format.thousands} if self.format.thousands else {}
            fields |= {"decimal": self.format.decimal, "columns_named_by_position": list(self.by_position)}
        return fields

    def __str__(self) -> str:
        parts = [self.kind if len(self.paths) == 1 else f"{len(self.paths):,} files of {self.kind}"]
        if self.kind == "text":
            parts += [f"delimiter {word_of(self.format.delimiter)}", f"encoding {_one(self.encodings)}"]
        if self.kind == "Excel":
            parts.append(f"sheet {self.format.sheet!r}")
        if self.format.skip:
            lines = "1 line" if self.format.skip == 1 else f"{self.format.skip:,} lines"
            parts.append(f"{lines} above the names left out")
        if self.kind != "Parquet":
            parts.append(f"decimal sign {self.format.decimal!r}")
        if self.format.thousands is not None:
            parts.append(f"{self.format.thousands!r} between thousands")
        if self.orders:
            parts.append("columns in several orders, told apart by their names")
        if self.by_position:
            places = ", ".join(map(str, self.by_position[:10])) + (", ..." if len(self.by_position) > 10 else "")
            parts.append(f"named by position because the name is empty or taken: column {places}")
        return f"read as {', '.join(parts)}"


def find_files(place: str | Path, file: AnyFormat = None) -> Files:
    """The files that a path, a folder or a pattern means, with the columns of each of them compared.

    `place` may end in ?key=value&..., the fields of a `FileFormat`, which go before those of `file`.
    """
    place, asked = _split(str(place))
    stated = as_part(FileFormat, {} if file is None else file, "the fields of the file")
    stated = replace(stated, **asked) if asked else stated
    paths = _paths(place)
    kinds = {_kind(path) for path in paths}
    if len(kinds) > 1:
        raise LeastnoiseError(f"{place!r} means files of several kinds; use a pattern such as {_pattern(place)!r}")
    _check_once(place, paths)
    found = Files(place, kinds.pop(), paths, stated)
    if found.kind == "Parquet":
        return found
    if found.kind == "Excel":
        from leastnoise.sources.excel import read_names

        sheet, names = read_names(paths, stated.sheet, stated.skip)
        found = replace(found, format=replace(stated, sheet=sheet))
        return _named(found, names)
    return _text(found)


def files_of(data: Any, file: AnyFormat = None) -> Files | None:
    """The files that data is in, if it is in files, and how they are written. No row is looked at."""
    with barrier(title_of(data)):
        return find_files(data, file) if isinstance(data, str | Path) and is_file(str(data)) else None


def is_file(text: str) -> bool:
    """Whether a text is a path rather than the URI of a database, perhaps with the letter of a drive."""
    scheme, colon, _ = text.partition("://")
    return not colon or len(scheme) < 2 or not scheme.isalnum()


def _text(found: Files) -> Files:
    heads = [read_head(path, found.format) for path in found.paths]
    if any(head is None for head in heads):
        raise DataError(unreadable(found))
    known = [head for head in heads if head is not None]
    orders = _orders(found.place, known)
    found = replace(
        found,
        encodings=tuple(head.encoding for head in known),
        format=replace(found.format, delimiter=known[0].delimiter),
        header=found.format.names is None,
        orders=orders,
    )
    return _named(found, known[0].names)


def _orders(place: str, heads: Sequence[Head]) -> tuple[tuple[int, ...], ...]:
    """Which of the columns of the first file those of each file are, in its order; nothing where all have the same.

    Columns are the same by their names; where two have one, or none, only their places tell them apart.
    """
    if any(head.delimiter != heads[0].delimiter for head in heads):
        raise DataError(f"the files {place!r} differ in their delimiters; give them the same")
    names = heads[0].names
    if all(head.names == names for head in heads):
        return ()
    if not all(names) or len(set(names)) < len(names) or any(sorted(h.names) != sorted(names) for h in heads):
        raise DataError(f"the files {place!r} differ in their columns; give them the same ones, each with its own name")
    return tuple(tuple(map(names.index, head.names)) for head in heads)


def _named(found: Files, names: Sequence[str]) -> Files:
    """With a name for every column that no other has."""
    if not any(names):
        raise DataError(
            f"the first line of {found.place!r} has no names of columns; where they stand below a title, say how many "
            "lines are above them, such as file: {skip: 2} in a spec, or FILE?skip=2"
        )
    different, moved = _different(names)
    return replace(found, names=tuple(different), by_position=tuple(moved))


def _different(names: Sequence[str]) -> tuple[list[str], list[int]]:
    """Names that differ, and the places (from 1) of those that were changed.

    >>> _different(["name", "", "name", "name_2"])
    (['name', 'column_2', 'name_3', 'name_2'], [2, 3])
    """
    results: list[str] = []
    moved = []
    for place, name in enumerate(names, 1):
        number, free = 2, name or f"column_{place}"
        while free in results or (free != name and free in names):
            free, number = f"{name or f'column_{place}'}_{number}", number + 1
        results.append(free)
        moved += [place] if free != name else []
    return results, moved


def unreadable(found: Files) -> str:
    """What a file that cannot be read is refused with."""
    kinds = {"text": "text with a line of names", "Parquet": "Parquet", "Excel": "a workbook with a line of names"}
    return f"the file {found.place!r} cannot be read as {kinds[found.kind]}; it may be damaged or of another kind"


def _split(place: str) -> tuple[str, dict[str, Any]]:
    """The path, and what is asked for after a question mark."""
    path, mark, query = place.rpartition("?")
    if not mark or "=" not in query or Path(place).exists():
        return place, {}
    known = ("delimiter", "encoding", "decimal", "thousands", "sheet", "names", "skip")
    asked: dict[str, Any] = dict(parse_qsl(query, keep_blank_values=True, separator="&"))
    for key in asked:
        if key not in known:
            raise LeastnoiseError(f"unknown option {key!r} of a file; use {', '.join(known)}")
    if "skip" in asked:
        asked["skip"] = int(asked["skip"]) if asked["skip"].isdecimal() else asked["skip"]
    if "names" in asked:
        asked["names"] = asked["names"].split(",")
    return path, asked


def _paths(place: str) -> tuple[str, ...]:
    path = Path(place)
    if path.is_dir():
        return _in_folder(path)
    paths = (place,) if path.is_file() else tuple(sorted(p for p in glob.glob(place) if os.path.isfile(p)))
    for one in paths or (place,):
        _kind(one)  # which refuses what has another ending
    if not paths:
        raise LeastnoiseError(f"there is no file {place!r}; check the path")
    for one in paths:
        if os.path.getsize(one) == 0:
            raise DataError(f"the file {one!r} is empty; it needs at least the names of its columns")
    return paths


def _in_folder(folder: Path) -> tuple[str, ...]:
    """The files of a folder that can be read, without hidden ones and what Spark calls _SUCCESS."""
    names = sorted(p.name for p in folder.iterdir() if p.is_file() and not p.name.startswith(("_", ".")))
    known = [name for name in names if _ending(name) in ENDINGS]
    if not known:
        raise LeastnoiseError(f"the folder {str(folder)!r} has no files that end in {LISTED}; name others by a pattern")
    return tuple(str(folder / name) for name in known)


def _check_once(place: str, paths: Iterable[str]) -> None:
    """Refuse to count rows twice: a link to another of the files, or the same file packed and unpacked."""
    seen: set[object] = set()
    for path in paths:
        status = os.stat(path)
        keys = {(status.st_dev, status.st_ino), *_unpacked_names(path)}
        if keys & seen:
            raise LeastnoiseError(
                f"{place!r} means the file {path!r} twice: packed and unpacked, or a link; remove one"
            )
        seen |= keys


def _unpacked_names(path: str) -> list[str]:
    """What a file is called when it is unpacked, or may be."""
    suffix = PurePath(path).suffix
    if suffix.lower() not in PACKED[1:]:
        return [path]
    bare = path[: -len(suffix)]
    if suffix.lower() != ".zip" or _ending(bare) in ENDINGS:
        return [bare]
    return [bare + text for text in TEXTS]


def _pattern(place: str) -> str:
    return str(Path(place) / "*.csv") if Path(place).is_dir() else "*.csv"


def _kind(path: str) -> Kind:
    ending = _ending(path)
    if ending not in ENDINGS:  # no more is shown: the text may be a value of the data, given in place of a file
        raise LeastnoiseError(
            f"cannot tell what kind of file ends in {PurePath(path).suffix!r}; give one that ends in {LISTED}"
        )
    return ENDINGS[ending]


def _ending(path: str) -> str:
    """The longest known ending of a name, which may be nothing but that, or whatever follows its last point."""
    name = path.lower()
    known = [ending for ending in ENDINGS if name.endswith(ending)]
    return max(known, key=len, default=PurePath(name).suffix)


def word_of(delimiter: str | None) -> str:
    """What a delimiter is called."""
    return next((word for word, sign in DELIMITERS.items() if sign == delimiter), "comma")


def _one(encodings: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(encodings))
