"""The pictures of docs/report.md, taken of pages of synthetic people: python -m tools.screenshots."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from playwright.sync_api import Page, sync_playwright

import leastnoise as ln
from leastnoise.report import write
from leastnoise.sources import Table
from tests.engines.chromium import CHROMIUM, QUIET

DOCS = Path(__file__).parents[1] / "docs"
TOWNS = {
    "North": {"Norland": ["Aby", "Bybo", "Carn"], "Isles": ["Dray", "Egg"]},
    "South": {"Sudland": ["Fels", "Gau", "Horn"], "Marsh": ["Ilm", "Jade"]},
}
OPTIONS: dict[str, Any] = {"viewport": {"width": 1280, "height": 1180}, "color_scheme": "light"}
WORDS = {
    "title": "Income and households, 2026",
    "publisher": "Statistics Office",
    "contact": "info@example.org",
    "licence": "CC BY 4.0",
    "citation": "Statistics Office (2026). Income and households, differentially private tables.",
    "introduction": "A survey of 60,000 people of working age, asked once a year where they live and what they earn.",
    "counted": "people",
}


def survey() -> ln.Release:
    """People who do not exist, in places, with incomes that rise with age."""
    domain = ln.Domain.of(
        place=ln.hierarchy(TOWNS, levels=["region", "county", "town"]),
        sex=["female", "male"],
        age=["16 to 24", "25 to 44", "45 to 64"],
        income=ln.bins(0, 60_000, width=10_000),
    )
    rng = np.random.default_rng(1)
    age = np.array([0.2, 0.45, 0.35])
    income = np.exp(-(((np.arange(6) - np.array([[1.0], [2.2], [2.6]])) / 1.3) ** 2))
    mean = np.einsum("p,s,a,ai->psai", rng.dirichlet(np.full(10, 6.0)), [0.51, 0.49], age, income)
    counts = rng.poisson(60_000 * mean / mean.sum())
    workload = ln.Workload(domain).marginals(ways=[1, 2]).marginals("place", "sex", "age").prefix("income")
    plan = ln.plan(workload, ln.Budget(epsilon=1, delta=1e-9))
    return plan.run(Table(domain, counts, "households"), publication=WORDS)


def take(page: Page, address: str, folder: Path = DOCS) -> None:
    """The page from above, and a table with levels and errors."""
    page.goto(f"{address}#table/2-age_income")
    page.evaluate("document.activeElement.blur(); window.scrollTo(0, 0)")
    page.screenshot(path=folder / "report.png")
    page.goto(f"{address}#table/3-place_sex_age")
    page.get_by_role("button", name="North", exact=True).click()
    page.get_by_role("button", name="Isles", exact=True).click()
    page.get_by_label("Show ± (95%)").check()
    page.evaluate("document.activeElement.blur()")
    page.locator(".sheet").screenshot(path=folder / "report_table.png")


def main() -> None:
    """Write the pictures."""
    with TemporaryDirectory() as folder, sync_playwright() as tools:
        file = Path(folder) / "report.html"
        write(survey(), file)
        browser = tools.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        take(browser.new_page(**OPTIONS), file.as_uri())
        browser.close()


if __name__ == "__main__":
    main()
