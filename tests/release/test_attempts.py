"""Attempts: a ledger takes down every run before it looks at data, and allows few that stop; forked and copied runs."""

import os
import shutil
import sqlite3
from contextlib import closing
from importlib import import_module
from unittest.mock import Mock

import duckdb
import numpy as np
import pandas as pd
import pytest

import leastnoise as ln
from leastnoise.domain.tree import Tree
from leastnoise.errors import DataError, LeastnoiseError
from leastnoise.mechanisms.adaptive import adaptive_plan
from leastnoise.mechanisms.tree import tree_plan
from leastnoise.noise import SeededRandomSource
from leastnoise.privacy import BudgetError, Ledger
from leastnoise.privacy.ledger_entries import Attempt
from leastnoise.privacy.ledger_file import ATTEMPTS

DOMAIN = ln.Domain.of(item=range(4))
SMALL = ln.Budget(mu=0.1)
MECHANISMS = {
    "plan": lambda: ln.plan(ln.Workload(DOMAIN).prefix("item"), SMALL),
    "survey": lambda: adaptive_plan(ln.Workload(DOMAIN).marginals(ways=1), SMALL),
    "aim": lambda: adaptive_plan(ln.Workload(DOMAIN).marginals(ways=1), SMALL, select="aim"),
    "matrix": lambda: ln.matrix_plan(np.tri(4), SMALL, items={"item": range(4)}),
    "cascade": lambda: tree_plan({"item": Tree.binary(2)}, budget=SMALL),
}
GOOD, BAD = pd.DataFrame({"item": [0, 1, 2, 3]}), pd.DataFrame({"item": [0, 1, 2, 99]})


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "x.ledger", ln.Budget(mu=1), "people", attempts=3)


@pytest.mark.parametrize("kind", MECHANISMS)
def test_runs_that_stop_are_taken_down(kind, ledger, tmp_path):
    mechanism = MECHANISMS[kind]()
    assert ledger.stopped == 0
    for k in range(2):
        with pytest.raises(DataError, match="outside the domain"):
            mechanism.run(BAD, ledger=ledger)
        assert ledger.stopped == k + 1
    assert not ledger.entries()
    release = mechanism.run(GOOD, ledger=ledger, out=tmp_path / "out")
    assert ledger.stopped == 2
    assert "2 runs on the same dataset looked at the data and stopped" in release.privacy.statement
    again = ln.load(tmp_path / "out")
    assert again.privacy == release.privacy
    with pytest.raises(DataError):
        mechanism.run(BAD, ledger=ledger)
    with pytest.raises(BudgetError) as error:
        mechanism.run(GOOD, ledger=ledger)
    assert str(error.value) == (
        "3 runs on 'people' looked at the data and stopped; its ledger allows fewer than 3 and takes no more of them "
        "(find problems with `leastnoise check`, and use rules that cover all values)"
    )


class Opened(Exception):
    """The data was opened."""


class Trap:
    """A source that must not be asked."""

    name, domain, drops, rows_per_person = None, DOMAIN, False, None

    def count(self, sets):
        raise Opened


@pytest.mark.parametrize("kind", MECHANISMS)
def test_an_exhausted_ledger_refuses_before_data_is_opened(kind, tmp_path):
    book = Ledger.create(tmp_path / "x.ledger", ln.Budget(mu=0.12), "people")
    mechanism = MECHANISMS[kind]()
    mechanism.run(GOOD, ledger=book)
    for data in (Trap(), BAD, GOOD):
        with pytest.raises(BudgetError, match=r"but only mu 0\.06633 is left of mu 0\.12; nothing was spent"):
            mechanism.run(data, ledger=book)
    assert book.stopped == 0


