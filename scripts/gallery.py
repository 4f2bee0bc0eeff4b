"""Draw the pictures of the gallery again by the code on its page: python scripts/gallery.py

With a folder of runs, python scripts/gallery.py RUNS [METHOD], those of README and of the pages about ABIDE: only
aggregated figures, nothing in which belongs to one person. Needs Chromium (CHROMIUM, or /usr/bin/chromium) and
playwright.
"""

import os
import re
import sys
import tempfile
from contextlib import chdir
from pathlib import Path

import matplotlib.pyplot as plt
from PIL import Image
from playwright.sync_api import sync_playwright

import brainroam

DOCS = Path(__file__).resolve().parents[1] / "docs"
IMAGES = DOCS / "images"
BLOCK = re.compile(r"(?ms)^```python\n(?P<code>.*?)^```$(?:\n+!\[[^\]]*\]\(images/(?P<picture>[\w.-]+)\))?")
FIGURES = ("forest", "methods", "calibration", "groups", "chord")
TOP = {"width": 1280, "height": 860}
PHONE = {"width": 390, "height": 1000}
#: The first screen of a report, by what its picture is called after report.
SCREENS = {"": (TOP, "light"), "-dark": (TOP, "dark"), "-phone": (PHONE, "light"), "-phone-dark": (PHONE, "dark")}


def main(runs: str, method: str | None = None) -> None:
    """Write docs/images/*.png, each below 300 kB."""
    with tempfile.TemporaryDirectory() as scratch:
        page = brainroam.write_report(runs, Path(scratch) / "report.html", Path(scratch) / "figures", method)
        for suffix, (screen, scheme) in SCREENS.items():
            seen = Path(scratch) / f"report{suffix}.png"
            photograph(page, seen, screen, scheme)
            shrink(seen, IMAGES / seen.name, 1280)
        for name in FIGURES:
            drawn = Path(scratch) / "figures" / f"{name}.png"
            if drawn.is_file():
                shrink(drawn, IMAGES / f"abide-{name}.png", 1400)


def draw_the_page() -> None:
    """Run the code of docs/gallery.md; below each block stands the picture of what it drew, or of the page it wrote."""
    names: dict = {"__name__": "gallery"}
    with tempfile.TemporaryDirectory() as scratch, chdir(scratch):
        for block in BLOCK.finditer((DOCS / "gallery.md").read_text(encoding="utf-8")):
            exec(block["code"], names)
            if block["picture"] is None:
                continue
            drawn = Path(block["picture"])
            page = re.search(r'"(\w+\.html)"', block["code"])
            if page:
                photograph(Path(page[1]), drawn)
            else:
                plt.gcf().savefig(drawn, dpi=150, bbox_inches="tight")
            plt.close("all")
            shrink(drawn, IMAGES / drawn.name, 760)


def photograph(page: Path, picture: Path, screen: dict = TOP, scheme: str = "light") -> None:
    """The top of a page as a browser shows it."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=["--no-sandbox"]
        )
        tab = browser.new_page(viewport=screen, color_scheme=scheme, device_scale_factor=2 if screen is PHONE else 1)
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
    main(*sys.argv[1:]) if sys.argv[1:] else draw_the_page()
