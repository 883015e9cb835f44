"""The page for the public in a real browser: cross tables, levels, search, links, files, embedding, print, phones."""

import io
import zipfile

import pandas as pd
import pytest

from leastnoise.report import write
from leastnoise.report.documents import document
from leastnoise.workload.publication import Publication
from tests.engines.chromium import Visit
from tests.report.places import TOWNS, enormous, rare, visits
from tests.report.samples import EVIL, adaptive, cube, seeded, survey

pytestmark = pytest.mark.browser


@pytest.fixture
def visit(browser, tmp_path):
    pages = Visit(browser, tmp_path / "report.html", write)
    yield pages
    pages.close()


def opened(page, file):
    """Follow a link to a table."""
    page.evaluate("place => { document.activeElement.blur(); location.hash = place; }", f"#table/{file}")
    return arrived(page)


def arrived(page):
    """The page when the table that was asked for has taken the place of the one before, and the focus with it."""
    page.locator("#table-title:focus").wait_for()
    return page


def cells(page):
    """The cross table by its row: a list of numbers each."""
    rows = page.locator("table.cross tbody tr").all()
    return {row.locator("th").inner_text(): [number(t) for t in row.locator("td").all_inner_texts()] for row in rows}


def number(text):
    return float(text.split("±")[0].replace(",", "").replace("−", "-"))


def chooser(page, name):
    return page.get_by_role("combobox", name=name, exact=True)


def count(release, question):
    return release.ask(question).value


# --- cross tables -----------------------------------------------------------------------------------------------------


def test_cross_tables_have_totals(visit):
    page = opened(visit(survey()), "2-age_sex")
    shown = cells(page)
    assert list(shown) == ["Total", *map(str, range(20, 32))]
    assert page.locator("table.cross thead tr:last-child th").all_inner_texts() == ["Total", "F", "M"]
    assert shown["Total"] == pytest.approx([count(survey(), q) for q in ("*", "sex = 'F'", "sex = 'M'")], abs=0.51)
    for age in (20, 31):
        expected = [count(survey(), f"age = {age}{more}") for more in ("", " and sex = 'F'", " and sex = 'M'")]
        assert shown[str(age)] == pytest.approx(expected, abs=0.51)


def test_errors_are_shown_on_demand(visit):
    page = opened(visit(survey()), "2-age_sex")
    assert "±" not in page.locator("table.cross").inner_text()
    page.get_by_label("Show ± (95%)").check()
    total = page.locator("table.cross tbody tr").first.locator("td").first.inner_text()
    answer = survey().total()
    assert number(total.split("±")[1]) == pytest.approx(answer.high - answer.value, abs=0.51)
    first = page.locator("table.cross tbody tr").nth(1).locator("td").nth(1).inner_text()
    answer = survey().ask("age = 20 and sex = 'F'")
    assert number(first.split("±")[1]) == pytest.approx(answer.high - answer.value, abs=0.51)


def test_a_third_attribute_stands_above_or_is_chosen(visit):
    page = opened(visit(visits()), "3-place_sex_age")
    head = page.locator("table.cross thead tr").nth(1)
    assert head.inner_text().split("\t") == ["Total", "0 to 17", "18 to 64", "65 or more"]
    assert head.locator("th").first.get_attribute("colspan") == "3"
    expected = count(visits(), "age = '18 to 64' and sex = 'male' and place under 'South'")
    assert cells(page)["South"][2 * 3 + 2] == pytest.approx(expected, abs=0.51)
    chooser(page, "age").select_option(label="65 or more")
    expected = [count(visits(), f"age = '65 or more' and place under 'North'{m}") for m in ("", " and sex = 'female'")]
    assert cells(page)["North"][:2] == pytest.approx(expected, abs=0.51)


def test_rows_and_columns_can_be_exchanged(visit):
    page = opened(visit(survey()), "2-age_sex")
    before = cells(page)
    chooser(page, "Rows").focus()
    chooser(page, "Rows").select_option(label="sex")
    after = cells(page)
    assert list(after) == ["Total", "F", "M"]
    assert after["M"] == [row[2] for row in before.values()]
    assert chooser(page, "Rows").evaluate("e => e === document.activeElement")  # the keyboard stays where it was


# --- levels -----------------------------------------------------------------------------------------------------------