@pytest.mark.parametrize(
    ("data", "options", "text"),
    [
        ("nowhere.csv", {}, "there is no file"),
        (pd.DataFrame({"other": [1]}), {}, "the column 'item' is missing"),
        (pd.DataFrame({"item": ["a"]}).astype("string"), {}, "holds text"),
        (GOOD, {"rules": {"item": {"outside": "clmp"}}}, "is no rule"),
        (GOOD, {"unit": {"id": "item", "max_rows": 2}}, "the plan protects single rows"),
        (GOOD, {"random_source": SeededRandomSource(1)}, "seeded noise must not be spent"),
        (GOOD, {"dataset": "animals"}, "this ledger is for the dataset 'people'"),
    ],
)
def test_what_does_not_depend_on_values_is_no_attempt(data, options, text, ledger):
    with pytest.raises(LeastnoiseError, match=text):
        MECHANISMS["plan"]().run(data, ledger=ledger, **options)
    assert ledger.stopped == 0
    assert not ledger.entries()


def test_whatever_stops_a_run_that_looks_counts(ledger, monkeypatch):
    """Also Ctrl-C, a full disk, a broken program: from outside nobody can tell why it stopped."""
    mechanism = MECHANISMS["plan"]()
    for kind in (KeyboardInterrupt, ZeroDivisionError):
        with monkeypatch.context() as patch:
            patch.setattr(import_module("leastnoise.mechanisms.tables.plan"), "measure", Mock(side_effect=kind))
            with pytest.raises(kind):
                mechanism.run(GOOD, ledger=ledger)
    assert ledger.stopped == 2
    assert len(ledger.entries()) == 2


def test_whoever_comes_second_does_not_count_as_stopped(ledger, monkeypatch):
    """Between the look and the debit somebody else spent the rest."""
    mechanism, debit = MECHANISMS["plan"](), Ledger.debit

    def late(book, *arguments, **options):
        debit(book, ln.Budget(mu=0.999).cost_value, "other")
        return debit(book, *arguments, **options)

    monkeypatch.setattr(Ledger, "debit", late)
    with pytest.raises(BudgetError, match="nothing was spent"):
        mechanism.run(GOOD, ledger=ledger)
    assert ledger.stopped == 0


def test_a_ledger_of_version_1_is_upgraded(tmp_path):
    """As it was written before attempts were taken down: entries stay, ten attempts are allowed."""
    path = tmp_path / "old.ledger"
    Ledger.create(path, ln.Budget(mu=1), "people").debit(SMALL.cost_value, "first")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for table in ("identity", "added", "raised", "ran", "allowed", "attempt", "complete", "asked", "person"):
            connection.execute(f"DROP TABLE {table}")
        connection.execute("PRAGMA user_version = 1")
    book = Ledger.open(path)
    assert (book.attempts, book.stopped, len(book.entries())) == (ATTEMPTS, 0, 1)
    MECHANISMS["plan"]().run(GOOD, ledger=path)
    assert len(Ledger.open(path).entries()) == 2


def test_runs_that_come_to_their_end_tell_little(tmp_path):
    """A search for the largest income with runs that cost next to nothing: few bounds can be tried, stopped or not."""
    incomes = {"income": np.random.default_rng(1).integers(0, 1000, 50)}
    book = Ledger.create(tmp_path / "x.ledger", ln.Budget(mu=1), "people", attempts=6)
    low, high, tried = 0, 1024, 0
    while high - low > 1:
        middle = (low + high) // 2
        work = ln.Workload(ln.Domain.of(income=range(middle))).total()
        try:
            ln.plan(work, ln.Budget(mu=1e-6)).run(incomes, ledger=book)
            high = middle
        except DataError:
            low = middle
        except BudgetError:
            break
        tried += 1
    assert 1 < tried <= book.attempts
    assert book.stopped + book.repeated_requests <= 2 * book.attempts
    assert high - low > 1


@pytest.mark.long
def test_the_same_coding_may_be_asked_for_again(tmp_path):
    book = Ledger.create(tmp_path / "x.ledger", ln.Budget(mu=1), "people", attempts=1)
    for _ in range(3):
        MECHANISMS["plan"]().run(GOOD, ledger=book)
    covered = {"item": {"outside": "drop", "missing": "drop"}}
    for size in (3, 2):  # nothing can stop it, so nothing is reported
        work = ln.Workload(ln.Domain.of(item=range(size))).marginals("item")
        ln.plan(work, SMALL).run(GOOD, ledger=book, rules=covered)
    assert (book.stopped, book.repeated_requests) == (0, 0)
    with pytest.raises(BudgetError, match="1 further codings of columns could stop one"):
        ln.plan(ln.Workload(ln.Domain.of(item=range(5))).marginals("item"), SMALL).run(GOOD, ledger=book)
    assert book.repeated_requests == 0
    MECHANISMS["plan"]().run(GOOD, ledger=book)


