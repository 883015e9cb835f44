"""Streams that are killed: while they are opened, between steps, and while they become a release."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from functools import cached_property

import numpy as np

import leastnoise as ln
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.matrix.plan import MatrixPlan
from leastnoise.mechanisms.stream.stream import Stream
from leastnoise.privacy import Cost
from tests.kills import laws
from tests.kills.books import Books
from tests.kills.kinds import COUNTS, Kind, Site
from tests.kills.laws import Seen, Violation, hold
from tests.kills.watch import Tell

FAR = 7  # standard deviations: for 6 steps of 1,000 streams, false alarms below 2e-8
AT_ONCE = 2  # steps of a process before the next one goes on


def add(stream: Stream, steps: range, tell: Tell) -> None:
    """Take some steps, and report each answer as whoever called would see it."""
    for step in steps:
        tell(f"answer {step} {stream.add(COUNTS[step], step=step).value!r}")


@dataclass(frozen=True)
class Streaming(Kind):
    """What streams share: answers that were seen stay, in whichever process."""

    plan: MatrixPlan

    @cached_property
    def cost(self) -> Cost:
        return self.plan.cost

    def opened(self, site: Site, steps: int) -> None:
        """A stream under the next name, with some steps taken."""
        site.counter += 1
        site.steps = {}
        with ln.mechanisms.Stream(self.plan, folder=site.stream, ledger=site.ledger, dataset="people") as stream:
            add(stream, range(steps), lambda line: site.steps.__setitem__(int(line.split()[1]), line.split()[2]))

    def load(self, site: Site, after: Books) -> Stream:
        """The stream, which loads, was paid for, and has every answer that was seen."""
        try:
            stream = Stream.load(site.stream, ledger=site.ledger)
        except LeastnoiseError as error:
            raise Violation("a stream goes on", error) from None
        costs = {row[0]: row[3] for row in after.debit}
        hold("noise is paid for", stream.ledger_entry in costs, stream.ledger_entry)
        for step, value in site.steps.items():
            hold("an answer that was seen is on disk", step < len(stream), (step, len(stream)))
            laws.same_answer({step: value}, step, repr(stream.answer(step).value))
        return stream

    def finished(self, stream: Stream) -> None:
        """The rest of the steps, from the first on as a caller does who does not know how far it came."""
        before = [stream.answer(step).value for step in range(len(stream))]
        answers = [stream.add(count, step=step).value for step, count in enumerate(COUNTS)]
        hold("an answer stays", answers[: len(before)] == before)
        noise = (stream.close().measured - self.plan.system.apply(np.array(COUNTS))) / self.plan.noise_std
        hold("nothing is counted twice", bool(np.abs(noise).max() < FAR), noise)


class Open(Streaming):
    """A stream that is opened, and its first steps."""

    def prepare(self, site: Site) -> None:
        site.counter += 1
        site.steps = {}

    def act(self, site: Site, tell: Tell) -> None:
        with ln.mechanisms.Stream(self.plan, folder=site.stream, ledger=site.ledger, dataset="people") as stream:
            add(stream, range(AT_ONCE), tell)

    def settle(self, site: Site, before: Books, after: Books, new: Books, seen: Seen) -> None:
        site.steps = seen.answers
        hold("noise is paid for", not seen.count("noise?") or len(new.debit) == 1, new.debit)
        hold("what was answered is there", site.stream.exists() or not (site.steps or seen.returned))
        if site.stream.exists():
            self.finished(self.load(site, after))
            shutil.rmtree(site.stream)


class Steps(Streaming):
    """A stream that one process after the other goes on with, each of them killed."""

    def prepare(self, site: Site) -> None:
        if not site.counter or len(site.steps) == len(COUNTS):
            self.opened(site, 0)

    def act(self, site: Site, tell: Tell) -> None:
        with Stream.load(site.stream, ledger=site.ledger) as stream:
            start = max(0, len(stream) - 1)  # the last one again, whose answer may have been lost on the way
            add(stream, range(start, min(start + AT_ONCE + 1, len(COUNTS))), tell)

    def settle(self, site: Site, before: Books, after: Books, new: Books, seen: Seen) -> None:
        hold("going on spends nothing", after == before)
        for step, value in seen.answers.items():
            laws.same_answer(site.steps, step, value)
            site.steps[step] = value
        stream = self.load(site, after)
        if len(stream) == len(COUNTS):
            self.finished(stream)
            site.steps = {step: repr(stream.answer(step).value) for step in range(len(COUNTS))}
        stream.leave()


class Close(Streaming):
    """A stream with all its steps that becomes a release; who is killed there closes it again."""

    def prepare(self, site: Site) -> None:
        self.opened(site, len(COUNTS))

    def act(self, site: Site, tell: Tell) -> None:
        Stream.load(site.stream, ledger=site.ledger).close(site.out)

    def settle(self, site: Site, before: Books, after: Books, new: Books, seen: Seen) -> None:
        hold("going on spends nothing", after.debit == before.debit and after.attempt == before.attempt)
        published = laws.published(site.out) if site.out.exists() else None
        laws.finished_is_published(new, published)
        hold("what was returned is there", not seen.returned or (published is not None and len(new.finish) == 1))
        if published is not None:
            laws.is_paid(published, after)
        again = self.load(site, after).close(site.out, overwrite=True)
        if published is not None:
            hold("an answer stays", bool((again.measured == published.release.measured).all()))
        hold(
            "closing can be repeated", ln.Ledger.open(site.ledger).entries()[-1].release == laws.published(site.out).id
        )
        shutil.rmtree(site.out)
        shutil.rmtree(site.stream)