def test_levels_open_from_years_to_days(visit):
    page = opened(visit(visits()), "2-day_sex")
    assert list(cells(page)) == ["Total", "2024", "2025"]
    page.get_by_role("button", name="2024", exact=True).press("Enter")
    assert list(cells(page)) == ["Total", "2024", "2024-01", "2024-02", "2024-03", "2025"]
    opener = page.get_by_role("button", name="2024", exact=True)
    assert opener.get_attribute("aria-expanded") == "true"
    assert opener.evaluate("e => e === document.activeElement")
    page.get_by_role("button", name="2024-02", exact=True).press("Space")
    shown = cells(page)
    assert list(shown)[3:8] == ["2024-02", *(f"2024-02-0{d}" for d in (1, 2, 3, 4))]
    for name in ("2024", "2024-02", "2024-02-03"):
        expected = [count(visits(), f"day under '{name}'{m}") for m in ("", " and sex = 'female'")]
        assert shown[name][:2] == pytest.approx(expected, abs=0.51)
    opener.click()
    assert list(cells(page)) == ["Total", "2024", "2025"]


def test_level_errors_are_those_of_the_release(visit):
    page = opened(visit(visits()), "2-day_place")
    page.get_by_label("Show ± (95%)").check()
    chooser(page, "Level of day").select_option(label="month")
    chooser(page, "Level of place").select_option(label="county")
    frame = visits().table("day", "place", levels={"day": "month", "place": "county"})
    shown = page.locator("table.cross tbody tr").nth(2).locator("td").all_inner_texts()[1:]
    expected = frame[frame["day"] == "2024-02"]
    assert [number(t) for t in shown] == pytest.approx(expected["count"].tolist(), abs=0.51)
    reach = (expected["high"] - expected["count"]).tolist()
    assert [number(t.split("±")[1]) for t in shown] == pytest.approx(reach, abs=0.51)


# --- numbers ----------------------------------------------------------------------------------------------------------


def test_numbers_have_no_false_digits(visit):
    page = opened(visit(rare()), "2-a_b")
    error = float(rare().std_errors("a", "b").min())
    assert 1_000 < error < 10_000
    assert all(x % 100 == 0 for row in cells(page).values() for x in row)
    notes = page.locator(".footnotes").inner_text()
    assert "Numbers below zero come from the noise" in notes
    assert "Grey numbers" in notes
    assert "Rounded to 100" in notes
    assert page.locator("td.faint").count() > 0
    assert "below zero" not in opened(visit(survey()), "2-age_sex").locator(".footnotes").inner_text()


# --- search and links -------------------------------------------------------------------------------------------------


def test_search_finds_names_and_values(visit):
    page = visit(visits())
    entries = page.locator(".entries a bdi")
    assert entries.count() == len(document(visits())["tables"])
    for words, expected in {
        "sex age": ["sex by age", "place by sex and age"],
        "NORLAND": None,
        "place female": ["place by sex", "place by sex and age"],
        "nowhere": [],
    }.items():
        page.get_by_label("Search tables").fill(words)
        shown = entries.all_inner_texts()
        assert all("place" in t for t in shown) if expected is None else shown[: len(expected)] == expected, words
        assert bool(shown) == (words != "nowhere")
        assert page.locator(".finder [role=status]").inner_text().startswith(f"{len(shown)} of ")
    page.get_by_label("Search tables").fill("place sex")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.locator("#table-title", has_text="place by sex").wait_for()
    assert page.evaluate("document.activeElement.id") == "table-title"


def test_every_table_has_a_link(visit):
    page = visit(visits())
    url = page.url.split("#")[0]
    for table in document(visits())["tables"]:
        file = table["file"].removesuffix(".csv")
        opened(page, file)
        link = page.locator(f".entries a[href='#table/{file}']")
        assert link.get_attribute("aria-current") == "true"
        assert page.locator("#table-title").inner_text() == link.locator("bdi").inner_text()
    page.goto(f"{url}#table/2-place_sex")
    page.reload()
    assert page.locator("#table-title").inner_text() == "place by sex"
    assert page.title().startswith("place by sex – ")
    page.locator("#share > summary").click()
    assert page.get_by_role("textbox", name="Link to this table").input_value() == f"{url}#table/2-place_sex"
    page.go_back()


def test_links_into_the_part_for_reviewers_open_it(visit):
    page = visit(survey())
    assert not page.locator("#errors").is_visible()
    page.evaluate("location.hash = '#errors'")
    page.locator("#errors .chart svg").wait_for()


