"""Atlases by name, by header, and from a label image; the independent reference is the published table or nilearn."""

from pathlib import Path

import nibabel as nib
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import brainroam
from brainroam.cli import app
from brainroam.data.atlas import label_image, load_atlas
from brainroam.data.atlas.anatomy import parts_of
from brainroam.data.atlas.freesurfer import centres_of, place_of
from brainroam.data.atlas.known import DESIKAN_LOBES, family_of, names, recognise_atlas
from brainroam.data.loading import load_cohort
from brainroam.errors import DataError

PUBLISHED = Path(__file__).resolve().parents[3] / "shared" / "data" / "atlas"


@pytest.mark.parametrize("name", names())
def test_every_known_atlas_has_unique_names_and_centres_inside_the_head(name):
    atlas = load_atlas(name)
    assert len(set(atlas.labels)) == len(atlas.labels) == len(atlas.coords)
    assert (np.abs(atlas.coords) < 120).all() and atlas.citation
    assert atlas.networks is None or len(atlas.networks) == len(atlas)
    assert len(parts_of(atlas).of_region) == len(atlas)


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published tables are not beside the project")
@pytest.mark.parametrize("networks", [7, 17])
def test_schaefer_is_the_published_table(networks):
    for size in (100, 400, 1000):
        table = pd.read_csv(PUBLISHED / f"schaefer{size}_{networks}networks.csv")
        atlas = load_atlas(f"Schaefer2018_{size}Parcels_{networks}Networks")
        assert atlas.labels == tuple(table["name"]) and atlas.networks == tuple(table["network"])
        np.testing.assert_array_equal(atlas.coords, table[["x", "y", "z"]])


def test_a_header_tells_its_atlas_in_any_order_and_spelling():
    schaefer = load_atlas("schaefer200-17")
    order = np.random.default_rng(0).permutation(200)
    found = recognise_atlas([schaefer.labels[k].removeprefix("17Networks_") for k in order])
    assert found.name == "schaefer200-17" and found.labels == tuple(schaefer.labels[k] for k in order)
    np.testing.assert_array_equal(found.coords, schaefer.coords[order])
    assert found.networks == tuple(schaefer.networks[k] for k in order)
    assert recognise_atlas(load_atlas("aal").labels[:90]).labels == load_atlas("aal").labels[:90]
    assert recognise_atlas(schaefer.labels[:100]) is None  # a part of one size may have the names of another
    assert recognise_atlas([f"ROI_{k}" for k in range(100)]) is None


def study(root, labels=None, n_rois=100):
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"participant_id": ["a", "b", "c", "d"], "site": list("AABB"), "diagnosis": [0, 1, 0, 1]})
    people.to_csv(root / "participants.tsv", sep="\t", index=False)
    for name in people["participant_id"]:
        x = pd.DataFrame(rng.normal(size=(30, n_rois)), columns=labels)
        x.to_csv(root / f"{name}.csv", index=False, header=labels is not None)
    return root


def test_headers_give_a_cohort_its_atlas(tmp_path):
    cohort = load_cohort(study(tmp_path, list(load_atlas("schaefer100").labels)))
    assert cohort.atlas == load_atlas("schaefer100") and cohort.atlas.coords is not None


@pytest.mark.parametrize(("asked", "n_rois"), [("schaefer_100", 116), ("power264", 100), ("schaefer200", 100)])
def test_an_atlas_of_another_size_is_refused(tmp_path, asked, n_rois):
    with pytest.raises(DataError, match=f"'{asked.replace('_', '')}' .*{n_rois}"):
        load_cohort(study(tmp_path, n_rois=n_rois), atlas=asked)


def test_an_atlas_other_than_the_headers_say_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"'schaefer100'.*'schaefer100-17'"):
        load_cohort(study(tmp_path, list(load_atlas("schaefer100").labels)), atlas="schaefer100-17")


def image(path, values=(3, 5, 9)):
    data = np.zeros((20, 20, 20), dtype=np.int16)
    for k, value in enumerate(values):
        data[2:5, 2 + 6 * k : 5 + 6 * k, 10:13] = value
    affine = np.diag([2.0, 2, 2, 1])
    affine[:3, 3] = -40
    nib.save(nib.Nifti1Image(data, affine), path)
    return path


def test_a_label_image_becomes_a_table_that_is_an_atlas(tmp_path):
    labels = image(tmp_path / "labels.nii.gz")
    (tmp_path / "names.csv").write_text("index,name,network\n9,Back,N2\n3,Front,N1\n5,Middle,N1\n")
    result = CliRunner().invoke(
        app, ["atlas", str(labels), "--names", str(tmp_path / "names.csv"), "--out", str(tmp_path / "mine.csv")]
    )
    assert result.exit_code == 0, result.output
    atlas = load_atlas(tmp_path / "mine.csv")
    assert (atlas.name, atlas.labels, atlas.networks) == ("mine", ("Front", "Middle", "Back"), ("N1", "N1", "N2"))
    np.testing.assert_allclose(atlas.coords, [[-34, -34, -18], [-34, -22, -18], [-34, -10, -18]], atol=2)


@pytest.mark.parametrize(
    ("names", "said"),
    [("index,name\n3,a\n5,b\n", "no name for the image's value 9"), ("name\na\nb\n", "names 2 regions but .* has 3")],
)
def test_names_that_do_not_fit_the_image_are_refused(tmp_path, names, said):
    (tmp_path / "names.csv").write_text(names)
    typed = ["atlas", str(image(tmp_path / "l.nii.gz")), "--names", str(tmp_path / "names.csv")]
    result = CliRunner().invoke(app, typed)
    assert result.exit_code == 1
    import re

    assert re.search(said, " ".join(result.output.split()))


