"""The 3-D view and the person browser in a real Chromium."""

# F401 and F811: pytest finds fixtures by their names.
import pytest
from test_brain import CORE, brain_runs  # noqa: F401
from test_report_browser import browser, pytestmark, visit  # noqa: F401

import brainroam


@pytest.fixture(scope="module")
def brain_report(brain_runs):  # noqa: F811
    return brainroam.write_report(brain_runs, brain_runs.parent / "brain.html", method=CORE)


def picture(page):
    return page.evaluate("document.getElementById('brain').toDataURL()")


def test_the_brain_is_drawn_turns_and_names_its_regions(visit, brain_report):  # noqa: F811
    page, troubles, requests, dialogs = visit(brain_report)
    canvas, said = page.locator("#brain"), page.locator("#brain-said")
    canvas.scroll_into_view_if_needed()
    page.wait_for_selector("#brain[data-drawn]")
    page.wait_for_timeout(300)
    pixels = "(() => { const c = document.getElementById('brain'); return c.getContext('2d')"
    pixels += ".getImageData(0, 0, c.width, c.height).data.filter((v, k) => k % 4 === 3 && v > 0).length; })()"
    assert page.evaluate(pixels) > 5000
    before = picture(page)
    canvas.focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_timeout(200)
    turned = picture(page)
    assert turned != before
    page.keyboard.press("n")
    assert "MNI" in said.inner_text()
    page.keyboard.press("Escape")
    assert "Drag" in said.inner_text()
    box = canvas.bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(*middle)
    page.mouse.down()
    page.mouse.move(middle[0] + 80, middle[1] + 20, steps=4)
    page.mouse.up()
    page.wait_for_timeout(200)
    assert picture(page) != turned
    named = set()
    for x in range(int(box["width"] * 0.2), int(box["width"] * 0.8), 24):
        for y in range(20, int(box["height"]) - 20, 24):
            page.mouse.move(box["x"] + x, box["y"] + y)
            if "MNI" in (text := said.inner_text()):
                named.add(text)
    assert named
    assert troubles == [] and dialogs == []
    assert all(url.startswith(("file:", "data:")) for url in requests)


def test_a_person_can_be_chosen(visit, brain_report):  # noqa: F811
    page, troubles, _, dialogs = visit(brain_report)
    rows = page.locator("#person-table tbody tr")
    first = rows.all_inner_texts()
    assert first
    page.locator("#person").select_option(index=3)
    assert page.locator("#person-said").inner_text().startswith("<b onclick=alert(3)>")
    assert rows.all_inner_texts() != first
    assert troubles == [] and dialogs == []
