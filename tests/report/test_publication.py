"""What an office says of its publication: from the spec to the page, and never into what is measured."""

import json

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.cli import main
from leastnoise.mechanisms.from_spec import plan_spec
from leastnoise.report import write
from leastnoise.report.words import linked, reading
from leastnoise.sources import Table
from leastnoise.workload.publication import Publication
from leastnoise.workload.spec import parse_spec
from tests.contract.kinds import KINDS, released
from tests.report.samples import EVIL, seeded, survey, worst
from tests.report.test_page import Reader, page_of
from tests.specs import spec

WORDS = {
    "title": "Labour survey 2026",
    "publisher": "Statistics Office",
    "contact": "info@example.org",
    "licence": "CC BY 4.0, https://creativecommons.org/licenses/by/4.0/",
    "citation": "Statistics Office (2026). Labour survey.",
    "introduction": "First paragraph.\n\nSecond paragraph.",
    "counted": "people",
}


def stated(words=WORDS):
    return f"{spec()}publication: {json.dumps(words)}\n"


def test_words_do_not_change_the_plan():
    plain, worded = (plan_spec(parse_spec(text)) for text in (spec(), stated()))
    assert plain.fingerprint == worded.fingerprint
    assert plain.cost == worded.cost
    assert parse_spec(stated()).publication == Publication.of(WORDS)
    assert parse_spec(spec()).publication is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"titel": "x"}, "unknown key 'titel' in publication; did you mean 'title'?"),
        ({"title": ""}, "title is ''; write some text, or leave it out"),
        ({"title": "x" * 301}, "title has 301 characters; use at most 300"),
        ({"contact": ["a", "b"]}, "contact is a list; write some text, or leave it out"),
        ("words", f"publication is 'words'; write for example {Publication.example}"),
    ],
)
def test_mistakes_name_their_line(words, message):
    lines = spec().count("\n") + 1
    with pytest.raises(ln.LeastnoiseError) as caught:
        parse_spec(stated(words))
    assert str(caught.value) == f"spec line {lines}: {message}"
    with pytest.raises(ln.LeastnoiseError) as caught:
        Publication.of(words)
    assert str(caught.value) == message


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_keeps_its_words(kind, tmp_path):
    released(kind).published(Publication.of(WORDS)).save(tmp_path / "out")
    loaded = ln.load(tmp_path / "out")
    assert loaded.publication == Publication.of(WORDS)
    write(loaded, tmp_path / "page.html")
    text = " ".join(Reader((tmp_path / "page.html").read_text()).words)
    for key in ("title", "publisher", "contact", "citation"):
        assert WORDS[key] in text
    assert "First paragraph." in text
    assert "± " in text


def test_a_run_keeps_the_words(tmp_path):
    mechanism = plan_spec(parse_spec(spec()))
    release = mechanism.run(survey_counts(mechanism), publication={"title": "Other"}, out=tmp_path / "out")
    assert release.publication.title == ln.load(tmp_path / "out").publication.title == "Other"
    with pytest.raises(ln.LeastnoiseError, match="unknown key 'name' in publication"):
        mechanism.run(survey_counts(mechanism), publication={"name": "Other"})


def survey_counts(mechanism):
    return Table(mechanism.domain, np.ones(mechanism.domain.shape, dtype=int))


def run(*words, code=0):
    with pytest.raises(SystemExit) as stopped:
        main([str(w) for w in words])
    assert (stopped.value.code or 0) == code


def test_command_takes_other_words(tmp_path, capsys):
    survey().save(tmp_path / "out")
    (tmp_path / "a.yaml").write_text(stated())
    run("report", tmp_path / "out", "--out", tmp_path / "page.html", "--spec", tmp_path / "a.yaml")
    assert "<h1>Labour survey 2026</h1>" in (tmp_path / "page.html").read_text()
    (tmp_path / "b.yaml").write_text(spec())
    run("report", tmp_path / "out", "--spec", tmp_path / "b.yaml", code=2)
    assert "b.yaml has no 'publication'; add for example publication: {title: " in capsys.readouterr().err


def test_words_are_escaped():
    page = page_of(survey().published(Publication.of(dict.fromkeys(WORDS, f"{EVIL} & {{{{script}}}}"))))
    read = Reader(page)
    assert read.tags.count("script") == 3
    assert not read.open
    assert sum(EVIL in words for words in read.words) >= 6


def test_links_lead_to_addresses_only():
    assert linked("javascript:alert(1)") == "javascript:alert(1)"
    assert linked("see https://a.b/c?d=<e>.") == 'see <a href="https://a.b/c?d=">https://a.b/c?d=</a>&lt;e&gt;.'
    assert linked('"https://a.b/"') == '&quot;<a href="https://a.b/">https://a.b/</a>&quot;'


def test_plain_words_come_before_greek_ones():
    text = page_of(survey())
    assert text.index("random noise") < text.index("μ")
    assert "two datasets that differ by adding or removing one row give almost the same numbers" in text
    assert "give almost the same numbers" not in page_of(seeded())
    weak = {**ln.report.document(survey())}
    weak["privacy"] = weak["privacy"] | {"caught": 0.9}
    assert "protects privacy only weakly" in ln.report.render(weak)
    assert page_of(worst()).count("<h1>") == 1


def test_plus_minus_is_explained_by_an_example():
    assert reading(0.95, (1000.4, 49.6)).startswith(
        "“1,000 ± 50” means: the true number is most likely between 951 and"
    )
    assert "90 of 100 cases" in reading(0.9)
    assert "“1,240 ± 80”" in reading(0.9, (7.0, 0.0))
