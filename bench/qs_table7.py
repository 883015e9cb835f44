"""QuerySmasher table 7: 1-way range, 2-way affine and 3-way prefix on [n]^d; seconds by phase and memory.

Assembly takes some 22 bytes for each answer, 14 GB for 632 million (bench/phases.py); `--rows 0` leaves it out.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from bench.qs_table6 import run_table
from bench.workloads import mixed


def main(argv: Sequence[str] | None = None) -> int:
    return run_table("qs_table7", "table7", __doc__, mixed, argv)


if __name__ == "__main__":
    sys.exit(main())
