"""Crop, exclusions, motion and covariates: each recorded, each about one person alone, in Python and as typed."""

import json

import numpy as np
import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from brainroam import SiteClassifier, load_cohort, make_cohort
from brainroam.cli import app
from brainroam.core.covariates import CovariateEncoder
from brainroam.data.cohort import Cohort
from brainroam.data.prepare import Preparation, with_covariates
from brainroam.data.study_file import Study
from brainroam.errors import DataError, UsageError


def run(*typed):
    return CliRunner().invoke(app, [str(word) for word in typed])


def cohort(lengths=(100, 120, 140, 160), tr=(2.0, 2.0, 1.0, np.nan), mean_fd=(0.1, 0.2, 0.5, np.nan)):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"subject": ["01", "02", "sub-03", "x4"], "site": list("AABB"), "label": [0, 1, 0, 1]})
    table = table.assign(tr=tr, mean_fd=mean_fd, iq=["100", "n/a", "120", "90"], scanner=["1", "2", "", "2"])
    return Cohort([rng.normal(size=(n, 5)) for n in lengths], table)


def test_a_crop_keeps_the_first_volumes_and_leaves_out_who_has_fewer():
    whole = cohort()
    cut = Preparation(crop="120").apply(whole)
    assert cut.table["n_timepoints"].tolist() == [120] * 3
    np.testing.assert_array_equal(cut.series[1], whole.series[2][:120])
    assert cut.excluded.to_numpy().tolist() == [["01", "a scan of 100 volumes, shorter than the crop of 120 volumes"]]
    assert cut.prepared == ("every scan was cut to its first 120 volumes",)


def test_a_crop_in_seconds_goes_by_each_tr():
    cut = Preparation(crop="120s").apply(cohort())
    assert cut.table["n_timepoints"].tolist() == [60, 60, 120]
    assert cut.excluded.to_numpy().tolist() == [["x4", "TR unknown: the scan cannot be cut to 120 seconds"]]


@pytest.mark.parametrize("crop", ["-3", "0", "1.5", "all", "1"])
def test_a_crop_that_is_none_is_refused(crop):
    with pytest.raises(UsageError, match="crop"):
        Preparation(crop=crop).apply(cohort())


def test_a_list_of_people_with_reasons_is_excluded_however_ids_are_written(tmp_path):
    (tmp_path / "out.csv").write_text("participant_id,reason\nsub-01,cyst\n3\n# seen twice\n99,moved house\n")
    with pytest.warns(UserWarning, match="id 99"):
        left = Preparation(exclude=tmp_path / "out.csv").apply(cohort())
    assert left.table["subject"].tolist() == ["02", "x4"]
    assert left.excluded["reason"].tolist() == [
        "on the list of people to exclude: cyst",
        "on the list of people to exclude",
    ]


def test_who_moved_too_much_or_nobody_knows_is_left_out():
    still = Preparation(max_fd=0.2).apply(cohort())
    assert still.table["subject"].tolist() == ["01", "02"]
    assert still.excluded["reason"].tolist() == ["mean FD above 0.2 mm", "mean FD unknown, limit 0.2 mm"]
    with pytest.raises(DataError, match="mean FD"):
        Preparation(max_fd=0.2).apply(cohort(mean_fd=(np.nan,) * 4))


def test_covariates_are_numbers_where_all_are_and_categories_where_told():
    used = with_covariates(cohort(), {"iq": "", "scanner": "category"})
    assert used.covariate_names == ("iq", "scanner")
    assert used.table["iq"].tolist()[0] == 100.0 and np.isnan(used.table["iq"][1])
    assert used.table["scanner"].tolist()[:2] == ["1", "2"] and pd.isna(used.table["scanner"][2])
    with pytest.raises(UsageError, match=r"'igq'.*'iq'"):
        with_covariates(cohort(), ["igq"])
    with pytest.raises(UsageError, match="'site'"):
        with_covariates(cohort(), ["site"])
    assert used.subset([0, 1]).covariate_names == used.covariate_names


def test_what_was_prepared_is_kept_by_files(tmp_path):
    cut = Preparation(crop=100, covariates=["age", "mean_fd"]).apply(make_cohort(n_sites=2, n_per_site=6, n_rois=8))
    again = load_cohort(cut.save(tmp_path / "c.npz"))
    assert again.prepared == cut.prepared and again.covariate_names == ("age", "mean_fd")
    store = run("convert", tmp_path / "c.npz", "--out", tmp_path / "c.zarr")
    assert store.exit_code == 0, store.output
    assert load_cohort(tmp_path / "c.zarr").prepared == cut.prepared


