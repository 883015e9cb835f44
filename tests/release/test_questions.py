"""Questions about statistics: against the functions of Python, by groups, between releases, and their messages."""

import json
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import leastnoise as ln
from leastnoise.domain.attributes import Values
from leastnoise.errors import LeastnoiseError
from leastnoise.noise import SeededRandomSource
from leastnoise.release import Release, merge
from leastnoise.release.answers import quantile
from leastnoise.release.queries.questions import is_plain, read_question
from tests.covering import examples

DOMAIN = ln.Domain.of(
    age=range(10, 18),
    sex=["F", "M"],
    income=ln.bins(0, 500, width=100),
    grade=Values(("low", "mid", "high"), ordered=True),
    geo=ln.hierarchy({"north": ["a", "b"], "south": ["c", "d", "e"]}, levels=["region", "place"]),
)
PEOPLE = np.random.default_rng(3).poisson(6.0, DOMAIN.shape)


@cache
def released(seed: int = 1) -> Release:
    plan = ln.plan(ln.Workload(DOMAIN).marginals(ways=2), ln.Budget(epsilon=2, delta=1e-9), baseline="uniform")
    return plan.run(PEOPLE, random_source=SeededRandomSource(seed))


def one(question: str, **options):
    answers = released().ask_all(question, **options)
    assert not answers.errors, answers
    return answers.items[0].rows[0].answer


def same(answer, expected):
    for name in ("value", "low", "high", "std_error"):
        assert getattr(answer, name) == pytest.approx(getattr(expected, name), rel=1e-9, abs=1e-9), name


def test_questions_are_those_of_python():
    release = released()
    same(one("mean(age) where sex = 'F'"), release.mean("age", "sex = 'F'"))
    same(one("avg(income)"), release.mean("income"))
    same(one("MEDIAN(age) WHERE sex = 'F'"), release.quantile("age", 0.5, "sex = 'F'"))
    same(one("quantile(income, 0.9)"), release.quantile("income", 0.9))
    same(one("share(sex = 'F') where age > 12"), release.share("sex = 'F' and age > 12", "age > 12"))
    same(one("ratio(sex = 'F', sex = 'M')"), release.share("sex = 'F'", "sex = 'M'"))
    same(one("count()"), release.total())
    same(one("count(*)"), release.total())
    same(one("count(age < 12) - count(sex = 'F')"), release.ask("(age < 12) - (sex = 'F')"))
    same(one("difference(count(age < 12), count(sex = 'F'))"), release.ask("(age < 12) - (sex = 'F')"))
    same(one("age < 12 where sex = 'F'"), release.ask("age < 12 and sex = 'F'"))
    same(one("count(age < 12) - (count() where sex = 'F')"), release.ask("(age < 12) - (sex = 'F')"))
    same(one("count(age < 12) - count(sex = 'F') + count()"), release.ask("(age < 12) - (sex = 'F') + true"))
    same(release.ask("2 * count(age < 12) + count(sex = 'F')"), release.ask("2 * (age < 12) + (sex = 'F')"))
    same(
        one("(count(age < 12) - count(age = 17)) where sex = 'F'"),
        release.ask("(age < 12 and sex = 'F') - (age = 17 and sex = 'F')"),
    )
    with pytest.raises(LeastnoiseError, match="no count or sum"):
        release.ask("mean(age)")


def test_each_part_of_a_difference_may_say_of_whom():
    ask = released().ask
    same(
        one("mean(age) where sex = 'F' - mean(age) where sex = 'M'"),
        one("difference(mean(age) where sex = 'F', mean(age) where sex = 'M')"),
    )
    same(one("mean(age) where sex = 'F' - mean(age)"), one("(mean(age) where sex = 'F') - mean(age)"))
    same(one("count() where sex = 'F' - count() - count()"), ask("(sex = 'F') - 2 * true"))
    same(one("count() where sex = 'F' - 2 * count() + count(age < 12)"), ask("(sex = 'F') - 2 * true + (age < 12)"))
    same(
        one("count(age < 12) where sex = 'F' + count() where grade = 'low'"),
        ask("(age < 12 and sex = 'F') + (grade = 'low')"),
    )


def test_percent_is_a_hundred_shares():
    percent, share = one("percent(sex = 'F')"), one("share(sex = 'F')")
    assert_allclose([percent.value, percent.low, percent.high], 100 * np.array([share.value, share.low, share.high]))
    assert percent.std_error == pytest.approx(100 * share.std_error)


def test_sums_are_weighted_counts():
    expected = ln.release.LinearQuery.product(DOMAIN, {"age": np.arange(10, 18), "sex": [1, 0]})
    same(one("sum(age) where sex = 'F'"), released().ask(expected))
    answers = released().ask_all(["sum(income)", "sum(age)"])
    assert "midpoints" in answers.items[0].plain(False)["note"]
    assert "midpoints" in str(answers.items[0])
    assert "note" not in answers.items[1].plain(False)
    assert one("sum(age) where sex = 'F'").value / one("count(sex = 'F')").value == pytest.approx(
        one("mean(age) where sex = 'F'").value
    )


