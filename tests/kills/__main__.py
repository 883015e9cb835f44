"""Kills releases: `python -m tests.kills FOLDER KILLS SEED [KIND ...]` prints a JSON line per trial, then counts.

With `python -m tests.kills FOLDER mutations` releases are broken on purpose, and it prints which law was violated then.
A program of its own, because it forks: everything is imported and planned once, then a trial costs a fork.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from tests.kills.catalogue import kinds
from tests.kills.kinds import Kind, Site
from tests.kills.mutations import hunt_all
from tests.kills.trial import WAYS, Outcome, Way, drawn, measure, place_of, trial, unharmed

PER_SITE = 20  # trials on one ledger, then a new one


class Sites:
    """The folders of all kinds. A folder ends with a release that nobody kills: a later run still works."""

    def __init__(self, folder: Path, all_kinds: dict[str, Kind]) -> None:
        self.folder, self.kinds, self.made = folder, all_kinds, 0
        self.now: dict[str, tuple[Site, int]] = {name: (self._open(name), 0) for name in all_kinds}

    def _open(self, name: str) -> Site:
        self.made += 1
        return self.kinds[name].open_site(self.folder / f"site{self.made}")

    def take(self, name: str) -> Site:
        """Where the next trial of a kind happens."""
        site, trials = self.now[name]
        if trials == PER_SITE:
            self.end(name)
            site, trials = self._open(name), 0
        self.now[name] = site, trials + 1
        return site

    def leave(self, name: str) -> None:
        """Go on elsewhere: nothing can be expected of this folder any more."""
        self.now[name] = self._open(name), 0

    def end(self, name: str) -> None:
        """Nobody is killed any more."""
        site, _ = self.now.pop(name)
        unharmed(self.kinds[name], site)
        shutil.rmtree(site.folder)


def killed(folder: Path, kills: int, seed: int, only: list[str]) -> Iterator[tuple[int, Outcome]]:
    """Trials until so many processes were killed; a trial may end before its kill comes."""
    all_kinds = {name: kind for name, kind in kinds().items() if not only or name in only}
    sites = Sites(folder, all_kinds)
    sizes = {name: measure(kind, sites.now[name][0]) for name, kind in all_kinds.items()}
    ways: tuple[Way, ...] = WAYS if all(m.system_calls for m in sizes.values()) else WAYS[:2]
    number = done = 0
    while done < kills:
        name, way, fraction = drawn(seed, number, list(all_kinds), ways)
        outcome = trial(name, all_kinds[name], sites.take(name), way, place_of(way, fraction, sizes[name]))
        done += outcome.killed
        if outcome.violation is not None:
            sites.leave(name)
        yield number, outcome
        number += 1
    for name in all_kinds:
        sites.end(name)


def table(outcomes: list[Outcome]) -> str:
    """Counts of kills by kind and way, by how far the run had come, and by call."""
    dead = [o for o in outcomes if o.killed]
    lines = [f"{len(dead):,} kills in {len(outcomes):,} trials, {sum(o.journal for o in dead):,} inside a transaction"]
    by_kind = Counter((o.kind, o.way) for o in dead)
    for kind in dict.fromkeys(o.kind for o in dead):
        lines.append(f"  {kind:28}" + "".join(f"{way}: {by_kind[kind, way]:4}   " for way in WAYS))
    for title, counts in (
        ("stage", Counter(o.stage for o in dead)),
        ("call", Counter(o.point for o in dead if o.point)),
    ):
        lines.append(f"by {title}: " + ", ".join(f"{name} {count:,}" for name, count in counts.most_common()))
    return "\n".join(lines)


def main(folder: Path, kills: int, seed: int, only: list[str]) -> None:
    """Run the trials."""
    outcomes = []
    for number, outcome in killed(folder, kills, seed, only):
        print(json.dumps({"number": number} | asdict(outcome)), flush=True)
        outcomes.append(outcome)
    print(table(outcomes))


if __name__ == "__main__":
    if sys.argv[2] == "mutations":
        print(json.dumps(hunt_all(Path(sys.argv[1]))))
    else:
        main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
