"""Labels of values from a CSV file."""

import re
from pathlib import Path

from leastnoise.domain.csv_files import read_csv
from leastnoise.domain.encoding import Scalar
from leastnoise.domain.listed import Labelled, labelled
from leastnoise.errors import LeastnoiseError

_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,17})")


def labels_from(path: Path, ordered: bool = False) -> Labelled:
    """Values of the data in the column `code`, their labels in `label`; the values of a file are text and number alike.

    So the code 7 is found in a column of numbers and in one of texts; 007 only as text.
    """
    header, rows = read_csv(path, "file of labels")
    names = [name.strip().lower() for name in header]
    if not {"code", "label"} <= set(names):
        raise LeastnoiseError(f"{path.name} needs the columns 'code' and 'label'; name them so in its first line")
    at, to = names.index("code"), names.index("label")
    labels: dict[Scalar, Scalar] = {}
    for k, row in enumerate(rows):
        code, label = row[at].strip(), row[to].strip()
        if not label or not code:
            raise LeastnoiseError(f"{path.name} row {k + 2} lacks a code or a label; fill it in")
        if labels.setdefault(code, label) != label:
            raise LeastnoiseError(f"{path.name} row {k + 2} gives {code!r} a second label; keep one")
        if _NUMBER.fullmatch(code) and code != "-0":
            labels[int(code)] = label
    return labelled(labels, ordered)