@pytest.mark.parametrize(
    ("question", "name"),
    [("mean(age)", "sex"), ("percent(grade = 'low')", "sex"), ("age < 12", "sex"), ("median(age)", "sex")],
)
def test_groups_are_conditions(question, name):
    rows = released().ask_all(question, by=name).items[0].rows
    assert [row.labels for row in rows] == [{"sex": "F"}, {"sex": "M"}]
    for row in rows:
        same(row.answer, one(f"{question} where sex = '{row.labels['sex']}'"))


def test_groups_by_levels_and_several_attributes():
    rows = released().ask_all("count()", by="geo.region").items[0].rows
    assert [row.labels["geo.region"] for row in rows] == ["north", "south"]
    same(rows[0].answer, released().ask("geo under 'north'"))
    frame = released().table("geo", levels={"geo": "region"})
    assert_allclose([row.answer.value for row in rows], frame["count"])
    both = released().ask_all("count()", by=["sex, age"]).to_pandas()
    assert_allclose(both["value"], released().table("sex", "age")["count"])
    assert list(both.columns[:3]) == ["question", "sex", "age"]


def test_groups_that_nobody_can_be_in():
    answers = released().ask_all(
        ["mean(age) where sex = 'F'", "count() where sex = 'F'", "top(1, age) where sex = 'F'"], by="sex"
    )
    assert not answers.errors
    assert answers.items[0].rows[1].to_json() == {"sex": "M", "value": None, "note": "nobody can be in this group"}
    assert answers.items[1].rows[1].answer.value == 0
    assert answers.items[2].rows[-1].answer is None


def test_one_bad_question_leaves_the_others():
    answers = released().ask_all(
        ["mean(age)", "mean(agee)", "age <", "age < 12", "sum(age) where sex = 'F' and age in"]
    )
    assert [bool(item.error) for item in answers] == [False, True, True, False, True]
    plain = json.loads(json.dumps(answers.to_json()))["answers"]
    assert plain[1] == {"question": "mean(agee)", "error": answers.items[1].error}
    assert plain[0]["value"] == released().mean("age").value
    frame = answers.to_pandas()
    assert list(frame["error"].notna()) == [False, True, True, False, True]
    assert "did you mean 'age'" in str(answers)
    assert "did you mean &#x27;age&#x27;" in answers._repr_html_()


def test_top_of_a_table():
    answers = released().ask_all("top(2, geo)")
    counts = released().table("geo").sort_values("count", ascending=False)
    rows = answers.items[0].rows
    assert [row.labels for row in rows] == [{"rank": k + 1, "geo": g} for k, g in enumerate(counts["geo"][:2])]
    assert_allclose([row.answer.value for row in rows], counts["count"][:2])
    assert set(rows[0].more) == {"rank_low", "rank_high", "top_confidence"}
    assert released().ask_all("top(1, geo.region)").items[0].rows[0].labels["geo.region"] == "south"
    assert released().ask_all("top(99, sex)").items[0].rows[0].more["top_confidence"] == 1
    assert len(released().ask_all("top(3, sex, age)").items[0].rows) == 3


REFUSED = {
    "mean(sex)": "'sex' holds values that are no numbers",
    "mean(age": "expected ')'",
    "mean()": "expected the name of an attribute",
    "median(geo)": "has no order",
    "quantile(age, 2)": "between 0 and 1",
    "quantile(age)": "expected ','",
    "meen(age)": "there is no function 'meen'; the functions are count, sum, mean",
    "median age": "position 1: write median(...); functions have parentheses, as in mean(",
    "top 3 sex": "write top(...)",
    "percentage of sex = 'F'": "write percent(...)",
    "share where sex = 'F'": "write share(...)",
    "mean(age) + mean(age)": "only counts and sums are added",
    "mean(age) - mean(age) - mean(age)": "one difference at a time",
    "mean(age) - top(1, sex)": "no difference",
    "mean(age) - mean(age) where sex = 'F'": "write (a - b) where c",
    "count(age < 12) - count() where sex = 'F'": "write (a - b) where c",
    "count() where sex = 'F' - count() - count() where sex = 'M'": "write (a - b) where c",
    "mean(age) - count() - count()": "one difference at a time",
    "age < 12 and mean(age)": "stands alone",
    "top(0, sex)": "at least 1",
    "top(1.5, sex)": "whole number",
    "top(1)": "an attribute",
    "quantile(0.9, age)": "position 10: the attribute comes first, as in quantile(age, 0.9)",
    "top(1, geo.planet)": "no level 'planet'",
    "share(sex = 'F') where age > 20": "the denominator counts nobody",
    "mean(age) where age > 20": "nobody can satisfy",
    "median(grade) - median(grade)": "texts have no difference",
    "mean(age) where": "expected a condition",
    "ratio(age < 12, mean(age))": "stands alone",
    "count(age < 12) / count()": "'/' has no meaning here; write ratio(a, b)",
}


@pytest.mark.parametrize("question", REFUSED)
def test_refusals(question):
    (item,) = released().ask_all(question)
    assert REFUSED[question] in item.error
    assert "\n" not in item.error


