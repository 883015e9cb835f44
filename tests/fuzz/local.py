"""The local model: bytes for collectors, files of reports, plans and records of devices."""

from __future__ import annotations

import base64
import json
from random import Random
from typing import Any

from leastnoise.local import Collector, Device, load_plan
from leastnoise.local.files import load_collector
from leastnoise.local.reports import read_reports
from leastnoise.noise import SeededRandomSource
from tests.fuzz import mutate, samples
from tests.fuzz.law import Kind, Trial, command
from tests.fuzz.releases import in_json

SECRET = "zebra-7731"


def attempt(trial: Trial) -> None:
    """One of the readers; blocks of reports most often, because they come from anybody."""
    trial.rng.choices([_block, _file, _plan, _record, _collector], [70, 12, 8, 8, 2])[0](trial)


def _block(trial: Trial) -> None:
    """Bytes for a collector; whatever they are, they are counted or rejected, all of them."""
    rng, name = trial.rng, trial.rng.choice(list(samples.local_plans()))
    plan = samples.local_plans()[name]
    good, size = samples.reports(name), plan.report_bytes
    block = rng.choice([_changed, _changed, _random, _other])(rng, name, good, size)
    trial.note(f"{name}: {block[:200]!r}")
    collector = Collector(plan)
    if rng.random() < 0.5:
        collector.add_block(block)
    else:
        collector.add_all(block[at : at + size] for at in range(0, len(block), size))
    taken = collector.reports + sum(collector.rejected.values())
    assert taken == -(-len(block) // size) or (len(block) % size and taken == 1), "reports were lost"
    if collector.counts.min() > 1 and rng.random() < 0.1:
        collector.answers()


def _changed(rng: Random, name: str, good: bytes, size: int) -> bytes:
    """Reports with a few bytes changed, mostly of a right length."""
    if rng.random() < 0.2:
        return mutate.in_bytes(rng, good[: size * rng.randrange(40)])
    result = bytearray(good[: size * rng.randrange(1, 40)])
    for _ in range(rng.choice([1, 3, 20])):
        result[rng.randrange(len(result))] = rng.randrange(256)
    return bytes(result)


def _random(rng: Random, name: str, good: bytes, size: int) -> bytes:
    """Anything, or anything behind a right beginning."""
    rest = rng.randbytes(rng.choice([0, 1, size - 1, size, size + 1, 7 * size]))
    return rest if rng.random() < 0.5 else good[: rng.randrange(size)] + rest


def _other(rng: Random, name: str, good: bytes, size: int) -> bytes:
    """Reports of another plan."""
    return samples.reports(rng.choice(list(samples.local_plans())))[: rng.randrange(300)]


# --- files ------------------------------------------------------------------------------------------------------------


def _file(trial: Trial) -> None:
    """A file of reports, as bytes or lines; nothing of its lines may be said."""
    rng, name = trial.rng, trial.rng.choice(list(samples.local_plans()))
    plan, good = samples.local_plans()[name], samples.reports(name)
    trial.secrets.add(SECRET)
    if rng.random() < 0.3:
        data = mutate.in_bytes(rng, good)
    else:
        data = b"\n".join(
            _line(rng, good[at : at + plan.report_bytes]) for at in range(0, len(good), plan.report_bytes)
        )
        data = data if rng.random() < 0.4 else mutate.in_bytes(rng, data)
    path = trial.folder / "reports"
    path.write_bytes(data)
    trial.note(data[:500])
    read_reports(plan, path)


def _line(rng: Random, report: bytes) -> bytes:
    text = base64.b64encode(report).decode()
    odd: list[Any] = [SECRET, {"report": SECRET}, {"report": 7}, {"other": text}, [text], None, {"report": None}]
    forms: list[Any] = [{"report": text}, text, *([rng.choice(odd)] if rng.random() < 0.1 else [])]
    return text.encode() if rng.random() < 0.4 else json.dumps(rng.choice(forms)).encode()


def _plan(trial: Trial) -> None:
    """A plan's file: members, header, bytes; read, and shown."""
    rng = trial.rng
    whole = samples.local_files()[rng.choice(list(samples.local_files()))]
    action = rng.choice(["bytes", "members", "header", "header"])
    trial.note(action)
    if action == "bytes":
        data = mutate.in_bytes(rng, whole)
    elif action == "members":
        data, how = mutate.in_archive(rng, whole, list(samples.local_files().values()))
        trial.note(how)
    else:
        members = mutate.members_of(whole)
        data = mutate.archived(members | {"header.json": in_json(trial, members["header.json"])}, packed=True)
    path = trial.folder / "plan"
    path.write_bytes(data)
    if rng.random() < 0.05:
        command("local", "show", path)
    else:
        str(load_plan(path))


def _collector(trial: Trial) -> None:
    """A collector's file, with its members changed."""
    data, how = mutate.in_archive(trial.rng, samples.sample("state")["state"])
    trial.note(how)
    (trial.folder / "state").write_bytes(data)
    load_collector(trial.folder / "state", samples.local_plans()["tables"])


# --- records ----------------------------------------------------------------------------------------------------------


def _record(trial: Trial) -> None:
    """A record of a device with odd values, none of which may be said."""
    rng, plan = trial.rng, samples.local_plans()[trial.rng.choice(list(samples.local_plans()))]
    trial.secrets.add(SECRET)
    record = {a.name: a.value(rng.randrange(a.size)) for a in plan.domain.attributes}
    odd: list[Any] = [
        SECRET,
        [SECRET],
        {SECRET: 1},
        f"1{SECRET}",
        None,
        1.5,
        float("nan"),
        10**400,
        True,
        b"\xff",
        "\ud800",
    ]
    name = rng.choice(list(record))
    if rng.random() < 0.8:
        record[name] = rng.choice(odd)
    else:
        record[f"{name}x"] = record.pop(name)
    trial.note(record)
    Device(plan, SeededRandomSource(1)).report(record)


def _prepare() -> None:
    samples.prepare()
    for name in samples.local_plans():
        samples.reports(name)


KIND = Kind("local", attempt, _prepare)
