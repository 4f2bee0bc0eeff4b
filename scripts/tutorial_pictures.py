"""Draw the pictures of the tutorials again: python scripts/tutorial_pictures.py [NAME ...]

Everybody in them is made up, by the same code that makes the folders which the pages talk about (tests/docs_world.py).
Needs Chromium and playwright, as scripts/gallery.py does.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from gallery import IMAGES, shrink
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
BLUE, VERMILION, GREY = "#0072b2", "#d55e00", "#8a8f98"


def main(*names: str) -> None:
    """Write docs/images/tutorial-NAME.png, all or those named."""
    from docs_world import make_world

    with tempfile.TemporaryDirectory() as scratch:
        world = make_world(Path(scratch) / "world")
        for name in names or PICTURES:
            made = Path(scratch) / f"{name}.png"
            PICTURES[name](world, made)
            shrink(made, IMAGES / f"tutorial-{name}.png", 1000)


def folder(world: Path, picture: Path) -> None:
    """The first screen of the study of five clinics."""
    photograph(study(world, "clinics"), picture, "header, .notice, #verdict")


def flat(world: Path, picture: Path) -> None:
    """The first screen of the study of one folder."""
    photograph(study(world, "flat"), picture, "header, .notice, #verdict")


def synthetic(world: Path, picture: Path) -> None:
    """The first screen of the demo."""
    say(world, "demo --out demo")
    photograph(world / "demo" / "report.html", picture, "header, .notice, #verdict")


def brain(world: Path, picture: Path) -> None:
    """The pathways of the demo."""
    say(world, "demo --out demo")
    photograph(world / "demo" / "report.html", picture, "#figure-connectome")


def bids(world: Path, picture: Path) -> None:
    """Who was analysed."""
    photograph(study(world, "xcp_d"), picture, "#people")


def consortium(world: Path, picture: Path) -> None:
    """Where it failed: ROC curves and scores."""
    photograph(study(world, "dcan", "--case", "1"), picture, "#sites .pair")


def volumes(world: Path, picture: Path) -> None:
    """Motion, which extract reads from the confounds of fMRIPrep."""
    say(world, "extract my_study --atlas my_study/labels.nii.gz --names my_study/names.csv --out series")
    photograph(study(world, "series"), picture, "#confounding figure")


def cluster(world: Path, picture: Path) -> None:
    """A report of which some runs are missing."""
    options = "--option n_sites=6 --option n_per_site=20 --option n_rois=12 --methods fc-ridge,confounds --tuning fast"
    say(world, f"loso synthetic {options} --out array")
    for run in sorted((world / "array" / "runs").glob("*.json"))[:2]:
        run.unlink()
    say(world, "report array --out array.html --name 'An array of jobs'")
    photograph(world / "array.html", picture, "header, .notice, #verdict")


def own_method(world: Path, picture: Path) -> None:
    """The method of the page beside plain ridge."""
    import brainroam

    page = (ROOT / "docs" / "tutorials" / "own-method.md").read_text(encoding="utf-8")
    defined: dict = {"__name__": "my_package"}
    exec(page.split("```python\n")[1].split("```")[0], defined)
    brainroam.methods.registry.register(defined["INFO"])
    cohort = brainroam.make_cohort(n_sites=8, n_per_site=20, n_rois=12)
    results = brainroam.evaluate(cohort, ["mean-difference", "fc-ridge"], tuning="full")
    page = brainroam.write_report(results, world / "own.html", method="mean-difference", name="My own method")
    photograph(page, picture, "#figure-methods")


def predict(world: Path, picture: Path) -> None:
    """What the model says of the new people."""
    say(world, "init flat --methods fc-ridge --out flat.yaml --force")
    say(world, "fit flat.yaml --method fc-ridge --out model")
    say(world, "predict model new_patients --out predictions.csv")
    people = pd.read_csv(world / "predictions.csv").iloc[::-1]
    figure, axes = plt.subplots(figsize=(6.4, 2.8), layout="constrained")
    axes.barh(
        people["subject"], people["probability"], color=np.where(people["predicted"], VERMILION, BLUE), height=0.6
    )
    axes.axvline(people["prevalence"].iloc[0], color=GREY, linestyle="--")
    axes.set(xlim=(0, 1), xlabel="Probability of the condition; dashed: the share of cases in training")
    save(figure, picture)


def deconfounder(world: Path, picture: Path) -> None:
    """How far edges follow age, before and after, at the training sites and at the new one."""
    from brainroam import SiteDeconfounder, make_cohort
    from brainroam.core.connectivity import pearson_edges

    cohort = make_cohort(n_sites=4, n_per_site=40, n_rois=14, seed=0)
    people, edges = cohort.table, pearson_edges(cohort.series)
    new = (people["site"] == "S04").to_numpy()
    known = people[["age", "sex"]]
    fitted = SiteDeconfounder().fit(edges[~new], covariates=known[~new], site=people["site"][~new])
    figure, panels = plt.subplots(1, 2, figsize=(8, 2.9), layout="constrained", sharey=True)
    after = {"training sites": fitted.residuals_, "new site": fitted.transform(edges[new], covariates=known[new])}
    for axes, (where, clean), here in zip(panels, after.items(), (~new, new), strict=True):
        for values, colour, name in ((edges[here], GREY, "before"), (clean, BLUE, "after")):
            r = with_age(values, people.loc[here, ["age", "site"]])
            axes.hist(r, bins=np.linspace(-0.8, 0.8, 33), histtype="step", linewidth=1.6, color=colour, label=name)
        axes.set(title=where, xlabel="Correlation of an edge with age, within site")
    panels[0].set_ylabel("Edges")
    panels[0].legend(frameon=False)
    save(figure, picture)


def with_age(edges: np.ndarray, people: pd.DataFrame) -> np.ndarray:
    """Correlation of every edge with age, both centred within site."""
    frame = pd.DataFrame(edges).assign(age=people["age"].to_numpy())
    centred = frame - frame.groupby(people["site"].to_numpy()).transform("mean")
    return centred.drop(columns="age").corrwith(centred["age"]).to_numpy()


def study(world: Path, data: str, *options: str) -> Path:
    """The report of a study of this folder."""
    say(world, " ".join(["init", data, *options, f"--methods fc-ridge,confounds --jobs 1 --out {data}.yaml --force"]))
    file = world / f"{data}.yaml"
    text = file.read_text(encoding="utf-8").replace("out: results", f"out: results-{data}")
    file.write_text(text, encoding="utf-8")
    say(world, f"run {data}.yaml")
    return world / f"results-{data}" / "report.html"


def say(world: Path, command: str) -> None:
    """A command of brainroam, as typed in that folder."""
    subprocess.run(
        ["bash", "-c", f"{sys.executable} -m brainroam {command}"], cwd=world, check=True, capture_output=True
    )


def save(figure, picture: Path) -> None:
    """Write a figure on white."""
    figure.savefig(picture, dpi=150)
    plt.close(figure)


def photograph(page: Path, picture: Path, selector: str) -> None:
    """The part of a page that these elements cover."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=["--no-sandbox"]
        )
        tab = browser.new_page(viewport={"width": 1280, "height": 900})
        tab.goto(page.resolve().as_uri())
        tab.evaluate("document.querySelectorAll('details').forEach(folded => { folded.open = true })")
        tab.wait_for_timeout(500)
        boxes = [element.bounding_box() for element in tab.locator(selector).all()]
        left, top = (min(box[key] for box in boxes) for key in "xy")
        right = max(box["x"] + box["width"] for box in boxes)
        bottom = max(box["y"] + box["height"] for box in boxes)
        clip = {"x": left - 8, "y": max(top - 8, 0), "width": right - left + 16, "height": bottom - top + 16}
        tab.screenshot(path=picture, full_page=True, clip=clip)
        browser.close()


PICTURES: dict[str, Callable[[Path, Path], None]] = {
    "folder": folder,
    "flat": flat,
    "synthetic": synthetic,
    "brain": brain,
    "bids": bids,
    "consortium": consortium,
    "volumes": volumes,
    "cluster": cluster,
    "own-method": own_method,
    "predict": predict,
    "deconfounder": deconfounder,
}

if __name__ == "__main__":
    main(*sys.argv[1:])
