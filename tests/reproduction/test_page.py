"""The page of the paper: what it says beside the published numbers, and of variants whose network was not trained."""

import json

import numpy as np
import pandas as pd
import pytest
from pretended import pretend
from reproduction.datasets import DATASETS
from reproduction.page import paper_page
from reproduction.page.content import Listing
from reproduction.page.published import difference, published, wide
from reproduction.page.variants import NOT_BELIEVED, _network
from reproduction.parts import PARTS, SYSTEMS, Paper
from reproduction.study import run_paper

import brainroam
from brainroam.report.tables import Column
from brainroam.utils.files import write_checksummed


def test_published_numbers_add_up():
    for dataset in DATASETS:
        for table in (1, 7):
            rows = wide(table, dataset.name)
            assert list(rows.index) == list(SYSTEMS) and rows.notna().all(axis=None)
    for table, name in ((3, "abide"), (4, "rest-meta-mdd"), (5, "srpbs"), (6, "abcd")):
        sites, whole = wide(table, name), wide(2, name).loc["all"]
        assert len(sites) == 10
        for key in ("n", "n_cases", "n_male"):
            assert sites[key].sum() == whole[key]
        assert set(sites.index) == set(next(d for d in DATASETS if d.name == name).sites)
    assert len(wide(8, "abide")) == 10 and published(1, None).empty


def test_baselines_of_the_paper_have_the_same_numbers_at_unseen_sites_and_in_distribution():
    """What the page says about the paper's tables is so."""
    for name in ("abide", "abide-cc200", "abcd"):
        one, seven = wide(1, name), wide(7, name)
        pd.testing.assert_frame_equal(one.drop("CORE"), seven.drop("CORE"))
        assert not one.loc["CORE"].equals(seven.loc["CORE"])


def test_the_interval_of_a_difference_holds_both_uncertainties():
    gap, low, high = difference(70, 60, 80, 65, 0, 10)
    assert (gap, low, high) == (5, -5, 15)  # a published number without error
    wider = difference(70, 60, 80, 65, 10, 10)
    assert wider[1] < low and wider[2] > high


def test_what_became_of_a_network_is_said_in_words():
    alone = {"network": 1.0, "epochs": 10}
    assert _network([]) == "not recorded" and _network([{"network": 0.0}] * 3) == NOT_BELIEVED
    assert _network([alone, alone]) == "alone; 10 epochs"
    assert _network([alone, alone | {"epochs": 2}]) == "alone; 2 to 10 epochs"
    weighed = [{"network": share, "gain": gain, "gain_error": 0.01} for share, gain in ((0.4, 0.0), (1.0, 0.05))]
    told = _network(weighed)
    assert "by 0.70 (0.40 to 1.00 in 2 folds)" in told and "+2.5 points" in told and "epochs" not in told


def test_parts_ask_for_configurations_that_exist():
    from brainroam.methods.registry import method_info, parse_name

    paper = Paper(gate_budget=150)
    names = {name for part in PARTS for job in paper.jobs(part) for name in job.methods}
    assert len(names) > 60
    for name in names:
        method, settings = parse_name(name)
        method_info(method).require(settings)
    assert paper.core == "core[budget=150]" and paper.network == "core-network[budget=150,epochs=10]"
    assert paper.complete == "core-paper[budget=150,epochs=10]" and "sign=both" in paper.letter


def test_a_table_in_markdown_keeps_its_columns():
    rows = pd.DataFrame({"a": ["x|y"], "b": [np.nan]})
    text = Listing(rows, [Column("a", "A"), Column("b", "B")], "n", "C").markdown()
    assert text.splitlines()[-1] == "| x\\|y | \N{EN DASH} |"


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """A study whose scores are drawn: systems, ablation, sweep and deviations, as of ABIDE."""
    out = tmp_path_factory.mktemp("paper")
    cohort = brainroam.make_cohort(n_sites=6, n_per_site=16, n_rois=8, seed=2)
    run_paper(cohort, out, ["dataset"])
    facts = json.loads((out / "paper.json").read_text()) | {"dataset": "abide"}
    write_checksummed(out / "paper.json", {k: v for k, v in facts.items() if k not in ("schema", "checksum")})
    paper = Paper()
    systems = ["gcn", "brainood", "ensemble", *paper.readings.values()]
    variants = [*paper.ablation().values(), *paper.deviations().values(), *paper.sweep("budget").values()]
    pretend(out / "runs", cohort, list(dict.fromkeys([*systems, *variants])), shift=4.0)
    pretend(out / "runs", cohort, ["core", "gcn"], protocol="cv", n_splits=3)
    return paper_page(out)


def test_ours_stand_beside_published_numbers_and_disagreement_is_explained(drawn):
    page = drawn[1].read_text()
    table = page[page.index("### Table 1") : page.index("### Figure 3")]
    row = next(line for line in table.splitlines() if line.startswith("| GCN |")).split(" | ")
    assert row[2] == "62.1 ± 10.3" and float(row[3].split(" ± ")[0]) > 90 and row[5].startswith("+")
    assert "gcn: " in table and "above the published number; here epochs and threshold" in table
    assert "core reads log edges" in table and "Not run yet: gat" in table
    assert "same numbers for all fifteen baselines" in page


def test_variants_are_compared_with_the_complete_network_site_by_site(drawn):
    page = drawn[1].read_text()
    assert page.count("| w/o PG |") == 1 and "core, where held-out sites decide: not run yet" in page
    assert "| both signs, as they are |" in page and " of 6 |" in page
    assert "the largest mean AUC is at K =" in page
    assert (drawn[1].parent / "paper-figures" / "ablation-network.png").stat().st_size > 1000


def test_the_page_needs_nothing_but_itself(drawn):
    html = drawn[0].read_text()
    assert "src=" not in html.replace("img-src", "").replace("script-src", "").replace("style-src", "")
    assert "<h1>The paper on ABIDE</h1>" in html and 'id="table-7"' in html
