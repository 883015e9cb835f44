"""Seven journeys: what is typed and what is edited for files as offices have them."""

import csv
from collections.abc import Callable
from pathlib import Path

from tests.journeys import shapes
from tests.journeys.journey import Edit, Journey

MARK = "  # from the data: keep only if public"
PAIRS = "- {queries: hybrid, ways: [1, 2]}"
REGIONS = ", ".join([f"E1200000{k}" for k in range(1, 10)] + ["W92000004"])
POSTCODE = "# postcode: left out, nearly every row has another value; is it a name or an id?"

Row = dict[str, str]


def _count(
    name: str, wanted: Callable[[Row], bool], delimiter: str = ",", encoding: str = "utf-8"
) -> Callable[[Path], int]:
    """How many rows of a file are wanted, read by Python's own reader."""

    def counted(folder: Path) -> int:
        with (folder / name).open(newline="", encoding=encoding) as file:
            return sum(wanted(row) for row in csv.DictReader(file, delimiter=delimiter))

    return counted


JOURNEYS = (
    Journey(
        "semicolons",
        shapes.semicolons,
        "löhne.csv",
        edits=(),
        questions=("Ort = 'München' and Alter < 30", "mean(Alter) where Größe = 'klein'", "share(Ort = 'Köln')"),
        truth=_count("löhne.csv", lambda r: r["Ort"] == "München" and int(r["Alter"]) < 30, ";", "cp1252"),
    ),
    Journey(
        "dates",
        shapes.dates,
        "incidents.csv",
        edits=(),
        questions=(
            "day = '2020-03'",
            "median(age) where force = 'shot'",
            "count(day.year = 2021) - count(day.year = 2020)",
        ),
        truth=_count("incidents.csv", lambda r: r["day"].startswith("2020-03")),
    ),
    Journey(
        "padded",
        shapes.padded,
        "staff.txt",
        edits=(),
        questions=("job = 'nurse'", "mean(years) where job = 'clerk'", "top(1, job)"),
        truth=_count("staff.txt", lambda r: r["job"].strip().lower() == "nurse", "\t"),
    ),
    Journey(
        "codes",
        shapes.codes,
        "census.csv",
        edits=(
            Edit(f"values: [{REGIONS}]", "labels: regions.csv"),
            Edit("values: [1, 2]}", "values: {1: Male, 2: Female}}"),
        ),
        questions=(
            "Region = 'London' and Sex = 'Female'",
            "Health = 'unknown'",
            "percent(Health <= 2) where Sex = 'Male'",
        ),
        truth=_count("census.csv", lambda r: r["Region"] == "E12000007" and r["Sex"] == "2"),
    ),
    Journey(
        "people",
        shapes.people,
        "purchases.csv",
        edits=(Edit("privacy:", "unit: {id: customer, max_rows: 5}\nprivacy:"),),
        questions=("channel = 'web'", "mean(amount) where channel = 'shop'", "day.quarter = '2019-Q4'"),
        truth=None,
        ledger="--protects people",
    ),
    Journey(
        "wide",
        shapes.wide,
        "answers.csv",
        edits=(Edit(PAIRS, "- {queries: marginal, ways: 1}"),),
        questions=("q001 = 3", "q200 = 'unknown'", "top(2, q100)"),
        truth=_count("answers.csv", lambda r: r["q001"] == "3"),
    ),
    Journey(
        "postcodes",
        shapes.postcodes,
        "homes.csv",
        edits=(
            Edit(POSTCODE, "postcode: {hierarchy: places.csv}"),
            Edit(
                "- {queries: hybrid, ways: 1}", "- {queries: nodes, on: postcode}\n  - {queries: marginal, on: tenure}"
            ),
        ),
        questions=("postcode.district = 'D007'", "postcode = '007123'", "share(tenure = 'rent')"),
        truth=_count("homes.csv", lambda r: r["postcode"].startswith("007")),
    ),
)
