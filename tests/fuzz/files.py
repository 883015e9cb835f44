"""Other files that are read: saved plans, ledgers, matrices of queries, trees."""

from __future__ import annotations

import hashlib
import io
import json
import sqlite3
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
from scipy.io import mmwrite
from scipy.sparse import csr_matrix, save_npz

import leastnoise as ln
from leastnoise.workload.matrix_file import read_matrix
from tests.fuzz import mutate
from tests.fuzz.law import Kind, Trial
from tests.fuzz.releases import in_json

_ALWAYS = {"time": "2026-03-01T12:00:00+00:00", "token": "0" * 32}


def attempt(trial: Trial) -> None:
    """One of the readers."""
    trial.rng.choices([_plan, _ledger, _matrix, _tree], [3, 1, 4, 3])[0](trial)


# --- saved plans ------------------------------------------------------------------------------------------------------


@cache
def _plans() -> list[bytes]:
    domain = ln.Domain.of(a=range(3), b=["x", "y"])
    tree = ln.Domain.of(place=ln.hierarchy({"north": ["n1", "n2"], "south": ["s1"]}), b=2)
    budget, results = ln.Budget(mu=1), []
    for plan in (
        ln.plan(ln.Workload(domain).marginals(ways=2).prefix("a"), budget, baseline="uniform"),
        ln.plan(ln.Workload(domain).ranges("a", by="b"), budget, objective="max"),
        ln.plan(ln.Workload(tree).add("nodes", on=["place"]).marginals(ways=1), budget),
    ):
        with tempfile.TemporaryDirectory() as folder:
            plan.save(Path(folder) / "plan")
            results.append(_undated((Path(folder) / "plan").read_bytes()))
    return results


def _undated(archive: bytes) -> bytes:
    """A plan without the time that planning took."""
    members = mutate.members_of(archive)
    data = json.loads(members["header.json"]) | {"seconds": 0.5}
    members["header.json"] = json.dumps(data).encode("utf-8", "surrogatepass")
    return mutate.archived(members)


def _plan(trial: Trial) -> None:
    rng = trial.rng
    whole = rng.choice(_plans())
    action = rng.choice(["bytes", "members", "header", "header", "header"])
    trial.note(action)
    if action == "bytes":
        data = mutate.in_bytes(rng, whole)
    elif action == "members":
        data, how = mutate.in_archive(rng, whole, _plans())
        trial.note(how)
    else:
        members = mutate.members_of(whole)
        data = mutate.archived(members | {"header.json": in_json(trial, members["header.json"])})
    path = trial.folder / "plan"
    path.write_bytes(data)
    plan = ln.Plan.load(path)
    rng.choice([lambda: str(plan), lambda: plan.to_json(), lambda: plan.integer_plan, lambda: plan.rmse])()


# --- ledgers ----------------------------------------------------------------------------------------------------------


@cache
def _ledgers() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.ledger"
        book = ln.Ledger.create(path, ln.Budget(mu=2), "people")
        book.finish(book.debit(ln.Budget(mu=1).cost_value, "f" * 64, note="first", who="ann"), "0123456789abcdef")
        book.raise_total(ln.Budget(mu=3), "a second wave", who="bob")
        with sqlite3.connect(path) as connection:
            _undate(connection)
        connection.close()
        return path.read_bytes()


def _undate(connection: sqlite3.Connection) -> None:
    """Times of day and tokens would make every run another one; triggers guard entries and are put back."""
    guards = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in guards:
        connection.execute(f"DROP TRIGGER {name}")
    for table, column in _columns(connection):
        if column in _ALWAYS:
            connection.execute(f"UPDATE {table} SET {column} = ?", (_ALWAYS[column],))
    for _, sql in guards:
        connection.execute(sql)


def _columns(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    tables = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
    ).fetchall()
    return [
        (table, row[1]) for (table,) in tables for row in connection.execute(f"PRAGMA table_info({table})").fetchall()
    ]


def _ledger(trial: Trial) -> None:
    rng, path = trial.rng, trial.folder / "people.ledger"
    if rng.random() < 0.5:
        path.write_bytes(mutate.in_bytes(rng, _ledgers()))
    else:
        path.write_bytes(_ledgers())
        _forge(trial, path)
    trial.note(f"ledger {hashlib.sha256(path.read_bytes()).hexdigest()}")
    book = ln.Ledger.open(path, timeout=0.1)
    book.entries(), book.spent, book.left, book.raises(), book.first_total
    if rng.random() < 0.3:
        book.debit(ln.Budget(mu=0.1).cost_value, "e" * 64)


