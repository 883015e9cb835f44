"""The page in a real browser: no network, every number in reach of pointer, keyboard and small screens."""

import io
import re

import numpy as np
import pandas as pd
import pytest

from leastnoise.report import write
from leastnoise.report.documents import document
from tests.engines.chromium import Visit
from tests.report.samples import EVIL, RELEASES, WORST_VALUES, adaptive, chosen, cube, seeded, survey, targeted, worst

FOCUSABLE = "a[href], button, select, input, summary, [tabindex='0']"

pytestmark = pytest.mark.browser


@pytest.fixture
def visit(browser, tmp_path):
    visits = Visit(browser, tmp_path / "report.html", write)
    yield visits
    visits.close()


def choose(page, *names):
    """Choose a table by its attributes, and open all that is folded."""
    links = page.locator(".entries a bdi").all_text_contents()
    (number,) = [k for k, text in enumerate(links) if text == captioned(names)]
    page.locator(".entries a").nth(number).click()
    for place in ("#chart", "#cells-list"):
        page.locator(f"{place} > summary").click()
    page.locator("#tables .chart svg").wait_for()
    page.locator("#cells-list tbody td").first.wait_for()  # what is folded is made after it opens


def captioned(names):
    """What a table is called."""
    first, *others = names
    listed = " and ".join(filter(None, [", ".join(others[:-1]), *others[-1:]]))
    return f"{first} by {listed}" if others else first


def review(page):
    """Open the part for reviewers."""
    page.locator("#reviewers > summary").click()
    page.locator("#allocation .chart svg").wait_for()
    return page


def until(page, condition):
    """Wait for a condition; the page's policy forbids the tools' own way, which evaluates text inside the page."""
    for _ in range(200):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(20)
    raise AssertionError(f"waited in vain for {condition}")


def column(page, place, k):
    return [cell.strip() for cell in page.locator(f"{place} tbody td:nth-child({k})").all_text_contents()]


def number(text):
    return float(text.replace(",", "").replace("−", "-"))


@pytest.mark.parametrize("make", RELEASES.values(), ids=RELEASES)
def test_loads_without_network_and_without_complaint(visit, make):
    page = review(visit(make(), offline=True))
    page.locator("#chart > summary").click()
    assert page.locator("h1").inner_text().split() == (make().dataset or "").split()
    rounds = make().origins[0].adaptive is not None
    floors = () if rounds else ("#errors", "#whatif")
    for place in ("#tables", "#allocation", *floors, *(["#rounds"] if rounds else [])):
        page.locator(f"{place} .chart svg").wait_for()
    for place, there in (("rounds", rounds), ("whatif", not rounds)):
        assert page.locator(f"#{place}").count() == there
    assert page.locator("#errors tbody tr").count() == len(make().workload.blocks) + 1


def test_markup_in_names_stays_text(visit):
    page = visit(worst())
    for names in [(EVIL,), (EVIL, "count"), ("a'b\"c<d>&",)]:
        choose(page, *names)
        assert page.locator("#cells-list th").first.inner_text().startswith(names[0])
        assert page.locator("#table-title").inner_text() == captioned(names)
    assert page.evaluate("window.hacked") is None
    assert page.locator("img, b, main script").count() == page.locator(".gauge b").count()
    choose(page, EVIL)
    assert column(page, "#cells-list", 1) == [v.strip() for v in WORST_VALUES]


def test_accuracy_is_that_of_the_release(visit):
    page = review(visit(survey()))
    groups = document(survey())["errors"]["groups"]
    shown = [number(text) for text in column(page, "#errors", 4)]
    assert shown[:-1] == pytest.approx([g["rmse"] for g in groups], rel=0.01)
    assert "above that floor" in page.locator("#errors").inner_text()
    assert "Target" not in page.locator("#errors").inner_text()
    assert "for replaced rows, by symmetry" in review(visit(cube())).locator("#errors").inner_text()
    assert "the plan is on that floor" in review(visit(worst())).locator("#errors").inner_text()


def test_targets_are_shown_as_met(visit):
    assert column(review(visit(targeted())), "#errors", 6)[:2] == ["5.102 (met)", "10.2 (met)"]


