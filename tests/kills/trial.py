"""One trial: a forked process makes a release and is killed, then the laws are checked."""

from __future__ import annotations

import os
import random
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tests.kills import laws, points
from tests.kills.books import Books
from tests.kills.kinds import Kind, Site
from tests.kills.laws import Seen, Violation
from tests.kills.watch import Tell, through, watch

Way = Literal["time", "call", "system call"]
WAYS: tuple[Way, ...] = ("time", "call", "system call")
LONGEST = 60  # seconds until a process that hangs is ended by an alarm
Mutation = Callable[[], None]


@dataclass(frozen=True)
class Measured:
    """What a kind of release takes where nobody kills it."""

    seconds: float
    calls: int
    system_calls: int  # entries and returns; 0 where the system traces none


@dataclass(frozen=True)
class Outcome:
    """What came of a trial."""

    kind: str
    way: Way
    killed: bool
    stage: str
    point: str | None
    journal: bool  # whether a transaction of the ledger was cut off and must be undone
    violation: str | None = None
    detail: str = ""


def child(kind: Kind, site: Site, pipe: int, way: Way, n: int, mutation: Mutation | None) -> None:
    """Make a release and report; it never returns."""
    tell, status = through(pipe), 1
    try:
        signal.alarm(LONGEST)
        if mutation is not None:
            mutation()
        status = _released(kind, site, tell, way, n)
    except BaseException:
        tell("failed " + " / ".join(traceback.format_exc().splitlines()))
    finally:
        os._exit(status)


def _released(kind: Kind, site: Site, tell: Tell, way: Way, n: int) -> int:
    calls = points.Calls(n if way == "call" else 0, tell)
    if way == "call":
        calls.install()
    watch(tell)  # around the points, so that whoever dies at a call has announced it and not acknowledged it
    tell("go")
    if way == "system call":
        points.be_traced()
    kind.act(site, tell)
    tell("returned")
    tell(f"calls {'|'.join(calls.passed)}")
    return 0


@dataclass(frozen=True)
class Ended:
    """A process that has ended: what it reported, and how it came to its end."""

    seen: Seen
    status: int
    seconds: float
    system_calls: int

    @property
    def killed(self) -> bool:
        """Whether it was killed before it came to its own end."""
        return os.WIFSIGNALED(self.status)


def forked(kind: Kind, site: Site, way: Way, place: float | int, mutation: Mutation | None = None) -> Ended:
    """Let a process go to a place: seconds, or the number of a call; 0 is beyond all of them."""
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reader)
        child(kind, site, writer, way, int(place), mutation)
    os.close(writer)
    passed, text, started = 0, os.read(reader, 3), time.perf_counter()  # "go\n"
    if way == "system call":
        passed, status = points.follow(process, int(place))
    else:
        if way == "time" and place:
            time.sleep(place)
            os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
    seconds = time.perf_counter() - started
    while chunk := os.read(reader, 1 << 16):
        text += chunk
    os.close(reader)
    seen = Seen(tuple(text.decode().splitlines()))
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) in (0, points.NOT_TRACED), seen.lines[-1]
    assert not os.WIFSIGNALED(status) or os.WTERMSIG(status) == signal.SIGKILL, seen.lines[-1]
    return Ended(seen, status, seconds, passed)


def unharmed(kind: Kind, site: Site, way: Way = "call") -> Ended:
    """A release that nobody kills: it ends, and all laws hold."""
    kind.prepare(site)
    before = Books.of(site.ledger)
    ended = forked(kind, site, way, 0)
    if ended.system_calls or way != "system call":
        laws.hold("a later run works", ended.seen.returned, ended.seen.lines[-3:])
        kind.check(site, before, ended.seen)
    return ended


def measure(kind: Kind, site: Site) -> Measured:
    """How long a release takes, and how many points it passes."""
    warm = Site(site.folder / "warm", site.ledger)
    warm.folder.mkdir()
    kind.prepare(warm)
    kind.act(warm, lambda line: None)  # in this process: what is imported late is shared by all that are forked
    traced, called = unharmed(kind, site, "system call"), unharmed(kind, site)
    return Measured(called.seconds, len(called.seen.calls), traced.system_calls)


def place_of(way: Way, fraction: float, measured: Measured) -> float | int:
    """The point at a fraction of the whole way."""
    if way == "time":
        return fraction * measured.seconds
    return 1 + int(fraction * (measured.calls if way == "call" else measured.system_calls))


def trial(name: str, kind: Kind, site: Site, way: Way, place: float | int, mutation: Mutation | None = None) -> Outcome:
    """One release that is killed, and whether the laws hold after it."""
    kind.prepare(site)
    before = Books.of(site.ledger)
    ended = forked(kind, site, way, place, mutation)
    journal = site.ledger.with_name(f"{site.ledger.name}-journal").exists()
    broken, detail = None, ""
    try:
        kind.check(site, before, ended.seen)
    except Violation as violation:
        broken, detail = violation.law, str(violation)
    return Outcome(name, way, ended.killed, ended.seen.stage, ended.seen.point, journal, broken, detail)


def drawn(seed: int, number: int, names: list[str], ways: tuple[Way, ...]) -> tuple[str, Way, float]:
    """The kind, the way and the point of a trial: the same for the same number."""
    rng = random.Random(f"{seed} {number}")
    return rng.choice(names), rng.choice(ways), rng.random()
