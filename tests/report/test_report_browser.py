"""The report in a real Chromium: nothing is fetched, nothing is run that should not be, and everything works."""

import csv
import io
import re
import shutil
from collections import namedtuple

import pytest
from pretended import HOSTILE

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: no test in a browser")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine: no test in a browser")
QUIET = ("--no-sandbox --disable-gpu --disable-background-networking --disable-quic --no-first-run "
         "--disable-component-update --disable-sync --use-angle=swiftshader --enable-unsafe-swiftshader")  # fmt: skip
Opened = namedtuple("Opened", "page troubles requests dialogs")


@pytest.fixture(scope="module")
def browser():
    """One browser for the module: starting it is what takes time."""
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET.split())
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser):
    """Open a report as a reader does, and note everything that it should not do."""
    contexts = []

    def open_report(path, width=1280, scheme="light", unfolded=True):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page, troubles, requests, dialogs = context.new_page(), [], [], []
        page.on("console", lambda message: troubles.append(message.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
        page.goto(path.as_uri())
        if unfolded:
            page.evaluate("for (const fold of document.querySelectorAll('details.fold')) fold.open = true")
        return Opened(page, troubles, requests, dialogs)

    yield open_report
    for context in contexts:
        context.close()


def background(page):
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


@pytest.mark.parametrize("width", [1280, 390])
def test_it_is_quiet_fetches_nothing_and_fits(visit, full_report, width):
    page, troubles, requests, dialogs = visit(full_report, width)
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    page.wait_for_timeout(300)
    assert troubles == [] and dialogs == []
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_hostile_names_show_as_text_and_run_nothing(visit, hostile_report):
    page, troubles, _, dialogs = visit(hostile_report)
    shown = page.locator("table[data-name=sites] tbody th").all_inner_texts()
    assert {HOSTILE[0], HOSTILE[1]} <= set(shown)
    forest = page.locator("#figure-forest .wide svg").evaluate("svg => svg.textContent")
    assert HOSTILE[0][:16] in forest and r"$\frac" in forest
    assert page.locator("main img[src=x], main b[onclick]").count() == 0
    assert troubles == [] and dialogs == []


def test_a_row_of_the_forest_names_its_site_and_a_phone_gets_a_narrow_one(visit, full_report):
    page = visit(full_report).page
    forest = "#figure-forest .wide svg"
    site = page.locator("table[data-name=auc-by-site] tbody th").first.inner_text()
    assert page.locator(f"{forest} title").first.text_content().startswith(f"{site}: AUC ")
    row = "e => { const b = e.parentElement.getBoundingClientRect(); const found = document.elementFromPoint("
    row += "b.x + b.width * 0.9, b.y + b.height / 2); return e.parentElement.contains(found); }"
    page.locator(forest).scroll_into_view_if_needed()
    page.wait_for_timeout(300)
    assert page.locator(f"{forest} title").first.evaluate(row)
    phone = visit(full_report, 390).page
    assert phone.locator("#figure-forest .narrow").is_visible() and not phone.locator(forest).is_visible()


def test_tables_sort_up_and_down_by_mouse_and_keyboard(visit, full_report):
    page = visit(full_report).page
    table = page.locator("table[data-name=auc-by-site]")
    heading = table.get_by_role("button", name="AUC", exact=True)

    def column():
        return [float(text) for text in table.locator("tbody tr td:nth-child(5)").all_inner_texts()]

    heading.click()
    assert column() == sorted(column())
    assert table.locator("th[aria-sort]").get_attribute("aria-sort") == "ascending"
    heading.focus()
    page.keyboard.press("Enter")
    assert column() == sorted(column(), reverse=True)
    table.get_by_role("button", name="Site").click()
    names = table.locator("tbody th").all_inner_texts()
    assert names == sorted(names) and table.locator("th[aria-sort]").count() == 1


def test_a_table_downloads_as_csv(visit, hostile_report):
    page = visit(hostile_report).page
    with page.expect_download() as caught:
        page.get_by_role("button", name="Download CSV: The sites").click()
    assert caught.value.suggested_filename == "sites.csv"
    rows = list(csv.reader(io.StringIO(caught.value.path().read_text(encoding="utf-8-sig"))))
    assert rows[0][:3] == ["Site", "People", "With the condition"] and len(rows) == 5
    names = {row[0] for row in rows[1:]}
    assert {HOSTILE[0], HOSTILE[1]} <= names
    assert any(name.startswith("'=1+1") for name in names)  # no formula for a spreadsheet to run
    assert sum(int(row[1]) for row in rows[1:]) == 54


def test_dark_follows_the_system_until_the_button_is_pressed(visit, full_report):
    light, dark = visit(full_report).page, visit(full_report, scheme="dark").page
    before = background(light)
    assert before == "rgb(255, 255, 255)" and background(dark) != before
    light.get_by_role("button", name="Dark").click()
    assert background(light) == background(dark)
    ink = light.locator("#figure-forest .wide svg text").first.evaluate("e => getComputedStyle(e).fill")
    assert ink == light.evaluate("getComputedStyle(document.body).color") != "rgb(28, 33, 40)"
    light.reload()
    assert background(light) == background(dark)
    dark.emulate_media(media="print", color_scheme="dark")
    assert background(dark) == "rgb(255, 255, 255)"


def test_sections_are_folded_until_a_link_title_or_print_opens_them(visit, full_report):
    page = visit(full_report, unfolded=False).page
    assert page.evaluate("document.documentElement.scrollHeight") < 7 * 900
    roc, check = page.locator("#figure-roc"), page.locator("#check > details")
    assert not roc.is_visible()
    page.locator("nav a[href='#sites']").click()
    assert roc.is_visible() and check.get_attribute("open") is None
    check.locator("summary").first.click()
    assert check.get_attribute("open") is not None
    assert page.locator("#answers h2").all_inner_texts() == [
        "Did it work?", "Can I believe it?", "For whom?", "What next?"
    ]  # fmt: skip
    page.get_by_role("button", name="Open all").click()
    assert page.locator("details.fold:not([open])").count() == 0


def test_the_keyboard_reaches_the_report_first(visit, full_report):
    page = visit(full_report).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the report"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"


def test_it_prints_as_a_document(visit, full_report):
    page = visit(full_report).page
    assert page.pdf(format="A4").startswith(b"%PDF-")
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible() and not page.locator("#theme").is_visible()


def test_methods_text_can_be_copied(visit, full_report):
    page = visit(full_report).page
    button = page.locator("[data-copy]")
    button.click()
    sync_api.expect(button).to_have_text(re.compile("^(Copied|Selected: press Ctrl.C)$"))
