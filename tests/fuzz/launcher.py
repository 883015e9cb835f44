"""A process of its own from which workers are forked.

A test's process may have threads, open engines and much memory; what is forked from it inherits locks that nobody will
release. This one has imported what workers need, and nothing else.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.fuzz.worker import SECONDS, Outcome, Seconds

ROOT = Path(__file__).parents[2]


class Launcher:
    """Starts when it is first asked for a batch, and serves until it is closed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def run(self, kind: str, first: int, count: int, limits: Seconds = SECONDS) -> Outcome:
        """Read the inputs of these seeds."""
        process = self._process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        print(json.dumps([kind, first, count, limits]), file=process.stdin, flush=True)
        line = process.stdout.readline()
        assert line, f"the launcher ended with code {process.wait()}"
        return Outcome.from_json(json.loads(line))

    def _start(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.fuzz", "serve"]
        threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(
            command, text=True, cwd=ROOT, env=os.environ | threads, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def close(self) -> None:
        """Let the process end."""
        if self._process is not None:
            self._process.communicate()
