"""A made-up labour survey for the demo: nobody in it exists."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from leastnoise._types import Array, IntArray

PEOPLE, SEED = 50_000, 2024
REGIONS = "north south east west centre coast lakes hills plains islands capital abroad".split()
EDUCATION = "none primary lower upper college bachelor master".split()
AGE_OF_EDUCATION = [0, 11, 15, 18, 20, 22, 24]  # below which nobody has it
OCCUPATIONS = 15  # groups; 0 is no occupation
RETIRED = 66
SPEC = """\
# A labour survey: which tables matter, and how much privacy they may spend.
# Plan it with:  leastnoise plan examples/survey.yaml
attributes:
  age:        {range: [0, 99]}
  sex:        {values: [F, M]}
  region:     {values: [north, south, east, west, centre, coast, lakes, hills, plains, islands, capital, abroad]}
  education:  {values: [none, primary, lower, upper, college, bachelor, master], ordered: true}
  occupation: {size: 15}
  income:     {bins: {low: 0, high: 200000, width: 5000}}
  hours:      {bins: {low: 0, high: 80, width: 5}}

workload:
  # every table of one to three attributes; cumulative counts along those with an order
  - {queries: hybrid, ways: [1, 2, 3]}
  # plain counts for every pair of the attributes with few values
  - {queries: marginal, on: [sex, region, education, occupation], ways: 2}
  # the income distribution of each sex, which matters most
  - {queries: {income: prefix, sex: marginal}, weight: 4}
  # education level plus hours group at most c, for every c
  - {queries: affine, on: [education, hours]}

privacy: {epsilon: 1, delta: 1.0e-9}
objective: sum
baseline: search
"""


def survey(people: int = PEOPLE, seed: int = SEED) -> pa.Table:
    """The answers of people who do not exist: the same for the same seed.

    >>> survey(3).schema.names
    ['age', 'sex', 'region', 'education', 'occupation', 'income', 'hours']
    """
    rng = np.random.default_rng(seed)
    age = _ages(rng, people)
    woman = rng.random(people) < 0.485 + 0.0025 * np.maximum(age - 50, 0)
    region = _regions(rng, age)
    education = _education(rng, age, region)
    works = rng.random(people) < np.where(age < RETIRED, 0.62 + 0.04 * education - 0.05 * woman, 0.06) * (age >= 16)
    occupation = np.where(works, _occupations(rng, education, woman), 0)
    hours = np.where(works, np.clip(rng.normal(40 - 6 * woman, 8), 1, 79.5), 0).round(1)
    columns = {
        "age": pa.array(age, pa.int16()),
        "sex": pa.array(np.where(woman, "F", "M")),
        "region": pa.array(np.array(REGIONS)[region]),
        "education": pa.array(np.array(EDUCATION)[education]),
        "occupation": pa.array(occupation, pa.int16()),
        "income": pa.array(_incomes(rng, age, woman, region, education, occupation, hours), pa.int32()),
        "hours": pa.array(hours),
    }
    return pa.table(columns).replace_schema_metadata({"synthetic": "made up by leastnoise demo; nobody in it exists"})


def _ages(rng: np.random.Generator, people: int) -> IntArray:
    ages = np.arange(100)
    weights = np.exp(-((np.maximum(ages - 55, 0) / 19) ** 2)) * (1 + 0.25 * np.exp(-(((ages - 47) / 9) ** 2)))
    return rng.choice(ages, people, p=weights / weights.sum())


def _regions(rng: np.random.Generator, age: IntArray) -> IntArray:
    weights = np.tile([9.0, 8, 8, 7, 10, 6, 4, 4, 6, 2, 14, 1], (len(age), 1))
    weights[:, -2] *= 1 + 0.6 * ((age >= 19) & (age <= 35))  # the young move to the capital
    return _drawn(rng, weights)


def _education(rng: np.random.Generator, age: IntArray, region: IntArray) -> IntArray:
    """A level that later generations and the capital have more of, as far as the age allows."""
    expected = 3.2 - 0.025 * np.maximum(age - 35, 0) + 0.7 * (region == REGIONS.index("capital"))
    level = np.clip(np.round(expected + rng.normal(0, 1.4, len(age))), 1, 6).astype(np.int64)
    most = np.searchsorted(AGE_OF_EDUCATION, age, side="right") - 1
    return np.minimum(level, most)


def _occupations(rng: np.random.Generator, education: IntArray, woman: npt.NDArray[np.bool_]) -> IntArray:
    """Groups 1 to 14: higher ones ask for more education, even ones have more women."""
    groups = np.arange(1, OCCUPATIONS)
    fit = -(((groups - 1) / 2.2 - education[:, None]) ** 2) / 4
    return 1 + _drawn(rng, np.exp(fit) * (1 + 0.8 * ((groups % 2 == 0) == woman[:, None])))


def _incomes(
    rng: np.random.Generator,
    age: IntArray,
    woman: npt.NDArray[np.bool_],
    region: IntArray,
    education: IntArray,
    occupation: IntArray,
    hours: Array,
) -> IntArray:
    """Wages grow with education and years of work; others live on pensions, or on little."""
    years = np.clip(age - 18, 0, 40)
    wage = 9.7 + 0.11 * education + 0.025 * years - 0.0004 * years**2 + 0.02 * occupation - 0.1 * woman
    wage += 0.12 * (region == REGIONS.index("capital")) + 0.6 * np.log(np.maximum(hours, 1) / 40)
    other = np.where(age >= RETIRED, 9.6 + 0.07 * education, 8.6)
    logarithm = np.where(occupation > 0, wage, other) + rng.normal(0, 0.42, len(age))
    income = np.where(age < 16, 0, np.exp(logarithm))
    return np.clip(income, 0, 200_000).round(-1).astype(np.int64)


def _drawn(rng: np.random.Generator, weights: Array) -> IntArray:
    """One position per row, with the weights of that row."""
    ends = np.cumsum(weights, axis=1)
    return (rng.random(len(weights))[:, None] * ends[:, -1:] >= ends).sum(axis=1)
