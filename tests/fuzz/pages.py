"""Pages and other output about changed releases: the commands that show them, and what is inside a page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import Any

from leastnoise.release.files.folders import ARRAYS, HEADER
from leastnoise.storage.records import NAMES
from tests.fuzz import mutate, samples
from tests.fuzz.law import Kind, Trial, command
from tests.fuzz.releases import FOLDERS, changed, put
from tests.fuzz.samples import Files, sample

_DATA = re.compile(r'<script id="data" type="application/json">(.*?)</script>', re.DOTALL)
_SHOWN = ("dataset", "name", "names", "values", "label", "queries", "nodes", "attribute", "counted", "software")


def attempt(trial: Trial) -> None:
    """Change a release, mostly such that it is still one, and show it."""
    rng = trial.rng
    if rng.random() < 0.1:
        _local(trial)
        return
    name = rng.choice(FOLDERS)
    trial.note(name)
    files = mild(trial, sample(name)) if rng.random() < 0.8 else changed(trial, sample(name))
    folder = trial.folder / "out"
    folder.mkdir()
    put(folder, files)
    what = rng.choices(["report", "show", "ask", "table"], [7, 1, 1, 1])[0]
    trial.note(what)
    if what == "report":
        command("report", folder, "--out", trial.folder / "page.html", *(["--json"] if rng.random() < 0.2 else []))
        check_page(trial.folder / "page.html")
    elif what == "show":
        command("show", folder, *(["--json"] if rng.random() < 0.5 else []))
    elif what == "ask":
        command(
            "ask",
            folder,
            rng.choice(["a = 1", "north", "u", "x = 'y' and (", "item = 1", mutate.in_text(rng, "a = 1")]),
        )
    else:
        command("table", folder, *rng.choice([["a"], ["b", "a"], [], ["place"]]), "--csv", trial.folder / "t.csv")


def _local(trial: Trial) -> None:
    members = mutate.members_of(sample("state")["state"])
    if trial.rng.random() < 0.7:
        name = trial.rng.choice([n for n in members if n.endswith(".npy")])
        members[name] = _in_numbers(trial.rng, members[name])
    (trial.folder / "state").write_bytes(mutate.archived(members))
    command("local", "answers", trial.folder / "state", "--html", trial.folder / "page.html")
    check_page(trial.folder / "page.html")


def mild(trial: Trial, files: Files) -> Files:
    """Other names, labels and numbers in a release, with all seals renewed."""
    rng, entries = trial.rng, dict(files)
    data = json.loads(files[HEADER])
    if rng.random() < 0.6:
        trial.note(_renamed(rng, data))
    if NAMES in files and rng.random() < 0.5:
        names = json.loads(files[NAMES])
        trial.note(_renamed(rng, names))
        entries[NAMES] = json.dumps(names).encode("utf-8", "surrogatepass")
    if rng.random() < 0.4:
        members = mutate.members_of(files[ARRAYS])
        name = rng.choice(list(members))
        members[name] = _in_numbers(rng, members[name])
        trial.note(f"numbers of {name}")
        entries[ARRAYS] = mutate.archived(members)
    return samples.resealed(entries, data)


def _renamed(rng: Random, data: Any) -> str:
    """Put odd words in place of what pages show."""
    places = list(_texts(data))
    if not places:
        return "nothing to rename"
    holder, key = rng.choice(places)
    holder[key] = rng.choice([mutate.in_text(rng, holder[key]), rng.choice(mutate.WORDS)])
    return f"{key!r} is {holder[key][:50]!r}"


def _texts(data: Any, shown: bool = False) -> Any:
    for key in data if isinstance(data, dict) else range(len(data)):
        inside = shown or key in _SHOWN
        if isinstance(data[key], str) and inside:
            yield data, key
        elif isinstance(data[key], dict | list):
            yield from _texts(data[key], inside)


def _in_numbers(rng: Random, member: bytes) -> bytes:
    """An array with some of its bytes, but not its header, changed."""
    head = member.index(b"\n") + 1
    body = bytearray(member[head:])
    for _ in range(rng.choice([1, 2, 8])):
        if body:
            body[rng.randrange(len(body))] = rng.randrange(256)
    return member[:head] + bytes(body)


def check_page(path: Path) -> None:
    """A page is whole: text in it ends no element, and its data are JSON that a browser reads."""
    page = path.read_text("utf-8")
    assert page.count("</script") == page.count("<script") <= 3, "a text opens or ends a script"
    assert page.rstrip().endswith("</html>"), "the page is not whole"
    for data in _DATA.findall(page):
        json.loads(data, parse_constant=_refuse)


def _refuse(word: str) -> None:
    raise AssertionError(f"{word} in a page, which no browser reads")


KIND = Kind("pages", attempt, samples.prepare)
