"""Questions of a spec: answered with the release, for nothing, and refused before anything is spent."""

import json

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.cli import main
from leastnoise.mechanisms.from_spec import plan_spec
from leastnoise.noise import SeededRandomSource
from leastnoise.privacy.ledger import Ledger
from leastnoise.sources import Table
from leastnoise.workload.publication import Publication, QuestionPart
from leastnoise.workload.spec import parse_spec
from tests.report.samples import EVIL
from tests.report.test_page import Reader, page_of
from tests.specs import message, spec

ASKED = ["mean(age)", {"ask": "percent(age < 5)", "by": ["sex"]}, "top(1, sex)", "sex = 'F'"]


def asking(*questions):
    return spec(more=f"questions: {json.dumps(list(questions))}\n")


def made(text=None, **options):
    mechanism = plan_spec(parse_spec(text or asking(*ASKED)))
    counts = Table(mechanism.domain, np.full(mechanism.domain.shape, 50))
    source = SeededRandomSource(1)
    words = parse_spec(text or asking(*ASKED)).publication
    return mechanism.run(counts, random_source=source, publication=words, **options)


def test_published_answers_are_those_of_ask_all(tmp_path):
    made(out=tmp_path / "out")
    release = ln.load(tmp_path / "out")
    answers = release.published_answers(0.9)
    assert [item.question for item in answers] == ["mean(age)", "percent(age < 5) by sex", "top(1, sex)", "sex = 'F'"]
    for item, (text, by) in zip(answers, release.publication.asked, strict=True):
        (same,) = release.ask_all(text, by, confidence=0.9)
        assert item.rows == same.rows
    assert len(release.published(Publication()).published_answers()) == 0


def test_questions_do_not_change_the_plan():
    plain, asked = (plan_spec(parse_spec(text)) for text in (spec(), asking(*ASKED)))
    assert plain.fingerprint == asked.fingerprint
    assert plain.cost == asked.cost


REFUSED = [
    ("mean(agee)", "the question 'mean(agee)': position 6: no attribute 'agee' in this domain (age, sex); did you"),
    ("age <", "the question 'age <': position 6: expected a value, found the end"),
    ({"ask": "mean(age)", "by": "town"}, "the question 'mean(age)': no attribute 'town' in this domain"),
]


@pytest.mark.parametrize(("question", "text"), REFUSED)
def test_questions_are_refused_before_any_spending(question, text, tmp_path, capsys):
    (tmp_path / "s.yaml").write_text(asking("mean(age)", question))
    (tmp_path / "d.csv").write_text("age,sex\n1,F\n")
    book = Ledger.create(tmp_path / "book.json", dataset="d", total=ln.Budget(mu=1))
    before = book.path.read_bytes()
    for words in (
        ["plan", "s.yaml"],
        ["check", "s.yaml", "--data", "d.csv"],
        ["release", "s.yaml", "--data", "d.csv", "--out", "out", "--ledger", "book.json"],
    ):
        with pytest.raises(SystemExit) as stopped:
            main([str(tmp_path / word) if "." in word or word == "out" else word for word in words])
        assert stopped.value.code == 2
        assert text in capsys.readouterr().err
    assert not book.entries()
    assert book.path.read_bytes() == before
    with pytest.raises(ln.LeastnoiseError, match="the question"):
        plan_spec(parse_spec(spec())).run({"age": [1], "sex": ["F"]}, publication={"questions": [question]})


def test_questions_out_of_reach_are_refused_when_planning():
    one_way = "workload: [{queries: marginal, ways: 1}]\n"
    text = spec(workload=one_way, more="questions: [mean(age), \"age < 3 and sex = 'F'\"]\n")
    with pytest.raises(ln.LeastnoiseError) as caught:
        plan_spec(parse_spec(text))
    assert str(caught.value).startswith("the question \"age < 3 and sex = 'F'\": this needs age x sex, which was not")
    assert str(caught.value).endswith("; add that table to the workload, or leave the question out")
    plan_spec(parse_spec(spec(workload=one_way, more="questions: [{ask: count(), by: sex}]\n")))
    with pytest.raises(ln.LeastnoiseError, match="needs age x sex"):
        plan_spec(parse_spec(spec(workload=one_way, more="questions: [{ask: mean(age), by: sex}]\n")))


def test_adaptive_questions_are_only_read():
    text = spec(more="method: adaptive\nquestions: [{ask: mean(age), by: sex}]\n")
    plan_spec(parse_spec(text))
    with pytest.raises(ln.LeastnoiseError, match="no attribute 'size'"):
        plan_spec(parse_spec(text.replace("mean(age)", "mean(size)")))


def test_names_of_matrices_and_nodes_may_be_asked_for():
    rows = "workload: [{queries: {matrix: [[1, 1], [1, 0]], names: [all, women]}, on: sex}]\n"
    one = spec("attributes: {sex: {values: [F, M]}}\n", rows, more="method: matrix\nquestions: [all - women]\n")
    assert made(one).published_answers().errors == 0
    with pytest.raises(ln.LeastnoiseError, match="the question 'men'"):
        plan_spec(parse_spec(one.replace("all - women", "men")))


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ("questions: []\n", "s.yaml line 7: questions is empty; write for example questions: [mean(age), {ask: mean"),
        ("questions: [[a]]\n", "s.yaml line 7: questions is a list; write some text, or leave it out"),
        ("questions: [{by: sex}]\n", f"questions needs 'ask'; write for example {QuestionPart.example}"),
        ("questions: [{ask: a, by: b, on: c}]\n", "s.yaml line 7: unknown key 'on' in a question; use ask or by"),
        (
            "publication: {questions: [mean(age)]}\nquestions: [mean(age)]\n",
            "s.yaml line 8: questions are in 'publication', too; leave them out there",
        ),
    ],
)
def test_mistakes_name_their_line(more, text):
    assert text in message(spec(more=more))


def test_commands_print_the_answers(tmp_path, capsys):
    (tmp_path / "s.yaml").write_text(asking(*ASKED))
    (tmp_path / "d.csv").write_text("age,sex\n" + "1,F\n7,M\n" * 100)
    for words in (["release", "s.yaml", "--data", "d.csv", "--out", "out"], ["show", "out"]):
        given = [str(tmp_path / word) if word in ("s.yaml", "d.csv", "out") else word for word in words]
        with pytest.raises(SystemExit):
            main(given)
        text = capsys.readouterr().out
        assert "mean(age): " in text
        assert "percent(age < 5) by sex\nsex" in text
    with pytest.raises(SystemExit):
        main(["show", str(tmp_path / "out"), "--json"])
    answers = json.loads(capsys.readouterr().out)["answers"]
    assert [len(answer.get("rows", "x")) for answer in answers] == [1, 2, 1, 1]


def test_the_page_has_the_answers():
    release = made()
    read = Reader(page_of(release))
    assert not read.open
    (mean,) = release.ask_all("mean(age)")
    assert "Questions and answers" in read.words
    assert "percent(age < 5) by sex" in read.words
    assert f"{mean.rows[0].answer.value:.4g}" in read.words
    odd = page_of(release.published(Publication.of({"questions": [EVIL]})))
    assert "No answer: " in odd
    assert Reader(odd).tags.count("script") == 3
    assert "Questions and answers" not in page_of(release.published(Publication()))