def test_embedding_shows_one_table_only(visit, browser, tmp_path):
    page = visit(visits().published(Publication.of({"title": "Visits", "publisher": "Office"})))
    opened(page, "2-place_sex")
    page.locator("#share > summary").click()
    snippet = page.get_by_role("textbox", name="To embed it in a page").input_value()
    (tmp_path / "host.html").write_text(f"<!doctype html><title>host</title>{snippet}")
    outer = browser.new_page()
    outer.goto((tmp_path / "host.html").as_uri())
    frame = outer.frame_locator("iframe")
    frame.locator("table.cross").wait_for()
    assert frame.locator("#table-title").inner_text() == "place by sex"
    for place in ("header", "#about", ".finder", "#reviewers", "footer"):
        assert frame.locator(place).is_hidden(), place
    assert "Source: Office, Visits." in frame.locator(".source").inner_text()
    outer.close()


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [visits, adaptive, seeded])
def test_all_tables_in_one_archive(visit, make):
    release = make()
    page = visit(release)
    with page.expect_download() as started:
        page.get_by_role("button", name="Download all tables").click()
    with zipfile.ZipFile(started.value.path()) as archive:
        assert archive.testzip() is None
        fields = document(release)
        tables = fields["tables"] + (fields["adaptive"] or {"completed": []})["completed"]
        assert archive.namelist() == ["README.txt", *(t["file"] for t in tables)]
        assert "random noise" in archive.read("README.txt").decode()
        for table in fields["tables"]:
            frame = pd.read_csv(io.BytesIO(archive.read(table["file"])))
            names = [release.domain.names[a] for a in table["attributes"]]
            marks = ["insecure"] if release.insecure else []
            assert list(frame) == [*names, "count", "std_error", "low", "high", *marks]
            assert frame["count"].tolist() == pytest.approx(release.counts(*names).ravel(), rel=1e-3, abs=0.01)


# --- print, screen readers, phones ------------------------------------------------------------------------------------


def test_print_has_the_table_and_not_the_list(visit, tmp_path):
    pypdf = pytest.importorskip("pypdf")
    page = opened(visit(visits()), "2-day_sex")
    page.get_by_role("button", name="2024", exact=True).click()
    page.pdf(path=tmp_path / "page.pdf")
    text = " ".join(p.extract_text() for p in pypdf.PdfReader(tmp_path / "page.pdf").pages)
    words = " ".join(text.split())
    for expected in ("visits", "About these numbers", "day by sex", "2024-03", "female"):
        assert expected in words, expected
    for hidden in ("Search tables", "Download", "Dark mode", "For reviewers"):
        assert hidden not in words, hidden


def test_screen_readers_get_a_table_with_headers(visit):
    page = opened(visit(visits()), "3-place_sex_age")
    tree = page.locator("table.cross").aria_snapshot()
    assert 'table "Number of rows by place, sex and age"' in tree
    assert 'columnheader "65 or more"' in tree
    assert 'rowheader "North"' in tree
    assert 'button "North"' in tree
    scopes = page.locator("table.cross th").evaluate_all("all => all.map((th) => th.scope)")
    assert set(scopes) == {"col", "colgroup", "row"}
    whole = page.locator("body").aria_snapshot()
    for expected in ('navigation "Tables"', 'searchbox "Search tables"', 'heading "place by sex and age" [level=3]'):
        assert expected in whole, expected


def test_hostile_values_stay_text_in_cross_tables(visit):
    page = opened(visit(visits()), "1-place")
    chooser(page, "Level of place").select_option(label="town")
    shown = page.locator("table.cross tbody th").all_inner_texts()
    assert shown == ["Total", *(t[2] for t in TOWNS)]
    assert page.evaluate("window.hacked") is None
    # a name that turns the direction of text keeps to itself
    assert page.locator("table.cross tbody bdi").count() == len(shown)
    page.get_by_label("Search tables").fill(EVIL[:12])
    assert page.locator(".entries a").count() > 0


@pytest.mark.parametrize("make", [visits, cube])
def test_phones(visit, make):
    page = visit(make(), 360, 740, has_touch=True, is_mobile=True)
    for k in range(page.locator(".entries a").count()):
        page.locator(".entries a").nth(k).tap()
        arrived(page)
        page.get_by_label("Show ± (95%)").check()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        box = page.get_by_role("button", name="Download as CSV").bounding_box()
        assert box["height"] >= 36


# --- large releases ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_thousand_tables_and_a_million_cells_paint_in_a_second(visit):
    page = visit(enormous())
    fields = document(enormous())
    assert len(fields["tables"]) == 45 + 990
    assert sum(len(t["counts"]) for t in fields["tables"]) > 950_000
    assert fields["left_out"] == 0
    page.locator("table.cross").wait_for()
    paint = "performance.getEntriesByType('paint').find((e) => e.name === 'first-contentful-paint').startTime"
    assert page.evaluate(paint) < 1_000
    page.get_by_label("Search tables").fill("answer 44.30 question_7")
    assert page.locator(".entries a bdi").first.inner_text() == "question_7 by question_44"
    opened(page, "2-question-7_question-44")
    expected = count(enormous(), "question_7 = 'answer 7.3' and question_44 = 'answer 44.5'")
    assert cells(page)["answer 7.3"][6] == pytest.approx(expected, abs=0.51)
