"""From a file to its published page, as somebody at a shell would go: commands, and edits of the drafted spec."""

import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

SPEC = "spec.yaml"


@dataclass(frozen=True)
class Edit:
    """A change of the spec by hand: a piece of its text, and what is written in its place."""

    old: str
    new: str

    def apply(self, path: Path) -> None:
        text = path.read_text()
        assert text.count(self.old) == 1, f"{self.old!r} stands {text.count(self.old)} times in the draft:\n{text}"
        path.write_text(text.replace(self.old, self.new))


@dataclass(frozen=True)
class Journey:
    """A way from a messy file to a report, an export and three answers."""

    name: str
    make: Callable[[Path], None]
    data: str
    edits: tuple[Edit, ...]
    questions: tuple[str, str, str]
    truth: Callable[[Path], int] | None  # of the first question; None where a keyed hash decides which rows count
    options: str = ""  # further options of `release`
    ledger: str = "--protects rows"

    @property
    def commands(self) -> tuple[str, ...]:
        """What is typed, in order; the edits come after the first."""
        data = shlex.quote(self.data)
        asked = " ".join(map(shlex.quote, self.questions))
        return (
            f"init {data} --look --out {SPEC}",
            f"check {SPEC} --data {data}",
            f"plan {SPEC}",
            f"ledger init data.ledger --dataset {self.name} --epsilon 3 --delta 1e-9 {self.ledger}".rstrip(),
            f"release {SPEC} --data {data} --ledger data.ledger --out out {self.options}".rstrip(),
            f"ask out {asked} --json",
            "report out --out page.html",
            "export out --out tables --format csvw",
        )

    @property
    def length(self) -> tuple[int, int]:
        """Numbers of commands and of edits."""
        return len(self.commands), len(self.edits)


def follow(journey: Journey, folder: Path, call: Callable[[Sequence[str]], tuple[int, str, str]]) -> list[dict]:  # type: ignore[type-arg]
    """All steps in a folder; the answers in the end. Every command must succeed and say nothing of an error."""
    journey.make(folder)
    answers: list[dict] = []  # type: ignore[type-arg]
    for k, command in enumerate(journey.commands):
        code, out, err = call(shlex.split(command))
        assert code == 0, f"{command}: {out}{err}"
        if k == 0:
            for edit in journey.edits:
                edit.apply(folder / SPEC)
        if command.startswith("ask"):
            answers = json.loads(out)["answers"]
    return answers
