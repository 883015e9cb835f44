"""Files of reports, read in bounded memory: reports one after the other as they are, or one per line as text.

A line is a report in base64, alone, as a JSON string, or as the field "report" of a JSON object.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from leastnoise.errors import DataError
from leastnoise.local.collector import Collector
from leastnoise.local.plan import LocalPlan

FIELD = "report"
MANY = 128  # reports that are hardly ever the same by chance
_READ = 2**22  # bytes read at a time
_LONGEST = 2**20  # bytes of a line
Progress = Callable[[int], object]  # of bytes read


@dataclass(frozen=True, eq=False)
class ReportFile:
    """What a file of reports says, counted on its own, and a key that distinguishes files."""

    collector: Collector
    key: str

    @property
    def reports(self) -> int:
        """Reports taken."""
        return self.collector.reports

    @property
    def rejected(self) -> int:
        """Reports not taken."""
        return sum(self.collector.rejected.values())


def read_reports(plan: LocalPlan, path: str | Path, progress: Progress | None = None) -> ReportFile:
    """Count the reports of a file; a file that ends inside a report, or has none of this plan, is refused.

    Files are distinguished by what is in them. So few reports that devices may have sent the same by chance are
    distinguished by their place, too.

    Guarantees: files_are_read_in_bounded_memory; text_and_bytes_are_the_same; truncated_files_are_refused;
    reports_of_another_plan_are_refused.
    """
    path, collector, seen = Path(path), Collector(plan), hashlib.sha256()

    def note(block: bytes) -> None:
        seen.update(block)
        if progress is not None:
            progress(len(block))

    with path.open("rb") as file:
        blocks = _blocks(file, note)
        first = next(blocks, b"")
        if is_text(first):
            for lines in _lines(first, blocks, path):
                collector.add_all(map(from_line, lines))
        else:
            _add_bytes(collector, first, blocks, path)
    if not collector.reports and any(collector.rejected.values()):
        raise DataError(_refusal(collector, path))
    if collector.reports < MANY:
        seen.update(str(path.resolve()).encode("utf-8", "surrogateescape"))
    return ReportFile(collector, seen.hexdigest())


def to_line(report: bytes) -> str:
    """A report as text.

    >>> from_line(to_line(bytes([1, 2, 3])).encode())
    b'\\x01\\x02\\x03'
    """
    return base64.b64encode(report).decode()


def from_line(line: bytes) -> bytes:
    """A report from text; nothing where the text is none."""
    try:
        if line.startswith((b"{", b'"')):
            result = json.loads(line)
            line = (result[FIELD] if isinstance(result, dict) else result).encode()
        return base64.b64decode(line, validate=True)
    except (ValueError, KeyError, AttributeError, RecursionError):
        return b""


def is_text(head: bytes) -> bool:
    """Whether a file holds lines: every report starts with its version, which is no character of a text."""
    return all(9 <= b <= 13 or 32 <= b < 127 for b in head[:4096])


def _blocks(file: BinaryIO, seen: Callable[[bytes], object]) -> Iterator[bytes]:
    while block := file.read(_READ):
        seen(block)
        yield block


def _lines(first: bytes, blocks: Iterator[bytes], path: Path) -> Iterator[list[bytes]]:
    """Lines that are not empty, without their ends."""
    rest = first
    for block in blocks:
        *whole, rest = rest.split(b"\n")
        yield [line for line in map(bytes.strip, whole) if line]
        if len(rest) > _LONGEST:
            raise DataError(f"{path} has a line of more than {_LONGEST:,} bytes; it is no file of reports")
        rest += block
    yield [line for line in map(bytes.strip, rest.split(b"\n")) if line]


def _add_bytes(collector: Collector, first: bytes, blocks: Iterator[bytes], path: Path) -> None:
    size, rest = collector.plan.report_bytes, first
    for block in blocks:
        whole = len(rest) - len(rest) % size
        collector.add_block(rest[:whole])
        rest = rest[whole:] + block
    if len(rest) % size:
        if collector.plan.prefix[1:] != first[1 : len(collector.plan.prefix)]:  # after the version
            raise DataError(_other_plan(collector.plan, path))
        raise DataError(
            f"{path} ends inside a report: it is not a whole number of reports of {size} bytes; get it anew"
        )
    collector.add_block(rest)


def _refusal(collector: Collector, path: Path) -> str:
    """Why nothing of a file was taken; by counts, as its contents may be anything."""
    rejected = collector.rejected
    if rejected["plan"]:
        return _other_plan(collector.plan, path)
    reasons = ", ".join(f"{count:,} by {reason}" for reason, count in rejected.items() if count)
    return f"{path} has no report that can be read ({reasons} rejected); check that it is a file of reports"


def _other_plan(plan: LocalPlan, path: Path) -> str:
    return f"{path} has no reports for this plan ({plan.fingerprint[:8]}); use the plan that its devices had"
