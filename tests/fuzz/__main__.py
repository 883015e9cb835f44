"""Run, replay and serve.

    python -m tests.fuzz run KIND FIRST COUNT     inputs of these seeds, with all that breaks the law, grouped
    python -m tests.fuzz replay KIND SEED         one input: how it is made, and the whole traceback
    python -m tests.fuzz digest COUNT             digests of the first inputs, which are the same in every process
    python -m tests.fuzz serve                    batches asked for on stdin, for tests

Kinds are the names in tests/fuzz/kinds.py.
"""

import faulthandler
import hashlib
import json
import sys
import tempfile
import traceback
from contextlib import redirect_stdout, suppress
from pathlib import Path

from tests.fuzz.kinds import ALL, KINDS
from tests.fuzz.law import Kind, Trial, generator, judged
from tests.fuzz.worker import SECONDS, run


def main(arguments: list[str]) -> int:
    """One of the commands above."""
    match arguments:
        case ["run", kind, first, count]:
            return _run(kind, int(first), int(count))
        case ["replay", kind, seed]:
            return _replay(kind, int(seed))
        case ["digest", count]:
            return sum(_digest(kind, int(count)) for kind in KINDS.values())
        case ["serve"]:
            return _serve()
    print(__doc__)
    return 2


def _run(kind: str, first: int, count: int) -> int:
    outcome = run(ALL[kind], range(first, first + count))
    for signature, many in outcome.signatures.most_common():
        example = next(f for f in outcome.findings if f.signature == signature)
        print(f"{many:6,} x {example}")
    print(outcome)
    return 1 if outcome.findings else 0


def _replay(name: str, seed: int) -> int:
    kind = ALL[name]
    kind.prepare()
    faulthandler.dump_traceback_later(SECONDS[0])
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(generator(name, seed), Path(folder))
        try:
            kind.attempt(trial)
        except Exception:
            traceback.print_exc()
        finally:
            print("\n".join(trial.notes), file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        finding = judged(kind, seed, Path(folder))
    print("lawful" if finding is None else finding)
    return 0 if finding is None else 1


def _digest(kind: Kind, count: int) -> int:
    """The files of each input and what was noted about it."""
    kind.prepare()
    for seed in range(count):
        with tempfile.TemporaryDirectory() as folder:
            trial = Trial(generator(kind.name, seed), Path(folder))
            with suppress(Exception), redirect_stdout(sys.stderr):
                kind.attempt(trial)
            given = [path.read_bytes() for path in sorted(Path(folder).rglob("*")) if _lasts(path)]
        text = "\n".join(trial.notes).replace(folder, "")
        print(kind.name, seed, hashlib.sha256(text.encode("utf-8", "surrogatepass") + b"".join(given)).hexdigest())
    return 0


def _lasts(path: Path) -> bool:
    """Whether a file is the same in every run; ledgers and what was exported have the time of day."""
    return path.is_file() and path.suffix != ".ledger" and path.parent.name != "exported"


def _serve() -> int:
    """For each line [kind, first seed, count, [seconds of CPU, of the clock]] on stdin, the outcome on stdout."""
    for line in sys.stdin:
        name, first, count, (cpu, clock) = json.loads(line)
        print(json.dumps(run(ALL[name], range(first, first + count), (cpu, clock)).to_json()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
