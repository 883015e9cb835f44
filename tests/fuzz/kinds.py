"""All kinds of inputs, and how many of each are read."""

from tests.fuzz import data, defects, files, local, pages, releases, specs
from tests.fuzz.law import Kind

KINDS: dict[str, Kind] = {k.name: k for k in (specs.KIND, releases.KIND, pages.KIND, local.KIND, data.KIND, files.KIND)}
ALL = KINDS | {kind.name: kind for kind in defects.KINDS}
