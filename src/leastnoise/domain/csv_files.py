"""CSV files that describe attributes."""

import csv
from pathlib import Path

from leastnoise.errors import LeastnoiseError


def read_csv(path: Path, what: str) -> tuple[list[str], list[list[str]]]:
    """The header and the rows of a CSV file that a spec names; `what` it holds is for messages."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = [row for row in csv.reader(file) if any(cell.strip() for cell in row)]
    except OSError as error:
        raise LeastnoiseError(f"cannot read the {what} {str(path)!r}: {error.strerror or error}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise LeastnoiseError(f"{path.name} is no CSV file in UTF-8 ({error}); save it as such") from None
    except ValueError:  # a null character
        raise LeastnoiseError(f"{str(path)!r} is no name of a file; name the CSV file of the {what}") from None
    if len(rows) < 2:
        raise LeastnoiseError(f"{path.name} needs a header and at least one row below it")
    header, *body = rows
    for k, row in enumerate(body):
        if len(row) != len(header):
            raise LeastnoiseError(f"{path.name} row {k + 2} has {len(row)} cells, the header has {len(header)}")
    return header, body