@pytest.mark.parametrize("steps", [-33, 40])
def test_slider_moves_errors_as_one_over_mu(visit, steps):
    page = review(visit(survey()))
    fields = document(survey())
    curve, groups = fields["curve"], fields["errors"]["groups"]
    now, then = column(page, "#whatif", 2), column(page, "#whatif", 3)
    assert now == then
    place = page.locator("#whatif .chosen").get_attribute("cx")
    page.locator("#epsilon").focus()
    key = "ArrowRight" if steps > 0 else "ArrowLeft"
    for _ in range(abs(steps)):
        page.keyboard.press(key)
    factor = curve["mu"][curve["own"]] / curve["mu"][curve["own"] + steps]
    then = [number(text) for text in column(page, "#whatif", 3)]
    assert then[:-1] == pytest.approx([g["rmse"] * factor for g in groups], rel=0.006)
    assert number(re.search(r"ε ([\d.,]+)", page.locator("#chosen-epsilon").inner_text())[1]) == pytest.approx(
        curve["epsilon"][curve["own"] + steps], rel=1e-3
    )
    assert (float(page.locator("#whatif .chosen").get_attribute("cx")) > float(place)) == (steps > 0)
    assert page.locator("#epsilon").get_attribute("aria-valuetext") == page.locator("#chosen-epsilon").inner_text()
    page.get_by_role("button", name="Back to this release").click()
    assert column(page, "#whatif", 3) == now


def test_tables_sort_by_click_and_by_keyboard(visit):
    page = visit(survey())
    choose(page, "age", "region")
    page.get_by_role("button", name="Show all 48 rows").click()
    counts = sorted(survey().counts("age", "region").ravel())
    title = page.locator("#cells-list th", has_text="Count")
    title.get_by_role("button").click()
    assert title.get_attribute("aria-sort") == "ascending"
    assert [number(x) for x in column(page, "#cells-list", 3)] == pytest.approx(counts, abs=0.51)
    page.keyboard.press("Enter")
    assert title.get_attribute("aria-sort") == "descending"
    assert [number(x) for x in column(page, "#cells-list", 3)] == pytest.approx(counts[::-1], abs=0.51)
    page.locator("#cells-list th button").first.focus()
    page.keyboard.press("Space")
    assert title.get_attribute("aria-sort") is None
    assert column(page, "#cells-list", 1) == [
        str(age) for age in range(20, 32) for _ in range(4)
    ]  # by order, not by text
    assert page.locator("#cells-list .note").inner_text() == "Sorted by age, ascending."
    page.locator("#cells-list th button").nth(1).click()
    assert column(page, "#cells-list", 2) == [r for r in ("east", "north", "south", "west") for _ in range(12)]


@pytest.mark.parametrize(
    ("make", "names"),
    [(survey, ("age",)), (survey, ("sex", "income")), (worst, (EVIL, "a'b\"c<d>&")), (cube, ("a", "b", "c"))],
)
def test_downloads_are_the_tables(visit, make, names):
    release = make()
    page = visit(release)
    choose(page, *names)
    with page.expect_download() as started:
        page.get_by_role("button", name="Download as CSV").click()
    text = started.value.path().read_text("utf-8")
    expected = release.table(*names)
    frame = pd.read_csv(io.StringIO(text))
    own = pd.read_csv(io.StringIO(expected.to_csv(index=False)))
    assert list(frame) == list(own)
    for name in names:
        assert frame[name].tolist() == own[name].tolist()
    for name in ("count", "std_error", "low", "high"):
        assert np.all(np.abs(frame[name] - own[name]) <= 2e-4 * own["std_error"].min() + 1e-9)
    assert re.fullmatch(r"\d-[A-Za-z0-9_-]+\.csv", started.value.suggested_filename)


def test_intervals_on_hover_and_on_focus(visit):
    page = visit(survey())
    choose(page, "age", "sex")
    frame = survey().table("age", "sex").set_index(["age", "sex"])
    chart = page.locator("#tables .chart")
    tip = chart.locator(".tip")
    assert tip.is_hidden()
    chart.focus()
    assert tip.inner_text().startswith("age 20, sex F\n")
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowRight", "ArrowLeft"):
        page.keyboard.press(key)
    cell = frame.loc[(22, "M")]
    name, _, interval, error = tip.inner_text().split("\n")
    low, high = (number(x) for x in re.findall(r"[−\d.,]+", interval.removeprefix("95% interval: ")))
    assert name == "age 22, sex M"
    assert (low, high) == pytest.approx((cell["low"], cell["high"]), abs=0.51)
    assert number(error.removeprefix("s.e. ")) == pytest.approx(cell["std_error"], rel=1e-3)
    page.keyboard.press("End")
    assert tip.inner_text().startswith("age 31, sex M\n")
    page.keyboard.press("ArrowRight")  # stays at the end
    assert tip.inner_text().startswith("age 31, sex M\n")
    page.keyboard.press("Escape")
    assert tip.is_hidden()
    page.locator("h1").click()
    chart.locator(".cell").nth(13).hover()
    assert tip.inner_text().startswith("age 21, sex M\n")


def test_bars_have_intervals_too(visit):
    page = visit(survey())
    for name, first in (("region", "region north\n"), ("age", "age 20\n")):
        choose(page, name)
        chart = page.locator("#tables .chart")
        assert chart.locator(".whisker").count() == survey().domain[name].size
        chart.focus()
        assert chart.locator(".tip").inner_text().startswith(first)


