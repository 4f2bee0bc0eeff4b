"""The report of a study that read a table speaks of measures, and draws its regions."""

import re

import numpy as np
import pytest
from tests.methods.test_measures import table_cohort

import brainroam
from brainroam.data.atlas import columns_of_table
from brainroam.data.atlas.known import DESIKAN_LOBES
from brainroam.data.synthetic import make_cohort
from brainroam.data.target_column import with_target

NAMES = [f"{side}_{name}_thickness" for name in list(DESIKAN_LOBES)[:15] for side in ("lh", "rh")]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    made, folder = table_cohort(), tmp_path_factory.mktemp("table")
    cohort = made.made_of(made.series, made.table, atlas=columns_of_table(NAMES, "wide"))
    methods = ["core", "ensemble", "fc-ridge", "confounds"]
    results = brainroam.evaluate(cohort, methods, out=folder / "runs", tuning="fast")
    return brainroam.write_report(results, folder / "report.html").read_text()


def test_nothing_is_said_of_edges(page):
    text = re.sub(r"<(script|style).*?</\1>", " ", page, flags=re.S)
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))
    said = re.findall(r"[^.;]{0,60}\b(?:connectivity|fMRI|time series|scan length|dead regions)\b[^.;]{0,60}", text)
    assert not said
    edges = re.findall(r"[^.;]{0,60}\bedges?\b[^.;]{0,60}", text)
    assert not [words for words in edges if "edge or column" not in words and "larger value" not in words]
    assert "30 columns of" in text
    assert "Which measures?" in text


def test_columns_and_regions_are_drawn(page):
    assert "columns of the table that count most" in page
    assert "of regions whose centre is known" in page
    assert "believed" not in page
    assert np.all([f">{name}<" in page for name in NAMES[:1]])


def test_the_page_of_a_number_is_about_one_protocol(tmp_path):
    """Folds of random people beside left-out sites are another question: they are named, and not in the figures."""
    cohort = with_target(make_cohort(n_sites=3, n_per_site=12, n_rois=8, seed=0), "mean_fd:number")
    out, methods = tmp_path / "runs", ["fc-ridge"]
    brainroam.evaluate(cohort, methods, protocol="loso", out=out, tuning="fast")
    brainroam.evaluate(cohort, methods, protocol="cv", out=out, tuning="fast")
    page = brainroam.write_report(out, tmp_path / "report.html").read_text()
    assert "at 3 sites" in page and "In-distribution folds: new people at known sites" in page


def test_the_page_of_a_number_shows_what_goes_with_it(tmp_path):
    made = table_cohort()
    cohort = with_target(made.made_of(made.series, made.table, atlas=columns_of_table(NAMES, "wide")), "age")
    brainroam.evaluate(cohort, ["core", "fc-ridge"], out=tmp_path / "runs", tuning="fast")
    page = brainroam.write_report(tmp_path / "runs", tmp_path / "r.html", figures=tmp_path / "figures").read_text()
    assert "A pathway is a column that goes with age in the same direction at most training sites" in page
    assert "Larger where age is higher: the ten largest" in page
    scaffold = page[page.index('id="scaffold-title"') : page.index("The columns</h4>")]
    assert "with the condition" not in scaffold
    assert (tmp_path / "figures" / "columns.png").exists()
