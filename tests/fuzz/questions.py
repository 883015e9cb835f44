"""Questions and SQL: valid ones with words, signs and letters changed, put together at random; asked of a release."""

from __future__ import annotations

from functools import cache
from random import Random

import numpy as np

import leastnoise as ln
from leastnoise.errors import LeastnoiseError
from leastnoise.noise import SeededRandomSource
from leastnoise.workload.publication import Publication
from tests.fuzz import mutate
from tests.fuzz.law import Kind, Trial

QUESTIONS = (
    "age < 2 and sex = 'F'", "mean(age) where sex = 'F' - mean(age) where sex = 'M'", "percent(age >= 1)", "count(*)",
    "ratio(sex = 'F', sex = 'M')", "top(2, place.region, sex)", "quantile(pay, 0.25) where place = 'north'",
    "difference(mean(pay), mean(age))", "sum(pay) where not (age in (1, 2) or place in ('a'))", "median(age)",
    "(age = 1) - (sex = 'M' where age between 0 and 2)", "share(pay < 10)",
    "regression(wage, hours) where sex = 'F'", "variance(wage) - variance(hours)", "sum(wage * hours) - sum(wage)",
    "correlation(wage, hours)", "covariance(wage, hours) where age < 2", "mean(wage)",
)  # fmt: skip
SQL = (
    "select sex, sum(count) as n from release where age < 2 group by sex order by n desc limit 1",
    "select place.region, 100 * sum(count) filter (where sex = 'F') / sum(count) as p from release group by 1",
    "select sum(case when sex = 'F' then age * count else 0 end) from release having sum(count) > 0",
    "with t as (select age, max(count) as m from release group by age) select * from t where m > 0",
    "select count from release where sex in ('F') and pay between 0 and 10 union all select 1",
    "select sex, 2 * sum(wage) as w, sum(case when age < 2 then hours else 0 end) from release group by sex",
)
WORDS = (
    *"select from where group by count sum mean top and or not in between ( ) , . - + * / ' \" = <> < >= 0".split(),
    *"1e999 -1 age sex place pay place.region 'F' 'north' release ; -- /* */ null".split(),
    *"wage hours wage_squared variance( covariance( correlation( regression( sum(wage)".split(),
    *"true read_csv('/etc/passwd') \x00 年".split(),
)  # fmt: skip
BY = ((), (), ("sex",), ("place.region",), ("age", "sex"), ("place.x",), ("nobody",), ("sex", "sex"))


@cache
def release() -> ln.Release:
    """Something small with every kind of attribute."""
    domain = ln.Domain.of(
        age=range(3),
        sex=["F", "M"],
        place=ln.hierarchy({"north": ["a", "b"], "south": ["c"]}, levels=["region", "town"]),
        pay=ln.bins(0, 30, width=10),
        wage=ln.amount(0, 30, squares=True),
        hours=ln.amount(0, 40, squares=True),
    )
    most = [attribute.values.largest + 1 for attribute in domain]
    rows = np.random.default_rng(1).integers(most, size=(400, len(domain)))
    work = ln.Workload(domain).marginals(ways=2).moments("wage", "hours", by="sex")
    plan = ln.plan(work, ln.Budget(mu=1))
    return plan.run(rows, random_source=SeededRandomSource(1))


def attempt(trial: Trial) -> None:
    """Ask, or select; a question that cannot be read has its error in its place, in one line."""
    rng = trial.rng
    if rng.random() < 0.15:
        text = changed(rng, rng.choice(SQL))
        trial.note(text)
        release().sql(text)
        return
    text, by = changed(rng, rng.choice(QUESTIONS)), rng.choice(BY)
    trial.note((text, by))
    if rng.random() < 0.2:
        words = Publication.of(
            {"questions": [rng.choice([text, {"ask": text, "by": list(by)}, {"ask": text, "by": 5}])]}
        )
        answers = release().published(words).published_answers() if words else None
    else:
        answers = release().ask_all([text, rng.choice(QUESTIONS)], by, simultaneous=rng.random() < 0.3)
    for item in answers or ():
        if item.error:
            raise LeastnoiseError(item.error)  # which is under the same law as any other
    str(answers)


def changed(rng: Random, text: str) -> str:
    """A text with some words changed, or made of words alone."""
    action = rng.randrange(5)
    if action == 0:
        return mutate.in_text(rng, text)
    if action == 1:
        return " ".join(rng.choices(WORDS, k=rng.randrange(1, 12)))
    if action == 2:
        return rng.choice(["(", "not ", "- ", "mean("]) * rng.choice([2, 50, 3000]) + text
    words = text.split()
    for _ in range(rng.randrange(2)):
        words[rng.randrange(len(words))] = rng.choice(WORDS)
    return " ".join(words)


KIND = Kind("questions", attempt, release)
