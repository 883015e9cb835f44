"""Files that a spec names. What they hold gets into plans and releases, so they must be where the caller allows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from leastnoise.errors import LeastnoiseError
from leastnoise.workload.fields import shown


@dataclass(frozen=True)
class NamedFiles:
    """The folder of a spec, beside which its files are looked up, and perhaps one more that they may be in.

    >>> NamedFiles(Path("specs")).path("../people.csv")
    Traceback (most recent call last):
    leastnoise.errors.LeastnoiseError: the file '../people.csv' is outside the folder of the spec; move it there, or \
allow its folder with --files-from DIR (in Python: files_from=DIR)

    Guarantees: files_outside_are_refused.
    """

    folder: Path
    allowed: Path | None = None

    def path(self, name: str) -> Path:
        """Where a file is; refused outside the folders, also where a link leads there."""
        try:
            path = (self.folder / name).resolve()
            folders = [folder.resolve() for folder in (self.folder, self.allowed) if folder is not None]
        except (OSError, RuntimeError, ValueError):  # loops of links, characters that no name has
            raise LeastnoiseError(f"{shown(name)} cannot be the name of a file; use one beside the spec") from None
        if not any(path.is_relative_to(folder) for folder in folders):
            raise LeastnoiseError(
                f"the file {shown(name)} is outside the folder of the spec; move it there, or allow its folder with "
                "--files-from DIR (in Python: files_from=DIR)"
            )
        return self.folder / name