def test_slices_of_three_attributes(visit):
    page = visit(cube())
    choose(page, "a", "b", "c")
    counts = cube().counts("a", "b", "c")
    page.locator("#chart select").select_option(label="y")
    chart = page.locator("#tables .chart")
    chart.focus()
    page.keyboard.press("ArrowRight")
    words = chart.locator(".tip").inner_text().split("\n")
    assert words[0] == "a 0, b y, c q"
    assert number(words[1].split(" ±")[0]) == pytest.approx(counts[0, 1, 1], abs=0.51)


def test_distributions_have_bands(visit):
    page = visit(survey())
    assert page.locator("#distributions summary").all_inner_texts() == ["age", "income"]
    assert page.locator("#distributions .band").count() == 4
    chart = page.locator("#distributions .chart").nth(1)
    chart.focus()
    page.keyboard.press("End")
    words = chart.locator(".tip").inner_text().split("\n")
    assert words[0] == "age up to 31"
    assert number(words[1].split(" ±")[0]) == pytest.approx(survey().total().value, abs=0.51)


def colours(page, place):
    script = (
        "e => { const s = getComputedStyle(e); return [s.color, getComputedStyle(document.body).backgroundColor]; }"
    )
    result = page.locator(place).first.evaluate(script)
    return [[int(x) / 255 for x in re.findall(r"\d+", colour)[:3]] for colour in result]


