"""Draw the pictures of README and gallery again from a folder of runs: python scripts/gallery.py RUNS [METHOD]

Needs Chromium (CHROMIUM, or /usr/bin/chromium) and playwright. Only aggregated figures are drawn: nothing in them
belongs to one person.
"""

import os
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

import brainroam

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
FIGURES = ("forest", "methods", "calibration", "groups", "chord")
TOP = {"width": 1280, "height": 860}


def main(runs: str, method: str | None = None) -> None:
    """Write docs/images/*.png, each below 300 kB."""
    with tempfile.TemporaryDirectory() as scratch:
        page = brainroam.write_report(runs, Path(scratch) / "report.html", Path(scratch) / "figures", method)
        photograph(page, Path(scratch) / "report.png")
        shrink(Path(scratch) / "report.png", IMAGES / "report.png", TOP["width"])
        for name in FIGURES:
            drawn = Path(scratch) / "figures" / f"{name}.png"
            if drawn.is_file():
                shrink(drawn, IMAGES / f"abide-{name}.png", 1400)


def photograph(page: Path, picture: Path) -> None:
    """The top of a page as a browser shows it."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=["--no-sandbox"]
        )
        tab = browser.new_page(viewport=TOP)
        tab.goto(page.resolve().as_uri())
        tab.wait_for_timeout(1000)
        tab.screenshot(path=picture)
        browser.close()


def shrink(source: Path, target: Path, width: int) -> None:
    """A palette image of at most this width."""
    image = Image.open(source).convert("RGB")
    image.thumbnail((width, 10_000))
    target.parent.mkdir(parents=True, exist_ok=True)
    image.quantize(256, Image.Quantize.MAXCOVERAGE).save(target, optimize=True)  # keeps the colours of thin lines
    print(f"{target}: {target.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main(*sys.argv[1:])