def test_as_typed_and_as_written_are_the_same(tmp_path):
    data = make_cohort(n_sites=3, n_per_site=10, n_rois=8, seed=2)
    data.save(tmp_path / "c.npz")
    (tmp_path / "out.txt").write_text("S01_0001\n")
    limit = float(data.table["mean_fd"].quantile(0.9))
    written = {"data": "c.npz", "crop": "100", "exclude": "out.txt", "max_fd": limit, "covariates": ["age"]}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(written))
    typed = ["--crop", "100", "--exclude", tmp_path / "out.txt", "--max-fd", limit, "--covariates", "age", "--json"]
    one, other = run("check", tmp_path / "c.npz", *typed), run("check", tmp_path / "study.yaml", "--json")
    assert one.exit_code == other.exit_code == 0, one.output + other.output
    assert json.loads(one.output) == json.loads(other.output)
    found = json.loads(one.output)
    assert found["covariates"] == {"age": {"kind": "number", "known": found["n_people"]}}
    reasons = [row["reason"] for row in found["excluded"]]
    assert len(reasons) == 4 and "on the list of people to exclude" in reasons
    assert found["prepared"] == ["every scan was cut to its first 100 volumes"]
    assert {site["volumes_max"] for site in found["sites"]} == {100}
    asked = {"crop": 100, "exclude": ["S01_0001"], "max_fd": limit, "covariates": ["age"]}
    for called in (load_cohort(tmp_path / "c.npz", **asked), load_cohort(tmp_path / "study.yaml")):
        assert called.excluded["reason"].tolist() == reasons and called.covariate_names == ("age",)
        assert called.prepared == tuple(found["prepared"])
    assert set(load_cohort(tmp_path / "study.yaml", crop="80").table["n_timepoints"]) == {80}
    with pytest.raises(UsageError, match="--crop"):
        Study(data=str(tmp_path / "c.npz"), options={"crop": 80}).load()


def test_what_is_typed_goes_before_the_study_file(tmp_path):
    make_cohort(n_sites=2, n_per_site=8, n_rois=8).save(tmp_path / "c.npz")
    (tmp_path / "study.yaml").write_text("data: c.npz\ncovariates: {age: number, mean_fd: number}\n")
    shown = json.loads(run("check", tmp_path / "study.yaml", "--covariates", "none", "--json").output)
    assert shown["covariates"] == {}


def test_a_store_that_is_read_piece_by_piece_says_when_to_decide(tmp_path):
    make_cohort(n_sites=2, n_per_site=8, n_rois=8).save(tmp_path / "c.npz")
    run("convert", tmp_path / "c.npz", "--out", tmp_path / "c.zarr")
    result = run("fit", tmp_path / "c.zarr", "--memory", "1GB", "--crop", "50", "--out", tmp_path / "model")
    assert result.exit_code == 2 and "--crop: decide this when the store is made" in " ".join(result.output.split())


def test_codes_said_to_be_a_category_are_levels_to_every_method_also_from_files(tmp_path):
    data = make_cohort(n_sites=2, n_per_site=12, n_rois=8)
    coded = data.with_columns(pd.DataFrame({"scanner": np.resize([1.0, 2.0, 3.0], 24)}))
    used = with_covariates(coded, {"scanner": "category"})
    again = load_cohort(used.save(tmp_path / "c.npz"))
    run("convert", tmp_path / "c.npz", "--out", tmp_path / "c.zarr")
    for cohort_ in (used, again, load_cohort(tmp_path / "c.zarr")):
        assert CovariateEncoder().fit(cohort_.covariates()).names_ == ["scanner=2", "scanner=3"]
    encoder = CovariateEncoder().fit(used.covariates())
    assert not encoder.missing(coded.table).to_numpy().any()  # people to be predicted, whose codes came as numbers


def test_an_id_to_exclude_is_the_one_as_written_before_any_with_zeros():
    both = Cohort(cohort().series, cohort().table.assign(subject=["12", "0012", "sub-03", "003"]))
    assert Preparation(exclude=["12"]).apply(both).table["subject"].tolist() == ["0012", "sub-03", "003"]
    with pytest.raises(UsageError, match="003"):
        Preparation(exclude=["3"]).apply(both)


@pytest.mark.parametrize("kind", ["", "category"])
def test_none_is_a_level_of_a_category_and_unknown_among_numbers(kind):
    taken = cohort().with_columns(
        pd.DataFrame({"drug": ["None", "SSRI", "", "n/a"], "iq": ["100", "none", "90", "80"]})
    )
    used = with_covariates(taken, {"drug": kind, "iq": ""}).table
    assert used["drug"].tolist()[:2] == ["None", "SSRI"] and used["drug"].isna().tolist() == [False, False, True, True]
    assert used["iq"].isna().tolist() == [False, True, False, False]


def test_a_covariate_that_is_the_site_is_told_in_python_and_for_files():
    """Sites coded as numbers under another name; one that varies within a site is left alone."""
    made = make_cohort(n_sites=3, n_per_site=12, n_rois=8)
    codes = made.table["site"].str[1:].astype(float)
    coded = made.with_columns(pd.DataFrame({"centre": codes, "tesla": (codes > 1) * 1.5, "wave": codes}))
    moved = coded.with_columns(pd.DataFrame({"wave": codes.where(codes.index > 0, 7)}))
    with pytest.warns(UserWarning) as told:
        with_covariates(moved, ["age", "sex", "centre", "tesla", "wave"])
    about = [str(warning.message) for warning in told]
    assert [name for name in ("age", "sex", "centre", "tesla", "wave") if f"'{name}'" in " ".join(about)] == [
        "centre",
        "tesla",
    ]
    assert "it is the site" in about[0] and "it is the site" not in about[1]
    people = coded.table
    with pytest.warns(UserWarning, match="'centre'"):
        SiteClassifier("fc-ridge", "fast").fit(
            coded.series, people["label"], site=people["site"], covariates=people[["age", "centre"]]
        )