def contrast(page, place):
    """The contrast ratio of WCAG 2."""

    def luminance(colour):
        channels = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
        return np.dot(channels, [0.2126, 0.7152, 0.0722])

    high, low = sorted(map(luminance, colours(page, place)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_dark_mode_follows_the_system_and_the_button(visit, scheme):
    page = visit(survey(), color_scheme=scheme)
    button = page.get_by_role("button", name="Dark mode")
    before = colours(page, "body")
    assert button.get_attribute("aria-pressed") == ("true" if scheme == "dark" else "false")
    assert (before[1][0] < 0.5) == (scheme == "dark")
    for _ in range(2):
        for place in ("h1", ".lead", "nav a", ".note", ".footnotes", ".faint, .number"):
            assert contrast(page, place) >= 4.5, place
        button.click()
    assert colours(page, "body") == before
    button.click()
    assert (colours(page, "body")[1][0] < 0.5) == (scheme != "dark")


@pytest.mark.covering
@pytest.mark.parametrize("make", [survey, worst, cube, seeded, adaptive, chosen])
@pytest.mark.parametrize("width", [320, 375, 768])
def test_small_screens_do_not_scroll_sideways(visit, make, width):
    page = visit(make(), 1000, 700, has_touch=True)
    page.set_viewport_size({"width": width, "height": 700})
    review(page)
    for k in range(min(4, page.locator(".entries a").count())):
        page.locator(".entries a").nth(k).click()
        for place in ("#chart", "#cells-list", "#share"):
            page.locator(f"{place} > summary").click()
        page.locator("#tables .chart svg").wait_for()
        page.locator("#tables .chart").focus()
        page.keyboard.press("End")
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("make", [survey, cube, adaptive])
def test_tab_reaches_everything_in_order_and_leaves(visit, make):
    page = review(visit(make()))
    for place in ("#chart", "#cells-list", "#share"):
        page.locator(f"{place} > summary").click()
    page.locator("#tables .chart svg").wait_for()
    page.wait_for_load_state("networkidle")
    page.locator(".skip").focus()
    count = page.evaluate(
        "s => { const all = [...document.querySelectorAll(s)].filter((e) => e.checkVisibility());"
        " all.forEach((e, k) => { e.dataset.stop = k; }); return all.length; }",
        FOCUSABLE,
    )
    reached = [0]
    for _ in range(count - 1):
        page.keyboard.press("Tab")
        focused = (
            "({stop: document.activeElement.dataset.stop, line: getComputedStyle(document.activeElement).outlineStyle})"
        )
        result = page.evaluate(focused)
        reached.append(int(result["stop"]))
        assert result["line"] != "none", f"stop {result['stop']} has no visible focus"
    assert reached == list(range(count))
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.dataset.stop ?? null") in (None, "0")  # out of the page, or around


@pytest.mark.parametrize("make", [survey, adaptive])
def test_everything_has_a_name(visit, make):
    page = review(visit(make()))
    for place in ("#chart", "#share"):
        page.locator(f"{place} > summary").click()
    unnamed = page.evaluate(
        "s => [...document.querySelectorAll(s)]"
        ".filter((e) => !(e.ariaLabel || e.labels?.length || e.textContent.trim())).map((e) => e.outerHTML)",
        FOCUSABLE,
    )
    assert unnamed == []
    assert page.locator(".chart").first.get_attribute("aria-label").endswith("Arrow keys read the values.")


def test_rounds_are_those_of_the_release(visit):
    page = review(visit(adaptive()))
    message = document(adaptive())["adaptive"]
    rounds = page.get_by_role("region", name="Rounds", exact=True)
    cells = [row.split("\t") for row in rounds.locator("tbody").inner_text().split("\n")]
    assert [int(row[0]) for row in cells] == [k + 1 for k in range(len(message["rounds"]))]
    assert [int(row[1]) for row in cells] == [r["compared"] for r in message["rounds"]]
    for row, result in zip(cells, message["rounds"], strict=True):
        assert [number(row[k].removesuffix("%")) for k in (2, 4)] == pytest.approx(
            [100 * result["choosing"], 100 * result["measuring"]], rel=0.01
        )
        assert row[3].startswith(" × ".join(result["named"][0]))
    chart = page.locator("#rounds .chart")
    chart.focus()
    assert chart.locator(".tip").inner_text().startswith("Round 1: ")
    page.keyboard.press("End")
    assert chart.locator(".tip").inner_text().startswith(f"Round {len(message['rounds'])}: ")
    assert contrast(page, ".kind-of") >= 4.5


def test_many_rounds_are_a_row_of_columns(visit):
    page = review(visit(chosen()))
    result = document(chosen())["adaptive"]["rounds"]
    assert len(result) > 12
    assert page.locator("#rounds .bar-mark").count() == len(result)
    page.locator("#rounds .chart").focus()
    assert re.search(r"% comparing, then measuring ", page.locator("#rounds .tip").inner_text())


def test_measured_and_completed_are_told_apart(visit):
    page = review(visit(adaptive()))
    message = document(adaptive())["adaptive"]
    query = page.get_by_role("region", name="Tables asked for")
    assert query.locator("tbody td:nth-child(2)").all_inner_texts() == [
        "measured" if t["measured"] else "completed" for t in message["listed"]
    ]
    shown = [number(text) for text in query.locator("tbody td:nth-child(3)").all_inner_texts()]
    assert shown == pytest.approx([t["expected"] for t in message["listed"]], rel=0.01)
    names = [adaptive().domain.names[a] for a in message["completed"][0]["attributes"]]
    choose(page, *names)
    assert page.locator("#tables .kind-of").inner_text().startswith("Completed: not measured, a biased guess")
    assert page.locator("#cells-list thead th").all_inner_texts()[-1].startswith("Count")
    assert "the interval includes zero" not in page.locator("#tables").inner_text()
    page.locator("#tables .chart").focus()
    assert page.locator("#tables .tip").inner_text().endswith("completed: a biased guess")
    choose(page, "a", EVIL)
    assert page.locator("#tables .kind-of").inner_text() == "Measured: unbiased, with exact errors."
    assert page.evaluate("window.hacked") is None


def test_completed_tables_can_be_downloaded(visit):
    page = visit(adaptive())
    names = [adaptive().domain.names[a] for a in document(adaptive())["adaptive"]["completed"][0]["attributes"]]
    choose(page, *names)
    with page.expect_download() as started:
        page.get_by_role("button", name="Download as CSV").click()
    frame = pd.read_csv(started.value.path())
    assert list(frame) == [*names, "count"]
    assert frame["count"].tolist() == pytest.approx(adaptive().complete().counts(*names).ravel(), abs=0.006)
    assert started.value.suggested_filename.endswith("-completed.csv")


def test_comparing_is_part_of_the_budget(visit):
    page = review(visit(adaptive()))
    assert "comparing tables" in page.locator("#allocation").inner_text()
    assert "comparing tables" not in review(visit(survey())).locator("#allocation").inner_text()


def test_skip_link_leads_to_the_contents(visit):
    page = visit(survey())
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_seeded_noise_has_a_banner(visit):
    page = visit(seeded())
    banner = page.get_by_role("alert")
    assert banner.is_visible()
    assert banner.inner_text().startswith("INSECURE")
    assert contrast(page, ".banner") >= 4.5
    assert visit(survey()).get_by_role("alert").count() == 0


def test_without_script_the_privacy_is_still_told(visit):
    page = visit(survey(), java_script_enabled=False)
    assert "random noise" in page.locator("#about").inner_text()
    page.locator("#reviewers > summary").click()
    assert "Differentially private for adding or removing one row" in page.locator("#privacy").inner_text()
    assert "switched off" in page.locator("noscript").inner_text()


def test_print_leaves_the_controls_out(visit):
    page = visit(survey(), color_scheme="dark")
    page.emulate_media(media="print")
    assert page.locator("header nav").is_hidden()
    assert page.get_by_role("button", name="Download as CSV").is_hidden()
    assert colours(page, "body")[1] == [1, 1, 1]
    assert page.locator("#tables table.cross").is_visible()
