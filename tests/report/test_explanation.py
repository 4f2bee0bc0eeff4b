"""What methods say of their pathways adds up to what they decide, and folds are summarised as defined."""

import json
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA

from brainroam import make_cohort
from brainroam.data.atlas import Atlas, columns_of_table, load_atlas
from brainroam.data.atlas.anatomy import LOBES, lobes_of
from brainroam.data.cohort import Cohort
from brainroam.errors import UsageError
from brainroam.evaluation.run_records import explanation_to_keep
from brainroam.methods.core import Core
from brainroam.methods.explanation import Explanation, describe_edges, leading_axes
from brainroam.methods.registry import method_info
from brainroam.methods.tuning import TunedMethod
from brainroam.report.brain.figures import drawings, lobes_drawing

SMALL = {"budget": 3, "tau_percentile": 60, "hidden": 4, "updates": 4}


@pytest.fixture(scope="module")
def cohort():
    return make_cohort(n_sites=4, n_per_site=12, n_rois=12, seed=1)


@pytest.fixture(scope="module")
def split(cohort):
    return cohort.select(["S01", "S02", "S03"]), cohort.select(["S04"])


@pytest.fixture(scope="module")
def core(split):
    return Core(**SMALL, epochs=0, soft=False).fit(split[0])


def fold(edges, values, **columns):
    """An explanation of three regions with these edges."""
    regions = {"name": ["Angular_L", "Angular_R", "Thalamus_L"], "mni": None}
    return {
        "kind": "scaffold",
        "measure": "d_com",
        "regions": regions,
        "edges": {"edge": edges, "d_com": values, **columns},
    }


@pytest.mark.parametrize("name", ["ensemble", "log-ridge", "scaffold-ridge", "fc-ridge", "tangent-ridge", "fc-svm"])
def test_contributions_of_linear_methods_add_up_to_their_score(split, name):
    training, people = split
    model = method_info(name).make().fit(training)
    rows = Explanation.of_model(model, people, top=66).people
    total = rows.groupby("subject", sort=False)["contribution"].sum()
    np.testing.assert_allclose(total.to_numpy(), model.score(people), atol=1e-8)


def test_contributions_of_the_linear_reading_of_core_add_up_to_its_score(split, core):
    rows = Explanation.of_model(core, split[1], top=66).people
    total = rows.groupby("subject", sort=False)["contribution"].sum()
    np.testing.assert_allclose(total.to_numpy(), core.score(split[1]), atol=1e-12)


def test_pathways_of_core_carry_the_evidence_of_its_scaffold(split, core):
    table = Explanation.of_model(core, split[1]).pathways.set_index("edge")
    scaffold = core.core_.scaffold_
    assert sorted(table.index) == scaffold.edges.tolist()
    np.testing.assert_array_equal(table.loc[scaffold.edges, "d_com"], scaffold.consensus[scaffold.edges])
    np.testing.assert_array_equal(table.loc[scaffold.edges, "pi"], scaffold.stability[scaffold.edges])
    assert (table["d_com"].abs().diff().dropna() <= 0).all()
    assert "nu" not in table


def test_site_contrasts_are_those_of_the_scaffold(split, core):
    explanation = Explanation.of_model(core, split[1])
    scaffold = core.core_.scaffold_
    for row in explanation.site_contrasts.itertuples():
        assert row.d_site == scaffold.contrast[scaffold.sites.index(row.site), row.edge]
    largest = explanation.sites(2)
    assert largest.groupby("site").size().tolist() == [2, 2, 2]
    assert (largest.groupby("site")["d_site"].apply(lambda d: d.abs().is_monotonic_decreasing)).all()


def test_folds_are_averaged_and_their_agreement_counted():
    folds = [fold([0, 2], [0.4, -0.2], kappa=[1.0, 0.8]), fold([0], [0.2], kappa=[0.8]), fold([1], [0.9], kappa=[0.8])]
    explanation = Explanation(folds, [pd.DataFrame()] * 3)
    table = explanation.pathways.set_index("edge")
    assert table["nu"].to_dict() == {0: 2 / 3, 1: 1 / 3, 2: 1 / 3}
    assert table.loc[0, ["d_com", "kappa"]].tolist() == pytest.approx([0.3, 0.9])
    assert table.index.tolist() == [1, 0, 2]  # by the size of d_com alone
    positive, negative = explanation.signed()
    assert positive["edge"].tolist() == [0]  # less than half of the folds selected the others
    assert not len(negative)
    assert explanation.networks.to_dict("records") == [
        {
            "lobe_1": "parietal",
            "lobe_2": "parietal",
            "pathways": 1,
            "positive": 1,
            "negative": 0,
            "mean_d_com": pytest.approx(0.3),
            "share_of_possible": 1.0,
        }
    ]


@pytest.mark.parametrize(("name", "pathways", "regions"), [("gat", True, False), ("disc", True, True), ("deci", 0, 1)])
def test_deep_methods_show_what_they_attend_to(split, name, pathways, regions):
    training, people = split
    model = method_info(name).make(epochs=1).fit(training)
    explanation = Explanation.of_model(model, people, top=4)
    assert explanation.kind == "masks"
    assert bool(len(explanation.pathways)) == bool(pathways)
    assert bool(len(explanation.regions)) == bool(regions)
    shown = model.explain(people)
    if pathways:
        assert (explanation.people.groupby("subject").size() == 4).all()
        first = explanation.pathways.iloc[0]
        a, b = (people.atlas.labels.index(first[f"region_{k}"]) for k in (1, 2))
        matrix = next(value for value in shown.values() if value.ndim == 3).mean(axis=0)
        assert first[explanation.measure] == pytest.approx((matrix[a, b] + matrix[b, a]) / 2)
    if regions:
        first = explanation.regions.iloc[0]
        assert first["regions"] == pytest.approx(
            shown["regions"].mean(axis=0)[people.atlas.labels.index(first["region"])]
        )