def test_no_value_lies_outside_of_its_interval():
    """Also of groups without people, whose noisy size may be negative."""
    domain = ln.Domain.of(group=range(300), sex=["F", "M", "X"])
    plan = ln.plan(ln.Workload(domain).marginals(ways=2), ln.Budget(mu=1))
    empty = plan.run(np.zeros(domain.shape, dtype=int), random_source=SeededRandomSource(5))
    questions = ["percent(sex = 'F')", "percent(sex = 'F') - percent(sex = 'M')", "ratio(sex = 'F', sex = 'M')"]
    for item in empty.ask_all(questions, by="group"):
        answers = [row.answer for row in item.rows]
        assert all(answer.low <= answer.value <= answer.high for answer in answers)
    for row in empty.ask_all(questions[0], by="group").items[0].rows:
        answer = row.answer
        assert ("nothing in the range" in answer.note) <= (answer.high - answer.low == 100)
    steps = empty.cdf("group", where="sex = 'F'")
    assert ((steps.share_low <= steps.share) & (steps.share <= steps.share_high)).all()


def test_refusals_of_the_call():
    with pytest.raises(LeastnoiseError, match="no attribute 'sxe'"):
        released().ask_all("count()", by="sxe")
    with pytest.raises(LeastnoiseError, match="twice"):
        released().ask_all("count()", by=["geo", "geo.region"])
    with pytest.raises(LeastnoiseError, match="confidence"):
        released().ask_all("count()", confidence=2)
    with pytest.raises(LeastnoiseError, match="share measurements"):
        released().ask_all("count()", minus=released())
    merged = merge(released(1), released(2))
    for a, b in ((merged, released(2)), (released(1), merged)):
        with pytest.raises(LeastnoiseError, match="share measurements"):
            a.ask_all("count()", minus=b)
    item = released().ask_all("age < 12 and sex = 'F' and grade = 'low'", by="income").items[0]
    assert "was not measured" in item.error


def test_differences_between_releases():
    first, second = released(1), released(2)
    for question in ("age < 12", "mean(age)", "percent(sex = 'F')", "median(income)"):
        difference = first.ask_all(question, minus=second).items[0].rows[0].answer
        one, other = (r.ask_all(question).items[0].rows[0].answer for r in (first, second))
        assert difference.value == pytest.approx(one.value - other.value)
        assert difference.low <= 0 <= difference.high  # of the same people; the seeds are fixed
        if question != "median(income)":
            assert difference.std_error == pytest.approx(np.hypot(one.std_error, other.std_error), rel=1e-6)
    rows = first.ask_all("percent(sex = 'F')", by="grade", minus=second).items[0].rows
    assert [row.labels["grade"] for row in rows] == ["low", "mid", "high"]
    narrow = ln.Domain.of(sex=["F", "M"], age=range(10, 13))
    other = ln.plan(ln.Workload(narrow).marginals(ways=1), ln.Budget(mu=1)).run(
        np.ones(narrow.shape, dtype=int), random_source=SeededRandomSource(5)
    )
    assert not first.ask_all("count(sex = 'F')", minus=other).errors
    with pytest.raises(LeastnoiseError, match="different groups"):
        first.ask_all("count()", by="age", minus=other)


def test_intervals_that_hold_at_once():
    alone, both = one("mean(age)"), released().ask_all(["mean(age)", "sex = 'F'"], simultaneous=True)
    first, second = (item.rows[0].answer for item in both)
    same(first, released().mean("age", confidence=0.975))
    assert first.confidence == second.confidence == alone.confidence == 0.95
    assert second.high - second.value == pytest.approx(quantile(0.975) * second.std_error)
    counts = ["age < 12", "sex = 'F'"]
    joint = released().ask_many(counts, simultaneous=True)
    for item, expected in zip(released().ask_all(counts, simultaneous=True), joint, strict=True):
        same(item.rows[0].answer, expected)


PIECES = (
    "mean( median( quantile( share( percent( ratio( difference( top( count( sum( age sex income grade geo . region "
    "where and or not < = 'F' 12 0.5 2 , ( ) * + - between in under"
).split()


@settings(max_examples=examples(400))
@given(st.lists(st.sampled_from(PIECES), max_size=12).map(" ".join))
def test_fails_only_with_a_message_in_one_line(text):
    message = ""
    try:
        read_question(DOMAIN, text)
    except LeastnoiseError as error:
        message = str(error)
    assert "\n" not in message
    assert isinstance(is_plain(text), bool)


@pytest.mark.parametrize("opening", ["(", "mean(", "difference(", "percent("])
def test_statistics_inside_each_other_are_refused_in_one_line(opening):
    domain = ln.Domain.of(age=range(3))
    with pytest.raises(LeastnoiseError) as caught:
        read_question(domain, opening * 5_000 + "mean(age)")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("question", ["mean(age) by sex", "age < 12 group by sex", "share(age < 12) BY sex"])
def test_groups_in_a_question_are_told_the_option(question):
    (item,) = released().ask_all(question)
    assert "; for an answer for each value, write --by age beside the question (in Python: by=['age'])" in item.error
