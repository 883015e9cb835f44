"""All kinds of inputs, and how many of each are read."""

from tests.fuzz import data, defects, files, local, pages, questions, releases, specs
from tests.fuzz.law import Kind

MODULES = (specs, releases, pages, local, data, files, questions)
KINDS: dict[str, Kind] = {module.KIND.name: module.KIND for module in MODULES}
ALL = KINDS | {kind.name: kind for kind in defects.KINDS}
