"""Files as offices have them, made up: each function writes one into a folder."""

import csv
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path

import numpy as np

FIRST_DAY = date(2019, 1, 1)


def _write(path: Path, head: Sequence[str], rows: Iterable[Sequence[object]], **form: str) -> None:
    delimiter, encoding = form.get("delimiter", ","), form.get("encoding", "utf-8")
    with path.open("w", newline="", encoding=encoding) as file:
        writer = csv.writer(file, delimiter=delimiter, lineterminator=form.get("end", "\n"))
        writer.writerow(head)
        writer.writerows(rows)


def semicolons(folder: Path, rows: int = 4_000) -> None:
    """An export of a German spreadsheet: semicolons, Windows-1252, decimal commas, umlauts in names and values."""
    rng = np.random.default_rng(1)
    towns = np.array(["München", "Köln", "Düsseldorf", "Görlitz", "Fürth"])[rng.integers(0, 5, rows)]
    sizes = np.array(["groß", "mittel", "klein"])[rng.integers(0, 3, rows)]
    wages = [f"{wage:.2f}".replace(".", ",") for wage in rng.gamma(4, 700, rows)]
    ages = rng.integers(18, 67, rows)
    columns = zip(towns, sizes, wages, ages, strict=True)
    _write(
        folder / "löhne.csv", ["Ort", "Größe", "Lohn", "Alter"], columns, delimiter=";", encoding="cp1252", end="\r\n"
    )


def dates(folder: Path, rows: int = 4_000) -> None:
    """Incidents with days and times, and gaps in both and in a number."""
    rng = np.random.default_rng(2)
    days = [FIRST_DAY + timedelta(days=int(k)) for k in rng.integers(0, 1_461, rows)]
    times = [datetime(day.year, day.month, day.day, int(h), int(m)) for day, h, m in
             zip(days, rng.integers(0, 24, rows), rng.integers(0, 60, rows), strict=True)]  # fmt: skip
    gaps = rng.random((3, rows)) < 0.07
    columns = zip(
        range(rows),
        ["" if gap else day.isoformat() for day, gap in zip(days, gaps[0], strict=True)],
        ["NULL" if gap else time.isoformat(sep=" ") for time, gap in zip(times, gaps[1], strict=True)],
        ["" if gap else int(age) for age, gap in zip(rng.integers(14, 91, rows), gaps[2], strict=True)],
        rng.choice(["shot", "tasered", "restrained"], rows, p=[0.2, 0.3, 0.5]),
        rng.choice(["True", "False"], rows),
        strict=True,
    )
    _write(folder / "incidents.csv", ["id", "day", "reported", "age", "force", "camera"], columns)


def padded(folder: Path, rows: int = 4_000) -> None:
    """Texts of fixed width from an old system, in upper and lower case, with tabs between columns."""
    rng = np.random.default_rng(3)
    jobs = np.array(["clerk", "Clerk", "CLERK ", "nurse  ", " nurse", "driver    "])[rng.integers(0, 6, rows)]
    status = np.array(["S         ", "M         ", "D         ", "W         "])[rng.integers(0, 4, rows)]
    columns = zip(jobs, status, rng.integers(0, 40, rows), strict=True)
    _write(folder / "staff.txt", ["job", "marital status", "years"], columns, delimiter="\t", end="\r\n")


def codes(folder: Path, rows: int = 4_000) -> None:
    """A sample of a census: numbers as codes, -9 for no answer, and a file with their labels."""
    rng = np.random.default_rng(4)
    columns = zip(
        rng.choice([f"E1200000{k}" for k in range(1, 10)] + ["W92000004"], rows),
        rng.choice([1, 2], rows),
        rng.choice([1, 2, 3, 4, 5, -9], rows, p=[0.3, 0.3, 0.2, 0.1, 0.05, 0.05]),
        rng.integers(1, 9, rows),
        strict=True,
    )
    _write(folder / "census.csv", ["Region", "Sex", "Health", "Age Group"], columns)
    names = "North East,North West,Yorkshire,East Midlands,West Midlands,East,London,South East,South West".split(",")
    regions = [(f"E1200000{k}", name) for k, name in enumerate(names, 1)] + [("W92000004", "Wales")]
    _write(folder / "regions.csv", ["code", "label"], regions)


def people(folder: Path, rows: int = 6_000) -> None:
    """Purchases: several for most customers, days as whole numbers."""
    rng = np.random.default_rng(5)
    customers = np.minimum(rng.geometric(0.002, rows), 2_000)
    days = [FIRST_DAY + timedelta(days=int(k)) for k in rng.integers(0, 365, rows)]
    columns = zip(
        [f"c{customer:05}" for customer in customers],
        [day.strftime("%Y%m%d") for day in days],
        np.minimum(rng.geometric(0.5, rows), 12),
        [f"{amount:.2f}" for amount in rng.gamma(2, 20, rows) * (rng.random(rows) > 0.02)],
        rng.choice(["shop", "web", "phone"], rows),
        strict=True,
    )
    _write(folder / "purchases.csv", ["customer", "day", "items", "amount", "channel"], columns)


def wide(folder: Path, rows: int = 2_000, columns: int = 200) -> None:
    """A questionnaire with 200 questions, most of them with few answers and some gaps."""
    rng = np.random.default_rng(6)
    table = rng.integers(1, 6, (rows, columns)).astype(object)
    table[rng.random((rows, columns)) < 0.03] = ""
    _write(folder / "answers.csv", [f"q{k:03}" for k in range(1, columns + 1)], table.tolist())


def postcodes(folder: Path, rows: int = 20_000, codes: int = 100_000) -> None:
    """Addresses: 100,000 postcodes within districts, in a list that everybody knows."""
    rng = np.random.default_rng(7)
    listed = [(f"D{code // 1_000:03}", f"{code:06}") for code in range(codes)]
    _write(folder / "places.csv", ["district", "postcode"], listed)
    places = rng.integers(0, codes, rows)
    columns = zip([listed[k][1] for k in places], rng.choice(["rent", "own"], rows), strict=True)
    _write(folder / "homes.csv", ["postcode", "tenure"], columns)
