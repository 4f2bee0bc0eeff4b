"""What fits could not estimate stands in the report, each cause once."""

import numpy as np
import pandas as pd
import pytest

import brainroam
from brainroam.report.sections.audit import causes_of


@pytest.mark.usefixtures("undrawn")
def test_the_report_says_once_what_fits_could_not_estimate(tmp_path):
    cohort = brainroam.make_cohort(n_sites=4, n_per_site=12, n_rois=8, seed=3)
    site, sex, age = cohort.table["site"], cohort.table["sex"].copy(), cohort.table["age"].copy()
    sex[site == "S02"], age[::9] = 1.0, np.nan
    people = cohort.with_columns(pd.DataFrame({"sex": sex, "age": age}))
    brainroam.evaluate(people, ["scaffold-ridge[tau_percentile=40]", "fc-ridge"], tuning="fast", out=tmp_path)
    page = " ".join(brainroam.write_report(tmp_path, tmp_path / "r.html").read_text("utf-8").split())
    assert page.count("site S02 (12 people) cannot estimate sex") == 1
    assert "(scaffold-ridge[tau_percentile=40]: 3 runs)" in page
    assert "age: missing for 4 to 5 training people" in page


def test_counts_of_several_kinds_keep_their_places():
    runs = [
        ("core", {"notes": [f"site 1 ({n} people) cannot estimate age for {m} edges"]}) for n, m in ((7, 3), (9, 3))
    ]
    assert [row["note"] for row in causes_of(runs)] == ["site 1 (7 to 9 people) cannot estimate age for 3 edges"]
    assert causes_of([("fc-ridge", {})]) == []