def test_an_image_of_anything_else_is_refused(tmp_path):
    nib.save(nib.Nifti1Image(np.random.default_rng(0).normal(size=(9, 9, 9)), np.eye(4)), tmp_path / "map.nii.gz")
    result = CliRunner().invoke(app, ["atlas", str(tmp_path / "map.nii.gz")])
    assert result.exit_code == 1 and "it is no label image" in " ".join(result.output.split())


def test_an_image_of_more_voxels_than_any_brain_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    labels = image(tmp_path / "labels.nii.gz")
    monkeypatch.setattr(label_image, "MAX_VOXELS", 19 * 20 * 20)
    monkeypatch.setattr("nibabel.arrayproxy.ArrayProxy.__array__", None)
    monkeypatch.setattr("nibabel.arrayproxy.ArrayProxy.__getitem__", None)
    result = CliRunner().invoke(app, ["atlas", str(labels)])
    assert result.exit_code == 1 and "voxels" in result.output


def test_atlases_are_told_by_the_names_of_their_regions():
    from brainroam.data.atlas.known import DESIKAN_LOBES, GORDON_NETWORKS, recognise_atlas

    gordon = [f"{k + 1}_{'LR'[k > 160]}_{GORDON_NETWORKS[k % 13]}" for k in range(333)]
    deep = [
        f"{name}_{side}" for name in ["ACCUMBENS", "AMYGDALA", "CAUDATE", "CEREBELLUM"] for side in ("LEFT", "RIGHT")
    ]
    assert recognise_atlas(gordon).name == "gordon333"
    whole = recognise_atlas([*gordon, *deep, "BRAIN_STEM"])
    assert (whole.name, whole.networks[1], whole.networks[-1]) == ("gordon333+9", "SMhand", "subcortical")
    assert recognise_atlas(gordon[:300]) is None
    assert recognise_atlas([f"{side}_a{k}_ROI" for side in "LR" for k in range(180)]).name == "glasser360"
    desikan = recognise_atlas([f"{name}_{side}" for name in DESIKAN_LOBES for side in ("left", "right")])
    assert desikan.name == "desikan68" and parts_of(desikan).kind == "lobe"


def test_a_table_is_read_as_gordon_distributes_it(tmp_path):
    rows = [
        {"ParcelID": 1, "Hem": "L", "Centroid (MNI)": "-11.2 -52.4 36.5", "Community": "Default"},
        {"ParcelID": 2, "Hem": "L", "Centroid (MNI)": "-18.8 -48.7 65", "Community": "SMhand"},
    ]
    pd.DataFrame(rows).to_excel(tmp_path / "Parcels.xlsx", index=False)
    atlas = load_atlas(tmp_path / "Parcels.xlsx")
    assert atlas.labels == ("1", "2") and atlas.networks == ("Default", "SMhand")
    assert atlas.coords.tolist() == [[-11.2, -52.4, 36.5], [-18.8, -48.7, 65]]


def test_centres_of_freesurfer_columns_mirror_and_lie_where_their_names_say():
    regions = list(DESIKAN_LOBES)
    left, right = (centres_of([f"{side}_{name}_thickness" for name in regions]) for side in ("lh", "rh"))
    assert np.abs(left * [-1, 1, 1] - right).max() <= 4
    assert (left[:, 0] < 0).all()
    behind = [DESIKAN_LOBES[name] == "occipital" for name in regions]
    assert left[behind, 1].max() < left[np.invert(behind), 1].min() + 5  # occipital regions lie at the back
    assert np.isnan(centres_of(["lh_G_nowhere_thickness", "Left-Cerebellum-Cortex", "eTIV", "CSF"])).all()


def test_columns_of_destrieux_lie_where_those_of_desikan_do():
    """The same gyri under both names, however FreeSurfer's versions write an ampersand."""
    both = {"G_precuneus": "precuneus", "G_oc-temp_med-Lingual": "lingual", "Pole_temporal": "temporalpole"}
    for side in ("lh", "rh"):
        ours, theirs = (centres_of([f"{side}_{name}_thickness" for name in names]) for names in (both, both.values()))
        assert np.sqrt(((ours - theirs) ** 2).sum(axis=1)).max() < 15
    one, other = centres_of(["rh_G&S_cingul-Mid-Ant_area", "rh_G_and_S_cingul-Mid-Ant_area"])
    assert one.tolist() == other.tolist() and one[0] > 0
    assert place_of("lh_S_oc_sup&transversal_volume") == ("left", "s oc sup and transversal", "volume")
    # The longest name counts: S_temporal_sup is no S_temporal, and its measure is not "sup thickness".
    assert place_of("lh_S_temporal_sup_thickness")[1:] == ("s temporal sup", "thickness")


def test_the_destrieux_atlas_has_centres():
    names = pd.read_csv(Path(brainroam.__file__).parent / "data/atlas/destrieux.csv")
    labels = [f"ctx_{side[0]}h_{name}" for side, name in zip(names["side"], names["name"], strict=True)]
    atlas = family_of(labels)
    assert atlas.name == "destrieux148" and atlas.coords.shape == (148, 3) and np.isfinite(atlas.coords).all()


def test_the_desikan_atlas_has_centres():
    labels = [f"ctx-{side}-{name}" for side in ("lh", "rh") for name in DESIKAN_LOBES]
    assert family_of([*labels, "Left-Amygdala", "Right-Amygdala"]).coords.shape == (70, 3)
    assert family_of([*labels, "Left-Cerebellum-Cortex"]).coords is None