def _forge(trial: Trial, path: Path) -> None:
    """Change a field, with the guards of the file taken away first."""
    rng, connection = trial.rng, sqlite3.connect(path)
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        if rng.random() < 0.8:
            connection.execute(f"DROP TRIGGER {name}")
    table, column = rng.choice(_columns(connection))
    value = rng.choice([None, b"\xff", "1/0", "-1/2", "x", "{}", '{"mu": 1}', 10**15, 1.5, mutate.in_text(rng, "1/4")])
    trial.note(f"{table}.{column} = {value!r:.60}")
    try:
        connection.execute(f"UPDATE {table} SET {column} = ?", (value,))
        connection.commit()
    except (sqlite3.Error, UnicodeEncodeError):
        pass  # then a forger has to leave it
    finally:
        connection.close()


# --- matrices and trees -----------------------------------------------------------------------------------------------


@cache
def _matrices() -> dict[str, list[bytes]]:
    rows = np.array([[1.0, 1, 0], [0, 1, 1]])
    plain, packed, sparse, text = io.BytesIO(), io.BytesIO(), io.BytesIO(), io.BytesIO()
    np.save(plain, rows)
    np.savez(packed, queries=rows, items=["u", "v", "w"], names=["p", "q"])
    save_npz(sparse, csr_matrix(rows))
    mmwrite(text, csr_matrix(rows))
    named = b"query,u,v,w\np,1,1,0\nq,0,1,1\n"
    archives = [mutate.archived(mutate.members_of(s.getvalue())) for s in (packed, sparse)]  # without times
    return {".csv": [named, b"1,1,0\n0,1,1\n"], ".npy": [plain.getvalue()], ".npz": archives, ".mtx": [text.getvalue()]}


def _matrix(trial: Trial) -> None:
    rng = trial.rng
    suffix = rng.choice(list(_matrices()))
    whole = rng.choice(_matrices()[suffix])
    changes: tuple[Callable[[], bytes], ...] = (lambda: mutate.in_bytes(rng, whole),)
    if suffix == ".npz":
        changes = (lambda: mutate.in_archive(rng, whole)[0], *changes)
    if suffix == ".npy":
        changes = (lambda: mutate.in_npy(rng, whole), *changes)
    data = rng.choice(changes)()
    path = trial.folder / f"rows{suffix}"
    path.write_bytes(data)
    trial.note(f"{suffix} {data[:300]!r}")
    matrix = read_matrix(path)
    if np.size(matrix.queries) < 50 and rng.random() < 0.05:
        str(ln.matrix_plan(matrix.queries, ln.Budget(mu=1), items=matrix.items, names=matrix.names))


_TREES = (
    b"state,county\nnorth,a\nnorth,b\nsouth,c\n",
    b"node,parent\nall,\nx,all\ny,all\nz,x\n",
    b"code\n0101\n0102\n0201\n",
    "état,commune\nnord,à\nsud,b\n".encode(),
)


def _tree(trial: Trial) -> None:
    rng = trial.rng
    data = mutate.in_bytes(rng, rng.choice(_TREES)) if rng.random() < 0.8 else _loop(rng)
    path = trial.folder / "places.csv"
    path.write_bytes(data)
    trial.note(data[:500])
    digits = rng.choice([None, None, None, [2, 4], [0], [1, 1], [10**9]])
    hierarchy = ln.hierarchy(path, digits=digits)
    str(hierarchy), hierarchy.to_json()


def _loop(rng: Random) -> bytes:
    """Nodes and parents at random: loops, orphans, several roots, long chains."""
    names = [str(k) for k in range(rng.choice([2, 5, 40, 3000]))]
    if rng.random() < 0.3:
        rows = [f"{name},{above}" for name, above in zip(names, ["", *names[:-1]], strict=True)]
    else:
        rows = [f"{name},{rng.choice(['', *names[:9]])}" for name in names]
    return "\n".join(["node,parent", *rows]).encode()


def prepare() -> None:
    """Make all that is changed, before workers are forked."""
    _plans(), _ledgers(), _matrices()


KIND = Kind("files", attempt, prepare)