def test_a_ledger_knows_who_a_person_is(tmp_path):
    people = pd.DataFrame({"item": [0, 1, 2, 3], "visit": [1, 2, 3, 4], "patient": [1, 1, 1, 1]})
    plan = ln.plan(ln.Workload(DOMAIN).prefix("item"), ln.Budget(mu=0.1, rows_per_person=1))
    book = Ledger.create(tmp_path / "x.ledger", ln.Budget(mu=1, rows_per_person=1), "people")
    release = plan.run(people, ledger=book, unit={"id": "patient", "max_rows": 1}, out=tmp_path / "out")
    assert "People are told apart by 'patient'." in release.privacy.statement
    assert ln.load(tmp_path / "out").privacy == release.privacy
    with pytest.raises(
        BudgetError, match="people distinguished by the column 'patient', not by 'visit'; use the same id"
    ):
        plan.run(people, ledger=book, unit={"id": "visit", "max_rows": 1})
    assert "vouches for it" in plan.run(people, ledger=book).privacy.statement


EXACT = pd.DataFrame({"leaf": list("aabbccdd"), "other": list("abcdabcd"), "who": list("ppqrstuv")})


def exact_plan(values="abcd", rows=None):
    budget = ln.Budget(mu=0.01, neighbours="replace", rows_per_person=rows)
    return tree_plan({"leaf": Tree.binary(2)}, budget=budget, exact_level=1, values=list(values))


@pytest.mark.long
def test_exact_counts_of_other_things_do_not_add_up(tmp_path):
    """Whatever decides what is counted: the values of leaves, the column, rules, and which rows of people are kept."""
    plan = exact_plan()
    assert plan.cost.neighbours != exact_plan("acbd").cost.neighbours
    book = Ledger.create(tmp_path / "x.ledger", ln.Budget(mu=1, neighbours=plan.cost.neighbours), "people")
    plan.run(EXACT, ledger=book)
    plan.run(EXACT, ledger=book)
    for rules in ({"leaf": {"column": "other"}}, {"leaf": {"missing": "a"}}, {"leaf": {"outside": "drop"}}):
        with pytest.raises(BudgetError, match="counted with other rules or another unit"):
            plan.run(EXACT, ledger=book, rules=rules)
    people = exact_plan(rows=1)
    own = Ledger.create(tmp_path / "y.ledger", ln.Budget(mu=1, neighbours=people.cost.neighbours), "people")
    secret = {"id": "who", "max_rows": 1, "secret": b"for this test"}
    people.run(EXACT, ledger=own, unit=secret, out=tmp_path / "out")
    people.run(EXACT, ledger=own, unit=secret)
    assert ln.load(tmp_path / "out").cost == people.cost
    with pytest.raises(BudgetError, match="with a secret for the unit"):
        people.run(EXACT, ledger=own, unit={"id": "who", "max_rows": 1})


def test_only_attempts_are_completed(ledger):
    for number in range(1, 5):
        with pytest.raises(LeastnoiseError, match="is not one of the ledger"):
            ledger.complete(Attempt(number, "x", 0))
    with pytest.raises(DataError):
        MECHANISMS["plan"]().run(BAD, ledger=ledger)
    assert ledger.stopped == 1


def test_queries_are_not_run_before_the_attempt_is_taken_down(ledger):
    """What speaks Arrow may compute its values when it is asked for them, and stop because of one."""
    relation = duckdb.sql("SELECT CASE WHEN x > 2 THEN error('too large') ELSE x END AS item FROM range(9) t(x)")
    with pytest.raises(DataError):
        MECHANISMS["plan"]().run(relation, ledger=ledger)
    assert ledger.stopped == 1
    fine = duckdb.sql("SELECT x AS item FROM range(4) t(x)")
    MECHANISMS["plan"]().run(fine, ledger=ledger)