def test_a_method_without_pathways_says_so(split):
    with pytest.raises(UsageError, match="Majority"):
        Explanation.of_model(method_info("majority").make().fit(split[0]), split[1])


def test_every_region_of_the_shipped_atlases_has_a_lobe():
    aal, cc200 = load_atlas("aal"), load_atlas("cc200")
    by_name = dict(zip(aal.labels, lobes_of(aal), strict=True))
    expected = {"Thalamus_L": "subcortical", "Vermis_3": "cerebellum", "Heschl_R": "temporal", "Insula_L": "limbic",
                "Cuneus_R": "occipital", "Precuneus_L": "parietal", "Rectus_R": "frontal"}  # fmt: skip
    assert {name: by_name[name] for name in expected} == expected
    assert set(by_name.values()) == set(LOBES) == set(lobes_of(cc200))
    assert lobes_of(Atlas("mine", aal.labels, aal.coords + 1)) == list(by_name.values())
    assert lobes_of(Atlas("mine", ("a", "b"), np.array([[-11.0, -17, 8], [5, -50, -60]]))) == [
        "subcortical",
        "cerebellum",
    ]
    assert lobes_of(Atlas("mine", ("a", "b"))) is None


@pytest.mark.parametrize("shape", [(20, 50), (50, 6)])
def test_leading_axes_are_those_of_pca(shape):
    rng = np.random.default_rng(0)
    training, people = rng.normal(size=shape), rng.normal(size=(7, shape[1]))
    ours, theirs = leading_axes(training, people, 4), PCA(4, svd_solver="full").fit(training).transform(people)
    np.testing.assert_allclose(np.abs(ours), np.abs(theirs), atol=1e-8)
    np.testing.assert_allclose(leading_axes(training, people[2:3], 4), ours[2:3])


@pytest.mark.parametrize("name", ["core", "ensemble", "tangent-ridge", "gcn", "majority"])
def test_what_a_run_keeps_is_plain_the_same_again_and_depends_on_nobody_beside(split, name):
    training, people = split
    info = method_info(name)
    make = partial(Core, **SMALL) if name == "core" else partial(info.make, **({"epochs": 2} if name == "gcn" else {}))
    kept = [explanation_to_keep(make().fit(training, seed=3), training, people) for _ in range(2)]
    assert json.dumps(kept[0], allow_nan=False) == json.dumps(kept[1], allow_nan=False)
    if name == "majority":
        assert kept[0] is None
        return
    fitted = make().fit(training, seed=3)
    table = people.table.assign(label=1 - people.labels)
    alone = explanation_to_keep(fitted, training, Cohort(people.series, table).subset([5]))
    np.testing.assert_allclose(alone["embedding"][0], kept[0]["embedding"][5], rtol=1e-3, atol=1e-5)
    assert ("edges" in kept[0]) == (name == "core")
    if name == "core":
        assert alone["edges"]["d_com"] == kept[0]["edges"]["d_com"]
    if name in ("core", "ensemble"):
        assert alone["people"]["edge"][0] == kept[0]["people"]["edge"][5]
    if name == "ensemble":  # with all edges listed, a person's parts add up to their score but for the fold's centre
        every = fitted.explanation(people, top=10_000)["people"]["contribution"].sum(axis=1)
        np.testing.assert_allclose(every, fitted.score(people), atol=1e-8)


def test_the_ensemble_needs_no_covariates_of_a_person(split):
    training, people = split
    unknown = people.table.assign(age=np.nan, sex=np.nan, mean_fd=np.nan)
    fitted = TunedMethod(method_info("ensemble"), "default").fit(training)
    bare = Cohort(people.series, unknown)
    assert fitted.missing_covariates(bare).empty
    np.testing.assert_array_equal(fitted.score(bare), fitted.score(people))


def test_schaefer_is_drawn_by_its_networks():
    atlas = load_atlas("schaefer100")
    fold = describe_edges(
        "scaffold", "d_com", atlas, {"edge": np.array([0, 98, 4000]), "d_com": np.array([0.3, -0.2, 0.1])}
    )
    explanation = Explanation([fold], [pd.DataFrame({"subject": [], "site": []})])
    assert explanation.networks["pathways"].sum() == 3
    assert set(explanation.networks["network_1"]) <= set(atlas.networks)
    names = [drawing.name for drawing in drawings(explanation)]
    assert names == ["connectome", "chord", "networks"]
    assert all(drawing.draw() for drawing in drawings(explanation))
    assert lobes_drawing(explanation).draw().axes[0].get_xticklabels()[0].get_text() == "Vis"


def test_regions_of_a_table_are_drawn_where_their_names_say(split):
    names = ["lh_insula_thickness", "rh_insula_thickness", "Left-Thalamus-Proper", "lh_insula_area", "eTIV"]
    rng, people = np.random.default_rng(0), split[0].table
    cohort = Cohort(list(rng.normal(size=(len(people), 1, 5))), people, columns_of_table(names), measure="table")
    explanation = Explanation.of_model(TunedMethod(method_info("fc-ridge"), "fast").fit(cohort).model_, cohort)
    places = explanation.places.set_index("column")
    assert set(places.index) == set(names) - {"eTIV"}
    assert places.loc["rh_insula_thickness", ["x", "measure"]].tolist() == [36.0, "thickness"]
    effect = explanation.pathways.set_index("region_1")["effect"]
    assert places["value"].to_dict() == effect[places.index].to_dict()
    assert {"columns", "regions"} <= {drawing.name for drawing in drawings(explanation)}
