"""leastnoise: differentially private answers to linear queries with the least noise provably possible."""

from leastnoise.domain import Domain, bins, sized
from leastnoise.errors import LeastnoiseError
from leastnoise.plan import Plan, plan
from leastnoise.privacy import Budget
from leastnoise.privacy.ledger import Ledger
from leastnoise.release import Answer, Linear, Release, merge
from leastnoise.workload import Workload
from leastnoise.workload.spec import load_spec

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "Budget",
    "Domain",
    "LeastnoiseError",
    "Ledger",
    "Linear",
    "Plan",
    "Release",
    "Workload",
    "__version__",
    "bins",
    "load_spec",
    "merge",
    "plan",
    "sized",
]