@pytest.mark.parametrize("row", [3, 5000])
def test_only_the_line_of_names_is_read_before(row, ledger, tmp_path):
    lines = [b"item", *[b"1"] * row, b"\xff", b"1", b""]
    (tmp_path / "x.csv").write_bytes(b"\n".join(lines))
    with pytest.raises(DataError):
        MECHANISMS["plan"]().run(tmp_path / "x.csv", ledger=ledger)
    assert ledger.stopped == 1


@pytest.mark.parametrize("bad", [0, -1, 1001, 2.0, True, "3", None])
def test_bad_numbers_of_attempts_are_refused(bad, tmp_path):
    with pytest.raises(LeastnoiseError, match="attempts must be a whole number from 1 to 1,000, got"):
        Ledger.create(tmp_path / "x.ledger", ln.Budget(mu=1), "people", attempts=bad)
    assert not (tmp_path / "x.ledger").exists()


def test_attempts_only_grow(ledger):
    MECHANISMS["plan"]().run(GOOD, ledger=ledger)
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as connection:
        for statement in (
            "DELETE FROM attempt",
            "UPDATE allowed SET attempts = '99'",
            "INSERT OR REPLACE INTO complete (id, time) VALUES (1, 'now')",
        ):
            with pytest.raises(sqlite3.IntegrityError, match="a ledger only grows"):
                connection.execute(statement)


# --- forks ------------------------------------------------------------------------------------------------------------


def in_a_child(act) -> str:
    """What a forked process has to say."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            act()
            text = "went on"
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text


REFUSED = "LeastnoiseError: this was begun before a fork; only the process that began it can go on with it"


@pytest.mark.parametrize("kind", MECHANISMS)
def test_a_run_does_not_go_on_in_a_forked_process(kind, tmp_path):
    """A fork in the middle, while the source counts: the child would draw other noise for the same answers."""
    items = []

    class Forking:
        name, domain, drops = None, DOMAIN, False

        def count(self, sets):
            if os.getpid() == parent and not items:
                items.append(None)
                read, write = os.pipe()
                child = os.fork()
                if not child:
                    here.append(write)
                else:
                    os.close(write)
                    with os.fdopen(read) as pipe:
                        items[0] = pipe.read()
                    os.waitpid(child, 0)
            return iter([np.array([1, 2, 3, 4]) if axes else np.array(10) for axes in sets])

    parent, here, outcome = os.getpid(), [], "went on"
    try:
        MECHANISMS[kind]().run(Forking(), out=tmp_path / "out")
    except BaseException as error:
        outcome = f"{type(error).__name__}: {error}"
    if os.getpid() != parent:
        os.write(here[0], outcome.encode())
        os._exit(0)
    assert outcome == "went on"
    assert items == [REFUSED]
    assert ln.load(tmp_path / "out").privacy.mu > 0  # which the child has left alone


@pytest.mark.long
def test_a_stream_does_not_go_on_in_a_forked_process(tmp_path):
    plan = ln.matrix_plan(ln.running_totals(8), SMALL)
    for folder in (None, tmp_path / "stream"):
        stream = ln.mechanisms.Stream(plan, folder=folder)
        stream.add(3)
        for _ in range(3):
            assert in_a_child(lambda stream=stream: stream.add(5)) == REFUSED
        assert in_a_child(lambda stream=stream: stream.answer(0)) == "went on"  # what is known may be read
        stream.add(5)
        stream.leave()


def test_a_copied_stream_is_refused(tmp_path):
    """A copy of the folder, or what is restored from one, would answer the same step with other noise."""
    plan = ln.matrix_plan(ln.running_totals(8), SMALL)
    with ln.mechanisms.Stream(plan, folder=tmp_path / "one") as stream:
        stream.add(3)
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    with pytest.raises(LeastnoiseError, match="is a copy of a stream"):
        ln.mechanisms.Stream.load(tmp_path / "two")
    (tmp_path / "one").rename(tmp_path / "elsewhere")
    with ln.mechanisms.Stream.load(tmp_path / "elsewhere") as stream:
        stream.add(4)
    with ln.mechanisms.Stream.load(tmp_path / "two", moved=True) as stream:
        assert len(stream) == 1
